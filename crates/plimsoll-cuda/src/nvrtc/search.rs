//! Where NVRTC may be. Only names and folders: nothing is opened here. Relative paths are refused and the current folder
//! is never looked into, so that a file left in a folder of data can't become part of this process.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::WHAT;
use crate::unavailable::Unavailable;

/// Names the library, or its folder, by absolute path.
pub const VARIABLE: &str = "PLIMSOLL_NVRTC";
/// Names that the loader is asked for, the newest first.
const LOADER_NAMES: [&str; 4] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"];
/// Folders of a toolkit that hold libraries.
const TOOLKIT_FOLDERS: [&str; 4] = ["lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "lib"];
/// Folders of a Python environment's packages that hold NVRTC: the wheels of CUDA 13, and those before.
const WHEEL_FOLDERS: [&str; 2] = ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"];

/// A library that may be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// An absolute path, or a bare name for the loader.
    pub library: PathBuf,
    /// What to open first, by absolute path: NVRTC itself asks for it by bare name.
    pub builtins: Vec<PathBuf>,
}

/// What the search depends on of the process and the machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// [`VARIABLE`].
    pub variable: Option<OsString>,
    /// `CUDA_HOME`, `CUDA_PATH`.
    pub toolkits: Vec<PathBuf>,
    /// Prefixes of Python environments, the active one first.
    pub environments: Vec<PathBuf>,
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<OsString>,
    /// The root of the file system.
    pub root: PathBuf,
}

impl Places {
    pub(super) fn of_process() -> Self {
        let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let python = std::env::split_paths(&path).find(|bin| bin.is_absolute() && bin.join("python3").exists());
        let python = python.and_then(|bin| bin.parent().map(Path::to_path_buf));
        let user = folder("HOME").map(|home| home.join(".local"));
        Self {
            variable: std::env::var_os(VARIABLE).filter(|value| !value.is_empty()),
            toolkits: ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(folder).collect(),
            environments: ["VIRTUAL_ENV", "CONDA_PREFIX"]
                .into_iter()
                .filter_map(folder)
                .chain(python)
                .chain(user)
                .collect(),
            library_path: std::env::var_os("LD_LIBRARY_PATH"),
            root: PathBuf::from("/"),
        }
    }

    /// What the user named, by argument or else by variable; empty where nothing was.
    pub(super) fn given(&self, explicit: Option<&Path>) -> Result<Vec<Candidate>, Unavailable> {
        let variable = self.variable.as_deref().map(Path::new);
        let (path, by) = match (explicit, variable) {
            (Some(path), _) => (path, "the path given"),
            (None, Some(path)) => (path, VARIABLE),
            (None, None) => return Ok(Vec::new()),
        };
        let refuse = |why: &str| {
            let mend = "Give the absolute path of libnvrtc.so.13 or of the folder that holds it";
            Err(Unavailable::new(WHAT, format!("{by} '{}' {why}", path.display()), mend))
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

    /// Every other place, in the order of the search.
    pub(super) fn usual(&self) -> Vec<Candidate> {
        let local = self.root.join("usr/local");
        let versions = children(&local, |name| name == "cuda" || name.starts_with("cuda-"));
        let toolkits = self.toolkits.iter().cloned().chain(versions).chain([self.root.join("opt/cuda")]);
        let folders = toolkits.flat_map(|toolkit| TOOLKIT_FOLDERS.map(|folder| toolkit.join(folder)));
        let packages = self.environments.iter().flat_map(|prefix| site_packages(prefix));
        let wheels = packages.flat_map(|packages| WHEEL_FOLDERS.map(|folder| packages.join(folder)));
        let listed = self.library_path.as_deref().map(std::env::split_paths).into_iter().flatten();
        let listed = listed.filter(|folder| folder.is_absolute());
        let mut found: Vec<Candidate> =
            folders.chain(wheels).chain(listed).flat_map(|folder| in_folder(&folder)).collect();
        if self.loader_is_safe() {
            let by_name = LOADER_NAMES.map(|name| Candidate { library: name.into(), builtins: Vec::new() });
            found.extend(by_name);
        }
        found
    }

    /// The loader takes an empty or relative entry of `LD_LIBRARY_PATH` for a place below the current folder.
    fn loader_is_safe(&self) -> bool {
        self.library_path
            .as_deref()
            .filter(|list| !list.is_empty())
            .is_none_or(|list| std::env::split_paths(list).all(|folder| folder.is_absolute()))
    }
}

/// Entries whose names please, the last in the order of names first (newest versions).
fn children(folder: &Path, pleases: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let names = |entry: fs::DirEntry| entry.file_name().to_str().filter(|name| pleases(name)).map(str::to_owned);
    let mut found: Vec<String> = fs::read_dir(folder).into_iter().flatten().flatten().filter_map(names).collect();
    found.sort_by_key(|name| std::cmp::Reverse(numbers(name)));
    found.into_iter().map(|name| folder.join(name)).collect()
}

/// The numbers in a name, so that 12.10 is newer than 12.9.
fn numbers(name: &str) -> Vec<u32> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

fn site_packages(prefix: &Path) -> Vec<PathBuf> {
    let pythons = ["lib", "lib64"].map(|lib| children(&prefix.join(lib), |name| name.starts_with("python3")));
    pythons.into_iter().flatten().map(|python| python.join("site-packages")).collect()
}

/// The libraries of a folder, the newest first. `libnvrtc.so.13` and what it links to are one.
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

/// A library with the builtins beside it that are of its major version.
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
        assert_eq!(libraries(&places.usual(), root), expected);
    }

    #[test]
    fn the_builtins_beside_a_library_are_those_of_its_version() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = install(&temporary.path().join("lib"), &NVRTC_13);
        install(&folder, &["libnvrtc-builtins.so.12.8"]);
        let found = Places::default().given(Some(&folder)).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].builtins, [folder.join("libnvrtc-builtins.so.13.0")]);
    }

    #[test]
    fn what_the_user_names_comes_before_all_and_relative_paths_are_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = install(&temporary.path().join("lib"), &NVRTC_13);
        let places = Places { variable: Some(folder.clone().into_os_string()), ..Places::default() };
        assert_eq!(places.given(None).unwrap()[0].library, folder.join("libnvrtc.so.13"));
        for path in ["libnvrtc.so.13", "./libnvrtc.so.13", "."] {
            let error = places.given(Some(Path::new(path))).unwrap_err();
            assert!(error.why.contains("relative"), "{error}");
        }
        for path in ["/nowhere/libnvrtc.so.13", "/"] {
            assert!(places.given(Some(Path::new(path))).is_err(), "{path}");
        }
    }

    #[test]
    fn the_loader_is_not_asked_where_it_would_look_into_the_current_folder() {
        let names = |list: &str| {
            let places = Places { library_path: Some(list.into()), root: "/nowhere".into(), ..Places::default() };
            places.usual().len()
        };
        assert_eq!(names("/usr/lib"), LOADER_NAMES.len());
        assert_eq!(names(""), LOADER_NAMES.len());
        for list in ["/usr/lib:", ":/usr/lib", ".", "lib:/usr/lib"] {
            assert_eq!(names(list), 0, "{list}");
        }
    }
}
