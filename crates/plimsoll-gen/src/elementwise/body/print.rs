//! A block of a program as CUDA C++: one statement per instruction, in terms of the functions of `primitives.h` and below it.

use std::fmt::{self, Write};

use plimsoll_expr::op::{Binary, Comparison, Unary};
use plimsoll_expr::{DType, Value};
use plimsoll_ir::{Block, Guard, Id, Instruction, Limit, Op, Primitive};

use super::{carrier_type, memory_type};

/// Writes the statements of a block: instructions, guards and results.
pub(super) fn write_block(text: &mut String, block: &Block) -> fmt::Result {
    for (place, instruction) in block.instructions.iter().enumerate() {
        if is_inline(instruction) {
            continue;
        }
        write!(text, "    const {} v{place} = ", carrier_type(instruction.dtype))?;
        expression(text, block, instruction)?;
        text.push_str(";\n");
    }
    let limits = limits(block);
    for Guard { value, limit } in &block.guards {
        let place = limits.iter().position(|known| known == limit).unwrap_or(0);
        let gather = if matches!(limit, Limit::Most(_)) { "maximum" } else { "minimum" };
        writeln!(text, "    guards.g{place} = {gather}(guards.g{place}, {});", Operand(block, *value))?;
    }
    for (slot, result) in block.results.iter().enumerate() {
        writeln!(text, "    y{slot} = {};", Operand(block, *result))?;
    }
    Ok(())
}

/// Writes the type that gathers guards: one member per limit.
pub(super) fn write_guards(text: &mut String, block: &Block) -> fmt::Result {
    let limits = limits(block);
    text.push_str("struct Guards {\n");
    for (place, limit) in limits.iter().enumerate() {
        match limit {
            Limit::Most(_) => writeln!(text, "    float g{place} = as_float(0xff800000u);")?,
            Limit::Least(_) => writeln!(text, "    u32 g{place} = ~0u;")?,
        }
    }
    text.push_str("    __device__ __forceinline__ bool broken() const { return ");
    for (place, limit) in limits.iter().enumerate() {
        let or = if place > 0 { " || " } else { "" };
        match limit {
            // Not `>`: NaN breaks a guard.
            Limit::Most(most) => write!(text, "{or}!(g{place} <= {})", single(f32::from_bits(*most)))?,
            Limit::Least(least) => write!(text, "{or}g{place} < 0x{least:x}u")?,
        }
    }
    text.push_str("; }\n};\n");
    Ok(())
}

/// The different limits of a block's guards.
fn limits(block: &Block) -> Vec<Limit> {
    let mut limits = Vec::new();
    for guard in &block.guards {
        if !limits.contains(&guard.limit) {
            limits.push(guard.limit);
        }
    }
    limits
}

/// Whether an instruction has no statement of its own: numbers stand where they are used.
fn is_inline(instruction: &Instruction) -> bool {
    matches!(instruction.op, Op::Constant(_) | Op::Input(_) | Op::Scalar(_) | Op::Place | Op::Coordinate(_))
}

/// A value where it is used.
struct Operand<'b>(&'b Block, Id);

impl fmt::Display for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(block, id) = *self;
        let instruction = block.get(id);
        match instruction.op {
            Op::Input(slot) => write!(f, "x{slot}"),
            Op::Scalar(slot) => write!(f, "s.a{slot}"),
            Op::Place => write!(f, "at.place"),
            Op::Coordinate(dimension) => write!(f, "at.coordinate[{dimension}]"),
            Op::Constant(bits) => write!(f, "{}", constant(instruction.dtype, bits)),
            _ => write!(f, "v{}", id.0),
        }
    }
}

