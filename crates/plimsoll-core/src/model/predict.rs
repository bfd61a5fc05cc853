//! The prediction: each term, the total with its interval, the limiter, and the missing figures.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::describe::{Cache, Description, Pipe};
use super::machine::{Key, Level, Machine, Mix, Side};
use super::{EXPONENT, LAUNCH_CYCLES};
use crate::Traffic;
use crate::stats::Interval;

/// Seconds, with the interval that follows from the intervals of the machine's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Computed from the figures' values.
    pub value: f64,
    /// Computed from the fast ends and the slow ends of all their intervals.
    pub interval: Interval,
}

/// The cause of a part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// From one kernel to the next, including one round trip to L2.
    Launch,
    /// The additional time of launch and round trip when the data is in memory.
    Latency,
    /// The additional time of the last round trip when memory is busy.
    Tail,
    /// The code of the last warp, which overlaps with nothing, beyond that of the kernel that launches are measured with.
    Serial,
    /// Bytes through L2.
    L2,
    /// Bytes through memory.
    Memory,
    /// Loads that wait because the limit of loads in flight is reached.
    InFlight,
    /// Bytes of the SM that moves the most.
    Busiest,
    /// Blocks that wait to be started.
    Dispatch,
    /// Instructions that wait for their pipe.
    Pipe(Pipe),
}

impl Kind {
    /// True for parts that run at the same time as others; of these the longest dominates. The other parts are added.
    #[must_use]
    pub fn overlaps(self) -> bool {
        !matches!(self, Self::Launch | Self::Latency | Self::Tail | Self::Serial)
    }

    /// True for the time that the bytes take, however they are moved.
    #[must_use]
    pub fn is_data_transfer(self) -> bool {
        matches!(self, Self::L2 | Self::Memory)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Launch => "launch",
            Self::Latency => "latency of memory",
            Self::Tail => "tail",
            Self::Serial => "code of one warp",
            Self::L2 => "L2 bandwidth",
            Self::Memory => "memory bandwidth",
            Self::InFlight => "loads in flight",
            Self::Busiest => "busiest multiprocessor",
            Self::Dispatch => "dispatch of blocks",
            Self::Pipe(Pipe::Issue) => "instruction issue",
            Self::Pipe(pipe) => return write!(f, "{pipe} pipe"),
        })
    }
}

/// One part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Its cause.
    pub kind: Kind,
    /// Its duration by itself.
    pub seconds: Estimate,
}

/// A part that could not be computed, and the figure that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Missing {
    /// The part.
    pub kind: Kind,
    /// The unknown figure of the machine.
    pub key: Key,
}

/// If a launch takes at least this factor longer than its bytes alone, something other than the bytes is named the limiter.
pub const LIMITER_MARGIN: f64 = 1.03;

/// The predicted time of a launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The parts in the order of [`Kind`]; parts of zero length are left out.
    pub parts: Vec<Part>,
    /// The total; `None` where the launch itself or the bytes could not be computed. Where anything else is missing, this is
    /// a lower bound.
    pub total: Option<Estimate>,
    /// The limiter: the launch, if the added parts take longer than the overlapping ones. Otherwise the bytes, which must move
    /// in any case, if the overlapping parts together take less than [`LIMITER_MARGIN`] times as long as the bytes alone; else
    /// the longest of the other parts.
    pub limiter: Option<Kind>,
    /// The parts that could not be computed.
    pub missing: Vec<Missing>,
}

impl Prediction {
    /// The part with this cause, if there is one.
    #[must_use]
    pub fn part(&self, kind: Kind) -> Option<&Part> {
        self.parts.iter().find(|part| part.kind == kind)
    }

    /// Seconds that the launch would take without the `omitted` parts; `None` where there is no total.
    #[must_use]
    pub fn without(&self, omitted: impl Fn(Kind) -> bool) -> Option<f64> {
        self.total?;
        let parts: Vec<(Kind, f64)> = self.parts.iter().map(|part| (part.kind, part.seconds.value)).collect();
        Some(sum_added(&parts, |kind| !omitted(kind)) + combine_overlapping(&parts, |kind| !omitted(kind)))
    }
}

/// Combines the overlapping parts by the p-norm, which is at least the greatest of them.
fn combine_overlapping(parts: &[(Kind, f64)], keep: impl Fn(Kind) -> bool) -> f64 {
    let times = || parts.iter().filter(|(kind, _)| kind.overlaps() && keep(*kind)).map(|(_, seconds)| *seconds);
    let greatest = times().fold(0.0, f64::max);
    if greatest == 0.0 {
        return 0.0;
    }
    let sum: f64 = times().map(|seconds| (seconds / greatest).powf(EXPONENT)).sum();
    greatest * sum.powf(1.0 / EXPONENT)
}

/// Sums the parts that don't overlap.
fn sum_added(parts: &[(Kind, f64)], keep: impl Fn(Kind) -> bool) -> f64 {
    parts.iter().filter(|(kind, _)| !kind.overlaps() && keep(*kind)).map(|(_, seconds)| seconds).sum()
}

