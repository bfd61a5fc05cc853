//! Loads, stores and atomics of one SM on its own footprint, in its L1 and in shared memory.

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source =
    Source::new("l1", include_str!("kernel.cu"), |_| kernels()).with_access_rule(AccessRule::Stated);

/// Threads per block, one block on each SM.
pub const THREADS: u32 = 1024;
/// Bytes of an access.
pub const WIDTHS: [u32; 3] = [4, 8, 16];

/// Accesses of a thread in one iteration: more of the narrow ones, so that what else an iteration does leaves the load/store unit
/// its one access per cycle.
#[must_use]
pub fn unroll(bytes: u32) -> u32 {
    if bytes < 16 { 16 } else { 8 }
}

/// Bytes of a warp's iteration, which pieces are made of.
const CHUNK: Amount = Amount::Product(&[Amount::Is(32), Amount::Vector, Amount::Unroll]);

/// The parameters of a kernel: its output, what it reads or adds, and bounds of its piece in addition to those of all pieces.
macro_rules! walk {
    ($out:tt $(, $name:ident: $kind:tt)?; [$($bound:expr)?]) => {
        takes!(
            out: $out, cycles: [fill 8; PerBlock(8, &[])], $($name: $kind,)?
            slice: U32 [$($bound,)? Least(Is(1)), Multiple(CHUNK), Most(Is(1 << 31))],
            step: U32 [Multiple(CHUNK), Most(Of("slice"))], warm: U32, iterations: U32,
        )
    };
}

/// Loads through L1.
#[must_use]
pub fn load(bytes: u32) -> KernelDesc {
    let parameters = walk!([fill 4; PerThread(4, &[])], in: [read VECTOR; PerBlock(1, &["slice"])]; []);
    KernelDesc { inputs: 1, parameters, ..kernel("load", "L1_LOAD", bytes) }
}

/// Stores, each word's place in it.
#[must_use]
pub fn store(bytes: u32) -> KernelDesc {
    let parameters = walk!([write VECTOR; PerBlock(1, &["slice"])]; []);
    KernelDesc { outputs: 1, parameters, ..kernel("store", "L1_STORE", bytes) }
}

/// Loads from shared memory, which holds what L1 would.
#[must_use]
pub fn shared(bytes: u32) -> KernelDesc {
    let parameters = walk!([fill 4; PerThread(4, &[])], in: [read 4; PerBlock(1, &["slice"])]; [Most(Shared)]);
    KernelDesc { parameters, ..kernel("shared", "L1_SHARED", bytes) }
}

/// Atomic additions to words in shared memory.
#[must_use]
pub fn shared_atomic() -> KernelDesc {
    let name = "l1_shared_atomic_4".to_owned();
    KernelDesc {
        entry: format!("L1_SHARED_ATOMIC({name}, {}, {THREADS})", unroll(4)),
        parameters: walk!([fill 4; PerBlock(1, &["slice"])], added: U32; [Most(Shared)]),
        name,
        ..kernel("shared_atomic", "L1_SHARED_ATOMIC", 4)
    }
}

fn kernel(what: &str, entry: &str, bytes: u32) -> KernelDesc {
    let name = format!("l1_{what}_{bytes}");
    KernelDesc {
        entry: format!("{entry}({name}, {bytes}, {}, {THREADS})", unroll(bytes)),
        vector_bytes: bytes,
        unroll: unroll(bytes),
        ..resident(1, &SOURCE, name, THREADS)
    }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    WIDTHS.into_iter().flat_map(|bytes| [load(bytes), store(bytes), shared(bytes)]).chain([shared_atomic()]).collect()
}
