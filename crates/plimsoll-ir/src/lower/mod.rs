//! From an expression to a program.
//!
//! Every node becomes one or a few instructions. Functions of f32 become the shortest form that the node's [`Need`] and the tier
//! allow; the rest stay functions of the target's library. A common block may hold guards; then a general block is lowered without.

mod divide;
mod functions;
pub mod need;
mod term;

use std::cell::RefCell;

use plimsoll_expr::graph::{Kind, Node};
use plimsoll_expr::op::{Binary, Comparison, Unary};
use plimsoll_expr::{Category, DType, Graph, NodeId, Value};

use crate::{Block, Builder, Id, Op, Program};
use need::Need;
use term::Term;

/// How accurate results have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accuracy {
    /// As [`Self::Accurate`], but quotients, roots and inverses have the bits of IEEE 754 also where only 16 bits are stored.
    Exact,
    /// As documented for the tier `accurate`.
    Accurate,
    /// As documented for the tier `fast`.
    Fast,
    /// The target's own f32 functions, even for 16-bit results.
    Full,
}

/// Lowers an expression, with guards if `guarded`. Plain copies in `graph` should be integers ([`Graph::with_raw_copies`]), and products
/// that sums take in should be fused ([`Graph::with_fused_products`]).
#[must_use]
pub fn lower(graph: &Graph, accuracy: Accuracy, guarded: bool) -> Program {
    let common = Lowering::new(graph, accuracy, guarded).run();
    let general = (!common.guards.is_empty()).then(|| Lowering::new(graph, accuracy, false).run());
    Program {
        inputs: graph.inputs().iter().map(|input| input.dtype).collect(),
        scalars: graph.scalars().iter().map(|scalar| scalar.dtype).collect(),
        outputs: graph.outputs().iter().map(|output| output.dtype).collect(),
        common,
        general,
    }
}

/// Whether the function of f32 is correctly rounded where it isn't shortened.
fn is_rounded_once(kind: Kind) -> bool {
    matches!(kind, Kind::Unary(Unary::Sqrt | Unary::Recip, _) | Kind::Binary(Binary::Div, _))
}

struct Lowering<'g> {
    graph: &'g Graph,
    accuracy: Accuracy,
    /// Whether guards are allowed.
    guarded: bool,
    needs: Vec<Need>,
    /// For each node, whether it is a cast to 16 or 8 bits that only stores use, which do the rounding anyway.
    stored: Vec<bool>,
    builder: RefCell<Builder>,
    values: Vec<Id>,
}

impl<'g> Lowering<'g> {
    fn new(graph: &'g Graph, accuracy: Accuracy, guarded: bool) -> Self {
        let (uses, mut stores) = (graph.uses(), vec![0_u32; graph.nodes().len()]);
        for output in graph.outputs() {
            let node = &graph.nodes()[output.node.index()];
            stores[output.node.index()] += u32::from(matches!(node.kind, Kind::Cast(_)) && node.dtype == output.dtype);
        }
        let stored = uses.iter().zip(&stores).map(|(uses, stores)| *stores > 0 && uses == stores).collect();
        Self {
            graph,
            accuracy,
            guarded,
            needs: need::needs(graph),
            stored,
            builder: RefCell::default(),
            values: Vec::with_capacity(graph.nodes().len()),
        }
    }

    fn run(mut self) -> Block {
        for place in 0..self.graph.nodes().len() {
            let id = self.node(place);
            self.values.push(id);
        }
        let results = self.graph.outputs().iter().map(|output| self.values[output.node.index()]).collect();
        self.builder.into_inner().finish(results)
    }

    fn value(&self, id: NodeId) -> Id {
        self.values[id.index()]
    }

