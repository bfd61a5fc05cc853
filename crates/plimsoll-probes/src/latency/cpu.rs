//! latency on the CPU: one core follows a chain through buffers of every size, in huge and in small pages.
//!
//! The first sweep is coarse; a second one measures between the neighbours of every knee that it shows, in huge pages,
//! where capacities aren't blurred by translation. `mod.rs` defines the figures.

use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use plimsoll_core::series::Series;
use plimsoll_cpu::arch::chase::SharedChase;
use plimsoll_cpu::memory::{Buffer, Pages, free_bytes};
use plimsoll_cpu::workload::chain::{Chain, Order, PAGE_BYTES};

use super::knees::{FINE_POINTS, between_neighbours, sweep_twice};
use super::{CHASE, Chase, KNEES};
use crate::prelude::cpu::*;
use crate::sizes;

/// The smallest footprint, bytes.
const LEAST: u64 = 2 << 10;
/// The smallest footprint in small pages, bytes: below it no TLB is too small.
const LEAST_SMALL: u64 = 32 << 10;
/// The largest footprint by default, bytes.
const LARGEST: u64 = 2 << 30;
/// The largest footprint in small pages in a quick run, bytes: page walks are longest there already, and building takes time.
const LARGEST_SMALL: u64 = 512 << 20;
/// Memory of all buffers together, as a share of what is free.
const SHARE_OF_FREE: f64 = 0.4;
/// Hops of one launch, about: some 10 µs in the first cache, a millisecond from memory.
const HOPS: u64 = 8192;
/// How long a chase goes on before it is timed, where a whole cycle takes longer.
const WARM_UP: Duration = Duration::from_millis(25);
/// Lines of the longest cycle that is followed once more when it has been timed.
const CHECKED_LINES: u64 = 1 << 16;
/// Around knees, points are added until neighbours are within this ratio.
const RESOLUTION: f64 = 1.035;
/// Share of the budget for the coarse sweep.
const COARSE: f64 = 0.75;

/// What is measured at one footprint.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spot {
    pages: Pages,
    order: Order,
    bytes: u64,
}

impl From<&Spot> for Chase {
    fn from(spot: &Spot) -> Self {
        Self { pages: pages_axis(spot.pages), order: order_axis(spot.order), footprint: spot.bytes.into() }
    }
}

/// The axis's name for pages.
fn pages_axis(pages: Pages) -> super::Pages {
    match pages {
        Pages::Huge => super::Pages::Huge,
        Pages::Small => super::Pages::Small,
    }
}

/// The axis's name for orders.
fn order_axis(order: Order) -> super::Order {
    match order {
        Order::PageRandom => super::Order::PageRandom,
        Order::PageLocal => super::Order::PageLocal,
    }
}

impl Run<Cpu> for super::CpuRunner {
    fn points(&self, device: &CpuDevice, request: &Request) -> usize {
        let (largest, _) = largest(device, request);
        plan(device, largest, request.effort, true).len() + FINE_POINTS
    }

    fn run(&self, session: &mut Session<'_, Cpu>) -> Result<(), Fault> {
        let (largest, flags) = largest(session.device, session.request);
        if session.request.bytes.is_some_and(|bytes| bytes < LEAST) {
            return Err(Fault::Invalid(format!(
                "the smallest footprint of latency is {LEAST} bytes: ask for as much or more"
            )));
        }
        if largest < LEAST {
            return Err(Fault::OutOfMemory { asked: LEAST, free: free_bytes() });
        }
        let line = line(session.device);
        let mut buffers = Buffers::new(session, largest, line)?;
        let huge = buffers.huge.is_granted()?;
        let points = plan(session.device, largest, session.request.effort, huge);
        let pages = if huge { Pages::Huge } else { Pages::Small };
        let team = team(session, 1)?;
        let load = |spot: &Spot| {
            let (task, work, check) = buffers.chase(spot)?;
            Ok(TeamLoad { team: team.clone(), task, work, lap: Lap::First, batch: Batch::default(), check })
        };
        let sweep = Sweep { series: super::hops(CHASE), points: &points, share: COARSE, flags };
        sweep_twice(session, sweep, (super::hops(KNEES), 1.0 - COARSE), |series| knees(series, pages, line), load)
    }