fn expression(text: &mut String, block: &Block, instruction: &Instruction) -> fmt::Result {
    let dtype = instruction.dtype;
    let operands = instruction.operands();
    let v = |place: usize| Operand(block, operands[place]);
    let call = |text: &mut String, name: &str| {
        let arguments: Vec<String> = operands.iter().map(|id| Operand(block, *id).to_string()).collect();
        write!(text, "{name}({})", arguments.join(", "))
    };
    match instruction.op {
        Op::Binary(Binary::Add) if dtype.is_float() => write!(text, "{} + {}", v(0), v(1)),
        Op::Binary(Binary::Sub) if dtype.is_float() => write!(text, "{} - {}", v(0), v(1)),
        Op::Binary(Binary::Mul) if dtype.is_float() => write!(text, "{} * {}", v(0), v(1)),
        Op::Compare(op) => write!(text, "{} {} {}", v(0), op.name(), v(1)),
        Op::Select if !(dtype.is_int() && dtype.is_signed()) => {
            let arm = |place: usize| match is_compared_zero(block, instruction, place) {
                true => format!("opaque_zero({})", v(place)),
                false => v(place).to_string(),
            };
            write!(text, "{} ? {} : {}", v(0), arm(1), arm(2))
        }
        Op::Convert if dtype == DType::Bool => call(text, "truth"),
        Op::Convert => call(text, &format!("converted<{}>", carrier_type(dtype))),
        Op::Narrow(to) => call(text, &format!("rounded<{}>", memory_type(to))),
        op => call(text, name(op, dtype)),
    }
}

/// Whether one of a selection's values is a zero, and the condition compares the other value: a compiler that makes a minimum or a
/// maximum of them may return a zero of the other sign. `x > 0 ? x : 0` is max(x, 0) for both zeros.
fn is_compared_zero(block: &Block, selection: &Instruction, place: usize) -> bool {
    let operands = selection.operands();
    let (zero, other) = (block.get(operands[place]), operands[3 - place]);
    let Op::Constant(bits) = zero.op else { return false };
    if !zero.dtype.is_float() || !matches!(zero.dtype.decode(bits), Value::Float(value) if value == 0.0) {
        return false;
    }
    let mut condition = block.get(operands[0]);
    while let [of] = condition.operands() {
        if block.get(*of).dtype != DType::Bool {
            break;
        }
        condition = block.get(*of);
    }
    let is_maximum = (bits, place, condition.op) == (0, 2, Op::Compare(Comparison::Greater))
        && block.get(operands[0]).op == condition.op
        && condition.operands()[0] == other;
    matches!(condition.op, Op::Compare(_)) && condition.operands().contains(&other) && !is_maximum
}

/// The function that computes an operation.
fn name(op: Op, dtype: DType) -> &'static str {
    match op {
        Op::Unary(op) => unary_name(op),
        Op::Binary(op) => binary_name(op, dtype),
        Op::Fma => "fused_multiply_add",
        Op::Select => "selected",
        Op::Odd => "odd_float",
        Op::Bits => match dtype {
            DType::F32 => "as_float",
            DType::F64 => "as_double",
            _ => "as_bits",
        },
        Op::High => "upper_half",
        Op::Scale => "scaled",
        Op::CopySign => "copy_sign",
        Op::Saturate => "saturated",
        Op::Ordered => "is_ordered",
        Op::Primitive(primitive) => match primitive {
            Primitive::Ex2 { flush: false } => "ex2",
            Primitive::Ex2 { flush: true } => "ex2_flush",
            Primitive::Lg2 { flush: false } => "lg2",
            Primitive::Lg2 { flush: true } => "lg2_flush",
            Primitive::Rcp { flush: false } => "rcp",
            Primitive::Rcp { flush: true } => "rcp_flush",
            Primitive::Rsqrt { flush: false } => "inverse_root",
            Primitive::Rsqrt { flush: true } => "inverse_root_flush",
            Primitive::Sqrt { flush: false } => "root",
            Primitive::Sqrt { flush: true } => "root_flush",
            Primitive::Tanh => "tanh_approximate",
            Primitive::Div => "quotient",
            Primitive::Rcp64 => "rough_inverse",
        },
        // These have no operands or are written otherwise.
        Op::Input(_) | Op::Scalar(_) | Op::Constant(_) | Op::Place | Op::Coordinate(_) => "",
        Op::Compare(_) | Op::Convert | Op::Narrow(_) => "",
    }
}

