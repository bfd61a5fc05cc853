//! Builds the executable to hand out: one file that runs on every Linux with glibc 2.28 or later, and reads from its ELF headers
//! whether it does. It links libc dynamically, because a static executable can't open a GPU's driver.
//!
//! The linker is Zig's C compiler: it has the symbols of every version of glibc, so the build needs no old system. It is installed
//! from a Python wheel below `target/`.

mod elf;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::dist::elf::{Glibc, Needs};
use crate::test::{cargo, finish, root, target};
use crate::{python, tools};

/// The oldest glibc that must suffice: Debian 10, RHEL 8, Ubuntu 18.10.
const GLIBC: &str = "2.28";
/// glibc's own libraries, which every such system has.
const LIBRARIES: [&str; 7] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
];
/// Largest executable, bytes.
const MAX_BYTES: usize = 20_000_000;
/// Zig, with the hashes of its wheels for x86-64 and 64-bit Arm.
const PACKAGES: [&str; 1] = ["ziglang==0.15.2 \
     --hash=sha256:806316453d1ede7174ed3fefb8e5348154629089c3bb5fe812dfd0e172fac130 \
     --hash=sha256:edc0aa60ec964a4cf462d40f68d7de242ddf37fd9a80f2afaee6397059463230"];
const LINKER: &str = include_str!("dist/linker.sh");
/// The profile in the workspace's manifest.
pub const PROFILE: &str = "dist";

/// `cargo xtask dist`: builds, checks and tries the executable. With `--check FILE` it only checks a file.
pub fn command(arguments: &[String]) -> Result<()> {
    match arguments {
        [] => {
            let started = Instant::now();
            let executable = build()?;
            check(&executable)?;
            find_driver(&executable)?;
            eprintln!("built and checked in {:.0} s", started.elapsed().as_secs_f64());
            Ok(())
        }
        [flag, file] if flag == "--check" => check(Path::new(file)),
        _ => bail!("usage: cargo xtask dist [--check FILE]"),
    }
}

/// Rust's name of this system.
pub fn triple() -> Result<String> {
    let architecture = std::env::consts::ARCH;
    let here = cfg!(target_os = "linux") && ["x86_64", "aarch64"].contains(&architecture);
    ensure!(here, "only Linux on x86-64 and 64-bit Arm can be built for, each on itself");
    Ok(format!("{architecture}-unknown-linux-gnu"))
}

/// The linker for an old glibc.
pub struct Linker {
    pub program: PathBuf,
    pub environment: Vec<(&'static str, OsString)>,
}

impl Linker {
    /// Installs it below `target/` if needed.
    pub fn install() -> Result<Self> {
        let home = python::environment("dist-tools", &PACKAGES)?;
        let program = home.join("linker");
        std::fs::write(&program, LINKER)?;
        make_executable(&program)?;
        let cache = home.join("cache").into_os_string();
        let environment = vec![
            ("ZIG", tools::packages(&home)?.join("ziglang/zig").into_os_string()),
            ("ZIG_TARGET", format!("{}-linux-gnu.{GLIBC}", std::env::consts::ARCH).into()),
            ("ZIG_GLOBAL_CACHE_DIR", cache.clone()),
            ("ZIG_LOCAL_CACHE_DIR", cache),
        ];
        Ok(Self { program, environment })
    }
}

/// Builds the executable and copies it to `target/dist`.
fn build() -> Result<PathBuf> {
    let triple = triple()?;
    let linker = Linker::install()?;
    let mut rustc = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    rustc.args(["rustc", "--locked", "-p", "plimsoll-cli", "--bin", "plimsoll", "--profile", PROFILE]);
    // The triple keeps build scripts, which run here, apart from the executable.
    rustc.args(["--target", &triple, "--", "-C"]).arg(format!("linker={}", linker.program.display()));
    rustc.envs(linker.environment);
    finish(rustc)?;

    let folder = root().join("target/dist");
    std::fs::create_dir_all(&folder).with_context(|| format!("can't create {}", folder.display()))?;
    let architecture = std::env::consts::ARCH;
    let executable = folder.join(format!("plimsoll-{}-{architecture}-linux", env!("CARGO_PKG_VERSION")));
    let built = target().join(triple).join(PROFILE).join("plimsoll");
    // Remove the old file first, because it may be running.
    let _ = std::fs::remove_file(&executable);
    std::fs::copy(&built, &executable).with_context(|| format!("can't copy {}", built.display()))?;
    Ok(executable)
}

#[cfg(unix)]
fn make_executable(file: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755))?)
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<()> {
    Ok(())
}

/// Prints what an executable needs, and fails if that is too much.
fn check(executable: &Path) -> Result<()> {
    let bytes = std::fs::read(executable).with_context(|| format!("can't read {}", executable.display()))?;
    let needs = Needs::read(&bytes).with_context(|| executable.display().to_string())?;
    eprintln!("{}", executable.display());
    eprintln!("  size       {:.2} MB of at most {} MB", bytes.len() as f64 / 1e6, MAX_BYTES / 1_000_000);
    eprintln!("  libraries  {}", needs.libraries.join(" "));
    eprintln!("  glibc      {} of at most {GLIBC}", needs.glibc().map_or("none".to_owned(), |glibc| glibc.to_string()));
    let faults = faults(&needs, bytes.len())?;
    ensure!(faults.is_empty(), "{} must not be handed out:\n  {}", executable.display(), faults.join("\n  "));
    Ok(())
}

fn faults(needs: &Needs, size: usize) -> Result<Vec<String>> {
    let mut faults = needs.faults(&Glibc::parse(GLIBC).context("a version")?, &LIBRARIES);
    if size > MAX_BYTES {
        faults.push(format!("it has {size} bytes, {} too many", size - MAX_BYTES));
    }
    Ok(faults)
}

/// Runs the executable's `doctor` with the tests' fake driver, which it must find.
fn find_driver(executable: &Path) -> Result<()> {
    cargo(&["build", "--quiet", "-p", "fakecuda"])?;
    let mut doctor = Command::new(executable);
    doctor.args(["doctor", "--format", "csv", "--require", "cuda"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    doctor.env("PLIMSOLL_LIBCUDA", target().join("debug/libfakecuda.so"));
    doctor.env("PLIMSOLL_LIBNVML", "/nonexistent").env("VK_DRIVER_FILES", "/nonexistent");
    let output = doctor.output().with_context(|| format!("can't start {}", executable.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let driver = text.lines().find(|line| line.starts_with("CUDA driver,"));
    let found = output.status.success() && driver.is_some_and(|line| line.starts_with("CUDA driver,yes,"));
    ensure!(found, "{} finds no driver ({}):\n{text}", executable.display(), output.status);
    eprintln!("  doctor     finds the fake driver");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_over_the_limit_is_a_fault() {
        let needs = Needs { libraries: vec!["libc.so.6".to_owned()], ..Needs::default() };
        assert_eq!(faults(&needs, MAX_BYTES).unwrap(), Vec::<String>::new());
        assert_eq!(faults(&needs, MAX_BYTES + 7).unwrap(), ["it has 20000007 bytes, 7 too many"]);
    }

    #[test]
    fn a_script_is_not_handed_out() {
        let script = root().join("xtask/src/dist/linker.sh");
        assert!(check(&script).unwrap_err().to_string().contains("linker.sh"));
    }
}
