//! cluster on a GPU of compute capability 9.0 or later: a chase through the shared memory of other blocks, and moves to and from
//! it. `mod.rs` defines the figures, `kernel.cu` the kernels.

use plimsoll_gpu::in_kernel::{BlockReport, LastLaunches};
use plimsoll_gpu::kit::exclusive_shared_bytes;
use plimsoll_gpu::{Form, Geometry};

use super::kernels::{self, ACCESSES, SOURCE_WORDS, STATIC_SHARED, THREADS, WORDS, chain_step, datum};
use crate::cluster::{self, Access, TOTAL};
use crate::prelude::gpu::*;

/// Blocks of a cluster. More than 8 are not portable; they are tried.
const CLUSTERS: [u32; 4] = [2, 4, 8, 16];
/// Larger clusters must be enabled explicitly (CUDA C++ Programming Guide, 'Thread Block Clusters').
const PORTABLE: u32 = 8;
/// Hops of a launch: about a millisecond, and not a whole number of times through the chain, which would end where it began.
const HOPS: u32 = 8200;
/// Rounds of a launch, 32 KiB a block each: some tenths of a millisecond.
const ROUNDS: u32 = 512;
/// Bytes of the chain.
const CHAIN_BYTES: u64 = 4 * WORDS as u64;

/// A chase: blocks of the cluster, and the rank that owns the memory. A single block uses plain loads.
type Chase = (u32, u32);
/// A move in clusters of so many blocks.
type Move = (Access, u32);

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Clusters];

    fn points(&self, _: &G::Device, request: &Request) -> usize {
        chases(&CLUSTERS, request.effort).len() + moves(&CLUSTERS).len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let bench = Rc::new(Bench::<G>::new(session.device)?);
        let sizes = bench.sizes()?;
        let effort = session.request.effort;

        let chases = chases(&sizes, effort);
        let sweep = Sweep { series: cluster::latency(), points: &chases, share: 0.5, flags: Flags::NONE };
        let coordinates = |(size, rank): &Chase| cluster::Chase { cluster: (*size).into(), rank: (*rank).into() };
        session.sweep(sweep, coordinates, |_, chase| bench.chase(*chase))?;

        let moves = moves(&sizes);
        let sweep = Sweep { series: cluster::bandwidth(), points: &moves, share: 0.5, flags: Flags::NONE };
        let coordinates = |(access, size): &Move| cluster::Move { access: *access, cluster: (*size).into() };
        session.sweep(sweep, coordinates, |_, (access, size)| bench.moving(*access, *size, ROUNDS))?;
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, _: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Rc::new(Bench::<G>::new(device)?);
        let sizes = bench.sizes()?;
        for (size, rank) in chases(&sizes, Effort::Standard) {
            let on = format!("rank {rank} of {size}");
            report(Case::from_sample(kernels::chase(size == 1).name, on, &mut bench.chase((size, rank))?)?);
        }
        for (access, size) in moves(&sizes) {
            for rounds in [1, 5] {
                let on = format!("clusters of {size}, {rounds} rounds");
                report(Case::from_sample(kernels::moving(access).name, on, &mut bench.moving(access, size, rounds)?)?);
            }
        }
        Ok(())
    }
}

/// Every rank of every cluster size; in a quick run fewer of the large ones.
fn chases(sizes: &[u32], effort: Effort) -> Vec<Chase> {
    let some = |size: &u32| {
        let (size, quick) = (*size, effort == Effort::Quick);
        (0..size)
            .filter(move |rank| !quick || rank.is_power_of_two() || rank + 1 == size || *rank == 0)
            .map(move |rank| (size, rank))
    };
    std::iter::once((1, 0)).chain(sizes.iter().flat_map(some)).collect()
}

/// Every access in every cluster size; accesses without a partner only in the smallest.
fn moves(sizes: &[u32]) -> Vec<Move> {
    let some = |access: Access| {
        let sizes = if access == Access::ReadOwn { &sizes[..1.min(sizes.len())] } else { sizes };
        sizes.iter().map(move |size| (access, *size))
    };
    ACCESSES.into_iter().flat_map(some).collect()
}

