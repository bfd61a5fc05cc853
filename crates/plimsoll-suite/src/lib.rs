//! Knowledge: machines, references, profiles, the model, standings and verdicts; and what each probe is, and what its series show,
//! that has no folder in `plimsoll-probes` yet.
#![forbid(unsafe_code)]

pub mod bench;
pub mod findings;
pub mod formats;
pub mod kernels;
pub mod machines;
pub mod model;
pub mod operations;
pub mod probes;
pub mod profile;
pub mod references;
pub mod slip;
pub mod standing;
pub mod verdict;
