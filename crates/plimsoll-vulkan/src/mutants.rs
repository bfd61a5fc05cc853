//! Wrong kernels that the probes must find: GLSL sources with a planted fault, compiled when the test runs. Without a compiler or
//! a device nothing is tested, and the test says so.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use plimsoll_core::Fault;
use plimsoll_core::flag::Flag;
use plimsoll_core::probe::{Bench, Depth, Instrument as _, Probe, Request, RunContext};
use plimsoll_core::record::{Record, Sink};
use plimsoll_core::sample::Effort;
use plimsoll_gen::kernel::KernelDesc;
use plimsoll_gen::kernel::spirv::{Build, Spirv};

use crate::{Options, Vulkan, devices, open};

const COMPILER: &str = "glslangValidator";

/// A fault planted in a source.
#[derive(Clone, Debug)]
struct Mutant {
    /// Describes the fault.
    name: &'static str,
    /// The GLSL file, in its source's folder.
    source: &'static str,
    /// Old text and its replacement.
    changes: Vec<(&'static str, String)>,
}

thread_local! {
    static PLANTED: RefCell<Option<Planted>> = const { RefCell::new(None) };
}

/// The mutant from which kernels of its source are currently made.
struct Planted {
    mutant: Mutant,
    /// Selects the kernels to test.
    wanted: fn(&KernelDesc) -> bool,
    compiled: BTreeMap<&'static str, &'static [u8]>,
    /// Kernels that were made from the mutant.
    kernels: BTreeSet<String>,
}

fn plant(mutant: Mutant, wanted: fn(&KernelDesc) -> bool) {
    PLANTED.set(Some(Planted { mutant, wanted, compiled: BTreeMap::new(), kernels: BTreeSet::new() }));
}

/// Replaces a kernel's code with that of the planted mutant, if the mutant is of the same source.
pub(crate) fn replace_code(kernel: &KernelDesc, found: Spirv) -> Result<Spirv, &'static str> {
    PLANTED.with_borrow_mut(|planted| {
        let Some(planted) = planted else { return Ok(found) };
        let Some(build) = all_builds().find(|build| build.words == found.words) else { return Ok(found) };
        if build.source != planted.mutant.source {
            return Ok(found);
        }
        if !(planted.wanted)(kernel) {
            return Err("not selected for this test");
        }
        let mutant = &planted.mutant;
        let words = planted.compiled.entry(build.file).or_insert_with(|| mutant.compile(build).leak());
        planted.kernels.insert(kernel.name.clone());
        Ok(Spirv { words, ..found })
    })
}

/// All modules of all sources.
fn all_builds() -> impl Iterator<Item = &'static Build> {
    plimsoll_probes::sources().iter().flat_map(|source| source.builds())
}

impl Mutant {
    fn new(name: &'static str, source: &'static str, changes: &[(&'static str, &str)]) -> Self {
        let changes = changes.iter().map(|(old, new)| (*old, (*new).to_owned())).collect();
        Self { name, source, changes }
    }

    fn compile(&self, build: &Build) -> Vec<u8> {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
        let headers = root.join("crates/plimsoll-gen/kernels/vulkan");
        let mut text = std::fs::read_to_string(root.join(build.folder).join(build.source)).unwrap();
        for (old, new) in &self.changes {
            assert_eq!(text.matches(old).count(), 1, "{}: {} has {old}", self.name, build.source);
            text = text.replace(old, new);
        }
        let place = tempfile::tempdir().unwrap();
        let (source, out) = (place.path().join(build.source), place.path().join("out.spv"));
        std::fs::write(&source, text).unwrap();
        let mut command = Command::new(COMPILER);
        command.args(["-V", "--target-env", "vulkan1.2", "-g0"]).arg(format!("-I{}", headers.display()));
        command.args(build.defines.iter().map(|define| format!("-D{define}"))).arg("-o").arg(&out).arg(source);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}: {}", self.name, String::from_utf8_lossy(&output.stdout));
        std::fs::read(out).unwrap()
    }
}

/// Opens the first usable device. Prints the reason and returns `None` if there is no device or no compiler.
fn open_device() -> Option<Bench<Vulkan>> {
    if Command::new(COMPILER).arg("--version").output().is_err() {
        eprintln!("skipped: there is no {COMPILER} (Debian's package glslang-tools has one)");
        return None;
    }
    let found = devices(&Options::default()).unwrap_or_default();
    let Some(adapter) = found.iter().find(|adapter| adapter.usable.is_ok()) else {
        eprintln!("skipped: there is no Vulkan device that can be opened");
        return None;
    };
    Some(open(adapter.index, &Options::default(), plimsoll_probes::gpu_probes().leak()).unwrap())
}

fn probe(name: &str) -> &'static dyn Probe<Vulkan> {
    plimsoll_probes::gpu_probes().into_iter().find(|probe| probe.spec().name == name).unwrap()
}

