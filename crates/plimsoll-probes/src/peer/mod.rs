//! peer: copies and loads between every two devices: bandwidth and latency as matrices.

probe! {
    /// How fast every two devices exchange data, and how long a load from the other one takes.
    "peer" in "transfers", seconds: [3.0, 12.0, 36.0], files: cuda, takes bytes
}

use crate::prelude::meaning::*;

plimsoll_core::axes! {
    /// Two devices, or a device and itself.
    pub struct Pair {
        /// The one that copies or loads.
        from: Name,
        /// The other one.
        to: Name,
    }
}

/// Metric set by the workload: peak bandwidth of the link between two devices, one way, where the system reports it.
pub const LINK: &str = "link";

/// Copies from one device to another by a copy engine, one way at a time.
#[must_use]
pub fn one_way() -> TypedSeries<Pair> {
    bandwidth("one way")
}

/// The same with as much in the other direction, counted together.
#[must_use]
pub fn both_ways() -> TypedSeries<Pair> {
    bandwidth("both ways")
}

/// A kernel on the first device that reads the other one's memory.
#[must_use]
pub fn reads() -> TypedSeries<Pair> {
    bandwidth("reads by a kernel")
}

fn bandwidth(case: &str) -> TypedSeries<Pair> {
    TypedSeries::hot(
        case,
        vec![metrics::bandwidth(), metric(LINK, Unit::BytePerSecond, Quantity::Extra)],
        Draw::heat("to", "from", "bandwidth"),
    )
    .with_precision(HOST_PRECISION)
}

/// A load by the first device from the other's memory, by a pointer chase of one thread; from its own memory on the diagonal.
#[must_use]
pub fn latency() -> TypedSeries<Pair> {
    TypedSeries::hot("latency", vec![metrics::latency(), metrics::cycles()], Draw::heat("to", "from", "latency"))
}

/// Slowest and fastest pair of each matrix; one finding if there is only one pair.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let cases = [
        ("one way", "bandwidth"),
        ("both ways", "bandwidth"),
        ("reads by a kernel", "bandwidth"),
        ("latency", "latency"),
    ];
    let extremes = |(case, name): (&str, &str)| {
        let Some(matrix) = series.iter().find(|series| series.spec.case == case) else { return Vec::new() };
        let apart = known_rows(matrix).filter(|(at, _): &(Pair, &Row)| at.from != at.to);
        let mut pairs: Vec<Known<'_>> =
            apart.filter_map(|(at, row)| Some((at, row, matrix.estimate(row, name)?))).collect();
        pairs.sort_by(|a, b| a.2.value.total_cmp(&b.2.value));
        let (Some(least), Some(most)) = (pairs.first(), pairs.last()) else { return Vec::new() };
        if pairs.len() == 1 {
            return vec![pair(matrix, name, case.to_owned(), least)];
        }
        vec![pair(matrix, name, format!("{case}, least"), least), pair(matrix, name, format!("{case}, most"), most)]
    };
    cases.into_iter().flat_map(extremes).collect()
}

/// A pair with its row and estimate.
type Known<'s> = (Pair, &'s Row, Estimate);

fn pair(matrix: &Series, metric: &str, name: String, (at, row, figure): &Known<'_>) -> Finding {
    let unit = if metric == "latency" { Unit::Second } else { Unit::BytePerSecond };
    let says = format!("Between {} and {}.", at.from, at.to);
    let link = matrix.estimate(row, LINK).filter(|link| link.value > 0.0);
    let published = link.map(|link| Published {
        range: Interval { lo: link.value, hi: link.value },
        source: "links between the two that the system reports as active, at their signalling rate".to_owned(),
    });
    Finding { says, published, ..finding(name, unit, row, *figure) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;

    fn point(from: &'static str, to: &'static str, nanoseconds: u64) -> Point {
        Point {
            extra: [(LINK.to_owned(), 2e9)].into(),
            ..Point::new(
                Pair { from: from.into(), to: to.into() }.to_values(),
                Work { traffic: Traffic::new(1_000_000, 0), operations: 100.0, ..Work::default() },
                vec![nanoseconds; 30],
            )
        }
    }

    #[test]
    fn findings_name_the_extreme_pairs_and_skip_the_diagonal() {
        let points = || {
            [point("cuda:0", "cuda:0", 10), point("cuda:0", "cuda:1", 1_000_000), point("cuda:1", "cuda:0", 500_000)]
        };
        let found =
            findings(&DeviceInfo::default(), &[Series::new(one_way(), points()), Series::new(latency(), points())]);
        let figures: Vec<(&str, f64)> = found.iter().map(|finding| (finding.name.as_str(), finding.value)).collect();
        assert_eq!(figures.len(), 4);
        assert!(figures[0].0 == "one way, least" && (figures[0].1 - 1e9).abs() < 1.0, "{figures:?}");
        assert!(figures[3].0 == "latency, most" && (figures[3].1 - 10e-6).abs() < 1e-12, "{figures:?}");
        assert!(found[0].published.is_some() && found[2].published.is_none());
    }

    #[test]
    fn empty_series_have_no_findings() {
        assert!(findings(&DeviceInfo::default(), &[Series::new(latency(), [])]).is_empty());
    }
}
