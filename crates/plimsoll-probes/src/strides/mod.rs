//! strides: what a strided access pattern costs on data that fit in the first cache: cycles per access and useful bytes
//! per cycle for strides 1 to 128 and elements of 4, 8 and 16 bytes. On a GPU an access is a warp's: 32 lanes together, in the
//! first cache and in shared memory, and also in blocks of threads over the rows of an array.

#[cfg(feature = "cpu")]
pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;
#[cfg(feature = "kernels")]
pub mod kernels;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Axis, Draw, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::unit::Unit;

use plimsoll_suite::findings::finding;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "strides",
    group: "caches",
    sentence: "What strides of 1 to 128 elements cost on the first cache, for elements of 4, 8 and 16 bytes.",
    seconds: [4.0, 40.0, 120.0],
    findings,
};

/// Loads at each stride on an L1-resident buffer.
#[must_use]
pub fn tableau() -> SeriesSpec {
    let axes = vec![axis("element", Unit::Byte), axis("stride", Unit::Element)];
    let draw = Draw::Heat { x: "stride".into(), y: "element".into(), value: "bytes per cycle".into() };
    patterns("tableau", axes, draw)
}

/// The same loads from the shared memory of a GPU.
#[must_use]
pub fn shared() -> SeriesSpec {
    SeriesSpec { case: SHARED.to_owned(), ..tableau() }
}

/// Blocks of w × (1024 / w) threads, each thread an element, over an array whose rows are `pitch` bytes apart. An operation
/// is a warp's access.
#[must_use]
pub fn shapes() -> SeriesSpec {
    let axes = vec![axis("shape", Unit::One), axis("pitch", Unit::Byte)];
    patterns("shapes", axes, Draw::Bars { x: "shape".into(), y: "cycles".into(), by: Some("pitch".into()) })
}

/// What the series on shared memory is called.
const SHARED: &str = "shared memory";

fn patterns(case: &str, axes: Vec<Axis>, draw: Draw) -> SeriesSpec {
    let metrics = vec![
        metric("cycles", Unit::CyclePerOp, Quantity::CyclesPerOperation),
        metric("bytes per cycle", Unit::BytePerCycle, Quantity::BytesPerCycle),
    ];
    SeriesSpec::new(case, Figure::Throughput, CachePolicy::Hot, axes, metrics, draw)
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let case = |case: &str| series.iter().find(|series| series.spec.case == case);
    let mut found = Vec::new();
    for (name, before) in [("tableau", ""), (SHARED, "shared memory, ")] {
        let Some(tableau) = case(name) else { continue };
        let mut elements: Vec<f64> = tableau.rows.iter().filter_map(|row| tableau.number(row, "element")).collect();
        elements.sort_by(f64::total_cmp);
        elements.dedup();
        let all = elements.into_iter().flat_map(|element| of_element(tableau, element));
        found.extend(all.map(|finding| Finding { name: format!("{before}{}", finding.name), ..finding }));
    }
    found.extend(case("shapes").and_then(worst_shape));
    found
}

/// The shape that costs most beside the one that costs least.
fn worst_shape(shapes: &Series) -> Option<Finding> {
    let cycles = |row: &Row| shapes.estimate(row, "cycles").map_or(0.0, |cycles| cycles.value);
    let (best, _) = shapes.best("cycles", |_| true)?;
    let row = shapes.rows.iter().max_by(|a, b| cycles(a).total_cmp(&cycles(b)))?;
    let (shape, pitch) = (shapes.text(row, "shape")?, shapes.number(row, "pitch")?);
    let says = format!("{shape} threads on rows of {pitch} B: {:.1} times {}", cycles(row) / cycles(best), {
        shapes.text(best, "shape")?
    });
    Some(Finding { says, ..finding("worst shape", Unit::CyclePerOp, row, shapes.estimate(row, "cycles")?) })
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
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic;

    fn point(element: u64, stride: u64, cycles: f64) -> Point {
        synthetic::point(
            vec![element.into(), stride.into()],
            cycles * 1e6 / 2e9,
            Work { traffic: Traffic::new(1_000_000 * element, 0), operations: 1e6, ..Work::default() },
            &[],
        )
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

    #[test]
    fn shared_memory_and_shapes_are_told_apart_from_the_first_cache() {
        let shape = |shape: &str, cycles: f64| Point { at: vec![shape.into(), 4096_u64.into()], ..point(8, 1, cycles) };
        let series = [
            Series::new(shared(), [point(4, 1, 1.0), point(4, 32, 32.0)]),
            Series::new(shapes(), [shape("1 × 1024", 32.0), shape("32 × 32", 2.0)]),
        ];
        let found = findings(&DeviceInfo::default(), &series);
        assert_eq!(found[1].name, "shared memory, worst stride, 4 B elements");
        assert_eq!(found[1].says, "Stride 32: 32.00 times the cycles of stride 1.");
        assert_eq!((found[2].name.as_str(), found[2].value.round()), ("worst shape", 32.0));
        assert_eq!(found[2].says, "1 × 1024 threads on rows of 4096 B: 16.0 times 32 × 32");
    }
}
