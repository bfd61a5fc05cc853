//! The plans that tuning times for one expression on given tensors: the planner's own, variations of it, and the best of other forms
//! and sizes by a rough [cost].

use std::collections::HashSet;

use plimsoll_expr::Graph;

use super::{Choose, Device, Indexing, Plan, PlanError, Prepared, cost};
use crate::elementwise::body;
use crate::elementwise::count::{Counts, count};
use crate::elementwise::spec::{Dependent, Form, KernelSpec};
use crate::elementwise::table::Table;
use crate::kernel::Hints;

/// Most plans that are timed.
pub const MOST_ALTERNATIVES: usize = 12;
/// Most variations of the planner's plan among them, for plain and for dependent launches.
const MOST_VARIATIONS: [usize; 2] = [4, 6];
/// Most plans of one form among the others, before those of other forms.
const MOST_OF_FORM: usize = 3;

/// Bytes of a vector that are considered.
const VECTORS: [u32; 6] = [2, 4, 8, 16, 32, 64];
/// Vectors per thread, iterations over a bulk tile, and sides of a transposed tile in vectors.
const UNROLLS: [u32; 4] = [1, 2, 4, 8];
const ITERATIONS: [u32; 7] = [1, 2, 3, 4, 6, 8, 12];
const SIDES: [u32; 4] = [4, 8, 16, 32];
/// Most elements of a transposed tile per thread. More only take long to compile.
const MOST_IN_TILE: u32 = 64;
/// Threads of a block that are considered.
const THREADS: [u32; 3] = [64, 128, 256];
/// Blocks per SM that are considered.
const RESIDENT: [u32; 3] = [0, 4, 6];

/// A plan to time.
#[derive(Clone, Debug)]
pub struct Alternative {
    /// The choices that lead to it.
    pub choose: Choose,
    /// The plan.
    pub plan: Plan,
}

/// At most [`MOST_ALTERNATIVES`] different plans, in the order in which they should be timed. The first is the planner's own for
/// `base`; the others keep the choices that `base` forces. [`Dependent::Start`] is left out, because it restricts what other kernels
/// may do.
///
/// # Errors
/// Those of [`super::plan()`] for `base`.
pub fn alternatives(
    graph: &Graph,
    indexing: &Indexing,
    device: &Device,
    table: &Table,
    base: &Choose,
) -> Result<Vec<Alternative>, PlanError> {
    let prepared = Prepared::new(graph, indexing, (device, table), base.tier)?;
    let own = prepared.plan(base)?;
    let counts = count(&body::program(&prepared.graph, base.tier));
    let mut found = Search { prepared, base, counts, seen: HashSet::new(), kept: Vec::new() };
    found.seen.insert(own.spec.clone());
    let grid = found.other_sizes(&own.spec);
    let variations = found.variations(&own);
    found.kept.push(Alternative { choose: *base, plan: own });
    let most = 1 + MOST_VARIATIONS[usize::from(base.dependent)];
    found.keep(variations.clone(), most);
    found.keep(grid, MOST_ALTERNATIVES);
    found.keep(variations, MOST_ALTERNATIVES);
    Ok(found.kept)
}

/// The alternatives so far.
struct Search<'a> {
    prepared: Prepared<'a>,
    base: &'a Choose,
    counts: Counts,
    seen: HashSet<KernelSpec>,
    kept: Vec<Alternative>,
}

