//! The cost of one element of an expression: bytes that must move, and operations by class. The number of issue slots per
//! operation depends on the kernel; the model estimates the time.

use std::collections::BTreeMap;

use plimsoll_core::Traffic;

use crate::dtype::{Category, DType};
use crate::function::Function;
use crate::graph::{Graph, Kind, Node};
use crate::layout::{Layout, LayoutError, Shape, Space, broadcast};
use crate::op::{Binary, Unary};

/// A class of operations that cost about the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Sum, difference, negation, absolute value, minimum, maximum.
    Add,
    /// Product.
    Mul,
    /// Fused multiply-add.
    Fma,
    /// Quotient, remainder, reciprocal.
    Divide,
    /// Square root and its reciprocal.
    Root,
    /// Floor, ceiling, rounding to integers.
    Round,
    /// exp, log, trigonometric and hyperbolic functions, erf, pow, and functions built from these.
    Function(Function),
    /// Comparison.
    Compare,
    /// Selection.
    Select,
    /// Bit operations, shifts and logic.
    Bits,
    /// Conversion between types, including conversions at loads and stores.
    Convert,
}

/// The cost of one element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Bytes per element: each used input once and each output once, with nothing broadcast.
    pub traffic: Traffic,
    /// Operations per element, by class and by the type they are computed in.
    pub operations: BTreeMap<(Class, DType), u64>,
}

impl Cost {
    /// The cost of one element of `graph`. Operations on only scalars and constants are left out: their results are the same
    /// for every element, so a kernel computes them once.
    #[must_use]
    pub fn from_graph(graph: &Graph) -> Self {
        let read = used(graph).map(|(_, dtype)| dtype.bytes()).sum();
        let written = graph.outputs().iter().map(|output| output.dtype.bytes()).sum();
        let mut operations = BTreeMap::new();
        let mut count = |class, dtype: DType| *operations.entry((class, dtype.carrier())).or_insert(0) += 1;
        let varies = varying(graph);
        for (node, _) in graph.nodes().iter().zip(&varies).filter(|(_, varies)| **varies) {
            match (class(node.kind), node.kind) {
                // A comparison is counted in its operands' type, every other operation in the result's.
                (Some(class), Kind::Compare(_, [a, _])) => count(class, graph.nodes()[a.index()].dtype),
                (Some(class), _) => count(class, node.dtype),
                (None, Kind::Input(_)) if node.dtype.carrier() != node.dtype => count(Class::Convert, node.dtype),
                (None, _) => {}
            }
        }
        for output in graph.outputs() {
            let node = &graph.nodes()[output.node.index()];
            let rounds = output.dtype.carrier() != output.dtype && !matches!(node.kind, Kind::Input(_));
            if rounds && varies[output.node.index()] {
                count(Class::Convert, output.dtype);
            }
        }
        Self { traffic: Traffic::new(read, written), operations }
    }

    /// Floating-point operations per element. A fused multiply-add counts as two; every other arithmetic operation, root and
    /// function counts as one. Comparisons, selections, conversions and integer operations don't count.
    #[must_use]
    pub fn flops(&self) -> u64 {
        let flops = |(class, dtype): &(Class, DType)| match class {
            _ if dtype.category() != Category::Float => 0,
            Class::Fma => 2,
            Class::Add | Class::Mul | Class::Divide | Class::Root | Class::Function(_) => 1,
            Class::Round | Class::Compare | Class::Select | Class::Bits | Class::Convert => 0,
        };
        self.operations.iter().map(|(key, count)| flops(key) * count).sum()
    }

    /// Floating-point operations per byte read or written; `None` if no bytes move.
    #[must_use]
    pub fn arithmetic_intensity(&self) -> Option<f64> {
        let bytes = self.traffic.total();
        (bytes > 0).then(|| self.flops() as f64 / bytes as f64)
    }
}

/// Operations that no kernel can do without, for all elements of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Least {
    /// Sums and differences.
    pub sums: u64,
    /// Products.
    pub products: u64,
    /// Fused multiply-adds.
    pub multiply_adds: u64,
}

