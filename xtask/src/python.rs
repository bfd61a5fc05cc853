//! Private Python environments below `target/`, with packages of fixed versions. Where Python can't be had, what needs it is
//! passed over with the reason, except in continuous integration, where that is an error.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::test::{finish, root, skipped};

/// The folder `target/NAME` of an environment that has `packages`, installed where they aren't; `None` where this machine can't
/// have them, after saying that `unchecked` was not done.
///
/// # Errors
/// In continuous integration that they can't be had; a folder that can't be written.
pub fn environment(name: &str, packages: &[&str], unchecked: &str) -> Result<Option<PathBuf>> {
    let home = root().join("target").join(name);
    let stamp = home.join("installed");
    if std::fs::read_to_string(&stamp).ok() != Some(packages.join("\n")) {
        if let Err(error) = install(&home, packages) {
            if std::env::var_os("CI").is_some() {
                return Err(error.context(format!("CI is set, so this must be done: {unchecked}")));
            }
            skipped(format!("not done: {unchecked}: {error:#}"));
            return Ok(None);
        }
        std::fs::write(&stamp, packages.join("\n"))?;
    }
    Ok(Some(home))
}

fn install(home: &Path, packages: &[&str]) -> Result<()> {
    let quiet = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    };
    if !quiet(Command::new("python3").args(["-m", "venv", "--help"])) {
        bail!("python3 with its module venv is not installed");
    }
    eprintln!("installing {} into {}", packages.join(", "), home.display());
    let mut environment = Command::new("python3");
    environment.args(["-m", "venv", "--clear"]).arg(home);
    finish(environment)?;
    let mut pip = Command::new(home.join("bin/python3"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    finish(pip).context("pip could not install the packages")
}
