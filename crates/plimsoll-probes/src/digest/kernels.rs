//! The same arithmetic on every SM, with a digest of each block's results.

use super::Kind;
use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source =
    Source::new("digest", include_str!("kernel.cu"), kernels).with_headers(&[("kinds.h", include_str!("kinds.h"))]);

/// Threads of a block; the digest depends on it.
pub const THREADS: u32 = 512;
/// Bytes of a table of results for each SM: four words.
pub const SEEN_BYTES: u64 = 16;
/// Words of shared memory, and of registers, that each thread fills with patterns.
pub const SHARED_WORDS: u32 = 23;

/// Blocks on each SM: two, so that they can be compared, and for shared memory as many as fill most of it.
const fn blocks(kind: Kind) -> u32 {
    match kind {
        Kind::Shared => 4,
        _ => 2,
    }
}

/// The struct in `kinds.h`, and the instructions of its loop with their number.
const fn code(kind: Kind) -> (&'static str, &'static [&'static str], u32) {
    match kind {
        Kind::FmaF32 => ("fma_f32", &["FFMA"], 128),
        Kind::FmaF64 => ("fma_f64", &["DFMA"], 64),
        Kind::Special => ("special", &["MUFU"], 48),
        Kind::Integer => ("integer", &["IMAD"], 64),
        Kind::Matrix => ("matrix", &["HMMA.16816.F32.BF16"], 8),
        Kind::Shared => ("shared", &["LDS"], SHARED_WORDS),
    }
}

/// The kernel of a kind of arithmetic.
#[must_use]
pub fn kernel(kind: Kind) -> KernelDesc {
    let (code, mnemonics, count) = code(kind);
    let name = format!("digest_{code}");
    KernelDesc {
        entry: format!("DIGEST({name}, {code})"),
        parameters: takes!(
            seen: [update 4; Times(SEEN_BYTES, &["slots"])], slots: U32, seed: U32, iterations: U32, repeats: U32,
        ),
        issues: vec![Issue { mnemonics, count, chains: 1 }],
        ..resident(blocks(kind), &SOURCE, name, THREADS)
    }
}

/// The kinds of arithmetic that a target has.
pub fn kinds(target: Target) -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(move |kind| *kind != Kind::Matrix || target.capability >= 80)
}

/// All kernels.
#[must_use]
pub fn kernels(target: Target) -> Vec<KernelDesc> {
    kinds(target).map(kernel).collect()
}
