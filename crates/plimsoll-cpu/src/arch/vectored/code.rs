//! What is done to each tile: steps in order, from places to places.

use plimsoll_expr::DType;
use plimsoll_expr::graph::Kind;

use super::operation::Operation;

/// Where a step finds elements or leaves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A tile's worth of scratch memory.
    Slot(u16),
    /// The tile's elements in an input's memory, one after the other.
    Input(u16),
    /// The same of an output.
    Output(u16),
    /// One value for all elements.
    Uniform(u16),
}

/// One pass over a tile.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A loop. Only as many operands count as the operation has.
    Apply {
        /// The loop.
        operation: Operation,
        /// A slot, or an output that is no input's memory.
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
        of: [DType; 3],
        /// A slot.
        out: Place,
        /// None of them is `out`.
        operands: [Place; 3],
    },
    /// Brings the tile's elements of an input together.
    Gather {
        /// Which input.
        input: u16,
        /// A slot.
        out: Place,
    },
    /// Puts elements where an output has them.
    Scatter {
        /// Which output.
        output: u16,
        /// A slot, or an input.
        from: Place,
    },
    /// The elements' coordinates along a dimension of the walk, or their row-major places; i64.
    Coordinates {
        /// `None` for places.
        dimension: Option<u8>,
        /// A slot.
        out: Place,
    },
}

/// Steps that were checked to fit together.
#[derive(Debug)]
pub(crate) struct Code {
    pub(super) steps: Vec<Step>,
    /// Slots that they use.
    pub(super) slots: u16,
    /// Bytes of the widest element in a slot.
    pub(super) width: usize,
    /// Values that are the same for all elements.
    pub(super) uniforms: u16,
    /// Bytes of an element of each input, then of each output.
    pub(super) widths: Vec<u8>,
    pub(super) inputs: usize,
    /// Inputs and outputs that steps take as they lie in memory: their tiles must have no gaps.
    pub(super) direct: Vec<bool>,
    /// Outputs into which nothing is stored but bytes of 0 and 1.
    pub(super) truths: Vec<bool>,
}

/// Steps that don't fit together: a mistake in what made them.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("step {step} of an expression's code is wrong: {what}")]
pub(crate) struct CodeError {
    step: usize,
    what: &'static str,
}

/// What each slot holds on the way.
struct Checker {
    slots: Vec<u8>,
    /// Slots whose elements are bytes of 0 and 1.
    truth: Vec<bool>,
    direct: Vec<bool>,
    truths: Vec<bool>,
    widths: Vec<u8>,
    inputs: usize,
    uniforms: u16,
}

impl Checker {
    /// That `place` holds elements of `width` bytes.
    fn read(&mut self, place: Place, width: u8, uniform: bool) -> Result<(), &'static str> {
        let held = match place {
            Place::Slot(slot) => self.slots.get(usize::from(slot)).copied(),
            Place::Input(input) if usize::from(input) < self.inputs => {
                self.direct[usize::from(input)] = true;
                self.widths.get(usize::from(input)).copied()
            }
            Place::Uniform(value) if value < self.uniforms => Some(width),
            _ => None,
        };
        if uniform != matches!(place, Place::Uniform(_)) {
            return Err("a loop for other operands");
        }
        if held == Some(width) { Ok(()) } else { Err("an operand of another width") }
    }

    /// That `place` may be written with elements of `width` bytes, which are 0 and 1 where they are `truth`.
    fn write(&mut self, place: Place, width: u8, truth: bool) -> Result<(), &'static str> {
        match place {
            Place::Slot(slot) => {
                let slot = usize::from(slot);
                *self.slots.get_mut(slot).ok_or("no such slot")? = width;
                self.truth[slot] = truth;
            }
            Place::Output(output) => {
                self.stored(output, truth)?;
                let stream = self.inputs + usize::from(output);
                if self.widths.get(stream) != Some(&width) {
                    return Err("an output of another width");
                }
                self.direct[stream] = true;
            }
            _ => return Err("what can't be written"),
        }
        Ok(())
    }

    /// That an output takes what is stored.
    fn stored(&self, output: u16, truth: bool) -> Result<(), &'static str> {
        let only_truth = self.truths.get(usize::from(output)).copied().unwrap_or(true);
        if truth || !only_truth { Ok(()) } else { Err("more than 0 and 1 in memory of bool") }
    }

    fn step(&mut self, step: &Step) -> Result<(), &'static str> {
        match *step {
            Step::Apply { operation, out, operands } => {
                for (i, (&place, width)) in operands.iter().zip(operation.operands).enumerate() {
                    if width == 0 {
                        continue;
                    }
                    self.read(place, width, operation.uniform >> i & 1 == 1)?;
                    if place == out {
                        return Err("a result over its operand");
                    }
                }
                self.write(out, operation.result, operation.truth)
            }
            Step::Reference { kind, dtype, of, out, operands } => {
                for ((&place, of), _) in operands.iter().zip(of).zip(kind.operands().iter()) {
                    let width = of.carrier().bytes() as u8;
                    self.read(place, width, matches!(place, Place::Uniform(_)))?;
                    if place == out {
                        return Err("a result over its operand");
                    }
                }
                self.slot(out)?;
                // The oracle's encoding of a `bool` is 0 or 1.
                self.write(out, dtype.carrier().bytes() as u8, dtype == DType::Bool)
            }
            Step::Gather { input, out } => {
                let width = self.widths[..self.inputs].get(usize::from(input)).copied().ok_or("no such input")?;
                self.slot(out)?;
                self.write(out, width, false)
            }
            Step::Scatter { output, from } => {
                let stream = self.inputs + usize::from(output);
                let width = self.widths.get(stream).copied().ok_or("no such output")?;
                self.read(from, width, false)?;
                let truth = matches!(from, Place::Slot(slot) if self.truth[usize::from(slot)]);
                self.stored(output, truth)
            }
            Step::Coordinates { out, .. } => {
                self.slot(out)?;
                self.write(out, 8, false)
            }
        }
    }

    fn slot(&self, place: Place) -> Result<(), &'static str> {
        if matches!(place, Place::Slot(_)) { Ok(()) } else { Err("what only goes to a slot") }
    }
}

