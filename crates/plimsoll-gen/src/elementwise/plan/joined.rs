//! Tiles of whole rows of the outputs that follow each other without gaps: such a tile is one piece of the outputs' memory, and is written in aligned
//! vectors whatever the length of the rows.

use super::fold::Tiled;
use super::shear::is_along_rows;
use super::tensors::Tensor;
use super::tile_size::widest_vector;
use crate::elementwise::spec::Inner;

/// Bytes of transposed inputs in a tile, if that many rows have lines of [`LINE`] bytes; else as many rows as have that, up to [`MOST`] bytes, unless lines
/// would be too short.
const SHARED: u32 = 10 << 10;
const LINE: u32 = 128;
const MOST: u32 = 32 << 10;
/// Fewest bytes and elements of a line of a transposed input in a tile. On an H200, lines of 16 f32 took 63.6 µs, 32 of them 55.0, and tiles of 64 × 64
/// single elements 60.1.
const LEAST_LINE: u32 = 64;
const LEAST_ROWS: u32 = 32;
/// Blocks per SM for which tiles are made smaller, and fewest blocks per SM.
const BLOCKS: u64 = 4;
const LEAST_BLOCKS: u64 = 2;
/// How many times as long as vectors that end where rows do vectors must be to gain. On an H200, twice as long ones took up to 8 % longer.
const GAIN: u32 = 4;
/// Rows are a multiple of this, and vectors have at most as many elements.
const STEP: u32 = 16;
/// Most lines that a warp loads pieces of at once.
const MOST_LINES: u32 = 16;
/// Bytes of a bank of shared memory.
const BANK: u32 = 4;

/// Rows, columns, and elements of a vector of the outputs of a tile; `None` if a tensor that is contiguous along the rows has gaps between them, or
/// if its vectors wouldn't be much longer than those of `aligned` elements, which end where rows do. `most`: most elements of a vector. Without
/// `multiprocessors`, there may be any number of tiles.
pub fn sides(
    tiled: &Tiled,
    (most, aligned): (u32, u32),
    most_shared: u32,
    multiprocessors: Option<u32>,
) -> Option<(u32, u32, u32)> {
    let last = tiled.extents.len() - 1;
    let along = tiled.extents[last - 1];
    let length = u32::try_from(tiled.extents[last]).ok()?;
    let joins = |tensor: &&Tensor| tensor.strides[last] == 1 && tensor.strides[last - 1] == i64::from(length);
    let own = || tiled.all.iter().filter(|tensor| tensor.used && !tensor.uniform && is_along_rows(tensor));
    if tiled.folds != [0; 2] || !own().all(|tensor| joins(&tensor)) {
        return None;
    }
    let fits = |lanes: u32| {
        own().all(|tensor| {
            let mut batches = tensor.strides[..last - 1].iter().zip(&tiled.extents).filter(|(_, extent)| **extent > 1);
            tensor.phase.is_multiple_of(lanes * tensor.bytes)
                && batches.all(|(stride, _)| stride.unsigned_abs().is_multiple_of(lanes.into()))
        })
    };
    let lanes = widest_vector(most.min(STEP), fits);
    let transposed = || {
        tiled.all.iter().zip(&tiled.transposed).filter(|(_, transposed)| **transposed).map(|(tensor, _)| tensor.bytes)
    };
    let (bytes, narrowest) = (transposed().sum::<u32>(), transposed().min()?);
    let row = length.checked_mul(bytes)?;
    let with_lines = |bytes: u32| (bytes / narrowest).max(LEAST_ROWS).next_multiple_of(STEP);
    let (least, suitable) = (with_lines(LEAST_LINE), with_lines(LINE));
    let fitting = |bytes: u32| bytes / row / STEP * STEP;
    let wanted = fitting(SHARED).max(suitable.min(fitting(MOST))).max(least);
    let batches = tiled.extents[..last - 1].iter().copied();
    let blocks = |rows: u32| batches.clone().fold(along.div_ceil(rows.into()), u64::saturating_mul);
    let mut halves = std::iter::successors(Some(wanted), |rows| Some((rows / 2).next_multiple_of(STEP)));
    let multiprocessors = u64::from(multiprocessors.unwrap_or(0));
    let suits = |rows: &u32| *rows <= least || blocks(*rows) >= BLOCKS * multiprocessors;
    let most_rows = halves.find(suits)?.max(least);
    // Evenly cut.
    let rows = u32::try_from(along.div_ceil(along.div_ceil(most_rows.into()))).ok()?.next_multiple_of(STEP);
    let filled = u64::from(rows) <= along + along / 8 && rows >= least;
    let enough = blocks(rows) >= LEAST_BLOCKS * multiprocessors;
    let gains = lanes >= GAIN * aligned && filled && enough;
    (gains && rows.checked_mul(row)? <= most_shared).then_some((rows, length, lanes))
}

/// How many lines a warp loads pieces of at once, in vectors of `line` elements: `lines` of passage.h. The threads then store to different banks.
pub fn lines_at_once(bytes: u32, columns: u32, line: u32) -> u32 {
    let apart = line * columns * bytes;
    let most = columns.min(MOST_LINES);
    let doubled = |lines: &u32| (2 * lines <= most && apart.is_multiple_of(2 * BANK * lines)).then_some(2 * lines);
    std::iter::successors(Some(1), doubled).last().unwrap_or(1)
}

/// How an input or output is accessed in such tiles.
pub fn inner(tensor: &Tensor) -> Inner {
    match tensor.strides.last() {
        _ if is_along_rows(tensor) => Inner::Vector,
        Some(1) => Inner::Unit,
        Some(0) => Inner::Splat,
        _ => Inner::Any,
    }
}
