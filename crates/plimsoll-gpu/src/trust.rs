//! The one promise that the compiler can't check.

/// Stands for the promise of [`Trust::new`]. Whoever assembles a registry of probes makes it once.
#[derive(Clone, Copy, Debug)]
pub struct Trust(());

impl Trust {
    /// The promise for kernels of one registry.
    ///
    /// # Safety
    /// Every kernel that is made ready by it keeps to its description: with arguments of the stated kinds and ranges it touches
    /// the stated extents of its arrays alone, in the stated way, and, where no extent is stated, only what its probe gives it.
    #[allow(unsafe_code)]
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}
