//! Typed axes: one struct per series defines its coordinates, their axes and units, so that a point of another shape doesn't
//! compile. [`axes!`](crate::axes) defines such a struct, [`names!`](crate::names) an enum for a categorical axis.

use std::borrow::Cow;
use std::fmt::{self, Debug};
use std::marker::PhantomData;

use super::{Axis, Draw, Metric, Row, Series, SeriesSpec, Value};
use crate::flag::Flags;
use crate::sample::{CachePolicy, Figure};
use crate::unit::Unit;

/// The largest number up to which `f64` represents every whole number exactly: 2⁵³.
const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;

/// One coordinate. Its type decides the unit of its axis.
pub trait Coordinate: Sized {
    /// The unit of the axis; [`Unit::One`] for names.
    const UNIT: Unit;

    /// The value in a record.
    fn to_value(&self) -> Value;

    /// Reads the value from a record; `None` where it doesn't fit this type.
    fn from_value(value: &Value) -> Option<Self>;
}

/// The coordinates of a point. Implemented by [`axes!`](crate::axes).
pub trait Axes: Clone + Debug + PartialEq + 'static {
    /// The axes, in the order of the fields.
    fn axes() -> Vec<Axis>;

    /// One value per axis, in the same order.
    fn to_values(&self) -> Vec<Value>;

    /// Reads the values from a record; `None` where their number or one of them doesn't fit.
    fn from_values(values: &[Value]) -> Option<Self>;
}

macro_rules! whole_numbers {
    ($($(#[$doc:meta])* $name:ident: $unit:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl Coordinate for $name {
            const UNIT: Unit = Unit::$unit;

            fn to_value(&self) -> Value {
                self.0.into()
            }

            fn from_value(value: &Value) -> Option<Self> {
                whole_number(value).map(Self)
            }
        }

        impl From<u64> for $name {
            fn from(number: u64) -> Self {
                Self(number)
            }
        }

        impl From<u32> for $name {
            fn from(number: u32) -> Self {
                Self(number.into())
            }
        }
    )+};
}

whole_numbers! {
    /// A number of bytes.
    Bytes: Byte;
    /// A number of threads.
    Threads: Thread;
    /// A number of elements of an array.
    Elements: Element;
    /// A number of clock cycles.
    Cycles: Cycle;
    /// A number without a unit.
    Count: One;
}

fn whole_number(value: &Value) -> Option<u64> {
    let number = value.number()?;
    let is_whole = number.fract() == 0.0 && (0.0..=LARGEST_EXACT).contains(&number);
    is_whole.then_some(number as u64)
}

macro_rules! real_numbers {
    ($($(#[$doc:meta])* $name:ident: $unit:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
        pub struct $name(pub f64);

        impl Coordinate for $name {
            const UNIT: Unit = Unit::$unit;

            fn to_value(&self) -> Value {
                self.0.into()
            }

            fn from_value(value: &Value) -> Option<Self> {
                value.number().map(Self)
            }
        }
    )+};
}

real_numbers! {
    /// Operations per byte from memory (arithmetic intensity).
    FlopPerByte: FlopPerByte;
    /// A time, in seconds.
    Seconds: Second;
}

/// A name from an open set, where [`names!`](crate::names) would be too narrow, such as a configuration in words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Cow<'static, str>);

impl Name {
    /// The name itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Coordinate for Name {
    const UNIT: Unit = Unit::One;

    fn to_value(&self) -> Value {
        self.as_str().into()
    }

    fn from_value(value: &Value) -> Option<Self> {
        value.text().map(|text| Self(text.to_owned().into()))
    }
}

impl From<&'static str> for Name {
    fn from(name: &'static str) -> Self {
        Self(name.into())
    }
}

