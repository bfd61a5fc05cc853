//! The Vulkan backend: any GPU with a Vulkan driver of version 1.2 or later that takes 64-bit addresses in kernels, and CPUs that act as
//! one (lavapipe). The loader is opened at run time.
//!
//! What a machine or device lacks is a typed reason with the way out ([`Unavailable`]); a device that fails or hangs is a
//! [`plimsoll_core::Fault`], after which nothing waits for it again. Methods return the driver's faults beside those that they name.
//!
//! The loader loads the drivers that it finds into this process, and a driver that crashes takes the process with it: whoever must
//! survive that calls [`devices`] in a process of its own first.
//!
//! One queue does all work in order, each launch after the one before has ended. What a stream is asked is gathered, and given to the
//! device when somebody waits or submits. Long launches aren't split: where a desktop's driver kills kernels after some seconds, its
//! answer is [`plimsoll_core::Fault::DeviceLost`].
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
