//! What the reader found in one cubin: per kernel the hot loop, its accesses, its instructions by class, and resources.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use plimsoll_core::model::Pipe;
use serde::{Deserialize, Serialize};

use super::elf::Resources;
use super::flow::{Roles, table_loads};
use super::graph::Graph;
use super::instruction::{Access, Class, Instruction};
use super::listing::{Function, Listing};
use super::path::{Way, Ways, moved};

/// Findings of one cubin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// As the disassembler names it: `sm_80`.
    pub target: String,
    /// In the listing's order.
    pub kernels: Vec<KernelReport>,
}

/// Findings of one function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelReport {
    /// The symbol.
    pub name: String,
    /// Registers per thread; `None` where neither text nor cubin told.
    pub registers: Option<u32>,
    /// Local memory per thread, bytes. Not zero means spills or arrays that registers couldn't hold.
    pub local_bytes: u32,
    /// Static shared memory per block, bytes.
    pub shared_bytes: u64,
    /// Instructions of the whole function that read or write local memory.
    pub local_accesses: u32,
    /// All instructions but the padding after the last one.
    pub instructions: u32,
    /// Number of loops.
    pub loops: u32,
    /// Barriers of a block (`BAR`).
    pub barriers: u32,
    /// Bulk copies (`UBLKCP`).
    #[serde(default)]
    pub bulk_copies: u32,
    /// Instructions that demote lines of the second-level cache to normal priority (`CCTL.E.DML2`).
    #[serde(default)]
    pub demotions: u32,
    /// Where the time goes; `None` for a kernel that does nothing.
    pub hot: Option<Hot>,
    /// Instructions of the innermost loop that has most, by mnemonic and by the first register that they name, which is the
    /// one that most write.
    #[serde(default)]
    pub looped: BTreeMap<String, BTreeMap<String, u32>>,
}

/// What a hot part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HotKind {
    /// One round of a loop: counts are per iteration.
    Loop,
    /// No loop, or none that moves as much: the blocks that move most, from the first to the last, with more of the
    /// same behind early exits, and all that always runs before them. Counts are per thread.
    Straight,
}

/// The part of a kernel where the time goes: of the loops and the blocks outside loops, that which moves most bytes of global memory;
/// where none moves any, the innermost loop with most instructions. Where branches leave a choice, one way is counted: the one that moves most,
/// among those the one with fewest calls and loops, among those the longest. Routines that it calls count with it. What bulk copies have brought to shared memory counts where it
/// is loaded from there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hot {
    /// Loop or straight code.
    pub kind: HotKind,
    /// Lowest address, bytes.
    pub first: u32,
    /// Highest address, bytes.
    pub last: u32,
    /// Instructions per iteration (or per thread).
    pub instructions: u32,
    /// Bytes of global memory read per iteration and thread, by itself or by bulk copies before it.
    pub read: u32,
    /// Bytes of global memory written per iteration and thread.
    pub written: u32,
    /// Bytes of tables of the module that are read per iteration and thread: coefficients of functions. No part of `read`.
    #[serde(default)]
    pub tables: u32,
    /// Instructions of the shortest way through the same part, where branches leave a choice; else as many as `instructions`.
    #[serde(default)]
    pub shortest: u32,
    /// Instructions of other ways, which aren't counted: slow paths, special values, routines that only they call, loops inside.
    #[serde(default)]
    pub beside: u32,
    /// Accesses to memory, like ones counted together.
    pub accesses: Vec<Accesses>,
    /// Instructions by class.
    pub classes: BTreeMap<Class, u32>,
    /// Instructions by the pipe that they compete for; those of no pipe are in [`Pipe::Issue`] alone, which is all.
    #[serde(default)]
    pub pipes: BTreeMap<Pipe, u32>,
    /// What the instructions are there for.
    #[serde(default)]
    pub roles: Roles,
    /// What the scheduler is told; `None` where the listing has no bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
}

