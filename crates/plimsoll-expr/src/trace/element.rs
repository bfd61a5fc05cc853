//! Element types as Rust types, and the promotion table at type level. A test compares it with [`crate::dtype`].

use std::fmt;

use half::{bf16, f16};

use crate::dtype::{DType, Strength};
use crate::value::Value;

/// A Rust type that tensor elements can have.
pub trait Element: Copy + 'static {
    /// The element type.
    const DTYPE: DType;
    /// The result type of functions such as `exp`, and of operations with a literal such as `0.5`: the type itself, or f32 for
    /// integers and `bool`.
    type Float: Element;
    /// The result type of operations with a literal such as `2`: the type itself, or i64 for `bool`.
    type WithInteger: Element;
}

macro_rules! eight_bits {
    ($(#[$outer:meta])* $name:ident) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            /// The number with these bits.
            #[must_use]
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            /// The bits.
            #[must_use]
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// The nearest number, ties to even; overflow as in [`DType::cast`].
            #[must_use]
            pub fn from_f64(x: f64) -> Self {
                Self(DType::$name.encode(Value::Float(x)) as u8)
            }

            /// The value as f64.
            #[must_use]
            pub fn to_f64(self) -> f64 {
                DType::$name.decode(self.0.into()).as_f64()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.to_f64().fmt(f)
            }
        }
    };
}

eight_bits! {
    /// [`DType::F8E4M3`]. Equality compares bits.
    F8E4M3
}
eight_bits! {
    /// [`DType::F8E5M2`]. Equality compares bits.
    F8E5M2
}

macro_rules! elements {
    ($($type:ty = $dtype:ident, $float:ty, $with_integer:ty;)*) => {
        $(impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            type Float = $float;
            type WithInteger = $with_integer;
        })*
    };
}

elements! {
    f64 = F64, f64, f64;
    f32 = F32, f32, f32;
    f16 = F16, f16, f16;
    bf16 = Bf16, bf16, bf16;
    F8E4M3 = F8E4M3, F8E4M3, F8E4M3;
    F8E5M2 = F8E5M2, F8E5M2, F8E5M2;
    i8 = I8, f32, i8;
    i16 = I16, f32, i16;
    i32 = I32, f32, i32;
    i64 = I64, f32, i64;
    u8 = U8, f32, u8;
    u16 = U16, f32, u16;
    u32 = U32, f32, u32;
    u64 = U64, f32, u64;
    bool = Bool, f32, i64;
}

/// Whether a value comes from a tensor or only from scalars.
pub trait Role: Copy + 'static {
    /// How strongly it determines result types.
    const STRENGTH: Strength;
}

/// The role of values that depend on a tensor.
#[derive(Clone, Copy, Debug)]
pub struct Tensor;

/// The role of run-time scalars and of values computed only from them: they don't promote tensors.
#[derive(Clone, Copy, Debug)]
pub struct Weak;

impl Role for Tensor {
    const STRENGTH: Strength = Strength::Tensor;
}

impl Role for Weak {
    const STRENGTH: Strength = Strength::Scalar;
}

/// The common type of `Self` in the role `KA` and `B` in the role `KB`.
pub trait Promote<B: Element, KA: Role, KB: Role>: Element {
    /// The common type.
    type Out: Element;
    /// The common role.
    type Role: Role;
}

/// One row of a table: the common types of `$a` with each type, in the order of [`DType::ALL`].
macro_rules! rows {
    ($rule:ident $($a:ident: $($out:ident)*;)*) => {
        $(rows!(@zip $rule $a [f64 f32 f16 bf16 F8E4M3 F8E5M2 i8 i16 i32 i64 u8 u16 u32 u64 bool] [$($out)*]);)*
    };
    (@zip $rule:ident $a:ident [$($b:ident)*] [$($out:ident)*]) => {
        $($rule!($a $b $out);)*
    };
}

macro_rules! promote {
    ($a:ident as $a_role:ident, $b:ident as $b_role:ident => $out:ident as $role:ident) => {
        impl Promote<$b, $a_role, $b_role> for $a {
            type Out = $out;
            type Role = $role;
        }
    };
}

macro_rules! equal_roles {
    ($a:ident $b:ident $out:ident) => {
        promote!($a as Tensor, $b as Tensor => $out as Tensor);
        promote!($a as Weak, $b as Weak => $out as Weak);
    };
}

macro_rules! tensor_and_scalar {
    ($a:ident $b:ident $out:ident) => {
        promote!($a as Tensor, $b as Weak => $out as Tensor);
        promote!($b as Weak, $a as Tensor => $out as Tensor);
    };
}

