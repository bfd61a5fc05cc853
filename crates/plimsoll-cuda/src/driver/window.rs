//! Access policy windows: addresses whose lines kernels access as persisting or streaming in the L2, set per stream, launch or
//! graph node. A limit of the context says how much of the L2 persisting lines may use.

use super::types::{ATTRIBUTE_WINDOW, DevicePointer, LaunchAttribute};
use super::{DriverError, Stream};
use crate::memory::Span;

/// How the L2 treats lines, `CUaccessProperty`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Access {
    /// Ordinary lines; makes persisting lines ordinary again.
    Normal = 0,
    /// Evict-first.
    Streaming = 1,
    /// Evict-last, in the part of the L2 set aside.
    Persisting = 2,
}

/// A range of addresses and how the L2 treats it: a random share `ratio` of the lines as `hits` says, the rest as `misses` says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccessWindow {
    base: DevicePointer,
    bytes: u64,
    ratio: f32,
    hits: Access,
    misses: Access,
}

impl AccessWindow {
    /// Treats a share `ratio`, 0…1, of `span` as `hits` says. The rest is streaming if `hits` is persisting, else ordinary.
    #[must_use]
    pub fn new(span: Span, ratio: f64, hits: Access) -> Self {
        let misses = if hits == Access::Persisting { Access::Streaming } else { Access::Normal };
        let ratio = if ratio.is_finite() { ratio.clamp(0.0, 1.0) as f32 } else { 0.0 };
        Self { base: span.pointer(), bytes: span.bytes(), ratio, hits, misses }
    }

    /// No window.
    const NONE: Self = Self { base: 0, bytes: 0, ratio: 0.0, hits: Access::Normal, misses: Access::Normal };

    /// Encodes it as an attribute: `CUaccessPolicyWindow` is a pointer, a size, a float and two ints.
    pub(super) fn attribute(&self) -> LaunchAttribute {
        let halves = |word: u64| [word as u32, (word >> 32) as u32];
        let ([b0, b1], [n0, n1]) = (halves(self.base), halves(self.bytes));
        let words = [b0, b1, n0, n1, self.ratio.to_bits(), self.hits as u32, self.misses as u32];
        LaunchAttribute::new(ATTRIBUTE_WINDOW, &words)
    }
}

impl Stream {
    /// Sets the window of kernels launched from now on; `None` removes it. Graph nodes have separate windows.
    ///
    /// # Errors
    /// The window is larger than the device allows.
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
    fn window_attribute_has_the_layout_of_cuda_h() {
        let window = AccessWindow { base: 0x1_0000_0002, bytes: 3 << 32, ..AccessWindow::NONE };
        let window = AccessWindow { ratio: 0.5, hits: Access::Persisting, misses: Access::Streaming, ..window };
        let attribute = window.attribute();
        assert_eq!((attribute.id, &attribute.value[..8]), (1, &[2, 1, 0, 3, 0x3f00_0000, 2, 1, 0][..]));
    }
}