impl Search<'_> {
    /// The plan of these choices, unless its registers would go to memory.
    fn plan(&self, choose: &Choose) -> Option<Plan> {
        let plan = self.prepared.plan(choose).ok()?;
        cost::fits_registers(&plan.spec, &self.prepared.tensors).then_some(plan)
    }

    /// Adds plans of new kernels until there are `most`.
    fn keep(&mut self, plans: Vec<Alternative>, most: usize) {
        for alternative in plans {
            if self.kept.len() < most && self.seen.insert(alternative.plan.spec.clone()) {
                let choose = self.shortest(alternative.choose, &alternative.plan.spec);
                self.kept.push(Alternative { choose, ..alternative });
            }
        }
    }

    /// The same choices without those that the planner makes by itself.
    fn shortest(&self, mut choose: Choose, spec: &KernelSpec) -> Choose {
        let drops: [fn(&mut Choose, &Choose); 4] = [
            |choose, base| choose.resident = base.resident,
            |choose, base| choose.prefetch = base.prefetch,
            |choose, base| choose.release = base.release,
            |choose, base| choose.hints = base.hints,
        ];
        for drop in drops {
            let mut shorter = choose;
            drop(&mut shorter, self.base);
            if self.plan(&shorter).is_some_and(|plan| plan.spec == *spec) {
                choose = shorter;
            }
        }
        choose
    }

    /// The choices of a plan, all forced, where that leads to the same plan.
    fn forced(&self, spec: &KernelSpec) -> Option<Choose> {
        let narrowest = self.prepared.tensors.narrowest();
        // A copy in narrower accesses than its elements has another graph.
        let bytes = spec.element_bytes().into_iter().min().unwrap_or(1).min(narrowest);
        let choose = Choose {
            form: Some(spec.form),
            vector: Some(spec.lanes * bytes),
            unroll: Some(spec.unroll),
            threads: Some(spec.threads),
            hints: Some(spec.hints),
            release: self.base.release.or(self.base.dependent.then_some(spec.dependent)),
            prefetch: Some(spec.prefetch),
            resident: Some(spec.resident),
            ..*self.base
        };
        self.plan(&choose).filter(|plan| plan.spec == *spec).map(|_| choose)
    }

    /// The planner's plan with one other choice: when the next launch may begin, prefetching, hints, blocks per SM, threads. The most
    /// promising come first.
    fn variations(&self, own: &Plan) -> Vec<Alternative> {
        let (base, spec) = (self.base, &own.spec);
        let choose = self.forced(spec).unwrap_or(*base);
        let releases = [Dependent::Tail, Dependent::Exit, Dependent::Early, Dependent::Late];
        let mut releases = releases.map(|release| Choose { release: Some(release), ..choose }).to_vec();
        releases.retain(|_| base.dependent && base.release.is_none());
        let mut prefetch = vec![Choose { prefetch: Some(!spec.prefetch), ..choose }];
        prefetch.retain(|_| base.dependent && base.prefetch.is_none());
        let Hints { load_no_allocate, store_streaming } = spec.hints;
        let other_hints = |(load, store): (bool, bool)| {
            let hints = Hints { load_no_allocate: load_no_allocate != load, store_streaming: store_streaming != store };
            Choose { hints: Some(hints), ..choose }
        };
        let mut hints = [(true, true), (false, true), (true, false)].map(other_hints).to_vec();
        hints.retain(|_| base.hints.is_none());
        let mut resident = RESIDENT.map(|resident| Choose { resident: Some(resident), ..choose }).to_vec();
        resident.retain(|_| base.resident.is_none());
        let other_threads = |threads| Choose { threads: Some(threads), resident: base.resident, ..choose };
        let mut threads = [2 * spec.threads, spec.threads / 2].map(other_threads).to_vec();
        threads.retain(|_| base.threads.is_none());
        let planned = |choose: &Choose| {
            let plan = self.plan(choose).filter(|plan| !is_long(&plan.spec))?;
            Some(Alternative { choose: *choose, plan })
        };
        let is_new = |alternative: &Alternative| alternative.plan.spec != *spec;
        let kinds = [releases, prefetch, hints, resident, threads];
        let kinds: Vec<Vec<Alternative>> =
            kinds.iter().map(|kind| kind.iter().filter_map(planned).filter(is_new).collect()).collect();
        // One of each kind, then a second of each.
        let longest = kinds.iter().map(Vec::len).max().unwrap_or(0);
        (0..longest).flat_map(|place| kinds.iter().filter_map(move |kind| kind.get(place).cloned())).collect()
    }

    /// Other forms and sizes, cheapest first, at first a few of each form.
    fn other_sizes(&self, own: &KernelSpec) -> Vec<Alternative> {
        let base = self.base;
        let contiguous = matches!(own.form, Form::Flat | Form::Peel);
        let forms = Form::ALL.into_iter().filter(|form| match form {
            Form::Batch => false,
            Form::Rows | Form::Strided => !contiguous,
            _ => true,
        });
        let narrowest = self.prepared.tensors.narrowest();
        let (mut all, mut seen) = (Vec::new(), HashSet::from([own.clone()]));
        for form in only(base.form, forms) {
            let unrolls = match form {
                Form::Bulk => &ITERATIONS[..],
                Form::Transpose => &SIDES,
                _ => &UNROLLS,
            };
            for vector in only(base.vector, VECTORS.into_iter().filter(|vector| *vector >= narrowest)) {
                for unroll in only(base.unroll, unrolls.iter().copied()) {
                    for threads in only(base.threads, THREADS) {
                        // The hints of the planner's own form suit it; for other forms it chooses again.
                        let hints = base.hints.or((form == own.form).then_some(own.hints));
                        let choose = Choose {
                            form: Some(form),
                            vector: Some(vector),
                            unroll: Some(unroll),
                            threads: Some(threads),
                            hints,
                            ..*base
                        };
                        let is_new = |plan: &Plan| !is_long(&plan.spec) && seen.insert(plan.spec.clone());
                        if let Some(plan) = self.plan(&choose).filter(is_new) {
                            all.push((self.clocks(&plan), Alternative { choose, plan }));
                        }
                    }
                }
            }
        }
        all.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        diversify(all.into_iter().map(|(_, alternative)| alternative).collect())
    }

    fn clocks(&self, plan: &Plan) -> f64 {
        cost::clocks(plan, &self.prepared.tensors, &self.counts, self.prepared.device)
    }
}

/// Whether threads of a transposed tile have too many elements. Those of joined rows have few.
fn is_long(spec: &KernelSpec) -> bool {
    spec.form == Form::Transpose
        && spec.joined == 0
        && spec.rows * spec.unroll * spec.lanes > MOST_IN_TILE * spec.threads
}

/// A forced value only, or all values.
fn only<T>(forced: Option<T>, all: impl IntoIterator<Item = T>) -> Vec<T> {
    forced.map_or_else(|| all.into_iter().collect(), |forced| vec![forced])
}

/// The same plans with the best of each form and bytes per thread first, at most [`MOST_OF_FORM`] of a form, then the rest.
fn diversify(plans: Vec<Alternative>) -> Vec<Alternative> {
    let mut taken: Vec<(Form, u32)> = Vec::new();
    let is_first = |alternative: &Alternative| {
        let spec = &alternative.plan.spec;
        let kind = (spec.form, spec.lanes * spec.unroll);
        let of_form = taken.iter().filter(|(form, _)| *form == spec.form).count();
        let first = of_form < MOST_OF_FORM && !taken.contains(&kind);
        if first {
            taken.push(kind);
        }
        first
    };
    let (mut first, rest): (Vec<_>, Vec<_>) = plans.into_iter().partition(is_first);
    first.extend(rest);
    first
}

#[cfg(test)]
mod tests;
