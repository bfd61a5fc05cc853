//! Wrong kernels, each of which a probe must find: GLSL with a fault put into it, compiled when the test runs. Without a compiler or a
//! device nothing is tested, and the test says so.

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

/// A fault in a source.
#[derive(Clone, Copy, Debug)]
struct Mutant {
    /// What is wrong with it.
    name: &'static str,
    /// The GLSL file, in its source's folder.
    source: &'static str,
    /// What stands there, and what stands there instead.
    changes: &'static [(&'static str, &'static str)],
}

thread_local! {
    static PLANTED: RefCell<Option<Planted>> = const { RefCell::new(None) };
}

/// The mutant that kernels of its source are made of.
struct Planted {
    mutant: Mutant,
    /// Those of its kernels that are made ready at all.
    wanted: fn(&KernelDesc) -> bool,
    compiled: BTreeMap<&'static str, &'static [u8]>,
    /// Kernels that were made of it.
    kernels: BTreeSet<String>,
}

/// The code that stands for a kernel's.
pub(crate) fn instead(kernel: &KernelDesc, found: Spirv) -> Result<Spirv, &'static str> {
    PLANTED.with_borrow_mut(|planted| {
        let Some(planted) = planted else { return Ok(found) };
        let Some(build) = builds().find(|build| build.words == found.words) else { return Ok(found) };
        if build.source != planted.mutant.source {
            return Ok(found);
        }
        if !(planted.wanted)(kernel) {
            return Err("one of its kind is enough");
        }
        let mutant = planted.mutant;
        let words = planted.compiled.entry(build.file).or_insert_with(|| mutant.compile(build).leak());
        planted.kernels.insert(kernel.name.clone());
        Ok(Spirv { words, ..found })
    })
}

/// Every module of every source.
fn builds() -> impl Iterator<Item = &'static Build> {
    plimsoll_probes::sources().iter().flat_map(|source| source.builds())
}

