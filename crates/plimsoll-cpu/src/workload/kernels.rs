//! The stream kernels by name: their calls, their expected results, and their verification at awkward sizes. The loops are in
//! [`crate::arch::stream`]; the probes handle threads, sizes and timing.

use plimsoll_core::probe::{Case, Depth};
use plimsoll_core::{Fault, Traffic};
use plimsoll_suite::kernels::Op;

use crate::arch::stream::{Stores, StreamKernels};
use crate::arch::{Isa, available};
use crate::memory::{Buffer, Pages};

/// The scalar of init, scale and triad, as in STREAM.
const SCALAR: f64 = 3.0;
/// Largest relative difference of one element from the oracle: a fused multiply-add rounds once, the oracle twice.
const ROUNDING: f64 = 1e-14;
/// Largest relative difference of a sum, which is added in another order. One missing element in a million is 10⁻⁶.
const SUM_ROUNDING: f64 = 1e-9;

/// Whether it has a target.
#[must_use]
pub fn writes(op: Op) -> bool {
    op.mix().writes > 0
}

/// How many elements `b` has more than the target.
#[must_use]
pub fn halo(op: Op) -> usize {
    2 * op.reach() as usize
}

/// The bytes that the algorithm must move for `elements` of the target.
#[must_use]
pub fn traffic(op: Op, elements: u64) -> Traffic {
    let mix = op.mix();
    Traffic::new(8 * elements * u64::from(mix.reads), 8 * elements * u64::from(mix.writes))
}

/// Runs over all of `a`; `b` is longer by the halo, `c` and `d` as long as `a`. Returns the sum, or 0 for kernels that
/// compute none.
///
/// # Panics
/// If the lengths are wrong.
pub fn run(op: Op, kernels: StreamKernels, stores: Stores, a: &mut [f64], [b, c, d]: [&[f64]; 3]) -> f64 {
    match op {
        Op::Init => kernels.init(a, SCALAR, stores),
        Op::Read => return kernels.read(b),
        Op::Copy => kernels.copy(a, b, stores),
        Op::Scale => kernels.scale(a, b, SCALAR, stores),
        Op::Add => kernels.add(a, b, c, stores),
        Op::Triad => kernels.triad(a, b, c, SCALAR, stores),
        Op::Schoenauer => kernels.schoenauer(a, b, c, d, stores),
        Op::Dot => return kernels.dot(b, c),
        Op::Point3 => kernels.three_point(a, b, stores),
        Op::Point5 => kernels.five_point(a, b, stores),
    }
    0.0
}

/// What is wrong with a run's result, compared with a plain loop; `None` if it is right.
#[must_use]
pub fn wrong(op: Op, a: &[f64], [b, c, d]: [&[f64]; 3], sum: f64) -> Option<String> {
    match op {
        Op::Init => differs(a, |_| SCALAR),
        Op::Read => sum_differs(sum, plain_sum(b.len(), |i| b[i])),
        Op::Copy => differs(a, |i| b[i]),
        Op::Scale => differs(a, |i| SCALAR * b[i]),
        Op::Add => differs(a, |i| b[i] + c[i]),
        Op::Triad => differs(a, |i| b[i] + SCALAR * c[i]),
        Op::Schoenauer => differs(a, |i| b[i] + c[i] * d[i]),
        Op::Dot => sum_differs(sum, plain_sum(b.len(), |i| b[i] * c[i])),
        Op::Point3 => differs(a, |i| b[i] + b[i + 1] + b[i + 2]),
        Op::Point5 => differs(a, |i| b[i] + b[i + 1] + b[i + 2] + b[i + 3] + b[i + 4]),
    }
}

/// The value of a target before a run, which no kernel computes from finite operands.
pub const POISON: f64 = f64::NAN;

/// Random bits as a number in [1, 2): finite, and different within a cache line.
#[must_use]
pub fn finite(bits: u64) -> f64 {
    f64::from_bits(bits >> 12 | 1.0_f64.to_bits())
}

fn differs(a: &[f64], value: impl Fn(usize) -> f64) -> Option<String> {
    let right = |i: usize, got: f64| (got - value(i)).abs() <= ROUNDING * value(i).abs();
    let at = a.iter().enumerate().position(|(i, &got)| !right(i, got))?;
    Some(format!("element {at} is {} instead of {}", a[at], value(at)))
}

/// The sum, with eight accumulators: a single one would take four cycles per element, and this runs over whole arrays.
fn plain_sum(len: usize, value: impl Fn(usize) -> f64) -> f64 {
    let mut sums = [0.0; 8];
    for block in 0..len / 8 {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum += value(8 * block + lane);
        }
    }
    sums.iter().sum::<f64>() + (len / 8 * 8..len).map(value).sum::<f64>()
}

