//! Barriers of every scope, with in-kernel timing and, in another form, with a check.

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source = Source::new("sync", include_str!("kernel.cu"), kernels);

/// Most barriers, 8 per loop iteration, that fit into a 32-bit count.
const MOST_MEETINGS: u64 = u32::MAX as u64 - 7;

/// The scope of a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Meeting {
    /// The lanes of each warp: `bar.warp.sync`.
    Warp,
    /// All threads of each block: `bar.sync 0`, which `__syncthreads` is.
    Block,
    /// Each half of a block, at a separate numbered barrier.
    Half,
    /// All threads of each cluster: `barrier.cluster` (compute capability 9.0).
    Cluster,
    /// All threads of the grid: a counter in memory, as cooperative groups have it.
    Grid,
}

impl Meeting {
    /// All values.
    pub const ALL: [Self; 5] = [Self::Warp, Self::Block, Self::Half, Self::Cluster, Self::Grid];

    /// Its name in kernel names, and in capitals in the source.
    fn short(self) -> &'static str {
        match self {
            Self::Warp => "warp",
            Self::Block => "block",
            Self::Half => "half",
            Self::Cluster => "cluster",
            Self::Grid => "grid",
        }
    }

    /// Block sizes, in threads, that it is compiled for.
    #[must_use]
    pub fn threads(self) -> &'static [u32] {
        match self {
            Self::Warp => &[32],
            Self::Block => &[64, 256, 1024],
            Self::Half => &[128, 1024],
            Self::Cluster | Self::Grid => &[256],
        }
    }
}

/// Rounds are a whole multiple of this.
pub const ROUND_STEP: u32 = 8;

/// Consecutive barriers and their time; `checked` also verifies that every thread took part.
#[must_use]
pub fn rounds(meeting: Meeting, threads: u32, checked: bool) -> KernelDesc {
    let short = meeting.short();
    let name = format!("sync_{short}_b{threads}{}", if checked { "_checked" } else { "" });
    KernelDesc {
        entry: format!("SYNC_ROUNDS({name}, {}_MEETING, {threads}, {checked})", short.to_ascii_uppercase()),
        parameters: if checked {
            takes!(
                out: [update 8; PerBlock(32, &[])], marks: [update 4; PerThread(4, &[])],
                count: U32, barrier: [update 4; Times(4, &[])],
            )
        } else {
            takes!(
                out: [write 8; PerBlock(32, &[])], marks: [update 4; PerThread(4, &[])],
                count: U32 [Most(Is(MOST_MEETINGS))], barrier: [update 4; Times(4, &[])],
            )
        },
        cooperative: meeting == Meeting::Grid,
        ..resident(1, &SOURCE, name, threads)
    }
}

/// An empty kernel, for use between two events.
#[must_use]
pub fn empty() -> KernelDesc {
    let name = "sync_empty".to_owned();
    KernelDesc { grid: Grid::Blocks(1), looping: true, ..KernelDesc::new(&SOURCE, name, 32) }
}

/// All kernels that this target supports.
#[must_use]
pub fn kernels(target: Target) -> Vec<KernelDesc> {
    let is_supported = |meeting: &Meeting| *meeting != Meeting::Cluster || target.capability >= 90;
    let both = |meeting: Meeting| {
        let forms = move |threads: &u32| [rounds(meeting, *threads, false), rounds(meeting, *threads, true)];
        meeting.threads().iter().flat_map(forms)
    };
    Meeting::ALL.into_iter().filter(is_supported).flat_map(both).chain([empty()]).collect()
}
