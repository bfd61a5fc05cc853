//! The dimensions of transposed tiles. A tile has one side along the dimension in which transposed inputs are contiguous, and one along that
//! of the outputs. If such a dimension is short, its lines are, so the next one in memory is folded into it: the side then counts the elements
//! of both.

use super::Tensors;
use super::shear::splits_sectors;
use super::tensors::Tensor;
use super::tile_size::TileSize;

/// Most bytes of a line of the outputs for which folding gains. On an H200, f32 outputs with lines of 2, 8, 16 and 24 elements took 67.6, 20.1,
/// 17.8 and 17.7 µs, and folded 17.4, 17.3, 17.2 and 17.8.
const SHORT_OUTPUT: u64 = 64;
/// Most elements of a line of transposed inputs for which folding gains, if rows of the outputs begin at sectors and consist of whole vectors. On an
/// H200, bf16 inputs with lines of 12, 48, 108, 200 and 300 elements took 105.8, 70.1, 65.4, 63.0 and 62.4 µs, and folded 60.0, 61.8, 62.1, 62.4
/// and 61.7; f32 ones with lines of 12, 48 and 200 took 98.2, 76.5 and 73.5, and folded 76.4, 72.6 and 70.5.
const MOST_OF_INPUT: u64 = 255;
/// Most elements of a line for which folding gains in sheared tiles. Bf16 inputs with lines of 16, 31 and 100 elements took 72.3, 73.7 and 69.2 µs,
/// and folded 63.1, 68.3 and 70.2; f32 ones 82.1, 77.8 and 77.9, and folded 75.4, 76.5 and 78.5; bytes with lines of 31 and 48 took 72.7
/// and 55.3, and folded 69.3 and 62.5.
const MOST_IN_SHEARED: u64 = 31;
/// Most elements and most bytes of a line for which folding gains in other tiles. Bytes with lines of 15 elements took 27.4 µs, and folded 53.5; f32
/// inputs with lines of 2, 8 and 16 elements took 27.4, 18.2 and 17.7, and folded 16.9, 18.1 and 17.7.
const MOST_IN_OTHERS: u64 = 8;
const SHORT_INPUT: u64 = 32;
/// Bytes of a whole vector of the widest tensor, and most elements.
const WHOLE: u32 = 16;
const MOST_LANES: u32 = 8;
/// Most bytes of a line of the outputs that has parts of sectors: one with 31 elements took 22.9 µs, and folded 20.5.
const SHORT_BETWEEN_SECTORS: u64 = 128;
/// Bytes of a sector of L2.
const SECTOR: u64 = 32;

/// Tensors by the dimensions of tiles: slower ones, the rows, the columns.
pub struct Tiled {
    /// Extents along them.
    pub extents: Vec<u64>,
    /// The tensors, with strides that stand for those along folded dimensions: multiples of the same powers of two, and 1 only if the tensor is
    /// contiguous along both. Offsets follow from `strides`.
    pub all: Vec<Tensor>,
    /// Of each tensor, whether it is contiguous along rows.
    pub transposed: Vec<bool>,
    /// Of each tensor, the strides; of a folded dimension that of the slower one, and those of the faster ones last.
    pub strides: Vec<Vec<i64>>,
    /// Elements along the faster dimension of folded rows and columns, or 0.
    pub folds: [u32; 2],
}

/// Two dimensions in one.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Fold {
    slower: usize,
    faster: usize,
}

