//! The code that runs on each tile: steps in order, each with its source and target places.

use plimsoll_expr::DType;
use plimsoll_expr::graph::Kind;

use super::operation::Operation;

/// Where a step reads or writes elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A tile's worth of scratch memory.
    Slot(u16),
    /// The tile's elements in an input's memory, contiguous.
    Input(u16),
    /// The tile's elements in an output's memory, contiguous.
    Output(u16),
    /// One value for all elements.
    Uniform(u16),
}

/// One pass over a tile.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A loop. Operands beyond the operation's number are ignored.
    Apply {
        /// The loop.
        operation: Operation,
        /// A slot, or an output that doesn't share an input's memory.
        out: Place,
        /// None of them is `out`.
        operands: [Place; 3],
    },
    /// The oracle, element by element.
    Reference {
        /// The operation.
        kind: Kind,
        /// The result's type.
        dtype: DType,
        /// The operands' types.
        operand_types: [DType; 3],
        /// A slot.
        out: Place,
        /// None of them is `out`.
        operands: [Place; 3],
    },
    /// Copies the tile's elements of an input into a slot.
    Gather {
        /// The input's number.
        input: u16,
        /// A slot.
        out: Place,
    },
    /// Copies elements to an output's memory.
    Scatter {
        /// The output's number.
        output: u16,
        /// A slot, or an input.
        from: Place,
    },
    /// The elements' coordinates along a dimension, or their row-major indices; i64.
    Coordinates {
        /// `None` for row-major indices.
        dimension: Option<u8>,
        /// A slot.
        out: Place,
    },
}

impl Step {
    /// Whether it computes so much for each element that memory would wait for it.
    pub(super) fn is_slow(&self) -> bool {
        matches!(self, Self::Apply { operation, .. } if operation.slow)
    }

    /// Whether it copies results to an output.
    fn copies_results(&self) -> bool {
        matches!(self, Self::Scatter { from: Place::Slot(_), .. })
    }
}

/// Steps that have been checked for consistency.
#[derive(Debug)]
pub(crate) struct Code {
    pub(super) steps: Vec<Step>,
    /// How many slots they use.
    pub(super) slots: u16,
    /// Bytes of the widest element in a slot.
    pub(super) width: usize,
    /// How many values are the same for all elements.
    pub(super) uniforms: u16,
    /// Bytes of an element of each input, then of each output.
    pub(super) widths: Vec<u8>,
    pub(super) inputs: usize,
    /// Inputs and outputs that loops access directly in memory: their tiles must have no gaps.
    pub(super) direct: Vec<bool>,
    /// Outputs into which only bytes of 0 and 1 are stored.
    pub(super) bool_outputs: Vec<bool>,
    /// How many steps are slow.
    slow: usize,
    /// How many copy results to outputs.
    copies: usize,
}

/// Inconsistent steps: a mistake in the compiler of expressions.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("step {step} of an expression's code is wrong: {what}")]
pub(crate) struct CodeError {
    step: usize,
    what: &'static str,
}

/// Tracks the contents of each slot while steps are checked.
struct Checker {
    /// Bytes of an element of each slot; 0 before it is written.
    slots: Vec<u8>,
    /// Slots whose elements are bytes of 0 and 1.
    boolean_slots: Vec<bool>,
    direct: Vec<bool>,
    bool_outputs: Vec<bool>,
    widths: Vec<u8>,
    inputs: usize,
    uniforms: u16,
}

