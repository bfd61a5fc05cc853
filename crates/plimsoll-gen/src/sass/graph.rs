//! Control flow of one function: basic blocks, their successors, natural loops.
//!
//! Method: leaders and blocks as in compiler textbooks. A natural loop consists of all blocks that reach a back edge's tail without
//! passing its head. Loops are nested by collapsing the inner ones first (Havlak, 'Nesting of reducible and irreducible loops',
//! 1997). A call is followed by the next instruction; routines are analysed separately. Indirect branches have no known successors,
//! so a loop through one is not found. Time and memory grow with the number of instructions, whatever the branches.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use super::dominators::Dominators;
use super::instruction::Instruction;

/// Blocks and loops of one function.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Blocks in address order; the first is the entry.
    pub blocks: Vec<Block>,
    /// Loops that the entry reaches.
    pub loops: Vec<Loop>,
    /// The innermost loop of each block.
    loop_of: Vec<Option<usize>>,
    /// Entry times of the heads of all loops in a traversal of the dominator tree, sorted.
    heads: Vec<usize>,
    dominators: Dominators,
    /// Dominators of the reversed graph, whose root is a virtual block after the function.
    postdominators: Dominators,
    /// Position of each block in an order in which each block comes after all of its successors, except for back edges. Routines
    /// that are only reached by calls come last.
    places: Vec<usize>,
}

/// A basic block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its instructions, as indices.
    pub instructions: Range<usize>,
    /// Blocks that may follow.
    pub successors: Vec<usize>,
    /// The function may end here.
    pub ends: bool,
    /// The first block of the routine called at its end, if that is in the same function.
    pub calls: Option<usize>,
}

/// A natural loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The block through which it is entered.
    pub head: usize,
    /// Its blocks, the head first, without those of inner loops.
    pub blocks: Vec<usize>,
    /// The next outer loop.
    pub parent: Option<usize>,
    /// The next inner loops.
    pub children: Vec<usize>,
}

impl Graph {
    /// Finds the blocks and loops of a function's instructions.
    #[must_use]
    pub fn new(instructions: &[Instruction]) -> Self {
        let blocks = blocks(instructions);
        let successors: Vec<Vec<usize>> = blocks.iter().map(|block| block.successors.clone()).collect();
        let dominators = Dominators::new(&successors, 0);
        let postdominators = Dominators::new(&backwards(&blocks, &dominators), blocks.len());
        let mut graph = Self {
            places: places(&blocks),
            loop_of: vec![None; blocks.len()],
            blocks,
            loops: Vec::new(),
            heads: Vec::new(),
            dominators,
            postdominators,
        };
        graph.find_loops();
        let heads = graph.loops.iter().filter_map(|found| graph.dominators.visit(found.head));
        graph.heads = heads.map(|(entered, _)| entered).collect();
        graph.heads.sort_unstable();
        graph
    }

    /// Loops that contain no other.
    pub fn innermost(&self) -> impl Iterator<Item = &Loop> {
        self.loops.iter().filter(|inner| inner.children.is_empty())
    }

    /// Whether the entry reaches a block without a call.
    #[must_use]
    pub fn is_reached(&self, block: usize) -> bool {
        self.dominators.is_reached(block)
    }

    /// The innermost loop that contains a block.
    #[must_use]
    pub fn loop_of(&self, block: usize) -> Option<usize> {
        self.loop_of.get(block).copied().flatten()
    }

