//! The measuring machinery: units, traffic, statistics, flags, the sampling engine, series, records, and the traits that
//! a backend implements. It has no unsafe code, no FFI and no device. `plimsoll-probes` defines what is measured and what
//! the results mean.
//!
//! A fallible function returns the error of the device, backend, sink or file system that it calls. An `# Errors` section
//! is written only where there is more to say.
#![forbid(unsafe_code)]

pub mod counted;
pub mod device;
pub mod fault;
pub mod file;
pub mod flag;
pub mod headline;
pub mod health;
mod instrument;
pub mod model;
pub mod probe;
pub mod record;
pub mod sample;
pub mod series;
mod session;
pub mod stats;
pub mod text;
pub mod traffic;
pub mod unit;

pub use fault::{Fault, FaultClass};
pub use flag::{Flag, Flags};
pub use traffic::Traffic;
