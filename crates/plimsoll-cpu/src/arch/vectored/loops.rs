//! Loops over tiles: an operation on elements, written once, becomes one function per instruction set and per combination of
//! uniform operands. [`super::operation`] lists the operations.

use std::marker::PhantomData;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use super::super::Isa;
use super::super::vector::{Simd, Vector as _};
use super::ahead::NextInput;

/// The arguments of a loop.
#[derive(Clone, Copy)]
pub(super) struct Arguments<'a> {
    /// How many elements.
    pub n: usize,
    /// The results, write-only.
    pub out: *mut u8,
    /// The operands: n elements each, or one if it is uniform.
    pub operands: [*const u8; 3],
    /// What a slow loop fetches meanwhile: the elements with the same numbers as those that it computes.
    pub ahead: &'a [NextInput],
    /// Where results go instead, if they are whole blocks; `out` then only holds a block.
    pub past: Option<PastCaches>,
}

/// Results that are stored past the caches, in blocks of [`BLOCK`] elements.
#[derive(Clone, Copy)]
pub(super) struct PastCaches {
    /// At a cache line.
    pub to: *mut u8,
    /// Bytes of an element.
    pub width: usize,
    /// Bytes from one element of an operand to the next; 0 if it is uniform.
    pub steps: [usize; 3],
}

/// Results that a loop computes before it stores them past the caches: so few that loads and stores overlap.
pub(super) const BLOCK: usize = 64;

/// Runs a loop, in blocks if its results are stored past the caches.
///
/// # Safety
/// As for [`Function`]; `S` is available.
#[inline(always)]
unsafe fn run<L: Loop, S: Simd>(arguments: &Arguments<'_>) {
    let Some(past) = arguments.past else {
        // SAFETY: the caller's promise.
        return unsafe { L::run(arguments) };
    };
    let (mut to, mut operands) = (past.to, arguments.operands);
    let lanes = S::F32::LANES;
    for _ in 0..arguments.n / BLOCK {
        // SAFETY: the caller promises whole blocks of results and operands, room for a block at `out`, and the alignment of both.
        unsafe {
            // A constant number, so that the loop has no other cases.
            L::run(&Arguments { n: BLOCK, operands, ahead: &[], past: None, ..*arguments });
            let held = arguments.out.cast::<f32>().cast_const();
            for place in (0..BLOCK * past.width / 4).step_by(lanes) {
                S::F32::load(held.add(place)).store_nontemporal(to.cast::<f32>().add(place));
            }
        }
        to = to.wrapping_add(BLOCK * past.width);
        for (operand, step) in operands.iter_mut().zip(past.steps) {
            *operand = operand.wrapping_add(BLOCK * step);
        }
    }
}

/// Elements that a slow loop computes between two fetches.
const FETCH_EVERY: usize = 64;

