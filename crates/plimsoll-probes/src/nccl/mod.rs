//! nccl: collective operations of all devices of a process, by NVIDIA's library.

probe! {
    /// How fast all devices add up and gather arrays with NCCL: latency of small ones, bus bandwidth of large ones.
    "nccl" in "transfers", seconds: [5.0, 20.0, 60.0], files: cuda, takes bytes
}

use crate::prelude::meaning::*;

names! {
    /// An operation of all devices.
    pub enum Operation {
        /// Every device gets the sums of all devices' numbers.
        Reduce = "all-reduce",
        /// Every device gets all devices' numbers.
        Gather = "all-gather",
    }
}

impl Operation {
    /// Bytes that cross each device's links at least, for arrays of `bytes` bytes (of the result) and so many devices: the bytes
    /// that nccl-tests counts for its bus bandwidth. 2(n − 1)/n times the array for an all-reduce, (n − 1)/n times for an
    /// all-gather (nccl-tests, doc/PERFORMANCE.md).
    #[must_use]
    pub fn bus_bytes(self, bytes: u64, devices: u64) -> u64 {
        let share = |times: u64| {
            let product = u128::from(bytes) * u128::from(times) / u128::from(devices.max(1));
            u64::try_from(product).unwrap_or(u64::MAX)
        };
        match self {
            Self::Reduce => share(2 * devices.saturating_sub(1)),
            Self::Gather => share(devices.saturating_sub(1)),
        }
    }
}

axes! {
    /// An operation on arrays of one size.
    pub struct Collective {
        /// The operation.
        operation: Operation,
        /// Bytes of the array that each device ends up with.
        size: Bytes,
    }
}

/// Metric set by the workload: number of devices.
pub const DEVICES: &str = "devices";

/// Operations back to back, by size.
#[must_use]
pub fn collectives() -> TypedSeries<Collective> {
    let metrics = vec![
        metric("bus bandwidth", Unit::BytePerSecond, Quantity::Bandwidth),
        metrics::time(),
        metric(DEVICES, Unit::One, Quantity::Extra),
    ];
    let draw = Draw::lines("size", "bus bandwidth").grouped_by("operation").log_x().log_y();
    TypedSeries::hot("collectives", metrics, draw).with_precision(HOST_PRECISION)
}

/// For each operation the bus bandwidth of the largest arrays, and the time of the smallest.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(series) = series.iter().find(|series| series.spec.case == "collectives") else { return Vec::new() };
    let figures = |operation: Operation| {
        let rows = known_rows(series).filter(move |(at, _): &(Collective, &Row)| at.operation == operation);
        let rows: Vec<(u64, &Row)> = rows.map(|(at, row)| (at.size.0, row)).collect();
        let figure = |(size, row): &(u64, &Row), name: String, metric: &str, unit: Unit| {
            let devices =
                series.estimate(row, DEVICES).map_or(String::new(), |count| format!(" on {} devices", count.value));
            let says = format!("At {}{devices}.", Unit::Byte.format(*size as f64));
            Some(Finding { says, ..finding(name, unit, row, series.estimate(row, metric)?) })
        };
        let largest = rows.iter().max_by_key(|(size, _)| *size);
        let smallest = rows.iter().min_by_key(|(size, _)| *size).filter(|_| rows.len() > 1);
        [
            largest.and_then(|row| figure(row, operation.name().to_owned(), "bus bandwidth", Unit::BytePerSecond)),
            smallest.and_then(|row| figure(row, format!("{operation}, latency"), "time", Unit::Second)),
        ]
    };
    Operation::ALL.into_iter().flat_map(figures).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;

    fn point(operation: Operation, size: u64, nanoseconds: u64) -> Point {
        let work = Work { traffic: Traffic::new(operation.bus_bytes(size, 4), 0), ..Work::default() };
        let at = Collective { operation, size: size.into() };
        Point { extra: [(DEVICES.to_owned(), 4.0)].into(), ..Point::new(at.to_values(), work, vec![nanoseconds; 30]) }
    }

    /// The factors of nccl-tests' doc/PERFORMANCE.md, by hand.
    #[test]
    fn bus_bandwidth_counts_what_nccl_tests_counts() {
        assert_eq!([2, 4, 8].map(|n| Operation::Reduce.bus_bytes(800, n)), [800, 1200, 1400]);
        assert_eq!([2, 4, 8].map(|n| Operation::Gather.bus_bytes(800, n)), [400, 600, 700]);
        assert_eq!(Operation::ALL.map(|operation| operation.bus_bytes(800, 1)), [0, 0]);
    }

    #[test]
    fn findings_are_the_largest_array_s_bandwidth_and_the_smallest_one_s_time() {
        let points = [
            point(Operation::Reduce, 8 << 10, 12_000),
            point(Operation::Reduce, 1 << 20, 20_000),
            point(Operation::Reduce, 1 << 30, 5_000_000),
            point(Operation::Gather, 1 << 30, 2_000_000),
        ];
        let found = findings(&DeviceInfo::default(), &[Series::new(collectives(), points)]);
        let names: Vec<&str> = found.iter().map(|finding| finding.name.as_str()).collect();
        assert_eq!(names, ["all-reduce", "all-reduce, latency", "all-gather"]);
        // 1.5 times 1 GiB in 5 ms, and 0.75 times in 2 ms.
        assert!(
            (found[0].value / 322.1e9 - 1.0).abs() < 1e-3 && found[0].says.contains("1 GiB on 4 devices"),
            "{found:?}"
        );
        assert!((found[1].value - 12e-6).abs() < 1e-12 && (found[2].value / 402.7e9 - 1.0).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn empty_series_have_no_findings() {
        assert!(findings(&DeviceInfo::default(), &[Series::new(collectives(), [])]).is_empty());
    }
}
