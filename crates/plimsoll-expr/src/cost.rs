//! What one element of an expression costs: bytes that must move, and operations by class. How many issue slots an operation
//! takes is the kernel's matter, and how long it takes the model's.

use std::collections::BTreeMap;

use plimsoll_core::Traffic;

use crate::dtype::{Category, DType};
use crate::function::Function;
use crate::graph::{Graph, Kind};
use crate::layout::{Layout, LayoutError, Shape, Space, broadcast};
use crate::op::{Binary, Unary};

/// A kind of operation, as far as cost is concerned.
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
    /// exp, log, trigonometric and hyperbolic functions, erf, pow, and what is made of them.
    Function(Function),
    /// Comparison.
    Compare,
    /// Selection.
    Select,
    /// Bit operations, shifts and logic.
    Bits,
    /// Conversion between types, at loads and stores too.
    Convert,
}

/// What one element costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Bytes per element: each input that is used once, each output once, nothing broadcast.
    pub traffic: Traffic,
    /// Operations per element, by class and by the type in which they are done.
    pub operations: BTreeMap<(Class, DType), u64>,
}

impl Cost {
    /// The cost of an element of `graph`. Work on scalars and constants alone is left out: it is the same for every element,
    /// so a kernel does it once.
    #[must_use]
    pub fn of(graph: &Graph) -> Self {
        let read = used(graph).map(|(_, dtype)| dtype.bytes()).sum();
        let written = graph.outputs().iter().map(|output| output.dtype.bytes()).sum();
        let mut operations = BTreeMap::new();
        let mut count = |class, dtype: DType| *operations.entry((class, dtype.carrier())).or_insert(0) += 1;
        let varies = varying(graph);
        for (node, _) in graph.nodes().iter().zip(&varies).filter(|(_, varies)| **varies) {
            match (class(node.kind), node.kind) {
                // Compared in the operands' type, converted in the result's.
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

    /// Floating-point operations per element: a fused multiply-add counts as two, every other arithmetic operation, root and
    /// function as one; comparisons, selections, conversions and integers don't count.
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

    /// Floating-point operations per byte read or written; `None` where nothing moves.
    #[must_use]
    pub fn arithmetic_intensity(&self) -> Option<f64> {
        let bytes = self.traffic.total();
        (bytes > 0).then(|| self.flops() as f64 / bytes as f64)
    }
}

/// Bytes that a launch over these inputs must move: of each input that is used, every element that is reached once; of each
/// output, every element of the common shape.
///
/// # Errors
/// If the shapes don't go together, or bytes exceed 2⁶⁴ − 1.
pub fn traffic(graph: &Graph, inputs: &[Layout]) -> Result<Traffic, LayoutError> {
    let shapes: Vec<&[u64]> = inputs.iter().map(Layout::shape).collect();
    let shape = broadcast(&shapes)?;
    let space = Space::of(&shape, inputs)?;
    let read =
        used(graph).filter_map(|(slot, dtype)| inputs.get(slot).map(|layout| (layout.distinct(), dtype.bytes())));
    let written = graph.outputs().iter().map(|output| (space.elements(), output.dtype.bytes()));
    let too_large = || LayoutError::Bytes(Shape(shape.clone()));
    let read = bytes(read).ok_or_else(too_large)?;
    Ok(Traffic::new(read, bytes(written).ok_or_else(too_large)?))
}

/// The sum of counts times bytes; `None` beyond 2⁶⁴ − 1.
fn bytes(mut parts: impl Iterator<Item = (u64, u64)>) -> Option<u64> {
    parts.try_fold(0_u64, |sum, (count, bytes)| sum.checked_add(count.checked_mul(bytes)?))
}

/// Places and types of the inputs that some output depends on.
fn used(graph: &Graph) -> impl Iterator<Item = (usize, DType)> + '_ {
    let reads = graph.reads().into_iter().enumerate();
    reads.filter(|(_, read)| *read).map(|(slot, _)| (slot, graph.inputs()[slot].dtype))
}

/// Which nodes differ from element to element.
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
