//! Hardware counters: the names and units of their figures on every backend, and a check against the bytes that the
//! algorithm must move. Each backend reads its own counters.

use std::collections::BTreeMap;

use crate::sample::Work;
use crate::series::{Metric, Quantity, metric};
use crate::unit::Unit;

/// Bytes read from DRAM, per launch.
pub const DRAM_READ: &str = "DRAM read";
/// Bytes written to DRAM, per launch.
pub const DRAM_WRITTEN: &str = "DRAM written";
/// Sectors of 32 bytes looked up in L1, per launch.
pub const L1_SECTORS: &str = "L1 sectors";
/// Share of the L1 sectors that hit, 0…1.
pub const L1_HITS: &str = "L1 hit rate";
/// Sectors that the SMs read from L2, per launch.
pub const L2_READ: &str = "L2 sectors read";
/// Sectors that the SMs wrote to L2, per launch.
pub const L2_WRITTEN: &str = "L2 sectors written";
/// Share of the SMs' requests to L2 that hit, 0…1. One request covers up to four sectors of one cache line, so this is not
/// a share of [`L2_READ`] and [`L2_WRITTEN`].
pub const L2_HITS: &str = "L2 hit rate";
/// Sectors that crossed from one L2 partition to another, per launch.
pub const L2_CROSSED: &str = "L2 sectors crossed";
/// Warp instructions executed, per launch.
pub const INSTRUCTIONS: &str = "warp instructions";

/// Relative difference between counted and necessary bytes above which a figure is flagged.
const TOLERANCE: f64 = 0.05;

/// The metrics that counters add to every series.
#[must_use]
pub fn metrics() -> Vec<Metric> {
    let extra = |name, unit| metric(name, unit, Quantity::Extra);
    let mut metrics = vec![extra(DRAM_READ, Unit::Byte), extra(DRAM_WRITTEN, Unit::Byte)];
    let rest = [L1_SECTORS, L1_HITS, L2_READ, L2_WRITTEN, L2_HITS, L2_CROSSED, INSTRUCTIONS];
    metrics.extend(rest.map(|name| extra(name, Unit::One)));
    metrics
}

/// Whether memory moved over 5 % more or less than the algorithm must. Only meaningful for launches with cold caches.
/// False where nothing was counted or nothing is moved.
#[must_use]
pub fn disagrees(counted: &BTreeMap<String, f64>, work: &Work) -> bool {
    let necessary = work.traffic.total() as f64;
    match (counted.get(DRAM_READ), counted.get(DRAM_WRITTEN)) {
        (Some(read), Some(written)) if necessary > 0.0 => (read + written - necessary).abs() > TOLERANCE * necessary,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Traffic;

    #[test]
    fn counts_more_than_5_percent_off_the_algorithm_disagree() {
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
