//! The cases, axes and units of series with typed axes, as stored in records. Records and their readers depend on them, so this
//! list is written by hand and must not change. `tests/fixtures/series.jsonl` has the full lines, with metrics and pictures.

use plimsoll_core::record::Record;
use plimsoll_core::sample::CachePolicy;
use plimsoll_core::series::SeriesSpec;
use plimsoll_probes::lab::{
    async_copy, block_order, compression, fetch_granularity, formats, gemm, l2_reuse, pic, residency, rtm, sectors,
    tti, write_path,
};
use plimsoll_probes::{
    atomics, cluster, copy, dispatch, footprint, gather, incore, l1, l2, latency, launch, loaded_latency, mix, stream,
    strides, sync, topology, uniformity,
};
use plimsoll_probes::{interference, managed, peer, roofline, tensor, transfer};

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
fn roofline_keeps_its_axes() {
    let shapes = [shape(roofline::sweep()), shape(roofline::energy())];
    let expected = ["sweep: type (1), intensity (FLOP/B)", "energy: type (1), intensity (FLOP/B)"];
    assert_eq!(shapes, expected);
}

#[test]
fn tensor_keeps_its_axes() {
    let shapes = [
        shape(tensor::latency()),
        shape(tensor::multiprocessor()),
        shape(tensor::saturated()),
        shape(tensor::device()),
    ];
    let expected = [
        "latency: instruction (1)",
        "multiprocessor: instruction (1), ilp (1), warps (1)",
        "saturated: instruction (1), ilp (1), warps (1)",
        "device: instruction (1)",
    ];
    assert_eq!(shapes, expected);
}

#[test]
fn transfer_keeps_its_axes() {
    let shapes = [shape(transfer::copies()), shape(transfer::single())];
    let expected = ["copies: path (1), size (B)", "single: path (1), size (B)"];
    assert_eq!(shapes, expected);
}

#[test]
fn interference_keeps_its_axes() {
    let shapes = [shape(interference::rates())];
    let expected = ["rates: work (1), beside (1)"];
    assert_eq!(shapes, expected);
}

#[test]
fn managed_keeps_its_axes() {
    let shapes = [shape(managed::triad())];
    let expected = ["triad: placement (1)"];
    assert_eq!(shapes, expected);
}

#[test]
fn peer_keeps_its_axes() {
    let shapes = [shape(peer::one_way()), shape(peer::both_ways()), shape(peer::reads()), shape(peer::latency())];
    let expected = [
        "one way: from (1), to (1)",
        "both ways: from (1), to (1)",
        "reads by a kernel: from (1), to (1)",
        "latency: from (1), to (1)",
    ];
    assert_eq!(shapes, expected);
}

#[test]
fn sectors_keeps_its_axes() {
    let shapes = [shape(sectors::level(sectors::FIRST)), shape(sectors::level(sectors::SECOND))];
    let expected = ["first-level cache: access (B), pattern (1)", "second-level cache: access (B), pattern (1)"];
    assert_eq!(shapes, expected);
}

#[test]
fn fetch_granularity_keeps_its_axes() {
    let shapes = [shape(fetch_granularity::reads())];
    let expected = ["reads: limit (B), hint (1)"];
    assert_eq!(shapes, expected);
}

#[test]
fn l2_reuse_keeps_its_axes() {
    let shapes = [shape(l2_reuse::tiles())];
    let expected = ["tiles: form (1), tile (B)"];
    assert_eq!(shapes, expected);
}

#[test]
fn residency_keeps_its_axes() {
    let shapes = [shape(residency::histogram()), shape(residency::sliding()), shape(residency::reset())];
    let expected = ["histogram: way (1), bins (B)", "sliding window: way (1), window (B)", "reset: after (1)"];
    assert_eq!(shapes, expected);
}

#[test]
fn compression_keeps_its_axes() {
    let shapes = [shape(compression::saxpy()), shape(compression::knee())];
    let expected = ["saxpy: data (1), grid (1)", "footprint: data (1), footprint (B)"];
    assert_eq!(shapes, expected);
}

#[test]
fn rtm_keeps_its_axes() {
    let shapes = [shape(rtm::speed()), shape(rtm::wavefield())];
    let expected = ["speed: case (1), step (1)", "wavefield: x (1), z (1)"];
    assert_eq!(shapes, expected);
}

