//! The prediction: every term by itself, the sum with its interval, what limits, and what is not known.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::describe::{Cache, Description, Pipe};
use super::machine::{Key, Level, Machine, Mix, Side};
use super::{EXPONENT, LAUNCH_CYCLES};
use crate::Traffic;
use crate::stats::Interval;

/// Seconds with the interval that the machine's figures leave open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// From the figures themselves.
    pub value: f64,
    /// From the ends of their intervals, all fast and all slow.
    pub interval: Interval,
}

/// What a part of the time is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// From one kernel to the next, with one round trip to the second level.
    Launch,
    /// What launch and round trip take longer because the data is in memory.
    Latency,
    /// What the last round trip takes longer because memory is busy.
    Tail,
    /// One warp's code beyond that of the kernel by which launches are measured: the last one has nobody to wait behind.
    Serial,
    /// Bytes through the second level.
    L2,
    /// Bytes through memory.
    Memory,
    /// Loads that wait because no more fit into flight.
    InFlight,
    /// Bytes of the multiprocessor that has most of them.
    Busiest,
    /// Blocks that wait to be begun.
    Dispatch,
    /// Instructions that wait for their pipe.
    Pipe(Pipe),
}

impl Kind {
    /// True of what runs at the same time as others: of these the longest decides, the others are added one by one.
    #[must_use]
    pub fn overlaps(self) -> bool {
        !matches!(self, Self::Launch | Self::Latency | Self::Tail | Self::Serial)
    }

    /// True of what the bytes take by themselves, however they are moved.
    #[must_use]
    pub fn is_of_bytes(self) -> bool {
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
    /// What it is for.
    pub kind: Kind,
    /// How long it takes by itself.
    pub seconds: Estimate,
}

/// A part that could not be computed, and the figure that it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Missing {
    /// What could not be computed.
    pub kind: Kind,
    /// The machine's figure that isn't known.
    pub key: Key,
}

/// How much longer than its bytes a launch has to take for something else to be called what limits it.
pub const BEYOND: f64 = 1.03;

/// What a launch should cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Each part, in the order of [`Kind`]; parts of nothing are left out.
    pub parts: Vec<Part>,
    /// All together; `None` where the launch itself or the bytes could not be computed. Where anything else is missing, the
    /// launch takes at least this.
    pub total: Option<Estimate>,
    /// What keeps it from being shorter: the launch where what comes before and after takes longer than what runs at the same
    /// time. Else the bytes, which must move in any case, where all takes less than [`BEYOND`] times as long as they do by
    /// themselves, and otherwise the greatest of the other terms.
    pub limiter: Option<Kind>,
    /// What could not be computed.
    pub missing: Vec<Missing>,
}

impl Prediction {
    /// The part for this, if there is one.
    #[must_use]
    pub fn part(&self, kind: Kind) -> Option<&Part> {
        self.parts.iter().find(|part| part.kind == kind)
    }

    /// Seconds that it would take without some of its parts; `None` where there is no total.
    #[must_use]
    pub fn without(&self, gone: impl Fn(Kind) -> bool) -> Option<f64> {
        self.total?;
        let parts: Vec<(Kind, f64)> = self.parts.iter().map(|part| (part.kind, part.seconds.value)).collect();
        Some(apart(&parts, |kind| !gone(kind)) + together(&parts, |kind| !gone(kind)))
    }
}

/// Of what runs at the same time: the power mean, which is at least the greatest.
fn together(parts: &[(Kind, f64)], of: impl Fn(Kind) -> bool) -> f64 {
    let times = || parts.iter().filter(|(kind, _)| kind.overlaps() && of(*kind)).map(|(_, seconds)| *seconds);
    let greatest = times().fold(0.0, f64::max);
    if greatest == 0.0 {
        return 0.0;
    }
    let sum: f64 = times().map(|seconds| (seconds / greatest).powf(EXPONENT)).sum();
    greatest * sum.powf(1.0 / EXPONENT)
}

