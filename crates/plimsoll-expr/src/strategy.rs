//! proptest strategies: typed expressions, values with the awkward ones among them, shapes and layouts. For the tests of
//! this crate and of those that plan, generate and run expressions (feature `proptest`).

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::dtype::DType;
use crate::graph::{Builder, ExprError, Graph, NodeId};
use crate::layout::Layout;
use crate::op::{Binary, Comparison, Unary};
use crate::value::Value;

/// Which operations expressions are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operations {
    /// All of them.
    All,
    /// Those whose result is defined to the last bit in the carrier, so that every backend must agree with
    /// [`crate::oracle::Precision::Carried`]: arithmetic, floored division, powers of integers, fma, square root, rounding, comparison,
    /// selection, bits and casts.
    Exact,
}

/// What expressions to generate.
#[derive(Clone, Debug)]
pub struct Expressions {
    /// Types of inputs, scalars and casts; not empty.
    pub dtypes: Vec<DType>,
    /// Operations.
    pub operations: Operations,
    /// Most operations, dead ones included.
    pub most: usize,
    /// Whether values may depend on their element's place.
    pub place: bool,
}

impl Default for Expressions {
    /// All types and operations, up to 24 of them.
    fn default() -> Self {
        Self { dtypes: DType::ALL.to_vec(), operations: Operations::All, most: 24, place: true }
    }
}

/// One step of a random expression: what to do, and to which of the values so far.
#[derive(Clone, Copy, Debug)]
struct Step {
    operation: u16,
    operands: [u16; 3],
    dtype: DType,
}

/// Random expressions of one to four inputs, up to two scalars and up to three outputs, some in place. Steps that types forbid are
/// left out, so every expression is valid. Shrinks to fewer steps, earlier operations and operands.
pub fn graphs(of: &Expressions) -> impl Strategy<Value = Graph> + use<> {
    let dtype = select(of.dtypes.clone());
    let step = (any::<u16>(), any::<[u16; 3]>(), dtype.clone());
    let step = step.prop_map(|(operation, operands, dtype)| Step { operation, operands, dtype });
    let (operations, place) = (of.operations, of.place);
    (vec(dtype.clone(), 1..=4), vec(dtype, 0..=2), vec(step, 0..=of.most), vec((any::<bool>(), any::<u16>()), 1..=3))
        .prop_filter_map("an expression within its limits", move |(inputs, scalars, steps, outputs)| {
            build(&inputs, &scalars, &steps, &outputs, operations, place).ok()
        })
}

fn build(
    inputs: &[DType],
    scalars: &[DType],
    steps: &[Step],
    outputs: &[(bool, u16)],
    operations: Operations,
    place: bool,
) -> Result<Graph, ExprError> {
    let mut builder = Builder::new();
    let mut values = Vec::new();
    for (i, &dtype) in inputs.iter().enumerate() {
        values.push(builder.input(&format!("x{i}"), dtype)?);
    }
    for (i, &dtype) in scalars.iter().enumerate() {
        values.push(builder.scalar(&format!("a{i}"), dtype)?);
    }
    for step in steps {
        let operands = step.operands.map(|pick| pick_from(&values, pick));
        // What types forbid is left out.
        if let Ok(value) = apply(&mut builder, step, operands, operations, place) {
            values.push(value);
        }
    }
    for (i, &(in_place, pick)) in outputs.iter().enumerate() {
        let value = values[values.len() - 1 - i.min(values.len() - 1)];
        let slot = usize::from(pick) % inputs.len();
        if !in_place || builder.output_in_place(slot as u32, value).is_err() {
            let dtype = (pick % 3 == 0).then_some(inputs[slot]);
            builder.output(&format!("y{i}"), value, dtype)?;
        }
    }
    builder.finish()
}

/// Every other pick is one of the last three values, so that expressions grow deep.
fn pick_from(values: &[NodeId], pick: u16) -> NodeId {
    let recent = if pick.is_multiple_of(2) { values.len().min(3) } else { values.len() };
    values[values.len() - 1 - usize::from(pick / 2) % recent]
}

/// Operations of one and two operands that are exact.
fn is_exact(unary: Unary) -> bool {
    use Unary::{Abs, Ceil, Floor, Neg, Not, Recip, Relu, Round, Sign, Sqrt, Trunc};
    matches!(unary, Neg | Not | Abs | Sign | Floor | Ceil | Round | Trunc | Sqrt | Recip | Relu)
}

fn apply(
    builder: &mut Builder,
    step: &Step,
    [a, b, c]: [NodeId; 3],
    operations: Operations,
    place: bool,
) -> Result<NodeId, ExprError> {
    let all = operations == Operations::All;
    let unary: Vec<Unary> = Unary::ALL.iter().copied().filter(|&op| all || is_exact(op)).collect();
    // Powers of integers are exact.
    let integers = [a, b].into_iter().all(|id| builder.node(id).is_ok_and(|node| node.dtype.is_int()));
    let is_inexact = |op: Binary| op == Binary::Atan2 || (op == Binary::Pow && !integers);
    let binary: Vec<Binary> = Binary::ALL.iter().copied().filter(|op| all || !is_inexact(*op)).collect();
    // Simple things first: shrinking goes there.
    let choice = usize::from(step.operation / 16);
    match step.operation % 16 {
        0..=5 => builder.binary(binary[choice % binary.len()], a, b),
        6..=8 => builder.unary(unary[choice % unary.len()], a),
        9 => builder.fma(a, b, c),
        10 => builder.compare(Comparison::ALL[choice % Comparison::ALL.len()], a, b),
        11 => builder.select(a, b, c),
        12 => builder.cast(a, step.dtype),
        13 if choice.is_multiple_of(2) => builder.typed(constant(step.operands[0], step.dtype), step.dtype),
        13 => builder.literal(constant(step.operands[0], step.dtype)),
        14 if place && choice.is_multiple_of(4) => builder.place(),
        14 if place && choice.is_multiple_of(5) => builder.coordinate(0),
        14 => builder.clamp(a, b, c),
        _ => {
            let zero = builder.literal(Value::Int(0))?;
            let condition = builder.compare(Comparison::Greater, a, zero)?;
            builder.select(condition, b, c)
        }
    }
}

