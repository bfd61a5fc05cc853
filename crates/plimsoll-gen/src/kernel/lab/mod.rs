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

/// Of fields of a wave equation with such a margin: bytes of one with the planes around it, and most planes of cells that 32 bits count.
macro_rules! field_amounts {
    ($margin:expr) => {
        const AROUND: $crate::kernel::Amount = $crate::kernel::Amount::Is(($margin.before + $margin.radius) as u64);
        const CELLS: $crate::kernel::Amount = {
            use $crate::kernel::Amount::{Is, Of, Product, Sum};
            Product(&[Is(4), Of("pitch"), Of("rows"), Sum(&[Of("nz"), AROUND])])
        };
        const PLANES: $crate::kernel::Amount = {
            use $crate::kernel::Amount::{Is, Less, Of, Over, Product};
            Less(&Over(&Is(1 << 32), &Product(&[Of("pitch"), Of("rows")])), &AROUND)
        };
    };
}

use field_amounts;

/// A kernel of a block of 128 threads per row of a grid, and as many planes of blocks as the grid has.
fn over_rows(source: &'static Source, name: &str, entry: &str, parameters: &'static [Parameter]) -> KernelDesc {
    KernelDesc {
        entry: entry.to_owned(),
        parameters,
        grid: Grid::Resident { blocks: 1 },
        looping: true,
        ..KernelDesc::new(source, name.to_owned(), 128)
    }
}
