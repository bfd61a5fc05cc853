//! The differential test of elementwise expressions: `tests/differential` generates expressions with layouts and data, and compares
//! the results of the example `09_evaluate` with an oracle in Python that shares no code with the engine.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::python;
use crate::test::{build_all, cargo, finish, root};

/// Packages of the oracle: NumPy for extended precision and integers, mpmath for the error function, ml-dtypes for 8- and 16-bit
/// floats.
const PACKAGES: [&str; 3] = ["numpy==2.4.*", "mpmath==1.4.*", "ml-dtypes==0.6.*"];

/// The folder below `target/` with the oracle's Python environment.
const ENVIRONMENT: &str = "differential-tools";

/// The step of the test command: tests the oracle and the cases of `scripts/peers/random_cases.py`, then runs a fixed set of cases
/// from the start, on the CPU and as the interpreted programs of GPU kernels. Fails on a wrong result, and in continuous
/// integration also if Python or its packages are missing.
pub fn step() -> Result<()> {
    let unchecked = "the differential test of elementwise expressions";
    let Some(home) = python::environment_or_skip(ENVIRONMENT, &PACKAGES, unchecked)? else { return Ok(()) };
    build_all()?;
    let mut tests = python(&home);
    tests.args(["-m", "unittest", "discover", "--start-directory", "tests/differential"]);
    tests.env("PLIMSOLL_PROGRAMS", programs());
    finish(tests)?;
    for device in ["cpu", "program"] {
        run(&home, &["--device", device, "--cases", "2000", "--anew"])?;
    }
    Ok(())
}

/// `cargo xtask differential`: the arguments are those of `tests/differential/run.py`. Fails on a wrong result, if Python or its
/// packages are missing, or if a program can't be built or started.
pub fn command(arguments: &[String]) -> Result<()> {
    let home = python::environment(ENVIRONMENT, &PACKAGES)?;
    cargo(&["build", "--package", "plimsoll", "--example", "09_evaluate"])?;
    run(&home, arguments)
}

fn python(home: &Path) -> Command {
    let mut python = Command::new(home.join("bin/python3"));
    python.current_dir(root());
    python
}

/// The folder of built programs; examples are in a folder of it.
fn programs() -> PathBuf {
    let target: PathBuf = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    target.join("debug")
}

fn run(home: &Path, arguments: &[impl AsRef<OsStr>]) -> Result<()> {
    let mut test = python(home);
    test.arg("tests/differential/run.py").arg("--subject").arg(programs().join("examples/09_evaluate")).args(arguments);
    finish(test)
}
