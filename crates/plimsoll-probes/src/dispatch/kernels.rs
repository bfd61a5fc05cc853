//! Empty blocks, to see how many the device starts per clock.

use plimsoll_gen::kernel::clock;

use crate::prelude::kernels::*;

spirv_builds! {
    "crates/plimsoll-probes/src/dispatch", "":
    DISPATCH_MARKED = "dispatch_marked.spv", "dispatch_marked.comp", [];
}

/// The source of these kernels.
pub static SOURCE: Source = Source::new("dispatch", include_str!("kernel.cu"), |_| kernels()).with_spirv(spirv, BUILDS);

fn spirv(kernel: &KernelDesc, _: Features) -> Result<Spirv, &'static str> {
    Ok(if kernel.output == Output::None { clock::nothing() } else { Spirv::new(DISPATCH_MARKED, vec![]) })
}

/// Threads per block.
pub const THREADS: [u32; 6] = [32, 64, 128, 256, 512, 1024];

/// Blocks that do nothing. n counts threads.
#[must_use]
pub fn empty(threads: u32) -> KernelDesc {
    let name = format!("dispatch_empty_b{threads}");
    let entry = format!("DISPATCH_EMPTY({name}, {threads})");
    KernelDesc { entry, access_rule: AccessRule::DoesNothing, ..KernelDesc::new(&SOURCE, name, threads) }
}

/// Blocks of a programmatic launch that wait for the previous kernel; where `signals`, they first signal that the next may begin.
/// n counts threads.
#[must_use]
pub fn programmatic(signals: bool, threads: u32) -> KernelDesc {
    let name = format!("dispatch_{}_b{threads}", if signals { "signalling" } else { "waiting" });
    let entry = format!("DISPATCH_PROGRAMMATIC({name}, {signals}, {threads})");
    KernelDesc {
        entry,
        dependent: true,
        access_rule: AccessRule::DoesNothing,
        ..KernelDesc::new(&SOURCE, name, threads)
    }
}

/// Blocks that each store their number, to show that all ran. n counts threads.
#[must_use]
pub fn marked(threads: u32) -> KernelDesc {
    let name = format!("dispatch_marked_b{threads}");
    KernelDesc {
        entry: format!("DISPATCH_MARKED({name}, {threads})"),
        parameters: takes!(out: [fill 4; PerBlock(4, &[])]),
        output: Output::BlockMarks,
        ..KernelDesc::new(&SOURCE, name, threads)
    }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    THREADS
        .iter()
        .flat_map(|threads| {
            [empty(*threads), programmatic(false, *threads), programmatic(true, *threads), marked(*threads)]
        })
        .collect()
}
