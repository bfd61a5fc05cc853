//! Reverse mode: from the last node to the first, each passes the derivative by itself on to its operands.

use std::cell::RefCell;

use super::binary::{self, Pair};
use super::term::{Term, Writer, write};
use super::unary;
use crate::graph::{ExprError, Graph, Kind, NodeId, Output};
use crate::op::Binary;
use crate::value::Value;

/// The values of the original expression, copied into its derivative when a rule asks for them.
pub(super) struct Forward<'g> {
    graph: &'g Graph,
    writer: RefCell<Writer>,
    copies: RefCell<Vec<Option<NodeId>>>,
}

impl<'g> Forward<'g> {
    /// A derivative with the inputs and scalars of `graph`.
    fn new(graph: &'g Graph) -> Result<Self, ExprError> {
        let mut writer = Writer::default();
        for input in &graph.inputs {
            writer.builder.input(&input.name, input.dtype)?;
        }
        for scalar in &graph.scalars {
            writer.builder.scalar(&scalar.name, scalar.dtype)?;
        }
        Ok(Self { graph, writer: RefCell::new(writer), copies: RefCell::new(vec![None; graph.nodes.len()]) })
    }

    /// The copy of a node and of all that it depends on. It uses an explicit stack, as expressions may be as deep as they are long.
    pub(super) fn value(&self, id: NodeId) -> Term<'_> {
        let mut copies = self.copies.borrow_mut();
        let mut stack = vec![id];
        while let Some(&next) = stack.last() {
            let node = self.graph.nodes[next.index()];
            let operands = node.kind.operands();
            let missing = operands.iter().filter(|operand| copies[operand.index()].is_none());
            let before = stack.len();
            stack.extend(missing);
            if stack.len() > before {
                continue;
            }
            stack.pop();
            if copies[next.index()].is_none() {
                let kind = node.kind.map(|operand| copies[operand.index()].unwrap_or_default());
                let copy = write(&self.writer, |builder| builder.push(kind, node.dtype, node.strength));
                copies[next.index()] = Some(copy.id);
            }
        }
        Term::new(&self.writer, copies[id.index()].unwrap_or_default())
    }
}

/// A derivative under construction.
pub(super) struct Reverse<'g> {
    forward: Forward<'g>,
    /// For each node, whether it is a float that depends on one of the given inputs with a derivative other than 0.
    varies: Vec<bool>,
    /// For each node, the sum of the derivatives by it so far, in its carrier.
    sums: Vec<Option<NodeId>>,
}

impl<'g> Reverse<'g> {
    /// The derivative of `graph` by the inputs with these indices.
    pub(super) fn new(graph: &'g Graph, inputs: &[usize]) -> Result<Self, ExprError> {
        let mut varies: Vec<bool> = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            varies.push(match node.kind {
                Kind::Input(slot) => inputs.contains(&(slot as usize)),
                kind if !node.dtype.is_float() || is_flat(kind) => false,
                kind => kind.operands().iter().any(|operand| varies[operand.index()]),
            });
        }
        Ok(Self { forward: Forward::new(graph)?, varies, sums: vec![None; graph.nodes.len()] })
    }

    /// Declares the derivative by a float output as an input with this name.
    pub(super) fn seed(&mut self, output: &Output, name: &str) -> Result<(), ExprError> {
        let cotangent = self.forward.writer.borrow_mut().builder.input(name, output.dtype)?;
        if self.varies[output.node.index()] {
            let cotangent = write(&self.forward.writer, |builder| builder.cast(cotangent, output.dtype.carrier()));
            accumulate(&mut self.sums, output.node, cotangent);
        }
        Ok(())
    }

    /// Passes the derivatives on from the outputs to the inputs.
    pub(super) fn propagate(&mut self) {
        let Self { forward, varies, sums } = self;
        for (place, node) in forward.graph.nodes.iter().enumerate().rev() {
            let Some(sum) = sums[place] else { continue };
            for (operand_place, &operand) in node.kind.operands().iter().enumerate() {
                if !varies[operand.index()] {
                    continue;
                }
                let g = Term::new(&forward.writer, sum);
                if let Some(part) = pull_back(forward, NodeId(place as u32), operand_place, g) {
                    accumulate(sums, operand, part);
                }
            }
        }
    }

    /// The derivative, with an output for each of the inputs with these indices and result names.
    pub(super) fn finish(self, results: impl Iterator<Item = (usize, String)>) -> Result<Graph, ExprError> {
        let Self { forward: Forward { graph, writer, .. }, sums, .. } = self;
        let Writer { mut builder, fault } = writer.into_inner();
        if let Some(error) = fault {
            return Err(error);
        }
        let mut by_slot = vec![None; graph.inputs.len()];
        for (node, sum) in graph.nodes.iter().zip(sums) {
            if let Kind::Input(slot) = node.kind {
                by_slot[slot as usize] = sum;
            }
        }
        for (place, name) in results {
            let dtype = graph.inputs[place].dtype;
            let sum = match by_slot[place] {
                Some(sum) => sum,
                None => builder.typed(Value::Float(0.0), dtype.carrier())?,
            };
            builder.output(&name, sum, Some(dtype))?;
        }
        builder.finish()
    }
}

fn accumulate(sums: &mut [Option<NodeId>], node: NodeId, part: Term<'_>) {
    let sum = &mut sums[node.index()];
    *sum = Some(sum.map_or(part.id, |sum| part.add_to(sum).id));
}

/// Whether the derivatives by all operands are 0 wherever they exist.
fn is_flat(kind: Kind) -> bool {
    match kind {
        Kind::Unary(op, _) => unary::is_flat(op),
        Kind::Binary(op, _) => op == Binary::FloorDiv,
        _ => false,
    }
}

/// `g`, the derivative by the node `id`, times the node's derivative by its operand at `place`. `None` if that is 0.
fn pull_back<'f>(forward: &'f Forward<'_>, id: NodeId, place: usize, g: Term<'f>) -> Option<Term<'f>> {
    let value = |id: NodeId| forward.value(id);
    match (forward.graph.nodes[id.index()].kind, place) {
        (Kind::Unary(op, x), _) => unary::pull_back(op, || value(x), || value(id), g),
        (Kind::Binary(op, operands), _) => {
            binary::pull_back(op, &Pair { place, operands: &|place| value(operands[place]), result: &|| value(id) }, g)
        }
        (Kind::Fma([_, b, _]), 0) => Some(g * value(b)),
        (Kind::Fma([a, _, _]), 1) => Some(g * value(a)),
        (Kind::Fma(_), _) => Some(g),
        (Kind::Select([condition, ..]), 1) => Some(value(condition).choose(g, 0.0)),
        (Kind::Select([condition, ..]), 2) => Some(value(condition).choose(0.0, g)),
        (Kind::Cast(a), _) => Some(g.cast(forward.graph.nodes[a.index()].dtype.carrier())),
        _ => None,
    }
}
