//! NVIDIA's compiler and disassembler in a private Python environment below `target/`: they need no GPU. Where Python can't
//! be had they are passed over with the reason, except in continuous integration, where that is an error.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use plimsoll_cuda::disassembler::Disassembler;
use plimsoll_cuda::nvrtc::Nvrtc;

use crate::test::{finish, root, skipped};

/// What the facts were found with; another version may choose other instructions. 13.2 is the first nvdisasm there is as a
/// wheel.
const PACKAGES: [&str; 2] = ["nvidia-cuda-nvrtc==13.0.*", "nvidia-cuda-nvdisasm==13.2.*"];

/// The tools.
pub struct Tools {
    /// The compiler.
    pub nvrtc: Nvrtc,
    /// The disassembler.
    pub nvdisasm: Disassembler,
}

/// The tools, installed where they aren't; `None` where this machine can't have them, after saying why.
///
/// # Errors
/// In continuous integration that they can't be had; anywhere that they are there and don't work.
pub fn ready() -> Result<Option<Tools>> {
    let home = root().join("target/cuda-tools");
    let stamp = home.join("installed");
    if std::fs::read_to_string(&stamp).ok() != Some(PACKAGES.join("\n")) {
        if let Err(error) = install(&home) {
            if std::env::var_os("CI").is_some() {
                return Err(error.context("CI is set, so the machine code must be checked"));
            }
            skipped(format!("the kernels' machine code was not checked: {error:#}"));
            return Ok(None);
        }
        std::fs::write(&stamp, PACKAGES.join("\n"))?;
    }
    let packages = packages(&home)?;
    let nvrtc = Nvrtc::find(Some(&packages.join("nvidia/cu13/lib")), None)?;
    let nvdisasm = Disassembler::find(Some(&packages.join("nvidia/cu13/bin/nvdisasm")))?;
    Ok(Some(Tools { nvrtc, nvdisasm }))
}

fn install(home: &PathBuf) -> Result<()> {
    let quiet = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    };
    if !quiet(Command::new("python3").args(["-m", "venv", "--help"])) {
        bail!("python3 with its module venv is not installed");
    }
    eprintln!("installing {} into {}", PACKAGES.join(" and "), home.display());
    let mut environment = Command::new("python3");
    environment.args(["-m", "venv", "--clear"]).arg(home);
    finish(environment)?;
    let mut pip = Command::new(home.join("bin/python3"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES);
    finish(pip).context("pip could not install NVIDIA's wheels")
}

fn packages(home: &std::path::Path) -> Result<PathBuf> {
    let mut pythons =
        std::fs::read_dir(home.join("lib")).context("the private Python environment is damaged")?.flatten();
    let python = pythons.find(|entry| entry.file_name().to_string_lossy().starts_with("python3"));
    Ok(python.context("the private Python environment has no Python")?.path().join("site-packages"))
}
