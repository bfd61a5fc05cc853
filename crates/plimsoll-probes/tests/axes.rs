//! What records hold of the series whose axes are typed: cases, axes and units, in this order. Records and their readers depend
//! on them, so this list is written down by hand and stays as it is. `tests/fixtures/series.jsonl` has the whole lines, with
//! metrics and pictures.

use plimsoll_core::record::Record;
use plimsoll_core::sample::CachePolicy;
use plimsoll_core::series::SeriesSpec;
use plimsoll_probes::{
    atomics, cluster, copy, dispatch, footprint, gather, incore, l1, l2, latency, launch, loaded_latency, mix, stream,
    strides, sync, topology, uniformity,
};

/// `case: axis (unit), …`
fn shape(series: impl Into<SeriesSpec>) -> String {
    let spec = series.into();
    let axes: Vec<String> = spec.axes.iter().map(|axis| format!("{} ({})", axis.name, axis.unit)).collect();
    format!("{}: {}", spec.case, axes.join(", "))
}

#[test]
fn stream_keeps_its_axes() {
    let shapes = [
        shape(stream::kernels()),
        shape(stream::threads()),
        shape(stream::best()),
        shape(stream::occupancy()),
        shape(stream::bytes_in_flight()),
        shape(stream::configurations()),
        shape(stream::placements()),
        shape(stream::best_configuration()),
    ];
    let expected = [
        "kernels: kernel (1), stores (1)",
        "threads: kernel (1), threads (thread)",
        "best: kernel (1), stores (1), threads (thread)",
        "occupancy: kernel (1), form (1), threads (thread)",
        "bytes in flight: kernel (1), hints (1), vector (B), unroll (1), block (thread)",
        "configurations: kernel (1), hints (1), vector (B), unroll (1), block (thread)",
        "placements: kernel (1), output moved (B)",
        "best: kernel (1), configuration (1)",
    ];
    assert_eq!(shapes, expected);
}

#[test]
fn copy_keeps_its_axes() {
    let shapes = [
        shape(copy::cold()),
        shape(copy::hot()),
        shape(copy::grids()),
        shape(copy::indices()),
        shape(copy::one_multiprocessor()),
        shape(copy::trace(CachePolicy::Hot)),
        shape(copy::trace(CachePolicy::ColdRotate)),
    ];
    let expected = [
        "cold: kernel (1), size (B)",
        "hot: kernel (1), size (B)",
        "grids: grid (1), kernel (1), size (B)",
        "indices: index (1), kernel (1), size (B)",
        "one multiprocessor: kernel (1)",
        "trace hot: kernel (1), size (B)",
        "trace cold: kernel (1), size (B)",
    ];
    assert_eq!(shapes, expected);
}

#[test]
fn latency_keeps_its_axes() {
    let shapes = [
        shape(latency::chase()),
        shape(latency::knees()),
        shape(latency::device::chase()),
        shape(latency::device::knees()),
    ];
    let expected = [
        "chase: pages (1), order (1), footprint (B)",
        "knees: pages (1), order (1), footprint (B)",
        "chase: order (1), footprint (B)",
        "knees: order (1), footprint (B)",
    ];
    assert_eq!(shapes, expected);
}

#[test]
fn launch_keeps_its_axes() {
    let shapes = [shape(launch::empty()), shape(launch::single()), shape(launch::scale()), shape(launch::cold())];
    let expected =
        ["empty: mode (1)", "single: clock (1)", "scale: mode (1), footprint (B)", "cold: mode (1), footprint (B)"];
    assert_eq!(shapes, expected);
}

#[test]
fn cluster_keeps_its_axes() {
    let shapes = [shape(cluster::latency()), shape(cluster::bandwidth())];
    assert_eq!(shapes, ["latency: cluster (1), rank (1)", "bandwidth: access (1), cluster (1)"]);
}

#[test]
fn mix_keeps_its_axes() {
    let shapes = [shape(mix::bursts()), shape(mix::ceilings()), shape(mix::phased())];
    let expected =
        ["bursts: reads (1), writes (1), burst (1)", "ceilings: reads (1), writes (1)", "phased copy: chunk (B)"];
    assert_eq!(shapes, expected);
}

#[test]
fn dispatch_keeps_its_axes() {
    let shapes = [shape(dispatch::blocks()), shape(dispatch::programmatic())];
    assert_eq!(shapes, ["blocks: threads (thread)", "programmatic: kind (1), threads (thread)"]);
}

