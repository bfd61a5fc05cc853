//! Kernel parameters: the type and range of numbers; the alignment, extent and access of arrays. Launches are checked
//! against them.

use super::amount::{Amount, Bound, Setting};
use super::{Element, Index, KernelDesc, Output};

/// A parameter of a kernel, as declared in its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the source.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Bounds of a number; without bounds every value is valid.
    pub range: &'static [Bound],
}

/// The kind of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The address of memory that the kernel reads or writes.
    Array(Array),
    /// A number of this type.
    Number(Number),
    /// A number of the kernel's element type.
    Scalar,
    /// A number as wide as the kernel's indices.
    Index,
}

/// An array passed to a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    /// What the kernel does with it.
    pub access: Access,
    /// The alignment of its address; irrelevant if the kernel doesn't touch it.
    pub align: Align,
    /// How much of it the kernel touches.
    pub extent: Extent,
    /// The parameter that it may alias, starting at the same address.
    pub same_as: Option<&'static str>,
}

/// What a kernel does with an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only.
    Read,
    /// Writes every byte of the extent; the previous content doesn't matter.
    Fill,
    /// Writes some bytes of the extent, not all in every launch, and reads none.
    Write,
    /// Reads and writes.
    Update,
}

impl Access {
    /// Whether the kernel writes the array.
    #[must_use]
    pub fn writes(self) -> bool {
        self != Self::Read
    }

    /// Whether the previous content matters.
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Update)
    }
}

/// The alignment of an array's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// This many bytes.
    Bytes(u32),
    /// One element of the kernel's element type.
    Element,
    /// One access of a thread; for the output of a fold, one value.
    Vector,
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
    /// Its size in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::U32 | Self::F32 => 4,
            Self::U64 | Self::F64 => 8,
        }
    }

    /// Whether it is an integer.
    #[must_use]
    pub fn is_whole(self) -> bool {
        matches!(self, Self::U32 | Self::U64)
    }
}

/// Upper bound on the bytes of an array that a kernel touches, from its address on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Not stated: it depends on the contents of memory.
    Unstated,
    /// Nothing: the kernel doesn't touch the array.
    Nothing,
    /// This many bytes.
    Bytes(Amount),
    /// This many bytes times all of these numeric arguments.
    Times(u64, &'static [&'static str]),
    /// The kernel's element size times a numeric argument.
    Elements(&'static str),
    /// [`Extent::Elements`] for the input of this index; nothing if the kernel has fewer inputs.
    Input(u32, &'static str),
    /// The description's [`Output`] for this many elements.
    Output(&'static str),
    /// This many bytes per block of the grid, times all of these numeric arguments.
    PerBlock(u64, &'static [&'static str]),
    /// This many bytes per thread of the grid, times all of these numeric arguments.
    PerThread(u64, &'static [&'static str]),
    /// This many bytes per warp of 32 threads.
    PerWarp(u64),
}

/// A parameter list, by name.
///
/// Arrays: `[access align; extent]` or `[access align; extent; or other]`. The access is `read`, `fill`, `write` or
/// `update`; the alignment is a number, `ELEMENT` or `VECTOR`; `other` is the array that this one may alias.
///
/// Numbers: `U32`, `U64`, `F32`, `SCALAR` or `INDEX`, optionally followed by bounds: `[Least(…), Most(…)]`.
#[macro_export]
macro_rules! takes {
    (@access read) => { Access::Read };
    (@access fill) => { Access::Fill };
    (@access write) => { Access::Write };
    (@access update) => { Access::Update };
    (@align VECTOR) => { Align::Vector };
    (@align ELEMENT) => { Align::Element };
    (@align $bytes:literal) => { Align::Bytes($bytes) };
    (@kind [$access:ident $align:tt; $extent:expr]) => {
        Kind::Array(Array {
            access: $crate::takes!(@access $access),
            align: $crate::takes!(@align $align),
            extent: $extent,
            same_as: None,
        })
    };
    (@kind [$access:ident $align:tt; $extent:expr; or $other:ident]) => {
        Kind::Array(Array {
            access: $crate::takes!(@access $access),
            align: $crate::takes!(@align $align),
            extent: $extent,
            same_as: Some(stringify!($other)),
        })
    };
    (@kind SCALAR) => { Kind::Scalar };
    (@kind INDEX) => { Kind::Index };
    (@kind $number:ident) => { Kind::Number(Number::$number) };
    ($($name:ident: $kind:tt $([$($bound:expr),+ $(,)?])?),* $(,)?) => {
        const {
            #[allow(unused_imports, clippy::enum_glob_use, reason = "descriptions read as tables")]
            use $crate::kernel::{
                Access, Align, Array, Kind, Number, Parameter,
                Amount::*, Bound::*,
                Extent::{Bytes, Elements, Input, Nothing, Output, PerBlock, PerThread, PerWarp, Times, Unstated},
            };
            &[$(Parameter {
                name: stringify!($name),
                kind: $crate::takes!(@kind $kind),
                range: &[$($($bound),+)?],
            }),*] as &'static [Parameter]
        }
    };
}

pub use takes;

impl Parameter {
    /// The type of a number in a kernel; `None` for an array.
    #[must_use]
    pub fn number(&self, kernel: &KernelDesc) -> Option<Number> {
        match self.kind {
            Kind::Array(_) => None,
            Kind::Number(number) => Some(number),
            Kind::Scalar => Some(match kernel.element {
                Element::F32 => Number::F32,
                Element::F64 => Number::F64,
                Element::Word | Element::Vector16 => Number::U32,
            }),
            Kind::Index => Some(if kernel.index == Index::U32 { Number::U32 } else { Number::U64 }),
        }
    }

