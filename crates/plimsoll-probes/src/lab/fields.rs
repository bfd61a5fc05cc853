//! Memory layout of the wave equations' fields.

use plimsoll_gen::kernel::{Grid, KernelDesc, Parameter, Source};

/// Amounts for wave-equation fields with this margin: `CELLS` is the bytes of one field with the planes around it, `PLANES` the
/// most planes of cells that 32-bit indices can count.
macro_rules! field_amounts {
    ($margin:expr) => {
        const AROUND: plimsoll_gen::kernel::Amount =
            plimsoll_gen::kernel::Amount::Is(($margin.before + $margin.radius) as u64);
        const CELLS: plimsoll_gen::kernel::Amount = {
            use plimsoll_gen::kernel::Amount::{Is, Of, Product, Sum};
            Product(&[Is(4), Of("pitch"), Of("rows"), Sum(&[Of("nz"), AROUND])])
        };
        const PLANES: plimsoll_gen::kernel::Amount = {
            use plimsoll_gen::kernel::Amount::{Is, Less, Of, Over, Product};
            Less(&Over(&Is(1 << 32), &Product(&[Of("pitch"), Of("rows")])), &AROUND)
        };
    };
}

pub(crate) use field_amounts;

/// A kernel with one block of 128 threads per grid row, and one plane of blocks per grid plane.
pub(crate) fn over_rows(
    source: &'static Source,
    name: &str,
    entry: &str,
    parameters: &'static [Parameter],
) -> KernelDesc {
    KernelDesc {
        entry: entry.to_owned(),
        parameters,
        grid: Grid::Resident { blocks: 1 },
        looping: true,
        ..KernelDesc::new(source, name.to_owned(), 128)
    }
}

/// Padding around the cells of a field: a difference reaches `radius` cells to each side, and blocks are whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Margin {
    /// Cells to each side, and planes after the last.
    pub radius: u32,
    /// Planes before the first.
    pub before: u32,
    /// Columns and rows of a block; arrays have room for whole multiples of them.
    pub block: [u32; 2],
}

/// Row lengths are multiples of this many floats (128 bytes).
const LINE: u32 = 32;

/// Memory layout of a field: rows of `pitch` floats, planes of `rows` rows. Gaps are zero, the edge of the model: the gap after
/// one row is also the gap before the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Cells in x, y, z.
    pub cells: [u32; 3],
    /// Floats from one row to the next.
    pub pitch: u32,
    /// Rows from one plane to the next.
    pub rows: u32,
    margin: Margin,
}

impl Shape {
    /// A grid of `cells` cells in x, y, z. `None` if 32-bit indices don't suffice or there are no cells.
    #[must_use]
    pub fn new(cells: [u32; 3], margin: Margin) -> Option<Self> {
        let padded = |axis: usize| cells[axis].checked_next_multiple_of(margin.block[axis])?.checked_add(margin.radius);
        let pitch = padded(0)?.checked_next_multiple_of(LINE)?;
        let shape = Self { cells, pitch, rows: padded(1)?, margin };
        let planes = u64::from(cells[2]) + u64::from(margin.before + margin.radius);
        let floats = u64::from(pitch).checked_mul(shape.rows.into())?.checked_mul(planes)?;
        (floats <= u64::from(u32::MAX) && !cells.contains(&0)).then_some(shape)
    }

    /// Floats of a field with all its gaps.
    #[must_use]
    pub fn floats(&self) -> u64 {
        let planes = self.cells[2] + self.margin.before + self.margin.radius;
        u64::from(self.pitch) * u64::from(self.rows) * u64::from(planes)
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

    /// The index of a cell, in floats.
    #[must_use]
    pub fn index_of(&self, [x, y, z]: [u32; 3]) -> u64 {
        let plane = u64::from(z + self.margin.before);
        (plane * u64::from(self.rows) + u64::from(y)) * u64::from(self.pitch) + u64::from(x)
    }

    /// Removes the gaps from a field; x varies fastest.
    #[must_use]
    pub fn packed<T: Copy>(&self, field: &[T]) -> Vec<T> {
        let row = |first: usize| field[first..first + self.cells[0] as usize].iter().copied();
        self.row_starts().flat_map(row).collect()
    }

    /// Adds the gaps to a field, filled with zeros.
    #[must_use]
    pub fn padded<T: Copy + Default>(&self, field: &[T]) -> Vec<T> {
        let mut all = vec![T::default(); self.floats() as usize];
        let nx = self.cells[0] as usize;
        for (first, row) in self.row_starts().zip(field.chunks_exact(nx)) {
            all[first..first + nx].copy_from_slice(row);
        }
        all
    }

    /// The index of each row's first cell.
    fn row_starts(&self) -> impl Iterator<Item = usize> {
        let [_, ny, nz] = self.cells;
        (0..nz).flat_map(move |z| (0..ny).map(move |y| self.index_of([0, y, z]) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{rtm::kernels as rtm, tti::kernels as tti};

    #[test]
    fn every_cell_that_a_block_reads_is_inside_the_array() {
        for margin in [rtm::MARGIN, tti::MARGIN] {
            let ([bx, by], radius) = (margin.block, margin.radius);
            for cells in [[1, 1, 1], [5, 3, 2], [33, 31, 9], [128, 32, 8], [129, 49, 4], [512, 512, 16]] {
                let shape = Shape::new(cells, margin).unwrap();
                let [x, y, z] = cells;
                let (right, below) = (x.next_multiple_of(bx) - 1, y.next_multiple_of(by) - 1);
                assert!(shape.index_of([0, 0, 0]) >= u64::from(radius * shape.pitch + radius));
                assert!(shape.index_of([right, below, z - 1 + radius]) < shape.floats(), "{cells:?}");
                assert!(right + radius < shape.pitch && below + radius < shape.rows, "{cells:?}");
                assert_eq!(shape.index_of([0, 1, 0]) % 32, 0);
            }
        }
    }

    #[test]
    fn grids_with_no_cells_or_too_many_are_none() {
        for cells in [[0, 4, 4], [2048, 2048, 1024], [u32::MAX, 1, 1]] {
            assert_eq!(Shape::new(cells, rtm::MARGIN), None);
        }
        assert!(Shape::new([512, 512, 768], rtm::MARGIN).is_some());
    }

    #[test]
    fn packing_undoes_padding() {
        let shape = Shape::new([5, 3, 2], rtm::MARGIN).unwrap();
        let field: Vec<u32> = (0..30).collect();
        let padded = shape.padded(&field);
        assert_eq!(shape.packed(&padded), field);
        assert_eq!(padded.iter().filter(|x| **x != 0).count(), 29);
    }
}