/// Sums, products and multiply-adds that a launch over these inputs can't do without, in the floating-point type `carrier`.
/// Left out is what a kernel might compute for fewer elements than there are (an input that is broadcast) or fold away (0 as an
/// operand, ±1 as a factor), and every other operation.
#[must_use]
pub fn least_operations(graph: &Graph, inputs: &[Layout], elements: u64, carrier: DType) -> Least {
    let nodes = graph.nodes();
    let mut varies: Vec<bool> = Vec::with_capacity(nodes.len());
    let mut least = Least::default();
    for node in nodes {
        let own = match node.kind {
            Kind::Input(slot) => inputs.get(slot as usize).is_some_and(|layout| layout.distinct() >= elements),
            Kind::Place => true,
            _ => false,
        };
        let operands = node.kind.operands();
        let all = own || operands.iter().any(|id| varies[id.index()]);
        varies.push(all);
        if !all || !node.dtype.is_float() || node.dtype.carrier() != carrier {
            continue;
        }
        let constants = operands.iter().filter_map(|id| constant(nodes[id.index()]));
        let (count, neutral): (_, &[f64]) = match node.kind {
            Kind::Binary(Binary::Add | Binary::Sub, _) => (&mut least.sums, &[0.0]),
            Kind::Binary(Binary::Mul, _) => (&mut least.products, &[0.0, 1.0, -1.0]),
            Kind::Fma(_) => (&mut least.multiply_adds, &[0.0, 1.0, -1.0]),
            _ => continue,
        };
        if !constants.into_iter().any(|operand| neutral.contains(&operand)) {
            *count = count.saturating_add(elements);
        }
    }
    least
}

fn constant(node: Node) -> Option<f64> {
    let Kind::Constant(bits) = node.kind else { return None };
    Some(node.dtype.decode(bits).as_f64())
}

/// Bytes that a launch over these inputs must move: every distinct element of each used input, and every element of the
/// common shape for each output.
///
/// # Errors
/// If the shapes can't be broadcast together, or the bytes exceed 2⁶⁴ − 1.
pub fn traffic(graph: &Graph, inputs: &[Layout]) -> Result<Traffic, LayoutError> {
    let shapes: Vec<&[u64]> = inputs.iter().map(Layout::shape).collect();
    let shape = broadcast(&shapes)?;
    let space = Space::with_shape(&shape, inputs)?;
    let read =
        used(graph).filter_map(|(slot, dtype)| inputs.get(slot).map(|layout| (layout.distinct(), dtype.bytes())));
    let written = graph.outputs().iter().map(|output| (space.elements(), output.dtype.bytes()));
    let too_large = || LayoutError::Bytes(Shape(shape.clone()));
    let read = bytes(read).ok_or_else(too_large)?;
    Ok(Traffic::new(read, bytes(written).ok_or_else(too_large)?))
}

/// The sum of count × bytes; `None` if it exceeds 2⁶⁴ − 1.
fn bytes(mut parts: impl Iterator<Item = (u64, u64)>) -> Option<u64> {
    parts.try_fold(0_u64, |sum, (count, bytes)| sum.checked_add(count.checked_mul(bytes)?))
}

/// Positions and types of the inputs that some output depends on.
fn used(graph: &Graph) -> impl Iterator<Item = (usize, DType)> + '_ {
    let reads = graph.reads().into_iter().enumerate();
    reads.filter(|(_, read)| *read).map(|(slot, _)| (slot, graph.inputs()[slot].dtype))
}

/// For each node, whether its value differs between elements.
fn varying(graph: &Graph) -> Vec<bool> {
    let mut varies: Vec<bool> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let own = matches!(node.kind, Kind::Input(_) | Kind::Place | Kind::Coordinate(_));
        varies.push(own || node.kind.operands().iter().any(|id| varies[id.index()]));
    }
    varies
}

fn class(kind: Kind) -> Option<Class> {
    Some(match kind {
        Kind::Input(_) | Kind::Scalar(_) | Kind::Constant(_) | Kind::Place | Kind::Coordinate(_) => return None,
        Kind::Unary(op, _) => match op {
            Unary::Neg | Unary::Abs | Unary::Sign | Unary::Relu => Class::Add,
            Unary::Not => Class::Bits,
            Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => Class::Round,
            Unary::Sqrt | Unary::Rsqrt => Class::Root,
            Unary::Recip => Class::Divide,
            op => Class::Function(Function::Unary(op)),
        },
        Kind::Binary(op, _) => match op {
            Binary::Add | Binary::Sub | Binary::Min | Binary::Max | Binary::Fmin | Binary::Fmax => Class::Add,
            Binary::Mul => Class::Mul,
            Binary::Div | Binary::FloorDiv | Binary::Rem => Class::Divide,
            Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr => Class::Bits,
            op @ (Binary::Pow | Binary::Atan2) => Class::Function(Function::Binary(op)),
        },
        Kind::Compare(..) => Class::Compare,
        Kind::Fma(_) => Class::Fma,
        Kind::Select(_) => Class::Select,
        Kind::Cast(_) => Class::Convert,
    })
}
