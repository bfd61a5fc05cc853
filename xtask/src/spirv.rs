//! `cargo xtask spirv`: builds the kernels for Vulkan from their GLSL and compares them with the committed SPIR-V.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use plimsoll_gen::kernel::spirv::Build;

use crate::test::{root, skipped};

/// The compiler.
const COMPILER: &str = "glslangValidator";
/// Names the compiler that built what is committed, as its `--version` begins. Another one builds other words of the same meaning.
const BUILT_BY: &str = "BUILT_BY";

/// `spirv [--bless]`. A new module needs an empty file first, because its crate includes it.
pub fn command(arguments: &[String]) -> Result<()> {
    match arguments {
        [] => check(false),
        [word] if word == "--bless" => check(true),
        _ => bail!("spirv takes --bless or nothing"),
    }
}

/// Compares every module with what its source gives.
///
/// # Errors
/// The modules that differ. Where there is no compiler, or another one, that is told and no error.
pub fn run() -> Result<()> {
    check(false)
}

/// Where headers are, and what names the compiler.
fn folder() -> PathBuf {
    root().join("crates/plimsoll-gen/kernels/vulkan")
}

fn check(bless: bool) -> Result<()> {
    let Some(version) = version() else {
        skipped(format!("no SPIR-V was compared: there is no {COMPILER} (Debian's package glslang-tools has one)"));
        return Ok(());
    };
    let built_by = folder().join(BUILT_BY);
    if bless {
        std::fs::write(&built_by, format!("{version}\n"))?;
    }
    let expected = std::fs::read_to_string(&built_by).with_context(|| format!("{}", built_by.display()))?;
    if expected.trim() != version {
        skipped(format!("no SPIR-V was compared: it was built by '{}', and here is '{version}'", expected.trim()));
        return Ok(());
    }
    let mut differing = Vec::new();
    let builds: Vec<&Build> = plimsoll_probes::sources().iter().flat_map(|source| source.builds()).collect();
    for build in &builds {
        let words = compile(build)?;
        if bless {
            std::fs::write(root().join(build.folder).join(build.file), words)?;
        } else if words != build.words {
            differing.push(build.file);
        }
    }
    if !differing.is_empty() {
        bail!("{} differ from what their sources give: run cargo xtask spirv --bless", differing.join(", "));
    }
    eprintln!("{} modules of SPIR-V are what their sources give", builds.len());
    Ok(())
}

/// The compiler's version; nothing where there is none.
fn version() -> Option<String> {
    let output = Command::new(COMPILER).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(|line| line.trim().to_owned())
}

fn compile(build: &Build) -> Result<Vec<u8>> {
    let target = root().join("target/spirv");
    std::fs::create_dir_all(&target)?;
    let out = target.join(build.file);
    let mut command = Command::new(COMPILER);
    command.current_dir(root().join(build.folder)).args(["-V", "--target-env", "vulkan1.2", "-g0"]);
    command.arg(format!("-I{}", folder().display()));
    command.args(build.defines.iter().map(|define| format!("-D{define}"))).arg("-o").arg(&out).arg(build.source);
    let output = command.output().with_context(|| format!("can't start {COMPILER}"))?;
    if !output.status.success() {
        bail!("{}:\n{}", build.source, String::from_utf8_lossy(&output.stdout));
    }
    std::fs::read(&out).with_context(|| format!("{}", out.display()))
}
