//! Elementary functions without branches, so that a loop over them becomes vector code in whatever instruction set it is
//! compiled for: [`single`] has those of f32, [`double`] what they are made of. Plain arithmetic; no intrinsics, no tables.
//! Loops over elements and the choice of instruction sets are [`super::vectored`]'s.
//!
//! Polynomials interpolate at Chebyshev nodes in relative terms (made with mpmath, 40 digits); each says how good it is.

pub mod double;
pub mod single;

/// c₀ + c₁x + c₂x² + …, by Horner's rule with fused multiply-adds.
#[inline(always)]
fn polynomial<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = coefficients[N - 1];
    for i in (0..N - 1).rev() {
        sum = sum.mul_add(x, coefficients[i]);
    }
    sum
}
