//! The stream kernels by name: their calls, their expected results, and their verification at awkward sizes. The loops are in
//! [`crate::arch::stream`]; the probes handle threads, sizes and timing.

use plimsoll_core::probe::{Case, Depth};
use plimsoll_core::{Fault, Traffic};
use plimsoll_suite::kernels::{KERNELS, Mix};

use crate::arch::stream::{Stores, StreamKernels};
use crate::arch::{Isa, available};
use crate::memory::{Buffer, Pages};

/// The scalar of init, scale and triad, as in STREAM.
const SCALAR: f64 = 3.0;
/// Largest relative difference of one element from the oracle: a fused multiply-add rounds once, the oracle twice.
const ROUNDING: f64 = 1e-14;
/// Largest relative difference of a sum, which is added in another order. One missing element in a million is 10⁻⁶.
const SUM_ROUNDING: f64 = 1e-9;

/// A stream kernel. The target is `a`, the operands are `b`, `c` and `d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// `a = s`.
    Init,
    /// `Σb`.
    Read,
    /// `a = b`.
    Copy,
    /// `a = s·b`.
    Scale,
    /// `a = b + c`.
    Add,
    /// `a = b + s·c`.
    Triad,
    /// `a = b + c·d`.
    Schoenauer,
    /// `Σb·c`.
    Dot,
    /// The sum of three neighbours in `b`.
    ThreePoint,
    /// The sum of five neighbours in `b`.
    FivePoint,
}

impl Kernel {
    /// All kernels, in the order of [`KERNELS`].
    pub const ALL: [Kernel; KERNELS.len()] = [
        Self::Init,
        Self::Read,
        Self::Copy,
        Self::Scale,
        Self::Add,
        Self::Triad,
        Self::Schoenauer,
        Self::Dot,
        Self::ThreePoint,
        Self::FivePoint,
    ];

