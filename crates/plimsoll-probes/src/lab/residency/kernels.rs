//! Additions to a histogram's bins, updates of a buffer while other data stream by, and kernels that check both.

use plimsoll_gen::kernel::Parameter;

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source =
    Source::new("residency", include_str!("kernel.cu"), |_| kernels()).with_access_rule(AccessRule::Stated);

/// Threads per block.
const THREADS: u32 = 1024;
/// Blocks on each SM.
const BLOCKS: u32 = 2;

/// Adds data to bins; an element is a datum.
#[must_use]
pub fn histogram() -> KernelDesc {
    let parameters = takes!(
        at: [update 4; Times(4, &["bins"])], data: [read 16; Times(16, &["n"])], bins: U32 [Least(Is(1))], n: U64,
    );
    KernelDesc { inputs: 1, ..looped("histogram", "RESIDENCY_HISTOGRAM", parameters) }
}

/// Updates a buffer in passes; each pass also updates another part of the streamed data.
#[must_use]
pub fn sliding() -> KernelDesc {
    let parameters = takes!(
        buffer: [update 16; Times(16, &["kept"])], stream: [update 16; Times(16, &["kept", "passes"]); or buffer],
        kept: U64, passes: U32,
    );
    KernelDesc { inputs: 2, outputs: 2, ..looped("sliding", "RESIDENCY_SLIDING", parameters) }
}

/// The sum of all words.
#[must_use]
pub fn total() -> KernelDesc {
    check("residency_total", takes!(result: [update 8; Times(8, &[])], at: [read 4; Times(4, &["n"])], n: U64))
}

/// The number of data in a bin.
#[must_use]
pub fn count() -> KernelDesc {
    check(
        "residency_count",
        takes!(result: [update 8; Times(8, &[])], data: [read 4; Times(4, &["n"])], bins: U32, wanted: U32, n: U64),
    )
}

/// The number of words that differ from a value.
#[must_use]
pub fn others() -> KernelDesc {
    check(
        "residency_others",
        takes!(result: [update 8; Times(8, &[])], at: [read 4; Times(4, &["n"])], word: U32, n: U64),
    )
}

fn looped(name: &str, entry: &str, parameters: &'static [Parameter]) -> KernelDesc {
    let name = format!("residency_{name}");
    KernelDesc { entry: format!("{entry}({name}, {THREADS})"), vector_bytes: 16, ..base(name, parameters, THREADS) }
}

fn check(name: &str, parameters: &'static [Parameter]) -> KernelDesc {
    base(name.to_owned(), parameters, 256)
}

fn base(name: String, parameters: &'static [Parameter], threads: u32) -> KernelDesc {
    KernelDesc { parameters, element: Element::Word, ..resident(BLOCKS, &SOURCE, name, threads) }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![histogram(), sliding(), total(), count(), others()]
}

/// The bin of a datum, as in `kernel.cu`.
#[must_use]
pub fn bin(datum: u32, bins: u32) -> u32 {
    ((u64::from(datum) * u64::from(bins)) >> 32) as u32
}
