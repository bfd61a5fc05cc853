//! write-path: what partial stores cost. Stores that leave a part of every sector as it was, in memory and in the L2; a load that
//! follows the store of its word, through the first-level cache and past it; and memory of the host, which the L2 doesn't keep,
//! read more than once.

#[cfg(feature = "gpu")]
pub mod gpu;
#[cfg(feature = "kernels")]
pub mod kernels;

use plimsoll_core::counted;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Axis, Draw, Estimate, Metric, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

use plimsoll_suite::findings::advice::{advice, ratio};
use plimsoll_suite::findings::{LAB, derived, finding};

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "write-path",
    group: LAB,
    sentence: "What partial stores cost, what a load finds behind a store, and whether the host's memory is kept near.",
    seconds: [4.0, 15.0, 45.0],
    findings,
};

/// Bytes of a sector.
pub const SECTOR: u32 = 32;

/// Stores of a part of every sector, where no cache holds them, and where the L2 does.
pub const MEMORY: &str = "stores to memory";
/// See [`MEMORY`].
pub const L2: &str = "stores to the L2";
/// Steps that each need the one before.
pub const CHAINS: &str = "loads behind stores";
/// Memory that each multiprocessor reads several times.
pub const AGAIN: &str = "read again";

/// Steps of a chain: a load from the first level, and from the second.
pub const LOAD_FIRST: &str = "load from L1";
/// See [`LOAD_FIRST`].
pub const LOAD_SECOND: &str = "load from L2";
/// A store and a load of the same word, through the first level, and past it.
pub const BEHIND_FIRST: &str = "store, then load";
/// See [`BEHIND_FIRST`].
pub const BEHIND_SECOND: &str = "store, then load past L1";
/// The same of local memory, as of a register that was spilled.
pub const BEHIND_LOCAL: &str = "store, then load of local memory";

/// Whose memory is read, and which way.
pub const HOST_FIRST: &str = "host, through L1";
/// See [`HOST_FIRST`].
pub const HOST_PAST: &str = "host, past L1";
/// See [`HOST_FIRST`].
pub const DEVICE_FIRST: &str = "device, through L1";
/// See [`HOST_FIRST`].
pub const DEVICE_PAST: &str = "device, past L1";

/// Stores of the first bytes of every sector: `case` is [`MEMORY`] or [`L2`]. An operation is a sector.
#[must_use]
pub fn stores(case: &str) -> SeriesSpec {
    let cache = if case == MEMORY { CachePolicy::ColdRotate } else { CachePolicy::Hot };
    let metrics = vec![
        metric(PER_SECTOR, Unit::Second, Quantity::TimePerOperation),
        metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth),
    ];
    bars(case, cache, vec![axis("stored", Unit::Byte)], metrics)
}

const PER_SECTOR: &str = "time per sector";

/// Chains of loads and stores. An operation is a step.
#[must_use]
pub fn chains() -> SeriesSpec {
    let metrics = vec![
        metric("cycles", Unit::CyclePerOp, Quantity::CyclesPerOperation),
        metric("latency", Unit::Second, Quantity::TimePerOperation),
    ];
    bars(CHAINS, CachePolicy::Hot, vec![axis("step", Unit::One)], metrics)
}

/// Passes over memory that fits the L2, and a multiprocessor's share of it its first level.
#[must_use]
pub fn again() -> SeriesSpec {
    let metrics = vec![
        metric("time", Unit::Second, Quantity::Time),
        metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth),
    ];
    let axes = vec![axis("memory", Unit::One), axis("passes", Unit::One)];
    bars(AGAIN, CachePolicy::Hot, axes, metrics)
}

/// Bars of the first metric over the first axis, grouped by the second.
fn bars(case: &str, cache: CachePolicy, axes: Vec<Axis>, metrics: Vec<Metric>) -> SeriesSpec {
    let name = |place: usize| axes.get(place).map(|axis| axis.name.clone());
    let y = metrics.first().map_or(String::new(), |metric| metric.name.clone());
    let draw = Draw::Bars { x: name(0).unwrap_or_default(), y, by: name(1) };
    SeriesSpec::new(case, Figure::Throughput, cache, axes, metrics, draw)
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let case = |case: &str| series.iter().find(|series| series.spec.case == case);
    let mut found: Vec<Finding> = [MEMORY, L2].into_iter().filter_map(|name| partial(case(name)?)).collect();
    found.extend(case(CHAINS).into_iter().flat_map(steps));
    let ways = [HOST_FIRST, HOST_PAST, DEVICE_FIRST, DEVICE_PAST];
    found.extend(case(AGAIN).into_iter().flat_map(|again| ways.into_iter().filter_map(|way| further(again, way))));
    found.extend(advise(&found, case(MEMORY)));
    found
}