/// What the scheduler is told with the instructions of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// Cycles that one warp takes for the part by itself, if it never has to wait for a barrier.
    pub cycles: u32,
    /// Instructions that wait for the results of others whose time isn't known beforehand: loads, special functions.
    pub waits: u32,
    /// Different barriers that are waited for, at most six.
    pub barriers: u32,
}

impl Stalls {
    fn of(part: &[&Instruction]) -> Option<Self> {
        let mut all = 0_u8;
        let mut stalls = Self::default();
        for control in part.iter().map(|instruction| instruction.control) {
            let control = control?;
            // A stall of nothing still takes the slot of one.
            stalls.cycles = stalls.cycles.saturating_add(u32::from(control.stall.max(1)));
            stalls.waits += u32::from(control.waits != 0);
            all |= control.waits;
        }
        (!part.is_empty()).then_some(Self { barriers: all.count_ones(), ..stalls })
    }
}

/// Like accesses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accesses {
    /// What each is.
    #[serde(flatten)]
    pub access: Access,
    /// How many there are.
    pub count: u32,
}

impl Report {
    /// Joins the listing with the cubin's resources (empty where there is no cubin).
    #[must_use]
    pub fn new(listing: &Listing, resources: &[Resources]) -> Self {
        let mut by_name: HashMap<&str, &Resources> = HashMap::new();
        for function in resources {
            by_name.entry(&function.name).or_insert(function);
        }
        let kernel = |function: &Function| KernelReport::new(function, by_name.get(function.name.as_str()).copied());
        let target = listing.target.clone().unwrap_or_default();
        Self { target, kernels: listing.functions.iter().map(kernel).collect() }
    }

    /// The kernel of this name.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&KernelReport> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}

impl KernelReport {
    /// Findings of one function.
    #[must_use]
    pub fn new(function: &Function, resources: Option<&Resources>) -> Self {
        let instructions = &function.instructions;
        let graph = Graph::new(instructions);
        let count = |is: &dyn Fn(&Instruction) -> bool| number(instructions.iter().filter(|i| is(i)).count());
        let padding = instructions.iter().rev().take_while(|i| i.class() == Class::Nop).count();
        Self {
            name: function.name.clone(),
            registers: resources.map(|r| r.registers).or(function.registers),
            local_bytes: resources.map_or(0, |r| r.local_bytes),
            shared_bytes: resources.map_or(0, |r| r.shared_bytes),
            local_accesses: count(&|i| matches!(i.class(), Class::LocalLoad | Class::LocalStore)),
            instructions: number(instructions.len() - padding),
            loops: number(graph.loops.len()),
            barriers: count(&|i| i.opcode() == "BAR"),
            bulk_copies: count(&|i| i.opcode() == "UBLKCP"),
            demotions: count(&|i| i.mnemonic.contains(".DML2")),
            hot: hot(instructions, &graph),
            looped: looped(instructions, &graph),
        }
    }
}

/// Counts fit: a listing's size is limited.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn looped(instructions: &[Instruction], graph: &Graph) -> BTreeMap<String, BTreeMap<String, u32>> {
    let length = |blocks: &[usize]| blocks.iter().map(|block| graph.blocks[*block].instructions.len()).sum::<usize>();
    let largest = graph.innermost().max_by_key(|innermost| length(&innermost.blocks));
    let mut mnemonics: BTreeMap<String, BTreeMap<String, u32>> = BTreeMap::new();
    let blocks = largest.into_iter().flat_map(|innermost| &innermost.blocks);
    for instruction in blocks.flat_map(|block| &instructions[graph.blocks[*block].instructions.clone()]) {
        let written = instruction.operands.iter().find(|name| name.starts_with('R')).cloned().unwrap_or_default();
        *mnemonics.entry(instruction.mnemonic.clone()).or_default().entry(written).or_default() += 1;
    }
    mnemonics
}

/// A function whose hot part is looked for.
struct Code<'a> {
    instructions: &'a [Instruction],
    /// Loads from the module's own tables.
    tables: Vec<bool>,
    /// It has bulk copies.
    bulk: bool,
}

