//! Kernels that stand for all that are generated: each form with expressions that are typical of it, and what their machine code
//! must be. Checked for every target without a GPU.

use std::collections::BTreeMap;

use plimsoll_expr::{Graph, Layout, Names, Space, parse};

use super::moves::disagreement;
use super::plan::{Choose, Device, Plan, Walk, plan, plan_batch};
use super::spec::{Dependent, Form, GridPolicy, Inner, KernelSpec, Stream};
use super::table::Table;
use crate::Target;
use crate::kernel::{Hints, Index};
use crate::sass::{Class, Function, Instruction, KernelReport};

/// A kernel with a name for its facts.
#[derive(Clone, Debug)]
pub struct Representative {
    /// What it stands for: `flat_triad_f32`.
    pub name: String,
    /// The kernel.
    pub spec: KernelSpec,
}

const COPY: &str = "in x: bf16\ny = x";
const ADD: &str = "in x: bf16\ny = x + 1";
const TRIAD: &str = "in x: f32, z: f32\nscalar a: f32\ny = a*x + z";
const MIXED: &str = "in x: bf16, z: f32\ny: bf16 = x * z";
const BIAS: &str = "in x: bf16, b: bf16\ny = x + b";
const ADAM: &str = "in p: f32, m: f32, v: f32, g: bf16\nscalar r: f32\n\
    m = 0.9*m + 0.1*g\nv = 0.999*v + 0.001*(g*g)\np = p - r*m/(sqrt(v) + 1e-8)";

/// Shape and strides of each tensor, inputs then outputs, and the addresses of their first elements.
type Tensors<'a> = (&'a [u64], &'a [&'a [i64]], &'a [u64]);

/// Room for every size that is compiled for: nothing here depends on it.
const LENGTH: [u64; 1] = [1 << 22];
const RUN: &[i64] = &[1];

/// The device that plans are made for: only its target is in kernels.
fn device(target: Target) -> Device {
    Device { target, multiprocessors: 100, threads_per_multiprocessor: 2048, l2_bytes: 50 << 20 }
}

fn made(text: &str, tensors: Tensors<'_>, target: Target, choose: &Choose) -> Option<Plan> {
    let graph: Graph = parse(text, &Names::default()).ok()?;
    let (shape, strides, starts) = tensors;
    let layouts: Result<Vec<Layout>, _> = strides.iter().map(|strides| Layout::strided(shape, strides, 0)).collect();
    let space = Space::of(shape, &layouts.ok()?).ok()?;
    let walk = Walk::new(&graph, &space, starts).ok()?;
    plan(&graph, &walk, &device(target), &Table::default(), choose).ok()
}

