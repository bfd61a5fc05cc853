//! Compiles a graph to the steps of a tile: which loop computes a node, in which slot, and when a slot is free again.
//! [`super::plan`] decides the size of a tile and the order in which tensors are indexed.

use plimsoll_expr::graph::{Kind, NodeId};
use plimsoll_expr::op::{Binary, Comparison};
use plimsoll_expr::{DType, Graph, Node};

use crate::arch::vectored::operation::{self, Fused, Operation};
use crate::arch::vectored::{Place, Set, Step};

/// The properties of the tensors' layouts on which steps depend.
#[derive(Clone, Debug)]
pub(super) struct Contiguity {
    /// Whether each input's tiles are contiguous.
    pub inputs: Vec<bool>,
    /// Whether each output's tiles are contiguous.
    pub outputs: Vec<bool>,
    /// Whether stores bypass the caches, for which results pass through slots.
    pub nontemporal: bool,
}

/// The steps, and the slots and uniform values that they need.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    pub steps: Vec<Step>,
    pub slots: u16,
    /// Uniform nodes that steps use; a step refers to them by position.
    pub uniforms: Vec<usize>,
}

/// The state of a compilation.
struct Compiler<'g> {
    graph: &'g Graph,
    set: Set,
    contiguity: &'g Contiguity,
    output: Steps,
    /// Whether the node is the same for all elements.
    uniform: Vec<bool>,
    /// Where the node's elements are.
    places: Vec<Option<Place>>,
    /// How many uses of the node are left.
    pending: Vec<u32>,
    /// Whether the node is a product that is fused into the sum that is its only use.
    fused: Vec<bool>,
    free: Vec<u16>,
}

/// Whether each node is uniform: the same for all elements.
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

/// Compiles `graph` to steps.
pub(super) fn compile_steps(graph: &Graph, set: Set, contiguity: &Contiguity) -> Steps {
    let count = graph.nodes().len();
    let mut compiler = Compiler {
        graph,
        set,
        contiguity,
        output: Steps::default(),
        uniform: uniform_nodes(graph),
        places: vec![None; count],
        pending: graph.uses(),
        fused: vec![false; count],
        free: Vec::new(),
    };
    compiler.find_products();
    for place in 0..count {
        if !compiler.uniform[place] && !compiler.fused[place] {
            compiler.compile_node(place);
        }
    }
    compiler.store_late_outputs();
    compiler.output
}

