//! The bytes that a launch must move, by the algorithm alone: each input once, each output once. A backend separately
//! reports as evidence what the memory really moved (write-allocate reads, evictions, metadata).

use std::ops::Add;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes that one launch must read and write. A copy of n bytes is `read: n, written: n`, and its bandwidth counts both:
/// GB/s means 10⁹ bytes of reads plus writes in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// Bytes read: each input once, however often the kernel loads it.
    pub read: u64,
    /// Bytes written: each output once.
    pub written: u64,
}

impl Traffic {
    /// No traffic.
    pub const NONE: Self = Self::new(0, 0);

    /// Traffic of `read` and `written` bytes.
    #[must_use]
    pub const fn new(read: u64, written: u64) -> Self {
        Self { read, written }
    }

    /// Bytes read plus bytes written, saturating at `u64::MAX` (no memory is that large).
    #[must_use]
    pub const fn total(self) -> u64 {
        self.read.saturating_add(self.written)
    }

    /// The traffic of `times` launches, or `None` where a count overflows.
    #[must_use]
    pub const fn checked_mul(self, times: u64) -> Option<Self> {
        match (self.read.checked_mul(times), self.written.checked_mul(times)) {
            (Some(read), Some(written)) => Some(Self::new(read, written)),
            _ => None,
        }
    }

    /// The sum, or `None` where a count overflows.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match (self.read.checked_add(other.read), self.written.checked_add(other.written)) {
            (Some(read), Some(written)) => Some(Self::new(read, written)),
            _ => None,
        }
    }

    /// The read:write mix in lowest terms: `(1, 1)` for a copy, `(2, 1)` for a triad, `(0, 1)` for a fill. Ceilings are
    /// compared at the same mix, because switching between reads and writes costs memory time. `(0, 0)` where nothing moves.
    #[must_use]
    pub const fn mix(self) -> (u64, u64) {
        match greatest_common_divisor(self.read, self.written) {
            0 => (0, 0),
            divisor => (self.read / divisor, self.written / divisor),
        }
    }

    /// The part of the bytes that is read, 0 to 1; `None` where nothing moves.
    #[must_use]
    pub fn read_fraction(self) -> Option<f64> {
        // The sum is taken in floating point because `total` saturates.
        let total = self.read as f64 + self.written as f64;
        (total > 0.0).then(|| self.read as f64 / total)
    }

    /// Bytes per second, reads plus writes, of one launch that takes `seconds`. Infinite or NaN for a time of zero.
    #[must_use]
    pub fn bandwidth(self, seconds: f64) -> f64 {
        (self.read as f64 + self.written as f64) / seconds
    }
}

/// Saturating, like [`Traffic::total`]; [`Traffic::checked_add`] reports overflow.
impl Add for Traffic {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::new(self.read.saturating_add(other.read), self.written.saturating_add(other.written))
    }
}

/// Euclid's algorithm; 0 only for two zeros.
const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_counts_both_directions() {
        let copy = Traffic::new(8 << 20, 8 << 20);
        assert_eq!(copy.total(), 16 << 20);
        assert_eq!(copy.mix(), (1, 1));
        assert!((copy.bandwidth(1.0) - 16_777_216.0).abs() < f64::EPSILON);
    }

    #[test]
    fn mixes_are_in_lowest_terms() {
        assert_eq!(Traffic::new(2 << 30, 1 << 30).mix(), (2, 1));
        assert_eq!(Traffic::new(0, 4096).mix(), (0, 1));
        assert_eq!(Traffic::new(4096, 0).mix(), (1, 0));
        assert_eq!(Traffic::NONE.mix(), (0, 0));
    }

    #[test]
    fn sums_saturate_and_checked_forms_detect_overflow() {
        let huge = Traffic::new(u64::MAX, 1);
        assert_eq!(huge.total(), u64::MAX);
        assert_eq!((huge + huge).read, u64::MAX);
        assert_eq!(huge.checked_add(huge), None);
        assert_eq!(huge.checked_mul(2), None);
        assert_eq!(huge.checked_mul(1), Some(huge));
        assert_eq!(Traffic::new(3, 5).checked_mul(4), Some(Traffic::new(12, 20)));
    }

    #[test]
    fn no_traffic_has_no_read_fraction() {
        assert_eq!(Traffic::NONE.read_fraction(), None);
        assert_eq!(Traffic::new(3, 1).read_fraction(), Some(0.75));
    }

    #[test]
    fn json_round_trips_every_bit() {
        let traffic = Traffic::new(u64::MAX, 7);
        let json = serde_json::to_string(&traffic).unwrap();
        assert_eq!(json, r#"{"read":18446744073709551615,"written":7}"#);
        assert_eq!(serde_json::from_str::<Traffic>(&json).unwrap(), traffic);
    }
}
