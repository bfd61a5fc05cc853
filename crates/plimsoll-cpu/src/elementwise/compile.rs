//! From a graph to the steps of a tile: which loop computes a node, in which slot, and when a slot is free again. How large
//! a tile is and how tensors are walked is [`super::plan`]'s.

use plimsoll_expr::graph::{Kind, NodeId};
use plimsoll_expr::op::{Binary, Comparison};
use plimsoll_expr::{DType, Graph, Node};

use crate::arch::vectored::operation::{self, Fused, Operation};
use crate::arch::vectored::{Place, Set, Step};

/// How the tensors lie, as far as steps depend on it.
#[derive(Clone, Debug)]
pub(super) struct Lie {
    /// Inputs whose tiles have no gaps.
    pub inputs: Vec<bool>,
    /// The same of outputs.
    pub outputs: Vec<bool>,
    /// Whether stores go past the caches, which only copies of whole slots do.
    pub nontemporal: bool,
}

/// The steps, and what they need.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    pub steps: Vec<Step>,
    pub slots: u16,
    /// Nodes that are the same for all elements and that steps take, in the order of their numbers.
    pub uniforms: Vec<usize>,
}

/// What is known of a node while steps are made.
struct Compiler<'g> {
    graph: &'g Graph,
    set: Set,
    lie: &'g Lie,
    made: Steps,
    /// Whether the node is the same for all elements.
    uniform: Vec<bool>,
    /// Where its elements are.
    places: Vec<Option<Place>>,
    /// How many steps have yet to read it.
    pending: Vec<u32>,
    /// Products that are computed within the sum that is their only use.
    within: Vec<bool>,
    free: Vec<u16>,
}

/// The nodes that don't depend on the element.
pub(super) fn uniform_nodes(graph: &Graph) -> Vec<bool> {
    let mut uniform: Vec<bool> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        uniform.push(match node.kind {
            Kind::Input(_) | Kind::Place | Kind::Coordinate(_) => false,
            kind => kind.operands().iter().all(|id| uniform[id.index()]),
        });
    }
    uniform
}

/// The steps of `graph`.
pub(super) fn steps(graph: &Graph, set: Set, lie: &Lie) -> Steps {
    let count = graph.nodes().len();
    let mut compiler = Compiler {
        graph,
        set,
        lie,
        made: Steps::default(),
        uniform: uniform_nodes(graph),
        places: vec![None; count],
        pending: graph.uses(),
        within: vec![false; count],
        free: Vec::new(),
    };
    compiler.find_products();
    for place in 0..count {
        if !compiler.uniform[place] && !compiler.within[place] {
            compiler.node(place);
        }
    }
    compiler.late_outputs();
    compiler.made
}

