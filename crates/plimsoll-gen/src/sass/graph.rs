//! Control flow of one function: basic blocks, what follows what, natural loops.
//!
//! Method: leaders and blocks as in any compiler's book; dominators by Cooper, Harvey and Kennedy, 'A simple, fast
//! dominance algorithm' (2001); a natural loop is all that reaches a back edge's tail without its head. Indirect branches
//! have no known successors, so a loop through one is not found.

use std::collections::BTreeSet;
use std::ops::Range;

use super::instruction::Instruction;

/// Blocks and loops of one function.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// In address order; the first is the entry.
    pub blocks: Vec<Block>,
    /// Each loop's blocks, as indices, its head apart; reachable ones only.
    pub loops: Vec<Loop>,
    /// Immediate dominator of each block; `None` for the entry and for what is never reached.
    dominators: Vec<Option<usize>>,
    /// Reachable blocks that may come before each.
    predecessors: Vec<Vec<usize>>,
    reached: Vec<bool>,
}

/// Instructions that run one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Which instructions of the function.
    pub instructions: Range<usize>,
    /// Blocks that may follow.
    pub successors: Vec<usize>,
}

/// A natural loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The block through which it is entered.
    pub head: usize,
    /// All its blocks, the head too.
    pub blocks: BTreeSet<usize>,
}

impl Graph {
    /// Finds the blocks and loops of a function's instructions.
    #[must_use]
    pub fn new(instructions: &[Instruction]) -> Self {
        let blocks = blocks(instructions);
        let order = postorder(&blocks);
        let predecessors = predecessors(&blocks, &order);
        let dominators = dominators(&predecessors, &order);
        let mut reached = vec![false; blocks.len()];
        for &block in &order {
            reached[block] = true;
        }
        let mut graph = Self { blocks, loops: Vec::new(), dominators, predecessors, reached };
        graph.loops = graph.find_loops();
        graph
    }

    /// Loops that contain no other.
    pub fn innermost(&self) -> impl Iterator<Item = &Loop> {
        self.loops.iter().filter(|outer| {
            !self.loops.iter().any(|inner| inner.head != outer.head && outer.blocks.contains(&inner.head))
        })
    }

    /// Blocks in no loop that can be reached.
    pub fn straight(&self) -> impl Iterator<Item = usize> {
        let looping = |block: &usize| self.loops.iter().any(|l| l.blocks.contains(block));
        (0..self.blocks.len()).filter(move |block| self.reached[*block] && !looping(block))
    }

    /// The block, and before it all that is run before it on every way from the entry, last first.
    #[must_use]
    pub fn way_to(&self, block: usize) -> Vec<usize> {
        self.upwards(block).collect()
    }

    fn upwards(&self, block: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(block), |at| self.dominators.get(*at).copied().flatten())
    }

    fn dominates(&self, over: usize, block: usize) -> bool {
        self.reached[block] && self.upwards(block).any(|before| before == over)
    }

    fn find_loops(&self) -> Vec<Loop> {
        let mut loops: Vec<Loop> = Vec::new();
        for (tail, block) in self.blocks.iter().enumerate() {
            for &head in &block.successors {
                if self.dominates(head, tail) {
                    let body = self.body(head, tail);
                    match loops.iter_mut().find(|known| known.head == head) {
                        Some(known) => known.blocks.extend(body),
                        None => loops.push(Loop { head, blocks: body }),
                    }
                }
            }
        }
        loops
    }

    /// What reaches `tail` without passing `head`.
    fn body(&self, head: usize, tail: usize) -> BTreeSet<usize> {
        let mut body = BTreeSet::from([head]);
        let mut open = vec![tail];
        while let Some(block) = open.pop() {
            if body.insert(block) {
                open.extend(&self.predecessors[block]);
            }
        }
        body
    }
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
    let follow = |range: &Range<usize>| {
        let next = (range.end < instructions.len()).then_some(range.end);
        let mut successors = successors(instructions, range.end - 1, next);
        successors.sort_unstable();
        successors.dedup();
        successors.into_iter().filter_map(block_at).collect()
    };
    ranges.iter().map(|range| Block { instructions: range.clone(), successors: follow(range) }).collect()
}

fn ends_block(instruction: &Instruction) -> bool {
    matches!(instruction.opcode(), "BRA" | "BRX" | "BRXU" | "JMP" | "JMX" | "JMXU" | "RET" | "EXIT" | "KILL" | "BSYNC")
}

/// Instructions that may follow the one at `at`, `next` being the one after it in memory.
fn successors(instructions: &[Instruction], at: usize, next: Option<usize>) -> Vec<usize> {
    let Some(instruction) = instructions.get(at) else { return Vec::new() };
    let guarded = instruction.predicate.is_some();
    let jump: Vec<usize> = match instruction.opcode() {
        // A second operand or a modifier (`BRA.DIV UR4`, `BRA.U UP0`, `BRA P1`) is a condition of its own.
        "BRA" | "JMP" if !guarded && instruction.operands.len() < 2 => return instruction.target.into_iter().collect(),
        "BRA" | "JMP" => instruction.target.into_iter().collect(),
        "BSYNC" => match reconvergence(instructions, at) {
            Some(target) if !guarded => return vec![target],
            target => target.into_iter().collect(),
        },
        opcode if ends_block(instruction) && opcode != "BSYNC" => Vec::new(),
        _ => return next.into_iter().collect(),
    };
    let falls_through = guarded || matches!(instruction.opcode(), "BRA" | "JMP" | "BSYNC");
    jump.into_iter().chain(next.filter(|_| falls_through)).collect()
}

