//! Host memory on chosen memory nodes: pages are first touched by a thread that runs on given CPUs, and then pinned. Linux gives a
//! page to the node of the CPU that touches it first (numa(7)), as long as that node has free memory.

use std::collections::BTreeMap;

use plimsoll_core::Fault;
use plimsoll_gpu::Unavailable;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use super::{Owner, Region};
use crate::driver::{Context, OUT_OF_MEMORY};
use std::sync::Arc;

/// Its name in error messages.
const WHAT: &str = "placed host memory";

/// Readable and writable pages with an inaccessible page on either side, so that the kernel merges them with no other mapping.
#[derive(Debug)]
pub(super) struct Pages {
    /// Address of the first inaccessible page, and the size with both.
    whole: (usize, usize),
    page: usize,
}

impl Pages {
    fn new(bytes: usize) -> Result<Self, Fault> {
        let refused = || Fault::OutOfMemory { asked: bytes as u64, free: None };
        let page = rustix::param::page_size();
        let inside = bytes.max(1).checked_next_multiple_of(page).ok_or_else(refused)?;
        let size = inside.checked_add(2 * page).ok_or_else(refused)?;
        // SAFETY: with a null hint the kernel chooses an unused range.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), size, ProtFlags::empty(), MapFlags::PRIVATE) };
        let base = base.map_err(|_| refused())?;
        let pages = Self { whole: (base.expose_provenance(), size), page };
        // SAFETY: the range lies inside our own fresh mapping, to which there are no references.
        let opened = unsafe { mprotect(pages.first().cast(), inside, MprotectFlags::READ | MprotectFlags::WRITE) };
        opened.map_err(|_| refused())?;
        Ok(pages)
    }

    fn first(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.whole.0 + self.page)
    }

    /// Writes every page on a thread that runs only on these CPUs.
    fn touch_on(&self, cpus: &[usize]) -> Result<(), Fault> {
        let address = self.first().expose_provenance();
        let (bytes, page) = (self.whole.1 - 2 * self.page, self.page);
        let touch = move || -> Result<(), Unavailable> {
            run_on(cpus)?;
            for offset in (0..bytes).step_by(page) {
                let place = std::ptr::with_exposed_provenance_mut::<u8>(address + offset);
                // SAFETY: inside the mapping, which the caller owns and which no one else knows yet. Zeros are what it holds.
                unsafe { place.write_volatile(0) };
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("placed".to_owned());
        let ended = std::thread::scope(|scope| thread.spawn_scoped(scope, touch).map(|thread| thread.join()));
        let ended = ended.map_err(|error| Fault::Invalid(format!("no thread to place memory: {error}")))?;
        let touched = ended.map_err(|_| Fault::Panicked("the thread that places memory ended".to_owned()))?;
        Ok(touched?)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let (base, size) = self.whole;
        // SAFETY: exactly the range that `new` mapped, unmapped once; no references to it are left.
        let _ = unsafe { munmap(std::ptr::with_exposed_provenance_mut(base), size) };
    }
}

/// Restricts the calling thread to these CPUs.
fn run_on(cpus: &[usize]) -> Result<(), Unavailable> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let mut set = CpuSet::new();
    // `set` would panic beyond the fixed size.
    cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set).map_err(|error| {
        let why = format!("no thread may run on the CPUs of the node: {error}");
        Unavailable::new(WHAT, why, "Allow the process all CPUs of the machine (cpuset, taskset)")
    })
}

/// Allocates `bytes` of zeroed memory, touched first by these CPUs, and pins it for all devices.
pub(super) fn allocate(context: &Arc<Context>, bytes: usize, cpus: &[usize]) -> Result<Arc<Region>, Fault> {
    /// `CU_MEMHOSTREGISTER_PORTABLE`.
    const PORTABLE: u32 = 1;
    let pages = Pages::new(bytes)?;
    pages.touch_on(cpus)?;
    context.bind()?;
    // SAFETY: the range is mapped, and stays so until it is unregistered; the context is current.
    match context.watch(unsafe { context.call().host_register(pages.first().cast(), bytes, PORTABLE) }) {
        Ok(()) => {}
        Err(error) if error.code() == Some(OUT_OF_MEMORY) => {
            return Err(Fault::OutOfMemory { asked: bytes as u64, free: None });
        }
        Err(error) => return Err(error.into()),
    }
    let address = pages.first().expose_provenance() as u64;
    Ok(Region::new(context, address, bytes as u64, Owner::Registered(Some(pages))))
}

/// Number of pages of the mapping at `address` on each memory node, from the text of `/proc/self/numa_maps` (proc(5)); `None` if it
/// lists no such mapping.
pub(super) fn count_by_node(text: &str, address: u64) -> Option<BTreeMap<u32, u64>> {
    let begins = |line: &&str| {
        let start = line.split(' ').next().and_then(|start| u64::from_str_radix(start, 16).ok());
        start == Some(address)
    };
    let line = text.lines().find(begins)?;
    let node = |word: &str| {
        let (node, pages) = word.strip_prefix('N')?.split_once('=')?;
        Some((node.parse().ok()?, pages.parse().ok()?))
    };
    Some(line.split(' ').filter_map(node).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "7f0000000000 default anon=3 dirty=3 N0=1 N1=2 kernelpagesize_kB=4\n\
                        7f0000400000 prefer:1 file=/lib/N7=9 mapped=4 N0=4 kernelpagesize_kB=4\n\
                        7f0000800000 default\n";

    #[test]
    fn pages_are_counted_for_each_node_of_one_mapping() {
        assert_eq!(count_by_node(MAPS, 0x7f00_0000_0000), Some([(0, 1), (1, 2)].into()));
        assert_eq!(count_by_node(MAPS, 0x7f00_0040_0000), Some([(0, 4)].into()));
        assert_eq!(count_by_node(MAPS, 0x7f00_0080_0000), Some([].into()));
        assert_eq!(count_by_node(MAPS, 0x7f00_0000_1000), None);
        assert_eq!(count_by_node("garbage\n\n", 1), None);
    }
}
