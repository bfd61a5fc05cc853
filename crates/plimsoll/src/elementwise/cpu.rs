//! Expressions on the CPU, on slices and vectors: [`Cpu::compile`] makes a [`Kernel`] from the result of
//! [`plimsoll_expr::trace()`], and [`Kernel::run`] takes the closure's arguments, then its outputs.
//!
//! ```
//! use plimsoll::elementwise::cpu::{View, ViewMut};
//! use plimsoll::prelude::{Cpu, In, InOut, Scalar, trace};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cpu = Cpu::new()?;
//! // Two tensors updated in place, and one returned.
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
//! // A matrix plus its transpose plus a row.
//! let sum = cpu.compile(&trace(|x: In<i32>, y: In<i32>, b: In<i32>| x + y + b)?)?;
//! let (x, mut out) = ([1, 2, 3, 4], [0; 4]);
//! let x = View::shaped(&x, &[2, 2])?;
//! sum.run(&x, &x.transposed(), &[10, 20], &mut ViewMut::shaped(&mut out, &[2, 2])?)?;
//! assert_eq!(out, [12, 25, 15, 28]);
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - **Calls** return when all outputs are written. A call whose tensors have the same layouts as in an earlier call reuses the
//!   prepared state, whatever the scalars, and allocates nothing.
//! - **Shapes.** A slice is a row of elements; [`View`] and [`ViewMut`] give it dimensions, strides and an offset. All outputs
//!   have the same shape, to which inputs are broadcast. Calls with zero elements do nothing.
//! - **Threads.** A [`Cpu`] has one thread per core, including the caller's; its clones and kernels share these threads, which
//!   start in the first large call. Small calls run only on the caller's thread. Any thread may call a kernel, and no call waits
//!   for another: if the threads help another caller, it begins alone. Idle threads spin for 100 µs and then sleep.
//!   [`Cpu::builder`] changes this, and can pin each thread to a core. A forked process starts threads of its own.
//! - **Memory.** Outputs larger than the last-level cache, or in a virtual machine than its cores' part of it, are written with
//!   non-temporal stores. [`Expression::run_foreign`] takes memory that another library owns.
//! - **Errors** are values of [`Error`] with the tensor's name and sizes. After an error nothing has been written. Nothing panics.

pub use plimsoll_cpu::elementwise::{
    Argument, Cpu, CpuBuilder, Error, Expression, Kernel, Operand, Outputs, Returned, View, ViewMut,
};
pub use plimsoll_cpu::memory::Lendable;
