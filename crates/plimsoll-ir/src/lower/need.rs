//! The precision needed for each value of an expression. A short function suffices if its result only becomes a 16-bit float.

use plimsoll_expr::graph::{Kind, Node};
use plimsoll_expr::op::{Binary, Unary};
use plimsoll_expr::{DType, Graph, NodeId};

use crate::Op;
use crate::facts::{self, Facts};

/// The precision that a value needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The rounding of bf16, over the range of f32.
    Bf16,
    /// The rounding of f16, and of the 8-bit floats, over the range of f16: values below 2⁻¹⁰⁰ may be 0.
    F16,
    /// A relative error of 2⁻¹⁵ over the range of f32.
    Wide,
    /// The precision of its carrier.
    Full,
}

impl Need {
    const fn from_dtype(dtype: DType) -> Self {
        match dtype {
            DType::Bf16 => Self::Bf16,
            DType::F16 | DType::F8E4M3 | DType::F8E5M2 => Self::F16,
            _ => Self::Full,
        }
    }

    /// The precision that satisfies both.
    const fn merge(self, other: Self) -> Self {
        match (self, other) {
            (Self::Full, _) | (_, Self::Full) => Self::Full,
            (Self::Bf16, Self::Bf16) => Self::Bf16,
            (Self::F16, Self::F16) => Self::F16,
            _ => Self::Wide,
        }
    }

    /// The precision needed for a factor of a value with this need, if the other factor may have any magnitude.
    const fn scaled(self) -> Self {
        match self {
            Self::F16 => Self::Wide,
            other => other,
        }
    }

    /// The precision needed for a term of a sum with this need. The other terms may cancel most of it, so the rounding of 16 bits isn't
    /// enough. (An error of 2⁻¹⁵ is 1/64 of what rounding every operation to bf16 would add.)
    const fn term(self) -> Self {
        match self {
            Self::Bf16 | Self::F16 => Self::Wide,
            other => other,
        }
    }
}

/// The precision needed for every node.
#[must_use]
pub fn needs(graph: &Graph) -> Vec<Need> {
    let known = Known::new(graph);
    let factors = count_factors(graph);
    let mut needs: Vec<Option<Need>> = vec![None; graph.nodes().len()];
    for output in graph.outputs() {
        join(&mut needs, output.node, Need::from_dtype(output.dtype));
    }
    for (place, node) in graph.nodes().iter().enumerate().rev() {
        let need = needs[place].unwrap_or(Need::Full);
        match node.kind {
            // An f32 holds every value of the smaller types.
            Kind::Cast(a) if node.dtype == DType::F32 && known.is_in_f32(a) => join(&mut needs, a, need),
            Kind::Cast(a) => join(&mut needs, a, Need::from_dtype(node.dtype)),
            Kind::Unary(op, a) => join(&mut needs, a, known.operand_of(op, a, need)),
            Kind::Binary(Binary::Min | Binary::Max | Binary::Fmin | Binary::Fmax, [a, b]) => {
                join(&mut needs, a, need);
                join(&mut needs, b, need);
            }
            Kind::Binary(Binary::Add | Binary::Sub, [a, b]) => {
                join(&mut needs, a, need.term());
                join(&mut needs, b, need.term());
            }
            Kind::Fma(operands) => operands.iter().for_each(|&id| join(&mut needs, id, need.term())),
            Kind::Binary(Binary::Mul, [a, b]) => {
                let is_few = factors[place] < MOST_FACTORS;
                let factor = |other| if is_few && known.is_modest(other) { need } else { need.scaled() };
                join(&mut needs, a, factor(b));
                join(&mut needs, b, factor(a));
            }
            Kind::Binary(Binary::Div, [a, b]) => {
                join(&mut needs, a, need.scaled());
                join(&mut needs, b, need.scaled());
            }
            Kind::Select([condition, a, b]) => {
                join(&mut needs, condition, Need::Full);
                join(&mut needs, a, need);
                join(&mut needs, b, need);
            }
            kind => kind.operands().iter().for_each(|&id| join(&mut needs, id, Need::Full)),
        }
    }
    needs.into_iter().map(|need| need.unwrap_or(Need::Full)).collect()
}

/// Most products through which a value may be taken as 0 below 2⁻¹⁰⁰: four factors of 2¹⁶ don't bring it into f16's range.
const MOST_FACTORS: u32 = 4;

