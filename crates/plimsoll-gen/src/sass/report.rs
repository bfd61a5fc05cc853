//! The report on one cubin: for each kernel the hot part, its accesses, its instructions by class, and resources.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use plimsoll_core::model::Pipe;
use serde::{Deserialize, Serialize};

use super::elf::Resources;
use super::flow::{Roles, table_loads};
use super::graph::Graph;
use super::instruction::{Access, Class, Instruction};
use super::listing::{Function, Listing};
use super::path::{Path, Paths, moved};

/// Report on one cubin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Target, as the disassembler names it: `sm_80`.
    pub target: String,
    /// Kernels, in the listing's order.
    pub kernels: Vec<KernelReport>,
}

/// Report on one function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelReport {
    /// The symbol.
    pub name: String,
    /// Registers per thread; `None` if neither the listing nor a cubin states them.
    pub registers: Option<u32>,
    /// Local memory per thread, bytes. Nonzero means spills or arrays that don't fit into registers.
    pub local_bytes: u32,
    /// Static shared memory per block, bytes.
    pub shared_bytes: u64,
    /// Instructions of the whole function that read or write local memory.
    pub local_accesses: u32,
    /// All instructions except the padding at the end.
    pub instructions: u32,
    /// Number of loops.
    pub loops: u32,
    /// Block barriers (`BAR`).
    pub barriers: u32,
    /// Bulk copies (`UBLKCP`).
    #[serde(default)]
    pub bulk_copies: u32,
    /// Instructions that demote L2 lines to normal priority (`CCTL.E.DML2`).
    #[serde(default)]
    pub demotions: u32,
    /// The part where the time goes; `None` for a kernel that does nothing.
    pub hot: Option<Hot>,
    /// Instructions of the longest innermost loop, by mnemonic and by the first register that they name, which is usually the one
    /// that they write.
    #[serde(default)]
    pub looped: BTreeMap<String, BTreeMap<String, u32>>,
}

/// Kind of a hot part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HotKind {
    /// One loop iteration: counts are per iteration.
    Loop,
    /// No loop, or none that moves as much: the blocks that move most, from the first to the last, with similar blocks after early
    /// exits, and all blocks that always run before them. Counts are per thread.
    Straight,
}

/// The part of a kernel where the time goes: the loop, or the blocks outside loops, that moves most bytes of global memory; if none
/// moves any, the innermost loop with most instructions.
///
/// With branches, one path is counted: the one that moves most, among those the one with fewest calls and loops, among those the
/// longest. It includes the routines that it calls. Data that bulk copies brought to shared memory count when they are loaded from
/// there.
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
    /// Bytes of global memory read per iteration and thread, directly or by earlier bulk copies.
    pub read: u32,
    /// Bytes of global memory written per iteration and thread.
    pub written: u32,
    /// Bytes of the module's tables read per iteration and thread: coefficients of functions. Not included in `read`.
    #[serde(default)]
    pub tables: u32,
    /// Instructions of the shortest path through the same part; equals `instructions` if there are no branches.
    #[serde(default)]
    pub shortest: u32,
    /// Instructions only on other paths, which aren't counted: slow paths, special values, their routines, inner loops.
    #[serde(default)]
    pub beside: u32,
    /// Accesses to memory, grouped by kind.
    pub accesses: Vec<Accesses>,
    /// Instructions by class.
    pub classes: BTreeMap<Class, u32>,
    /// Instructions by the pipe that they compete for. [`Pipe::Issue`] counts all, including those without a pipe.
    #[serde(default)]
    pub pipes: BTreeMap<Pipe, u32>,
    /// Instructions by purpose.
    #[serde(default)]
    pub roles: Roles,
    /// Scheduling information; `None` if the listing has no encoded bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
}

/// Scheduling information of the instructions of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// Cycles that a single warp takes for the part if it never has to wait for a barrier.
    pub cycles: u32,
    /// Instructions that wait for results of variable latency: loads, special functions.
    pub waits: u32,
    /// Distinct barriers that are waited for, at most six.
    pub barriers: u32,
}

