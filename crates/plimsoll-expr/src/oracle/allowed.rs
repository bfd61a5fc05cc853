//! The results that an implementation may return if its functions stay within promised errors. Each node gets one exact value
//! while every bit is defined, an interval once errors come in, and no limit once they may have crossed a discontinuity.

use std::fmt;

use super::{Element, OracleError, Precision, apply, check};
use crate::dtype::{Category, DType};
use crate::function::Function;
use crate::graph::{Graph, Kind, Node};
use crate::last_place::LastPlace;
use crate::op::{Binary, Unary};
use crate::value::Value;

/// The largest error of a function in an implementation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The largest error, in units in the last place (ulp) of the true result.
    pub ulp: f64,
    /// The type that defines the unit.
    pub dtype: DType,
}

impl Bound {
    /// Whether the result must be the true one rounded to its carrier. (A fraction of a unit of a narrower type is many units
    /// of the carrier.)
    fn is_rounding(self, carrier: DType) -> bool {
        self.dtype == carrier && self.ulp <= 0.5
    }
}

/// The allowed values of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// Only this value.
    Exactly(Value),
    /// Floats from the first to the second; if 0 is among them, either zero.
    Between(f64, f64),
    /// Any value: the result depends on allowed errors.
    Anything,
}

impl Allowed {
    /// Whether `found` is allowed; `None` if it can't be judged.
    #[must_use]
    pub fn admits(self, found: Value) -> Option<bool> {
        match (self, found) {
            (Self::Exactly(value), found) => Some(value.is_same(found)),
            (Self::Between(low, high), Value::Float(x)) => Some(low <= x && x <= high),
            (Self::Between(..), _) => Some(false),
            (Self::Anything, _) => None,
        }
    }

    /// From the smallest to the largest result; anything if NaN is among numbers.
    fn hull(results: impl IntoIterator<Item = f64>) -> Self {
        let (mut low, mut high, mut nan, mut number) = (f64::INFINITY, f64::NEG_INFINITY, false, false);
        for x in results {
            nan |= x.is_nan();
            number |= !x.is_nan();
            (low, high) = (low.min(x), high.max(x));
        }
        match (nan, number) {
            (true, false) => Self::Exactly(Value::Float(f64::NAN)),
            (false, true) => Self::Between(low, high),
            _ => Self::Anything,
        }
    }

    /// The ends of the interval; `None` if it is not a float, or not known.
    fn ends(self) -> Option<(f64, f64)> {
        match self {
            Self::Exactly(Value::Float(x)) => Some((x, x)),
            Self::Between(low, high) => Some((low, high)),
            _ => None,
        }
    }

    /// The allowed values after a cast to `dtype`.
    fn cast(self, dtype: DType) -> Self {
        match (self, dtype.category()) {
            (Self::Exactly(value), _) => Self::Exactly(dtype.cast(value)),
            (Self::Between(low, high), Category::Float) => Self::hull([dtype.round(low), dtype.round(high)]),
            (Self::Between(low, high), Category::Bool) if low > 0.0 || high < 0.0 => Self::Exactly(Value::Bool(true)),
            (Self::Between(low, high), Category::Int) => {
                let [low, high] = [low, high].map(|x| dtype.cast(Value::Float(x)));
                if low == high { Self::Exactly(low) } else { Self::Anything }
            }
            _ => Self::Anything,
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(value) => write!(f, "{value:?}"),
            Self::Between(low, high) => write!(f, "from {low:?} to {high:?}"),
            Self::Anything => write!(f, "anything"),
        }
    }
}

/// The allowed values of every output of one element, for an implementation whose functions stay within `bounds`, one per node.
/// Nodes without a bound, and nodes that aren't functions, must be correctly rounded to their carrier.
///
/// # Errors
/// If the number of inputs, scalars or coordinates doesn't match the expression.
pub fn allowed(graph: &Graph, element: Element<'_>, bounds: &[Bound]) -> Result<Vec<Allowed>, OracleError> {
    check(graph, element.inputs.len(), element.scalars.len(), element.coordinates.len())?;
    let mut nodes: Vec<Allowed> = Vec::with_capacity(graph.nodes().len());
    for (place, node) in graph.nodes().iter().enumerate() {
        let operands: Vec<Allowed> = node.kind.operands().iter().map(|id| nodes[id.index()]).collect();
        let exactly = Allowed::Exactly;
        nodes.push(match node.kind {
            Kind::Input(slot) => exactly(node.dtype.cast(element.inputs[slot as usize])),
            Kind::Scalar(slot) => exactly(node.dtype.cast(element.scalars[slot as usize])),
            Kind::Constant(bits) => exactly(node.dtype.decode(bits)),
            Kind::Place => exactly(Value::Int(element.place.into())),
            Kind::Coordinate(dimension) => exactly(Value::Int(element.coordinates[usize::from(dimension)].into())),
            kind => {
                let carried = kind.operands().last().map_or(node.dtype, |id| graph.nodes()[id.index()].dtype).carrier();
                allowed_of_node(node, carried, &operands, bounds.get(place).copied())
            }
        });
    }
    Ok(graph.outputs().iter().map(|output| nodes[output.node.index()].cast(output.dtype)).collect())
}

