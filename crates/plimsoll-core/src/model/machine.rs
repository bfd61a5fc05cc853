//! A machine as the model knows it: named figures, each with an interval and a source.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::describe::{LaunchForm, Pipe};
use crate::Traffic;
use crate::stats::Interval;

/// A memory level that data comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The cache that all SMs share.
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

/// The name of a machine's figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// Number of SMs.
    Multiprocessors,
    /// Clock of the SMs under load, Hz.
    Clock,
    /// Time from one kernel to the next where each moves next to nothing and its data is in L2, s.
    Launch(LaunchForm),
    /// The same where the kernel's data, and whatever else was evicted from L2 with it, is in memory, s.
    ColdLaunch(LaunchForm),
    /// Load latency on an idle device, s.
    Latency(Level),
    /// Memory latency while other reads draw half of the memory bandwidth, s.
    LatencyHalf,
    /// Memory latency while other reads draw all of the memory bandwidth, s.
    LatencyFull,
    /// Bandwidth of a level at a mix of reads and writes, both counted, B/s.
    Bandwidth(Level, Mix),
    /// Bandwidth of one SM alone, B/s.
    OneMultiprocessor,
    /// Blocks started per clock.
    BlocksPerClock,
    /// Warp instructions per clock and SM.
    Rate(Pipe),
    /// Largest footprint that L2 serves at its full rate, bytes.
    L2Full,
    /// Footprint from which on repeated sweeps over the data find nothing in L2, bytes.
    L2Capacity,
}

impl Key {
    /// True where a larger value means a longer launch.
    #[must_use]
    pub(super) fn is_cost(self) -> bool {
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
    /// The interval that it lies in; contains the value.
    pub interval: Interval,
    /// The finding or document that it comes from, in words.
    pub source: String,
    /// True for a figure that this tool did not measure on this machine.
    pub published: bool,
}

impl Term {
    /// An exact figure.
    #[must_use]
    pub fn exact(value: f64, source: &str) -> Self {
        Self { value, interval: Interval { lo: value, hi: value }, source: source.to_owned(), published: false }
    }
}

/// Which end of the intervals to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Point,
    Fast,
    Slow,
}

/// Everything the model knows about a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// Its name in the catalogue or from its driver.
    pub name: String,
    /// The known figures.
    pub terms: BTreeMap<Key, Term>,
}

impl Machine {
    /// A machine without known figures.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), terms: BTreeMap::new() }
    }

    /// Adds a figure, unless that key already has one or the value isn't a positive number within its interval.
    pub fn insert(&mut self, key: Key, term: Term) {
        let Interval { lo, hi } = term.interval;
        if lo.is_finite() && hi.is_finite() && term.value > 0.0 && lo <= term.value && term.value <= hi {
            self.terms.entry(key).or_insert(term);
        }
    }

    /// Adds a figure like [`Machine::insert`], but where the key already has one, keeps the larger: a ceiling is what the best
    /// kernel reached. Measured figures take precedence over published ones.
    pub fn insert_best(&mut self, key: Key, term: Term) {
        if self.terms.get(&key).is_some_and(|known| !term.published && (known.published || known.value < term.value)) {
            self.terms.remove(&key);
        }
        self.insert(key, term);
    }

    /// Copies the figures that this machine lacks from another machine of the same model, marks their source accordingly, and
    /// returns their keys.
    pub fn fill_gaps_from(&mut self, other: &Self) -> Vec<Key> {
        let lacking = other.terms.iter().filter(|(key, _)| !self.terms.contains_key(key));
        let taken: Vec<(Key, Term)> = lacking.map(|(key, term)| (*key, term.clone())).collect();
        for (key, term) in &taken {
            let source = format!("from another device of this model: {}", term.source);
            self.insert(*key, Term { source, published: true, ..term.clone() });
        }
        taken.into_iter().map(|(key, _)| key).collect()
    }

    /// True where this tool did not measure some figure on this machine.
    #[must_use]
    pub fn has_published_terms(&self) -> bool {
        self.terms.values().any(|term| term.published)
    }

    pub(super) fn value(&self, key: Key, side: Side) -> Option<f64> {
        let term = self.terms.get(&key)?;
        Some(match (side, key.is_cost()) {
            (Side::Point, _) => term.value,
            // At least a hundredth of the figure, because an interval that reaches zero would make a rate zero.
            (Side::Fast, true) | (Side::Slow, false) => term.interval.lo.max(term.value / 100.0),
            (Side::Fast, false) | (Side::Slow, true) => term.interval.hi,
        })
    }

    /// Seconds that a level takes for this traffic. The time per byte is interpolated linearly over the written share between
    /// the two nearest known mixes; outside of these the nearest mix applies. `None` where no mix is known.
    pub(super) fn seconds(&self, level: Level, traffic: Traffic, side: Side) -> Option<f64> {
        let bytes = traffic.total() as f64;
        if bytes == 0.0 {
            return Some(0.0);
        }
        let share = traffic.written as f64 / bytes;
        let known = || {
            self.terms.keys().filter_map(|key| match *key {
                Key::Bandwidth(known, mix) if known == level => {
                    Some((mix.written_share(), 1.0 / self.value(*key, side)?))
                }
                _ => None,
            })
        };
        let below = known().filter(|(at, _)| *at <= share).max_by(|a, b| a.0.total_cmp(&b.0));
        let above = known().filter(|(at, _)| *at >= share).min_by(|a, b| a.0.total_cmp(&b.0));
        let per_byte = match (below, above) {
            (Some((from, low)), Some((to, high))) if to > from => low + (high - low) * (share - from) / (to - from),
            (Some((_, nearest)), _) | (None, Some((_, nearest))) => nearest,
            (None, None) => return None,
        };
        Some(bytes * per_byte)
    }
}
