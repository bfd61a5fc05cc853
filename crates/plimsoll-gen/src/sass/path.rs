//! The path that a thread takes through branches, from the beginning of a part of a function to its end.
//!
//! Machine code doesn't say which path is taken most often. This module chooses the path that moves most bytes of global memory;
//! among those the one with fewest calls and loops, because compilers use these for rare cases (a quotient that underflows, a
//! large angle); among those the longest, because a branch may skip the main work as well as a special case. Code off the path
//! is counted separately.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::graph::Graph;
use super::instruction::{Access, Class, Instruction};

/// Bytes moved, calls and loops (negative), instructions: more is better, from left to right.
type Weight = [i64; 3];

/// Most levels of nested routines.
const MOST_DEPTH: usize = 8;
/// Most instructions of one path, including the routines it calls.
const MOST_INSTRUCTIONS: i64 = 1 << 20;

/// One path through a part of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Path {
    /// Indices of the instructions in the order in which they run, including routines.
    pub instructions: Vec<usize>,
    /// Indices of the part's own instructions, without routines.
    pub own: Vec<usize>,
    /// Number of instructions of the shortest path, including routines.
    pub shortest: usize,
    /// Number of instructions only on other paths: in branches, inner loops and routines.
    pub off_path: usize,
}

/// Finds paths through one function.
pub(super) struct Paths<'a> {
    instructions: &'a [Instruction],
    graph: &'a Graph,
    moved: &'a dyn Fn(usize) -> u32,
    weights: Vec<Weight>,
    reached: Vec<usize>,
}

/// A part of a function: its blocks, each after all of its successors, with its beginning and end.
struct Part<'a> {
    blocks: &'a [usize],
    from: usize,
    /// The loop, if the part is one iteration of a loop.
    around: Option<usize>,
    /// The last block. If `None`, the part ends when the loop starts its next iteration, or when the function ends.
    last: Option<usize>,
}

impl Part<'_> {
    /// Whether the part may end after a block. Without a fixed last block it may also continue: past an early exit, or past a jump
    /// to the next iteration.
    fn may_end_at(&self, block: usize, graph: &Graph) -> bool {
        match (self.last, self.around) {
            (Some(last), _) => block == last,
            (None, Some(_)) => graph.blocks[block].successors.contains(&self.from),
            (None, None) => graph.blocks[block].ends,
        }
    }
}

impl<'a> Paths<'a> {
    /// `moved` returns the bytes of global memory that an instruction moves.
    pub(super) fn new(instructions: &'a [Instruction], graph: &'a Graph, moved: &'a dyn Fn(usize) -> u32) -> Self {
        let weigh = |range: std::ops::Range<usize>| {
            let calls = instructions[range.clone()].iter().filter(|i| i.opcode() == "CALL").count();
            [range.clone().map(|at| i64::from(moved(at))).sum(), -(calls as i64), range.len() as i64]
        };
        let weights = graph.blocks.iter().map(|block| weigh(block.instructions.clone())).collect();
        let mut reached: Vec<usize> = (0..graph.blocks.len()).filter(|block| graph.is_reached(*block)).collect();
        graph.sort_backwards(&mut reached);
        Self { instructions, graph, moved, weights, reached }
    }

    /// The path of one loop iteration, without the routines that it calls; `None` if the loop has more than `most` blocks, or if no
    /// path leads back to its head.
    pub(super) fn loop_path(&self, number: usize, most: usize) -> Option<Vec<usize>> {
        let blocks = self.blocks_of(number, most)?;
        let (path, _) = self.follow(&self.part(number, &blocks))?;
        Some(self.instructions_of(&path))
    }

    /// Blocks of a loop, including inner loops; `None` if there are more than `most`.
    pub(super) fn blocks_of(&self, number: usize, most: usize) -> Option<Vec<usize>> {
        let mut blocks = self.graph.all_blocks(number, most)?;
        self.graph.sort_backwards(&mut blocks);
        Some(blocks)
    }

    /// The path of one loop iteration, with routines and the counts of other paths.
    pub(super) fn full_loop_path(&self, number: usize) -> Option<Path> {
        let blocks = self.blocks_of(number, usize::MAX)?;
        self.expand_path(&self.part(number, &blocks))
    }

    /// The path from the beginning of one block to the end of another, preceded by all blocks that always run before.
    pub(super) fn full_path(&self, first: usize, last: usize) -> Option<Path> {
        self.expand_path(&Part { blocks: &self.reached, from: first, around: None, last: Some(last) })
    }

