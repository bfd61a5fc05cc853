//! Tests every form of elementwise kernels on the CPU, planned and generated for random layouts, addresses and sizes.
//! They are compiled by g++ with the address and undefined-behaviour sanitizers, and compared with the oracle: each
//! element is computed correctly, and no other byte changes. Expressions are exact, so that results must match bit for
//! bit; other tests cover functions.

mod batch;
#[path = "../host/mod.rs"]
mod host;
mod shapes;
mod tiles;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use plimsoll_core::stats::Rng;
use plimsoll_expr::oracle::{Precision, Tensor, run as oracle};
use plimsoll_expr::{DType, Graph, Layout, Names, Space, Value, parse};
use plimsoll_gen::Target;
use plimsoll_gen::elementwise::{
    Choose, Device, Form, GridPolicy, Indexing, KernelSpec, Plan, Stream, Table, generate, plan,
};
use plimsoll_gen::kernel::Index;

use batch::Batch;
use host::{compile, execute};

/// Headers of the forms: inlined for every kernel, because they depend on its macros.
const FORMS: [&str; 17] = [
    "access.h",
    "shift.h",
    "same.h",
    "single.h",
    "tile.h",
    "flat.h",
    "batch.h",
    "indexed.h",
    "rows.h",
    "transpose.h",
    "dense_lines.h",
    "passage.h",
    "lines.h",
    "aligned_tiles.h",
    "sheared_tiles.h",
    "joined_rows.h",
    "bulk.h",
];

/// The memory of one tensor.
#[derive(Clone)]
struct Memory {
    layout: Layout,
    dtype: DType,
    /// Bytes before it, from an address that is a multiple of 32.
    before: u64,
    bytes: Vec<u8>,
}

impl Memory {
    fn start(&self) -> u64 {
        self.before + self.layout.offset() * self.dtype.bytes()
    }
}

struct Case {
    plan: Plan,
    batch: Option<Batch>,
    scalars: Vec<Value>,
    /// Inputs, then outputs; the memory of an in-place output is unused.
    tensors: Vec<Memory>,
    /// The expected memory of each output.
    expected: Vec<Vec<u8>>,
}

fn device(target: Target) -> Device {
    Device { target, multiprocessors: 4, threads_per_multiprocessor: 256, l2_bytes: 1 << 20 }
}

