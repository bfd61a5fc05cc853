//! The statements of a body: one per node.

use std::fmt::Write;

use plimsoll_expr::graph::{Kind, Node};
use plimsoll_expr::op::{Binary, Comparison, Unary};
use plimsoll_expr::{Category, DType, Graph, NodeId, Value};

use super::{Need, Tier, carrier_type, memory_type};

/// The header that defines a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Uses {
    Arithmetic,
    Full,
    Narrow,
}

/// Writes a statement per node and output, and returns the header that they need.
pub(super) fn write_all(
    text: &mut String,
    graph: &Graph,
    needs: &[Need],
    tier: Tier,
) -> Result<&'static str, std::fmt::Error> {
    let mut uses = Uses::Arithmetic;
    let stored = rounded_by_stores(graph);
    for (place, node) in graph.nodes().iter().enumerate() {
        write!(text, "    const {} v{place} = ", carrier_type(node.dtype))?;
        let function = function(node, needs[place], tier);
        uses = uses.max(function);
        statement(text, graph, node, (function, needs[place]), stored[place])?;
        text.push_str(";\n");
    }
    for (slot, output) in graph.outputs().iter().enumerate() {
        writeln!(text, "    y{slot} = v{};", output.node.index())?;
    }
    Ok(match uses {
        Uses::Arithmetic => "arithmetic.h",
        Uses::Full => "full.h",
        Uses::Narrow => "narrow.h",
    })
}

/// The header for a node's function; `Arithmetic` for nodes that aren't functions.
fn function(node: &Node, need: Need, tier: Tier) -> Uses {
    let is_function = match node.kind {
        Kind::Unary(op, _) => arithmetic_name(op).is_none(),
        Kind::Binary(op, _) => node.dtype.is_float() && matches!(op, Binary::Div | Binary::Pow | Binary::Atan2),
        _ => false,
    };
    match (is_function, node.dtype.carrier()) {
        (false, _) => Uses::Arithmetic,
        (true, DType::F32) if tier == Tier::Fast || (tier == Tier::Accurate && need != Need::Full) => Uses::Narrow,
        (true, _) => Uses::Full,
    }
}

/// For each node, whether it is a cast to 16 or 8 bits that is only used by stores, which do the rounding anyway.
fn rounded_by_stores(graph: &Graph) -> Vec<bool> {
    let mut stores = vec![0_u32; graph.nodes().len()];
    for output in graph.outputs() {
        let node = &graph.nodes()[output.node.index()];
        stores[output.node.index()] += u32::from(matches!(node.kind, Kind::Cast(_)) && node.dtype == output.dtype);
    }
    graph.uses().iter().zip(&stores).map(|(uses, stores)| *stores > 0 && uses == stores).collect()
}

fn statement(text: &mut String, graph: &Graph, node: &Node, function: (Uses, Need), stored: bool) -> std::fmt::Result {
    let v = |id: NodeId| id.index();
    let floating = node.dtype.is_float();
    match node.kind {
        Kind::Input(slot) => write!(text, "x{slot}"),
        Kind::Scalar(slot) => write!(text, "s.a{slot}"),
        Kind::Constant(_) => constant(text, node),
        Kind::Place => write!(text, "at.place"),
        Kind::Coordinate(dimension) => write!(text, "at.coordinate[{dimension}]"),
        Kind::Unary(op, a) => match arithmetic_name(op) {
            Some(name) => write!(text, "{name}(v{})", v(a)),
            None => write!(text, "{}(v{})", unary_function(graph, op, a, function), v(a)),
        },
        Kind::Binary(op, [a, b]) => match (op, floating) {
            (Binary::Add, true) => write!(text, "v{} + v{}", v(a), v(b)),
            (Binary::Sub, true) => write!(text, "v{} - v{}", v(a), v(b)),
            (Binary::Mul, true) => write!(text, "v{} * v{}", v(a), v(b)),
            (Binary::Div, _) => write!(text, "{}(v{}, v{})", Function(function, "divide"), v(a), v(b)),
            (Binary::Atan2, _) | (Binary::Pow, true) => {
                write!(text, "{}(v{}, v{})", Function(function, op.name()), v(a), v(b))
            }
            _ => write!(text, "{}(v{}, v{})", binary_name(op), v(a), v(b)),
        },
        Kind::Compare(op, [a, b]) if is_order(op) && (has_known_sign(graph, a) || has_known_sign(graph, b)) => {
            write!(text, "is_ordered(v{}, v{}) && v{} {} v{}", v(a), v(b), v(a), op.name(), v(b))
        }
        Kind::Compare(op, [a, b]) => write!(text, "v{} {} v{}", v(a), op.name(), v(b)),
        Kind::Fma([a, b, c]) => write!(text, "fused_multiply_add(v{}, v{}, v{})", v(a), v(b), v(c)),
        Kind::Select([condition, a, b]) if node.dtype.is_int() && node.dtype.is_signed() => {
            write!(text, "selected(v{}, v{}, v{})", v(condition), v(a), v(b))
        }
        Kind::Select([condition, a, b]) => write!(text, "v{} ? v{} : v{}", v(condition), v(a), v(b)),
        Kind::Cast(a) => cast(text, node.dtype, graph.nodes()[a.index()].dtype.carrier(), v(a), stored),
    }
}

