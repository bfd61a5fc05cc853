//! Which way a thread takes through branches: a part's own blocks from its beginning to its end, one way of many.
//!
//! Machine code doesn't say which way is taken most. Followed is the way that moves most bytes of global memory; among those the one
//! with fewest calls and loops, which are how compilers write rare cases (a quotient that underflows, a large angle); among those
//! the longest, because what is skipped is as often the work as a special value. What lies beside it is counted apart.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::graph::Graph;
use super::instruction::{Access, Class, Instruction};

/// Bytes moved, calls and loops (negative), instructions: more is better, from left to right.
type Weight = [i64; 3];

/// Routines in routines that are followed.
const MOST_DEPTH: usize = 8;
/// Instructions of one way, with all that it calls.
const MOST_INSTRUCTIONS: i64 = 1 << 20;

/// One way through a part of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Way {
    /// Instructions in the order in which they run, with those of routines, as indices.
    pub instructions: Vec<usize>,
    /// Those of the part itself, without routines.
    pub own: Vec<usize>,
    /// Instructions of the shortest way, with those of routines.
    pub shortest: usize,
    /// Instructions that other ways pass: in branches, in loops inside, in routines.
    pub beside: usize,
}

/// The ways through one function.
pub(super) struct Ways<'a> {
    instructions: &'a [Instruction],
    graph: &'a Graph,
    moved: &'a dyn Fn(usize) -> u32,
    weights: Vec<Weight>,
    reached: Vec<usize>,
}

/// A part: its blocks, each after all that it leads to, and where it begins and ends.
struct Part<'a> {
    blocks: &'a [usize],
    from: usize,
    /// The loop whose round is followed.
    around: Option<usize>,
    /// The block at whose end it ends; else it ends where its loop begins again, or where the function does.
    last: Option<usize>,
}

impl Part<'_> {
    /// Whether it may end there. Where it has no certain end, it may go on too: past an early exit, or past a step to the next round.
    fn may_end_at(&self, block: usize, graph: &Graph) -> bool {
        match (self.last, self.around) {
            (Some(last), _) => block == last,
            (None, Some(_)) => graph.blocks[block].successors.contains(&self.from),
            (None, None) => graph.blocks[block].ends,
        }
    }
}

impl<'a> Ways<'a> {
    /// `moved` says how many bytes of global memory an instruction moves.
    pub(super) fn new(instructions: &'a [Instruction], graph: &'a Graph, moved: &'a dyn Fn(usize) -> u32) -> Self {
        let weigh = |range: std::ops::Range<usize>| {
            let calls = instructions[range.clone()].iter().filter(|one| one.opcode() == "CALL").count();
            [range.clone().map(|at| i64::from(moved(at))).sum(), -(calls as i64), range.len() as i64]
        };
        let weights = graph.blocks.iter().map(|block| weigh(block.instructions.clone())).collect();
        let mut reached: Vec<usize> = (0..graph.blocks.len()).filter(|block| graph.is_reached(*block)).collect();
        graph.sort_backwards(&mut reached);
        Self { instructions, graph, moved, weights, reached }
    }

    /// One round of a loop, without the routines that it calls; `None` where it has more than `most` blocks or no way leads round.
    pub(super) fn around(&self, number: usize, most: usize) -> Option<Vec<usize>> {
        let blocks = self.blocks_of(number, most)?;
        let (way, _) = self.on(&self.part(number, &blocks))?;
        Some(self.instructions_of(&way))
    }

    /// Blocks of a loop, those of loops inside it too; `None` where there are more than `most`.
    pub(super) fn blocks_of(&self, number: usize, most: usize) -> Option<Vec<usize>> {
        let mut blocks = self.graph.all_of(number, most)?;
        self.graph.sort_backwards(&mut blocks);
        Some(blocks)
    }

    /// The same round with all that belongs to it.
    pub(super) fn whole_round(&self, number: usize) -> Option<Way> {
        let blocks = self.blocks_of(number, usize::MAX)?;
        self.whole(&self.part(number, &blocks))
    }

    /// From the beginning of one block to the end of another, after all that always runs before the first.
    pub(super) fn whole_way(&self, first: usize, last: usize) -> Option<Way> {
        self.whole(&Part { blocks: &self.reached, from: first, around: None, last: Some(last) })
    }

    /// Where a part that begins and ends with these blocks, outside loops, does end: behind an early exit there may be more of the same, with
    /// loads and stores as before. A store alone is what few threads do: of a sum, or of a time.
    pub(super) fn end_of(&self, first: usize, last: usize) -> usize {
        let Some(way) = self.whole_way(first, last) else { return last };
        let access = |at: usize| self.instructions[at].access();
        let same: HashSet<Access> = way.own.iter().filter_map(|at| access(*at)).collect();
        let weigh = |block: usize| {
            let [_, seldom, length] = self.weights[block];
            let alike = |at: &usize| access(*at).is_some_and(|access| same.contains(&access));
            let moved =
                self.graph.blocks[block].instructions.clone().filter(alike).map(|at| i64::from((self.moved)(at)));
            [moved.sum(), seldom, length]
        };
        let outside = |block: &usize| self.graph.loop_of(*block).is_none();
        let outside: Vec<usize> = self.reached.iter().copied().filter(outside).collect();
        let part = Part { blocks: &outside, from: last, around: None, last: None };
        let way = self.best(&part, &weigh).map_or(Vec::new(), |(way, _)| way);
        let accesses = self.instructions_of(way.get(1..).unwrap_or_default()).into_iter().filter_map(access);
        let loads = accesses.filter(|access| matches!(access.class, Class::GlobalLoad | Class::SharedLoad));
        let further = loads.filter(|access| same.contains(access)).count() > 0;
        way.into_iter().rev().find(|block| further && weigh(*block)[0] > 0).unwrap_or(last)
    }

