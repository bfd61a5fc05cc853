//! What [`double`](super::double) and [`full`](super::full) share: the bits of numbers, and the values at the edges.

/// The largest argument of sin and cos that is reduced here; beyond, the reduction isn't accurate enough.
pub const CIRCULAR_RANGE: f64 = 1_073_741_824.0;
/// 1.5·2⁵²: added to a small integer, it leaves that integer in the low bits.
const INTEGER: f64 = 6_755_399_441_055_744.0;
/// The bits of √½: significands are taken from [√½, √2).
const ROOT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
const ONE: u64 = 0x3ff0_0000_0000_0000;
const FRACTION: u64 = (1 << 52) - 1;
/// The bias of exponents.
pub const BIAS: f64 = 1023.0;

/// Clamps x to two bounds; keeps NaN.
#[inline(always)]
pub fn within(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// 2ᵏ for an integer k from −1022 to 1023.
#[inline(always)]
pub fn power_of_two(k: f64) -> f64 {
    f64::from_bits((k + (INTEGER + BIAS)).to_bits() << 52)
}

/// The significand m in [√½, √2) of a positive normal number, and its exponent plus [`BIAS`] minus `bias`.
#[inline(always)]
pub fn split(x: f64, bias: f64) -> (f64, f64) {
    let shifted = x.to_bits().wrapping_add(ONE - ROOT_HALF);
    // The exponent as an integer: build 2⁵² + exponent, then subtract 2⁵² and the bias.
    let exponent = f64::from_bits(shifted >> 52 | 0x4330_0000_0000_0000) - (4_503_599_627_370_496.0 + bias);
    (exponent, f64::from_bits((shifted & FRACTION) + ROOT_HALF))
}

/// `value` for a positive finite u, else the logarithm's value at 0, infinity, negative numbers and NaN.
#[inline(always)]
pub fn log_edges(u: f64, value: f64) -> f64 {
    let value = if u == f64::INFINITY { u } else { value };
    let at_most_zero = if u == 0.0 { f64::NEG_INFINITY } else { f64::NAN };
    if u > 0.0 { value } else { at_most_zero }
}

/// The integer n + `quarter`, of which the low two bits count: they are the quadrant of an angle near n quarter turns, shifted by
/// `quarter`.
#[inline(always)]
pub fn quadrant(n: f64, quarter: u64) -> u64 {
    (n + INTEGER).to_bits().wrapping_add(quarter)
}

/// The magnitudes of a point's coordinates, in order.
pub struct Octant {
    /// Whether the angle is counted from the y axis.
    pub steep: bool,
    /// The smaller magnitude.
    pub least: f64,
    /// The larger magnitude.
    pub most: f64,
    /// Whether the angle is nearer to π/4 than to 0. Its tangent, or that of the angle minus π/4, is at most tan π/8.
    pub far: bool,
}

impl Octant {
    /// The octant of the point (x, y).
    #[inline(always)]
    pub fn new(y: f64, x: f64) -> Self {
        let (ay, ax) = (y.abs(), x.abs());
        let steep = ay > ax;
        let least = if steep { ax } else { ay };
        let most = if steep { ay } else { ax };
        Self { steep, least, most, far: least > 0.414_213_562_373_095_05 * most }
    }
}

/// `angle` with the sign of y; NaN where a coordinate is.
#[inline(always)]
pub fn angle_edges(y: f64, x: f64, angle: f64) -> f64 {
    let angle = if x.is_nan() || y.is_nan() { f64::NAN } else { angle };
    angle.copysign(y)
}
