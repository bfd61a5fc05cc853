//! A program: the operations that compute one element.

use plimsoll_expr::DType;

use crate::Op;

/// An instruction's index in its block, and so the name of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u32);

impl Id {
    /// The index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One operation and its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// The operation.
    pub op: Op,
    /// The type of the result: a carrier.
    pub dtype: DType,
    operands: [Id; 3],
}

impl Instruction {
    /// An instruction; `operands` beyond the number that the operation has are ignored, missing ones are the first instruction.
    #[must_use]
    pub fn new(op: Op, dtype: DType, operands: &[Id]) -> Self {
        let operand = |place| if place < op.operands() { operands.get(place).copied().unwrap_or(Id(0)) } else { Id(0) };
        Self { op, dtype, operands: [operand(0), operand(1), operand(2)] }
    }

    /// The operands, as many as the operation has.
    #[must_use]
    pub fn operands(&self) -> &[Id] {
        &self.operands[..self.op.operands()]
    }
}

/// A condition on a value of every element. Where one of a thread's elements doesn't meet it, the general block computes them all. A
/// printer gathers the values of the elements with one minimum or maximum each, so a guard costs one instruction an element and one
/// branch a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Guard {
    /// The value: an f32 for [`Limit::Most`], a u32 for [`Limit::Least`].
    pub value: Id,
    /// What it has to be.
    pub limit: Limit,
}

/// What a guard demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// At most this f32, given as bits; NaN never is.
    Most(u32),
    /// At least this.
    Least(u32),
}

/// Instructions and their results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// The instructions; operands come before those that use them.
    pub instructions: Vec<Instruction>,
    /// What each output is computed as.
    pub results: Vec<Id>,
    /// Conditions under which the results are right.
    pub guards: Vec<Guard>,
}

impl Block {
    /// The instruction that computes a value.
    ///
    /// # Panics
    /// If `id` isn't of this block.
    #[must_use]
    pub fn get(&self, id: Id) -> &Instruction {
        &self.instructions[id.index()]
    }

    /// How often other instructions, results and guards use each value.
    #[must_use]
    pub fn uses(&self) -> Vec<u32> {
        let mut uses = vec![0; self.instructions.len()];
        let operands = self.instructions.iter().flat_map(|instruction| instruction.operands());
        let guarded = self.guards.iter().map(|guard| &guard.value);
        for id in operands.chain(&self.results).chain(guarded) {
            uses[id.index()] += 1;
        }
        uses
    }

    /// The same block without instructions whose results nothing uses.
    #[must_use]
    pub fn without_dead(&self) -> Self {
        let mut live = vec![false; self.instructions.len()];
        for id in self.results.iter().chain(self.guards.iter().map(|guard| &guard.value)) {
            live[id.index()] = true;
        }
        for place in (0..self.instructions.len()).rev() {
            if live[place] {
                self.instructions[place].operands().iter().for_each(|id| live[id.index()] = true);
            }
        }
        let mut new = vec![Id(0); live.len()];
        let mut instructions = Vec::with_capacity(live.len());
        for (place, instruction) in self.instructions.iter().enumerate().filter(|(place, _)| live[*place]) {
            let operands: Vec<Id> = instruction.operands().iter().map(|id| new[id.index()]).collect();
            new[place] = Id(instructions.len() as u32);
            instructions.push(Instruction::new(instruction.op, instruction.dtype, &operands));
        }
        let results = self.results.iter().map(|id| new[id.index()]).collect();
        let guards = self.guards.iter().map(|guard| Guard { value: new[guard.value.index()], ..*guard }).collect();
        Self { instructions, results, guards }
    }
}

/// What computes one element.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The types of the inputs in memory.
    pub inputs: Vec<DType>,
    /// The types of the scalars as a launch passes them.
    pub scalars: Vec<DType>,
    /// The types of the outputs in memory, to which stores round.
    pub outputs: Vec<DType>,
    /// What is computed if all elements of a thread meet the guards.
    pub common: Block,
    /// What is computed otherwise; it has no guards. `None` if the common block has none.
    pub general: Option<Block>,
}

impl Program {
    /// The block that is right for every element.
    #[must_use]
    pub fn total(&self) -> &Block {
        self.general.as_ref().unwrap_or(&self.common)
    }
}
