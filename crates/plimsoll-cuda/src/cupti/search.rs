//! Candidates for CUPTI. Nothing is opened here.

use std::path::{Path, PathBuf};

use super::{VARIABLE, WHAT};
use crate::toolkit::LibrarySpec;

/// Where the library may be: in toolkits, in the wheels of CUDA 13 and older ones, and by name.
pub(super) const LIBRARY: LibrarySpec = LibrarySpec {
    what: WHAT,
    variable: VARIABLE,
    file: "libcupti.so",
    toolkit_folders: &["extras/CUPTI/lib64", "lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "lib"],
    wheel_folders: &["nvidia/cu13/lib", "nvidia/cuda_cupti/lib"],
    loader_names: &["libcupti.so.13", "libcupti.so.12"],
};
/// Libraries that CUPTI opens by bare name.
const COMPANIONS: [&str; 2] = ["libnvperf_host.so", "libnvperf_target.so"];

/// The companions next to a library, which must be opened before it.
pub(super) fn companions(library: &Path) -> Vec<PathBuf> {
    let folder = library.parent().filter(|folder| folder.is_absolute());
    let companions = folder.into_iter().flat_map(|folder| COMPANIONS.map(|name| folder.join(name)));
    companions.filter(|path| path.exists()).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;

    use super::*;
    use crate::toolkit::Places;

    fn install(folder: &Path, names: &[&str]) {
        fs::create_dir_all(folder).unwrap();
        for name in names {
            fs::write(folder.join(name), "").unwrap();
        }
    }

    #[test]
    fn toolkits_come_before_wheels_and_the_loader_comes_last() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        install(&root.join("home/extras/CUPTI/lib64"), &["libcupti.so.12", "libnvperf_host.so"]);
        install(&root.join("venv/lib/python3.12/site-packages/nvidia/cu13/lib"), &["libcupti.so.13", "libcuptix.so"]);
        let places = Places {
            toolkits: vec![root.join("home")],
            environments: vec![root.join("venv")],
            root: root.to_path_buf(),
            ..Places::default()
        };
        let found = LIBRARY.find_usual(&places);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].ends_with("home/extras/CUPTI/lib64/libcupti.so.12"));
        assert!(found[1].ends_with("nvidia/cu13/lib/libcupti.so.13"));
        assert_eq!(found[2..], ["libcupti.so.13", "libcupti.so.12"].map(PathBuf::from));
        assert_eq!(companions(&found[0]), [root.join("home/extras/CUPTI/lib64/libnvperf_host.so")]);
        assert!(companions(&found[2]).is_empty());
    }

    #[test]
    fn a_named_path_must_be_absolute_and_exist() {
        let temporary = tempfile::tempdir().unwrap();
        install(temporary.path(), &["libcupti.so.13"]);
        assert_eq!(LIBRARY.find_named(Some(temporary.path()), None).unwrap().unwrap().len(), 1);
        assert_eq!(LIBRARY.find_named(None, Some(OsStr::new(""))).unwrap(), None);
        for path in ["libcupti.so.13", "/nowhere/libcupti.so", "/"] {
            assert!(LIBRARY.find_named(None, Some(OsStr::new(path))).is_err(), "{path}");
        }
    }
}
