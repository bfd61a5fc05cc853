//! Scales: the position of a value between the ends of an axis, and the axis' ticks. Linear scales begin at zero, because
//! readers compare lengths; logarithmic scales fall back to linear where a value isn't positive.

use plimsoll_core::unit::Unit;

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// The name of the quantity.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// A second unit with the same steps, for rates of integer operations on a scale of floating-point ones.
    pub integer_unit: Option<Unit>,
    /// True for a logarithmic scale.
    pub log: bool,
    lo: f64,
    hi: f64,
    /// Added before the logarithm is taken, so that counts can start at zero.
    shift: f64,
    /// True where ticks are powers of two.
    binary: bool,
}

/// Marks are close together where the smallest is more than this share of the largest.
const CLOSE: f64 = 0.7;

/// Values that differ by less than this share of the largest get one shade.
const ALIKE: f64 = 0.02;

/// Shades are logarithmic where the largest value is more than this many times the smallest.
const WIDE_RANGE: f64 = 8.0;

/// A labelled position on an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// The value in the scale's unit.
    pub value: f64,
    /// The label; safe to show.
    pub label: String,
}

impl Scale {
    /// A scale that covers all finite `values`; without any it runs from 0 to 1.
    #[must_use]
    pub fn new(name: &str, unit: &Unit, log: bool, values: impl IntoIterator<Item = f64>) -> Self {
        let mut all: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        all.sort_unstable_by(f64::total_cmp);
        let (lo, hi) = match (all.first(), all.last()) {
            (Some(&lo), Some(&hi)) => (lo, hi),
            _ => (0.0, 0.0),
        };
        let log = log && lo >= f64::MIN_POSITIVE;
        let binary = *unit == Unit::Byte || (log && lo < hi && all.iter().all(|&value| value.log2().fract() == 0.0));
        let mut scale =
            Self { name: name.to_owned(), unit: unit.clone(), integer_unit: None, log, lo, hi, shift: 0.0, binary };
        if log {
            scale.widen_log();
        } else {
            scale.widen_linear();
        }
        scale
    }

    /// A linear scale for marks, whose positions are compared rather than lengths: where all are close together it begins just
    /// below the smallest, and its title says so.
    #[must_use]
    pub fn for_marks(name: &str, unit: &Unit, values: impl IntoIterator<Item = f64>) -> Self {
        let finite: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let (lo, hi) =
            (finite.iter().copied().fold(f64::INFINITY, f64::min), finite.iter().copied().fold(0.0, f64::max));
        let mut scale = Self::new(name, unit, false, finite);
        if lo > CLOSE * hi && lo < hi {
            // The distance of the ticks suits the difference alone.
            let step = Self { lo, hi, ..scale.clone() }.linear_step(5);
            let (below, above) = ((lo / step - 0.2).floor() * step, (hi / step).ceil() * step);
            if below > 0.0 && below < above && above.is_finite() {
                (scale.lo, scale.hi) = (below, above);
                scale.name = format!("{name}, not from 0");
            }
        }
        scale
    }

    /// A logarithmic scale of numbers counted from 0: the position of n is the logarithm of n + 1.
    #[must_use]
    pub fn counts(name: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let hi = values.into_iter().filter(|value| value.is_finite()).fold(1.0, f64::max);
        Self {
            name: name.to_owned(),
            unit: Unit::One,
            integer_unit: None,
            log: true,
            lo: 0.0,
            hi: 1.2 * hi,
            shift: 1.0,
            binary: false,
        }
    }

    /// A scale of shades from the smallest to the largest of `values`, because shades show differences, not lengths. It is
    /// logarithmic where the largest is many times the smallest; otherwise all small values would look alike.
    #[must_use]
    pub fn shades(name: &str, unit: &Unit, values: impl IntoIterator<Item = f64>) -> Self {
        let finite = values.into_iter().filter(|value| value.is_finite());
        let ends = finite.fold(None, |ends: Option<(f64, f64)>, value| {
            Some(ends.map_or((value, value), |(lo, hi)| (lo.min(value), hi.max(value))))
        });
        match ends {
            Some((lo, hi)) if lo < hi && hi - lo > ALIKE * hi.abs() => {
                let log = lo >= f64::MIN_POSITIVE && hi > WIDE_RANGE * lo;
                let name = if log { format!("{name}, logarithmic") } else { name.to_owned() };
                Self { name, unit: unit.clone(), integer_unit: None, log, lo, hi, shift: 0.0, binary: false }
            }
            // The values hardly differ: the scale starts at zero, so that shades don't exaggerate.
            _ => Self::new(name, unit, false, ends.map(|(_, hi)| hi)),
        }
    }

