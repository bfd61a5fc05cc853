//! What GPU kernels of an operation leave, and the formulas that their results are checked against.

pub use plimsoll_suite::kernels::Op;

use super::Output;

impl From<Op> for Output {
    fn from(op: Op) -> Self {
        match op {
            Op::Read => Self::WarpBits,
            Op::Dot => Self::WarpSums,
            _ => Self::Map,
        }
    }
}

/// The expected value of element i, as `check.cu` computes it from the inputs a, b and c; `None` for operations that output one
/// value per warp. Products and sums are rounded once. Beyond either end, a stencil uses the element at that end.
#[must_use]
pub fn formula(op: Op) -> Option<&'static str> {
    match op {
        Op::Init => Some("s"),
        Op::Copy => Some("a[i]"),
        Op::Scale => Some("s * a[i]"),
        Op::Add => Some("a[i] + b[i]"),
        Op::Triad => Some("fma(s, b[i], a[i])"),
        Op::Schoenauer => Some("fma(b[i], c[i], a[i])"),
        Op::Point3 => Some("s * ((AT(-1) + AT(0)) + AT(1))"),
        Op::Point5 => Some("s * ((((AT(-2) + AT(-1)) + AT(0)) + AT(1)) + AT(2))"),
        Op::Read | Op::Dot => None,
    }
}