impl Checker {
    /// Checks that `place` holds elements of `width` bytes.
    fn check_read(&mut self, place: Place, width: u8, uniform: bool) -> Result<(), &'static str> {
        let actual = match place {
            Place::Slot(slot) => self.slots.get(usize::from(slot)).copied(),
            Place::Input(input) if usize::from(input) < self.inputs => {
                self.direct[usize::from(input)] = true;
                self.widths.get(usize::from(input)).copied()
            }
            Place::Uniform(value) if value < self.uniforms => Some(width),
            _ => None,
        };
        if uniform != matches!(place, Place::Uniform(_)) {
            return Err("an operand is uniform where the loop expects elements, or the reverse");
        }
        if actual == Some(width) { Ok(()) } else { Err("an operand has the wrong width") }
    }

    /// Checks that `place` may be written with elements of `width` bytes; if `boolean`, these are 0 or 1.
    fn check_write(&mut self, place: Place, width: u8, boolean: bool) -> Result<(), &'static str> {
        match place {
            Place::Slot(slot) => {
                let slot = usize::from(slot);
                *self.slots.get_mut(slot).ok_or("no such slot")? = width;
                self.boolean_slots[slot] = boolean;
            }
            Place::Output(output) => {
                self.check_stored(output, boolean)?;
                let stream = self.inputs + usize::from(output);
                if self.widths.get(stream) != Some(&width) {
                    return Err("an output has the wrong width");
                }
                self.direct[stream] = true;
            }
            _ => return Err("the target is read-only"),
        }
        Ok(())
    }

    /// Checks that an output of `bool` only gets boolean bytes.
    fn check_stored(&self, output: u16, boolean: bool) -> Result<(), &'static str> {
        let only_bools = self.bool_outputs.get(usize::from(output)).copied().unwrap_or(true);
        if boolean || !only_bools { Ok(()) } else { Err("bytes other than 0 and 1 may be stored in memory of bool") }
    }

    fn check_step(&mut self, step: &Step) -> Result<(), &'static str> {
        match *step {
            Step::Apply { operation, out, operands } => {
                for (i, (&place, width)) in operands.iter().zip(operation.operands).enumerate() {
                    if width == 0 {
                        continue;
                    }
                    self.check_read(place, width, operation.uniform >> i & 1 == 1)?;
                    if place == out {
                        return Err("a result overwrites its operand");
                    }
                }
                self.check_write(out, operation.result, operation.boolean)
            }
            Step::Reference { kind, dtype, operand_types, out, operands } => {
                for ((&place, dtype), _) in operands.iter().zip(operand_types).zip(kind.operands().iter()) {
                    let width = dtype.carrier().bytes() as u8;
                    self.check_read(place, width, matches!(place, Place::Uniform(_)))?;
                    if place == out {
                        return Err("a result overwrites its operand");
                    }
                }
                self.check_slot(out)?;
                // The oracle's encoding of a `bool` is 0 or 1.
                self.check_write(out, dtype.carrier().bytes() as u8, dtype == DType::Bool)
            }
            Step::Gather { input, out } => {
                let width = self.widths[..self.inputs].get(usize::from(input)).copied().ok_or("no such input")?;
                self.check_slot(out)?;
                self.check_write(out, width, false)
            }
            Step::Scatter { output, from } => {
                let stream = self.inputs + usize::from(output);
                let width = self.widths.get(stream).copied().ok_or("no such output")?;
                self.check_read(from, width, false)?;
                let boolean = matches!(from, Place::Slot(slot) if self.boolean_slots[usize::from(slot)]);
                self.check_stored(output, boolean)
            }
            Step::Coordinates { out, .. } => {
                self.check_slot(out)?;
                self.check_write(out, 8, false)
            }
        }
    }

    fn check_slot(&self, place: Place) -> Result<(), &'static str> {
        if matches!(place, Place::Slot(_)) { Ok(()) } else { Err("the target must be a slot") }
    }
}

impl Code {
    /// Checks steps. `inputs` and `outputs` are the bytes of their elements: 1, 2, 4 or 8; `bool_outputs` are the outputs whose
    /// memory may only hold 0 and 1.
    pub(crate) fn new(
        steps: Vec<Step>,
        slots: u16,
        uniforms: u16,
        inputs: &[u8],
        outputs: &[u8],
        bool_outputs: Vec<bool>,
    ) -> Result<Self, CodeError> {
        let widths = [inputs, outputs].concat();
        if !widths.iter().all(|width| matches!(width, 1 | 2 | 4 | 8)) {
            return Err(CodeError { step: 0, what: "an element's width is not 1, 2, 4 or 8 bytes" });
        }
        if bool_outputs.len() != outputs.len() {
            return Err(CodeError { step: 0, what: "the list of bool outputs has the wrong length" });
        }
        let (direct, boolean_slots) = (vec![false; widths.len()], vec![false; usize::from(slots)]);
        let slot_widths = vec![0; usize::from(slots)];
        let inputs = inputs.len();
        let mut checker = Checker { slots: slot_widths, boolean_slots, direct, bool_outputs, widths, inputs, uniforms };
        let mut width = 1;
        for (i, step) in steps.iter().enumerate() {
            checker.check_step(step).map_err(|what| CodeError { step: i, what })?;
            width = width.max(checker.slots.iter().copied().max().unwrap_or(1));
        }
        let Checker { direct, bool_outputs, widths, .. } = checker;
        let slow = steps.iter().filter(|step| step.is_slow()).count();
        let copies = steps.iter().filter(|step| step.copies_results()).count();
        let width = usize::from(width);
        Ok(Self { steps, slots, width, uniforms, widths, inputs, direct, bool_outputs, slow, copies })
    }

