//! Formatting numbers with few digits: rounding to significant digits and choosing a power of 1000 or 1024. The parent
//! module adds units and labels.

/// Magnitudes from here on are written with an exponent.
const LARGEST_PLAIN: f64 = 1e6;
/// Whole numbers from here on are not written in full, because they would be unreadable.
const LARGEST_WHOLE: f64 = 1e12;
/// Magnitudes below are written with an exponent.
const SMALLEST_PLAIN: f64 = 1e-3;

/// The decimal exponent of `x`, ⌊log₁₀|x|⌋. It is taken from the formatted digits, because `log10` rounds up just below
/// powers of ten.
fn exponent(x: f64) -> i32 {
    let text = format!("{x:e}");
    text.rsplit_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// Rounds `x` to `digits` significant digits; zero and non-finite values stay unchanged.
pub(super) fn round_significant(x: f64, digits: i32) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let places = (digits - 1).max(0) as usize;
    format!("{x:.places$e}").parse().unwrap_or(x)
}

/// The largest step `s` in `first..=last` with `base`^s ≤ `max`, or `first` if there is none; for zero and NaN, 0 clamped to
/// the range.
pub(super) fn step(max: f64, base: f64, first: i32, last: i32) -> i32 {
    if max == 0.0 || max.is_nan() {
        return 0.clamp(first, last);
    }
    let mut step = last;
    while step > first && base.powi(step) > max {
        step -= 1;
    }
    step
}

/// Formats `x` with `digits` significant digits. With `keep_whole`, whole numbers are written in full (8, 16777216).
pub(super) fn significant(x: f64, digits: i32, keep_whole: bool) -> String {
    if x == 0.0 {
        return "0".to_owned();
    }
    if !x.is_finite() {
        return x.to_string();
    }
    if keep_whole && x.fract() == 0.0 && x.abs() < LARGEST_WHOLE {
        return format!("{x:.0}");
    }
    let rounded = round_significant(x, digits);
    if rounded.abs() >= LARGEST_PLAIN || rounded.abs() < SMALLEST_PLAIN {
        return format!("{:.*e}", (digits - 1).max(0) as usize, x);
    }
    fixed(x, (digits - 1 - exponent(rounded)).max(0))
}

/// The number of decimals that shows an interval's half-width to one digit: at least what `digits` significant digits of the
/// value need, at most three more.
pub(super) fn decimals_for_interval(value: f64, half_width: f64, digits: i32) -> i32 {
    let fewest = if value == 0.0 { 0 } else { (digits - 1 - exponent(round_significant(value, digits))).max(0) };
    let wanted = if half_width > 0.0 { -exponent(half_width) } else { fewest };
    wanted.clamp(fewest, fewest + 3)
}

/// Formats `x` with a fixed number of decimals; zero has no sign.
pub(super) fn fixed(x: f64, decimals: i32) -> String {
    let text = format!("{x:.*}", decimals.max(0) as usize);
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|b| b == b'0' || b == b'.') => rest.to_owned(),
        _ => text,
    }
}
