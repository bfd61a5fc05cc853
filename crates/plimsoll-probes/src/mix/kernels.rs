//! Kernels that read n arrays and write m.

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source =
    Source::new("mix", include_str!("kernel.cu"), |_| kernels()).with_access_rule(AccessRule::Stated);

/// Most arrays on each side.
pub const MOST: u32 = 4;

/// Bytes of `$arrays` arrays of vectors, a pitch apart.
macro_rules! arrays {
    ($arrays:ident) => {
        Product(&[Is(16), Pitched { arrays: &$arrays, pitch: &Of("pitch"), each: &Of("n") }])
    };
}

/// Threads per block.
const THREADS: u32 = 256;

/// `reads` arrays read and `writes` written (not both 0), `burst` consecutive vectors of each array.
#[must_use]
pub fn mix(reads: u32, writes: u32, burst: u32) -> KernelDesc {
    let name = format!("mix_r{reads}_w{writes}_burst{burst}");
    KernelDesc {
        entry: format!("MIX({name}, {reads}, {writes}, {burst}, {THREADS})"),
        parameters: if writes == 0 {
            takes!(
                out: [fill 4; PerWarp(4)], in: [read 16; Bytes(arrays!(Inputs))], pitch: U64 [Least(Of("n"))], n: U64,
            )
        } else {
            takes!(
                out: [write 16; Bytes(arrays!(Outputs))], in: [read 16; Bytes(arrays!(Inputs))],
                pitch: U64 [Least(Of("n"))], n: U64,
            )
        },
        element: Element::Vector16,
        inputs: reads,
        outputs: writes,
        vector_bytes: 16,
        unroll: burst,
        grid: Grid::Cover,
        looping: true,
        does: "mix",
        output: if writes > 0 { Output::Map } else { Output::WarpBits },
        ..KernelDesc::new(&SOURCE, name, THREADS)
    }
}

/// A copy for which the whole device reads a chunk into L2 and then writes it.
#[must_use]
pub fn phased() -> KernelDesc {
    KernelDesc {
        entry: "MIX_PHASED(mix_phased, 512)".to_owned(),
        parameters: takes!(
            out: [fill 16; Times(16, &["n"])], in: [read 16; Times(16, &["n"])], chunk: U64 [Least(Is(1))], n: U64,
            barrier: [update 4; Times(4, &[])],
        ),
        element: Element::Vector16,
        inputs: 1,
        outputs: 1,
        vector_bytes: 16,
        unroll: 4,
        output: Output::Map,
        cooperative: true,
        does: "phased",
        ..resident(2, &SOURCE, "mix_phased", 512)
    }
}

/// Every mix in short bursts, and the copy in long ones.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    let sides = (0..=MOST).flat_map(|reads| (0..=MOST).map(move |writes| (reads, writes)));
    let mixes = sides.filter(|(reads, writes)| reads + writes > 0);
    let short = mixes.flat_map(|(reads, writes)| [1, 2, 4].map(|burst| mix(reads, writes, burst)));
    short.chain([8, 16].map(|burst| mix(1, 1, burst))).chain([phased()]).collect()
}