/// The row on which the first axis has this number.
fn stored(series: &Series, bytes: f64) -> Option<&Row> {
    series.rows.iter().find(|row| series.number(row, "stored") == Some(bytes))
}

/// The part of a sector that costs most beside a whole one, and what memory read for it, where that was counted.
fn partial(series: &Series) -> Option<Finding> {
    let time = |row: &Row| series.estimate(row, PER_SECTOR);
    let whole = stored(series, f64::from(SECTOR))?;
    let parts = series.rows.iter().filter(|row| series.number(row, "stored") < Some(f64::from(SECTOR)));
    let slowest = |a: &&Row, b: &&Row| a.time.value.total_cmp(&b.time.value);
    let worst = parts.max_by(slowest)?;
    let slower = ratio(time(worst)?, time(whole)?);
    let read = |row: &Row| {
        let sectors = row.points.first().map(|point| point.work.operations)?;
        Some(series.estimate(row, counted::DRAM_READ)?.value / sectors)
    };
    let counted = match (read(worst), read(whole)) {
        (Some(part), Some(whole)) => {
            format!("; memory read {part:.1} B for each of them, {whole:.1} B for a whole one")
        }
        _ => String::new(),
    };
    let says =
        format!("{} B of a sector: {:.2} times the time of a whole one{counted}", series.number(worst, "stored")?, {
            slower.value
        });
    let name = format!("parts of sectors, {}", series.spec.case);
    Some(Finding { says, ..derived(name, Unit::One, slower, worst.flags.union(whole.flags)) })
}

/// Cycles of each step.
fn steps(chains: &Series) -> Vec<Finding> {
    let of = |row| Some(finding(chains.text(row, "step")?, Unit::CyclePerOp, row, chains.estimate(row, "cycles")?));
    chains.rows.iter().filter_map(of).collect()
}

/// Time of a further pass beside the first one.
fn further(again: &Series, way: &str) -> Option<Finding> {
    let mut rows: Vec<(f64, &Row)> = (again.rows.iter())
        .filter(|row| again.text(row, "memory") == Some(way))
        .filter_map(|row| Some((again.number(row, "passes")?, row)))
        .collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((one, first), (most, last)) = (*rows.first()?, *rows.last()?);
    if one != 1.0 || most <= one {
        return None;
    }
    let share = |all: f64, first: f64| (all / first - 1.0) / (most - 1.0);
    let known = Estimate {
        value: share(last.time.value, first.time.value),
        interval: Interval {
            lo: share(last.time.interval.lo, first.time.interval.hi),
            hi: share(last.time.interval.hi, first.time.interval.lo),
        },
    };
    let says = format!("a further pass takes {:.0} % of the time of the first", 100.0 * known.value);
    let flags = first.flags.union(last.flags);
    Some(Finding { says, ..derived(format!("{AGAIN}: {way}"), Unit::One, known, flags) })
}