    fn part<'b>(&self, number: usize, blocks: &'b [usize]) -> Part<'b> {
        Part { blocks, from: self.graph.loops[number].head, around: Some(number), last: None }
    }

    fn is_own(&self, part: &Part<'_>, block: usize) -> bool {
        self.graph.loop_of(block) == part.around
    }

    /// The part's own blocks on the way that is followed, and what is known of all.
    fn on(&self, part: &Part<'_>) -> Option<(Vec<usize>, Known)> {
        let weigh = |block: usize| {
            let heads_loop = self.graph.loop_of(block).is_some_and(|number| self.graph.loops[number].head == block);
            if self.is_own(part, block) { self.weights[block] } else { [0, -i64::from(heads_loop), 0] }
        };
        let (mut way, known) = self.best(part, &weigh)?;
        way.retain(|block| self.is_own(part, *block));
        Some((way, known))
    }

    fn whole(&self, part: &Part<'_>) -> Option<Way> {
        let (mut own, known) = self.on(part)?;
        let shortness = |block: usize| {
            let [_, seldom, length] = self.weights[block];
            if self.is_own(part, block) { [0, seldom, -length] } else { [0; 3] }
        };
        let (mut short, _) = self.best(part, &shortness)?;
        short.retain(|block| self.is_own(part, *block));
        if part.around.is_none() {
            let before = self.graph.always_before(part.from);
            own = [before.clone(), own].concat();
            short = [before, short].concat();
        }
        let mut routines =
            Routines { ways: self, known: HashMap::new(), left: 8 * self.graph.blocks.len() + 64, length: 0 };
        let [mut expanded, mut shortest] = [Vec::new(), Vec::new()];
        routines.expand(&own, 0, &mut expanded);
        routines.expand(&short, 0, &mut shortest);
        let run: HashSet<usize> = expanded.iter().copied().collect();
        let mut beside: BTreeSet<usize> = self.reachable(part, &known);
        let mut open: Vec<usize> = beside.iter().filter_map(|block| self.graph.blocks[*block].calls).collect();
        while let Some(block) = open.pop() {
            if !self.graph.is_reached(block) && beside.insert(block) {
                open.extend(self.graph.blocks[block].successors.iter().chain(&self.graph.blocks[block].calls));
            }
        }
        let beside = beside.iter().filter(|block| !run.contains(block)).map(|block| self.weights[*block][2] as usize);
        Some(Way {
            instructions: self.instructions_of(&expanded),
            own: self.instructions_of(&own),
            shortest: shortest.into_iter().map(|block| self.weights[block][2] as usize).sum(),
            beside: beside.sum(),
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

    /// The heaviest way, and what is known of each block that leads to an end: the weight from there on and the next block.
    fn best(&self, part: &Part<'_>, weigh: &dyn Fn(usize) -> Weight) -> Option<(Vec<usize>, Known)> {
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
            // Of equal ones that which falls through.
            let best = end.into_iter().chain(weighed).reduce(|best, next| if next.0 > best.0 { next } else { best });
            if let Some((weight, next)) = best {
                known.insert(block, (sum(weight, weigh(block)), next));
            }
        }
        known.get(&part.from)?;
        let way =
            std::iter::successors(Some(part.from), |block| known.get(block).and_then(|(_, next)| *next)).collect();
        Some((way, known))
    }

    /// The routine that always runs after a block. A guarded call may not, and one of what the entry reaches by itself is a jump.
    fn always_calls(&self, block: usize) -> Option<usize> {
        let block = &self.graph.blocks[block];
        let guarded = self.instructions[block.instructions.end - 1].predicate.is_some();
        block.calls.filter(|root| !guarded && !self.graph.is_reached(*root))
    }

    /// 1 of the step that only threads take which no longer go together (`BRA.DIV`).
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

/// Ways through routines, each found once.
struct Routines<'a, 'b> {
    ways: &'b Ways<'a>,
    known: HashMap<usize, Vec<usize>>,
    /// Blocks that may still be looked at, so that many routines in one piece of code take no more time than one.
    left: usize,
    /// Instructions so far.
    length: i64,
}

impl Routines<'_, '_> {
    /// Adds these blocks, and after each that calls a routine those of the routine.
    fn expand(&mut self, blocks: &[usize], depth: usize, into: &mut Vec<usize>) {
        for &block in blocks {
            self.length = self.length.saturating_add(self.ways.weights[block][2]);
            // What the part itself has is always counted.
            if depth > 0 && self.length > MOST_INSTRUCTIONS {
                return;
            }
            into.push(block);
            if let Some(root) = self.ways.always_calls(block).filter(|_| depth < MOST_DEPTH) {
                let way = self.way(root);
                self.expand(&way, depth + 1, into);
            }
        }
    }

    fn way(&mut self, root: usize) -> Vec<usize> {
        if let Some(known) = self.known.get(&root) {
            return known.clone();
        }
        let graph = self.ways.graph;
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
        let way = self.ways.best(&part, &|block| self.ways.weights[block]).map_or(Vec::new(), |(way, _)| way);
        self.known.insert(root, way.clone());
        way
    }
}

/// Whether an instruction moves global memory, and how much: loads from a module's own tables don't count.
pub(super) fn moved(instruction: &Instruction, of_table: bool) -> u32 {
    match instruction.access() {
        Some(access) if access.class == Class::GlobalStore => access.bytes,
        Some(access) if access.class == Class::GlobalLoad && !of_table => access.bytes,
        _ => 0,
    }
}