/// A loop compiled for one instruction set.
///
/// Its caller promises that the machine has the set; that `out` is valid for writes of n results, and each operand for reads
/// of n elements (of one, if the function expects a uniform operand there); that all are aligned to their elements and hold
/// values of their types; and that `out` overlaps no operand. With `past`, which only operations that stream take: that its numbers are the
/// operation's; that n is a multiple of [`BLOCK`]; that `out` is valid for writes of a block and aligned to a cache line; that the target begins at a
/// cache line, is valid for writes of n results, and shares memory only with operands that begin there too and have elements of that width; and
/// that the caller calls [`Simd::fence`] afterwards.
pub(super) type Function = unsafe fn(&Arguments<'_>);

/// A loop, to be compiled for each instruction set.
pub(super) trait Loop {
    /// Runs it. Implementations are `#[inline(always)]`.
    ///
    /// # Safety
    /// As for [`Function`].
    unsafe fn run(arguments: &Arguments<'_>);
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
    /// The set of every machine of this architecture: SSE2 or NEON.
    Baseline,
}

impl Set {
    /// Whether its vectors have 64 bytes.
    pub(crate) fn is_wide(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self == Self::Avx512;
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// The set for `isa`, or `None` if this machine lacks it.
    pub(crate) fn from_isa(isa: Isa) -> Option<Self> {
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
unsafe fn avx512<L: Loop>(arguments: &Arguments<'_>) {
    // SAFETY: the caller promises what `Function` requires.
    unsafe { run::<L, super::super::x86_64::avx512::Avx512>(arguments) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<L: Loop>(arguments: &Arguments<'_>) {
    // SAFETY: as above.
    unsafe { run::<L, super::super::x86_64::avx2::Avx2>(arguments) }
}

/// The registers of [`Set::Baseline`].
#[cfg(target_arch = "x86_64")]
type Registers = super::super::x86_64::sse2::Sse2;
#[cfg(target_arch = "aarch64")]
type Registers = super::super::aarch64::neon::Neon;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
type Registers = super::super::generic::Generic;

unsafe fn baseline<L: Loop>(arguments: &Arguments<'_>) {
    // SAFETY: as above.
    unsafe { run::<L, Registers>(arguments) }
}

/// The loop `L` compiled for `set`.
pub(super) fn compile_for<L: Loop>(set: Set) -> Function {
    match set {
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 => avx512::<L>,
        #[cfg(target_arch = "x86_64")]
        Set::Avx2 => avx2::<L>,
        Set::Baseline => baseline::<L>,
    }
}

/// An operation of one operand.
pub(super) trait Unary {
    /// The operand's element.
    type In: Copy;
    /// The result's element.
    type Out: Copy;
    /// The result.
    fn apply(x: Self::In) -> Self::Out;
    /// Whether [`Unary::apply`] is wrong for x, so that [`Unary::apply_rare`] must replace its result. Evaluated for a whole
    /// tile first; rare elements are recomputed afterwards.
    #[inline(always)]
    fn is_rare(_: Self::In) -> bool {
        false
    }
    /// The result for rare operands; may branch.
    #[inline(always)]
    fn apply_rare(x: Self::In) -> Self::Out {
        Self::apply(x)
    }
    /// Whether [`Unary::apply_rare`] is right for all operands and doesn't branch: then it recomputes the whole tile.
    const IS_RARE_VECTORED: bool = false;
}

/// An operation of two operands.
pub(super) trait Binary {
    /// Both operands' element.
    type In: Copy;
    /// The result's element.
    type Out: Copy;
    /// The result.
    fn apply(a: Self::In, b: Self::In) -> Self::Out;
    /// Whether [`Binary::apply`] is wrong for these operands, as in [`Unary::is_rare`].
    #[inline(always)]
    fn is_rare(_: Self::In, _: Self::In) -> bool {
        false
    }
    /// The result for rare operands; may branch.
    #[inline(always)]
    fn apply_rare(a: Self::In, b: Self::In) -> Self::Out {
        Self::apply(a, b)
    }
}

/// An operation of two operands with a faster form for some second operands. The other form computes blocks.
pub(super) trait HasShort: Binary<In = Self::Element, Out = Self::Element> {
    /// All elements.
    type Element: Copy;
    /// The faster form.
    type Short: Binary<In = Self::Element, Out = Self::Element>;
    /// Whether the faster form is right for this second operand.
    fn is_short(b: Self::Element) -> bool;
    /// The results of [`Binary::apply`] for a block.
    fn apply_block<const N: usize>(a: &[Self::Element; N], b: &[Self::Element; N]) -> [Self::Element; N];
}

/// An operation of three operands.
pub(super) trait Ternary {
    /// The first operand's element.
    type First: Copy;
    /// The other operands' and the result's element.
    type Rest: Copy;
    /// The result.
    fn apply(a: Self::First, b: Self::Rest, c: Self::Rest) -> Self::Rest;
}

/// The loop of an operation of one operand.
pub(super) struct Map1<F>(PhantomData<F>);
/// [`Map1`] for a slow operation: it fetches other memory meanwhile.
pub(super) struct Slow1<F>(PhantomData<F>);
/// The loop of an operation of two operands. Bit i of `UNIFORM`: operand i is the same for all elements.
pub(super) struct Map2<F, const UNIFORM: u8>(PhantomData<F>);
/// The loop of an operation of three operands, as [`Map2`].
pub(super) struct Map3<F, const UNIFORM: u8>(PhantomData<F>);

/// [`Map2`] in the faster form, if that is right for all second operands of the tile, else by blocks.
pub(super) struct Short2<F, const UNIFORM: u8, const BLOCK: usize>(PhantomData<F>);

/// [`Short2`] for vectors of 64 bytes, whose instructions take longer.
pub(super) type WideShort2<F, const UNIFORM: u8> = Short2<F, UNIFORM, 64>;
/// [`Short2`] for other sets, which keep a block's vectors in registers.
pub(super) type NarrowShort2<F, const UNIFORM: u8> = Short2<F, UNIFORM, 32>;

impl<F: Unary> Loop for Map1<F> {
    #[inline(always)]
    unsafe fn run(arguments: &Arguments<'_>) {
        // SAFETY: the caller's promise.
        let (out, a) = unsafe { unary_elements::<F>(arguments) };
        let mut rare = false;
        for (y, &x) in out.iter_mut().zip(a) {
            *y = F::apply(x);
            rare |= F::is_rare(x);
        }
        if rare {
            replace_rare::<F>(out, a);
        }
    }
}

impl<F: Unary> Loop for Slow1<F> {
    #[inline(always)]
    unsafe fn run(arguments: &Arguments<'_>) {
        // SAFETY: the caller's promise.
        let (out, a) = unsafe { unary_elements::<F>(arguments) };
        let mut rare = false;
        let length = if arguments.ahead.is_empty() { out.len().max(1) } else { FETCH_EVERY };
        for (number, (block, a)) in out.chunks_mut(length).zip(a.chunks(length)).enumerate() {
            for input in arguments.ahead {
                input.fetch(number * FETCH_EVERY, FETCH_EVERY);
            }
            for (y, &x) in block.iter_mut().zip(a) {
                *y = F::apply(x);
                rare |= F::is_rare(x);
            }
        }
        if rare {
            replace_rare::<F>(out, a);
        }
    }
}

/// The results and the operand of a loop over one operand.
///
/// # Safety
/// That of [`Function`].
#[inline(always)]
unsafe fn unary_elements<'a, F: Unary>(arguments: &Arguments<'a>) -> (&'a mut [F::Out], &'a [F::In]) {
    let Arguments { n, out, operands: [a, ..], .. } = *arguments;
    // SAFETY: the caller promises n results, n elements, their alignment, and that they don't overlap.
    unsafe { (from_raw_parts_mut(out.cast::<F::Out>(), n), from_raw_parts(a.cast::<F::In>(), n)) }
}

/// Replaces the results of rare operands.
#[inline(always)]
fn replace_rare<F: Unary>(out: &mut [F::Out], a: &[F::In]) {
    if F::IS_RARE_VECTORED {
        for (y, &x) in out.iter_mut().zip(a) {
            *y = F::apply_rare(x);
        }
    } else {
        for (y, &x) in out.iter_mut().zip(a).filter(|(_, x)| F::is_rare(**x)) {
            *y = F::apply_rare(x);
        }
    }
}

/// An operand's elements: one if it is uniform.
#[inline(always)]
unsafe fn elements<'a, T>(from: *const u8, n: usize, uniform: bool) -> &'a [T] {
    // SAFETY: the caller promises these elements, their alignment, and that they aren't written meanwhile.
    unsafe { from_raw_parts(from.cast::<T>(), if uniform { 1 } else { n }) }
}

impl<F: Binary, const UNIFORM: u8> Loop for Map2<F, UNIFORM> {
    #[inline(always)]
    unsafe fn run(arguments: &Arguments<'_>) {
        let Arguments { n, out, operands: [a, b, _], .. } = *arguments;
        if n == 0 {
            return;
        }
        // SAFETY: the caller promises n results, the operands' elements, their alignment, and that they don't overlap.
        let (out, a, b) = unsafe {
            let out = from_raw_parts_mut(out.cast::<F::Out>(), n);
            (out, elements::<F::In>(a, n, UNIFORM & 1 != 0), elements::<F::In>(b, n, UNIFORM & 2 != 0))
        };
        // Plain loops: closures passed to iterators would be compiled without the instruction set.
        let (first_a, first_b) = (a[0], b[0]);
        let mut rare = false;
        match UNIFORM {
            0 => {
                for (y, (&a, &b)) in out.iter_mut().zip(a.iter().zip(b)) {
                    *y = F::apply(a, b);
                    rare |= F::is_rare(a, b);
                }
            }
            1 => {
                for (y, &b) in out.iter_mut().zip(b) {
                    *y = F::apply(first_a, b);
                    rare |= F::is_rare(first_a, b);
                }
            }
            _ => {
                for (y, &a) in out.iter_mut().zip(a) {
                    *y = F::apply(a, first_b);
                    rare |= F::is_rare(a, first_b);
                }
            }
        }
        if rare {
            for (i, y) in out.iter_mut().enumerate() {
                let a = if UNIFORM & 1 != 0 { first_a } else { a[i] };
                let b = if UNIFORM & 2 != 0 { first_b } else { b[i] };
                if F::is_rare(a, b) {
                    *y = F::apply_rare(a, b);
                }
            }
        }
    }
}

impl<F: HasShort, const UNIFORM: u8, const BLOCK: usize> Loop for Short2<F, UNIFORM, BLOCK> {
    #[inline(always)]
    unsafe fn run(arguments: &Arguments<'_>) {
        let Arguments { n, operands: [_, b, _], .. } = *arguments;
        if n == 0 {
            return;
        }
        // SAFETY: the caller promises the operand's elements and their alignment.
        let b = unsafe { elements::<F::In>(b, n, UNIFORM & 2 != 0) };
        let mut short = true;
        for &b in b {
            short &= F::is_short(b);
        }
        // SAFETY: both forms take the same arguments.
        unsafe {
            if short {
                Map2::<F::Short, UNIFORM>::run(arguments);
            } else {
                run_blocks::<F, UNIFORM, BLOCK>(arguments);
            }
        }
    }
}

/// Computes whole blocks, then the other elements one by one.
///
/// # Safety
/// That of [`Function`].
#[inline(always)]
unsafe fn run_blocks<F: HasShort, const UNIFORM: u8, const BLOCK: usize>(arguments: &Arguments<'_>) {
    let Arguments { n, out, operands: [a, b, _], .. } = *arguments;
    // SAFETY: the caller promises n results, the operands' elements, their alignment, and that they don't overlap.
    let (out, a, b) = unsafe {
        let out = from_raw_parts_mut(out.cast::<F::Element>(), n);
        (out, elements::<F::Element>(a, n, UNIFORM & 1 != 0), elements::<F::Element>(b, n, UNIFORM & 2 != 0))
    };
    let (first_a, first_b) = ([a[0]; BLOCK], [b[0]; BLOCK]);
    let (blocks, rest) = out.as_chunks_mut::<BLOCK>();
    let done = blocks.len() * BLOCK;
    for (y, from) in blocks.iter_mut().zip((0..).step_by(BLOCK)) {
        let a = if UNIFORM & 1 != 0 { &first_a } else { a[from..].first_chunk().unwrap_or(&first_a) };
        let b = if UNIFORM & 2 != 0 { &first_b } else { b[from..].first_chunk().unwrap_or(&first_b) };
        *y = F::apply_block(a, b);
    }
    for (i, y) in (done..).zip(rest) {
        let a = if UNIFORM & 1 != 0 { a[0] } else { a[i] };
        let b = if UNIFORM & 2 != 0 { b[0] } else { b[i] };
        *y = F::apply(a, b);
    }
}

impl<F: Ternary, const UNIFORM: u8> Loop for Map3<F, UNIFORM> {
    #[inline(always)]
    unsafe fn run(arguments: &Arguments<'_>) {
        let Arguments { n, out, operands: [a, b, c], .. } = *arguments;
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
            // The slices are as long as `out`; the conditions are compile-time constants.
            let a = if UNIFORM & 1 != 0 { first_a } else { a[i] };
            let b = if UNIFORM & 2 != 0 { first_b } else { b[i] };
            let c = if UNIFORM & 4 != 0 { first_c } else { c[i] };
            *y = F::apply(a, b, c);
        }
    }
}
