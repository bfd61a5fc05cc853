//! The differential test of elementwise expressions: `tests/differential` makes expressions with layouts and data, and holds what
//! the example `evaluate` answers to an oracle in Python that shares no code with the engine.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::python;
use crate::test::{cargo, finish, root};

/// What the oracle computes with: NumPy's extended precision and integers, mpmath's error function, and the 8- and 16-bit floats.
const PACKAGES: [&str; 3] = ["numpy==2.4.*", "mpmath==1.4.*", "ml-dtypes==0.6.*"];

/// The folder below `target/` of its Python environment.
const ENVIRONMENT: &str = "differential-tools";

/// The test command's share: tests of the oracle, then fixed cases on the CPU, always anew.
///
/// # Errors
/// A wrong result; in continuous integration that Python or its packages can't be had.
pub fn step() -> Result<()> {
    let unchecked = "the differential test of elementwise expressions";
    let Some(home) = python::environment_or_skip(ENVIRONMENT, &PACKAGES, unchecked)? else { return Ok(()) };
    let mut tests = python(&home);
    tests.args(["-m", "unittest", "discover", "--start-directory", "tests/differential"]);
    finish(tests)?;
    run(&home, &["--cases", "2000", "--anew"].map(str::to_owned))
}

/// `cargo xtask differential`: the arguments are those of `tests/differential/run.py`.
///
/// # Errors
/// That Python or its packages can't be had; a wrong result; a program that can't be built or started.
pub fn command(arguments: &[String]) -> Result<()> {
    run(&python::environment(ENVIRONMENT, &PACKAGES)?, arguments)
}

fn python(home: &Path) -> Command {
    let mut python = Command::new(home.join("bin/python3"));
    python.current_dir(root());
    python
}

fn run(home: &Path, arguments: &[String]) -> Result<()> {
    cargo(&["build", "--package", "plimsoll", "--example", "evaluate"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let mut test = python(home);
    test.arg("tests/differential/run.py").arg("--subject").arg(target.join("debug/examples/evaluate")).args(arguments);
    finish(test)
}
