//! Counts CUDA devices, or says why there are none. If no driver can be loaded, the files on the machine tell apart a machine
//! without a driver from one whose driver isn't found.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use plimsoll_core::Fault;
use plimsoll_cuda::driver::LIBRARY_OVERRIDE;

const LIBRARY: &str = "libcuda.so.1";
/// Where the loader looks in addition to `LD_LIBRARY_PATH` and its cache (ld.so(8)), and where containers mount the driver.
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

/// The number of CUDA devices visible to this process, at least one.
///
/// # Errors
/// [`Fault::Unavailable`] with the reason and a hint.
pub fn cuda_devices() -> Result<u32, Fault> {
    plimsoll_cuda::devices().map_err(|fault| {
        let library_path = std::env::var_os("LD_LIBRARY_PATH");
        let no_library = || explain_missing_driver(Path::new("/"), library_path.as_deref());
        let has_override = std::env::var_os(LIBRARY_OVERRIDE).is_some();
        if has_override { fault } else { no_library().unwrap_or(fault) }
    })
}

/// Why no driver can be loaded, judged only by files; `None` if the library exists, as the driver then gives the reason.
fn explain_missing_driver(root: &Path, library_path: Option<&OsStr>) -> Option<Fault> {
    if find_library(LIBRARY, root, library_path).is_some() {
        return None;
    }
    let has_device = root.join("dev/nvidiactl").exists() || root.join("dev/dxg").exists();
    let (why, hint) = if has_device {
        (
            format!("there is an NVIDIA device{}, but {LIBRARY} is not on the loader's path", version(root)),
            format!(
                "Install the driver's user-space libraries or add their folder to LD_LIBRARY_PATH so that {LIBRARY} is found"
            ),
        )
    } else {
        (
            format!("no NVIDIA driver found ({LIBRARY} is not on the loader's path)"),
            "Use the device `cpu`, or install the driver".to_owned(),
        )
    };
    Some(Fault::Unavailable { what: "CUDA", why, hint })
}

/// Where the loader finds a library: `Some` with its path, which is unknown if only the loader's cache names it.
pub(crate) fn find_library(name: &str, root: &Path, library_path: Option<&OsStr>) -> Option<Option<PathBuf>> {
    let listed = library_path.map(std::env::split_paths).into_iter().flatten();
    // An empty entry would mean the current folder, which is never searched.
    let listed = listed.filter(|folder| folder.is_absolute());
    let folders = listed.chain(FOLDERS.iter().map(|folder| root.join(folder)));
    let found = folders.map(|folder| folder.join(name)).find(|path| path.exists());
    found.map(Some).or_else(|| is_in_loader_cache(name, root).then_some(None))
}

/// Whether the loader's cache, which has library names as plain bytes, names this one.
fn is_in_loader_cache(name: &str, root: &Path) -> bool {
    let cache = std::fs::read(root.join("etc/ld.so.cache")).unwrap_or_default();
    cache.windows(name.len()).any(|window| window == name.as_bytes())
}

/// ` (kernel module 580.65)` from the kernel module's version file; empty if there is none.
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

    fn message(root: &Path, path: Option<&OsStr>) -> String {
        explain_missing_driver(root, path).map(|fault| fault.to_string()).unwrap_or_default()
    }

    #[test]
    fn machine_without_a_driver_gets_a_hint_to_use_the_cpu() {
        let root = tempfile::tempdir().unwrap();
        let message = message(root.path(), None);
        assert!(message.contains("no NVIDIA driver found") && message.contains("Use the device `cpu`"), "{message}");
    }

    #[test]
    fn missing_library_is_reported_with_the_kernel_module_version() {
        let root = tempfile::tempdir().unwrap();
        let proc = root.path().join("proc/driver/nvidia");
        fs::create_dir_all(&proc).unwrap();
        fs::write(proc.join("version"), "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul").unwrap();
        fs::create_dir_all(root.path().join("dev")).unwrap();
        fs::write(root.path().join("dev/nvidiactl"), "").unwrap();
        let message = message(root.path(), None);
        assert!(
            message.contains("libcuda.so.1 is not on the loader's path") && message.contains("LD_LIBRARY_PATH"),
            "{message}"
        );
        assert!(message.contains("580.65.06"), "{message}");
    }

    #[test]
    fn driver_found_by_path_folder_or_cache_gives_its_own_reason() {
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
        assert_eq!(message(by_path.path(), Some(&list)), "");
        assert_eq!(message(by_folder.path(), None), "");
        assert_eq!(message(by_cache.path(), None), "");
    }
}
