//! Vectors of a thread in the same columns of several rows: what all rows share is loaded once for them, and what depends on it alone is
//! computed once. That gains where arithmetic takes about as long as memory. Where memory decides it costs a little, because a block then
//! has as many bytes of several distant rows.

use plimsoll_expr::Graph;

use super::Device;
use super::shape::{Case, most_elements};
use super::shared::Shared;
use super::tensors::{Tensor, Tensors};
use crate::elementwise::spec::Tier;

/// Rows that a thread may have vectors of.
const ROWS: [u32; 3] = [2, 4, 8];
/// Threads of a block: any number that fills an SM.
const THREADS: u32 = 256;
/// Least gain by the estimate, and least gain of twice as many rows. On an H200, a bf16 matrix that was normalised by columns, estimated to gain
/// 4 %, took 134.9 µs and with two rows 124.6; `gelu(x)*y + x` of a row of f16 and a column 105 µs, with two rows 66 and with four 53. With an
/// estimate of 3 %, `silu(w)*x` of bf16 took 26.0 µs and with two rows 26.0 to 26.6. `silu(x)*y` of a row of bf16 and a column took 175 µs,
/// with two rows 148, and with four 153, though 4 % less were estimated.
const LEAST_GAIN: f64 = 0.033;
const LEAST_FURTHER: f64 = 0.05;
/// Least gain where rows aren't whole lines of [`LINE`] bytes, whose parts then belong to several warps: normalised bf16 rows of 264 took 11.5 µs
/// and with two rows 11.8.
const LEAST_BETWEEN_LINES: f64 = 0.1;
const LINE: u64 = 128;

/// Most rows of a tensor that are left over, as a share of all: their elements are processed one at a time.
const MOST_LEFT: u64 = 32;

/// Whether all rows of an input are the same.
pub fn has_same_rows(tensor: &Tensor, extents: &[u64]) -> bool {
    let (_, slower) = tensor.strides.split_last().unwrap_or((&0, &[]));
    let same = slower.iter().zip(extents).all(|(stride, &extent)| *stride == 0 || extent == 1);
    tensor.used && !tensor.output && !tensor.uniform && same
}

fn columns(tensors: &Tensors) -> u64 {
    tensors.extents.last().copied().unwrap_or(1).max(1)
}

/// Whether threads can have so many rows, and few are left over.
fn divides(tensors: &Tensors, rows: u32) -> bool {
    let all = tensors.elements / columns(tensors);
    let rows = u64::from(rows);
    all >= rows && all % rows * MOST_LEFT <= all
}

/// Whether every thread of the device then has work.
fn fills(tensors: &Tensors, device: &Device, threads: u32, lanes: u32, rows: u32) -> bool {
    tensors.elements >= device.wave(threads) * u64::from(threads * lanes) * u64::from(rows)
}

/// Whether threads should have vectors of several rows.
pub fn gains(graph: &Graph, tensors: &Tensors, device: &Device, tier: Tier, lanes: u32) -> bool {
    let least = ROWS[0];
    columns(tensors).is_multiple_of(lanes.into())
        && divides(tensors, least)
        && fills(tensors, device, THREADS, lanes, least)
        && estimate(graph, tensors, tier, lanes).is_some_and(|estimate| gain_of(&estimate, least, 1))
}

/// Vectors per thread that should be in the same columns of as many rows; `None` if they should follow each other. A request is for that many,
/// whether or not they fill the device.
pub fn rows(case: &Case<'_>, lanes: u32) -> Option<u32> {
    let Case { graph, tensors, device, tuning, choose } = case;
    let most = most_elements(graph, tensors) / lanes;
    let is_possible = |rows: u32| (2..=most).contains(&rows) && divides(tensors, rows);
    let candidates: Vec<u32> = match choose.unroll {
        Some(requested) => vec![requested],
        None => ROWS.into_iter().filter(|&rows| fills(tensors, device, tuning.threads, lanes, rows)).collect(),
    };
    let candidates: Vec<u32> = candidates.into_iter().filter(|&rows| is_possible(rows)).collect();
    let estimate = (!candidates.is_empty()).then(|| estimate(graph, tensors, choose.tier, lanes)).flatten()?;
    let further = |best, rows| if gain_of(&estimate, rows, best) { rows } else { best };
    let best = candidates.into_iter().fold(1, further);
    (best > 1).then_some(best)
}

