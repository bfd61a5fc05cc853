//! Dominators of a graph from a root, in almost linear time for any graph: Lengauer and Tarjan, 'A fast algorithm for finding
//! dominators in a flowgraph' (1979), with simple path compression.

/// The dominator tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Dominators {
    /// Immediate dominator of each node; `None` for the root and for unreachable nodes.
    immediate: Vec<Option<usize>>,
    /// Entry and exit times of each node in a depth-first traversal of the tree; `None` for unreachable nodes.
    visits: Vec<Option<(usize, usize)>>,
}

impl Dominators {
    /// Computes the dominators of a graph, given the successors of each node.
    pub(super) fn new(successors: &[Vec<usize>], root: usize) -> Self {
        if root >= successors.len() {
            return Self::default();
        }
        let mut search = Search::new(successors, root);
        let immediate = search.immediate();
        let visits = visits(&immediate, root);
        Self { immediate, visits }
    }

    /// The immediate dominator.
    pub(super) fn immediate(&self, node: usize) -> Option<usize> {
        self.immediate.get(node).copied().flatten()
    }

    /// Whether the root reaches it.
    pub(super) fn is_reached(&self, node: usize) -> bool {
        self.visits.get(node).is_some_and(Option::is_some)
    }

    /// Entry and exit times of a node in a depth-first traversal of the tree; the nodes it dominates are visited between them.
    pub(super) fn visit(&self, node: usize) -> Option<(usize, usize)> {
        self.visits.get(node).copied().flatten()
    }

    /// Whether every path from the root to `node` passes `over`; a node dominates itself.
    pub(super) fn dominates(&self, over: usize, node: usize) -> bool {
        matches!((self.visit(over), self.visit(node)), (Some(over), Some(node)) if over.0 <= node.0 && node.1 <= over.1)
    }
}

/// The state of one search; nodes are numbered in depth-first order.
struct Search {
    /// The node of each number.
    order: Vec<usize>,
    /// The number of each node.
    number: Vec<Option<usize>>,
    /// Indexed by number, like all following fields.
    parent: Vec<usize>,
    predecessors: Vec<Vec<usize>>,
    semi: Vec<usize>,
    label: Vec<usize>,
    ancestor: Vec<Option<usize>>,
}

impl Search {
    fn new(successors: &[Vec<usize>], root: usize) -> Self {
        let mut number = vec![None; successors.len()];
        let (mut order, mut parent) = (vec![root], vec![0]);
        number[root] = Some(0);
        let mut open = vec![(root, 0)];
        while let Some((node, next)) = open.last_mut() {
            let Some(&successor) = successors[*node].get(*next) else {
                open.pop();
                continue;
            };
            *next += 1;
            if number[successor].is_none() {
                number[successor] = Some(order.len());
                parent.push(number[*node].unwrap_or(0));
                order.push(successor);
                open.push((successor, 0));
            }
        }
        let mut predecessors = vec![Vec::new(); order.len()];
        for (from, node) in order.iter().enumerate() {
            for to in successors[*node].iter().filter_map(|to| number[*to]) {
                predecessors[to].push(from);
            }
        }
        let numbers: Vec<usize> = (0..order.len()).collect();
        let ancestor = vec![None; order.len()];
        Self { order, number, parent, predecessors, semi: numbers.clone(), label: numbers, ancestor }
    }

    fn immediate(&mut self) -> Vec<Option<usize>> {
        let count = self.order.len();
        let mut buckets: Vec<Vec<usize>> = vec![Vec::new(); count];
        let mut dominator = vec![0; count];
        for node in (1..count).rev() {
            for at in 0..self.predecessors[node].len() {
                let from = self.predecessors[node][at];
                let lowest = self.lowest(from);
                self.semi[node] = self.semi[node].min(self.semi[lowest]);
            }
            buckets[self.semi[node]].push(node);
            let parent = self.parent[node];
            self.ancestor[node] = Some(parent);
            for node in std::mem::take(&mut buckets[parent]) {
                let lowest = self.lowest(node);
                dominator[node] = if self.semi[lowest] < self.semi[node] { lowest } else { parent };
            }
        }
        for node in 1..count {
            if dominator[node] != self.semi[node] {
                dominator[node] = dominator[dominator[node]];
            }
        }
        let dominator_node =
            |number: &Option<usize>| number.filter(|number| *number > 0).map(|at| self.order[dominator[at]]);
        self.number.iter().map(dominator_node).collect()
    }

    /// The node with the lowest semidominator among a node's ancestors. Compresses the path for later calls.
    fn lowest(&mut self, node: usize) -> usize {
        let mut path = Vec::new();
        let mut at = node;
        while let Some(above) = self.ancestor[at].filter(|above| self.ancestor[*above].is_some()) {
            path.push(at);
            at = above;
        }
        for &below in path.iter().rev() {
            let Some(above) = self.ancestor[below] else { continue };
            if self.semi[self.label[above]] < self.semi[self.label[below]] {
                self.label[below] = self.label[above];
            }
            self.ancestor[below] = self.ancestor[above];
        }
        self.label[node]
    }
}

/// Entry and exit times of each node in a depth-first traversal of the tree.
fn visits(immediate: &[Option<usize>], root: usize) -> Vec<Option<(usize, usize)>> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); immediate.len()];
    for (node, above) in immediate.iter().enumerate() {
        if let Some(above) = above {
            children[*above].push(node);
        }
    }
    let mut visits = vec![None; immediate.len()];
    let (mut open, mut clock) = (vec![(root, 0, 0)], 1);
    while let Some((node, entered, next)) = open.last_mut() {
        if let Some(&child) = children[*node].get(*next) {
            *next += 1;
            open.push((child, clock, 0));
        } else {
            visits[*node] = Some((*entered, clock));
            open.pop();
        }
        clock += 1;
    }
    visits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The nodes that the root reaches without passing the node `without`.
    fn reach(successors: &[Vec<usize>], without: Option<usize>) -> Vec<bool> {
        let mut seen = vec![false; successors.len()];
        let mut open = if without == Some(0) { vec![] } else { vec![0] };
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut seen[node], true) {
                open.extend(successors[node].iter().copied().filter(|to| Some(*to) != without));
            }
        }
        seen
    }

    proptest! {
        #[test]
        fn dominators_match_their_definition(edges in proptest::collection::vec((0usize..14, 0usize..14), 0..40)) {
            let mut successors = vec![Vec::new(); 14];
            edges.iter().for_each(|(from, to)| successors[*from].push(*to));
            let found = Dominators::new(&successors, 0);
            let reached = reach(&successors, None);
            for a in 0..14 {
                prop_assert_eq!(found.is_reached(a), reached[a]);
                let without = reach(&successors, Some(a));
                for b in (0..14).filter(|b| reached[*b]) {
                    prop_assert_eq!(found.dominates(a, b), reached[a] && (a == b || !without[b]), "{} over {}", a, b);
                }
            }
        }
    }
}
