//! Operations on streams of elements, and the formulas that their results are checked against.

use plimsoll_suite::kernels::{KERNELS, Mix};

use super::Output;

/// An operation on each element. `s` is a scalar parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// out = s: no read, 1 write.
    Init,
    /// One exclusive or of all words per warp: 1 read, no write.
    Read,
    /// out = a.
    Copy,
    /// out = s·a.
    Scale,
    /// out = a + b: 2 reads, 1 write.
    Add,
    /// out = a + s·b, rounded once: 2 reads, 1 write.
    Triad,
    /// out = a + b·c, rounded once: 3 reads, 1 write.
    Schoenauer,
    /// One sum of a·b per warp: 2 reads, no write.
    Dot,
    /// out = s·(left + a + right): 1 read, 1 write. Beyond either end, the element at that end is used.
    Point3,
    /// The same with two neighbours on each side.
    Point5,
}

impl Op {
    /// Every operation, in the order of [`KERNELS`].
    pub const ALL: [Self; KERNELS.len()] = [
        Self::Init,
        Self::Read,
        Self::Copy,
        Self::Scale,
        Self::Add,
        Self::Triad,
        Self::Schoenauer,
        Self::Dot,
        Self::Point3,
        Self::Point5,
    ];

    /// Its name in series.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.mix().name
    }

    /// Arrays read.
    #[must_use]
    pub fn inputs(self) -> u32 {
        self.mix().reads
    }

    fn mix(self) -> &'static Mix {
        &KERNELS[self as usize]
    }

    /// Its output.
    #[must_use]
    pub fn output(self) -> Output {
        match self {
            Self::Read => Output::WarpBits,
            Self::Dot => Output::WarpSums,
            _ => Output::Map,
        }
    }

    /// Neighbours read on each side.
    #[must_use]
    pub fn reach(self) -> u32 {
        match self {
            Self::Point3 => 1,
            Self::Point5 => 2,
            _ => 0,
        }
    }

    /// The expected value of element i, as `check.cu` computes it; `None` for operations that output one value per warp.
    #[must_use]
    pub fn formula(self) -> Option<&'static str> {
        match self {
            Self::Init => Some("s"),
            Self::Copy => Some("a[i]"),
            Self::Scale => Some("s * a[i]"),
            Self::Add => Some("a[i] + b[i]"),
            Self::Triad => Some("fma(s, b[i], a[i])"),
            Self::Schoenauer => Some("fma(b[i], c[i], a[i])"),
            Self::Point3 => Some("s * ((AT(-1) + AT(0)) + AT(1))"),
            Self::Point5 => Some("s * ((((AT(-2) + AT(-1)) + AT(0)) + AT(1)) + AT(2))"),
            Self::Read | Self::Dot => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_their_own_names_and_inputs() {
        for (op, name, inputs) in [
            (Op::Init, "init", 0),
            (Op::Read, "read", 1),
            (Op::Copy, "copy", 1),
            (Op::Scale, "scale", 1),
            (Op::Add, "add", 2),
            (Op::Triad, "triad", 2),
            (Op::Schoenauer, "schoenauer", 3),
            (Op::Dot, "dot", 2),
            (Op::Point3, "3pt", 1),
            (Op::Point5, "5pt", 1),
        ] {
            assert_eq!((op.name(), op.inputs()), (name, inputs));
        }
    }
}
