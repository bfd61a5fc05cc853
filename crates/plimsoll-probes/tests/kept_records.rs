//! Rows of kept records parse as points of today's axis types, and their findings keep the names that profiles and the model use.

use std::path::{Path, PathBuf};

use plimsoll_core::record::read_file;
use plimsoll_core::series::{Axes, Series};
use plimsoll_probes::lab::{
    async_copy, block_order, compression, fetch_granularity, formats, gemm, l2_reuse, pic, residency, rtm, sectors,
    soak, tti, write_path,
};
use plimsoll_probes::{
    atomics, cluster, constant, copy, digest, dispatch, footprint, gather, incore, interference, l1, l2, latency,
    launch, loaded_latency, managed, mix, nccl, neighbours, numa, pattern, peer, roofline, stream, strides, sync,
    tensor, topology, transfer, uniformity,
};

/// The folder of kept records.
fn records() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../records")
}

/// Records below a folder, compressed or not, by their paths.
fn records_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(records_below(&path));
        } else if entry.file_name().to_string_lossy().starts_with("run.jsonl") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Errors of the rows that don't parse as an `A`.
fn errors<A: Axes>(series: &Series) -> Vec<String> {
    series.parse_rows::<A>().filter_map(Result::err).map(|error| error.to_string()).collect()
}

/// Errors of the rows that parse as neither `A` nor `B`.
fn errors_of_either<A: Axes, B: Axes>(series: &Series) -> Vec<String> {
    if series.spec.axes == A::axes() { errors::<A>(series) } else { errors::<B>(series) }
}

/// Errors of the rows of a series; `None` if its axes aren't typed.
fn errors_of(series: &Series) -> Option<Vec<String>> {
    Some(match (series.spec.probe.as_str(), series.spec.case.as_str()) {
        ("stream", "kernels") => errors::<stream::OnAllCores>(series),
        ("stream", "threads") => errors::<stream::OnSomeCores>(series),
        ("stream", "best") => errors_of_either::<stream::BestOnCores, stream::BestConfiguration>(series),
        ("stream", "occupancy") => errors::<stream::Occupancy>(series),
        ("stream", "bytes in flight" | "configurations") => errors::<stream::Configuration>(series),
        ("stream", "placements") => errors::<stream::Placement>(series),
        ("copy", "grids") => errors::<copy::ByGrid>(series),
        ("copy", "indices") => errors::<copy::ByIndex>(series),
        ("copy", "one multiprocessor") => errors::<copy::OnOne>(series),
        ("copy", _) => errors::<copy::ByKernel>(series),
        ("latency", _) => errors_of_either::<latency::Chase, latency::device::Chase>(series),
        ("launch", "empty") => errors::<launch::ByMode>(series),
        ("launch", "single") => errors::<launch::ByClock>(series),
        ("launch", _) => errors::<launch::Scale>(series),
        ("cluster", "latency") => errors::<cluster::Chase>(series),
        ("cluster", _) => errors::<cluster::Move>(series),
        ("mix", "bursts") => errors::<mix::Burst>(series),
        ("mix", "ceilings") => errors::<mix::Sides>(series),
        ("mix", _) => errors::<mix::Phase>(series),
        ("dispatch", "blocks") => errors::<dispatch::Plain>(series),
        ("dispatch", _) => errors::<dispatch::Programmatic>(series),
        ("gather", _) => errors::<gather::Accesses>(series),
        ("footprint", _) => errors::<footprint::Spread>(series),
        ("soak", _) => errors::<soak::Window>(series),
        ("uniformity", "multiprocessors" | "distances") => errors::<uniformity::Alone>(series),
        ("uniformity", _) => errors::<uniformity::Part>(series),
        ("loaded-latency", _) => errors::<loaded_latency::Load>(series),
        ("topology", _) => errors::<topology::Reach>(series),
        ("atomics", "latency") => errors::<atomics::Chain>(series),
        ("atomics", _) => errors::<atomics::Rate>(series),
        ("constant", "latency") => errors::<constant::Chase>(series),
        ("constant", _) => errors::<constant::Read>(series),
        ("incore", "operations" | "best") => errors::<incore::Chains>(series),
        ("incore", _) => errors::<incore::ChainsOfWarps>(series),
        ("l1", _) => errors::<l1::Piece>(series),
        ("l2", _) => errors::<l2::Spread>(series),
        ("strides", "shapes") => errors::<strides::Shaped>(series),
        ("strides", _) => errors::<strides::Stride>(series),
        ("sync", _) => errors::<sync::ByThreads>(series),
        ("digest", _) => errors::<digest::Place>(series),
        ("pattern", _) => errors::<pattern::Checked>(series),
        ("roofline", _) => errors::<roofline::Place>(series),
        ("tensor", "latency" | "device") => errors::<tensor::ByInstruction>(series),
        ("tensor", _) => errors::<tensor::Configuration>(series),
        ("transfer", _) => errors::<transfer::Copy>(series),
        ("interference", _) => errors::<interference::Pair>(series),
        ("managed", _) => errors::<managed::ByPlacement>(series),
        ("peer", _) => errors::<peer::Pair>(series),
        ("neighbours", "pairs") => errors::<neighbours::Pair>(series),
        ("neighbours", _) => errors::<neighbours::Place>(series),
        ("numa", _) => errors::<numa::Place>(series),
        ("nccl", _) => errors::<nccl::Collective>(series),
        ("sectors", _) => errors::<sectors::Shape>(series),
        ("fetch-granularity", _) => errors::<fetch_granularity::Read>(series),
        ("l2-reuse", _) => errors::<l2_reuse::Tile>(series),
        ("residency", "histogram") => errors::<residency::OnBins>(series),
        ("residency", "sliding window") => errors::<residency::OnWindow>(series),
        ("residency", _) => errors::<residency::After>(series),
        ("compression", "saxpy") => errors::<compression::Saxpy>(series),
        ("compression", _) => errors::<compression::Reads>(series),
        ("rtm", "speed") => errors::<rtm::AtStep>(series),
        ("rtm", _) => errors::<rtm::Cell>(series),
        ("async-copy", _) => errors::<async_copy::Tiles>(series),
        ("tti", _) => errors::<tti::ByWay>(series),
        ("write-path", "loads behind stores") => errors::<write_path::Chain>(series),
        ("write-path", "read again") => errors::<write_path::Passes>(series),
        ("write-path", _) => errors::<write_path::Part>(series),
        ("block-order", _) => errors::<block_order::AllTiles>(series),
        ("formats", "limits") => errors::<formats::Limits>(series),
        ("formats", _) => errors::<formats::Rate>(series),
        ("gemm", "instructions") => errors::<gemm::Instruction>(series),
        ("gemm", _) => errors::<gemm::Product>(series),
        ("pic", _) => errors::<pic::Push>(series),
        _ => return None,
    })
}

