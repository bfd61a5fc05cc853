//! Folders that may hold parts of the CUDA toolkit, in search order. Relative paths are skipped and the current folder is never
//! searched, so that a file lying in a data folder can't be loaded into this process. `nvrtc`, `cupti`, `cublas`, `nccl` and
//! `disassembler` say which files they need.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_gpu::Unavailable;

/// The parts of the environment and the machine that the search depends on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// `CUDA_HOME`, `CUDA_PATH`.
    pub toolkits: Vec<PathBuf>,
    /// Prefixes of Python environments, the active one first.
    pub environments: Vec<PathBuf>,
    /// Folders of `PATH`.
    pub programs: Vec<PathBuf>,
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<OsString>,
    /// The root of the file system.
    pub root: PathBuf,
}

impl Places {
    /// The places of this process.
    pub fn from_environment() -> Self {
        let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let programs: Vec<PathBuf> = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
        let python = programs.iter().find(|folder| folder.join("python3").exists());
        let python = python.and_then(|folder| folder.parent().map(Path::to_path_buf));
        let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(folder);
        let user = folder("HOME").map(|home| home.join(".local"));
        Self {
            toolkits: ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(folder).collect(),
            environments: active.chain(python).chain(user).collect(),
            programs,
            library_path: std::env::var_os("LD_LIBRARY_PATH"),
            root: PathBuf::from("/"),
        }
    }

    /// Roots of toolkits: those the user named, then the usual ones, newest first.
    pub fn toolkits(&self) -> impl Iterator<Item = PathBuf> {
        let local = self.root.join("usr/local");
        let versions = children(&local, |name| name.starts_with("cuda-"));
        let usual = [local.join("cuda")].into_iter().chain(versions).chain([self.root.join("opt/cuda")]);
        self.toolkits.iter().cloned().chain(usual)
    }

    /// Folders of Python packages.
    pub fn packages(&self) -> impl Iterator<Item = PathBuf> {
        let pythons = self.environments.iter().flat_map(|prefix| {
            ["lib", "lib64"].map(|lib| children(&prefix.join(lib), |name| name.starts_with("python3")))
        });
        pythons.flatten().map(|python| python.join("site-packages"))
    }

    /// Absolute folders of `LD_LIBRARY_PATH`.
    pub fn libraries(&self) -> impl Iterator<Item = PathBuf> {
        let listed = self.library_path.as_deref().map(std::env::split_paths).into_iter().flatten();
        listed.filter(|folder| folder.is_absolute())
    }

    /// Whether `LD_LIBRARY_PATH` has only absolute entries. The loader resolves an empty or relative entry below the current
    /// folder, so a bare name is passed to it only if this is true.
    pub fn is_loader_safe(&self) -> bool {
        let list = self.library_path.as_deref().filter(|list| !list.is_empty());
        list.is_none_or(|list| std::env::split_paths(list).all(|folder| folder.is_absolute()))
    }
}

/// A library of the toolkit: its names, and the folders that may hold it.
pub(crate) struct LibrarySpec {
    /// Its name in error messages.
    pub what: &'static str,
    /// The environment variable that holds the absolute path of the library or its folder.
    pub variable: &'static str,
    /// Its file name without a version: `libcupti.so`.
    pub file: &'static str,
    /// Folders of a toolkit.
    pub toolkit_folders: &'static [&'static str],
    /// Folders of a Python environment's packages.
    pub wheel_folders: &'static [&'static str],
    /// Bare names passed to the loader, newest first.
    pub loader_names: &'static [&'static str],
}

impl LibrarySpec {
    /// The candidates that the user named, by argument or else by variable: a file or its folder. `None` if the user named none.
    ///
    /// # Errors
    /// The path is relative, or no such library is there.
    pub fn find_named(
        &self,
        explicit: Option<&Path>,
        variable: Option<&OsStr>,
    ) -> Result<Option<Vec<PathBuf>>, Unavailable> {
        let (path, by) = match (explicit, variable.filter(|value| !value.is_empty())) {
            (Some(path), _) => (path, "the given path"),
            (None, Some(path)) => (Path::new(path), self.variable),
            (None, None) => return Ok(None),
        };
        let refuse = |why: &str| {
            let hint = format!("Give the absolute path of {} or of the folder that holds it", self.file);
            Err(Unavailable::new(self.what, format!("{by} '{}' {why}", path.display()), hint))
        };
        if !path.is_absolute() {
            return refuse("is relative");
        }
        if !path.exists() {
            return refuse("does not exist");
        }
        let found = if path.is_dir() { self.in_folder(path) } else { vec![path.to_path_buf()] };
        if found.is_empty() { refuse(&format!("is a folder without {}", self.file)) } else { Ok(Some(found)) }
    }

    /// All other candidates, in search order.
    pub fn find_usual(&self, places: &Places) -> Vec<PathBuf> {
        let below = |roots: Vec<PathBuf>, folders: &'static [&'static str]| {
            roots.into_iter().flat_map(|root| folders.iter().map(move |folder| root.join(folder)))
        };
        let toolkits = below(places.toolkits().collect(), self.toolkit_folders);
        let wheels = below(places.packages().collect(), self.wheel_folders);
        let all = toolkits.chain(wheels).chain(places.libraries());
        let mut found: Vec<PathBuf> = Vec::new();
        let mut seen: Vec<PathBuf> = Vec::new();
        for path in all.flat_map(|folder| self.in_folder(&folder)) {
            // `libcupti.so.13` and the file that it links to are the same, and a toolkit's folder may have two paths.
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            if !seen.contains(&real) {
                seen.push(real);
                found.push(path);
            }
        }
        if places.is_loader_safe() {
            found.extend(self.loader_names.iter().map(PathBuf::from));
        }
        found
    }

    fn in_folder(&self, folder: &Path) -> Vec<PathBuf> {
        children(folder, |name| {
            name.strip_prefix(self.file).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }
}

/// Entries whose names match, newest version first.
pub(crate) fn children(folder: &Path, is_match: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let names = |entry: fs::DirEntry| entry.file_name().to_str().filter(|name| is_match(name)).map(str::to_owned);
    let mut found: Vec<String> = fs::read_dir(folder).into_iter().flatten().flatten().filter_map(names).collect();
    found.sort_by_key(|name| std::cmp::Reverse(numbers(name)));
    found.into_iter().map(|name| folder.join(name)).collect()
}

/// The numbers in a name, so that 12.10 compares newer than 12.9.
pub(crate) fn numbers(name: &str) -> Vec<u32> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}
