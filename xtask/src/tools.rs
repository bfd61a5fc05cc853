//! NVIDIA's compiler and disassembler in a private Python environment below `target/`. They need no GPU.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use plimsoll_cuda::disassembler::Disassembler;
use plimsoll_cuda::nvrtc::Nvrtc;

use crate::python;

/// The versions with which the facts were found; others may choose other instructions. 13.2 is the first nvdisasm that is
/// available as a wheel.
const PACKAGES: [&str; 2] = ["nvidia-cuda-nvrtc==13.0.*", "nvidia-cuda-nvdisasm==13.2.*"];

/// The compiler and the disassembler.
pub struct Tools {
    pub nvrtc: Nvrtc,
    pub nvdisasm: Disassembler,
    /// Their packages with exact versions.
    pub versions: String,
}

/// Finds the tools and installs them if needed. If that is impossible, reports why and returns `None`, or fails in continuous
/// integration. Fails if installed tools don't work.
pub fn find_or_install() -> Result<Option<Tools>> {
    let checked = "reading the kernels' machine code";
    let Some(home) = python::environment_or_skip("cuda-tools", &PACKAGES, checked)? else { return Ok(None) };
    let packages = packages(&home)?;
    let nvrtc = Nvrtc::find(Some(&packages.join("nvidia/cu13/lib")), None)?;
    let nvdisasm = Disassembler::find(Some(&packages.join("nvidia/cu13/bin/nvdisasm")))?;
    Ok(Some(Tools { nvrtc, nvdisasm, versions: versions(&packages)? }))
}

/// NVIDIA's packages in a folder, as pip names installed packages: `nvidia_cuda_nvrtc-13.0.88`.
fn versions(packages: &Path) -> Result<String> {
    let entries = std::fs::read_dir(packages).with_context(|| format!("can't read {}", packages.display()))?;
    let names =
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<Result<Vec<_>>>()?;
    let mut found: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(".dist-info")).collect();
    found.retain(|name| name.starts_with("nvidia"));
    found.sort_unstable();
    Ok(found.join(" "))
}

/// The folder of an environment's installed packages.
pub fn packages(home: &Path) -> Result<PathBuf> {
    let mut pythons =
        std::fs::read_dir(home.join("lib")).context("the private Python environment is damaged")?.flatten();
    let python = pythons.find(|entry| entry.file_name().to_string_lossy().starts_with("python3"));
    Ok(python.context("the private Python environment has no Python")?.path().join("site-packages"))
}
