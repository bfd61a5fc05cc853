//! The graph of an expression: typed nodes in a canonical order, without duplicates or dead ones. [`Builder`] makes it,
//! text and traced closures through it; planners and oracles walk [`Graph::nodes`] from first to last.

mod builder;
mod error;
mod finish;
mod raw;

use crate::dtype::{DType, Strength};
use crate::op::{Binary, Comparison, Unary};
use crate::value::Value;

pub use builder::{Builder, is_name};
pub use error::ExprError;

/// Most nodes of a graph. Enough for what unrolled loops make, and few enough that untrusted text can't exhaust memory.
pub const MAX_NODES: usize = 16_384;
/// Most tensors that are read.
pub const MAX_INPUTS: usize = 64;
/// Most run-time scalars.
pub const MAX_SCALARS: usize = 64;
/// Most outputs.
pub const MAX_OUTPUTS: usize = 64;
/// Most dimensions of a tensor.
pub const MAX_RANK: usize = 8;

/// A node's place in [`Graph::nodes`] or in the builder that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// The place, from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a node computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An element of the input of this place.
    Input(u32),
    /// The run-time scalar of this place.
    Scalar(u32),
    /// A constant, in the encoding of the node's type ([`DType::decode`]).
    Constant(u64),
    /// The element's row-major place in the shape, i64.
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
    /// `[condition, a, b]`: a where the condition is true, else b.
    Select([NodeId; 3]),
    /// Rounded to the node's type.
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

    /// The same with other operands.
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

/// One value of the expression. It is held in the [`DType::carrier`] of its type and is a number of its type only where
/// something rounds it: an input, a scalar, a constant, a cast.
///
/// Operands agree: those of `Unary`, `Binary`, `Fma`, `Compare` and the branches of `Select` have one carrier, which is the
/// node's own but for `Compare`. Conversions between carriers are `Cast` nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// What it computes.
    pub kind: Kind,
    /// Its type.
    pub dtype: DType,
    /// How much it says of the type of results. No [`Strength::Literal`] is left in a finished graph.
    pub strength: Strength,
}

impl Node {
    /// The value of a constant.
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
    /// The type in memory, or of the value that a launch passes.
    pub dtype: DType,
}

/// What is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Output {
    /// An identifier, unique among the outputs; an input's own name exactly where it is written in place.
    pub name: String,
    /// The value; its carrier is that of `dtype`.
    pub node: NodeId,
    /// The type in memory, to which the store rounds.
    pub dtype: DType,
    /// The input whose memory it overwrites. Each element is read before it is written.
    pub in_place: Option<u32>,
}

/// A finished expression: hashable, with nodes in the order in which the outputs need them (operands first, from left to
/// right), so that equal expressions are equal graphs however they were written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) inputs: Vec<Parameter>,
    pub(crate) scalars: Vec<Parameter>,
    pub(crate) outputs: Vec<Output>,
}

impl Graph {
    /// Every node; operands come before what uses them.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The input tensors, in the order of their declaration.
    #[must_use]
    pub fn inputs(&self) -> &[Parameter] {
        &self.inputs
    }

    /// The run-time scalars, in the order of their declaration. Their values are no part of the graph.
    #[must_use]
    pub fn scalars(&self) -> &[Parameter] {
        &self.scalars
    }

    /// The outputs, at least one.
    #[must_use]
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The node of an id of this graph; `None` for an id from elsewhere that is out of range.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index())
    }

    /// How often each node is used, by other nodes and by outputs.
    #[must_use]
    pub fn uses(&self) -> Vec<u32> {
        let mut uses = vec![0; self.nodes.len()];
        let operands = self.nodes.iter().flat_map(|node| node.kind.operands().to_vec());
        for id in operands.chain(self.outputs.iter().map(|output| output.node)) {
            uses[id.index()] += 1;
        }
        uses
    }

    /// Inputs that some output depends on, by place.
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

    /// The same expression with the names `x0`, `x1` … for inputs, `a0` … for scalars and `y0` … for outputs, so that kernels
    /// and their cache don't depend on what users call things. Its text is a key for that cache.
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

    /// True where a value depends on where its element stands, so that dimensions can't be merged or reordered freely.
    #[must_use]
    pub fn depends_on_place(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.kind, Kind::Place | Kind::Coordinate(_)))
    }

    /// The number of dimensions that the expression's coordinates ask for at least.
    #[must_use]
    pub fn least_rank(&self) -> usize {
        let ranks = self.nodes.iter().map(|node| match node.kind {
            Kind::Coordinate(dimension) => usize::from(dimension) + 1,
            _ => 0,
        });
        ranks.max().unwrap_or(0)
    }
}
