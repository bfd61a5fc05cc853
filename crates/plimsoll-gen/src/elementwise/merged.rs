//! What a compiler makes of an instruction together with its neighbours: operations that become part of another instruction, and constants
//! that need a register.

use plimsoll_expr::DType;
use plimsoll_expr::op::{Binary, Unary};
use plimsoll_ir::{Block, Id, Instruction, Op, Program};

/// The values of a block by how the others use them.
pub(super) struct Neighbours<'b> {
    block: &'b Block,
    uses: Vec<u32>,
    /// Logic that is part of another instruction.
    joined: Vec<bool>,
}

impl<'b> Neighbours<'b> {
    pub fn new(block: &'b Block) -> Self {
        let mut all = Self { block, uses: block.uses(), joined: vec![false; block.instructions.len()] };
        all.join_logic();
        all
    }

    /// Whether an instruction is part of another one.
    pub fn is_part(&self, id: Id) -> bool {
        let instruction = self.block.get(id);
        match instruction.op {
            Op::Select => self.is_predicated(instruction),
            _ => self.joined[id.index()],
        }
    }

    /// The value whose bits this is.
    fn source(&self, mut id: Id) -> Id {
        while self.block.get(id).op == Op::Bits {
            id = self.block.get(id).operands()[0];
        }
        id
    }

    /// Whether only one other instruction uses a value, whatever it is called.
    fn has_one_use(&self, mut id: Id) -> bool {
        while self.block.get(id).op == Op::Bits && self.uses[id.index()] == 1 {
            id = self.block.get(id).operands()[0];
        }
        self.uses[id.index()] == 1
    }

    /// Whether an instruction's operand can't be replaced where it is, because something else reads it, or its sign is a modifier.
    pub fn keeps_operand(&self, instruction: &Instruction) -> bool {
        instruction.operands().first().is_some_and(|id| {
            let signed = matches!(self.block.get(*id).op, Op::Unary(Unary::Neg | Unary::Abs));
            signed || self.uses[id.index()] > 1
        })
    }

    /// Whether a selection costs nothing: under a predicate, one value overwrites the other, which nothing else reads.
    fn is_predicated(&self, instruction: &Instruction) -> bool {
        let [_, a, b] = *instruction.operands() else { return false };
        let (a, b) = (self.source(a), self.source(b));
        let overwrites = |new: Id, old: Id| {
            let (new, reads) = (self.block.get(new), self.block.get(new).operands().contains(&old));
            is_arithmetic(new) && self.uses[old.index()] == if reads { 2 } else { 1 }
        };
        instruction.dtype == DType::F32
            && ![a, b].iter().any(|id| is_leaf(self.block.get(*id).op))
            && (self.has_one_use(a) && overwrites(a, b) || self.has_one_use(b) && overwrites(b, a))
    }

    fn is_constant(&self, id: Id) -> bool {
        matches!(self.block.get(id).op, Op::Constant(_))
    }

    /// The operands of one instruction that computes this value, if it is logic of three operands at most. A mask that is shifted by a
    /// constant is a shifted value with a shifted mask.
    fn join_logic(&mut self) {
        let mut leaves: Vec<Vec<Id>> = Vec::with_capacity(self.block.instructions.len());
        for (place, instruction) in self.block.instructions.iter().enumerate() {
            let id = Id(place as u32);
            let operands: Vec<Id> = instruction.operands().iter().map(|id| self.source(*id)).collect();
            let mut own = vec![id];
            if is_logic(instruction) {
                own.clone_from(&operands);
                for operand in operands {
                    let inner = &leaves[operand.index()];
                    let joined: Vec<Id> = own.iter().filter(|id| **id != operand).chain(inner).copied().collect();
                    if inner.len() > 1 && joined.len() <= 3 && self.has_one_use(operand) {
                        own = joined;
                        self.join(operand);
                    }
                }
            } else if matches!(instruction.op, Op::Binary(Binary::Shl | Binary::Shr)) && self.is_constant(operands[1]) {
                let shifted = self.block.get(operands[0]);
                if shifted.op == Op::Binary(Binary::And)
                    && self.is_constant(shifted.operands()[1])
                    && self.has_one_use(operands[0])
                {
                    own = vec![id, shifted.operands()[1]];
                }
            }
            leaves.push(own);
        }
    }

    /// Makes a value part of the instruction that uses it: logic itself, or the mask of what is shifted.
    fn join(&mut self, id: Id) {
        let instruction = self.block.get(id);
        let logic = if is_logic(instruction) { id } else { self.source(instruction.operands()[0]) };
        self.joined[logic.index()] = true;
    }

    /// Constants that need a register: an instruction holds only one of its own.
    pub fn constants_in_registers(&self) -> usize {
        let mut held: Vec<u64> = Vec::new();
        for instruction in self.block.instructions.iter().filter(|instruction| instruction.op == Op::Fma) {
            let constants = instruction.operands().iter().filter_map(|id| match self.block.get(*id).op {
                Op::Constant(bits) if instruction.dtype == DType::F32 => Some(bits & 0x7fff_ffff),
                _ => None,
            });
            let constants: Vec<u64> = constants.collect();
            if constants.len() > 1 && !constants.iter().any(|bits| held.contains(bits)) {
                held.push(constants[0]);
            }
        }
        held.len()
    }

    /// Whether a quotient or root calls a function in rare cases. Each element's is a region of its own then, behind which constants are
    /// loaded again.
    pub fn has_regions(&self) -> bool {
        self.block.instructions.iter().any(|instruction| {
            let calls = matches!(instruction.op, Op::Binary(Binary::Div) | Op::Unary(Unary::Sqrt | Unary::Recip));
            calls && instruction.dtype == DType::F32
        })
    }
}

/// Whether a result costs an instruction more or less than its value: the sign of a stored float is no modifier of a store, and packing pairs
/// has a form that replaces negative numbers by 0.
pub(super) fn of_stored(program: &Program, uses: &Neighbours<'_>) -> f64 {
    let block = &program.common;
    let pairs = block.results.iter().zip(&program.outputs);
    let costs = pairs.map(|(id, dtype)| match block.get(*id).op {
        Op::Unary(Unary::Neg | Unary::Abs) if dtype.is_float() && *dtype != DType::F64 => 1.0,
        Op::Binary(Binary::Max)
            if matches!(dtype, DType::F16 | DType::Bf16) && uses.has_one_use(*id) && !uses.has_regions() =>
        {
            let is_zero = |id: &Id| matches!(block.get(*id).op, Op::Constant(0));
            if block.get(*id).operands().iter().any(is_zero) { -1.0 } else { 0.0 }
        }
        _ => 0.0,
    });
    costs.sum()
}

fn is_leaf(op: Op) -> bool {
    matches!(op, Op::Input(_) | Op::Scalar(_) | Op::Constant(_) | Op::Place | Op::Coordinate(_))
}

fn is_arithmetic(instruction: &Instruction) -> bool {
    matches!(instruction.op, Op::Fma | Op::Binary(Binary::Add | Binary::Sub | Binary::Mul))
        && instruction.dtype == DType::F32
}

fn is_logic(instruction: &Instruction) -> bool {
    matches!(instruction.op, Op::Binary(Binary::And | Binary::Or | Binary::Xor)) && instruction.dtype.bytes() == 4
}
