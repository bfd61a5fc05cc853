//! atomics: latency and throughput of atomic additions on a GPU, in shared and in global memory, at one address and at distinct
//! addresses, by type.

probe! {
    /// Latency and throughput of atomic additions in shared and global memory, at one address and at many.
    "atomics" in "latency", seconds: [4.0, 13.0, 45.0], files: gpu kernels
}

use crate::prelude::meaning::*;

names! {
    /// The memory that is added to. Each has a series of rates.
    pub enum Memory {
        /// Shared memory: rates are per SM.
        Shared = "shared",
        /// Global memory: rates are of the whole device.
        Global = "global",
    }

    /// How many words all threads add to.
    pub enum Addresses {
        /// Every thread adds to the same word.
        Same = "same",
        /// Every thread adds to its own word.
        Distinct = "distinct",
    }
}

axes! {
    /// Additions of one thread, each waiting for the one before.
    pub struct Chain {
        /// Where the number is.
        memory: Memory,
        /// Its type.
        number as "type": Name,
    }

    /// Additions of all threads.
    pub struct Rate {
        /// Form and type: `red u32`.
        addition: Name,
        /// Words that are added to.
        addresses: Addresses,
    }
}

/// One thread; each addition's address depends on the old value that the one before returned. An operation is an addition.
#[must_use]
pub fn latency() -> TypedSeries<Chain> {
    let metrics = vec![metrics::cycles_per_operation(), metrics::latency()];
    let draw = Draw::bars("type", "cycles").grouped_by("memory");
    TypedSeries::new("latency", Figure::Latency, CachePolicy::Hot, metrics, draw)
}

/// Requested half-width of rates: additions to one word arrive at two or three different paces.
const PRECISION: f64 = 0.005;

/// All threads of all SMs, by form (`red` leaves the old value, `atom` returns it), type and addresses. An
/// operation is one thread's addition: of one SM in shared memory, of the device in global memory.
#[must_use]
pub fn rate(memory: Memory) -> TypedSeries<Rate> {
    let per_second: Vec<Metric> = if memory == Memory::Global {
        vec![metric("additions", Unit::OpPerSecond, Quantity::OperationsPerSecond)]
    } else {
        Vec::new()
    };
    let per_cycle = vec![metric("additions per cycle", Unit::OpPerCycle, Quantity::OperationsPerCycle)];
    TypedSeries::hot(
        memory.name(),
        per_cycle.into_iter().chain(per_second).collect(),
        Draw::bars("addition", "additions per cycle").grouped_by("addresses"),
    )
    .with_precision(PRECISION)
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let case = |case: &str| series.iter().find(|series| series.spec.case == case);
    let mut found = Vec::new();
    if let Some(latency) = case("latency") {
        found.extend(known_rows(latency).filter_map(|(chain, row): (Chain, &Row)| {
            let name = format!("{} {} latency", chain.memory, chain.number);
            Some(finding(name, Unit::CyclePerOp, row, latency.estimate(row, "cycles")?))
        }));
    }
    for memory in Memory::ALL {
        let Some(rates) = case(memory.name()) else { continue };
        found.extend(known_rows(rates).filter_map(|(at, row)| rate_finding(rates, memory, &at, row)));
    }
    found
}

fn rate_finding(rates: &Series, memory: Memory, Rate { addition, addresses }: &Rate, row: &Row) -> Option<Finding> {
    let per_cycle = rates.estimate(row, "additions per cycle")?;
    let per_second = rates.estimate(row, "additions").map(|rate| Unit::OpPerSecond.format(rate.value));
    let says = per_second.unwrap_or_else(|| "of one multiprocessor".to_owned());
    Some(Finding { says, ..finding(format!("{memory} {addition}, {addresses}"), Unit::OpPerCycle, row, per_cycle) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::{Axes, Point};
    use plimsoll_suite::findings::synthetic;

    fn point(at: impl Axes, operations: f64, cycles: f64) -> Point {
        synthetic::point(at.to_values(), cycles / 2e9, Work { operations, in_kernel: true, ..Work::default() }, &[])
    }

    #[test]
    fn every_row_becomes_a_finding_in_cycles() {
        let chain = Chain { memory: Memory::Shared, number: "u32".into() };
        let red = Rate { addition: "red u32".into(), addresses: Addresses::Distinct };
        let atom = Rate { addition: "atom f32".into(), addresses: Addresses::Same };
        let series = [
            Series::new(latency(), [point(chain, 1000.0, 40_000.0)]),
            Series::new(rate(Memory::Shared), [point(red, 32_000.0, 1000.0)]),
            Series::new(rate(Memory::Global), [point(atom, 1e6, 1e6)]),
        ];
        let found = findings(&DeviceInfo::default(), &series);
        let figures: Vec<(&str, f64)> = found.iter().map(|f| (f.name.as_str(), f.value.round())).collect();
        let expected =
            [("shared u32 latency", 40.0), ("shared red u32, distinct", 32.0), ("global atom f32, same", 1.0)];
        assert_eq!(figures, expected);
        assert_eq!(found[1].says, "of one multiprocessor");
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
