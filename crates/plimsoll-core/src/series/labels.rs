//! Categories whose names are put together from parts: [`labels!`](crate::labels) defines an enum of them.

use std::fmt::Display;

use super::{Coordinate, Value};
use crate::unit::Unit;

/// A category whose name is put together from parts, where [`names!`](crate::names) can't list them all, such as `load 16 B`. As a
/// coordinate, its value is the text that it displays.
pub trait Label: Display + Sized {
    /// Reads the displayed text; `None` where it names no such category.
    fn from_label(label: &str) -> Option<Self>;
}

impl<L: Label> Coordinate for L {
    const UNIT: Unit = Unit::One;

    fn to_value(&self) -> Value {
        Value::Text(self.to_string())
    }

    fn from_value(value: &Value) -> Option<Self> {
        Self::from_label(value.text()?)
    }
}

/// Defines an enum for a categorical axis. Some variants may hold a number; [`Label`] and `Display` give the same text.
///
/// ```
/// use plimsoll_core::series::Label;
///
/// plimsoll_core::labels! {
///     /// The order of blocks.
///     pub enum Order {
///         /// Row after row.
///         Rows = "rows",
///         /// So many rows at a time.
///         Groups(rows: u32) = "groups of " rows " rows",
///     }
/// }
///
/// assert_eq!(Order::Groups(4).to_string(), "groups of 4 rows");
/// assert_eq!(Order::from_label("groups of 4 rows"), Some(Order::Groups(4)));
/// assert_eq!(Order::from_label("rows"), Some(Order::Rows));
/// assert_eq!(Order::from_label("groups of"), None);
/// ```
#[macro_export]
macro_rules! labels {
    (
        $(#[$meta:meta])*
        $vis:vis enum $labels:ident {
            $($(#[$variant_meta:meta])* $variant:ident $(($held:ident: $number:ty))? = $begin:literal $($shown:ident $end:literal)?),+
            $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $labels {
            $($(#[$variant_meta])* $variant $(($number))?),+
        }

        impl ::std::fmt::Display for $labels {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self {
                    $(Self::$variant $(($held))? => $crate::labels!(@write f, $begin $($shown $end)?)),+
                }
            }
        }

        impl $crate::series::Label for $labels {
            fn from_label(label: &str) -> ::std::option::Option<Self> {
                $($crate::labels!(@read label, Self::$variant, $begin $($end)?);)+
                ::std::option::Option::None
            }
        }
    };
    (@write $f:ident, $name:literal) => { $f.write_str($name) };
    (@write $f:ident, $begin:literal $shown:ident $end:literal) => { ::std::write!($f, "{}{}{}", $begin, $shown, $end) };
    (@read $label:ident, $variant:expr, $name:literal) => {
        if $label == $name {
            return ::std::option::Option::Some($variant);
        }
    };
    (@read $label:ident, $variant:expr, $begin:literal $end:literal) => {
        let number = $label.strip_prefix($begin).and_then(|rest| rest.strip_suffix($end));
        if let ::std::option::Option::Some(number) = number.and_then(|number| number.parse().ok()) {
            return ::std::option::Option::Some($variant(number));
        }
    };
}
