//! sync: what it costs that threads wait for each other: barriers, wake-ups, a cache line sent from core to core.

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
use plimsoll_core::series::{Draw, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::unit::Unit;

use plimsoll_suite::findings::finding;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "sync",
    group: "launch",
    sentence: "What barriers, wake-ups and hand-overs between threads cost.",
    seconds: [3.0, 12.0, 36.0],
    findings,
};

/// All lanes of a warp.
pub const WARP: &str = "__syncwarp";
/// All threads of a block.
pub const BLOCK: &str = "__syncthreads";
/// Half of a block's threads, at a barrier with a number.
pub const HALF: &str = "named barrier";
/// All threads of a cluster.
pub const CLUSTER: &str = "cluster barrier";
/// All threads of a grid.
pub const GRID: &str = "grid barrier";
/// From a stream to another through an event, an empty kernel on each.
pub const STREAMS: &str = "event between streams";
/// One event after another in a stream.
pub const RECORD: &str = "event record";
/// An event on an idle device, recorded and waited for by the host.
pub const HOST: &str = "event seen by the host";

/// Time of one synchronisation. Primitives that have no threads of their own are at 0 threads.
#[must_use]
pub fn primitives() -> SeriesSpec {
    SeriesSpec::new(
        "primitives",
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("primitive", Unit::One), axis("threads", Unit::Thread)],
        vec![
            metric("latency", Unit::Second, Quantity::TimePerOperation),
            metric("cycles", Unit::Cycle, Quantity::CyclesPerOperation),
        ],
        Draw::Bars { x: "primitive".into(), y: "latency".into(), by: Some("threads".into()) },
    )
}

fn findings(device: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(primitives) = series.iter().find(|series| series.spec.case == "primitives") else { return Vec::new() };
    let one = |row: &Row| {
        let (name, threads) = (primitives.text(row, "primitive")?, primitives.number(row, "threads")?);
        let contended = matches!(name, "mutex" | "atomic add");
        let of = match threads {
            0.0 => name.to_owned(),
            1.0 => format!("{name}, uncontended"),
            2.0 if !contended && name.ends_with("hand-over") => name.to_owned(),
            _ => format!("{name}, {threads} threads"),
        };
        let alone = device.multiprocessors == 1;
        let says = if alone { "Barriers and hand-overs need a second core." } else { meaning(name) };
        let told = |of: String, unit: Unit, metric: &str| {
            Some(Finding { says: says.to_owned(), ..finding(of, unit, row, primitives.estimate(row, metric)?) })
        };
        // Cycles where the kernel counted them itself.
        let counted = matches!(name, WARP | BLOCK | HALF | CLUSTER | GRID);
        let cycles = counted.then(|| told(format!("{of} in cycles"), Unit::Cycle, "cycles")).flatten();
        Some(told(of, Unit::Second, "latency").into_iter().chain(cycles).collect::<Vec<Finding>>())
    };
    primitives.rows.iter().filter_map(one).flatten().collect()
}

/// What the time of one operation spans.
fn meaning(primitive: &str) -> &'static str {
    match primitive {
        WARP => "From one meeting of all lanes to the next, of warps that are together.",
        BLOCK | HALF | CLUSTER | GRID => "From one meeting of all threads to the next.",
        STREAMS => "From an empty kernel's end through an event to the end of one in another stream.",
        RECORD => "From one event of a stream to the next.",
        HOST => "From the call that records an event on an idle device until the host has seen it.",
        "spin barrier" | "std barrier" => "From one meeting of all threads to the next.",
        "park and unpark" => "From one thread's wake-up of another until that one runs.",
        "line hand-over" => "From one core's store until the other has seen it and stored.",
        "mutex" => "What a thread waits to lock, add and unlock once.",
        "atomic add" => "What a thread waits for its addition, with this many at the same word.",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::flag::Flags;
    use plimsoll_core::sample::{Evidence, Work};
    use plimsoll_core::series::Point;

    fn point(primitive: &str, threads: u64) -> Point {
        Point {
            series: 0,
            round: 0,
            at: vec![primitive.into(), threads.into()],
            k: 1,
            tick: 1e-9,
            work: Work { operations: 10.0, ..Work::default() },
            samples: vec![1000; 30],
            evidence: Evidence::default(),
            flags: Flags::NONE,
            extra: Default::default(),
        }
    }

    #[test]
    fn every_primitive_has_a_finding_per_number_of_threads() {
        let points =
            [point("atomic add", 1), point("atomic add", 2), point("line hand-over", 2), point("std barrier", 2)];
        let two = DeviceInfo { multiprocessors: 2, ..DeviceInfo::default() };
        let found = findings(&two, &[Series::new(primitives(), points)]);
        let names: Vec<&str> = found.iter().map(|finding| finding.name.as_str()).collect();
        assert_eq!(
            names,
            ["atomic add, uncontended", "atomic add, 2 threads", "line hand-over", "std barrier, 2 threads"]
        );
        assert!(found.iter().all(|finding| (finding.value - 100e-9).abs() < 1e-15 && !finding.says.is_empty()));
    }

    #[test]
    fn what_a_kernel_counted_is_told_in_cycles_as_well_and_events_have_no_threads() {
        let evidence = Evidence { clock_hz: Some(2e9), ..Evidence::default() };
        let points = [Point { evidence, ..point(BLOCK, 256) }, point(RECORD, 0)];
        let gpu = DeviceInfo { multiprocessors: 132, ..DeviceInfo::default() };
        let found = findings(&gpu, &[Series::new(primitives(), points)]);
        let names: Vec<&str> = found.iter().map(|finding| finding.name.as_str()).collect();
        assert_eq!(names, ["__syncthreads, 256 threads", "__syncthreads, 256 threads in cycles", "event record"]);
        assert!((found[1].value - 200.0).abs() < 1e-9 && found.iter().all(|finding| !finding.says.is_empty()));
    }

    #[test]
    fn a_single_core_says_what_it_could_not_measure() {
        let one = DeviceInfo { multiprocessors: 1, ..DeviceInfo::default() };
        let found = findings(&one, &[Series::new(primitives(), [point("mutex", 1)])]);
        assert!(found[0].says.contains("second core"));
        assert!(findings(&one, &[]).is_empty());
    }
}