    /// Reachable blocks outside loops, in groups: if one block of a group runs, all do, in this order. A loop that
    /// always runs between two blocks ends a group.
    #[must_use]
    pub fn straight(&self) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut group_of: HashMap<usize, usize> = HashMap::new();
        // In this order, dominators come after the blocks that they dominate.
        for block in self.reached_in_order() {
            if self.loop_of(block).is_some() {
                continue;
            }
            let group = *group_of.entry(block).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[group].push(block);
            let before = self.dominators.immediate(block);
            if let Some(before) = before.filter(|before| self.postdominators.dominates(block, *before)) {
                group_of.insert(before, group);
            }
        }
        groups.iter_mut().for_each(|group| group.reverse());
        groups.sort_by_key(|group| group[0]);
        groups
    }

    /// Blocks outside loops that run before a block on every path from the entry, in order.
    #[must_use]
    pub fn always_before(&self, block: usize) -> Vec<usize> {
        let upwards = std::iter::successors(self.dominators.immediate(block), |at| self.dominators.immediate(*at));
        let mut before: Vec<usize> = upwards.filter(|at| self.loop_of(*at).is_none()).collect();
        before.reverse();
        before
    }

    /// Whether a loop may run between the end of one block and the next of its group.
    #[must_use]
    pub fn loops_between(&self, before: usize, after: usize) -> bool {
        let dominated_loops = |block: usize| {
            let (entered, left) = self.dominators.visit(block).unwrap_or_default();
            self.heads.partition_point(|head| *head < left) - self.heads.partition_point(|head| *head < entered)
        };
        dominated_loops(before) > dominated_loops(after)
    }

    /// All blocks of a loop, including inner loops; `None` if there are more than `most`.
    #[must_use]
    pub fn all_blocks(&self, number: usize, most: usize) -> Option<Vec<usize>> {
        let (mut all, mut open) = (Vec::new(), vec![number]);
        while let Some(current) = open.pop().map(|number| &self.loops[number]) {
            all.extend(&current.blocks);
            open.extend(&current.children);
            if all.len() > most {
                return None;
            }
        }
        Some(all)
    }

    /// Whether the edge between two blocks is not a back edge.
    #[must_use]
    pub fn is_forward(&self, from: usize, to: usize) -> bool {
        self.places[to] < self.places[from]
    }

    /// Sorts blocks so that each comes after all of its successors, except for back edges.
    pub fn sort_backwards(&self, blocks: &mut [usize]) {
        blocks.sort_unstable_by_key(|block| self.places[*block]);
    }

    /// Blocks that the entry reaches, each after all of its successors, except for back edges.
    fn reached_in_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.blocks.len()).filter(|block| self.is_reached(*block)).collect();
        self.sort_backwards(&mut order);
        order
    }

    fn find_loops(&mut self) {
        let mut predecessors = vec![Vec::new(); self.blocks.len()];
        let mut tails: HashMap<usize, Vec<usize>> = HashMap::new();
        for from in (0..self.blocks.len()).filter(|block| self.dominators.is_reached(*block)) {
            for &to in &self.blocks[from].successors {
                predecessors[to].push(from);
                if self.dominators.dominates(to, from) {
                    tails.entry(to).or_default().push(from);
                }
            }
        }
        let mut heads: Vec<usize> = tails.keys().copied().collect();
        // Inner heads are further from the entry, so inner loops are complete before outer ones are built.
        self.sort_backwards(&mut heads);
        let mut outermost = Collapsed { above: (0..self.blocks.len()).collect() };
        for head in heads {
            let number = self.loops.len();
            let mut found = Loop { head, blocks: vec![head], parent: None, children: Vec::new() };
            let mut open: Vec<usize> = tails.remove(&head).unwrap_or_default();
            while let Some(block) = open.pop() {
                let block = outermost.find(block);
                if block == head {
                    continue;
                }
                outermost.above[block] = head;
                match self.loop_of[block].filter(|inner| self.loops[*inner].head == block) {
                    Some(inner) => {
                        self.loops[inner].parent = Some(number);
                        found.children.push(inner);
                    }
                    None => {
                        self.loop_of[block] = Some(number);
                        found.blocks.push(block);
                    }
                }
                open.extend(&predecessors[block]);
            }
            self.loop_of[head] = Some(number);
            self.loops.push(found);
        }
    }
}

/// Union-find over blocks: each block's representative is the head of the outermost loop found so far that contains it.
struct Collapsed {
    above: Vec<usize>,
}

impl Collapsed {
    fn find(&mut self, block: usize) -> usize {
        let mut at = block;
        while self.above[at] != at {
            self.above[at] = self.above[self.above[at]];
            at = self.above[at];
        }
        at
    }
}

/// Successors in the reversed graph: the predecessors of each block. The last entry is a virtual block after the function, which
/// every end leads to.
fn backwards(blocks: &[Block], dominators: &Dominators) -> Vec<Vec<usize>> {
    let mut before = vec![Vec::new(); blocks.len() + 1];
    for (from, block) in blocks.iter().enumerate().filter(|(from, _)| dominators.is_reached(*from)) {
        block.successors.iter().for_each(|to| before[*to].push(from));
        if block.ends {
            before[blocks.len()].push(from);
        }
    }
    before
}

