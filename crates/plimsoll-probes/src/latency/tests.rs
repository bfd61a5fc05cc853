//! Findings of machines whose levels are known.

use super::*;
use Pages::{Huge, Small};
use plimsoll_core::flag::Flag;
use plimsoll_core::sample::{Evidence, Work};

const CLOCK: f64 = 2e9;

fn device() -> DeviceInfo {
    let cache = |level: &str, bytes: u64, shared_by: u32| CacheInfo { level: level.into(), bytes, line: 64, shared_by };
    DeviceInfo {
        caches: vec![cache("L1", 48 << 10, 1), cache("L2", 2 << 20, 1), cache("L3", 64 << 20, 8)],
        ..DeviceInfo::default()
    }
}

/// This machine gets only a third of the last cache.
fn cycles(footprint: f64, small: bool) -> f64 {
    let levels = [(48.0 * 1024.0, 5.0), (2097152.0, 15.0), (20.0 * 1048576.0, 70.0), (f64::INFINITY, 300.0)];
    let (mut above, mut sum) = (0.0, 0.0);
    for (capacity, cycles) in levels {
        let share = f64::min(capacity / footprint, 1.0).powi(12);
        sum += (share - above) * cycles;
        above = share;
    }
    sum + if small { 60.0 * (1.0 - f64::min(262144.0 / footprint, 1.0)) } else { 0.0 }
}

fn series(curves: &[(Pages, f64)]) -> Series {
    let mut points = Vec::new();
    for &(pages, least) in curves {
        for i in 0..((1_u64 << 30) as f64 / least).log2() as i32 * 4 + 1 {
            let footprint = (least * (f64::from(i) / 4.0).exp2()).round();
            let seconds = cycles(footprint, pages == Small) / CLOCK;
            points.push(Point {
                tick: 1e-12,
                evidence: Evidence { clock_hz: Some(CLOCK), ..Evidence::default() },
                ..Point::new(
                    Chase { pages, order: RANDOM, footprint: Bytes(footprint as u64) }.to_values(),
                    Work { operations: 1e6, ..Work::default() },
                    vec![(seconds * 1e18) as u64; 30],
                )
            });
        }
    }
    Series::new(hops(CHASE), points)
}

fn value(findings: &[Finding], name: &str) -> f64 {
    findings.iter().find(|finding| finding.name == name).unwrap_or_else(|| panic!("no {name}: {findings:?}")).value
}

#[test]
fn levels_are_named_after_their_caches_and_capacities_are_measured() {
    let found = findings(&device(), &[series(&[(Huge, 2048.0), (Small, 32768.0)])]);
    for (name, cycles) in [("L1", 5.0), ("L2", 15.0), ("L3", 70.0), ("memory", 300.0)] {
        let in_cycles = value(&found, &format!("latency {name} in cycles"));
        assert!((in_cycles / cycles - 1.0).abs() < 0.1, "{name}: {in_cycles}");
        assert!((value(&found, &format!("latency {name}")) * CLOCK / in_cycles - 1.0).abs() < 1e-6);
    }
    for (name, bytes) in [("L1", 48.0 * 1024.0), ("L2", 2097152.0), ("L3", 20.0 * 1048576.0)] {
        let capacity = found.iter().find(|finding| finding.name == format!("capacity {name}")).expect(name);
        assert!((capacity.value / bytes - 1.0).abs() < 0.3, "{capacity:?}");
        assert!(capacity.published.is_some());
    }
    let l3 = found.iter().find(|finding| finding.name == "capacity L3").unwrap();
    assert!(l3.says.contains("Others use it too"), "{}", l3.says);
    assert_eq!(found.iter().filter(|finding| finding.name.starts_with("capacity")).count(), 3);
}

#[test]
fn a_capacity_carries_only_the_flags_of_its_two_neighbouring_rows() {
    let mut whole = series(&[(Huge, 2048.0)]);
    let clean = findings(&device(), std::slice::from_ref(&whole));
    let between = |name: &str| clean.iter().find(|finding| finding.name == name).unwrap().interval;
    let l2 = between("capacity L2");
    for row in &mut whole.rows {
        let footprint = row.at[2].number().unwrap();
        if footprint == l2.lo {
            row.flags.insert(Flag::Cotenant);
        } else if footprint == l2.hi {
            row.flags.insert(Flag::ThrottlePower);
        }
    }
    let found = findings(&device(), &[whole]);
    let flags = |name: &str| -> Flags {
        let all = found.iter().find(|finding| finding.name == name).unwrap().flags;
        all.iter().filter(|flag| *flag != Flag::SizeDiffers).collect()
    };
    assert_eq!(flags("capacity L2"), [Flag::Cotenant, Flag::ThrottlePower].into_iter().collect());
    assert!(flags("capacity L1").is_empty() && flags("capacity L3").is_empty());
}

#[test]
fn a_capacity_is_flagged_and_explained_where_the_system_reports_another_size() {
    let capacity_of_l2 = |factor: f64, shared_by: u32| {
        let mut device = device();
        let measured = value(&findings(&device, &[series(&[(Huge, 2048.0)])]), "capacity L2");
        device.caches[1].bytes = (factor * measured) as u64;
        device.caches[1].shared_by = shared_by;
        let found = findings(&device, &[series(&[(Huge, 2048.0)])]);
        found.into_iter().find(|finding| finding.name == "capacity L2").unwrap()
    };
    for near in [0.96, 1.0, 1.04] {
        let same = capacity_of_l2(near, 1);
        assert!(!same.flags.contains(Flag::SizeDiffers) && same.says.is_empty(), "{same:?}");
    }
    for (factor, shared_by, why) in
        [(1.06, 1, "both sizes are possible"), (1.6, 1, "contradicts the system"), (1.6, 8, "the host grants less")]
    {
        let other = capacity_of_l2(factor, shared_by);
        assert!(other.flags.contains(Flag::SizeDiffers) && other.says.contains(why), "{factor}: {other:?}");
    }
}