/// Verifies a probe and returns the kernels with a wrong case.
fn find_wrong_kernels(bench: &mut Bench<Vulkan>, probe: &dyn Probe<Vulkan>) -> BTreeSet<String> {
    let mut wrong = BTreeSet::new();
    let report = &mut |case: plimsoll_core::probe::Case| {
        if !case.wrong.is_empty() {
            wrong.insert(case.kernel);
        }
    };
    probe.verify(bench.device(), Depth::Small, report).unwrap();
    wrong
}

/// Asserts that every mutant is found in every kernel made from it, except in kernels that the fault doesn't affect (`harmless`).
fn assert_all_found(
    probe: &dyn Probe<Vulkan>,
    mutants: &[Mutant],
    wanted: fn(&KernelDesc) -> bool,
    harmless: fn(&Mutant, &str) -> bool,
) {
    let Some(mut bench) = open_device() else { return };
    for mutant in mutants {
        plant(mutant.clone(), wanted);
        let wrong = find_wrong_kernels(&mut bench, probe);
        let planted = PLANTED.take().unwrap();
        assert!(!planted.kernels.is_empty(), "no kernel was made from mutant {}", mutant.name);
        let missed: Vec<&String> =
            planted.kernels.iter().filter(|kernel| !wrong.contains(*kernel) && !harmless(mutant, kernel)).collect();
        assert!(missed.is_empty(), "{} '{}' isn't found in {missed:?}", mutant.source, mutant.name);
    }
    // Without a fault, nothing is found.
    plant(Mutant::new("none", mutants[0].source, &[]), wanted);
    assert_eq!(find_wrong_kernels(&mut bench, probe), BTreeSet::new());
}

const MAIN: &str = "void main() {\n";
const NOTHING: (&str, &str) = (MAIN, "void main() {\n    if (blocks > 0) return;\n");

/// The faults that a kernel over `n` elements may have in their number. `parameters` declares `n` last.
fn wrong_lengths(source: &'static str, parameters: &'static str) -> Vec<Mutant> {
    let renamed = parameters.replace(" n;)", " all;)");
    let shorter = format!("{renamed}\n#define n (all - (all > 0 ? 1 : 0))");
    let longer = format!("{renamed}\n#define n (all + 1)");
    vec![
        Mutant::new("does nothing", source, &[NOTHING]),
        Mutant::new("leaves out the last element", source, &[(parameters, &shorter)]),
        Mutant::new("takes an element too many", source, &[(parameters, &longer)]),
    ]
}

#[test]
fn wrong_copies_are_found() {
    const PARAMETERS: &str = "PARAMETERS(u64 out_; u64 in_; INDEX n;)";
    const SOURCE: &str = "copy.comp";
    let mut mutants = wrong_lengths(SOURCE, PARAMETERS);
    mutants.extend([
        Mutant::new(
            "changes a bit of one element",
            SOURCE,
            &[
                ("= Word(in_ + 4 * u64(first)).x;", "= Word(in_ + 4 * u64(first)).x ^ (first == 7 ? 1u : 0u);"),
                ("= Word(in_ + last).x;", "= Word(in_ + last).x ^ (first == 0 ? 1u : 0u);"),
                (
                    "Word(out_ + place).x = Word(in_ + place).x;",
                    "Word(out_ + place).x = Word(in_ + place).x ^ (i == 7 ? 1u : 0u);",
                ),
            ],
        ),
        Mutant::new("loops only once", SOURCE, &[("i < vectors; i +=", "i < vectors && i == first; i +=")]),
        Mutant::new(
            "has the wrong half of a long vector",
            SOURCE,
            &[("Word4(out_ + place + 16).x = high;", "Word4(out_ + place + 16).x = low;")],
        ),
    ]);
    let harmless = |mutant: &Mutant, kernel: &str| match mutant.name {
        "loops only once" => kernel.starts_with("copy_naive"),
        "has the wrong half of a long vector" => !kernel.starts_with("copy_vector8"),
        _ => false,
    };
    assert_all_found(probe("copy"), &mutants, |_| true, harmless);
}