impl Mutant {
    fn compile(self, build: &Build) -> Vec<u8> {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
        let headers = root.join("crates/plimsoll-gen/kernels/vulkan");
        let mut text = std::fs::read_to_string(root.join(build.folder).join(build.source)).unwrap();
        for (old, new) in self.changes {
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

/// The first device that can be opened; nothing, with the reason, where there is none or no compiler.
fn ready() -> Option<Bench<Vulkan>> {
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

/// Kernels that a mutant got into, and those of which a case was found wrong.
fn verified(bench: &mut Bench<Vulkan>, probe: &dyn Probe<Vulkan>) -> BTreeSet<String> {
    let mut wrong = BTreeSet::new();
    let report = &mut |case: plimsoll_core::probe::Case| {
        if !case.wrong.is_empty() {
            wrong.insert(case.kernel);
        }
    };
    probe.verify(bench.device(), Depth::Small, report).unwrap();
    wrong
}

/// Every mutant is found in every kernel that it gets into, but in those of which is said that it changes nothing there.
fn all_are_found(
    probe: &dyn Probe<Vulkan>,
    mutants: &[Mutant],
    wanted: fn(&KernelDesc) -> bool,
    harmless: fn(&Mutant, &str) -> bool,
) {
    let Some(mut bench) = ready() else { return };
    for mutant in mutants {
        let planted = Planted { mutant: *mutant, wanted, compiled: BTreeMap::new(), kernels: BTreeSet::new() };
        PLANTED.set(Some(planted));
        let wrong = verified(&mut bench, probe);
        let planted = PLANTED.take().unwrap();
        assert!(!planted.kernels.is_empty(), "{} got into no kernel", mutant.name);
        let missed: Vec<&String> =
            planted.kernels.iter().filter(|kernel| !wrong.contains(*kernel) && !harmless(mutant, kernel)).collect();
        assert!(missed.is_empty(), "{} '{}' isn't found in {missed:?}", mutant.source, mutant.name);
    }
    // And what is right is.
    let planted = Mutant { name: "none", changes: &[], ..mutants[0] };
    PLANTED.set(Some(Planted { mutant: planted, wanted, compiled: BTreeMap::new(), kernels: BTreeSet::new() }));
    assert_eq!(verified(&mut bench, probe), BTreeSet::new());
}

const MAIN: &str = "void main() {\n";
const NOTHING: (&str, &str) = (MAIN, "void main() {\n    if (blocks > 0) return;\n");

#[test]
fn wrong_copies_are_found() {
    const PARAMETERS: &str = "PARAMETERS(u64 out_; u64 in_; INDEX n;)";
    const SOURCE: &str = "copy.comp";
    let mutants = [
        Mutant { name: "does nothing", source: SOURCE, changes: &[NOTHING] },
        Mutant {
            name: "leaves out the last element",
            source: SOURCE,
            changes: &[(PARAMETERS, "PARAMETERS(u64 out_; u64 in_; INDEX all;)\n#define n (all - (all > 0 ? 1 : 0))")],
        },
        Mutant {
            name: "writes an element too many",
            source: SOURCE,
            changes: &[(PARAMETERS, "PARAMETERS(u64 out_; u64 in_; INDEX all;)\n#define n (all + 1)")],
        },
        Mutant {
            name: "changes a bit of one element",
            source: SOURCE,
            changes: &[
                ("= Word(in_ + 4 * u64(first)).x;", "= Word(in_ + 4 * u64(first)).x ^ (first == 7 ? 1u : 0u);"),
                ("= Word(in_ + last).x;", "= Word(in_ + last).x ^ (first == 0 ? 1u : 0u);"),
                (
                    "Word(out_ + place).x = Word(in_ + place).x;",
                    "Word(out_ + place).x = Word(in_ + place).x ^ (i == 7 ? 1u : 0u);",
                ),
            ],
        },
        Mutant {
            name: "goes around once",
            source: SOURCE,
            changes: &[("i < vectors; i +=", "i < vectors && i == first; i +=")],
        },
        Mutant {
            name: "has the wrong half of a long vector",
            source: SOURCE,
            changes: &[("Word4(out_ + place + 16).x = high;", "Word4(out_ + place + 16).x = low;")],
        },
    ];
    let only = |mutant: &Mutant, kernel: &str| match mutant.name {
        "goes around once" => kernel.starts_with("copy_naive"),
        "has the wrong half of a long vector" => !kernel.starts_with("copy_vector8"),
        _ => false,
    };
    all_are_found(probe("copy"), &mutants, |_| true, only);
}

#[test]
fn wrong_streams_are_found() {
    const PARAMETERS: &str = "PARAMETERS(u64 out_; u64 a; u64 b; u64 c; float s; u64 n;)";
    const SOURCE: &str = "stream.comp";
    let mutants = [
        Mutant { name: "does nothing", source: SOURCE, changes: &[NOTHING] },
        Mutant {
            name: "leaves out the last element",
            source: SOURCE,
            changes: &[(
                PARAMETERS,
                "PARAMETERS(u64 out_; u64 a; u64 b; u64 c; float s; u64 all;)\n#define n (all - (all > 0 ? 1 : 0))",
            )],
        },
        Mutant {
            name: "takes an element too many",
            source: SOURCE,
            changes: &[(
                PARAMETERS,
                "PARAMETERS(u64 out_; u64 a; u64 b; u64 c; float s; u64 all;)\n#define n (all + 1)",
            )],
        },
        Mutant {
            name: "has one wrong element in the tail",
            source: SOURCE,
            changes: &[
                (
                    "if (OP == READ) bits ^= floatBitsToUint(x);",
                    "if (OP == READ) bits ^= floatBitsToUint(x) ^ (e == 0 ? 1u : 0u);",
                ),
                ("total = fma(x, y, total);", "total = fma(x, y, total) + (e == 0 ? 1.0 : 0.0);"),
                ("= one(e, x, y, z);", "= one(e, x, y, z) + (e == 0 ? 0.25 : 0.0);"),
            ],
        },
        Mutant {
            name: "leaves out the last vector of a tile",
            source: SOURCE,
            changes: &[(
                "        if (FOLDS) take(x[u], y[u]);",
                "        if (u + 1 == UNROLL) continue;\n        if (FOLDS) take(x[u], y[u]);",
            )],
        },
        Mutant {
            name: "leaves only the first fold of a block",
            source: SOURCE,
            changes: &[("if (THREAD % TOGETHER == 0) Word(out_", "if (THREAD == 0) Word(out_")],
        },
        Mutant {
            name: "writes a fold too many",
            source: SOURCE,
            changes: &[(
                ".x = folded[THREAD];",
                ".x = folded[THREAD];\n    if (BLOCK + 1 == blocks && THREAD == 0) Word(out_ + 4 * (u64(blocks) * THREADS / TOGETHER)).x = 0;",
            )],
        },
    ];
    let harmless = |mutant: &Mutant, kernel: &str| {
        let folds = kernel.starts_with("stream_read_") || kernel.starts_with("stream_dot_");
        mutant.name.contains("fold") && !folds
    };
    let wanted =
        |kernel: &KernelDesc| kernel.vector_bytes == 16 && kernel.unroll == 4 && matches!(kernel.threads, 128 | 256);
    all_are_found(probe("stream"), &mutants, wanted, harmless);
}

#[test]
fn wrong_scalings_are_found() {
    const PARAMETERS: &str = "PARAMETERS(u64 out_; u64 in_; float s; u64 n;)";
    const SOURCE: &str = "launch_scale.comp";
    let mutants = [
        Mutant { name: "does nothing", source: SOURCE, changes: &[NOTHING] },
        Mutant {
            name: "leaves out the last element",
            source: SOURCE,
            changes: &[(
                PARAMETERS,
                "PARAMETERS(u64 out_; u64 in_; float s; u64 all;)\n#define n (all - (all > 0 ? 1 : 0))",
            )],
        },
        Mutant {
            name: "writes an element too many",
            source: SOURCE,
            changes: &[(PARAMETERS, "PARAMETERS(u64 out_; u64 in_; float s; u64 all;)\n#define n (all + 1)")],
        },
        Mutant { name: "copies", source: SOURCE, changes: &[("= s * Float4(in_", "= Float4(in_")] },
        Mutant {
            name: "has one wrong element",
            source: SOURCE,
            changes: &[(
                "= s * Float4(in_ + 4 * e).x;",
                "= s * Float4(in_ + 4 * e).x + vec4(0.0, 0.0, 0.0, e == 4 ? 0.5 : 0.0);",
            )],
        },
    ];
    all_are_found(probe("launch"), &mutants, |_| true, |_, _| false);
}

const CHASE: &str = "latency_chase.comp";
const CHASES: [Mutant; 4] = [
    Mutant { name: "does nothing", source: CHASE, changes: &[("h < count; h += HOPS", "h > count; h += HOPS")] },
    Mutant { name: "hops only before it is timed", source: CHASE, changes: &[("p = chase(p, hops);", "")] },
    Mutant {
        name: "makes a hop less each time around",
        source: CHASE,
        changes: &[("u < HOPS; ++u", "u < HOPS - 1; ++u")],
    },
    Mutant { name: "makes one round less", source: CHASE, changes: &[("h < count; h +=", "h + HOPS < count; h +=")] },
];

#[test]
fn wrong_chains_and_chases_are_found() {
    const BUILD: &str = "latency_build.comp";
    let builds = [
        Mutant { name: "does nothing", source: BUILD, changes: &[NOTHING] },
        Mutant {
            name: "leaves out the last element",
            source: BUILD,
            changes: &[("EACH(i, n) Long", "EACH(i, n - 1) Long")],
        },
        Mutant {
            name: "closes the chain too early",
            source: BUILD,
            changes: &[("= base + place(i + 1);", "= base + place(i + 2 == n ? 0 : i + 1);")],
        },
        Mutant {
            name: "leaves out every second",
            source: BUILD,
            changes: &[("= base + place(i + 1);", "= base + place(i + 2);")],
        },
    ];
    let probe = probe("latency");
    all_are_found(probe, &builds, |_| true, |_, _| false);
    all_are_found(probe, &CHASES, |_| true, |_, _| false);
}

/// Takes the first point and ends the run.
#[derive(Default)]
struct First {
    failed: Option<bool>,
}

impl Sink for First {
    fn write(&mut self, record: &Record) -> Result<(), Fault> {
        if let Record::Point(point) = record {
            self.failed = Some(point.flags.contains(Flag::VerifyFail));
            return Err(Fault::Sink(std::io::Error::other("enough")));
        }
        Ok(())
    }
}

/// Whether the first point of latency, in a footprint of so many bytes, is found wrong while it is measured.
fn measured(bench: &mut Bench<Vulkan>) -> bool {
    let request = Request { effort: Effort::Quick, bytes: Some(4096), seed: 1, ..Request::default() };
    let (mut sink, stop) = (First::default(), AtomicBool::new(false));
    let mut run = RunContext { request: &request, device: 0, sink: &mut sink, stop: &stop, next_series: 0 };
    let _ = bench.measure("latency", &mut run);
    sink.failed.expect("a point")
}

#[test]
fn wrong_chases_are_found_while_they_are_measured() {
    let Some(mut bench) = ready() else { return };
    assert!(!measured(&mut bench), "what is right is found wrong");
    for mutant in CHASES {
        let planted = Planted { mutant, wanted: |_| true, compiled: BTreeMap::new(), kernels: BTreeSet::new() };
        PLANTED.set(Some(planted));
        let found = measured(&mut bench);
        assert!(!PLANTED.take().unwrap().kernels.is_empty());
        assert!(found, "a chase that {} isn't found while it is measured", mutant.name);
    }
}