impl Compiler<'_> {
    fn at(&self, id: NodeId) -> Node {
        self.graph.nodes()[id.index()]
    }

    /// Products that are used once, by a sum.
    fn find_products(&mut self) {
        let uses = self.graph.uses();
        for node in self.graph.nodes() {
            let Kind::Binary(Binary::Add | Binary::Sub, operands) = node.kind else { continue };
            let product = operands.iter().rev().find(|id| {
                let product = matches!(self.at(**id).kind, Kind::Binary(Binary::Mul, _));
                product && uses[id.index()] == 1 && !self.uniform[id.index()]
            });
            if let Some(product) = product.filter(|_| node.dtype.carrier().is_float()) {
                self.within[product.index()] = true;
            }
        }
    }

    fn slot(&mut self) -> Place {
        Place::Slot(self.free.pop().unwrap_or_else(|| {
            self.made.slots += 1;
            self.made.slots - 1
        }))
    }

    fn release(&mut self, place: Place) {
        if let Place::Slot(slot) = place {
            self.free.push(slot);
        }
    }

    /// One use of a node less.
    fn used(&mut self, id: NodeId) {
        let pending = &mut self.pending[id.index()];
        *pending = pending.saturating_sub(1);
        if *pending == 0
            && let Some(place) = self.places[id.index()]
        {
            self.release(place);
        }
    }

    /// Where an operand is.
    fn operand(&mut self, id: NodeId) -> Place {
        if self.uniform[id.index()] {
            return self.value(id.index());
        }
        // Operands come before what uses them; a product within a sum isn't asked for.
        self.places[id.index()].unwrap_or(Place::Slot(0))
    }

    fn value(&mut self, node: usize) -> Place {
        let known = self.made.uniforms.iter().position(|&known| known == node);
        Place::Uniform(known.unwrap_or_else(|| {
            self.made.uniforms.push(node);
            self.made.uniforms.len() - 1
        }) as u16)
    }

    /// The outputs of a node: those that can be stored as soon as it is known, by place.
    fn early_outputs(&self, node: usize) -> Vec<usize> {
        let outputs = self.graph.outputs().iter().enumerate();
        let early = outputs.filter(|(_, output)| output.node.index() == node && output.in_place.is_none());
        early.map(|(place, _)| place).collect()
    }

    /// The output into whose memory a node's loop can write: dense, of its carrier, and its only use.
    fn target(&self, node: usize) -> Option<Place> {
        let early = self.early_outputs(node);
        let &[output] = early.as_slice() else { return None };
        let dtype = self.graph.outputs()[output].dtype;
        let as_it_is = dtype == dtype.carrier() && (dtype != DType::Bool || self.makes_truth(node));
        let only = self.pending[node] == 1 && as_it_is;
        (only && self.lie.outputs[output] && !self.lie.nontemporal).then_some(Place::Output(output as u16))
    }

    fn node(&mut self, place: usize) {
        let node = self.graph.nodes()[place];
        match node.kind {
            Kind::Input(slot) => self.input(place, slot as u16, node.dtype),
            Kind::Place | Kind::Coordinate(_) => {
                let dimension = if let Kind::Coordinate(dimension) = node.kind { Some(dimension) } else { None };
                let out = self.slot();
                self.made.steps.push(Step::Coordinates { dimension, out });
                self.places[place] = Some(out);
            }
            kind => self.computed(place, node, kind),
        }
        for output in self.early_outputs(place) {
            self.store(output);
        }
    }

    /// An input's elements in its carrier. Nothing is done for one that is only stored as it is.
    fn input(&mut self, place: usize, input: u16, dtype: DType) {
        let copies = self
            .graph
            .outputs()
            .iter()
            .filter(|output| self.is_raw(output.node, output.dtype))
            .filter(|output| output.node.index() == place);
        if copies.count() as u32 == self.pending[place] {
            return;
        }
        let dense = self.lie.inputs[usize::from(input)];
        let raw = if dense { Place::Input(input) } else { self.gather(input) };
        let place_of = match operation::unpack(self.set, dtype) {
            Some(operation) => {
                let out = self.slot();
                self.made.steps.push(Step::Apply { operation, out, operands: [raw; 3] });
                self.release(raw);
                out
            }
            None => raw,
        };
        self.places[place] = Some(place_of);
    }

    fn gather(&mut self, input: u16) -> Place {
        let out = self.slot();
        self.made.steps.push(Step::Gather { input, out });
        out
    }

    /// Whether a node's loop leaves nothing but 0 and 1: others on `bool` take it from their operands.
    fn makes_truth(&self, node: usize) -> bool {
        matches!(self.graph.nodes()[node].kind, Kind::Compare(..) | Kind::Cast(_) | Kind::Input(_))
    }

    /// What makes memory's elements of a node's.
    fn pack(&self, id: NodeId, dtype: DType) -> Option<Operation> {
        let needed = dtype != DType::Bool || (!self.makes_truth(id.index()) && !self.uniform[id.index()]);
        operation::pack(self.set, dtype).filter(|_| needed)
    }

    /// Whether an output stores an input's own bits. Any byte but 0 is true, but only 1 is stored.
    fn is_raw(&self, id: NodeId, dtype: DType) -> bool {
        let node = self.at(id);
        matches!(node.kind, Kind::Input(_)) && node.dtype == dtype && dtype != DType::Bool
    }

    /// An operation's loop. Its result goes to a slot, or straight into an output.
    fn computed(&mut self, place: usize, node: Node, kind: Kind) {
        let product = kind.operands().iter().copied().find(|id| self.within[id.index()]);
        let (ids, step) = match product {
            Some(product) => self.sum(node, kind, product),
            None => (kind.operands().to_vec(), self.plain(node, kind)),
        };
        let direct = if matches!(step, Step::Apply { .. }) { self.target(place) } else { None };
        let to = direct.unwrap_or_else(|| self.slot());
        let step = match step {
            Step::Apply { operation, operands, .. } => Step::Apply { operation, out: to, operands },
            Step::Reference { kind, dtype, of, operands, .. } => Step::Reference { kind, dtype, of, out: to, operands },
            other => other,
        };
        self.made.steps.push(step);
        self.places[place] = Some(to);
        for id in ids {
            self.used(id);
        }
    }

    fn places_of(&mut self, ids: &[NodeId]) -> ([Place; 3], u8) {
        let mut places = [Place::Uniform(0); 3];
        let mut uniform = 0;
        for (i, &id) in ids.iter().enumerate() {
            places[i] = self.operand(id);
            uniform |= u8::from(self.uniform[id.index()]) << i;
        }
        (places, uniform)
    }

    /// Two operations in one pass: a sum of a product.
    fn sum(&mut self, node: Node, kind: Kind, product: NodeId) -> (Vec<NodeId>, Step) {
        let Kind::Binary(op, [left, right]) = kind else { return self.whole(node, kind) };
        let Kind::Binary(_, [a, b]) = self.at(product).kind else { return self.whole(node, kind) };
        let (fused, c) = match (op, product == left) {
            (Binary::Add, true) => (Fused::MulAdd, right),
            (Binary::Add, false) => (Fused::MulAdd, left),
            (_, true) => (Fused::MulSub, right),
            (_, false) => (Fused::SubMul, left),
        };
        let ids = [a, b, c];
        let (operands, uniform) = self.places_of(&ids);
        let Some(operation) = operation::fused(self.set, fused, node.dtype, uniform) else {
            return self.whole(node, kind);
        };
        (ids.to_vec(), Step::Apply { operation, out: Place::Slot(0), operands })
    }

    fn whole(&mut self, node: Node, kind: Kind) -> (Vec<NodeId>, Step) {
        (kind.operands().to_vec(), self.plain(node, kind))
    }

    fn plain(&mut self, node: Node, kind: Kind) -> Step {
        let ids = kind.operands();
        let (mut operands, uniform) = self.places_of(&ids);
        let dtype_of = |i: usize| ids.get(i).map_or(node.dtype, |id| self.graph.nodes()[id.index()].dtype);
        let found: Option<Operation> = match kind {
            Kind::Unary(op, _) => operation::unary(self.set, op, node.dtype),
            Kind::Binary(op, _) => operation::binary(self.set, op, node.dtype, uniform),
            Kind::Compare(op, _) => exchanging(self.set, op, dtype_of(0), uniform, &mut operands),
            Kind::Fma(_) => operation::fused(self.set, Fused::Fma, node.dtype, uniform),
            Kind::Select(_) => operation::select(self.set, node.dtype, uniform),
            Kind::Cast(_) => operation::cast(self.set, dtype_of(0), node.dtype),
            _ => None,
        };
        let out = Place::Slot(0);
        match found {
            Some(operation) => Step::Apply { operation, out, operands },
            None => {
                let of = [0, 1, 2].map(dtype_of);
                Step::Reference { kind, dtype: node.dtype, of, out, operands }
            }
        }
    }

    /// Stores an output whose node is known.
    fn store(&mut self, place: usize) {
        let output = &self.graph.outputs()[place];
        let (id, dtype, number) = (output.node, output.dtype, place as u16);
        if self.is_raw(id, dtype) {
            self.store_raw(place);
        } else {
            let from = self.value_to_store(id);
            if from == Place::Output(number) {
                return;
            }
            match self.pack(id, dtype) {
                Some(operation) => {
                    let direct = self.lie.outputs[place] && !self.lie.nontemporal && output.in_place.is_none();
                    let out = if direct { Place::Output(number) } else { self.slot() };
                    self.made.steps.push(Step::Apply { operation, out, operands: [from; 3] });
                    if !direct {
                        self.made.steps.push(Step::Scatter { output: number, from: out });
                        self.release(out);
                    }
                }
                None => self.made.steps.push(Step::Scatter { output: number, from }),
            }
            if self.uniform[id.index()] {
                self.release(from);
            }
        }
        self.used(id);
    }

    /// Where a node's elements are to be stored from: a slot of them for one that is the same for all, or that would be
    /// copied onto itself.
    fn value_to_store(&mut self, id: NodeId) -> Place {
        let node = self.at(id);
        if !self.uniform[id.index()] {
            return self.operand(id);
        }
        let from = self.operand(id);
        let (out, carrier) = (self.slot(), node.dtype.carrier());
        let (kind, of) = (Kind::Cast(id), [carrier; 3]);
        self.made.steps.push(Step::Reference { kind, dtype: carrier, of, out, operands: [from; 3] });
        out
    }

    fn store_raw(&mut self, place: usize) {
        let output = &self.graph.outputs()[place];
        let Kind::Input(input) = self.at(output.node).kind else { return };
        let (input, number) = (input as u16, place as u16);
        let dense = self.lie.inputs[usize::from(input)];
        let from = if dense { Place::Input(input) } else { self.gather(input) };
        self.made.steps.push(Step::Scatter { output: number, from });
        self.release(from);
    }

    /// Outputs that overwrite inputs, and those that are the same for all elements: after everything that reads. What is
    /// stored as an input has it is read before any of them is written.
    fn late_outputs(&mut self) {
        let outputs = self.graph.outputs();
        let uniform: Vec<usize> = (0..outputs.len())
            .filter(|&i| outputs[i].in_place.is_none() && self.uniform[outputs[i].node.index()])
            .collect();
        for place in uniform {
            self.store(place);
        }
        let in_place = (0..outputs.len()).filter(|&i| outputs[i].in_place.is_some());
        let mut stores = Vec::new();
        for place in in_place {
            let output = &outputs[place];
            let own = matches!(self.at(output.node).kind, Kind::Input(slot) if Some(slot) == output.in_place);
            // x = x changes nothing, unless it makes truth of a byte.
            if own && self.is_raw(output.node, output.dtype) {
                self.used(output.node);
                continue;
            }
            let from = self.kept(output.node, output.dtype);
            stores.push(Step::Scatter { output: place as u16, from });
        }
        self.made.steps.extend(stores);
    }

    /// A slot with what an output is to hold, as memory has it. It isn't freed.
    fn kept(&mut self, id: NodeId, dtype: DType) -> Place {
        if self.is_raw(id, dtype) {
            let Kind::Input(input) = self.at(id).kind else { return Place::Slot(0) };
            let input = input as u16;
            if !self.lie.inputs[usize::from(input)] {
                return self.gather(input);
            }
            return self.copied(Place::Input(input), dtype);
        }
        let from = self.value_to_store(id);
        match self.pack(id, dtype) {
            Some(operation) => {
                let out = self.slot();
                self.made.steps.push(Step::Apply { operation, out, operands: [from; 3] });
                out
            }
            None if matches!(from, Place::Slot(_)) => from,
            None => self.copied(from, dtype),
        }
    }

    fn copied(&mut self, from: Place, dtype: DType) -> Place {
        let out = self.slot();
        if let Some(operation) = operation::copy(self.set, dtype) {
            self.made.steps.push(Step::Apply { operation, out, operands: [from; 3] });
        }
        out
    }
}

/// A comparison, with its operands exchanged where only the other one has a loop.
fn exchanging(set: Set, op: Comparison, dtype: DType, uniform: u8, operands: &mut [Place; 3]) -> Option<Operation> {
    let (operation, exchanged) = operation::compare(set, op, dtype, uniform)?;
    if exchanged {
        operands.swap(0, 1);
    }
    Some(operation)
}
