//! Knowledge: machines, references, profiles, the model, standings and verdicts, and what the findings of several probes are made
//! with. What one probe is, and what its series show, is `plimsoll-probes`'.
#![forbid(unsafe_code)]

pub mod bench;
pub mod findings;
pub mod formats;
pub mod kernels;
pub mod machines;
pub mod model;
pub mod operations;
pub mod profile;
pub mod references;
pub mod slip;
pub mod standing;
pub mod verdict;
