//! The names of series and findings that a simulated run writes, which other tools rely on.

mod common;

use common::measure;
use plimsoll_core::probe::Request;
use plimsoll_core::record::Record;

/// The cases of the series and the names of the findings, in the order written.
fn names(probe: &str) -> [String; 2] {
    let (_, records) = measure("seed=7", probe, &Request::default());
    let (mut cases, mut findings) = (Vec::new(), Vec::new());
    for record in records {
        match record {
            Record::Series(series) => cases.push(series.case),
            Record::Finding(finding) => findings.push(finding.name),
            _ => {}
        }
    }
    [cases.join("; "), findings.join("; ")]
}

/// For each probe a test that its series and its findings keep their names.
macro_rules! keep {
    ($($test:ident: $probe:literal, $cases:literal, $findings:literal;)+) => {$(
        #[test]
        fn $test() {
            assert_eq!(names($probe), [$cases, $findings]);
        }
    )+};
}

keep! {
    stream_keeps_its_names: "stream", "kernels; threads; best",
        "init; read; copy; scale; add; triad; schoenauer; dot; 3pt; 5pt";
    copy_keeps_its_names: "copy", "cold; hot; grids; indices; one multiprocessor",
        "hot against cold; vec4 against naive; break point vec4; min against grid_dim1; 32-bit against 64-bit; \
         one multiprocessor grid-stride; one multiprocessor vec2; one multiprocessor vec4";
    latency_keeps_its_names: "latency", "chase; knees",
        "latency L1; latency L1 in cycles; latency L2; latency L2 in cycles; latency L3; latency L3 in cycles; \
         latency memory; latency memory in cycles; capacity L1; capacity L2; capacity L3; TLB reach; page walk";
    launch_keeps_its_names: "launch", "empty; single; scale",
        "empty, stream; empty, graph; empty, stream, dependent; empty, graph, dependent; empty, graph, exit; \
         grid barrier; single launch, events; single launch, host; \
         launch, stream; asymptote, stream; launch, graph; asymptote, graph; \
         launch, stream, dependent; asymptote, stream, dependent; launch, graph, dependent; asymptote, graph, dependent; \
         launch, graph, exit; asymptote, graph, exit; launch, persistent; asymptote, persistent";
    mix_keeps_its_names: "mix", "bursts; ceilings; phased copy",
        "0:1; 0:2; 0:3; 0:4; 1:0; 1:1; 1:2; 1:3; 1:4; 2:0; 2:1; 2:2; 2:3; 2:4; 3:0; 3:1; 3:2; 3:3; 3:4; \
         4:0; 4:1; 4:2; 4:3; 4:4; turning; phased copy";
    dispatch_keeps_its_names: "dispatch", "blocks; programmatic",
        "blocks per clock; threads per clock; blocks per clock, waiting; blocks per clock, signalling";
    footprint_keeps_its_names: "footprint", "curve",
        "read L1; read L2; read L3; read memory; copy L1; copy L2; copy L3; copy memory; \
         triad L1; triad L2; triad L3; triad memory";
    loaded_latency_keeps_its_names: "loaded-latency", "load",
        "latency idle; latency half read; latency full read; latency half copy; latency full copy";
    incore_keeps_its_names: "incore", "operations",
        "latency ADD f64 scalar; latency MUL f64 scalar; latency FMA f64 scalar; latency DIV f64 scalar; \
         latency SQRT f64 scalar; latency ADD f64 512; latency MUL f64 512; latency FMA f64 512; latency DIV f64 512; \
         latency SQRT f64 512";
    strides_keeps_its_names: "strides", "tableau",
        "unit stride, 4 B elements; worst stride, 4 B elements; unit stride, 8 B elements; \
         worst stride, 8 B elements; unit stride, 16 B elements; worst stride, 16 B elements";
    digest_keeps_its_names: "digest", "digests",
        "FMA f32; FMA f64; special functions; integer; matrix bf16; shared memory";
    neighbours_keeps_its_names: "neighbours", "memory reads; host to device; device to host; matrix products; pairs",
        "memory reads, largest loss; host to device, largest loss; host to device, all at once; \
         device to host, largest loss; device to host, all at once; matrix products, largest loss; pairs, largest loss";
    numa_keeps_its_names: "numa", "nodes", "H2D near; H2D far; D2H near; D2H far";
    nccl_keeps_its_names: "nccl", "collectives",
        "all-reduce; all-reduce, latency; all-gather; all-gather, latency";
    sync_keeps_its_names: "sync", "primitives",
        "spin barrier, 2 threads; spin barrier, 4 threads; spin barrier, 8 threads; spin barrier, 16 threads; \
         std barrier, 2 threads; std barrier, 4 threads; std barrier, 8 threads; std barrier, 16 threads; \
         park and unpark, 2 threads; park and unpark, 4 threads; park and unpark, 8 threads; \
         park and unpark, 16 threads; line hand-over; line hand-over, 4 threads; line hand-over, 8 threads; \
         line hand-over, 16 threads; atomic add, 2 threads; atomic add, 4 threads; atomic add, 8 threads; \
         atomic add, 16 threads";
}

/// A device of the host that loses more than the others is named, with its loss.
#[test]
fn the_device_that_loses_most_among_its_neighbours_is_named() {
    let (_, records) = measure("seed=7,crowded=2:30%", "neighbours", &Request::default());
    let worst = records.into_iter().find_map(|record| match record {
        Record::Finding(finding) if finding.name == "host to device, largest loss" => Some(finding),
        _ => None,
    });
    let worst = worst.unwrap();
    // Four devices share 200 GB/s, and each could have 55 alone; this one loses 30 % of its share.
    assert!((worst.value - 36.4).abs() < 2.0 && worst.says.starts_with("sim:2: "), "{worst:?}");
}
