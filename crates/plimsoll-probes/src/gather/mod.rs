//! gather: reads, writes and atomic additions at random places, by their size and by the footprint that they are
//! spread over: updates per second, the wasted part of each sector, and the reach of address translation.

probe! {
    /// Random reads, writes and atomics of 4 to 128 bytes over footprint: updates per second and bandwidth.
    "gather" in "bandwidth", seconds: [4.0, 17.0, 60.0], files: gpu kernels, takes bytes, headlines: [
        Headline::gate("gather", "random reads of 32 B", More, &["reads of 32 B, memory"], 0.01).shown_only(),
    ]
}

use crate::prelude::meaning::*;

axes! {
    /// Accesses at random places.
    pub struct Accesses {
        /// Bytes of one.
        access: Bytes,
        /// Bytes that they are spread over.
        footprint: Bytes,
    }
}

/// Names of the series.
pub const CASES: [&str; 3] = ["reads", "writes", "additions"];
/// Bytes that memory and L2 move at least (CUDA C++ Best Practices Guide, 'Coalesced Access').
pub const SECTOR: u64 = 32;

/// Bytes that an aligned access of `size` bytes moves but doesn't use.
#[must_use]
pub fn wasted(size: u64) -> u64 {
    size.next_multiple_of(SECTOR) - size
}

/// One kind of access, of [`CASES`]. An operation is an access. `whole sectors` counts what each sector wastes as well.
#[must_use]
pub fn accesses(case: &str) -> TypedSeries<Accesses> {
    let metrics = vec![
        metric("updates", Unit::OpPerSecond, Quantity::OperationsPerSecond),
        metrics::bandwidth(),
        metric("whole sectors", Unit::BytePerSecond, Quantity::BandwidthWithAllocate),
    ];
    let draw = Draw::lines("footprint", "updates").grouped_by("access").log_x().log_y();
    TypedSeries::hot(case, metrics, draw)
}

/// From this footprint no GPU's L2 helps: ten times the largest one.
const BEYOND_CACHES: f64 = 2e9;

fn findings(info: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let mut found = Vec::new();
    for case in CASES {
        let Some(accesses) = series.iter().find(|series| series.spec.case == case) else { continue };
        for size in sizes(accesses) {
            found.extend(rates(info, accesses, case, size));
        }
        if case == CASES[0] {
            found.extend(reach(info, accesses));
        }
    }
    found
}

