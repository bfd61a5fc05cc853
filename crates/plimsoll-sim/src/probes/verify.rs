//! `verify` on the simulated device: a blocked sum stands in for every kernel; a plain sum is the oracle.

use plimsoll_core::probe::{Case, Depth};
use plimsoll_core::stats::Rng;

/// Sizes around multiples of the block of 8, and other awkward ones.
const AWKWARD: &[usize] = &[0, 1, 2, 3, 5, 7, 8, 9, 31, 32, 33, 1025];
const LARGE: usize = 65_537;
const EXHAUSTIVE: usize = 1100;

/// Checks every kernel at every size; `wrong` makes the last kernel skip its last element at the last size.
pub(super) fn check_kernels(kernels: &[&str], depth: Depth, seed: u64, wrong: bool, report: &mut dyn FnMut(Case)) {
    let mut sizes: Vec<usize> = match depth {
        Depth::Exhaustive => (0..=EXHAUSTIVE).collect(),
        Depth::Small | Depth::Usual => AWKWARD.to_vec(),
    };
    if depth != Depth::Small {
        sizes.push(LARGE);
    }
    for (i, kernel) in kernels.iter().enumerate() {
        for (j, &n) in sizes.iter().enumerate() {
            let mut rng = Rng::new(seed ^ n as u64);
            let data: Vec<u64> = (0..n).map(|_| rng.next_u64()).collect();
            let skipped = usize::from(wrong && i + 1 == kernels.len() && j + 1 == sizes.len());
            let (got, right) = (blocked_sum(&data[..n - skipped]), plain_sum(&data));
            let wrong = if got == right { String::new() } else { format!("sum is {got:#x}, should be {right:#x}") };
            report(Case { kernel: (*kernel).to_owned(), on: format!("n = {n}"), wrong });
        }
    }
}

fn blocked_sum(data: &[u64]) -> u64 {
    let (blocks, rest) = data.as_chunks::<8>();
    let mut lanes = [0_u64; 8];
    for block in blocks {
        for (lane, x) in lanes.iter_mut().zip(block) {
            *lane = lane.wrapping_add(*x);
        }
    }
    plain_sum(&lanes).wrapping_add(plain_sum(rest))
}

fn plain_sum(data: &[u64]) -> u64 {
    data.iter().fold(0, |sum, x| sum.wrapping_add(*x))
}
