//! The parts of this machine that matter to a measurement: CPUs, caches, pages and memory, and how much of them the container
//! and the caller's affinity allow. Clocks and load are in [`crate::timer`] and [`crate::steal`].
//!
//! All of it is read from files that may be missing or damaged, and from CPUID. Every reader takes the root of the tree, so
//! that tests can supply other machines.

mod caches;
mod cgroup;
mod cpus;
mod headroom;
mod model;
mod pages;
#[cfg(test)]
mod tests;
pub(crate) mod text;

use std::collections::BTreeSet;
use std::path::Path;

pub use caches::{Cache, CacheKind};
pub(crate) use cgroup::{Version, groups};
pub use cpus::Cpu;
pub use headroom::Headroom;
pub use model::CpuModel;
pub use pages::{HugePages, Transparent, page_size};

use crate::arch::cpuid;
use crate::threads::affinity;

/// A machine, with the limits on this process.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// The online CPUs, ascending by id. Never empty.
    pub cpus: Vec<Cpu>,
    /// The ids of those that this process may run on, ascending. Never empty.
    pub allowed: Vec<usize>,
    /// The caches, each instance once; empty if the system doesn't list them.
    pub caches: Vec<Cache>,
    /// CPUs' worth of time that the container may use (1.5: three halves of a CPU's time); `None` without a limit.
    pub quota: Option<f64>,
    /// Installed, free and allowed memory when this was read.
    pub memory: Headroom,
    /// The processor.
    pub model: CpuModel,
    /// The huge pages.
    pub huge_pages: HugePages,
    /// The size of an ordinary page in bytes.
    pub page_size: usize,
    /// A stable, anonymous name for the machine: `cpu-` and 16 hexadecimal digits.
    pub device_id: String,
}

impl Topology {
    /// Reads this machine.
    #[must_use]
    pub fn read() -> Self {
        let mut affinity = affinity::allowed_cpus();
        if affinity.is_empty() {
            affinity = (0..std::thread::available_parallelism().map_or(1, usize::from)).collect();
        }
        let mut here = Self::read_under(Path::new("/"), &affinity);
        if let Some(model) = CpuModel::from_cpuid(cpuid::leaf) {
            here.model = CpuModel { microcode: here.model.microcode, ..model };
            here.device_id = device_id(Path::new("/"), &here.model.brand, here.packages());
        }
        if here.caches.is_empty() {
            here.caches = caches::from_cpuid(cpuid::leaf);
        }
        here
    }

    /// Reads a copy of `/sys`, `/proc` and `/etc` under `root`, for a process with this affinity.
    #[must_use]
    pub fn read_under(root: &Path, affinity: &[usize]) -> Self {
        let fallback = if affinity.is_empty() { &[0] } else { affinity };
        let cpus = cpus::read(root, fallback);
        let set = cgroup::cpu_set(root);
        let permitted = |id: &usize| affinity.contains(id) && set.as_ref().is_none_or(|set| set.contains(id));
        let mut allowed: Vec<usize> = cpus.iter().map(|cpu| cpu.id).filter(permitted).collect();
        if allowed.is_empty() {
            // The sources contradict each other: take the kernel's affinity, or else any CPU.
            let online = |id: &usize| cpus.iter().any(|cpu| cpu.id == *id);
            allowed = affinity.iter().copied().filter(online).collect();
            allowed.extend(cpus.first().map(|cpu| cpu.id).filter(|_| allowed.is_empty()));
        }
        let model = CpuModel::from_cpuinfo(root);
        let mut topology = Self {
            caches: caches::read(root, &cpus),
            cpus,
            allowed,
            quota: cgroup::cpu_quota(root),
            memory: Headroom::read_under(root),
            model,
            huge_pages: HugePages::read_under(root),
            page_size: page_size(),
            device_id: String::new(),
        };
        topology.device_id = device_id(root, &topology.model.brand, topology.packages());
        topology
    }

    /// How many packages (sockets) have an online CPU.
    #[must_use]
    pub fn packages(&self) -> usize {
        self.cpus.iter().map(|cpu| cpu.package).collect::<BTreeSet<_>>().len()
    }

    /// One allowed CPU of each core, ascending, but no more than the quota can keep running (rounded down, at least one).
    /// These are the CPUs for bandwidth: a core's second thread adds none, and throttled threads only add noise.
    #[must_use]
    pub fn one_cpu_per_core(&self) -> Vec<usize> {
        let first_of_core = |cpu: &&Cpu| {
            let allowed_siblings = cpu.smt_siblings.iter().filter(|id| self.allowed.contains(id));
            self.allowed.contains(&cpu.id) && allowed_siblings.min() == Some(&cpu.id)
        };
        let most = self.quota.map_or(usize::MAX, |quota| (quota as usize).max(1));
        self.cpus.iter().filter(first_of_core).map(|cpu| cpu.id).take(most).collect()
    }

    /// The data or unified cache at `level` of the first allowed CPU; `None` if it has none or the system doesn't list it.
    #[must_use]
    pub fn data_cache(&self, level: u32) -> Option<&Cache> {
        self.data_caches_of(*self.allowed.first()?).find(|cache| cache.level == level)
    }

    /// The last-level cache of the first allowed CPU.
    #[must_use]
    pub fn last_level_cache(&self) -> Option<&Cache> {
        self.data_caches_of(*self.allowed.first()?).max_by_key(|cache| cache.level)
    }

    /// The bytes of all last-level caches that `cpus` use: a team's footprint must exceed them to reach memory.
    #[must_use]
    pub fn last_level_bytes(&self, cpus: &[usize]) -> u64 {
        let mut distinct: Vec<&Cache> = Vec::new();
        for &cpu in cpus {
            let last = self.data_caches_of(cpu).max_by_key(|cache| cache.level);
            if let Some(cache) = last.filter(|cache| !distinct.iter().any(|known| std::ptr::eq(*known, *cache))) {
                distinct.push(cache);
            }
        }
        distinct.iter().map(|cache| cache.bytes).sum()
    }

    /// True if two of `cpus` are threads of one core, and so share its execution units.
    #[must_use]
    pub fn smt_shared(&self, cpus: &[usize]) -> bool {
        let shares = |cpu: &Cpu| cpu.smt_siblings.iter().any(|id| *id != cpu.id && cpus.contains(id));
        self.cpus.iter().filter(|cpu| cpus.contains(&cpu.id)).any(shares)
    }

    fn data_caches_of(&self, cpu: usize) -> impl Iterator<Item = &Cache> {
        self.caches.iter().filter(move |cache| cache.holds_data() && cache.serves(cpu))
    }
}

/// A stable name for the machine: `cpu-` and the first 16 hexadecimal digits of a keyed BLAKE3 hash over its machine-id
/// (machine-id(5) requires such a hash before publication), the processor's brand and the number of packages. Machines
/// without a machine-id (most containers) share the name with all others of the same model.
fn device_id(root: &Path, brand: &str, packages: usize) -> String {
    let id = ["etc/machine-id", "var/lib/dbus/machine-id"].iter().find_map(|file| text::read(&root.join(file)));
    let mut hasher = blake3::Hasher::new_derive_key("plimsoll: the name of a CPU device");
    hasher.update(format!("{}\n{brand}\n{packages}", id.unwrap_or_default()).as_bytes());
    format!("cpu-{}", &hasher.finalize().to_hex()[..16])
}
