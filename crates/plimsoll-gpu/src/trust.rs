//! The one promise that the compiler can't check.

/// Proof that the promise of [`Trust::new`] was made. The code that assembles a registry of probes makes it once.
#[derive(Clone, Copy, Debug)]
pub struct Trust(());

// SAFETY: the kernels that fill arrays and check results keep to their descriptions: `cargo xtask sass` and the sanitizer check
// them.
#[allow(unsafe_code)]
pub(crate) const CHECKS: Trust = unsafe { Trust::new() };

impl Trust {
    /// Makes the promise for the kernels of one registry.
    ///
    /// # Safety
    /// Every kernel compiled with this value must keep to its description: with arguments of the stated kinds and ranges it touches
    /// only the stated extents of its arrays, in the stated way, and, where no extent is stated, only the memory its probe passes.
    #[allow(unsafe_code)]
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}
