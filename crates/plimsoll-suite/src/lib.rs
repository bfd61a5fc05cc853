//! Knowledge: machines, references, profiles, the model, standings and verdicts, and helpers for the findings of several probes.
//! The probes themselves, and the meaning of their series, are in `plimsoll-probes`.
#![forbid(unsafe_code)]

pub mod bench;
pub mod check;
pub mod custom;
pub mod expected;
pub mod findings;
pub mod fleet;
pub mod formats;
pub mod gate;
pub mod headlines;
pub mod kernels;
pub mod machines;
pub mod model;
pub mod operations;
pub mod profile;
pub mod references;
pub mod spelling;
pub mod standing;
pub mod verdict;
