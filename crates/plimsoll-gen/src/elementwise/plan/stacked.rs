//! Vectors of a thread in the same columns of several rows: what all rows share is loaded once for them, and what depends on it alone is
//! computed once. That gains where arithmetic takes about as long as memory. Where memory decides it costs a little, because a block then
//! has as many bytes of several distant rows.

use plimsoll_expr::Graph;

use super::Device;
use super::cost::{PER_ACCESS, PER_THREAD, accesses_of, coordinates, overlapped};
use super::shape::{Case, most_elements};
use super::tensors::{Tensor, Tensors};
use crate::elementwise::body;
use crate::elementwise::count::{Slots, count, count_where};
use crate::elementwise::spec::Tier;
use crate::elementwise::weight::{BYTES, busiest};

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
        && Estimate::new(graph, tensors, tier, lanes).is_some_and(|estimate| estimate.gains(least, 1))
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
    let estimate = (!candidates.is_empty()).then(|| Estimate::new(graph, tensors, choose.tier, lanes)).flatten()?;
    let further = |best, rows| if estimate.gains(rows, best) { rows } else { best };
    let best = candidates.into_iter().fold(1, further);
    (best > 1).then_some(best)
}

/// What an element takes.
struct Estimate {
    /// Instructions for each element, and those that depend on the columns alone.
    each: Slots,
    by_column: Slots,
    /// Instructions and bytes through L1 of the accesses that every vector has, and of those that a column's vectors share, by element.
    accesses: [f64; 2],
    through_l1: [f64; 2],
    /// Instructions of coordinates and of a thread, by element.
    around: f64,
    /// Clocks of memory.
    memory: f64,
    /// Least gain of two rows or more.
    least_gain: f64,
}

impl Estimate {
    /// `None` if no rows are the same, or several of them can't gain.
    fn new(graph: &Graph, tensors: &Tensors, tier: Tier, lanes: u32) -> Option<Self> {
        let same = |tensor: &Tensor| has_same_rows(tensor, &tensors.extents);
        // Compilers compute most functions of f64 for each row again.
        let wide = tensors.moving().any(|tensor| tensor.bytes > 4);
        if tensors.extents.len() < 2 || wide || !tensors.all.iter().any(same) {
            return None;
        }
        let line = |tensor: &Tensor| columns(tensors).wrapping_mul(tensor.bytes.into()).is_multiple_of(LINE);
        let lines = tensors.moving().filter(|tensor| !same(tensor)).all(line);
        let program = body::program(graph, tier);
        let each = count_where(&program, |slot| !tensors.all.get(slot).is_some_and(same)).element;
        let by_column = count(&program).element.plus_times(each, -1.0);
        let per_lane = 1.0 / f64::from(lanes);
        let (mut accesses, mut through_l1) = ([0.0; 2], [0.0; 2]);
        for tensor in tensors.moving() {
            let (count, bytes) = accesses_of(tensor, lanes);
            accesses[usize::from(same(tensor))] += f64::from(count) * PER_ACCESS * per_lane;
            through_l1[usize::from(same(tensor))] += f64::from(bytes) * per_lane;
        }
        let sets = tensors.moving().filter(|tensor| !tensor.linear).count() as u32;
        Some(Self {
            each,
            by_column,
            accesses,
            through_l1,
            around: (coordinates(tensors.extents.len() as u32, sets) + PER_THREAD) * per_lane,
            memory: tensors.bytes_moved() as f64 / tensors.elements as f64 / BYTES,
            least_gain: if lines { LEAST_GAIN } else { LEAST_BETWEEN_LINES },
        })
    }

    /// Whether so many rows gain enough against fewer.
    fn gains(&self, rows: u32, from: u32) -> bool {
        let least = if from == 1 { self.least_gain } else { LEAST_FURTHER };
        self.clocks(rows) < (1.0 - least) * self.clocks(from)
    }

    /// Clocks of an element on an SM, if a thread has the same columns of so many rows.
    fn clocks(&self, rows: u32) -> f64 {
        let shared = 1.0 / f64::from(rows);
        let around = self.accesses[0] + self.accesses[1] * shared + self.around;
        let slots = Slots { other: around, ..Slots::default() }.plus(self.each).plus_times(self.by_column, shared);
        let through_l1 = (self.through_l1[0] + self.through_l1[1] * shared) / super::cost::L1_BYTES;
        overlapped([self.memory, busiest(&slots), through_l1, 0.0])
    }
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
