//! Finishes a graph: declares outputs, drops dead nodes and puts the others into canonical order.

use super::builder::{Builder, default_type, is_name};
use super::error::ExprError;
use super::{Graph, Kind, MAX_OUTPUTS, NodeId, Output};
use crate::dtype::{DType, Strength};

impl Builder {
    /// Stores `node` in a new tensor of type `dtype`, by default the node's own type (f32, i64 or `bool` for a bare literal).
    ///
    /// # Errors
    /// If `name` is invalid or already in use, or there are too many outputs.
    pub fn output(&mut self, name: &str, node: NodeId, dtype: Option<DType>) -> Result<(), ExprError> {
        if !is_name(name) {
            return Err(ExprError::Name(name.to_owned()));
        }
        let parameters = self.inputs.iter().chain(&self.scalars).map(|parameter| &parameter.name);
        if parameters.chain(self.outputs.iter().map(|output| &output.name)).any(|taken| taken == name) {
            return Err(ExprError::Taken(name.to_owned()));
        }
        self.store(name, node, dtype, None)
    }

    /// Overwrites input number `slot` with `node`, converted to the input's type.
    ///
    /// # Errors
    /// If there is no such input, or it is already overwritten.
    pub fn output_in_place(&mut self, slot: u32, node: NodeId) -> Result<(), ExprError> {
        let input = self.inputs.get(slot as usize).ok_or(ExprError::ForeignHandle)?.clone();
        if self.outputs.iter().any(|output| output.in_place == Some(slot)) {
            return Err(ExprError::SetTwice);
        }
        self.store(&input.name, node, Some(input.dtype), Some(slot))
    }

    fn store(&mut self, name: &str, id: NodeId, dtype: Option<DType>, slot: Option<u32>) -> Result<(), ExprError> {
        if self.outputs.len() >= MAX_OUTPUTS {
            return Err(ExprError::TooManyOutputs);
        }
        let (own, strength) = self.type_of(id)?;
        let dtype = dtype.unwrap_or(if strength == Strength::Literal { default_type(own) } else { own });
        let differs = own.carrier() != dtype.carrier() || strength == Strength::Literal;
        let node = if differs { self.cast(id, dtype)? } else { id };
        self.outputs.push(Output { name: name.to_owned(), node, dtype, in_place: slot });
        Ok(())
    }

    /// The finished graph.
    ///
    /// # Errors
    /// If there is no output.
    pub fn finish(mut self) -> Result<Graph, ExprError> {
        if self.outputs.is_empty() {
            return Err(ExprError::NoOutput);
        }
        let order = self.order();
        let mut places = vec![NodeId(0); self.nodes.len()];
        for (place, &old) in order.iter().enumerate() {
            places[old.index()] = NodeId(place as u32);
        }
        let renamed = |id: NodeId| places[id.index()];
        let mut nodes = Vec::with_capacity(order.len());
        for id in order {
            let mut node = self.nodes[id.index()];
            node.kind = node.kind.map(renamed);
            nodes.push(node);
        }
        for output in &mut self.outputs {
            output.node = renamed(output.node);
        }
        Ok(Graph { nodes, inputs: self.inputs, scalars: self.scalars, outputs: self.outputs })
    }

    /// The nodes that outputs need, operands first and from left to right. It uses an explicit stack, as expressions may be as
    /// deep as they are long.
    fn order(&self) -> Vec<NodeId> {
        let mut order = Vec::new();
        let mut done = vec![false; self.nodes.len()];
        let mut stack: Vec<(NodeId, bool)> = Vec::new();
        for output in &self.outputs {
            stack.push((output.node, false));
            while let Some((id, operands_done)) = stack.pop() {
                if done[id.index()] {
                    continue;
                }
                if operands_done {
                    done[id.index()] = true;
                    order.push(id);
                    continue;
                }
                stack.push((id, true));
                let kind: Kind = self.nodes[id.index()].kind;
                stack.extend(kind.operands().iter().rev().map(|&operand| (operand, false)));
            }
        }
        order
    }
}