impl Tiled {
    /// Tiles along `dimension`, in which transposed inputs are contiguous, and the last one. Lines of inputs are folded up to `longest` elements.
    pub fn new(tensors: &Tensors, dimension: usize, longest: u64) -> Self {
        let last = tensors.extents.len() - 1;
        let [rows, columns] = folds(tensors, dimension, longest);
        let sides = [rows, columns].into_iter().flatten();
        let sides: Vec<usize> = sides.flat_map(|fold| [fold.slower, fold.faster]).chain([dimension, last]).collect();
        let batches: Vec<usize> = (0..last).filter(|d| !sides.contains(d)).collect();
        let extent = |fold: Option<Fold>, faster: usize| {
            let slower = fold.map_or(1, |fold| tensors.extents[fold.slower]);
            slower * tensors.extents[faster]
        };
        let mut extents: Vec<u64> = batches.iter().map(|d| tensors.extents[*d]).collect();
        extents.extend([extent(rows, dimension), extent(columns, last)]);
        let transposed: Vec<bool> = tensors.all.iter().map(|tensor| is_transposed(tensor, dimension)).collect();
        let own = |tensor: &Tensor| {
            let slower = |fold: Option<Fold>, only| tensor.strides[fold.map_or(only, |fold| fold.slower)];
            let faster = [rows, columns].into_iter().flatten().map(|fold| tensor.strides[fold.faster]);
            let batches = batches.iter().map(|d| tensor.strides[*d]);
            batches.chain([slower(rows, dimension), slower(columns, last)]).chain(faster).collect()
        };
        let equivalent = |tensor: &Tensor| {
            let of = |fold: Option<Fold>, only| fold.map_or(tensor.strides[only], |fold| fold.stride(tensor, tensors));
            let batches = batches.iter().map(|d| tensor.strides[*d]);
            let strides = batches.chain([of(rows, dimension), of(columns, last)]).collect();
            Tensor { strides, linear: false, ..tensor.clone() }
        };
        let elements = |fold: Option<Fold>| fold.map_or(0, |fold| tensors.extents[fold.faster] as u32);
        Self {
            extents,
            all: tensors.all.iter().map(equivalent).collect(),
            transposed,
            strides: tensors.all.iter().map(own).collect(),
            folds: [elements(rows), elements(columns)],
        }
    }
}

impl Fold {
    /// A stride with the alignment of both strides of a tensor; 1 only if the tensor is contiguous along both.
    fn stride(self, tensor: &Tensor, tensors: &Tensors) -> i64 {
        let (slower, faster) = (tensor.strides[self.slower], tensor.strides[self.faster]);
        match common_divisor(slower, faster) {
            _ if follows(tensor, self, tensors) => faster,
            // 1 would mean contiguous; 3 allows no vectors either.
            1 => 3,
            divisor => divisor,
        }
    }
}