/// State shared by all points.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    kernels: Vec<KernelDesc>,
    /// Dynamic shared memory that keeps a block alone on its SM.
    shared: u32,
}

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device) -> Result<Self, Fault> {
        let kernels = kernels::kernels(G::target(device));
        let kit = Kit::new(device, &kernels::SOURCE, &kernels, TRUST)?;
        let shared = exclusive_shared_bytes::<G>(device, STATIC_SHARED);
        for kernel in &kernels {
            G::allow_shared(kit.unit.function(kernel)?.function(), shared)?;
        }
        Ok(Self { kit, kernels, shared })
    }

    fn geometry(&self, kernel: &KernelDesc, blocks: u32) -> Geometry {
        Geometry { shared: self.shared, ..Geometry::linear(blocks, kernel.threads) }
    }

    /// How many clusters of `size` blocks run at once.
    fn max_active_clusters(&self, kernel: &KernelDesc, size: u32) -> Result<u32, Fault> {
        let function = self.kit.unit.function(kernel)?.function();
        if size > PORTABLE {
            match G::allow_large_clusters(function) {
                Err(fault) if fault.ends_the_device() => return Err(fault),
                Err(_) => return Ok(0),
                Ok(()) => {}
            }
        }
        let most = self.kit.unit.machine().multiprocessors / size;
        Ok(G::clusters_at_once(function, self.geometry(kernel, size), size)?.min(most))
    }

    /// The sizes of cluster that every kernel can be launched in.
    fn sizes(&self) -> Result<Vec<u32>, Fault> {
        let mut sizes = Vec::new();
        for size in CLUSTERS {
            let mut all = true;
            for kernel in &self.kernels {
                all &= self.max_active_clusters(kernel, size)? > 0;
            }
            if all {
                sizes.push(size);
            }
        }
        if sizes.is_empty() {
            let (what, why) = ("clusters of blocks", "the driver can't start a cluster of 2 blocks".to_owned());
            return Err(Fault::Unavailable { what, why, hint: "Stop other programs that use the device".to_owned() });
        }
        Ok(sizes)
    }

    fn launch(&self, kernel: &KernelDesc, (blocks, size): (u32, u32), list: Arguments) -> Result<G::Launch, Fault> {
        let form = Form { cluster: size, ..Form::default() };
        self.kit.unit.function(kernel)?.launch(self.geometry(kernel, blocks), form, &list)
    }

    fn chase(self: &Rc<Self>, (size, rank): Chase) -> Result<InKernel<G>, Fault> {
        let kernel = kernels::chase(size == 1);
        let work = Work { operations: f64::from(HOPS), ..Work::default() };
        let own = Rc::clone(self);
        let load = InKernel::new_full_reports(&self.kit, (size, LaunchCycles::First), work, move |place| {
            own.launch(&kernel, (size, size), Arguments::new().span(place.out).u32(rank).u32(HOPS))
        })?;
        Ok(load.with_check(move |last| {
            let expected = u64::from(HOPS) * u64::from(chain_step(rank)) * 4 % CHAIN_BYTES;
            let BlockReport { count, found, .. } = last.reports.first().copied().unwrap_or_default();
            let right = (count, found) == (u64::from(HOPS), expected);
            let wrong = || Check::Failed(format!("the chase of {count} hops ended at byte {found}, not {expected}"));
            Ok(if right { Check::Passed } else { wrong() })
        }))
    }

    fn moving(self: &Rc<Self>, access: Access, size: u32, rounds: u32) -> Result<InKernel<G>, Fault> {
        let kernel = kernels::moving(access);
        let blocks = self.max_active_clusters(&kernel, size)?.max(1) * size;
        let bytes = access.bytes_per_round() * u64::from(rounds);
        let work = Work { traffic: Traffic::new(bytes, 0), operations: f64::from(rounds), ..Work::default() };
        let own = Rc::clone(self);
        let load = InKernel::new_full_reports(&self.kit, (blocks, LaunchCycles::Mean), work, move |place| {
            own.launch(&kernel, (blocks, size), Arguments::new().span(place.out).u32(1).u32(rounds))
        })?;
        let total = move |reports: &[BlockReport]| {
            reports.iter().map(|block| bytes as f64 / (block.nanoseconds as f64 * 1e-9)).sum()
        };
        let check = move |last: &LastLaunches<'_, G>| {
            let expected = |block: usize| expected(access, block as u32 % size, rounds);
            let differs = |(block, report): (usize, &BlockReport)| {
                (report.count, report.found) != (u64::from(rounds), u64::from(expected(block)))
            };
            let wrong = last.reports.iter().enumerate().position(differs);
            Ok(wrong.map_or(Check::Passed, |block| {
                let BlockReport { count, found, .. } = last.reports[block];
                let right = expected(block);
                Check::Failed(format!("block {block} did {count} rounds with the sum {found:#x}, not {right:#x}"))
            }))
        };
        Ok(load.with_figure(TOTAL, total).with_check(check))
    }
}

/// The sum that a block of this rank must report: of what it read, or of what its partner stored.
fn expected(access: Access, rank: u32, rounds: u32) -> u32 {
    let partner = rank ^ 1;
    let sum = |words: u32, word: &dyn Fn(u32) -> u32| (0..words).fold(0_u32, |sum, i| sum.wrapping_add(word(i)));
    match access {
        Access::Read => sum(WORDS, &|i| datum(partner, i)).wrapping_mul(rounds),
        Access::ReadOwn => sum(WORDS, &|i| datum(rank, i)).wrapping_mul(rounds),
        // Every thread stores its datum, which grows by one in each round, in 16 words.
        Access::Write => sum(THREADS, &|i| datum(partner, i).wrapping_add(rounds - 1)).wrapping_mul(WORDS / THREADS),
        Access::Add => rounds.wrapping_mul(WORDS / 4).wrapping_mul(partner + 1),
        Access::Bulk => sum(SOURCE_WORDS, &|i| datum(partner, i)).wrapping_mul(WORDS / SOURCE_WORDS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_runs_chase_fewer_ranks_of_large_clusters() {
        assert_eq!(chases(&[2, 4], Effort::Standard), [(1, 0), (2, 0), (2, 1), (4, 0), (4, 1), (4, 2), (4, 3)]);
        let quick = chases(&[16], Effort::Quick);
        assert_eq!(quick, [(1, 0), (16, 0), (16, 1), (16, 2), (16, 4), (16, 8), (16, 15)]);
    }

    #[test]
    fn own_shared_memory_is_measured_once() {
        assert_eq!(moves(&[2, 4]).iter().filter(|(access, _)| *access == Access::ReadOwn).count(), 1);
        assert_eq!(moves(&[2, 4]).len(), 9);
        assert!(moves(&[]).is_empty());
    }
}
