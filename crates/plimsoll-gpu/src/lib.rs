//! What every GPU backend needs and no vendor owns: the trait of a backend ([`Gpu`]), launches checked by what a kernel states,
//! workloads and in-kernel timing for the sampling engine, and checks of what kernels leave behind. Drivers are the backends'
//! business; what is measured is the probes'.
//!
//! Methods return the driver's faults beside those that they name.
#![deny(unsafe_code)]

mod accept;
mod backend;
pub mod calibrate;
mod capability;
pub mod checker;
pub mod clock;
pub mod in_kernel;
pub mod kit;
pub mod launch;
pub mod load;
mod span;
pub mod steady;
mod trust;
mod unavailable;
pub mod unit;
pub mod verify;
pub mod window;

pub use accept::{Touched, accept};
pub use backend::{Gpu, Meter};
pub use capability::{Capabilities, ClusterSizes, KernelClock, Limits, Need, Stamps, has};
pub use launch::{Arguments, Form, Geometry, Kernel};
pub use span::{Memory, Span};
pub use trust::Trust;
pub use unavailable::{Unavailable, capability};
