//! strides: what a strided access pattern costs on data that fit in the first cache: cycles per access and useful bytes
//! per cycle for strides 1 to 128 and elements of 4, 8 and 16 bytes.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::unit::Unit;

use super::finding;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "strides",
    group: "caches",
    sentence: "What strides of 1 to 128 elements cost on the first cache, for elements of 4, 8 and 16 bytes.",
    page: "strides.md",
    seconds: [4.0, 40.0, 120.0],
    findings,
};

/// Loads at each stride on an L1-resident buffer.
#[must_use]
pub fn tableau() -> SeriesSpec {
    SeriesSpec::new(
        "tableau",
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("element", Unit::Byte), axis("stride", Unit::Element)],
        vec![
            metric("cycles", Unit::CyclePerOp, Quantity::CyclesPerOperation),
            metric("bytes per cycle", Unit::BytePerCycle, Quantity::BytesPerCycle),
        ],
        Draw::Heat { x: "stride".into(), y: "element".into(), value: "bytes per cycle".into() },
    )
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(tableau) = series.iter().find(|series| series.spec.case == "tableau") else { return Vec::new() };
    let mut elements: Vec<f64> = tableau.rows.iter().filter_map(|row| tableau.number(row, "element")).collect();
    elements.sort_by(f64::total_cmp);
    elements.dedup();
    elements.into_iter().flat_map(|element| of_element(tableau, element)).collect()
}

/// What a stride of one yields, and which stride costs most beside it.
fn of_element(tableau: &Series, element: f64) -> Vec<Finding> {
    let rows = || tableau.rows.iter().filter(|row| tableau.number(row, "element") == Some(element));
    let stride = |row: &Row| tableau.number(row, "stride");
    let cycles = |row: &Row| tableau.estimate(row, "cycles").map(|cycles| cycles.value);
    let Some(unit) = rows().find(|row| stride(row) == Some(1.0)) else { return Vec::new() };
    let mut findings = Vec::new();
    if let Some(rate) = tableau.estimate(unit, "bytes per cycle") {
        findings.push(finding(format!("unit stride, {element} B elements"), Unit::BytePerCycle, unit, rate));
    }
    let worst = rows().max_by(|a, b| cycles(a).unwrap_or(0.0).total_cmp(&cycles(b).unwrap_or(0.0)));
    let Some((row, figure)) = worst.and_then(|row| Some((row, tableau.estimate(row, "cycles")?))) else {
        return findings;
    };
    let (Some(stride), Some(one)) = (stride(row), cycles(unit)) else { return findings };
    findings.push(Finding {
        says: format!("Stride {stride}: {:.2} times the cycles of stride 1.", figure.value / one),
        ..finding(format!("worst stride, {element} B elements"), Unit::CyclePerOp, row, figure)
    });
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::flag::Flags;
    use plimsoll_core::sample::{Evidence, Work};
    use plimsoll_core::series::Point;

    fn point(element: u64, stride: u64, cycles: f64) -> Point {
        Point {
            series: 0,
            round: 0,
            at: vec![element.into(), stride.into()],
            k: 1,
            tick: 1e-12,
            work: Work { traffic: Traffic::new(1_000_000 * element, 0), operations: 1e6, ..Work::default() },
            samples: vec![(cycles * 1e6 / 2e9 * 1e12) as u64; 30],
            evidence: Evidence { clock_hz: Some(2e9), ..Evidence::default() },
            flags: Flags::NONE,
            extra: Default::default(),
        }
    }

    #[test]
    fn the_worst_stride_is_named_with_its_cost_for_each_element() {
        let points = [point(4, 1, 0.5), point(4, 16, 2.0), point(4, 17, 0.5), point(16, 1, 1.0), point(16, 2, 1.5)];
        let found = findings(&DeviceInfo::default(), &[Series::new(tableau(), points)]);
        let names: Vec<&str> = found.iter().map(|finding| finding.name.as_str()).collect();
        let expected = [
            "unit stride, 4 B elements",
            "worst stride, 4 B elements",
            "unit stride, 16 B elements",
            "worst stride, 16 B elements",
        ];
        assert_eq!(names, expected);
        assert!((found[0].value - 8.0).abs() < 1e-6 && (found[1].value - 2.0).abs() < 1e-6);
        assert_eq!(found[1].says, "Stride 16: 4.00 times the cycles of stride 1.");
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
