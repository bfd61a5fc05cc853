//! What a kernel takes: the kind of each parameter, and of arrays how much of them it touches at most. Launches are checked by it.

use super::{Element, Index, KernelDesc, Output};

/// A parameter of a kernel, as its source has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the source.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
}

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The address of memory that the kernel reads or writes, a multiple of `align` bytes.
    Array {
        /// Bytes of what it points to.
        align: u32,
        /// How much of it is touched.
        extent: Extent,
    },
    /// A number of this type.
    Number(Number),
    /// A number of the type that the kernel's arrays hold.
    Scalar,
    /// A number of the width of the kernel's indices.
    Index,
}

/// The type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// `unsigned`.
    U32,
    /// `unsigned long long`.
    U64,
    /// `float`.
    F32,
    /// `double`.
    F64,
}

impl Number {
    /// Its size.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::U32 | Self::F32 => 4,
            Self::U64 | Self::F64 => 8,
        }
    }
}

/// Bytes of an array that a kernel touches at most, from the address on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Not stated.
    Unstated,
    /// So many bytes times all of these numbers, which the kernel takes.
    Times(u64, &'static [&'static str]),
    /// An element of the description's type times a number.
    Elements(&'static str),
    /// As [`Extent::Elements`] for the input of this place, and nothing where the kernel has fewer inputs.
    Input(u32, &'static str),
    /// What the description says it leaves behind, of so many elements.
    Output(&'static str),
    /// So many bytes for every block of the grid.
    PerBlock(u64),
    /// So many bytes for every thread of the grid.
    PerThread(u64),
}

/// Parameters by name: `[align]` or `[align; extent]` for arrays, else `U32`, `U64`, `F32`, `SCALAR` or `INDEX`.
macro_rules! takes {
    (@kind [$align:literal]) => {
        $crate::kernel::Kind::Array { align: $align, extent: $crate::kernel::Extent::Unstated }
    };
    (@kind [$align:literal; $extent:ident($($of:expr),*)]) => {
        $crate::kernel::Kind::Array { align: $align, extent: $crate::kernel::Extent::$extent($($of),*) }
    };
    (@kind SCALAR) => { $crate::kernel::Kind::Scalar };
    (@kind INDEX) => { $crate::kernel::Kind::Index };
    (@kind $number:ident) => { $crate::kernel::Kind::Number($crate::kernel::Number::$number) };
    ($($name:ident: $kind:tt),* $(,)?) => {
        &[$($crate::kernel::Parameter { name: stringify!($name), kind: $crate::kernel::parameter::takes!(@kind $kind) }),*]
    };
}

pub(super) use takes;

impl Parameter {
    /// The type of a number in a kernel; nothing for an array.
    #[must_use]
    pub fn number(&self, kernel: &KernelDesc) -> Option<Number> {
        match self.kind {
            Kind::Array { .. } => None,
            Kind::Number(number) => Some(number),
            Kind::Scalar => Some(match kernel.element {
                Element::F32 => Number::F32,
                Element::F64 => Number::F64,
                Element::Word | Element::Vector16 => Number::U32,
            }),
            Kind::Index => Some(if kernel.index == Index::U32 { Number::U32 } else { Number::U64 }),
        }
    }

    /// Bytes of it in a kernel.
    #[must_use]
    pub fn bytes(&self, kernel: &KernelDesc) -> u64 {
        self.number(kernel).map_or(8, Number::bytes)
    }
}

impl Extent {
    /// Bytes in a launch of `blocks` of `threads`, where `number` tells what a parameter is given; `None` where that overflows or a
    /// number isn't given.
    #[must_use]
    pub fn bytes(
        self,
        kernel: &KernelDesc,
        (blocks, threads): (u64, u64),
        number: impl Fn(&str) -> Option<u64>,
    ) -> Option<u64> {
        let element = u64::from(kernel.element.bytes());
        let elements = |name| number(name)?.checked_mul(element);
        match self {
            Self::Unstated => Some(0),
            Self::Times(each, names) => names.iter().try_fold(each, |bytes, name| bytes.checked_mul(number(name)?)),
            Self::Elements(name) => elements(name),
            Self::Input(place, name) => {
                if place < kernel.inputs {
                    elements(name)
                } else {
                    Some(0)
                }
            }
            Self::PerBlock(each) => blocks.checked_mul(each),
            Self::PerThread(each) => blocks.checked_mul(threads)?.checked_mul(each),
            Self::Output(name) => match kernel.output {
                Output::Map => elements(name),
                Output::WarpBits => (blocks.checked_mul(threads)? / 32).checked_mul(4),
                Output::WarpSums => (blocks.checked_mul(threads)? / 32).checked_mul(element),
                Output::BlockMarks => blocks.checked_mul(4),
                Output::None => Some(0),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Source, stream};

    #[test]
    fn an_extent_is_a_product_and_an_overflow_is_none() {
        let kernel =
            KernelDesc { element: Element::F64, inputs: 1, ..KernelDesc::new(Source::Stream, String::new(), 32) };
        let bytes = |extent: Extent, n: u64| extent.bytes(&kernel, (3, 64), |name| (name == "n").then_some(n));
        assert_eq!(bytes(Extent::Unstated, 7), Some(0));
        assert_eq!(bytes(Extent::Times(16, &["n", "n"]), 7), Some(16 * 49));
        assert_eq!(bytes(Extent::Times(16, &["n", "n"]), 1 << 32), None);
        assert_eq!(bytes(Extent::Times(16, &["m"]), 7), None);
        assert_eq!((bytes(Extent::Elements("n"), 7), bytes(Extent::Input(0, "n"), 7)), (Some(56), Some(56)));
        assert_eq!(bytes(Extent::Input(1, "n"), 7), Some(0));
        assert_eq!((bytes(Extent::PerBlock(32), 7), bytes(Extent::PerThread(4), 7)), (Some(96), Some(768)));
        let sums = KernelDesc { output: Output::WarpSums, ..kernel.clone() };
        assert_eq!(Extent::Output("n").bytes(&sums, (3, 64), |_| None), Some(6 * 8));
    }

    #[test]
    fn a_scalar_is_of_the_arrays_type() {
        let kernel = stream::Parameters::new(stream::Op::Triad).kernel();
        let bytes: Vec<u64> = kernel.parameters.iter().map(|parameter| parameter.bytes(&kernel)).collect();
        assert_eq!(bytes, [8, 8, 8, 8, u64::from(kernel.element.bytes()), 8]);
    }
}
