//! What an implementation may give whose functions are off by no more than it promises: of every node a value where every bit is
//! defined, an interval where errors have come in, and nothing where they may have crossed a step.

use std::fmt;

use super::{Element, OracleError, Precision, apply, check};
use crate::dtype::{Category, DType};
use crate::function::Function;
use crate::graph::{Graph, Kind, Node};
use crate::last_place::LastPlace;
use crate::op::{Binary, Unary};
use crate::value::Value;

/// How far a function of an implementation may be off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The largest error, in units of the last place of the true result.
    pub ulp: f64,
    /// The type whose last place it is.
    pub dtype: DType,
}

impl Bound {
    /// The result is the true one, rounded to its carrier. (A part of a unit of a narrower type is many units of the carrier.)
    fn is_rounding(self, carrier: DType) -> bool {
        self.dtype == carrier && self.ulp <= 0.5
    }
}

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// This one alone.
    Exactly(Value),
    /// Floats from the first to the second, either zero where 0 is among them.
    Between(f64, f64),
    /// It depends on errors that are allowed.
    Anything,
}

impl Allowed {
    /// Whether a result is allowed; `None` where it can't be judged.
    #[must_use]
    pub fn admits(self, found: Value) -> Option<bool> {
        match (self, found) {
            (Self::Exactly(value), found) => Some(value.same(found)),
            (Self::Between(low, high), Value::Float(x)) => Some(low <= x && x <= high),
            (Self::Between(..), _) => Some(false),
            (Self::Anything, _) => None,
        }
    }

    /// From the least to the greatest of some results; of NaN among numbers nothing can be said.
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

    /// The ends of a float; `None` of what is no float, or not known.
    fn ends(self) -> Option<(f64, f64)> {
        match self {
            Self::Exactly(Value::Float(x)) => Some((x, x)),
            Self::Between(low, high) => Some((low, high)),
            _ => None,
        }
    }

    /// The value that both ends are cast to.
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

/// What every output of one element may be, of an implementation whose functions keep `bounds`, one per node. Where there is none, or
/// the node isn't a function, results are correctly rounded to their carrier.
///
/// # Errors
/// If the number of inputs, scalars or coordinates isn't the expression's.
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
                of_node(node, carried, &operands, bounds.get(place).copied())
            }
        });
    }
    Ok(graph.outputs().iter().map(|output| nodes[output.node.index()].cast(output.dtype)).collect())
}

fn of_node(node: &Node, carried: DType, operands: &[Allowed], bound: Option<Bound>) -> Allowed {
    match (node.kind, operands) {
        (Kind::Select(_), [Allowed::Exactly(condition), a, b]) => return if condition.as_bool() { *a } else { *b },
        (Kind::Select(_), [_, a, b]) => {
            let same = matches!((a, b), (Allowed::Exactly(a), Allowed::Exactly(b)) if a.same(*b));
            return if same { *a } else { Allowed::Anything };
        }
        (Kind::Cast(_), [a]) => return a.cast(node.dtype),
        _ => {}
    }
    let exact = |one: &Allowed| if let Allowed::Exactly(value) = one { Some(*value) } else { None };
    let values: Option<Vec<Value>> = operands.iter().map(exact).collect();
    let function = Function::from_node(node);
    let bound = bound.filter(|bound| function.is_some() && !bound.is_rounding(node.dtype.carrier()));
    if let (Some(values), None) = (values, bound) {
        return Allowed::Exactly(apply(node.kind, node.dtype, carried, &values, Precision::Carried));
    }
    let Some(mut ends) = operands.iter().map(|one| one.ends()).collect::<Option<Vec<_>>>() else {
        return Allowed::Anything;
    };
    // What the oracle rounds before it takes an exponential of it.
    if matches!(function, Some(Function::Unary(Unary::Gelu | Unary::GeluTanh))) {
        ends.iter_mut().for_each(|(low, high)| (*low, *high) = (*low - NOISE * low.abs(), *high + NOISE * high.abs()));
    }
    let carrier = node.dtype.carrier();
    match (image(node, carrier, &ends), bound) {
        (Allowed::Between(low, high), Some(bound)) => with_error(low, high, bound, carrier),
        // Results in f64 may be rounded otherwise than the exact ones.
        (Allowed::Between(low, high), None) => {
            Allowed::hull([carrier.round(low.next_down()), carrier.round(high.next_up())])
        }
        (other, _) => other,
    }
}

/// Relative errors of the oracle's own functions, some units of the last place of f64.
const NOISE: f64 = 8.0 * f64::EPSILON;

/// An interval of true results and the errors that a function may have, which change no sign.
fn with_error(low: f64, high: f64, bound: Bound, carrier: DType) -> Allowed {
    let place = LastPlace::of(bound.dtype);
    let error = |x: f64| if x.is_finite() { bound.ulp * place.unit(x) + NOISE * x.abs() } else { 0.0 };
    let down = if low > 0.0 { (low - error(low)).max(0.0) } else { low - error(low) };
    let up = if high < 0.0 { (high + error(high)).min(0.0) } else { high + error(high) };
    // Errors are those of results that are rounded, unless they are beyond the largest number.
    let settled = |x: f64| if carrier.round(x).is_infinite() { carrier.round(x) } else { x };
    Allowed::hull([settled(down), settled(up)])
}

