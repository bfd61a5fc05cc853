//! Random expressions, values, shapes and layouts from a seeded [`Rng`], for programs that compare a device with the oracle.
//! The same seed gives the same results on every machine. The feature `proptest` adds the module `strategy`, which generates the
//! same things with proptest, so that failing tests shrink.

use plimsoll_core::stats::Rng;

use crate::dtype::DType;
use crate::graph::{Builder, ExprError, Graph, NodeId};
use crate::layout::Layout;
use crate::op::{Binary, Comparison, Unary};
use crate::value::Value;

/// The operations that random expressions use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operations {
    /// All of them.
    All,
    /// Operations whose result is defined to the last bit in the carrier, so that every backend must agree with
    /// [`crate::oracle::Precision::Carried`]: arithmetic, floored division, powers of integers, fma, square root, rounding,
    /// comparison, selection, bits and casts.
    Exact,
}

/// Settings for random expressions.
#[derive(Clone, Debug)]
pub struct Expressions {
    /// Types of inputs, scalars and casts; must not be empty.
    pub dtypes: Vec<DType>,
    /// The operations to use.
    pub operations: Operations,
    /// The most operations, including dead ones.
    pub max_operations: usize,
    /// Whether values may depend on their element's index or coordinates.
    pub place: bool,
}

impl Default for Expressions {
    /// All types, and up to 24 operations of every kind.
    fn default() -> Self {
        Self { dtypes: DType::ALL.to_vec(), operations: Operations::All, max_operations: 24, place: true }
    }
}

/// The most inputs, scalars and outputs of an expression.
pub(crate) const INPUTS: usize = 4;
pub(crate) const SCALARS: usize = 2;
pub(crate) const OUTPUTS: usize = 3;
/// The most dimensions of a shape, and the largest extent.
pub(crate) const DIMENSIONS: usize = 5;
pub(crate) const EXTENT: u64 = 5;
/// Offsets of layouts are below this.
pub(crate) const OFFSETS: u64 = 4;
/// The number of nonzero extents per zero extent, on average.
pub(crate) const EXTENTS_PER_ZERO: u32 = 12;
/// Relative frequency of values with arbitrary bits, small numbers and edge cases.
pub(crate) const BITS_WEIGHT: u32 = 2;
pub(crate) const SMALL_WEIGHT: u32 = 3;
pub(crate) const EDGE_WEIGHT: u32 = 1;
/// Small numbers, in eighths, are at least −`SMALL` and below `SMALL`.
pub(crate) const SMALL: i32 = 64;
/// The number of draws after which generation gives up.
const ATTEMPTS: usize = 64;

/// One step of a random expression: an operation and its operands among the values so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) operation: u16,
    pub(crate) operands: [u16; 3],
    pub(crate) dtype: DType,
}

/// The random draws that define an expression.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// One to [`INPUTS`] types.
    pub(crate) inputs: Vec<DType>,
    /// At most [`SCALARS`] types.
    pub(crate) scalars: Vec<DType>,
    pub(crate) steps: Vec<Step>,
    /// One to [`OUTPUTS`] outputs: whether each is in place, and a number that selects its input and its type.
    pub(crate) outputs: Vec<(bool, u16)>,
}

/// A random expression of one to four inputs, up to two scalars and up to three outputs, some in place. Steps that are invalid
/// for their types are left out, so every expression is valid. `None` if `settings` has no types, or if too many draws exceeded
/// the limits of expressions.
pub fn graph(settings: &Expressions, rng: &mut Rng) -> Option<Graph> {
    (0..ATTEMPTS).find_map(|_| draw_parts(settings, rng)?.build(settings.operations, settings.place).ok())
}

/// A value of a type: arbitrary bits, a small number, or an edge case where functions often fail.
pub fn value(dtype: DType, rng: &mut Rng) -> Value {
    let weight = rng.below((BITS_WEIGHT + SMALL_WEIGHT + EDGE_WEIGHT).into()) as u32;
    if weight < BITS_WEIGHT {
        dtype.decode(rng.next_u64())
    } else if weight < BITS_WEIGHT + SMALL_WEIGHT {
        small_value(dtype, rng.below(2 * SMALL as u64) as i32 - SMALL)
    } else {
        let edges = edge_values(dtype);
        edges[rng.below(edges.len() as u64) as usize]
    }
}

/// A shape of up to five dimensions and at most a few thousand elements, sometimes none.
pub fn shape(rng: &mut Rng) -> Vec<u64> {
    let rank = rng.below(DIMENSIONS as u64 + 1);
    let extent = |_| if rng.below(1 + u64::from(EXTENTS_PER_ZERO)) == 0 { 0 } else { 1 + rng.below(EXTENT) };
    (0..rank).map(extent).collect()
}

/// A layout of an input that can be broadcast to `shape`: contiguous, permuted, padded, with gaps, reversed, offset, or broadcast
/// along some dimensions. It is small enough to allocate: [`Layout::span`] gives the extent. `None` if too many draws gave no
/// valid layout.
pub fn layout(shape: &[u64], rng: &mut Rng) -> Option<Layout> {
    (0..ATTEMPTS).find_map(|_| {
        let dimension = |_: &u64| Dimension {
            form: rng.below(Dimension::FORMS.into()) as u8,
            padding: rng.below(Dimension::PADDINGS.into()) as u8,
            order: rng.next_u64() as u8,
        };
        let dimensions: Vec<Dimension> = shape.iter().map(dimension).collect();
        build_layout(shape, &dimensions, rng.below(OFFSETS), rng.below(2) == 0)
    })
}

