//! Programs as text, for reading and for tests:
//!
//! ```text
//! program (x0: bf16; a0: f32) -> (bf16)
//! common {
//!     v0: f32 = input 0
//!     v1: f32 = scalar 0
//!     v2: f32 = mul v0 v1
//!     demand v2 most 0x47800000
//!     return v2
//! }
//! general {
//!     …
//! }
//! ```
//!
//! Constants are bits of their type. [`parse`] accepts what `Display` writes and checks every operand, type and limit.

use std::fmt;

use plimsoll_expr::DType;
use plimsoll_expr::graph::{MAX_INPUTS, MAX_OUTPUTS, MAX_RANK, MAX_SCALARS};

use crate::{Block, Guard, Id, Instruction, Limit, Op, Program};

/// The most instructions of a block that is read.
pub const MAX_INSTRUCTIONS: usize = 1 << 20;

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |types: &[DType], letter: &str| -> Vec<String> {
            types.iter().enumerate().map(|(slot, dtype)| format!("{letter}{slot}: {dtype}")).collect()
        };
        let outputs: Vec<String> = self.outputs.iter().map(ToString::to_string).collect();
        write!(f, "program ({}; {})", list(&self.inputs, "x").join(", "), list(&self.scalars, "a").join(", "))?;
        writeln!(f, " -> ({})", outputs.join(", "))?;
        write!(f, "common {}", self.common)?;
        self.general.as_ref().map_or(Ok(()), |general| write!(f, "general {general}"))
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{{")?;
        for (place, instruction) in self.instructions.iter().enumerate() {
            write!(f, "    v{place}: {} = {}", instruction.dtype, instruction.op.name())?;
            match instruction.op {
                Op::Input(slot) | Op::Scalar(slot) => write!(f, " {slot}")?,
                Op::Coordinate(dimension) => write!(f, " {dimension}")?,
                Op::Constant(bits) => write!(f, " {bits:#x}")?,
                Op::Narrow(dtype) => write!(f, " {dtype}")?,
                _ => {}
            }
            for operand in instruction.operands() {
                write!(f, " v{}", operand.0)?;
            }
            writeln!(f)?;
        }
        for guard in &self.guards {
            let (word, bits) = match guard.limit {
                Limit::Most(bits) => ("most", bits),
                Limit::Least(bits) => ("least", bits),
            };
            writeln!(f, "    demand v{} {word} {bits:#x}", guard.value.0)?;
        }
        write!(f, "    return")?;
        for result in &self.results {
            write!(f, " v{}", result.0)?;
        }
        writeln!(f, "\n}}")
    }
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct TextError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

/// Reads a program.
///
/// # Errors
/// If the text isn't a program: the first line that is wrong, and why.
pub fn parse(text: &str) -> Result<Program, TextError> {
    let mut lines = Lines { lines: text.lines(), line: 0 };
    let header = lines.next()?;
    let (inputs, scalars, outputs) =
        self::header(header).ok_or_else(|| lines.error("expected `program (…; …) -> (…)`"))?;
    let mut program = Program { inputs, scalars, outputs, common: Block::default(), general: None };
    lines.expect("common {")?;
    program.common = lines.block(&program)?;
    match lines.next() {
        Ok("general {") => program.general = Some(lines.block(&program)?),
        Ok(_) => return Err(lines.error("expected `general {` or the end")),
        Err(_) => {}
    }
    if program.general.as_ref().is_some_and(|general| !general.guards.is_empty()) {
        return Err(lines.error("a general block demands nothing"));
    }
    if program.general.is_none() && !program.common.guards.is_empty() {
        return Err(lines.error("a block that demands something needs a general one"));
    }
    Ok(program)
}

fn header(line: &str) -> Option<(Vec<DType>, Vec<DType>, Vec<DType>)> {
    let rest = line.strip_prefix("program (")?;
    let (parameters, outputs) = rest.split_once(") -> (")?;
    let (inputs, scalars) = parameters.split_once(';')?;
    let named = |list: &str, most: usize, letter: char| -> Option<Vec<DType>> {
        let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
        let typed = |(slot, item): (usize, &str)| {
            let (name, dtype) = item.split_once(": ")?;
            (name == format!("{letter}{slot}") && slot < most).then(|| dtype.parse().ok())?
        };
        items.enumerate().map(typed).collect()
    };
    let types: Option<Vec<DType>> = outputs.strip_suffix(')')?.split(", ").map(|item| item.parse().ok()).collect();
    let outputs = types.filter(|types| !types.is_empty() && types.len() <= MAX_OUTPUTS)?;
    Some((named(inputs, MAX_INPUTS, 'x')?, named(scalars, MAX_SCALARS, 'a')?, outputs))
}

struct Lines<'t> {
    lines: std::str::Lines<'t>,
    line: usize,
}

