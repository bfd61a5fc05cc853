//! Tiles for outputs whose rows don't begin at whole sectors: each row of a tile begins where a sector does.

use super::fold::Tiled;
use super::tensors::Tensor;
use crate::elementwise::spec::Inner;

/// Bytes of a sector of L2.
const SECTOR: u32 = 32;
/// Bytes of an access to memory, where rows of tiles begin. Against sectors, this took an H100 1 % less time in f32 and f64; against vectors of
/// 16 bytes, sectors took it 2 to 9 % less.
const BEGINNING: u32 = 64;
/// Most elements by which rows begin earlier, since the tiles of transposed inputs are as much wider.
const MOST_EARLIER: u32 = 32;
/// Bytes of an access to memory or shared memory.
const ACCESS: u32 = 16;
/// Fewest columns of a tensor, in units of the distance by which rows of tiles begin earlier at most: at the ends of rows, elements are
/// accessed one at a time.
const LEAST_COLUMNS: u64 = 32;

/// How the rows of tiles are sheared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shear {
    /// Elements of a vector.
    pub lanes: u32,
    /// Rows begin at multiples of this many elements of the first output, counted from address 0.
    pub elements: u32,
}

impl Shear {
    /// The vectors and the distance for these tensors; `None` if sheared rows gain nothing. `most`: most elements of a vector; `aligned`: those
    /// of vectors that are aligned in every row.
    pub fn new(tiled: &Tiled, most: u32, aligned: u32) -> Option<Self> {
        let used = || tiled.all.iter().filter(|tensor| moves(tensor));
        let widest = used().map(|tensor| tensor.bytes).max()?;
        let mut lanes = most.min(ACCESS / widest).max(1);
        let along_rows: Vec<usize> =
            (0..tiled.all.len()).filter(|&k| moves(&tiled.all[k]) && is_along_rows(&tiled.all[k])).collect();
        while lanes > 1 && !along_rows.iter().all(|&tensor| begins_with(tiled, tensor, lanes)) {
            lanes /= 2;
        }
        let narrowest = used().filter(|tensor| tensor.output).map(|output| output.bytes).min()?;
        let elements = (BEGINNING / narrowest).min(MOST_EARLIER).max(lanes);
        let split = used().filter(|tensor| tensor.output).any(|output| splits_sectors(output, &tiled.extents));
        let long = *tiled.extents.last()? >= LEAST_COLUMNS * u64::from(elements);
        (long && (split || lanes > aligned)).then_some(Self { lanes, elements })
    }
}

/// How an input or output is accessed along sheared rows.
pub fn inner(tiled: &Tiled, tensor: usize, lanes: u32) -> Inner {
    let strides = &tiled.all[tensor].strides;
    match strides.last() {
        _ if is_along_rows(&tiled.all[tensor]) && begins_with(tiled, tensor, lanes) => Inner::Vector,
        Some(1) => Inner::Unit,
        Some(0) => Inner::Splat,
        _ => Inner::Any,
    }
}

fn moves(tensor: &Tensor) -> bool {
    tensor.used && !tensor.uniform
}

/// Contiguous along the outputs' rows, and different in every row.
pub fn is_along_rows(tensor: &Tensor) -> bool {
    let last = tensor.strides.len() - 1;
    tensor.output || (tensor.strides[last] == 1 && tensor.strides[last - 1] != 0)
}

/// Whether every row of a tensor begins as many elements after a vector of `lanes` elements as the row of the first output.
fn begins_with(tiled: &Tiled, tensor: usize, lanes: u32) -> bool {
    let Some(first) = tiled.all.iter().position(|tensor| tensor.output && moves(tensor)) else { return false };
    let place = |tensor: usize| i64::from(tiled.all[tensor].phase / tiled.all[tensor].bytes);
    let same = |one: i64, other: i64| one.wrapping_sub(other) % i64::from(lanes) == 0;
    // Both are contiguous along the columns, and the faster dimension of a fold has several elements.
    let moves_along = |d: usize| tiled.extents.get(d).is_none_or(|extent| *extent > 1);
    let mut steps =
        tiled.strides[tensor].iter().zip(&tiled.strides[first]).enumerate().filter(|(d, _)| moves_along(*d));
    same(place(tensor), place(first)) && steps.all(|(_, (&one, &other))| same(one, other))
}

/// Whether rows of an output begin inside sectors, so that two blocks write parts of the same one.
pub fn splits_sectors(output: &Tensor, extents: &[u64]) -> bool {
    let steps = output.strides.iter().zip(extents).rev().skip(1).filter(|(_, extent)| **extent > 1);
    let mut starts = steps.map(|(&stride, _)| (stride as u64).wrapping_mul(output.bytes.into()));
    !output.phase.is_multiple_of(SECTOR) || starts.any(|start| !start.is_multiple_of(SECTOR.into()))
}
