//! Kernels that represent all generated ones: each form with typical expressions, and the requirements on their machine code.
//! Checked for every target without a GPU.

use std::collections::BTreeMap;

use plimsoll_expr::{DType, Graph, Layout, Names, Space, parse};

use super::moves::disagreement;
use super::plan::{Choose, Device, Indexing, Plan, Sets, plan, plan_batch};
use super::spec::{Dependent, Form, GridPolicy, Inner, KernelSpec, Stream};
use super::table::Table;
use crate::Target;
use crate::kernel::{Hints, Index};
use crate::sass::{Access, Class, Function, Instruction, KernelReport};

/// A kernel with a name for its facts.
#[derive(Clone, Debug)]
pub struct Representative {
    /// Form, expression and type: `flat_triad_f32`.
    pub name: String,
    /// The kernel.
    pub spec: KernelSpec,
}

const COPY: &str = "in x: bf16\ny = x";
const ADD: &str = "in x: bf16\ny = x + 1";
const TRIAD: &str = "in x: f32, z: f32\nscalar a: f32\ny = a*x + z";
const MIXED: &str = "in x: bf16, z: f32\ny: bf16 = x * z";
const OUTER: &str = "in x: bf16, b: bf16\ny = x * silu(b)";
const BIAS: &str = "in x: bf16, b: bf16\ny = x + b";
const ADAM: &str = "in p: f32, m: f32, v: f32, g: bf16\nscalar r: f32\n\
    m = 0.9*m + 0.1*g\nv = 0.999*v + 0.001*(g*g)\np = p - r*m/(sqrt(v) + 1e-8)";

/// The step t is in memory, as an input of one element.
const ADAM_ON_DEVICE: &str = "in p: f32, m: f32, v: f32, g: bf16, t: f32\nscalar r: f32\n\
    m = 0.9*m + 0.1*g\nv = 0.999*v + 0.001*(g*g)\n\
    p = p - r/(1 - pow(0.9, t))*m/(sqrt(v*(1/(1 - pow(0.999, t)))) + 1e-8)";

/// Shape and strides of each tensor, inputs then outputs, and the addresses of their first elements.
type Tensors<'a> = (&'a [u64], &'a [&'a [i64]], &'a [u64]);

/// Number of elements; the kernels don't depend on it.
const LENGTH: [u64; 1] = [1 << 22];
const RUN: &[i64] = &[1];

/// The device of the plans; only its target affects the kernels.
fn device(target: Target) -> Device {
    Device { target, multiprocessors: 100, threads_per_multiprocessor: 2048, l2_bytes: 50 << 20 }
}

fn build_plan(text: &str, tensors: Tensors<'_>, target: Target, choose: &Choose) -> Option<Plan> {
    let graph: Graph = parse(text, &Names::default()).ok()?;
    let (shape, strides, starts) = tensors;
    let layouts: Result<Vec<Layout>, _> = strides.iter().map(|strides| Layout::strided(shape, strides, 0)).collect();
    let space = Space::with_shape(shape, &layouts.ok()?).ok()?;
    let indexing = Indexing::new(&graph, &space, starts).ok()?;
    plan(&graph, &indexing, &device(target), &Table::default(), choose).ok()
}

