//! The acoustic wave equation in three dimensions, 8th order in space and 2nd in time.

use crate::kernel::{Grid, KernelDesc, Source};

/// Cells that a difference reaches to each side, and planes of zeros at either end.
pub const RADIUS: u32 = 4;
/// Largest blocks in x and y: arrays have room for whole ones.
const BLOCK: (u32, u32) = (128, 32);
/// Floats that every row is a multiple of: 128 bytes.
const LINE: u32 = 32;

/// How a field lies in memory: rows of `pitch` floats, planes of `rows` rows. Gaps are zero, the edge of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Cells in x, y, z.
    pub cells: [u32; 3],
    /// Floats from a row to the next.
    pub pitch: u32,
    /// Rows from a plane to the next.
    pub rows: u32,
}

impl Shape {
    /// A grid of so many cells in x, y, z. `None` where 32-bit indices wouldn't do, or there is no cell.
    #[must_use]
    pub fn new(cells: [u32; 3]) -> Option<Self> {
        let padded = |n: u32, block: u32| n.checked_next_multiple_of(block)?.checked_add(RADIUS);
        let pitch = padded(cells[0], BLOCK.0)?.checked_next_multiple_of(LINE)?;
        let shape = Self { cells, pitch, rows: padded(cells[1], BLOCK.1)? };
        let planes = u64::from(cells[2]) + u64::from(2 * RADIUS);
        let floats = u64::from(pitch).checked_mul(shape.rows.into())?.checked_mul(planes)?;
        (floats <= u64::from(u32::MAX) && !cells.contains(&0)).then_some(shape)
    }

    /// Floats of a field with all its gaps.
    #[must_use]
    pub fn floats(&self) -> u64 {
        u64::from(self.pitch) * u64::from(self.rows) * u64::from(self.cells[2] + 2 * RADIUS)
    }

    /// Bytes of a field.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        4 * self.floats()
    }

    /// Cells that a step computes.
    #[must_use]
    pub fn volume(&self) -> u64 {
        self.cells.iter().map(|n| u64::from(*n)).product()
    }

    /// The place of a cell, in floats.
    #[must_use]
    pub fn at(&self, [x, y, z]: [u32; 3]) -> u64 {
        (u64::from(z + RADIUS) * u64::from(self.rows) + u64::from(y)) * u64::from(self.pitch) + u64::from(x)
    }
}

/// Threads of a block in x and y.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Block {
    /// 32 × 32.
    Square,
    /// 128 × 8: whole cache lines behind each other.
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

    /// Blocks in x, y and z that cover a grid, each walking through `depth` planes.
    #[must_use]
    pub fn grid(self, cells: [u32; 3], depth: u32) -> [u32; 3] {
        let [x, y] = self.threads();
        [cells[0].div_ceil(x), cells[1].div_ceil(y), cells[2].div_ceil(depth.max(1))]
    }
}

/// Bytes that a step must move per cell: it reads the field now and before and the medium, and writes the field to come.
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
        parameters: &["field", "p", "courant", "nx", "ny", "nz", "pitch", "rows", "depth"],
        grid: Grid::Resident { blocks: 1 },
        looping: true,
        ..KernelDesc::new(Source::Rtm, name, x * y)
    }
}

/// The state at the beginning: a round bump at rest, in layers.
#[must_use]
pub fn begin() -> KernelDesc {
    let parameters = &["field", "p", "courant", "nx", "ny", "nz", "pitch", "rows", "radius"];
    over_rows("rtm_begin", "RTM_BEGIN(rtm_begin)", parameters)
}

/// Counts cells that a step got wrong.
#[must_use]
pub fn check() -> KernelDesc {
    let parameters = &["after", "before", "p", "courant", "nx", "ny", "nz", "pitch", "rows", "result"];
    over_rows("rtm_check", "RTM_CHECK(rtm_check)", parameters)
}

fn over_rows(name: &str, entry: &str, parameters: &'static [&'static str]) -> KernelDesc {
    KernelDesc {
        entry: entry.to_owned(),
        parameters,
        grid: Grid::Resident { blocks: 1 },
        looping: true,
        ..KernelDesc::new(Source::Rtm, name.to_owned(), 128)
    }
}

/// Every one.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![step(Block::Square), step(Block::Long), begin(), check()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_that_a_block_reads_lies_inside_the_array() {
        for cells in [[1, 1, 1], [5, 3, 2], [33, 31, 9], [128, 32, 8], [129, 33, 4], [512, 512, 16]] {
            let shape = Shape::new(cells).unwrap();
            let [x, y, z] = cells;
            let (right, below) = (x.next_multiple_of(128) - 1, y.next_multiple_of(32) - 1);
            assert!(shape.at([0, 0, 0]) >= u64::from(RADIUS * shape.pitch));
            assert!(shape.at([right, below, z - 1 + RADIUS]) < shape.floats(), "{cells:?}");
            assert!(right + RADIUS < shape.pitch && below + RADIUS < shape.rows, "{cells:?}");
            assert_eq!(shape.at([0, 1, 0]) % 32, 0);
        }
    }

    #[test]
    fn grids_of_no_cell_or_of_too_many_are_none() {
        assert_eq!(Shape::new([0, 4, 4]), None);
        assert_eq!(Shape::new([2048, 2048, 1024]), None);
        assert_eq!(Shape::new([u32::MAX, 1, 1]), None);
        assert!(Shape::new([512, 512, 768]).is_some());
    }
}
