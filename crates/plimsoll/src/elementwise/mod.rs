//! Elementwise expressions: a function of elements, written once as a closure or as text, that runs at the speed of memory.
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
//! let out = gpu.download(&out)?; // waits
//!
//! // In place, with two tensors written.
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
//! The same closure on the CPU, in memory of your own ([`cpu`]):
//!
//! ```
//! use plimsoll::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let axpy = trace(|a: Scalar<f32>, x: In<bf16>, y: In<bf16>| (a * x + y).tanh())?;
//! let axpy = Cpu::new()?.compile(&axpy)?;
//! let (x, y) = (vec![bf16::ONE; 1000], vec![bf16::ZERO; 1000]);
//! let mut out = vec![bf16::ZERO; 1000];
//! axpy.run(0.5, &x, &y, &mut out)?; // on all cores; returns when it is done
//! assert_eq!(out[999], bf16::from_f32(0.5_f32.tanh()));
//! # Ok(())
//! # }
//! ```
//!
//! # What holds on GPUs
//!
//! - **Order.** A [`Buffer`] belongs to the stream of the [`Gpu`] that made it. Whatever is done with it happens in that
//!   stream's order, also on another stream ([`Gpu::fork`], [`Kernel::on`]): that one waits for it, and it for that one, on the
//!   device. Dropping a buffer frees it in that order. [`Gpu::upload`], [`Gpu::download`] and [`Gpu::wait`] make the host wait,
//!   [`Kernel::run`] doesn't.
//! - **Shapes.** A buffer is a row of elements; [`Buffer::shaped`] and [`Buffer::view`] give it dimensions, strides and an
//!   offset. All outputs have one shape, to which inputs are broadcast. Zero elements are no launch.
//! - **Memory.** An output is an input exactly, in place ([`plimsoll_expr::InOut`]), or shares nothing with any other tensor.
//! - **Scalars** are weak: they don't promote a tensor, and another value never compiles again. f16 and bf16 are computed in
//!   f32 and rounded once, at the store; `cast` rounds.
//! - **Errors** are values of [`Error`] with the tensor's name, sizes, types and addresses; nothing panics. After an error of the
//!   device itself every later call says that it is lost.
//! - **Recording** ([`Gpu::record`]) makes one launch of many calls, and keeps the memory that they use.
//!
//! Expressions that are known at run time alone, of any number of tensors, go through [`Engine::expression`] and
//! [`Expression::bind`]; many sets of small tensors are one launch by [`Expression::batch`].
//!
//! With the feature `cudarc`, memory and streams of that crate (and so of candle and burn) are taken as they are:
//! `Gpu::on_cudarc`, and its slices as arguments.

#[cfg(feature = "cpu")]
pub mod cpu;
#[cfg(feature = "cuda")]
mod gpu;

#[cfg(feature = "cuda")]
pub use gpu::*;
