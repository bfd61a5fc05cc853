//! Loops over tiles: an operation on elements, written once, becomes one function per instruction set and per way in which
//! its operands are given. Which operations there are is [`super::operation`]'s.

use std::marker::PhantomData;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use super::super::Isa;

/// What a function works on.
#[derive(Clone, Copy)]
pub(super) struct Arguments {
    /// Elements.
    pub n: usize,
    /// Where the results go; none of it is read.
    pub out: *mut u8,
    /// The operands: n elements each, or one where it is the same for all.
    pub operands: [*const u8; 3],
}

/// A loop in the form of one instruction set.
///
/// Its caller promises that the set is there; that `out` is valid for writes of n results, and each operand for reads of
/// n elements (of one, where the function was made for a uniform one); that all are aligned to their elements and hold
/// values of their types; and that `out` overlaps no operand.
pub(super) type Function = unsafe fn(&Arguments);

/// A loop, to be compiled for each instruction set.
pub(super) trait Loop {
    /// Runs it. Implementations are `#[inline(always)]`.
    ///
    /// # Safety
    /// As [`Function`] says.
    unsafe fn run(arguments: &Arguments);
}

/// Instruction sets that loops are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// AVX-512 with its instructions on bytes, words and quadwords.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2 with fused multiply-adds.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// What every machine of this architecture has: SSE2, NEON.
    Baseline,
}