#[test]
fn translation_findings_report_the_extra_cost_of_small_pages() {
    let found = findings(&device(), &[series(&[(Huge, 2048.0), (Small, 32768.0)])]);
    let reach = value(&found, "TLB reach");
    assert!((262144.0..600_000.0).contains(&reach), "{reach}");
    assert!((value(&found, "page walk") * CLOCK / 60.0 - 1.0).abs() < 0.02);
}

#[test]
fn a_cache_of_two_plateaus_ends_after_the_second() {
    // The first TLB ends within L2, and walks are slow.
    let mut whole = series(&[(Huge, 2048.0)]);
    let walks = |bytes: f64| if (400_000.0..2_200_000.0).contains(&bytes) { 1.6 } else { 1.0 };
    reshape(&mut whole, |bytes| walks(bytes) * cycles(bytes, false));
    let found = findings(&device(), &[whole]);
    let capacity = value(&found, "capacity L2");
    assert!((capacity / 2097152.0 - 1.0).abs() < 0.3, "{capacity}");
    assert!((value(&found, "latency L2 in cycles") / 15.0 - 1.0).abs() < 0.1);
    assert_eq!(found.iter().filter(|finding| finding.name == "capacity L2").count(), 1);
}

#[test]
fn memory_latency_comes_from_the_largest_footprint_without_a_plateau() {
    let mut whole = series(&[(Huge, 2048.0)]);
    // A machine whose last cache is half of the largest footprint; nothing was measured between the two.
    let mut device = device();
    device.caches[2].bytes = 1 << 29;
    whole.rows.retain(|row| row.at[2].number().is_some_and(|bytes| !(2.2e7..1e9).contains(&bytes)));
    let found = findings(&device, &[whole]);
    let memory = found.iter().find(|finding| finding.name == "latency memory").unwrap();
    assert!(memory.says.contains("Measured at 1 GiB only") && memory.metric == "latency", "{memory:?}");
    assert!((memory.value * CLOCK / 300.0 - 1.0).abs() < 0.01);
}

#[test]
fn without_huge_pages_there_are_levels_but_no_translation_findings() {
    let found = findings(&device(), &[series(&[(Small, 2048.0)])]);
    assert!((value(&found, "latency L1 in cycles") / 5.0 - 1.0).abs() < 0.01);
    assert!(found.iter().all(|finding| !["TLB reach", "page walk"].contains(&finding.name.as_str())));
}

#[test]
fn a_run_that_was_stopped_at_once_has_no_findings() {
    assert!(findings(&device(), &[]).is_empty());
    assert!(findings(&device(), &[Series::new(hops(CHASE), [])]).is_empty());
    assert!(findings(&DeviceInfo::default(), &[series(&[(Huge, 2048.0)])]).is_empty());
}

/// Replaces the cycles of each row of `series` by `cycles` of its footprint.
fn reshape(series: &mut Series, cycles: impl Fn(f64) -> f64) {
    let mut points: Vec<Point> = series.rows.iter().flat_map(|row| row.points.clone()).collect();
    for point in &mut points {
        let footprint = point.at[2].number().unwrap();
        let factor = cycles(footprint) / self::cycles(footprint, false);
        point.samples.iter_mut().for_each(|ticks| *ticks = (*ticks as f64 * factor) as u64);
    }
    *series = Series::new(series.spec.clone(), points);
}

#[test]
fn a_partly_granted_last_cache_ends_early_and_memory_keeps_its_name() {
    // Most of memory's plateau lies within the size that the system reports.
    let mut device = device();
    device.caches[2].bytes = 256 << 20;
    let found = findings(&device, &[series(&[(Huge, 2048.0)])]);
    assert!((value(&found, "latency L3 in cycles") / 70.0 - 1.0).abs() < 0.1, "{found:?}");
    assert!((value(&found, "latency memory in cycles") / 300.0 - 1.0).abs() < 0.1, "{found:?}");
    let l3 = found.iter().find(|finding| finding.name == "capacity L3").unwrap();
    assert!((l3.value / (20.0 * 1048576.0) - 1.0).abs() < 0.1, "{l3:?}");
    assert!(l3.says.contains("the system reports 256 MiB, shared by 8 processors"), "{}", l3.says);
}

#[test]
fn a_last_cache_without_a_plateau_still_has_a_capacity() {
    let slope = |x: f64| match x / 1048576.0 {
        ..2.0 => 15.0,
        mib @ ..16.0 => 60.0 * 5_f64.powf((mib / 2.0).log2() / 3.0),
        _ => 300.0,
    };
    let mut whole = series(&[(Huge, 2048.0)]);
    reshape(&mut whole, |x| if x < 65536.0 { cycles(x, false) } else { slope(x) });
    let found = findings(&device(), &[whole]);
    assert!(found.iter().all(|finding| !finding.name.starts_with("latency L3")), "{found:?}");
    let l3 = found.iter().find(|finding| finding.name == "capacity L3").unwrap();
    assert!(l3.says.contains("no plateau of its own") && l3.says.contains("64 MiB, shared by 8"), "{}", l3.says);
    assert!(l3.interval.contains(l3.value) && (6e6..17e6).contains(&l3.value), "{l3:?}");
    assert!((value(&found, "capacity L2") / 2097152.0 - 1.0).abs() < 0.1);
}