#[test]
fn gather_keeps_its_axes() {
    let shapes = gather::CASES.map(|case| shape(gather::accesses(case)));
    let expected = [
        "reads: access (B), footprint (B)",
        "writes: access (B), footprint (B)",
        "additions: access (B), footprint (B)",
    ];
    assert_eq!(shapes, expected);
}

#[test]
fn footprint_keeps_its_axes() {
    assert_eq!(shape(footprint::curve()), "curve: kernel (1), footprint (B)");
}

#[test]
fn uniformity_keeps_its_axes() {
    let shapes = [
        shape(uniformity::draws()),
        shape(uniformity::distances()),
        shape(uniformity::regions()),
        shape(uniformity::pages()),
    ];
    let expected = [
        "multiprocessors: multiprocessor (1)",
        "distances: multiprocessor (1)",
        "regions: offset (B)",
        "pages: offset (B)",
    ];
    assert_eq!(shapes, expected);
}

#[test]
fn loaded_latency_keeps_its_axes() {
    assert_eq!(shape(loaded_latency::load()), "load: background (1), delay (cycle), threads (thread)");
}

#[test]
fn topology_keeps_its_axes() {
    assert_eq!(shape(topology::map()), "map: multiprocessor (1), line group (1)");
}

#[test]
fn atomics_keeps_its_axes() {
    let [shared, global] = atomics::Memory::ALL.map(|memory| shape(atomics::rate(memory)));
    let expected =
        ["latency: memory (1), type (1)", "shared: addition (1), addresses (1)", "global: addition (1), addresses (1)"];
    assert_eq!([shape(atomics::latency()), shared, global], expected);
}

#[test]
fn incore_keeps_its_axes() {
    let shapes = [
        shape(incore::operations()),
        shape(incore::best()),
        shape(incore::instructions()),
        shape(incore::saturated()),
        shape(incore::grid()),
    ];
    let expected = [
        "operations: instruction (1), ilp (1)",
        "best: instruction (1), ilp (1)",
        "instructions: instruction (1), ilp (1), warps (1)",
        "saturated: instruction (1), ilp (1), warps (1)",
        "chains and warps: instruction (1), ilp (1), warps (1)",
    ];
    assert_eq!(shapes, expected);
}

#[test]
fn caches_keep_their_axes() {
    assert_eq!(shape(l1::curve()), "curve: access (1), footprint (B)");
    assert_eq!(shape(l2::curve()), "curve: access (1), footprint (B)");
}

#[test]
fn strides_keeps_its_axes() {
    let shapes = [shape(strides::tableau()), shape(strides::shared()), shape(strides::shapes())];
    let expected = [
        "tableau: element (B), stride (element)",
        "shared memory: element (B), stride (element)",
        "shapes: shape (1), pitch (B)",
    ];
    assert_eq!(shapes, expected);
}

#[test]
fn sync_keeps_its_axes() {
    assert_eq!(shape(sync::primitives()), "primitives: primitive (1), threads (thread)");
}