/// Kernels of every form that a target supports.
#[must_use]
pub fn representatives(target: Target) -> Vec<Representative> {
    let plain = Choose { vector: Some(16), unroll: Some(2), threads: Some(128), ..Choose::default() };
    let hints = Hints { load_no_allocate: true, store_streaming: true };
    let runs: Tensors<'_> = (&LENGTH, &[RUN, RUN, RUN], &[0, 0, 0]);
    let pair: Tensors<'_> = (&LENGTH, &[RUN, RUN], &[0, 0]);
    let rows = |strides| -> Tensors<'_> { (&[4096, 1024], strides, &[0, 0, 0]) };
    let long = |strides| -> Tensors<'_> { (&[4096, 8193], strides, &[0, 0, 0]) };
    let odd = |strides| -> Tensors<'_> { (&[4096, 1025], strides, &[0, 0, 0]) };
    // A transposed input whose dimensions are in the opposite order.
    const COLUMNS: [&[i64]; 3] = [&[1, 2048, 1_048_576], &[4096, 8, 1], &[4096, 8, 1]];
    const ROWS: [&[i64]; 3] = [&[1, 8, 4096], &[1_048_576, 2048, 1], &[1_048_576, 2048, 1]];
    const SHEARED: [&[i64]; 3] = [&[1, 2048, 4_196_352], &[10_245, 5, 1], &[10_245, 5, 1]];
    const SHEARED_ROWS: [&[i64]; 3] = [&[1, 16, 4096], &[1_048_832, 4097, 1], &[1_048_832, 4097, 1]];
    const JOINED: [&[i64]; 3] = [&[1, 41_048], &[245, 1], &[245, 1]];
    let reversed = |shape, strides| -> Tensors<'_> { (shape, strides, &[0, 0, 0]) };
    let bulk = Choose { form: Some(Form::Bulk), vector: Some(4), unroll: Some(3), threads: Some(256), ..plain };
    let looping = Choose { grid: Some(GridPolicy::Stride { waves: 1 }), unroll: Some(1), ..plain };
    let one = Choose { unroll: Some(1), ..plain };
    let small = Choose { index: Some(Index::U32), ..looping };
    let free = Choose::default();
    let early = |choose: Choose| Choose { dependent: true, release: Some(Dependent::Early), ..choose };
    let wanted: [(&str, &str, Tensors<'_>, Choose); 46] = [
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
        ("rows_stacked_bf16", OUTER, rows(&[&[1, 0], &[0, 1], &[1024, 1]]), free),
        ("strided_add_bf16", ADD, (&LENGTH, &[&[2], RUN], &[0, 0]), Choose { form: Some(Form::Strided), ..free }),
        ("transpose_bf16", BIAS, rows(&[&[1, 4096], &[1024, 1], &[1024, 1]]), free),
        ("transpose_bf16_early", BIAS, rows(&[&[1, 4096], &[1024, 1], &[1024, 1]]), early(free)),
        ("transpose_sheared_bf16", BIAS, long(&[&[1, 4096], &[8193, 1], &[8193, 1]]), free),
        ("transpose_sheared_mixed", MIXED, long(&[&[8193, 1], &[1, 4096], &[8193, 1]]), free),
        ("transpose_folded_columns", BIAS, reversed(&[2048, 512, 8], &COLUMNS), free),
        ("transpose_folded_rows", BIAS, reversed(&[8, 512, 2048], &ROWS), free),
        ("transpose_folded_sheared", BIAS, reversed(&[2048, 2049, 5], &SHEARED), free),
        ("transpose_folded_rows_sheared", BIAS, reversed(&[16, 256, 4097], &SHEARED_ROWS), free),
        ("transpose_joined_bf16", BIAS, reversed(&[41_048, 245], &JOINED), free),
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
    let build = |(name, text, tensors, choose): (&str, &str, Tensors<'_>, Choose)| {
        build_plan(text, tensors, target, &choose).map(|plan| Representative { name: name.to_owned(), spec: plan.spec })
    };
    let mut all: Vec<Representative> = wanted.into_iter().filter_map(build).collect();
    all.extend(batch("batch_triad_f32", (TRIAD, &[false; 2], None), target, (1, one)));
    all.extend(batch("batch_triad_f32_table", (TRIAD, &[false; 2], None), target, (1000, one)));
    all.extend(batch("batch_triad_f32_table_early", (TRIAD, &[false; 2], None), target, (1000, early(one))));
    let adam = (ADAM_ON_DEVICE, &[false, false, false, false, true][..], Some(DType::F32));
    all.extend(batch("batch_adam", adam, target, (1000, Choose { unroll: Some(1), vector: Some(8), ..plain })));
    all
}

/// A kernel for this many sets of an expression, with some inputs of one element, and a flag to skip.
fn batch(
    name: &str,
    (text, uniform, skip): (&str, &[bool], Option<DType>),
    target: Target,
    (sets, choose): (usize, Choose),
) -> Option<Representative> {
    let graph = parse(text, &Names::default()).ok()?;
    let tensors = graph.inputs().len() + graph.outputs().len();
    let (lengths, starts, groups) = (vec![4096; sets], vec![0; sets * tensors], vec![0; sets]);
    let sets = Sets { lengths: &lengths, starts: &starts, groups: &groups, group_count: 1, uniform, skip };
    let plan = plan_batch(&graph, sets, &device(target), &Table::default(), &choose).ok()?.plan;
    Some(Representative { name: name.to_owned(), spec: plan.spec })
}

impl Representative {
    /// The faults of the kernel's machine code, one sentence each; empty if there are none.
    #[must_use]
    pub fn faults(&self, report: &KernelReport, function: &Function) -> Vec<String> {
        let target = self.spec.target;
        let mut faults = Vec::new();
        let mut expect = |holds: bool, what: String| {
            if !holds {
                faults.push(format!("elementwise {} for {target}: {what}", self.name));
            }
        };
        let local = (report.local_bytes, report.local_accesses);
        expect(local == (0, 0), format!("{} bytes of local memory, {} accesses to it", local.0, local.1));
        for (class, wanted) in [(Class::GlobalLoad, self.wide(true)), (Class::GlobalStore, self.wide(false))] {
            let widths = accesses(function, class);
            for (bytes, count) in wanted {
                let actual = widths.get(&bytes).copied().unwrap_or(0);
                expect(actual == count, format!("expected {count} {class:?} of {bytes} bytes, found {widths:?}"));
            }
        }
        let bytes = disagreement(&self.spec, report.hot.as_ref());
        expect(bytes.is_none(), bytes.unwrap_or_default());
        let must_wait = self.spec.dependent != Dependent::No;
        expect(!must_wait || waits_first(function), "accesses global memory before its wait".to_owned());
        let fault = if must_wait { "doesn't wait for the previous kernel" } else { "waits for the previous kernel" };
        expect(must_wait == has(function, "ACQBULK"), fault.to_owned());
        let prefetches = has(function, "UBLKPF");
        let fault = if prefetches { "prefetches its inputs" } else { "doesn't prefetch its inputs" };
        expect(self.spec.prefetch == prefetches, format!("{fault} while it waits"));
        let inputs = self.spec.streams.iter().take(self.spec.graph.inputs().len());
        let copied = |stream: &&Stream| matches!(stream, Stream::Linear | Stream::Shifted);
        let wanted = if self.spec.form == Form::Bulk { inputs.filter(copied).count() } else { 0 };
        let copies = function.instructions.iter().filter(|instruction| instruction.opcode() == "UBLKCP").count();
        expect(copies == wanted, format!("expected {wanted} bulk copies, found {copies}"));
        let must_demote = self.spec.form == Form::Bulk && self.spec.hints.load_no_allocate;
        let fault = if must_demote { "doesn't demote its evict-last lines in L2" } else { "demotes lines in L2" };
        expect(must_demote == (report.demotions > 0), fault.to_owned());
        let must_signal = !matches!(self.spec.dependent, Dependent::No | Dependent::Exit);
        let fault = if must_signal { "doesn't signal" } else { "signals" };
        expect(must_signal == has(function, "PREEXIT"), format!("{fault} that the next kernel may begin"));
        let start = self.spec.dependent == Dependent::Start;
        let fault = if start { "doesn't let the next kernel begin" } else { "lets the next kernel begin" };
        expect(start == lets_next_begin_first(function), format!("{fault} before its own wait"));
        let covers = self.spec.grid == GridPolicy::Cover;
        let has_fixed_tiles =
            must_signal && covers && matches!(self.spec.form, Form::Flat | Form::Peel | Form::Phased | Form::Bulk);
        let between = instructions_from_wait_to_access(function);
        expect(
            !has_fixed_tiles || between <= MOST_AFTER_WAIT,
            format!("{between} instructions between its wait and its first access"),
        );
        let early = matches!(self.spec.dependent, Dependent::Early | Dependent::Tail) && self.spec.form != Form::Bulk;
        let fault = "lets the next kernel begin only after its loads".to_owned();
        expect(!early || lets_next_begin_before_loads(function), fault);
        faults
    }

    /// Expected number of vector accesses, by width in bytes; the other accesses are to single elements.
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
            let (access, more) = match stream {
                Stream::Linear | Stream::Indexed { inner: Inner::Vector, .. } => (access, 0),
                // Inside rows one access more than a vector has.
                Stream::Indexed { inner: Inner::ShiftedOrUnit, .. } => (access.min(16), 1),
                _ => continue,
            };
            if (place < inputs) == loads && access > bytes {
                *wanted.entry(access).or_insert(0) += spec.vectors(place) * (row / access + more);
            }
        }
        // A vector as wide as some tensor's single element can't be distinguished from it.
        let singles = spec.element_bytes();
        wanted.retain(|bytes, _| !singles.contains(bytes));
        wanted
    }
}

