//! Products that sums take in.

use super::{Builder, Graph, Kind, Node, NodeId};
use crate::op::{Binary, Unary};

impl Graph {
    /// The same expression with fused multiply-adds in place of sums and differences of floats that have a product as an operand, if
    /// nothing else uses the product; of two products, the first is taken. This is what GPU compilers do by default. The rule knows no
    /// device, so every one gives the same bits.
    #[must_use]
    pub fn with_fused_products(&self) -> Self {
        let uses = self.uses();
        let mut fused = Builder::default();
        let mut places: Vec<NodeId> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let place = |id: NodeId| places[id.index()];
            let product = |id: NodeId| match self.nodes[id.index()].kind {
                Kind::Binary(Binary::Mul, factors) if uses[id.index()] == 1 => Some(factors.map(place)),
                _ => None,
            };
            let is_float = node.dtype.carrier().is_float();
            let kind = match node.kind {
                Kind::Binary(op @ (Binary::Add | Binary::Sub), [a, b]) if is_float => {
                    let mut negative = |id: NodeId| {
                        fused.nodes.push(Node { kind: Kind::Unary(Unary::Neg, id), ..*node });
                        NodeId(fused.nodes.len() as u32 - 1)
                    };
                    match (op, product(a), product(b)) {
                        (Binary::Add, Some([x, y]), _) => Kind::Fma([x, y, place(b)]),
                        (_, Some([x, y]), _) => Kind::Fma([x, y, negative(place(b))]),
                        (Binary::Add, None, Some([x, y])) => Kind::Fma([x, y, place(a)]),
                        (_, None, Some([x, y])) => Kind::Fma([negative(x), y, place(a)]),
                        _ => node.kind.map(place),
                    }
                }
                kind => kind.map(place),
            };
            fused.nodes.push(Node { kind, ..*node });
            places.push(NodeId(fused.nodes.len() as u32 - 1));
        }
        fused.inputs.clone_from(&self.inputs);
        fused.scalars.clone_from(&self.scalars);
        fused.outputs = self
            .outputs
            .iter()
            .map(|output| super::Output { node: places[output.node.index()], ..output.clone() })
            .collect();
        // It has outputs, because this has.
        fused.finish().unwrap_or_else(|_| self.clone())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Names, parse};

    /// The text of an expression whose products are fused.
    fn fused(text: &str) -> String {
        let graph = parse(text, &Names::default()).unwrap_or_else(|error| panic!("{text}: {error}"));
        graph.with_fused_products().to_string()
    }

    fn same(text: &str) -> String {
        parse(text, &Names::default()).unwrap().to_string()
    }

    #[test]
    fn products_that_only_a_sum_uses_are_fused() {
        for (written, meant) in [
            ("y = a*b + c", "y = fma(a, b, c)"),
            ("y = c + a*b", "y = fma(a, b, c)"),
            ("y = a*b - c", "y = fma(a, b, -c)"),
            ("y = c - a*b", "y = fma(-a, b, c)"),
            ("y = a*b + b*c", "y = fma(a, b, b*c)"),
            ("let p = a*b\ny = p + p", "let p = a*b\ny = p + p"),
            ("let p = a*b\ny = p + c\nz = p", "let p = a*b\ny = p + c\nz = p"),
        ] {
            let declared = "in a: f32, b: f32, c: f32\n";
            assert_eq!(fused(&format!("{declared}{written}")), same(&format!("{declared}{meant}")), "{written}");
        }
        let integers = "in a: i32, b: i32, c: i32\ny = a*b + c";
        assert_eq!(fused(integers), same(integers));
    }
}