fn graph(text: &str) -> Graph {
    parse(text, &Names::default()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[(rng.next_u64() % from.len() as u64) as usize]
}

/// A small number, so that sums and products are exact.
fn value(rng: &mut Rng, dtype: DType) -> Value {
    let small = (rng.next_u64() % 15) as i128 - if dtype.is_signed() { 7 } else { 0 };
    dtype.cast(Value::Int(small))
}

fn memory(rng: &mut Rng, layout: Layout, dtype: DType, before: u64) -> Memory {
    let elements = layout.span().map_or(0, |(_, last)| last + 1);
    let mut bytes = Vec::new();
    for _ in 0..elements {
        dtype.write(value(rng, dtype), &mut bytes);
    }
    Memory { layout, dtype, before, bytes }
}

/// A random layout of `shape`: any order of dimensions, with gaps, and broadcast if allowed.
fn layout(rng: &mut Rng, shape: &[u64], output: bool, plain: bool) -> Layout {
    let rank = shape.len();
    let mut order: Vec<usize> = (0..rank).rev().collect();
    if !plain && rng.next_u64().is_multiple_of(3) {
        for k in (1..rank).rev() {
            order.swap(k, (rng.next_u64() % (k as u64 + 1)) as usize);
        }
    }
    let mut strides = vec![0_i64; rank];
    let mut stride = if plain || !rng.next_u64().is_multiple_of(8) { 1 } else { 2 };
    for &dimension in &order {
        if !output && !plain && rng.next_u64().is_multiple_of(4) {
            continue;
        }
        strides[dimension] = stride;
        stride *= shape[dimension] as i64;
        if !plain && rng.next_u64().is_multiple_of(6) {
            stride += pick(rng, &[1, 3, 8]);
        }
    }
    let offset = pick(rng, &[0, 0, 0, 0, 1, 2, 5, 8, 32]);
    if !plain && rng.next_u64().is_multiple_of(10) {
        // The last dimension backwards.
        let reach = strides[rank - 1] * (shape[rank - 1] as i64 - 1);
        strides[rank - 1] = -strides[rank - 1];
        return Layout::strided(shape, &strides, offset + reach as u64).unwrap();
    }
    Layout::strided(shape, &strides, offset).unwrap()
}

fn before(rng: &mut Rng, dtype: DType, aligned: bool) -> u64 {
    if aligned { 0 } else { rng.next_u64() % (32 / dtype.bytes()) * dtype.bytes() }
}

/// The expected memory of the outputs.
fn expected(graph: &Graph, shape: &[u64], tensors: &[Memory], scalars: &[Value]) -> Vec<Vec<u8>> {
    let inputs: Vec<Tensor<'_>> = graph
        .inputs()
        .iter()
        .zip(tensors)
        .map(|(_, memory)| Tensor { memory: &memory.bytes, layout: &memory.layout })
        .collect();
    let values = oracle(graph, shape, &inputs, scalars, Precision::Carried).unwrap();
    let space = |layout: &Layout| Space::with_shape(shape, std::slice::from_ref(layout)).unwrap();
    let written = |(place, values): (usize, &Vec<Value>)| {
        let output = &graph.outputs()[place];
        let memory = &tensors[output.in_place.map_or(graph.inputs().len() + place, |slot| slot as usize)];
        let mut bytes = memory.bytes.clone();
        for (offset, value) in space(&memory.layout).offsets(0).into_iter().zip(values) {
            let mut element = Vec::new();
            output.dtype.write(*value, &mut element);
            let at = (offset * output.dtype.bytes()) as usize;
            bytes[at..at + element.len()].copy_from_slice(&element);
        }
        bytes
    };
    values.iter().enumerate().map(written).collect()
}

fn tensors(rng: &mut Rng, graph: &Graph, shape: &[u64], plain: bool, aligned: bool) -> Vec<Memory> {
    let mut all: Vec<Memory> = Vec::new();
    let in_place: Vec<u32> = graph.outputs().iter().filter_map(|output| output.in_place).collect();
    for (slot, input) in graph.inputs().iter().enumerate() {
        let layout = layout(rng, shape, in_place.contains(&(slot as u32)), plain);
        let before = before(rng, input.dtype, aligned);
        all.push(memory(rng, layout, input.dtype, before));
    }
    for output in graph.outputs() {
        let next = match output.in_place {
            Some(slot) => all[slot as usize].clone(),
            None => {
                let layout = layout(rng, shape, true, plain);
                let before = before(rng, output.dtype, aligned);
                memory(rng, layout, output.dtype, before)
            }
        };
        all.push(next);
    }
    all
}

fn scalars(rng: &mut Rng, graph: &Graph) -> Vec<Value> {
    graph.scalars().iter().map(|scalar| value(rng, scalar.dtype)).collect()
}

fn case(rng: &mut Rng, text: &str, shape: &[u64], kind: (bool, bool), target: Target, choose: &Choose) -> Option<Case> {
    let graph = graph(text);
    let tensors = tensors(rng, &graph, shape, kind.0, kind.1);
    let layouts: Vec<Layout> = tensors.iter().map(|memory| memory.layout.clone()).collect();
    let space = Space::with_shape(shape, &layouts).unwrap();
    let starts: Vec<u64> = tensors.iter().map(Memory::start).collect();
    let indexing = Indexing::new(&graph, &space, &starts).unwrap();
    let plan = plan(&graph, &indexing, &device(target), &Table::default(), choose).ok()?;
    let scalars = scalars(rng, &graph);
    let expected = expected(&graph, shape, &tensors, &scalars);
    Some(Case { plan, batch: None, scalars, tensors, expected })
}

fn write_kernel(text: &mut String, place: usize, spec: &KernelSpec) {
    let generated = generate(spec);
    let mut macros = Vec::new();
    let mut inlined = Vec::new();
    let mut included = Vec::new();
    inline(&generated.text, generated.headers, &mut included, &mut inlined);
    for line in &inlined {
        if let Some(name) = line.trim_start().strip_prefix("#define ") {
            macros.push(name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap().to_owned());
        }
    }
    let body = inlined.join("\n").replace("extern \"C\" ", "");
    writeln!(text, "namespace kernel{place} {{\n{body}\n}}").unwrap();
    for name in macros {
        writeln!(text, "#undef {name}").unwrap();
    }
}

fn inline<'a>(text: &'a str, headers: &[(&str, &'a str)], included: &mut Vec<&'a str>, lines: &mut Vec<&'a str>) {
    for line in text.lines() {
        if line.starts_with("#pragma once") {
            continue;
        }
        let Some(name) = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) else {
            lines.push(line);
            continue;
        };
        if FORMS.contains(&name) && !included.contains(&name) {
            included.push(name);
            inline(headers.iter().find(|(known, _)| *known == name).unwrap().1, headers, included, lines);
        }
    }
}

/// One launch as words for the program.
fn launch(case: &Case, bytes: &mut Vec<u8>) {
    let spec = &case.plan.spec;
    let geometry = case.plan.geometry();
    let halves = if spec.form == Form::Transpose { 2 } else { 1 };
    let put = |word: u64, bytes: &mut Vec<u8>| bytes.extend(word.to_le_bytes());
    for word in [halves, geometry.blocks.into(), geometry.threads.into(), case.tensors.len() as u64] {
        put(word, bytes);
    }
    let inputs = spec.graph.inputs().len();
    for (place, memory) in case.tensors.iter().enumerate() {
        let index_in_set = place % spec.streams.len();
        let output = index_in_set.checked_sub(inputs);
        let shared = output.and_then(|output| spec.graph.outputs()[output].in_place);
        let shared = shared.map_or(0, |slot| (place - index_in_set) as u64 + u64::from(slot) + 1);
        put(shared, bytes);
        put(memory.before, bytes);
        put(memory.bytes.len() as u64, bytes);
        put(memory.start() - memory.before, bytes);
        put(output.is_some().into(), bytes);
        if shared == 0 {
            bytes.extend(&memory.bytes);
        }
    }
    let starts: Vec<u64> = case.tensors.iter().map(Memory::start).collect();
    let bits: Vec<u64> =
        spec.graph.scalars().iter().zip(&case.scalars).map(|(scalar, value)| scalar.dtype.encode(*value)).collect();
    let (words, table, places) = match &case.batch {
        Some(batch) => batch.words(),
        None => {
            let mut words = Vec::new();
            case.plan.words(&starts, &bits, &mut words).unwrap();
            (words, Vec::new(), (0..starts.len() as u64).map(|place| 2 * place).collect())
        }
    };
    for list in [words, table] {
        put(list.len() as u64, bytes);
        list.into_iter().for_each(|word| put(word, bytes));
    }
    places.into_iter().for_each(|place| put(place, bytes));
}

/// Most kernels per program: g++ takes a third of a second for each.
const MOST_KERNELS: usize = 45;

/// The properties of a kernel that select code paths in the headers.
fn code_path(case: &Case) -> String {
    let spec = &case.plan.spec;
    let kind = |stream: &Stream| match stream {
        Stream::Indexed { inner, .. } => format!("{inner:?}"),
        Stream::Transposed { line, .. } => format!("Transposed {line}"),
        other => format!("{other:?}"),
    };
    let kinds: BTreeSet<_> = spec.streams.iter().map(kind).collect();
    // Threads that have no vector in the last iteration, and those that have none of a transposed input.
    let uneven =
        [spec.rows * spec.columns() / spec.lanes, spec.rows * spec.columns()].map(|all| all % spec.threads > 0);
    let written = spec.graph.outputs().iter().any(|output| output.in_place.is_some());
    let place = spec.graph.depends_on_place();
    let sides = [spec.rows, spec.columns()];
    // Of folded rows and columns, whether each tile has whole folds.
    let folds = [0, 1].map(|side| (spec.folds[side] > 0).then(|| sides[side].is_multiple_of(spec.folds[side])));
    let shape = (
        spec.form,
        spec.lanes,
        spec.index,
        spec.grid,
        (spec.whole_rows, spec.rare_turns, !spec.same_rows.is_empty()),
        spec.head,
        (spec.shear > 0, spec.joined > 0),
        (spec.fits, folds),
    );
    format!("{shape:?} {kinds:?} {uneven:?} {written} {place}")
}

/// Selects the cases of at most [`MOST_KERNELS`] kernels: the first kernel of every code path, then the second ones, and so on.
fn select(cases: &[Case]) -> Vec<&Case> {
    let mut kernels: Vec<(usize, &KernelSpec)> = Vec::new();
    let mut drawn: HashMap<String, usize> = HashMap::new();
    for case in cases {
        if kernels.iter().all(|(_, kernel)| **kernel != case.plan.spec) {
            let rank = drawn.entry(code_path(case)).or_default();
            kernels.push((*rank, &case.plan.spec));
            *rank += 1;
        }
    }
    kernels.sort_by_key(|(rank, _)| *rank);
    kernels.truncate(MOST_KERNELS);
    cases.iter().filter(|case| kernels.iter().any(|(_, kernel)| **kernel == case.plan.spec)).collect()
}

/// Number of selected cases whose kernel satisfies a condition.
fn compiled(cases: &[Case], condition: impl Fn(&KernelSpec) -> bool) -> usize {
    select(cases).iter().filter(|case| condition(&case.plan.spec)).count()
}

/// Runs all cases in one program and compares every byte of their outputs.
fn check(name: &str, cases: &[Case]) {
    let mut kernels: HashMap<&KernelSpec, usize> = HashMap::new();
    let mut text = String::from("#include \"forms.hpp\"\n");
    let cases = &select(cases)[..];
    for case in cases {
        let next = kernels.len();
        kernels.entry(&case.plan.spec).or_insert_with(|| {
            write_kernel(&mut text, next, &case.plan.spec);
            next
        });
    }
    text.push_str("int main() {\n    for (;;) switch (next_word()) {\n");
    for place in 0..kernels.len() {
        writeln!(text, "    case {place}: run<kernel{place}::Parameters>(kernel{place}::elementwise); break;").unwrap();
    }
    text.push_str("    default: return 0;\n    }\n}\n");
    let mut input = Vec::new();
    for case in cases {
        input.extend((kernels[&case.plan.spec] as u64).to_le_bytes());
        launch(case, &mut input);
    }
    input.extend(u64::MAX.to_le_bytes());
    let printed = execute(&compile(name, &text, "-O0"), &input);
    let mut rest = &printed[..];
    for case in cases {
        for (output, expected) in case.expected.iter().enumerate() {
            let (found, after) = rest.split_at(expected.len());
            rest = after;
            let spec = &case.plan.spec;
            let outputs = spec.graph.outputs();
            let wrong = first_difference(found, expected, outputs[output % outputs.len()].dtype);
            assert!(
                wrong.is_none(),
                "element {wrong:?} of output {output} of {:?} with {} elements: {:?} lanes {} unroll {} threads {}",
                spec.form,
                case.plan.elements,
                spec.streams,
                spec.lanes,
                spec.unroll,
                spec.threads
            );
        }
    }
    assert!(rest.is_empty());
}

/// The first element that differs. Every NaN is as good as another: their bits aren't promised.
fn first_difference(found: &[u8], expected: &[u8], dtype: DType) -> Option<usize> {
    let size = dtype.bytes() as usize;
    let is_nan = |element: &[u8]| matches!(dtype.read(element, 0), Some(Value::Float(value)) if value.is_nan());
    let mut pairs = found.chunks(size).zip(expected.chunks(size));
    pairs.position(|(found, expected)| found != expected && !(is_nan(found) && is_nan(expected)))
}

const SIZES: [u64; 14] = [1, 2, 3, 31, 32, 33, 127, 257, 1021, 1024, 1025, 2047, 4096, 6151];

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn contiguous_tensors_of_any_size_and_address_are_computed_correctly() {
    let mut rng = Rng::new(1);
    let mut cases = Vec::new();
    let texts = [
        "in x: u16\ny = x",
        "in x: f32, z: f32\nscalar a: f32\ny = a*x + z",
        "in x: bf16, z: f32\ny: bf16 = x // z + x % z",
        "in x: i8, z: i64\ny = z // x + pow(x, 3)*(z % x)\nw: u8 = u8(abs(x))",
        "in x: i32, z: i16\nx = x*3 // z",
        "in x: u8\ny = index()*2 + x",
    ];
    for text in texts {
        for (k, size) in SIZES.into_iter().enumerate() {
            for aligned in [true, false] {
                let vector = [4, 16, 8, 32][(k / 2 + usize::from(aligned)) % 3];
                let choose = Choose { vector: Some(vector), unroll: Some(2), threads: Some(32), ..Choose::default() };
                cases.extend(case(&mut rng, text, &[size], (true, aligned), Target::plain(90), &choose));
            }
        }
    }
    let base = Choose { vector: Some(16), unroll: Some(2), threads: Some(32), ..Choose::default() };
    let looping = Choose { grid: Some(GridPolicy::Stride { waves: 1 }), ..base };
    let bulk = Choose { form: Some(Form::Bulk), vector: Some(4), unroll: Some(3), ..base };
    let narrow = Choose { form: Some(Form::Bulk), vector: Some(2), unroll: Some(8), ..base };
    let small = Choose { index: Some(Index::U32), ..base };
    for choose in [looping, bulk, small, Choose { index: Some(Index::U32), ..looping }] {
        for size in [1, 33, 1024, 6151, 20_011] {
            cases.extend(case(&mut rng, texts[1], &[size], (true, true), Target::plain(90), &choose));
        }
    }
    cases.extend(case(&mut rng, "in x: f32\ny = x", &[2047], (true, true), Target::plain(90), &narrow));
    // Bulk copies at any address.
    for (k, text) in texts.iter().cycle().take(36).enumerate() {
        let choose = Choose { vector: Some([2, 4, 8, 16][k / 6 % 4]), ..bulk };
        cases.extend(case(&mut rng, text, &[6151], (true, false), Target::plain(90), &choose));
    }
    let wide = Choose { vector: Some(32), ..base };
    cases.extend(case(&mut rng, texts[2], &[6151], (true, true), Target::plain(100), &wide));
    for form in [Form::Flat, Form::Peel, Form::Phased, Form::Bulk] {
        assert!(compiled(&cases, |spec| spec.form == form) > 2, "{form:?}");
    }
    let bulk = |spec: &KernelSpec| spec.form == Form::Bulk;
    assert!(compiled(&cases, |spec| bulk(spec) && spec.streams.contains(&Stream::Shifted)) > 2);
    assert!(compiled(&cases, |spec| bulk(spec) && spec.head && !spec.streams.contains(&Stream::Shifted)) > 0);
    assert!(compiled(&cases, |spec| spec.grid != GridPolicy::Cover) > 0);
    check("forms-runs", &cases);
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn tensors_of_any_layout_are_computed_correctly() {
    let mut rng = Rng::new(2);
    let mut cases = Vec::new();
    let texts = [
        "in x: u16\ny = x",
        "in x: f32, z: f32\ny = x + z",
        "in x: bf16, z: f32, w: u8\ny: bf16 = x + z*w",
        "in x: i32, z: i16\nx = x*3 + z",
        "in x: u8\ny = index()*2 + x\nz: i32 = i32(index(0)*7 + index(1))",
    ];
    for k in 0..150 {
        let rank = 2 + k % 3;
        let extents: Vec<u64> = (0..rank).map(|_| pick(&mut rng, &[1, 2, 3, 5, 8, 16, 17, 32, 33])).collect();
        let threads = Some(32);
        // Divisors must be as wide as indices, also if the width is forced.
        let index = pick(&mut rng, &[None, None, Some(Index::U64)]);
        let choose = Choose { vector: Some(pick(&mut rng, &[8, 16])), threads, index, ..Choose::default() };
        let aligned = !rng.next_u64().is_multiple_of(4);
        cases.extend(case(&mut rng, texts[k % texts.len()], &extents, (false, aligned), Target::plain(90), &choose));
    }
    assert!(compiled(&cases, |spec| spec.form == Form::Rows && spec.index == Index::U64) > 2);
    check("forms-layouts", &cases);
}
