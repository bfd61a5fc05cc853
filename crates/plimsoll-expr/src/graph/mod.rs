//! The graph of an expression: typed nodes in canonical order, without duplicates or dead nodes. [`Builder`] makes it, also for
//! text and traced closures. Planners and oracles visit [`Graph::nodes`] from first to last.

mod builder;
mod error;
mod finish;
mod fuse;
mod merge;
mod raw;

use crate::dtype::{DType, Strength};
use crate::op::{Binary, Comparison, Unary};
use crate::value::Value;

pub use builder::{Builder, is_name};
pub use error::ExprError;

/// The most nodes in a graph: enough for unrolled loops, and few enough that untrusted text can't exhaust memory.
pub const MAX_NODES: usize = 16_384;
/// The most input tensors.
pub const MAX_INPUTS: usize = 64;
/// The most run-time scalars.
pub const MAX_SCALARS: usize = 64;
/// The most outputs.
pub const MAX_OUTPUTS: usize = 64;
/// The most dimensions of a tensor.
pub const MAX_RANK: usize = 8;

/// A node's index in [`Graph::nodes`] or in the builder that made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// The index, from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The operation of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An element of the input with this index.
    Input(u32),
    /// The run-time scalar with this index.
    Scalar(u32),
    /// A constant, in the encoding of the node's type ([`DType::decode`]).
    Constant(u64),
    /// The element's row-major index in the shape, i64.
    Place,
    /// The element's coordinate along this dimension, i64; 0 is the slowest.
    Coordinate(u8),
    /// An operation of one operand.
    Unary(Unary, NodeId),
    /// An operation of two operands.
    Binary(Binary, [NodeId; 2]),
    /// A comparison.
    Compare(Comparison, [NodeId; 2]),
    /// a·b + c: one rounding for floats, wrapping for integers.
    Fma([NodeId; 3]),
    /// `[condition, a, b]`: a if the condition is true, else b.
    Select([NodeId; 3]),
    /// The operand rounded to the node's type.
    Cast(NodeId),
}

/// Up to three operands of a node.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    ids: [NodeId; 3],
    count: usize,
}

impl std::ops::Deref for Operands {
    type Target = [NodeId];

    fn deref(&self) -> &[NodeId] {
        &self.ids[..self.count]
    }
}

impl Kind {
    /// The operands, in order.
    #[must_use]
    pub const fn operands(self) -> Operands {
        const NONE: NodeId = NodeId(0);
        match self {
            Self::Input(_) | Self::Scalar(_) | Self::Constant(_) | Self::Place | Self::Coordinate(_) => {
                Operands { ids: [NONE; 3], count: 0 }
            }
            Self::Unary(_, a) | Self::Cast(a) => Operands { ids: [a, NONE, NONE], count: 1 },
            Self::Binary(_, [a, b]) | Self::Compare(_, [a, b]) => Operands { ids: [a, b, NONE], count: 2 },
            Self::Fma(ids) | Self::Select(ids) => Operands { ids, count: 3 },
        }
    }

    /// The same kind with each operand replaced by `f` of it.
    pub(crate) fn map(self, mut f: impl FnMut(NodeId) -> NodeId) -> Self {
        match self {
            Self::Unary(op, a) => Self::Unary(op, f(a)),
            Self::Cast(a) => Self::Cast(f(a)),
            Self::Binary(op, ids) => Self::Binary(op, ids.map(f)),
            Self::Compare(op, ids) => Self::Compare(op, ids.map(f)),
            Self::Fma(ids) => Self::Fma(ids.map(f)),
            Self::Select(ids) => Self::Select(ids.map(f)),
            leaf => leaf,
        }
    }
}

/// One value of the expression. It is held in the [`DType::carrier`] of its type. Only inputs, scalars, constants and casts are
/// rounded to the type itself.
///
/// The operands of `Unary`, `Binary`, `Fma` and `Compare` and the branches of `Select` share one carrier, which is also the
/// node's own carrier, except for `Compare`. Conversions between carriers are `Cast` nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The operation.
    pub kind: Kind,
    /// The type.
    pub dtype: DType,
    /// How strongly it determines the type of results. A finished graph has no [`Strength::Literal`].
    pub strength: Strength,
}

impl Node {
    /// The value of a constant node; `None` for any other node.
    #[must_use]
    pub fn constant(&self) -> Option<Value> {
        match self.kind {
            Kind::Constant(bits) => Some(self.dtype.decode(bits)),
            _ => None,
        }
    }
}

/// A named and typed input tensor or run-time scalar.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Parameter {
    /// An identifier, unique among all parameters.
    pub name: String,
    /// The type in memory, or the type of the value that a launch passes.
    pub dtype: DType,
}

/// An output.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Output {
    /// An identifier, unique among the outputs. It is an input's name if and only if that input is overwritten in place.
    pub name: String,
    /// The stored value; its carrier is the carrier of `dtype`.
    pub node: NodeId,
    /// The type in memory, to which the store rounds.
    pub dtype: DType,
    /// The index of the input that it overwrites, if any. Each element is read before it is written.
    pub in_place: Option<u32>,
}

