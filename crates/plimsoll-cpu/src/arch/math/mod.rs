//! Elementary functions without branches, so that a loop over them becomes vector code in any instruction set: [`single`] has
//! those of f32, [`double`] their building blocks in f64, [`full`] the functions of f64. Plain arithmetic; no intrinsics, no
//! tables. Loops over elements and the choice of instruction sets are in [`super::vectored`].
//!
//! Polynomials interpolate the relative error at Chebyshev nodes (made with mpmath, 40 digits); each states its error.

pub mod double;
pub mod full;
mod parts;
pub mod single;

/// A polynomial by Horner's rule with fused multiply-adds.
macro_rules! horner {
    ($x:ident, $coefficients:ident) => {{
        let mut sum = $coefficients[$coefficients.len() - 1];
        for i in (0..$coefficients.len() - 1).rev() {
            sum = sum.mul_add($x, $coefficients[i]);
        }
        sum
    }};
}

/// c₀ + c₁x + c₂x² + …
#[inline(always)]
fn polynomial<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    horner!(x, coefficients)
}

/// [`polynomial`] in f32.
#[inline(always)]
fn polynomial_f32<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    horner!(x, coefficients)
}
