//! The Python package: its tests, and the wheel and the source distribution to hand out.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::test::{build_all, finish, root, target};
use crate::{dist, python};

/// What the tests need. Of PyTorch and JAX only machines that have them test anything: they take gigabytes.
const TESTED_WITH: [&str; 5] = ["numpy==2.4.*", "ml-dtypes==0.6.*", "pytest==9.*", "hypothesis==6.*", "mypy==2.4.*"];
/// The builder of wheels.
const BUILDER: [&str; 1] = ["maturin==1.16.*"];
/// Largest wheel, bytes.
const MAX_BYTES: u64 = 8_000_000;

/// The step of the test command: builds the package without optimization, tests it, and compares its stubs with what it has.
pub fn step() -> Result<()> {
    let unchecked = "the tests of the Python package";
    let Some(home) = python::environment_or_skip("python-tests", &TESTED_WITH, unchecked)? else { return Ok(()) };
    build_all()?;
    let site = lay_out()?;
    let run = |arguments: &[&str]| {
        let mut command = Command::new(home.join("bin/python3"));
        command.args(arguments).current_dir(root()).env("PYTHONPATH", &site).env("PYTHONDONTWRITEBYTECODE", "1");
        finish(command)
    };
    run(&["-m", "pytest", "-q", "-p", "no:cacheprovider"])?;
    // The other modules have no stubs, and `plimsoll.torch` needs PyTorch.
    let stubs = ["plimsoll._plimsoll", "--concise", "--mypy-config-file", "pyproject.toml"];
    run(&[&["-m", "mypy.stubtest"], &stubs[..]].concat())?;
    let cache = target().join("mypy");
    run(&["-m", "mypy", "--strict", "--cache-dir", &cache.to_string_lossy(), "python/plimsoll"])
}

/// Puts the package's sources and the built library into a folder that Python imports from.
fn lay_out() -> Result<PathBuf> {
    let site = target().join("python");
    let package = site.join("plimsoll");
    let _ = std::fs::remove_dir_all(&package);
    std::fs::create_dir_all(&package).with_context(|| format!("can't create {}", package.display()))?;
    for entry in std::fs::read_dir(root().join("python/plimsoll"))? {
        let path = entry?.path();
        let is_source =
            path.extension().is_some_and(|ending| ["py", "pyi", "typed"].iter().any(|known| ending == *known));
        if let Some(name) = path.file_name().filter(|_| is_source) {
            std::fs::copy(&path, package.join(name))?;
        }
    }
    std::fs::copy(target().join("debug/lib_plimsoll.so"), package.join("_plimsoll.abi3.so"))?;
    Ok(site)
}

/// `cargo xtask wheel`: builds the wheel and the source distribution into `target/wheel`, and tries the wheel.
pub fn command(arguments: &[String]) -> Result<()> {
    if !arguments.is_empty() {
        bail!("usage: cargo xtask wheel");
    }
    let home = python::environment("wheel-tools", &BUILDER)?;
    let folder = root().join("target/wheel");
    let _ = std::fs::remove_dir_all(&folder);
    let maturin = |arguments: &[&str]| {
        let mut command = Command::new(home.join("bin/maturin"));
        command.args(arguments).arg("--out").arg(&folder).current_dir(root());
        command
    };
    finish(maturin(&["sdist"]))?;
    let triple = dist::triple()?;
    let mut build = maturin(&["build", "--locked", "--profile", dist::PROFILE, "--target", &triple]);
    build.args(["--compatibility", "manylinux_2_28"]);
    let linker = dist::Linker::install()?;
    build.env(format!("CARGO_TARGET_{}_LINKER", triple.replace('-', "_").to_uppercase()), &linker.program);
    build.envs(linker.environment);
    finish(build)?;
    let built = std::fs::read_dir(&folder)?.flatten().map(|entry| entry.path());
    let wheel = built.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "whl"));
    try_out(&wheel.context("maturin wrote no wheel")?)
}

/// Installs the wheel into an empty environment and uses the command and an expression.
fn try_out(wheel: &Path) -> Result<()> {
    let bytes = std::fs::metadata(wheel)?.len();
    eprintln!("{}", wheel.display());
    eprintln!("  size     {:.2} MB of at most {} MB", bytes as f64 / 1e6, MAX_BYTES / 1_000_000);
    ensure!(bytes <= MAX_BYTES, "the wheel has {} bytes too many", bytes - MAX_BYTES);
    let home = root().join("target/wheel/trial");
    let mut environment = Command::new("python3");
    environment.args(["-m", "venv", "--clear"]).arg(&home);
    finish(environment)?;
    let run = |what: &str, program: &str, arguments: &[&str]| {
        let started = Instant::now();
        let mut command = Command::new(home.join("bin").join(program));
        command.args(arguments).current_dir(&home);
        finish(command)?;
        eprintln!("  {what:<8} {:.2} s", started.elapsed().as_secs_f64());
        Ok::<_, anyhow::Error>(())
    };
    let file = wheel.to_string_lossy();
    run("install", "pip", &["install", "--quiet", "--disable-pip-version-check", "--no-index", &file])?;
    run("import", "python3", &["-c", "import plimsoll"])?;
    run("again", "python3", &["-c", "import plimsoll"])?;
    run("command", "plimsoll", &["--version"])?;
    run(
        "compile",
        "python3",
        &["-c", "import plimsoll; assert plimsoll.compile('a*x + y').parameters == ['a', 'x', 'y']"],
    )
}
