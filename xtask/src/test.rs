//! All tests, in the order in which they fail fastest. A tool that is not installed is named and passed over where
//! another does its work (nextest), so that the command runs on a bare machine with Rust alone.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{differential, fmt, fuzz, hip, licences, sass, spirv};

struct Step {
    name: &'static str,
    run: fn() -> Result<()>,
}

const STEPS: &[Step] = &[
    Step { name: "fmt", run: || fmt::run(true) },
    // Says within seconds that a lock file is out of date.
    Step { name: "licences", run: licences::run },
    Step { name: "clippy", run: clippy },
    // Before the tests, because it brings (into target/) the compiler that some of them need.
    Step { name: "sass", run: || sass::run(sass::How::default()) },
    Step { name: "hip", run: hip::run },
    Step { name: "spirv", run: spirv::run },
    Step { name: "unit", run: unit },
    Step { name: "differential", run: differential::step },
    Step { name: "fuzz", run: fuzz::step },
    Step { name: "doctest", run: || cargo(&["test", "--workspace", "--doc"]) },
    Step { name: "rustdoc", run: rustdoc },
    Step { name: "interop", run: interop },
];

/// Feature sets of the library that are checked besides the default: expressions alone on either device, probes of one backend.
const FEATURES: [&str; 4] = ["cpu", "cuda", "sim,probes", "vulkan,probes"];

/// The workspace, and then what it builds with fewer features elsewhere: the meanings of probes without their runners, and the
/// library without some of its parts.
fn clippy() -> Result<()> {
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    cargo(&["clippy", "-p", "plimsoll-report", "-p", "plimsoll-sim", "--", "-D", "warnings"])?;
    FEATURES.iter().try_for_each(|features| {
        let library = ["clippy", "-p", "plimsoll", "--no-default-features", "--features", features];
        cargo(&[&library[..], &["--all-targets", "--", "-D", "warnings"]].concat())
    })
}

/// What other libraries use: the feature `cudarc`, and a custom operation of candle, whose own kernels an empty stand-in for nvcc
/// makes. Nothing is linked or run.
fn interop() -> Result<()> {
    cargo(&["clippy", "-p", "plimsoll", "--features", "cudarc", "--all-targets", "--", "-D", "warnings"])?;
    let folder = root().join("examples/candle");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.clone()).chain(std::env::split_paths(&path));
    let mut check = command(&["check", "--locked"]);
    check.current_dir(&folder).env("PATH", std::env::join_paths(folders)?).env("NVCC", folder.join("nvcc"));
    check.env("CUDA_COMPUTE_CAP", "90").env("CARGO_TARGET_DIR", root().join("target/candle"));
    finish(check)
}

/// What could not be checked on this machine, told again at the end.
static SKIPPED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Says that something was not checked, and why: at once and after all steps, so that it can't pass for a success.
pub fn skipped(what: String) {
    eprintln!("SKIPPED: {what}");
    SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).push(what);
}

/// Runs the steps of these names, or all.
///
/// # Errors
/// The first step that failed, or an unknown name.
pub fn run(names: &[String]) -> Result<()> {
    for name in names {
        if !STEPS.iter().any(|step| step.name == name) {
            let known: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
            bail!("unknown step '{name}': there are {}", known.join(", "));
        }
    }
    for step in STEPS.iter().filter(|step| names.is_empty() || names.iter().any(|name| name == step.name)) {
        eprintln!("== {}", step.name);
        let started = Instant::now();
        (step.run)().with_context(|| format!("step '{}' failed", step.name))?;
        eprintln!("== {} ended well in {:.0} s", step.name, started.elapsed().as_secs_f64());
    }
    for what in SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        eprintln!("SKIPPED: {what}");
    }
    Ok(())
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

pub fn finish(mut command: Command) -> Result<()> {
    let status = command.status().with_context(|| format!("can't start {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

pub fn cargo(arguments: &[&str]) -> Result<()> {
    finish(command(arguments))
}

fn installed(subcommand: &str) -> bool {
    let mut probe = command(&[subcommand, "--version"]);
    probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Unit, integration and command-line tests.
fn unit() -> Result<()> {
    if installed("nextest") {
        return cargo(&["nextest", "run", "--workspace", "--no-fail-fast"]);
    }
    eprintln!("cargo-nextest is not installed: using cargo test");
    cargo(&["test", "--workspace", "--all-targets", "--no-fail-fast"])
}

fn rustdoc() -> Result<()> {
    let mut doc = command(&["doc", "--workspace", "--no-deps", "--document-private-items"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    finish(doc)
}
