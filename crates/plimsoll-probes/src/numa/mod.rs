//! numa: copies between a device and host memory on each of the host's memory nodes.

probe! {
    /// What copies between host and device lose where the host's memory is on another memory node (NUMA).
    "numa" in "transfers", seconds: [1.5, 6.0, 18.0], files: cuda, takes bytes
}

use crate::prelude::meaning::*;

names! {
    /// The direction of a copy.
    pub enum Direction {
        /// From pinned memory of the host.
        Up = "H2D",
        /// To pinned memory of the host.
        Down = "D2H",
    }
}

axes! {
    /// Copies from or to one node.
    pub struct Place {
        /// The node's number in Linux.
        node: Count,
        /// The direction.
        direction: Direction,
    }
}

/// Metric set by the workload: 1 if the node is next to the device, 0 if it is not; absent where the system doesn't say.
pub const NEAR: &str = "near";

/// Copies by a copy engine, back to back, by node and direction.
#[must_use]
pub fn nodes() -> TypedSeries<Place> {
    let metrics = vec![metrics::bandwidth(), metric(NEAR, Unit::One, Quantity::Extra)];
    let draw = Draw::bars("node", "bandwidth").grouped_by("direction");
    TypedSeries::hot("nodes", metrics, draw).with_precision(HOST_PRECISION)
}

/// For each direction the bandwidth of the near node and of the slowest far one.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(series) = series.iter().find(|series| series.spec.case == "nodes") else { return Vec::new() };
    let by_direction = |direction: Direction| {
        let rows = known_rows(series).filter(|(at, _): &(Place, &Row)| at.direction == direction);
        let mut rows: Vec<Measured<'_>> = rows
            .filter_map(|(at, row)| {
                let near = series.estimate(row, NEAR).map(|near| near.value > 0.5);
                Some(Measured { node: at.node.0, near, row, bandwidth: series.estimate(row, "bandwidth")? })
            })
            .collect();
        rows.sort_by(|a, b| b.bandwidth.value.total_cmp(&a.bandwidth.value));
        near_and_far(direction, &rows)
    };
    Direction::ALL.into_iter().flat_map(by_direction).collect()
}

/// A node's row with its figures.
struct Measured<'s> {
    node: u64,
    near: Option<bool>,
    row: &'s Row,
    bandwidth: Estimate,
}

/// Findings from the nodes of one direction, fastest first.
fn near_and_far(direction: Direction, rows: &[Measured<'_>]) -> Vec<Finding> {
    let known = rows.iter().find(|one| one.near == Some(true));
    // Without the near node, only far ones are known.
    let near = known.or(rows.first().filter(|_| rows.iter().all(|one| one.near.is_none())));
    let sure = if known.is_some() { "" } else { ", the fastest: the system doesn't say which node is near" };
    let report = |one: &Measured<'_>, which: &str, says: String| Finding {
        says,
        ..finding(format!("{direction} {which}"), Unit::BytePerSecond, one.row, one.bandwidth)
    };
    let found = near.map(|near| report(near, "near", format!("Host memory on node {}{sure}.", near.node)));
    let far = rows.iter().rfind(|one| near.is_none_or(|near| one.node != near.node)).map(|far| {
        let loss = near.map(|near| 100.0 * (1.0 - far.bandwidth.value / near.bandwidth.value));
        let less = loss.map_or_else(String::new, |loss| format!(", {loss:.1} % less"));
        report(far, "far", format!("Host memory on node {}{less}.", far.node))
    });
    found.into_iter().chain(far).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;

    fn point(node: u64, direction: Direction, bytes: u64, near: Option<f64>) -> Point {
        let work = Work { traffic: Traffic::new(bytes, 0), ..Work::default() };
        let at = Place { node: Count(node), direction };
        let extra = near.map(|near| (NEAR.to_owned(), near)).into_iter().collect();
        Point { extra, ..Point::new(at.to_values(), work, vec![1_000_000; 30]) }
    }

    #[test]
    fn without_the_near_node_no_far_one_is_called_near() {
        let points = [point(1, Direction::Up, 50_000, Some(0.0)), point(2, Direction::Up, 40_000, Some(0.0))];
        let found = findings(&DeviceInfo::default(), &[Series::new(nodes(), points)]);
        let said: Vec<(&str, &str)> = found.iter().map(|one| (one.name.as_str(), one.says.as_str())).collect();
        assert_eq!(said, [("H2D far", "Host memory on node 2.")]);
    }

    #[test]
    fn the_near_node_and_the_slowest_far_one_are_reported() {
        let points = [
            point(0, Direction::Up, 40_000, Some(0.0)),
            point(1, Direction::Up, 50_000, Some(1.0)),
            point(2, Direction::Up, 55_000, Some(0.0)),
            point(0, Direction::Down, 50_000, Some(0.0)),
        ];
        let found = findings(&DeviceInfo::default(), &[Series::new(nodes(), points)]);
        let names: Vec<&str> = found.iter().map(|finding| finding.name.as_str()).collect();
        assert_eq!(names, ["H2D near", "H2D far", "D2H far"]);
        assert!((found[0].value - 50e6).abs() < 1.0 && found[0].says == "Host memory on node 1.", "{found:?}");
        assert!((found[1].value - 40e6).abs() < 1.0 && found[1].says.contains("node 0, 20.0 % less"), "{found:?}");
    }

    #[test]
    fn the_fastest_node_counts_as_near_where_the_system_does_not_say() {
        let points = [point(0, Direction::Up, 40_000, None), point(1, Direction::Up, 50_000, None)];
        let found = findings(&DeviceInfo::default(), &[Series::new(nodes(), points)]);
        assert!(found[0].says.contains("node 1, the fastest") && found[1].says.contains("node 0"), "{found:?}");
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
