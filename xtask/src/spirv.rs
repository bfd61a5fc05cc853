//! `cargo xtask spirv`: builds the Vulkan kernels from their GLSL and compares them with the committed SPIR-V.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use plimsoll_gen::kernel::spirv::Build;

use crate::test::{root, skipped};

const COMPILER: &str = "glslangValidator";
/// The file with the version of the compiler that built the committed SPIR-V: the first line of `--version`. Another version
/// generates other words with the same meaning.
const BUILT_BY: &str = "BUILT_BY";

/// `cargo xtask spirv [--bless]`. A new module needs an empty file first, because its crate includes the file.
pub fn command(arguments: &[String]) -> Result<()> {
    match arguments {
        [] => check(false),
        [word] if word == "--bless" => check(true),
        _ => bail!("spirv takes --bless or nothing"),
    }
}

/// Compares every module with its source. Fails if modules differ. Without the compiler, or with another version, the check is
/// skipped and reported.
pub fn run() -> Result<()> {
    check(false)
}

/// The folder of the headers and of [`BUILT_BY`].
fn folder() -> PathBuf {
    root().join("crates/plimsoll-gen/kernels/vulkan")
}

fn check(bless: bool) -> Result<()> {
    let Some(version) = version() else {
        skipped(format!("no SPIR-V was compared: {COMPILER} is not installed (Debian package glslang-tools)"));
        return Ok(());
    };
    let built_by = folder().join(BUILT_BY);
    if bless {
        std::fs::write(&built_by, format!("{version}\n"))?;
    }
    let expected = std::fs::read_to_string(&built_by).with_context(|| format!("{}", built_by.display()))?;
    if expected.trim() != version {
        skipped(format!("no SPIR-V was compared: it was built by '{}', but '{version}' is installed", expected.trim()));
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
        bail!("{} differ from their sources: run 'cargo xtask spirv --bless'", differing.join(", "));
    }
    eprintln!("{} SPIR-V modules match their sources", builds.len());
    Ok(())
}

/// The compiler's version; `None` if it is not installed.
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
