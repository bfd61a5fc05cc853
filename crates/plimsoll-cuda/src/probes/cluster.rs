//! cluster on a GPU of compute capability 9.0 or later: a chase through and moves to and from the shared memory of other
//! blocks. What the figures mean is `plimsoll_suite::probes::cluster`'s; the kernels are `cluster.cu`'s.

use std::rc::Rc;

use plimsoll_core::flag::Flags;
use plimsoll_core::probe::{Case, Depth, Probe, ProbeSpec, Request, Session, Sweep};
use plimsoll_core::sample::{Check, Clock as _, Effort, Work};
use plimsoll_core::{Fault, Traffic};
use plimsoll_gen::Target;
use plimsoll_gen::kernel::cluster::{
    self as kernels, Access, CHAIN_STEP, SOURCE_WORDS, STATIC_SHARED, THREADS, WORDS, datum,
};
use plimsoll_gen::kernel::{KernelDesc, Source};
use plimsoll_suite::probes::cluster::{self, ADD, BULK, READ, READ_OWN, TOTAL, WRITE};

use super::inside::{Inside, Last, Of, Told};
use super::kit::{Kit, alone, late};
use crate::launch::{Arguments, Form, Geometry, Launch};
use crate::{Cuda, CudaDevice};

/// Blocks of a cluster; more than 8 are not portable, and are tried.
const CLUSTERS: [u32; 4] = [2, 4, 8, 16];
/// More than this must be asked for (CUDA C++ Programming Guide, 'Thread Block Clusters').
const PORTABLE: u32 = 8;
/// Hops of a launch: about a millisecond.
const HOPS: u32 = 8192;
/// Rounds of a launch, 32 KiB a block each: some tenths of a millisecond.
const ROUNDS: u32 = 512;
/// Bytes of the chain.
const CHAIN_BYTES: u64 = 4 * WORDS as u64;

/// The probe.
#[derive(Debug)]
pub(super) struct Cluster;

/// A chase: blocks of the cluster, and whose memory. One block alone uses plain loads.
type Chase = (u32, u32);
/// A move in clusters of so many blocks.
type Move = (Access, u32);

impl Probe<Cuda> for Cluster {
    fn spec(&self) -> &'static ProbeSpec {
        &cluster::SPEC
    }

    fn supports(&self, device: &CudaDevice) -> Result<(), Fault> {
        device.kernels.compiler()?;
        for call in ["cuLaunchKernelEx", "cuOccupancyMaxActiveClusters"] {
            device.context.driver().has(call)?;
        }
        if device.capability >= 90 {
            return Ok(());
        }
        let why = format!("the device has compute capability {}.{}", device.capability / 10, device.capability % 10);
        let mend = "Use a device of compute capability 9.0 or later".to_owned();
        Err(Fault::Unavailable { what: "clusters of blocks", why, mend })
    }

    fn sized(&self) -> bool {
        false
    }

    fn points(&self, _: &CudaDevice, request: &Request) -> usize {
        chases(&CLUSTERS, request.effort).len() + moves(&CLUSTERS).len()
    }

    fn run(&self, session: &mut Session<'_, Cuda>) -> Result<(), Fault> {
        let begin = session.clock().now();
        let bench = Rc::new(Bench::new(session.device)?);
        let sizes = bench.sizes()?;
        let effort = session.request.effort;
        let late = late(session, begin, cluster::SPEC.budget(effort));

        let chases = chases(&sizes, effort);
        let sweep = Sweep { series: cluster::latency(), points: &chases, share: 0.5 + late, flags: Flags::NONE };
        let at = |(size, rank): &Chase| vec![u64::from(*size).into(), u64::from(*rank).into()];
        session.sweep(sweep, at, |_, chase| bench.chase(*chase))?;

        let moves = moves(&sizes);
        let sweep = Sweep { series: cluster::bandwidth(), points: &moves, share: 0.5, flags: Flags::NONE };
        let at = |(access, size): &Move| vec![name(*access).into(), u64::from(*size).into()];
        session.sweep(sweep, at, |_, (access, size)| bench.moving(*access, *size, ROUNDS))?;
        Ok(())
    }

    fn verify(&self, device: &mut CudaDevice, _: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        use plimsoll_core::sample::Workload as _;
        let bench = Rc::new(Bench::new(device)?);
        let sizes = bench.sizes()?;
        let mut told = |kernel: KernelDesc, on: String, mut telling: Inside| {
            telling.tell()?;
            let wrong = if let Check::Failed(wrong) = telling.check()? { wrong } else { String::new() };
            report(Case { kernel: kernel.name, on, wrong });
            Ok::<_, Fault>(())
        };
        for (size, rank) in chases(&sizes, Effort::Standard) {
            let on = format!("rank {rank} of {size}");
            told(kernels::chase(size == 1), on, bench.chase((size, rank))?)?;
        }
        for (access, size) in moves(&sizes) {
            for rounds in [1, 5] {
                let on = format!("clusters of {size}, {rounds} rounds");
                told(kernels::moving(access), on, bench.moving(access, size, rounds)?)?;
            }
        }
        Ok(())
    }
}

