//! Additions to a histogram's bins, updates of a buffer beside a stream, and what checks both.

use super::super::{Element, Grid, KernelDesc, Source};

/// Threads per block.
const THREADS: u32 = 1024;
/// Blocks on each multiprocessor.
const BLOCKS: u32 = 2;

/// Adds to bins; elements are data.
#[must_use]
pub fn histogram() -> KernelDesc {
    let parameters = &["at", "data", "bins", "n"];
    KernelDesc { inputs: 1, ..looped("histogram", "RESIDENCY_HISTOGRAM", parameters) }
}

/// Updates a buffer in passes, each beside another part of what streams by.
#[must_use]
pub fn sliding() -> KernelDesc {
    let parameters = &["buffer", "stream", "kept", "passes"];
    KernelDesc { inputs: 2, outputs: 2, ..looped("sliding", "RESIDENCY_SLIDING", parameters) }
}

/// The sum of all words.
#[must_use]
pub fn total() -> KernelDesc {
    check("residency_total", &["result", "at", "n"])
}

/// How many data belong to a bin.
#[must_use]
pub fn count() -> KernelDesc {
    check("residency_count", &["result", "data", "bins", "wanted", "n"])
}

/// How many words are something else.
#[must_use]
pub fn others() -> KernelDesc {
    check("residency_others", &["result", "at", "word", "n"])
}

fn looped(name: &str, entry: &str, parameters: &'static [&'static str]) -> KernelDesc {
    let name = format!("residency_{name}");
    KernelDesc { entry: format!("{entry}({name}, {THREADS})"), vector_bytes: 16, ..base(name, parameters, THREADS) }
}

fn check(name: &str, parameters: &'static [&'static str]) -> KernelDesc {
    base(name.to_owned(), parameters, 256)
}

fn base(name: String, parameters: &'static [&'static str], threads: u32) -> KernelDesc {
    KernelDesc {
        parameters,
        element: Element::Word,
        grid: Grid::Resident { blocks: BLOCKS },
        looping: true,
        ..KernelDesc::new(Source::Residency, name, threads)
    }
}

/// Every one.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![histogram(), sliding(), total(), count(), others()]
}

/// The bin of a datum, as `residency.cu` has it.
#[must_use]
pub fn bin(datum: u32, bins: u32) -> u32 {
    ((u64::from(datum) * u64::from(bins)) >> 32) as u32
}
