//! One expression per operation and type: the inputs for checking bodies without a GPU.

use std::fmt::Write;

use plimsoll_expr::op::{Binary, Comparison, Unary};
use plimsoll_expr::{Builder, DType, ExprError, Graph, Names, NodeId, parse};

use super::{Tier, emit};

/// An expression of one operation.
#[derive(Clone, Debug)]
pub struct Entry {
    /// A unique identifier: `accurate_exp_bf16`.
    pub name: String,
    /// The expression.
    pub graph: Graph,
    /// Accuracy of functions.
    pub tier: Tier,
}

/// Every operation in every type that it accepts; operations on f32 in both tiers.
#[must_use]
pub fn every_operation() -> Vec<Entry> {
    let mut entries = Vec::new();
    for dtype in DType::ALL {
        let same = |entries: &mut Vec<Entry>, name: String, operands: usize, build: &Build<'_>| {
            let plain = entry_name("accurate", &name, dtype);
            entries.extend(entry(plain, &vec![dtype; operands], Tier::Accurate, build));
            if dtype == DType::F32 {
                entries.extend(entry(entry_name("fast", &name, dtype), &vec![dtype; operands], Tier::Fast, build));
            }
        };
        for &op in Unary::ALL {
            same(&mut entries, format!("{op:?}"), 1, &|builder, v| builder.unary(op, v[0]));
        }
        for &op in Binary::ALL {
            same(&mut entries, format!("{op:?}"), 2, &|builder, v| builder.binary(op, v[0], v[1]));
        }
        for &op in Comparison::ALL {
            same(&mut entries, format!("{op:?}"), 2, &|builder, v| builder.compare(op, v[0], v[1]));
        }
        same(&mut entries, "fma".to_owned(), 3, &|builder, v| builder.fma(v[0], v[1], v[2]));
        let select: &Build<'_> = &|builder, v| builder.select(v[0], v[1], v[2]);
        let name = entry_name("accurate", "select", dtype);
        entries.extend(entry(name, &[DType::Bool, dtype, dtype], Tier::Accurate, select));
        for to in DType::ALL {
            let cast: &Build<'_> = &|builder, v| builder.cast(v[0], to);
            let name = entry_name("accurate", &format!("to_{to}"), dtype);
            entries.extend(entry(name, &[dtype], Tier::Accurate, cast));
        }
    }
    entries
}

/// Ways to write the absolute value of an integer `x`, each in an expression that is wrong if the compiler assumes it to be
/// nonnegative: the least integer is its own absolute value. NVIDIA's compiler makes this assumption if it recognises the pattern.
pub const INTEGER_IDIOMS: [&str; 12] = [
    "y: i64 = abs(x)",
    "y: f32 = abs(f32(abs(x)))",
    "y = abs(x) < 0",
    "y: u64 = abs(x)",
    "y: i64 = select(x < 0, -x, x)",
    "y: f32 = abs(f32(select(x > 0, x, 0 - x)))",
    "y: i64 = select(x < 0, x*-1, x)",
    "let s = x >> 63\nlet m = select(x < 0, x*0 - 1, 0)\ny: i64 = (x ^ m) - m\nz: i64 = (x ^ s) - s",
    "let s = select(x < 0, x | -1, 0)\ny: i64 = (x + s) ^ s",
    "y: i64 = max(x, -x)\nz = max(x, -x) < 0",
    "y: i64 = x*sign(x)\nz = x*sign(x) < 0",
    "y: f32 = sqrt(abs(f32(-abs(-x))))",
];

/// Comparisons of the minimum or maximum of small integers with one of its operands, 0, whose value only the last stage of NVIDIA's
/// compiler sees. That stage fuses the comparison with a packed maximum wrongly.
pub const SMALL_EXTREMES: [&str; 6] = [
    "let m = max(x, x - x)\ny = select(m == 0, 5, m)",
    "let m = min(x, x - x)\ny = select(m == 0, 5, m)",
    "let m = max(x*0, x)\ny: f32 = select(f32(m) == 0, 0.5, f32(m))",
    "let m = f32(min(x, x - x))\ny: f32 = select(m != 0, m, 0.5)",
    "let m = min(max(x, x - x), 9)\ny = select(m == 0, 5, m)",
    "let m = select(x > x - x, x, x - x)\ny = select(m == 0, 5, m)",
];

/// Comparisons of a float of known sign, derived from `x`; they are false for NaN. NVIDIA's compiler assumes those in
/// f32 to be true.
pub const FLOAT_ORDERS: [&str; 6] = [
    "y = abs(x) >= -1.5",
    "y = abs(x) >= 0",
    "y = -2 < abs(x)",
    "y = -abs(x) <= 1",
    "y = min(abs(x), 3) > -1",
    "y = f32(abs(-x)) >= -0.25",
];

/// Each of [`FLOAT_ORDERS`] in every type that is computed in f32.
#[must_use]
pub fn float_orders() -> Vec<Entry> {
    in_types("order", &FLOAT_ORDERS, &[DType::F32, DType::F16, DType::Bf16])
}

