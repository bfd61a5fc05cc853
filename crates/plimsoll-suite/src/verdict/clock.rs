//! What a clock that moved between two runs makes of a difference: nothing where memory sets the pace, its own share of
//! it where the core does. A row can't tell which it is, so both readings have to agree on a verdict.

use plimsoll_core::series::Quantity;

/// Clocks that differ by no more than this share are the same.
const SAME: f64 = 0.01;
/// Clocks that differ by more than this share measure different machines: voltage, and the clocks of caches and memory
/// that go with it, follow too, and neither reading can be trusted to span the truth.
const BEYOND: f64 = 0.10;

/// True where the clocks (base, new; hertz) are too far apart for any comparison.
pub(super) fn beyond((base, new): (f64, f64)) -> bool {
    (new / base).ln().abs() > BEYOND.ln_1p()
}

/// What ln(new ÷ base) of a quantity has to be raised by for its other reading: a time or rate counted in cycles, a
/// figure in cycles counted in seconds. `None` where the clocks are the same, or where the workload measured the figure
/// itself and nothing says how it follows from the time.
pub(super) fn shift(of: Quantity, (base, new): (f64, f64)) -> Option<f64> {
    let moved = (new / base).ln();
    if moved.abs() <= SAME.ln_1p() {
        return None;
    }
    match of {
        // Cycles = seconds × clock; bytes per second = bytes per cycle × clock.
        Quantity::Time | Quantity::TimePerOperation | Quantity::BytesPerCycle | Quantity::OperationsPerCycle => {
            Some(moved)
        }
        Quantity::Bandwidth
        | Quantity::BandwidthWithAllocate
        | Quantity::OperationsPerSecond
        | Quantity::CyclesPerOperation => Some(-moved),
        Quantity::Extra | Quantity::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;

    #[test]
    fn of_an_unchanged_machine_one_reading_of_every_quantity_shows_no_difference() {
        let work = Work { operations: 7.0, traffic: Traffic::new(64, 64), ..Work::default() };
        let (seconds, base, new) = (1e-6, 3.0e9, 3.15e9);
        for of in [
            Quantity::Time,
            Quantity::TimePerOperation,
            Quantity::BytesPerCycle,
            Quantity::OperationsPerCycle,
            Quantity::Bandwidth,
            Quantity::BandwidthWithAllocate,
            Quantity::OperationsPerSecond,
            Quantity::CyclesPerOperation,
        ] {
            let shift = shift(of, (base, new)).unwrap();
            let value = |seconds, clock| of.of(seconds, &work, Some(clock)).unwrap();
            for seconds_then in [seconds, seconds * base / new] {
                let as_it_is = (value(seconds_then, new) / value(seconds, base)).ln();
                let least = as_it_is.abs().min((as_it_is + shift).abs());
                assert!(least < 1e-12, "{of:?}: {as_it_is} {shift}");
            }
        }
        assert_eq!(shift(Quantity::Extra, (base, new)), None);
        assert_eq!(shift(Quantity::Time, (3.0e9, 3.02e9)), None);
    }

    #[test]
    fn clocks_a_tenth_apart_are_those_of_different_machines() {
        assert!(!beyond((3.0e9, 3.29e9)) && !beyond((3.29e9, 3.0e9)));
        assert!(beyond((3.0e9, 3.31e9)) && beyond((3.31e9, 3.0e9)));
    }
}