/// A finished expression. It can be hashed. Nodes are in the order in which the outputs need them (operands first, from left
/// to right), so equal expressions are equal graphs, however they were written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) inputs: Vec<Parameter>,
    pub(crate) scalars: Vec<Parameter>,
    pub(crate) outputs: Vec<Output>,
}

impl Graph {
    /// All nodes; operands come before the nodes that use them.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The input tensors, in the order of their declaration.
    #[must_use]
    pub fn inputs(&self) -> &[Parameter] {
        &self.inputs
    }

    /// The run-time scalars, in the order of their declaration. The graph doesn't contain their values.
    #[must_use]
    pub fn scalars(&self) -> &[Parameter] {
        &self.scalars
    }

    /// The outputs, at least one.
    #[must_use]
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The node with this id; `None` if the id is out of range.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index())
    }

    /// How often other nodes and outputs use each node.
    #[must_use]
    pub fn uses(&self) -> Vec<u32> {
        let mut uses = vec![0; self.nodes.len()];
        let operands = self.nodes.iter().flat_map(|node| node.kind.operands().to_vec());
        for id in operands.chain(self.outputs.iter().map(|output| output.node)) {
            uses[id.index()] += 1;
        }
        uses
    }

    /// For each input, whether some output depends on it.
    #[must_use]
    pub fn reads(&self) -> Vec<bool> {
        let mut reads = vec![false; self.inputs.len()];
        for node in &self.nodes {
            if let Kind::Input(slot) = node.kind {
                reads[slot as usize] = true;
            }
        }
        reads
    }

    /// The same expression without the inputs that no output depends on, and the indices of those that are left. An input that is
    /// overwritten in place is left too.
    #[must_use]
    pub fn with_read_inputs(&self) -> (Self, Vec<usize>) {
        let mut is_left = self.reads();
        self.outputs.iter().filter_map(|output| output.in_place).for_each(|slot| is_left[slot as usize] = true);
        let left: Vec<usize> = (0..is_left.len()).filter(|&slot| is_left[slot]).collect();
        let renumbered = |slot: u32| left.iter().take_while(|&&earlier| earlier < slot as usize).count() as u32;
        let mut graph = self.clone();
        graph.inputs = left.iter().map(|&slot| self.inputs[slot].clone()).collect();
        for node in &mut graph.nodes {
            if let Kind::Input(slot) = &mut node.kind {
                *slot = renumbered(*slot);
            }
        }
        for output in &mut graph.outputs {
            output.in_place = output.in_place.map(renumbered);
        }
        (graph, left)
    }

    /// The same expression with the names `x0`, `x1` … for inputs, `a0` … for scalars and `y0` … for outputs, so that kernels
    /// and the kernel cache don't depend on the user's names. The text of the result is the key of that cache.
    #[must_use]
    pub fn with_plain_names(&self) -> Self {
        let mut plain = self.clone();
        for (parameters, letter) in [(&mut plain.inputs, 'x'), (&mut plain.scalars, 'a')] {
            for (place, parameter) in parameters.iter_mut().enumerate() {
                parameter.name = format!("{letter}{place}");
            }
        }
        for (place, output) in plain.outputs.iter_mut().enumerate() {
            output.name = output.in_place.map_or_else(|| format!("y{place}"), |slot| format!("x{slot}"));
        }
        plain
    }

    /// The same expression with output number `output` written over input number `input`, as for a caller who gives one tensor for
    /// both. `None` if their types differ, one of them is written in place already, or there is no such output or input.
    #[must_use]
    pub fn with_output_in_place(&self, output: usize, input: usize) -> Option<Self> {
        let slot = u32::try_from(input).ok()?;
        let (replaced, parameter) = (self.outputs.get(output)?, self.inputs.get(input)?);
        let is_taken = self.outputs.iter().any(|output| output.in_place == Some(slot));
        if replaced.dtype != parameter.dtype || replaced.in_place.is_some() || is_taken {
            return None;
        }
        let mut graph = self.clone();
        graph.outputs[output] = Output { name: parameter.name.clone(), in_place: Some(slot), ..replaced.clone() };
        Some(graph)
    }

    /// Whether a value depends on its element's index or coordinates: then dimensions can't be merged or reordered freely.
    #[must_use]
    pub fn depends_on_place(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.kind, Kind::Place | Kind::Coordinate(_)))
    }

    /// The smallest number of dimensions that has all coordinates of the expression.
    #[must_use]
    pub fn least_rank(&self) -> usize {
        let ranks = self.nodes.iter().map(|node| match node.kind {
            Kind::Coordinate(dimension) => usize::from(dimension) + 1,
            _ => 0,
        });
        ranks.max().unwrap_or(0)
    }
}