fn accesses(function: &Function, class: Class) -> BTreeMap<u32, u32> {
    let mut widths = BTreeMap::new();
    for access in function.instructions.iter().filter_map(|instruction| instruction.access()) {
        if access.class == class && !access.is_read_only() {
            *widths.entry(access.bytes).or_insert(0) += 1;
        }
    }
    widths
}

fn has(function: &Function, opcode: &str) -> bool {
    function.instructions.iter().any(|instruction| instruction.opcode() == opcode)
}

fn find_first(function: &Function, is_match: impl Fn(&Instruction) -> bool) -> Option<usize> {
    function.instructions.iter().position(is_match)
}

/// True if `griddepcontrol.launch_dependents` (`PREEXIT`) comes before the first wait.
fn lets_next_begin_first(function: &Function) -> bool {
    let position = |opcode: &str| find_first(function, |instruction| instruction.opcode() == opcode);
    matches!((position("PREEXIT"), position("ACQBULK")), (Some(begin), Some(wait)) if begin < wait)
}

/// True if `PREEXIT` comes before the first load. After a load, it could be delayed by instructions that wait for the data.
fn lets_next_begin_before_loads(function: &Function) -> bool {
    let begin = find_first(function, |instruction| instruction.opcode() == "PREEXIT");
    let is_load = |access: Access| access.class == Class::GlobalLoad && !access.is_read_only();
    let load = find_first(function, |instruction| instruction.access().is_some_and(is_load));
    begin.is_some_and(|begin| load.is_none_or(|load| begin < load))
}

