//! The cases, axes and units of series with typed axes, as stored in records. Records and their readers depend on them, so this
//! list is written by hand and must not change. `tests/fixtures/series.jsonl` has the full lines, with metrics and pictures.

use plimsoll_core::record::Record;
use plimsoll_core::sample::CachePolicy;
use plimsoll_core::series::SeriesSpec;
use plimsoll_probes::lab::{
    async_copy, block_order, compression, fetch_granularity, formats, gemm, l2_reuse, pic, residency, rtm, sectors,
    soak, tti, write_path,
};
use plimsoll_probes::{
    atomics, cluster, copy, digest, dispatch, footprint, gather, incore, l1, l2, latency, launch, loaded_latency, mix,
    stream, strides, sync, topology, uniformity,
};
use plimsoll_probes::{interference, managed, nccl, neighbours, numa, peer, roofline, tensor, transfer};

/// Every series: its probe, and its case and axes as `case: axis (unit), …`.
fn table() -> Vec<(&'static str, SeriesSpec, &'static str)> {
    vec![
        ("stream", stream::kernels().into(), "kernels: kernel (1), stores (1)"),
        ("stream", stream::threads().into(), "threads: kernel (1), threads (thread)"),
        ("stream", stream::best().into(), "best: kernel (1), stores (1), threads (thread)"),
        ("stream", stream::occupancy().into(), "occupancy: kernel (1), form (1), threads (thread)"),
        (
            "stream",
            stream::bytes_in_flight().into(),
            "bytes in flight: kernel (1), hints (1), vector (B), unroll (1), block (thread)",
        ),
        (
            "stream",
            stream::configurations().into(),
            "configurations: kernel (1), hints (1), vector (B), unroll (1), block (thread)",
        ),
        ("stream", stream::placements().into(), "placements: kernel (1), output moved (B)"),
        ("stream", stream::best_configuration().into(), "best: kernel (1), configuration (1)"),
        ("copy", copy::all_kernels(CachePolicy::ColdRotate).into(), "cold: kernel (1), size (B)"),
        ("copy", copy::all_kernels(CachePolicy::Hot).into(), "hot: kernel (1), size (B)"),
        ("copy", copy::grids().into(), "grids: grid (1), kernel (1), size (B)"),
        ("copy", copy::indices().into(), "indices: index (1), kernel (1), size (B)"),
        ("copy", copy::one_multiprocessor().into(), "one multiprocessor: kernel (1)"),
        ("copy", copy::trace(CachePolicy::Hot).into(), "trace hot: kernel (1), size (B)"),
        ("copy", copy::trace(CachePolicy::ColdRotate).into(), "trace cold: kernel (1), size (B)"),
        ("latency", latency::hops(latency::CHASE).into(), "chase: pages (1), order (1), footprint (B)"),
        ("latency", latency::hops(latency::KNEES).into(), "knees: pages (1), order (1), footprint (B)"),
        ("latency", latency::device::hops(latency::CHASE).into(), "chase: order (1), footprint (B)"),
        ("latency", latency::device::hops(latency::KNEES).into(), "knees: order (1), footprint (B)"),
        ("launch", launch::empty().into(), "empty: mode (1)"),
        ("launch", launch::single().into(), "single: clock (1)"),
        ("launch", launch::scale().into(), "scale: mode (1), footprint (B)"),
        ("launch", launch::cold().into(), "cold: mode (1), footprint (B)"),
        ("cluster", cluster::latency().into(), "latency: cluster (1), rank (1)"),
        ("cluster", cluster::bandwidth().into(), "bandwidth: access (1), cluster (1)"),
        ("mix", mix::bursts().into(), "bursts: reads (1), writes (1), burst (1)"),
        ("mix", mix::ceilings().into(), "ceilings: reads (1), writes (1)"),
        ("mix", mix::phased().into(), "phased copy: chunk (B)"),
        ("dispatch", dispatch::blocks().into(), "blocks: threads (thread)"),
        ("dispatch", dispatch::programmatic().into(), "programmatic: kind (1), threads (thread)"),
        ("gather", gather::accesses(gather::CASES[0]).into(), "reads: access (B), footprint (B)"),
        ("gather", gather::accesses(gather::CASES[1]).into(), "writes: access (B), footprint (B)"),
        ("gather", gather::accesses(gather::CASES[2]).into(), "additions: access (B), footprint (B)"),
        ("footprint", footprint::curve().into(), "curve: kernel (1), footprint (B)"),
        ("uniformity", uniformity::draws().into(), "multiprocessors: multiprocessor (1)"),
        ("uniformity", uniformity::distances().into(), "distances: multiprocessor (1)"),
        ("uniformity", uniformity::regions().into(), "regions: offset (B)"),
        ("uniformity", uniformity::pages().into(), "pages: offset (B)"),
        ("digest", digest::digests().into(), "digests: kind (1), multiprocessor (1)"),
        ("loaded-latency", loaded_latency::load().into(), "load: background (1), delay (cycle), threads (thread)"),
        ("topology", topology::map().into(), "map: multiprocessor (1), line group (1)"),
        ("atomics", atomics::latency().into(), "latency: memory (1), type (1)"),
        ("atomics", atomics::rate(atomics::Memory::Shared).into(), "shared: addition (1), addresses (1)"),
        ("atomics", atomics::rate(atomics::Memory::Global).into(), "global: addition (1), addresses (1)"),
        ("incore", incore::operations().into(), "operations: instruction (1), ilp (1)"),
        ("incore", incore::best().into(), "best: instruction (1), ilp (1)"),
        ("incore", incore::instructions().into(), "instructions: instruction (1), ilp (1), warps (1)"),
        ("incore", incore::saturated().into(), "saturated: instruction (1), ilp (1), warps (1)"),
        ("incore", incore::grid().into(), "chains and warps: instruction (1), ilp (1), warps (1)"),
        ("l1", l1::curve().into(), "curve: access (1), footprint (B)"),
        ("l2", l2::curve().into(), "curve: access (1), footprint (B)"),
        ("strides", strides::tableau().into(), "tableau: element (B), stride (element)"),
        ("strides", strides::shared().into(), "shared memory: element (B), stride (element)"),
        ("strides", strides::shapes().into(), "shapes: shape (1), pitch (B)"),
        ("sync", sync::primitives().into(), "primitives: primitive (1), threads (thread)"),
        ("roofline", roofline::sweep().into(), "sweep: type (1), intensity (FLOP/B)"),
        ("roofline", roofline::energy().into(), "energy: type (1), intensity (FLOP/B)"),
        ("tensor", tensor::latency().into(), "latency: instruction (1)"),
        ("tensor", tensor::multiprocessor().into(), "multiprocessor: instruction (1), ilp (1), warps (1)"),
        ("tensor", tensor::saturated().into(), "saturated: instruction (1), ilp (1), warps (1)"),
        ("tensor", tensor::device().into(), "device: instruction (1)"),
        ("transfer", transfer::copies().into(), "copies: path (1), size (B)"),
        ("transfer", transfer::single().into(), "single: path (1), size (B)"),
        ("interference", interference::rates().into(), "rates: work (1), beside (1)"),
        ("managed", managed::triad().into(), "triad: placement (1)"),
        ("peer", peer::one_way().into(), "one way: from (1), to (1)"),
        ("peer", peer::both_ways().into(), "both ways: from (1), to (1)"),
        ("peer", peer::reads().into(), "reads by a kernel: from (1), to (1)"),
        ("peer", peer::latency().into(), "latency: from (1), to (1)"),
        ("sectors", sectors::level(sectors::FIRST).into(), "first-level cache: access (B), pattern (1)"),
        ("sectors", sectors::level(sectors::SECOND).into(), "second-level cache: access (B), pattern (1)"),
        ("fetch-granularity", fetch_granularity::reads().into(), "reads: limit (B), hint (1)"),
        ("l2-reuse", l2_reuse::tiles().into(), "tiles: form (1), tile (B)"),
        ("residency", residency::histogram().into(), "histogram: way (1), bins (B)"),
        ("residency", residency::sliding().into(), "sliding window: way (1), window (B)"),
        ("residency", residency::reset().into(), "reset: after (1)"),
        ("compression", compression::saxpy().into(), "saxpy: data (1), grid (1)"),
        ("compression", compression::knee().into(), "footprint: data (1), footprint (B)"),
        ("rtm", rtm::speed().into(), "speed: case (1), step (1)"),
        ("rtm", rtm::wavefield().into(), "wavefield: x (1), z (1)"),
        ("async-copy", async_copy::tiles(async_copy::FROM_L2).into(), "from the L2: way (1), tile (B), stages (1)"),
        (
            "async-copy",
            async_copy::tiles(async_copy::AFRESH).into(),
            "from the L2, best afresh: way (1), tile (B), stages (1)",
        ),
        ("async-copy", async_copy::tiles(async_copy::FROM_MEMORY).into(), "from memory: way (1), tile (B), stages (1)"),
        ("tti", tti::speed().into(), "speed: copies (1)"),
        ("write-path", write_path::stores(write_path::MEMORY).into(), "stores to memory: stored (B)"),
        ("write-path", write_path::stores(write_path::L2).into(), "stores to the L2: stored (B)"),
        ("write-path", write_path::chains().into(), "loads behind stores: step (1)"),
        ("write-path", write_path::again().into(), "read again: memory (1), passes (1)"),
        ("block-order", block_order::orders(block_order::ORDERS).into(), "orders: order (1)"),
        ("block-order", block_order::orders(block_order::AFRESH).into(), "afresh: order (1)"),
        (
            "formats",
            formats::limits().into(),
            "limits: format (1), largest (1), largest doubled (1), smallest normal (1), smallest (1), step at 1 (1), after 1 (1), not a number (1)",
        ),
        ("formats", formats::rates().into(), "rates: format (1), form (1), instruction (1)"),
        ("gemm", gemm::instructions().into(), "instructions: numbers (1), form (1), instruction (1)"),
        ("gemm", gemm::products().into(), "products: numbers (1), n (1)"),
        ("soak", soak::over_time().into(), "over time: time (s)"),
        ("pic", pic::rate().into(), "pushes: way (1), pushes (1)"),
        ("neighbours", neighbours::rates(interference::Task::Read).into(), "memory reads: device (1), with (1)"),
        ("neighbours", neighbours::rates(interference::Task::Up).into(), "host to device: device (1), with (1)"),
        ("neighbours", neighbours::rates(interference::Task::Down).into(), "device to host: device (1), with (1)"),
        ("neighbours", neighbours::products().into(), "matrix products: device (1), with (1)"),
        ("neighbours", neighbours::pairs().into(), "pairs: pair (1), with (1)"),
        ("numa", numa::nodes().into(), "nodes: node (1), direction (1)"),
        ("nccl", nccl::collectives().into(), "collectives: operation (1), size (B)"),
    ]
}