/// Every rank of every size of cluster; of large ones fewer in a hurry.
fn chases(sizes: &[u32], effort: Effort) -> Vec<Chase> {
    let some = |size: &u32| {
        let (size, quick) = (*size, effort == Effort::Quick);
        (0..size)
            .filter(move |rank| !quick || rank.is_power_of_two() || rank + 1 == size || *rank == 0)
            .map(move |rank| (size, rank))
    };
    std::iter::once((1, 0)).chain(sizes.iter().flat_map(some)).collect()
}

/// Every access in every size of cluster; what needs no partner in the smallest alone.
fn moves(sizes: &[u32]) -> Vec<Move> {
    let some = |access: Access| {
        let sizes = if access == Access::ReadOwn { &sizes[..1.min(sizes.len())] } else { sizes };
        sizes.iter().map(move |size| (access, *size))
    };
    Access::ALL.into_iter().flat_map(some).collect()
}

fn name(access: Access) -> &'static str {
    match access {
        Access::Read => READ,
        Access::ReadOwn => READ_OWN,
        Access::Write => WRITE,
        Access::Add => ADD,
        Access::Bulk => BULK,
    }
}

/// What all points share.
struct Bench {
    kit: Kit,
    kernels: Vec<KernelDesc>,
    /// Dynamic shared memory that keeps a block alone on its multiprocessor.
    shared: u32,
}

impl Bench {
    fn new(device: &CudaDevice) -> Result<Self, Fault> {
        let target: Target = device.kernels.target().parse().unwrap_or(Target::plain(90));
        let kernels = kernels::kernels(target);
        let kit = Kit::new(device, Source::Cluster, &kernels)?;
        let shared = alone(device, STATIC_SHARED)?;
        for kernel in &kernels {
            kit.unit.function(kernel)?.function().allow_shared(shared)?;
        }
        Ok(Self { kit, kernels, shared })
    }

    fn geometry(&self, kernel: &KernelDesc, blocks: u32) -> Geometry {
        Geometry { shared: self.shared, ..Geometry::linear(blocks, kernel.threads) }
    }

    /// How many clusters of so many blocks run at once.
    fn at_once(&self, kernel: &KernelDesc, size: u32) -> Result<u32, Fault> {
        let function = self.kit.unit.function(kernel)?.function();
        if size > PORTABLE && function.allow_large_clusters().is_err() {
            return Ok(0);
        }
        let most = self.kit.unit.machine().multiprocessors / size;
        Ok(function.clusters_at_once(self.geometry(kernel, size), size)?.min(most))
    }

    /// The sizes of cluster that every kernel can be launched in.
    fn sizes(&self) -> Result<Vec<u32>, Fault> {
        let mut sizes = Vec::new();
        for size in CLUSTERS {
            let mut all = true;
            for kernel in &self.kernels {
                all &= self.at_once(kernel, size)? > 0;
            }
            if all {
                sizes.push(size);
            }
        }
        if sizes.is_empty() {
            let (what, why) = ("clusters of blocks", "the driver starts none of 2 blocks".to_owned());
            return Err(Fault::Unavailable { what, why, mend: "Stop what else uses the device".to_owned() });
        }
        Ok(sizes)
    }

    fn launch(&self, kernel: &KernelDesc, (blocks, size): (u32, u32), list: Arguments) -> Result<Launch, Fault> {
        let form = Form { cluster: size, ..Form::default() };
        Ok(Launch::new(self.kit.unit.function(kernel)?, self.geometry(kernel, blocks), list)?.with_form(form))
    }

