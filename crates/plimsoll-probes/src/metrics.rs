//! Metrics that several probes report under the same name.

use plimsoll_core::series::{Metric, Quantity, metric};
use plimsoll_core::unit::Unit;

macro_rules! metrics {
    ($($(#[$doc:meta])* $function:ident: $name:literal, $unit:ident, $quantity:ident;)+) => {$(
        $(#[$doc])*
        pub(crate) fn $function() -> Metric {
            metric($name, Unit::$unit, Quantity::$quantity)
        }
    )+};
}

metrics! {
    /// Bytes per second.
    bandwidth: "bandwidth", BytePerSecond, Bandwidth;
    /// The same, with the bytes that are read before they are written.
    bandwidth_with_allocate: "bandwidth with write-allocate", BytePerSecond, BandwidthWithAllocate;
    /// Bytes per clock cycle.
    bytes_per_cycle: "bytes per cycle", BytePerCycle, BytesPerCycle;
    /// Length of a launch.
    time: "time", Second, Time;
    /// Length of an operation.
    latency: "latency", Second, TimePerOperation;
    /// Length of an operation in clock cycles.
    cycles: "cycles", Cycle, CyclesPerOperation;
    /// The same, for operations that overlap.
    cycles_per_operation: "cycles", CyclePerOp, CyclesPerOperation;
    /// Elements per second.
    speed: "speed", ElementPerSecond, OperationsPerSecond;
}
