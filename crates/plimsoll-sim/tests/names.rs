//! The names by which others know what a simulated run writes: its series and its findings.

mod common;

use common::measure;
use plimsoll_core::probe::Request;
use plimsoll_core::record::Record;

/// The cases of the series and the names of the findings, each in the order written.
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

#[test]
fn stream_keeps_its_names() {
    let expected = ["kernels; threads; best", "init; read; copy; scale; add; triad; schoenauer; dot; 3pt; 5pt"];
    assert_eq!(names("stream"), expected);
}

#[test]
fn copy_keeps_its_names() {
    let expected = [
        "cold; hot; grids; indices; one multiprocessor",
        "hot against cold; vec4 against naive; break point vec4; min against grid_dim1; 32-bit against 64-bit; \
         one multiprocessor grid-stride; one multiprocessor vec2; one multiprocessor vec4",
    ];
    assert_eq!(names("copy"), expected);
}

#[test]
fn latency_keeps_its_names() {
    let expected = [
        "chase; knees",
        "latency L1; latency L1 in cycles; latency L2; latency L2 in cycles; latency L3; latency L3 in cycles; \
         latency memory; latency memory in cycles; capacity L1; capacity L2; capacity L3; TLB reach; page walk",
    ];
    assert_eq!(names("latency"), expected);
}

#[test]
fn launch_keeps_its_names() {
    let expected = [
        "empty; single; scale",
        "empty, stream; empty, graph; empty, stream, dependent; empty, graph, dependent; empty, graph, exit; \
         grid barrier; single launch, events; single launch, host; \
         launch, stream; asymptote, stream; launch, graph; asymptote, graph; \
         launch, stream, dependent; asymptote, stream, dependent; launch, graph, dependent; asymptote, graph, dependent; \
         launch, graph, exit; asymptote, graph, exit; launch, persistent; asymptote, persistent",
    ];
    assert_eq!(names("launch"), expected);
}
