//! write-path: the cost of partial stores. Stores to a part of every sector, in memory and in the L2; a load after the store of its
//! word, through the L1 and bypassing it; and repeated reads of host memory, which the L2 doesn't keep.

probe! {
    /// The cost of partial stores and of a load after a store, and whether host memory is cached.
    "write-path" in LAB, seconds: [4.0, 15.0, 45.0], files: gpu kernels
}

use plimsoll_core::counted;

use crate::prelude::meaning::*;

/// Bytes of a sector.
pub const SECTOR: u32 = 32;

/// Stores to a part of every sector, over more than the caches hold, and within the L2.
pub const MEMORY: &str = "stores to memory";
/// See [`MEMORY`].
pub const L2: &str = "stores to the L2";
/// Chains of dependent steps.
pub const CHAINS: &str = "loads behind stores";
/// Memory that each SM reads several times.
pub const AGAIN: &str = "read again";

names! {
    /// A step of a chain.
    pub enum Step {
        /// A load from the L1.
        LoadFirst = "load from L1",
        /// A load from the L2.
        LoadSecond = "load from L2",
        /// A store and a load of the same word, through the L1.
        BehindFirst = "store, then load",
        /// The same, bypassing the L1.
        BehindSecond = "store, then load past L1",
        /// The same in local memory, as for a spilled register.
        BehindLocal = "store, then load of local memory",
    }

    /// Whose memory is read, and which way.
    pub enum Memory {
        /// The host's, through the L1.
        HostFirst = "host, through L1",
        /// The host's, bypassing the L1.
        HostPast = "host, past L1",
        /// The device's, through the L1.
        DeviceFirst = "device, through L1",
        /// The device's, bypassing the L1.
        DevicePast = "device, past L1",
    }
}

axes! {
    /// Stores to every sector.
    pub struct Part {
        /// Bytes stored of each sector.
        stored: Bytes,
    }

    /// A chain.
    pub struct Chain {
        /// Its step.
        step: Step,
    }

    /// Memory that is read again.
    pub struct Passes {
        /// Whose memory, and the way of reading it.
        memory: Memory,
        /// The number of passes.
        passes: Count,
    }
}

/// Stores of the first bytes of every sector: `case` is [`MEMORY`] or [`L2`]. An operation is a sector.
#[must_use]
pub fn stores(case: &str) -> TypedSeries<Part> {
    let cache = if case == MEMORY { CachePolicy::ColdRotate } else { CachePolicy::Hot };
    let metrics = vec![metric(PER_SECTOR, Unit::Second, Quantity::TimePerOperation), metrics::bandwidth()];
    bars(case, cache, metrics)
}

const PER_SECTOR: &str = "time per sector";

/// Chains of loads and stores. An operation is a step.
#[must_use]
pub fn chains() -> TypedSeries<Chain> {
    let metrics = vec![metrics::cycles_per_operation(), metrics::latency()];
    bars(CHAINS, CachePolicy::Hot, metrics)
}

/// Passes over memory that fits in the L2; each SM's share fits in its L1.
#[must_use]
pub fn again() -> TypedSeries<Passes> {
    let metrics = vec![metrics::time(), metrics::bandwidth()];
    bars(AGAIN, CachePolicy::Hot, metrics)
}

/// Bars of the first metric over the first axis, grouped by the second.
fn bars<A: Axes>(case: &str, cache: CachePolicy, metrics: Vec<Metric>) -> TypedSeries<A> {
    let axes = A::axes();
    let name = |place: usize| axes.get(place).map(|axis| axis.name.clone());
    let y = metrics.first().map_or(String::new(), |metric| metric.name.clone());
    let draw = Draw::Bars { x: name(0).unwrap_or_default(), y, by: name(1) };
    TypedSeries::new(case, Figure::Throughput, cache, metrics, draw)
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let case = |case: &str| series.iter().find(|series| series.spec.case == case);
    let mut found: Vec<Finding> = [MEMORY, L2].into_iter().filter_map(|name| partial(case(name)?)).collect();
    found.extend(case(CHAINS).into_iter().flat_map(steps));
    let further_passes = |again| Memory::ALL.into_iter().filter_map(move |memory| further(again, memory));
    found.extend(case(AGAIN).into_iter().flat_map(further_passes));
    found.extend(advise(&found, case(MEMORY)));
    found
}

/// The most expensive part of a sector against a whole one, and the bytes that memory read for it, if counted.
fn partial(series: &Series) -> Option<Finding> {
    let time = |row: &Row| series.estimate(row, PER_SECTOR);
    let sector = Bytes::from(SECTOR);
    let (_, whole) = known_rows(series).find(|(at, _): &(Part, &Row)| at.stored == sector)?;
    let parts = known_rows(series).filter(|(at, _): &(Part, &Row)| at.stored < sector);
    let (part, worst) = parts.max_by(|(_, a), (_, b)| a.time.value.total_cmp(&b.time.value))?;
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
    let says = format!("{} B of a sector: {:.2} times the time of a whole one{counted}", part.stored.0, slower.value);
    let name = format!("parts of sectors, {}", series.spec.case);
    Some(Finding { says, ..derived(name, Unit::One, slower, worst.flags.union(whole.flags)) })
}

