//! Every row that kept records hold of the probes with typed axes is a point of today's types: what was measured before reads
//! as what is measured now. And the findings have the names by which profiles and the model know them.

use std::path::{Path, PathBuf};

use plimsoll_core::record::read_file;
use plimsoll_core::series::{Axes, Series};
use plimsoll_probes::lab::{
    async_copy, block_order, compression, fetch_granularity, formats, gemm, l2_reuse, pic, residency, rtm, sectors,
    tti, write_path,
};
use plimsoll_probes::{
    cluster, copy, interference, latency, launch, managed, peer, roofline, stream, tensor, transfer,
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

/// What can't be read as an `A`.
fn errors<A: Axes>(series: &Series) -> Vec<String> {
    series.parse_rows::<A>().filter_map(Result::err).map(|error| error.to_string()).collect()
}

/// What can't be read as either.
fn errors_of_both<A: Axes, B: Axes>(series: &Series) -> Vec<String> {
    if series.spec.axes == A::axes() { errors::<A>(series) } else { errors::<B>(series) }
}

/// Errors of the rows of a series; `None` where its axes aren't typed.
fn errors_of(series: &Series) -> Option<Vec<String>> {
    Some(match (series.spec.probe.as_str(), series.spec.case.as_str()) {
        ("stream", "kernels") => errors::<stream::OnAllCores>(series),
        ("stream", "threads") => errors::<stream::OnSomeCores>(series),
        ("stream", "best") => errors_of_both::<stream::BestOnCores, stream::BestConfiguration>(series),
        ("stream", "occupancy") => errors::<stream::Occupancy>(series),
        ("stream", "bytes in flight" | "configurations") => errors::<stream::Configuration>(series),
        ("stream", "placements") => errors::<stream::Placement>(series),
        ("copy", "grids") => errors::<copy::ByGrid>(series),
        ("copy", "indices") => errors::<copy::ByIndex>(series),
        ("copy", "one multiprocessor") => errors::<copy::OnOne>(series),
        ("copy", _) => errors::<copy::ByKernel>(series),
        ("latency", _) => errors_of_both::<latency::Chase, latency::device::Chase>(series),
        ("launch", "empty") => errors::<launch::ByMode>(series),
        ("launch", "single") => errors::<launch::ByClock>(series),
        ("launch", _) => errors::<launch::Scale>(series),
        ("cluster", "latency") => errors::<cluster::Chase>(series),
        ("cluster", _) => errors::<cluster::Move>(series),
        ("roofline", _) => errors::<roofline::Place>(series),
        ("tensor", "latency" | "device") => errors::<tensor::ByInstruction>(series),
        ("tensor", _) => errors::<tensor::Configuration>(series),
        ("transfer", _) => errors::<transfer::Copy>(series),
        ("interference", _) => errors::<interference::Pair>(series),
        ("managed", _) => errors::<managed::ByPlacement>(series),
        ("peer", _) => errors::<peer::Pair>(series),
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
        ("block-order", _) => errors::<block_order::Walk>(series),
        ("formats", "limits") => errors::<formats::Limits>(series),
        ("formats", _) => errors::<formats::Rate>(series),
        ("gemm", "instructions") => errors::<gemm::Instruction>(series),
        ("gemm", _) => errors::<gemm::Product>(series),
        ("pic", _) => errors::<pic::Push>(series),
        _ => return None,
    })
}

#[test]
fn rows_of_kept_records_are_points_of_todays_types() {
    let mut probes = std::collections::BTreeMap::<String, usize>::new();
    for path in records_below(&records()) {
        let run = read_file(&path).unwrap();
        for series in &run.series {
            let Some(errors) = errors_of(series) else { continue };
            assert_eq!(errors, Vec::<String>::new(), "{}", path.display());
            *probes.entry(series.spec.probe.clone()).or_default() += series.rows.len();
        }
    }
    let expected = "async-copy block-order cluster compression copy fetch-granularity formats gemm interference \
                    l2-reuse latency launch managed peer pic residency roofline rtm sectors stream tensor transfer \
                    tti write-path";
    assert_eq!(probes.keys().map(String::as_str).collect::<Vec<&str>>().join(" "), expected);
    assert!(probes.values().all(|rows| *rows > 0), "{probes:?}");
}

/// A line for every probe of a record that has findings: `folder device probe: name; name`.
fn findings_in(root: &Path, path: &Path) -> Vec<String> {
    let run = read_file(path).unwrap();
    let folder = path.strip_prefix(root).unwrap().parent().unwrap().display();
    let mut lines = Vec::new();
    for (number, device) in run.header.devices.iter().enumerate() {
        for spec in [&stream::SPEC, &copy::SPEC, &launch::SPEC, &latency::SPEC, &cluster::SPEC] {
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

/// A line is added for every record that is; a line that changes means that profiles and the model lose a name.
#[test]
fn findings_of_kept_records_keep_their_names() {
    let root = records();
    let found: Vec<String> = records_below(&root).iter().flat_map(|path| findings_in(&root, path)).collect();
    let expected: Vec<&str> = include_str!("fixtures/findings.txt").lines().collect();
    let missing: Vec<&&str> =
        expected.iter().filter(|line| !found.iter().any(|found| found.trim_end() == **line)).collect();
    assert!(missing.is_empty(), "no kept record has these findings any more: {missing:#?}");
    let new: String = found.iter().filter(|line| !expected.contains(&line.trim_end())).map(String::as_str).collect();
    assert!(new.is_empty(), "to be added to tests/fixtures/findings.txt once they are read:\n{new}");
}
