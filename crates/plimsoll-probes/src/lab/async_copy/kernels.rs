//! Tiles from global to shared memory: through registers, by asynchronous copies, by bulk copies.

use plimsoll_gen::Target;
use plimsoll_gen::kernel::takes;
use plimsoll_gen::kernel::{Grid, Issue, KernelDesc, Source};

/// Where these kernels are written.
pub static SOURCE: Source = Source::new("async-copy", include_str!("kernel.cu"), kernels);

/// Threads per block, of which each multiprocessor has one: few, so that what is under way is the copies' merit.
pub const THREADS: u32 = 128;
/// Bytes of a tile.
pub const TILES: [u32; 5] = [2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];
/// Most tiles that have room at once.
pub const STAGES: u32 = 4;

/// How a tile gets into shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// Loads of 16 bytes into registers, and stores from there.
    Registers,
    /// Asynchronous copies of 4, 8 or 16 bytes through the first-level cache.
    Async(u32),
    /// Asynchronous copies of 16 bytes past it.
    AsyncPast,
    /// One bulk copy by one thread (compute capability 9.0).
    Bulk,
}

impl Way {
    /// Every one.
    pub const ALL: [Self; 6] =
        [Self::Registers, Self::Async(4), Self::Async(8), Self::Async(16), Self::AsyncPast, Self::Bulk];

    /// Whether a target has it.
    #[must_use]
    pub fn on(self, target: Target) -> bool {
        self != Self::Bulk || target.capability >= 90
    }

    /// Tiles that may have room at once: registers hold one.
    #[must_use]
    pub fn stages(self) -> u32 {
        if self == Self::Registers { 1 } else { STAGES }
    }

    /// In names, in the source, and bytes of a copy.
    fn names(self) -> (String, &'static str, u32) {
        match self {
            Self::Registers => ("registers".to_owned(), "REGISTERS", 16),
            Self::Async(bytes) => (format!("l1_{bytes}"), "ASYNC_L1", bytes),
            Self::AsyncPast => ("past_16".to_owned(), "ASYNC_PAST", 16),
            Self::Bulk => ("bulk".to_owned(), "BULK", 16),
        }
    }
}

/// Tiles of so many bytes, one of [`TILES`].
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
                stages: U32 [Least(Is(1)), Most(Smallest(&[Is(STAGES as u64), Over(&Shared, &Is($tile))]))], warm: U32, iterations: U32,
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
            Way::Async(_) | Way::AsyncPast => vec![each(&["LDGSTS"])],
            // The innermost loop is the one that waits.
            Way::Bulk => Vec::new(),
        },
        grid: Grid::Resident { blocks: 1 },
        looping: true,
        ..KernelDesc::new(&SOURCE, name, THREADS)
    }
}

/// Every one that this target has.
#[must_use]
pub fn kernels(target: Target) -> Vec<KernelDesc> {
    let ways = Way::ALL.into_iter().filter(|way| way.on(target));
    ways.flat_map(|way| TILES.map(|tile| copy(way, tile))).collect()
}