/// Whether the comparison is an order, which is false for NaN.
fn is_order(op: Comparison) -> bool {
    matches!(op, Comparison::Less | Comparison::LessEqual | Comparison::Greater | Comparison::GreaterEqual)
}

/// Whether the compiler may know the sign of a value that the device computes in f32. If it does, it ignores that comparisons with
/// NaN are false.
fn has_known_sign(graph: &Graph, id: NodeId) -> bool {
    let node = &graph.nodes()[id.index()];
    let is_known = |id: NodeId| has_known_sign(graph, id);
    node.dtype.carrier() == DType::F32
        && match node.kind {
            Kind::Unary(Unary::Abs, _) => true,
            Kind::Unary(Unary::Neg, a) | Kind::Cast(a) => is_known(a),
            Kind::Binary(Binary::Min | Binary::Max | Binary::Fmin | Binary::Fmax, [a, b]) | Kind::Select([_, a, b]) => {
                is_known(a) || is_known(b)
            }
            _ => false,
        }
}

/// The function for an operation with one operand. Logarithms of values with few digits need no special treatment near 1. The
/// smallest f16 values aren't small in f32, so neither their logarithms nor their roots need special treatment of subnormals.
fn unary_function(graph: &Graph, op: Unary, operand: NodeId, (uses, need): (Uses, Need)) -> Function {
    let coarse = match op {
        Unary::Log => "coarse_log",
        Unary::Log2 => "coarse_log2",
        Unary::Log10 => "coarse_log10",
        Unary::Rsqrt => "coarse_rsqrt",
        _ => return Function((uses, need), op.name()),
    };
    match (uses, source(graph, operand), need) {
        (Uses::Narrow, DType::Bf16, Need::Bf16) => Function((uses, Need::Bf16), coarse),
        (Uses::Narrow, DType::F16 | DType::F8E4M3 | DType::F8E5M2, Need::Bf16 | Need::F16) => {
            Function((uses, Need::F16), coarse)
        }
        _ => Function((uses, need), op.name()),
    }
}

/// The original type of an input or scalar, ignoring widening casts; for other values, the carrier of their type.
fn source(graph: &Graph, id: NodeId) -> DType {
    let node = &graph.nodes()[id.index()];
    match node.kind {
        Kind::Cast(a) if node.dtype == DType::F32 && graph.nodes()[a.index()].dtype.carrier() == DType::F32 => {
            source(graph, a)
        }
        Kind::Input(_) | Kind::Scalar(_) => node.dtype,
        _ => node.dtype.carrier(),
    }
}

/// A function's qualified name: `narrow::exp<BF16>`.
struct Function((Uses, Need), &'static str);

impl std::fmt::Display for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self((uses, need), name) = self;
        match (uses, need) {
            (Uses::Narrow, Need::Bf16) => write!(f, "narrow::{name}<BF16>"),
            (Uses::Narrow, Need::F16) => write!(f, "narrow::{name}<F16>"),
            (Uses::Narrow, Need::Wide | Need::Full) => write!(f, "narrow::{name}<FAST>"),
            _ => write!(f, "full::{name}"),
        }
    }
}

/// The name in arithmetic.h of an operation with one operand; `None` for functions.
fn arithmetic_name(op: Unary) -> Option<&'static str> {
    Some(match op {
        Unary::Neg => "negative",
        Unary::Not => "complement",
        Unary::Abs => "absolute",
        Unary::Sign => "signum",
        Unary::Floor => "floor_of",
        Unary::Ceil => "ceil_of",
        Unary::Round => "round_of",
        Unary::Trunc => "trunc_of",
        Unary::Relu => "rectified",
        _ => return None,
    })
}

/// The name in arithmetic.h of an operation with two operands.
const fn binary_name(op: Binary) -> &'static str {
    match op {
        Binary::Add => "add",
        Binary::Sub => "sub",
        Binary::Mul => "mul",
        Binary::Div => "divide",
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
        Binary::Pow => "power",
        Binary::Atan2 => "atan2",
    }
}

/// Writes a constant in its carrier, by its bits.
fn constant(text: &mut String, node: &Node) -> std::fmt::Result {
    let value = node.constant().unwrap_or(Value::Int(0));
    match (node.dtype.carrier(), value) {
        (DType::Bool, value) => write!(text, "{}", value.as_bool()),
        (DType::F64, value) => write!(text, "as_double(0x{:x}ull)", DType::F64.encode(value)),
        (DType::F32, value) => write!(text, "as_float(0x{:x}u)", DType::F32.encode(value)),
        (dtype, value) => write!(text, "{}(0x{:x}ull)", dtype.name(), dtype.encode(value)),
    }
}

/// Writes the conversion to `to` of a value whose carrier is `from`.
fn cast(text: &mut String, to: DType, from: DType, a: usize, stored: bool) -> std::fmt::Result {
    match (to.category(), to) {
        (Category::Bool, _) if from == DType::Bool => write!(text, "v{a}"),
        (Category::Bool, _) => write!(text, "truth(v{a})"),
        // The same type, or a narrower float to f32, which is its carrier.
        _ if from == to => write!(text, "v{a}"),
        (Category::Int, _) | (_, DType::F32 | DType::F64) => write!(text, "converted<{}>(v{a})", carrier_type(to)),
        // Rounding to odd here makes the final rounding in the store correct.
        _ if stored => write!(text, "odd_float(v{a})"),
        _ => write!(text, "rounded<{}>(odd_float(v{a}))", memory_type(to)),
    }
}
