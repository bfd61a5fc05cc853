//! l2: the bandwidth of a GPU's L2, bypassing L1, by footprint: for lines private to one SM and for lines that all SMs read in
//! turn.

probe! {
    /// Bandwidth of L2, for lines of one multiprocessor and lines that all share, over footprint.
    "l2" in "caches", seconds: [5.0, 23.0, 75.0], files: gpu kernels, takes bytes, headlines: [
        Headline::gate("l2-read", "L2 read", More, &["read, unique L2"], 0.003),
    ]
}

use plimsoll_suite::findings::levels::Plateau;

use crate::prelude::meaning::*;

names! {
    /// Kinds of access and of lines, in display order.
    pub enum Access {
        /// Reads of lines that all SMs read in turn.
        ReadShared = "read, shared",
        /// Reads of lines that are private to one SM.
        ReadUnique = "read, unique",
        /// Reads of lines that several SMs ask for at nearly the same time, so that L2 serves some of them with one request.
        ReadTogether = "read, together",
        /// Writes of lines that are private to one SM.
        Write = "write, unique",
        /// Copies of such lines; the footprint counts both sides.
        Copy = "copy, unique",
    }
}

axes! {
    /// An access over a footprint.
    pub struct Spread {
        /// The access.
        access: Access,
        /// Bytes of all its arrays.
        footprint: Bytes,
    }
}

/// Bandwidth over footprint.
#[must_use]
pub fn curve() -> TypedSeries<Spread> {
    let draw = Draw::lines("footprint", "bandwidth").grouped_by("access").log_x();
    TypedSeries::hot("curve", vec![metrics::bandwidth(), metrics::bytes_per_cycle()], draw)
}

/// Footprints below this share of the cache are left out of the findings.
const LEAST: f64 = 0.25;
/// Share of the rate that still counts as on the plateau.
const NEAR: f64 = 0.95;

fn findings(info: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(curve) = series.iter().find(|series| series.spec.case == "curve") else { return Vec::new() };
    let mut found = Vec::new();
    for access in Access::ALL {
        // With few lines, simultaneous reads of one line are served together, or wait for each other.
        let least = LEAST * info.last_level_cache() as f64;
        let rows: Rows<'_> = of_access(curve, access).into_iter().filter(|row| row.0 >= least).collect();
        let levels = levels(&rows.iter().map(|(x, _, figure)| (*x, figure.value)).collect::<Vec<_>>(), 0.1);
        let Some(first) = levels.plateaus.first() else { continue };
        found.extend(plateau(info, access, first, &rows));
        match access {
            Access::ReadShared => found.extend(end("full rate to", access, first, &rows)),
            Access::ReadUnique => {
                found.extend(end("L2 capacity", access, first, &rows).map(|end| add_reported_size(info, end)));
            }
            Access::ReadTogether | Access::Write | Access::Copy => {}
        }
    }
    found
}

/// Footprint, row and figure, by footprint.
type Rows<'s> = Vec<(f64, &'s Row, Estimate)>;

fn of_access(curve: &Series, access: Access) -> Rows<'_> {
    let selected = known_rows(curve).filter(|(at, _): &(Spread, &Row)| at.access == access);
    let point = |(at, row): (Spread, _)| Some((at.footprint.0 as f64, row, curve.estimate(row, "bandwidth")?));
    let mut rows: Rows<'_> = selected.filter_map(point).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    rows
}

fn nearest<'s>(rows: &Rows<'s>, footprint: f64) -> Option<&'s Row> {
    rows.iter().min_by(|a, b| (a.0 - footprint).abs().total_cmp(&(b.0 - footprint).abs())).map(|point| point.1)
}

fn plateau(info: &DeviceInfo, access: Access, first: &Plateau, rows: &Rows<'_>) -> Option<Finding> {
    let row = nearest(rows, (first.from * first.to).sqrt())?;
    let per_cycle = row.clock_hz().map(|clock| first.value / clock / f64::from(info.multiprocessors.max(1)));
    let mut says = per_cycle.map_or(String::new(), |bytes| format!("{bytes:.1} B/cycle per multiprocessor"));
    if access == Access::ReadTogether {
        says += "; L2 serves several multiprocessors with one request, as in gpu-benches' gpu-l2-cache";
    }
    let estimate = Estimate { value: first.value, interval: first.interval };
    let within = rows.iter().filter(|point| (first.from..=first.to).contains(&point.0));
    let flags = within.fold(row.flags, |flags, point| flags.union(point.1.flags));
    Some(Finding { says, flags, ..finding(format!("{access} L2"), Unit::BytePerSecond, row, estimate) })
}

