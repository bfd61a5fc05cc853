//! NVIDIA's compiler and disassembler in a private Python environment below `target/`: they need no GPU.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use plimsoll_cuda::disassembler::Disassembler;
use plimsoll_cuda::nvrtc::Nvrtc;

use crate::python;

/// What the facts were found with; another version may choose other instructions. 13.2 is the first nvdisasm there is as a
/// wheel.
const PACKAGES: [&str; 2] = ["nvidia-cuda-nvrtc==13.0.*", "nvidia-cuda-nvdisasm==13.2.*"];

/// The tools.
pub struct Tools {
    /// The compiler.
    pub nvrtc: Nvrtc,
    /// The disassembler.
    pub nvdisasm: Disassembler,
    /// Their packages with the exact versions.
    pub versions: String,
}

/// The tools, installed where they aren't; `None` where this machine can't have them, after saying why.
///
/// # Errors
/// In continuous integration that they can't be had; anywhere that they are there and don't work.
pub fn ready() -> Result<Option<Tools>> {
    let checked = "reading the kernels' machine code";
    let Some(home) = python::environment_or_skip("cuda-tools", &PACKAGES, checked)? else { return Ok(None) };
    let packages = packages(&home)?;
    let nvrtc = Nvrtc::find(Some(&packages.join("nvidia/cu13/lib")), None)?;
    let nvdisasm = Disassembler::find(Some(&packages.join("nvidia/cu13/bin/nvdisasm")))?;
    Ok(Some(Tools { nvrtc, nvdisasm, versions: versions(&packages)? }))
}

/// NVIDIA's packages in a folder of them, as pip names what it installed: `nvidia_cuda_nvrtc-13.0.88`.
fn versions(packages: &Path) -> Result<String> {
    let entries = std::fs::read_dir(packages).with_context(|| format!("can't read {}", packages.display()))?;
    let names =
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<Result<Vec<_>>>()?;
    let mut found: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(".dist-info")).collect();
    found.retain(|name| name.starts_with("nvidia"));
    found.sort_unstable();
    Ok(found.join(" "))
}

fn packages(home: &Path) -> Result<PathBuf> {
    let mut pythons =
        std::fs::read_dir(home.join("lib")).context("the private Python environment is damaged")?.flatten();
    let python = pythons.find(|entry| entry.file_name().to_string_lossy().starts_with("python3"));
    Ok(python.context("the private Python environment has no Python")?.path().join("site-packages"))
}
