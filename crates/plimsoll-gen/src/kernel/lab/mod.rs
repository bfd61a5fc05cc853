//! The kernels of the lab's experiments, one file per probe; their text is in `kernels/lab/`.

pub mod async_copy;
pub mod block_order;
pub mod compression;
pub mod fetch_granularity;
pub mod formats;
pub mod gemm;
pub mod l2_reuse;
pub mod pic;
pub mod residency;
pub mod rtm;
pub mod sectors;
pub mod shape;
pub mod tti;
pub mod write_path;

use super::{Grid, KernelDesc, Parameter, Source};

/// A kernel of a block of 128 threads per row of a grid, and as many planes of blocks as the grid has.
fn over_rows(source: Source, name: &str, entry: &str, parameters: &'static [Parameter]) -> KernelDesc {
    KernelDesc {
        entry: entry.to_owned(),
        parameters,
        grid: Grid::Resident { blocks: 1 },
        looping: true,
        ..KernelDesc::new(source, name.to_owned(), 128)
    }
}
