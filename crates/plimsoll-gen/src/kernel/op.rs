//! Operations on streams of elements, and the formulas that their results are checked against.

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
    /// Every operation.
    pub const ALL: [Self; 10] = [
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
        match self {
            Self::Init => "init",
            Self::Read => "read",
            Self::Copy => "copy",
            Self::Scale => "scale",
            Self::Add => "add",
            Self::Triad => "triad",
            Self::Schoenauer => "schoenauer",
            Self::Dot => "dot",
            Self::Point3 => "3pt",
            Self::Point5 => "5pt",
        }
    }

    /// Arrays read.
    #[must_use]
    pub fn inputs(self) -> u32 {
        match self {
            Self::Init => 0,
            Self::Schoenauer => 3,
            Self::Add | Self::Triad | Self::Dot => 2,
            _ => 1,
        }
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
