//! The kernels of the lab's experiments, one file per probe; their text is in `kernels/lab/`.

pub mod pic;
pub mod rtm;
pub mod shape;
pub mod tti;

use super::{Grid, KernelDesc, Source};

/// A kernel of a block of 128 threads per row of a grid, and as many planes of blocks as the grid has.
fn over_rows(source: Source, name: &str, entry: &str, parameters: &'static [&'static str]) -> KernelDesc {
    KernelDesc {
        entry: entry.to_owned(),
        parameters,
        grid: Grid::Resident { blocks: 1 },
        looping: true,
        ..KernelDesc::new(source, name.to_owned(), 128)
    }
}
