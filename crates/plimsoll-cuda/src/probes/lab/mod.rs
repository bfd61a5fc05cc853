//! The lab's experiments on a GPU, one file each. What their figures mean, and the advice, is `plimsoll_suite::probes::lab`'s.

mod grid;
mod naive;
pub(super) mod pic;
mod pic_oracle;
pub(super) mod rtm;
mod rtm_model;
mod rtm_oracle;
mod rtm_verify;
pub(super) mod tti;
mod tti_model;
mod tti_oracle;
mod tti_verify;