/// A candidate, with whether it goes over what bulk copies have brought.
type Candidate = (bool, Hot, Way);

impl Code<'_> {
    fn count(&self, kind: HotKind, part: &[usize]) -> (bool, Hot) {
        let hot = Hot::counted(kind, self, part);
        let tile = self.bulk && hot.goes_over_tile();
        (tile, if tile { hot.reading_tile() } else { hot })
    }

    /// Of the innermost loops that which moves most in one round.
    fn hottest_loop(&self, graph: &Graph, ways: &Ways<'_>) -> Option<Candidate> {
        let weigh = |number: usize| {
            let (tile, hot) = self.count(HotKind::Loop, &ways.around(number, usize::MAX)?);
            Some(((hot.moved(), tile, hot.instructions), number))
        };
        let innermost = (0..graph.loops.len()).filter(|number| graph.loops[*number].children.is_empty());
        let (_, number) = innermost.filter_map(weigh).max_by_key(|(key, _)| *key)?;
        let way = ways.whole_round(number)?;
        let (tile, hot) = self.count(HotKind::Loop, &way.instructions);
        Some((tile, hot, way))
    }

    /// Whether a loop goes over data: reads and writes global memory in one round.
    fn loops_over_data(&self, graph: &Graph, ways: &Ways<'_>) -> bool {
        // A round of a loop goes past those inside it, so that deep nests would take the square of their depth.
        let mut left = MOST_NESTED * graph.blocks.len();
        (0..graph.loops.len()).any(|number| {
            let Some(part) = ways.around(number, left) else { return false };
            left = left.saturating_sub(graph.all_of(number, left).map_or(0, |blocks| blocks.len()));
            let (_, hot) = self.count(HotKind::Loop, &part);
            hot.read > 0 && hot.written > 0
        })
    }

    /// Groups of blocks outside loops. Where a loop goes over data, others between two blocks are part of what is computed; else they may
    /// be where the time goes, and end a group.
    fn groups(&self, graph: &Graph, ways: &Ways<'_>) -> Vec<Vec<usize>> {
        let groups = graph.straight();
        if self.loops_over_data(graph, ways) {
            return groups;
        }
        let split = |group: &Vec<usize>| -> Vec<Vec<usize>> {
            group.chunk_by(|before, after| !graph.loops_between(*before, *after)).map(<[usize]>::to_vec).collect()
        };
        groups.iter().flat_map(split).collect()
    }

    /// Of the blocks outside loops the group that moves most, with what runs between its blocks and before them.
    fn straight(&self, graph: &Graph, ways: &Ways<'_>) -> Option<(u32, Candidate)> {
        let mut best: Option<(u32, bool, [usize; 2])> = None;
        for group in self.groups(graph, ways) {
            let of = |block: &usize| graph.blocks[*block].instructions.clone();
            let loads_tile = |block: &usize| of(block).any(|at| self.instructions[at].class() == Class::SharedLoad);
            // What is loaded before the tile is the same for all and no part of it.
            let first = group.iter().position(loads_tile).filter(|_| self.bulk).unwrap_or(0);
            let part: Vec<usize> = group[first..].iter().flat_map(of).collect();
            let (tile, hot) = self.count(HotKind::Straight, &part);
            if hot.moved() > best.map_or(0, |(moved, ..)| moved) {
                best = group.last().map(|last| (hot.moved(), tile, [group[first], *last]));
            }
        }
        let (moved, tile, [first, last]) = best?;
        let way = ways.whole_way(first, ways.end_of(first, last))?;
        let hot = Hot::counted(HotKind::Straight, self, &way.instructions);
        Some((moved, (tile, if tile { hot.reading_tile() } else { hot }, way)))
    }
}

/// How often the blocks of a function may be looked at in loops around others.
const MOST_NESTED: usize = 64;

