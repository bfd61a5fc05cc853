//! Traced closures on the CPU, on the caller's slices and vectors: the typed interface of [`super::Program`].
//!
//! ```
//! use plimsoll_cpu::elementwise::Cpu;
//! use plimsoll_expr::{In, Scalar, trace};
//!
//! let axpy = trace(|a: Scalar<f32>, x: In<f32>, y: In<f32>| a * x + y)?;
//! let axpy = Cpu::new()?.compile(&axpy)?;
//! let mut out = vec![0.0; 3];
//! axpy.run(0.5, &[2.0, 4.0, 6.0], &[1.0; 3], &mut out)?;
//! assert_eq!(out, [2.0, 3.0, 4.0]);
//! assert_eq!(axpy.call(0.5, &[2.0, 4.0, 6.0], &[1.0; 3])?, out); // allocates its result
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Calls.** [`Kernel::run`] takes one [`Argument`] per parameter and the [`Outputs`], as on a GPU, and returns when all
//! results are written; [`Kernel::call`] allocates and returns them. [`Expression::run`] takes a list of [`Operand`]s instead. The compiler checks types, and borrows ensure that outputs
//! share no memory with other operands. Every call checks shapes, sizes and strides before anything is written. The traits look
//! like the GPU's but are separate: with one trait in `plimsoll-expr` for both, the orphan rule would forbid
//! `impl Argument<Scalar<T>> for T` here.
//!
//! **Plans.** A call whose tensors have the layouts of an earlier call reuses its plan and allocates nothing; scalars don't
//! matter. A kernel keeps the last [`MOST_PLANS`], each with its scratch memory, for each of the threads that call it.
//!
//! **Threads.** Calls up to [`SMALL`] run only on the caller's thread, without a lock that another call would wait for. In larger
//! ones helpers take part (`crate::threads::call_pool`), which all kernels of a [`Cpu`] share. If they help another caller, this one runs
//! alone until they are free. They start in the first call that needs them, also in a forked process.

mod builder;
mod call;
mod expression;
#[allow(unsafe_code)]
mod foreign;
mod kernel;
mod operand;
mod plans;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;

use plimsoll_expr::{Graph, Traced};

use super::error::Error;
use super::plan::{How, StorePolicy};
use crate::threads::CallPool;

pub use builder::CpuBuilder;
#[doc(hidden)]
pub use call::Call;
pub use call::{Argument, Outputs, Returned};
pub use expression::Expression;
pub use kernel::Kernel;
pub use operand::Operand;
pub use view::{View, ViewMut};

/// Most plans that a kernel keeps.
const MOST_PLANS: usize = 16;
/// A call that moves up to this many bytes, with functions converted to bytes, runs on the caller's thread. On two cores of an
/// EPYC (`examples/calls.rs`, `records/cpu/2026-11-22-epyc/calls.txt`), handing a call to spinning workers takes 8 µs, in which a
/// core moves 0.3 MB within its caches; waking parked workers takes 130 µs. In back-to-back calls, two cores were faster from 1.6
/// to 3 MB of `a*x + y` on, and from 0.2 MB of its tanh; after pauses only from tens of megabytes.
const SMALL: u64 = 1 << 20;

/// The processors that expressions run on. Clones share the same threads. One per program is enough, as two would compete for
/// the same cores.
#[derive(Clone, Debug)]
pub struct Cpu {
    shared: Arc<Shared>,
}

/// The state that a [`Cpu`] and its kernels share.
#[derive(Debug)]
struct Shared {
    pool: CallPool,
    /// Bytes of the last-level caches that these processors use; 0 if unknown.
    caches: u64,
}

impl Cpu {
    /// All cores that this process may use, with one thread each.
    ///
    /// # Errors
    /// None at present.
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// At most `threads` threads, including the caller's, on one core each.
    ///
    /// # Errors
    /// [`Fault::Invalid`](plimsoll_core::Fault::Invalid) if `threads` is 0.
    pub fn with_threads(threads: usize) -> Result<Self, Error> {
        Self::builder().threads(threads).build()
    }

    /// Options for the threads.
    #[must_use]
    pub fn builder() -> CpuBuilder {
        CpuBuilder::default()
    }

    /// How many threads there are, including the caller's.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.shared.pool.size()
    }

    /// A kernel for these processors. It prepares a plan in the first call with new layouts.
    ///
    /// # Errors
    /// None at present.
    pub fn compile<Args, R>(&self, traced: &Traced<Args, R>) -> Result<Kernel<Args, R>, Error> {
        Ok(Kernel::new(traced.graph(), &self.shared))
    }

    /// An expression for these processors whose types and number of tensors are known only at run time.
    #[must_use]
    pub fn expression(&self, graph: &Graph) -> Expression {
        Expression::new(graph, &self.shared)
    }
}

impl Shared {
    /// The options for `threads` threads: stores bypass the caches if the outputs are larger than these.
    fn how(&self, threads: usize) -> How {
        let stores = if self.caches > 0 { StorePolicy::Beyond(self.caches) } else { StorePolicy::Ordinary };
        How { stores, ..How::for_threads(threads) }
    }
}