impl Stalls {
    fn from_instructions(part: &[&Instruction]) -> Option<Self> {
        let mut all = 0_u8;
        let mut stalls = Self::default();
        for control in part.iter().map(|instruction| instruction.control) {
            let control = control?;
            // A stall of 0 cycles still takes an issue slot.
            stalls.cycles = stalls.cycles.saturating_add(u32::from(control.stall.max(1)));
            stalls.waits += u32::from(control.waits != 0);
            all |= control.waits;
        }
        (!part.is_empty()).then_some(Self { barriers: all.count_ones(), ..stalls })
    }
}

/// Accesses of the same kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accesses {
    /// The kind of access.
    #[serde(flatten)]
    pub access: Access,
    /// How many there are.
    pub count: u32,
}

impl Report {
    /// Combines the listing with the cubin's resources (empty without a cubin).
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
    /// Reports on one function.
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

/// A function whose hot part is searched.
struct Code<'a> {
    instructions: &'a [Instruction],
    /// For each instruction, whether it loads from the module's own tables.
    tables: Vec<bool>,
    /// The function has bulk copies.
    bulk: bool,
}

/// A candidate, and whether it processes a tile that bulk copies loaded.
type Candidate = (bool, Hot, Path);

impl Code<'_> {
    fn count(&self, kind: HotKind, part: &[usize]) -> (bool, Hot) {
        let hot = Hot::count(kind, self, part);
        let tile = self.bulk && hot.processes_tile();
        (tile, if tile { hot.with_tile_reads() } else { hot })
    }

    /// The innermost loop that moves most per iteration.
    fn hottest_loop(&self, graph: &Graph, paths: &Paths<'_>) -> Option<Candidate> {
        let weigh = |number: usize| {
            let (tile, hot) = self.count(HotKind::Loop, &paths.loop_path(number, usize::MAX)?);
            Some(((hot.moved(), tile, hot.instructions), number))
        };
        let innermost = (0..graph.loops.len()).filter(|number| graph.loops[*number].children.is_empty());
        let (_, number) = innermost.filter_map(weigh).max_by_key(|(key, _)| *key)?;
        let path = paths.full_loop_path(number)?;
        let (tile, hot) = self.count(HotKind::Loop, &path.instructions);
        Some((tile, hot, path))
    }

    /// Whether some loop reads and writes global memory in one iteration.
    fn loops_over_data(&self, graph: &Graph, paths: &Paths<'_>) -> bool {
        // An outer loop's path passes its inner loops, so without a limit deep nests would take quadratic time.
        let mut left = MOST_NESTED * graph.blocks.len();
        (0..graph.loops.len()).any(|number| {
            let Some(part) = paths.loop_path(number, left) else { return false };
            left = left.saturating_sub(graph.all_blocks(number, left).map_or(0, |blocks| blocks.len()));
            let (_, hot) = self.count(HotKind::Loop, &part);
            hot.read > 0 && hot.written > 0
        })
    }

    /// Groups of blocks outside loops. If some loop processes data, other loops between two blocks are part of the computation;
    /// else such loops may be where the time goes, and they end a group.
    fn groups(&self, graph: &Graph, paths: &Paths<'_>) -> Vec<Vec<usize>> {
        let groups = graph.straight();
        if self.loops_over_data(graph, paths) {
            return groups;
        }
        let split = |group: &Vec<usize>| -> Vec<Vec<usize>> {
            group.chunk_by(|before, after| !graph.loops_between(*before, *after)).map(<[usize]>::to_vec).collect()
        };
        groups.iter().flat_map(split).collect()
    }

    /// The group of blocks outside loops that moves most, with the code that runs between its blocks and before them.
    fn straight(&self, graph: &Graph, paths: &Paths<'_>) -> Option<(u32, Candidate)> {
        let mut best: Option<(u32, bool, [usize; 2])> = None;
        for group in self.groups(graph, paths) {
            let range = |block: &usize| graph.blocks[*block].instructions.clone();
            let loads_tile = |block: &usize| range(block).any(|at| self.instructions[at].class() == Class::SharedLoad);
            // Data loaded before the tile are the same for all elements and not part of it.
            let first = group.iter().position(loads_tile).filter(|_| self.bulk).unwrap_or(0);
            let part: Vec<usize> = group[first..].iter().flat_map(range).collect();
            let (tile, hot) = self.count(HotKind::Straight, &part);
            if hot.moved() > best.map_or(0, |(moved, ..)| moved) {
                best = group.last().map(|last| (hot.moved(), tile, [group[first], *last]));
            }
        }
        let (moved, tile, [first, last]) = best?;
        let path = paths.full_path(first, paths.find_end(first, last))?;
        let hot = Hot::count(HotKind::Straight, self, &path.instructions);
        Some((moved, (tile, if tile { hot.with_tile_reads() } else { hot }, path)))
    }
}

