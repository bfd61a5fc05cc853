//! Expressions on CUDA devices, with what only they have: streams, recordings, batches and choices of plans. [`Gpu::compile`]
//! makes a [`Kernel`] that takes this module's [`Buffer`]s; [`super::Device::as_gpu`], [`super::Kernel::as_gpu`] and
//! [`super::Buffer::as_gpu`] lead here from the types of every device.
//!
//! ```no_run
//! use plimsoll::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let gpu = Cuda::device(0)?;
//! let scale = gpu.compile(&trace(|a: Scalar<f32>, x: InOut<f32>| x.set(a * x.get()))?)?.dependent(true);
//! let mut x = gpu.upload(&[1.0_f32; 4096])?;
//! let twice = gpu.record(|| {
//!     scale.run(0.5, &mut x, ())?;
//!     scale.run(0.25, &mut x, ())
//! })?;
//! twice.launch()?; // one launch of both
//! gpu.wait()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - **Order.** A [`Buffer`] belongs to the stream of the [`Gpu`] that made it, and all its uses happen in the order of that
//!   stream. If it is used on another stream ([`Gpu::fork`], [`Kernel::on_stream`]), the two streams wait for each other on the device.
//!   Dropping a buffer frees it in the same order. [`Gpu::upload`], [`Gpu::download`] and [`Gpu::wait`] block the host;
//!   [`Kernel::run`] doesn't.
//! - **Memory.** An output is either exactly an input, in place ([`plimsoll_expr::InOut`]), or overlaps no other tensor.
//! - **Errors** are values of [`Error`] with the tensor's name, sizes, types and addresses. After a device error every later call
//!   reports that the device is lost.
//! - **Recording** ([`Gpu::record`]) combines many calls into one launch and keeps their memory alive.
//!
//! Expressions known only at run time use [`Engine::expression`] and [`Expression::bind`]; [`Expression::batch`] runs many sets of
//! tensors in one launch. With the feature `cudarc`, the memory and streams of that crate (and so of candle and burn) are used
//! directly: `Gpu::on_cudarc`, and cudarc slices as arguments.

#[cfg(feature = "cudarc")]
pub use plimsoll_cuda::elementwise::cudarc;
pub use plimsoll_cuda::elementwise::{
    Argument, Batch, BatchOptions, BatchSet, BoundExpression, Buffer, Engine, Error, Expression, Gpu, Kernel, Operand,
    Outputs, Recorded, Returned, Store, Tuned, Tuner, View, ViewMut,
};
pub use plimsoll_cuda::memory::Plain;
pub use plimsoll_cuda::{CudaDevice, Options, driver, memory};
pub use plimsoll_gen::elementwise::{
    Choose, Dependent, Form, GridPolicy, KernelSpec, Plan, PlanError, Reason, Table, Tier,
};
pub use plimsoll_gen::kernel::{Hints, Index};

/// Opens `cuda:index` with its kernel cache in the folder `cache`, or the user's cache folder if `None`.
///
/// # Errors
/// As for [`plimsoll_cuda::Cuda::device`].
pub fn open(index: u32, cache: Option<std::path::PathBuf>) -> Result<Gpu, Error> {
    let driver = driver::Driver::system().map_err(plimsoll_core::Fault::from)?;
    Gpu::open(&driver, index, &Options { cache, ..Options::default() })
}