impl Code {
    /// Checked steps. `inputs` and `outputs` are the bytes of their elements: 1, 2, 4 or 8; `truths` are the outputs whose
    /// memory is to hold nothing but 0 and 1.
    pub(crate) fn new(
        steps: Vec<Step>,
        slots: u16,
        uniforms: u16,
        inputs: &[u8],
        outputs: &[u8],
        truths: Vec<bool>,
    ) -> Result<Self, CodeError> {
        let widths = [inputs, outputs].concat();
        if !widths.iter().all(|width| matches!(width, 1 | 2 | 4 | 8)) {
            return Err(CodeError { step: 0, what: "elements of no such width" });
        }
        if truths.len() != outputs.len() {
            return Err(CodeError { step: 0, what: "not one word of truth for each output" });
        }
        let (direct, truth) = (vec![false; widths.len()], vec![false; usize::from(slots)]);
        let slot_widths = vec![0; usize::from(slots)];
        let mut checker = Checker { slots: slot_widths, truth, direct, truths, widths, inputs: inputs.len(), uniforms };
        let mut width = 1;
        for (i, step) in steps.iter().enumerate() {
            checker.step(step).map_err(|what| CodeError { step: i, what })?;
            width = width.max(checker.slots.iter().copied().max().unwrap_or(1));
        }
        let Checker { direct, truths, widths, .. } = checker;
        Ok(Self { steps, slots, width: usize::from(width), uniforms, widths, inputs: inputs.len(), direct, truths })
    }

    /// Bytes of scratch memory per element of a tile.
    pub(crate) fn bytes_per_element(&self) -> usize {
        usize::from(self.slots) * self.width
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_expr::op::{Binary, Comparison};

    use super::super::loops::Set;
    use super::super::operation::{binary, compare, pack};
    use super::*;
    use crate::arch::best;

    #[test]
    fn memory_of_bool_takes_nothing_but_what_is_surely_0_or_1() {
        let set = Set::of(best()).unwrap();
        let (less, _) = compare(set, Comparison::Less, DType::U8, 0).unwrap();
        let and = binary(set, Binary::And, DType::Bool, 0).unwrap();
        let truth = pack(set, DType::Bool).unwrap();
        let apply = |operation, out, from| Step::Apply { operation, out, operands: [from; 3] };
        let code = |steps: &[Step], truth| Code::new(steps.to_vec(), 2, 0, &[1], &[1], vec![truth]);
        let (input, output) = (Place::Input(0), Place::Output(0));
        let [one, two] = [Place::Slot(0), Place::Slot(1)];
        let scatter = |from| Step::Scatter { output: 0, from };

        assert!(code(&[apply(less, output, input)], true).is_ok());
        assert!(code(&[apply(and, one, input), apply(truth, two, one), scatter(two)], true).is_ok());
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
}