    /// The kernel with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kernel| kernel.name() == name)
    }

    /// Its name in axes and findings.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.mix().name
    }

    /// How many arrays it reads and writes.
    #[must_use]
    pub fn mix(self) -> &'static Mix {
        &KERNELS[self as usize]
    }

    /// Whether it has a target.
    #[must_use]
    pub fn writes(self) -> bool {
        self.mix().writes > 0
    }

    /// How many elements `b` has more than the target.
    #[must_use]
    pub fn halo(self) -> usize {
        match self {
            Self::ThreePoint => 2,
            Self::FivePoint => 4,
            _ => 0,
        }
    }

    /// The bytes that the algorithm must move for `elements` of the target.
    #[must_use]
    pub fn traffic(self, elements: u64) -> Traffic {
        let mix = self.mix();
        Traffic::new(8 * elements * u64::from(mix.reads), 8 * elements * u64::from(mix.writes))
    }

    /// Runs over all of `a`; `b` is longer by the halo, `c` and `d` as long as `a`. Returns the sum, or 0 for kernels that
    /// compute none.
    ///
    /// # Panics
    /// If the lengths are wrong.
    pub fn run(self, kernels: StreamKernels, stores: Stores, a: &mut [f64], [b, c, d]: [&[f64]; 3]) -> f64 {
        match self {
            Self::Init => kernels.init(a, SCALAR, stores),
            Self::Read => return kernels.read(b),
            Self::Copy => kernels.copy(a, b, stores),
            Self::Scale => kernels.scale(a, b, SCALAR, stores),
            Self::Add => kernels.add(a, b, c, stores),
            Self::Triad => kernels.triad(a, b, c, SCALAR, stores),
            Self::Schoenauer => kernels.schoenauer(a, b, c, d, stores),
            Self::Dot => return kernels.dot(b, c),
            Self::ThreePoint => kernels.three_point(a, b, stores),
            Self::FivePoint => kernels.five_point(a, b, stores),
        }
        0.0
    }

    /// What is wrong with a run's result, compared with a plain loop; `None` if it is right.
    #[must_use]
    pub fn wrong(self, a: &[f64], [b, c, d]: [&[f64]; 3], sum: f64) -> Option<String> {
        match self {
            Self::Init => differs(a, |_| SCALAR),
            Self::Read => sum_differs(sum, plain_sum(b.len(), |i| b[i])),
            Self::Copy => differs(a, |i| b[i]),
            Self::Scale => differs(a, |i| SCALAR * b[i]),
            Self::Add => differs(a, |i| b[i] + c[i]),
            Self::Triad => differs(a, |i| b[i] + SCALAR * c[i]),
            Self::Schoenauer => differs(a, |i| b[i] + c[i] * d[i]),
            Self::Dot => sum_differs(sum, plain_sum(b.len(), |i| b[i] * c[i])),
            Self::ThreePoint => differs(a, |i| b[i] + b[i + 1] + b[i + 2]),
            Self::FivePoint => differs(a, |i| b[i] + b[i + 1] + b[i + 2] + b[i + 3] + b[i + 4]),
        }
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

/// The kinds of store that make a difference for `kernel` on `isa`.
#[must_use]
pub fn store_kinds(kernel: Kernel, isa: Isa) -> &'static [Stores] {
    if kernel.writes() && isa.has_nontemporal() {
        &[Stores::Ordinary, Stores::NonTemporal]
    } else {
        &[Stores::Ordinary]
    }
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

/// Runs `kernels` once at awkward sizes and alignments, with every kind of store of every instruction set of this machine, and
/// checks them against plain loops. Also detects writes outside the target.
pub fn verify(kernels: &[Kernel], depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
    let sets: Vec<StreamKernels> = available().into_iter().filter_map(StreamKernels::new).collect();
    let longest = LARGE + 4 * GUARD;
    let mut memory = Buffer::<f64>::new(4 * longest, Pages::Huge)?;
    for (i, element) in memory.iter_mut().enumerate() {
        *element = finite((i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    let (target, operands) = memory.split_at_mut(longest);
    for n in sizes(depth) {
        for &kernel in kernels {
            for set in &sets {
                for &stores in store_kinds(kernel, set.isa()) {
                    let wrong = check_once(kernel, *set, stores, n, target, operands).unwrap_or_default();
                    let name = format!("{} {} {}", kernel.name(), set.isa().name(), stores.name());
                    report(Case { kernel: name, on: format!("n = {n}"), wrong });
                }
            }
        }
    }
    Ok(())
}

/// Checks one run of `n` elements, whose offsets from a cache line are derived from `n`.
fn check_once(
    kernel: Kernel,
    kernels: StreamKernels,
    stores: Stores,
    n: usize,
    target: &mut [f64],
    operands: &[f64],
) -> Option<String> {
    let third = operands.len() / 3;
    let [b, c, d] = [(0, n % 5, kernel.halo()), (1, n % 3, 0), (2, n % 7, 0)]
        .map(|(operand, offset, more)| &operands[operand * third + offset..][..n + more]);
    let from = GUARD + n % 8;
    let whole = &mut target[..from + n + GUARD];
    whole.fill(POISON);
    let sum = kernel.run(kernels, stores, &mut whole[from..from + n], [b, c, d]);
    let outside = |part: &[f64]| part.iter().any(|x| !x.is_nan());
    if outside(&whole[..from]) || outside(&whole[from + n..]) {
        return Some("wrote outside its target".to_owned());
    }
    let a = if kernel.writes() { &whole[from..from + n] } else { &[] };
    kernel.wrong(a, [b, c, d], sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_passes_at_awkward_sizes_with_every_store_and_set() {
        let mut cases = 0;
        verify(&Kernel::ALL, Depth::Small, &mut |case| {
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
        for kernel in Kernel::ALL {
            let from = [&data[..n + kernel.halo()], &data[..n], &data[..n]];
            let mut a = vec![POISON; n];
            let sum = kernel.run(StreamKernels::best(), Stores::Ordinary, &mut a, from);
            assert_eq!(kernel.wrong(&a, from, sum), None, "{}", kernel.name());
            a[n / 3] = POISON;
            let last = data[n - 1] * if kernel == Kernel::Dot { data[n - 1] } else { 1.0 };
            assert!(kernel.wrong(&a, from, sum - last).is_some(), "{}", kernel.name());
        }
    }

    #[test]
    fn kernels_match_the_suites_names_and_traffic() {
        for kernel in Kernel::ALL {
            assert_eq!(Kernel::from_name(kernel.name()), Some(kernel));
        }
        assert_eq!(Kernel::Schoenauer.traffic(10), Traffic::new(240, 80));
        assert_eq!(Kernel::Dot.traffic(10), Traffic::new(160, 0));
        assert_eq!(Kernel::Init.traffic(10), Traffic::new(0, 80));
        assert_eq!(Kernel::from_name("fill"), None);
    }
}