/// A constant of the type's kind: powers of two, small numbers, thirds, and what isn't finite.
fn constant(seed: u16, dtype: DType) -> Value {
    let small = i128::from(seed % 64) - 31;
    match dtype.range() {
        Some((low, high)) if dtype.is_int() => Value::Int(small.clamp(low, high)),
        Some(_) => Value::Bool(seed % 2 == 1),
        None => Value::Float(match seed % 11 {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => -0.0,
            3..=5 => small as f64 / 3.0,
            6 => libm::ldexp(1.0, small as i32),
            _ => small as f64,
        }),
    }
}

/// Values of a type: any bits, small numbers, and those where functions go wrong.
pub fn values(dtype: DType) -> BoxedStrategy<Value> {
    let bits = any::<u64>().prop_map(move |bits| dtype.decode(bits));
    let near = (-64_i32..64).prop_map(move |i| dtype.cast(Value::Float(f64::from(i) / 8.0)));
    let edges = match dtype.range() {
        Some((low, high)) => [low, low + 1, 0, 1, high - 1, high].map(|i| dtype.cast(Value::Int(i))).to_vec(),
        None => {
            let ones = u64::MAX >> (64 - 8 * dtype.bytes());
            // The smallest subnormal, the largest finite number or NaN, one, zeros, infinities.
            let mut edges: Vec<Value> = [1, ones >> 1, ones].map(|bits| dtype.decode(bits)).to_vec();
            let floats = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
            edges.extend(floats.map(|x| dtype.cast(Value::Float(x))));
            edges
        }
    };
    prop_oneof![2 => bits, 3 => near, 1 => select(edges)].boxed()
}

/// Dividends and divisors. Of floats the quotient is often near a whole number of any size, also of more digits than the type has.
pub fn divisions(dtype: DType) -> BoxedStrategy<[Value; 2]> {
    let pair = [values(dtype), values(dtype)];
    if !dtype.is_float() {
        return pair.boxed();
    }
    // Divisors of few digits make products that aren't rounded.
    let divisor = (any::<u64>(), 0..8 * dtype.bytes() as u32).prop_map(|(bits, short)| bits >> short << short);
    let near = (divisor, any::<i64>(), 0..63_u32, -2_i64..=2).prop_map(move |(divisor, whole, short, steps)| {
        let divisor = dtype.decode(divisor);
        let dividend = dtype.encode(Value::Float(divisor.as_f64() * (whole >> short) as f64));
        [dtype.decode(dividend.wrapping_add_signed(steps)), divisor]
    });
    prop_oneof![1 => pair, 3 => near].boxed()
}

/// Shapes of up to five dimensions and at most some thousand elements, now and then none.
pub fn shapes() -> impl Strategy<Value = Vec<u64>> {
    let extent = prop_oneof![12 => 1_u64..=5, 1 => Just(0_u64)];
    vec(extent, 0..=5)
}

/// Layouts of inputs that go with `shape`: contiguous, in another order, padded, with gaps, backwards, offset, and
/// broadcast along some dimensions. Small enough to be backed by memory: [`Layout::span`] says how much.
pub fn layouts(shape: &[u64]) -> impl Strategy<Value = Layout> + use<> {
    let shape = shape.to_vec();
    let rank = shape.len();
    let dimension = (0..10_u8, 0..6_u8, any::<u8>());
    (vec(dimension, rank), 0..4_u64, any::<bool>()).prop_filter_map("in range", move |(how, offset, plain)| {
        if plain {
            return Layout::contiguous(&shape).and_then(|layout| layout.offset_by(offset)).ok();
        }
        let mut order: Vec<usize> = (0..rank).collect();
        order.sort_by_key(|&dimension| std::cmp::Reverse(how[dimension].2 / 128));
        let mut extents = shape.clone();
        let mut strides = vec![0_i64; rank];
        let (mut next, mut start) = (1_i64, offset);
        for &dimension in order.iter().rev() {
            let (broadcast, padding, _) = how[dimension];
            if broadcast < 2 {
                extents[dimension] = 1;
            }
            let extent = i64::try_from(extents[dimension]).ok()?.max(1);
            let stride = next + i64::from(padding.saturating_sub(4));
            next = stride * extent;
            strides[dimension] = stride;
            if broadcast == 9 {
                strides[dimension] = -stride;
                start += u64::try_from(stride * (extent - 1)).ok()?;
            }
        }
        Layout::strided(&extents, &strides, start).ok()
    })
}