/// The largest footprint up to which the curve keeps 95 % of what its plateau begins with.
///
/// Of unique lines this is the cache's capacity: where 1 read in 18 comes from memory at half of the speed, 5 % are lost. It
/// is not read further up the slope: replaced at random, a footprint F that is read again and again misses a capacity
/// C with a share m = 1 − exp(−m F / C) of its reads, a third at 1.2 C only.
///
/// Where lines are copied into the partition near each SM it lies beyond what a partition holds: bandwidth stays
/// for a while when latency no longer does (`latency` finds the partition).
fn end(name: &str, access: Access, first: &Plateau, rows: &Rows<'_>) -> Option<Finding> {
    let after = rows.iter().position(|(x, _, figure)| *x > first.from && figure.value < NEAR * first.begin)?;
    let before = after.checked_sub(1)?;
    let interval = Interval { lo: rows[before].0, hi: rows[after].0 };
    let estimate = Estimate { value: rows[before].0, interval };
    let says = format!("up to which '{access}' keeps 95 % of {}", Unit::BytePerSecond.format(first.begin));
    Some(Finding { says, ..finding(name, Unit::Byte, rows[before].1, estimate) })
}

/// Adds the size that the device reports to the finding.
fn add_reported_size(device: &DeviceInfo, found: Finding) -> Finding {
    match device.last_level_cache() {
        0 => found,
        bytes => {
            let says = format!("{}; the device reports {}", found.says, Unit::Byte.format(bytes as f64));
            Finding { says, ..found }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic;

    const MIB: f64 = 1_048_576.0;

    fn point(access: Access, footprint: f64, bandwidth: f64) -> Point {
        synthetic::point(
            Spread { access, footprint: Bytes(footprint as u64) }.to_values(),
            (1_u64 << 31) as f64 / bandwidth,
            Work { traffic: Traffic::new(1 << 31, 0), ..Work::default() },
            &[],
        )
    }

    /// Memory at 4.6 TB/s behind a cache of so many MiB, as hits fall over a fifth above it.
    fn machine(fast: f64, holds: f64) -> impl Fn(f64) -> f64 {
        move |mib| {
            let misses = ((mib / holds - 0.9) / 0.3).clamp(0.0, 1.0);
            1.0 / ((1.0 - misses) / fast + misses / 4.6e12)
        }
    }

    #[test]
    fn findings_report_the_plateau_and_end_of_both_patterns() {
        let sizes: Vec<f64> = (0..=90).map(|i| 2.0_f64.powf(f64::from(i) / 10.0)).collect();
        let points = |access, rate: &dyn Fn(f64) -> f64| {
            sizes.iter().map(|mib| point(access, mib * MIB, rate(*mib))).collect::<Vec<_>>()
        };
        let mut all = points(Access::ReadShared, &machine(9.6e12, 30.0));
        all.extend(points(Access::ReadUnique, &machine(8.0e12, 60.0)));
        let device = DeviceInfo { multiprocessors: 100, ..DeviceInfo::default() };
        let found = findings(&device, &[Series::new(curve(), all)]);
        let find =
            |name: &str| found.iter().find(|finding| finding.name == name).unwrap_or_else(|| panic!("{found:?}"));
        assert!((find("read, shared L2").value / 9.6e12 - 1.0).abs() < 0.01);
        assert_eq!(find("read, shared L2").says, "48.0 B/cycle per multiprocessor");
        assert!((find("read, unique L2").value / 8.0e12 - 1.0).abs() < 0.01);
        assert!((find("full rate to").value / MIB - 27.0).abs() < 2.0, "{found:?}");
        // Misses begin at nine tenths of 60 MiB.
        let capacity = find("L2 capacity");
        assert!(capacity.interval.lo <= 56.0 * MIB && capacity.interval.hi >= 54.0 * MIB, "{found:?}");
        assert!(findings(&device, &[]).is_empty());
    }
}
