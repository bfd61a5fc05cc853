//! What hardware counters say beside the times: the figures' names and units on every backend, and whether they agree
//! with the bytes that the algorithm must move. How counters are read is a backend's business.

use std::collections::BTreeMap;

use crate::sample::Work;
use crate::series::{Metric, Quantity, metric};
use crate::unit::Unit;

/// Bytes that came from memory, per launch.
pub const DRAM_READ: &str = "DRAM read";
/// Bytes that went to memory, per launch.
pub const DRAM_WRITTEN: &str = "DRAM written";
/// Sectors of 32 bytes looked up in the first-level caches, per launch.
pub const L1_SECTORS: &str = "L1 sectors";
/// Share of them that was there, 0…1.
pub const L1_HITS: &str = "L1 hit rate";
/// Sectors that the multiprocessors read from the second-level cache, per launch.
pub const L2_READ: &str = "L2 sectors read";
/// Sectors that they wrote to it, per launch.
pub const L2_WRITTEN: &str = "L2 sectors written";
/// Share of the multiprocessors' requests to it that hit, 0…1. A request asks for up to four sectors of one line, so this is
/// no share of [`L2_READ`] and [`L2_WRITTEN`].
pub const L2_HITS: &str = "L2 hit rate";
/// Sectors that crossed from one partition of the second-level cache to another, per launch.
pub const L2_CROSSED: &str = "L2 sectors crossed";
/// Instructions that warps executed, per launch.
pub const INSTRUCTIONS: &str = "warp instructions";

/// Relative difference between counted and necessary bytes from which on a figure is flagged.
const DISAGREES: f64 = 0.05;

/// The metrics that counters add to every series.
#[must_use]
pub fn metrics() -> Vec<Metric> {
    let extra = |name, unit| metric(name, unit, Quantity::Extra);
    let mut metrics = vec![extra(DRAM_READ, Unit::Byte), extra(DRAM_WRITTEN, Unit::Byte)];
    let rest = [L1_SECTORS, L1_HITS, L2_READ, L2_WRITTEN, L2_HITS, L2_CROSSED, INSTRUCTIONS];
    metrics.extend(rest.map(|name| extra(name, Unit::One)));
    metrics
}

/// Whether memory moved over 5 % more or less than the algorithm must. Says something only of launches whose data were
/// in no cache; false where nothing was counted or nothing is moved.
#[must_use]
pub fn disagrees(counted: &BTreeMap<String, f64>, work: &Work) -> bool {
    let necessary = work.traffic.total() as f64;
    match (counted.get(DRAM_READ), counted.get(DRAM_WRITTEN)) {
        (Some(read), Some(written)) if necessary > 0.0 => (read + written - necessary).abs() > DISAGREES * necessary,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Traffic;

    #[test]
    fn five_per_cent_more_or_less_than_the_algorithm_s_bytes_disagree() {
        let work = Work { traffic: Traffic { read: 600, written: 400 }, ..Work::default() };
        let counted = |read: f64, written: f64| {
            BTreeMap::from([(DRAM_READ.to_owned(), read), (DRAM_WRITTEN.to_owned(), written)])
        };
        assert!(!disagrees(&counted(640.0, 400.0), &work));
        assert!(disagrees(&counted(660.0, 400.0), &work));
        assert!(disagrees(&counted(540.0, 400.0), &work));
        assert!(!disagrees(&BTreeMap::new(), &work));
        assert!(!disagrees(&counted(1.0, 1.0), &Work::default()));
    }
}
