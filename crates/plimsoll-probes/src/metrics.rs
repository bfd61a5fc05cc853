//! Metrics that several probes report under the same name.

use plimsoll_core::series::{Metric, Quantity, metric};
use plimsoll_core::unit::Unit;

/// Bytes per second.
pub(crate) fn bandwidth() -> Metric {
    metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth)
}

/// The same, with the bytes that are read before they are written.
pub(crate) fn bandwidth_with_allocate() -> Metric {
    metric("bandwidth with write-allocate", Unit::BytePerSecond, Quantity::BandwidthWithAllocate)
}

/// Bytes per clock cycle.
pub(crate) fn bytes_per_cycle() -> Metric {
    metric("bytes per cycle", Unit::BytePerCycle, Quantity::BytesPerCycle)
}

/// Length of a launch.
pub(crate) fn time() -> Metric {
    metric("time", Unit::Second, Quantity::Time)
}

/// Length of an operation.
pub(crate) fn latency() -> Metric {
    metric("latency", Unit::Second, Quantity::TimePerOperation)
}

/// Length of an operation in clock cycles.
pub(crate) fn cycles() -> Metric {
    metric("cycles", Unit::Cycle, Quantity::CyclesPerOperation)
}

/// The same, for operations that overlap.
pub(crate) fn cycles_per_operation() -> Metric {
    metric("cycles", Unit::CyclePerOp, Quantity::CyclesPerOperation)
}

/// Elements per second.
pub(crate) fn speed() -> Metric {
    metric("speed", Unit::ElementPerSecond, Quantity::OperationsPerSecond)
}