/// What to do on this device.
fn advise(found: &[Finding], memory: Option<&Series>) -> Option<Finding> {
    /// From here on a difference is worth a sentence.
    const MATTERS: f64 = 1.05;
    let value = |name: &str| found.iter().find(|finding| finding.name == name).map(|finding| finding.value);
    let name = format!("parts of sectors, {MEMORY}");
    let parts = found.iter().find(|finding| finding.name == name)?;
    let whole = if parts.value > MATTERS {
        format!("Write whole sectors: a part of one takes up to {:.2} times as long in memory", parts.value)
    } else {
        format!("Parts of sectors may be written: they take {:.2} times the time of whole ones in memory", parts.value)
    };
    let behind = value(BEHIND_FIRST).zip(value(BEHIND_SECOND)).map(|(first, past)| {
        format!("; what was just stored comes back in {first:.0} cycles, past the L1 in {past:.0}")
    });
    let host = value(&format!("{AGAIN}: {HOST_PAST}")).map(|share| {
        let verdict = if share > 0.5 { "copy what is read twice" } else { "it is kept" };
        format!("; reading the host's memory a second time takes {:.0} % of the first: {verdict}", 100.0 * share)
    });
    let says = format!("{whole}{}{}.", behind.unwrap_or_default(), host.unwrap_or_default());
    let decides = Estimate { value: parts.value, interval: parts.interval };
    Some(advice(says, Unit::One, decides, memory.into_iter().flat_map(|series| &series.rows)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_suite::findings::synthetic::{CLOCK, point};

    fn work(operations: f64) -> Work {
        Work { traffic: Traffic::new(0, 1 << 20), operations, ..Work::default() }
    }

    /// Stores of whole sectors at 1 ps each and of parts at `part` times as much, for which memory reads a sector.
    fn measured(case: &str, part: f64) -> Series {
        let row = |bytes: u64, seconds: f64, read: f64| {
            point(vec![bytes.into()], seconds, work(1e6), &[(counted::DRAM_READ, read * 1e6)])
        };
        let mut spec = stores(case);
        spec.metrics.extend(counted::metrics());
        Series::new(spec, [row(1, part * 1e-6, 32.0), row(4, part * 0.99e-6, 32.0), row(32, 1e-6, 0.0)])
    }

    fn named<'f>(found: &'f [Finding], name: &str) -> &'f Finding {
        found.iter().find(|finding| finding.name == name).unwrap_or_else(|| panic!("no finding {name}"))
    }

    #[test]
    fn the_part_that_costs_most_is_told_with_what_memory_read_for_it() {
        let found = findings(&DeviceInfo::default(), &[measured(MEMORY, 1.8), measured(L2, 1.0)]);
        let memory = named(&found, "parts of sectors, stores to memory");
        assert!((memory.value - 1.8).abs() < 1e-6, "{memory:?}");
        let says = "1 B of a sector: 1.80 times the time of a whole one; memory read 32.0 B for each of them, 0.0 B for a whole one";
        assert_eq!(memory.says, says);
        assert!(named(&found, "advice").says.starts_with("Write whole sectors: a part of one takes up to 1.80"));
        let cheap = findings(&DeviceInfo::default(), &[measured(MEMORY, 1.01)]);
        assert!(named(&cheap, "advice").says.starts_with("Parts of sectors may be written"));
    }

    #[test]
    fn a_further_pass_is_told_beside_the_first_and_steps_in_cycles() {
        let pass =
            |way: &str, passes: u64, seconds: f64| point(vec![way.into(), passes.into()], seconds, work(1.0), &[]);
        let host = [pass(HOST_PAST, 1, 1e-3), pass(HOST_PAST, 4, 4e-3), pass(HOST_PAST, 2, 2e-3)];
        let device = [pass(DEVICE_PAST, 1, 1e-5), pass(DEVICE_PAST, 4, 2.5e-5)];
        let step = |name: &str, cycles: f64| point(vec![name.into()], cycles * 1e3 / CLOCK, work(1e3), &[]);
        let series = [
            measured(MEMORY, 2.0),
            Series::new(chains(), [step(BEHIND_FIRST, 40.0), step(BEHIND_SECOND, 300.0)]),
            Series::new(again(), host.into_iter().chain(device)),
        ];
        let found = findings(&DeviceInfo::default(), &series);
        assert!((named(&found, "read again: host, past L1").value - 1.0).abs() < 1e-6);
        assert!((named(&found, "read again: device, past L1").value - 0.5).abs() < 1e-6);
        assert!((named(&found, BEHIND_FIRST).value - 40.0).abs() < 1e-3);
        let advice = &named(&found, "advice").says;
        assert!(
            advice.contains("in 40 cycles, past the L1 in 300") && advice.contains("100 % of the first: copy"),
            "{advice}"
        );
    }

    #[test]
    fn nothing_is_said_of_what_was_not_measured() {
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
        let one = Series::new(again(), [point(vec![HOST_PAST.into(), 1_u64.into()], 1e-3, work(1.0), &[])]);
        assert!(findings(&DeviceInfo::default(), &[one]).is_empty());
    }
}
