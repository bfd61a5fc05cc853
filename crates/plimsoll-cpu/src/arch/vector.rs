//! The few vector operations that the kernels are written in, and the dispatch of a kernel to an instruction set.
//!
//! A kernel is written once, over [`Simd`]; [`dispatch`] compiles it once per instruction set. The kernels are in `stream` and
//! `intensity`; [`super::Isa`] knows which sets the machine has.

use super::Isa;

/// Some lanes of one element type, held in one register.
///
/// Every function is `#[inline(always)]`, because its instructions are only available in a function compiled for them: the
/// entry point of the instruction set, which inlines all of this.
pub trait Vector: Copy {
    /// The type of one lane.
    type Element: Copy;
    /// One lane with the same rounding, so that the tail of a slice is computed as its middle is.
    type Single: Vector<Element = Self::Element>;
    /// Elements per register.
    const LANES: usize;

    /// Every lane holds `value`.
    ///
    /// # Safety
    /// The machine has the instruction set of this type. Every function of this trait requires this.
    unsafe fn splat(value: Self::Element) -> Self;
    /// Loads `LANES` elements.
    ///
    /// # Safety
    /// `source` is valid for reads of `LANES` elements.
    unsafe fn load(source: *const Self::Element) -> Self;
    /// Stores `LANES` elements through the caches.
    ///
    /// # Safety
    /// `target` is valid for writes of `LANES` elements.
    unsafe fn store(self, target: *mut Self::Element);
    /// Stores `LANES` elements past the caches, or as [`Vector::store`] if the set has no such store.
    ///
    /// # Safety
    /// `target` is valid for writes of `LANES` elements and aligned to the register's size. The thread calls
    /// [`Simd::fence`] before it hands the memory to another.
    unsafe fn store_nontemporal(self, target: *mut Self::Element);
    /// `self + other`, lane by lane.
    ///
    /// # Safety
    /// The machine has the instruction set.
    unsafe fn add(self, other: Self) -> Self;
    /// `self · other`, lane by lane.
    ///
    /// # Safety
    /// The machine has the instruction set.
    unsafe fn mul(self, other: Self) -> Self;
    /// `self · factor + addend`: rounded once if the set has the instruction, else twice.
    ///
    /// # Safety
    /// The machine has the instruction set.
    unsafe fn fma(self, factor: Self, addend: Self) -> Self;
    /// `self ^ other`, bit by bit: combines elements without a floating-point operation.
    ///
    /// # Safety
    /// The machine has the instruction set.
    unsafe fn xor(self, other: Self) -> Self;
    /// The sum of the lanes.
    ///
    /// # Safety
    /// The machine has the instruction set.
    unsafe fn reduce(self) -> Self::Element;
}

/// An instruction set: its vectors, and the fence for its non-temporal stores.
pub trait Simd {
    /// Its vector of f64.
    type F64: Vector<Element = f64>;
    /// Its vector of f32.
    type F32: Vector<Element = f32>;

    /// Makes earlier non-temporal stores visible before later stores.
    ///
    /// # Safety
    /// The machine has the instruction set.
    unsafe fn fence();
}

/// A computation written over [`Simd`], to be compiled for each instruction set.
pub(crate) trait Kernel {
    /// The type of its result.
    type Output;

    /// Runs it with the registers of `S`. Implementations are `#[inline(always)]`.
    ///
    /// # Safety
    /// The machine has the instruction set `S`, and the pointers held by the kernel are valid as it requires.
    unsafe fn run<S: Simd>(self) -> Self::Output;
}

/// Runs `kernel` in the form compiled for `isa`.
///
/// # Safety
/// `isa` is available on this machine, and the pointers held by the kernel are valid as it requires.
pub(crate) unsafe fn dispatch<K: Kernel>(isa: Isa, kernel: K) -> K::Output {
    // SAFETY: the caller promises both obligations of `Kernel::run`. A set of another architecture is never available, so
    // for those any form will do that is sound everywhere.
    unsafe {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => super::x86_64::avx512::run(kernel),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => super::x86_64::avx2::run(kernel),
            #[cfg(target_arch = "x86_64")]
            Isa::Sse2 => super::x86_64::sse2::run(kernel),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => super::aarch64::neon::run(kernel),
            _ => super::generic::run(kernel),
        }
    }
}

