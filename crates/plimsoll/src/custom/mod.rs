//! Your own CUDA kernels: loads a cubin, checks arguments against its machine code, launches the kernel, times it and explains its
//! time. Making a launch is `unsafe`, because a kernel may access any memory of the device.
//!
//! ```no_run
//! use plimsoll::custom::{self, Geometry, Request};
//! use plimsoll::explain::ExplainOptions;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cubin = custom::read_cubin("scale.cubin".as_ref())?;
//! let arguments = "in:f32:16Mi out:f32:16Mi u32:16Mi f32:0.5".parse()?;
//! let geometry = Geometry::linear(65_536, 256);
//! // SAFETY: nvcc made the cubin; `scale` reads and writes the first n floats of its two arrays and nothing else.
//! let request = unsafe { Request::new(cubin.into(), Some("scale"), arguments, geometry) }?;
//! let mut device = plimsoll::bench::Device::open(&"cuda:0".parse()?, &plimsoll::CudaOptions::default())?;
//! println!("{}", custom::explain(&mut device, &request, &ExplainOptions::default())?.words());
//! # Ok(())
//! # }
//! ```
//!
//! [`Kernel`] launches on memory of your own instead: see the example `10_own_kernel`.

#[cfg(all(feature = "cpu", feature = "probes", feature = "sim"))]
mod explain;

#[cfg(all(feature = "cpu", feature = "probes", feature = "sim"))]
pub use explain::{Inspected, compile, explain, explanations, inspect, time};
pub use plimsoll_cuda::custom::{
    Argument, Arguments, Buffer, Cubin, CubinError, Fill, GRAMMAR, Kernel, Misfit, Occupied, Parameter,
    ParseArgumentError, Request, Role, Signature, Value, explain_fault, memory_needed, read_cubin,
};
pub use plimsoll_cuda::driver::{Context, Stream};
pub use plimsoll_cuda::launch::{Geometry, Launch};
pub use plimsoll_cuda::memory::{DeviceBuffer, Span, Transfer};
pub use plimsoll_cuda::wait::stream as wait;
