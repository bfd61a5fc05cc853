//! incore: latency and throughput of single instructions, by the number of independent dependency chains (ILP) on one
//! core. At ILP 1 the cycles per operation are the latency; where more chains no longer help, the reciprocal throughput.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::{Finding, Published};
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Estimate, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

use super::finding;
use crate::machines::cpus::{self, MICROARCHITECTURES, Microarchitecture, Number, Operation, Width};

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "incore",
    group: "arithmetic",
    sentence: "Latency and throughput of add, multiply, FMA, divide and square root, scalar and vector, in core cycles.",
    page: "incore.md",
    seconds: [7.0, 60.0, 180.0],
    findings,
};

/// Cycles per instruction over the number of independent chains.
#[must_use]
pub fn operations() -> SeriesSpec {
    let draw =
        Draw::Lines { x: "ilp".into(), y: "cycles".into(), by: Some("instruction".into()), log_x: false, log_y: true };
    spec("operations", draw)
}

/// Each instruction at the number of chains that was fastest, measured afresh: its reciprocal throughput.
#[must_use]
pub fn best() -> SeriesSpec {
    spec("best", Draw::Table)
}

fn spec(case: &str, draw: Draw) -> SeriesSpec {
    SeriesSpec::new(
        case,
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("instruction", Unit::One), axis("ilp", Unit::One)],
        vec![
            metric("cycles", Unit::CyclePerOp, Quantity::CyclesPerOperation),
            metric("rate", Unit::OpPerCycle, Quantity::OperationsPerCycle),
        ],
        draw,
    )
}

fn findings(device: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let case = |name: &str| series.iter().find(|series| series.spec.case == name);
    let known = MICROARCHITECTURES.iter().find(|core| Some(core.name) == device.architecture.as_deref());
    let mut findings = Vec::new();
    for (row, cycles) in case("operations").into_iter().flat_map(|series| rows(series, |ilp| ilp == 1.0)) {
        let Some(name) = row.at[0].text() else { continue };
        let published = known.and_then(|core| Some(beside(core, published(core, name)?.latency?)));
        findings.push(Finding { published, ..finding(format!("latency {name}"), Unit::Cycle, row, cycles) });
    }
    for (row, cycles) in case("best").into_iter().flat_map(|series| rows(series, |_| true)) {
        let Some(name) = row.at[0].text() else { continue };
        let cycles_of = |core| published(core, name)?.reciprocal_throughput;
        let published = known.and_then(|core| cycles_of(core).map(|cycles| beside(core, [cycles, cycles])));
        findings.push(Finding {
            published,
            ..finding(format!("reciprocal throughput {name}"), Unit::CyclePerOp, row, cycles)
        });
    }
    findings
}

fn rows(series: &Series, keep: impl Fn(f64) -> bool) -> impl Iterator<Item = (&Row, Estimate)> {
    let kept = move |row: &&Row| series.number(row, "ilp").is_some_and(&keep);
    series.rows.iter().filter(kept).filter_map(|row| Some((row, series.estimate(row, "cycles")?)))
}

fn beside(core: &Microarchitecture, [lo, hi]: [f64; 2]) -> Published {
    Published { range: Interval { lo, hi }, source: format!("{}: {}", core.name, core.source) }
}

/// The published figure of an instruction as the axis names it: `FMA f64 512`.
fn published(core: &Microarchitecture, name: &str) -> Option<&'static cpus::Figure> {
    let mut words = name.split(' ');
    let operation = match words.next()? {
        "ADD" => Operation::Add,
        "MUL" => Operation::Mul,
        "FMA" => Operation::Fma,
        "DIV" => Operation::Div,
        "SQRT" => Operation::Sqrt,
        _ => return None,
    };
    let number = match words.next()? {
        "f64" => Number::F64,
        "f32" => Number::F32,
        "i64" => Number::I64,
        "i32" => Number::I32,
        _ => return None,
    };
    let width = match words.next()? {
        "scalar" => Width::Scalar,
        "128" => Width::V128,
        "256" => Width::V256,
        "512" => Width::V512,
        _ => return None,
    };
    core.figure(operation, number, width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::flag::Flags;
    use plimsoll_core::sample::{Evidence, Work};
    use plimsoll_core::series::Point;

    fn point(name: &str, ilp: u64, cycles: f64) -> Point {
        Point {
            series: 0,
            round: 0,
            at: vec![name.into(), ilp.into()],
            k: 1,
            tick: 1e-12,
            work: Work { operations: 1e6, ..Work::default() },
            samples: vec![(cycles * 1e6 / 2e9 * 1e12) as u64; 30],
            evidence: Evidence { clock_hz: Some(2e9), ..Evidence::default() },
            flags: Flags::NONE,
            extra: Default::default(),
        }
    }

    #[test]
    fn latency_is_that_of_one_chain_and_throughput_that_of_the_fresh_best() {
        let device =
            DeviceInfo { architecture: Some("Raptor Cove (Emerald Rapids)".to_owned()), ..DeviceInfo::default() };
        let search =
            [("FMA f64 512", 1, 4.01), ("FMA f64 512", 8, 0.49), ("ADD f64 256", 1, 2.0), ("ROR i64 scalar", 1, 1.0)];
        let search = Series::new(operations(), search.map(|(name, ilp, cycles)| point(name, ilp, cycles)));
        let best = Series::new(best(), [point("FMA f64 512", 8, 0.51)]);
        let found = findings(&device, &[search, best]);
        let one = |name: &str| found.iter().find(|finding| finding.name == name).expect(name);
        let fma = one("latency FMA f64 512");
        assert!((fma.value - 4.01).abs() < 1e-6 && fma.unit == Unit::Cycle);
        let published = |finding: &Finding| finding.published.as_ref().map(|known| (known.range.lo, known.range.hi));
        assert_eq!(published(fma), Some((4.0, 4.0)));
        let throughput = one("reciprocal throughput FMA f64 512");
        assert!((throughput.value - 0.51).abs() < 1e-6 && published(throughput) == Some((0.5, 0.5)), "{throughput:?}");
        assert_eq!(published(one("latency ADD f64 256")), Some((2.0, 3.0)));
        assert_eq!(published(one("latency ROR i64 scalar")), None);
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn an_unknown_core_is_measured_all_the_same() {
        let series = Series::new(operations(), [point("FMA f64 512", 1, 4.0)]);
        let found = findings(&DeviceInfo::default(), &[series]);
        assert_eq!((found.len(), &found[0].published), (1, &None));
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