fn sizes(accesses: &Series) -> Vec<u64> {
    let mut sizes: Vec<u64> = known_rows(accesses).map(|(at, _): (Accesses, &Row)| at.access.0).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Rows of one size by footprint.
fn of_size(accesses: &Series, size: u64) -> Vec<(f64, &Row, Estimate)> {
    let selected = known_rows(accesses).filter(|(at, _): &(Accesses, &Row)| at.access == Bytes(size));
    let point = |(at, row): (Accesses, _)| Some((at.footprint.0 as f64, row, accesses.estimate(row, "updates")?));
    let mut rows: Vec<_> = selected.filter_map(point).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    rows
}

/// The rate in the last cache, on the smallest footprint, and in memory, on the smallest beyond all caches.
fn rates(info: &DeviceInfo, accesses: &Series, case: &str, size: u64) -> Vec<Finding> {
    let rows = of_size(accesses, size);
    let in_cache = rows.first().filter(|row| row.0 <= 0.5 * info.last_level_cache() as f64);
    let in_memory = rows.iter().find(|row| row.0 >= BEYOND_CACHES);
    let rate = |level: &str, (footprint, row, figure): &(f64, &Row, Estimate)| Finding {
        says: says(accesses, *footprint, row, size),
        ..finding(format!("{case} of {size} B, {level}"), Unit::OpPerSecond, row, *figure)
    };
    in_cache.map(|row| rate("L2", row)).into_iter().chain(in_memory.map(|row| rate("memory", row))).collect()
}

fn says(accesses: &Series, footprint: f64, row: &Row, size: u64) -> String {
    let over = format!("over {}", Unit::Byte.format(footprint));
    let useful = accesses.estimate(row, "bandwidth").map(|figure| Unit::BytePerSecond.format(figure.value));
    let waste = wasted(size) as f64;
    let share = 100.0 * waste / (size as f64 + waste);
    match useful {
        Some(useful) if waste > 0.0 => format!("{over}, {useful} useful, {share:.0} % of each sector wasted"),
        Some(useful) => format!("{over}, {useful}"),
        None => over,
    }
}

/// Where reads in memory begin to cost translations: the last knee of the finest curve beyond the caches.
fn reach(info: &DeviceInfo, accesses: &Series) -> Option<Finding> {
    let finest = sizes(accesses).into_iter().max_by_key(|size| of_size(accesses, *size).len())?;
    let rows = of_size(accesses, finest);
    let curve: Vec<(f64, f64)> = rows.iter().map(|(x, _, figure)| (*x, figure.value)).collect();
    let levels = levels(&curve, 0.1);
    let beyond = 4.0 * info.last_level_cache() as f64;
    let knee = levels.knees.iter().rfind(|knee| knee.capacity > beyond && knee.step < 1.0)?;
    let row = rows.iter().find(|row| row.0 >= knee.capacity)?.1;
    let says = format!("beyond which random reads of {finest} B fall to {:.0} %", 100.0 * knee.step);
    let estimate = Estimate { value: knee.capacity, interval: knee.interval };
    Some(Finding { says, ..finding("translation reach", Unit::Byte, row, estimate) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::device::CacheInfo;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic;

    const GIB: f64 = 1_073_741_824.0;

    fn point(size: u64, footprint: f64, rate: f64) -> Point {
        let operations = 1e7;
        let traffic = Traffic::new(10_000_000 * size, 0);
        synthetic::point(
            Accesses { access: Bytes(size), footprint: Bytes(footprint as u64) }.to_values(),
            operations / rate,
            Work { traffic, write_allocate: 10_000_000 * wasted(size), operations, ..Work::default() },
            &[],
        )
    }

    #[test]
    fn findings_report_rates_waste_and_translation_reach() {
        let cache = CacheInfo { level: "L2".into(), bytes: 60 << 20, line: 128, shared_by: 100 };
        let device = DeviceInfo { caches: vec![cache], ..DeviceInfo::default() };
        let rate = |x: f64| match x / GIB {
            ..0.05 => 3e11,
            ..20.0 => 1e11,
            _ => 3e10,
        };
        let sizes = (0..=48).map(|i| 16_777_216.0 * 2.0_f64.powf(f64::from(i) / 4.0));
        let mut points: Vec<Point> = sizes.map(|x| point(32, x, rate(x))).collect();
        points.extend([0.015_625, 4.0].map(|gib| point(4, gib * GIB, rate(gib * GIB))));
        let found = findings(&device, &[Series::new(accesses(CASES[0]), points)]);
        let find =
            |name: &str| found.iter().find(|finding| finding.name == name).unwrap_or_else(|| panic!("{found:?}"));
        assert!((find("reads of 4 B, L2").value / 3e11 - 1.0).abs() < 1e-3);
        assert!((find("reads of 32 B, memory").value / 1e11 - 1.0).abs() < 1e-3);
        assert!(find("reads of 4 B, memory").says.contains("88 % of each sector wasted"), "{found:?}");
        assert!((find("translation reach").value / GIB / 20.0 - 1.0).abs() < 0.3, "{found:?}");
        assert!(findings(&device, &[]).is_empty());
    }

    #[test]
    fn only_accesses_smaller_than_a_sector_waste_bytes() {
        assert_eq!([4, 8, 16, 32, 64, 128].map(wasted), [28, 24, 16, 0, 0, 0]);
    }
}
