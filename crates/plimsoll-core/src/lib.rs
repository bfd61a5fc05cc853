//! Mechanism: units, traffic, statistics, flags, the sampling engine, series, records, and the traits that a backend
//! implements. No unsafe code, no FFI, no device. What is measured, and what it means, is `plimsoll-probes`'.
#![forbid(unsafe_code)]

pub mod counted;
pub mod device;
pub mod fault;
pub mod file;
pub mod flag;
mod instrument;
pub mod model;
pub mod probe;
pub mod record;
pub mod sample;
pub mod series;
mod session;
pub mod stats;
pub mod traffic;
pub mod unit;

pub use fault::{Fault, FaultClass};
pub use flag::{Flag, Flags};
pub use traffic::Traffic;
