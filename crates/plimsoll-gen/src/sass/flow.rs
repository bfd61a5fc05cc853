//! The purpose of instructions, from the registers that each reads and writes: backward slices from the addresses of
//! memory operands and from the conditions of branches.
//!
//! By the disassembler's convention, results are the first operands. Slices follow the order of the text, wrapping
//! around in a loop; if there are several paths, all count. A register that is read before anything writes it comes
//! from outside.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use super::instruction::{Class, Instruction};

/// Number of instructions by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roles {
    /// Accesses to memory.
    pub memory: u32,
    /// Pointers and indices: instructions that only contribute to an address, including the loop counter if it does.
    pub address: u32,
    /// Branches, barriers, and the conditions that only they need.
    pub control: u32,
    /// All others: the work.
    pub work: u32,
}

impl Roles {
    /// Classifies instructions that run one after the other, repeatedly if `looping`.
    #[must_use]
    pub fn from_instructions(part: &[&Instruction], looping: bool) -> Self {
        let flow = Flow::new(part, looping);
        let [mut address, mut control, mut data] = [const { Vec::new() }; 3];
        for (at, instruction) in part.iter().enumerate() {
            let uses = Uses::from_instruction(instruction);
            address.extend(uses.address.iter().map(|register| (*register, at)));
            if matches!(instruction.class(), Class::Branch | Class::Sync) {
                control.extend(uses.guard.iter().chain(&uses.data).map(|register| (*register, at)));
            } else if moves(instruction) {
                control.extend(uses.guard.iter().map(|register| (*register, at)));
                data.extend(uses.data.iter().map(|register| (*register, at)));
            }
        }
        let [address, control, data] = [address, control, data].map(|seeds| flow.slice(seeds));
        let mut roles = Self::default();
        for (at, instruction) in part.iter().enumerate() {
            let count = match instruction.class() {
                _ if moves(instruction) => &mut roles.memory,
                Class::Branch | Class::Sync | Class::Nop => &mut roles.control,
                _ if data.contains(&at) => &mut roles.work,
                _ if address.contains(&at) => &mut roles.address,
                _ if control.contains(&at) => &mut roles.control,
                _ => &mut roles.work,
            };
            *count += 1;
        }
        roles
    }
}

/// For each instruction, whether it loads from a module's own tables: its address comes from constant bank 4, where a module keeps
/// the addresses of its variables, instead of the kernel's parameters. Registers are tracked in the order of the text.
#[must_use]
pub fn table_loads(instructions: &[Instruction]) -> Vec<bool> {
    let mut from_tables: BTreeSet<Register> = BTreeSet::new();
    let follow = |instruction: &Instruction| {
        let uses = Uses::from_instruction(instruction);
        let any = |registers: &[Register]| registers.iter().any(|register| from_tables.contains(register));
        let loads = instruction.class() == Class::GlobalLoad && any(&uses.address);
        let named = instruction.operands.iter().any(|operand| operand.contains("c[0x4]["));
        let leads = !moves(instruction) && (named || any(&uses.data));
        for result in uses.results {
            if leads {
                from_tables.insert(result);
            } else if instruction.predicate.is_none() {
                from_tables.remove(&result);
            }
        }
        loads
    };
    instructions.iter().map(follow).collect()
}

/// True if an instruction has a memory operand.
fn moves(instruction: &Instruction) -> bool {
    let class = instruction.class();
    class.is_memory() || matches!(class, Class::AsyncCopy | Class::CacheControl)
}

/// A register: its bank (`R`, `UR`, `P`, `UP`) and number.
pub(super) type Register = (Bank, u16);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Bank {
    General,
    Uniform,
    Predicate,
    UniformPredicate,
}

/// Registers that one instruction reads and writes.
#[derive(Debug, Default)]
pub(super) struct Uses {
    pub(super) results: Vec<Register>,
    address: Vec<Register>,
    data: Vec<Register>,
    guard: Vec<Register>,
}

impl Uses {
    pub(super) fn from_instruction(instruction: &Instruction) -> Self {
        let mut uses = Self::default();
        if let Some(guard) = &instruction.predicate {
            uses.guard = registers(guard, 1);
        }
        let results = results(instruction);
        let [result_width, width] = widths(instruction);
        let wide_sum = instruction.modifiers().any(|modifier| modifier == "WIDE");
        let last = instruction.operands.len().saturating_sub(1);
        for (at, operand) in instruction.operands.iter().enumerate() {
            if at < results {
                uses.results.extend(registers(operand, result_width));
            } else if is_address(operand) {
                uses.address.extend(registers(operand, 1));
            } else {
                let sum = wide_sum && at == last;
                uses.data.extend(registers(operand, if sum { 2 } else { width }));
            }
        }
        uses
    }

