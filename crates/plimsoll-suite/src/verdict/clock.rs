//! The effect on a figure of a clock that changed between two runs: none where memory limits the speed, a proportional one where
//! the core does. A row doesn't show which applies, so both readings have to agree on a verdict.

use plimsoll_core::series::Quantity;

/// Clocks that differ by at most this share count as equal.
const SAME: f64 = 0.01;
/// Runs whose clocks differ by more than this share can't be compared: voltage and the clocks of caches and memory change too, so
/// that the truth may lie outside both readings.
const TOO_FAR: f64 = 0.10;

/// True where the clocks (base, new; hertz) are too far apart for any comparison.
pub(super) fn are_too_far_apart((base, new): (f64, f64)) -> bool {
    (new / base).ln().abs() > TOO_FAR.ln_1p()
}

/// The amount to add to ln(new ÷ base) of a quantity to get its other reading: times and rates converted to cycles, figures in
/// cycles converted to seconds. `None` where the clocks are equal, or where the workload measured the figure itself, so that its
/// dependence on the time is unknown.
pub(super) fn shift(quantity: Quantity, (base, new): (f64, f64)) -> Option<f64> {
    let change = (new / base).ln();
    if change.abs() <= SAME.ln_1p() {
        return None;
    }
    match quantity {
        // Cycles = seconds × clock; bytes per second = bytes per cycle × clock.
        Quantity::Time | Quantity::TimePerOperation | Quantity::BytesPerCycle | Quantity::OperationsPerCycle => {
            Some(change)
        }
        Quantity::Bandwidth
        | Quantity::BandwidthWithAllocate
        | Quantity::OperationsPerSecond
        | Quantity::CyclesPerOperation => Some(-change),
        Quantity::Extra | Quantity::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;

    #[test]
    fn one_reading_of_an_unchanged_machine_shows_no_difference() {
        let work = Work { operations: 7.0, traffic: Traffic::new(64, 64), ..Work::default() };
        let (seconds, base, new) = (1e-6, 3.0e9, 3.15e9);
        for quantity in [
            Quantity::Time,
            Quantity::TimePerOperation,
            Quantity::BytesPerCycle,
            Quantity::OperationsPerCycle,
            Quantity::Bandwidth,
            Quantity::BandwidthWithAllocate,
            Quantity::OperationsPerSecond,
            Quantity::CyclesPerOperation,
        ] {
            let shift = shift(quantity, (base, new)).unwrap();
            let value = |seconds, clock| quantity.compute(seconds, &work, Some(clock)).unwrap();
            for seconds_then in [seconds, seconds * base / new] {
                let measured = (value(seconds_then, new) / value(seconds, base)).ln();
                let least = measured.abs().min((measured + shift).abs());
                assert!(least < 1e-12, "{quantity:?}: {measured} {shift}");
            }
        }
        assert_eq!(shift(Quantity::Extra, (base, new)), None);
        assert_eq!(shift(Quantity::Time, (3.0e9, 3.02e9)), None);
    }

    #[test]
    fn clocks_more_than_a_tenth_apart_are_too_far_apart() {
        assert!(!are_too_far_apart((3.0e9, 3.29e9)) && !are_too_far_apart((3.29e9, 3.0e9)));
        assert!(are_too_far_apart((3.0e9, 3.31e9)) && are_too_far_apart((3.31e9, 3.0e9)));
    }
}
