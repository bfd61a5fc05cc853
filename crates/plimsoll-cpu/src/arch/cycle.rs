//! A chain of dependent one-cycle additions: the yardstick that turns time into core cycles. Timing it is
//! [`crate::timer::core_hz`]'s work.

/// Additions per turn of the loop in [`chain`]. Large enough that the loop's own counter hides beside the chain.
pub const ADDS_PER_TURN: u64 = 32;

/// True where [`chain`] is written for this architecture.
#[must_use]
pub const fn exists() -> bool {
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}

/// [`chain`] in the words of one architecture: the addition, the count down, and the jump back.
macro_rules! chain {
    ($architecture:literal, $add:literal, $down:literal, $back:literal) => {
        /// Runs `turns` × [`ADDS_PER_TURN`] additions, each dependent on the last, so that they take that many core
        /// cycles. Returns the sum, which is the number of additions.
        ///
        /// The addend is a register, not a constant: Intel cores since Golden Cove add small constants while renaming,
        /// in no time at all.
        #[cfg(target_arch = $architecture)]
        #[inline(never)]
        #[must_use]
        pub fn chain(turns: u64) -> u64 {
            let mut sum = 0_u64;
            if turns == 0 {
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
                    n = inout(reg) turns => _,
                    options(nomem, nostack),
                );
            }
            sum
        }
    };
}

chain!("x86_64", "add {sum}, {one}", "dec {n}", "jnz 2b");
chain!("aarch64", "add {sum}, {sum}, {one}", "subs {n}, {n}, #1", "b.ne 2b");

/// Not written for this architecture: see [`exists`].
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[must_use]
pub fn chain(turns: u64) -> u64 {
    turns.wrapping_mul(ADDS_PER_TURN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_makes_every_addition_it_counts() {
        for turns in [0, 1, 2, 1000] {
            assert_eq!(chain(turns), turns * ADDS_PER_TURN);
        }
    }
}
