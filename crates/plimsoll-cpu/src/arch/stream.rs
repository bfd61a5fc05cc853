//! The stream kernels on f64, which measure a memory system. A call does one thread's share; the probes handle threads, first
//! touch and timing.
//!
//! Every kernel is written once, as an `Expression` or a `Term`. `Map` and `Fold` evaluate it four or eight vectors at a
//! time, so that the loop is bound by memory and not by the front end. The target's head, up to its first whole cache line,
//! and its tail are done one element at a time, so the loop's stores never cross a cache line.

use super::Isa;
use super::vector::{Kernel, Simd, Vector, dispatch};

/// How a kernel writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stores {
    /// Through the caches. A write that misses first reads its line (write-allocate).
    Ordinary,
    /// Past the caches, so that nothing is read first. If the set has no such stores, this is the same as `Ordinary`: check
    /// [`StreamKernels::has_nontemporal`] before labelling the figure.
    NonTemporal,
}

impl Stores {
    /// Their name in axes and in cases of `verify`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ordinary => "ordinary",
            Self::NonTemporal => "non-temporal",
        }
    }
}

/// Bytes of a cache line, at which the loops over the target begin. (Apple's lines of 128 bytes are a multiple.)
const LINE: usize = 64;
/// Vectors per iteration of a loop that stores.
const MAP_UNROLL: usize = 4;
/// Vectors per iteration of a loop that sums, each with its own accumulator: enough for four cycles' latency at two
/// additions per cycle.
const FOLD_UNROLL: usize = 8;

/// The stream kernels compiled for one instruction set.
///
/// NaN and infinities propagate as IEEE 754 defines. `a + b·s` is rounded once if the set has a fused multiply-add, else twice;
/// within one call all elements are rounded alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamKernels {
    isa: Isa,
}

impl StreamKernels {
    /// The kernels of `isa`, or `None` if this machine can't run them.
    pub fn new(isa: Isa) -> Option<Self> {
        // SAFETY: made only if the set is available.
        isa.is_available().then(|| unsafe { Self::new_unchecked(isa) })
    }

    /// The kernels of `isa`.
    ///
    /// # Safety
    /// `isa` is available on this machine.
    pub unsafe fn new_unchecked(isa: Isa) -> Self {
        Self { isa }
    }

    /// The kernels of the widest set of this machine.
    pub fn best() -> Self {
        Self { isa: super::best() }
    }

    /// The instruction set.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Whether [`Stores::NonTemporal`] differs from [`Stores::Ordinary`].
    pub fn has_nontemporal(&self) -> bool {
        self.isa.has_nontemporal()
    }

    /// `a[i] = s`: 0 reads, 1 write.
    pub fn init(&self, a: &mut [f64], s: f64, stores: Stores) {
        self.map(a, Fill { s }, stores);
    }

    /// The sum of `a`: 1 read, 0 writes. The order of additions depends on the set, so compare it with a tolerance.
    pub fn read(&self, a: &[f64]) -> f64 {
        self.fold(a.len(), Sum { a: a.as_ptr() })
    }

