//! Transposed tensors: tiles pass through shared memory.

use plimsoll_expr::Graph;

use super::coordinates::{Sets, inner, takes_vectors};
use super::division::Divisor;
use super::shape::Shape;
use super::tensors::Tensor;
use super::{Choose, Device, Tensors};
use crate::elementwise::spec::{Form, Stream};

/// Static shared memory per block that every device supports, bytes.
pub const MOST_SHARED: u64 = 48 << 10;
/// Fewest elements along both dimensions for which a tile is worth its barrier.
const LEAST_EXTENT: u64 = 16;
/// Limits on the threads of a transposing block, which has about one thread per square of its tile.
const TRANSPOSE_THREADS: std::ops::RangeInclusive<u32> = 64..=256;

/// The dimension along which transposed inputs are contiguous; `None` if no input is transposed.
pub fn transposed_dimension(tensors: &Tensors) -> Option<usize> {
    let last = tensors.extents.len().checked_sub(1)?;
    let runs_along = |tensor: &Tensor| {
        let strided = tensor.used && !tensor.output && !tensor.uniform && tensor.strides[last].unsigned_abs() > 1;
        strided.then(|| (0..last).find(|&d| tensor.strides[d] == 1 && tensors.extents[d] >= LEAST_EXTENT)).flatten()
    };
    tensors.all.iter().find_map(runs_along)
}

/// Moves a dimension to the second fastest place.
fn reorder(strides: &[i64], dimension: usize) -> Vec<i64> {
    let mut strides = strides.to_vec();
    let stride = strides.remove(dimension);
    strides.insert(strides.len() - 1, stride);
    strides
}

/// Bytes of a vector of the narrowest tensor, unless forced. A thread holds as many vectors as a vector has elements.
fn vector_bytes(narrowest: u32, device: &Device, choose: &Choose) -> u32 {
    choose.vector.unwrap_or_else(|| device.target.widest_access().min(16).min(8 * narrowest))
}

/// Fewest elements to which a side is shortened for more blocks: rows of tiles then still fill whole sectors.
const LEAST_SIDE: u32 = 32;
/// Blocks per SM for which tiles are made smaller.
const BLOCKS: u64 = 4;

/// The side of smaller tiles for narrow vectors, whose threads would have too many of them, and for tensors that few tiles cover. With
/// sides of 128, a transposed f16 matrix of 351 × 776 had 21 blocks whose threads read 64 elements, and took an H200 ten times as long
/// as a flat one.
fn smaller(side: u32, lanes: u32, narrowest: u32, extents: &[u64], device: &Device) -> u32 {
    let most = LEAST_SIDE * lanes * if narrowest == 1 { 2 } else { 1 };
    let least = LEAST_SIDE.max(4 * lanes);
    let mut side = side.min(most.next_power_of_two().max(least));
    let last = extents.len() - 1;
    let blocks = |side: u32| {
        let tiles = extents[last - 1..].iter().map(|extent| extent.div_ceil(u64::from(side)));
        extents[..last - 1].iter().copied().chain(tiles).fold(1_u64, u64::saturating_mul)
    };
    while side > least && blocks(side) < BLOCKS * u64::from(device.multiprocessors) {
        side /= 2;
    }
    side
}

/// Elements along each side of a tile: rows of 256 bytes of the narrowest tensor, or the forced number if it is possible, within
/// the limits of shared memory.
fn side(narrowest: u32, vector: u32, transposed: &[&Tensor], choose: &Choose) -> u32 {
    let bytes: u32 = transposed.iter().map(|tensor| tensor.bytes).sum();
    let fits = |side: u32| u64::from(bytes) * u64::from(side) * u64::from(side) <= MOST_SHARED - 1024;
    let forced = choose.unroll.map(|unroll| unroll * (vector / narrowest).max(1));
    if let Some(side) = forced.filter(|side| side.is_power_of_two() && (16..=128).contains(side) && fits(*side)) {
        return side;
    }
    let mut side = (256 / narrowest).clamp(32, 128);
    while side > 16 && !fits(side) {
        side /= 2;
    }
    side
}

