//! Shared memory of other blocks of a cluster (compute capability 9.0).

pub use super::Access;
use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source = Source::new("cluster", include_str!("kernel.cu"), kernels);

/// Every access, in the order of its kernels.
pub const ACCESSES: [Access; 5] = [Access::Read, Access::ReadOwn, Access::Write, Access::Add, Access::Bulk];

impl Access {
    /// Its name in kernel names, and in capitals in the source.
    fn short(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::ReadOwn => "read_own",
            Self::Write => "write",
            Self::Add => "add",
            Self::Bulk => "bulk",
        }
    }

    /// Bytes that a block moves in a round.
    #[must_use]
    pub fn bytes_per_round(self) -> u64 {
        let bytes = if self == Self::Add { 4 } else { 16 };
        if self == Self::Bulk { 4 * u64::from(WORDS) } else { bytes * u64::from(WORDS) / 4 }
    }
}

/// Words of the chain and of the data of a block.
pub const WORDS: u32 = 8192;
/// Words of the source of bulk copies.
pub const SOURCE_WORDS: u32 = 2048;
/// Step of the first rank's chain in words.
const CHAIN_STEP: u32 = 4097;
/// Threads of a block that moves data.
pub const THREADS: u32 = 512;
/// Shared memory that is part of the kernels, bytes, at most.
pub const STATIC_SHARED: u32 = 4 * (WORDS + SOURCE_WORDS) + 256;

/// Step of a rank's chain in words: odd, so that it visits all words.
#[must_use]
pub const fn chain_step(rank: u32) -> u32 {
    CHAIN_STEP + 2 * rank
}

/// Word `i` of a rank's data.
#[must_use]
pub const fn datum(rank: u32, i: u32) -> u32 {
    rank.wrapping_mul(WORDS).wrapping_add(i).wrapping_add(1).wrapping_mul(2_654_435_761)
}

/// A chase through the shared memory of rank `distance`, or through the block's own by plain loads.
#[must_use]
pub fn chase(own: bool) -> KernelDesc {
    let name = if own { "cluster_chase_own" } else { "cluster_chase" }.to_owned();
    let entry = format!("CLUSTER_CHASE({name}, {own})");
    let parameters = takes!(
        out: [fill 8; Times(32, &[])], distance: U32 [Most(Less(&Cluster, &Is(1)))], hops: U32,
    );
    KernelDesc { entry, parameters, ..base(name, 32) }
}

/// Every block moves data with its partner.
#[must_use]
pub fn moving(access: Access) -> KernelDesc {
    let short = access.short();
    let name = format!("cluster_{short}");
    let entry = format!("CLUSTER_MOVE({name}, {})", short.to_ascii_uppercase());
    let parameters = takes!(
        out: [fill 8; PerBlock(32, &[])], distance: U32 [Most(Less(&Cluster, &Is(1)))], rounds: U32,
    );
    KernelDesc { entry, parameters, ..base(name, THREADS) }
}

fn base(name: String, threads: u32) -> KernelDesc {
    KernelDesc { grid: Grid::Resident { blocks: 1 }, looping: true, ..KernelDesc::new(&SOURCE, name, threads) }
}

/// The kernels that this target supports.
#[must_use]
pub fn kernels(target: Target) -> Vec<KernelDesc> {
    if target.capability < 90 {
        return Vec::new();
    }
    [chase(false), chase(true)].into_iter().chain(ACCESSES.map(moving)).collect()
}
