//! topology: the distance of each SM of a GPU from lines of its last-level cache. Atomics execute at a line's home, so they
//! show where it is; plain loads are answered by a copy in the nearer part of the cache.

probe! {
    /// Which multiprocessors are near which part of the last-level cache, and how much farther the other part is.
    "topology" in "latency", seconds: [4.0, 15.0, 40.0], files: gpu kernels
}

use plimsoll_core::stats::median_sorted;

use crate::prelude::meaning::*;

axes! {
    /// Atomics of one SM.
    pub struct Reach {
        /// The SM's number.
        multiprocessor: Count,
        /// The number of the group of lines.
        group as "line group": Count,
    }
}

/// The metric with the cycles counted in the kernel.
pub const CYCLES: &str = "cycles";

/// One atomic at lines of a group, by SM and group. Groups are numbered by their distance from the first SM.
#[must_use]
pub fn map() -> TypedSeries<Reach> {
    let draw = Draw::heat("multiprocessor", "line group", CYCLES);
    TypedSeries::hot("map", vec![metrics::latency(), metric(CYCLES, Unit::Cycle, Quantity::Extra)], draw)
}

/// Smallest ratio of far to near latency that counts as two sides.
const STEP: f64 = 1.05;

/// One cell of the map.
#[derive(Clone, Copy)]
struct Cell {
    multiprocessor: u64,
    group: u64,
    cycles: f64,
    flags: Flags,
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(map) = series.iter().find(|series| series.spec.case == "map") else { return Vec::new() };
    let cell = |(at, row): (Reach, &Row)| {
        let cycles = map.estimate(row, CYCLES)?.value;
        Some(Cell { multiprocessor: at.multiprocessor.0, group: at.group.0, cycles, flags: row.flags })
    };
    let cells: Vec<Cell> = known_rows(map).filter_map(cell).filter(|cell| cell.cycles > 0.0).collect();
    let Some(first) = groups(&cells).first().copied() else { return Vec::new() };
    // Groups whose latency over the SMs correlates with the first group's are on its side.
    let (same, other): (Vec<u64>, Vec<u64>) =
        groups(&cells).into_iter().partition(|group| correlation(&cells, first, *group) >= 0.0);
    let nearer = |cell: &Cell| {
        let mean_to =
            |side: &[u64]| mean(&cells, |c| c.multiprocessor == cell.multiprocessor && side.contains(&c.group));
        Some((mean_to(&same)? <= mean_to(&other)?) == same.contains(&cell.group))
    };
    let (near, far): (Vec<Cell>, Vec<Cell>) = cells.iter().partition(|cell| nearer(cell) == Some(true));
    match (middle(&near), middle(&far)) {
        (Some(a), Some(b)) if b > STEP * a && !other.is_empty() => {
            let here = count_near(&near, &same);
            let flags = cells.iter().fold(Flags::NONE, |all, cell| all.union(cell.flags));
            let exact = |value: f64| Estimate { value, interval: Interval { lo: value, hi: value } };
            let sides = Finding {
                says: format!("The other {} are nearer to the other part of the cache.", count_near(&near, &other)),
                ..derived("multiprocessors near the first", Unit::One, exact(here as f64), flags)
            };
            let step = step(&near, &far, flags);
            let found = [level("atomic near in cycles", &near), level("atomic far in cycles", &far), step, Some(sides)];
            found.into_iter().flatten().collect()
        }
        _ => level("atomic in cycles", &cells).into_iter().collect(),
    }
}