/// Of what is added.
fn apart(parts: &[(Kind, f64)], of: impl Fn(Kind) -> bool) -> f64 {
    parts.iter().filter(|(kind, _)| !kind.overlaps() && of(*kind)).map(|(_, seconds)| seconds).sum()
}

/// Predicts the time of a launch. Nothing is guessed: a term whose figure isn't known is left out and named.
#[must_use]
pub fn predict(description: &Description, machine: &Machine) -> Prediction {
    let point = Sum::of(description, machine, Side::Point);
    let [fast, slow] = [Side::Fast, Side::Slow].map(|side| Sum::of(description, machine, side));
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

/// The parts with all figures at one end of their intervals.
struct Sum<'a> {
    description: &'a Description,
    machine: &'a Machine,
    side: Side,
    parts: Vec<(Kind, f64)>,
    missing: Vec<Missing>,
}

impl<'a> Sum<'a> {
    fn of(description: &'a Description, machine: &'a Machine, side: Side) -> Self {
        let mut sum = Self { description, machine, side, parts: Vec::new(), missing: Vec::new() };
        if let Some(launch) = sum.know(Kind::Launch, Key::Launch(description.launch)) {
            sum.parts.push((Kind::Launch, launch));
        }
        if description.blocks > 0 {
            let misses = sum.misses();
            sum.latency(misses);
            sum.bandwidth(misses);
            sum.in_flight(misses);
            sum.multiprocessors();
        }
        sum.missing.sort_unstable();
        sum.missing.dedup();
        sum
    }

    /// A figure; where it isn't known, that is noted.
    fn know(&mut self, kind: Kind, key: Key) -> Option<f64> {
        let value = self.machine.value(key, self.side);
        if value.is_none() {
            self.missing.push(Missing { kind, key });
        }
        value
    }

    /// The share of the bytes that the second level doesn't hold, 0 to 1.
    fn misses(&mut self) -> f64 {
        if self.description.cache == Cache::Cold || self.description.traffic.total() == 0 {
            return 1.0;
        }
        let footprint = self.description.footprint as f64;
        let capacity = self.know(Kind::Memory, Key::L2Capacity);
        // Where only the capacity is known, the step is as sharp as that figure.
        let full = self.machine.value(Key::L2Full, self.side).or(capacity);
        match (full, capacity) {
            (Some(full), _) if footprint <= full => 0.0,
            (Some(full), Some(capacity)) if footprint < capacity => (footprint - full) / (capacity - full),
            _ => 1.0,
        }
    }

    /// The round trip to memory instead of the second level, idle and then loaded.
    fn latency(&mut self, misses: f64) {
        if misses == 0.0 || self.description.traffic.read == 0 || self.description.prefetched {
            return;
        }
        let known = |key| self.machine.value(key, Side::Point);
        let form = self.description.launch;
        if let (Some(hot), Some(cold)) =
            (known(Key::Launch(form)), self.machine.value(Key::ColdLaunch(form), self.side))
        {
            // Measured with launches one behind the other, so with whatever the last round trip takes longer.
            self.parts.push((Kind::Latency, misses * (cold - hot).max(0.0)));
            return;
        }
        let Some(idle) = self.know(Kind::Latency, Key::Latency(Level::Memory)) else { return };
        // The launch holds a round trip already, with whatever it truly is: the figure's own interval is no matter here.
        match self.machine.value(Key::Latency(Level::L2), Side::Point) {
            Some(near) => self.parts.push((Kind::Latency, misses * (idle - near).max(0.0))),
            None => self.missing.push(Missing { kind: Kind::Latency, key: Key::Latency(Level::L2) }),
        }
        if let Some(loaded) = self.loaded(idle) {
            self.parts.push((Kind::Tail, misses * (loaded - idle).max(0.0)));
        }
    }

