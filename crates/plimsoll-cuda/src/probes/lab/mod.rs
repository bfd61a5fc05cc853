//! The lab's experiments on a GPU, one file each. What their figures mean, and the advice, is `plimsoll_suite::probes::lab`'s.

mod grid;
pub(super) mod rtm;
mod rtm_model;
mod rtm_oracle;
mod rtm_verify;
