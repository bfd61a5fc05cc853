//! The Vulkan backend: any GPU with a driver for Vulkan 1.2 or later that supports 64-bit addresses in kernels, and CPUs that act
//! as one (lavapipe). The loader is opened at run time.
//!
//! A missing capability is a typed reason with a hint ([`Unavailable`]). A device that fails or hangs is a
//! [`plimsoll_core::Fault`], and nothing waits for that device again. Functions may return the driver's faults in addition to those
//! in their `# Errors` section.
//!
//! The loader loads drivers into this process, and a driver that crashes takes the process with it. A program that must survive
//! that should call [`devices`] in a separate process first.
//!
//! One queue does all work in order, each launch after the one before has ended. A stream collects work and submits it to the
//! device on a wait or an explicit submit. Long launches aren't split: if a desktop driver kills a kernel after some seconds, the
//! result is [`plimsoll_core::Fault::DeviceLost`].
#![deny(unsafe_code)]

#[cfg(test)]
mod access;
#[allow(unsafe_code)]
mod adapter;
mod caches;
#[allow(unsafe_code)]
mod core;
mod device;
#[allow(unsafe_code)]
mod event;
#[allow(unsafe_code)]
mod function;
#[allow(unsafe_code)]
mod gpu;
#[allow(unsafe_code)]
mod graph;
mod info;
#[allow(unsafe_code)]
mod instance;
mod launch;
mod loss;
#[allow(unsafe_code)]
mod memory;
#[cfg(test)]
mod mutants;
mod spin;
mod spirv;
#[allow(unsafe_code)]
mod stream;
#[allow(unsafe_code)]
mod transfer;

pub use adapter::{Adapter, Kind};
pub use device::{Options, Probes, Vulkan, VulkanClock, VulkanDevice, devices, first, open};
pub use event::Event;
pub use function::Function;
pub use graph::Graph;
pub use launch::Launch;
pub use memory::Buffer;
pub use plimsoll_gpu::Unavailable;
pub use spin::Spinner;
pub use stream::Stream;