    /// Adds 3 % at each end, and more if the scale spans less than a factor of two.
    fn widen_log(&mut self) {
        let missing = (2.0 * self.lo / self.hi).max(1.0).sqrt();
        let room = missing * (self.hi.ln() - self.lo.ln()).mul_add(0.03, 0.0).exp();
        self.lo = (self.lo / room).max(f64::MIN_POSITIVE);
        self.hi = (self.hi * room).min(f64::MAX);
    }

    /// Extends the scale to zero and to the next tick.
    fn widen_linear(&mut self) {
        self.lo = self.lo.min(0.0);
        self.hi = self.hi.max(0.0);
        if self.lo == self.hi {
            self.hi = 1.0;
        }
        let step = self.linear_step(5);
        let (lo, hi) = ((self.lo / step).floor() * step, (self.hi / step).ceil() * step);
        if lo.is_finite() && hi.is_finite() && lo < hi {
            (self.lo, self.hi) = (lo, hi);
        }
    }

    /// The lower end.
    #[must_use]
    pub fn lo(&self) -> f64 {
        self.lo
    }

    /// The upper end.
    #[must_use]
    pub fn hi(&self) -> f64 {
        self.hi
    }

    /// The position of `value`: 0 at the lower end and 1 at the upper; values beyond are clamped.
    #[must_use]
    pub fn position(&self, value: f64) -> f64 {
        let share = if self.log {
            let place = |value: f64| (value + self.shift).max(f64::MIN_POSITIVE).ln();
            (place(value) - place(self.lo)) / (place(self.hi) - place(self.lo))
        } else {
            // Halved, because the span of the largest numbers overflows.
            (value / 2.0 - self.lo / 2.0) / (self.hi / 2.0 - self.lo / 2.0)
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The axis' title: its name, and the unit where all ticks share one.
    #[must_use]
    pub fn title(&self) -> String {
        let name = crate::text::clean(&self.name);
        match self.shared_unit() {
            // 'threads' needs no unit 'threads'.
            Some((_, label)) if label.is_empty() || name.contains(label.as_str()) => name,
            Some((factor, label)) => {
                let integers = self.integer_unit.as_ref().map(|unit| unit.scale_for(factor).1);
                let integers = integers.map_or_else(String::new, |label| format!("; integers: {label}"));
                format!("{name} ({})", crate::text::clean(&(label + &integers)))
            }
            None => name,
        }
    }

    /// Factor and label of the unit where the same one suits both ends.
    fn shared_unit(&self) -> Option<(f64, String)> {
        let top = self.unit.scale_for(self.hi.abs().max(self.lo.abs()));
        (!self.log || self.unit.scale_for(self.lo) == top).then_some(top)
    }

    /// At most about `most` ticks, in ascending order.
    #[must_use]
    pub fn ticks(&self, most: usize) -> Vec<Tick> {
        let most = most.max(2);
        let values = if self.log { self.log_values(most) } else { self.linear_values(most) };
        let step = values.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
        values.into_iter().map(|value| Tick { value, label: self.label(value, step) }).collect()
    }

    /// A value as text, without the unit where all ticks share one (see [`Scale::title`]).
    #[must_use]
    pub fn number(&self, value: f64) -> String {
        match self.shared_unit() {
            Some((factor, _)) => Unit::One.format(value / factor),
            None => crate::text::clean(&self.unit.format(value)),
        }
    }

    fn label(&self, value: f64, step: f64) -> String {
        let factor = self.shared_unit().map(|(factor, _)| factor);
        let round = factor.map(|factor| (value / factor, step / factor));
        match round {
            Some((value, step)) if !self.log && (1e-6..1e9).contains(&step) && value.abs() < 1e9 => {
                let whole = |places: &i32| {
                    let scaled = step * 10f64.powi(*places);
                    (scaled - scaled.round()).abs() < 1e-6 * scaled
                };
                let decimals = (0..6).find(whole).unwrap_or(6);
                // Adding zero turns −0 into 0.
                format!("{:.*}", decimals as usize, value + 0.0)
            }
            _ => without_zeros(&self.number(value)),
        }
    }

    /// The round step that gives at most `most` ticks: 1, 2, 2.5 or 5 times a power of ten, or powers of two for bytes.
    fn linear_step(&self, most: usize) -> f64 {
        let rough = (self.hi / most as f64 - self.lo / most as f64).max(f64::MIN_POSITIVE);
        if self.unit == Unit::Byte {
            return rough.log2().ceil().exp2();
        }
        let (factor, _) = self.unit.scale_for(self.hi.abs().max(self.lo.abs()));
        let rough = rough / factor;
        let power = 10f64.powf(rough.log10().floor());
        // Counts have no fractional steps.
        let halves = factor != 1.0 || power > 1.0;
        let digits = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().filter(|&digit| halves || digit != 2.5);
        let round = digits.map(|digit| digit * power).find(|&step| step >= rough * 0.999);
        let counts = matches!(self.unit, Unit::Thread | Unit::Core | Unit::Element | Unit::Instruction | Unit::Launch);
        let least = if counts { 1.0 } else { f64::MIN_POSITIVE };
        round.unwrap_or(10.0 * power).max(least) * factor
    }

    fn linear_values(&self, most: usize) -> Vec<f64> {
        let step = self.linear_step(most);
        let first = (self.lo / step).ceil();
        let values = (0..=most + 1).map(|i| (first + i as f64) * step);
        values.filter(|&value| value.is_finite() && value <= self.hi * (1.0 + 1e-9)).collect()
    }

    fn log_values(&self, most: usize) -> Vec<f64> {
        if self.shift > 0.0 {
            let finest = [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]].map(|digits| self.within_decades(digits));
            let fits = finest.iter().find(|values| values.len() < most).unwrap_or(&finest[2]);
            return std::iter::once(0.0).chain(fits.iter().copied()).collect();
        }
        if self.binary {
            return self.powers(2.0, &[1, 2, 3, 5, 10, 20, 40, 80, 160], most);
        }
        let decades = self.powers(10.0, &[1, 2, 3, 5, 10, 20, 50, 100], most);
        if decades.len() >= 3 {
            return decades;
        }
        for digits in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]] {
            let values = self.within_decades(digits);
            if (3..=most.max(3) + 1).contains(&values.len()) {
                return values;
            }
        }
        if decades.len() >= 2 {
            return decades;
        }
        let linear = self.linear_values(most);
        let linear: Vec<f64> = linear.into_iter().filter(|value| (self.lo..=self.hi).contains(value)).collect();
        if linear.len() >= 2 {
            return linear;
        }
        vec![self.lo, (self.lo.ln() / 2.0 + self.hi.ln() / 2.0).exp(), self.hi]
    }

    /// Powers of `base`, with the finest of `strides` that gives at most `most` of them.
    fn powers(&self, base: f64, strides: &[i32], most: usize) -> Vec<f64> {
        let first = (self.lo.ln() / base.ln() - 1e-9).ceil() as i32;
        let last = (self.hi.ln() / base.ln() + 1e-9).floor() as i32;
        let exponents = |stride: i32| (first..=last).filter(move |power| power.rem_euclid(stride) == 0);
        let stride = strides.iter().copied().find(|&stride| exponents(stride).count() <= most);
        stride.map_or_else(Vec::new, |stride| exponents(stride).map(|power| base.powi(power)).collect())
    }

    /// Values with these leading digits in every decade of the scale.
    fn within_decades(&self, digits: &[f64]) -> Vec<f64> {
        let (first, last) = ((self.lo + self.shift).log10().floor() as i32, self.hi.log10().ceil() as i32);
        let values = (first..=last).flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)));
        values.filter(|value| (self.lo..=self.hi).contains(value)).collect()
    }
}