/// All group numbers, in order.
fn groups(cells: &[Cell]) -> Vec<u64> {
    let mut groups: Vec<u64> = cells.iter().map(|cell| cell.group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// Number of SMs that are near these groups.
fn count_near(near: &[Cell], groups: &[u64]) -> usize {
    let mut own: Vec<u64> =
        near.iter().filter(|cell| groups.contains(&cell.group)).map(|cell| cell.multiprocessor).collect();
    own.sort_unstable();
    own.dedup();
    own.len()
}

fn mean(cells: &[Cell], keep: impl Fn(&Cell) -> bool) -> Option<f64> {
    let kept: Vec<f64> = cells.iter().filter(|cell| keep(cell)).map(|cell| cell.cycles).collect();
    (!kept.is_empty()).then(|| kept.iter().sum::<f64>() / kept.len() as f64)
}

/// Sum of products of deviations of two groups over the SMs that have both; only its sign is used.
fn correlation(cells: &[Cell], a: u64, b: u64) -> f64 {
    let cells_of = |group: u64| cells.iter().filter(move |cell| cell.group == group);
    let pairs: Vec<(f64, f64)> = cells_of(a)
        .filter_map(|cell| {
            let other = cells_of(b).find(|other| other.multiprocessor == cell.multiprocessor)?;
            Some((cell.cycles, other.cycles))
        })
        .collect();
    let n = pairs.len().max(1) as f64;
    let (x, y) = (pairs.iter().map(|p| p.0).sum::<f64>() / n, pairs.iter().map(|p| p.1).sum::<f64>() / n);
    pairs.iter().map(|p| (p.0 - x) * (p.1 - y)).sum()
}

fn sorted(cells: &[Cell]) -> Vec<f64> {
    let mut cycles: Vec<f64> = cells.iter().map(|cell| cell.cycles).collect();
    cycles.sort_by(f64::total_cmp);
    cycles
}

fn middle(cells: &[Cell]) -> Option<f64> {
    (!cells.is_empty()).then(|| median_sorted(&sorted(cells)))
}

/// Extra latency of the far side: the difference of the medians, with the interval from the middle halves.
fn step(near: &[Cell], far: &[Cell], flags: Flags) -> Option<Finding> {
    let (a, b) = (level("", near)?, level("", far)?);
    let interval = Interval { lo: b.interval.lo - a.interval.hi, hi: b.interval.hi - a.interval.lo };
    let known = Estimate { value: b.value - a.value, interval };
    Some(derived("far step in cycles", Unit::Cycle, known, flags))
}

/// The median of the cells, with their middle half as interval.
fn level(name: &str, cells: &[Cell]) -> Option<Finding> {
    let sorted = sorted(cells);
    let quarter = sorted.len() / 4;
    let interval = Interval { lo: *sorted.get(quarter)?, hi: *sorted.get(sorted.len() - 1 - quarter)? };
    let flags = cells.iter().fold(Flags::NONE, |all, cell| all.union(cell.flags));
    Some(derived(name, Unit::Cycle, Estimate { value: median_sorted(&sorted), interval }, flags))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;

    fn findings_of_map(cycles: impl Fn(u64, u64) -> f64) -> Vec<Finding> {
        let point = |(multiprocessor, group): (u64, u64)| Point {
            extra: [(CYCLES.to_owned(), cycles(multiprocessor, group))].into(),
            ..Point::new(
                Reach { multiprocessor: Count(multiprocessor), group: Count(group) }.to_values(),
                Work { operations: 128.0, in_kernel: true, ..Work::default() },
                vec![50_000; 30],
            )
        };
        let cells = (0..132).flat_map(|multiprocessor| (0..4).map(move |group| (multiprocessor, group)));
        findings(&DeviceInfo::default(), &[Series::new(map(), cells.map(point))])
    }

    fn value(found: &[Finding], name: &str) -> f64 {
        found.iter().find(|finding| finding.name == name).unwrap_or_else(|| panic!("no {name}: {found:?}")).value
    }

    #[test]
    fn findings_separate_two_parts_and_count_the_sms_of_each() {
        // A third of the SMs is on the second side; distances within a side differ a little.
        let side = |multiprocessor: u64| u64::from(multiprocessor % 3 == 2);
        let cycles = |m: u64, g: u64| {
            let near = side(m) == g / 2;
            (if near { 600.0 } else { 830.0 }) + 10.0 * (m % 7) as f64 + 5.0 * g as f64
        };
        let found = findings_of_map(cycles);
        assert!((value(&found, "atomic near in cycles") - 637.0).abs() < 10.0, "{found:?}");
        assert!((value(&found, "atomic far in cycles") - 867.0).abs() < 10.0, "{found:?}");
        assert_eq!(value(&found, "multiprocessors near the first"), 88.0);
        assert!(found.iter().any(|finding| finding.says.contains("other 44")));
    }

    #[test]
    fn a_cache_of_one_part_has_one_latency() {
        let found = findings_of_map(|m, g| 600.0 + 3.0 * (m % 5) as f64 + (g % 2) as f64);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!((found[0].value - 606.0).abs() < 5.0 && found[0].name == "atomic in cycles");
    }

    #[test]
    fn rows_without_cycles_have_no_findings() {
        assert!(findings_of_map(|_, _| 0.0).is_empty());
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
