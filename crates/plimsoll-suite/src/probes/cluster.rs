//! cluster: shared memory of the other blocks of a cluster: how far away it is, and how many bytes move per cycle.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::flag::Flags;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Estimate, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "cluster",
    group: "caches",
    sentence: "How far the shared memory of another block of the cluster is, and what moves to and from it per cycle.",
    page: "cluster.md",
    seconds: [3.0, 12.0, 36.0],
    findings,
};

/// Loads of 16 bytes from the partner's shared memory.
pub const READ: &str = "read";
/// The same from the block's own, to compare with.
pub const READ_OWN: &str = "own shared memory";
/// Stores of 16 bytes.
pub const WRITE: &str = "write";
/// Additions of 4 bytes.
pub const ADD: &str = "add";
/// Bulk copies of 8 KiB.
pub const BULK: &str = "bulk copy";
/// Every access, in the order in which they are shown.
pub const ACCESSES: [&str; 5] = [READ, WRITE, ADD, BULK, READ_OWN];
/// What all multiprocessors move together: measured by the workload.
pub const TOTAL: &str = "all multiprocessors";

/// Latency of a load by the blocks of the cluster and by the rank whose memory it is; rank 0 chases. A cluster of 1 is a
/// plain load from the block's own shared memory.
#[must_use]
pub fn latency() -> SeriesSpec {
    SeriesSpec::new(
        "latency",
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("cluster", Unit::One), axis("rank", Unit::One)],
        vec![
            metric("cycles", Unit::Cycle, Quantity::CyclesPerOperation),
            metric("latency", Unit::Second, Quantity::TimePerOperation),
        ],
        Draw::Lines { x: "rank".into(), y: "cycles".into(), by: Some("cluster".into()), log_x: false, log_y: false },
    )
}

/// Bytes per cycle that one block, alone on its multiprocessor, moves while all others do.
#[must_use]
pub fn bandwidth() -> SeriesSpec {
    SeriesSpec::new(
        "bandwidth",
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("access", Unit::One), axis("cluster", Unit::One)],
        vec![
            metric("per multiprocessor", Unit::BytePerCycle, Quantity::BytesPerCycle),
            metric(TOTAL, Unit::BytePerSecond, Quantity::Extra),
        ],
        Draw::Bars { x: "access".into(), y: "per multiprocessor".into(), by: Some("cluster".into()) },
    )
}

/// Per size of cluster the latency to the other ranks, and per access and size what moves.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let of = |case: &str| series.iter().find(|series| series.spec.case == case);
    let latencies = of("latency").into_iter().flat_map(|latency| {
        let metrics = [("latency", Unit::Second, ""), ("cycles", Unit::Cycle, " in cycles")];
        clusters(latency).into_iter().flat_map(move |cluster| {
            metrics.clone().into_iter().filter_map(move |metric| distance(latency, cluster, metric))
        })
    });
    let bandwidths = of("bandwidth").into_iter().flat_map(|bandwidth| {
        let one = |row: &Row| {
            let (access, cluster) = (bandwidth.text(row, "access")?, bandwidth.number(row, "cluster")?);
            let name = if access == READ_OWN { access.to_owned() } else { format!("{access}, cluster of {cluster}") };
            let figure = bandwidth.estimate(row, "per multiprocessor")?;
            Some(Finding {
                says: "Per multiprocessor, while all do so.".to_owned(),
                ..super::finding(name, Unit::BytePerCycle, row, figure)
            })
        };
        bandwidth.rows.iter().filter_map(one).collect::<Vec<Finding>>()
    });
    latencies.chain(bandwidths).collect()
}

/// The sizes of cluster that were measured.
fn clusters(latency: &Series) -> Vec<f64> {
    let mut sizes: Vec<f64> = latency.rows.iter().filter_map(|row| latency.number(row, "cluster")).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}

/// The mean over the other ranks of a cluster, between the nearest and the farthest.
fn distance(latency: &Series, cluster: f64, (metric, unit, suffix): (&str, Unit, &str)) -> Option<Finding> {
    let other = |row: &&Row| {
        let own = latency.number(row, "rank") == Some(0.0);
        latency.number(row, "cluster") == Some(cluster) && (!own || cluster == 1.0)
    };
    let rows: Vec<(&Row, Estimate)> =
        latency.rows.iter().filter(other).filter_map(|row| Some((row, latency.estimate(row, metric)?))).collect();
    let (first, _) = *rows.first()?;
    let values = || rows.iter().map(|(_, figure)| figure);
    let value = values().map(|figure| figure.value).sum::<f64>() / rows.len() as f64;
    let lo = values().map(|figure| figure.interval.lo).fold(f64::INFINITY, f64::min);
    let hi = values().map(|figure| figure.interval.hi).fold(0.0, f64::max);
    let name = if cluster == 1.0 { "latency, own".to_owned() } else { format!("latency, cluster of {cluster}") };
    let says = if cluster == 1.0 {
        "A plain load from the block's own shared memory."
    } else {
        "Mean over the ranks; nearest to farthest."
    };
    let flags = rows.iter().fold(Flags::NONE, |flags, (row, _)| flags.union(row.flags));
    let known = Estimate { value, interval: Interval { lo, hi } };
    let plain = super::finding(format!("{name}{suffix}"), unit, first, known);
    Some(Finding { says: says.to_owned(), flags, ..plain })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::{Evidence, Work};
    use plimsoll_core::series::{Point, Value};

    /// A launch of 1000 operations or 64,000 bytes that took so many cycles at 2 GHz.
    fn point(at: Vec<Value>, cycles: u64) -> Point {
        Point {
            series: 0,
            round: 0,
            at,
            k: 1,
            tick: 0.5e-9,
            work: Work { operations: 1000.0, traffic: Traffic::new(64_000, 0), in_kernel: true, ..Work::default() },
            samples: vec![cycles; 30],
            evidence: Evidence { clock_hz: Some(2e9), ..Evidence::default() },
            flags: Flags::NONE,
            extra: Default::default(),
        }
    }

    #[test]
    fn the_own_memory_and_the_mean_of_the_other_ranks_are_told_apart() {
        let at = |cluster: u64, rank: u64| vec![cluster.into(), rank.into()];
        let points =
            [point(at(1, 0), 23_000), point(at(4, 0), 30_000), point(at(4, 1), 180_000), point(at(4, 2), 200_000)];
        let found = findings(&DeviceInfo::default(), &[Series::new(latency(), points)]);
        let figures: Vec<(&str, f64)> = found.iter().map(|finding| (finding.name.as_str(), finding.value)).collect();
        assert_eq!(figures.len(), 4);
        assert_eq!(figures[1].0, "latency, own in cycles");
        assert!((figures[1].1 - 23.0).abs() < 1e-9 && (figures[3].1 - 190.0).abs() < 1e-9, "{figures:?}");
        assert!((found[2].value - 95e-9).abs() < 1e-15 && (found[3].interval.hi - 200.0).abs() < 1e-9);
    }

    #[test]
    fn bytes_per_cycle_are_told_per_access_and_cluster() {
        let points = [point(vec![READ.into(), 2_u64.into()], 2000), point(vec![READ_OWN.into(), 2_u64.into()], 500)];
        let found = findings(&DeviceInfo::default(), &[Series::new(bandwidth(), points)]);
        let figures: Vec<(&str, f64)> =
            found.iter().map(|finding| (finding.name.as_str(), finding.value.round())).collect();
        assert_eq!(figures, [("read, cluster of 2", 32.0), (READ_OWN, 128.0)]);
    }
}