    /// How many steps of a tile fetch the inputs of the next one: the slow ones, or those that copy results to outputs if none is slow. (A single
    /// operation may be run without them.)
    pub(super) fn fetching(&self) -> usize {
        if self.slow > 0 { self.slow } else { self.copies }
    }

    /// Whether a step is one of these.
    pub(super) fn fetches(&self, step: &Step) -> bool {
        if self.slow > 0 { step.is_slow() } else { step.copies_results() }
    }

    /// Bytes of scratch memory per element of a tile.
    pub(crate) fn bytes_per_element(&self) -> usize {
        usize::from(self.slots) * self.width
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_expr::op::{Binary, Comparison, Unary};

    use super::super::loops::Set;
    use super::super::operation::{binary, compare, pack, unary};
    use super::*;
    use crate::arch::best;

    #[test]
    fn code_that_may_store_other_bytes_than_0_and_1_in_bool_memory_is_refused() {
        let set = Set::from_isa(best()).unwrap();
        let (less, _) = compare(set, Comparison::Less, DType::U8, 0).unwrap();
        let and = binary(set, Binary::And, DType::Bool, 0).unwrap();
        let to_bool = pack(set, DType::Bool).unwrap();
        let apply = |operation, out, from| Step::Apply { operation, out, operands: [from; 3] };
        let code = |steps: &[Step], boolean| Code::new(steps.to_vec(), 2, 0, &[1], &[1], vec![boolean]);
        let (input, output) = (Place::Input(0), Place::Output(0));
        let [one, two] = [Place::Slot(0), Place::Slot(1)];
        let scatter = |from| Step::Scatter { output: 0, from };

        assert!(code(&[apply(less, output, input)], true).is_ok());
        assert!(code(&[apply(and, one, input), apply(to_bool, two, one), scatter(two)], true).is_ok());
        let wrong = [
            vec![apply(and, output, input)],
            vec![scatter(input)],
            vec![Step::Gather { input: 0, out: one }, scatter(one)],
            vec![apply(less, one, input), apply(and, one, input), scatter(one)],
        ];
        for steps in wrong {
            assert!(code(&steps, true).is_err(), "{steps:?}");
            assert!(code(&steps, false).is_ok(), "{steps:?}");
        }
    }

    #[test]
    fn copies_of_results_fetch_ahead_where_no_step_is_slow() {
        let set = Set::from_isa(best()).unwrap();
        let apply =
            |op, out, from| Step::Apply { operation: unary(set, op, DType::F32).unwrap(), out, operands: [from; 3] };
        let (input, [one, two]) = (Place::Input(0), [Place::Slot(0), Place::Slot(1)]);
        let code = |steps: &[Step]| Code::new(steps.to_vec(), 2, 0, &[4], &[4], vec![false]).unwrap();
        let fetching = |code: &Code| code.steps.iter().map(|step| code.fetches(step)).collect::<Vec<_>>();
        let scatter = |from| Step::Scatter { output: 0, from };

        let short = code(&[apply(Unary::Neg, one, input), apply(Unary::Abs, two, one), scatter(two)]);
        assert_eq!((short.fetching(), fetching(&short)), (1, vec![false, false, true]));
        let slow = code(&[apply(Unary::Exp, one, input), apply(Unary::Abs, two, one), scatter(two)]);
        assert_eq!((slow.fetching(), fetching(&slow)), (1, vec![true, false, false]));
        // A copy reads the next tile by itself.
        let copy = code(&[scatter(input)]);
        assert_eq!((copy.fetching(), fetching(&copy)), (0, vec![false]));
    }
}