fn common_divisor(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.saturating_abs(), b.saturating_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Whether a tensor's elements along the slower dimension follow those along the faster one.
fn follows(tensor: &Tensor, fold: Fold, tensors: &Tensors) -> bool {
    let extent = i128::from(tensors.extents[fold.faster]);
    i128::from(tensor.strides[fold.slower]) == extent * i128::from(tensor.strides[fold.faster])
}

/// Whether a tensor is contiguous along a dimension, but not along the last one.
pub(super) fn is_transposed(tensor: &Tensor, dimension: usize) -> bool {
    let moves = tensor.used && !tensor.output && !tensor.uniform;
    moves && tensor.strides.last().is_some_and(|stride| stride.unsigned_abs() > 1) && tensor.strides[dimension] == 1
}

/// Most elements of a line of transposed inputs for which folding gains, where tiles without folded lines would be of this size; `None` for tiles
/// that are neither sheared nor have whole vectors.
pub fn longest_line(tensors: &Tensors, dimension: usize, unfolded: Option<&TileSize>) -> u64 {
    let moving = || tensors.all.iter().filter(|tensor| tensor.used && !tensor.uniform);
    let widest = moving().map(|tensor| tensor.bytes).max().unwrap_or(1);
    let split = moving().any(|tensor| tensor.output && splits_sectors(tensor, &tensors.extents));
    let narrowest = moving().filter(|tensor| is_transposed(tensor, dimension)).map(|tensor| tensor.bytes).min();
    match unfolded {
        Some(tile) if tile.dense => 0,
        Some(tile) if tile.shear > 0 => MOST_IN_SHEARED,
        Some(tile) if !split && tile.lanes >= (WHOLE / widest).min(MOST_LANES) => MOST_OF_INPUT,
        _ => MOST_IN_OTHERS.min(SHORT_INPUT / u64::from(narrowest.unwrap_or(1))),
    }
}

/// What is folded into rows and into columns.
fn folds(tensors: &Tensors, dimension: usize, longest: u64) -> [Option<Fold>; 2] {
    let last = tensors.extents.len() - 1;
    let transposed = || tensors.all.iter().filter(|tensor| is_transposed(tensor, dimension));
    let outputs = || tensors.all.iter().filter(|tensor| tensor.output);
    let of_outputs =
        outputs().map(|tensor| tensor.bytes).min().map(|bytes| tensors.extents[last].saturating_mul(bytes.into()));
    let is_short = |bytes: &u64| {
        let between = !bytes.is_multiple_of(SECTOR);
        *bytes <= if between { SHORT_BETWEEN_SECTORS } else { SHORT_OUTPUT }
    };
    let next = |faster: usize, other: usize, all: &dyn Fn(Fold) -> bool| {
        let slower = (0..last).filter(|&d| d != faster && d != other && tensors.extents[d] > 1);
        slower.map(|slower| Fold { slower, faster }).find(|fold| tensors.extents[faster] > 1 && all(*fold))
    };
    let rows = (tensors.extents[dimension] <= longest)
        .then(|| next(dimension, last, &|fold| transposed().all(|tensor| follows(tensor, fold, tensors))))
        .flatten();
    let columns = of_outputs
        .filter(is_short)
        .and_then(|_| next(last, dimension, &|fold| outputs().all(|tensor| follows(tensor, fold, tensors))));
    match (rows, columns) {
        // One dimension can be folded once: into the shorter side.
        (Some(by_rows), Some(by_columns)) if by_rows.slower == by_columns.slower => {
            let shorter = tensors.extents[dimension] <= tensors.extents[last];
            if shorter { [rows, None] } else { [None, columns] }
        }
        both => both.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(strides: &[i64], output: bool) -> Tensor {
        let strides = strides.to_vec();
        Tensor { bytes: 4, phase: 0, used: true, output, uniform: false, linear: false, strides }
    }

    /// The folds and the stand-ins of the first tensor's strides, for tiles along dimension 0; the last tensor is the output.
    fn tiled(extents: &[u64], tensors: &[&[i64]]) -> ([u32; 2], Vec<i64>) {
        let last = tensors.len() - 1;
        let all = tensors.iter().enumerate().map(|(place, strides)| tensor(strides, place == last)).collect();
        let tiled = Tiled::new(&Tensors { all, extents: extents.to_vec(), elements: extents.iter().product() }, 0, 8);
        (tiled.folds, tiled.all[0].strides.clone())
    }

    #[test]
    fn short_sides_are_folded_with_the_dimension_that_continues_them() {
        assert_eq!(tiled(&[100, 30, 8], &[&[1, 100, 3000], &[240, 8, 1]]), ([0, 8], vec![1, 100]));
        assert_eq!(tiled(&[8, 30, 100], &[&[1, 8, 240], &[3000, 100, 1]]), ([8, 0], vec![1, 240]));
        // Both sides are short: the shorter one is folded.
        assert_eq!(tiled(&[8, 30, 4], &[&[1, 8, 240], &[120, 4, 1]]).0, [0, 4]);
        assert_eq!(tiled(&[4, 30, 8], &[&[1, 4, 120], &[240, 8, 1]]).0, [4, 0]);
        // Long ones; outputs and inputs with gaps between lines; two transposed inputs, one with gaps.
        assert_eq!(tiled(&[100, 30, 40], &[&[1, 100, 3000], &[1200, 40, 1]]).0, [0, 0]);
        assert_eq!(tiled(&[100, 30, 8], &[&[1, 100, 3000], &[270, 9, 1]]).0, [0, 0]);
        assert_eq!(tiled(&[8, 30, 100], &[&[1, 9, 270], &[3000, 100, 1]]).0, [0, 0]);
        assert_eq!(tiled(&[8, 30, 100], &[&[1, 8, 240], &[1, 9, 270], &[3000, 100, 1]]).0, [0, 0]);
        // Nothing between two extents of 1.
        assert_eq!(tiled(&[100, 1, 8], &[&[1, 100, 100], &[8, 8, 1]]).0, [0, 0]);
    }

    #[test]
    fn strides_of_folded_dimensions_have_the_alignment_of_both() {
        let columns = |strides: &[i64]| tiled(&[100, 30, 8], &[strides, &[240, 8, 1]]).1[1];
        assert_eq!(columns(&[1, 100, 3002]), 2);
        assert_eq!(columns(&[1, 101, 3032]), 3);
        assert_eq!(columns(&[1, -104, 3120]), 104);
        assert_eq!(columns(&[240, 8, 1]), 1);
        assert_eq!(columns(&[240, 0, 1]), 3);
        assert_eq!(columns(&[240, 1, 0]), 3);
        assert_eq!(columns(&[240, 0, 0]), 0);
    }
}