impl Set {
    /// The one that belongs to `isa`, or `None` where this machine hasn't got it.
    pub(crate) fn of(isa: Isa) -> Option<Self> {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                let whole = is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl");
                (isa.is_available() && whole).then_some(Self::Avx512)
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => isa.is_available().then_some(Self::Avx2),
            _ => isa.is_available().then_some(Self::Baseline),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512<L: Loop>(arguments: &Arguments) {
    // SAFETY: the caller promises what `Function` asks for.
    unsafe { L::run(arguments) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<L: Loop>(arguments: &Arguments) {
    // SAFETY: as above.
    unsafe { L::run(arguments) }
}

unsafe fn baseline<L: Loop>(arguments: &Arguments) {
    // SAFETY: as above.
    unsafe { L::run(arguments) }
}

/// The function of `L` for `set`.
pub(super) fn compiled<L: Loop>(set: Set) -> Function {
    match set {
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 => avx512::<L>,
        #[cfg(target_arch = "x86_64")]
        Set::Avx2 => avx2::<L>,
        Set::Baseline => baseline::<L>,
    }
}

/// An operation of one operand.
pub(super) trait One {
    /// The operand's element.
    type In: Copy;
    /// The result's.
    type Out: Copy;
    /// The result.
    fn at(x: Self::In) -> Self::Out;
    /// Whether [`One::at`] is wrong there and [`One::rarely`] right. Asked of whole tiles, after them.
    #[inline(always)]
    fn is_rare(_: Self::In) -> bool {
        false
    }
    /// The result where it is rare; may branch.
    #[inline(always)]
    fn rarely(x: Self::In) -> Self::Out {
        Self::at(x)
    }
}

/// An operation of two operands.
pub(super) trait Two {
    /// Both operands' element.
    type In: Copy;
    /// The result's.
    type Out: Copy;
    /// The result.
    fn at(a: Self::In, b: Self::In) -> Self::Out;
    /// Whether [`Two::at`] is wrong there and [`Two::rarely`] right, as in [`One`].
    #[inline(always)]
    fn is_rare(_: Self::In, _: Self::In) -> bool {
        false
    }
    /// The result where it is rare; may branch.
    #[inline(always)]
    fn rarely(a: Self::In, b: Self::In) -> Self::Out {
        Self::at(a, b)
    }
}

/// An operation of three operands.
pub(super) trait Three {
    /// The first operand's element.
    type First: Copy;
    /// The others' and the result's.
    type Rest: Copy;
    /// The result.
    fn at(a: Self::First, b: Self::Rest, c: Self::Rest) -> Self::Rest;
}

/// The loop of an operation of one operand.
pub(super) struct Map1<F>(PhantomData<F>);
/// The loop of an operation of two, of which bit i of `UNIFORM` says that operand i is the same for all elements.
pub(super) struct Map2<F, const UNIFORM: u8>(PhantomData<F>);
/// The same of three.
pub(super) struct Map3<F, const UNIFORM: u8>(PhantomData<F>);

impl<F: One> Loop for Map1<F> {
    #[inline(always)]
    unsafe fn run(arguments: &Arguments) {
        let Arguments { n, out, operands: [a, ..] } = *arguments;
        // SAFETY: the caller promises n results, n elements, their alignment, and that they don't overlap.
        let (out, a) = unsafe { (from_raw_parts_mut(out.cast::<F::Out>(), n), from_raw_parts(a.cast::<F::In>(), n)) };
        let mut rare = false;
        for (y, &x) in out.iter_mut().zip(a) {
            *y = F::at(x);
            rare |= F::is_rare(x);
        }
        if rare {
            for (y, &x) in out.iter_mut().zip(a).filter(|(_, x)| F::is_rare(**x)) {
                *y = F::rarely(x);
            }
        }
    }
}

/// An operand's elements: one where it is uniform.
#[inline(always)]
unsafe fn elements<'a, T>(from: *const u8, n: usize, uniform: bool) -> &'a [T] {
    // SAFETY: the caller promises as many elements, their alignment, and that nothing writes to them meanwhile.
    unsafe { from_raw_parts(from.cast::<T>(), if uniform { 1 } else { n }) }
}

impl<F: Two, const UNIFORM: u8> Loop for Map2<F, UNIFORM> {
    #[inline(always)]
    unsafe fn run(arguments: &Arguments) {
        let Arguments { n, out, operands: [a, b, _] } = *arguments;
        if n == 0 {
            return;
        }
        // SAFETY: the caller promises n results, the operands' elements, their alignment, and that they don't overlap.
        let (out, a, b) = unsafe {
            let out = from_raw_parts_mut(out.cast::<F::Out>(), n);
            (out, elements::<F::In>(a, n, UNIFORM & 1 != 0), elements::<F::In>(b, n, UNIFORM & 2 != 0))
        };
        // Plain loops: what iterators take as closures would be compiled without the instruction set.
        let (first_a, first_b) = (a[0], b[0]);
        let mut rare = false;
        match UNIFORM {
            0 => {
                for (y, (&a, &b)) in out.iter_mut().zip(a.iter().zip(b)) {
                    *y = F::at(a, b);
                    rare |= F::is_rare(a, b);
                }
            }
            1 => {
                for (y, &b) in out.iter_mut().zip(b) {
                    *y = F::at(first_a, b);
                    rare |= F::is_rare(first_a, b);
                }
            }
            _ => {
                for (y, &a) in out.iter_mut().zip(a) {
                    *y = F::at(a, first_b);
                    rare |= F::is_rare(a, first_b);
                }
            }
        }
        if rare {
            for (i, y) in out.iter_mut().enumerate() {
                let a = if UNIFORM & 1 != 0 { first_a } else { a[i] };
                let b = if UNIFORM & 2 != 0 { first_b } else { b[i] };
                if F::is_rare(a, b) {
                    *y = F::rarely(a, b);
                }
            }
        }
    }
}

impl<F: Three, const UNIFORM: u8> Loop for Map3<F, UNIFORM> {
    #[inline(always)]
    unsafe fn run(arguments: &Arguments) {
        let Arguments { n, out, operands: [a, b, c] } = *arguments;
        if n == 0 {
            return;
        }
        // SAFETY: the caller promises n results, the operands' elements, their alignment, and that they don't overlap.
        let (out, a, b, c) = unsafe {
            (
                from_raw_parts_mut(out.cast::<F::Rest>(), n),
                elements::<F::First>(a, n, UNIFORM & 1 != 0),
                elements::<F::Rest>(b, n, UNIFORM & 2 != 0),
                elements::<F::Rest>(c, n, UNIFORM & 4 != 0),
            )
        };
        let (first_a, first_b, first_c) = (a[0], b[0], c[0]);
        for (i, y) in out.iter_mut().enumerate() {
            // The slices are as long as `out`; the conditions are known when this is compiled.
            let a = if UNIFORM & 1 != 0 { first_a } else { a[i] };
            let b = if UNIFORM & 2 != 0 { first_b } else { b[i] };
            let c = if UNIFORM & 4 != 0 { first_c } else { c[i] };
            *y = F::at(a, b, c);
        }
    }
}
