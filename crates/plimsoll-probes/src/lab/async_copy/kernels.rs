//! Kernels that bring tiles from global to shared memory: through registers, by asynchronous copies, by bulk copies.

pub use super::Way;
use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source = Source::new("async-copy", include_str!("kernel.cu"), kernels);

/// Threads per block, one block per SM: few, so that only the copies keep data in flight.
pub const THREADS: u32 = 128;
/// Tile sizes, bytes.
pub const TILES: [u32; 5] = [2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];
/// Most tiles that fit in the buffer at once.
pub const STAGES: u32 = 4;

impl Way {
    /// All ways.
    pub const ALL: [Self; 6] =
        [Self::Registers, Self::Through(4), Self::Through(8), Self::Through(16), Self::Past, Self::Bulk];

    /// Whether a target supports it.
    #[must_use]
    pub fn is_supported_by(self, target: Target) -> bool {
        self != Self::Bulk || target.capability >= 90
    }

    /// Most tiles in the buffer at once: one if they go through registers.
    #[must_use]
    pub fn stages(self) -> u32 {
        if self == Self::Registers { 1 } else { STAGES }
    }

    /// The way in kernel names, its name in the source, and the bytes of one copy.
    fn names(self) -> (String, &'static str, u32) {
        match self {
            Self::Registers => ("registers".to_owned(), "REGISTERS", 16),
            Self::Through(bytes) => (format!("l1_{bytes}"), "ASYNC_L1", bytes),
            Self::Past => ("past_16".to_owned(), "ASYNC_PAST", 16),
            Self::Bulk => ("bulk".to_owned(), "BULK", 16),
        }
    }
}

/// The kernel for one way and tile size, one of [`TILES`].
#[must_use]
pub fn copy(way: Way, tile: u32) -> KernelDesc {
    let (short, in_source, bytes) = way.names();
    let name = format!("async_copy_{short}_{tile}");
    let each = |mnemonics| Issue { mnemonics, count: tile / (bytes * THREADS), chains: 1 };
    macro_rules! of_tiles {
        ($tile:literal) => {
            takes!(
                out: [fill 4; PerThread(4, &[])], cycles: [fill 8; PerBlock(8, &[])], in: [read 16; Times(1, &["around"])],
                slice: U32 [Multiple(Is($tile))], around: U32 [Least(Is(1)), Multiple(Is($tile))],
                stages: U32 [Least(Is(1)), Most(Smallest(&[Is(STAGES as u64), Over(&Shared, &Is($tile))]))], warm: U32,
                iterations: U32,
            )
        };
    }
    KernelDesc {
        entry: format!("ASYNC_COPY({name}, {in_source}, {bytes}, {tile}, {THREADS})"),
        parameters: match tile >> 10 {
            2 => of_tiles!(0x800),
            4 => of_tiles!(0x1000),
            8 => of_tiles!(0x2000),
            16 => of_tiles!(0x4000),
            _ => of_tiles!(0x8000),
        },
        issues: match way {
            Way::Registers => vec![each(&["LDG"]), each(&["STS"])],
            Way::Through(_) | Way::Past => vec![each(&["LDGSTS"])],
            // The innermost loop is the one that waits.
            Way::Bulk => Vec::new(),
        },
        ..resident(1, &SOURCE, name, THREADS)
    }
}

/// All kernels that this target supports.
#[must_use]
pub fn kernels(target: Target) -> Vec<KernelDesc> {
    let ways = Way::ALL.into_iter().filter(|way| way.is_supported_by(target));
    ways.flat_map(|way| TILES.map(|tile| copy(way, tile))).collect()
}
