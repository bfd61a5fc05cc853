//! Finds, opens and calls NVRTC, which compiles CUDA C++ at run time. `search` lists where it may be, and `library` makes the
//! calls.
//!
//! It compiles to cubins, not PTX: an older driver refuses PTX of a newer compiler, while a cubin works within a CUDA major
//! version. So a compiler whose major version is above the driver's is skipped.

#[allow(unsafe_code)]
mod library;
mod search;

use std::path::Path;

use plimsoll_gen::Target;

use crate::compile::{Compiler, Program};
use crate::toolkit::Places;
use library::Library;
use plimsoll_gpu::Unavailable;
use search::Candidate;
pub use search::VARIABLE;

/// Its name in error messages.
const WHAT: &str = "NVRTC";
/// How to install it.
const HINT: &str = "Install it into the active Python environment with 'pip install nvidia-cuda-nvrtc' (for a driver of CUDA 12: \
                    'nvidia-cuda-nvrtc-cu12'), or install the CUDA toolkit, or set PLIMSOLL_NVRTC to the library's absolute path";
/// The first version with `--minimal`, which omits declarations that few programs need (release notes of CUDA 12.4).
const MINIMAL: Version = (12, 4);
/// Most characters of a compiler's log that an error carries.
const MAX_LOG: usize = 4000;

/// A version of CUDA: major and minor.
pub type Version = (u32, u32);

/// An opened compiler.
#[derive(Debug)]
pub struct Nvrtc {
    library: Library,
    version: Version,
    /// Compute capabilities times ten, ascending.
    capabilities: Vec<u32>,
}

/// The output of a compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The machine code, an ELF file.
    pub cubin: Vec<u8>,
    /// Warnings; empty if there are none.
    pub log: String,
}

impl Nvrtc {
    /// Finds and opens the compiler: `explicit` (a file or its folder), else `PLIMSOLL_NVRTC`, else the toolkits of `CUDA_HOME` and
    /// `CUDA_PATH`, the usual toolkit folders, the active Python environment, and last the loader's search path. Takes the first
    /// whose major version is at most `major`.
    ///
    /// # Errors
    /// An explicit path that fails is an error: no other place is tried.
    pub fn find(explicit: Option<&Path>, major: Option<u32>) -> Result<Self, Unavailable> {
        let given = search::find_named(explicit, std::env::var_os(VARIABLE).as_deref())?;
        let candidates = if given.is_empty() { search::find_usual(&Places::from_environment()) } else { given };
        let mut failed: Vec<String> = Vec::new();
        for candidate in &candidates {
            match Self::open(candidate) {
                Ok(found) if major.is_none_or(|major| found.version.0 <= major) => return Ok(found),
                Ok(found) => failed.push(format!(
                    "{} belongs to CUDA {}.{}, newer than the driver's CUDA {}",
                    candidate.library.display(),
                    found.version.0,
                    found.version.1,
                    major.unwrap_or_default(),
                )),
                Err(why) => failed.extend(why),
            }
        }
        let why = match failed.first() {
            Some(first) => clean(first),
            None => "no libnvrtc.so in a toolkit folder, the active Python environment or the loader's search path"
                .to_owned(),
        };
        Err(Unavailable::new(WHAT, why, HINT))
    }

    /// Opens a candidate. The error is `None` for a bare name that the loader can't find.
    fn open(candidate: &Candidate) -> Result<Self, Option<String>> {
        let path = candidate.library.display();
        if candidate.library.is_absolute() && candidate.builtins.is_empty() {
            return Err(Some(format!("{path} has no libnvrtc-builtins next to it, without which nothing compiles")));
        }
        let library = Library::open(candidate)
            .map_err(|why| candidate.library.is_absolute().then(|| format!("can't open {path}: {why}")))?;
        let version = library.version().map_err(|why| Some(format!("{path}: {why}")))?;
        let capabilities = library.capabilities().map_err(|why| Some(format!("{path}: {why}")))?;
        Ok(Self { library, version, capabilities })
    }

