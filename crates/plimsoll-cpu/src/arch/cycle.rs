//! Chains of instructions of known latency, which convert time into core cycles: additions, and multiplications among dense
//! 512-bit code. `crate::timer` and `crate::threads::core_clock` time them.

/// Additions per iteration of the loop in [`chain`]. Large enough that the chain hides the loop's counter.
pub const ADDS_PER_ITERATION: u64 = 32;

/// True if [`chain`] exists for this architecture.
#[must_use]
pub const fn is_available() -> bool {
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}

/// [`chain`] in the assembly of one architecture: the addition, the decrement, and the branch back.
macro_rules! chain {
    ($architecture:literal, $add:literal, $down:literal, $back:literal) => {
        /// Runs `iterations` × [`ADDS_PER_ITERATION`] additions, each dependent on the last, so that they take that many core
        /// cycles. Returns the sum, which is the number of additions.
        ///
        /// The addend is a register, not a constant: Intel cores since Golden Cove add small constants while renaming, with no
        /// latency.
        #[cfg(target_arch = $architecture)]
        #[inline(never)]
        #[must_use]
        pub fn chain(iterations: u64) -> u64 {
            let mut sum = 0_u64;
            if iterations == 0 {
                return sum;
            }
            // SAFETY: registers only; the counter is at least 1, so the loop ends; flags are declared clobbered by
            // default.
            unsafe {
                core::arch::asm!(
                    ".p2align 5",
                    "2:",
                    ".rept 32",
                    $add,
                    ".endr",
                    $down,
                    $back,
                    sum = inout(reg) sum,
                    one = in(reg) 1_u64,
                    n = inout(reg) iterations => _,
                    options(nomem, nostack),
                );
            }
            sum
        }
    };
}

chain!("x86_64", "add {sum}, {one}", "dec {n}", "jnz 2b");
chain!("aarch64", "add {sum}, {sum}, {one}", "subs {n}, {n}, #1", "b.ne 2b");

/// Not available on this architecture: see [`is_available`].
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[must_use]
pub fn chain(iterations: u64) -> u64 {
    iterations.wrapping_mul(ADDS_PER_ITERATION)
}

/// Core cycles of an iteration of [`dense`]: 17 dependent multiplications of three cycles each.
pub const CYCLES_PER_DENSE_ITERATION: u64 = 51;

/// How many 512-bit multiply-adds stand between two multiplications of [`dense`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Density {
    /// Five: five sixths of what a core with two 512-bit units starts in three cycles.
    Five,
    /// Two: two thirds of what a core that starts one per cycle does (Zen 4, Intel cores with one such unit). With five, they
    /// would need 80 cycles an iteration, and hold up the multiplications.
    Two,
}

impl Density {
    /// The density for a core, from its times of equally many iterations of each: [`Density::Two`] if the multiply-adds of
    /// [`Density::Five`] hold up its multiplications. That takes 80 / 51 = 1.57 times as long where one is started per cycle; the
    /// lower clock of dense code alone takes less than 1.25 times as long.
    #[must_use]
    pub const fn from_times(five: u64, two: u64) -> Self {
        if five.saturating_mul(4) > two.saturating_mul(5) { Self::Two } else { Self::Five }
    }
}

/// True if [`dense`] exists for this processor.
#[must_use]
pub fn has_dense() -> bool {
    #[cfg(target_arch = "x86_64")]
    // Xeon Phi has AVX-512F without VL, and different integer units.
    return is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Runs `iterations` × [`CYCLES_PER_DENSE_ITERATION`] cycles of dependent integer multiplications among 512-bit FMAs. It measures
/// the clock of code that a core runs at a lower clock than other code: a chain without such FMAs would see the clock recover
/// within a microsecond.
///
/// A 64-bit multiplication takes three cycles on the x86-64 cores with AVX-512VL (uops.info, IMUL R64, R64: Skylake-X to Golden
/// Cove, Zen 4), on a port that no 512-bit FMA uses (Intel's port 1; AMD's integer units). Five FMAs per multiplication are five
/// sixths of what two ports can start. With six, the chain waited for them (1 % on an Emerald Rapids core); with five it agreed
/// with a chain of additions run right after it. `density` has to be the core's: see [`Density::from_times`].
///
/// Returns the product, which is 1; 0 if [`has_dense`] is false or `iterations` is 0.
#[must_use]
pub fn dense(density: Density, iterations: u64) -> u64 {
    if iterations == 0 || !has_dense() {
        return 0;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the processor has AVX-512F, and iterations ≥ 1.
    return unsafe {
        match density {
            Density::Five => dense_avx512_five(iterations),
            Density::Two => dense_avx512_two(iterations),
        }
    };
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = density;
        0
    }
}

/// [`dense`] with the registers of the multiply-adds before each odd and each even multiplication.
#[cfg(target_arch = "x86_64")]
macro_rules! dense_avx512 {
    ($name:ident, $odd:literal, $even:literal) => {
/// # Safety
/// The processor has AVX-512F, and `iterations` is at least 1.
#[inline(never)]
unsafe fn $name(iterations: u64) -> u64 {
    // x · 0.75 + 0.4 converges to 1.6: no zeros, denormals or infinities.
    let constants = [0.75_f64, 0.4];
    let mut product = 1_u64;
    // SAFETY: the caller promises the instructions and the counter. The two loads read 8 bytes each of a live array;
    // every vector register that is written is declared; no stack is used.
    unsafe {
        core::arch::asm!(
            "vbroadcastsd zmm14, [{constants}]",
            "vbroadcastsd zmm15, [{constants} + 8]",
            ".irp r,0,1,2,3,4,5,6,7,8,9",
            "vmovaps zmm\\r, zmm14",
            ".endr",
            ".p2align 6",
            "2:",
            ".rept 8",
            concat!(".irp r,", $odd),
            "vfmadd213pd zmm\\r, zmm14, zmm15",
            ".endr",
            "imul {product}, {product}",
            concat!(".irp r,", $even),
            "vfmadd213pd zmm\\r, zmm14, zmm15",
            ".endr",
            "imul {product}, {product}",
            ".endr",
            "imul {product}, {product}",
            "dec {iterations}",
            "jnz 2b",
            "vzeroupper",
            constants = in(reg) constants.as_ptr(),
            product = inout(reg) product,
            iterations = inout(reg) iterations => _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
            out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack),
        );
    }
    product
}
    };
}

#[cfg(target_arch = "x86_64")]
dense_avx512!(dense_avx512_five, "0,1,2,3,4", "5,6,7,8,9");
#[cfg(target_arch = "x86_64")]
dense_avx512!(dense_avx512_two, "0,1", "5,6");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_performs_every_counted_addition() {
        for iterations in [0, 1, 2, 1000] {
            assert_eq!(chain(iterations), iterations * ADDS_PER_ITERATION);
        }
    }

    #[test]
    fn the_dense_chain_returns_1_if_it_is_available() {
        let product = u64::from(has_dense());
        for density in [Density::Five, Density::Two] {
            assert_eq!([0, 1, 100].map(|iterations| dense(density, iterations)), [0, product, product]);
        }
    }

    #[test]
    fn a_core_that_starts_one_wide_multiply_add_per_cycle_has_the_lower_density() {
        // Cycles of the multiply-adds or of the multiplications, whichever take longer; and a clock 15 % lower with five.
        assert_eq!(Density::from_times(80_000, 51_000), Density::Two);
        assert_eq!(Density::from_times(51_000, 51_000), Density::Five);
        assert_eq!(Density::from_times(60_000, 51_000), Density::Five);
        assert_eq!(Density::from_times(0, 0), Density::Five);
    }
}
