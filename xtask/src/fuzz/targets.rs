//! The fuzzed parsers, each with real inputs and the function that runs one input.

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use plimsoll::bench::{Operand, Table};
use plimsoll::expr::{DType, Graph, Layout, Names, Space, Value, parse};
use plimsoll_core::record::{Limits, read};
use plimsoll_cpu::elementwise::{How, Program, Set};
use plimsoll_cpu::threads::{Team, affinity};
use plimsoll_cpu::timer::Timer;
use plimsoll_gen::custom::{Arguments, Cubin};
use plimsoll_gen::elementwise::representative::waits_first;
use plimsoll_gen::elementwise::{Choose, Device, Indexing, generate, plan};
use plimsoll_gen::sass::{Image, Listing, Report, elf};
use plimsoll_suite::profile::Profile;
use plimsoll_suite::references;

use super::grammar::make_expression;
use super::mutate::{self, Random};
use crate::test::root;

/// One parser.
#[derive(Debug)]
pub(super) struct Target {
    pub name: &'static str,
    /// Real inputs, all of which are accepted.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Generates an input that is probably accepted.
    pub make: Option<fn(&mut Random) -> Vec<u8>>,
    /// Parses an input; true if it was accepted.
    pub run: fn(&[u8]) -> bool,
}

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "records",
        seeds: || small("records/h200", &["run.jsonl", "run.jsonl.gz"]),
        make: None,
        run: record,
    },
    Target { name: "expressions", seeds: || texts(EXPRESSIONS), make: Some(make_expression), run: expression },
    Target { name: "operands", seeds: || texts(OPERANDS), make: None, run: operand },
    Target { name: "arguments", seeds: || texts(ARGUMENTS), make: None, run: arguments },
    Target { name: "elf", seeds: || small("crates/plimsoll-gen/tests/data", &[".cubin"]), make: None, run: cubin },
    Target {
        name: "listings",
        seeds: || small("crates/plimsoll-gen/tests/data", &[".sass"]),
        make: None,
        run: listing,
    },
    Target { name: "profiles", seeds: profiles, make: None, run: profile },
    Target {
        name: "plans",
        seeds: || small("crates/plimsoll-gen/src/elementwise", &[".json"]),
        make: None,
        run: plans,
    },
    Target { name: "references", seeds: known_references, make: None, run: reference },
];

impl Target {
    /// The inputs in [`Self::folder`], sorted by name: former finds and examples of a form. Not all of them are accepted.
    pub fn kept(&self) -> Vec<Vec<u8>> {
        let files = fs::read_dir(self.folder()).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut files: Vec<PathBuf> = files.collect();
        files.sort();
        files.iter().filter_map(|path| fs::read(path).ok()).collect()
    }

    /// The folder of kept inputs.
    pub fn folder(&self) -> PathBuf {
        root().join("tests/fuzz").join(self.name)
    }

    /// The inputs from which damaged copies are made.
    pub fn sources(&self) -> Vec<Vec<u8>> {
        [(self.seeds)(), self.kept()].concat()
    }

    /// The next input: a damaged copy of a source, or half of the time a generated input, if the target has a generator. Half of
    /// the generated inputs get one change.
    pub fn input(&self, sources: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
        let Some(make) = self.make.filter(|_| random.below(2) == 0) else { return mutate::mutate(sources, random) };
        let mut input = make(random);
        if random.below(2) == 0 {
            mutate::change(&mut input, &sources[random.below(sources.len())], random);
        }
        input
    }
}

const EXPRESSIONS: &[&str] = &[
    "in x: f32, z: f32\nscalar a: f32\ny = a*x + z",
    "in x: bf16\ny = x/6",
    "in x: f64, y: f64\nz = pow(x, y) + atan2(x, y)//3",
    "in p: f32, m: f32, v: f32, g: bf16\nscalar r: f32\nm = 0.9*m + 0.1*g\nv = 0.999*v + 0.001*(g*g)\np = p - r*m/(sqrt(v) + 1e-8)",
    "in x: i32, y: i16\nz = x//y % 7 + (x << 3 ^ ~y) + abs(x)",
    "in x: f16\ny: f32 = where(x > 0, max(x, 2), erf(-x))",
    "in x: f32, y: f32\nlet a = x; let b = y\niterate 5: a, b = a*a - b*b + x, 2*a*b + y\nz = a + b",
];