    fn verify(&self, device: &mut CpuDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let line = line(device);
        let mut grains: Vec<usize> = vec![1, 2, 3, 5, 7, 31, 32, 33, 63, 64, 65, 127, 1025];
        match depth {
            Depth::Small => {}
            Depth::Usual => grains.push((16 << 20) / line),
            Depth::Exhaustive => grains.extend((1..=1100).chain([(64 << 20) / line])),
        }
        for order in [Order::PageRandom, Order::PageLocal] {
            let mut chain = Chain::new(order, line, 1);
            // Pages are more than lines: as many bytes, but no fewer than three pages.
            let scale = if order == Order::PageLocal { PAGE_BYTES / line } else { 1 };
            for &grain in &grains {
                let bytes = grain.div_ceil(scale).max(scale.min(3)) * chain.grain();
                let mut buffer = Buffer::new(bytes / size_of::<u64>(), Pages::Huge)?;
                chain.clear();
                chain.grow(&mut buffer, bytes);
                report(Case {
                    kernel: format!("chase {}", order_axis(order)),
                    on: format!("{} lines", bytes / line),
                    wrong: wrong(buffer, bytes, line),
                });
            }
        }
        Ok(())
    }
}

/// Follows a chain naively and compares it with the chase; describes the first error, or is empty.
fn wrong(buffer: Buffer<u64>, bytes: usize, line: usize) -> String {
    let lines = bytes / line;
    let mut seen = vec![false; lines];
    let mut at = 0;
    for hop in 0..lines {
        if std::mem::replace(&mut seen[at / line], true) {
            return format!("the chain is back at byte {at} after {hop} hops");
        }
        at = buffer[at / size_of::<u64>()] as usize;
    }
    let (half, mut expected) = (lines as u64 / 2 + 1, 0);
    for _ in 0..half {
        expected = buffer[expected / size_of::<u64>()] as usize;
    }
    match SharedChase::new(Arc::new(buffer), bytes / size_of::<u64>(), line) {
        Err(broken) => broken.to_string(),
        Ok(chase) => match (chase.chase(0, lines as u64), chase.chase(0, half)) {
            (0, end) if end == expected => String::new(),
            ends => format!("the chase ended at bytes {ends:?}, not at 0 and {expected}"),
        },
    }
}

/// Bytes of a cache line: lines are what a chain is made of.
fn line(device: &CpuDevice) -> usize {
    let reported = device.topology.data_cache(1).map_or(64, |cache| cache.line as usize);
    if reported.is_power_of_two() && (16..=256).contains(&reported) { reported } else { 64 }
}

/// The largest footprint in bytes, and the flag that says so where it is less than was wanted.
fn largest(device: &CpuDevice, request: &Request) -> (u64, Flags) {
    let last_level = device.last_level_bytes();
    let own = match request.effort {
        Effort::Quick | Effort::Unknown => (4 * last_level).clamp(256 << 20, LARGEST),
        _ => LARGEST,
    };
    let wanted = request.bytes.unwrap_or(own);
    // Two buffers, one for each kind of page, and one that empties the caches.
    let affordable = free_bytes().map_or(u64::MAX, |free| {
        ((free as f64 * SHARE_OF_FREE) as u64).saturating_sub(last_level + last_level / 4) / 2
    });
    let largest = wanted.min(affordable) / PAGE_BYTES as u64 * PAGE_BYTES as u64;
    let shrunk = affordable < wanted;
    (if shrunk { largest } else { wanted }, shrunk.then_some(Flag::Shrunk).into_iter().collect())
}

/// A line of the picture: pages, order, least footprint in bytes, and points per octave.
type Curve = (Pages, Order, u64, u32);

/// The coarse sweep. Where huge pages are refused, small ones take their place.
fn plan(device: &CpuDevice, largest: u64, effort: Effort, huge: bool) -> Vec<Spot> {
    use Order::{PageLocal, PageRandom};
    use Pages::{Huge, Small};
    let quick = effort == Effort::Quick;
    let curves: &[Curve] = match (huge, quick) {
        (false, _) => &[(Small, PageRandom, LEAST, 3), (Small, PageLocal, LEAST_SMALL, 1)],
        (true, true) => {
            &[(Huge, PageRandom, LEAST, 3), (Small, PageRandom, LEAST_SMALL, 2), (Small, PageLocal, LEAST_SMALL, 1)]
        }
        (true, false) => &[
            (Huge, PageRandom, LEAST, 4),
            (Small, PageRandom, LEAST_SMALL, 4),
            (Small, PageLocal, LEAST_SMALL, 2),
            (Huge, PageLocal, LEAST_SMALL, 2),
        ],
    };
    let (line, last_level) = (line(device) as u64, device.last_level_bytes());
    let mut points = Vec::new();
    for &(pages, order, least, per_octave) in curves {
        let largest = if quick && huge && pages == Small { largest.min(LARGEST_SMALL) } else { largest };
        let grain = if order == PageLocal { PAGE_BYTES as u64 } else { line };
        // Nothing but translation changes far above the last cache, and those are the points that take longest.
        let density = |bytes: f64| if quick && bytes > 1.5 * last_level as f64 { 1 } else { per_octave };
        points.extend(footprints(least, largest, density, grain).into_iter().map(|bytes| Spot { pages, order, bytes }));
    }
    points
}

