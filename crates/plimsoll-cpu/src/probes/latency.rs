//! latency on the CPU: one core follows a chain through buffers of every size, in huge and in small pages.
//!
//! The first sweep is coarse; a second one measures between the neighbours of every knee that it shows, in huge pages,
//! where capacities aren't blurred by translation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use plimsoll_core::Fault;
use plimsoll_core::flag::{Flag, Flags};
use plimsoll_core::probe::{Case, Depth, Probe, ProbeSpec, Request, Session, Sweep};
use plimsoll_core::sample::{Batch, Check, Effort, Work};
use plimsoll_core::series::{Series, Value};
use plimsoll_suite::probes::latency::{self, SPEC};
use plimsoll_suite::probes::levels;

use super::chain::{Chain, Order, PAGE_BYTES};
use super::{Lap, TeamLoad, team};
use crate::arch::chase::SharedChase;
use crate::memory::{Buffer, Pages, free_bytes};
use crate::threads::Task;
use crate::{Cpu, CpuDevice};

/// The probe.
pub struct Latency;

/// The smallest footprint, bytes.
const LEAST: u64 = 2 << 10;
/// The smallest footprint in small pages, bytes: below it no TLB is too small.
const LEAST_SMALL: u64 = 32 << 10;
/// The largest footprint that a probe takes on its own, bytes.
const LARGEST: u64 = 2 << 30;
/// Memory of all buffers together, as a share of what is free.
const SHARE_OF_FREE: f64 = 0.4;
/// Hops of one launch, about: some 10 µs in the first cache, a millisecond from memory.
const HOPS: u64 = 8192;
/// How long a chase goes on before it is timed, where a whole cycle takes longer.
const WARM_UP: Duration = Duration::from_millis(40);
/// Lines of the longest cycle that is followed once more when it has been timed.
const CHECKED_LINES: u64 = 1 << 16;
/// Neighbours of a knee are measured until they are this near each other.
const RESOLUTION: f64 = 1.05;
/// Points added at each knee.
const PER_KNEE: usize = 5;
/// Share of the budget for the coarse sweep.
const COARSE: f64 = 0.8;

/// What is measured at one footprint.
#[derive(Clone, Copy, Debug, PartialEq)]
struct At {
    pages: Pages,
    order: Order,
    bytes: u64,
}

impl At {
    fn coordinates(&self) -> Vec<Value> {
        let pages = match self.pages {
            Pages::Huge => "huge",
            Pages::Small => "small",
        };
        vec![pages.into(), self.order.name().into(), self.bytes.into()]
    }
}

impl Probe<Cpu> for Latency {
    fn spec(&self) -> &'static ProbeSpec {
        &SPEC
    }

    fn supports(&self, _: &CpuDevice) -> Result<(), Fault> {
        Ok(())
    }

    fn points(&self, device: &CpuDevice, request: &Request) -> usize {
        let (largest, _) = largest(device, request);
        plan(largest, request.effort, line(device)).len() + 3 * PER_KNEE
    }

    fn run(&self, session: &mut Session<'_, Cpu>) -> Result<(), Fault> {
        let (largest, flags) = largest(session.device, session.request);
        if largest < LEAST {
            let free = free_bytes().unwrap_or(0);
            return Err(Fault::OutOfMemory { asked: LEAST, free });
        }
        let line = line(session.device);
        let points = plan(largest, session.request.effort, line);
        let mut ground = Ground::new(session, largest, line)?;
        let team = team(session, 1)?;
        let load = |ground: &mut Ground, at: &At| {
            let (task, work, check) = ground.chase(at)?;
            Ok(TeamLoad { team: team.clone(), task, work, lap: Lap::First, batch: Batch::default(), check })
        };
        let sweep = Sweep { series: latency::chase(), points: &points, share: COARSE, flags };
        let series = session.sweep(sweep, At::coordinates, |_, at| load(&mut ground, at))?;
        let points = knees(series, line);
        if points.is_empty() {
            return Ok(());
        }
        let sweep = Sweep { series: latency::knees(), points: &points, share: 1.0 - COARSE, flags };
        session.sweep(sweep, At::coordinates, |_, at| load(&mut ground, at)).map(drop)
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
                    kernel: format!("chase {}", order.name()),
                    on: format!("{} lines", bytes / line),
                    wrong: wrong(buffer, bytes, line),
                });
            }
        }
        Ok(())
    }
}

/// What a naive walk of a chain has against it, and against the chase of it.
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
            ends => format!("the chase ended at bytes {ends:?}, the walk at 0 and {expected}"),
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
        Effort::Quick => (4 * last_level).clamp(256 << 20, LARGEST),
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

