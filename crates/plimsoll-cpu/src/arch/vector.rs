//! The few vector operations that the kernels are written in, and the way from a kernel to an instruction set.
//!
//! A kernel is written once, over [`Simd`]; [`dispatch`] compiles it once per instruction set. What the kernels
//! compute is theirs (`stream`, `intensity`); which set the machine has is [`super::Isa`]'s business.

use super::Isa;

/// Some lanes of one element type, held in one register.
///
/// Every function is `#[inline(always)]`, because the instructions behind it exist only inside a function compiled
/// for them: the entry point of the instruction set, which inlines all of this.
pub trait Vector: Copy {
    /// The type of one lane.
    type Element: Copy;
    /// One lane with the same rounding, so that the rest of a slice is computed as its middle was.
    type Single: Vector<Element = Self::Element>;
    /// Elements per register.
    const LANES: usize;

    /// Every lane holds `value`.
    ///
    /// # Safety
    /// The machine has the instruction set of this type: so for every function of this trait.
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
    /// Stores `LANES` elements past the caches, or as [`Vector::store`] where the set has no such store.
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
    /// `self · factor + addend`: rounded once where the set has the instruction, twice where it has not.
    ///
    /// # Safety
    /// The machine has the instruction set.
    unsafe fn fma(self, factor: Self, addend: Self) -> Self;
    /// `self ^ other`, bit by bit: takes elements in without any floating-point operation.
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

/// An instruction set: its vectors, and what orders its non-temporal stores.
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
    /// What it returns.
    type Output;

    /// Runs it with the registers of `S`. Implementations are `#[inline(always)]`.
    ///
    /// # Safety
    /// The machine has the instruction set `S`, and the pointers held by the kernel are valid as it says.
    unsafe fn run<S: Simd>(self) -> Self::Output;
}

/// Runs `kernel` in the form compiled for `isa`.
///
/// # Safety
/// `isa` is available on this machine, and the pointers held by the kernel are valid as it says.
pub(crate) unsafe fn dispatch<K: Kernel>(isa: Isa, kernel: K) -> K::Output {
    // SAFETY: the caller promises both obligations of `Kernel::run`; a set of another architecture is never
    // available, so those arms only have to be some form that is sound everywhere.
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

/// One element in one register: what the vectors of a set leave over. `FUSED` says how that set rounds `fma`.
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