fn hot(instructions: &[Instruction], graph: &Graph) -> Option<Hot> {
    let bulk = instructions.iter().any(|instruction| instruction.opcode() == "UBLKCP");
    let code = Code { instructions, tables: table_loads(instructions), bulk };
    let moves = |at: usize| moved(&instructions[at], code.tables[at]);
    let ways = Ways::new(instructions, graph, &moves);
    let (_, hot, way) = match (code.hottest_loop(graph, &ways), code.straight(graph, &ways)) {
        (Some(looped), Some((moved, straight))) => {
            // Vectors of four, or a tile, in straight code, and after it a loop over single elements that moves as much: a remainder.
            let single = looped.1.global() >= 4 * straight.1.global() || (straight.0 && !looped.0);
            let remainder = moved == looped.1.moved() && single;
            if moved > looped.1.moved() || remainder { straight } else { looped }
        }
        (looped, straight) => looped.or(straight.map(|(_, straight)| straight))?,
    };
    Some(hot.on(&way, instructions))
}

impl Hot {
    /// What is only looked for in the part that was chosen.
    fn on(mut self, way: &Way, instructions: &[Instruction]) -> Self {
        let part: Vec<&Instruction> = way.instructions.iter().map(|at| &instructions[*at]).collect();
        self.roles = Roles::of(&part, self.kind == HotKind::Loop);
        self.stalls = Stalls::of(&part);
        let own = || way.own.iter().map(|at| instructions[*at].address);
        self.first = own().min().unwrap_or(0);
        self.last = own().max().unwrap_or(0);
        self.shortest = number(way.shortest);
        self.beside = number(way.beside);
        self
    }

    fn counted(kind: HotKind, code: &Code<'_>, part: &[usize]) -> Self {
        let mut pipes: BTreeMap<Pipe, u32> = BTreeMap::new();
        let mut accesses: BTreeMap<Access, u32> = BTreeMap::new();
        let mut classes: BTreeMap<Class, u32> = BTreeMap::new();
        let [mut read, mut written, mut tables] = [0_u32; 3];
        for &at in part {
            let instruction = &code.instructions[at];
            *classes.entry(instruction.class()).or_default() += 1;
            for pipe in [Some(Pipe::Issue), instruction.pipe()].into_iter().flatten() {
                *pipes.entry(pipe).or_default() += 1;
            }
            let Some(access) = instruction.access() else { continue };
            let sum = match access.class {
                Class::GlobalStore => Some(&mut written),
                Class::GlobalLoad if code.tables[at] => Some(&mut tables),
                Class::GlobalLoad => Some(&mut read),
                _ => None,
            };
            if let Some(sum) = sum {
                *sum = sum.saturating_add(access.bytes);
            }
            *accesses.entry(access).or_default() += 1;
        }
        Self {
            kind,
            first: 0,
            last: 0,
            instructions: number(part.len()),
            read,
            written,
            tables,
            shortest: 0,
            beside: 0,
            accesses: accesses.into_iter().map(|(access, count)| Accesses { access, count }).collect(),
            classes,
            pipes,
            roles: Roles::default(),
            stalls: None,
        }
    }

    /// Whether it stores what it loads from shared memory. A loop that asks for copies itself does something else: stencils do.
    fn goes_over_tile(&self) -> bool {
        let is = |class| self.classes.contains_key(&class);
        let asks = self.kind == HotKind::Loop && is(Class::AsyncCopy);
        is(Class::SharedLoad) && is(Class::GlobalStore) && !is(Class::GlobalLoad) && !asks
    }

    /// The same, where what is loaded from shared memory is what bulk copies have read.
    fn reading_tile(mut self) -> Self {
        let loads = self.accesses.iter().filter(|accesses| accesses.access.class == Class::SharedLoad);
        self.read = loads.map(|loads| loads.access.bytes.saturating_mul(loads.count)).fold(0, u32::saturating_add);
        self
    }

    /// Loads from and stores to global memory.
    fn global(&self) -> u32 {
        let global = |access: &&Accesses| matches!(access.access.class, Class::GlobalLoad | Class::GlobalStore);
        self.accesses.iter().filter(global).map(|access| access.count).sum()
    }

