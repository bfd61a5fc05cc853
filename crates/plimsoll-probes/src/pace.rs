//! Samples of a chosen length: so many launches that a device stays busy for seconds, whatever one launch takes.

use plimsoll_core::Fault;

/// Longest part of a sample, seconds: waits for a device have deadlines.
const LONGEST_PART: f64 = 1.0;

/// How a sample is made of launches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Length of a sample, seconds.
    length: f64,
    /// Seconds of a tick.
    tick: f64,
    /// Launches of a part, and parts of a sample.
    launches: u32,
    parts: u32,
    is_planned: bool,
}

impl Pace {
    /// Samples of `length` seconds by a clock whose ticks take `tick` seconds. The first has a single launch, by which the others are
    /// planned.
    pub(crate) fn new(length: f64, tick: f64) -> Self {
        Self { length, tick, launches: 1, parts: 1, is_planned: false }
    }

    /// Whether samples have their length already.
    #[cfg(feature = "gpu")]
    pub(crate) fn is_planned(self) -> bool {
        self.is_planned
    }

    /// Takes a sample. `part` makes so many launches, at most `most`, and returns their ticks. Returns the ticks of one launch.
    pub(crate) fn sample(&mut self, most: u32, mut part: impl FnMut(u32) -> Result<u64, Fault>) -> Result<u64, Fault> {
        let mut ticks = 0;
        for _ in 0..self.parts {
            ticks += part(self.launches)?;
        }
        let one = (ticks / u64::from(self.launches) / u64::from(self.parts)).max(1);
        if !self.is_planned {
            self.is_planned = true;
            self.parts = (self.length / LONGEST_PART).ceil().max(1.0) as u32;
            let launches = self.length / f64::from(self.parts) / (one as f64 * self.tick);
            self.launches = launches.clamp(1.0, f64::from(most.max(1))) as u32;
        }
        Ok(one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_as_long_as_planned_and_their_parts_at_most_a_second() {
        for (length, launches) in [(0.025, 25), (1.0, 1000), (12.0, 12_000), (1e-4, 1)] {
            let mut pace = Pace::new(length, 1e-9);
            let mut made = Vec::new();
            // Each launch takes a millisecond.
            let mut sample = || {
                made.clear();
                let one = pace.sample(8192, |launches| {
                    Ok(u64::from({
                        made.push(launches);
                        launches
                    }) * 1_000_000)
                });
                (one.unwrap(), made.iter().sum::<u32>(), made.iter().copied().max().unwrap())
            };
            assert_eq!(sample(), (1_000_000, 1, 1));
            let (one, all, longest) = sample();
            assert!(one == 1_000_000 && all == launches && longest <= 1000, "{length}: {all} {longest}");
        }
    }
}
