//! The loop that computes a node, or converts a type between memory and its carrier. `None` if there is no such loop: the
//! caller then uses the oracle, element by element.

use plimsoll_expr::DType;
use plimsoll_expr::op::{Binary, Comparison, Unary};

use super::elements as e;
#[cfg(target_arch = "x86_64")]
use super::lookup;
use super::loops::{Function, Map1, Map2, Map3, NarrowShort2, Set, Slow1, WideShort2, compile_for};
use super::small;

/// A loop with the widths of its elements, against which [`super::code`] checks its use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(super) function: Function,
    /// Bytes of an element of each operand; 0 for an operand that it doesn't have.
    pub(super) operands: [u8; 3],
    /// Bytes of an element of the result.
    pub(super) result: u8,
    /// Bit i: operand i is the same for all elements.
    pub(super) uniform: u8,
    /// Each result is a byte of 0 or 1 for any operands.
    pub(super) boolean: bool,
    /// It takes about as long as memory for its elements, so it should fetch others meanwhile.
    pub(super) slow: bool,
    /// It takes far less time than memory for its elements, so its results can be stored past the caches in small blocks. Functions such as `sin`
    /// take longer that way.
    pub(super) streams: bool,
}

impl Operation {
    /// Bytes from one element of each operand to the next; 0 if it is the same for all.
    pub(super) fn steps(&self) -> [usize; 3] {
        [0, 1, 2].map(|k| if self.uniform >> k & 1 != 0 { 0 } else { usize::from(self.operands[k]) })
    }

    /// A loop over one operand, whose elements differ and whose results aren't booleans.
    fn with_one_operand(function: Function, operand: u8, result: u8) -> Self {
        Self { function, operands: [operand, 0, 0], result, uniform: 0, boolean: false, slow: false, streams: false }
    }
}

/// A product and a sum in one pass; two roundings except for [`Fused::Fma`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fused {
    /// a·b + c with one rounding.
    Fma,
    /// a·b + c.
    MulAdd,
    /// a·b − c.
    MulSub,
    /// c − a·b.
    SubMul,
}

fn width(dtype: DType) -> u8 {
    dtype.bytes() as u8
}

/// `$body!(type)` for the Rust type of a carrier, if it is listed.
macro_rules! for_type {
    ($dtype:expr, [$($variant:ident $t:ty),*], $body:ident!$args:tt) => {
        match $dtype {
            $(DType::$variant => $body!($t, $args),)*
            _ => None,
        }
    };
}

macro_rules! floats {
    ($dtype:expr, $body:ident!$args:tt) => {
        for_type!($dtype, [F32 f32, F64 f64], $body!$args)
    };
}
macro_rules! singles {
    ($dtype:expr, $body:ident!$args:tt) => {
        for_type!($dtype, [F32 f32], $body!$args)
    };
}
macro_rules! doubles {
    ($dtype:expr, $body:ident!$args:tt) => {
        for_type!($dtype, [F64 f64], $body!$args)
    };
}
macro_rules! integers {
    ($dtype:expr, $body:ident!$args:tt) => {
        for_type!($dtype, [I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64], $body!$args)
    };
}
macro_rules! numbers {
    ($dtype:expr, $body:ident!$args:tt) => {
        for_type!(
            $dtype,
            [F32 f32, F64 f64, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64],
            $body!$args
        )
    };
}
macro_rules! map1 {
    ($t:ty, ($name:ident, ($set:expr))) => {
        Some(compile_for::<Map1<e::$name<$t>>>($set))
    };
}
macro_rules! slow1 {
    ($t:ty, ($name:ident, ($set:expr))) => {
        Some(compile_for::<Slow1<e::$name<$t>>>($set))
    };
}
/// A loop that is compiled for each of these values of `$uniform`.
macro_rules! by_uniform {
    ($loop:ident, $operation:ty, $set:expr, $uniform:expr, [$($value:literal)*]) => {
        match $uniform {
            $($value => Some(compile_for::<$loop<$operation, $value>>($set)),)*
            _ => None,
        }
    };
}
macro_rules! map2 {
    ($t:ty, ($name:ident, ($set:expr, $uniform:expr))) => {
        by_uniform!(Map2, e::$name<$t>, $set, $uniform, [0 1 2])
    };
}
macro_rules! short2 {
    ($t:ty, ($name:ident, ($set:expr, $uniform:expr))) => {
        if $set.is_wide() {
            by_uniform!(WideShort2, e::$name<$t>, $set, $uniform, [0 1 2])
        } else {
            by_uniform!(NarrowShort2, e::$name<$t>, $set, $uniform, [0 1 2])
        }
    };
}
macro_rules! map3 {
    ($t:ty, ($name:ident, ($set:expr, $uniform:expr))) => {
        by_uniform!(Map3, e::$name<$t>, $set, $uniform, [0 1 2 3 4 5 6])
    };
}