    fn chase(self: &Rc<Self>, (size, rank): Chase) -> Result<Inside, Fault> {
        let kernel = kernels::chase(size == 1);
        let work = Work { operations: f64::from(HOPS), ..Work::default() };
        let own = Rc::clone(self);
        let telling = Inside::telling(&self.kit, (size, Of::First), work, move |place| {
            own.launch(&kernel, (size, size), Arguments::new().span(place.out).u32(rank).u32(HOPS))
        })?;
        Ok(telling.with_check(|last| {
            let expected = u64::from(HOPS) * u64::from(CHAIN_STEP) * 4 % CHAIN_BYTES;
            let Told { count, found, .. } = last.told.first().copied().unwrap_or_default();
            let right = (count, found) == (u64::from(HOPS), expected);
            let wrong = || Check::Failed(format!("the chase of {count} hops ended at byte {found}, not {expected}"));
            Ok(if right { Check::Passed } else { wrong() })
        }))
    }

    fn moving(self: &Rc<Self>, access: Access, size: u32, rounds: u32) -> Result<Inside, Fault> {
        let kernel = kernels::moving(access);
        let blocks = self.at_once(&kernel, size)?.max(1) * size;
        let bytes = access.bytes_per_round() * u64::from(rounds);
        let work = Work { traffic: Traffic::new(bytes, 0), operations: f64::from(rounds), ..Work::default() };
        let own = Rc::clone(self);
        let telling = Inside::telling(&self.kit, (blocks, Of::Mean), work, move |place| {
            own.launch(&kernel, (blocks, size), Arguments::new().span(place.out).u32(1).u32(rounds))
        })?;
        let total = move |told: &[Told]| told.iter().map(|told| bytes as f64 / (told.nanoseconds as f64 * 1e-9)).sum();
        let check = move |last: &Last<'_>| {
            let expected = |block: usize| expected(access, block as u32 % size, rounds);
            let differs = |(block, told): (usize, &Told)| {
                (told.count, told.found) != (u64::from(rounds), u64::from(expected(block)))
            };
            let wrong = last.told.iter().enumerate().position(differs);
            Ok(wrong.map_or(Check::Passed, |block| {
                let Told { count, found, .. } = last.told[block];
                let right = expected(block);
                Check::Failed(format!("block {block} did {count} rounds with the sum {found:#x}, not {right:#x}"))
            }))
        };
        Ok(telling.with_figure(TOTAL, total).with_check(check))
    }
}

/// The sum that a block of this rank finds: of what it read, or of what its partner left.
fn expected(access: Access, rank: u32, rounds: u32) -> u32 {
    let partner = rank ^ 1;
    let sum = |words: u32, of: &dyn Fn(u32) -> u32| (0..words).fold(0_u32, |sum, i| sum.wrapping_add(of(i)));
    match access {
        Access::Read => sum(WORDS, &|i| datum(partner, i)).wrapping_mul(rounds),
        Access::ReadOwn => sum(WORDS, &|i| datum(rank, i)).wrapping_mul(rounds),
        // Every thread stores its datum in 16 words.
        Access::Write => sum(THREADS, &|i| datum(partner, i)).wrapping_mul(WORDS / THREADS),
        Access::Add => rounds.wrapping_mul(WORDS / 4),
        Access::Bulk => sum(SOURCE_WORDS, &|i| datum(partner, i)).wrapping_mul(WORDS / SOURCE_WORDS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_clusters_are_chased_at_fewer_ranks_in_a_hurry_and_at_all_else() {
        assert_eq!(chases(&[2, 4], Effort::Standard), [(1, 0), (2, 0), (2, 1), (4, 0), (4, 1), (4, 2), (4, 3)]);
        let quick = chases(&[16], Effort::Quick);
        assert_eq!(quick, [(1, 0), (16, 0), (16, 1), (16, 2), (16, 4), (16, 8), (16, 15)]);
    }

    #[test]
    fn the_own_memory_is_measured_once() {
        assert_eq!(moves(&[2, 4]).iter().filter(|(access, _)| *access == Access::ReadOwn).count(), 1);
        assert_eq!(moves(&[2, 4]).len(), 9);
        assert!(moves(&[]).is_empty());
    }
}
