//! tensor: matrix products by a single instruction: operations per cycle of one SM's matrix units, and per second of the whole
//! device.

probe! {
    /// Rates of the matrix units per cycle and per second, by type and instruction.
    "tensor" in "arithmetic", seconds: [5.0, 18.0, 45.0], files: gpu kernels, headlines: [
        Headline::gate("tensor-bf16", "tensor bf16", More, &["rate wgmma bf16", "rate mma bf16"], 0.01),
        Headline::gate("tensor-f8", "tensor f8", More, &["rate wgmma f8"], 0.01).shown_only(),
    ]
}

#[cfg(feature = "gpu")]
pub(crate) mod oracle;

use plimsoll_suite::machines::rates;
use plimsoll_suite::operations;

use crate::prelude::meaning::*;

axes! {
    /// An instruction, which determines its configuration.
    pub struct ByInstruction {
        /// The instruction's name.
        instruction: Name,
    }

    /// An instruction in a block.
    pub struct Configuration {
        /// The instruction's name.
        instruction: Name,
        /// Chains per warp.
        chains as "ilp": Count,
        /// Warps per block.
        warps: Count,
    }
}

/// Cycles of one instruction in one chain of one warp, or of one group of four.
#[must_use]
pub fn latency() -> TypedSeries<ByInstruction> {
    spec("latency", metrics::cycles_per_operation(), Draw::Table)
}

/// Operations per cycle of one SM, over chains and warps.
#[must_use]
pub fn multiprocessor() -> TypedSeries<Configuration> {
    spec("multiprocessor", per_cycle(), Draw::Table)
}

/// Each instruction in its fastest configuration, measured again.
#[must_use]
pub fn saturated() -> TypedSeries<Configuration> {
    let draw = Draw::bars("instruction", "rate");
    spec("saturated", per_cycle(), draw)
}

/// The same on all SMs, timed by events: the rate that the power limit allows.
#[must_use]
pub fn device() -> TypedSeries<ByInstruction> {
    let draw = Draw::bars("instruction", "rate");
    spec("device", metric("rate", Unit::FlopPerSecond, Quantity::OperationsPerSecond), draw)
}

fn per_cycle() -> Metric {
    metric("rate", Unit::FlopPerCycle, Quantity::OperationsPerCycle)
}

fn spec<A: Axes>(case: &str, metric: Metric, draw: Draw) -> TypedSeries<A> {
    TypedSeries::hot(case, vec![metric], draw)
}

fn findings(info: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let case = |name: &str| series.iter().find(|series| series.spec.case == name);
    let latency = case("latency").into_iter().flat_map(|series| {
        known_rows(series).filter_map(move |(at, row): (ByInstruction, &Row)| {
            let name = format!("latency {}", at.instruction);
            Some(finding(name, Unit::Cycle, row, series.estimate(row, "cycles")?))
        })
    });
    let saturated = case("saturated").into_iter().flat_map(|series| {
        known_rows(series).filter_map(move |(at, row)| multiprocessor_finding(info, series, &at, row))
    });
    let device = case("device").into_iter().flat_map(|series| {
        known_rows(series).filter_map(move |(at, row): (ByInstruction, &Row)| {
            device_finding(info, series, at.instruction.as_str(), row)
        })
    });
    latency.chain(saturated).chain(device).collect()
}

/// An instruction's kind of arithmetic, as in the names of peaks: `f16 matrix` for `wgmma f16 of registers`.
fn kind(instruction: &str) -> Option<String> {
    let number = instruction.split(' ').nth(1)?;
    // Both 8-bit float formats are one kind.
    Some(format!("{} matrix", if number.starts_with("f8") { "f8" } else { number }))
}