/// The loop of an operation: the listed ones have loops of the same name for the listed types, `$rest` are further arms.
macro_rules! loops {
    ($op:expr, $of:ident, $carrier:expr, $map:ident $arguments:tt, [$($types:ident: $($name:ident)+;)+], $($rest:tt)*) => {
        match $op {
            $($($of::$name => $types!($carrier, $map!($name, $arguments)),)+)+
            $($rest)*
        }
    };
}

/// A node of one operand of type `dtype`.
pub(crate) fn unary(set: Set, op: Unary, dtype: DType) -> Option<Operation> {
    let carrier = dtype.carrier();
    // The others take less time than memory or several times as much.
    let slow = carrier == DType::F32 && matches!(op, Unary::Exp | Unary::Log | Unary::Tanh | Unary::Erf);
    let function = match op {
        Unary::Not if carrier == DType::Bool => Some(compile_for::<Map1<e::NotBool>>(set)),
        #[cfg(target_arch = "x86_64")]
        Unary::Tanh if carrier == DType::F32 && set.is_wide() => Some(lookup::function::<lookup::Tanh>()),
        #[cfg(target_arch = "x86_64")]
        Unary::Erf if carrier == DType::F32 && set.is_wide() => Some(lookup::function::<lookup::Erf>()),
        _ if slow => loops! { op, Unary, carrier, slow1 (set), [singles: Exp Log Tanh Erf;], _ => None, },
        op => loops! { op, Unary, carrier, map1 (set), [
            integers: Not;
            numbers: Neg Abs Sign Relu;
            floats: Floor Ceil Round Trunc Sqrt Rsqrt Recip;
            doubles: Exp Log Tanh Erf;
            floats: Exp2 Expm1 Log2 Log10 Log1p Sin Cos Sinh Cosh Asinh Acosh Atanh Atan;
            floats: Erfc Sigmoid Silu Gelu GeluTanh Softplus Mish;
        ], },
    };
    let bytes = width(carrier);
    let streams = matches!(op, Unary::Neg | Unary::Abs | Unary::Sqrt);
    function.map(|function| Operation { slow, streams, ..Operation::with_one_operand(function, bytes, bytes) })
}

