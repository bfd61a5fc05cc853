//! Whether there are CUDA devices, and why not: the backend's answer, or where no driver can be loaded what the machine's
//! files tell about it, so that a machine without a driver reads otherwise than one whose driver isn't found.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use plimsoll_core::Fault;
use plimsoll_cuda::driver::LIBRARY_OVERRIDE;

const LIBRARY: &str = "libcuda.so.1";
/// Where loaders look beside `LD_LIBRARY_PATH` and the cache (ld.so(8)), and where containers mount the driver.
const FOLDERS: [&str; 8] = [
    "lib",
    "lib64",
    "usr/lib",
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib/wsl/lib",
    "usr/local/nvidia/lib64",
];

/// How many CUDA devices this process sees; at least one.
///
/// # Errors
/// [`Fault::Unavailable`] with the reason and the way out.
pub fn cuda_devices() -> Result<u32, Fault> {
    plimsoll_cuda::devices().map_err(|fault| {
        let library_path = std::env::var_os("LD_LIBRARY_PATH");
        let no_library = || why_not(Path::new("/"), library_path.as_deref());
        let named = std::env::var_os(LIBRARY_OVERRIDE).is_some();
        if named { fault } else { no_library().unwrap_or(fault) }
    })
}

/// Why no driver can be loaded, from files alone; `None` where there is one and it has its own reason.
fn why_not(root: &Path, library_path: Option<&OsStr>) -> Option<Fault> {
    if find_library(root, library_path) {
        return None;
    }
    let node = root.join("dev/nvidiactl").exists() || root.join("dev/dxg").exists();
    let (why, hint) = if node {
        (
            format!("an NVIDIA device is here{}, but {LIBRARY} is not on the loader's path", version(root)),
            format!(
                "Install the driver's user-space libraries or add their folder to LD_LIBRARY_PATH so that {LIBRARY} is found"
            ),
        )
    } else {
        (
            format!("no NVIDIA driver found ({LIBRARY} is not on the loader's path)"),
            "Measure the CPU with --device cpu".to_owned(),
        )
    };
    Some(Fault::Unavailable { what: "CUDA", why, hint })
}

fn find_library(root: &Path, library_path: Option<&OsStr>) -> bool {
    let listed = library_path.map(std::env::split_paths).into_iter().flatten();
    // An empty entry would mean the current folder, which is never searched.
    let listed = listed.filter(|folder| folder.is_absolute());
    let mut folders = listed.chain(FOLDERS.iter().map(|folder| root.join(folder)));
    folders.any(|folder: PathBuf| folder.join(LIBRARY).exists()) || cached(root)
}

/// The loader's cache holds the names of all libraries as plain bytes.
fn cached(root: &Path) -> bool {
    let cache = std::fs::read(root.join("etc/ld.so.cache")).unwrap_or_default();
    cache.windows(LIBRARY.len()).any(|window| window == LIBRARY.as_bytes())
}

/// ` 580.65` from the kernel module's version line; empty where there is none.
fn version(root: &Path) -> String {
    let text = std::fs::read_to_string(root.join("proc/driver/nvidia/version")).unwrap_or_default();
    let is_version = |word: &&str| word.contains('.') && word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let first = text.split_whitespace().find(is_version);
    first
        .map(|version| format!(" (kernel module {})", version.chars().take(20).collect::<String>()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn said(root: &Path, path: Option<&OsStr>) -> String {
        why_not(root, path).map(|fault| fault.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_machine_without_a_driver_is_told_so_and_sent_to_the_cpu() {
        let root = tempfile::tempdir().unwrap();
        let said = said(root.path(), None);
        assert!(said.contains("no NVIDIA driver found") && said.contains("--device cpu"), "{said}");
    }

    #[test]
    fn a_device_without_its_library_is_told_which_library_is_missing_and_the_module_s_version() {
        let root = tempfile::tempdir().unwrap();
        let proc = root.path().join("proc/driver/nvidia");
        fs::create_dir_all(&proc).unwrap();
        fs::write(proc.join("version"), "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul").unwrap();
        fs::create_dir_all(root.path().join("dev")).unwrap();
        fs::write(root.path().join("dev/nvidiactl"), "").unwrap();
        let said = said(root.path(), None);
        assert!(
            said.contains("libcuda.so.1 is not on the loader's path") && said.contains("LD_LIBRARY_PATH"),
            "{said}"
        );
        assert!(said.contains("580.65.06"), "{said}");
    }

    #[test]
    fn a_driver_found_by_path_folder_or_cache_has_its_own_reasons() {
        let library = |folder: &Path| {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join(LIBRARY), "").unwrap();
        };
        let (by_path, by_folder, by_cache) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        library(&by_path.path().join("elsewhere"));
        library(&by_folder.path().join("usr/lib64"));
        fs::create_dir_all(by_cache.path().join("etc")).unwrap();
        fs::write(by_cache.path().join("etc/ld.so.cache"), b"\0\xfflibc.so.6\0libcuda.so.1\0").unwrap();
        let list = by_path.path().join("elsewhere").into_os_string();
        assert_eq!(said(by_path.path(), Some(&list)), "");
        assert_eq!(said(by_folder.path(), None), "");
        assert_eq!(said(by_cache.path(), None), "");
    }
}