    /// `c[i] = a[i]`: 1 read, 1 write.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn copy(&self, c: &mut [f64], a: &[f64], stores: Stores) {
        check_lengths(c.len(), [a.len()]);
        self.map(c, Copied { a: a.as_ptr() }, stores);
    }

    /// `b[i] = s·c[i]`: 1 read, 1 write.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn scale(&self, b: &mut [f64], c: &[f64], s: f64, stores: Stores) {
        check_lengths(b.len(), [c.len()]);
        self.map(b, Scaled { c: c.as_ptr(), s }, stores);
    }

    /// `c[i] = a[i] + b[i]`: 2 reads, 1 write.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn add(&self, c: &mut [f64], a: &[f64], b: &[f64], stores: Stores) {
        check_lengths(c.len(), [a.len(), b.len()]);
        self.map(c, Added { a: a.as_ptr(), b: b.as_ptr() }, stores);
    }

    /// `a[i] = b[i] + s·c[i]`: 2 reads, 1 write.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn triad(&self, a: &mut [f64], b: &[f64], c: &[f64], s: f64, stores: Stores) {
        check_lengths(a.len(), [b.len(), c.len()]);
        self.map(a, Triad { b: b.as_ptr(), c: c.as_ptr(), s }, stores);
    }

    /// `a[i] = b[i] + c[i]·d[i]` (Schönauer's triad): 3 reads, 1 write.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn schoenauer(&self, a: &mut [f64], b: &[f64], c: &[f64], d: &[f64], stores: Stores) {
        check_lengths(a.len(), [b.len(), c.len(), d.len()]);
        self.map(a, Schoenauer { b: b.as_ptr(), c: c.as_ptr(), d: d.as_ptr() }, stores);
    }

    /// `Σ a[i]·b[i]`: 2 reads, 0 writes. The order of additions depends on the set, so compare it with a tolerance.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn dot(&self, a: &[f64], b: &[f64]) -> f64 {
        check_lengths(a.len(), [b.len()]);
        self.fold(a.len(), Dot { a: a.as_ptr(), b: b.as_ptr() })
    }

    /// `a[i] = b[i] + b[i+1] + b[i+2]`: a 3-point stencil; 1 read and 1 write, as neighbours share their reads.
    ///
    /// `b` is one longer than `a` at each end: the halo. A thread that owns `[start, end)` of a larger array passes
    /// `&b[start - 1..end + 1]`.
    ///
    /// # Panics
    /// If `b.len() != a.len() + 2`.
    pub fn three_point(&self, a: &mut [f64], b: &[f64], stores: Stores) {
        check_lengths(a.len() + 2, [b.len()]);
        self.map(a, Stencil::<3> { b: b.as_ptr() }, stores);
    }

    /// `a[i] = b[i] + … + b[i+4]`: a 5-point stencil in one dimension; 1 read and 1 write.
    ///
    /// `b` is two longer than `a` at each end: the halo. A thread that owns `[start, end)` of a larger array passes
    /// `&b[start - 2..end + 2]`.
    ///
    /// # Panics
    /// If `b.len() != a.len() + 4`.
    pub fn five_point(&self, a: &mut [f64], b: &[f64], stores: Stores) {
        check_lengths(a.len() + 4, [b.len()]);
        self.map(a, Stencil::<5> { b: b.as_ptr() }, stores);
    }

    fn map<E: Expression>(&self, target: &mut [f64], expression: E, stores: Stores) {
        let (length, target) = (target.len(), target.as_mut_ptr());
        // SAFETY: `new` checked the set. The target is a live slice of `length`, distinct from the operands, as it is
        // borrowed mutably; the public functions checked that every operand covers `length` elements and its halo.
        unsafe {
            match stores {
                Stores::Ordinary => dispatch(self.isa, Map::<E, false> { target, length, expression }),
                Stores::NonTemporal => dispatch(self.isa, Map::<E, true> { target, length, expression }),
            }
        }
    }

    fn fold<T: Term>(&self, length: usize, term: T) -> f64 {
        // SAFETY: `new` checked the set; the public functions checked that every operand covers `length` elements.
        unsafe { dispatch(self.isa, Fold { length, term }) }
    }
}

/// Panics unless every operand has the expected length.
fn check_lengths<const N: usize>(expected: usize, operands: [usize; N]) {
    for length in operands {
        assert_eq!(length, expected, "a stream kernel's operand has {length} elements where {expected} are needed");
    }
}

/// The value of one element of the target.
trait Expression: Copy {
    /// The values of elements `i .. i + V::LANES`.
    ///
    /// # Safety
    /// The machine has `V`'s set and every operand covers those elements.
    unsafe fn evaluate<V: Vector<Element = f64>>(self, i: usize) -> V;
}

/// The value that one element adds to a sum.
trait Term: Copy {
    /// `sum` plus the terms of elements `i .. i + V::LANES`.
    ///
    /// # Safety
    /// The machine has `V`'s set and every operand covers those elements.
    unsafe fn accumulate<V: Vector<Element = f64>>(self, i: usize, sum: V) -> V;
}

/// Declares kernels: their operands, their scalars, and the expression that they compute over vectors.
macro_rules! kernels {
    ($($trait:ident $name:ident { $($array:ident)* ; $($scalar:ident)* },
       $function:ident($($sum:ident)?), $at:ident => $value:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $name { $($array: *const f64,)* $($scalar: f64,)* }

        impl $trait for $name {
            #[inline(always)]
            unsafe fn $function<V: Vector<Element = f64>>(self, $at: usize $(, $sum: V)?) -> V {
                // SAFETY: the caller promises the set, and operands that cover the elements from `i` on.
                unsafe {
                    $(let $array = V::load(self.$array.add($at));)*
                    $(let $scalar = V::splat(self.$scalar);)*
                    $value
                }
            }
        }
    )*};
}