/// For every node, the most products, its own left out, that follow it.
fn count_factors(graph: &Graph) -> Vec<u32> {
    let mut factors = vec![0; graph.nodes().len()];
    for (place, node) in graph.nodes().iter().enumerate().rev() {
        let own = u32::from(matches!(node.kind, Kind::Binary(Binary::Mul, _)));
        let count = factors[place] + own;
        for operand in node.kind.operands().iter() {
            let known = &mut factors[operand.index()];
            *known = count.max(*known);
        }
    }
    factors
}

/// The largest operand of functions like e^x whose relative change is at most five times their operand's.
const SMALL: f64 = 2.25;

/// What decides which precision an operand needs.
struct Known<'g> {
    graph: &'g Graph,
    /// The range of every value.
    ranges: Vec<Facts>,
    /// For every value, whether it may be the small rest of larger terms.
    cancels: Vec<bool>,
}

impl<'g> Known<'g> {
    fn new(graph: &'g Graph) -> Self {
        let mut known = Self { graph, ranges: Vec::new(), cancels: Vec::new() };
        for node in graph.nodes() {
            known.ranges.push(known.range(node));
            known.cancels.push(known.may_cancel(node.kind));
        }
        known
    }

    fn range(&self, node: &Node) -> Facts {
        let operands: Vec<Facts> = node.kind.operands().iter().map(|id| self.ranges[id.index()]).collect();
        let op = match node.kind {
            Kind::Constant(_) => {
                let value = node.constant().map_or(f64::NAN, |value| value.as_f64());
                return Facts::of_constant(DType::F64, value.to_bits());
            }
            Kind::Unary(op, _) => Op::Unary(op),
            Kind::Binary(op, _) => Op::Binary(op),
            Kind::Fma(_) => Op::Fma,
            Kind::Select(_) => Op::Select,
            Kind::Cast(_) if node.dtype.is_float() && node.dtype.carrier() != node.dtype => Op::Narrow(node.dtype),
            Kind::Cast(_) => Op::Convert,
            _ => return Facts::of_type(node.dtype),
        };
        facts::derive(op, node.dtype, &operands)
    }

    fn may_cancel(&self, kind: Kind) -> bool {
        let range = |id: NodeId| self.ranges[id.index()];
        let itself = match kind {
            Kind::Binary(Binary::Add, [a, b]) => range(a).low.min(range(b).low) < 0.0,
            Kind::Binary(Binary::Sub, [a, b]) => range(a).low.min(-range(b).high) < 0.0,
            Kind::Fma([a, b, c]) => {
                let product = facts::derive(Op::Binary(Binary::Mul), DType::F32, &[range(a), range(b)]);
                product.low.min(range(c).low) < 0.0
            }
            _ => false,
        };
        itself || kind.operands().iter().any(|id| self.cancels[id.index()])
    }

    /// Whether a value, if it isn't infinite, is at most about f16's largest number. Its product with a value below 2⁻¹⁰⁰ is 0 in f16,
    /// also if that value has become 0. (If it is infinite, the product may be NaN: docs/mathematics.md says so.)
    fn is_modest(&self, id: NodeId) -> bool {
        self.ranges[id.index()].largest() <= 65536.0
    }

    fn is_in_f32(&self, id: NodeId) -> bool {
        self.graph.nodes()[id.index()].dtype.carrier() == DType::F32
    }

    /// The precision needed for the operand of a function with this need. It is the full one unless a small relative change of the
    /// operand changes the result little more.
    fn operand_of(&self, op: Unary, a: NodeId, need: Need) -> Need {
        match op {
            Unary::Neg | Unary::Abs | Unary::Relu => need,
            Unary::Recip | Unary::Tanh | Unary::Erf | Unary::Atan | Unary::Asinh => need.scaled(),
            // A rest of larger terms might become negative.
            Unary::Sqrt | Unary::Rsqrt if !self.cancels[a.index()] => need.scaled(),
            Unary::Log1p if self.ranges[a.index()].low >= 0.0 && !self.cancels[a.index()] => need.scaled(),
            Unary::Exp | Unary::Exp2 | Unary::Expm1 | Unary::Sinh | Unary::Cosh | Unary::Sin
                if self.ranges[a.index()].most() <= SMALL =>
            {
                need.term()
            }
            // Only far below 0 do they change as fast as e^x.
            Unary::Sigmoid | Unary::Silu | Unary::Gelu | Unary::GeluTanh | Unary::Softplus | Unary::Mish
                if self.ranges[a.index()].low >= -SMALL =>
            {
                need.term()
            }
            _ => Need::Full,
        }
    }
}

fn join(needs: &mut [Option<Need>], id: NodeId, need: Need) {
    let before = &mut needs[id.index()];
    *before = Some(before.map_or(need, |before| before.merge(need)));
}