    /// Its version of CUDA.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Compute capabilities that it compiles for, times ten, ascending.
    #[must_use]
    pub fn capabilities(&self) -> &[u32] {
        &self.capabilities
    }

    /// The target for a device of this compute capability (times ten): its own, or if this compiler is older than the device, the
    /// newest of the same major version, which the device can run. `None` if there is none.
    #[must_use]
    pub fn target(&self, capability: u32) -> Option<Target> {
        nearest(&self.capabilities, capability).map(Target::plain)
    }

    /// Compiles a source to machine code.
    ///
    /// # Errors
    /// The compiler's message.
    pub fn compile(&self, program: &Program<'_>) -> Result<Compiled, Unavailable> {
        let refused =
            |why: String| Unavailable::new(WHAT, why, "Use the sources and a target that this version ships with");
        let capability = program.target.parse::<Target>().map_err(|error| refused(error.to_string()))?.capability;
        if !self.capabilities.is_empty() && !self.capabilities.contains(&capability) {
            let (major, minor) = self.version;
            let why = format!("CUDA {major}.{minor} can't compile for {}", program.target);
            return Err(Unavailable::new(WHAT, why, HINT));
        }
        let target = format!("--gpu-architecture={}", program.target);
        // Our kernels use neither the runtime nor textures, whose declarations take a tenth of the time.
        let minimal = (self.version >= MINIMAL).then_some("--minimal");
        let own = [target.as_str()].into_iter().chain(minimal);
        let options: Vec<&str> = own.chain(program.options.iter().map(String::as_str)).collect();
        let (result, log) = self.library.compile(program, &options).map_err(|why| refused(clean(&why)))?;
        let log = clean(&log);
        match result {
            Ok(cubin) => Ok(Compiled { cubin, log }),
            Err(why) => Err(refused(format!("{} does not compile for {}: {why}\n{log}", program.name, program.target))),
        }
    }
}

#[allow(unsafe_code)]
// SAFETY: it is the driver vendor's compiler, or one that the user named in its place.
unsafe impl Compiler for Nvrtc {
    fn identity(&self) -> String {
        format!("NVRTC {}.{}", self.version.0, self.version.1)
    }

    fn compile(&self, program: &Program<'_>) -> Result<Vec<u8>, Unavailable> {
        Nvrtc::compile(self, program).map(|compiled| compiled.cubin)
    }
}

fn nearest(known: &[u32], capability: u32) -> Option<u32> {
    known.iter().copied().filter(|known| *known <= capability && known / 10 == capability / 10).max()
}

/// Removes control characters except line ends from foreign text, and limits its length.
fn clean(text: &str) -> String {
    let kept = text.trim_end_matches('\0').chars().filter(|c| *c == '\n' || !c.is_control());
    kept.take(MAX_LOG).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_device_gets_the_newest_target_of_its_major() {
        let known = [75, 80, 86, 90, 100];
        assert_eq!(nearest(&known, 89), Some(86));
        assert_eq!(nearest(&known, 90), Some(90));
        assert_eq!(nearest(&known, 103), Some(100));
        assert_eq!(nearest(&known, 120), None);
        assert_eq!(nearest(&known, 70), None);
    }

    #[test]
    fn a_named_file_that_is_no_library_is_reported_and_nothing_else_is_tried() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libnvrtc.so.13");
        std::fs::write(&library, "no library").unwrap();
        std::fs::write(folder.path().join("libnvrtc-builtins.so.13.0"), "no library").unwrap();
        let error = Nvrtc::find(Some(folder.path()), None).unwrap_err();
        assert!(error.why.contains("libnvrtc") && error.why.contains("can't open"), "{error}");
    }

    #[test]
    fn a_library_without_its_builtins_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("libnvrtc.so.13"), "").unwrap();
        let error = Nvrtc::find(Some(folder.path()), None).unwrap_err();
        assert!(error.why.contains("libnvrtc-builtins"), "{error}");
    }

    #[test]
    fn control_characters_are_removed_from_the_log() {
        assert_eq!(clean("a\x1b[31mb\nc\0\0"), "a[31mb\nc");
    }
}