#[test]
fn kept_records_parse_as_todays_axis_types() {
    let mut probes = std::collections::BTreeMap::<String, usize>::new();
    for path in records_below(&records()) {
        let run = read_file(&path).unwrap();
        for series in &run.series {
            let (probe, case) = (&series.spec.probe, &series.spec.case);
            // No probe of the registry times expressions.
            if probe == "bench" {
                continue;
            }
            let errors =
                errors_of(series).unwrap_or_else(|| panic!("{probe}, {case}: add its axis type to `errors_of`"));
            assert_eq!(errors, Vec::<String>::new(), "{}", path.display());
            *probes.entry(series.spec.probe.clone()).or_default() += series.rows.len();
        }
    }
    assert!(probes.len() >= 37, "{probes:?}");
    assert!(probes.values().all(|rows| *rows > 0), "{probes:?}");
}

/// A line for every probe of a record that has findings: `folder device probe: name; name`.
fn findings_in(root: &Path, path: &Path) -> Vec<String> {
    let run = read_file(path).unwrap();
    let folder = path.strip_prefix(root).unwrap().parent().unwrap().display();
    let mut lines = Vec::new();
    for (number, device) in run.header.devices.iter().enumerate() {
        for spec in plimsoll_probes::ALL {
            let own = |series: &&Series| series.spec.probe == spec.name && series.spec.device as usize == number;
            let series: Vec<Series> = run.series.iter().filter(own).cloned().collect();
            let names: Vec<String> = (spec.findings)(device, &series).into_iter().map(|finding| finding.name).collect();
            if !names.is_empty() {
                lines.push(format!("{folder} {} {}: {}\n", device.selector, spec.name, names.join("; ")));
            }
        }
    }
    lines
}

/// Every new record adds its lines here. A changed line means that profiles and the model lose a name.
#[test]
fn findings_of_kept_records_keep_their_names() {
    let root = records();
    let found: Vec<String> = records_below(&root).iter().flat_map(|path| findings_in(&root, path)).collect();
    let expected: Vec<&str> = include_str!("fixtures/findings.txt").lines().collect();
    let missing: Vec<&&str> =
        expected.iter().filter(|line| !found.iter().any(|found| found.trim_end() == **line)).collect();
    assert!(missing.is_empty(), "no kept record has these findings any longer: {missing:#?}");
    let new: String = found.iter().filter(|line| !expected.contains(&line.trim_end())).map(String::as_str).collect();
    assert!(new.is_empty(), "review these lines and add them to tests/fixtures/findings.txt:\n{new}");
}