kernels! {
    Expression Fill { ; s }, evaluate(), _i => s;
    Expression Copied { a ; }, evaluate(), i => a;
    Expression Scaled { c ; s }, evaluate(), i => c.mul(s);
    Expression Added { a b ; }, evaluate(), i => a.add(b);
    Expression Triad { b c ; s }, evaluate(), i => c.fma(s, b);
    Expression Schoenauer { b c d ; }, evaluate(), i => c.fma(d, b);
    Term Sum { a ; }, accumulate(sum), i => sum.add(a);
    Term Dot { a b ; }, accumulate(sum), i => a.fma(b, sum);
}

/// The sum of `POINTS` neighbours, from the left.
#[derive(Clone, Copy)]
struct Stencil<const POINTS: usize> {
    b: *const f64,
}

impl<const POINTS: usize> Expression for Stencil<POINTS> {
    #[inline(always)]
    unsafe fn evaluate<V: Vector<Element = f64>>(self, i: usize) -> V {
        // SAFETY: the caller promises the set, and an operand with its halo of POINTS - 1 more elements.
        unsafe {
            let mut sum = V::load(self.b.add(i));
            for point in 1..POINTS {
                sum = sum.add(V::load(self.b.add(i + point)));
            }
            sum
        }
    }
}

/// Writes an expression over `target[..length]`. Operands must cover the same elements and not overlap the target.
struct Map<E, const NONTEMPORAL: bool> {
    target: *mut f64,
    length: usize,
    expression: E,
}

impl<E: Expression, const NONTEMPORAL: bool> Map<E, NONTEMPORAL> {
    /// Writes the elements `from .. to`, one at a time.
    #[inline(always)]
    unsafe fn write_singly<V: Vector<Element = f64>>(&self, from: usize, to: usize) {
        for i in from..to {
            // SAFETY: i < length, so the target and all operands have it; the caller promises the set.
            unsafe { self.expression.evaluate::<V::Single>(i).store(self.target.add(i)) };
        }
    }
}

impl<E: Expression, const NONTEMPORAL: bool> Kernel for Map<E, NONTEMPORAL> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let step = MAP_UNROLL * S::F64::LANES;
        let head = self.target.align_offset(LINE).min(self.length);
        let end = head + (self.length - head) / step * step;
        // SAFETY: head ≤ end ≤ length and the loop takes whole steps from head to end, so every access is inside the
        // operands; from `head` on the target is aligned to a line, hence to a vector; the caller promises the rest.
        unsafe {
            self.write_singly::<S::F64>(0, head);
            let mut i = head;
            while i < end {
                for k in 0..MAP_UNROLL {
                    let at = i + k * S::F64::LANES;
                    let value = self.expression.evaluate::<S::F64>(at);
                    if NONTEMPORAL {
                        value.store_nontemporal(self.target.add(at));
                    } else {
                        value.store(self.target.add(at));
                    }
                }
                i += step;
            }
            self.write_singly::<S::F64>(end, self.length);
            if NONTEMPORAL {
                S::fence();
            }
        }
    }
}

/// Sums a term over `length` elements, which every operand must cover.
struct Fold<T> {
    length: usize,
    term: T,
}

impl<T: Term> Kernel for Fold<T> {
    type Output = f64;

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> f64 {
        let step = FOLD_UNROLL * S::F64::LANES;
        let end = self.length / step * step;
        // SAFETY: the loop takes whole steps up to end ≤ length, the rest goes up to length; the caller promises the
        // set and operands of that length.
        unsafe {
            let mut sums = [S::F64::splat(0.0); FOLD_UNROLL];
            let mut i = 0;
            while i < end {
                for (k, sum) in sums.iter_mut().enumerate() {
                    *sum = self.term.accumulate(i + k * S::F64::LANES, *sum);
                }
                i += step;
            }
            let mut total = sums[0];
            for sum in &sums[1..] {
                total = total.add(*sum);
            }
            let mut rest = <S::F64 as Vector>::Single::splat(total.reduce());
            for i in end..self.length {
                rest = self.term.accumulate(i, rest);
            }
            rest.reduce()
        }
    }
}

#[cfg(test)]
mod tests;
