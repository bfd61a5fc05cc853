//! Tiles for outputs whose rows don't begin at whole sectors: each row of a tile begins where a sector does.

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
    /// The vectors and the distance for these tensors, their second fastest dimension that of the transposed inputs; `None` if sheared rows
    /// gain nothing. `most`: most elements of a vector; `aligned`: those of vectors that are aligned in every row.
    pub fn new(all: &[Tensor], extents: &[u64], most: u32, aligned: u32) -> Option<Self> {
        let used = || all.iter().filter(|tensor| tensor.used && !tensor.uniform);
        let first = used().find(|tensor| tensor.output)?;
        let widest = used().map(|tensor| tensor.bytes).max()?;
        let mut lanes = most.min(ACCESS / widest).max(1);
        while lanes > 1
            && !used().filter(|tensor| is_along_rows(tensor)).all(|tensor| begins_with(tensor, first, extents, lanes))
        {
            lanes /= 2;
        }
        let narrowest = used().filter(|tensor| tensor.output).map(|output| output.bytes).min()?;
        let elements = (BEGINNING / narrowest).min(MOST_EARLIER).max(lanes);
        let split = used().filter(|tensor| tensor.output).any(|output| splits_sectors(output, extents));
        let long = *extents.last()? >= LEAST_COLUMNS * u64::from(elements);
        (long && (split || lanes > aligned)).then_some(Self { lanes, elements })
    }
}

/// How an input or output is accessed along sheared rows.
pub fn inner(tensor: &Tensor, first: &Tensor, extents: &[u64], lanes: u32) -> Inner {
    match tensor.strides.last() {
        _ if is_along_rows(tensor) && begins_with(tensor, first, extents, lanes) => Inner::Vector,
        Some(1) => Inner::Unit,
        Some(0) => Inner::Splat,
        _ => Inner::Any,
    }
}

/// Contiguous along the outputs' rows, and different in every row.
fn is_along_rows(tensor: &Tensor) -> bool {
    let last = tensor.strides.len() - 1;
    tensor.output || (tensor.strides[last] == 1 && tensor.strides[last - 1] != 0)
}

/// Whether every row of a tensor begins as many elements after a vector of `lanes` elements as the row of the first output.
fn begins_with(tensor: &Tensor, first: &Tensor, extents: &[u64], lanes: u32) -> bool {
    let place = |tensor: &Tensor| i64::from(tensor.phase / tensor.bytes);
    let steps = tensor.strides.iter().zip(&first.strides).zip(extents).rev().skip(1);
    let same = |one: i64, other: i64| one.wrapping_sub(other) % i64::from(lanes) == 0;
    same(place(tensor), place(first))
        && steps.filter(|(_, extent)| **extent > 1).all(|((one, other), _)| same(*one, *other))
}

/// Whether rows of an output begin inside sectors, so that two blocks write parts of the same one.
pub fn splits_sectors(output: &Tensor, extents: &[u64]) -> bool {
    let steps = output.strides.iter().zip(extents).rev().skip(1).filter(|(_, extent)| **extent > 1);
    let mut starts = steps.map(|(&stride, _)| (stride as u64).wrapping_mul(output.bytes.into()));
    !output.phase.is_multiple_of(SECTOR) || starts.any(|start| !start.is_multiple_of(SECTOR.into()))
}
