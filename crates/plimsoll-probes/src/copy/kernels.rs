//! The copy kernels of the notes that the project grew from (`docs/answers.md`). Block size and grid are chosen at launch; neither is compiled in.

use plimsoll_gen::kernel::Index;
use plimsoll_gen::kernel::spirv::NOT_WRITTEN;

use crate::prelude::kernels::*;

spirv_builds! {
    "crates/plimsoll-probes/src/copy", "":
    COPY = "copy.spv", "copy.comp", [];
    COPY_NARROW = "copy_narrow.spv", "copy.comp", ["NARROW"];
}

/// The source of these kernels.
pub static SOURCE: Source = Source::new("copy", include_str!("kernel.cu"), |_| kernels())
    .with_access_rule(AccessRule::Stated)
    .with_spirv(spirv, BUILDS);

fn spirv(kernel: &KernelDesc, _: Features) -> Result<Spirv, &'static str> {
    let width = match kernel.lanes() {
        _ if kernel.name.starts_with("copy_naive") => 0,
        width @ (1 | 2 | 4 | 8) => width,
        _ => return Err(NOT_WRITTEN),
    };
    let build = if kernel.index == Index::U32 { COPY_NARROW } else { COPY };
    Ok(Spirv::new(build, vec![(1, width)]))
}

/// Elements per vector of the forms with a loop; 1 is the plain grid-stride loop.
pub const WIDTHS: [u32; 4] = [1, 2, 4, 8];

/// The block size of those notes.
const THREADS: u32 = 256;

/// One element per thread.
#[must_use]
pub fn naive(index: Index) -> KernelDesc {
    let name = format!("copy_naive_{}", index.name());
    let entry = format!("COPY_NAIVE({name}, {})", index.name());
    KernelDesc { entry, ..base(name, index) }
}

/// A grid-stride loop over vectors of `width` elements of 4 bytes.
#[must_use]
pub fn vector(width: u32, index: Index) -> KernelDesc {
    let name = format!("copy_vector{width}_{}", index.name());
    KernelDesc {
        entry: format!("COPY_VECTOR({name}, {}, {width})", index.name()),
        vector_bytes: 4 * width,
        does: "vector",
        looping: true,
        tail_by_first_threads: true,
        ..base(name, index)
    }
}

/// The vector form on one SM alone: one block of 1024 threads.
#[must_use]
pub fn one_multiprocessor(width: u32, index: Index) -> KernelDesc {
    KernelDesc { threads: 1024, grid: Grid::Blocks(1), ..vector(width, index) }
}

fn base(name: String, index: Index) -> KernelDesc {
    KernelDesc {
        parameters: takes!(out: [fill VECTOR; Elements("n")], in: [read VECTOR; Elements("n")], n: INDEX [Most(Covered)]),
        element: Element::Word,
        inputs: 1,
        outputs: 1,
        index,
        threads_fixed: false,
        output: Output::Map,
        ..KernelDesc::new(&SOURCE, name, THREADS)
    }
}

/// Every copy kernel.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    let indices = [Index::U32, Index::U64];
    let vectors = WIDTHS.iter().flat_map(|width| indices.map(|index| vector(*width, index)));
    indices.map(naive).into_iter().chain(vectors).collect()
}