    pub(super) fn reads(&self) -> impl Iterator<Item = &Register> {
        self.address.iter().chain(&self.data).chain(&self.guard)
    }
}

/// How many of the first operands are results.
fn results(instruction: &Instruction) -> usize {
    let opcode = instruction.opcode();
    match instruction.class() {
        Class::GlobalStore | Class::SharedStore | Class::LocalStore | Class::AsyncCopy | Class::CacheControl => {
            return 0;
        }
        Class::Branch | Class::Sync | Class::Nop => return 0,
        Class::GlobalAtomic if opcode.starts_with("RED") => return 0,
        _ => {}
    }
    let is_predicate = |operand: &str| {
        let name = operand.strip_prefix('U').unwrap_or(operand);
        name.strip_prefix('P').is_some_and(|rest| rest == "T" || rest.parse::<u8>().is_ok())
    };
    let operands = &instruction.operands;
    let Some(first) = operands.first() else { return 0 };
    if is_predicate(first) && !["SETP", "LOP3", "FCHK"].iter().any(|other| opcode.contains(other)) {
        // SHFL and ATOM may write a predicate with their success before the result.
        return 2.min(operands.len());
    }
    let carries = match opcode {
        "IADD3" | "UIADD3" => 2,
        _ => 1,
    };
    1 + operands.iter().skip(1).take(carries).take_while(|operand| is_predicate(operand)).count()
}

/// Consecutive registers of each result and of each operand.
fn widths(instruction: &Instruction) -> [u16; 2] {
    let opcode = instruction.opcode();
    let has = |what: &str| instruction.modifiers().any(|modifier| modifier == what);
    if let Some(access) = instruction.access() {
        let words = access.bytes.div_ceil(4) as u16;
        return [words, words];
    }
    match instruction.class() {
        Class::Fp64 => [2, 2],
        Class::ConstantLoad if has("64") => [2, 1],
        Class::ConstantLoad if has("128") => [4, 1],
        Class::Conversion if has("F64") || has("S64") || has("U64") => [2, 2],
        _ if has("WIDE") => [2, 1],
        _ if opcode == "CS2R" && !has("32") => [2, 1],
        _ if has("64") => [2, 2],
        _ => [1, 1],
    }
}

/// `desc[UR4][R2.64+0x10]`, `[R2.64]`, `[UR4]`: not `c[0x0][0x160]`.
fn is_address(operand: &str) -> bool {
    operand.starts_with('[')
        || operand.starts_with("desc[")
        || operand.starts_with("gdesc[")
        || operand.starts_with("a[")
}

/// Registers that an operand names, `width` consecutive ones each; two for `R2.64`. RZ, PT and similar ones are constants and don't
/// count.
fn registers(operand: &str, width: u16) -> Vec<Register> {
    let words = operand.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
    let mut found = Vec::new();
    for word in words {
        let mut parts = word.split('.');
        let Some((bank, number)) = parts.next().and_then(register) else { continue };
        let count = if parts.any(|part| part == "64") { 2.max(width) } else { width };
        let count = if matches!(bank, Bank::Predicate | Bank::UniformPredicate) { 1 } else { count };
        found.extend((0..count).map(|step| (bank, number.saturating_add(step))));
    }
    found
}

fn register(name: &str) -> Option<Register> {
    let banks = [("UR", Bank::Uniform), ("UP", Bank::UniformPredicate), ("R", Bank::General), ("P", Bank::Predicate)];
    banks.into_iter().find_map(|(prefix, bank)| Some((bank, name.strip_prefix(prefix)?.parse().ok()?)))
}

/// Which instructions write which registers.
struct Flow<'a> {
    part: &'a [&'a Instruction],
    looping: bool,
    /// Indices of the instructions that write each register, in order.
    written: BTreeMap<Register, Vec<usize>>,
}

