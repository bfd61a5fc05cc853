//! Traced closures on the CPU, in slices and vectors of the caller's: the typed face of [`super::Program`].
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
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Calls.** [`Kernel::run`] takes one [`Argument`] per parameter and the [`Outputs`], as on a GPU, and returns when all is
//! written. Types are the compiler's to check, that outputs share no memory with anything is what borrows are for; shapes, sizes
//! and strides are checked in every call, before anything is written. The traits look like the GPU's and aren't the same:
//! a trait of `plimsoll-expr` for both couldn't be implemented here for scalars, `impl Argument<Scalar<T>> for T`, as neither
//! would be this crate's.
//!
//! **Plans.** A call whose tensors lie as those of an earlier one finds what was prepared for that and allocates nothing;
//! scalars aren't part of it. The last [`MOST_PLANS`] are kept, each with its scratch memory.
//!
//! **Threads.** A [`Cpu`] has a [`Pool`]: workers tied to their cores, beside which the caller works too. Calls that need it
//! take turns, whichever kernel and thread they are from, and so do calls of one kernel, whose scratch memory is one; clones of a
//! kernel have plans of their own. What is [`SMALL`] runs on the caller's thread alone.

mod call;
mod kernel;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_expr::Traced;

use super::error::Error;
use super::plan::{How, StorePolicy};
use crate::threads::Pool;
use crate::timer::Timer;
use crate::topology::Topology;

pub use call::{Argument, Outputs};
pub use kernel::Kernel;
pub use view::{View, ViewMut};

/// Most plans that a kernel keeps.
const MOST_PLANS: usize = 16;
/// A call that moves up to so many bytes, with functions counted as bytes, runs on the caller's thread. On two cores of an EPYC
/// (`examples/calls.rs`, `records/cpu/2026-11-22-epyc/calls.txt`) handing a call to workers that still look for work takes 8 µs, in
/// which a core moves 0.3 MB that are in its caches, and waking them 130 µs: two cores were faster from 1.6 to 3 MB of `a*x + y` on, and from
/// 0.2 MB of its tanh, each called again and again; after pauses only from tens of megabytes.
const SMALL: u64 = 1 << 20;

/// The processors that expressions run on. Clones are the same threads; one per program is enough, as those of two would
/// compete for the same cores.
#[derive(Clone, Debug)]
pub struct Cpu {
    shared: Arc<Shared>,
}

/// What a [`Cpu`] and its kernels have in common.
#[derive(Debug)]
struct Shared {
    pool: Pool,
    /// One of the processors.
    cpu: usize,
    /// Bytes that the last-level caches hold; 0 where unknown.
    caches: u64,
}

impl Cpu {
    /// All cores that this process may use, with one thread each.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where threads can't be started.
    pub fn new() -> Result<Self, Error> {
        Self::with_threads(usize::MAX)
    }

    /// So many threads, the caller's among them, on as many cores; no more than there are cores.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for no thread at all; [`Fault::Unavailable`] where threads can't be started.
    pub fn with_threads(threads: usize) -> Result<Self, Error> {
        let topology = Topology::read();
        let mut cpus = topology.one_cpu_per_core();
        if cpus.is_empty() {
            cpus.push(0);
        }
        cpus.truncate(threads);
        Self::on(&cpus, topology.last_level_bytes(&cpus))
    }

    fn on(cpus: &[usize], caches: u64) -> Result<Self, Error> {
        let Some(&cpu) = cpus.first() else {
            return Err(Fault::Invalid("expressions need at least one thread".to_owned()).into());
        };
        let pool = Pool::new(cpus, Timer::Os)?;
        Ok(Self { shared: Arc::new(Shared { pool, cpu, caches }) })
    }

    /// How many threads there are, the caller's among them.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.shared.pool.size()
    }

    /// An expression for these processors. What it becomes for tensors is made when they are first given.
    ///
    /// # Errors
    /// None at present.
    pub fn compile<Args, R>(&self, traced: &Traced<Args, R>) -> Result<Kernel<Args, R>, Error> {
        Ok(Kernel::new(traced.graph(), &self.shared))
    }
}

impl Shared {
    /// How a program is prepared for so many threads: with stores past the caches where the outputs are larger than these.
    fn how(&self, threads: usize) -> How {
        let stores = if self.caches > 0 { StorePolicy::Beyond(self.caches) } else { StorePolicy::Ordinary };
        How { stores, ..How::on(threads) }
    }
}
