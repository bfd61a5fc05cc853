//! Tensors that are transposed: tiles that go through shared memory.

use plimsoll_expr::Graph;

use super::coordinates::{Sets, inner, takes_vectors};
use super::division::Divisor;
use super::shape::Shape;
use super::tensors::Tensor;
use super::{Choose, Device, Tensors};
use crate::elementwise::spec::{Form, Stream};

/// Static shared memory that every device has per block, bytes.
pub const MOST_SHARED: u64 = 48 << 10;
/// Fewest elements along both dimensions for which a tile is worth its barrier.
const LEAST_EXTENT: u64 = 16;
/// Threads of a block that transposes: one for each square of a tile between these.
const TRANSPOSE_THREADS: std::ops::RangeInclusive<u32> = 64..=256;

/// The dimension along which inputs that are transposed are runs; `None` where none is.
pub fn turned_dimension(tensors: &Tensors) -> Option<usize> {
    let last = tensors.extents.len().checked_sub(1)?;
    let runs_along = |tensor: &Tensor| {
        let strided = tensor.used && !tensor.output && !tensor.uniform && tensor.strides[last].unsigned_abs() > 1;
        strided.then(|| (0..last).find(|&d| tensor.strides[d] == 1 && tensors.extents[d] >= LEAST_EXTENT)).flatten()
    };
    tensors.all.iter().find_map(runs_along)
}

fn moved(strides: &[i64], dimension: usize) -> Vec<i64> {
    let mut strides = strides.to_vec();
    let taken = strides.remove(dimension);
    strides.insert(strides.len() - 1, taken);
    strides
}

/// Bytes of the narrowest tensor that a thread takes at once, where none are asked for: it holds as many vectors as one has elements.
fn vector_bytes(narrowest: u32, device: &Device, choose: &Choose) -> u32 {
    choose.vector.unwrap_or_else(|| device.target.widest_access().min(16).min(8 * narrowest))
}

/// Elements along each side of a tile: rows of 256 bytes of the narrowest tensor, or as many as are asked for by hand, as far as shared
/// memory allows.
fn side(narrowest: u32, vector: u32, turned: &[&Tensor], choose: &Choose) -> u32 {
    let bytes: u32 = turned.iter().map(|tensor| tensor.bytes).sum();
    let fits = |side: u32| u64::from(bytes) * u64::from(side) * u64::from(side) <= MOST_SHARED - 1024;
    let asked = choose.unroll.map(|unroll| unroll * (vector / narrowest).max(1));
    if let Some(side) = asked.filter(|side| side.is_power_of_two() && (16..=128).contains(side) && fits(*side)) {
        return side;
    }
    let mut side = (256 / narrowest).clamp(32, 128);
    while side > 16 && !fits(side) {
        side /= 2;
    }
    side
}

/// Transposed tiles; `None` where no input is transposed against the outputs.
pub fn transpose(graph: &Graph, tensors: &Tensors, device: &Device, choose: &Choose) -> Option<Shape> {
    let dimension = turned_dimension(tensors)?;
    let last = tensors.extents.len() - 1;
    let outputs_are_rows = tensors.all.iter().filter(|tensor| tensor.output).all(|output| output.strides[last] == 1);
    if graph.depends_on_place() || !outputs_are_rows || tensors.extents[last] < LEAST_EXTENT {
        return None;
    }
    let mut extents = tensors.extents.clone();
    let turned_extent = extents.remove(dimension);
    extents.insert(last - 1, turned_extent);
    let reordered =
        |tensor: &Tensor| Tensor { strides: moved(&tensor.strides, dimension), linear: false, ..tensor.clone() };
    let all: Vec<Tensor> = tensors.all.iter().map(reordered).collect();
    let is_turned = |tensor: &Tensor| {
        tensor.used && !tensor.output && tensor.strides[last].unsigned_abs() > 1 && tensor.strides[last - 1] == 1
    };
    let turned: Vec<&Tensor> = all.iter().filter(|tensor| is_turned(tensor)).collect();
    let vector = vector_bytes(tensors.narrowest(), device, choose);
    let side = side(tensors.narrowest(), vector, &turned, choose);
    let widest = device.target.widest_access();
    let lanes = lanes(&all, &turned, &extents, vector, side, widest);
    let squares = (side / lanes).pow(2).clamp(*TRANSPOSE_THREADS.start(), *TRANSPOSE_THREADS.end());
    let threads = choose.threads.unwrap_or(squares).min(side * side / lanes);
    let mut sets = Sets::new();
    let stream = |tensor: &Tensor, sets: &mut Sets| match tensor {
        tensor if !tensor.used => Stream::Unused,
        tensor if tensor.uniform => Stream::Uniform,
        tensor if is_turned(tensor) => Stream::Transposed { set: sets.of(&tensor.strides) },
        tensor => Stream::Walked { set: sets.of(&tensor.strides), inner: inner(tensor, &extents, lanes, widest) },
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
            "an input is a run along dimension {dimension}, the outputs along the last: tiles of {side} × {side}"
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

/// Elements that both directions can take at once.
fn lanes(all: &[Tensor], turned: &[&Tensor], extents: &[u64], vector: u32, side: u32, widest: u32) -> u32 {
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
        turned.iter().all(|tensor| along(tensor))
            && used().filter(rows).all(|tensor| takes_vectors(tensor, extents, lanes, widest))
            && extents[last].is_multiple_of(lanes.into())
    };
    let mut lanes = (vector / narrowest).clamp(1, side / 4);
    while lanes > 1 && !fits(lanes) {
        lanes /= 2;
    }
    lanes
}
