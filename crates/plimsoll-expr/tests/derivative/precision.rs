//! Derivatives are computed in f32 for narrower types, rounded once, and accurate where a simpler formula wouldn't be.

use half::bf16;
use plimsoll_expr::oracle::Precision;

use super::{expression, gradient, outputs};

#[test]
fn sixteen_bit_derivatives_are_rounded_once() {
    let graph = expression("in x: bf16, z: bf16\ny = x*x*z");
    let derivative = gradient(&graph);
    let mut differs = 0;
    for k in 0..500_u16 {
        let [x, z, g] = [0x3f80 + k % 97, 0x3f80 + k % 101, 0x3f80 + k % 89].map(|bits| bf16::from_bits(bits).to_f32());
        let expected = [bf16::from_f32(g * z * x + g * z * x), bf16::from_f32(g * (x * x))].map(bf16::to_f64);
        let found = outputs(&derivative, &[x, z, g].map(f64::from), Precision::Carried);
        assert_eq!(found, expected, "{x} {z} {g}");
        let narrow = bf16::from_f32(bf16::from_f32(g * z).to_f32() * x);
        differs += usize::from(expected[0] != f64::from(2.0 * narrow.to_f32()));
    }
    assert!(differs > 50, "{differs} would differ if each operation rounded");
}

#[test]
fn a_rounding_cast_in_the_middle_passes_the_derivative_on_unrounded() {
    // 1.001 isn't a bf16, and 1 + 2⁻²⁰ isn't an f16.
    let graph = expression("in x: f32\ny = f32(bf16(x*1.001f32))*f32(f16(1.00000095367431640625f32*x))");
    let found = outputs(&gradient(&graph), &[1.0, 1.0], Precision::Carried);
    let expected = 1.001 + 1.0 + 2.0_f64.powi(-20);
    assert!((found[0] - expected).abs() < 2e-7, "{found:?}");
}

#[test]
fn casts_between_f32_and_f64_convert_the_derivative() {
    let graph = expression("in x: f32, z: f64\ny = f64(x)*z\nw: f32 = f32(z)*x");
    let third = 1.0 / 3.0;
    let x = f64::from(1.1_f32);
    let found = outputs(&gradient(&graph), &[x, third, third, 0.0], Precision::Carried);
    assert_eq!(found, [f64::from((third * third) as f32), third * x]);
}

#[test]
fn casts_of_narrow_values_convert_the_derivative_without_rounding_it_to_them() {
    let derivative = gradient(&expression("in x: bf16, z: bf16\ny = f64(x*z)*0.1"));
    let tenth = 0.1_f64 as f32;
    let mut differs = 0;
    for bits in 0x3f80..0x4000_u16 {
        let z = bf16::from_bits(bits);
        let found = outputs(&derivative, &[1.0, z.to_f64(), 1.0], Precision::Carried)[0];
        assert_eq!(found, bf16::from_f32(tenth * z.to_f32()).to_f64());
        differs += usize::from(found != (bf16::from_f32(tenth) * z).to_f64());
    }
    assert!(differs > 10, "{differs} would differ if the cast rounded");
}

#[test]
fn small_derivatives_of_steep_functions_dont_overflow_on_the_way() {
    for (text, x, cotangent, expected) in [("rsqrt(x)", 1e-30, 1e-20, -5e24), ("recip(x)", 1e-25, 1e-20, -1e30)] {
        let derivative = gradient(&expression(&format!("in x: f32\ny = {text}")));
        let found = outputs(&derivative, &[x, cotangent], Precision::Carried)[0];
        assert!((found / expected - 1.0).abs() < 1e-6, "{text}: {found}");
    }
}

#[test]
fn an_output_of_another_type_has_a_cotangent_of_that_type() {
    let derivative = gradient(&expression("in x: f32\ny: f16 = x*3.0\nd: f64 = x*5.0"));
    assert_eq!(derivative.to_string(), "in x: f32, grad_y: f16, grad_d: f64\nd_x = f32(grad_d)*5.0 + f32(grad_y)*3.0");
}

/// The true derivatives were computed with 140 digits (mpmath).
#[test]
fn small_derivatives_keep_their_digits_in_f32() {
    for (text, x, expected) in [
        ("expm1(x)", -40.0, 4.248_354_255_291_589e-18),
        ("gelu(x)", -6.0, -3.546_870_945_390_2e-8),
        ("gelu_tanh(x)", -6.0, -7.709_973_930_953_7e-10),
        ("silu(x)", -60.0, -5.166_341_349_990_947e-25),
        ("softplus(x)", -80.0, 1.804_851_387_845_415e-35),
        ("mish(x)", -50.0, -9.450_874_255_023_2e-21),
        ("erfc(x)", 6.0, -2.617_301_239_249_265e-16),
        ("sigmoid(x)", -70.0, 3.975_449_735_908_647e-31),
        ("atanh(x)", 0.999_827_384_948_730_5, 2_896.868_806_109_1),
        ("acosh(x)", 1.000_244_140_625, 45.252_072_112_930_4),
        ("log1p(x)", -0.999_999_940_395_355_2, 16_777_216.0),
        ("rsqrt(x)", 1e-20, -5e29),
    ] {
        let derivative = gradient(&expression(&format!("in x: f32\ny = {text}")));
        let found = outputs(&derivative, &[x, 1.0], Precision::Carried)[0];
        assert!((found / expected - 1.0).abs() < 2e-5, "{text}: {found}, not {expected}");
    }
}

#[test]
fn large_operands_of_finite_functions_have_finite_derivatives() {
    let names = "silu gelu gelu_tanh mish softplus sigmoid tanh erf erfc atan asinh relu abs log log1p sin cos sqrt rsqrt recip";
    for name in names.split(' ') {
        let derivative = gradient(&expression(&format!("in x: f32\ny = {name}(x)")));
        for x in [1e10, 3e38] {
            let is_positive = ["log", "log1p", "sqrt", "rsqrt"].contains(&name);
            for x in if is_positive { vec![x] } else { vec![x, -x] } {
                let found = outputs(&derivative, &[x, 1.0], Precision::Carried)[0];
                assert!(found.is_finite(), "{name}({x}): {found}");
            }
        }
    }
}
