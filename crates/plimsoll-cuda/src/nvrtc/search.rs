//! Candidates for NVRTC: libraries and the builtins next to them. Nothing is opened here.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::WHAT;
use crate::toolkit::{Places, children, numbers};
use plimsoll_gpu::Unavailable;

/// The environment variable that holds the absolute path of the library or its folder.
pub const VARIABLE: &str = "PLIMSOLL_NVRTC";
/// Bare names passed to the loader, newest first.
const LOADER_NAMES: [&str; 4] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"];
/// Folders of a toolkit that hold libraries.
const TOOLKIT_FOLDERS: [&str; 4] = ["lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "lib"];
/// Folders of a Python environment's packages that hold NVRTC: the wheels of CUDA 13, and older ones.
const WHEEL_FOLDERS: [&str; 2] = ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"];

/// A library that may exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// An absolute path, or a bare name for the loader.
    pub library: PathBuf,
    /// Absolute paths of libraries to open first: NVRTC itself loads its builtins by bare name.
    pub builtins: Vec<PathBuf>,
}

/// The candidates that the user named, by argument or else by variable; empty if the user named none.
pub(super) fn find_named(explicit: Option<&Path>, variable: Option<&OsStr>) -> Result<Vec<Candidate>, Unavailable> {
    let (path, by) = match (explicit, variable.filter(|value| !value.is_empty())) {
        (Some(path), _) => (path, "the given path"),
        (None, Some(path)) => (Path::new(path), VARIABLE),
        (None, None) => return Ok(Vec::new()),
    };
    let refuse = |why: &str| {
        let hint = "Give the absolute path of libnvrtc.so.13 or of the folder that holds it";
        Err(Unavailable::new(WHAT, format!("{by} '{}' {why}", path.display()), hint))
    };
    if !path.is_absolute() {
        return refuse("is relative");
    }
    let found = if path.is_dir() { in_folder(path) } else { vec![candidate(path.to_path_buf())] };
    if found.is_empty() {
        return refuse("is a folder without libnvrtc.so");
    }
    if !path.exists() {
        return refuse("does not exist");
    }
    Ok(found)
}

/// All other candidates, in search order.
pub(super) fn find_usual(places: &Places) -> Vec<Candidate> {
    let folders = places.toolkits().flat_map(|toolkit| TOOLKIT_FOLDERS.map(|folder| toolkit.join(folder)));
    let wheels = places.packages().flat_map(|packages| WHEEL_FOLDERS.map(|folder| packages.join(folder)));
    let all = folders.chain(wheels).chain(places.libraries());
    let mut found: Vec<Candidate> = all.flat_map(|folder| in_folder(&folder)).collect();
    if places.is_loader_safe() {
        found.extend(LOADER_NAMES.map(|name| Candidate { library: name.into(), builtins: Vec::new() }));
    }
    found
}

/// The libraries of a folder, newest first. `libnvrtc.so.13` and the file that it links to count once.
fn in_folder(folder: &Path) -> Vec<Candidate> {
    let is_library =
        |name: &str| name.strip_prefix("libnvrtc.so").is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let libraries = children(folder, is_library).into_iter().map(candidate);
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut first = |path: &Path| {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let new = !seen.contains(&real);
        seen.push(real);
        new
    };
    libraries.filter(|candidate| first(&candidate.library)).collect()
}

/// A library with the builtins of its major version next to it.
fn candidate(library: PathBuf) -> Candidate {
    let real = library.canonicalize().unwrap_or_else(|_| library.clone());
    let major = real.file_name().and_then(OsStr::to_str).and_then(|name| numbers(name).first().copied());
    let folder = library.parent().unwrap_or(Path::new("/"));
    let beside = children(folder, |name| {
        let rest = name.strip_prefix("libnvrtc-builtins.so");
        rest.is_some_and(|rest| major.is_none() || rest.is_empty() || numbers(rest).first() == major.as_ref())
    });
    Candidate { library, builtins: beside }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn install(folder: &Path, names: &[&str]) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        for name in names {
            fs::write(folder.join(name), "").unwrap();
        }
        folder.to_path_buf()
    }

    const NVRTC_13: [&str; 4] =
        ["libnvrtc.so.13", "libnvrtc-builtins.so.13.0", "libnvrtc.alt.so.13", "libnvrtc-builtins.alt.so.13.0"];

    fn libraries(candidates: &[Candidate], root: &Path) -> Vec<String> {
        let relative = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
        candidates.iter().map(|candidate| relative(&candidate.library)).collect()
    }

    #[test]
    fn places_are_searched_in_the_documented_order_and_the_newest_version_first() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        install(&root.join("home/lib64"), &["libnvrtc.so.12"]);
        install(&root.join("usr/local/cuda-12.9/lib64"), &["libnvrtc.so.12"]);
        install(&root.join("usr/local/cuda-12.10/lib64"), &["libnvrtc.so.12"]);
        install(&root.join("venv/lib/python3.11/site-packages/nvidia/cu13/lib"), &NVRTC_13);
        install(&root.join("listed"), &["libnvrtc.so.11.2"]);
        let places = Places {
            toolkits: vec![root.join("home")],
            environments: vec![root.join("venv")],
            library_path: Some(root.join("listed").into_os_string()),
            root: root.to_path_buf(),
            ..Places::default()
        };
        let expected = [
            "home/lib64/libnvrtc.so.12",
            "usr/local/cuda-12.10/lib64/libnvrtc.so.12",
            "usr/local/cuda-12.9/lib64/libnvrtc.so.12",
            "venv/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
            "listed/libnvrtc.so.11.2",
            "libnvrtc.so.13",
            "libnvrtc.so.12",
            "libnvrtc.so.11.2",
            "libnvrtc.so",
        ];
        assert_eq!(libraries(&find_usual(&places), root), expected);
    }

    #[test]
    fn builtins_match_the_version_of_their_library() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = install(&temporary.path().join("lib"), &NVRTC_13);
        install(&folder, &["libnvrtc-builtins.so.12.8"]);
        let found = find_named(Some(&folder), None).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].builtins, [folder.join("libnvrtc-builtins.so.13.0")]);
    }

    #[test]
    fn a_named_library_is_used_and_relative_paths_are_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = install(&temporary.path().join("lib"), &NVRTC_13);
        assert_eq!(find_named(None, Some(folder.as_os_str())).unwrap()[0].library, folder.join("libnvrtc.so.13"));
        for path in ["libnvrtc.so.13", "./libnvrtc.so.13", "."] {
            let error = find_named(Some(Path::new(path)), None).unwrap_err();
            assert!(error.why.contains("relative"), "{error}");
        }
        for path in ["/nowhere/libnvrtc.so.13", "/"] {
            assert!(find_named(Some(Path::new(path)), None).is_err(), "{path}");
        }
    }

    #[test]
    fn the_loader_is_not_used_if_it_would_search_the_current_folder() {
        let names = |list: &str| {
            let places = Places { library_path: Some(list.into()), root: "/nowhere".into(), ..Places::default() };
            find_usual(&places).len()
        };
        assert_eq!(names("/usr/lib"), LOADER_NAMES.len());
        assert_eq!(names(""), LOADER_NAMES.len());
        for list in ["/usr/lib:", ":/usr/lib", ".", "lib:/usr/lib"] {
            assert_eq!(names(list), 0, "{list}");
        }
    }
}
