//! Where CUPTI may be. Nothing is opened here.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{VARIABLE, WHAT};
use crate::toolkit::{Places, children};
use crate::unavailable::Unavailable;

/// Names that the loader is asked for, the newest first.
const LOADER_NAMES: [&str; 2] = ["libcupti.so.13", "libcupti.so.12"];
/// Folders of a toolkit that hold it.
const TOOLKIT_FOLDERS: [&str; 5] =
    ["extras/CUPTI/lib64", "lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "lib"];
/// Folders of a Python environment's packages that hold it: the wheels of CUDA 13, and those before.
const WHEEL_FOLDERS: [&str; 2] = ["nvidia/cu13/lib", "nvidia/cuda_cupti/lib"];
/// What CUPTI opens by bare name.
const COMPANIONS: [&str; 2] = ["libnvperf_host.so", "libnvperf_target.so"];

/// What the user named, by argument or else by variable: a file or its folder. `None` where nothing was.
pub(super) fn given(explicit: Option<&Path>, variable: Option<&OsStr>) -> Result<Option<Vec<PathBuf>>, Unavailable> {
    let (path, by) = match (explicit, variable.filter(|value| !value.is_empty())) {
        (Some(path), _) => (path, "the path given"),
        (None, Some(path)) => (Path::new(path), VARIABLE),
        (None, None) => return Ok(None),
    };
    let refuse = |why: &str| {
        let mend = "Give the absolute path of libcupti.so or of the folder that holds it";
        Err(Unavailable::new(WHAT, format!("{by} '{}' {why}", path.display()), mend))
    };
    if !path.is_absolute() {
        return refuse("is relative");
    }
    if !path.exists() {
        return refuse("does not exist");
    }
    let found = if path.is_dir() { in_folder(path) } else { vec![path.to_path_buf()] };
    if found.is_empty() { refuse("is a folder without libcupti.so") } else { Ok(Some(found)) }
}

/// Every other place, in the order of the search.
pub(super) fn usual(places: &Places) -> Vec<PathBuf> {
    let folders = places.toolkits().flat_map(|toolkit| TOOLKIT_FOLDERS.map(|folder| toolkit.join(folder)));
    let wheels = places.packages().flat_map(|packages| WHEEL_FOLDERS.map(|folder| packages.join(folder)));
    let all = folders.chain(wheels).chain(places.libraries());
    let mut found: Vec<PathBuf> = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    for path in all.flat_map(|folder| in_folder(&folder)) {
        // `libcupti.so.13` and what it links to are one, and so are a toolkit's two ways to its folder.
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        if !seen.contains(&real) {
            seen.push(real);
            found.push(path);
        }
    }
    if places.loader_is_safe() {
        found.extend(LOADER_NAMES.map(PathBuf::from));
    }
    found
}

fn in_folder(folder: &Path) -> Vec<PathBuf> {
    children(folder, |name| {
        name.strip_prefix("libcupti.so").is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// What to open before a library, by absolute path: it asks for them by bare name.
pub(super) fn companions(library: &Path) -> Vec<PathBuf> {
    let folder = library.parent().filter(|folder| folder.is_absolute());
    let beside = folder.into_iter().flat_map(|folder| COMPANIONS.map(|name| folder.join(name)));
    beside.filter(|path| path.exists()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn install(folder: &Path, names: &[&str]) {
        fs::create_dir_all(folder).unwrap();
        for name in names {
            fs::write(folder.join(name), "").unwrap();
        }
    }

    #[test]
    fn toolkits_come_before_wheels_and_the_loader_is_asked_last() {
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
        let found = usual(&places);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].ends_with("home/extras/CUPTI/lib64/libcupti.so.12"));
        assert!(found[1].ends_with("nvidia/cu13/lib/libcupti.so.13"));
        assert_eq!(found[2..], LOADER_NAMES.map(PathBuf::from));
        assert_eq!(companions(&found[0]), [root.join("home/extras/CUPTI/lib64/libnvperf_host.so")]);
        assert!(companions(&found[2]).is_empty());
    }

    #[test]
    fn a_path_that_the_user_names_is_absolute_and_there() {
        let temporary = tempfile::tempdir().unwrap();
        install(temporary.path(), &["libcupti.so.13"]);
        assert_eq!(given(Some(temporary.path()), None).unwrap().unwrap().len(), 1);
        assert_eq!(given(None, Some(OsStr::new(""))).unwrap(), None);
        for path in ["libcupti.so.13", "/nowhere/libcupti.so", "/"] {
            assert!(given(None, Some(OsStr::new(path))).is_err(), "{path}");
        }
    }
}