const OPERANDS: &[&str] = &[
    "x:bf16:8x3x1025x128",
    "x:f32:4096x4096:transposed",
    "y:f64:16x1:offset=3",
    "z:i8:4x4:strides=8x2:offset=64",
    "x:f32:4611686018427387904x1",
    "b:bool:1",
];

const ARGUMENTS: &[&str] = &[
    "in:f32:16Mi out:f32:16Mi u32:16777216 f32:0.5",
    "inout:bf16:64MiB:zeros,in:u32:1Ki:iota,scratch:u8:1",
    "i64:-1 f64:1e-300 f16:nan bool:true bytes:00ff7f",
];

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// The four smallest files below a folder whose names end so.
fn small(folder: &str, endings: &[&str]) -> Vec<Vec<u8>> {
    let (mut files, mut open): (Vec<PathBuf>, _) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = open.pop() {
        for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                open.push(path);
            } else if endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)) {
                files.push(path);
            }
        }
    }
    files.sort();
    let mut files: Vec<Vec<u8>> = files.iter().filter_map(|path| fs::read(path).ok()).collect();
    files.sort_by_key(Vec::len);
    files.truncate(4);
    files
}

fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

fn record(input: &[u8]) -> bool {
    read(BufReader::new(input), Limits::default()).is_ok()
}

fn operand(input: &[u8]) -> bool {
    let Some(Ok(operand)) = text(input).map(str::parse::<Operand>) else { return false };
    let _ = (operand.is_plain(), operand.to_string());
    true
}

fn arguments(input: &[u8]) -> bool {
    let Some(Ok(arguments)) = text(input).map(str::parse::<Arguments>) else { return false };
    let again: Result<Arguments, _> = arguments.to_string().parse();
    assert!(again.is_ok(), "written arguments can't be parsed again");
    let _ = (arguments.traffic().total(), arguments.bytes());
    true
}

fn cubin(input: &[u8]) -> bool {
    // The driver only gets images that `Image::new` accepted.
    let _ = (elf::module_data(input), Image::new(input.to_vec()));
    if let Ok(cubin) = Cubin::new(input.to_vec()) {
        let _ = (cubin.kernel(None).is_ok(), cubin.kernel(Some("scale")).is_ok(), cubin.capability());
    }
    elf::resources(input).is_ok()
}

fn listing(input: &[u8]) -> bool {
    let Some(Ok(listing)) = text(input).map(Listing::parse) else { return false };
    let _ = Report::new(&listing, &[]).to_string();
    for function in &listing.functions {
        let _ = waits_first(function);
    }
    true
}

fn plans(input: &[u8]) -> bool {
    let Some(Ok(table)) = text(input).map(Table::from_json) else { return false };
    assert!(Table::from_json(&table.to_json()).is_ok(), "a written table can't be parsed again");
    true
}

fn reference(input: &[u8]) -> bool {
    text(input).is_some_and(|text| references::parse(text).is_ok())
}

/// The shipped profile with only its first findings, because a whole one takes milliseconds.
fn profiles() -> Vec<Vec<u8>> {
    let text = fs::read(root().join("crates/plimsoll-suite/profiles/h200.json")).unwrap_or_default();
    let mut profile: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    if let Some(findings) = profile["findings"].as_array_mut() {
        findings.truncate(20);
    }
    vec![profile.to_string().into_bytes()]
}

fn known_references() -> Vec<Vec<u8>> {
    let text = fs::read_to_string(root().join("crates/plimsoll-suite/references.jsonl")).unwrap_or_default();
    vec![text.lines().take(30).map(|line| format!("{line}\n")).collect::<String>().into_bytes()]
}

