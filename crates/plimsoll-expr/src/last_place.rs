//! Errors in units in the last place (ulp) of a type, for the tests of every backend.

use crate::DType;

/// Precomputed facts about a floating-point type: an exhaustive test computes billions of errors.
#[derive(Clone, Copy, Debug)]
pub struct LastPlace {
    dtype: DType,
    fraction: i32,
    /// The exponent of the smallest normal number.
    lowest: i32,
    /// The number that would follow the largest one.
    beyond: f64,
}

impl LastPlace {
    /// The facts for a floating-point type; any other type counts as f32.
    #[must_use]
    pub fn new(dtype: DType) -> Self {
        let (exponent, fraction) = dtype.format().map_or((8, 23), |format| (format.exponent, format.fraction as i32));
        let bias = (1 << (exponent - 1)) - 1;
        let beyond = if dtype == DType::F8E4M3 { 480.0 } else { f64::from(2_u32).powi(bias) * 2.0 };
        Self { dtype, fraction, lowest: 1 - bias, beyond }
    }

    /// The value of `bits` in this type.
    #[must_use]
    pub fn decode(&self, bits: u64) -> f64 {
        match self.dtype {
            DType::F32 => f32::from_bits(bits as u32).into(),
            DType::Bf16 => f32::from_bits((bits as u32) << 16).into(),
            dtype => dtype.decode(bits).as_f64(),
        }
    }

    /// The distance of `found` from `right` in units in the last place of `right`. `None` if only one of
    /// them is NaN, if their signs differ, or if `right` is infinite or zero and `found` isn't. An overflow (NaN in f8e4m3)
    /// counts as the number after the largest.
    #[must_use]
    pub fn error(&self, right: f64, found: f64) -> Option<f64> {
        if right.is_nan() || found.is_nan() {
            let overflow = self.dtype == DType::F8E4M3 && right.abs() > 464.0;
            return (right.is_nan() == found.is_nan() || overflow).then_some(0.0);
        }
        if right.is_sign_negative() != found.is_sign_negative() || (right == 0.0) && found != 0.0 {
            return None;
        }
        let (right, found) = (right.abs(), found.abs());
        if right.is_infinite() {
            return found.is_infinite().then_some(0.0);
        }
        let found = found.min(self.beyond);
        if found == self.beyond && right >= self.beyond {
            return Some(0.0);
        }
        let right = right.min(self.beyond);
        Some((found - right).abs() / self.unit(right))
    }

    /// The unit in the last place of a finite number; for 0 the spacing of subnormal numbers.
    #[must_use]
    pub fn unit(&self, x: f64) -> f64 {
        // The exponent field of an f64. Subnormal f64 are far below the range of the other types.
        let exponent = (x.abs().to_bits() >> 52) as i32 - 1023;
        let place = exponent.max(self.lowest) - self.fraction;
        f64::from_bits(((place + 1023).max(1) as u64) << 52)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_in_the_last_place_of_the_true_value() {
        let f32s = LastPlace::new(DType::F32);
        assert_eq!(f32s.error(1.0, 1.0 + f64::from(f32::EPSILON)), Some(1.0));
        assert_eq!(f32s.error(1e-45, 0.0), Some(1e-45 / f64::from(f32::from_bits(1))));
        let bf16 = LastPlace::new(DType::Bf16);
        assert_eq!(bf16.error(1.0 + 1.0 / 256.0, 1.0), Some(0.5));
        assert_eq!(bf16.error(1e39, f64::INFINITY), Some(0.0));
        assert_eq!(LastPlace::new(DType::F16).error(65520.0, f64::INFINITY), Some(0.5));
        assert_eq!(LastPlace::new(DType::F16).error(65519.0, 65504.0), Some(15.0 / 32.0));
    }

    #[test]
    fn nan_infinities_zeros_and_signs_must_match() {
        let place = LastPlace::new(DType::F16);
        for (right, found) in
            [(f64::NAN, 1.0), (1.0, f64::NAN), (0.0, -0.0), (0.0, 1e-8), (f64::INFINITY, 65504.0), (1.0, -1.0)]
        {
            assert_eq!(place.error(right, found), None, "{right} {found}");
        }
        assert_eq!(place.error(f64::NAN, f64::NAN), Some(0.0));
        assert_eq!(place.error(f64::NEG_INFINITY, f64::NEG_INFINITY), Some(0.0));
    }
}
