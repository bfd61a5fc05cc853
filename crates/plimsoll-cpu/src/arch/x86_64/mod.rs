//! The instruction sets of x86-64: what they share is here, the instructions of each set in its own file.

pub(crate) mod avx2;
pub(crate) mod avx512;
pub(crate) mod sse2;

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