fn allowed_of_node(node: &Node, carried: DType, operands: &[Allowed], bound: Option<Bound>) -> Allowed {
    match (node.kind, operands) {
        (Kind::Select(_), [Allowed::Exactly(condition), a, b]) => return if condition.as_bool() { *a } else { *b },
        (Kind::Select(_), [_, a, b]) => {
            let same = matches!((a, b), (Allowed::Exactly(a), Allowed::Exactly(b)) if a.is_same(*b));
            return if same { *a } else { Allowed::Anything };
        }
        (Kind::Cast(_), [a]) => return a.cast(node.dtype),
        _ => {}
    }
    let exact = |operand: &Allowed| if let Allowed::Exactly(value) = operand { Some(*value) } else { None };
    let values: Option<Vec<Value>> = operands.iter().map(exact).collect();
    let function = Function::from_node(node);
    let bound = bound.filter(|bound| function.is_some() && !bound.is_rounding(node.dtype.carrier()));
    if let (Some(values), None) = (values, bound) {
        return Allowed::Exactly(apply(node.kind, node.dtype, carried, &values, Precision::Carried));
    }
    let Some(mut ends) = operands.iter().map(|operand| operand.ends()).collect::<Option<Vec<_>>>() else {
        return Allowed::Anything;
    };
    // The oracle rounds the argument before it takes the exponential.
    if matches!(function, Some(Function::Unary(Unary::Gelu | Unary::GeluTanh))) {
        ends.iter_mut().for_each(|(low, high)| (*low, *high) = (*low - NOISE * low.abs(), *high + NOISE * high.abs()));
    }
    let carrier = node.dtype.carrier();
    match (image(node, carrier, &ends), bound) {
        (Allowed::Between(low, high), Some(bound)) => widen_by_error(low, high, bound, carrier),
        // The oracle's results in f64 may be rounded differently from the exact ones.
        (Allowed::Between(low, high), None) => {
            Allowed::hull([carrier.round(low.next_down()), carrier.round(high.next_up())])
        }
        (other, _) => other,
    }
}

/// The relative error of the oracle's own functions: a few units in the last place of f64.
const NOISE: f64 = 8.0 * f64::EPSILON;

/// The interval of true results, widened by the function's error. Errors don't change the sign.
fn widen_by_error(low: f64, high: f64, bound: Bound, carrier: DType) -> Allowed {
    let place = LastPlace::new(bound.dtype);
    let error = |x: f64| if x.is_finite() { bound.ulp * place.unit(x) + NOISE * x.abs() } else { 0.0 };
    let down = if low > 0.0 { (low - error(low)).max(0.0) } else { low - error(low) };
    let up = if high < 0.0 { (high + error(high)).min(0.0) } else { high + error(high) };
    // The error already includes the rounding, except for results above the largest number.
    let saturated = |x: f64| if carrier.round(x).is_infinite() { carrier.round(x) } else { x };
    Allowed::hull([saturated(down), saturated(up)])
}

/// The unrounded result of an operation on floats.
fn result(kind: Kind, operands: &[f64]) -> Value {
    let operands: Vec<Value> = operands.iter().map(|x| Value::Float(*x)).collect();
    apply(kind, DType::F64, DType::F64, &operands, Precision::Wide)
}

/// The results for every combination of the operands' ends.
fn corners(kind: Kind, ends: &[(f64, f64)]) -> Vec<f64> {
    let corner = |corner: usize| {
        let pick = |(place, end): (usize, &(f64, f64))| if corner >> place & 1 == 0 { end.0 } else { end.1 };
        result(kind, &ends.iter().enumerate().map(pick).collect::<Vec<_>>()).as_f64()
    };
    (0..1 << ends.len()).map(corner).collect()
}