    /// The array; `None` for a number.
    #[must_use]
    pub fn array(&self) -> Option<Array> {
        if let Kind::Array(array) = self.kind { Some(array) } else { None }
    }

    /// Size of the argument in bytes.
    #[must_use]
    pub fn bytes(&self, kernel: &KernelDesc) -> u64 {
        self.number(kernel).map_or(8, Number::bytes)
    }
}

impl Array {
    /// The alignment of its address for a kernel, in bytes.
    #[must_use]
    pub fn align(&self, kernel: &KernelDesc) -> u64 {
        let element = kernel.element.bytes();
        let bytes = match self.align {
            Align::Bytes(bytes) => bytes,
            Align::Element => element,
            Align::Vector => match (self.extent, kernel.output) {
                (Extent::Output(_), Output::WarpBits | Output::BlockMarks) => 4,
                (Extent::Output(_), Output::WarpSums) => element,
                _ => kernel.vector_bytes,
            },
        };
        u64::from(bytes.max(1))
    }
}

impl Extent {
    /// Bytes in a launch; `None` if the count overflows or an argument is missing. [`Extent::Unstated`] counts as 0.
    #[must_use]
    pub fn bytes(self, setting: &Setting<'_>) -> Option<u64> {
        let kernel = setting.kernel;
        let times_arguments = |each: u64, names: &[&str]| {
            names.iter().try_fold(u128::from(each), |bytes, name| bytes.checked_mul((setting.number)(name)?.into()))
        };
        let times = |each: u128, amount: Amount| each.checked_mul(setting.amount(amount)?);
        let elements = |name| times_arguments(kernel.element.bytes().into(), &[name]);
        let warps = Amount::Over(&Amount::Product(&[Amount::Blocks, Amount::Threads]), &Amount::Is(32));
        let bytes = match self {
            Self::Unstated | Self::Nothing => Some(0),
            Self::Bytes(amount) => setting.amount(amount),
            Self::Times(each, names) => times_arguments(each, names),
            Self::Elements(name) => elements(name),
            Self::Input(index, name) => {
                if index < kernel.inputs {
                    elements(name)
                } else {
                    Some(0)
                }
            }
            Self::PerBlock(each, names) => times(times_arguments(each, names)?, Amount::Blocks),
            Self::PerThread(each, names) => {
                times(times(times_arguments(each, names)?, Amount::Blocks)?, Amount::Threads)
            }
            Self::PerWarp(each) => times(each.into(), warps),
            Self::Output(name) => match kernel.output {
                Output::Map => elements(name),
                Output::WarpBits => times(4, warps),
                Output::WarpSums => times(kernel.element.bytes().into(), warps),
                Output::BlockMarks => times(4, Amount::Blocks),
                Output::None => Some(0),
            },
        };
        bytes.and_then(|bytes| u64::try_from(bytes).ok())
    }

    /// The names of the parameters that it depends on.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        match self {
            Self::Bytes(amount) => amount.names(),
            Self::Times(_, names) | Self::PerBlock(_, names) | Self::PerThread(_, names) => names.to_vec(),
            Self::Elements(name) | Self::Input(_, name) | Self::Output(name) => vec![name],
            Self::Unstated | Self::Nothing | Self::PerWarp(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::check;

    #[test]
    fn extents_multiply_and_overflow_gives_none() {
        let kernel = KernelDesc {
            element: Element::F64,
            inputs: 1,
            ..KernelDesc::new(&crate::kernel::check::SOURCE, String::new(), 64)
        };
        let bytes_for = |kernel: &KernelDesc, extent: Extent, n: u64| {
            let number = move |name: &str| (name == "n").then_some(n);
            extent.bytes(&Setting {
                kernel,
                grid: [3, 1, 1],
                block: [64, 1, 1],
                shared: 0,
                cluster: 0,
                number: &number,
            })
        };
        let bytes = |extent: Extent, n: u64| bytes_for(&kernel, extent, n);
        assert_eq!((bytes(Extent::Unstated, 7), bytes(Extent::Nothing, 7)), (Some(0), Some(0)));
        assert_eq!(bytes(Extent::Times(16, &["n", "n"]), 7), Some(16 * 49));
        assert_eq!(bytes(Extent::Times(16, &["n", "n"]), 1 << 32), None);
        assert_eq!(bytes(Extent::Times(16, &["m"]), 7), None);
        assert_eq!((bytes(Extent::Elements("n"), 7), bytes(Extent::Input(0, "n"), 7)), (Some(56), Some(56)));
        assert_eq!(bytes(Extent::Input(1, "n"), 7), Some(0));
        assert_eq!(
            (bytes(Extent::PerBlock(32, &[]), 7), bytes(Extent::PerThread(4, &["n"]), 7)),
            (Some(96), Some(5376))
        );
        assert_eq!((bytes(Extent::PerThread(4, &["n"]), u64::MAX), bytes(Extent::PerWarp(4), 7)), (None, Some(24)));
        let sums = KernelDesc { output: Output::WarpSums, ..kernel.clone() };
        assert_eq!(bytes_for(&sums, Extent::Output("n"), 7), Some(6 * 8));
    }

    #[test]
    fn scalar_parameters_have_the_element_type() {
        let kernel = check::map(crate::kernel::Op::Triad, Element::F64).unwrap();
        let bytes: Vec<u64> = kernel.parameters.iter().map(|parameter| parameter.bytes(&kernel)).collect();
        assert_eq!(bytes, [8, 8, 8, 8, u64::from(kernel.element.bytes()), 8, 8]);
    }
}