// Two tensors, or two scalars.
rows! { equal_roles
    f64   : f64    f64    f64    f64    f64    f64    f64    f64    f64    f64    f64    f64    f64    f64    f64;
    f32   : f64    f32    f32    f32    f32    f32    f32    f32    f32    f32    f32    f32    f32    f32    f32;
    f16   : f64    f32    f16    f32    f16    f16    f16    f16    f16    f16    f16    f16    f16    f16    f16;
    bf16  : f64    f32    f32    bf16   bf16   bf16   bf16   bf16   bf16   bf16   bf16   bf16   bf16   bf16   bf16;
    F8E4M3: f64    f32    f16    bf16   F8E4M3 f16    F8E4M3 F8E4M3 F8E4M3 F8E4M3 F8E4M3 F8E4M3 F8E4M3 F8E4M3 F8E4M3;
    F8E5M2: f64    f32    f16    bf16   f16    F8E5M2 F8E5M2 F8E5M2 F8E5M2 F8E5M2 F8E5M2 F8E5M2 F8E5M2 F8E5M2 F8E5M2;
    i8    : f64    f32    f16    bf16   F8E4M3 F8E5M2 i8     i16    i32    i64    i16    i32    i64    i64    i8;
    i16   : f64    f32    f16    bf16   F8E4M3 F8E5M2 i16    i16    i32    i64    i16    i32    i64    i64    i16;
    i32   : f64    f32    f16    bf16   F8E4M3 F8E5M2 i32    i32    i32    i64    i32    i32    i64    i64    i32;
    i64   : f64    f32    f16    bf16   F8E4M3 F8E5M2 i64    i64    i64    i64    i64    i64    i64    i64    i64;
    u8    : f64    f32    f16    bf16   F8E4M3 F8E5M2 i16    i16    i32    i64    u8     u16    u32    u64    u8;
    u16   : f64    f32    f16    bf16   F8E4M3 F8E5M2 i32    i32    i32    i64    u16    u16    u32    u64    u16;
    u32   : f64    f32    f16    bf16   F8E4M3 F8E5M2 i64    i64    i64    i64    u32    u32    u32    u64    u32;
    u64   : f64    f32    f16    bf16   F8E4M3 F8E5M2 i64    i64    i64    i64    u64    u64    u64    u64    u64;
    bool  : f64    f32    f16    bf16   F8E4M3 F8E5M2 i8     i16    i32    i64    u8     u16    u32    u64    bool;
}

/// Tensors of each type in the first list with scalars of each type in the second. The last word says whose type the result has.
macro_rules! tensors_and_scalars {
    ([$($tensor:ident)*] $scalars:tt => $result:ident) => {
        $(tensors_and_scalars!(@one $tensor $scalars $result);)*
    };
    (@one $tensor:ident [$($scalar:ident)*] tensor) => { $(tensor_and_scalar!($tensor $scalar $tensor);)* };
    (@one $tensor:ident [$($scalar:ident)*] scalar) => { $(tensor_and_scalar!($tensor $scalar $scalar);)* };
}

// A scalar determines the type only if its category is higher: floats above integers above `bool`.
tensors_and_scalars! {
    [f64 f32 f16 bf16 F8E4M3 F8E5M2] [f64 f32 f16 bf16 F8E4M3 F8E5M2 i8 i16 i32 i64 u8 u16 u32 u64 bool] => tensor
}
tensors_and_scalars! { [i8 i16 i32 i64 u8 u16 u32 u64] [f64 f32 f16 bf16 F8E4M3 F8E5M2] => scalar }
tensors_and_scalars! { [i8 i16 i32 i64 u8 u16 u32 u64] [i8 i16 i32 i64 u8 u16 u32 u64 bool] => tensor }
tensors_and_scalars! { [bool] [f64 f32 f16 bf16 F8E4M3 F8E5M2 i8 i16 i32 i64 u8 u16 u32 u64 bool] => scalar }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::common;

    fn agree<A: Promote<B, KA, KB>, B: Element, KA: Role, KB: Role>() {
        let expected = common((A::DTYPE, KA::STRENGTH), (B::DTYPE, KB::STRENGTH));
        assert_eq!((A::Out::DTYPE, A::Role::STRENGTH), expected, "{} {}", A::DTYPE, B::DTYPE);
    }

    macro_rules! agrees {
        ($a:ident $b:ident $out:ident) => {
            agree::<$a, $b, Tensor, Tensor>();
            agree::<$a, $b, Weak, Weak>();
            agree::<$a, $b, Tensor, Weak>();
            agree::<$a, $b, Weak, Tensor>();
        };
    }

    #[test]
    fn the_type_level_table_matches_dtype_promotion() {
        macro_rules! with_each {
            ($($a:ident)*) => { rows! { agrees $($a: f64 f32 f16 bf16 F8E4M3 F8E5M2 i8 i16 i32 i64 u8 u16 u32 u64 bool;)* } };
        }
        with_each!(f64 f32 f16 bf16 F8E4M3 F8E5M2 i8 i16 i32 i64 u8 u16 u32 u64 bool);
    }

    #[test]
    fn eight_bit_floats_convert() {
        assert_eq!(F8E4M3::from_f64(1.06).to_f64(), 1.0);
        assert_eq!(F8E5M2::from_f64(-3.0).to_bits(), 0xc2);
        assert_eq!(format!("{:?}", F8E5M2::from_bits(0x3c)), "1.0");
    }
}