/// Each of [`INTEGER_IDIOMS`] in every signed type.
#[must_use]
pub fn integer_idioms() -> Vec<Entry> {
    in_types("idiom", &INTEGER_IDIOMS, &[DType::I8, DType::I16, DType::I32, DType::I64])
}

/// Each of [`SMALL_EXTREMES`] in every type of 8 and 16 bits.
#[must_use]
pub fn small_extremes() -> Vec<Entry> {
    in_types("extreme", &SMALL_EXTREMES, &[DType::I8, DType::U8, DType::I16, DType::U16])
}

/// An entry for each text of an expression of `x` in each type.
fn in_types(prefix: &str, texts: &[&str], dtypes: &[DType]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for dtype in dtypes {
        for (place, text) in texts.iter().enumerate() {
            let graph = parse(&format!("in x: {dtype}\n{text}"), &Names::default());
            let name = format!("{prefix}{place}_{dtype}");
            entries.extend(graph.ok().map(|graph| Entry { name, graph, tier: Tier::Accurate }));
        }
    }
    entries
}

type Build<'b> = dyn Fn(&mut Builder, &[NodeId]) -> Result<NodeId, ExprError> + 'b;

fn entry_name(tier: &str, operation: &str, dtype: DType) -> String {
    format!("{tier}_{}_{dtype}", operation.to_lowercase())
}

/// Builds an entry; `None` if the operation rejects the types.
fn entry(name: String, operands: &[DType], tier: Tier, build: &Build<'_>) -> Option<Entry> {
    let build_graph = || -> Result<Graph, ExprError> {
        let mut builder = Builder::new();
        let mut values = Vec::new();
        for (place, dtype) in operands.iter().enumerate() {
            values.push(builder.input(&format!("x{place}"), *dtype)?);
        }
        let value = build(&mut builder, &values)?;
        builder.output("y", value, None)?;
        builder.finish()
    };
    build_graph().ok().map(|graph| Entry { name, graph, tier })
}

/// Generates a unit with one kernel per entry, of the entry's name. Each thread computes one element. The unit includes
/// [`super::HEADERS`] and [`crate::kernel::HEADERS`].
#[must_use]
pub fn unit(entries: &[Entry]) -> String {
    let mut text = String::from("#include \"primitives.h\"\n");
    for entry in entries {
        // Writing to a String can't fail.
        let _ = write_kernel(&mut text, entry);
    }
    text
}

/// The macros that a body defines.
pub const MACROS: [&str; 12] = [
    "INPUTS",
    "OUTPUTS",
    "SCALARS",
    "NEEDS_PLACE",
    "NEEDS_COORDINATES",
    "EACH_INPUT",
    "EACH_OUTPUT",
    "BODY_CALL",
    "BODY_BEGIN",
    "BODY_EACH",
    "BODY_CHECK",
    "BODY_END",
];

fn write_kernel(text: &mut String, entry: &Entry) -> std::fmt::Result {
    let Entry { name, graph, tier } = entry;
    for defined in MACROS {
        writeln!(text, "#undef {defined}")?;
    }
    writeln!(text, "namespace of_{name} {{")?;
    for line in emit(graph, *tier).lines().filter(|line| !line.starts_with("#include")) {
        writeln!(text, "{line}")?;
    }
    write!(text, "extern \"C\" __global__ void {name}(const u64* words")?;
    for slot in 0..graph.inputs().len() {
        write!(text, ", const in{slot}_t* p{slot}")?;
    }
    for slot in 0..graph.outputs().len() {
        write!(text, ", out{slot}_t* q{slot}")?;
    }
    writeln!(text, ") {{\n    const u32 i = threadIdx.x;\n    At at;\n    at.place = i;")?;
    for slot in 0..graph.inputs().len() {
        writeln!(text, "    in{slot}_c x{slot}[1] = {{to_carrier(p{slot}[i])}};")?;
    }
    for slot in 0..graph.outputs().len() {
        writeln!(text, "    out{slot}_c y{slot}[1];")?;
    }
    writeln!(
        text,
        "    const Scalars s = scalars(words);\n    BODY_BEGIN\n    BODY_EACH(s, at, 0);\n    BODY_END(s, 1)"
    )?;
    for slot in 0..graph.outputs().len() {
        writeln!(text, "    q{slot}[i] = to_memory<out{slot}_t>(y{slot}[0]);")?;
    }
    writeln!(text, "}}\n}}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn entry_names_are_unique() {
        let entries = every_operation();
        let names: BTreeSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names.len(), entries.len());
        assert!(names.contains("accurate_exp_bf16") && names.contains("fast_tanh_f32"));
        assert!(!names.contains("accurate_and_f32"));
        assert_eq!(integer_idioms().len(), 4 * INTEGER_IDIOMS.len());
        assert_eq!(float_orders().len(), 3 * FLOAT_ORDERS.len());
        assert_eq!(small_extremes().len(), 4 * SMALL_EXTREMES.len());
    }
}
