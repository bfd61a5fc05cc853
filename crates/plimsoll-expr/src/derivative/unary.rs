//! The derivatives of operations of one operand.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2, LN_10, PI};

use super::term::Term;
use crate::op::{Comparison, Unary};

/// Whether the derivative is 0 wherever it exists.
pub(super) const fn is_flat(op: Unary) -> bool {
    use Unary::{Ceil, Floor, Not, Round, Sign, Trunc};
    matches!(op, Not | Sign | Floor | Ceil | Round | Trunc)
}

/// `g`·f′(x) for y = f(x); `None` if f is flat. It asks for x and y only where it needs them.
pub(super) fn pull_back<'w>(
    op: Unary,
    x: impl Fn() -> Term<'w>,
    y: impl Fn() -> Term<'w>,
    g: Term<'w>,
) -> Option<Term<'w>> {
    Some(match op {
        Unary::Not | Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => return None,
        Unary::Neg => -g,
        Unary::Abs => g * x().unary(Unary::Sign),
        Unary::Relu => x().compare(Comparison::LessEqual, 0.0).choose(0.0, g),
        Unary::Sqrt => g / (2.0 * y()),
        // In this order, as y³ alone may leave the range of f32.
        Unary::Rsqrt => -0.5 * g * y() * y() * y(),
        Unary::Recip => -g * y() * y(),
        Unary::Exp => g * y(),
        Unary::Exp2 => g * y() * LN_2,
        // y + 1 would have lost its digits where e^x is small.
        Unary::Expm1 => g * x().unary(Unary::Exp),
        Unary::Log => g / x(),
        Unary::Log2 => g / x() * LN_2.recip(),
        Unary::Log10 => g / x() * LN_10.recip(),
        Unary::Log1p => g / (1.0 + x()),
        Unary::Sin => g * x().unary(Unary::Cos),
        Unary::Cos => -g * x().unary(Unary::Sin),
        Unary::Tanh => g * (1.0 - y().square()),
        Unary::Sinh => g * x().unary(Unary::Cosh),
        Unary::Cosh => g * x().unary(Unary::Sinh),
        Unary::Asinh => g * (x().square() + 1.0).unary(Unary::Rsqrt),
        // Factors of x² − 1 and 1 − x² keep their digits near ±1.
        Unary::Acosh => g * ((x() - 1.0) * (x() + 1.0)).unary(Unary::Rsqrt),
        Unary::Atanh => g / ((1.0 - x()) * (1.0 + x())),
        Unary::Atan => g / (1.0 + x().square()),
        Unary::Erf => g * (FRAC_2_SQRT_PI * (-x().square()).unary(Unary::Exp)),
        Unary::Erfc => -g * (FRAC_2_SQRT_PI * (-x().square()).unary(Unary::Exp)),
        Unary::Sigmoid => g * (y() * (1.0 - y())),
        Unary::Softplus => g * x().unary(Unary::Sigmoid),
        Unary::Silu => g * silu(x()),
        Unary::Gelu => g * gelu(x()),
        Unary::GeluTanh => g * gelu_tanh(x()),
        Unary::Mish => g * mish(x()),
    })
}

/// s·(1 + x·(1 − s)), s = sigmoid x.
fn silu(x: Term<'_>) -> Term<'_> {
    let s = x.unary(Unary::Sigmoid);
    s * (1.0 + x * (1.0 - s))
}

/// Φ(x) + x·φ(x). Φ computed with erfc stays accurate where it is small.
fn gelu(x: Term<'_>) -> Term<'_> {
    let below = 0.5 * (-FRAC_1_SQRT_2 * x).unary(Unary::Erfc);
    let density = FRAC_1_SQRT_2 * 0.5 * FRAC_2_SQRT_PI * (-0.5 * x.square()).unary(Unary::Exp);
    below + x * density
}

/// s + x·s·(1 − s)·u′, s = sigmoid u, u = 2·√(2/π)·(x + 0.044715 x³): (1 + tanh u/2)/2 is sigmoid u.
fn gelu_tanh(x: Term<'_>) -> Term<'_> {
    const CUBIC: f64 = 0.044715;
    let scale = 2.0 * (2.0 / PI).sqrt();
    let square = x.square();
    let s = (scale * x * (1.0 + CUBIC * square)).unary(Unary::Sigmoid);
    // s·(1 − s) is 0 in every type from far smaller x on, and 0·∞ would be NaN.
    let slope = scale * (1.0 + 3.0 * CUBIC * square.min(1e4));
    s + x * (s * (1.0 - s)) * slope
}

/// t + x·s·(1 − t²), t = tanh(softplus x), s = sigmoid x.
fn mish(x: Term<'_>) -> Term<'_> {
    let t = x.unary(Unary::Softplus).unary(Unary::Tanh);
    t + x * (x.unary(Unary::Sigmoid) * (1.0 - t.square()))
}