/// The common result of all ends, or zeros of either sign; anything if the results differ.
fn common_result(results: &[f64]) -> Allowed {
    let Some(first) = results.first().map(|x| Value::Float(*x)) else { return Allowed::Anything };
    match results.iter().all(|x| Value::Float(*x).is_same(first)) {
        true => Allowed::Exactly(first),
        false if results.iter().all(|x| *x == 0.0) => Allowed::Between(-0.0, 0.0),
        false => Allowed::Anything,
    }
}

/// The hull of the results of a continuous function. An infinite end means that a pole is near: then anything is allowed.
fn continuous(results: impl IntoIterator<Item = f64>) -> Allowed {
    match Allowed::hull(results) {
        Allowed::Between(low, high) if low != high && (low.is_infinite() || high.is_infinite()) => Allowed::Anything,
        other => other,
    }
}

/// The possible true results for operands within these ends.
fn image(node: &Node, carrier: DType, ends: &[(f64, f64)]) -> Allowed {
    let has_zero = |end: (f64, f64)| end.0 <= 0.0 && end.1 >= 0.0;
    let wide = |end: (f64, f64)| end.0 != end.1;
    match (node.kind, ends) {
        (Kind::Unary(op, _), &[end]) => image_of_one(node.kind, op, carrier, end),
        (Kind::Compare(..), &[a, b]) if a.1 < b.0 || b.1 < a.0 => Allowed::Exactly(result(node.kind, &[a.0, b.0])),
        (Kind::Compare(..), _) => Allowed::Anything,
        (Kind::Binary(Binary::Div | Binary::FloorDiv | Binary::Rem, _), &[_, b]) if has_zero(b) && wide(b) => {
            Allowed::Anything
        }
        (Kind::Binary(Binary::FloorDiv, _), _) => common_result(&corners(node.kind, ends)),
        (Kind::Binary(Binary::Rem, operands), _) => {
            let floors = corners(Kind::Binary(Binary::FloorDiv, operands), ends);
            let same_floor = floors.iter().all(|floor| *floor == floors[0]);
            if same_floor { continuous(corners(node.kind, ends)) } else { Allowed::Anything }
        }
        (Kind::Binary(Binary::Pow, _), &[base, exponent]) => {
            let whole = !wide(exponent) && exponent.0.trunc() == exponent.0;
            let smooth = base.0 > 0.0 || (whole && base.1 < 0.0) || (!wide(base) && !wide(exponent));
            if smooth { continuous(corners(node.kind, ends)) } else { Allowed::Anything }
        }
        // The angle jumps along the negative axis and is undefined at 0.
        (Kind::Binary(Binary::Atan2, _), &[a, b]) if (wide(a) || wide(b)) && b.0 <= 0.0 && has_zero(a) => {
            Allowed::Anything
        }
        (Kind::Binary(..) | Kind::Fma(_), _) => continuous(corners(node.kind, ends)),
        _ => Allowed::Anything,
    }
}

fn image_of_one(kind: Kind, op: Unary, carrier: DType, (low, high): (f64, f64)) -> Allowed {
    let evaluate = |x: f64| result(kind, &[x]).as_f64();
    let ends = [evaluate(low), evaluate(high)];
    match op {
        Unary::Sign => common_result(&ends),
        Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => {
            // Numbers this large have no fraction and stay unchanged.
            let whole = (carrier.format().map_or(0.0, |format| f64::from(format.fraction))).exp2();
            let past = (low >= whole && high >= whole) || (low <= -whole && high <= -whole);
            if past { Allowed::hull(ends) } else { common_result(&ends) }
        }
        Unary::Rsqrt | Unary::Recip if low < high && low <= 0.0 && high >= 0.0 => Allowed::Anything,
        // Sine and cosine change by no more than their operand does.
        Unary::Sin | Unary::Cos if low < high => {
            let width = high - low;
            let near = ends.iter().flat_map(|y| [(y - width).max(-1.0), (y + width).min(1.0)]);
            if width < 1.0 { continuous(near) } else { Allowed::Anything }
        }
        _ => {
            let minimum = argument_of_minimum(op).filter(|x| low < *x && *x < high).map(evaluate);
            continuous(ends.into_iter().chain(minimum))
        }
    }
}

/// Where a function that first falls and then rises has its minimum. All other functions are monotonic, except sine and cosine.
fn argument_of_minimum(op: Unary) -> Option<f64> {
    match op {
        Unary::Abs | Unary::Cosh => Some(0.0),
        Unary::Silu => Some(-1.278464542761074),
        Unary::Gelu => Some(-0.7517915246935645),
        Unary::GeluTanh => Some(-0.7524614220710165),
        Unary::Mish => Some(-1.192431214515552),
        _ => None,
    }
}