/// From `least` to `largest` inclusive, so many per octave, in whole grains.
fn footprints(least: u64, largest: u64, density: impl Fn(f64) -> u32, grain: u64) -> Vec<u64> {
    if largest < least {
        return Vec::new();
    }
    let factor = |bytes: f64| f64::from(density(bytes)).recip().exp2();
    let mut footprints: Vec<u64> = sizes::growing(least as f64, largest as f64, factor, grain).collect();
    footprints.push(largest / grain * grain);
    footprints.retain(|&bytes| (1..=largest).contains(&bytes));
    footprints.sort_unstable();
    footprints.dedup();
    footprints
}

/// What the refinement measures: between the neighbours of every knee of the page-random curve.
fn knees(series: &Series, pages: Pages, line: usize) -> Vec<Spot> {
    let curve = super::curve(std::slice::from_ref(series), pages_axis(pages), super::Order::PageRandom);
    let spots = between_neighbours(&curve, RESOLUTION, line as u64);
    spots.map(|bytes| Spot { pages, order: Order::PageRandom, bytes }).collect()
}

/// What a launch runs, what it does, and the check of it.
type Load = (Task, Work, Box<dyn FnMut() -> Check>);

/// The buffers of a run.
struct Buffers {
    huge: Chained,
    small: Chained,
    /// A buffer larger than the last cache: reading it evicts everything else.
    sweeper: Option<Buffer<u64>>,
    last_level: u64,
    line: usize,
}

/// A buffer and the chains that may be in it.
struct Chained {
    buffer: Arc<Buffer<u64>>,
    random: Chain,
    local: Chain,
    holds: Order,
}

impl Buffers {
    fn new(session: &Session<'_, Cpu>, largest: u64, line: usize) -> Result<Self, Fault> {
        let last_level = session.device.last_level_bytes();
        let seed = session.request.seed;
        let sweeper = (largest > 2 * last_level && last_level > 0).then(|| {
            let mut sweeper = Buffer::new((last_level + last_level / 4) as usize / size_of::<u64>(), Pages::Huge)?;
            sweeper.fill(seed | 1);
            Ok::<_, Fault>(sweeper)
        });
        Ok(Self {
            huge: Chained::new(largest, Pages::Huge, line, seed)?,
            small: Chained::new(largest, Pages::Small, line, seed)?,
            sweeper: sweeper.transpose()?,
            last_level,
            line,
        })
    }

    /// One core's chase at a point.
    fn chase(&mut self, spot: &Spot) -> Result<Load, Fault> {
        let chained = match spot.pages {
            Pages::Huge => &mut self.huge,
            Pages::Small => &mut self.small,
        };
        let bytes = chained.build(spot.order, spot.bytes)?;
        // Checking reads every line once: what fits in a cache is in it afterwards.
        let chase = SharedChase::new(chained.buffer.clone(), bytes / size_of::<u64>(), self.line)
            .map_err(|broken| Fault::Invalid(broken.to_string()))?;
        if let Some(sweeper) = self.sweeper.as_deref().filter(|_| bytes as u64 > 2 * self.last_level) {
            let lines = sweeper.iter().step_by(self.line / size_of::<u64>());
            std::hint::black_box(lines.fold(0, |all, word| all ^ word));
        }
        let lines = (bytes / self.line) as u64;
        let start = warm_up(&chase, lines);
        // Whole cycles where they are short, so that every sample visits every line equally often.
        let hops = if lines < HOPS { HOPS.div_ceil(lines) * lines } else { HOPS };
        let (place, launches) = (Arc::new(AtomicUsize::new(start)), Arc::new(AtomicU64::new(0)));
        let task = Task::new({
            let (chase, place, launches) = (chase.clone(), place.clone(), launches.clone());
            move |_| {
                place.store(chase.chase(place.load(Ordering::Relaxed), hops), Ordering::Relaxed);
                launches.fetch_add(1, Ordering::Relaxed);
            }
        });
        let check = Box::new(move || {
            let hops = launches.load(Ordering::Relaxed) * hops;
            check(&chase, lines, start, place.load(Ordering::Relaxed), hops)
        });
        let work = Work { operations: hops as f64, in_kernel: true, ..Work::default() };
        Ok((task, work, check))
    }
}

impl Chained {
    fn new(largest: u64, pages: Pages, line: usize, seed: u64) -> Result<Self, Fault> {
        let bytes = usize::try_from(largest).ok().and_then(|bytes| bytes.checked_next_multiple_of(PAGE_BYTES));
        let bytes = bytes.ok_or_else(|| Fault::Invalid(format!("{largest} bytes overflow an address")))?;
        Ok(Self {
            buffer: Arc::new(Buffer::new(bytes / size_of::<u64>(), pages)?),
            random: Chain::new(Order::PageRandom, line, seed),
            local: Chain::new(Order::PageLocal, line, seed),
            holds: Order::PageRandom,
        })
    }