/// Predicts the time of a launch. Guesses nothing: a term with an unknown figure is left out and listed as missing.
#[must_use]
pub fn predict(description: &Description, machine: &Machine) -> Prediction {
    let point = Sum::new(description, machine, Side::Point);
    let [fast, slow] = [Side::Fast, Side::Slow].map(|side| Sum::new(description, machine, side));
    let estimate = |value: f64, fast: f64, slow: f64| {
        let lo = value.min(fast).min(slow);
        Estimate { value, interval: Interval { lo, hi: value.max(fast).max(slow) } }
    };
    let part = |(kind, value): &(Kind, f64)| {
        let seconds = estimate(*value, fast.part(*kind), slow.part(*kind));
        (seconds.interval.hi > 0.0).then_some(Part { kind: *kind, seconds })
    };
    let essential = |missing: &Missing| matches!(missing.kind, Kind::Launch | Kind::L2 | Kind::Memory);
    let total = (!point.missing.iter().any(essential)).then(|| estimate(point.total(), fast.total(), slow.total()));
    let mut parts: Vec<Part> = point.parts.iter().filter_map(part).collect();
    parts.sort_by_key(|part| part.kind);
    Prediction { parts, total, limiter: point.limiter(), missing: point.missing }
}

/// The parts, with all figures taken at one end of their intervals.
struct Sum<'a> {
    description: &'a Description,
    machine: &'a Machine,
    side: Side,
    parts: Vec<(Kind, f64)>,
    missing: Vec<Missing>,
}

impl<'a> Sum<'a> {
    fn new(description: &'a Description, machine: &'a Machine, side: Side) -> Self {
        let mut sum = Self { description, machine, side, parts: Vec::new(), missing: Vec::new() };
        if let Some(launch) = sum.lookup(Kind::Launch, Key::Launch(description.launch)) {
            sum.parts.push((Kind::Launch, launch));
        }
        if description.blocks > 0 {
            let misses = sum.miss_share();
            sum.add_latency(misses);
            sum.add_bandwidth(misses);
            sum.add_in_flight(misses);
            sum.add_sm_limits();
        }
        sum.missing.sort_unstable();
        sum.missing.dedup();
        sum
    }

    /// Looks up a figure; lists it as missing where it isn't known.
    fn lookup(&mut self, kind: Kind, key: Key) -> Option<f64> {
        let value = self.machine.value(key, self.side);
        if value.is_none() {
            self.missing.push(Missing { kind, key });
        }
        value
    }

    /// The share of the bytes that miss in L2, 0 to 1.
    fn miss_share(&mut self) -> f64 {
        if self.description.cache == Cache::Cold || self.description.traffic.total() == 0 {
            return 1.0;
        }
        let footprint = self.description.footprint as f64;
        let capacity = self.lookup(Kind::Memory, Key::L2Capacity);
        // Where only the capacity is known, the share jumps from 0 to 1 there.
        let full = self.machine.value(Key::L2Full, self.side).or(capacity);
        match (full, capacity) {
            (Some(full), _) if footprint <= full => 0.0,
            (Some(full), Some(capacity)) if footprint < capacity => (footprint - full) / (capacity - full),
            _ => 1.0,
        }
    }

    /// Adds the round trip to memory instead of L2, first idle, then loaded.
    fn add_latency(&mut self, misses: f64) {
        if misses == 0.0 || self.description.traffic.read == 0 || self.description.prefetched {
            return;
        }
        let known = |key| self.machine.value(key, Side::Point);
        let form = self.description.launch;
        if let (Some(hot), Some(cold)) =
            (known(Key::Launch(form)), self.machine.value(Key::ColdLaunch(form), self.side))
        {
            // Measured with back-to-back launches, so it includes the tail.
            self.parts.push((Kind::Latency, misses * (cold - hot).max(0.0)));
            return;
        }
        let Some(idle) = self.lookup(Kind::Latency, Key::Latency(Level::Memory)) else { return };
        // The launch figure already includes the true L2 round trip, so the interval of that latency doesn't matter here.
        match self.machine.value(Key::Latency(Level::L2), Side::Point) {
            Some(l2) => self.parts.push((Kind::Latency, misses * (idle - l2).max(0.0))),
            None => self.missing.push(Missing { kind: Kind::Latency, key: Key::Latency(Level::L2) }),
        }
        if let Some(loaded) = self.loaded_latency(idle) {
            self.parts.push((Kind::Tail, misses * (loaded - idle).max(0.0)));
        }
    }

    /// Memory latency at the load of this launch: the bytes that it can have in flight relative to what memory moves during
    /// one loaded latency. Interpolated linearly between idle, half and full load.
    fn loaded_latency(&mut self, idle: f64) -> Option<f64> {
        let full = self.lookup(Kind::Tail, Key::LatencyFull)?;
        let half = self.machine.value(Key::LatencyHalf, self.side).unwrap_or((idle + full) / 2.0);
        let multiprocessors = self.lookup(Kind::Tail, Key::Multiprocessors)?;
        let traffic = self.description.traffic;
        let seconds = self.machine.seconds(Level::Memory, traffic, self.side)?;
        let in_flight = self.description.max_in_flight(multiprocessors).min(traffic.read as f64);
        let load = (in_flight / (traffic.read as f64 / seconds * full)).min(1.0);
        Some(if load < 0.5 { idle + (half - idle) * load * 2.0 } else { half + (full - half) * (load * 2.0 - 1.0) })
    }

