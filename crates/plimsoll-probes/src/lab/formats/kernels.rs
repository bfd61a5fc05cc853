//! Kernels that find the limits of number formats by the device's own conversions and arithmetic.

use plimsoll_suite::formats::{FORMATS, Format, LIMITS};

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source = Source::new("formats", include_str!("kernel.cu"), kernels)
    .with_headers(&[("formats.h", include_str!("formats.h"))]);

/// The lowest compute capability, times ten, that converts to and from a format.
#[must_use]
pub fn capability(format: &Format) -> u32 {
    // PTX ISA, 'cvt': 8-bit floats from sm_89, bf16 and tf32 from sm_80.
    if format.storage == 8 { 89 } else { 80 }
}

/// The kernel of one format: one thread per copy of its limits, 64 bits each, in the order of [`LIMITS`].
#[must_use]
pub fn kernel(format: &Format) -> KernelDesc {
    let name = format!("formats_{}", format.name);
    KernelDesc {
        entry: format!("FORMATS({name}, {})", format.name),
        parameters: takes!(out: [fill 8; Times(8 * LIMITS.len() as u64, &["n"])], n: U64 [Most(Covered)]),
        element: Element::F64,
        outputs: LIMITS.len() as u32,
        vector_bytes: 8,
        grid: Grid::Cover,
        threads_fixed: false,
        ..KernelDesc::new(&SOURCE, name, 256)
    }
}

/// The formats that a target converts to and from.
pub fn supported_formats(target: Target) -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().filter(move |format| capability(format) <= target.capability)
}

/// Every kernel.
#[must_use]
pub fn kernels(target: Target) -> Vec<KernelDesc> {
    supported_formats(target).map(kernel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bit_formats_need_a_device_that_converts_them() {
        assert_eq!((kernels(Target::plain(80)).len(), kernels(Target::plain(89)).len()), (5, 7));
    }
}