/// Kernels of every form that a target has.
#[must_use]
pub fn representatives(target: Target) -> Vec<Representative> {
    let plain = Choose { vector: Some(16), unroll: Some(2), threads: Some(128), ..Choose::default() };
    let hints = Hints { load_no_allocate: true, store_streaming: true };
    let runs: Tensors<'_> = (&LENGTH, &[RUN, RUN, RUN], &[0, 0, 0]);
    let pair: Tensors<'_> = (&LENGTH, &[RUN, RUN], &[0, 0]);
    let rows = |strides| -> Tensors<'_> { (&[4096, 1024], strides, &[0, 0, 0]) };
    let odd = |strides| -> Tensors<'_> { (&[4096, 1025], strides, &[0, 0, 0]) };
    let bulk = Choose { form: Some(Form::Bulk), vector: Some(4), unroll: Some(3), threads: Some(256), ..plain };
    let looping = Choose { grid: Some(GridPolicy::Stride { waves: 1 }), unroll: Some(1), ..plain };
    let one = Choose { unroll: Some(1), ..plain };
    let small = Choose { index: Some(Index::U32), ..looping };
    let free = Choose::default();
    let early = |choose: Choose| Choose { dependent: true, release: Some(Dependent::Early), ..choose };
    let wanted: [(&str, &str, Tensors<'_>, Choose); 38] = [
        ("flat_copy_bf16", COPY, pair, plain),
        ("flat_copy_bf16_hints", COPY, pair, Choose { hints: Some(hints), ..plain }),
        ("flat_add_bf16", ADD, pair, plain),
        ("flat_add_bf16_early", ADD, pair, early(plain)),
        ("flat_add_bf16_late", ADD, pair, Choose { release: Some(Dependent::Late), ..early(plain) }),
        ("flat_add_bf16_start", ADD, pair, Choose { dependent: true, release: Some(Dependent::Start), ..plain }),
        ("flat_add_bf16_dependent", ADD, pair, Choose { dependent: true, ..plain }),
        ("flat_triad_f32", TRIAD, runs, plain),
        ("flat_triad_f32_wide", TRIAD, runs, Choose { vector: Some(target.widest_access()), ..plain }),
        ("flat_mixed", MIXED, runs, one),
        ("flat_adam", ADAM, (&LENGTH, &[RUN; 7], &[0; 7]), Choose { unroll: Some(1), vector: Some(8), ..plain }),
        ("flat_loop_u64", COPY, pair, looping),
        ("flat_loop_u32", COPY, pair, small),
        ("flat_loop_u64_early", COPY, pair, early(looping)),
        ("peel_add_bf16", ADD, (&LENGTH, &[RUN, RUN], &[2, 2]), plain),
        ("peel_add_bf16_dependent", ADD, (&LENGTH, &[RUN, RUN], &[2, 2]), Choose { dependent: true, ..plain }),
        ("phased_add_bf16", ADD, (&LENGTH, &[RUN, RUN], &[2, 0]), one),
        ("phased_add_bf16_early", ADD, (&LENGTH, &[RUN, RUN], &[2, 0]), early(one)),
        ("rows_bias_of_columns", BIAS, rows(&[&[1024, 1], &[0, 1], &[1024, 1]]), one),
        ("rows_bias_of_rows", BIAS, rows(&[&[1024, 1], &[1, 0], &[1024, 1]]), one),
        ("rows_bias_of_odd_columns", BIAS, odd(&[&[1025, 1], &[0, 1], &[1025, 1]]), free),
        ("rows_bias_of_odd_rows", BIAS, odd(&[&[1025, 1], &[1, 0], &[1025, 1]]), free),
        ("rows_bias_of_columns_early", BIAS, rows(&[&[1024, 1], &[0, 1], &[1024, 1]]), early(one)),
        ("strided_add_bf16", ADD, (&LENGTH, &[&[2], RUN], &[0, 0]), Choose { form: Some(Form::Strided), ..free }),
        ("transpose_bf16", BIAS, rows(&[&[1, 4096], &[1024, 1], &[1024, 1]]), free),
        ("transpose_bf16_early", BIAS, rows(&[&[1, 4096], &[1024, 1], &[1024, 1]]), early(free)),
        ("transpose_mixed", MIXED, rows(&[&[1024, 1], &[1, 4096], &[1024, 1]]), free),
        ("bulk_triad_f32", TRIAD, runs, bulk),
        ("bulk_triad_f32_dependent", TRIAD, runs, Choose { dependent: true, ..bulk }),
        ("bulk_triad_f32_hints", TRIAD, runs, Choose { hints: Some(hints), ..bulk }),
        ("bulk_triad_f32_hints_dependent", TRIAD, runs, Choose { hints: Some(hints), dependent: true, ..bulk }),
        ("bulk_triad_f32_early", TRIAD, runs, early(bulk)),
        ("bulk_copy_bf16", COPY, pair, Choose { vector: Some(2), unroll: Some(12), ..bulk }),
        ("bulk_add_bf16_shifted", ADD, (&LENGTH, &[RUN, RUN], &[2, 0]), Choose { hints: Some(hints), ..bulk }),
        ("bulk_add_bf16_shifted_dependent", ADD, (&LENGTH, &[RUN, RUN], &[2, 0]), Choose { dependent: true, ..bulk }),
        ("bulk_add_bf16_peeled_dependent", ADD, (&LENGTH, &[RUN, RUN], &[2, 2]), Choose { dependent: true, ..bulk }),
        ("bulk_bias_of_columns", BIAS, rows(&[&[1024, 1], &[0, 1], &[1024, 1]]), Choose { hints: Some(hints), ..bulk }),
        ("bulk_bias_of_rows_early", BIAS, rows(&[&[1024, 1], &[1, 0], &[1024, 1]]), early(bulk)),
    ];
    let made = |(name, text, tensors, choose): (&str, &str, Tensors<'_>, Choose)| {
        made(text, tensors, target, &choose).map(|plan| Representative { name: name.to_owned(), spec: plan.spec })
    };
    let mut all: Vec<Representative> = wanted.into_iter().filter_map(made).collect();
    all.extend(batch("batch_triad_f32", target, &one));
    all.extend(batch("batch_triad_f32_early", target, &early(one)));
    all
}

fn batch(name: &str, target: Target, choose: &Choose) -> Option<Representative> {
    let graph = parse(TRIAD, &Names::default()).ok()?;
    let plan = plan_batch(&graph, &[4096], &[0; 3], &device(target), &Table::default(), choose).ok()?;
    Some(Representative { name: name.to_owned(), spec: plan.spec })
}

impl Representative {
    /// What is wrong with the kernel's code, each as a sentence; empty where nothing is.
    #[must_use]
    pub fn faults(&self, found: &KernelReport, function: &Function) -> Vec<String> {
        let target = self.spec.target;
        let mut faults = Vec::new();
        let mut expect = |holds: bool, what: String| {
            if !holds {
                faults.push(format!("elementwise {} for {target}: {what}", self.name));
            }
        };
        let local = (found.local_bytes, found.local_accesses);
        expect(local == (0, 0), format!("{} bytes of local memory, {} accesses to it", local.0, local.1));
        for (class, wanted) in [(Class::GlobalLoad, self.wide(true)), (Class::GlobalStore, self.wide(false))] {
            let widths = accesses(function, class);
            for (bytes, count) in wanted {
                let there = widths.get(&bytes).copied().unwrap_or(0);
                expect(there == count, format!("{count} of {class:?} with {bytes} bytes, found {widths:?}"));
            }
        }
        let bytes = disagreement(&self.spec, found.hot.as_ref());
        expect(bytes.is_none(), bytes.unwrap_or_default());
        let waits = self.spec.dependent != Dependent::No;
        expect(!waits || waits_first(function), "an access to global memory before the wait".to_owned());
        expect(waits == has(function, "ACQBULK"), "waits for the kernel before it, or doesn't".to_owned());
        let asks = has(function, "UBLKPF");
        let wrong =
            if asks { "asks for its inputs while it waits" } else { "doesn't ask for its inputs while it waits" };
        expect(self.spec.prefetch == asks, wrong.to_owned());
        let inputs = self.spec.streams.iter().take(self.spec.graph.inputs().len());
        let copied = |stream: &&Stream| matches!(stream, Stream::Linear | Stream::Shifted);
        let wanted = if self.spec.form == Form::Bulk { inputs.filter(copied).count() } else { 0 };
        let copies = function.instructions.iter().filter(|instruction| instruction.opcode() == "UBLKCP").count();
        expect(copies == wanted, format!("{wanted} bulk copies, found {copies}"));
        let keeps = self.spec.form == Form::Bulk && self.spec.hints.load_no_allocate;
        expect(
            keeps == (found.demotions > 0),
            "gives back what it keeps in the second-level cache, or doesn't".to_owned(),
        );
        let signals = !matches!(self.spec.dependent, Dependent::No | Dependent::Exit);
        expect(signals == has(function, "PREEXIT"), "says that the next kernel may begin, or doesn't".to_owned());
        let start = self.spec.dependent == Dependent::Start;
        let wrong =
            if start { "doesn't let the next kernel begin before" } else { "lets the next kernel begin before" };
        expect(start == lets_next_begin_first(function), format!("{wrong} its own wait"));
        let covers = self.spec.grid == GridPolicy::Cover;
        let ready = signals && covers && matches!(self.spec.form, Form::Flat | Form::Peel | Form::Phased | Form::Bulk);
        let between = from_wait_to_access(function);
        expect(!ready || between <= READY, format!("{between} instructions between its wait and its first access"));
        let early = matches!(self.spec.dependent, Dependent::Early | Dependent::Tail) && self.spec.form != Form::Bulk;
        let late = "lets the next kernel begin when its data have come".to_owned();
        expect(!early || lets_next_begin_before_loads(function), late);
        faults
    }

    /// How many accesses of each width there are to tensors that are taken in vectors; the rest goes element by element.
    fn wide(&self, loads: bool) -> BTreeMap<u32, u32> {
        let spec = &self.spec;
        let inputs = spec.graph.inputs().len();
        let mut wanted = BTreeMap::new();
        if !matches!(spec.form, Form::Flat | Form::Peel | Form::Rows | Form::Batch) {
            return wanted;
        }
        for (place, (stream, bytes)) in spec.streams.iter().zip(spec.element_bytes()).enumerate() {
            let row = bytes * spec.lanes;
            let access = row.min(spec.target.widest_access());
            let vectors = matches!(stream, Stream::Linear | Stream::Walked { inner: Inner::Vector, .. });
            if vectors && (place < inputs) == loads && access > bytes {
                *wanted.entry(access).or_insert(0) += spec.unroll * row / access;
            }
        }
        // A width that some tensor's single elements have too can't be told from them.
        let singles = spec.element_bytes();
        wanted.retain(|bytes, _| !singles.contains(bytes));
        wanted
    }
}

fn accesses(function: &Function, class: Class) -> BTreeMap<u32, u32> {
    let mut widths = BTreeMap::new();
    for access in function.instructions.iter().filter_map(|instruction| instruction.access()) {
        if access.class == class {
            *widths.entry(access.bytes).or_insert(0) += 1;
        }
    }
    widths
}

fn has(function: &Function, opcode: &str) -> bool {
    function.instructions.iter().any(|instruction| instruction.opcode() == opcode)
}

fn first(function: &Function, is: impl Fn(&Instruction) -> bool) -> Option<usize> {
    function.instructions.iter().position(is)
}

/// True where `griddepcontrol.launch_dependents`, which is `PREEXIT`, stands before the first wait.
fn lets_next_begin_first(function: &Function) -> bool {
    let place = |opcode: &str| first(function, |instruction| instruction.opcode() == opcode);
    matches!((place("PREEXIT"), place("ACQBULK")), (Some(begin), Some(wait)) if begin < wait)
}

/// True where it stands before the first load: behind it, what computes with the loaded data comes first, and waits for them.
fn lets_next_begin_before_loads(function: &Function) -> bool {
    let begin = first(function, |instruction| instruction.opcode() == "PREEXIT");
    let load = first(function, |instruction| instruction.class() == Class::GlobalLoad);
    begin.is_some_and(|begin| load.is_none_or(|load| begin < load))
}

/// What may stand between the wait and the first access of a kernel that overlaps with the one before: its addresses are computed by then.
const READY: usize = 8;

/// How many instructions stand there; 0 where there is no wait or no access behind it.
fn from_wait_to_access(function: &Function) -> usize {
    let Some(wait) = first(function, |instruction| instruction.opcode() == "ACQBULK") else { return 0 };
    let access = |one: &Instruction| one.class() == Class::GlobalLoad || one.opcode() == "UBLKCP";
    function.instructions[wait + 1..].iter().position(access).unwrap_or(0)
}

/// True where every way from the entry to an access to global memory passes `griddepcontrol.wait`, which is `ACQBULK`. Prefetches
/// (`UBLKPF`) are none: they read nothing that the kernel sees.
#[must_use]
pub fn waits_first(function: &Function) -> bool {
    let instructions = &function.instructions;
    let mut seen = vec![false; instructions.len()];
    let mut open = vec![0];
    while let Some(at) = open.pop() {
        let Some(instruction) = instructions.get(at) else { continue };
        if std::mem::replace(&mut seen[at], true) || instruction.opcode() == "ACQBULK" {
            continue;
        }
        let global = matches!(instruction.class(), Class::GlobalLoad | Class::GlobalStore | Class::GlobalAtomic);
        if global || matches!(instruction.opcode(), "UBLKCP" | "LDGSTS") {
            return false;
        }
        // Others with a target, such as BSSY, only name where ways meet again.
        if matches!(instruction.opcode(), "BRA" | "BRX" | "JMP" | "CALL") {
            open.extend(instruction.target);
        }
        let ends = matches!(instruction.opcode(), "EXIT" | "BRA" | "RET");
        if !ends || instruction.predicate.is_some() || instruction.mnemonic.contains(".U.") {
            open.push(at + 1);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn representatives_have_every_form_that_a_target_has() {
        for target in Target::ALL {
            let all = representatives(target);
            let names: BTreeSet<&str> = all.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(names.len(), all.len());
            let bulk = target.capability >= 90;
            for form in Form::ALL.into_iter().filter(|form| *form != Form::Bulk || bulk) {
                assert!(all.iter().any(|one| one.spec.form == form), "{form:?} on {target}");
            }
            assert!(all.iter().all(|one| one.spec.target == target));
        }
    }
}
