//! The optional parts of a machine: libraries and programs that measurements use where they are installed. Vulkan's drivers are
//! not among them, because listing them runs their code: see [`crate::vulkan_devices`].

use std::path::{Path, PathBuf};

use plimsoll_core::Fault;
use plimsoll_cuda::Unavailable;
use plimsoll_cuda::cublas::Cublas;
use plimsoll_cuda::cupti::Cupti;
use plimsoll_cuda::disassembler::Disassembler;
use plimsoll_cuda::driver::{Driver, LIBRARY_OVERRIDE};
use plimsoll_cuda::nccl::Nccl;
use plimsoll_cuda::nvrtc::Nvrtc;

use crate::cuda::{cuda_devices, find_library};

/// An optional part: present, or why it is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// What it makes possible.
    pub adds: &'static str,
    /// Where it is missing: the reason and a hint.
    pub missing: Option<(String, String)>,
    /// Its version, where it says so.
    pub version: Option<String>,
    /// Its file, where known.
    pub path: Option<PathBuf>,
}

impl Part {
    /// A part from what was found: a version and a path, or the reason and a hint.
    #[must_use]
    pub fn new(
        name: &'static str,
        adds: &'static str,
        found: Result<(Option<String>, Option<PathBuf>), (String, String)>,
    ) -> Self {
        match found {
            Ok((version, path)) => Self { name, adds, missing: None, version, path },
            Err(missing) => Self { name, adds, missing: Some(missing), version: None, path: None },
        }
    }
}

/// The optional parts of this machine. Libraries are loaded to see whether they work.
#[must_use]
pub fn parts() -> Vec<Part> {
    let driver = Driver::system().ok();
    let major = driver.as_ref().and_then(|driver| u32::try_from(driver.version() / 1000).ok());
    let reason = |why: Unavailable| (why.why, why.hint);
    // Each library stays loaded until its path has been read.
    let nvrtc = Nvrtc::find(None, major).map_err(reason).map(|found| {
        let (major, minor) = found.version();
        (Some(format!("{major}.{minor}")), loaded("libnvrtc", "PLIMSOLL_NVRTC"))
    });
    let nvdisasm = Disassembler::find(None).map_err(reason).map(|found| (None, Some(found.program().to_owned())));
    let cupti = Cupti::find(None, major).map_err(reason);
    let cupti =
        cupti.map(|found| (Some(format!("interface {}", found.version())), loaded("libcupti", "PLIMSOLL_CUPTI")));
    let cublas = Cublas::find(None, major).map_err(reason).map(|found| {
        let version = found.version();
        (
            Some(format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)),
            loaded("libcublas.", "PLIMSOLL_CUBLAS"),
        )
    });
    let nccl = Nccl::find(None).map_err(reason);
    let nccl = nccl.map(|found| (Some(found.version_text()), loaded("libnccl.", "PLIMSOLL_NCCL")));
    let nvml = plimsoll_cuda::tools().into_iter().find(|tool| tool.name == "NVML");
    let nvml = match nvml.filter(|tool| !tool.is_available()) {
        Some(tool) => Err((tool.why_not, tool.hint)),
        None => Ok((None, loaded("libnvidia-ml", "PLIMSOLL_LIBNVML"))),
    };
    vec![
        Part::new("CUDA driver", "NVIDIA GPUs, as devices cuda:N", find_driver(driver.as_deref())),
        Part::new("NVRTC", "compiled kernels: nearly every probe and every expression on NVIDIA GPUs", nvrtc),
        Part::new("nvdisasm", "machine code, and instruction counts for predictions and explanations", nvdisasm),
        Part::new("CUPTI", "hardware counters, for measurements and explanations", cupti),
        Part::new("NVML", "clocks, temperature, power and other processes of NVIDIA GPUs, for flags", nvml),
        Part::new("cuBLAS", "NVIDIA's own matrix products, next to ours in `tensor`", cublas),
        Part::new("NCCL", "collective operations of several NVIDIA GPUs, in `nccl`", nccl),
        Part::new("Vulkan loader", "GPUs of every vendor, as devices vulkan:N", find_loader(Path::new("/"))),
    ]
}

type Found = Result<(Option<String>, Option<PathBuf>), (String, String)>;

fn find_driver(driver: Option<&Driver>) -> Found {
    match (cuda_devices(), driver) {
        (Err(Fault::Unavailable { why, hint, .. }), None) => Err((why, hint)),
        (Err(other), None) => Err((other.to_string(), String::new())),
        // A driver without a device is still a driver.
        (_, driver) => {
            Ok((driver.map(|driver| format!("CUDA {}", driver.version_text())), loaded("libcuda.", LIBRARY_OVERRIDE)))
        }
    }
}

/// The loader's library, judged by files: loading it would run the drivers' code.
fn find_loader(root: &Path) -> Found {
    const LIBRARY: &str = "libvulkan.so.1";
    let library_path = std::env::var_os("LD_LIBRARY_PATH");
    let hint = "Install the Vulkan loader (Debian's package libvulkan1)".to_owned();
    let path = find_library(LIBRARY, root, library_path.as_deref())
        .ok_or_else(|| (format!("{LIBRARY} is not on the loader's path"), hint))?;
    Ok((None, path.map(|path| path.canonicalize().unwrap_or(path))))
}

/// The file of a loaded library whose name begins with this, from proc_pid_maps(5); else the one that the user's variable names.
fn loaded(name: &str, variable: &str) -> Option<PathBuf> {
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    let named = || std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    find_mapped(&String::from_utf8_lossy(&maps), name).or_else(named)
}

fn find_mapped(maps: &str, name: &str) -> Option<PathBuf> {
    let paths = maps.lines().filter_map(|line| line.find('/').map(|place| &line[place..]));
    paths
        .map(Path::new)
        .find(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name)))
        .map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_library_is_found_by_the_beginning_of_its_name() {
        let maps = "7f00-7f01 r-xp 00000000 08:01 77 /usr/lib/libcublasLt.so.13\n\
                    7f00-7f01 r-xp 00000000 08:01 78 /opt/with space/libcublas.so.13.0.2\n7f00-7f01 rw-p 0 00:00 0 [heap]\n";
        assert_eq!(find_mapped(maps, "libcublas."), Some(PathBuf::from("/opt/with space/libcublas.so.13.0.2")));
        assert_eq!(find_mapped(maps, "libnvrtc"), None);
        assert_eq!(find_mapped("", "libcuda."), None);
    }

    #[test]
    fn the_loader_is_present_with_its_path_or_missing_with_a_hint() {
        let root = tempfile::tempdir().unwrap();
        let (why, hint) = find_loader(root.path()).unwrap_err();
        assert!(why.contains("libvulkan.so.1") && hint.contains("libvulkan1"));
        std::fs::create_dir_all(root.path().join("usr/lib64")).unwrap();
        std::fs::write(root.path().join("usr/lib64/libvulkan.so.1"), "").unwrap();
        let (_, path) = find_loader(root.path()).unwrap();
        assert!(path.unwrap().ends_with("usr/lib64/libvulkan.so.1"));
    }

    #[test]
    fn every_part_is_named_once_with_what_it_adds() {
        let names: Vec<&str> = parts().iter().map(|part| part.name).collect();
        assert_eq!(names, ["CUDA driver", "NVRTC", "nvdisasm", "CUPTI", "NVML", "cuBLAS", "NCCL", "Vulkan loader"]);
        for part in parts() {
            assert!(!part.adds.is_empty());
            assert!(part.missing.is_none_or(|(why, _)| !why.is_empty()), "{}", part.name);
        }
    }
}
