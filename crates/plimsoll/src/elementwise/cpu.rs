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
