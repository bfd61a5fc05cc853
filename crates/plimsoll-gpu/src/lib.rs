//! The vendor-independent half of the GPU backends: the backend trait ([`Gpu`]), launches that are checked against their kernel's
//! description, workloads and in-kernel timing for the sampling engine, and checks of kernels' results. Backends talk to drivers;
//! probes decide what is measured.
//!
//! Every function that returns a [`Fault`](plimsoll_core::Fault) may return the driver's faults in addition to those in its
//! `# Errors` section.
#![deny(unsafe_code)]

mod accept;
mod backend;
pub mod calibrate;
mod capability;
pub mod checker;
pub mod clock;
pub mod elementwise;
pub mod in_kernel;
pub mod kit;
pub mod launch;
pub mod load;
pub mod rules;
mod span;
pub mod steady;
mod trust;
mod unavailable;
pub mod unit;
pub mod verify;
pub mod window;

pub use accept::{Touched, accept};
pub use backend::{Gpu, Meter, Owner};
pub use capability::{Capabilities, ClusterSizes, KernelClock, Limits, Need, Stamps};
pub use launch::{Arguments, Form, Geometry, Kernel, Setup};
pub use span::{Memory, Span};
pub use trust::Trust;
pub use unavailable::{Unavailable, capability};
