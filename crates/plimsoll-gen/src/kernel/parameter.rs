//! What a kernel takes: of numbers their type and range; of arrays their alignment, how much of them is touched, and how. Launches are
//! checked by it.

use super::amount::{Amount, Bound, Setting};
use super::{Element, Index, KernelDesc, Output};

/// A parameter of a kernel, as its source has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the source.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What bounds a number; without bounds each value is right.
    pub range: &'static [Bound],
}

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The address of memory that the kernel reads or writes.
    Array(Array),
    /// A number of this type.
    Number(Number),
    /// A number of the type that the kernel's arrays hold.
    Scalar,
    /// A number of the width of the kernel's indices.
    Index,
}

/// Memory that a kernel is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    /// What the kernel does with it.
    pub access: Access,
    /// What its address is a multiple of, where anything of it is touched.
    pub align: Align,
    /// How much of it is touched.
    pub extent: Extent,
    /// The parameter that it may be the same memory as, from the same address on.
    pub same_as: Option<&'static str>,
}

/// What a kernel does with an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is read and never written.
    Read,
    /// Every byte of its extent is written, and what was there before doesn't matter.
    Fill,
    /// Bytes of its extent are written, not all of them in every launch, and none is read.
    Write,
    /// It is read and written.
    Update,
}

impl Access {
    /// Whether the kernel changes it.
    #[must_use]
    pub fn writes(self) -> bool {
        self != Self::Read
    }

    /// Whether it matters what was there before.
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Update)
    }
}

/// What an array's address is a multiple of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// So many bytes.
    Bytes(u32),
    /// An element of the description's type.
    Element,
    /// An access of one thread; of what a fold leaves, one value.
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
    /// Its size.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::U32 | Self::F32 => 4,
            Self::U64 | Self::F64 => 8,
        }
    }

    /// Whether it is a whole number.
    #[must_use]
    pub fn is_whole(self) -> bool {
        matches!(self, Self::U32 | Self::U64)
    }
}

/// Bytes of an array that a kernel touches at most, from the address on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Not stated: it depends on what lies in memory.
    Unstated,
    /// None: the kernel takes it and leaves it alone.
    Nothing,
    /// So many.
    Bytes(Amount),
    /// So many bytes times all of these numbers, which the kernel takes.
    Times(u64, &'static [&'static str]),
    /// An element of the description's type times a number.
    Elements(&'static str),
    /// As [`Extent::Elements`] for the input of this place, and nothing where the kernel has fewer inputs.
    Input(u32, &'static str),
    /// What the description says it leaves behind, of so many elements.
    Output(&'static str),
    /// So many bytes for every block of the grid, times all of these numbers.
    PerBlock(u64, &'static [&'static str]),
    /// So many bytes for every thread of the grid, times all of these numbers.
    PerThread(u64, &'static [&'static str]),
    /// So many bytes for every warp of 32 threads.
    PerWarp(u64),
}

/// Parameters by name. Arrays: `[access align; extent]`, the access one of `read`, `fill`, `write` and `update`, the alignment a number,
/// `ELEMENT` or `VECTOR`, and behind the extent perhaps `; or other`, the array that it may be. Numbers: `U32`, `U64`, `F32`, `SCALAR` or
/// `INDEX`, and behind it perhaps their bounds, `[Least(…), Most(…)]`.
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
    /// The type of a number in a kernel; nothing for an array.
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

    /// What it is as an array; nothing for a number.
    #[must_use]
    pub fn array(&self) -> Option<Array> {
        if let Kind::Array(array) = self.kind { Some(array) } else { None }
    }

    /// Bytes of it in a kernel.
    #[must_use]
    pub fn bytes(&self, kernel: &KernelDesc) -> u64 {
        self.number(kernel).map_or(8, Number::bytes)
    }
}

impl Array {
    /// Bytes that its address is a multiple of, in a kernel.
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
    /// Bytes in a launch; `None` where they are more than can be counted or a number isn't given. Of [`Extent::Unstated`] none are known.
    #[must_use]
    pub fn bytes(self, setting: &Setting<'_>) -> Option<u64> {
        let kernel = setting.kernel;
        let all = |each: u64, names: &[&str]| {
            names.iter().try_fold(u128::from(each), |bytes, name| bytes.checked_mul((setting.number)(name)?.into()))
        };
        let by = |each: u128, amount: Amount| each.checked_mul(setting.amount(amount)?);
        let elements = |name| all(kernel.element.bytes().into(), &[name]);
        let warps = Amount::Over(&Amount::Product(&[Amount::Blocks, Amount::Threads]), &Amount::Is(32));
        let bytes = match self {
            Self::Unstated | Self::Nothing => Some(0),
            Self::Bytes(amount) => setting.amount(amount),
            Self::Times(each, names) => all(each, names),
            Self::Elements(name) => elements(name),
            Self::Input(place, name) => {
                if place < kernel.inputs {
                    elements(name)
                } else {
                    Some(0)
                }
            }
            Self::PerBlock(each, names) => by(all(each, names)?, Amount::Blocks),
            Self::PerThread(each, names) => by(by(all(each, names)?, Amount::Blocks)?, Amount::Threads),
            Self::PerWarp(each) => by(each.into(), warps),
            Self::Output(name) => match kernel.output {
                Output::Map => elements(name),
                Output::WarpBits => by(4, warps),
                Output::WarpSums => by(kernel.element.bytes().into(), warps),
                Output::BlockMarks => by(4, Amount::Blocks),
                Output::None => Some(0),
            },
        };
        bytes.and_then(|bytes| u64::try_from(bytes).ok())
    }

    /// The names of the parameters that it is made of.
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
    fn an_extent_is_a_product_and_an_overflow_is_none() {
        let kernel = KernelDesc {
            element: Element::F64,
            inputs: 1,
            ..KernelDesc::new(&crate::kernel::check::SOURCE, String::new(), 64)
        };
        let of = |kernel: &KernelDesc, extent: Extent, n: u64| {
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
        let bytes = |extent: Extent, n: u64| of(&kernel, extent, n);
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
        assert_eq!(of(&sums, Extent::Output("n"), 7), Some(6 * 8));
    }

    #[test]
    fn a_scalar_is_of_the_arrays_type() {
        let kernel = check::map(crate::kernel::Op::Triad, Element::F64).unwrap();
        let bytes: Vec<u64> = kernel.parameters.iter().map(|parameter| parameter.bytes(&kernel)).collect();
        assert_eq!(bytes, [8, 8, 8, 8, u64::from(kernel.element.bytes()), 8, 8]);
    }
}