#[cfg(test)]
mod tests {
    use plimsoll_expr::graph::Kind;
    use plimsoll_expr::{Graph, Names, parse};

    use super::{Need, needs};

    fn graph(text: &str) -> Graph {
        parse(text, &Names::default()).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// The need of the only function called `op`.
    fn need(text: &str, op: &str) -> Need {
        let graph = graph(text);
        let index =
            graph.nodes().iter().position(|node| matches!(node.kind, Kind::Unary(unary, _) if unary.name() == op));
        needs(&graph)[index.unwrap_or_else(|| panic!("{text} has no {op}"))]
    }

    /// What a function's result needs, for reasons in order: it is stored in 16 bits; it is a term of a sum that is; it is compared or
    /// stored wide; a factor of unknown size may bring it back into range; what follows it is smooth; what follows it isn't.
    #[test]
    fn needs_follow_from_what_is_done_with_a_result() {
        for (text, op, expected) in [
            ("in x: bf16\ny = exp(x)", "exp", Need::Bf16),
            ("in x: f16\ny = -abs(exp(x))", "exp", Need::F16),
            ("in x: f16\ny = x * exp(x)", "exp", Need::F16),
            ("in x: f32\ny: bf16 = max(exp(x), x)", "exp", Need::Bf16),
            ("in x: bf16, c: bool\ny = select(c, exp(x), x)", "exp", Need::Bf16),
            ("in x: bf16\ny = exp(x) - 1", "exp", Need::Wide),
            ("in x: f16, z: f16\ny = z + x*exp(x)", "exp", Need::Wide),
            ("in x: f16, z: f32\ny: f16 = exp(x) * tanh(z)", "exp", Need::F16),
            ("in x: f16, z: f32\ny: f16 = exp(x) * f16(z)", "exp", Need::F16),
            ("in x: f16, z: f32\ny: f16 = exp(x) * z", "exp", Need::Wide),
            ("in x: f16, z: f16\ny = exp(x)*z*z*z*z", "exp", Need::F16),
            ("in x: f16, z: f16\ny = exp(x)*z*z*z*z*z", "exp", Need::Wide),
            ("in x: bf16\nlet e = exp(x)\ny = e\nz = e + x", "exp", Need::Wide),
            ("in x: bf16\ny = sqrt(gelu(x))", "gelu", Need::Bf16),
            ("in x: f16\ny = tanh(silu(x))", "silu", Need::Wide),
            ("in x: bf16\ny = gelu(sigmoid(x))", "sigmoid", Need::Wide),
            ("in x: bf16\ny = exp(min(max(sinh(x), -1), 2))", "sinh", Need::Wide),
            ("in x: bf16, z: f32\ny: bf16 = z * exp(x)", "exp", Need::Bf16),
            ("in x: bf16\ny = mish(softplus(x))", "softplus", Need::Wide),
            ("in x: f16\ny = silu(exp(x) - 2)", "exp", Need::Wide),
            ("in x: bf16\ny = gelu(exp(x) - 3)", "exp", Need::Full),
            ("in x: bf16\ny = log1p(exp(x))", "exp", Need::Bf16),
            ("in x: bf16\ny = log1p(cosh(x) - 1)", "cosh", Need::Full),
            ("in x: bf16\ny = exp(sinh(x))", "sinh", Need::Full),
            ("in x: bf16\ny = log(sigmoid(x))", "sigmoid", Need::Full),
            ("in x: bf16\ny = cos(tanh(x))", "tanh", Need::Full),
            ("in x: bf16\ny = sqrt(cosh(x) - 1)", "cosh", Need::Full),
            ("in x: bf16\ny = sqrt(tanh(cosh(x) - 1))", "cosh", Need::Full),
            ("in x: bf16\ny = sqrt(exp(x) + 1)", "exp", Need::Wide),
            ("in x: bf16\ny: f32 = exp(x) - 1", "exp", Need::Full),
            ("in x: bf16\ny: f32 = exp(x)", "exp", Need::Full),
            ("in x: bf16\ny = sin(exp(x))", "exp", Need::Full),
            ("in x: bf16\nlet e = exp(x)\ny = e\nz: f32 = e", "exp", Need::Full),
            ("in x: f16\nscalar a: f32\ny = a * exp(x)", "exp", Need::Wide),
            ("in x: f16\nscalar a: f32\ny = exp(x) / a", "exp", Need::Wide),
            ("in x: bf16\nscalar a: f32\ny = a * exp(x)", "exp", Need::Bf16),
        ] {
            assert_eq!(need(text, op), expected, "{op} in {text}");
        }
    }
}
