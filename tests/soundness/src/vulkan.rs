//! Unsound uses of the Vulkan backend that don't compile.
//!
//! A trust token without the promise about kernels that it stands for.
//!
//! ```compile_fail,E0133
//! # use plimsoll_gpu::Trust;
//! fn trust() -> Trust {
//!     Trust::new()
//! }
//! ```
//!
//! ```
//! # use plimsoll_gpu::Trust;
//! unsafe fn trust() -> Trust {
//!     unsafe { Trust::new() }
//! }
//! ```
//!
//! A kernel with another kernel's description.
//!
//! ```compile_fail,E0133
//! # use plimsoll_gen::kernel::KernelDesc;
//! # use plimsoll_gpu::Kernel;
//! # use plimsoll_vulkan::{Function, Vulkan};
//! fn kernel(function: Function, stated: &KernelDesc) -> Kernel<Vulkan> {
//!     Kernel::new(function, stated)
//! }
//! ```
//!
//! ```
//! # use plimsoll_gen::kernel::KernelDesc;
//! # use plimsoll_gpu::Kernel;
//! # use plimsoll_vulkan::{Function, Vulkan};
//! unsafe fn kernel(function: Function, stated: &KernelDesc) -> Kernel<Vulkan> {
//!     unsafe { Kernel::new(function, stated) }
//! }
//! ```
//!
//! A launch whose arguments were not checked against the kernel's parameters.
//!
//! ```compile_fail,E0133
//! # use plimsoll_core::Fault;
//! # use plimsoll_gpu::{Gpu, Setup};
//! # use plimsoll_vulkan::{Function, Launch, Vulkan};
//! fn launch(function: &Function, setup: Setup<'_>) -> Result<Launch, Fault> {
//!     Vulkan::prepare(function, setup)
//! }
//! ```
//!
//! ```
//! # use plimsoll_core::Fault;
//! # use plimsoll_gpu::{Gpu, Setup};
//! # use plimsoll_vulkan::{Function, Launch, Vulkan};
//! unsafe fn launch(function: &Function, setup: Setup<'_>) -> Result<Launch, Fault> {
//!     unsafe { Vulkan::prepare(function, setup) }
//! }
//! ```
//!
//! Passing an address instead of memory.
//!
//! ```compile_fail,E0308
//! # use plimsoll_gpu::{Arguments, Memory};
//! # use plimsoll_vulkan::Buffer;
//! fn arguments(buffer: &Buffer) -> Arguments {
//!     Arguments::new().span(buffer.pointer())
//! }
//! ```
//!
//! ```
//! # use plimsoll_gpu::{Arguments, Memory};
//! # use plimsoll_vulkan::Buffer;
//! fn arguments(buffer: &Buffer) -> Arguments {
//!     Arguments::new().span(buffer.whole())
//! }
//! ```
