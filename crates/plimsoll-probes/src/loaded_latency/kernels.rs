//! A pointer chase while other SMs read or copy, and the kernel that builds its chain.

use plimsoll_gen::kernel::chain;

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source = Source::new("loaded-latency", include_str!("kernel.cu"), |_| kernels());

/// The load of the other SMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Background {
    /// Reads past L1.
    Read,
    /// One write per read.
    Copy,
}

impl Background {
    /// All values.
    pub const ALL: [Self; 2] = [Self::Read, Self::Copy];
}

/// Threads of every block.
pub const THREADS: u32 = 512;
/// Vectors of 16 bytes per round of a warp.
pub const VECTORS_PER_ROUND: u64 = 32 * 8;
/// Untimed hops before the timed ones.
pub const LEAD_HOPS: u64 = 64;

/// The parameters of a chase; `$to` is the background's output. A background warp may begin at any multiple of its round.
macro_rules! chase {
    ($to:tt) => {
        takes!(
            out: [update 8; PerBlock(32, &[])], at: [read 8; Times(8, &[])], hops: U64 [Multiple(Is(chain::HOPS))], to: $to,
            from: [read 16; Times(16, &["vectors"])],
            vectors: U64 [PowerOfTwo, Least(Product(&[Is(VECTORS_PER_ROUND), Smallest(&[Is(1), Less(&Blocks, &Is(1))])]))],
            delay: U32, limit: U32, state: [update 4; Times(8, &[])],
        )
    };
}

/// The chase in block 0 and the background in all other blocks.
#[must_use]
pub fn chase(background: Background) -> KernelDesc {
    let (name, in_source, parameters) = match background {
        Background::Read => ("loaded_read", "READ", chase!([write 16; Nothing])),
        Background::Copy => ("loaded_copy", "COPY", chase!([write 16; Times(16, &["vectors"])])),
    };
    KernelDesc {
        entry: format!("LOADED_CHASE({name}, {in_source})"),
        parameters,
        vector_bytes: 16,
        unroll: 8,
        cooperative: true,
        ..resident(1, &SOURCE, name, THREADS)
    }
}

/// Builds the chain [`plimsoll_gen::kernel::chain::Chain::lines`].
#[must_use]
pub fn chain() -> KernelDesc {
    KernelDesc {
        parameters: takes!(base: [write 8; Times(128, &["lines"])], lines: U32 [Least(Is(1))], seed: U32),
        grid: Grid::Waves { waves: 1 },
        looping: true,
        ..KernelDesc::new(&SOURCE, "loaded_chain", 256)
    }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    Background::ALL.into_iter().map(chase).chain([chain()]).collect()
}