    /// Extends a part outside loops past its last block: after an early exit there may be more of the same work, with the same
    /// loads and stores. Stores without loads don't count, because only few threads execute them: they store a sum or a time.
    pub(super) fn find_end(&self, first: usize, last: usize) -> usize {
        let Some(path) = self.full_path(first, last) else { return last };
        let access = |at: usize| self.instructions[at].access();
        let same: HashSet<Access> = path.own.iter().filter_map(|at| access(*at)).collect();
        let weigh = |block: usize| {
            let [_, rare, length] = self.weights[block];
            let alike = |at: &usize| access(*at).is_some_and(|access| same.contains(&access));
            let moved =
                self.graph.blocks[block].instructions.clone().filter(alike).map(|at| i64::from((self.moved)(at)));
            [moved.sum(), rare, length]
        };
        let outside = |block: &usize| self.graph.loop_of(*block).is_none();
        let outside: Vec<usize> = self.reached.iter().copied().filter(outside).collect();
        let part = Part { blocks: &outside, from: last, around: None, last: None };
        let path = self.best_path(&part, &weigh).map_or(Vec::new(), |(path, _)| path);
        let accesses = self.instructions_of(path.get(1..).unwrap_or_default()).into_iter().filter_map(access);
        let loads = accesses.filter(|access| matches!(access.class, Class::GlobalLoad | Class::SharedLoad));
        let further = loads.filter(|access| same.contains(access)).count() > 0;
        path.into_iter().rev().find(|block| further && weigh(*block)[0] > 0).unwrap_or(last)
    }

    fn part<'b>(&self, number: usize, blocks: &'b [usize]) -> Part<'b> {
        Part { blocks, from: self.graph.loops[number].head, around: Some(number), last: None }
    }

    fn is_own(&self, part: &Part<'_>, block: usize) -> bool {
        self.graph.loop_of(block) == part.around
    }

    /// The part's own blocks on its path, and the best continuation of every block.
    fn follow(&self, part: &Part<'_>) -> Option<(Vec<usize>, Known)> {
        let weigh = |block: usize| {
            let heads_loop = self.graph.loop_of(block).is_some_and(|number| self.graph.loops[number].head == block);
            if self.is_own(part, block) { self.weights[block] } else { [0, -i64::from(heads_loop), 0] }
        };
        let (mut path, known) = self.best_path(part, &weigh)?;
        path.retain(|block| self.is_own(part, *block));
        Some((path, known))
    }

    fn expand_path(&self, part: &Part<'_>) -> Option<Path> {
        let (mut own, known) = self.follow(part)?;
        let shortness = |block: usize| {
            let [_, rare, length] = self.weights[block];
            if self.is_own(part, block) { [0, rare, -length] } else { [0; 3] }
        };
        let (mut short, _) = self.best_path(part, &shortness)?;
        short.retain(|block| self.is_own(part, *block));
        if part.around.is_none() {
            let before = self.graph.always_before(part.from);
            own = [before.clone(), own].concat();
            short = [before, short].concat();
        }
        let mut routines =
            Routines { paths: self, known: HashMap::new(), left: 8 * self.graph.blocks.len() + 64, length: 0 };
        let [mut expanded, mut shortest] = [Vec::new(), Vec::new()];
        routines.expand(&own, 0, &mut expanded);
        routines.expand(&short, 0, &mut shortest);
        let run: HashSet<usize> = expanded.iter().copied().collect();
        let mut off_path: BTreeSet<usize> = self.reachable(part, &known);
        let mut open: Vec<usize> = off_path.iter().filter_map(|block| self.graph.blocks[*block].calls).collect();
        while let Some(block) = open.pop() {
            if !self.graph.is_reached(block) && off_path.insert(block) {
                open.extend(self.graph.blocks[block].successors.iter().chain(&self.graph.blocks[block].calls));
            }
        }
        let off_path =
            off_path.iter().filter(|block| !run.contains(block)).map(|block| self.weights[*block][2] as usize);
        Some(Path {
            instructions: self.instructions_of(&expanded),
            own: self.instructions_of(&own),
            shortest: shortest.into_iter().map(|block| self.weights[block][2] as usize).sum(),
            off_path: off_path.sum(),
        })
    }

    /// Blocks between the part's beginning and its end.
    fn reachable(&self, part: &Part<'_>, known: &Known) -> BTreeSet<usize> {
        let (mut seen, mut open) = (BTreeSet::new(), vec![part.from]);
        while let Some(block) = open.pop() {
            if seen.insert(block) && part.last != Some(block) {
                open.extend(self.graph.blocks[block].successors.iter().filter(|to| known.contains_key(to)));
            }
        }
        seen
    }

    fn instructions_of(&self, blocks: &[usize]) -> Vec<usize> {
        blocks.iter().flat_map(|block| self.graph.blocks[*block].instructions.clone()).collect()
    }

    /// The heaviest path, and for each block that leads to an end the weight from there on and the next block.
    fn best_path(&self, part: &Part<'_>, weigh: &dyn Fn(usize) -> Weight) -> Option<(Vec<usize>, Known)> {
        let mut known = Known::new();
        for &block in part.blocks {
            let from = &self.graph.blocks[block];
            let end = part.may_end_at(block, self.graph).then_some(([0; 3], None));
            let ended = part.last == Some(block);
            let onwards = from.successors.iter().filter(|to| !ended && self.graph.is_forward(block, **to));
            let weighed = onwards.filter_map(|to| {
                let (weight, _) = known.get(to)?;
                Some((sum(*weight, [0, -self.diverges(block, *to), 0]), Some(*to)))
            });
            // If weights are equal, prefer falling through.
            let best = end.into_iter().chain(weighed).reduce(|best, next| if next.0 > best.0 { next } else { best });
            if let Some((weight, next)) = best {
                known.insert(block, (sum(weight, weigh(block)), next));
            }
        }
        known.get(&part.from)?;
        let path =
            std::iter::successors(Some(part.from), |block| known.get(block).and_then(|(_, next)| *next)).collect();
        Some((path, known))
    }

    /// The routine that always runs after a block. A guarded call may not run, and a call to a block that the entry reaches without
    /// calls is just a jump.
    fn always_calls(&self, block: usize) -> Option<usize> {
        let block = &self.graph.blocks[block];
        let guarded = self.instructions[block.instructions.end - 1].predicate.is_some();
        block.calls.filter(|root| !guarded && !self.graph.is_reached(*root))
    }

    /// 1 for the jump that only diverged threads take (`BRA.DIV`), else 0.
    fn diverges(&self, from: usize, to: usize) -> i64 {
        let last = self.graph.blocks[from].instructions.end - 1;
        let apart = self.instructions[last].modifiers().any(|modifier| modifier == "DIV");
        i64::from(apart && self.instructions[last].target == Some(self.graph.blocks[to].instructions.start))
    }
}

