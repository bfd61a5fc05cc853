//! The acoustic wave equation in three dimensions, 8th order in space and 2nd in time.

use plimsoll_gen::kernel::Data;

use crate::lab::fields::Margin;
use crate::lab::fields::over_rows;
use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source = Source::new("rtm", include_str!("kernel.cu"), |_| kernels()).with_data(Data::Any);

/// Cells that a difference reaches to each side.
pub const RADIUS: u32 = 4;
/// The margin around a field.
pub const MARGIN: Margin = Margin { radius: RADIUS, before: RADIUS, block: [128, 32] };

/// Threads of a block in x and y.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Block {
    /// 32 × 32.
    Square,
    /// 128 × 8: whole consecutive cache lines.
    Long,
}

impl Block {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Square, Self::Long];

    /// Threads in x and y.
    #[must_use]
    pub fn threads(self) -> [u32; 2] {
        match self {
            Self::Square => [32, 32],
            Self::Long => [128, 8],
        }
    }

    /// Blocks in x, y and z that cover a grid, with `depth` planes each.
    #[must_use]
    pub fn grid(self, cells: [u32; 3], depth: u32) -> [u32; 3] {
        let [x, y] = self.threads();
        [cells[0].div_ceil(x), cells[1].div_ceil(y), cells[2].div_ceil(depth.max(1))]
    }
}

crate::lab::fields::field_amounts!(MARGIN);
/// Planes needed so that the last blocks of a step have a plane to start in.
const BEGUN: Amount = {
    use Amount::{Grid, Is, Less, Of, Product, Sum};
    Sum(&[Product(&[Less(&Grid(2), &Is(1)), Of("depth")]), Is(1)])
};

/// Bytes read per cell and step: the current and the previous field, and the medium.
pub const BYTES_READ: u64 = 12;
/// Bytes written per cell.
pub const BYTES_WRITTEN: u64 = 4;

/// One time step.
#[must_use]
pub fn step(block: Block) -> KernelDesc {
    let [x, y] = block.threads();
    let name = format!("rtm_step_{x}x{y}");
    KernelDesc {
        entry: format!("RTM_STEP({name}, {x}, {y})"),
        parameters: takes!(
            field: [update 4; Bytes(CELLS)], p: [read 4; Bytes(CELLS)], courant: [read 4; Bytes(CELLS)],
            nx: U32, ny: U32, nz: U32 [Least(BEGUN), Most(PLANES)],
            pitch: U32 [Least(Product(&[Grid(0), Block(0)]))], rows: U32 [Least(Product(&[Grid(1), Block(1)]))],
            depth: U32 [Least(Is(1))],
        ),
        ..resident(1, &SOURCE, name, x * y)
    }
}

/// The initial state: a round bump at rest, in layers.
#[must_use]
pub fn begin() -> KernelDesc {
    let parameters = takes!(
        field: [write 4; Bytes(CELLS)], p: [write 4; Bytes(CELLS)], courant: [write 4; Bytes(CELLS)],
        nx: U32, ny: U32, nz: U32 [Least(Grid(1)), Most(PLANES)], pitch: U32 [Least(Of("nx"))],
        rows: U32 [Least(Grid(0))], radius: F32,
    );
    over_rows(&SOURCE, "rtm_begin", "RTM_BEGIN(rtm_begin)", parameters)
}

/// Counts the wrong cells of a step.
#[must_use]
pub fn check() -> KernelDesc {
    let parameters = takes!(
        after: [read 4; Bytes(CELLS)], before: [read 4; Bytes(CELLS)], p: [read 4; Bytes(CELLS)],
        courant: [read 4; Bytes(CELLS)], nx: U32, ny: U32, nz: U32 [Least(Grid(1)), Most(PLANES)],
        pitch: U32 [Least(Of("nx"))], rows: U32 [Least(Grid(0))], result: [update 8; Times(16, &[])],
    );
    over_rows(&SOURCE, "rtm_check", "RTM_CHECK(rtm_check)", parameters)
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![step(Block::Square), step(Block::Long), begin(), check()]
}