fn multiprocessor_finding(info: &DeviceInfo, series: &Series, at: &Configuration, row: &Row) -> Option<Finding> {
    let name = at.instruction.as_str();
    let rate = series.estimate(row, "rate")?;
    let capability = info.architecture.as_deref()?.strip_prefix("sm_").and_then(|text| text.parse().ok());
    let peak = capability.and_then(|capability| rates::per_cycle(capability, &kind(name)?));
    let published =
        peak.map(|peak| Published { range: Interval { lo: peak, hi: peak }, source: rates::SOURCE.to_owned() });
    let says = format!("per multiprocessor, with {} chains in {} warps", at.chains.0, at.warps.0);
    let unit = operations::unit(&Unit::FlopPerCycle, name);
    Some(Finding { published, says, ..finding(format!("per cycle {name}"), unit, row, rate) })
}

fn device_finding(info: &DeviceInfo, series: &Series, name: &str, row: &Row) -> Option<Finding> {
    let rate = series.estimate(row, "rate")?;
    let unit = operations::unit(&Unit::FlopPerSecond, name);
    let mut found = finding(format!("rate {name}"), unit, row, rate);
    found.metric = kind(name)?;
    if let Some(peak) = info.peak(&found.metric).filter(|peak| peak.value > 0.0) {
        let theory = found.unit.format(peak.value);
        found.says = format!("{:.1} % of {theory}", 100.0 * rate.value / peak.value);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::device::Peak;
    use plimsoll_core::sample::{Evidence, Work};
    use plimsoll_core::series::Point;

    fn by_instruction(instruction: &'static str) -> ByInstruction {
        ByInstruction { instruction: instruction.into() }
    }

    fn in_warps(instruction: &'static str) -> Configuration {
        Configuration { instruction: instruction.into(), chains: Count(1), warps: Count(8) }
    }

    /// `operations` in a microsecond at 1 GHz, which is 1000 cycles.
    fn point(at: impl Axes, operations: f64) -> Point {
        Point {
            evidence: Evidence { clock_hz: Some(1e9), ..Evidence::default() },
            ..Point::new(at.to_values(), Work { operations, ..Work::default() }, vec![1000; 30])
        }
    }

    #[test]
    fn findings_are_compared_with_published_peaks() {
        let peak = Peak { metric: "f16 matrix".into(), value: 1e12, unit: Unit::FlopPerSecond, source: "x".into() };
        let info = DeviceInfo { architecture: Some("sm_90".into()), peaks: vec![peak], ..DeviceInfo::default() };
        let name = "wgmma f16 of registers";
        let series = [
            Series::new(latency(), [point(by_instruction(name), 10.0)]),
            Series::new(saturated(), [point(in_warps(name), 4e6)]),
            Series::new(device(), [point(by_instruction(name), 0.9e6)]),
        ];
        let found = findings(&info, &series);
        assert_eq!(found.len(), 3);
        assert!((found[0].value - 100.0).abs() < 1e-6 && found[0].unit == Unit::Cycle);
        assert!((found[1].value - 4000.0).abs() < 1e-6, "{found:?}");
        assert_eq!(found[1].published.as_ref().map(|known| known.range.lo), Some(4096.0));
        assert!((found[2].value - 0.9e12).abs() < 1.0 && found[2].says.starts_with("90.0 %"), "{found:?}");
    }

    #[test]
    fn integer_rates_have_units_of_operations() {
        let info = DeviceInfo { architecture: Some("sm_90".into()), ..DeviceInfo::default() };
        let series = [
            Series::new(saturated(), [point(in_warps("mma i8"), 4e6)]),
            Series::new(device(), [point(by_instruction("mma i8"), 1e6)]),
        ];
        let units: Vec<Unit> = findings(&info, &series).into_iter().map(|found| found.unit).collect();
        assert_eq!(units, [Unit::OpPerCycle, Unit::OpPerSecond]);
    }

    #[test]
    fn unknown_devices_have_findings_without_a_peak() {
        let series = [Series::new(device(), [point(by_instruction("mma f16"), 1e6)])];
        assert_eq!(findings(&DeviceInfo::default(), &series)[0].says, "");
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
