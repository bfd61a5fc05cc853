//! All tests, the fastest to fail first. The command runs on a machine with only Rust: a missing tool is reported, and either
//! replaced (nextest) or its step skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{differential, fmt, fuzz, hip, licences, package, sass, spirv, wheel};

struct Step {
    name: &'static str,
    run: fn() -> Result<()>,
}

const STEPS: &[Step] = &[
    Step { name: "fmt", run: || fmt::run(true) },
    // Finds an outdated lock file within seconds.
    Step { name: "licences", run: licences::run },
    Step { name: "package", run: package::run },
    Step { name: "clippy", run: clippy },
    // Before the tests, because it installs (into target/) the compiler that some of them need.
    Step { name: "sass", run: || sass::run(sass::How::default()) },
    Step { name: "hip", run: hip::run },
    Step { name: "spirv", run: spirv::run },
    Step { name: "unit", run: unit },
    Step { name: "differential", run: differential::step },
    Step { name: "python", run: wheel::step },
    Step { name: "fuzz", run: fuzz::step },
    Step { name: "doctest", run: || cargo(&["test", "--workspace", "--doc"]) },
    Step { name: "rustdoc", run: rustdoc },
    Step { name: "interop", run: interop },
];

/// Feature sets of the library that are checked besides the default: only expressions on either device, or probes of one backend.
const FEATURES: [&str; 4] = ["cpu", "cuda", "sim,probes", "vulkan,probes"];

/// The workspace, then crates with fewer features: the meanings of probes without their runners, and the library without some of
/// its parts.
fn clippy() -> Result<()> {
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    cargo(&["clippy", "-p", "plimsoll-report", "-p", "plimsoll-sim", "--", "-D", "warnings"])?;
    FEATURES.iter().try_for_each(|features| {
        let library = ["clippy", "-p", "plimsoll", "--no-default-features", "--features", features];
        cargo(&[&library[..], &["--lib", "--examples", "--", "-D", "warnings"]].concat())
    })
}

/// Interfaces to other libraries: the feature `cudarc`, and a custom operation of candle, whose kernels are "compiled" by a fake
/// nvcc. Nothing is linked or run.
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

/// Checks that were skipped on this machine, reported again at the end.
static SKIPPED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Reports a skipped check and its reason, at once and again after all steps, so that it can't be mistaken for a success.
pub fn skipped(what: String) {
    eprintln!("SKIPPED: {what}");
    SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).push(what);
}

/// Runs the named steps, or all. Stops at the first that fails.
pub fn run(names: &[String]) -> Result<()> {
    for name in names {
        if !STEPS.iter().any(|step| step.name == name) {
            let known: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
            bail!("unknown step '{name}'; known: {}", known.join(", "));
        }
    }
    for step in STEPS.iter().filter(|step| names.is_empty() || names.iter().any(|name| name == step.name)) {
        eprintln!("== {}", step.name);
        let started = Instant::now();
        (step.run)().with_context(|| format!("step '{}' failed", step.name))?;
        eprintln!("== {} succeeded in {:.0} s", step.name, started.elapsed().as_secs_f64());
    }
    for what in SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        eprintln!("SKIPPED: {what}");
    }
    Ok(())
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The folder of cargo's builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
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

/// Builds every program and library with the features of the unit tests, so that nothing is compiled anew after them. One package
/// alone would have fewer features, and all that it depends on would be compiled again.
pub fn build_all() -> Result<()> {
    cargo(&["build", "--workspace", "--all-targets"])
}

fn is_installed(subcommand: &str) -> bool {
    let mut probe = command(&[subcommand, "--version"]);
    probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Unit, integration and command-line tests.
fn unit() -> Result<()> {
    if is_installed("nextest") {
        // One more than cores: some tests only wait until a device is given up.
        let threads = std::thread::available_parallelism().map_or(1, usize::from) + 1;
        return cargo(&["nextest", "run", "--workspace", "--no-fail-fast", "--test-threads", &threads.to_string()]);
    }
    eprintln!("cargo-nextest is not installed: using cargo test");
    cargo(&["test", "--workspace", "--all-targets", "--no-fail-fast"])
}

fn rustdoc() -> Result<()> {
    let mut doc = command(&["doc", "--workspace", "--no-deps", "--document-private-items"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    finish(doc)
}