fn draw_parts(settings: &Expressions, rng: &mut Rng) -> Option<Parts> {
    let dtype = |rng: &mut Rng| settings.dtypes.get(rng.below(settings.dtypes.len() as u64) as usize).copied();
    let bits = |rng: &mut Rng| rng.next_u64() as u16;
    let count = |least: usize, most: usize, rng: &mut Rng| least + rng.below((most - least) as u64 + 1) as usize;
    let inputs = (0..count(1, INPUTS, rng)).map(|_| dtype(rng)).collect::<Option<_>>()?;
    let scalars = (0..count(0, SCALARS, rng)).map(|_| dtype(rng)).collect::<Option<_>>()?;
    let step = |rng: &mut Rng| {
        Some(Step { operation: bits(rng), operands: [bits(rng), bits(rng), bits(rng)], dtype: dtype(rng)? })
    };
    let steps = (0..count(0, settings.max_operations, rng)).map(|_| step(rng)).collect::<Option<_>>()?;
    let outputs = (0..count(1, OUTPUTS, rng)).map(|_| (rng.below(2) == 0, bits(rng))).collect();
    Some(Parts { inputs, scalars, steps, outputs })
}

impl Parts {
    /// Builds the expression from the draws.
    pub(crate) fn build(&self, operations: Operations, place: bool) -> Result<Graph, ExprError> {
        let mut builder = Builder::new();
        let mut values = Vec::new();
        for (i, &dtype) in self.inputs.iter().enumerate() {
            values.push(builder.input(&format!("x{i}"), dtype)?);
        }
        for (i, &dtype) in self.scalars.iter().enumerate() {
            values.push(builder.scalar(&format!("a{i}"), dtype)?);
        }
        for step in &self.steps {
            let operands = step.operands.map(|pick| pick_from(&values, pick));
            // Steps that are invalid for their types are left out.
            if let Ok(value) = apply(&mut builder, step, operands, operations, place) {
                values.push(value);
            }
        }
        for (i, &(in_place, pick)) in self.outputs.iter().enumerate() {
            let value = values[values.len() - 1 - i.min(values.len() - 1)];
            let slot = usize::from(pick) % self.inputs.len();
            if !in_place || builder.output_in_place(slot as u32, value).is_err() {
                let dtype = (pick % 3 == 0).then_some(self.inputs[slot]);
                builder.output(&format!("y{i}"), value, dtype)?;
            }
        }
        builder.finish()
    }
}

/// Every second pick is one of the last three values, so that expressions grow deep.
fn pick_from(values: &[NodeId], pick: u16) -> NodeId {
    let recent = if pick.is_multiple_of(2) { values.len().min(3) } else { values.len() };
    values[values.len() - 1 - usize::from(pick / 2) % recent]
}

/// Whether an operation of one operand is exact.
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
    // Simple operations come first, as shrinking moves towards them.
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

/// A constant of the type's kind: powers of two, small numbers, thirds, infinity and NaN.
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

/// A small number in eighths.
pub(crate) fn small_value(dtype: DType, eighths: i32) -> Value {
    dtype.cast(Value::Float(f64::from(eighths) / 8.0))
}

/// Edge cases where functions often fail; never empty.
pub(crate) fn edge_values(dtype: DType) -> Vec<Value> {
    match dtype.range() {
        Some((low, high)) => [low, low + 1, 0, 1, high - 1, high].map(|i| dtype.cast(Value::Int(i))).to_vec(),
        None => {
            let ones = u64::MAX >> (64 - 8 * dtype.bytes());
            // The smallest subnormal, the largest finite number or NaN, one, zeros, infinities.
            let mut edges: Vec<Value> = [1, ones >> 1, ones].map(|bits| dtype.decode(bits)).to_vec();
            let floats = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
            edges.extend(floats.map(|x| dtype.cast(Value::Float(x))));
            edges
        }
    }
}

/// The random draws for one dimension of a layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dimension {
    /// Below [`Dimension::FORMS`]: two of ten are broadcast, one is reversed.
    pub(crate) form: u8,
    /// Below [`Dimension::PADDINGS`]: one of six has a gap.
    pub(crate) padding: u8,
    /// Dimensions with a value in the upper half come first in memory.
    pub(crate) order: u8,
}

impl Dimension {
    pub(crate) const FORMS: u8 = 10;
    pub(crate) const PADDINGS: u8 = 6;
}

/// Builds a layout from the draws, one per dimension of `shape`; `None` if there is no such layout.
pub(crate) fn build_layout(shape: &[u64], dimensions: &[Dimension], offset: u64, is_plain: bool) -> Option<Layout> {
    if is_plain {
        return Layout::contiguous(shape).and_then(|layout| layout.offset_by(offset)).ok();
    }
    let mut order: Vec<usize> = (0..shape.len()).collect();
    order.sort_by_key(|&place| std::cmp::Reverse(dimensions[place].order / 128));
    let mut extents = shape.to_vec();
    let mut strides = vec![0_i64; shape.len()];
    let (mut next, mut start) = (1_i64, offset);
    for &place in order.iter().rev() {
        let Dimension { form, padding, .. } = dimensions[place];
        if form < 2 {
            extents[place] = 1;
        }
        let extent = i64::try_from(extents[place]).ok()?.max(1);
        let stride = next + i64::from(padding.saturating_sub(4));
        next = stride * extent;
        strides[place] = stride;
        if form == 9 {
            strides[place] = -stride;
            start += u64::try_from(stride * (extent - 1)).ok()?;
        }
    }
    Layout::strided(&extents, &strides, start).ok()
}
