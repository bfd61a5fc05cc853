//! Circular functions and their inverses.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, PI};

use super::super::parts::{Octant, angle_edges, quadrant};
use super::super::polynomial;
use super::pair::Pair;
use super::series::atan_tail;

/// What the rounding of π/2 to f64 lost, in two parts.
const FRAC_PI_2_LOW: [f64; 2] = [6.123_233_995_736_766e-17, -1.497_384_904_859_169_8e-33];

/// sin x, or cos x with `quarter` = 1, for |x| ≤ [`CIRCULAR_RANGE`](super::CIRCULAR_RANGE), within 1 unit.
#[inline(always)]
fn circular(x: f64, quarter: u64) -> f64 {
    let n = (x * FRAC_2_PI).round_ties_even();
    // The first difference is exact; the second is computed with what it loses, as its operands may cancel.
    let first = (-n).mul_add(FRAC_PI_2, x);
    let Pair(step, step_low) = Pair::product(-n, FRAC_PI_2_LOW[0]);
    let second = first + step;
    let taken = second - first;
    let lost = (first - (second - taken)) + (step - taken);
    let low = (-n).mul_add(FRAC_PI_2_LOW[1], lost + step_low);
    let (r, low) = if n == 0.0 { (x, 0.0) } else { (second, low) };
    let quadrant = quadrant(n, quarter);
    let w = r * r;
    // (sin r − r)/r³ and (cos r − 1 + r²/2)/r⁴, within 2⁻⁵⁶ and 2⁻⁵⁸ up to π/4. Local arrays: with functions or constants, the
    // compiler evaluates both polynomials.
    let sine = [
        -0.166_666_666_666_666_66,
        0.008_333_333_333_333_331,
        -0.000_198_412_698_412_650_63,
        2.755_731_921_933_767_2e-6,
        -2.505_210_623_192_785_7e-8,
        1.605_853_155_361_183_3e-10,
        -7.586_692_262_094_344e-13,
    ];
    let cosine = [
        0.041_666_666_666_666_664,
        -0.001_388_888_888_888_888_7,
        2.480_158_730_158_464_5e-5,
        -2.755_731_922_140_199_3e-7,
        2.087_675_579_079_147e-9,
        -1.147_046_084_181_152_6e-11,
        4.745_869_202_410_873_4e-14,
    ];
    let half = 0.5 * w;
    let sine = r + (w * r).mul_add(polynomial(w, sine), (-half).mul_add(low, low));
    let sine = if n == 0.0 { sine.copysign(x) } else { sine };
    let near = 1.0 - half;
    let cosine = near + (((1.0 - near) - half) + (w * w).mul_add(polynomial(w, cosine), -r * low));
    let value = if quadrant & 1 == 1 { cosine } else { sine };
    if quadrant & 2 == 2 { -value } else { value }
}

/// sin x up to [`CIRCULAR_RANGE`](super::CIRCULAR_RANGE), within 1 unit.
#[inline(always)]
pub fn sin(x: f64) -> f64 {
    circular(x, 0)
}

/// cos x up to [`CIRCULAR_RANGE`](super::CIRCULAR_RANGE), within 1 unit.
#[inline(always)]
pub fn cos(x: f64) -> f64 {
    circular(x, 1)
}

/// arctan x, within 3 units.
#[inline(always)]
pub fn atan(x: f64) -> f64 {
    atan2(x, 1.0)
}

/// The angle of the point (x, y), in radians, within 3 units.
#[inline(always)]
pub fn atan2(y: f64, x: f64) -> f64 {
    let Octant { steep, least, most, far } = Octant::new(y, x);
    // The sum of two huge numbers would overflow.
    let factor = if most > 1e300 { 0.0625 } else { 1.0 };
    let (scaled_least, scaled_most) = (least * factor, most * factor);
    let numerator = if far { scaled_least - scaled_most } else { scaled_least };
    let denominator = if far { scaled_least + scaled_most } else { scaled_most };
    // 0/0 and ∞/∞: the angle is 0 or π/4.
    let degenerate = least == most;
    let t = if degenerate { 0.0 } else { numerator / denominator };
    let part = if degenerate { most > 0.0 } else { far };
    let base = if part { FRAC_PI_4 } else { 0.0 };
    // What the rounding of multiples of π/4 lost is added to the small part.
    let base_low = if part { 0.5 * FRAC_PI_2_LOW[0] } else { 0.0 };
    let low = (t * t * t).mul_add(atan_tail(t * t), base_low);
    // angle = base + t + low, or π/2 − that, or π − that.
    let (base, t, low) = if steep { (FRAC_PI_2 - base, -t, FRAC_PI_2_LOW[0] - low) } else { (base, t, low) };
    let back = x.is_sign_negative();
    let (base, t, low) = if back { (PI - base, -t, 2.0 * FRAC_PI_2_LOW[0] - low) } else { (base, t, low) };
    angle_edges(y, x, base + (t + low))
}