impl From<String> for Name {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Defines structs of coordinates and implements [`Axes`] for them. A field has the same name on disk unless `as "name"`
/// gives another; its type determines its unit.
///
/// ```
/// use plimsoll_core::series::{Axes, Bytes, Threads, Value};
///
/// plimsoll_core::axes! {
///     /// Where a point of the series lies.
///     pub struct Place {
///         /// Threads that take part.
///         threads: Threads,
///         /// Bytes per array.
///         footprint as "size": Bytes,
///     }
/// }
///
/// let place = Place { threads: Threads(2), footprint: Bytes(4096) };
/// assert_eq!(place.to_values(), [Value::Number(2.0), Value::Number(4096.0)]);
/// assert_eq!(Place::axes()[1].name, "size");
/// assert_eq!(Place::from_values(&place.to_values()), Some(place));
/// ```
///
/// A point without one of the coordinates doesn't compile:
///
/// ```compile_fail,E0063
/// use plimsoll_core::series::{Bytes, Threads};
///
/// plimsoll_core::axes! {
///     /// Where a point of the series lies.
///     pub struct Place {
///         /// Threads that take part.
///         threads: Threads,
///         /// Bytes per array.
///         footprint as "size": Bytes,
///     }
/// }
///
/// let place = Place { threads: Threads(2) };
/// ```
#[macro_export]
macro_rules! axes {
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $place:ident {
            $($(#[$field_meta:meta])* $field:ident $(as $name:literal)? : $coordinate:ty),+ $(,)?
        }
    )+) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $place {
            $($(#[$field_meta])* $vis $field: $coordinate),+
        }

        impl $crate::series::Axes for $place {
            fn axes() -> ::std::vec::Vec<$crate::series::Axis> {
                ::std::vec![$($crate::series::axis(
                    $crate::axes!(@name $field $($name)?),
                    <$coordinate as $crate::series::Coordinate>::UNIT,
                )),+]
            }

            fn to_values(&self) -> ::std::vec::Vec<$crate::series::Value> {
                ::std::vec![$($crate::series::Coordinate::to_value(&self.$field)),+]
            }

            fn from_values(values: &[$crate::series::Value]) -> ::std::option::Option<Self> {
                let [$($field),+] = values else { return ::std::option::Option::None };
                ::std::option::Option::Some(Self { $($field: $crate::series::Coordinate::from_value($field)?),+ })
            }
        }
    )+};
    (@name $field:ident $name:literal) => { $name };
    (@name $field:ident) => { ::std::stringify!($field) };
}

/// Defines enums for categorical axes whose variants have names on disk, with `ALL`, `name`, `from_name`, `Display`
/// and [`Coordinate`].
///
/// ```
/// use plimsoll_core::series::{Coordinate, Value};
///
/// plimsoll_core::names! {
///     /// How stores reach memory.
///     pub enum Stores {
///         /// Through the caches.
///         Ordinary = "ordinary",
///         /// Past them.
///         NonTemporal = "non-temporal",
///     }
/// }
///
/// assert_eq!(Stores::ALL.map(Stores::name), ["ordinary", "non-temporal"]);
/// assert_eq!(Stores::from_name("ordinary"), Some(Stores::Ordinary));
/// assert_eq!(Stores::from_value(&Value::from("sideways")), None);
/// ```
#[macro_export]
macro_rules! names {
    ($(
        $(#[$meta:meta])*
        $vis:vis enum $names:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $name:literal),+ $(,)?
        }
    )+) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $names {
            $($(#[$variant_meta])* $variant),+
        }

        #[allow(dead_code, reason = "an enum need not use everything that the macro defines")]
        impl $names {
            /// Every variant, in order of declaration.
            $vis const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in records and on screen.
            #[must_use]
            $vis const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }

            /// The variant with this name.
            #[must_use]
            $vis fn from_name(name: &str) -> ::std::option::Option<Self> {
                match name {
                    $($name => ::std::option::Option::Some(Self::$variant),)+
                    _ => ::std::option::Option::None,
                }
            }
        }

        impl ::std::fmt::Display for $names {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl $crate::series::Coordinate for $names {
            const UNIT: $crate::unit::Unit = $crate::unit::Unit::One;

            fn to_value(&self) -> $crate::series::Value {
                self.name().into()
            }

            fn from_value(value: &$crate::series::Value) -> ::std::option::Option<Self> {
                Self::from_name(value.text()?)
            }
        }
    )+};
}