/// The result of a node for floats, not rounded.
fn result(kind: Kind, operands: &[f64]) -> Value {
    let operands: Vec<Value> = operands.iter().map(|x| Value::Float(*x)).collect();
    apply(kind, DType::F64, DType::F64, &operands, Precision::Wide)
}

/// The results at all ends of all operands.
fn corners(kind: Kind, ends: &[(f64, f64)]) -> Vec<f64> {
    let corner = |corner: usize| {
        let pick = |(place, end): (usize, &(f64, f64))| if corner >> place & 1 == 0 { end.0 } else { end.1 };
        result(kind, &ends.iter().enumerate().map(pick).collect::<Vec<_>>()).as_f64()
    };
    (0..1 << ends.len()).map(corner).collect()
}

/// The one result that all ends have, a zero of either sign; else nothing.
fn same_at_all(results: &[f64]) -> Allowed {
    let Some(first) = results.first().map(|x| Value::Float(*x)) else { return Allowed::Anything };
    match results.iter().all(|x| Value::Float(*x).same(first)) {
        true => Allowed::Exactly(first),
        false if results.iter().all(|x| *x == 0.0) => Allowed::Between(-0.0, 0.0),
        false => Allowed::Anything,
    }
}

/// The hull of results of something continuous; with an end at infinity there is a pole, or nearly.
fn continuous(results: impl IntoIterator<Item = f64>) -> Allowed {
    match Allowed::hull(results) {
        Allowed::Between(low, high) if low != high && (low.is_infinite() || high.is_infinite()) => Allowed::Anything,
        other => other,
    }
}

/// What true results are possible of operands within these ends.
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
        (Kind::Binary(Binary::FloorDiv, _), _) => same_at_all(&corners(node.kind, ends)),
        (Kind::Binary(Binary::Rem, operands), _) => {
            let floors = corners(Kind::Binary(Binary::FloorDiv, operands), ends);
            let one = floors.iter().all(|floor| *floor == floors[0]);
            if one { continuous(corners(node.kind, ends)) } else { Allowed::Anything }
        }
        (Kind::Binary(Binary::Pow, _), &[base, exponent]) => {
            let whole = !wide(exponent) && exponent.0.trunc() == exponent.0;
            let smooth = base.0 > 0.0 || (whole && base.1 < 0.0) || (!wide(base) && !wide(exponent));
            if smooth { continuous(corners(node.kind, ends)) } else { Allowed::Anything }
        }
        // The angle jumps along the negative axis, and has none at 0.
        (Kind::Binary(Binary::Atan2, _), &[a, b]) if (wide(a) || wide(b)) && b.0 <= 0.0 && has_zero(a) => {
            Allowed::Anything
        }
        (Kind::Binary(..) | Kind::Fma(_), _) => continuous(corners(node.kind, ends)),
        _ => Allowed::Anything,
    }
}

fn image_of_one(kind: Kind, op: Unary, carrier: DType, (low, high): (f64, f64)) -> Allowed {
    let at = |x: f64| result(kind, &[x]).as_f64();
    let ends = [at(low), at(high)];
    match op {
        Unary::Sign => same_at_all(&ends),
        Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => {
            // Numbers without a fraction are left as they are.
            let whole = (carrier.format().map_or(0.0, |format| f64::from(format.fraction))).exp2();
            let past = (low >= whole && high >= whole) || (low <= -whole && high <= -whole);
            if past { Allowed::hull(ends) } else { same_at_all(&ends) }
        }
        Unary::Rsqrt | Unary::Recip if low < high && low <= 0.0 && high >= 0.0 => Allowed::Anything,
        // They rise and fall by no more than their operand.
        Unary::Sin | Unary::Cos if low < high => {
            let width = high - low;
            let near = ends.iter().flat_map(|y| [(y - width).max(-1.0), (y + width).min(1.0)]);
            if width < 1.0 { continuous(near) } else { Allowed::Anything }
        }
        _ => {
            let iteration = turning_point(op).filter(|x| low < *x && *x < high).map(at);
            continuous(ends.into_iter().chain(iteration))
        }
    }
}

/// Where a function that falls begins to rise. All others do one of the two over all operands, but for sine and cosine.
fn turning_point(op: Unary) -> Option<f64> {
    match op {
        Unary::Abs | Unary::Cosh => Some(0.0),
        Unary::Silu => Some(-1.278464542761074),
        Unary::Gelu => Some(-0.7517915246935645),
        Unary::GeluTanh => Some(-0.7524614220710165),
        Unary::Mish => Some(-1.192431214515552),
        _ => None,
    }
}