/// BSYNC goes where the BSSY of the same barrier register said: the nearest one before it.
fn reconvergence(instructions: &[Instruction], at: usize) -> Option<usize> {
    let barrier = instructions[at].operands.first()?;
    let set =
        |instruction: &&Instruction| instruction.opcode() == "BSSY" && instruction.operands.first() == Some(barrier);
    instructions[..at].iter().rev().find(set)?.target
}

/// Blocks that the entry reaches, each after all that it leads to (but for back edges).
fn postorder(blocks: &[Block]) -> Vec<usize> {
    let mut order = Vec::with_capacity(blocks.len());
    let mut seen = vec![false; blocks.len()];
    let mut open: Vec<(usize, usize)> = Vec::new();
    if !blocks.is_empty() {
        seen[0] = true;
        open.push((0, 0));
    }
    while let Some((block, next)) = open.last_mut() {
        match blocks[*block].successors.get(*next) {
            Some(&successor) => {
                *next += 1;
                if !std::mem::replace(&mut seen[successor], true) {
                    open.push((successor, 0));
                }
            }
            None => {
                order.push(*block);
                open.pop();
            }
        }
    }
    order
}

fn predecessors(blocks: &[Block], reached: &[usize]) -> Vec<Vec<usize>> {
    let mut predecessors = vec![Vec::new(); blocks.len()];
    for &block in reached {
        for &successor in &blocks[block].successors {
            predecessors[successor].push(block);
        }
    }
    predecessors
}

fn dominators(predecessors: &[Vec<usize>], postorder: &[usize]) -> Vec<Option<usize>> {
    let mut number = vec![0; predecessors.len()];
    for (at, block) in postorder.iter().enumerate() {
        number[*block] = at;
    }
    let mut dominator: Vec<Option<usize>> = vec![None; predecessors.len()];
    let Some(&entry) = postorder.last() else { return dominator };
    dominator[entry] = Some(entry);
    let mut changed = true;
    while changed {
        changed = false;
        for &block in postorder.iter().rev().skip(1) {
            let known = predecessors[block].iter().copied().filter(|before| dominator[*before].is_some());
            let common = known.reduce(|mut a, mut b| {
                while a != b {
                    // Both lead up to the entry, which has the highest number.
                    let lower = if number[a] < number[b] { &mut a } else { &mut b };
                    *lower = dominator[*lower].unwrap_or(entry);
                }
                a
            });
            changed |= dominator[block] != common;
            dominator[block] = common;
        }
    }
    dominator[entry] = None;
    dominator
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
        graph.loops.iter().map(|l| l.blocks.iter().copied().collect()).collect()
    }

    #[test]
    fn a_branch_back_makes_a_loop_and_a_trap_after_the_end_none() {
        let graph = graph("m m m B1? X B5");
        assert_eq!(loops(&graph), [[1]]);
        assert_eq!(graph.blocks[1].instructions, 1..4);
    }

    #[test]
    fn nested_loops_are_told_apart() {
        // 0 | 1 2 | 3 4? | 5? | X: an inner loop at 3 within an outer one at 1.
        let graph = graph("m m m m B3? B1? X");
        assert_eq!(graph.loops.len(), 2);
        let inner: Vec<usize> = graph.innermost().map(|l| graph.blocks[l.head].instructions.start).collect();
        assert_eq!(inner, [3]);
    }

    #[test]
    fn two_ways_through_a_body_are_one_loop() {
        let graph = graph("m B4? m B5 m m B1? X");
        assert_eq!(graph.loops.len(), 1);
        assert_eq!(graph.loops[0].blocks.len(), 4);
    }

    #[test]
    fn what_always_runs_before_a_block_is_on_its_way() {
        let graph = graph("m X? m B5? m m X");
        let last = graph.blocks.len() - 1;
        let way: Vec<usize> = graph.way_to(last).iter().map(|b| graph.blocks[*b].instructions.start).collect();
        assert_eq!(way, [5, 2, 0]);
    }

    #[test]
    fn no_instructions_make_no_blocks() {
        assert!(Graph::new(&[]).blocks.is_empty());
    }

    proptest! {
        #[test]
        fn dominators_agree_with_their_definition(words in proptest::collection::vec((0usize..6, 0usize..12), 1..12)) {
            let n = words.len();
            let word = |(kind, to): &(usize, usize)| match kind {
                0 => "X".to_owned(),
                1 => format!("B{}", to % n),
                2 | 3 => format!("B{}?", to % n),
                _ => "m".to_owned(),
            };
            let graph = graph(&words.iter().map(word).collect::<Vec<_>>().join(" "));
            // a dominates b if b can't be reached once a is taken away.
            let reach = |without: Option<usize>| {
                let mut seen = vec![false; graph.blocks.len()];
                let mut open = if without == Some(0) { vec![] } else { vec![0] };
                while let Some(block) = open.pop() {
                    if !std::mem::replace(&mut seen[block], true) {
                        open.extend(graph.blocks[block].successors.iter().copied().filter(|b| Some(*b) != without));
                    }
                }
                seen
            };
            let reached = reach(None);
            for a in 0..graph.blocks.len() {
                let without = reach(Some(a));
                for b in (0..graph.blocks.len()).filter(|b| reached[*b]) {
                    prop_assert_eq!(graph.dominates(a, b), a == b || !without[b], "{} over {}", a, b);
                }
            }
        }
    }
}
