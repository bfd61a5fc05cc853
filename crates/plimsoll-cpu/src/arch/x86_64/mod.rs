//! The instruction sets of x86-64: the shared macros are here, the instructions of each set in its own file.

pub(crate) mod avx2;
pub(crate) mod avx512;
pub(crate) mod sse2;

/// [`Vector`](super::vector::Vector) from the intrinsics of one register type. If a set has no single instruction for an
/// operation, a function replaces it.
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
                // SAFETY: the caller promises the instruction set and the memory; any alignment is allowed.
                Self(unsafe { $load(source) })
            }
            #[inline(always)]
            unsafe fn store(self, target: *mut $element) {
                // SAFETY: the caller promises the instruction set and the memory; any alignment is allowed.
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
pub(crate) use vector;

/// [`Simd`](super::vector::Simd) for one set, and the entry point that compiles a kernel for it.
macro_rules! simd {
    ($name:ident, $f64:ty, $f32:ty, $features:literal) => {
        #[doc = concat!("The instruction set `", $features, "`.")]
        pub(crate) struct $name;

        impl crate::arch::vector::Simd for $name {
            type F64 = $f64;
            type F32 = $f32;

            #[inline(always)]
            unsafe fn fence() {
                // SAFETY: SSE belongs to every x86-64 machine.
                unsafe { core::arch::x86_64::_mm_sfence() }
            }
        }

        /// Runs `kernel` compiled for this set.
        ///
        /// # Safety
        /// The machine has the set, and the pointers held by the kernel are valid as it requires.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn run<K: crate::arch::vector::Kernel>(kernel: K) -> K::Output {
            // SAFETY: the caller promises both.
            unsafe { kernel.run::<$name>() }
        }
    };
}
pub(crate) use simd;