/// The coarse sweep.
fn plan(largest: u64, effort: Effort, line: usize) -> Vec<At> {
    use Order::{PageLocal, PageRandom};
    use Pages::{Huge, Small};
    let curves: &[(Pages, Order, u64, u32)] = match effort {
        Effort::Quick => {
            &[(Huge, PageRandom, LEAST, 3), (Small, PageRandom, LEAST_SMALL, 2), (Small, PageLocal, LEAST_SMALL, 1)]
        }
        _ => &[
            (Huge, PageRandom, LEAST, 4),
            (Small, PageRandom, LEAST_SMALL, 4),
            (Small, PageLocal, LEAST_SMALL, 2),
            (Huge, PageLocal, LEAST_SMALL, 2),
        ],
    };
    let mut points = Vec::new();
    for &(pages, order, least, per_octave) in curves {
        let grain = if order == PageLocal { PAGE_BYTES } else { line };
        for bytes in footprints(least, largest, per_octave, grain as u64) {
            points.push(At { pages, order, bytes });
        }
    }
    points
}

/// From `least` to `largest` inclusive, so many per octave, in whole grains.
fn footprints(least: u64, largest: u64, per_octave: u32, grain: u64) -> Vec<u64> {
    let octaves = (largest as f64 / least as f64).log2().max(0.0);
    let steps = (octaves * f64::from(per_octave)).floor() as i32;
    let step = |i: i32| least as f64 * (f64::from(i) / f64::from(per_octave)).exp2();
    let mut footprints: Vec<u64> = (0..=steps).map(|i| round(step(i), grain)).collect();
    footprints.push(round(largest as f64, grain));
    footprints.retain(|&bytes| bytes <= largest.max(grain));
    footprints.sort_unstable();
    footprints.dedup();
    footprints
}

fn round(bytes: f64, grain: u64) -> u64 {
    ((bytes / grain as f64).round() as u64).max(1) * grain
}

/// What the refinement measures: between the neighbours of every knee of the curve in huge pages.
fn knees(series: &Series, line: usize) -> Vec<At> {
    let curve = latency::curve(std::slice::from_ref(series), "huge", Order::PageRandom.name());
    let found = levels::levels(&curve, latency::TOLERANCE);
    let more = levels::refinement(&found, RESOLUTION, PER_KNEE);
    let at = |bytes: f64| At { pages: Pages::Huge, order: Order::PageRandom, bytes: round(bytes, line as u64) };
    more.into_iter().map(at).collect()
}

/// The buffers of a run.
struct Ground {
    huge: Chained,
    small: Chained,
    /// Larger than the last cache: what was cached before it was read isn't any more.
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

impl Ground {
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

    /// One core's chase at a point: what a launch runs, what it does, and the check of it.
    fn chase(&mut self, at: &At) -> Result<(Task, Work, Box<dyn FnMut() -> Check>), Fault> {
        let chained = match at.pages {
            Pages::Huge => &mut self.huge,
            Pages::Small => &mut self.small,
        };
        let bytes = chained.build(at.order, at.bytes)?;
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

    /// Makes the first `bytes` one cycle, and returns how many they really are.
    fn build(&mut self, order: Order, bytes: u64) -> Result<usize, Fault> {
        let shared = || Fault::Invalid("the chain of an earlier point is still in use".to_owned());
        let buffer = Arc::get_mut(&mut self.buffer).ok_or_else(shared)?;
        let chain = match order {
            Order::PageRandom => &mut self.random,
            Order::PageLocal => &mut self.local,
        };
        if order != self.holds {
            chain.clear();
            self.holds = order;
        }
        Ok(chain.grow(buffer, bytes as usize))
    }
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

/// Whether `hops` hops from `start` lead to `end`, in a cycle of `lines`. Of long cycles, only that they weren't left or
/// closed early: walking them again would take longer than measuring them did.
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
            let all = footprints(2048, (1 << 20) + 8192, per_octave, grain);
            assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(all.iter().all(|bytes| bytes % grain == 0));
            assert_eq!(all.last(), Some(&((1 << 20) + 8192)));
        }
        assert_eq!(footprints(2048, 100, 3, 64), Vec::<u64>::new());
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
        let mut bench = crate::open().unwrap();
        let mut cases = 0;
        plimsoll_core::probe::Instrument::verify(&mut bench, SPEC.name, Depth::Small, &mut |case| {
            assert_eq!(case.wrong, "", "{} {}", case.kernel, case.on);
            cases += 1;
        })
        .unwrap();
        assert!(cases >= 26);
    }
}
