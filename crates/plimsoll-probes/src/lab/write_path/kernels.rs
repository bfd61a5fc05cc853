//! Stores to parts of sectors, loads after stores, and repeated reads of memory.

pub use super::Step;
use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source =
    Source::new("write-path", include_str!("kernel.cu"), |_| kernels()).with_access_rule(AccessRule::Stated);

/// Threads per block of kernels that store parts of sectors.
pub const THREADS: u32 = 256;
/// Accesses of a thread that stores or reads, and steps of a chain in one iteration.
pub const UNROLL: u32 = 4;
/// Steps of a chain in one iteration.
pub const STEPS: u32 = 8;
/// Threads per block of a chain: one word of a line each.
pub const CHAIN_THREADS: u32 = 32;
/// Threads per block of repeated reads, one block per SM.
pub const AGAIN_THREADS: u32 = 1024;
/// Bytes of a sector.
pub const SECTOR: u32 = 32;

/// Bytes stored of every sector.
pub const PARTS: [u32; 5] = [1, 4, 8, 16, 32];

impl Step {
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::LoadFirst => ("l1", "LOAD_L1"),
            Self::LoadSecond => ("l2", "LOAD_L2"),
            Self::BehindFirst => ("store_l1", "STORE_LOAD_L1"),
            Self::BehindSecond => ("store_l2", "STORE_LOAD_L2"),
            Self::BehindLocal => ("local", "STORE_LOAD_LOCAL"),
        }
    }

    /// The instructions of an iteration.
    fn issues(self) -> Vec<Issue> {
        let each = |mnemonics| Issue { mnemonics, count: STEPS, chains: 1 };
        match self {
            Self::LoadFirst | Self::LoadSecond => vec![each(&["LDG"])],
            Self::BehindFirst | Self::BehindSecond => vec![each(&["STG"]), each(&["LDG"])],
            Self::BehindLocal => vec![each(&["STL"]), each(&["LDL"])],
        }
    }

    /// Whether a step adds one to its word.
    #[must_use]
    pub fn stores(self) -> bool {
        !matches!(self, Self::LoadFirst | Self::LoadSecond)
    }
}

/// Stores to the first `bytes` bytes of every sector: of words, or of one byte.
#[must_use]
pub fn part(bytes: u32) -> KernelDesc {
    let (name, access) = (format!("write_path_part_{bytes}"), bytes.min(4));
    KernelDesc {
        entry: format!("WRITE_PART({name}, {bytes}, {access}, {UNROLL}, {THREADS})"),
        parameters: takes!(out: [write 4; Times(32, &["sectors"])], sectors: U64),
        outputs: 1,
        vector_bytes: access,
        unroll: UNROLL,
        ..KernelDesc::new(&SOURCE, name, THREADS)
    }
}

/// Stores per sector if `bytes` of it are stored.
#[must_use]
pub fn lanes(bytes: u32) -> u64 {
    u64::from(bytes / bytes.min(4))
}

/// A chain of steps on each thread's own word.
#[must_use]
pub fn chain(step: Step) -> KernelDesc {
    let (short, in_source) = step.names();
    let name = format!("write_path_chain_{short}");
    KernelDesc {
        entry: format!("WRITE_CHAIN({name}, {in_source}, {STEPS}, {CHAIN_THREADS})"),
        parameters: takes!(
            out: [fill 4; PerThread(4, &[])], cycles: [fill 8; PerBlock(8, &[])], words: [update 4; PerThread(4, &[])],
            warm: U32, iterations: U32 [Most(Is((1 << 31) - 1))],
        ),
        unroll: STEPS,
        issues: step.issues(),
        local_memory: step == Step::BehindLocal,
        ..resident(1, &SOURCE, name, CHAIN_THREADS)
    }
}

/// Every block reads its own piece repeatedly, through the L1 or bypassing it.
#[must_use]
pub fn again(past: bool) -> KernelDesc {
    let name = format!("write_path_again_{}", if past { "l2" } else { "l1" });
    KernelDesc {
        entry: format!("READ_AGAIN({name}, {past}, {UNROLL}, {AGAIN_THREADS})"),
        parameters: takes!(
            out: [fill 4; PerThread(4, &[])], in: [read 16; PerBlock(16, &["vectors"])],
            vectors: U32 [Multiple(Product(&[Unroll, Threads]))], passes: U32,
        ),
        inputs: 1,
        vector_bytes: 16,
        unroll: UNROLL,
        ..resident(1, &SOURCE, name, AGAIN_THREADS)
    }
}

/// Every one.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    let chains = Step::ALL.map(chain);
    PARTS.map(part).into_iter().chain(chains).chain([false, true].map(again)).collect()
}
