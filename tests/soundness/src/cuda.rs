//! Unsound uses of the CUDA backend that don't compile.
//!
//! Loading a cubin of unknown origin: the driver trusts its content.
//!
//! ```compile_fail,E0133
//! # use std::sync::Arc;
//! # use plimsoll_cuda::driver::{Context, DriverError, Module};
//! fn load(context: &Arc<Context>, cubin: &[u8]) -> Result<Arc<Module>, DriverError> {
//!     Module::load(context, cubin)
//! }
//! ```
//!
//! ```
//! # use std::sync::Arc;
//! # use plimsoll_cuda::driver::{Context, DriverError, Module};
//! unsafe fn load(context: &Arc<Context>, cubin: &[u8]) -> Result<Arc<Module>, DriverError> {
//!     unsafe { Module::load(context, cubin) }
//! }
//! ```
//!
//! Launching a kernel without a description.
//!
//! ```compile_fail,E0133
//! # use plimsoll_core::Fault;
//! # use plimsoll_cuda::driver::Function;
//! # use plimsoll_cuda::launch::{Arguments, Geometry, Launch};
//! fn launch(function: &Function) -> Result<Launch, Fault> {
//!     Launch::raw(function, Geometry::linear(1, 32), Arguments::new())
//! }
//! ```
//!
//! ```
//! # use plimsoll_core::Fault;
//! # use plimsoll_cuda::driver::Function;
//! # use plimsoll_cuda::launch::{Arguments, Geometry, Launch};
//! unsafe fn launch(function: &Function) -> Result<Launch, Fault> {
//!     unsafe { Launch::raw(function, Geometry::linear(1, 32), Arguments::new()) }
//! }
//! ```
//!
//! Loading and launching a user's kernel, or asking for it to be timed.
//!
//! ```compile_fail,E0133
//! # use plimsoll_core::Fault;
//! # use plimsoll_cuda::custom::{Kernel, Value};
//! # use plimsoll_cuda::launch::{Geometry, Launch};
//! fn launch(kernel: &Kernel, values: &[Value]) -> Result<Launch, Fault> {
//!     kernel.launch(Geometry::linear(1, 32), values)
//! }
//! ```
//!
//! ```
//! # use plimsoll_core::Fault;
//! # use plimsoll_cuda::custom::{Kernel, Value};
//! # use plimsoll_cuda::launch::{Geometry, Launch};
//! unsafe fn launch(kernel: &Kernel, values: &[Value]) -> Result<Launch, Fault> {
//!     unsafe { kernel.launch(Geometry::linear(1, 32), values) }
//! }
//! ```
//!
//! ```compile_fail,E0133
//! # use plimsoll_core::Fault;
//! # use plimsoll_cuda::custom::{Arguments, Cubin, Request};
//! # use plimsoll_cuda::launch::Geometry;
//! fn request(cubin: Cubin) -> Result<Request, Fault> {
//!     Request::new(cubin.into(), None, Arguments::default(), Geometry::linear(1, 32))
//! }
//! ```
//!
//! ```
//! # use plimsoll_core::Fault;
//! # use plimsoll_cuda::custom::{Arguments, Cubin, Request};
//! # use plimsoll_cuda::launch::Geometry;
//! unsafe fn request(cubin: Cubin) -> Result<Request, Fault> {
//!     unsafe { Request::new(cubin.into(), None, Arguments::default(), Geometry::linear(1, 32)) }
//! }
//! ```
//!
//! Passing an address instead of memory.
//!
//! ```compile_fail,E0308
//! # use plimsoll_cuda::launch::Arguments;
//! # use plimsoll_cuda::memory::DeviceBuffer;
//! fn arguments(buffer: &DeviceBuffer) -> Arguments {
//!     Arguments::new().span(buffer.pointer())
//! }
//! ```
//!
//! ```
//! # use plimsoll_cuda::launch::Arguments;
//! # use plimsoll_cuda::memory::DeviceBuffer;
//! fn arguments(buffer: &DeviceBuffer) -> Arguments {
//!     Arguments::new().span(buffer.whole())
//! }
//! ```
//!
//! A compiler that returns machine code of something other than the program.
//!
//! ```compile_fail,E0200
//! # use plimsoll_cuda::Unavailable;
//! # use plimsoll_cuda::compile::{Compiler, Program};
//! struct Anything;
//! impl Compiler for Anything {
//!     fn identity(&self) -> String {
//!         String::new()
//!     }
//!     fn compile(&self, _: &Program<'_>) -> Result<Vec<u8>, Unavailable> {
//!         Ok(vec![0; 64])
//!     }
//! }
//! ```
//!
//! ```
//! # use plimsoll_cuda::Unavailable;
//! # use plimsoll_cuda::compile::{Compiler, Program};
//! struct Anything;
//! unsafe impl Compiler for Anything {
//!     fn identity(&self) -> String {
//!         String::new()
//!     }
//!     fn compile(&self, _: &Program<'_>) -> Result<Vec<u8>, Unavailable> {
//!         Ok(vec![0; 64])
//!     }
//! }
//! ```
//!
//! Two threads launching one graph at once.
//!
//! ```compile_fail,E0277
//! # use plimsoll_cuda::elementwise::Recorded;
//! fn together(graph: &Recorded) {
//!     std::thread::scope(|scope| {
//!         scope.spawn(|| graph.launch());
//!     });
//! }
//! ```
//!
//! ```
//! # use plimsoll_cuda::elementwise::Recorded;
//! fn alone(graph: Recorded) {
//!     std::thread::scope(|scope| {
//!         scope.spawn(move || graph.launch());
//!     });
//! }
//! ```
//!
//! A copy while the host accesses the memory.
//!
//! ```compile_fail,E0499
//! # use std::sync::Arc;
//! # use plimsoll_core::Fault;
//! # use plimsoll_cuda::driver::Stream;
//! # use plimsoll_cuda::memory::{HostBuffer, Span};
//! fn meanwhile(host: &mut HostBuffer, stream: &Arc<Stream>, from: Span) -> Result<u8, Fault> {
//!     let content = host.content()?;
//!     host.copy_from(stream, from)?;
//!     Ok(content[0])
//! }
//! ```
//!
//! ```
//! # use std::sync::Arc;
//! # use plimsoll_core::Fault;
//! # use plimsoll_cuda::driver::Stream;
//! # use plimsoll_cuda::memory::{HostBuffer, Span};
//! fn after(host: &mut HostBuffer, stream: &Arc<Stream>, from: Span) -> Result<u8, Fault> {
//!     host.copy_from(stream, from)?;
//!     let content = host.content()?;
//!     Ok(content[0])
//! }
//! ```