fn profile(input: &[u8]) -> bool {
    let folder = root().join("target/fuzz");
    let path: &Path = &folder.join(format!("profile.{}.json", std::process::id()));
    if fs::create_dir_all(&folder).and_then(|()| fs::write(path, input)).is_err() {
        return false;
    }
    let read = Profile::load_any(path);
    let _ = fs::remove_file(path);
    let Ok(Some(profile)) = read else { return false };
    let _ = profile.to_json();
    true
}

/// Parses, prints and parses again; plans and generates for several layouts; runs on the CPU.
fn expression(input: &[u8]) -> bool {
    let Some(text) = text(input) else { return false };
    let _ = parse(text, &Names::with_default(DType::F32));
    let Ok(graph) = parse(text, &Names::default()) else { return false };
    let printed = graph.to_string();
    let again = parse(&printed, &Names::default());
    assert!(again.is_ok(), "a printed expression can't be parsed again: {printed}");
    let tensors = graph.inputs().len() + graph.outputs().len();
    for shape in [&[3, 5][..], &[64, 130]] {
        let layouts: Result<Vec<Layout>, _> = (0..tensors).map(|_| Layout::contiguous(shape)).collect();
        let Ok(layouts) = layouts else { return true };
        plan_and_generate(&graph, &layouts);
        if shape.len() < 3 && shape[0] == 3 {
            run_on_cpu(&graph, &layouts);
        }
    }
    true
}

fn plan_and_generate(graph: &Graph, layouts: &[Layout]) {
    let device = Device {
        target: plimsoll_gen::Target::plain(90),
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
        l2_bytes: 50 << 20,
    };
    let Ok(space) = Space::with_shape(layouts[0].shape(), layouts) else { return };
    for start in [0, 16, 8] {
        let Ok(indexing) = Indexing::new(graph, &space, &vec![start; layouts.len()]) else { continue };
        if let Ok(plan) = plan(graph, &indexing, &device, &Table::default(), &Choose::default()) {
            assert!(!generate(&plan.spec).text.is_empty());
        }
    }
}

fn run_on_cpu(graph: &Graph, layouts: &[Layout]) {
    let inputs = graph.inputs().len();
    let Ok(mut team) = Team::new(&affinity::allowed_cpus()[..1], Timer::best()) else { return };
    let Ok(mut prepared) = Program::new(graph).prepare(&layouts[..inputs], &layouts[inputs..], &How::for_threads(1))
    else {
        return;
    };
    let scalars: Vec<Value> = graph.scalars().iter().map(|scalar| scalar.dtype.decode(0x3f80_0001)).collect();
    // 15 elements of at most 8 bytes, at an address that suits all types.
    let mut memory: Vec<[u64; 16]> = (0..layouts.len()).map(|k| [0x3ff0_0000_4000_3c01 + k as u64; 16]).collect();
    let in_place: Vec<Option<u32>> = graph.outputs().iter().map(|output| output.in_place).collect();
    let sizes = graph
        .inputs()
        .iter()
        .map(|i| i.dtype)
        .chain(graph.outputs().iter().map(|o| o.dtype))
        .map(|dtype| 15 * dtype.bytes() as usize);
    let mut bytes: Vec<Vec<u8>> = memory
        .iter_mut()
        .zip(sizes)
        .map(|(words, size)| words.iter().flat_map(|w| w.to_le_bytes()).take(size).collect())
        .collect();
    let mut outputs = bytes.split_off(inputs);
    let separate = bytes
        .iter()
        .enumerate()
        .filter(|(k, _)| !in_place.contains(&u32::try_from(*k).ok()))
        .map(|(_, bytes)| bytes.as_slice());
    let read: Vec<&[u8]> = separate.collect();
    let mut written: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    let _ = prepared.run(&mut team, Set { inputs: &read, outputs: &mut written }, &scalars);
}
