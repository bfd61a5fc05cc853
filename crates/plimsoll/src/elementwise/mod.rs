//! Elementwise expressions: a function of elements, written once as a closure or as text, that runs at memory speed.
//!
//! ```no_run
//! use plimsoll::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let axpy = trace(|a: Scalar<f32>, x: In<bf16>, y: In<bf16>| (a * x + y).tanh())?; // once, for every device
//!
//! let gpu = Cuda::device(0)?;
//! let axpy = gpu.compile(&axpy)?;
//! let x = gpu.upload(&[bf16::ONE; 1 << 20])?;
//! let y = gpu.zeros::<bf16>(x.len())?;
//! let mut out = gpu.zeros::<bf16>(x.len())?;
//! axpy.run(0.5, &x, &y, &mut out)?; // asynchronous, in the order of gpu's stream
//! let out = gpu.download(&out)?; // waits for the result
//! let other = axpy.call(0.25, &x, &y)?; // the same in a new buffer
//!
//! // From text, with the names of the parameters in the order of the types.
//! type Axpy = Traced<(Scalar<f32>, In<bf16>, In<bf16>), In<bf16>>;
//! let same = gpu.compile(&Axpy::from_text(&["a", "x", "y"], "tanh(a*x + y)")?)?;
//!
//! // Two tensors updated in place.
//! let step = trace(|rate: Scalar<f32>, g: In<bf16>, m: InOut<f32>, p: InOut<f32>| {
//!     let next = m.get() * 0.9 + 0.1 * g;
//!     m.set(next);
//!     p.set(p.get() - rate * next);
//! })?;
//! let step = gpu.compile(&step)?;
//! let (mut m, mut p) = (gpu.zeros::<f32>(x.len())?, gpu.zeros::<f32>(x.len())?);
//! step.run(1e-3, &x, &mut m, &mut p, ())?;
//! # Ok(())
//! # }
//! ```
//!
//! The same closure on the CPU, in ordinary memory ([`cpu`]):
//!
//! ```
//! use plimsoll::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let axpy = trace(|a: Scalar<f32>, x: In<bf16>, y: In<bf16>| (a * x + y).tanh())?;
//! let axpy = Cpu::new()?.compile(&axpy)?;
//! let (x, y) = (vec![bf16::ONE; 1000], vec![bf16::ZERO; 1000]);
//! let mut out = vec![bf16::ZERO; 1000];
//! axpy.run(0.5, &x, &y, &mut out)?; // on all cores; returns when done
//! assert_eq!(out[999], bf16::from_f32(0.5_f32.tanh()));
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees on GPUs
//!
//! - **Order.** A [`Buffer`] belongs to the stream of the [`Gpu`] that made it, and all its uses happen in the order of that
//!   stream. If it is used on another stream ([`Gpu::fork`], [`Kernel::on_stream`]), the two streams wait for each other on the device.
//!   Dropping a buffer frees it in the same order. [`Gpu::upload`], [`Gpu::download`] and [`Gpu::wait`] block the host;
//!   [`Kernel::run`] doesn't.
//! - **Shapes.** A buffer is a row of elements; [`Buffer::shaped`] and [`Buffer::view`] give it dimensions, strides and an
//!   offset. All outputs have the same shape, to which inputs are broadcast. Calls with zero elements launch nothing.
//! - **Memory.** An output is either exactly an input, in place ([`plimsoll_expr::InOut`]), or overlaps no other tensor.
//! - **Scalars** are weak: they don't promote a tensor. A new value doesn't recompile the kernel.
//! - **Precision.** f16 and bf16 are computed in f32 and rounded once, at the store; `cast` also rounds.
//! - **Errors** are values of [`Error`] with the tensor's name, sizes, types and addresses; nothing panics. After a device
//!   error every later call reports that the device is lost.
//! - **Recording** ([`Gpu::record`]) combines many calls into one launch and keeps their memory alive.
//!
//! Expressions known only at run time, with any number of tensors, use [`Engine::expression`] and [`Expression::bind`].
//! [`Expression::batch`] runs many sets of small tensors in one launch.
//!
//! With the feature `cudarc`, the memory and streams of that crate (and so of candle and burn) are used directly:
//! `Gpu::on_cudarc`, and cudarc slices as arguments.

#[cfg(any(feature = "cpu", feature = "cuda"))]
mod any;
#[cfg(any(feature = "cpu", feature = "cuda"))]
mod arguments;
#[cfg(any(feature = "cpu", feature = "cuda"))]
mod buffer;
#[cfg(any(feature = "cpu", feature = "cuda"))]
mod call;
#[cfg(feature = "cpu")]
pub mod cpu;
#[cfg(any(feature = "cpu", feature = "cuda"))]
mod device;
#[cfg(any(feature = "cpu", feature = "cuda"))]
mod element;
#[cfg(any(feature = "cpu", feature = "cuda"))]
mod error;
#[cfg(any(feature = "cpu", feature = "cuda"))]
mod expression;
#[cfg(feature = "cuda")]
pub mod gpu;
#[cfg(any(feature = "cpu", feature = "cuda"))]
mod kernel;

#[cfg(any(feature = "cpu", feature = "cuda"))]
mod exports {
    pub use super::any::AnyBuffer;
    #[doc(hidden)]
    pub use super::arguments::Misplaced;
    pub use super::arguments::{Argument, Outputs, Returned};
    pub use super::buffer::{Buffer, View, ViewMut};
    pub use super::call::{Call, Key, Setting};
    pub use super::device::Device;
    pub use super::element::Element;
    pub use super::error::Error;
    pub use super::expression::{Expression, ExpressionBuilder, Parameter, ParameterRole};
    pub use super::kernel::Kernel;
}
#[cfg(any(feature = "cpu", feature = "cuda"))]
pub use exports::*;