impl<'t> Lines<'t> {
    fn next(&mut self) -> Result<&'t str, TextError> {
        self.line += 1;
        self.lines.next().map(str::trim).ok_or_else(|| self.error("the text ends early"))
    }

    fn error(&self, what: impl Into<String>) -> TextError {
        TextError { line: self.line, what: what.into() }
    }

    fn expect(&mut self, wanted: &str) -> Result<(), TextError> {
        let line = self.next()?;
        if line == wanted { Ok(()) } else { Err(self.error(format!("expected `{wanted}`"))) }
    }

    /// The lines after `common {` or `general {`.
    fn block(&mut self, program: &Program) -> Result<Block, TextError> {
        let mut block = Block::default();
        loop {
            let line = self.next()?;
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            match words.as_slice() {
                ["return", results @ ..] => {
                    block.results = self.ids(results, &block)?;
                    self.check_results(&block, program)?;
                    self.expect("}")?;
                    return Ok(block);
                }
                ["demand", value, word, bits] => {
                    let guard = self.guard(&block, value, word, bits)?;
                    block.guards.push(guard);
                }
                [name, dtype, "=", op, operands @ ..] if block.guards.is_empty() => {
                    if *name != format!("v{}:", block.instructions.len())
                        || block.instructions.len() >= MAX_INSTRUCTIONS
                    {
                        return Err(self.error(format!("expected v{}", block.instructions.len())));
                    }
                    let dtype: DType = dtype.parse().map_err(|_| self.error("unknown type"))?;
                    let instruction = self.instruction(&block, dtype, op, operands, program)?;
                    block.instructions.push(instruction);
                }
                _ => return Err(self.error("expected an instruction, `demand` or `return`")),
            }
        }
    }

    fn ids(&self, words: &[&str], block: &Block) -> Result<Vec<Id>, TextError> {
        let id = |word: &&str| {
            let number = word.strip_prefix('v').and_then(|number| number.parse::<u32>().ok());
            number.filter(|number| (*number as usize) < block.instructions.len()).map(Id)
        };
        words.iter().map(|word| id(word).ok_or_else(|| self.error(format!("{word} isn't a value before")))).collect()
    }

    fn check_results(&self, block: &Block, program: &Program) -> Result<(), TextError> {
        let carriers = program.outputs.iter().map(|dtype| dtype.carrier());
        let found = block.results.iter().map(|id| block.get(*id).dtype);
        if carriers.eq(found) { Ok(()) } else { Err(self.error("the results don't have the outputs' types")) }
    }

    fn guard(&self, block: &Block, value: &str, word: &str, bits: &str) -> Result<Guard, TextError> {
        let value = self.ids(&[value], block)?[0];
        let bits =
            number(bits).and_then(|bits| u32::try_from(bits).ok()).ok_or_else(|| self.error("expected 32 bits"))?;
        let limit = match (word, block.get(value).dtype) {
            ("most", DType::F32) => Limit::Most(bits),
            ("least", DType::U32) => Limit::Least(bits),
            _ => return Err(self.error("`most` is of f32, `least` of u32")),
        };
        Ok(Guard { value, limit })
    }

    fn instruction(
        &self,
        block: &Block,
        dtype: DType,
        name: &str,
        words: &[&str],
        program: &Program,
    ) -> Result<Instruction, TextError> {
        let parameter = || words.first().copied().ok_or_else(|| self.error(format!("{name} needs a parameter")));
        let slot = |count: usize| -> Result<u32, TextError> {
            let slot = parameter()?.parse::<u32>().ok().filter(|slot| (*slot as usize) < count);
            slot.ok_or_else(|| self.error(format!("there is no such {name}")))
        };
        let op = match name {
            "input" => Op::Input(slot(program.inputs.len())?),
            "scalar" => Op::Scalar(slot(program.scalars.len())?),
            "coordinate" => Op::Coordinate(slot(MAX_RANK)? as u8),
            "constant" => {
                let width = 8 * dtype.bytes() as u32;
                let bits = number(parameter()?).filter(|bits| width == 64 || bits >> width == 0);
                Op::Constant(bits.ok_or_else(|| self.error(format!("expected bits of {dtype}")))?)
            }
            "narrow" => {
                let to: Option<DType> = parameter()?.parse().ok();
                let to = to.filter(|to| to.is_float() && to.carrier() != *to);
                Op::Narrow(to.ok_or_else(|| self.error("narrow needs a float of 16 or 8 bits"))?)
            }
            name => Op::from_name(name).ok_or_else(|| self.error(format!("unknown operation {name}")))?,
        };
        let has_parameter = matches!(name, "input" | "scalar" | "coordinate" | "constant" | "narrow");
        let operands = self.ids(&words[usize::from(has_parameter)..], block)?;
        if operands.len() != op.operands() {
            return Err(self.error(format!("{name} takes {} operands", op.operands())));
        }
        let types: Vec<DType> = operands.iter().map(|id| block.get(*id).dtype).collect();
        let memory = match op {
            Op::Input(slot) => program.inputs[slot as usize],
            Op::Scalar(slot) => program.scalars[slot as usize],
            _ => dtype,
        };
        if memory.carrier() != dtype || !is_typed(op, dtype, &types) {
            return Err(self.error(format!("{name} doesn't have these types")));
        }
        Ok(Instruction::new(op, dtype, &operands))
    }
}

