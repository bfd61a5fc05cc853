//! cluster: latency of and bandwidth to the shared memory of other blocks in a cluster.
//!
//! `README.md` explains the figures; `gpu` measures them.

probe! {
    /// How far the shared memory of another block of the cluster is, and what moves to and from it per cycle.
    "cluster" in "caches", seconds: [3.0, 12.0, 36.0], files: gpu kernels
}

use crate::prelude::meaning::*;

names! {
    /// How a block moves data, in the order in which it is shown.
    pub enum Access {
        /// Loads of 16 bytes from the partner's shared memory.
        Read = "read",
        /// Stores of 16 bytes.
        Write = "write",
        /// Additions of 4 bytes.
        Add = "add",
        /// Bulk copies of 8 KiB.
        Bulk = "bulk copy",
        /// Loads of 16 bytes from the block's own shared memory, to compare with.
        ReadOwn = "own shared memory",
    }
}

axes! {
    /// A chase through shared memory.
    pub struct Chase {
        /// Blocks of the cluster.
        cluster: Count,
        /// The rank that owns the memory.
        rank: Count,
    }

    /// A move from or to shared memory.
    pub struct Move {
        /// How data move.
        access: Access,
        /// Blocks of the cluster.
        cluster: Count,
    }
}

/// Bandwidth of all SMs together, measured by the workload.
pub const TOTAL: &str = "all multiprocessors";

/// Latency of a load by size of the cluster and by the rank that owns the memory; rank 0 chases. A cluster of 1 is a
/// plain load from the block's own shared memory.
#[must_use]
pub fn latency() -> TypedSeries<Chase> {
    let draw = Draw::lines("rank", "cycles").grouped_by("cluster");
    TypedSeries::hot("latency", vec![metrics::cycles(), metrics::latency()], draw)
}

/// Bytes per cycle that one block, alone on its SM, moves while all blocks do.
#[must_use]
pub fn bandwidth() -> TypedSeries<Move> {
    let metrics = vec![
        metric("per multiprocessor", Unit::BytePerCycle, Quantity::BytesPerCycle),
        metric(TOTAL, Unit::BytePerSecond, Quantity::Extra),
    ];
    let draw = Draw::bars("access", "per multiprocessor").grouped_by("cluster");
    TypedSeries::hot("bandwidth", metrics, draw)
}

/// Latency to the other ranks by cluster size, and bytes per cycle by access and cluster size.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let find_series = |case: &str| series.iter().find(|series| series.spec.case == case);
    let latencies = find_series("latency").into_iter().flat_map(|latency| {
        let metrics = [("latency", Unit::Second, ""), ("cycles", Unit::Cycle, " in cycles")];
        clusters(latency).into_iter().flat_map(move |cluster| {
            metrics.clone().into_iter().filter_map(move |metric| distance(latency, cluster, metric))
        })
    });
    let bandwidths = find_series("bandwidth").into_iter().flat_map(|bandwidth| {
        let to_finding = |(at, row): (Move, &Row)| {
            let name = match at.access {
                Access::ReadOwn => at.access.to_string(),
                access => format!("{access}, cluster of {}", at.cluster.0),
            };
            let figure = bandwidth.estimate(row, "per multiprocessor")?;
            Some(Finding {
                says: "Per multiprocessor, with all of them active.".to_owned(),
                ..finding(name, Unit::BytePerCycle, row, figure)
            })
        };
        known_rows(bandwidth).filter_map(to_finding).collect::<Vec<Finding>>()
    });
    latencies.chain(bandwidths).collect()
}

/// The sizes of cluster that were measured.
fn clusters(latency: &Series) -> Vec<Count> {
    let mut sizes: Vec<Count> = known_rows(latency).map(|(at, _): (Chase, &Row)| at.cluster).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The mean over the other ranks of a cluster, between the nearest and the farthest.
fn distance(latency: &Series, cluster: Count, (metric, unit, suffix): (&str, Unit, &str)) -> Option<Finding> {
    let alone = cluster == Count(1);
    let others =
        known_rows(latency).filter(|(at, _): &(Chase, &Row)| at.cluster == cluster && (alone || at.rank != Count(0)));
    let rows: Vec<(&Row, Estimate)> =
        others.filter_map(|(_, row)| Some((row, latency.estimate(row, metric)?))).collect();
    let (first, _) = *rows.first()?;
    let values = || rows.iter().map(|(_, figure)| figure);
    let value = values().map(|figure| figure.value).sum::<f64>() / rows.len() as f64;
    let lo = values().map(|figure| figure.interval.lo).fold(f64::INFINITY, f64::min);
    let hi = values().map(|figure| figure.interval.hi).fold(0.0, f64::max);
    let name = if alone { "latency, own".to_owned() } else { format!("latency, cluster of {}", cluster.0) };
    let says = if alone {
        "A plain load from the block's own shared memory."
    } else {
        "Mean over the ranks; interval from nearest to farthest."
    };
    let flags = rows.iter().fold(Flags::NONE, |flags, (row, _)| flags.union(row.flags));
    let known = Estimate { value, interval: Interval { lo, hi } };
    let plain = finding(format!("{name}{suffix}"), unit, first, known);
    Some(Finding { says: says.to_owned(), flags, ..plain })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::{Evidence, Work};
    use plimsoll_core::series::{Axes, Point};

    /// A launch of 1000 operations or 64,000 bytes that took so many cycles at 2 GHz.
    fn point(at: impl Axes, cycles: u64) -> Point {
        Point {
            tick: 0.5e-9,
            evidence: Evidence { clock_hz: Some(2e9), ..Evidence::default() },
            ..Point::new(
                at.to_values(),
                Work { operations: 1000.0, traffic: Traffic::new(64_000, 0), in_kernel: true, ..Work::default() },
                vec![cycles; 30],
            )
        }
    }

    #[test]
    fn latency_findings_separate_own_memory_from_other_ranks() {
        let chase = |cluster, rank| Chase { cluster: Count(cluster), rank: Count(rank) };
        let points = [(chase(1, 0), 23_000), (chase(4, 0), 30_000), (chase(4, 1), 180_000), (chase(4, 2), 200_000)]
            .map(|(chase, cycles)| point(chase, cycles));
        let found = findings(&DeviceInfo::default(), &[Series::new(latency(), points)]);
        let figures: Vec<(&str, f64)> = found.iter().map(|finding| (finding.name.as_str(), finding.value)).collect();
        assert_eq!(figures.len(), 4);
        assert_eq!(figures[1].0, "latency, own in cycles");
        assert!((figures[1].1 - 23.0).abs() < 1e-9 && (figures[3].1 - 190.0).abs() < 1e-9, "{figures:?}");
        assert!((found[2].value - 95e-9).abs() < 1e-15 && (found[3].interval.hi - 200.0).abs() < 1e-9);
    }

    #[test]
    fn bandwidth_findings_name_access_and_cluster_size() {
        let transfer = |access| Move { access, cluster: Count(2) };
        let points = [point(transfer(Access::Read), 2000), point(transfer(Access::ReadOwn), 500)];
        let found = findings(&DeviceInfo::default(), &[Series::new(bandwidth(), points)]);
        let figures: Vec<(&str, f64)> =
            found.iter().map(|finding| (finding.name.as_str(), finding.value.round())).collect();
        assert_eq!(figures, [("read, cluster of 2", 32.0), ("own shared memory", 128.0)]);
    }
}