/// Functions that stand for instructions which a set lacks: the expression consists of its intrinsics.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! composed {
    ($($name:ident($($operand:ident),+: $register:ty) -> $result:ty = $value:expr;)+) => {$(
        #[inline(always)]
        pub(super) unsafe fn $name($($operand: $register),+) -> $result {
            // SAFETY: the caller promises the instruction set.
            unsafe { $value }
        }
    )+};
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use composed;

/// [`Vector`] from the intrinsics of one register type. If a set has no single instruction for an
/// operation, a function replaces it.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! vector {
    ($name:ident, $register:ty, $element:ty, $lanes:literal, fused: $fused:literal,
     $splat:ident, $load:ident, $store:ident, $stream:ident, $add:ident, $mul:ident, $fma:ident, $xor:ident,
     $reduce:ident) => {
        #[doc = concat!(stringify!($lanes), " lanes of ", stringify!($element), " in one register.")]
        #[derive(Clone, Copy)]
        pub(crate) struct $name($register);

        impl crate::arch::vector::Vector for $name {
            type Element = $element;
            type Single = crate::arch::vector::Single<$element, $fused>;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn splat(value: $element) -> Self {
                // SAFETY: the caller promises the instruction set.
                Self(unsafe { $splat(value) })
            }
            #[inline(always)]
            unsafe fn load(source: *const $element) -> Self {
                // SAFETY: the caller promises the instruction set and the memory; the element's alignment is enough.
                Self(unsafe { $load(source) })
            }
            #[inline(always)]
            unsafe fn store(self, target: *mut $element) {
                // SAFETY: the caller promises the instruction set and the memory; the element's alignment is enough.
                unsafe { $store(target, self.0) }
            }
            #[inline(always)]
            unsafe fn store_nontemporal(self, target: *mut $element) {
                // SAFETY: the caller promises the instruction set, the memory, its alignment and a later fence.
                unsafe { $stream(target, self.0) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: the caller promises the instruction set.
                Self(unsafe { $add(self.0, other.0) })
            }
            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                // SAFETY: the caller promises the instruction set.
                Self(unsafe { $mul(self.0, other.0) })
            }
            #[inline(always)]
            unsafe fn fma(self, factor: Self, addend: Self) -> Self {
                // SAFETY: the caller promises the instruction set.
                Self(unsafe { $fma(self.0, factor.0, addend.0) })
            }
            #[inline(always)]
            unsafe fn xor(self, other: Self) -> Self {
                // SAFETY: the caller promises the instruction set.
                Self(unsafe { $xor(self.0, other.0) })
            }
            #[inline(always)]
            unsafe fn reduce(self) -> $element {
                // SAFETY: the caller promises the instruction set.
                unsafe { $reduce(self.0) }
            }
        }
    };
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use vector;

/// One element in one register, for the elements left over by a set's vectors. `FUSED`: whether that set rounds `fma` once.
#[derive(Clone, Copy)]
pub(crate) struct Single<T, const FUSED: bool>(T);

/// [`Vector`] for one lane of a float type.
macro_rules! single {
    ($element:ty) => {
        impl<const FUSED: bool> Vector for Single<$element, FUSED> {
            type Element = $element;
            type Single = Self;
            const LANES: usize = 1;

            #[inline(always)]
            unsafe fn splat(value: $element) -> Self {
                Self(value)
            }
            #[inline(always)]
            unsafe fn load(source: *const $element) -> Self {
                // SAFETY: the caller promises one readable element.
                Self(unsafe { source.read() })
            }
            #[inline(always)]
            unsafe fn store(self, target: *mut $element) {
                // SAFETY: the caller promises one writable element.
                unsafe { target.write(self.0) }
            }
            #[inline(always)]
            unsafe fn store_nontemporal(self, target: *mut $element) {
                // SAFETY: the caller promises one writable element.
                unsafe { self.store(target) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                Self(self.0 * other.0)
            }
            #[inline(always)]
            unsafe fn fma(self, factor: Self, addend: Self) -> Self {
                if FUSED { Self(self.0.mul_add(factor.0, addend.0)) } else { Self(self.0 * factor.0 + addend.0) }
            }
            #[inline(always)]
            unsafe fn xor(self, other: Self) -> Self {
                Self(<$element>::from_bits(self.0.to_bits() ^ other.0.to_bits()))
            }
            #[inline(always)]
            unsafe fn reduce(self) -> $element {
                self.0
            }
        }
    };
}

single!(f64);
single!(f32);