    /// Latency at the load that this launch puts on memory: all that it can have in flight against what memory moves in
    /// that time. Between idle, half and full load the latency goes in straight lines.
    fn loaded(&mut self, idle: f64) -> Option<f64> {
        let full = self.know(Kind::Tail, Key::LatencyFull)?;
        let half = self.machine.value(Key::LatencyHalf, self.side).unwrap_or((idle + full) / 2.0);
        let multiprocessors = self.know(Kind::Tail, Key::Multiprocessors)?;
        let traffic = self.description.traffic;
        let seconds = self.machine.seconds(Level::Memory, traffic, self.side)?;
        let flight = self.description.room(multiprocessors).min(traffic.read as f64);
        let load = (flight / (traffic.read as f64 / seconds * full)).min(1.0);
        Some(if load < 0.5 { idle + (half - idle) * load * 2.0 } else { half + (full - half) * (load * 2.0 - 1.0) })
    }

    fn bandwidth(&mut self, misses: f64) {
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
                // What all comes from memory is bound by it, whatever the second level can do.
                None if level == Level::L2 && misses == 1.0 => {
                    self.missing.push(Missing { kind: Kind::InFlight, key: Key::Bandwidth(level, mix(traffic)) });
                }
                None => self.missing.push(Missing { kind, key: Key::Bandwidth(level, mix(traffic)) }),
            }
        }
    }

    /// Loads wait for those before them: a multiprocessor full of loads takes a latency for each filling.
    fn in_flight(&mut self, misses: f64) {
        let read = self.description.traffic.read as f64;
        if read == 0.0 {
            return;
        }
        let key = if misses > 0.5 { Key::LatencyFull } else { Key::Latency(Level::L2) };
        let (Some(latency), Some(multiprocessors)) =
            (self.know(Kind::InFlight, key), self.know(Kind::InFlight, Key::Multiprocessors))
        else {
            return;
        };
        let room = self.description.room(multiprocessors);
        if room > 0.0 {
            self.parts.push((Kind::InFlight, read * latency / room));
        }
    }

    /// What every block costs its multiprocessor, and the device that hands it out.
    fn multiprocessors(&mut self) {
        let description = self.description;
        let bytes = description.traffic.total() as f64;
        let Some(count) = self.know(Kind::Busiest, Key::Multiprocessors) else { return };
        let share = description.busiest_share(count);
        if bytes > 0.0
            && let Some(bandwidth) = self.know(Kind::Busiest, Key::OneMultiprocessor)
        {
            self.parts.push((Kind::Busiest, bytes * share / bandwidth));
        }
        let clock = self.know(Kind::Dispatch, Key::Clock);
        let rate = self.know(Kind::Dispatch, Key::BlocksPerClock);
        let Some(clock) = clock else { return };
        if let Some(rate) = rate {
            self.parts.push((Kind::Dispatch, (description.blocks + description.signals) as f64 / (rate * clock)));
        }
        self.parts.push((Kind::Serial, (description.serial_cycles - LAUNCH_CYCLES).max(0.0) / clock));
        for (pipe, instructions) in &description.instructions {
            let kind = Kind::Pipe(*pipe);
            if *instructions > 0.0
                && let Some(rate) = self.know(kind, Key::Rate(*pipe))
            {
                self.parts.push((kind, instructions * share / (rate * clock)));
            }
        }
    }

    fn part(&self, kind: Kind) -> f64 {
        self.parts.iter().filter(|(of, _)| *of == kind).map(|(_, seconds)| seconds).sum()
    }

    fn total(&self) -> f64 {
        apart(&self.parts, |_| true) + together(&self.parts, |_| true)
    }

    fn limiter(&self) -> Option<Kind> {
        let greatest = |of: &dyn Fn(Kind) -> bool| {
            let parts = self.parts.iter().filter(|(kind, _)| kind.overlaps() && of(*kind));
            parts.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(kind, _)| *kind)
        };
        let all = together(&self.parts, |_| true);
        if all == 0.0 || all < apart(&self.parts, |_| true) {
            return self.parts.iter().any(|(kind, _)| *kind == Kind::Launch).then_some(Kind::Launch);
        }
        if all > BEYOND * together(&self.parts, Kind::is_of_bytes) {
            return greatest(&|kind| !kind.is_of_bytes());
        }
        greatest(&|_| true)
    }
}

/// The traffic's mix, as far as its parts fit; else the nearest of a hundred parts.
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