/// How many times the blocks of a function may be visited in nested loops.
const MOST_NESTED: usize = 64;

fn hot(instructions: &[Instruction], graph: &Graph) -> Option<Hot> {
    let bulk = instructions.iter().any(|instruction| instruction.opcode() == "UBLKCP");
    let code = Code { instructions, tables: table_loads(instructions), bulk };
    let moves = |at: usize| moved(&instructions[at], code.tables[at]);
    let paths = Paths::new(instructions, graph, &moves);
    let (_, hot, path) = match (code.hottest_loop(graph, &paths), code.straight(graph, &paths)) {
        (Some(looped), Some((moved, straight))) => {
            // Straight code with vectors of four, or with a tile, followed by a loop over single elements that moves as much:
            // the loop only processes the remainder.
            let single = looped.1.global() >= 4 * straight.1.global() || (straight.0 && !looped.0);
            let remainder = moved == looped.1.moved() && single;
            if moved > looped.1.moved() || remainder { straight } else { looped }
        }
        (looped, straight) => looped.or(straight.map(|(_, straight)| straight))?,
    };
    Some(hot.with_details(&path, instructions))
}

impl Hot {
    /// Adds the details that are only computed for the chosen part.
    fn with_details(mut self, path: &Path, instructions: &[Instruction]) -> Self {
        let part: Vec<&Instruction> = path.instructions.iter().map(|at| &instructions[*at]).collect();
        self.roles = Roles::from_instructions(&part, self.kind == HotKind::Loop);
        self.stalls = Stalls::from_instructions(&part);
        let own = || path.own.iter().map(|at| instructions[*at].address);
        self.first = own().min().unwrap_or(0);
        self.last = own().max().unwrap_or(0);
        self.shortest = number(path.shortest);
        self.beside = number(path.off_path);
        self
    }

    fn count(kind: HotKind, code: &Code<'_>, part: &[usize]) -> Self {
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

    /// Whether it loads from shared memory and stores to global memory. Loops that issue copies themselves don't count: they are
    /// stencils.
    fn processes_tile(&self) -> bool {
        let has = |class| self.classes.contains_key(&class);
        let issues_copies = self.kind == HotKind::Loop && has(Class::AsyncCopy);
        has(Class::SharedLoad) && has(Class::GlobalStore) && !has(Class::GlobalLoad) && !issues_copies
    }

    /// Counts loads from shared memory as reads, because bulk copies brought the data there.
    fn with_tile_reads(mut self) -> Self {
        let loads = self.accesses.iter().filter(|accesses| accesses.access.class == Class::SharedLoad);
        self.read = loads.map(|loads| loads.access.bytes.saturating_mul(loads.count)).fold(0, u32::saturating_add);
        self
    }

    /// Number of loads from and stores to global memory.
    fn global(&self) -> u32 {
        let global = |access: &&Accesses| matches!(access.access.class, Class::GlobalLoad | Class::GlobalStore);
        self.accesses.iter().filter(global).map(|access| access.count).sum()
    }

    /// Elements per iteration (or per thread) if an element has `bytes`: from the bytes written, or from the bytes read if
    /// nothing is written. `None` if nothing is moved.
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
                "    of several paths: the shortest has {shortest}; {beside} more are in slow paths and special cases"
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
            writeln!(f, "    per 16 bytes moved {all:.1} instructions, including {work:.1} of work")?;
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
