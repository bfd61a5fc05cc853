//! Compares every kernel of the probe with the host at awkward sizes.

use plimsoll_cuda::{Action, Cuda};

use super::Bench;
use crate::folds;
use crate::lab::residency::kernels::{self, bin};
use crate::prelude::gpu::*;

/// Checks all kernels.
pub(crate) fn check_kernels(bench: &Bench, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
    let sizes: &[u64] = match depth {
        Depth::Small => &[1, 1025],
        _ => &[1, 31, 257, 1023, 1025, 65_537],
    };
    let mut report_case = |kernel: KernelDesc, on: String, check: Check| {
        report(Case::new(kernel.name, on, check));
    };
    for &n in sizes {
        for bins in [1, 7, 10_007_u32] {
            let on = || format!("{n} vectors, {bins} bins");
            let expected = histogram(bench.seed, n, bins);
            report_case(kernels::histogram(), on(), bench.one_histogram(n, bins, &expected)?);
            let data = bench.data.part(0, 16 * n)?;
            let counted = bench.count(data, bins, bins / 2)?;
            report_case(kernels::count(), on(), compare(counted, expected[(bins / 2) as usize].into()));
        }
        for passes in [1, 3] {
            report_case(kernels::sliding(), format!("{n} vectors, {passes} passes"), bench.one_sliding(n, passes)?);
        }
        let part = bench.kept.part(0, 4 * n)?;
        bench.kit.checker.fill_words(part, 3)?;
        report_case(kernels::total(), format!("{n} words"), compare(bench.total(part)?, 3 * n));
        bench.kit.checker.fill_words(part.part(4 * (n - 1), 4)?, 4)?;
        report_case(kernels::others(), format!("{n} words"), compare(bench.others(part, 3)?, 1));
    }
    Ok(())
}

fn compare(found: u64, expected: u64) -> Check {
    if found == expected { Check::Passed } else { Check::Failed(format!("{found}, not {expected}")) }
}

/// The histogram of n vectors of random data.
fn histogram(seed: u64, n: u64, bins: u32) -> Vec<u32> {
    let mut counts = vec![0; bins as usize];
    (0..4 * n).for_each(|i| counts[bin(pattern::bits(seed, i), bins) as usize] += 1);
    counts
}

impl Bench {
    /// One launch: compares the bins with the host's, and checks that nothing after them changed.
    fn one_histogram(&self, n: u64, bins: u32, expected: &[u32]) -> Result<Check, Fault> {
        let data = self.data.part(0, 16 * n)?;
        let (at, whole) = (self.kept.part(0, 4 * u64::from(bins))?, self.kept.part(0, 4 * u64::from(bins) + 64)?);
        self.kit.checker.fill(Data::Bits, Element::Word, data, self.seed)?;
        self.kit.checker.fill_words(whole, 0)?;
        self.kit.run(&[Action::Launch(self.additions(at, data)?)])?;
        let found = folds::words::<Cuda>(self.kit.stream(), whole)?;
        let right = |i: usize| expected.get(i).copied().unwrap_or(0);
        let wrong = found.iter().enumerate().find(|(i, word)| **word != right(*i));
        Ok(wrong.map_or(Check::Passed, |(i, word)| Check::Failed(format!("bin {i} is {word}, not {}", right(i)))))
    }

    /// One launch over a buffer of n vectors: every word is updated once per pass, and nothing after the buffer changes.
    fn one_sliding(&self, n: u64, passes: u64) -> Result<Check, Fault> {
        let (buffer, stream) = (self.kept.part(0, 16 * n)?, self.data.part(0, 16 * n * passes)?);
        let wholes = [self.kept.part(0, 16 * n + 64)?, self.data.part(0, 16 * n * passes + 64)?];
        wholes.into_iter().try_for_each(|span| self.kit.checker.fill_words(span, 5))?;
        self.kit.run(&[Action::Launch(self.updates(buffer, stream)?)])?;
        for (span, bytes, added) in [(wholes[0], buffer.bytes(), passes as u32), (wholes[1], stream.bytes(), 1)] {
            let found = folds::words::<Cuda>(self.kit.stream(), span)?;
            let right = |i: usize| if (4 * i as u64) < bytes { 5 + added } else { 5 };
            if let Some((i, word)) = found.iter().enumerate().find(|(i, word)| **word != right(*i)) {
                return Ok(Check::Failed(format!("word {i} is {word}, not {}", right(i))));
            }
        }
        Ok(Check::Passed)
    }
}
