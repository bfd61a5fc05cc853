//! What arithmetic is counted in: operations of whole numbers are no floating-point operations. Series of both kinds share one
//! metric, and records of earlier versions say FLOP of either; what a row or a finding is of tells which.

use plimsoll_core::record::Finding;
use plimsoll_core::series::{Metric, Value};
use plimsoll_core::unit::Unit;

/// Types of whole numbers, as instructions and findings are named after them.
const WHOLE: [&str; 8] = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"];

/// `unit` for what `of` names (`wgmma i8`, `rate mma f16`, `i8 matrix`): the same, or of whole numbers plain operations in place
/// of floating-point ones.
#[must_use]
pub fn unit(unit: &Unit, of: &str) -> Unit {
    let whole = of.split(' ').any(|word| WHOLE.contains(&word));
    match unit {
        Unit::FlopPerSecond if whole => Unit::OpPerSecond,
        Unit::FlopPerCycle if whole => Unit::OpPerCycle,
        _ => unit.clone(),
    }
}

/// The unit of a metric at these coordinates, one of which may name the type.
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
    fn whole_numbers_have_no_floating_point_operations() {
        assert_eq!(unit(&Unit::FlopPerSecond, "rate wgmma i8"), Unit::OpPerSecond);
        assert_eq!(unit(&Unit::FlopPerCycle, "mma i8"), Unit::OpPerCycle);
        assert_eq!(unit(&Unit::FlopPerSecond, "rate wgmma f8"), Unit::FlopPerSecond);
        assert_eq!(unit(&Unit::FlopPerSecond, "mini8"), Unit::FlopPerSecond);
        assert_eq!(unit(&Unit::Cycle, "latency mma i8"), Unit::Cycle);
    }
}
