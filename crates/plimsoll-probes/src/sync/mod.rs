//! sync: the cost of synchronisation between threads: barriers, wake-ups, a cache line sent from core to core.

probe! {
    /// The cost of barriers, wake-ups and hand-overs between threads.
    "sync" in "launch", seconds: [3.0, 12.0, 36.0], files: cpu gpu kernels, headlines: [
        Headline::gate("line-hand-over", "line from core to core", Less, &["line hand-over"], 0.05).shown_only(),
    ]
}

use crate::prelude::meaning::*;

names! {
    /// The synchronisation primitive: those of a GPU, then those of a CPU.
    pub enum Primitive {
        /// All lanes of a warp.
        Warp = "__syncwarp",
        /// All threads of a block.
        Block = "__syncthreads",
        /// Half of a block's threads, at a numbered barrier.
        Half = "named barrier",
        /// All threads of a cluster.
        Cluster = "cluster barrier",
        /// All threads of a grid.
        Grid = "grid barrier",
        /// One event after another in a stream.
        Record = "event record",
        /// From one stream to another through an event, with an empty kernel on each.
        Streams = "event between streams",
        /// An event on an idle device, recorded and waited for by the host.
        Host = "event seen by the host",
        /// A barrier whose threads watch a cache line.
        SpinBarrier = "spin barrier",
        /// The standard library's barrier.
        StdBarrier = "std barrier",
        /// A thread that wakes another and then sleeps.
        ParkAndUnpark = "park and unpark",
        /// A cache line that two cores write in turn.
        LineHandOver = "line hand-over",
        /// A counter behind a lock.
        Mutex = "mutex",
        /// An atomic counter.
        AtomicAdd = "atomic add",
    }
}

axes! {
    /// A primitive with a number of threads.
    pub struct ByThreads {
        /// The primitive.
        primitive: Primitive,
        /// Number of threads; 0 if the primitive has no threads (events).
        threads: Threads,
    }
}

/// Time of one synchronisation. Primitives without threads (events) are at 0 threads.
#[must_use]
pub fn primitives() -> TypedSeries<ByThreads> {
    let draw = Draw::bars("primitive", "latency").grouped_by("threads");
    TypedSeries::hot("primitives", vec![metrics::latency(), metrics::cycles()], draw)
}

use Primitive::{
    AtomicAdd, Block, Cluster, Grid, Half, Host, LineHandOver, Mutex, ParkAndUnpark, Record, SpinBarrier, StdBarrier,
    Streams, Warp,
};

fn findings(device: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(primitives) = series.iter().find(|series| series.spec.case == "primitives") else { return Vec::new() };
    let to_findings = |(ByThreads { primitive, threads }, row): (ByThreads, &Row)| {
        let name = match threads.0 {
            0 => primitive.to_string(),
            1 => format!("{primitive}, uncontended"),
            2 if primitive == LineHandOver => primitive.to_string(),
            threads => format!("{primitive}, {threads} threads"),
        };
        let alone = device.multiprocessors == 1;
        let says = if alone { "Barriers and hand-overs need a second core." } else { meaning(primitive) };
        let to_finding = |name: String, unit: Unit, metric: &str| {
            Some(Finding { says: says.to_owned(), ..finding(name, unit, row, primitives.estimate(row, metric)?) })
        };
        // Cycles only if the kernel counted them itself.
        let counted = matches!(primitive, Warp | Block | Half | Cluster | Grid);
        let cycles = counted.then(|| to_finding(format!("{name} in cycles"), Unit::Cycle, "cycles")).flatten();
        to_finding(name, Unit::Second, "latency").into_iter().chain(cycles)
    };
    known_rows(primitives).flat_map(to_findings).collect()
}

/// What the time of one operation covers.
fn meaning(primitive: Primitive) -> &'static str {
    match primitive {
        Warp => "From one barrier of all lanes to the next, in converged warps.",
        Block | Half | Cluster | Grid | SpinBarrier | StdBarrier => "From one barrier of all threads to the next.",
        Streams => "From an empty kernel's end through an event to the end of one in another stream.",
        Record => "From one event of a stream to the next.",
        Host => "From the call that records an event on an idle device until the host has seen it.",
        ParkAndUnpark => "From one thread's wake-up of another until that one runs.",
        LineHandOver => "From one core's store until the other has seen it and stored.",
        Mutex => "A thread's time to lock, add and unlock once.",
        AtomicAdd => "A thread's time for one addition, with this many threads on the same word.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::sample::{Evidence, Work};
    use plimsoll_core::series::Point;

    fn point(primitive: Primitive, threads: u64) -> Point {
        Point::new(
            ByThreads { primitive, threads: Threads(threads) }.to_values(),
            Work { operations: 10.0, ..Work::default() },
            vec![1000; 30],
        )
    }

    #[test]
    fn every_primitive_has_a_finding_per_number_of_threads() {
        let points = [point(AtomicAdd, 1), point(AtomicAdd, 2), point(LineHandOver, 2), point(StdBarrier, 2)];
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
    fn kernel_timed_primitives_have_cycles_and_events_have_no_threads() {
        let evidence = Evidence { clock_hz: Some(2e9), ..Evidence::default() };
        let points = [Point { evidence, ..point(Block, 256) }, point(Record, 0)];
        let gpu = DeviceInfo { multiprocessors: 132, ..DeviceInfo::default() };
        let found = findings(&gpu, &[Series::new(primitives(), points)]);
        let names: Vec<&str> = found.iter().map(|finding| finding.name.as_str()).collect();
        assert_eq!(names, ["__syncthreads, 256 threads", "__syncthreads, 256 threads in cycles", "event record"]);
        assert!((found[1].value - 200.0).abs() < 1e-9 && found.iter().all(|finding| !finding.says.is_empty()));
    }

    #[test]
    fn single_core_findings_say_what_is_missing() {
        let one = DeviceInfo { multiprocessors: 1, ..DeviceInfo::default() };
        let found = findings(&one, &[Series::new(primitives(), [point(Mutex, 1)])]);
        assert!(found[0].says.contains("second core"));
        assert!(findings(&one, &[]).is_empty());
    }
}
