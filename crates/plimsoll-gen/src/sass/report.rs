//! What the reader found in one cubin: per kernel the hot loop, its accesses, its instructions by class, and resources.

use std::collections::BTreeMap;
use std::fmt;

use plimsoll_core::model::Pipe;
use serde::{Deserialize, Serialize};

use super::elf::Resources;
use super::flow::Roles;
use super::graph::Graph;
use super::instruction::{Access, Class, Instruction};
use super::listing::{Function, Listing};

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
    /// A loop that contains no other: counts are per iteration. With several ways through it, all of them count.
    Loop,
    /// No loop, or none that moves as much: the block that moves most, and all that always runs before it. Counts are
    /// per thread.
    Straight,
}

/// The part of a kernel where the time goes: of the innermost loops and the blocks outside loops, that which moves most
/// bytes of global memory; where none moves any, the loop with most instructions. What bulk copies have brought to shared memory counts where it
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
        let kernel = |function: &Function| {
            KernelReport::new(function, resources.iter().find(|known| known.name == function.name))
        };
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
    let part = |blocks: &mut dyn Iterator<Item = usize>| -> Vec<&Instruction> {
        blocks.flat_map(|block| &instructions[graph.blocks[block].instructions.clone()]).collect()
    };
    let largest = graph.innermost().map(|l| part(&mut l.blocks.iter().copied())).max_by_key(Vec::len);
    let mut mnemonics: BTreeMap<String, BTreeMap<String, u32>> = BTreeMap::new();
    for instruction in largest.into_iter().flatten() {
        let written = instruction.operands.iter().find(|name| name.starts_with('R')).cloned().unwrap_or_default();
        *mnemonics.entry(instruction.mnemonic.clone()).or_default().entry(written).or_default() += 1;
    }
    mnemonics
}

fn hot(instructions: &[Instruction], graph: &Graph) -> Option<Hot> {
    let part = |blocks: &mut dyn Iterator<Item = usize>| -> Vec<&Instruction> {
        blocks.flat_map(|block| &instructions[graph.blocks[block].instructions.clone()]).collect()
    };
    let bulk = instructions.iter().any(|instruction| instruction.opcode() == "UBLKCP");
    // With whether it goes over what bulk copies have brought.
    let of = |kind, part: &[&Instruction]| {
        let hot = Hot::new(kind, part);
        let tile = bulk && hot.goes_over_tile();
        (tile, if tile { hot.reading_tile() } else { hot })
    };
    let loops = graph.innermost().map(|l| of(HotKind::Loop, &part(&mut l.blocks.iter().copied())));
    let hottest = loops.max_by_key(|(tile, hot)| (hot.moved(), *tile, hot.instructions));
    // A block is weighed by what it moves itself, so that what runs before it counts for none or for one.
    let weigh = |block: usize| (of(HotKind::Straight, &part(&mut std::iter::once(block))), block);
    let heavier = |best: ((bool, Hot), usize), next: ((bool, Hot), usize)| {
        if next.0.1.moved() > best.0.1.moved() { next } else { best }
    };
    let straight = graph.straight().map(weigh).reduce(heavier);
    let looping = |block: &usize| graph.loops.iter().any(|l| l.blocks.contains(block));
    let straight = straight.filter(|((_, hot), _)| hot.moved() > 0).map(|((tile, hot), block)| {
        let way = graph.way_to(block);
        let all = Hot::new(HotKind::Straight, &part(&mut way.into_iter().filter(|block| !looping(block))));
        (hot.moved(), tile, if tile { all.reading_tile() } else { all })
    });
    match (hottest, straight) {
        (Some((looped_tile, looped)), Some((moved, tile, straight))) => {
            // Vectors of four, or a tile, in straight code, and after it a loop over single elements that moves as much: a remainder.
            let single = looped.global() >= 4 * straight.global() || (tile && !looped_tile);
            let remainder = moved == looped.moved() && single;
            Some(if moved > looped.moved() || remainder { straight } else { looped })
        }
        (looped, straight) => looped.map(|(_, looped)| looped).or(straight.map(|(_, _, straight)| straight)),
    }
}