    /// Elements per iteration (or per thread), where one of the widest stream has `bytes`: from what is written, or from what
    /// is read where nothing is. `None` where nothing moves.
    #[must_use]
    pub fn elements(&self, bytes: u32) -> Option<f64> {
        let moved = if self.written > 0 { self.written } else { self.read };
        (moved > 0 && bytes > 0).then(|| f64::from(moved) / f64::from(bytes))
    }

    /// Bytes of global memory read and written per iteration and thread.
    #[must_use]
    pub fn moved(&self) -> u32 {
        self.read.saturating_add(self.written)
    }
}

impl fmt::Display for Accesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, memory) = match self.access.class {
            Class::GlobalLoad => ("load", ""),
            Class::GlobalStore => ("store", ""),
            Class::GlobalAtomic => ("atomic", ""),
            Class::SharedLoad => ("load", " shared"),
            Class::SharedStore => ("store", " shared"),
            Class::SharedAtomic => ("atomic", " shared"),
            Class::LocalLoad => ("load", " local"),
            _ => ("store", " local"),
        };
        write!(f, "{} × {what}{memory} {} B", self.count, self.access.bytes)?;
        if self.access.hints.is_empty() { Ok(()) } else { write!(f, " {}", self.access.hints) }
    }
}

impl fmt::Display for KernelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let registers = self.registers.map_or("unknown".to_owned(), |registers| registers.to_string());
        writeln!(f, "{}", self.name)?;
        writeln!(
            f,
            "  registers {registers}, local memory {} B, shared memory {} B",
            self.local_bytes, self.shared_bytes
        )?;
        writeln!(f, "  {} instructions, {} loops, {} barriers", self.instructions, self.loops, self.barriers)?;
        let Some(hot) = &self.hot else { return writeln!(f, "  moves no memory and has no loop") };
        let (part, per) = match hot.kind {
            HotKind::Loop => ("hot loop", "iteration"),
            HotKind::Straight => ("straight code", "thread"),
        };
        writeln!(f, "  {part} at 0x{:04x}…0x{:04x}: {} instructions per {per}", hot.first, hot.last, hot.instructions)?;
        if hot.beside > 0 {
            let (shortest, beside) = (hot.shortest, hot.beside);
            writeln!(
                f,
                "    of several ways: the shortest has {shortest}; {beside} more are in slow paths and special cases"
            )?;
        }
        writeln!(f, "  {} bytes per {per}: {} read, {} written", hot.moved(), hot.read, hot.written)?;
        if hot.tables > 0 {
            writeln!(f, "    and {} of the module's tables", hot.tables)?;
        }
        for accesses in &hot.accesses {
            writeln!(f, "    {accesses}")?;
        }
        let name = |class: &Class| format!("{class:?}").to_lowercase();
        let classes: Vec<String> =
            hot.classes.iter().map(|(class, count)| format!("{} {count}", name(class))).collect();
        writeln!(f, "    {}", classes.join(", "))?;
        let Roles { memory, address, control, work } = hot.roles;
        writeln!(f, "    for memory {memory}, addresses {address}, control {control}, work {work}")?;
        if hot.moved() > 0 {
            let each = |count: u32| 16.0 * f64::from(count) / f64::from(hot.moved());
            let (all, work) = (each(hot.instructions), each(work));
            writeln!(f, "    per 16 bytes moved {all:.1} instructions, of them work {work:.1}")?;
        }
        let pipes: Vec<String> = hot.pipes.iter().map(|(pipe, count)| format!("{pipe} {count}")).collect();
        writeln!(f, "    slots: {}", pipes.join(", "))?;
        let Some(Stalls { cycles, waits, barriers }) = hot.stalls else { return Ok(()) };
        writeln!(f, "    stalls of {cycles} cycles; {waits} instructions wait, for {barriers} barriers")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for kernel in &self.kernels {
            write!(f, "{} {kernel}", self.target)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
