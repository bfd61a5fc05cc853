//! Private Python environments below `target/`, with packages of fixed versions. Without Python, the test command skips the steps
//! that need it and prints the reason; in continuous integration that is an error.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::test::{finish, root, skipped};

/// Returns the folder `target/NAME` with an environment that has `packages`, and installs them if needed. Each package is a line of
/// pip's requirements: with a hash, no other file is accepted. An error says why that is impossible and what to install.
pub fn environment(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let home = root().join("target").join(name);
    let stamp = home.join("installed");
    if std::fs::read_to_string(&stamp).ok() != Some(packages.join("\n")) {
        install(&home, packages)?;
        std::fs::write(&stamp, packages.join("\n"))?;
    }
    Ok(home)
}

/// Like [`environment`], for a step of the test command: if it fails, reports that `unchecked` was skipped and returns `None`. In
/// continuous integration it fails instead.
pub fn environment_or_skip(name: &str, packages: &[&str], unchecked: &str) -> Result<Option<PathBuf>> {
    match environment(name, packages) {
        Ok(home) => Ok(Some(home)),
        Err(error) if std::env::var_os("CI").is_some() => {
            Err(error.context(format!("CI is set, so this step must run: {unchecked}")))
        }
        Err(error) => {
            skipped(format!("not done: {unchecked}: {error:#}"));
            Ok(None)
        }
    }
}

fn install(home: &Path, packages: &[&str]) -> Result<()> {
    let quiet = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    };
    if !quiet(Command::new("python3").args(["-m", "venv", "--help"])) {
        bail!("python3 with its module venv is not installed; on Debian and Ubuntu: apt install python3-venv");
    }
    let names: Vec<&str> = packages.iter().filter_map(|package| package.split_whitespace().next()).collect();
    let names = names.join(", ");
    eprintln!("installing {names} into {}", home.display());
    let mut environment = Command::new("python3");
    environment.args(["-m", "venv", "--clear"]).arg(home);
    finish(environment)?;
    let requirements = home.join("requirements.txt");
    std::fs::write(&requirements, packages.join("\n"))?;
    let mut pip = Command::new(home.join("bin/python3"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]).arg(&requirements);
    let error = || format!("pip could not install {names}: is there a network or a mirror (PIP_INDEX_URL)?");
    finish(pip).with_context(error)
}
