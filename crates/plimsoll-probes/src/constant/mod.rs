//! constant: latency and throughput of loads from a GPU's constant memory, also when the lanes of a warp read several addresses.

probe! {
    /// How long a load from constant memory takes, where its caches end, and what several addresses in a warp cost.
    "constant" in "caches", seconds: [2.0, 6.0, 18.0], files: gpu kernels
}

use plimsoll_suite::findings::levels::Plateau;

use crate::prelude::meaning::*;

axes! {
    /// A chase through constant memory.
    pub struct Chase {
        /// Bytes of all its lines.
        footprint: Bytes,
    }

    /// Loads by all warps of an SM.
    pub struct Read {
        /// Different addresses that the lanes of a warp read at once.
        addresses: Count,
        /// Bytes of all lines that are read.
        footprint: Bytes,
    }
}

/// Dependent loads of one thread, by footprint.
#[must_use]
pub fn latency() -> TypedSeries<Chase> {
    TypedSeries::hot("latency", vec![metrics::cycles(), metrics::latency()], Draw::lines("footprint", "cycles").log_x())
}

/// Loads of 8 bytes of one SM, all warps at once. An operation is a warp's load; bytes are counted once for each address.
#[must_use]
pub fn loads() -> TypedSeries<Read> {
    let metrics =
        vec![metric("loads per cycle", Unit::OpPerCycle, Quantity::OperationsPerCycle), metrics::bytes_per_cycle()];
    let draw = Draw::lines("footprint", "loads per cycle").grouped_by("addresses").log_x().log_y();
    TypedSeries::hot("loads", metrics, draw)
}

/// How much the figures of one level may differ from their median.
const TOLERANCE: f64 = 0.1;

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let find_series = |case: &str| series.iter().find(|series| series.spec.case == case);
    let latencies = find_series("latency").into_iter().flat_map(latencies);
    let rates = find_series("loads").into_iter().flat_map(|loads| {
        let small = known_rows(loads).filter(|(at, _): &(Read, &Row)| at.footprint.0 == SMALL);
        small.filter_map(|(at, row)| {
            let name =
                format!("loads of {} {}", at.addresses.0, if at.addresses.0 == 1 { "address" } else { "addresses" });
            Some(finding(name, Unit::OpPerCycle, row, loads.estimate(row, "loads per cycle")?))
        })
    });
    latencies.chain(rates.collect::<Vec<_>>()).collect()
}

/// The footprint in bytes whose loads become findings. It fits the nearest cache of every known device.
pub const SMALL: u64 = 2048;

/// Latency and capacity of each level.
fn latencies(latency: &Series) -> Vec<Finding> {
    let rows: Vec<(f64, &Row, Estimate)> = known_rows(latency)
        .filter_map(|(at, row): (Chase, &Row)| Some((at.footprint.0 as f64, row, latency.estimate(row, "cycles")?)))
        .collect();
    let curve: Vec<(f64, f64)> = rows.iter().map(|(footprint, _, cycles)| (*footprint, cycles.value)).collect();
    let found = levels(&curve, TOLERANCE);
    let flags = |plateau: &Plateau| {
        let on = rows.iter().filter(|(footprint, ..)| (plateau.from..=plateau.to).contains(footprint));
        on.fold(Flags::NONE, |all, (_, row, _)| all.union(row.flags))
    };
    let mut findings = Vec::new();
    for (place, plateau) in found.plateaus.iter().enumerate() {
        let known = Estimate { value: plateau.value, interval: plateau.interval };
        findings.push(derived(format!("level {} in cycles", place + 1), Unit::Cycle, known, flags(plateau)));
    }
    for knee in &found.knees {
        let known = Estimate { value: knee.capacity, interval: knee.interval };
        let before = found.plateaus.get(knee.plateau).map_or(Flags::NONE, flags);
        findings.push(derived(format!("capacity of level {}", knee.plateau + 1), Unit::Byte, known, before));
    }
    findings
}

#[cfg(test)]
mod tests {
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic;

    use super::*;

    fn chase(footprint: u64, cycles: f64) -> Point {
        let at = Chase { footprint: Bytes(footprint) }.to_values();
        synthetic::point(at, cycles * 1e-9, Work { operations: 1.0, ..Work::default() }, &[("cycles", cycles)])
    }

    #[test]
    fn latency_steps_become_levels_with_capacities() {
        let footprints = (0..15_u32).map(|i| 64 * if i.is_multiple_of(2) { 8_u64 << (i / 2) } else { 12 << (i / 2) });
        let points = footprints.map(|footprint| chase(footprint, if footprint <= 2048 { 30.0 } else { 80.0 }));
        let found = findings(&DeviceInfo::default(), &[Series::new(latency(), points)]);
        let value =
            |name: &str| found.iter().find(|finding| finding.name == name).unwrap_or_else(|| panic!("{found:?}")).value;
        assert!(value("level 1 in cycles") < 0.5 * value("level 2 in cycles"), "{found:?}");
        assert!((2048.0..=3072.0).contains(&value("capacity of level 1")), "{found:?}");
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