/// The shape with transposed tiles; `None` if no input is transposed relative to the outputs.
pub fn transpose(graph: &Graph, tensors: &Tensors, device: &Device, choose: &Choose) -> Option<Shape> {
    let dimension = transposed_dimension(tensors)?;
    let last = tensors.extents.len() - 1;
    let outputs_are_rows = tensors.all.iter().filter(|tensor| tensor.output).all(|output| output.strides[last] == 1);
    if graph.depends_on_place() || !outputs_are_rows || tensors.extents[last] < LEAST_EXTENT {
        return None;
    }
    let mut extents = tensors.extents.clone();
    let transposed_extent = extents.remove(dimension);
    extents.insert(last - 1, transposed_extent);
    let reordered =
        |tensor: &Tensor| Tensor { strides: reorder(&tensor.strides, dimension), linear: false, ..tensor.clone() };
    let all: Vec<Tensor> = tensors.all.iter().map(reordered).collect();
    let is_transposed = |tensor: &Tensor| {
        tensor.used && !tensor.output && tensor.strides[last].unsigned_abs() > 1 && tensor.strides[last - 1] == 1
    };
    let transposed: Vec<&Tensor> = all.iter().filter(|tensor| is_transposed(tensor)).collect();
    let vector = vector_bytes(tensors.narrowest(), device, choose);
    let side = side(tensors.narrowest(), vector, &transposed, choose);
    let widest = device.target.widest_access();
    let lanes = lanes(&all, &transposed, &extents, vector, side, widest);
    let side = if choose.unroll.is_some() { side } else { smaller(side, lanes, tensors.narrowest(), &extents, device) };
    let squares = (side / lanes).pow(2).clamp(*TRANSPOSE_THREADS.start(), *TRANSPOSE_THREADS.end());
    let threads = choose.threads.unwrap_or(squares).min(side * side / lanes);
    let mut sets = Sets::new();
    let stream = |tensor: &Tensor, sets: &mut Sets| match tensor {
        tensor if !tensor.used => Stream::Unused,
        tensor if tensor.uniform => Stream::Uniform,
        tensor if is_transposed(tensor) => Stream::Transposed { set: sets.index_of(&tensor.strides) },
        tensor => {
            Stream::Indexed { set: sets.index_of(&tensor.strides), inner: inner(tensor, &extents, lanes, widest) }
        }
    };
    let streams: Vec<Stream> = all.iter().map(|tensor| stream(tensor, &mut sets)).collect();
    let tiles = [extents[last - 1], extents[last]].map(|extent| extent.div_ceil(u64::from(side)));
    let batches = extents[..last - 1].iter();
    let blocks = batches.clone().chain(&tiles).try_fold(1_u64, |product, &extent| product.checked_mul(extent))?;
    if blocks >= 1 << 31 {
        return None;
    }
    let mut words = vec![extents[last - 1], extents[last]];
    for divisor in [&tiles[1], &tiles[0]].into_iter().chain(batches) {
        words.extend(Divisor::small(*divisor).words());
    }
    words.extend(sets.strides.iter().flatten().map(|&stride| stride as u64));
    Some(Shape {
        form: Form::Transpose,
        why: format!(
            "an input is contiguous along dimension {dimension}, the outputs along the last: tiles of {side} × {side}"
        ),
        streams,
        lanes,
        unroll: side / lanes,
        threads,
        rank: extents.len() as u32,
        sets: sets.strides.len() as u32,
        head: false,
        whole_rows: true,
        small: false,
        blocks,
        words,
    })
}

/// The widest vector, in elements, that is possible along both directions.
fn lanes(all: &[Tensor], transposed: &[&Tensor], extents: &[u64], vector: u32, side: u32, widest: u32) -> u32 {
    let last = extents.len() - 1;
    let mut across = extents.to_vec();
    across.swap(last - 1, last);
    let used = || all.iter().filter(|tensor| tensor.used && !tensor.uniform);
    let narrowest = used().map(|tensor| tensor.bytes).min().unwrap_or(1);
    let fits = |lanes: u32| {
        let along = |tensor: &Tensor| {
            let mut strides = tensor.strides.clone();
            strides.swap(last - 1, last);
            takes_vectors(&Tensor { strides, ..tensor.clone() }, &across, lanes, widest)
        };
        let rows = |tensor: &&Tensor| tensor.output || (tensor.strides[last] == 1 && tensor.strides[last - 1] != 0);
        transposed.iter().all(|tensor| along(tensor))
            && used().filter(rows).all(|tensor| takes_vectors(tensor, extents, lanes, widest))
            && extents[last].is_multiple_of(lanes.into())
    };
    let mut lanes = (vector / narrowest).clamp(1, side / 4);
    while lanes > 1 && !fits(lanes) {
        lanes /= 2;
    }
    lanes
}
