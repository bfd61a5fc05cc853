//! The functions of f64 to the last place, without branches. Each states its error in units of the last place of the true
//! result; `docs/mathematics.md` has the errors that were found. The caller must pass arguments of [`sin`] and [`cos`] beyond
//! [`CIRCULAR_RANGE`] to `libm`.
//!
//! Where a rounding error would count, a value is a [`Pair`](pair::Pair): a number and what its rounding lost.

mod activation;
mod circular;
mod exponential;
mod logarithm;
mod pair;
mod series;

pub use super::parts::CIRCULAR_RANGE;
pub use activation::{erf, erfc, gelu, gelu_tanh, mish, sigmoid, silu, softplus};
pub use circular::{atan, atan2, cos, sin};
pub use exponential::{cosh, exp, exp2, expm1, sinh, tanh};
pub use logarithm::{acosh, asinh, atanh, log, log1p, log2, log10, pow};

/// ln 2: the first part has 42 bits, so that its product with an exponent is exact.
const LN_2_PARTS: [f64; 2] = [0.693_147_180_559_890_3, 5.497_923_018_708_371e-14];
