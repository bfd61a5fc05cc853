//! Access policy windows: which addresses kernels access as lines that persist in the second-level cache, by stream, launch
//! or graph node. How much of the cache such lines may take is a limit of the context.

use super::types::{ATTRIBUTE_WINDOW, DevicePointer, LaunchAttribute};
use super::{DriverError, Stream};
use crate::memory::Span;

/// How lines are kept, `CUaccessProperty`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Access {
    /// As any other; makes lines that persist ordinary again.
    Normal = 0,
    /// The first to be evicted.
    Streaming = 1,
    /// The last to be evicted, in the part of the cache set aside.
    Persisting = 2,
}

/// A range of addresses and how what lies in it is kept: a random share of it, `hits`, one way, and the rest another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccessWindow {
    base: DevicePointer,
    bytes: u64,
    ratio: f32,
    hits: Access,
    misses: Access,
}

impl AccessWindow {
    /// A share of `span`, 0…1, is kept as `hits` says; the rest is the first to go where `hits` persists, and ordinary
    /// where not.
    #[must_use]
    pub fn new(span: Span, ratio: f64, hits: Access) -> Self {
        let misses = if hits == Access::Persisting { Access::Streaming } else { Access::Normal };
        let ratio = if ratio.is_finite() { ratio.clamp(0.0, 1.0) as f32 } else { 0.0 };
        Self { base: span.pointer(), bytes: span.bytes(), ratio, hits, misses }
    }

    /// No window.
    const NONE: Self = Self { base: 0, bytes: 0, ratio: 0.0, hits: Access::Normal, misses: Access::Normal };

    /// As an attribute: `CUaccessPolicyWindow` is a pointer, a size, a float and two ints.
    pub(super) fn attribute(&self) -> LaunchAttribute {
        let halves = |word: u64| [word as u32, (word >> 32) as u32];
        let ([b0, b1], [n0, n1]) = (halves(self.base), halves(self.bytes));
        let words = [b0, b1, n0, n1, self.ratio.to_bits(), self.hits as u32, self.misses as u32];
        LaunchAttribute::new(ATTRIBUTE_WINDOW, &words)
    }
}

impl Stream {
    /// Kernels launched from here on access what lies in the window as it says; none with `None`. Nodes of graphs have
    /// windows of their own.
    ///
    /// # Errors
    /// The driver's: a window larger than the device allows.
    pub fn set_window(&self, window: Option<AccessWindow>) -> Result<(), DriverError> {
        let attribute = window.unwrap_or(AccessWindow::NONE).attribute();
        let context = self.context();
        context.bind()?;
        // SAFETY: the stream lives; the value is a union of 64 bytes that the driver reads before the call returns.
        context.watch(unsafe {
            context.call().stream_attribute(self.handle(), attribute.id, (&raw const attribute.value).cast())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_lies_in_its_attribute_as_cuda_h_has_it() {
        let window = AccessWindow { base: 0x1_0000_0002, bytes: 3 << 32, ..AccessWindow::NONE };
        let window = AccessWindow { ratio: 0.5, hits: Access::Persisting, misses: Access::Streaming, ..window };
        let attribute = window.attribute();
        assert_eq!((attribute.id, &attribute.value[..8]), (1, &[2, 1, 0, 3, 0x3f00_0000, 2, 1, 0][..]));
    }
}