/// Most instructions between the wait and the first access of a kernel that overlaps with the previous one: addresses must be
/// computed before the wait.
const MOST_AFTER_WAIT: usize = 8;

/// Instructions between the wait and the first access; 0 without a wait or without an access after it.
fn instructions_from_wait_to_access(function: &Function) -> usize {
    let Some(wait) = find_first(function, |instruction| instruction.opcode() == "ACQBULK") else { return 0 };
    let is_access =
        |instruction: &Instruction| instruction.class() == Class::GlobalLoad || instruction.opcode() == "UBLKCP";
    function.instructions[wait + 1..].iter().position(is_access).unwrap_or(0)
}

/// True if every path from the entry to a global memory access passes `griddepcontrol.wait` (`ACQBULK`). Prefetches (`UBLKPF`)
/// don't count as accesses: they read nothing that the kernel sees.
#[must_use]
pub fn waits_first(function: &Function) -> bool {
    let instructions = &function.instructions;
    let mut seen = vec![false; instructions.len()];
    let mut pending = vec![0];
    while let Some(position) = pending.pop() {
        let Some(instruction) = instructions.get(position) else { continue };
        if std::mem::replace(&mut seen[position], true) || instruction.opcode() == "ACQBULK" {
            continue;
        }
        // What is read through the read-only path, such as the table of a batch, never changes.
        let read_only = instruction.access().is_some_and(|access| access.is_read_only());
        let global =
            matches!(instruction.class(), Class::GlobalLoad | Class::GlobalStore | Class::GlobalAtomic) && !read_only;
        if global || matches!(instruction.opcode(), "UBLKCP" | "LDGSTS") {
            return false;
        }
        // Other instructions with a target, such as BSSY, only name the reconvergence point.
        if matches!(instruction.opcode(), "BRA" | "BRX" | "JMP" | "CALL") {
            pending.extend(instruction.target);
        }
        let ends = matches!(instruction.opcode(), "EXIT" | "BRA" | "RET");
        if !ends || instruction.predicate.is_some() || instruction.mnemonic.contains(".U.") {
            pending.push(position + 1);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn representatives_include_every_form_that_the_target_supports() {
        for target in Target::ALL {
            let all = representatives(target);
            let names: BTreeSet<&str> = all.iter().map(|kernel| kernel.name.as_str()).collect();
            assert_eq!(names.len(), all.len());
            let bulk = target.capability >= 90;
            for form in Form::ALL.into_iter().filter(|form| *form != Form::Bulk || bulk) {
                assert!(all.iter().any(|kernel| kernel.spec.form == form), "{form:?} on {target}");
            }
            assert!(all.iter().all(|kernel| kernel.spec.target == target));
        }
    }
}
