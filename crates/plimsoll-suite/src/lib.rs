//! Content: what each probe is, what its series show, known machines, profiles and verdicts.
#![forbid(unsafe_code)]

pub mod bench;
pub mod machines;
pub mod model;
pub mod operations;
pub mod probes;
pub mod profile;
pub mod references;
pub mod slip;
pub mod standing;
pub mod verdict;
