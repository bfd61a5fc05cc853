//! The precision needed for each value of an expression. A short function suffices if its result only becomes a 16-bit float.

use plimsoll_expr::graph::Kind;
use plimsoll_expr::op::{Binary, Unary};
use plimsoll_expr::{DType, Graph, NodeId};

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
    let mut needs: Vec<Option<Need>> = vec![None; graph.nodes().len()];
    for output in graph.outputs() {
        join(&mut needs, output.node, Need::from_dtype(output.dtype));
    }
    for (place, node) in graph.nodes().iter().enumerate().rev() {
        let need = needs[place].unwrap_or(Need::Full);
        match node.kind {
            Kind::Cast(a) => join(&mut needs, a, Need::from_dtype(node.dtype)),
            Kind::Unary(Unary::Neg | Unary::Abs | Unary::Relu, a) => join(&mut needs, a, need),
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
                let factor = |other| if is_modest(graph, other) { need } else { need.scaled() };
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

fn join(needs: &mut [Option<Need>], id: NodeId, need: Need) {
    let before = &mut needs[id.index()];
    *before = Some(before.map_or(need, |before| before.merge(need)));
}

/// True if a value is known to be at most about f16's largest number.
fn is_modest(graph: &Graph, id: NodeId) -> bool {
    graph.node(id).is_some_and(|node| match node.kind {
        Kind::Constant(_) => node.constant().is_some_and(|value| value.as_f64().abs() <= 65536.0),
        Kind::Input(_) | Kind::Scalar(_) | Kind::Cast(_) => {
            matches!(node.dtype, DType::F16 | DType::F8E4M3 | DType::F8E5M2)
        }
        _ => false,
    })
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

    #[test]
    fn values_stored_in_16_bits_need_no_more_precision() {
        assert_eq!(need("in x: bf16\ny = exp(x)", "exp"), Need::Bf16);
        assert_eq!(need("in x: f16\ny = -abs(exp(x))", "exp"), Need::F16);
        assert_eq!(need("in x: f16\ny = x * exp(x)", "exp"), Need::F16);
        assert_eq!(need("in x: f32\ny: bf16 = max(exp(x), x)", "exp"), Need::Bf16);
        assert_eq!(need("in x: bf16, c: bool\ny = select(c, exp(x), x)", "exp"), Need::Bf16);
    }

    #[test]
    fn terms_of_sums_that_are_stored_in_16_bits_need_a_little_more() {
        assert_eq!(need("in x: bf16\ny = exp(x) - 1", "exp"), Need::Wide);
        assert_eq!(need("in x: f16, z: f16\ny = z + x*exp(x)", "exp"), Need::Wide);
        assert_eq!(need("in x: bf16\nlet e = exp(x)\ny = e\nz = e + x", "exp"), Need::Wide);
    }

    #[test]
    fn values_that_are_compared_or_stored_wide_need_full_precision() {
        assert_eq!(need("in x: bf16\ny: f32 = exp(x) - 1", "exp"), Need::Full);
        assert_eq!(need("in x: bf16\ny: f32 = exp(x)", "exp"), Need::Full);
        assert_eq!(need("in x: bf16\ny = sin(exp(x))", "exp"), Need::Full);
        assert_eq!(need("in x: bf16\nlet e = exp(x)\ny = e\nz: f32 = e", "exp"), Need::Full);
    }

    #[test]
    fn factors_of_unknown_size_need_the_range_of_f32() {
        assert_eq!(need("in x: f16\nscalar a: f32\ny = a * exp(x)", "exp"), Need::Wide);
        assert_eq!(need("in x: f16\nscalar a: f32\ny = exp(x) / a", "exp"), Need::Wide);
        assert_eq!(need("in x: bf16\nscalar a: f32\ny = a * exp(x)", "exp"), Need::Bf16);
    }
}