/// The name of an operation with one operand: in arithmetic.h, or in library.h for functions.
const fn unary_name(op: Unary) -> &'static str {
    match op {
        Unary::Neg => "negative",
        Unary::Not => "complement",
        Unary::Abs => "absolute",
        Unary::Sign => "signum",
        Unary::Floor => "floor_of",
        Unary::Ceil => "ceil_of",
        Unary::Round => "round_of",
        Unary::Trunc => "trunc_of",
        Unary::Relu => "rectified",
        Unary::Sqrt => "library::sqrt",
        Unary::Rsqrt => "library::rsqrt",
        Unary::Recip => "library::recip",
        Unary::Exp => "library::exp",
        Unary::Exp2 => "library::exp2",
        Unary::Expm1 => "library::expm1",
        Unary::Log => "library::log",
        Unary::Log2 => "library::log2",
        Unary::Log10 => "library::log10",
        Unary::Log1p => "library::log1p",
        Unary::Sin => "library::sin",
        Unary::Cos => "library::cos",
        Unary::Tanh => "library::tanh",
        Unary::Sinh => "library::sinh",
        Unary::Cosh => "library::cosh",
        Unary::Asinh => "library::asinh",
        Unary::Acosh => "library::acosh",
        Unary::Atanh => "library::atanh",
        Unary::Atan => "library::atan",
        Unary::Erf => "library::erf",
        Unary::Erfc => "library::erfc",
        // Lowering leaves none of these.
        Unary::Sigmoid | Unary::Silu | Unary::Gelu | Unary::GeluTanh | Unary::Softplus | Unary::Mish => "lowered",
    }
}

/// The name of an operation with two operands.
const fn binary_name(op: Binary, dtype: DType) -> &'static str {
    match op {
        Binary::Add => "add",
        Binary::Sub => "sub",
        Binary::Mul => "mul",
        Binary::Div => "library::divide",
        Binary::FloorDiv => "floor_div",
        Binary::Rem => "floor_rem",
        Binary::And => "bit_and",
        Binary::Or => "bit_or",
        Binary::Xor => "bit_xor",
        Binary::Shl => "shift_left",
        Binary::Shr => "shift_right",
        Binary::Min => "minimum",
        Binary::Max => "maximum",
        Binary::Fmin => "minimum_number",
        Binary::Fmax => "maximum_number",
        Binary::Pow if dtype.is_float() => "library::pow",
        Binary::Pow => "power",
        Binary::Atan2 => "library::atan2",
    }
}

/// A constant of a carrier: floats as the shortest decimal that is read back as the same, others by their bits.
fn constant(dtype: DType, bits: u64) -> String {
    match (dtype, dtype.decode(bits)) {
        (DType::Bool, value) => value.as_bool().to_string(),
        (DType::F64, Value::Float(x)) if x.is_finite() => format!("{x:?}"),
        (DType::F64, _) => format!("as_double(0x{bits:x}ull)"),
        (DType::F32, _) => single(f32::from_bits(bits as u32)),
        (dtype, _) => format!("{}(0x{bits:x}ull)", dtype.name()),
    }
}

fn single(x: f32) -> String {
    if x.is_finite() { format!("{x:?}f") } else { format!("as_float(0x{:x}u)", x.to_bits()) }
}

#[cfg(test)]
mod tests {
    use plimsoll_expr::{Names, parse};

    use crate::elementwise::body::emit;
    use crate::elementwise::spec::Tier;

    /// NVRTC 13.0 makes `min.f32` of `x < 0 ? x : 0` and `max.f32` of `x > -0 ? x : -0`: of zeros, they return the other one.
    #[test]
    fn zeros_that_are_compared_and_selected_are_hidden_from_the_compiler_unless_it_is_a_maximum_of_zero() {
        for dtype in ["f16", "bf16", "f32", "f64"] {
            let hidden = |text: &str| {
                let graph = parse(&format!("in x: {dtype}, z: {dtype}\ny = {text}"), &Names::default()).unwrap();
                emit(&graph, Tier::Accurate).matches("opaque_zero(").count()
            };
            for text in
                ["select(x < 0, x, 0)", "select(0 > x, x, 0)", "select(x > -0.0, x, -0.0)", "select(x >= 0, 0, x)"]
            {
                assert_eq!(hidden(text), 1, "{dtype}: {text}");
            }
            for text in
                ["select(x > 0, x, 0)", "select(x < 1, x, 1)", "select(z < 0, x, 0)", "select(x < z, x, z)", "relu(x)"]
            {
                assert_eq!(hidden(text), 0, "{dtype}: {text}");
            }
        }
    }
}