fn blocks(instructions: &[Instruction]) -> Vec<Block> {
    let mut leaders = BTreeSet::from([0]);
    for (at, instruction) in instructions.iter().enumerate() {
        leaders.extend(instruction.target);
        if ends_block(instruction) {
            leaders.insert(at + 1);
        }
    }
    leaders.retain(|leader| *leader < instructions.len());
    let starts: Vec<usize> = leaders.into_iter().collect();
    let ends = starts.iter().skip(1).copied().chain([instructions.len()]);
    let ranges: Vec<Range<usize>> = starts.iter().zip(ends).map(|(start, end)| *start..end).collect();
    let block_at = |instruction: usize| starts.partition_point(|start| *start <= instruction).checked_sub(1);
    let meetings = meetings(instructions);
    let block = |range: &Range<usize>| {
        let last = range.end - 1;
        let next = (range.end < instructions.len()).then_some(range.end);
        let mut successors = successors(&instructions[last], meetings.get(&last).copied(), next);
        successors.sort_unstable();
        successors.dedup();
        let calls = instructions[last].target.filter(|_| is_call(&instructions[last])).and_then(block_at);
        let ends = matches!(instructions[last].opcode(), "EXIT" | "RET" | "KILL") || successors.is_empty();
        let successors = successors.into_iter().filter_map(block_at).collect();
        Block { instructions: range.clone(), successors, ends, calls }
    };
    ranges.iter().map(block).collect()
}

/// True for a call, after which the next instruction runs.
fn is_call(instruction: &Instruction) -> bool {
    matches!(instruction.opcode(), "CALL" | "JCAL" | "PCALL")
}

fn ends_block(instruction: &Instruction) -> bool {
    let jumps = matches!(
        instruction.opcode(),
        "BRA" | "BRX" | "BRXU" | "JMP" | "JMX" | "JMXU" | "RET" | "EXIT" | "KILL" | "BSYNC"
    );
    jumps || is_call(instruction)
}

/// Instructions that may follow an instruction. `meeting` is where its threads reconverge, `next` the next one in memory.
fn successors(instruction: &Instruction, meeting: Option<usize>, next: Option<usize>) -> Vec<usize> {
    let guarded = instruction.predicate.is_some();
    let jump: Vec<usize> = match instruction.opcode() {
        // A second operand (`BRA.DIV UR4`, `BRA.U UP0`, `BRA P1`) is a condition too.
        "BRA" | "JMP" if !guarded && instruction.operands.len() < 2 => return instruction.target.into_iter().collect(),
        "BRA" | "JMP" => instruction.target.into_iter().collect(),
        "BSYNC" => match meeting {
            Some(target) if !guarded => return vec![target],
            target => target.into_iter().collect(),
        },
        "BRX" | "BRXU" | "JMX" | "JMXU" | "RET" | "EXIT" | "KILL" => Vec::new(),
        _ => return next.into_iter().collect(),
    };
    let falls_through = guarded || matches!(instruction.opcode(), "BRA" | "JMP" | "BSYNC");
    jump.into_iter().chain(next.filter(|_| falls_through)).collect()
}

/// The target of each BSYNC: the target of the nearest preceding BSSY with the same barrier register.
fn meetings(instructions: &[Instruction]) -> HashMap<usize, usize> {
    let mut set: HashMap<&str, Option<usize>> = HashMap::new();
    let mut meetings = HashMap::new();
    for (at, instruction) in instructions.iter().enumerate() {
        let Some(barrier) = instruction.operands.first() else { continue };
        match instruction.opcode() {
            "BSSY" => {
                set.insert(barrier, instruction.target);
            }
            "BSYNC" => {
                meetings.extend(set.get(barrier.as_str()).copied().flatten().map(|target| (at, target)));
            }
            _ => {}
        }
    }
    meetings
}

