//! The expected value of one link of each chain of `kernel.cu`, computed by the host from the same start: in f64 for real
//! instructions, in integers for the others. The device checks that long chains consist of such links.

/// The start of the first chain in a lane.
fn begins(lane: u32) -> f64 {
    1.0 + f64::from(lane) / 512.0
}

/// The two constants of the real instructions: 1 + 2⁻²² and 2⁻²⁰; a division's dividend.
const NEAR_1: f64 = 1.0 + 1.0 / (1 << 22) as f64;
const SMALL: f64 = 1.0 / (1 << 20) as f64;
const DIVIDEND: f64 = 1.5;
/// Relative error that the hardware's approximations stay below ('CUDA C++ Programming Guide', 'Intrinsic Functions').
const APPROXIMATE: f64 = 1e-5;
/// The same for the hardware's sine and hyperbolic tangent, absolute.
const COARSE: f64 = 1e-3;
/// The same for one rounding in single or in double precision.
const SINGLE: f64 = 1.2e-7;
const DOUBLE: f64 = 1e-15;
const ONE: u32 = 0x3c00_3c00;

/// The value after one link, and how far off it may be, relatively; `None` for a name that isn't known.
pub(crate) fn link(name: &str, lane: u32) -> Option<(f64, f64)> {
    let (what, of) = name.rsplit_once('_')?;
    let within = match (what, of) {
        ("sin" | "tanh", "f32") => COARSE,
        ("rcp" | "rsqrt" | "ex2" | "lg2", "f32") => APPROXIMATE,
        (_, "f32") => SINGLE,
        // The root's reciprocal is an approximation in double precision, too.
        ("rsqrt", "f64") => 1e-9,
        _ => DOUBLE,
    };
    match of {
        "f32" | "f64" if what != "cvt_i32" && what != "cvt_f32" => {
            let within = if what == "lg2" { within.max(SINGLE) } else { within };
            Some((real(what, begins(lane), of == "f32")?, within))
        }
        _ => Some((word(name, ONE + lane * 0x0001_0001, lane)?, 0.0)),
    }
}

fn real(what: &str, x: f64, single: bool) -> Option<f64> {
    Some(match what {
        "fma" => x.mul_add(NEAR_1, NEAR_1),
        "add" => x + SMALL,
        "mul" => x * NEAR_1,
        "div" => DIVIDEND / x,
        "sqrt" => x.sqrt(),
        "rcp" if single => -1.0 / x,
        "rcp" => 1.0 / x,
        "rsqrt" => x.sqrt().recip(),
        "ex2" => (-x).exp2(),
        "lg2" => x.abs().log2(),
        "sin" => x.sin(),
        "tanh" => x.tanh(),
        _ => return None,
    })
}

/// Constants of the integer instructions.
const A: u32 = 0x9e37_79b1;
const B: u32 = 0x7feb_352d;

fn word(name: &str, x: u32, lane: u32) -> Option<f64> {
    let value = match name {
        "imad_i32" => x.wrapping_mul(A).wrapping_add(B),
        "iadd3_i32" => x.wrapping_add(A).wrapping_add(B),
        // The upper half of both words together, shifted left by the last five bits of B.
        "shf_i32" => (((u64::from(A) << 32 | u64::from(x)) << (B & 31)) >> 32) as u32,
        "lop3_i32" => x & A ^ B,
        "popc_i32" => x.count_ones(),
        "shfl_b32" => ONE + (lane ^ 1) * 0x0001_0001,
        "cvt_i32_f32" => x as i32 as f32 as i32 as u32,
        "cvt_f32_f64" => return Some(f64::from(begins(lane) as f32)),
        "cvt_f32_f16" => return Some(F16.value(F16.nearest(begins(lane)))),
        _ => pair(name, x)?,
    };
    Some(value.into())
}

/// Numbers of 16 bits, one or two at once: x · ½ + ½, x + 1, −x.
fn pair(name: &str, x: u32) -> Option<u32> {
    let (what, of) = name.split_once('_')?;
    let next = |x: f64| match what {
        "fma" => Some(x.mul_add(0.5, 0.5)),
        "add" => Some(x + 1.0),
        "mul" => Some(-x),
        _ => None,
    };
    let format = match of {
        "f16" | "f16x2" => F16,
        "bf16" | "bf16x2" => BF16,
        _ => return None,
    };
    let half = |bits: u32| Some(format.nearest(next(format.value(bits))?));
    // One number leaves its result in both places.
    let upper = if of.ends_with("x2") { x >> 16 } else { x & 0xffff };
    Some(half(upper)? << 16 | half(x & 0xffff)?)
}

/// A format of 16 bits: bits of the fraction, and the exponent's bias.
#[derive(Clone, Copy)]
struct Format {
    fraction: i32,
    bias: i32,
}

const F16: Format = Format { fraction: 10, bias: 15 };
const BF16: Format = Format { fraction: 7, bias: 127 };

impl Format {
    /// What normal bits stand for.
    fn value(self, bits: u32) -> f64 {
        let magnitude = (bits & 0x7fff) as i32;
        let (exponent, fraction) = (magnitude >> self.fraction, magnitude & ((1 << self.fraction) - 1));
        let value = f64::from(fraction + (1 << self.fraction)) * f64::from(exponent - self.bias - self.fraction).exp2();
        if bits & 0x8000 == 0 { value } else { -value }
    }

    /// The bits nearest to a value in the range of the normal numbers, ties to even.
    fn nearest(self, value: f64) -> u32 {
        let exponent = value.abs().log2().floor() as i32;
        let units = (value.abs() * f64::from(self.fraction - exponent).exp2()).round_ties_even() as i32;
        // A carry out of the fraction is the next exponent.
        let magnitude = ((exponent + self.bias - 1) << self.fraction) + units;
        (if value < 0.0 { 0x8000 } else { 0 }) | magnitude as u32
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernels::INSTRUCTIONS;
    use super::*;

    #[test]
    fn the_oracle_covers_every_instruction() {
        for one in &INSTRUCTIONS {
            let (value, within) = link(one.link, 7).unwrap_or_else(|| panic!("{}", one.link));
            assert!(value.is_finite() && within < 0.01, "{}", one.link);
        }
        assert_eq!(link("quux_f32", 0), None);
    }

    #[test]
    fn halves_are_rounded_to_the_nearest_and_ties_to_even() {
        let f16 = [(1.0, 0x3c00), (-1.5, 0xbe00), (1.0 + 1.0 / 2048.0, 0x3c00), (1.0 + 3.0 / 2048.0, 0x3c02)];
        for (value, bits) in f16.into_iter().chain([(1.9999, 0x4000), (0.5, 0x3800)]) {
            assert_eq!(F16.nearest(value), bits, "{value}");
        }
        assert_eq!((BF16.nearest(1.0), BF16.nearest(-3.0), BF16.value(0x4040)), (0x3f80, 0xc040, 3.0));
        assert!((0x0400..0x7c00).all(|bits| F16.nearest(F16.value(bits)) == bits));
    }
}