/// A node of two operands of type `dtype`. Bit i of `uniform`: operand i is the same for all elements.
pub(crate) fn binary(set: Set, op: Binary, dtype: DType, uniform: u8) -> Option<Operation> {
    let carrier = dtype.carrier();
    // Logic on 0 and 1 is bitwise.
    let bits = if carrier == DType::Bool { DType::U8 } else { carrier };
    let function = loops! { op, Binary, carrier, map2 (set, uniform), [
            numbers: Add Sub Mul Min Max FloorDiv Rem;
            floats: Div Atan2;
            integers: Shl Shr;
        ],
        Binary::Pow if carrier == DType::I64 => short2!(i64, (Pow, (set, uniform))),
        Binary::Pow if carrier == DType::U64 => short2!(u64, (Pow, (set, uniform))),
        Binary::Pow => numbers!(carrier, map2!(Pow, (set, uniform))),
        Binary::And => integers!(bits, map2!(And, (set, uniform))),
        Binary::Or => integers!(bits, map2!(Or, (set, uniform))),
        Binary::Xor => integers!(bits, map2!(Xor, (set, uniform))),
        Binary::Fmin if carrier.is_int() => integers!(carrier, map2!(Min, (set, uniform))),
        Binary::Fmax if carrier.is_int() => integers!(carrier, map2!(Max, (set, uniform))),
        Binary::Fmin => floats!(carrier, map2!(Fmin, (set, uniform))),
        Binary::Fmax => floats!(carrier, map2!(Fmax, (set, uniform))),
    };
    let bytes = width(carrier);
    let streams = !matches!(op, Binary::Pow | Binary::Atan2 | Binary::FloorDiv | Binary::Rem);
    function.map(|function| Operation {
        function,
        operands: [bytes, bytes, 0],
        result: bytes,
        uniform,
        boolean: false,
        slow: false,
        streams,
    })
}

/// A comparison of two operands of type `dtype`, and whether they must be exchanged first.
pub(crate) fn compare(set: Set, op: Comparison, dtype: DType, uniform: u8) -> Option<(Operation, bool)> {
    let carrier = if dtype == DType::Bool { DType::U8 } else { dtype.carrier() };
    let exchanged = matches!(op, Comparison::Greater | Comparison::GreaterEqual);
    let uniform = if exchanged { (uniform & 1) << 1 | uniform >> 1 } else { uniform };
    let function = match op {
        Comparison::Less | Comparison::Greater => numbers!(carrier, map2!(Less, (set, uniform))),
        Comparison::LessEqual | Comparison::GreaterEqual => numbers!(carrier, map2!(LessEqual, (set, uniform))),
        Comparison::Equal => numbers!(carrier, map2!(Equal, (set, uniform))),
        Comparison::NotEqual => numbers!(carrier, map2!(NotEqual, (set, uniform))),
    };
    let bytes = width(carrier);
    function.map(|function| {
        (
            Operation {
                function,
                operands: [bytes, bytes, 0],
                result: 1,
                uniform,
                boolean: true,
                slow: false,
                streams: true,
            },
            exchanged,
        )
    })
}

/// Three numbers in one pass; integers only for [`Fused::Fma`].
pub(crate) fn fused(set: Set, fused: Fused, dtype: DType, uniform: u8) -> Option<Operation> {
    let carrier = dtype.carrier();
    let function = loops! { fused, Fused, carrier, map3 (set, uniform), [
        numbers: Fma;
        floats: MulAdd MulSub SubMul;
    ], };
    let bytes = width(carrier);
    function.map(|function| Operation {
        function,
        operands: [bytes; 3],
        result: bytes,
        uniform,
        boolean: false,
        slow: false,
        streams: true,
    })
}

/// The unsigned integer of a type's width, for operations that only copy bits.
fn bits_of(dtype: DType) -> DType {
    match dtype.bytes() {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    }
}

macro_rules! unsigned {
    ($dtype:expr, $body:ident!$args:tt) => {
        for_type!($dtype, [U8 u8, U16 u16, U32 u32, U64 u64], $body!$args)
    };
}

/// A selection between two operands of type `dtype`.
pub(crate) fn select(set: Set, dtype: DType, uniform: u8) -> Option<Operation> {
    let bytes = width(dtype.carrier());
    let function = match uniform & 1 {
        0 => unsigned!(bits_of(dtype.carrier()), map3!(Select, (set, uniform))),
        _ => None,
    };
    function.map(|function| Operation {
        function,
        operands: [1, bytes, bytes],
        result: bytes,
        uniform,
        boolean: false,
        slow: false,
        streams: true,
    })
}