/// `5 TB/s` for `5.00 TB/s`: ticks are round numbers, and trailing zeros would suggest a precision.
fn without_zeros(text: &str) -> String {
    let (number, unit) = text.split_once(' ').map_or((text, None), |(number, unit)| (number, Some(unit)));
    let plain = number.contains('.') && !number.contains('e');
    let number = if plain { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    unit.map_or_else(|| number.to_owned(), |unit| format!("{number} {unit}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(scale: &Scale, most: usize) -> Vec<String> {
        scale.ticks(most).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn sizes_have_ticks_at_powers_of_two_and_rates_at_round_decimals() {
        let sizes = Scale::new("footprint", &Unit::Byte, true, [4096.0, (1u64 << 30) as f64]);
        assert_eq!(labels(&sizes, 5), ["32 KiB", "1 MiB", "32 MiB", "1 GiB"]);
        assert_eq!(sizes.title(), "footprint");
        let rate = Scale::new("bandwidth", &Unit::BytePerSecond, false, [187e9, 203e9]);
        assert_eq!(labels(&rate, 6), ["0", "50", "100", "150", "200", "250"]);
        assert_eq!(rate.title(), "bandwidth (GB/s)");
    }

    #[test]
    fn tick_labels_have_no_needless_digits() {
        let times = Scale::new("latency", &Unit::Second, false, [97e-9, 290e-9]);
        assert_eq!(labels(&times, 6), ["0", "50", "100", "150", "200", "250", "300"]);
        let rates = Scale::new("bandwidth", &Unit::BytePerSecond, true, [1.6e11, 6.8e12]);
        assert_eq!(labels(&rates, 4), ["200 GB/s", "500 GB/s", "1 TB/s", "2 TB/s", "5 TB/s"]);
        assert_eq!(Scale::new("threads", &Unit::Thread, false, [16.0]).title(), "threads");
    }

    #[test]
    fn powers_of_two_have_binary_ticks_and_short_log_scales_have_round_ticks() {
        let threads = Scale::new("threads", &Unit::Thread, true, [32.0, 64.0, 1024.0]);
        assert_eq!(labels(&threads, 8), ["32", "64", "128", "256", "512", "1024"]);
        let close = Scale::new("rate", &Unit::OpPerSecond, true, [1.4e9, 1.7e9]);
        assert_eq!(labels(&close, 6), ["1.2", "1.4", "1.6", "1.8", "2"]);
    }

    #[test]
    fn scale_for_close_marks_starts_above_zero_and_its_title_says_so() {
        let close = Scale::for_marks("bandwidth", &Unit::BytePerSecond, [3.8e12, 4.7e12]);
        assert!(close.lo() > 3e12 && close.lo() < 3.8e12, "{close:?}");
        assert_eq!(close.title(), "bandwidth, not from 0 (TB/s)");
        for values in [[1.0, 4.0], [4.0, 4.0], [-1.0, 0.0], [0.0, 0.0]] {
            assert!(Scale::for_marks("x", &Unit::Second, values).lo() <= 0.0, "{values:?}");
        }
    }

    #[test]
    fn shades_of_nearly_equal_values_look_alike() {
        assert_eq!(Scale::shades("rate", &Unit::BytePerSecond, [393.7e9, 393.9e9]).lo(), 0.0);
        assert_eq!(Scale::shades("rate", &Unit::BytePerSecond, [341.0, 850.0]).lo(), 341.0);
        let banks = Scale::shades("bytes per cycle", &Unit::BytePerCycle, [4.0, 16.0, 128.0]);
        assert_eq!((banks.title(), banks.log), ("bytes per cycle, logarithmic (B/cycle)".into(), true));
        assert!((banks.position(16.0) - 0.4).abs() < 1e-9);
    }

    #[test]
    fn linear_scales_begin_at_zero_and_log_scales_need_positive_values() {
        let linear = Scale::new("y", &Unit::Second, false, [3.0, 4.0]);
        assert_eq!((linear.lo(), linear.position(0.0)), (0.0, 0.0));
        assert!(!Scale::new("y", &Unit::Second, true, [0.0, 4.0]).log);
    }

    #[test]
    fn counts_begin_at_zero_and_have_ticks_by_decade() {
        let calls = Scale::counts("call", [0.0, 4095.0]);
        assert_eq!(labels(&calls, 14), ["0", "1", "2", "5", "10", "20", "50", "100", "200", "500", "1000", "2000"]);
        assert_eq!(labels(&calls, 6), ["0", "1", "10", "100", "1000"]);
        assert!((calls.position(0.0), calls.position(1e9)) == (0.0, 1.0) && calls.position(1.0) > 0.05);
        assert_eq!(labels(&Scale::counts("call", [0.0]), 6), ["0", "1"]);
        assert_eq!(calls.title(), "call");
    }

    proptest! {
        #[test]
        fn any_values_give_a_scale_with_ascending_finite_ticks(
            values in prop::collection::vec(any::<f64>(), 0..5), log: bool, bytes: bool, most in 0usize..12,
        ) {
            let unit = if bytes { Unit::Byte } else { Unit::Second };
            let scale = Scale::new("v", &unit, log, values.iter().copied());
            prop_assert!(scale.lo() < scale.hi());
            for value in values {
                prop_assert!((0.0..=1.0).contains(&scale.position(value)));
            }
            let ticks = scale.ticks(most);
            prop_assert!(ticks.len() <= most.max(3) + 2, "{} ticks", ticks.len());
            prop_assert!(ticks.windows(2).all(|pair| pair[0].value < pair[1].value));
            prop_assert!(ticks.iter().all(|tick| tick.value.is_finite() && !tick.label.contains("NaN")));
        }
    }
}