impl Hot {
    fn new(kind: HotKind, part: &[&Instruction]) -> Self {
        let mut in_order = part.to_vec();
        in_order.sort_by_key(|instruction| instruction.address);
        let mut hot = Self::counted(kind, &in_order);
        hot.roles = Roles::of(&in_order, kind == HotKind::Loop);
        hot.stalls = Stalls::of(&in_order);
        hot
    }

    fn counted(kind: HotKind, part: &[&Instruction]) -> Self {
        let mut pipes: BTreeMap<Pipe, u32> = BTreeMap::new();
        let mut accesses: BTreeMap<Access, u32> = BTreeMap::new();
        let mut classes: BTreeMap<Class, u32> = BTreeMap::new();
        for instruction in part {
            *classes.entry(instruction.class()).or_default() += 1;
            for pipe in [Some(Pipe::Issue), instruction.pipe()].into_iter().flatten() {
                *pipes.entry(pipe).or_default() += 1;
            }
            if let Some(access) = instruction.access() {
                *accesses.entry(access).or_default() += 1;
            }
        }
        let moved = |class: Class| {
            let of_class = accesses.iter().filter(|(access, _)| access.class == class);
            of_class.map(|(access, count)| access.bytes.saturating_mul(*count)).fold(0, u32::saturating_add)
        };
        Self {
            kind,
            first: part.iter().map(|i| i.address).min().unwrap_or(0),
            last: part.iter().map(|i| i.address).max().unwrap_or(0),
            instructions: number(part.len()),
            read: moved(Class::GlobalLoad),
            written: moved(Class::GlobalStore),
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
        writeln!(f, "  {} bytes per {per}: {} read, {} written", hot.moved(), hot.read, hot.written)?;
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Kernels of `copy.cu`, compiled by NVRTC 13.0 and disassembled by nvdisasm 13.2.
    const COPY_80: &str = include_str!("../../tests/data/copy.sm_80.sass");
    const COPY_90: &str = include_str!("../../tests/data/copy.sm_90.sass");

    fn hot(listing: &str, kernel: &str) -> Hot {
        let report = Report::new(&Listing::parse(listing).unwrap(), &[]);
        report.kernel(kernel).unwrap().hot.clone().unwrap()
    }

    #[test]
    fn the_seeds_counts_of_the_copy_loop_are_found() {
        let counts = |listing, kernel| {
            let hot = hot(listing, kernel);
            (hot.kind, hot.instructions, hot.moved())
        };
        assert_eq!(counts(COPY_80, "vector1_u32"), (HotKind::Loop, 9, 8));
        assert_eq!(counts(COPY_80, "vector1_u64"), (HotKind::Loop, 14, 8));
        assert_eq!(counts(COPY_80, "vector4_u32"), (HotKind::Loop, 9, 32));
        assert_eq!(counts(COPY_90, "vector1_u32"), (HotKind::Loop, 7, 8));
        assert_eq!(counts(COPY_90, "vector1_u64"), (HotKind::Loop, 13, 8));
        assert_eq!(counts(COPY_90, "vector4_u32"), (HotKind::Loop, 7, 32));
    }

    #[test]
    fn a_kernel_without_a_loop_counts_what_each_thread_runs() {
        let hot = hot(COPY_80, "naive_u32");
        assert_eq!((hot.kind, hot.read, hot.written), (HotKind::Straight, 4, 4));
        assert_eq!(hot.first, 0);
        assert_eq!(hot.classes[&Class::GlobalLoad], 1);
    }

    #[test]
    fn a_loop_over_what_vectors_leave_is_not_the_hot_part_though_it_moves_as_much() {
        let four = |what: &str| format!("{what}\n").repeat(4);
        let text = format!(
            "LDG.E.128 R4, [R2.64]\nSTG.E.128 [R2.64], R4\n@P0 EXIT\n{}{}@P1 BRA 0x30\nEXIT",
            four("LDG.E R4, [R2.64]"),
            four("STG.E [R2.64], R4")
        );
        let lines: String =
            text.lines().enumerate().map(|(at, line)| format!("/*{:04x}*/ {line} ;\n", at * 16)).collect();
        let hot = hot(&format!(".section .text.k\n{lines}"), "k");
        assert_eq!((hot.kind, hot.moved(), hot.accesses.len()), (HotKind::Straight, 32, 2));
    }

    /// The hot part of a kernel of these instructions.
    fn hot_of(instructions: &str) -> Hot {
        let numbered = instructions.split("; ").enumerate().map(|(at, line)| format!("/*{:04x}*/ {line} ;\n", at * 16));
        hot(&format!(".section .text.k\n{}", numbered.collect::<String>()), "k")
    }

    #[test]
    fn what_goes_over_what_bulk_copies_brought_is_the_hot_part_and_not_the_loop_over_the_rest() {
        let asks = "LDG.E R9, [R8.64]; UBLKCP [UR12], [UR8], UR5; @!P2 BRA 0x20";
        let rest = |at| format!("IADD3 R2, R2, 0x4, RZ; LDG.E R3, [R2.64]; STG.E [R2.64], R3; @P1 BRA {at:#x}; EXIT");
        let of = |tile: &str, at| {
            let found = hot_of(&format!("{asks}; {tile}; {}", rest(at)));
            (found.kind, found.last, found.read, found.written)
        };
        let looped = of("LDS R3, [R4]; STG.E [R2.64], R3; @P0 BRA 0x30", 0x60);
        assert_eq!(looped, (HotKind::Loop, 0x50, 4, 4));
        // One turn is no loop; what was loaded before, the same for all, is no part of the tile.
        let straight = of("LDS R3, [R4]; STG.E [R2.64], R3; @P0 EXIT", 0x60);
        assert_eq!(straight, (HotKind::Straight, 0x50, 4, 4));
        // A loop that asks for more copies is what counts by the memory that it reaches itself.
        let stencil = of("LDS R3, [R4]; STG.E [R2.64], R3; UBLKCP [UR12], [UR8], UR5; @P0 BRA 0x30", 0x70);
        assert_eq!(stencil, (HotKind::Loop, 0xa0, 4, 4));
        // A short end behind a loop that moves more is not the hot part.
        let end =
            of("LDG.E.128 R4, [R2.64]; STG.E.128 [R2.64], R4; @P0 BRA 0x30; LDS R3, [R4]; STG.E [R2.64], R3", 0x80);
        assert_eq!(end, (HotKind::Loop, 0x50, 16, 16));
    }

    #[test]
    fn accesses_are_counted_by_width() {
        let hot = hot(COPY_90, "vector4_u32");
        let accesses: Vec<String> = hot.accesses.iter().map(ToString::to_string).collect();
        assert_eq!(accesses, ["1 × load 16 B", "1 × store 16 B"]);
    }

    #[test]
    fn registers_come_from_the_text_where_there_is_no_cubin() {
        let registers = |listing| Report::new(&Listing::parse(listing).unwrap(), &[]).kernels[0].registers;
        assert!(registers(COPY_80).is_some_and(|registers| registers > 4));
        assert_eq!(registers(COPY_90), None);
    }

    #[test]
    fn reports_survive_json() {
        let report = Report::new(&Listing::parse(COPY_80).unwrap(), &[]);
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    }

    proptest! {
        #[test]
        fn no_damaged_listing_makes_it_panic(from in 0..COPY_90.len(), to in 0..COPY_90.len(), junk in "[@!PB `(.L_x0-9);\n]{0,12}") {
            let text = format!("{}{junk}{}", &COPY_90[..from], &COPY_90[to..]);
            if let Ok(listing) = Listing::parse(&text) {
                let _ = Report::new(&listing, &[]).to_string();
            }
        }
    }
}