/// A copy of elements of `dtype`.
pub(crate) fn copy(set: Set, dtype: DType) -> Option<Operation> {
    let bytes = width(dtype);
    let function = unsigned!(bits_of(dtype), map1!(Same, (set)));
    function.map(|function| Operation::with_one_operand(function, bytes, bytes))
}

/// `$step` between memory and the carrier, for the types for which they differ.
macro_rules! between_memory_and_carrier {
    ($dtype:expr, $set:expr, $step:ident) => {
        match $dtype {
            DType::F16 => Some(compile_for::<Map1<e::$step<small::F16>>>($set)),
            DType::Bf16 => Some(compile_for::<Map1<e::$step<small::Bf16>>>($set)),
            DType::F8E4M3 => Some(compile_for::<Map1<e::$step<small::F8E4M3>>>($set)),
            DType::F8E5M2 => Some(compile_for::<Map1<e::$step<small::F8E5M2>>>($set)),
            // Any byte but 0 is true, and memory may only hold 0 and 1.
            DType::Bool => Some(compile_for::<Map1<e::ToBool<u8>>>($set)),
            _ => None,
        }
    };
}

/// From memory to the carrier; `None` if they are the same.
pub(crate) fn unpack(set: Set, dtype: DType) -> Option<Operation> {
    let function = between_memory_and_carrier!(dtype, set, Unpack)?;
    let operation = Operation::with_one_operand(function, width(dtype), width(dtype.carrier()));
    Some(Operation { boolean: dtype == DType::Bool, ..operation })
}

/// From the carrier to memory; `None` if they are the same.
pub(crate) fn pack(set: Set, dtype: DType) -> Option<Operation> {
    let function = between_memory_and_carrier!(dtype, set, Pack)?;
    let operation = Operation::with_one_operand(function, width(dtype.carrier()), width(dtype));
    Some(Operation { boolean: dtype == DType::Bool, ..operation })
}

macro_rules! cast_to {
    ($from:ty, ($set:expr, $to:ty)) => {
        Some(compile_for::<Map1<e::Cast<$from, $to>>>($set))
    };
}
macro_rules! rounded_to {
    ($from:ty, ($set:expr, $small:ident)) => {
        Some(compile_for::<Map1<e::Rounded<$from, small::$small>>>($set))
    };
}
macro_rules! truth_of {
    ($from:ty, ($set:expr)) => {
        Some(compile_for::<Map1<e::ToBool<$from>>>($set))
    };
}

/// A cast of an operand of type `from` to `to`.
pub(crate) fn cast(set: Set, from: DType, to: DType) -> Option<Operation> {
    let source = if from == DType::Bool { DType::U8 } else { from.carrier() };
    let function = match to {
        DType::F32 => numbers!(source, cast_to!(set, f32)),
        DType::F64 => numbers!(source, cast_to!(set, f64)),
        DType::I8 => numbers!(source, cast_to!(set, i8)),
        DType::I16 => numbers!(source, cast_to!(set, i16)),
        DType::I32 => numbers!(source, cast_to!(set, i32)),
        DType::I64 => numbers!(source, cast_to!(set, i64)),
        DType::U8 => numbers!(source, cast_to!(set, u8)),
        DType::U16 => numbers!(source, cast_to!(set, u16)),
        DType::U32 => numbers!(source, cast_to!(set, u32)),
        DType::U64 => numbers!(source, cast_to!(set, u64)),
        DType::F16 => numbers!(source, rounded_to!(set, F16)),
        DType::Bf16 => numbers!(source, rounded_to!(set, Bf16)),
        DType::F8E4M3 => numbers!(source, rounded_to!(set, F8E4M3)),
        DType::F8E5M2 => numbers!(source, rounded_to!(set, F8E5M2)),
        DType::Bool => numbers!(source, truth_of!(set)),
    };
    let operation = Operation::with_one_operand(function?, width(source), width(to.carrier()));
    Some(Operation { boolean: to == DType::Bool, ..operation })
}