#[test]
fn every_series_keeps_its_line_in_a_record() {
    let series: Vec<(&str, SeriesSpec)> = vec![
        ("stream", stream::kernels().into()),
        ("stream", stream::threads().into()),
        ("stream", stream::best().into()),
        ("stream", stream::occupancy().into()),
        ("stream", stream::bytes_in_flight().into()),
        ("stream", stream::configurations().into()),
        ("stream", stream::placements().into()),
        ("stream", stream::best_configuration().into()),
        ("copy", copy::cold().into()),
        ("copy", copy::hot().into()),
        ("copy", copy::grids().into()),
        ("copy", copy::indices().into()),
        ("copy", copy::one_multiprocessor().into()),
        ("copy", copy::trace(CachePolicy::Hot).into()),
        ("copy", copy::trace(CachePolicy::ColdRotate).into()),
        ("latency", latency::chase().into()),
        ("latency", latency::knees().into()),
        ("latency", latency::device::chase().into()),
        ("latency", latency::device::knees().into()),
        ("launch", launch::empty().into()),
        ("launch", launch::single().into()),
        ("launch", launch::scale().into()),
        ("launch", launch::cold().into()),
        ("cluster", cluster::latency().into()),
        ("cluster", cluster::bandwidth().into()),
        ("mix", mix::bursts().into()),
        ("mix", mix::ceilings().into()),
        ("mix", mix::phased().into()),
        ("dispatch", dispatch::blocks().into()),
        ("dispatch", dispatch::programmatic().into()),
        ("gather", gather::accesses(gather::CASES[0]).into()),
        ("gather", gather::accesses(gather::CASES[1]).into()),
        ("gather", gather::accesses(gather::CASES[2]).into()),
        ("footprint", footprint::curve().into()),
        ("uniformity", uniformity::draws().into()),
        ("uniformity", uniformity::distances().into()),
        ("uniformity", uniformity::regions().into()),
        ("uniformity", uniformity::pages().into()),
        ("loaded-latency", loaded_latency::load().into()),
        ("topology", topology::map().into()),
        ("atomics", atomics::latency().into()),
        ("atomics", atomics::rate(atomics::Memory::Shared).into()),
        ("atomics", atomics::rate(atomics::Memory::Global).into()),
        ("incore", incore::operations().into()),
        ("incore", incore::best().into()),
        ("incore", incore::instructions().into()),
        ("incore", incore::saturated().into()),
        ("incore", incore::grid().into()),
        ("l1", l1::curve().into()),
        ("l2", l2::curve().into()),
        ("strides", strides::tableau().into()),
        ("strides", strides::shared().into()),
        ("strides", strides::shapes().into()),
        ("sync", sync::primitives().into()),
    ];
    let line = |(probe, spec): (&str, SeriesSpec)| {
        let record = Record::Series(SeriesSpec { probe: probe.to_owned(), ..spec });
        serde_json::to_string(&record).unwrap()
    };
    let lines: Vec<String> = series.into_iter().map(line).collect();
    let expected: Vec<&str> = include_str!("fixtures/series.jsonl").lines().collect();
    assert_eq!(lines, expected);
}

/// The names on categorical axes that other code and other records spell out.
#[test]
fn names_on_axes_are_kept() {
    assert_eq!(
        launch::Mode::ALL.map(launch::Mode::name).join("; "),
        "stream; stream, queued; graph; graph replay; stream, dependent; graph, dependent; graph, exit; persistent"
    );
    assert_eq!(launch::Clock::ALL.map(launch::Clock::name), ["events", "host"]);
    assert_eq!(
        cluster::Access::ALL.map(cluster::Access::name),
        ["read", "write", "add", "bulk copy", "own shared memory"]
    );
    assert_eq!(latency::Pages::ALL.map(latency::Pages::name), ["huge", "small"]);
    assert_eq!(latency::Order::ALL.map(latency::Order::name), ["page-random", "page-local"]);
    assert_eq!(
        latency::device::Order::ALL.map(latency::device::Order::name),
        ["page-random", "page-local", "line a page"]
    );
    assert_eq!(copy::Kernel::ALL.map(copy::Kernel::name), ["naive", "grid-stride", "vec2", "vec4", "vec8"]);
    assert_eq!(
        copy::Grid::ALL.map(copy::Grid::name).join("; "),
        "grid_dim1; grid_dim2, 1 wave; grid_dim2, 32 waves; min, 32 waves"
    );
    assert_eq!(copy::Index::ALL.map(copy::Index::name), ["32-bit", "64-bit"]);
    assert_eq!(stream::Form::ALL.map(stream::Form::name), ["persistent", "block launch"]);
    assert_eq!(stream::Stores::ALL.map(stream::Stores::name), ["ordinary", "non-temporal"]);
    assert_eq!(dispatch::Kind::ALL.map(dispatch::Kind::name), ["waiting", "signalling"]);
    assert_eq!(footprint::Kernel::ALL.map(footprint::Kernel::name), ["read", "copy", "triad"]);
    assert_eq!(
        loaded_latency::Background::ALL.map(loaded_latency::Background::name),
        ["read", "copy", "non-temporal write"]
    );
    assert_eq!(atomics::Memory::ALL.map(atomics::Memory::name), ["shared", "global"]);
    assert_eq!(atomics::Addresses::ALL.map(atomics::Addresses::name), ["same", "distinct"]);
    assert_eq!(l1::Kind::ALL.map(l1::Kind::name), ["load", "one warp's load", "store", "shared load", "shared atomic"]);
    assert_eq!(
        l2::Access::ALL.map(l2::Access::name),
        ["read, shared", "read, unique", "write, unique", "copy, unique"]
    );
    assert_eq!(
        sync::Primitive::ALL.map(sync::Primitive::name).join("; "),
        "__syncwarp; __syncthreads; named barrier; cluster barrier; grid barrier; event record; event between streams; \
         event seen by the host; spin barrier; std barrier; park and unpark; line hand-over; mutex; atomic add"
    );
}