#[test]
fn async_copy_keeps_its_axes() {
    let shapes = [
        shape(async_copy::tiles(async_copy::FROM_L2)),
        shape(async_copy::tiles(async_copy::AFRESH)),
        shape(async_copy::tiles(async_copy::FROM_MEMORY)),
    ];
    let expected = [
        "from the L2: way (1), tile (B), stages (1)",
        "from the L2, best afresh: way (1), tile (B), stages (1)",
        "from memory: way (1), tile (B), stages (1)",
    ];
    assert_eq!(shapes, expected);
}

#[test]
fn tti_keeps_its_axes() {
    let shapes = [shape(tti::speed())];
    let expected = ["speed: copies (1)"];
    assert_eq!(shapes, expected);
}

#[test]
fn write_path_keeps_its_axes() {
    let shapes = [
        shape(write_path::stores(write_path::MEMORY)),
        shape(write_path::stores(write_path::L2)),
        shape(write_path::chains()),
        shape(write_path::again()),
    ];
    let expected = [
        "stores to memory: stored (B)",
        "stores to the L2: stored (B)",
        "loads behind stores: step (1)",
        "read again: memory (1), passes (1)",
    ];
    assert_eq!(shapes, expected);
}

#[test]
fn block_order_keeps_its_axes() {
    let shapes = [shape(block_order::orders(block_order::ORDERS)), shape(block_order::orders(block_order::AFRESH))];
    let expected = ["orders: order (1)", "afresh: order (1)"];
    assert_eq!(shapes, expected);
}

#[test]
fn formats_keeps_its_axes() {
    let shapes = [shape(formats::limits()), shape(formats::rates())];
    let expected = [
        "limits: format (1), largest (1), largest doubled (1), smallest normal (1), smallest (1), step at 1 (1), after 1 (1), not a number (1)",
        "rates: format (1), form (1), instruction (1)",
    ];
    assert_eq!(shapes, expected);
}

#[test]
fn gemm_keeps_its_axes() {
    let shapes = [shape(gemm::instructions()), shape(gemm::products())];
    let expected = ["instructions: numbers (1), form (1), instruction (1)", "products: numbers (1), n (1)"];
    assert_eq!(shapes, expected);
}

#[test]
fn pic_keeps_its_axes() {
    let shapes = [shape(pic::rate())];
    let expected = ["pushes: way (1), pushes (1)"];
    assert_eq!(shapes, expected);
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
        ("roofline", roofline::sweep().into()),
        ("roofline", roofline::energy().into()),
        ("tensor", tensor::latency().into()),
        ("tensor", tensor::multiprocessor().into()),
        ("tensor", tensor::saturated().into()),
        ("tensor", tensor::device().into()),
        ("transfer", transfer::copies().into()),
        ("transfer", transfer::single().into()),
        ("interference", interference::rates().into()),
        ("managed", managed::triad().into()),
        ("peer", peer::one_way().into()),
        ("peer", peer::both_ways().into()),
        ("peer", peer::reads().into()),
        ("peer", peer::latency().into()),
        ("sectors", sectors::level(sectors::FIRST).into()),
        ("sectors", sectors::level(sectors::SECOND).into()),
        ("fetch-granularity", fetch_granularity::reads().into()),
        ("l2-reuse", l2_reuse::tiles().into()),
        ("residency", residency::histogram().into()),
        ("residency", residency::sliding().into()),
        ("residency", residency::reset().into()),
        ("compression", compression::saxpy().into()),
        ("compression", compression::knee().into()),
        ("rtm", rtm::speed().into()),
        ("rtm", rtm::wavefield().into()),
        ("async-copy", async_copy::tiles(async_copy::FROM_L2).into()),
        ("async-copy", async_copy::tiles(async_copy::AFRESH).into()),
        ("async-copy", async_copy::tiles(async_copy::FROM_MEMORY).into()),
        ("tti", tti::speed().into()),
        ("write-path", write_path::stores(write_path::MEMORY).into()),
        ("write-path", write_path::stores(write_path::L2).into()),
        ("write-path", write_path::chains().into()),
        ("write-path", write_path::again().into()),
        ("block-order", block_order::orders(block_order::ORDERS).into()),
        ("block-order", block_order::orders(block_order::AFRESH).into()),
        ("formats", formats::limits().into()),
        ("formats", formats::rates().into()),
        ("gemm", gemm::instructions().into()),
        ("gemm", gemm::products().into()),
        ("pic", pic::rate().into()),
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
