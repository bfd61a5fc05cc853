//! proptest strategies for typed expressions, values including edge cases, shapes and layouts, for tests of this crate and of
//! crates that plan, generate and run expressions (feature `proptest`). [`crate::random`] generates the same things without
//! proptest.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::dtype::DType;
use crate::graph::Graph;
use crate::layout::Layout;
use crate::random::{
    BITS_WEIGHT, DIMENSIONS, Dimension, EDGE_WEIGHT, EXTENT, EXTENTS_PER_ZERO, INPUTS, OFFSETS, OUTPUTS, Parts,
    SCALARS, SMALL, SMALL_WEIGHT, Step, build_layout, edge_values, small_value,
};
use crate::value::Value;

pub use crate::random::{Expressions, Operations};

/// Random expressions like [`crate::random::graph`]. They shrink to fewer steps, and to earlier operations and operands.
pub fn graphs(settings: &Expressions) -> impl Strategy<Value = Graph> + use<> {
    let dtype = select(settings.dtypes.clone());
    let step = (any::<u16>(), any::<[u16; 3]>(), dtype.clone());
    let step = step.prop_map(|(operation, operands, dtype)| Step { operation, operands, dtype });
    let (operations, place) = (settings.operations, settings.place);
    let (inputs, scalars) = (vec(dtype.clone(), 1..=INPUTS), vec(dtype, 0..=SCALARS));
    let outputs = vec((any::<bool>(), any::<u16>()), 1..=OUTPUTS);
    (inputs, scalars, vec(step, 0..=settings.max_operations), outputs).prop_filter_map(
        "an expression within its limits",
        move |(inputs, scalars, steps, outputs)| {
            Parts { inputs, scalars, steps, outputs }.build(operations, place).ok()
        },
    )
}

/// Values of a type: arbitrary bits, small numbers, and edge cases where functions often fail.
pub fn values(dtype: DType) -> BoxedStrategy<Value> {
    let bits = any::<u64>().prop_map(move |bits| dtype.decode(bits));
    let small = (-SMALL..SMALL).prop_map(move |eighths| small_value(dtype, eighths));
    let edges = select(edge_values(dtype));
    prop_oneof![BITS_WEIGHT => bits, SMALL_WEIGHT => small, EDGE_WEIGHT => edges].boxed()
}

/// Dividends and divisors. For floats the quotient is often near an integer of any size, also one with more digits than the type.
pub fn divisions(dtype: DType) -> BoxedStrategy<[Value; 2]> {
    let pair = [values(dtype), values(dtype)];
    if !dtype.is_float() {
        return pair.boxed();
    }
    // Divisors with few digits give products that aren't rounded.
    let divisor = (any::<u64>(), 0..8 * dtype.bytes() as u32).prop_map(|(bits, short)| bits >> short << short);
    let near = (divisor, any::<i64>(), 0..63_u32, -2_i64..=2).prop_map(move |(divisor, whole, short, steps)| {
        let divisor = dtype.decode(divisor);
        let dividend = dtype.encode(Value::Float(divisor.as_f64() * (whole >> short) as f64));
        [dtype.decode(dividend.wrapping_add_signed(steps)), divisor]
    });
    prop_oneof![1 => pair, 3 => near].boxed()
}

/// Shapes of up to five dimensions and at most a few thousand elements, sometimes none.
pub fn shapes() -> impl Strategy<Value = Vec<u64>> {
    let extent = prop_oneof![EXTENTS_PER_ZERO => 1..=EXTENT, 1 => Just(0_u64)];
    vec(extent, 0..=DIMENSIONS)
}

/// Layouts of inputs for `shape`, like [`crate::random::layout`].
pub fn layouts(shape: &[u64]) -> impl Strategy<Value = Layout> + use<> {
    let shape = shape.to_vec();
    let dimension = (0..Dimension::FORMS, 0..Dimension::PADDINGS, any::<u8>());
    let dimension = dimension.prop_map(|(form, padding, order)| Dimension { form, padding, order });
    (vec(dimension, shape.len()), 0..OFFSETS, any::<bool>())
        .prop_filter_map("in range", move |(dimensions, offset, is_plain)| {
            build_layout(&shape, &dimensions, offset, is_plain)
        })
}
