//! NCCL, NVIDIA's library of collective operations between GPUs, found and opened at run time and never required. All devices
//! belong to this process. Every call is made on a thread of its own, because a call of NCCL may wait for other devices forever:
//! after a deadline the call is given up.

#[allow(unsafe_code)]
mod group;
#[allow(unsafe_code)]
mod library;
mod worker;

use std::path::Path;
use std::sync::Arc;

use crate::toolkit::{LibrarySpec, Places};
use library::Library;
use plimsoll_gpu::Unavailable;

pub use group::{Exchange, Group};

/// The environment variable that holds the absolute path of the library or its folder.
pub const VARIABLE: &str = "PLIMSOLL_NCCL";
/// NCCL's own variable that switches off NVLink multicast (NVLink SHARP, "NVLS").
pub const MULTICAST: &str = "NCCL_NVLS_ENABLE";
/// Its name in error messages.
const WHAT: &str = "NCCL";
/// How to install it.
const HINT: &str = "Install it into the active Python environment with 'pip install nvidia-nccl-cu13' (for a driver of CUDA 12: \
                    'nvidia-nccl-cu12'), or install the distribution's package libnccl2, or set PLIMSOLL_NCCL to the library's \
                    absolute path";
/// Where the library may be: in toolkits, in Python's wheels, and by name.
const LIBRARY: LibrarySpec = LibrarySpec {
    what: WHAT,
    variable: VARIABLE,
    file: "libnccl.so",
    toolkit_folders: &["lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "lib"],
    wheel_folders: &["nvidia/nccl/lib"],
    loader_names: &["libnccl.so.2"],
};

/// An operation of all devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Every device gets the sums of all devices' numbers (f32).
    AllReduce,
    /// Every device gets all devices' numbers (f32), in the order of the devices.
    AllGather,
}

/// An opened library.
#[derive(Debug)]
pub struct Nccl {
    library: Library,
    version: u32,
}

impl Nccl {
    /// Finds and opens the library: `explicit` (a file or its folder), else `PLIMSOLL_NCCL`, else the toolkits of `CUDA_HOME` and
    /// `CUDA_PATH`, the usual toolkit folders, the active Python environment, and last the loader's search path.
    ///
    /// # Errors
    /// An explicit path that fails is an error: no other place is tried.
    pub fn find(explicit: Option<&Path>) -> Result<Arc<Self>, Unavailable> {
        let named = LIBRARY.find_named(explicit, std::env::var_os(VARIABLE).as_deref())?;
        let candidates = named.unwrap_or_else(|| LIBRARY.find_usual(&Places::from_environment()));
        let mut failed: Vec<String> = Vec::new();
        for path in &candidates {
            match Library::open(path).and_then(|library| Ok((library.version()?, library))) {
                Ok((version, library)) => return Ok(Arc::new(Self { library, version })),
                // A bare name that the loader can't find isn't worth reporting.
                Err(why) if path.is_absolute() => failed.push(format!("{}: {why}", path.display())),
                Err(_) => {}
            }
        }
        let none = "no libnccl.so in a toolkit folder, the active Python environment or the loader's search path";
        Err(Unavailable::new(WHAT, failed.into_iter().next().unwrap_or_else(|| none.to_owned()), HINT))
    }

    /// Its version: 22703 is 2.27.3.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Its version as text.
    #[must_use]
    pub fn version_text(&self) -> String {
        let version = self.version;
        // NCCL_VERSION of nccl.h: before 2.9 the minor version had one digit less.
        let (major, rest) = if version >= 10_000 { (10_000, 100) } else { (1_000, 100) };
        format!("{}.{}.{}", version / major, version % major / rest, version % rest)
    }
}

/// Refuses to use NCCL where it might use NVLink multicast: it reads its variable from the environment, which a library can't
/// change safely while other threads may read it.
fn check_multicast(setting: Option<&std::ffi::OsStr>) -> Result<(), Unavailable> {
    if setting.is_some_and(|setting| !setting.is_empty()) {
        return Ok(());
    }
    let why = format!("{MULTICAST} isn't set, so NCCL might use NVLink multicast, and it reads the variable by itself");
    let hint = format!("Set {MULTICAST}=0 before the process starts; the command plimsoll does so");
    Err(Unavailable::new(WHAT, why, hint))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_folder_without_it_and_a_relative_path_are_refused_with_a_hint() {
        let empty = tempfile::tempdir().unwrap();
        for (path, why) in [(empty.path(), "without libnccl.so"), (Path::new("libnccl.so"), "is relative")] {
            let reason = Nccl::find(Some(path)).unwrap_err();
            assert!(reason.why.contains(why) && reason.hint.contains("libnccl.so"), "{reason}");
        }
        std::fs::write(empty.path().join("libnccl.so.2"), "no library").unwrap();
        let reason = Nccl::find(Some(empty.path())).unwrap_err();
        assert!(reason.hint.contains("pip install nvidia-nccl"), "{reason}");
    }

    #[test]
    fn multicast_must_have_been_decided_before_the_process_started() {
        for setting in [None, Some(OsStr::new(""))] {
            let reason = check_multicast(setting).unwrap_err();
            assert!(reason.hint.contains("NCCL_NVLS_ENABLE=0"), "{reason}");
        }
        // The user's own choice counts.
        for setting in ["0", "1"] {
            assert!(check_multicast(Some(OsStr::new(setting))).is_ok());
        }
    }
}
