//! Transposed inputs with short lines that follow each other without gaps: a tile of whole lines is one piece of memory.

use super::tensors::Tensor;
use super::tile_size::{line, widest_vector};

/// Most bytes of a vector.
const ACCESS: u32 = 16;
/// How many times as long as the vectors of lines those of a piece of memory are, if lines have vectors at all. With twice as long ones,
/// lines of 52 bf16 elements took an H200 0.5 % longer. Lines shorter than the outputs' vectors gain anyway, because other tiles have rows
/// without elements: 4 bf16 elements took 8.4 µs instead of 10.2. But f32 ones of two took 10.2 µs instead of 9.8.
const GAIN: u32 = 4;
/// Lines that neighbouring threads process at once: `lines_at_once` of transpose.h, for elements of up to 4 bytes.
pub const LINES: u32 = 4;

/// Elements of a vector in which a tile of an input, its dimensions reordered, is loaded as one piece of memory; `None` if vectors of its lines
/// aren't much shorter. The tile: rows, columns, and elements of the outputs' vectors.
pub fn vector(tensor: &Tensor, extents: &[u64], (rows, columns, lanes): (u32, u32, u32), widest: u32) -> Option<u32> {
    let last = extents.len() - 1;
    let length = extents[last - 1];
    if u64::from(rows) != length || u64::try_from(tensor.strides[last]) != Ok(length) {
        return None;
    }
    let fits = |vector: u32| {
        let whole = |elements: u64| elements.is_multiple_of(vector.into());
        let mut batches = tensor.strides[..last - 1].iter().zip(extents).filter(|(_, extent)| **extent > 1);
        tensor.phase.is_multiple_of(vector * tensor.bytes)
            && whole(length * u64::from(columns))
            && whole(length.wrapping_mul(extents[last]))
            && batches.all(|(stride, _)| whole(stride.unsigned_abs()))
    };
    let vector = widest_vector(ACCESS.min(widest) / tensor.bytes, fits);
    let line = line(tensor, extents, (rows, lanes), widest);
    let short = length < lanes.into() && tensor.bytes < 4;
    let gains = line == 1 || vector >= GAIN * line || short;
    (vector > line && gains).then_some(vector)
}

/// Bytes of shared memory of such a tile: `DenseLines` of dense_lines.h.
pub fn shared_bytes(bytes: u32, (rows, columns, lanes): (u32, u32, u32)) -> u64 {
    let group = lanes.max(ACCESS / bytes);
    u64::from(columns.div_ceil(group)) * (u64::from(group) * u64::from(rows) * u64::from(bytes) + u64::from(ACCESS))
}
