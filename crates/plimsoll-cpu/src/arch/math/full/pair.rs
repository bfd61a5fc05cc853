//! Numbers with what their rounding lost.

/// The unevaluated sum of a number and a much smaller one.
#[derive(Clone, Copy)]
pub(super) struct Pair(pub f64, pub f64);

impl Pair {
    /// a + b exactly, for |a| ≥ |b| or a = 0.
    #[inline(always)]
    pub fn sum(a: f64, b: f64) -> Self {
        let sum = a + b;
        Self(sum, b - (sum - a))
    }

    /// a·b exactly.
    #[inline(always)]
    pub fn product(a: f64, b: f64) -> Self {
        let product = a * b;
        Self(product, a.mul_add(b, -product))
    }

    #[inline(always)]
    pub fn times(self, other: Self) -> Self {
        let product = self.0 * other.0;
        let low = self.0.mul_add(other.0, -product);
        Self(product, self.0.mul_add(other.1, self.1.mul_add(other.0, low)))
    }

    /// The sum with a pair that isn't larger.
    #[inline(always)]
    pub fn plus(self, other: Self) -> Self {
        let Self(sum, low) = Self::sum(self.0, other.0);
        Self::sum(sum, low + (self.1 + other.1))
    }
}
