//! Floored division of floats by long division of integers: only the final result is rounded.

/// The significand and the exponent of a finite number: |x| = m·2ᵉ.
fn parts(x: f64) -> (u64, i32) {
    let (bits, hidden) = (x.abs().to_bits(), 1 << 52);
    let (field, fraction) = ((bits >> 52) as i32, bits & (hidden - 1));
    if field == 0 { (fraction, -1074) } else { (fraction | hidden, field - 1075) }
}

/// ⌊a/b⌋ of the exact quotient, rounded to `digits` binary digits, ties to even. Division by 0 gives a/b; an infinite `a` gives
/// NaN, as there is no remainder; a zero has the sign of the quotient.
pub(super) fn floor_div(a: f64, b: f64, digits: usize) -> f64 {
    let negative = a.is_sign_negative() != b.is_sign_negative();
    let signed = |magnitude: f64| if negative { -magnitude } else { magnitude };
    if a.is_nan() || b.is_nan() || a.is_infinite() || (a == 0.0 && b == 0.0) {
        return f64::NAN;
    }
    if a == 0.0 || b == 0.0 {
        return signed(if a == 0.0 { 0.0 } else { f64::INFINITY });
    }
    let (mut whole, exact) = if b.is_infinite() { (Vec::new(), false) } else { divide(parts(a), parts(b)) };
    if negative && !exact {
        add_one(&mut whole);
    }
    signed(nearest(&whole, digits))
}

/// The binary digits of the integer part of a quotient, highest first and without leading zeros, and whether the remainder is 0.
fn divide((m, e): (u64, i32), (n, f): (u64, i32)) -> (Vec<bool>, bool) {
    let (mut whole, mut left) = (Vec::new(), 0_u64);
    // If e − f < 0, the low digits of m·2^(e − f) are a fraction.
    let fraction = f.saturating_sub(e).max(0);
    let more = e.saturating_sub(f).max(0);
    let mut lost = false;
    for place in (-more..64).rev() {
        let digit = u64::from(place >= 0 && m >> place & 1 == 1);
        if place < fraction && fraction > 0 {
            lost |= digit == 1;
            continue;
        }
        left = left << 1 | digit;
        let fits = left >= n;
        left -= if fits { n } else { 0 };
        if fits || !whole.is_empty() {
            whole.push(fits);
        }
    }
    (whole, left == 0 && !lost)
}

/// Increments the number.
fn add_one(whole: &mut Vec<bool>) {
    for digit in whole.iter_mut().rev() {
        *digit = !*digit;
        if *digit {
            return;
        }
    }
    whole.insert(0, true);
}

/// The nearest number of `digits` binary digits, ties to even; infinite if it is out of range for f64.
fn nearest(whole: &[bool], digits: usize) -> f64 {
    let (kept, rest) = whole.split_at(whole.len().min(digits));
    let kept = kept.iter().fold(0_u64, |number, digit| number << 1 | u64::from(*digit));
    let up = match rest {
        [true, lower @ ..] => kept & 1 == 1 || lower.contains(&true),
        _ => false,
    };
    libm::ldexp((kept + u64::from(up)) as f64, rest.len() as i32)
}

/// a − b·⌊a/b⌋ of the exact quotient, rounded once; a zero has the sign of `b`. `fmod` is exact.
pub(super) fn floor_rem(a: f64, b: f64) -> f64 {
    let rem = libm::fmod(a, b);
    match rem == 0.0 {
        true => rem.copysign(b),
        false if (rem < 0.0) != (b < 0.0) => rem + b,
        false => rem,
    }
}