    /// Whether the buffer gets the huge pages that it asks for: one is touched to see.
    fn is_granted(&mut self) -> Result<bool, Fault> {
        if let Some(first) = exclusive(&mut self.buffer)?.first_mut() {
            *first = 1;
        }
        Ok(self.buffer.page_report().small.is_none())
    }

    /// Makes the first `bytes` one cycle, and returns how many they really are.
    fn build(&mut self, order: Order, bytes: u64) -> Result<usize, Fault> {
        let chain = match order {
            Order::PageRandom => &mut self.random,
            Order::PageLocal => &mut self.local,
        };
        if order != self.holds {
            chain.clear();
            self.holds = order;
        }
        Ok(chain.grow(exclusive(&mut self.buffer)?, bytes as usize))
    }
}

/// The buffer for writing.
fn exclusive(buffer: &mut Arc<Buffer<u64>>) -> Result<&mut Buffer<u64>, Fault> {
    let shared = || Fault::Invalid("the chain of an earlier point is still in use".to_owned());
    Arc::get_mut(buffer).ok_or_else(shared)
}

/// Follows the chain once, or as long as there is time, and returns where it ended.
fn warm_up(chase: &SharedChase, lines: u64) -> usize {
    let (begin, mut at, mut left) = (Instant::now(), 0, lines);
    while left > 0 && begin.elapsed() < WARM_UP {
        let hops = left.min(4096);
        at = chase.chase(at, hops);
        left -= hops;
    }
    at
}

/// Whether `hops` hops from `start` lead to `end`, in a cycle of `lines`. For long cycles, only checks that the chase didn't
/// return to the start early: following them again would take longer than measuring them.
fn check(chase: &SharedChase, lines: u64, start: usize, end: usize, hops: u64) -> Check {
    let ahead = hops % lines;
    if lines > CHECKED_LINES {
        return match (ahead == 0, end == start) {
            (false, true) => Check::Failed(format!("back at the start after {hops} hops in a cycle of {lines} lines")),
            _ => Check::Passed,
        };
    }
    let expected = chase.chase(start, ahead);
    let closes = chase.chase(start, lines) == start;
    match (closes, expected == end) {
        (false, _) => Check::Failed(format!("the cycle does not close after {lines} hops")),
        (_, false) => Check::Failed(format!("after {hops} hops the chase is at byte {end}, not {expected}")),
        _ => Check::Passed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footprints_rise_from_the_least_to_the_largest_in_whole_grains() {
        for (per_octave, grain) in [(1, 4096), (3, 64), (4, 4096)] {
            let all = footprints(2048, (1 << 20) + 8192, |_| per_octave, grain);
            assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(all.iter().all(|bytes| bytes % grain == 0));
            assert_eq!(all.last(), Some(&((1 << 20) + 8192)));
        }
        let thinner = footprints(2048, 1 << 20, |bytes| if bytes < 65_536.0 { 3 } else { 1 }, 64);
        assert_eq!(footprints(2048, 100, |_| 3, 64), Vec::<u64>::new());
        assert_eq!(&thinner[thinner.len() - 4..], [131_072, 262_144, 524_288, 1 << 20]);
    }

    #[test]
    fn a_chase_that_ends_elsewhere_fails_its_check() {
        let mut chained = Chained::new(1 << 16, Pages::Small, 64, 3).unwrap();
        let bytes = chained.build(Order::PageRandom, 10 * 64).unwrap();
        let chase = SharedChase::new(chained.buffer.clone(), bytes / 8, 64).unwrap();
        let end = chase.chase(0, 1234);
        assert_eq!(check(&chase, 10, 0, end, 1234), Check::Passed);
        assert!(matches!(check(&chase, 10, 0, end, 1235), Check::Failed(_)));
        assert!(matches!(check(&chase, 9, 0, end, 1234), Check::Failed(_)));
    }

    #[test]
    fn a_buffer_changes_between_orders_and_back() {
        let mut chained = Chained::new(1 << 16, Pages::Small, 64, 3).unwrap();
        for order in [Order::PageRandom, Order::PageLocal, Order::PageRandom] {
            for bytes in [8192, 32_768] {
                assert_eq!(chained.build(order, bytes).unwrap() as u64, bytes);
                let chase = SharedChase::new(chained.buffer.clone(), bytes as usize / 8, 64).unwrap();
                let end = chase.chase(0, bytes / 64);
                assert_eq!(check(&chase, bytes / 64, 0, end, bytes / 64), Check::Passed);
            }
        }
    }

    #[test]
    fn every_chain_that_verify_tries_is_right() {
        let cases = crate::verified::verify_on_cpu(&crate::latency::SPEC);
        assert!(cases >= 26);
    }
}
