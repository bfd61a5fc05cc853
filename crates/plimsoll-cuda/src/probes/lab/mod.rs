//! The lab's experiments on a GPU, one file each. What their figures mean, and the advice, is `plimsoll_probes::lab`'s.

pub(super) mod async_copy;
pub(super) mod block_order;
pub(super) mod compression;
pub(super) mod fetch_granularity;
pub(super) mod formats;
pub(super) mod gemm;
mod grid;
pub(super) mod l2_reuse;
mod letting_go;
mod naive;
pub(super) mod pic;
mod pic_oracle;
mod products;
pub(super) mod residency;
pub(super) mod rtm;
mod rtm_model;
mod rtm_oracle;
mod rtm_verify;
pub(super) mod sectors;
pub(super) mod tti;
mod tti_model;
mod tti_oracle;
mod tti_verify;
pub(super) mod write_path;