/// Each block's position in an order in which it comes after all of its successors, except for back edges. Blocks that the entry
/// reaches come first.
fn places(blocks: &[Block]) -> Vec<usize> {
    let mut places = vec![0; blocks.len()];
    let mut seen = vec![false; blocks.len()];
    let mut next_place = 0;
    for root in (0..blocks.len().min(1)).chain(blocks.iter().filter_map(|block| block.calls)).chain(0..blocks.len()) {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        let mut open = vec![(root, 0)];
        while let Some((block, next)) = open.last_mut() {
            if let Some(&successor) = blocks[*block].successors.get(*next) {
                *next += 1;
                if !std::mem::replace(&mut seen[successor], true) {
                    open.push((successor, 0));
                }
            } else {
                places[*block] = next_place;
                next_place += 1;
                open.pop();
            }
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `"B3?"` is a guarded branch to instruction 3, `"B3"` a branch, `"X"` an exit, anything else falls through.
    fn graph(text: &str) -> Graph {
        let instruction = |word: &str| {
            let target = word.strip_prefix('B').map(|to| to.trim_end_matches('?').parse().unwrap());
            let mnemonic = if target.is_some() {
                "BRA"
            } else if word.starts_with('X') {
                "EXIT"
            } else {
                "MOV"
            };
            let predicate = word.ends_with('?').then(|| "P0".to_owned());
            Instruction {
                address: 0,
                predicate,
                mnemonic: mnemonic.into(),
                operands: vec!["t".into()],
                target,
                control: None,
            }
        };
        Graph::new(&text.split_whitespace().map(instruction).collect::<Vec<_>>())
    }

    fn loops(graph: &Graph) -> Vec<Vec<usize>> {
        graph.loops.iter().map(|l| l.blocks.clone()).collect()
    }

    #[test]
    fn backward_branch_is_a_loop_but_trap_after_the_end_is_not() {
        let graph = graph("m m m B1? X B5");
        assert_eq!(loops(&graph), [[1]]);
        assert_eq!(graph.blocks[1].instructions, 1..4);
    }

    #[test]
    fn nested_loops_are_distinguished() {
        // 0 | 1 2 | 3 4? | 5? | X: an inner loop at 3 within an outer one at 1.
        let graph = graph("m m m m B3? B1? X");
        assert_eq!(graph.loops.len(), 2);
        let inner: Vec<usize> = graph.innermost().map(|l| graph.blocks[l.head].instructions.start).collect();
        assert_eq!(inner, [3]);
    }

    #[test]
    fn two_paths_through_a_body_are_one_loop() {
        let graph = graph("m B4? m B5 m m B1? X");
        assert_eq!(graph.loops.len(), 1);
        assert_eq!(graph.loops[0].blocks.len(), 4);
    }

    #[test]
    fn blocks_that_run_together_are_one_group() {
        // 0 1? | 2 3? | 4 | 5 6 | X: a block that may be skipped lies between two that run together.
        let graph = graph("m X? m B5? m m X");
        let first = |group: &Vec<usize>| group.iter().map(|b| graph.blocks[*b].instructions.start).collect::<Vec<_>>();
        assert_eq!(graph.straight().iter().map(first).collect::<Vec<_>>(), [vec![0], vec![2, 5], vec![4]]);
    }

    #[test]
    fn outer_loops_exclude_blocks_of_inner_loops() {
        // 1 | 2 3? | 4 | 5? | 6 7? in one loop from 1 to 7: the inner ones are 2 and 5.
        let graph = graph("m m B2? m m B5? B1? X");
        let get = |number: usize| &graph.loops[number];
        let outer = graph.loops.iter().position(|l| l.children.len() == 2).unwrap();
        assert_eq!(get(outer).blocks.len() + 2, graph.all_blocks(outer, 100).unwrap().len());
        assert!(
            get(outer).children.iter().all(|inner| get(*inner).parent == Some(outer) && get(*inner).blocks.len() == 1)
        );
        assert_eq!(graph.all_blocks(outer, 3), None);
    }

    #[test]
    fn a_hundred_thousand_nested_loops_are_found() {
        let n = 100_000;
        let text: Vec<String> =
            (0..n).map(|_| "m".to_owned()).chain((0..n).rev().map(|at| format!("B{at}?"))).collect();
        let graph = graph(&text.join(" "));
        assert_eq!((graph.loops.len(), graph.innermost().count()), (n, 1));
    }

    #[test]
    fn empty_function_has_no_blocks() {
        assert!(Graph::new(&[]).blocks.is_empty());
    }
}