type Known = HashMap<usize, (Weight, Option<usize>)>;

fn sum(a: Weight, b: Weight) -> Weight {
    std::array::from_fn(|at| a[at].saturating_add(b[at]))
}

/// Paths through routines, each found once.
struct Routines<'a, 'b> {
    paths: &'b Paths<'a>,
    known: HashMap<usize, Vec<usize>>,
    /// Budget of blocks to visit, so that many routines sharing code take no more time than one.
    left: usize,
    /// Number of instructions so far.
    length: i64,
}

impl Routines<'_, '_> {
    /// Appends these blocks, each followed by the blocks of the routine that it calls.
    fn expand(&mut self, blocks: &[usize], depth: usize, into: &mut Vec<usize>) {
        for &block in blocks {
            self.length = self.length.saturating_add(self.paths.weights[block][2]);
            // The part's own blocks are always counted.
            if depth > 0 && self.length > MOST_INSTRUCTIONS {
                return;
            }
            into.push(block);
            if let Some(root) = self.paths.always_calls(block).filter(|_| depth < MOST_DEPTH) {
                let path = self.path(root);
                self.expand(&path, depth + 1, into);
            }
        }
    }

    fn path(&mut self, root: usize) -> Vec<usize> {
        if let Some(known) = self.known.get(&root) {
            return known.clone();
        }
        let graph = self.paths.graph;
        let (mut seen, mut open) = (HashSet::new(), vec![root]);
        while let Some(block) = open.pop().filter(|_| self.left > 0) {
            if seen.insert(block) {
                self.left -= 1;
                open.extend(&graph.blocks[block].successors);
            }
        }
        let mut blocks: Vec<usize> = seen.into_iter().collect();
        graph.sort_backwards(&mut blocks);
        let part = Part { blocks: &blocks, from: root, around: None, last: None };
        let path = self.paths.best_path(&part, &|block| self.paths.weights[block]).map_or(Vec::new(), |(path, _)| path);
        self.known.insert(root, path.clone());
        path
    }
}

/// Bytes of global memory that an instruction moves; loads from a module's own tables don't count.
pub(super) fn moved(instruction: &Instruction, of_table: bool) -> u32 {
    match instruction.access() {
        Some(access) if access.class == Class::GlobalStore => access.bytes,
        Some(access) if access.class == Class::GlobalLoad && !of_table => access.bytes,
        _ => 0,
    }
}