/// A series whose points are `A`s.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedSeries<A> {
    spec: SeriesSpec,
    place: PhantomData<fn() -> A>,
}

impl<A: Axes> TypedSeries<A> {
    /// A series of throughputs on data that stay in the caches as far as they fit.
    #[must_use]
    pub fn hot(case: &str, metrics: Vec<Metric>, draw: Draw) -> Self {
        Self::new(case, Figure::Throughput, CachePolicy::Hot, metrics, draw)
    }

    /// A series of throughputs on data that rotate through memory.
    #[must_use]
    pub fn cold(case: &str, metrics: Vec<Metric>, draw: Draw) -> Self {
        Self::new(case, Figure::Throughput, CachePolicy::ColdRotate, metrics, draw)
    }

    /// A series as a probe defines it; the axes are those of `A`.
    #[must_use]
    pub fn new(case: &str, figure: Figure, cache: CachePolicy, metrics: Vec<Metric>, draw: Draw) -> Self {
        let spec = SeriesSpec::new(case, figure, cache, A::axes(), metrics, draw);
        Self { spec, place: PhantomData }
    }

    /// Sets [`SeriesSpec::precision`].
    #[must_use]
    pub fn with_precision(self, precision: f64) -> Self {
        Self { spec: self.spec.with_precision(precision), ..self }
    }

    /// Sets [`SeriesSpec::expected`].
    #[must_use]
    pub fn with_expected(self, expected: Flags) -> Self {
        Self { spec: self.spec.with_expected(expected), ..self }
    }

    /// The series as records describe it.
    #[must_use]
    pub fn spec(&self) -> &SeriesSpec {
        &self.spec
    }
}

impl<A> From<TypedSeries<A>> for SeriesSpec {
    fn from(series: TypedSeries<A>) -> Self {
        series.spec
    }
}

/// A series that [`Session::sweep`](crate::probe::Session::sweep) can measure: a [`TypedSeries`], or a [`SeriesSpec`] with
/// positional coordinates.
pub trait SweptSeries: Into<SeriesSpec> {
    /// A point's coordinates.
    type Coordinates;

    /// The coordinates as records hold them.
    fn to_values(at: Self::Coordinates) -> Vec<Value>;
}

impl SweptSeries for SeriesSpec {
    type Coordinates = Vec<Value>;

    fn to_values(at: Vec<Value>) -> Vec<Value> {
        at
    }
}

impl<A: Axes> SweptSeries for TypedSeries<A> {
    type Coordinates = A;

    fn to_values(at: A) -> Vec<Value> {
        at.to_values()
    }
}

/// Why a row can't be read as a point of the requested type.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ShapeError {
    /// The series has other axes.
    #[error("series '{case}' has the axes {found}, not {expected}")]
    Axes {
        /// The series' case.
        case: String,
        /// The series' axes and units.
        found: String,
        /// The type's axes and units.
        expected: String,
    },
    /// A coordinate doesn't fit its axis, such as a name from a later version.
    #[error("series '{case}' has a row at {at}, which doesn't fit its axes")]
    Coordinates {
        /// The series' case.
        case: String,
        /// The row's coordinates.
        at: String,
    },
}

impl Series {
    /// Every row with its coordinates as an `A`, or an error for each row that can't be read as one. Collect into a
    /// `Result` to require all of them.
    pub fn parse_rows<A: Axes>(&self) -> impl Iterator<Item = Result<(A, &Row), ShapeError>> {
        let axes = A::axes();
        self.rows.iter().map(move |row| {
            let case = || self.spec.case.clone();
            if self.spec.axes != axes {
                let (found, expected) = (list_axes(&self.spec.axes), list_axes(&axes));
                return Err(ShapeError::Axes { case: case(), found, expected });
            }
            let at = A::from_values(&row.at).ok_or_else(|| ShapeError::Coordinates {
                case: case(),
                at: row.at.iter().map(Value::to_string).collect::<Vec<String>>().join(", "),
            })?;
            Ok((at, row))
        })
    }
}

fn list_axes(axes: &[Axis]) -> String {
    axes.iter().map(|axis| format!("{} ({})", axis.name, axis.unit)).collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests;