impl Compiler<'_> {
    fn node(&self, id: NodeId) -> Node {
        self.graph.nodes()[id.index()]
    }

    /// Finds products that are used once, by a sum.
    fn find_products(&mut self) {
        let uses = self.graph.uses();
        for node in self.graph.nodes() {
            let Kind::Binary(Binary::Add | Binary::Sub, operands) = node.kind else { continue };
            let product = operands.iter().rev().find(|id| {
                let product = matches!(self.node(**id).kind, Kind::Binary(Binary::Mul, _));
                product && uses[id.index()] == 1 && !self.uniform[id.index()]
            });
            if let Some(product) = product.filter(|_| node.dtype.carrier().is_float()) {
                self.fused[product.index()] = true;
            }
        }
    }

    fn take_slot(&mut self) -> Place {
        Place::Slot(self.free.pop().unwrap_or_else(|| {
            self.output.slots += 1;
            self.output.slots - 1
        }))
    }

    fn release(&mut self, place: Place) {
        if let Place::Slot(slot) = place {
            self.free.push(slot);
        }
    }

    /// Counts one use of a node less, and frees its slot after the last.
    fn release_use(&mut self, id: NodeId) {
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
        // Operands come before their uses, and this isn't called for a fused product, so the place is known.
        self.places[id.index()].unwrap_or(Place::Slot(0))
    }

    fn value(&mut self, node: usize) -> Place {
        let known = self.output.uniforms.iter().position(|&known| known == node);
        Place::Uniform(known.unwrap_or_else(|| {
            self.output.uniforms.push(node);
            self.output.uniforms.len() - 1
        }) as u16)
    }

    /// The indices of a node's outputs that can be stored as soon as it is computed.
    fn early_outputs(&self, node: usize) -> Vec<usize> {
        let outputs = self.graph.outputs().iter().enumerate();
        let early = outputs.filter(|(_, output)| output.node.index() == node && output.in_place.is_none());
        early.map(|(place, _)| place).collect()
    }

    /// The output into whose memory a node's loop can write directly: contiguous, in the carrier's format, and the node's only
    /// use.
    fn target(&self, node: usize) -> Option<Place> {
        let early = self.early_outputs(node);
        let &[output] = early.as_slice() else { return None };
        let dtype = self.graph.outputs()[output].dtype;
        let same_format = dtype == dtype.carrier() && (dtype != DType::Bool || self.yields_bool(node));
        let only = self.pending[node] == 1 && same_format;
        (only && self.contiguity.outputs[output] && !self.contiguity.nontemporal)
            .then_some(Place::Output(output as u16))
    }

    fn compile_node(&mut self, place: usize) {
        let node = self.graph.nodes()[place];
        match node.kind {
            Kind::Input(slot) => self.compile_input(place, slot as u16, node.dtype),
            Kind::Place | Kind::Coordinate(_) => {
                let dimension = if let Kind::Coordinate(dimension) = node.kind { Some(dimension) } else { None };
                let out = self.take_slot();
                self.output.steps.push(Step::Coordinates { dimension, out });
                self.places[place] = Some(out);
            }
            kind => self.compile_operation(place, node, kind),
        }
        for output in self.early_outputs(place) {
            self.store(output);
        }
    }

    /// Converts an input's elements to its carrier. Does nothing for an input that is only copied to outputs.
    fn compile_input(&mut self, place: usize, input: u16, dtype: DType) {
        let copies = self
            .graph
            .outputs()
            .iter()
            .filter(|output| self.is_raw(output.node, output.dtype))
            .filter(|output| output.node.index() == place);
        if copies.count() as u32 == self.pending[place] {
            return;
        }
        let dense = self.contiguity.inputs[usize::from(input)];
        let raw = if dense { Place::Input(input) } else { self.gather(input) };
        let place_of = match operation::unpack(self.set, dtype) {
            Some(operation) => {
                let out = self.take_slot();
                self.output.steps.push(Step::Apply { operation, out, operands: [raw; 3] });
                self.release(raw);
                out
            }
            None => raw,
        };
        self.places[place] = Some(place_of);
    }

    fn gather(&mut self, input: u16) -> Place {
        let out = self.take_slot();
        self.output.steps.push(Step::Gather { input, out });
        out
    }

    /// Whether a node's loop yields 0 or 1 for any operands. Other operations on `bool` do so only if their operands are 0 or 1.
    fn yields_bool(&self, node: usize) -> bool {
        matches!(self.graph.nodes()[node].kind, Kind::Compare(..) | Kind::Cast(_) | Kind::Input(_))
    }

    /// The operation that converts a node's elements to memory format, if one is needed.
    fn pack(&self, id: NodeId, dtype: DType) -> Option<Operation> {
        let needed = dtype != DType::Bool || (!self.yields_bool(id.index()) && !self.uniform[id.index()]);
        operation::pack(self.set, dtype).filter(|_| needed)
    }

    /// Whether an output stores an input's bits unchanged. Not for `bool`: any byte except 0 is read as true, but only 1 is stored.
    fn is_raw(&self, id: NodeId, dtype: DType) -> bool {
        let node = self.node(id);
        matches!(node.kind, Kind::Input(_)) && node.dtype == dtype && dtype != DType::Bool
    }

    /// Compiles an operation. Its result goes to a slot, or directly to an output.
    fn compile_operation(&mut self, place: usize, node: Node, kind: Kind) {
        let product = kind.operands().iter().copied().find(|id| self.fused[id.index()]);
        let (ids, step) = match product {
            Some(product) => self.fused_step(node, kind, product),
            None => (kind.operands().to_vec(), self.single_step(node, kind)),
        };
        let direct = if matches!(step, Step::Apply { .. }) { self.target(place) } else { None };
        let to = direct.unwrap_or_else(|| self.take_slot());
        let step = match step {
            Step::Apply { operation, operands, .. } => Step::Apply { operation, out: to, operands },
            Step::Reference { kind, dtype, operand_types, operands, .. } => {
                Step::Reference { kind, dtype, operand_types, out: to, operands }
            }
            other => other,
        };
        self.output.steps.push(step);
        self.places[place] = Some(to);
        for id in ids {
            self.release_use(id);
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

    /// A step for two operations in one pass: a sum with a product.
    fn fused_step(&mut self, node: Node, kind: Kind, product: NodeId) -> (Vec<NodeId>, Step) {
        let Kind::Binary(op, [left, right]) = kind else { return self.unfused_step(node, kind) };
        let Kind::Binary(_, [a, b]) = self.node(product).kind else { return self.unfused_step(node, kind) };
        let (fused, c) = match (op, product == left) {
            (Binary::Add, true) => (Fused::MulAdd, right),
            (Binary::Add, false) => (Fused::MulAdd, left),
            (_, true) => (Fused::MulSub, right),
            (_, false) => (Fused::SubMul, left),
        };
        let ids = [a, b, c];
        let (operands, uniform) = self.places_of(&ids);
        let Some(operation) = operation::fused(self.set, fused, node.dtype, uniform) else {
            return self.unfused_step(node, kind);
        };
        (ids.to_vec(), Step::Apply { operation, out: Place::Slot(0), operands })
    }

    fn unfused_step(&mut self, node: Node, kind: Kind) -> (Vec<NodeId>, Step) {
        (kind.operands().to_vec(), self.single_step(node, kind))
    }

    fn single_step(&mut self, node: Node, kind: Kind) -> Step {
        let ids = kind.operands();
        let (mut operands, uniform) = self.places_of(&ids);
        let dtype_of = |i: usize| ids.get(i).map_or(node.dtype, |id| self.graph.nodes()[id.index()].dtype);
        let operation: Option<Operation> = match kind {
            Kind::Unary(op, _) => operation::unary(self.set, op, node.dtype),
            Kind::Binary(op, _) => operation::binary(self.set, op, node.dtype, uniform),
            Kind::Compare(op, _) => compare_exchanged(self.set, op, dtype_of(0), uniform, &mut operands),
            Kind::Fma(_) => operation::fused(self.set, Fused::Fma, node.dtype, uniform),
            Kind::Select(_) => operation::select(self.set, node.dtype, uniform),
            Kind::Cast(_) => operation::cast(self.set, dtype_of(0), node.dtype),
            _ => None,
        };
        let out = Place::Slot(0);
        match operation {
            Some(operation) => Step::Apply { operation, out, operands },
            None => {
                let operand_types = [0, 1, 2].map(dtype_of);
                Step::Reference { kind, dtype: node.dtype, operand_types, out, operands }
            }
        }
    }

    /// Stores an output whose node has been computed.
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
                    let direct =
                        self.contiguity.outputs[place] && !self.contiguity.nontemporal && output.in_place.is_none();
                    let out = if direct { Place::Output(number) } else { self.take_slot() };
                    self.output.steps.push(Step::Apply { operation, out, operands: [from; 3] });
                    if !direct {
                        self.output.steps.push(Step::Scatter { output: number, from: out });
                        self.release(out);
                    }
                }
                None => self.output.steps.push(Step::Scatter { output: number, from }),
            }
            if self.uniform[id.index()] {
                self.release(from);
            }
        }
        self.release_use(id);
    }

    /// The place from which a node's elements are stored. A uniform value is first expanded into a slot.
    fn value_to_store(&mut self, id: NodeId) -> Place {
        let node = self.node(id);
        if !self.uniform[id.index()] {
            return self.operand(id);
        }
        let from = self.operand(id);
        let (out, carrier) = (self.take_slot(), node.dtype.carrier());
        let (kind, operand_types) = (Kind::Cast(id), [carrier; 3]);
        self.output.steps.push(Step::Reference { kind, dtype: carrier, operand_types, out, operands: [from; 3] });
        out
    }

    fn store_raw(&mut self, place: usize) {
        let output = &self.graph.outputs()[place];
        let Kind::Input(input) = self.node(output.node).kind else { return };
        let (input, number) = (input as u16, place as u16);
        let dense = self.contiguity.inputs[usize::from(input)];
        let from = if dense { Place::Input(input) } else { self.gather(input) };
        self.output.steps.push(Step::Scatter { output: number, from });
        self.release(from);
    }

    /// Stores uniform outputs and outputs that overwrite inputs, after all reads. Inputs that are copied unchanged to outputs in
    /// place are read before any of these is written.
    fn store_late_outputs(&mut self) {
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
            let own = matches!(self.node(output.node).kind, Kind::Input(slot) if Some(slot) == output.in_place);
            // x = x changes nothing, except that it converts bytes of `bool` to 0 or 1.
            if own && self.is_raw(output.node, output.dtype) {
                self.release_use(output.node);
                continue;
            }
            let from = self.compute_into_slot(output.node, output.dtype);
            stores.push(Step::Scatter { output: place as u16, from });
        }
        self.output.steps.extend(stores);
    }

    /// A slot with an output's elements in memory format. It isn't freed.
    fn compute_into_slot(&mut self, id: NodeId, dtype: DType) -> Place {
        if self.is_raw(id, dtype) {
            let Kind::Input(input) = self.node(id).kind else { return Place::Slot(0) };
            let input = input as u16;
            if !self.contiguity.inputs[usize::from(input)] {
                return self.gather(input);
            }
            return self.copy_to_slot(Place::Input(input), dtype);
        }
        let from = self.value_to_store(id);
        match self.pack(id, dtype) {
            Some(operation) => {
                let out = self.take_slot();
                self.output.steps.push(Step::Apply { operation, out, operands: [from; 3] });
                out
            }
            None if matches!(from, Place::Slot(_)) => from,
            None => self.copy_to_slot(from, dtype),
        }
    }

    fn copy_to_slot(&mut self, from: Place, dtype: DType) -> Place {
        let out = self.take_slot();
        if let Some(operation) = operation::copy(self.set, dtype) {
            self.output.steps.push(Step::Apply { operation, out, operands: [from; 3] });
        }
        out
    }
}

/// A comparison; exchanges its operands if only the opposite comparison has a loop.
fn compare_exchanged(
    set: Set,
    op: Comparison,
    dtype: DType,
    uniform: u8,
    operands: &mut [Place; 3],
) -> Option<Operation> {
    let (operation, exchanged) = operation::compare(set, op, dtype, uniform)?;
    if exchanged {
        operands.swap(0, 1);
    }
    Some(operation)
}