/// What an element takes, and the least gain of two rows or more; `None` if no rows are the same, or several of them can't gain.
fn estimate(graph: &Graph, tensors: &Tensors, tier: Tier, lanes: u32) -> Option<(Shared, f64)> {
    let same = |tensor: &Tensor| has_same_rows(tensor, &tensors.extents);
    // Compilers compute most functions of f64 for each row again.
    let wide = tensors.moving().any(|tensor| tensor.bytes > 4);
    if tensors.extents.len() < 2 || wide || !tensors.all.iter().any(same) {
        return None;
    }
    let line = |tensor: &Tensor| columns(tensors).wrapping_mul(tensor.bytes.into()).is_multiple_of(LINE);
    let lines = tensors.moving().filter(|tensor| !same(tensor)).all(line);
    let least = if lines { LEAST_GAIN } else { LEAST_BETWEEN_LINES };
    Some((Shared::between_rows(graph, tensors, tier, lanes, same), least))
}

/// Whether so many rows gain enough against fewer.
fn gain_of((shared, least): &(Shared, f64), rows: u32, from: u32) -> bool {
    shared.gain(rows, from) > if from == 1 { *least } else { LEAST_FURTHER }
}

#[cfg(test)]
mod tests {
    use super::super::Choose;
    use super::super::tests::planned;

    /// Rows in which a thread has the same columns, for an expression of these inputs of one type, the first a matrix or a column `x`, the others
    /// rows.
    fn rows(text: &str, shape: [u64; 2], is_column: bool, choose: &Choose) -> u32 {
        let whole = [shape[1] as i64, 1];
        let of_x = if is_column { [1, 0] } else { whole };
        let inputs = text.lines().next().unwrap_or("").matches(':').count();
        let mut tensors: Vec<(&[i64], u64)> = vec![(&[0, 1], 0); inputs];
        tensors[0] = (&of_x, 0);
        tensors.push((&whole, 0));
        let spec = planned(text, &shape, &tensors, 90, choose).unwrap().spec;
        if spec.same_rows.is_empty() { 1 } else { spec.unroll }
    }

    #[test]
    fn rows_are_stacked_as_far_as_arithmetic_by_columns_takes_longer_than_memory() {
        let free = |text: &str, shape, is_column| rows(text, shape, is_column, &Choose::default());
        const NORM: &str = "(x - u)*rsqrt(v + 0.1)*w + b";
        let norm =
            |dtype| format!("in x: {dtype}, u: {dtype}, v: {dtype}, w: {dtype}, b: {dtype}\nd: {dtype} = {NORM}");
        // Memory decides.
        assert_eq!(free("in x: bf16, w: bf16\nd: bf16 = x*w", [65_536, 2048], false), 1);
        assert_eq!(free("in x: bf16, w: bf16\nd: bf16 = silu(w)*x", [65_536, 2048], false), 1);
        assert_eq!(free(&norm("f32"), [65_536, 2048], false), 1);
        assert_eq!(free(&norm("bf16"), [65_536, 2048], false), 2);
        // A column moves less than a matrix.
        assert_eq!(free("in x: bf16, w: bf16\nd: bf16 = silu(w)*x", [1_000_000, 256], true), 2);
        assert!(free("in x: f16, w: f16\nd: f16 = gelu(w)*x + w", [150_003, 768], true) >= 4);
        // Functions of the matrix aren't computed less often.
        assert_eq!(free("in x: f32, w: f32\nd: f32 = erf(erf(x))*w", [65_536, 2048], false), 1);
        // Rows that are left over, or too few.
        let few = |rows| free("in x: bf16, w: bf16\nd: bf16 = silu(w)*x", [rows, 20_000_000], true);
        assert_eq!([1, 3, 7, 64].map(few), [1, 1, 1, 2]);
        // Threads without work.
        assert_eq!(free("in x: bf16, w: bf16\nd: bf16 = silu(w)*x", [1000, 256], true), 1);
        // A request decides how many, but not whether.
        let four = Choose { unroll: Some(4), ..Choose::default() };
        assert_eq!(rows("in x: bf16, w: bf16\nd: bf16 = silu(w)*x", [1_000_000, 256], true, &four), 4);
        assert_eq!(rows("in x: bf16, w: bf16\nd: bf16 = x*w", [65_536, 2048], false, &four), 1);
    }
}