fn number(word: &str) -> Option<u64> {
    word.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok())
}

/// Whether an operation with these types of operands has a result of this type.
fn is_typed(op: Op, dtype: DType, types: &[DType]) -> bool {
    let same = types.iter().all(|operand| *operand == dtype);
    match op {
        Op::Input(_) | Op::Scalar(_) | Op::Constant(_) => dtype.carrier() == dtype,
        Op::Place | Op::Coordinate(_) => dtype == DType::I64,
        Op::Unary(op) => same && op.domain().operand_type(dtype) == Some(dtype),
        Op::Binary(op) => same && op.domain().operand_type(dtype) == Some(dtype),
        Op::Compare(_) => dtype == DType::Bool && types[0] == types[1],
        Op::Fma => same && dtype != DType::Bool,
        Op::Select => types == [DType::Bool, dtype, dtype],
        Op::Convert => dtype.carrier() == dtype,
        Op::Odd => dtype == DType::F32,
        Op::Narrow(_) | Op::Saturate => dtype == DType::F32 && same,
        Op::Primitive(primitive) => dtype == primitive.dtype() && same,
        Op::High => dtype == DType::U32 && types == [DType::F64],
        Op::Scale => dtype == DType::F64 && same,
        Op::Bits => {
            let pairs = [(DType::F32, DType::U32), (DType::F64, DType::U64)];
            pairs.iter().any(|(a, b)| (types[0], dtype) == (*a, *b) || (types[0], dtype) == (*b, *a))
        }
        Op::CopySign => same && dtype.is_float(),
        Op::Ordered => dtype == DType::Bool && types[0] == types[1] && types[0].is_float(),
    }
}
