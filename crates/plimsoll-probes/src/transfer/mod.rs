//! transfer: copies between host and device and within the device, by size: bandwidth, latency, and the line fitted to both
//! (gpu-benches, cuda-memcpy: RRZE, Erlangen).

probe! {
    /// How fast copies go between host and device, by direction, kind of host memory and size.
    "transfer" in "transfers", seconds: [8.0, 33.0, 130.0], files: cuda, takes bytes, headlines: [
        Headline::gate("host-to-device", "host to device", More, &["H2D pinned"], 0.003),
        Headline::gate("device-to-host", "device to host", More, &["D2H pinned"], 0.003),
        Headline::gate("both-ways", "both directions", More, &["both pinned"], 0.01).shown_only(),
    ]
}

use plimsoll_suite::findings::affine;

use crate::prelude::meaning::*;

names! {
    /// A copy's source and destination and how it is made, in display order.
    pub enum Path {
        /// Host to device, from page-locked memory.
        UpPinned = "H2D pinned",
        /// Device to host, to page-locked memory.
        DownPinned = "D2H pinned",
        /// Both at once, each on a separate stream, counted together.
        BothPinned = "both pinned",
        /// Host to device, from ordinary memory.
        UpPageable = "H2D pageable",
        /// Device to host, to ordinary memory.
        DownPageable = "D2H pageable",
        /// Within the device: each byte is read and written, and counted twice.
        Across = "D2D",
        /// Host to device, from page-locked memory that the host writes past its caches.
        UpCombined = "H2D write-combined",
        /// Host to device by a kernel that reads page-locked host memory.
        UpKernel = "H2D by a kernel",
        /// Device to host by a kernel that writes page-locked host memory.
        DownKernel = "D2H by a kernel",
    }
}

axes! {
    /// A copy of one size on one path.
    pub struct Copy {
        /// Its path.
        path: Path,
        /// Its bytes.
        size: Bytes,
    }
}

/// Copies back to back, by path and size.
#[must_use]
pub fn copies() -> TypedSeries<Copy> {
    spec("copies", Figure::Throughput, "bandwidth")
}

/// A single copy, by the host's clock from the call until the host has seen the end.
#[must_use]
pub fn single() -> TypedSeries<Copy> {
    spec("single", Figure::Latency, "time")
}

fn spec(case: &str, figure: Figure, y: &str) -> TypedSeries<Copy> {
    let time = metrics::time();
    let bandwidth = metrics::bandwidth();
    TypedSeries::new(
        case,
        figure,
        CachePolicy::Hot,
        if y == "time" { vec![time, bandwidth] } else { vec![bandwidth, time] },
        Draw::lines("size", y).grouped_by("path").log_x().log_y(),
    )
    .with_precision(HOST_PRECISION)
}

/// For each path the bandwidth of the largest copy, and the latency of a single copy from the line through all sizes.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let find_case = |case: &str| series.iter().find(|series| series.spec.case == case);
    let bandwidth = |path: Path| {
        let copies = find_case("copies")?;
        let (size, row) = rows(copies, path).reduce(|a, b| if b.0 > a.0 { b } else { a })?;
        let says = format!("At {}{}.", Unit::Byte.format(size), meaning(path));
        let plain = finding(path.name(), Unit::BytePerSecond, row, copies.estimate(row, "bandwidth")?);
        Some(Finding { says, ..plain })
    };
    let latency = |path: Path| {
        let single = find_case("single")?;
        let point = |(size, row): (f64, &Row)| Some((size, single.estimate(row, "time")?));
        let points: Vec<(f64, Estimate)> = rows(single, path).filter_map(point).collect();
        let line = affine::fit(&points)?;
        let all = rows(single, path).fold(Flags::NONE, |flags, (_, row)| flags.union(row.flags));
        let flags = all.iter().filter(|flag| *flag != Flag::LaunchBound).collect();
        let [from, to] = line.over.map(|bytes| Unit::Byte.format(bytes));
        let rate = line.b.map_or("no limit in sight".to_owned(), |b| Unit::BytePerSecond.format(b.value));
        let says = format!("a of T = a + V/b for single copies of {from} to {to}; b is {rate}.");
        let plain = finding(format!("{path}, latency"), Unit::Second, rows(single, path).next()?.1, line.a);
        Some(Finding { says, flags, ..plain })
    };
    Path::ALL.into_iter().flat_map(|path| bandwidth(path).into_iter().chain(latency(path))).collect()
}

/// The rows of a path, each with its bytes.
fn rows(series: &Series, path: Path) -> impl Iterator<Item = (f64, &Row)> {
    known_rows(series).filter(move |(at, _): &(Copy, &Row)| at.path == path).map(|(at, row)| (at.size.0 as f64, row))
}

fn meaning(path: Path) -> &'static str {
    match path {
        Path::BothPinned => ", both directions together",
        Path::Across => ", reads and writes together",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic;

    fn point(path: Path, bytes: u64, seconds: f64) -> Point {
        synthetic::point(
            Copy { path, size: Bytes(bytes) }.to_values(),
            seconds,
            Work { traffic: Traffic::new(0, bytes), ..Work::default() },
            &[],
        )
    }

    #[test]
    fn each_path_reports_its_largest_copys_bandwidth_and_the_fitted_latency() {
        let time = |bytes: u64| 9e-6 + bytes as f64 / 55e9;
        let sizes = [1_u64 << 10, 1 << 14, 1 << 18, 1 << 22];
        let copy = |bytes: u64| point(Path::UpPinned, bytes, bytes as f64 / 55.4e9);
        let series = [
            Series::new(copies(), [copy(1 << 30), copy(1 << 10), point(Path::Across, 1 << 20, 1e-6)]),
            Series::new(single(), sizes.map(|bytes| point(Path::UpPinned, bytes, time(bytes)))),
        ];
        let found = findings(&DeviceInfo::default(), &series);
        let names: Vec<&str> = found.iter().map(|finding| finding.name.as_str()).collect();
        assert_eq!(names, ["H2D pinned", "H2D pinned, latency", "D2D"]);
        assert!((found[0].value / 55.4e9 - 1.0).abs() < 1e-6 && found[0].says.contains("GiB"), "{found:?}");
        assert!((found[1].value / 9e-6 - 1.0).abs() < 1e-3 && found[1].says.contains("55.0 GB/s"), "{found:?}");
    }

    #[test]
    fn empty_series_have_no_findings() {
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
        assert!(findings(&DeviceInfo::default(), &[Series::new(single(), [])]).is_empty());
    }
}
