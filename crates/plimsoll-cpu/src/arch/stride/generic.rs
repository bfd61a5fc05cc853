//! The loops as volatile accesses. Those of 16 bytes are one instruction only if the target has one (a pair load on 64-bit
//! Arm).

use std::ptr;

// The compiler keeps a volatile read whether or not its value is used, so the loops that only load are the same as those that
// combine.
pub(super) use {read4 as load4, read8 as load8, read16 as load16};

use super::{AccessPattern, UNROLL};

/// Reads and writes of one element type.
macro_rules! strided {
    ($read:ident, $write:ident, $element:ty, $fold:expr, $spread:expr) => {
        /// Reads the elements, and returns their exclusive or.
        ///
        /// # Safety
        /// The pattern stays inside memory that is valid for reads and aligned for the element.
        #[inline(never)]
        pub(super) unsafe fn $read(pattern: AccessPattern, _value: u64) -> u64 {
            let mut sums: [$element; UNROLL] = [0; UNROLL];
            for _ in 0..pattern.passes {
                for iteration in 0..pattern.iterations {
                    for (k, sum) in sums.iter_mut().enumerate() {
                        let at = pattern.base.wrapping_add((iteration * UNROLL + k) * pattern.stride_bytes);
                        // SAFETY: the caller promises memory for iterations · UNROLL accesses.
                        *sum ^= unsafe { ptr::read_volatile(at.cast::<$element>()) };
                    }
                }
            }
            $fold(sums.into_iter().fold(0, |all, sum| all ^ sum))
        }

        /// Writes `value` to the elements; returns 0.
        ///
        /// # Safety
        /// The pattern stays inside memory that is valid for writes and aligned for the element.
        #[inline(never)]
        pub(super) unsafe fn $write(pattern: AccessPattern, value: u64) -> u64 {
            let value: $element = $spread(value);
            for _ in 0..pattern.passes {
                for access in 0..pattern.iterations * UNROLL {
                    let at = pattern.base.wrapping_add(access * pattern.stride_bytes);
                    // SAFETY: the caller promises memory for iterations · UNROLL accesses.
                    unsafe { ptr::write_volatile(at.cast::<$element>(), value) };
                }
            }
            0
        }
    };
}

strided!(read4, write4, u32, u64::from, |value| value as u32);
strided!(read8, write8, u64, |sum| sum, |value| value);
strided!(read16, write16, u128, |sum| (sum ^ (sum >> 64)) as u64, |value| u128::from(value) << 64 | u128::from(value));
