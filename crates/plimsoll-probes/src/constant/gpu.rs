//! constant on a GPU: one thread follows chains through the constant table, then all warps of every SM read lines of it.

use plimsoll_gen::kernel::chain::HOPS;
use plimsoll_gpu::in_kernel::LastLaunches;

use super::kernels::{self, CHAINS, LINE, LINES, LOAD, LOADS, THREADS};
use super::{Chase, Read, SMALL};
use crate::prelude::gpu::*;

/// Hops of a launch.
const LENGTH: u64 = 4096;
/// Lines that all lanes of a warp together read in a timed launch: one after the other, so a launch takes about a millisecond
/// with any number of addresses that the nearest cache holds.
const LINES_READ: u32 = 4096;
/// Different addresses in a warp.
const ADDRESSES: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Step between checked threads: a prime, so that all lanes and warps come up.
const SOME: usize = 1999;

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::KernelClock];

    fn points(&self, _: &G::Device, request: &Request) -> usize {
        CHAINS as usize + reads(request.effort).len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let bench = Bench::<G>::new(session.device)?;
        let chains: Vec<u32> = (0..CHAINS).collect();
        let sweep = Sweep { series: super::latency(), points: &chains, share: 0.3, flags: Flags::NONE };
        let coordinates = |chain: &u32| Chase { footprint: u64::from(kernels::lines(*chain) * LINE).into() };
        session.sweep(sweep, coordinates, |_, chain| bench.chase(*chain, LENGTH))?;
        let reads = reads(session.request.effort);
        let sweep = Sweep { series: super::loads(), points: &reads, share: 0.7, flags: Flags::NONE };
        session.sweep(sweep, Point::coordinates, |_, point| bench.read(*point, LINES_READ / point.addresses)).map(drop)
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::<G>::new(device)?;
        let lengths: &[u64] = if depth == Depth::Small { &[HOPS] } else { &[HOPS, 2 * HOPS, 33 * HOPS] };
        for chain in 0..CHAINS {
            for hops in lengths {
                let on = format!("{} lines, {hops} hops", kernels::lines(chain));
                report(Case::from_sample(kernels::chase().name, on, &mut bench.chase(chain, *hops)?)?);
            }
        }
        for addresses in ADDRESSES {
            for lines in [addresses, addresses + 1, 33.max(addresses), LINES] {
                let on = format!("{lines} lines, {addresses} addresses");
                let mut load = bench.read(Point { addresses, lines }, 77)?;
                report(Case::from_sample(kernels::read().name, on, &mut load)?);
            }
        }
        Ok(())
    }
}

/// Lines that all warps read, `addresses` at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    addresses: u32,
    lines: u32,
}

impl Point {
    fn coordinates(&self) -> Read {
        Read { addresses: self.addresses.into(), footprint: u64::from(self.lines * LINE).into() }
    }

    /// The sum of what a thread reads in launches of `warm` and `iterations` lines.
    fn sum(self, thread: u32, iterations: [u32; 2]) -> u64 {
        let mut sum = 0_u64;
        for iterations in iterations {
            let mut line = thread % 32 % self.addresses;
            for _ in 0..iterations {
                for load in 0..LOADS {
                    let [low, high] = [0, 1].map(|half| u64::from(kernels::word(line, 2 * load + half)));
                    sum = sum.wrapping_add(high << 32 | low);
                }
                line += self.addresses;
                line -= if line >= self.lines { self.lines } else { 0 };
            }
        }
        sum
    }
}

/// One address over every footprint; several over what the nearest cache holds and over all of the table.
fn reads(effort: Effort) -> Vec<Point> {
    let alone = (0..CHAINS).filter(|chain| effort != Effort::Quick || chain.is_multiple_of(2));
    let alone = alone.map(|chain| Point { addresses: 1, lines: kernels::lines(chain) });
    let small = SMALL as u32 / LINE;
    let several = ADDRESSES[1..].iter().flat_map(|&addresses| [small, LINES].map(|lines| Point { addresses, lines }));
    alone.chain(several).collect()
}

/// State shared by all points.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    sums: Rc<G::Buffer>,
}

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device) -> Result<Self, Fault> {
        let kit = Kit::new(device, &kernels::SOURCE, &kernels::SOURCE.kernels(G::target(device)), TRUST)?;
        let threads = u64::from(kit.unit.machine().multiprocessors * THREADS);
        let sums = Rc::new(kit.array(8 * threads)?);
        Ok(Self { kit, sums })
    }

    /// One thread follows a chain, all of it once untimed.
    fn chase(&self, chain: u32, hops: u64) -> Result<InKernel<G>, Fault> {
        let warm = u64::from(kernels::lines(chain)).next_multiple_of(HOPS);
        let begin = kernels::place(chain, 0) as u32;
        let work = Work { operations: hops as f64, ..Work::default() };
        let load = InKernel::new_one_block(&self.kit, "cycles", work, |place| {
            let arguments = Arguments::new().span(place.out).u32(begin).u64(warm).u64(hops);
            self.kit.unit.launch(&kernels::chase(), 1, arguments)
        })?;
        let expected = kernels::place(chain, 1 + warm + hops);
        Ok(load.with_check(move |last: &LastLaunches<'_, G>| {
            let ended = last.reports.last().map(|report| report.count);
            let right = ended == Some(expected);
            let wrong = || Check::Failed(format!("{hops} hops ended at {ended:?}, not at {expected}"));
            Ok(if right { Check::Passed } else { wrong() })
        }))
    }

    /// Every SM reads lines, all of them once untimed.
    fn read(&self, point: Point, iterations: u32) -> Result<InKernel<G>, Fault> {
        let blocks = self.kit.unit.machine().multiprocessors;
        let warm = point.lines.div_ceil(point.addresses);
        let warps = u64::from(THREADS / 32) * u64::from(iterations) * u64::from(LOADS);
        let bytes = warps * u64::from(point.addresses) * u64::from(LOAD);
        let work = Work { operations: warps as f64, traffic: Traffic::new(bytes, 0), ..Work::default() };
        self.kit.checker.poison(self.sums.whole())?;
        let load = InKernel::new_cycles_only(&self.kit, (blocks, LaunchCycles::Median), work, |cycles| {
            let list = Arguments::new().buffer(&*self.sums).span(cycles).u32(point.lines).u32(point.addresses);
            self.kit.unit.launch(&kernels::read(), 0, list.u32(warm).u32(iterations))
        })?;
        let sums = Rc::clone(&self.sums);
        Ok(load.with_check(move |last: &LastLaunches<'_, G>| {
            check::<G>(last.stream, &sums, |thread| point.sum(thread, [warm, iterations]))
        }))
    }
}

/// Compares some threads' sums with the oracle.
fn check<G: Gpu>(stream: &Arc<G::Stream>, sums: &G::Buffer, oracle: impl Fn(u32) -> u64) -> Result<Check, Fault> {
    let mut bytes = vec![0; usize::try_from(sums.bytes()).unwrap_or(usize::MAX)];
    G::download(stream, sums.whole(), &mut bytes)?;
    for (thread, found) in bytes.as_chunks::<8>().0.iter().enumerate().step_by(SOME) {
        let (found, expected) = (u64::from_le_bytes(*found), oracle(thread as u32));
        if found != expected {
            return Ok(Check::Failed(format!(
                "thread {thread}: the sum of all it read is {found:#x}, not {expected:#x}"
            )));
        }
    }
    Ok(Check::Passed)
}
