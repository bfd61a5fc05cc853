//! A machine as the model knows it: figures with intervals, each with its source, under names of what they are.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::describe::{LaunchForm, Pipe};
use crate::Traffic;
use crate::stats::Interval;

/// A level that data comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The cache that all multiprocessors share.
    L2,
    /// The device's memory.
    Memory,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::L2 => "L2",
            Self::Memory => "memory",
        })
    }
}

/// Bytes read to bytes written, in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Mix {
    /// Parts read.
    pub read: u32,
    /// Parts written.
    pub written: u32,
}

impl Mix {
    /// The share of bytes that are written, 0 to 1.
    #[must_use]
    pub fn written_share(self) -> f64 {
        match self.read + self.written {
            0 => 0.0,
            all => f64::from(self.written) / f64::from(all),
        }
    }
}

/// What a figure of a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// Multiprocessors.
    Multiprocessors,
    /// Clock of the multiprocessors under load, Hz.
    Clock,
    /// From one kernel that moves next to nothing, in the second level, to the next, s.
    Launch(LaunchForm),
    /// The same where the kernel's data is in memory, and with it whatever else other data has driven out of the second level, s.
    ColdLaunch(LaunchForm),
    /// Time from a load to its data on an idle device, s.
    Latency(Level),
    /// The same beside reads at half of what memory moves, s.
    LatencyHalf,
    /// The same beside reads at all that memory moves, s.
    LatencyFull,
    /// Bytes per second of a level at a mix of reads and writes, all counted.
    Bandwidth(Level, Mix),
    /// Bytes per second of one multiprocessor alone.
    OneMultiprocessor,
    /// Blocks begun per clock.
    BlocksPerClock,
    /// Warp instructions per clock and multiprocessor.
    Rate(Pipe),
    /// Largest footprint that the second level serves at its full rate, bytes.
    L2Full,
    /// Footprint from which the second level serves nothing of a walk that repeats, bytes.
    L2Capacity,
}

impl Key {
    /// True where more of it means that a launch takes longer.
    #[must_use]
    pub(super) fn slows(self) -> bool {
        matches!(self, Self::Launch(_) | Self::ColdLaunch(_) | Self::Latency(_) | Self::LatencyHalf | Self::LatencyFull)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Multiprocessors => f.write_str("number of multiprocessors"),
            Self::Clock => f.write_str("clock"),
            Self::Launch(form) => write!(f, "launch ({form})"),
            Self::ColdLaunch(form) => write!(f, "launch ({form}), cold"),
            Self::Latency(level) => write!(f, "latency of {level}, idle"),
            Self::LatencyHalf => f.write_str("latency of memory, half loaded"),
            Self::LatencyFull => f.write_str("latency of memory, fully loaded"),
            Self::Bandwidth(level, mix) => write!(f, "bandwidth of {level} at {}:{}", mix.read, mix.written),
            Self::OneMultiprocessor => f.write_str("bandwidth of one multiprocessor"),
            Self::BlocksPerClock => f.write_str("blocks dispatched per clock"),
            Self::Rate(pipe) => write!(f, "{pipe} rate"),
            Self::L2Full => f.write_str("footprint that L2 serves at its full rate"),
            Self::L2Capacity => f.write_str("capacity of L2"),
        }
    }
}

/// One figure, in the unit that its [`Key`] states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// The figure.
    pub value: f64,
    /// Where it may lie; it contains the value.
    pub interval: Interval,
    /// The finding or the document that it comes from, in words.
    pub source: String,
    /// True of a figure that was not measured on this machine by this tool.
    pub published: bool,
}

impl Term {
    /// A figure that is exact.
    #[must_use]
    pub fn exact(value: f64, source: &str) -> Self {
        Self { value, interval: Interval { lo: value, hi: value }, source: source.to_owned(), published: false }
    }
}

/// Which end of the intervals is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Point,
    Fast,
    Slow,
}

/// All that the model knows of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// As the catalogue or its driver calls it.
    pub name: String,
    /// What is known.
    pub terms: BTreeMap<Key, Term>,
}

impl Machine {
    /// A machine of which nothing is known.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), terms: BTreeMap::new() }
    }

    /// Keeps a figure, unless one of that name is known or it is no positive number within its interval.
    pub fn know(&mut self, key: Key, term: Term) {
        let Interval { lo, hi } = term.interval;
        if lo.is_finite() && hi.is_finite() && term.value > 0.0 && lo <= term.value && term.value <= hi {
            self.terms.entry(key).or_insert(term);
        }
    }

    /// Keeps a figure as [`Machine::know`] does, but where one of that name is known the greater of the two stays: a ceiling is what the
    /// best kernel reached. What was measured comes before what was published.
    pub fn know_best(&mut self, key: Key, term: Term) {
        if self.terms.get(&key).is_some_and(|known| !term.published && (known.published || known.value < term.value)) {
            self.terms.remove(&key);
        }
        self.know(key, term);
    }

    /// Takes what another machine of the same model knows and this one doesn't; its source says so. The keys that were taken.
    pub fn complete(&mut self, other: &Self) -> Vec<Key> {
        let lacking = other.terms.iter().filter(|(key, _)| !self.terms.contains_key(key));
        let taken: Vec<(Key, Term)> = lacking.map(|(key, term)| (*key, term.clone())).collect();
        for (key, term) in &taken {
            let source = format!("of such devices: {}", term.source);
            self.know(*key, Term { source, published: true, ..term.clone() });
        }
        taken.into_iter().map(|(key, _)| key).collect()
    }

    /// True where some figure was not measured on this machine by this tool.
    #[must_use]
    pub fn published(&self) -> bool {
        self.terms.values().any(|term| term.published)
    }

    pub(super) fn value(&self, key: Key, side: Side) -> Option<f64> {
        let term = self.terms.get(&key)?;
        Some(match (side, key.slows()) {
            (Side::Point, _) => term.value,
            // An interval that reaches zero or below would make a rate nothing: a hundredth of the figure is the least.
            (Side::Fast, true) | (Side::Slow, false) => term.interval.lo.max(term.value / 100.0),
            (Side::Fast, false) | (Side::Slow, true) => term.interval.hi,
        })
    }

    /// Seconds that a level takes for the traffic at its own mix: between the two known mixes nearest to it, time per byte is
    /// a straight line over the share written; beyond the outermost, theirs holds. `None` where no mix is known.
    pub(super) fn seconds(&self, level: Level, traffic: Traffic, side: Side) -> Option<f64> {
        let bytes = traffic.total() as f64;
        if bytes == 0.0 {
            return Some(0.0);
        }
        let share = traffic.written as f64 / bytes;
        let known = || {
            self.terms.keys().filter_map(|key| match *key {
                Key::Bandwidth(of, mix) if of == level => Some((mix.written_share(), 1.0 / self.value(*key, side)?)),
                _ => None,
            })
        };
        let below = known().filter(|(at, _)| *at <= share).max_by(|a, b| a.0.total_cmp(&b.0));
        let above = known().filter(|(at, _)| *at >= share).min_by(|a, b| a.0.total_cmp(&b.0));
        let per_byte = match (below, above) {
            (Some((from, low)), Some((to, high))) if to > from => low + (high - low) * (share - from) / (to - from),
            (Some((_, one)), _) | (None, Some((_, one))) => one,
            (None, None) => return None,
        };
        Some(bytes * per_byte)
    }
}
