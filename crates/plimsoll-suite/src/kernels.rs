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
