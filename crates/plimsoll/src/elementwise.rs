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

#[cfg(feature = "cudarc")]
pub use plimsoll_cuda::elementwise::cudarc;
pub use plimsoll_cuda::elementwise::{
    Argument, Bound, Buffer, Engine, Error, Expression, Gpu, Kernel, Operand, Outputs, Recorded, View, ViewMut,
};
pub use plimsoll_cuda::memory::Plain;
pub use plimsoll_gen::elementwise::{Choose, Dependent, Plan, Tier};

pub mod cpu {
    //! Expressions on the CPU, in slices and vectors: [`Cpu::compile`] makes a [`Kernel`] of what [`plimsoll_expr::trace()`]
    //! returned, and [`Kernel::run`] takes what the closure does.
    //!
    //! ```
    //! use plimsoll::elementwise::cpu::{View, ViewMut};
    //! use plimsoll::prelude::{Cpu, In, InOut, Scalar, trace};
    //!
    //! # fn main() -> Result<(), Box<dyn std::error::Error>> {
    //! let cpu = Cpu::new()?;
    //! // In place, and one tensor returned.
    //! let step = trace(|rate: Scalar<f32>, g: In<f32>, m: InOut<f32>, p: InOut<f32>| {
    //!     let next = 0.5 * m.get() + g;
    //!     m.set(next);
    //!     p.set(p.get() - rate * next);
    //!     next.lt(0.0)
    //! })?;
    //! let step = cpu.compile(&step)?;
    //! let (g, mut m, mut p) = ([1.0, -2.0], [0.0; 2], vec![1.0; 2]);
    //! let mut negative = [false; 2];
    //! step.run(0.5, &g, &mut m, &mut p, &mut negative)?;
    //! assert_eq!((m, p, negative), ([1.0, -2.0], vec![0.5, 2.0], [false, true]));
    //!
    //! // A matrix, plus its transpose, plus a row.
    //! let sum = cpu.compile(&trace(|x: In<i32>, y: In<i32>, b: In<i32>| x + y + b)?)?;
    //! let (x, mut out) = ([1, 2, 3, 4], [0; 4]);
    //! let x = View::shaped(&x, &[2, 2])?;
    //! sum.run(&x, &x.transposed(), &[10, 20], &mut ViewMut::shaped(&mut out, &[2, 2])?)?;
    //! assert_eq!(out, [12, 25, 15, 28]);
    //! # Ok(())
    //! # }
    //! ```
    //!
    //! # What holds
    //!
    //! - **Calls** return when all is written. What a scalar is changes nothing that was prepared, and tensors that lie as those
    //!   of an earlier call find what was prepared for them: such calls allocate nothing.
    //! - **Shapes.** A slice is a row of elements; [`View`] and [`ViewMut`] give it dimensions, strides and an offset. All outputs
    //!   have one shape, to which inputs are broadcast. Zero elements are no work.
    //! - **Threads.** A [`Cpu`] has a thread per core, the caller's among them; its clones and kernels are the same threads. Small
    //!   calls run on the caller's thread alone. Kernels may be called by any threads: those of one kernel take turns, and so do
    //!   all that need all cores. Workers that have nothing to do spin for 50 ms and then sleep.
    //! - **Memory.** Outputs that are larger than the last-level caches are stored past them.
    //! - **Errors** are values of [`Error`] with the tensor's name and sizes, and nothing was written then; nothing panics.

    pub use plimsoll_cpu::elementwise::{Argument, Cpu, Error, Kernel, Outputs, View, ViewMut};
    pub use plimsoll_cpu::memory::Lendable;
}

/// `cuda:index` with a folder of its own for compiled kernels; the user's where `None`.
///
/// # Errors
/// Those of [`plimsoll_cuda::Cuda::device`].
pub fn open(index: u32, cache: Option<std::path::PathBuf>) -> Result<Gpu, Error> {
    let driver = plimsoll_cuda::driver::Driver::system().map_err(plimsoll_core::Fault::from)?;
    Gpu::open(&driver, index, &plimsoll_cuda::Options { cache, ..Default::default() })
}