#[test]
fn every_series_keeps_its_axes() {
    for (probe, spec, expected) in table() {
        let axes: Vec<String> = spec.axes.iter().map(|axis| format!("{} ({})", axis.name, axis.unit)).collect();
        assert_eq!(format!("{}: {}", spec.case, axes.join(", ")), expected, "{probe}");
    }
}

#[test]
fn every_series_keeps_its_line_in_a_record() {
    let line = |(probe, spec, _): (&str, SeriesSpec, &str)| {
        let record = Record::Series(SeriesSpec { probe: probe.to_owned(), ..spec });
        serde_json::to_string(&record).unwrap()
    };
    let lines: Vec<String> = table().into_iter().map(line).collect();
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
    assert_eq!(
        digest::Kind::ALL.map(digest::Kind::name).join("; "),
        "FMA f32; FMA f64; special functions; integer; matrix bf16; shared memory"
    );
    assert_eq!(launch::Clock::ALL.map(launch::Clock::name), ["events", "host"]);
    assert_eq!(
        cluster::Access::ALL.map(cluster::Access::name),
        ["read", "write", "add", "bulk copy", "own shared memory"]
    );
    assert_eq!(latency::Pages::ALL.map(latency::Pages::name), ["huge", "small"]);
    assert_eq!(latency::Order::ALL.map(latency::Order::name), ["page-random", "page-local", "line a page"]);
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
        ["read, shared", "read, unique", "read, together", "write, unique", "copy, unique"]
    );
    assert_eq!(
        sync::Primitive::ALL.map(sync::Primitive::name).join("; "),
        "__syncwarp; __syncthreads; named barrier; cluster barrier; grid barrier; event record; event between streams; \
         event seen by the host; spin barrier; std barrier; park and unpark; line hand-over; mutex; atomic add"
    );
}
