//! Loads of a warp whose lanes read at the places of a table, through the L1 and bypassing it.

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source =
    Source::new("sectors", include_str!("kernel.cu"), |_| kernels()).with_access_rule(AccessRule::Stated);

/// Threads per block, one block per SM.
pub const THREADS: u32 = 1024;
/// Loads of a thread in one iteration.
pub const UNROLL: u32 = 8;
/// Bytes between two of these loads, as in `kernel.cu`: a line.
pub const LINE: u32 = 128;
/// Bytes of a load.
pub const WIDTHS: [u32; 5] = [1, 2, 4, 8, 16];

/// Loads of `bytes` bytes, bypassing the L1 or through it.
#[must_use]
pub fn load(past: bool, bytes: u32) -> KernelDesc {
    let name = format!("sectors_{}_{bytes}", if past { "l2" } else { "l1" });
    KernelDesc {
        entry: format!("SECTORS({name}, {past}, {bytes}, {UNROLL}, {THREADS})"),
        parameters: takes!(
            out: [fill 4; PerThread(4, &[])], cycles: [fill 8; PerBlock(8, &[])], in: [read VECTOR; Unstated],
            places: [read 4; Times(128, &[])], apart: U32, mask: U32, warm: U32, iterations: U32,
        ),
        // Accesses around the loop move as much as loads of one byte, so these are identified by their mnemonic.
        inputs: u32::from(bytes > 1),
        issues: if bytes > 1 { Vec::new() } else { vec![Issue { mnemonics: &["LDG.E.U8"], count: UNROLL, chains: 1 }] },
        vector_bytes: bytes,
        unroll: UNROLL,
        ..resident(1, &SOURCE, name, THREADS)
    }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    [false, true].into_iter().flat_map(|past| WIDTHS.map(|bytes| load(past, bytes))).collect()
}