#[test]
fn wrong_streams_are_found() {
    const PARAMETERS: &str = "PARAMETERS(u64 out_; u64 a; u64 b; u64 c; float s; u64 n;)";
    const SOURCE: &str = "stream.comp";
    let mut mutants = wrong_lengths(SOURCE, PARAMETERS);
    mutants.extend([
        Mutant::new("has one wrong element in the tail", SOURCE, &[
                (
                    "if (OP == READ) bits ^= floatBitsToUint(x);",
                    "if (OP == READ) bits ^= floatBitsToUint(x) ^ (e == 0 ? 1u : 0u);",
                ),
                ("total = fma(x, y, total);", "total = fma(x, y, total) + (e == 0 ? 1.0 : 0.0);"),
                ("= one(e, x, y, z);", "= one(e, x, y, z) + (e == 0 ? 0.25 : 0.0);"),
            ]),
        Mutant::new("leaves out the last vector of a tile", SOURCE, &[(
                "        if (FOLDS) take(x[u], y[u]);",
                "        if (u + 1 == UNROLL) continue;\n        if (FOLDS) take(x[u], y[u]);",
            )]),
        Mutant::new("leaves only the first fold of a block", SOURCE, &[("if (THREAD % TOGETHER == 0) Word(out_", "if (THREAD == 0) Word(out_")]),
        Mutant::new("writes a fold too many", SOURCE, &[(
                ".x = folded[THREAD];",
                ".x = folded[THREAD];\n    if (BLOCK + 1 == blocks && THREAD == 0) Word(out_ + 4 * (u64(blocks) * THREADS / TOGETHER)).x = 0;",
            )]),
    ]);
    let harmless = |mutant: &Mutant, kernel: &str| {
        let folds = kernel.starts_with("stream_read_") || kernel.starts_with("stream_dot_");
        mutant.name.contains("fold") && !folds
    };
    let wanted =
        |kernel: &KernelDesc| kernel.vector_bytes == 16 && kernel.unroll == 4 && matches!(kernel.threads, 128 | 256);
    assert_all_found(probe("stream"), &mutants, wanted, harmless);
}

#[test]
fn wrong_scalings_are_found() {
    const PARAMETERS: &str = "PARAMETERS(u64 out_; u64 in_; float s; u64 n;)";
    const SOURCE: &str = "launch_scale.comp";
    let mut mutants = wrong_lengths(SOURCE, PARAMETERS);
    mutants.extend([
        Mutant::new("copies", SOURCE, &[("= s * Float4(in_", "= Float4(in_")]),
        Mutant::new(
            "has one wrong element",
            SOURCE,
            &[(
                "= s * Float4(in_ + 4 * e).x;",
                "= s * Float4(in_ + 4 * e).x + vec4(0.0, 0.0, 0.0, e == 4 ? 0.5 : 0.0);",
            )],
        ),
    ]);
    assert_all_found(probe("launch"), &mutants, |_| true, |_, _| false);
}

fn wrong_chases() -> [Mutant; 4] {
    const CHASE: &str = "latency_chase.comp";
    [
        Mutant::new("does nothing", CHASE, &[("h < count; h += HOPS", "h > count; h += HOPS")]),
        Mutant::new("hops only before it is timed", CHASE, &[("p = chase(p, hops);", "")]),
        Mutant::new("makes one hop less in each iteration", CHASE, &[("u < HOPS; ++u", "u < HOPS - 1; ++u")]),
        Mutant::new("makes one iteration less", CHASE, &[("h < count; h +=", "h + HOPS < count; h +=")]),
    ]
}

#[test]
fn wrong_chains_and_chases_are_found() {
    const BUILD: &str = "latency_build.comp";
    let builds = [
        Mutant::new("does nothing", BUILD, &[NOTHING]),
        Mutant::new("leaves out the last element", BUILD, &[("EACH(i, n) Long", "EACH(i, n - 1) Long")]),
        Mutant::new(
            "closes the chain too early",
            BUILD,
            &[("= base + place(i + 1);", "= base + place(i + 2 == n ? 0 : i + 1);")],
        ),
        Mutant::new("leaves out every second", BUILD, &[("= base + place(i + 1);", "= base + place(i + 2);")]),
    ];
    let probe = probe("latency");
    assert_all_found(probe, &builds, |_| true, |_, _| false);
    assert_all_found(probe, &wrong_chases(), |_| true, |_, _| false);
}

/// A sink that takes the first point and ends the run.
#[derive(Default)]
struct FirstPoint {
    failed: Option<bool>,
}

impl Sink for FirstPoint {
    fn write(&mut self, record: &Record) -> Result<(), Fault> {
        if let Record::Point(point) = record {
            self.failed = Some(point.flags.contains(Flag::VerifyFail));
            return Err(Fault::Sink(std::io::Error::other("enough")));
        }
        Ok(())
    }
}

/// Whether the first point of the latency probe, with a footprint of 4096 bytes, fails its check while it is measured.
fn measurement_fails(bench: &mut Bench<Vulkan>) -> bool {
    let request = Request { effort: Effort::Quick, bytes: Some(4096), seed: 1, ..Request::default() };
    let (mut sink, stop) = (FirstPoint::default(), AtomicBool::new(false));
    let mut run = RunContext { request: &request, device: 0, sink: &mut sink, stop: &stop, next_series: 0 };
    let _ = bench.measure("latency", &mut run);
    sink.failed.expect("a point")
}

#[test]
fn wrong_chases_are_found_while_they_are_measured() {
    let Some(mut bench) = open_device() else { return };
    assert!(!measurement_fails(&mut bench), "a correct kernel fails its check");
    for mutant in wrong_chases() {
        let name = mutant.name;
        plant(mutant, |_| true);
        let found = measurement_fails(&mut bench);
        assert!(!PLANTED.take().unwrap().kernels.is_empty());
        assert!(found, "a chase that {name} isn't found while it is measured");
    }
}
