//! `cargo xtask fmt`: formats every Rust file. `cargo fmt` doesn't follow modules that a macro declares, so the files of
//! plimsoll-probes are given to rustfmt one by one.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::test::{cargo, root};

/// Parses the arguments of `cargo xtask fmt` and runs it.
pub fn command(arguments: &[String]) -> Result<()> {
    match arguments {
        [] => run(false),
        [check] if check == "--check" => run(true),
        _ => bail!("fmt takes --check or nothing"),
    }
}

/// Formats all files. With `check`, changes nothing and fails if a file isn't formatted.
pub fn run(check: bool) -> Result<()> {
    let mut files = Vec::new();
    find_sources(&root().join("crates/plimsoll-probes/src"), &mut files)?;
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition", "2024", "--config-path"]).arg(root().join("rustfmt.toml")).args(files);
    if check {
        cargo(&["fmt", "--all", "--check"])?;
        rustfmt.arg("--check");
    } else {
        cargo(&["fmt", "--all"])?;
    }
    if !rustfmt.status().context("can't start rustfmt")?.success() {
        bail!("rustfmt failed on files of plimsoll-probes; 'cargo xtask fmt' formats them");
    }
    Ok(())
}

/// Appends the Rust files below a folder to `files`.
fn find_sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("can't list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            find_sources(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}
