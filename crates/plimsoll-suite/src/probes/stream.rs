//! stream: the bandwidth of memory for each read:write mix, by the STREAM kernels and their kin (McCalpin, STREAM;
//! Treibig, Hager and Wellein for the Schönauer triad). Its best figures are the ceilings that everything else quotes.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::unit::Unit;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "stream",
    group: "bandwidth",
    sentence: "How fast memory moves for each mix of reads and writes, from arrays far larger than any cache.",
    page: "stream.md",
    seconds: [9.0, 60.0, 180.0],
    findings,
};

/// A kernel of the family: its name and how many arrays it reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// As axes, findings and reference figures call it.
    pub name: &'static str,
    /// Arrays read.
    pub reads: u32,
    /// Arrays written.
    pub writes: u32,
}

const fn mix(name: &'static str, reads: u32, writes: u32) -> Mix {
    Mix { name, reads, writes }
}

/// The kernels, in the order in which they are measured: `a = s`, `Σa`, `a = b`, `a = s·b`, `a = b + c`, `a = b + s·c`,
/// `a = b + c·d`, `Σb·c`, and the one-dimensional stencils of three and five points, whose neighbours share their reads.
pub const KERNELS: [Mix; 10] = [
    mix("init", 0, 1),
    mix("read", 1, 0),
    mix("copy", 1, 1),
    mix("scale", 1, 1),
    mix("add", 2, 1),
    mix("triad", 2, 1),
    mix("schoenauer", 3, 1),
    mix("dot", 2, 0),
    mix("3pt", 1, 1),
    mix("5pt", 1, 1),
];

/// The kernels of the series over threads: one that only reads, one balanced, one with two reads a write.
pub const BY_THREADS: [&str; 3] = ["read", "copy", "triad"];

/// Every kernel with both kinds of store, cold, on all cores.
#[must_use]
pub fn kernels() -> SeriesSpec {
    SeriesSpec::new(
        "kernels",
        Figure::Throughput,
        CachePolicy::ColdRotate,
        vec![axis("kernel", Unit::One), axis("stores", Unit::One)],
        vec![
            metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth),
            metric("bandwidth with write-allocate", Unit::BytePerSecond, Quantity::BandwidthWithAllocate),
            metric("time", Unit::Second, Quantity::Time),
        ],
        Draw::Bars { x: "kernel".into(), y: "bandwidth".into(), by: Some("stores".into()) },
    )
}

/// Bandwidth against the number of cores that take part.
#[must_use]
pub fn threads() -> SeriesSpec {
    SeriesSpec::new(
        "threads",
        Figure::Throughput,
        CachePolicy::ColdRotate,
        vec![axis("kernel", Unit::One), axis("threads", Unit::Thread)],
        vec![metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth)],
        Draw::Lines {
            x: "threads".into(),
            y: "bandwidth".into(),
            by: Some("kernel".into()),
            log_x: false,
            log_y: false,
        },
    )
}

/// The best configuration of each kernel, measured afresh: the figures to quote.
#[must_use]
pub fn best() -> SeriesSpec {
    SeriesSpec::new(
        "best",
        Figure::Throughput,
        CachePolicy::ColdRotate,
        vec![axis("kernel", Unit::One), axis("stores", Unit::One), axis("threads", Unit::Thread)],
        vec![
            metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth),
            metric("bandwidth with write-allocate", Unit::BytePerSecond, Quantity::BandwidthWithAllocate),
            metric("time", Unit::Second, Quantity::Time),
        ],
        Draw::Table,
    )
}

/// The fresh figure of each kernel's best configuration: the ceiling of its read:write mix.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(best) = series.iter().find(|series| series.spec.case == "best") else { return Vec::new() };
    best.rows.iter().filter_map(|row| ceiling(best, row)).collect()
}

fn ceiling(best: &Series, row: &Row) -> Option<Finding> {
    let kernel = KERNELS.iter().find(|kernel| Some(kernel.name) == best.text(row, "kernel"))?;
    let threads = best.number(row, "threads")?;
    let stores = match (kernel.writes, best.text(row, "stores")) {
        (0, _) | (_, None) => String::new(),
        (_, Some(stores)) => format!(", {stores} stores"),
    };
    let plural = if threads == 1.0 { "" } else { "s" };
    Some(Finding {
        metric: "bandwidth".into(),
        says: format!("{}:{} read:write, {threads} thread{plural}{stores}", kernel.reads, kernel.writes),
        ..super::finding(kernel.name, Unit::BytePerSecond, row, best.estimate(row, "bandwidth")?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::{Point, Value};

    fn point(at: Vec<Value>, seconds: f64) -> Point {
        Point {
            series: 0,
            round: 0,
            at,
            k: 1,
            tick: 1e-9,
            work: Work { traffic: Traffic::new(2_000_000, 1_000_000), ..Work::default() },
            samples: vec![(seconds * 1e9) as u64; 30],
            evidence: Default::default(),
            flags: Default::default(),
            extra: Default::default(),
        }
    }

    #[test]
    fn only_fresh_figures_become_ceilings_and_they_say_their_mix() {
        let lucky = point(vec!["triad".into(), "ordinary".into()], 1e-6);
        let fresh = point(vec!["triad".into(), "non-temporal".into(), 2_u64.into()], 1e-3);
        let sum = point(vec!["read".into(), "ordinary".into(), 1_u64.into()], 1e-3);
        let unknown = point(vec!["later".into(), "ordinary".into(), 1_u64.into()], 1e-3);
        let series = [Series::new(kernels(), [lucky]), Series::new(best(), [fresh, sum, unknown])];
        let found = findings(&DeviceInfo::default(), &series);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].name.as_str(), found[0].metric.as_str()), ("triad", "bandwidth"));
        assert!((found[0].value / 3e9 - 1.0).abs() < 1e-9);
        assert_eq!(found[0].says, "2:1 read:write, 2 threads, non-temporal stores");
        assert_eq!(found[1].says, "1:0 read:write, 1 thread");
        assert!(findings(&DeviceInfo::default(), &series[..1]).is_empty());
    }

    #[test]
    fn the_kernels_over_threads_are_of_the_family() {
        assert!(BY_THREADS.iter().all(|name| KERNELS.iter().any(|kernel| kernel.name == *name)));
    }
}
