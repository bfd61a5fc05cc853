//! atomics: how long an atomic addition takes, and how many a GPU does per cycle, in shared and in global memory, at one
//! address and at distinct ones, by type.

#[cfg(feature = "gpu")]
pub mod gpu;
#[cfg(feature = "kernels")]
pub mod kernels;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Metric, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::unit::Unit;

use plimsoll_suite::findings::finding;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "atomics",
    group: "latency",
    sentence: "Latency and throughput of atomic additions in shared and global memory, at one address and at many.",
    seconds: [4.0, 13.0, 45.0],
    findings,
};

/// Every thread adds to the same word.
pub const SAME: &str = "same";
/// Every thread adds to a word of its own.
pub const DISTINCT: &str = "distinct";
/// The series of throughput: shared memory counts one multiprocessor, global memory the device.
pub const RATES: [&str; 2] = ["shared", "global"];

/// One thread, each addition where the last one's old value says. An operation is an addition.
#[must_use]
pub fn latency() -> SeriesSpec {
    SeriesSpec::new(
        "latency",
        Figure::Latency,
        CachePolicy::Hot,
        vec![axis("memory", Unit::One), axis("type", Unit::One)],
        vec![
            metric("cycles", Unit::CyclePerOp, Quantity::CyclesPerOperation),
            metric("latency", Unit::Second, Quantity::TimePerOperation),
        ],
        Draw::Bars { x: "type".into(), y: "cycles".into(), by: Some("memory".into()) },
    )
}

/// Half-width that is asked of rates: the order in which additions to one word arrive has two or three paces.
const PRECISION: f64 = 0.005;

/// All threads of all multiprocessors, by form (`red` leaves the old value, `atom` returns it), type and addresses. An
/// operation is one thread's addition: of one multiprocessor in shared memory, of the device in global memory.
#[must_use]
pub fn rate(case: &str) -> SeriesSpec {
    let per_second: Vec<Metric> = if case == RATES[1] {
        vec![metric("additions", Unit::OpPerSecond, Quantity::OperationsPerSecond)]
    } else {
        Vec::new()
    };
    let per_cycle = vec![metric("additions per cycle", Unit::OpPerCycle, Quantity::OperationsPerCycle)];
    SeriesSpec::new(
        case,
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("addition", Unit::One), axis("addresses", Unit::One)],
        per_cycle.into_iter().chain(per_second).collect(),
        Draw::Bars { x: "addition".into(), y: "additions per cycle".into(), by: Some("addresses".into()) },
    )
    .within(PRECISION)
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let case = |case: &str| series.iter().find(|series| series.spec.case == case);
    let mut found = Vec::new();
    if let Some(latency) = case("latency") {
        found.extend(latency.rows.iter().filter_map(|row| {
            let name = format!("{} {} latency", latency.text(row, "memory")?, latency.text(row, "type")?);
            Some(finding(name, Unit::CyclePerOp, row, latency.estimate(row, "cycles")?))
        }));
    }
    for name in RATES {
        let Some(rates) = case(name) else { continue };
        found.extend(rates.rows.iter().filter_map(|row| rate_of(rates, name, row)));
    }
    found
}

fn rate_of(rates: &Series, memory: &str, row: &Row) -> Option<Finding> {
    let (addition, addresses) = (rates.text(row, "addition")?, rates.text(row, "addresses")?);
    let per_cycle = rates.estimate(row, "additions per cycle")?;
    let per_second = rates.estimate(row, "additions").map(|rate| Unit::OpPerSecond.format(rate.value));
    let says = per_second.unwrap_or_else(|| "of one multiprocessor".to_owned());
    Some(Finding { says, ..finding(format!("{memory} {addition}, {addresses}"), Unit::OpPerCycle, row, per_cycle) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::{Point, Value};
    use plimsoll_suite::findings::synthetic;

    fn point(at: [&str; 2], operations: f64, cycles: f64) -> Point {
        synthetic::point(
            at.map(Value::from).to_vec(),
            cycles / 2e9,
            Work { operations, in_kernel: true, ..Work::default() },
            &[],
        )
    }

    #[test]
    fn every_row_becomes_a_figure_in_cycles() {
        let series = [
            Series::new(latency(), [point(["shared", "u32"], 1000.0, 40_000.0)]),
            Series::new(rate("shared"), [point(["red u32", DISTINCT], 32_000.0, 1000.0)]),
            Series::new(rate("global"), [point(["atom f32", SAME], 1e6, 1e6)]),
        ];
        let found = findings(&DeviceInfo::default(), &series);
        let figures: Vec<(&str, f64)> = found.iter().map(|f| (f.name.as_str(), f.value.round())).collect();
        let expected =
            [("shared u32 latency", 40.0), ("shared red u32, distinct", 32.0), ("global atom f32, same", 1.0)];
        assert_eq!(figures, expected);
        assert_eq!(found[1].says, "of one multiprocessor");
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