/// Cycles of each step.
fn steps(chains: &Series) -> Vec<Finding> {
    let step_finding = |(at, row): (Chain, &Row)| {
        Some(finding(at.step.name(), Unit::CyclePerOp, row, chains.estimate(row, "cycles")?))
    };
    known_rows(chains).filter_map(step_finding).collect()
}

/// Time of a further pass as a share of the first one.
fn further(again: &Series, memory: Memory) -> Option<Finding> {
    let of_memory = known_rows(again).filter(|(at, _): &(Passes, &Row)| at.memory == memory);
    let mut rows: Vec<(Count, &Row)> = of_memory.map(|(at, row)| (at.passes, row)).collect();
    rows.sort_by_key(|(passes, _)| *passes);
    let ((one, first), (most, last)) = (*rows.first()?, *rows.last()?);
    if one != Count(1) || most <= one {
        return None;
    }
    let most = most.0 as f64;
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
    Some(Finding { says, ..derived(format!("{AGAIN}: {memory}"), Unit::One, known, flags) })
}

/// The advice for this device.
fn advise(found: &[Finding], memory: Option<&Series>) -> Option<Finding> {
    /// The least ratio that matters.
    const MATTERS: f64 = 1.05;
    let value = |name: &str| found.iter().find(|finding| finding.name == name).map(|finding| finding.value);
    let name = format!("parts of sectors, {MEMORY}");
    let parts = found.iter().find(|finding| finding.name == name)?;
    let whole = if parts.value > MATTERS {
        format!("Write whole sectors: a part of one takes up to {:.2} times as long in memory", parts.value)
    } else {
        format!("Parts of sectors may be written: they take {:.2} times the time of whole ones in memory", parts.value)
    };
    let behind = value(Step::BehindFirst.name()).zip(value(Step::BehindSecond.name())).map(|(first, past)| {
        format!("; what was just stored comes back in {first:.0} cycles, past the L1 in {past:.0}")
    });
    let host = value(&format!("{AGAIN}: {}", Memory::HostPast)).map(|share| {
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
    use plimsoll_core::series::SeriesSpec;
    use plimsoll_suite::findings::synthetic::{CLOCK, point};

    fn work(operations: f64) -> Work {
        Work { traffic: Traffic::new(0, 1 << 20), operations, ..Work::default() }
    }

    /// Stores of whole sectors at 1 ps each, and of parts at `part` times that, for which memory reads a sector.
    fn measured(case: &str, part: f64) -> Series {
        let row = |bytes: u64, seconds: f64, read: f64| {
            point(Part { stored: Bytes(bytes) }.to_values(), seconds, work(1e6), &[(counted::DRAM_READ, read * 1e6)])
        };
        let mut spec = SeriesSpec::from(stores(case));
        spec.metrics.extend(counted::metrics());
        Series::new(spec, [row(1, part * 1e-6, 32.0), row(4, part * 0.99e-6, 32.0), row(32, 1e-6, 0.0)])
    }

    fn named<'f>(found: &'f [Finding], name: &str) -> &'f Finding {
        found.iter().find(|finding| finding.name == name).unwrap_or_else(|| panic!("no finding {name}"))
    }

    #[test]
    fn finding_names_the_most_expensive_part_and_the_bytes_read() {
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
    fn findings_have_further_passes_and_steps_in_cycles() {
        let pass = |memory, passes: u64, seconds: f64| {
            point(Passes { memory, passes: Count(passes) }.to_values(), seconds, work(1.0), &[])
        };
        let host = [pass(Memory::HostPast, 1, 1e-3), pass(Memory::HostPast, 4, 4e-3), pass(Memory::HostPast, 2, 2e-3)];
        let device = [pass(Memory::DevicePast, 1, 1e-5), pass(Memory::DevicePast, 4, 2.5e-5)];
        let step = |step, cycles: f64| point(Chain { step }.to_values(), cycles * 1e3 / CLOCK, work(1e3), &[]);
        let series = [
            measured(MEMORY, 2.0),
            Series::new(chains(), [step(Step::BehindFirst, 40.0), step(Step::BehindSecond, 300.0)]),
            Series::new(again(), host.into_iter().chain(device)),
        ];
        let found = findings(&DeviceInfo::default(), &series);
        assert!((named(&found, "read again: host, past L1").value - 1.0).abs() < 1e-6);
        assert!((named(&found, "read again: device, past L1").value - 0.5).abs() < 1e-6);
        assert!((named(&found, Step::BehindFirst.name()).value - 40.0).abs() < 1e-3);
        let advice = &named(&found, "advice").says;
        assert!(
            advice.contains("in 40 cycles, past the L1 in 300") && advice.contains("100 % of the first: copy"),
            "{advice}"
        );
    }

    #[test]
    fn unmeasured_cases_have_no_findings() {
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
        let at = Passes { memory: Memory::HostPast, passes: Count(1) };
        let one = Series::new(again(), [point(at.to_values(), 1e-3, work(1.0), &[])]);
        assert!(findings(&DeviceInfo::default(), &[one]).is_empty());
    }
}
