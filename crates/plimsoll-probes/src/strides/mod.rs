//! strides: the cost of strided access to data that fit in L1: cycles per access and useful bytes per cycle for strides 1 to
//! 128 and elements of 4, 8 and 16 bytes. On a GPU an access is a whole warp's (32 lanes), in L1 and in shared memory, also for
//! blocks of threads over the rows of an array.

probe! {
    /// The cost of strides of 1 to 128 elements in L1, for elements of 4, 8 and 16 bytes.
    "strides" in "caches", seconds: [4.0, 40.0, 120.0], files: cpu gpu kernels
}

use std::fmt;

use plimsoll_core::series::Elements;

use crate::prelude::meaning::*;

axes! {
    /// Loads at a stride.
    pub struct Stride {
        /// Bytes of an element.
        element: Bytes,
        /// Elements from one load to the next.
        stride: Elements,
    }
}

/// Columns and rows of a block of threads, on its axis as `32 × 32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Threads in a row.
    pub columns: u32,
    /// Number of rows.
    pub rows: u32,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}", self.columns, self.rows)
    }
}

impl Label for Shape {
    fn from_label(label: &str) -> Option<Self> {
        let (columns, rows) = label.split_once(" × ")?;
        Some(Self { columns: columns.parse().ok()?, rows: rows.parse().ok()? })
    }
}

axes! {
    /// Loads of blocks of threads over an array.
    pub struct Shaped {
        /// The block's shape.
        shape: Shape,
        /// Bytes from one row of the array to the next.
        pitch: Bytes,
    }
}

/// Loads at each stride on an L1-resident buffer.
#[must_use]
pub fn tableau() -> TypedSeries<Stride> {
    strided("tableau")
}

/// The same loads from the shared memory of a GPU.
#[must_use]
pub fn shared() -> TypedSeries<Stride> {
    strided(SHARED)
}

fn strided(case: &str) -> TypedSeries<Stride> {
    let draw = Draw::heat("stride", "element", "bytes per cycle");
    patterns(case, draw)
}

/// Blocks of w × (1024 / w) threads, each thread an element, over an array whose rows are `pitch` bytes apart. An operation
/// is a warp's access.
#[must_use]
pub fn shapes() -> TypedSeries<Shaped> {
    patterns("shapes", Draw::bars("shape", "cycles").grouped_by("pitch"))
}

/// Name of the series on shared memory.
const SHARED: &str = "shared memory";

fn patterns<A: Axes>(case: &str, draw: Draw) -> TypedSeries<A> {
    let metrics = vec![metrics::cycles_per_operation(), metrics::bytes_per_cycle()];
    TypedSeries::hot(case, metrics, draw)
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let case = |case: &str| series.iter().find(|series| series.spec.case == case);
    let mut found = Vec::new();
    for (name, before) in [("tableau", ""), (SHARED, "shared memory, ")] {
        let Some(tableau) = case(name) else { continue };
        let mut elements: Vec<Bytes> = known_rows(tableau).map(|(at, _): (Stride, &Row)| at.element).collect();
        elements.sort_unstable();
        elements.dedup();
        let all = elements.into_iter().flat_map(|element| element_findings(tableau, element));
        found.extend(all.map(|finding| Finding { name: format!("{before}{}", finding.name), ..finding }));
    }
    found.extend(case("shapes").and_then(worst_shape));
    found
}

/// The most expensive shape, compared with the cheapest.
fn worst_shape(shapes: &Series) -> Option<Finding> {
    let cycles = |row: &Row| shapes.estimate(row, "cycles").map_or(0.0, |cycles| cycles.value);
    let (best, _) = shapes.best("cycles", |_| true)?;
    let (Shaped { shape, pitch }, row) = known_rows(shapes).max_by(|(_, a), (_, b)| cycles(a).total_cmp(&cycles(b)))?;
    let cheapest = Shaped::from_values(&best.at)?.shape;
    let times = cycles(row) / cycles(best);
    let says = format!("{shape} threads on rows of {} B: {times:.1} times {cheapest}", pitch.0);
    Some(Finding { says, ..finding("worst shape", Unit::CyclePerOp, row, shapes.estimate(row, "cycles")?) })
}

/// The rate at stride 1, and the most expensive stride compared with it.
fn element_findings(tableau: &Series, element: Bytes) -> Vec<Finding> {
    let element_rows = || known_rows(tableau).filter(|(at, _): &(Stride, &Row)| at.element == element);
    let rows = || element_rows().map(|(at, row)| (at.stride, row));
    let cycles = |row: &Row| tableau.estimate(row, "cycles").map(|cycles| cycles.value);
    let Some((_, unit)) = rows().find(|(stride, _)| *stride == Elements(1)) else { return Vec::new() };
    let mut findings = Vec::new();
    let element = element.0;
    if let Some(rate) = tableau.estimate(unit, "bytes per cycle") {
        findings.push(finding(format!("unit stride, {element} B elements"), Unit::BytePerCycle, unit, rate));
    }
    let worst = rows().max_by(|(_, a), (_, b)| cycles(a).unwrap_or(0.0).total_cmp(&cycles(b).unwrap_or(0.0)));
    let worst = worst.and_then(|(stride, row)| Some((stride, row, tableau.estimate(row, "cycles")?)));
    let (Some((stride, row, figure)), Some(one)) = (worst, cycles(unit)) else { return findings };
    findings.push(Finding {
        says: format!("Stride {}: {:.2} times the cycles of stride 1.", stride.0, figure.value / one),
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
        point_at(Stride { element: Bytes(element), stride: Elements(stride) }, element, cycles)
    }

    fn point_at(at: impl Axes, element: u64, cycles: f64) -> Point {
        let work = Work { traffic: Traffic::new(1_000_000 * element, 0), operations: 1e6, ..Work::default() };
        synthetic::point(at.to_values(), cycles * 1e6 / 2e9, work, &[])
    }

    #[test]
    fn shapes_parse_from_columns_and_rows_only() {
        let shape = Shape { columns: 2, rows: 512 };
        assert_eq!(shape.to_value(), Value::from("2 × 512"));
        assert_eq!(Shape::from_value(&shape.to_value()), Some(shape));
        for other in ["2", "2 x 512", "2 × ", "2 × 512 × 1", "× 512"] {
            assert_eq!(Shape::from_value(&other.into()), None, "{other}");
        }
        assert_eq!(Shape::from_value(&2.0.into()), None);
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
    fn shared_memory_and_shape_findings_have_distinct_names() {
        let shape =
            |columns, rows, cycles| point_at(Shaped { shape: Shape { columns, rows }, pitch: Bytes(4096) }, 8, cycles);
        let series = [
            Series::new(shared(), [point(4, 1, 1.0), point(4, 32, 32.0)]),
            Series::new(shapes(), [shape(1, 1024, 32.0), shape(32, 32, 2.0)]),
        ];
        let found = findings(&DeviceInfo::default(), &series);
        assert_eq!(found[1].name, "shared memory, worst stride, 4 B elements");
        assert_eq!(found[1].says, "Stride 32: 32.00 times the cycles of stride 1.");
        assert_eq!((found[2].name.as_str(), found[2].value.round()), ("worst shape", 32.0));
        assert_eq!(found[2].says, "1 × 1024 threads on rows of 4096 B: 16.0 times 32 × 32");
    }
}
