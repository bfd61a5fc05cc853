//! Options for the threads of a [`Cpu`].

use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::Fault;

use super::super::error::Error;
use super::{Cpu, Shared};
use crate::threads::{CallPool, Settings};
use crate::topology::Topology;

/// How long idle threads spin unless [`CpuBuilder::spin`] changes it.
const SPIN: Duration = Duration::from_micros(100);

/// A core's part of a last-level cache in a virtual machine. The system reports the whole cache, but other machines share it. In one
/// with 2 cores and 260 MiB (Emerald Rapids), stores past the caches were faster from outputs of 16 MiB on (a copy
/// 1.1 to 1.9 times), and slower at 4 MiB (`a*x + y` 0.94).
const VIRTUAL_PART: u64 = 4 << 20;

/// Options for the threads of a [`Cpu`].
#[derive(Clone, Debug)]
pub struct CpuBuilder {
    threads: usize,
    pinned: bool,
    spin: Duration,
}

impl Default for CpuBuilder {
    fn default() -> Self {
        Self { threads: usize::MAX, pinned: false, spin: SPIN }
    }
}

impl CpuBuilder {
    /// At most so many threads, including the caller's; one per core if there are fewer cores.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Whether each thread is pinned to a core, the caller during large calls. By default the system places them, which is better
    /// if other threads of the program need the same cores.
    #[must_use]
    pub fn pinned(self, pinned: bool) -> Self {
        Self { pinned, ..self }
    }

    /// How long an idle thread waits for the next call before it sleeps: by default 100 µs. A longer time lets calls with pauses
    /// between them find it awake, and takes processor time from other threads.
    #[must_use]
    pub fn spin(self, spin: Duration) -> Self {
        Self { spin, ..self }
    }

    /// The processors that this process may use. Starts no thread yet.
    ///
    /// # Errors
    /// [`Fault::Invalid`] without a thread.
    pub fn build(self) -> Result<Cpu, Error> {
        let topology = Topology::read();
        let mut cpus = topology.one_cpu_per_core();
        if cpus.is_empty() {
            cpus.push(0);
        }
        cpus.truncate(self.threads);
        let reported = topology.last_level_bytes(&cpus);
        let part = if topology.model.hypervisor { VIRTUAL_PART * cpus.len() as u64 } else { u64::MAX };
        self.build_on(cpus, reported.min(part))
    }

    /// A device on these CPUs, whose stores bypass the caches if the outputs have more than so many bytes; never if it is 0.
    pub(super) fn build_on(self, cpus: Vec<usize>, caches: u64) -> Result<Cpu, Error> {
        if cpus.is_empty() {
            return Err(Fault::Invalid("expressions need at least one thread".to_owned()).into());
        }
        let pool = CallPool::new(Settings { cpus, pinned: self.pinned, spin: self.spin });
        Ok(Cpu { shared: Arc::new(Shared { pool, caches }) })
    }
}