fn sum_differs(got: f64, expected: f64) -> Option<String> {
    let right = (got - expected).abs() <= SUM_ROUNDING * expected.abs();
    (!right).then(|| format!("the sum is {got} instead of {expected}"))
}

/// The kinds of store that make a difference for `op` on `isa`.
#[must_use]
pub fn store_kinds(op: Op, isa: Isa) -> &'static [Stores] {
    if writes(op) && isa.has_nontemporal() { &[Stores::Ordinary, Stores::NonTemporal] } else { &[Stores::Ordinary] }
}

/// Guard elements on both sides of a target.
const GUARD: usize = 8;
/// The largest size of `Depth::Usual`: a prime of about 8 MiB, so no vector or page divides it.
const LARGE: usize = 1_048_573;

fn sizes(depth: Depth) -> Vec<usize> {
    let awkward = [0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97, 127, 128, 129, 509, 1021, 1025];
    match depth {
        Depth::Small => awkward.to_vec(),
        Depth::Usual => awkward.into_iter().chain([LARGE]).collect(),
        Depth::Exhaustive => (0..=1100).chain([LARGE]).collect(),
    }
}

/// Runs `ops` once at awkward sizes and alignments, with every kind of store of every instruction set of this machine, and
/// checks them against plain loops. Also detects writes outside the target.
pub fn verify(ops: &[Op], depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
    let sets: Vec<StreamKernels> = available().into_iter().filter_map(StreamKernels::new).collect();
    let longest = LARGE + 4 * GUARD;
    let mut memory = Buffer::<f64>::new(4 * longest, Pages::Huge)?;
    for (i, element) in memory.iter_mut().enumerate() {
        *element = finite((i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    let (target, operands) = memory.split_at_mut(longest);
    for n in sizes(depth) {
        for &op in ops {
            for set in &sets {
                for &stores in store_kinds(op, set.isa()) {
                    let wrong = check_once(op, *set, stores, n, target, operands).unwrap_or_default();
                    let name = format!("{} {} {}", op.name(), set.isa().name(), stores.name());
                    report(Case { kernel: name, on: format!("n = {n}"), wrong });
                }
            }
        }
    }
    Ok(())
}

/// Checks one run of `n` elements, whose offsets from a cache line are derived from `n`.
fn check_once(
    op: Op,
    kernels: StreamKernels,
    stores: Stores,
    n: usize,
    target: &mut [f64],
    operands: &[f64],
) -> Option<String> {
    let third = operands.len() / 3;
    let [b, c, d] = [(0, n % 5, halo(op)), (1, n % 3, 0), (2, n % 7, 0)]
        .map(|(operand, offset, more)| &operands[operand * third + offset..][..n + more]);
    let from = GUARD + n % 8;
    let whole = &mut target[..from + n + GUARD];
    whole.fill(POISON);
    let sum = run(op, kernels, stores, &mut whole[from..from + n], [b, c, d]);
    let outside = |part: &[f64]| part.iter().any(|x| !x.is_nan());
    if outside(&whole[..from]) || outside(&whole[from + n..]) {
        return Some("wrote outside its target".to_owned());
    }
    let a = if writes(op) { &whole[from..from + n] } else { &[] };
    wrong(op, a, [b, c, d], sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_passes_at_awkward_sizes_with_every_store_and_set() {
        let mut cases = 0;
        verify(&Op::ALL, Depth::Small, &mut |case| {
            assert_eq!(case.wrong, "", "{case:?}");
            cases += 1;
        })
        .unwrap();
        assert!(cases >= 10 * 20);
    }

    #[test]
    fn one_skipped_element_is_detected_in_every_kernel() {
        let n = 100_000;
        let data: Vec<f64> = (0..n + 4).map(|i| finite((i as u64).wrapping_mul(0x2545_f491_4f6c_dd1d))).collect();
        for op in Op::ALL {
            let from = [&data[..n + halo(op)], &data[..n], &data[..n]];
            let mut a = vec![POISON; n];
            let sum = run(op, StreamKernels::best(), Stores::Ordinary, &mut a, from);
            assert_eq!(wrong(op, &a, from, sum), None, "{}", op.name());
            a[n / 3] = POISON;
            let last = data[n - 1] * if op == Op::Dot { data[n - 1] } else { 1.0 };
            assert!(wrong(op, &a, from, sum - last).is_some(), "{}", op.name());
        }
    }

    #[test]
    fn traffic_is_that_of_the_arrays() {
        assert_eq!(traffic(Op::Schoenauer, 10), Traffic::new(240, 80));
        assert_eq!(traffic(Op::Dot, 10), Traffic::new(160, 0));
        assert_eq!(traffic(Op::Init, 10), Traffic::new(0, 80));
    }
}
