//! The kernels of STREAM and similar ones. `stream` measures all of them; other probes and the ceilings of expressions use some.

/// A kernel of the family: its name and the numbers of arrays that it reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// The name in axes, findings and reference figures.
    pub name: &'static str,
    /// Number of arrays read.
    pub reads: u32,
    /// Number of arrays written.
    pub writes: u32,
}

const fn mix(name: &'static str, reads: u32, writes: u32) -> Mix {
    Mix { name, reads, writes }
}

/// The kernels, in the order in which they are measured: `a = s`, `Σa`, `a = b`, `a = s·b`, `a = b + c`, `a = b + s·c`,
/// `a = b + c·d`, `Σb·c`, and the one-dimensional stencils of three and five points, whose neighbours share their reads.
pub const KERNELS: [Mix; 10] = [
    mix("init", 0, 1),
    mix("read", 1, 0),
    mix("copy", 1, 1),
    mix("scale", 1, 1),
    mix("add", 2, 1),
    mix("triad", 2, 1),
    mix("schoenauer", 3, 1),
    mix("dot", 2, 0),
    mix("3pt", 1, 1),
    mix("5pt", 1, 1),
];

/// A kernel of the family as the operation on each element. `s` is a scalar parameter, `a` to `d` are arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// `a = s`.
    Init,
    /// `Σb`, or an exclusive or of all words.
    Read,
    /// `a = b`.
    Copy,
    /// `a = s·b`.
    Scale,
    /// `a = b + c`.
    Add,
    /// `a = b + s·c`.
    Triad,
    /// `a = b + c·d`.
    Schoenauer,
    /// `Σb·c`.
    Dot,
    /// The sum of three neighbours in `b`, on GPUs times `s`.
    Point3,
    /// The sum of five neighbours in `b`, on GPUs times `s`.
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

    /// The operation with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }

    /// Its name in axes and findings.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.mix().name
    }

    /// How many arrays it reads and writes.
    #[must_use]
    pub fn mix(self) -> &'static Mix {
        &KERNELS[self as usize]
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
            assert_eq!((op.name(), op.mix().reads), (name, inputs));
            assert_eq!(Op::from_name(name), Some(op));
        }
        assert_eq!(Op::from_name("fill"), None);
    }
}
