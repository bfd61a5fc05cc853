//! The kernels of the lab's experiments, one file per probe; their text is in `kernels/lab/`.

pub mod rtm;