    fn term(&self, id: NodeId) -> Term<'_> {
        Term::new(&self.builder, self.value(id))
    }

    fn add(&self, op: Op, dtype: DType, operands: &[NodeId]) -> Id {
        let operands: Vec<Id> = operands.iter().map(|id| self.value(*id)).collect();
        self.builder.borrow_mut().add(op, dtype, &operands)
    }

    fn node(&self, place: usize) -> Id {
        let node = &self.graph.nodes()[place];
        let dtype = node.dtype.carrier();
        match node.kind {
            Kind::Input(slot) => self.builder.borrow_mut().parameter(Op::Input(slot), node.dtype),
            Kind::Scalar(slot) => self.builder.borrow_mut().parameter(Op::Scalar(slot), node.dtype),
            Kind::Constant(_) => {
                let value = node.constant().unwrap_or(Value::Int(0));
                self.builder.borrow_mut().constant(dtype, value)
            }
            Kind::Place => self.builder.borrow_mut().parameter(Op::Place, DType::I64),
            Kind::Coordinate(dimension) => self.builder.borrow_mut().parameter(Op::Coordinate(dimension), DType::I64),
            Kind::Unary(op, a) => self.unary(op, a, dtype, self.need(place)),
            Kind::Binary(op, operands) => self.binary(op, operands, dtype, self.need(place)),
            Kind::Compare(op, operands) => self.compare(op, operands),
            Kind::Fma(operands) => self.add(Op::Fma, dtype, &operands),
            Kind::Select(operands) => self.add(Op::Select, dtype, &operands),
            Kind::Cast(a) => self.cast(node, a, self.stored[place]),
        }
    }

    /// The precision that decides a node's form.
    fn need(&self, place: usize) -> Need {
        match (self.accuracy, self.needs[place]) {
            (Accuracy::Full, _) => Need::Full,
            (Accuracy::Exact, _) if is_rounded_once(self.graph.nodes()[place].kind) => Need::Full,
            (Accuracy::Fast, Need::Full) => Need::Wide,
            (_, need) => need,
        }
    }

    fn unary(&self, op: Unary, a: NodeId, dtype: DType, need: Need) -> Id {
        let x = self.term(a);
        match (op, dtype) {
            (Unary::Relu, DType::F32 | DType::F64) => x.max(0.0).id,
            (_, DType::F32 | DType::F64) => functions::unary(op, x, need, self.guarded).id,
            _ => self.add(Op::Unary(op), dtype, &[a]),
        }
    }

    fn binary(&self, op: Binary, operands: [NodeId; 2], dtype: DType, need: Need) -> Id {
        let [a, b] = operands;
        match op {
            Binary::Div if dtype == DType::F32 => divide::single(self.term(a), self.term(b), need, self.guarded).id,
            Binary::Div if dtype == DType::F64 => divide::double(self.term(a), self.term(b), self.guarded).id,
            Binary::Pow | Binary::Atan2 if dtype == DType::F32 => {
                functions::binary(op, self.term(a), self.term(b), need, self.guarded).id
            }
            _ => self.add(Op::Binary(op), dtype, &[a, b]),
        }
    }

    fn compare(&self, op: Comparison, [a, b]: [NodeId; 2]) -> Id {
        let compared = self.add(Op::Compare(op), DType::Bool, &[a, b]);
        let is_order = !matches!(op, Comparison::Equal | Comparison::NotEqual);
        if is_order && (self.has_known_sign(a) || self.has_known_sign(b)) {
            let mut builder = self.builder.borrow_mut();
            let ordered = builder.add(Op::Ordered, DType::Bool, &[self.value(a), self.value(b)]);
            return builder.add(Op::Binary(Binary::And), DType::Bool, &[ordered, compared]);
        }
        compared
    }

    /// Whether NVIDIA's compiler may know the sign of a value that the device computes in f32. If it does, it ignores that
    /// comparisons with NaN are false (ptxas 13.0).
    fn has_known_sign(&self, id: NodeId) -> bool {
        let node = &self.graph.nodes()[id.index()];
        let is_known = |id: NodeId| self.has_known_sign(id);
        node.dtype.carrier() == DType::F32
            && match node.kind {
                Kind::Unary(Unary::Abs, _) => true,
                Kind::Unary(Unary::Neg, a) | Kind::Cast(a) => is_known(a),
                Kind::Binary(Binary::Min | Binary::Max | Binary::Fmin | Binary::Fmax, [a, b])
                | Kind::Select([_, a, b]) => is_known(a) || is_known(b),
                _ => false,
            }
    }

    fn cast(&self, node: &Node, a: NodeId, stored: bool) -> Id {
        let (to, from) = (node.dtype, self.graph.nodes()[a.index()].dtype.carrier());
        let mut builder = self.builder.borrow_mut();
        let x = self.value(a);
        match (to.category(), to) {
            // The same type, or a narrower float to f32, which is its carrier.
            _ if from == to => x,
            (Category::Bool | Category::Int, _) | (_, DType::F32 | DType::F64) => builder.add(Op::Convert, to, &[x]),
            // Rounding to odd makes the final rounding correct.
            _ => {
                let single = if from == DType::F32 { x } else { builder.add(Op::Odd, DType::F32, &[x]) };
                if stored { single } else { builder.add(Op::Narrow(to), DType::F32, &[single]) }
            }
        }
    }
}
