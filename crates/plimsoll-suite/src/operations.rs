//! Units of arithmetic: integer operations aren't floating-point operations. Series of both kinds share one metric, and records
//! of earlier versions use FLOP for both, so the unit follows from the type that a row or a finding names.

use plimsoll_core::record::Finding;
use plimsoll_core::series::{Metric, Value};
use plimsoll_core::unit::Unit;

/// Integer types, as they appear in the names of instructions and findings.
const INTEGERS: [&str; 8] = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"];

/// The unit for an operation called `name` (`wgmma i8`, `rate mma f16`, `i8 matrix`): `unit`, with plain operations instead of
/// floating-point ones where the name contains an integer type.
#[must_use]
pub fn unit(unit: &Unit, name: &str) -> Unit {
    let is_integer = name.split(' ').any(|word| INTEGERS.contains(&word));
    match unit {
        Unit::FlopPerSecond if is_integer => Unit::OpPerSecond,
        Unit::FlopPerCycle if is_integer => Unit::OpPerCycle,
        _ => unit.clone(),
    }
}

/// The unit of a metric at these coordinates, which may name the type.
#[must_use]
pub fn unit_at<'v>(metric: &Metric, at: impl IntoIterator<Item = &'v Value>) -> Unit {
    at.into_iter().fold(metric.unit.clone(), |known, at| match at {
        Value::Text(name) => unit(&known, name),
        Value::Number(_) => known,
    })
}

/// The unit of a finding, whose name may name the type.
#[must_use]
pub fn unit_of_finding(finding: &Finding) -> Unit {
    unit(&finding.unit, &finding.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_types_have_no_floating_point_operations() {
        assert_eq!(unit(&Unit::FlopPerSecond, "rate wgmma i8"), Unit::OpPerSecond);
        assert_eq!(unit(&Unit::FlopPerCycle, "mma i8"), Unit::OpPerCycle);
        assert_eq!(unit(&Unit::FlopPerSecond, "rate wgmma f8"), Unit::FlopPerSecond);
        assert_eq!(unit(&Unit::FlopPerSecond, "mini8"), Unit::FlopPerSecond);
        assert_eq!(unit(&Unit::Cycle, "latency mma i8"), Unit::Cycle);
    }
}