impl<'a> Flow<'a> {
    fn new(part: &'a [&'a Instruction], looping: bool) -> Self {
        let mut written: BTreeMap<Register, Vec<usize>> = BTreeMap::new();
        for (at, instruction) in part.iter().enumerate() {
            for result in Uses::from_instruction(instruction).results {
                written.entry(result).or_default().push(at);
            }
        }
        Self { part, looping, written }
    }

    /// Instructions whose result may be in the register when instruction `at` reads it: backwards to the first that
    /// always writes it, or to one that was already `seen` for this register.
    fn writers(&self, register: Register, at: usize, seen: &mut HashSet<(Register, usize)>) -> Vec<usize> {
        let Some(places) = self.written.get(&register) else { return Vec::new() };
        let before = places.partition_point(|place| *place < at);
        let previous_iteration = if self.looping { &places[before..] } else { &[] };
        let backwards = places[..before].iter().rev().chain(previous_iteration.iter().rev());
        let mut found = Vec::new();
        for &place in backwards {
            if !seen.insert((register, place)) {
                break;
            }
            found.push(place);
            if self.part[place].predicate.is_none() {
                break;
            }
        }
        found
    }

    /// All instructions that contribute to these registers, each read by a given instruction. Loads end the slice:
    /// their addresses are classified separately.
    fn slice(&self, seeds: Vec<(Register, usize)>) -> BTreeSet<usize> {
        let mut open = seeds;
        let (mut slice, mut seen) = (BTreeSet::new(), HashSet::new());
        while let Some((register, at)) = open.pop() {
            for writer in self.writers(register, at, &mut seen) {
                let instruction = self.part[writer];
                if moves(instruction) || !slice.insert(writer) {
                    continue;
                }
                let uses = Uses::from_instruction(instruction);
                open.extend(uses.data.iter().chain(&uses.guard).map(|register| (*register, writer)));
            }
        }
        slice
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sass::Listing;
    use crate::sass::graph::Graph;

    const COPY_80: &str = include_str!("../../tests/data/copy.sm_80.sass");

    fn roles(name: &str) -> Roles {
        let listing = Listing::parse(COPY_80).unwrap();
        let function = listing.function(name).unwrap();
        let graph = Graph::new(&function.instructions);
        let body = graph.innermost().next().unwrap();
        let blocks =
            body.blocks.iter().flat_map(|block| &function.instructions[graph.blocks[*block].instructions.clone()]);
        Roles::from_instructions(&blocks.collect::<Vec<_>>(), true)
    }

    fn roles_of(text: &str, looping: bool) -> Roles {
        let lines: String =
            text.lines().enumerate().map(|(at, line)| format!("/*{:04x}*/ {line} ;\n", at * 16)).collect();
        let listing = Listing::parse(&format!(".section .text.k\n{lines}")).unwrap();
        Roles::from_instructions(&listing.functions[0].instructions.iter().collect::<Vec<_>>(), looping)
    }

    #[test]
    fn copy_loop_has_memory_address_and_control_but_no_work() {
        let expected = Roles { memory: 2, address: 5, control: 2, work: 0 };
        assert_eq!(roles("vector1_u32"), expected);
        assert_eq!(roles("vector4_u32"), expected);
        let wide = roles("vector1_u64");
        assert_eq!((wide.memory, wide.work), (2, 0));
        assert!(wide.address > expected.address && wide.address + wide.control == 12, "{wide:?}");
    }

    #[test]
    fn stored_value_is_work_even_if_it_also_leads_to_an_address() {
        let text = "LDG.E R4, desc[UR4][R2.64]\nFADD R5, R4, 1\nIADD3 R2, R2, 0x4, RZ\nFMUL R5, R5, R5\n\
                    STG.E desc[UR4][R6.64], R5\nSTG.E desc[UR4][R6.64+0x4], R2\nISETP.GE.AND P0, PT, R8, R9, PT\n@P0 BRA 0x0";
        assert_eq!(roles_of(text, true), Roles { memory: 3, address: 0, control: 2, work: 3 });
    }

    #[test]
    fn slices_follow_register_pairs_wide_products_and_carries() {
        let text = "IMAD.WIDE R2, R0, R5, c[0x0][0x160]\nIADD3 R6, P0, R2, R9, RZ\nIADD3.X R7, R3, RZ, RZ, P0, !PT\n\
                    LDG.E.64 R10, [R6.64]\nDADD R12, R10, R10\nSTG.E.64 [R6.64], R12";
        assert_eq!(roles_of(text, false), Roles { memory: 2, address: 3, control: 0, work: 1 });
    }

    #[test]
    fn guarded_write_does_not_hide_the_previous_write() {
        let text = "MOV R2, 0x1\n@P0 MOV R2, 0x2\nLDG.E R4, [R2.64]";
        assert_eq!(roles_of(text, false), Roles { memory: 1, address: 2, control: 0, work: 0 });
    }

    #[test]
    fn loaded_index_ends_the_slice() {
        let text = "LDG.E R4, [R2.64]\nIMAD.WIDE R6, R4, R5, R8\nLDG.E R10, [R6.64]\nSTG.E [R12.64], R10";
        assert_eq!(roles_of(text, false), Roles { memory: 3, address: 1, control: 0, work: 0 });
    }

    #[test]
    fn special_and_constant_operands_are_not_registers() {
        let names = |text| registers(text, 1).len();
        assert_eq!([names("SR_TID.X"), names("RZ"), names("PT"), names("0x10"), names("c[0x0][0x28]")], [0; 5]);
        assert_eq!(names("|R26|") + names("-R0.reuse") + names("!P3") + names("UR4"), 4);
        assert_eq!(names("desc[UR4][R2.64+0x10]"), 3);
    }
}