    fn add_bandwidth(&mut self, misses: f64) {
        let traffic = self.description.traffic;
        if traffic.total() == 0 {
            return;
        }
        for (level, kind, share) in [(Level::L2, Kind::L2, 1.0), (Level::Memory, Kind::Memory, misses)] {
            if share == 0.0 {
                continue;
            }
            match self.machine.seconds(level, traffic, self.side) {
                Some(seconds) => self.parts.push((kind, share * seconds)),
                // If all bytes come from memory, L2's bandwidth can't be the limit, so it isn't essential.
                None if level == Level::L2 && misses == 1.0 => {
                    self.missing.push(Missing { kind: Kind::InFlight, key: Key::Bandwidth(level, mix(traffic)) });
                }
                None => self.missing.push(Missing { kind, key: Key::Bandwidth(level, mix(traffic)) }),
            }
        }
    }

    /// Adds the limit of loads in flight: moving as many bytes as can be in flight takes one latency.
    fn add_in_flight(&mut self, misses: f64) {
        let read = self.description.traffic.read as f64;
        if read == 0.0 {
            return;
        }
        let key = if misses > 0.5 { Key::LatencyFull } else { Key::Latency(Level::L2) };
        let (Some(latency), Some(multiprocessors)) =
            (self.lookup(Kind::InFlight, key), self.lookup(Kind::InFlight, Key::Multiprocessors))
        else {
            return;
        };
        let max_in_flight = self.description.max_in_flight(multiprocessors);
        if max_in_flight > 0.0 {
            self.parts.push((Kind::InFlight, read * latency / max_in_flight));
        }
    }

    /// Adds the limits of the busiest SM, of block dispatch and of the pipes.
    fn add_sm_limits(&mut self) {
        let description = self.description;
        let bytes = description.traffic.total() as f64;
        let Some(count) = self.lookup(Kind::Busiest, Key::Multiprocessors) else { return };
        let share = description.busiest_share(count);
        if bytes > 0.0
            && let Some(bandwidth) = self.lookup(Kind::Busiest, Key::OneMultiprocessor)
        {
            self.parts.push((Kind::Busiest, bytes * share / bandwidth));
        }
        let clock = self.lookup(Kind::Dispatch, Key::Clock);
        let rate = self.lookup(Kind::Dispatch, Key::BlocksPerClock);
        let Some(clock) = clock else { return };
        if let Some(rate) = rate {
            self.parts.push((Kind::Dispatch, (description.blocks + description.signals) as f64 / (rate * clock)));
        }
        self.parts.push((Kind::Serial, (description.serial_cycles - LAUNCH_CYCLES).max(0.0) / clock));
        for (pipe, instructions) in &description.instructions {
            let kind = Kind::Pipe(*pipe);
            if *instructions > 0.0
                && let Some(rate) = self.lookup(kind, Key::Rate(*pipe))
            {
                self.parts.push((kind, instructions * share / (rate * clock)));
            }
        }
    }

    fn part(&self, kind: Kind) -> f64 {
        self.parts.iter().filter(|(part, _)| *part == kind).map(|(_, seconds)| seconds).sum()
    }

    fn total(&self) -> f64 {
        sum_added(&self.parts, |_| true) + combine_overlapping(&self.parts, |_| true)
    }

    fn limiter(&self) -> Option<Kind> {
        let longest = |keep: &dyn Fn(Kind) -> bool| {
            let parts = self.parts.iter().filter(|(kind, _)| kind.overlaps() && keep(*kind));
            parts.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(kind, _)| *kind)
        };
        let overlapping = combine_overlapping(&self.parts, |_| true);
        if overlapping == 0.0 || overlapping < sum_added(&self.parts, |_| true) {
            return self.parts.iter().any(|(kind, _)| *kind == Kind::Launch).then_some(Kind::Launch);
        }
        if overlapping > LIMITER_MARGIN * combine_overlapping(&self.parts, Kind::is_data_transfer) {
            return longest(&|kind| !kind.is_data_transfer());
        }
        longest(&|_| true)
    }
}

/// The traffic's mix in lowest terms where its parts are at most 100; otherwise rounded to hundredths.
fn mix(traffic: Traffic) -> Mix {
    let (read, written) = traffic.mix();
    match (u32::try_from(read), u32::try_from(written)) {
        (Ok(read), Ok(written)) if read.max(written) <= 100 => Mix { read, written },
        _ => {
            let share = traffic.written as f64 / traffic.total() as f64;
            let written = (share * 100.0).round() as u32;
            Mix { read: 100 - written, written }
        }
    }
}
