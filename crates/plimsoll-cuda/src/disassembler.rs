//! Finds nvdisasm, which turns cubins into text, and runs it with limits on time and output, since the input may be any file.
//! `plimsoll-gen` parses the text.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_gen::sass::{DISASSEMBLER_OPTIONS, MAX_LISTING};

use crate::toolkit::Places;
use plimsoll_gpu::Unavailable;

/// The environment variable that holds the program's absolute path.
pub const VARIABLE: &str = "PLIMSOLL_NVDISASM";
const WHAT: &str = "nvdisasm";
const HINT: &str = "Install it into the active Python environment with 'pip install nvidia-cuda-nvdisasm', or install the CUDA \
                    toolkit, or set PLIMSOLL_NVDISASM to its absolute path";
/// Folders of Python packages that hold it: the wheels of CUDA 13, and older ones.
const WHEEL_FOLDERS: [&str; 2] = ["nvidia/cu13/bin", "nvidia/cuda_nvdisasm/bin"];
/// Longest run; a large cubin takes seconds.
const DEADLINE: Duration = Duration::from_secs(60);
/// Most bytes of its error output that an error carries.
const MAX_ERROR_BYTES: u64 = 500;

/// A disassembler on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disassembler {
    program: PathBuf,
}

impl Disassembler {
    /// Finds it: `explicit`, else `PLIMSOLL_NVDISASM`, else the toolkits, the active Python environment and `PATH`.
    ///
    /// # Errors
    /// None was found, or the named path isn't one.
    pub fn find(explicit: Option<&Path>) -> Result<Self, Unavailable> {
        Self::find_in(&Places::from_environment(), explicit, std::env::var_os(VARIABLE))
    }

    fn find_in(places: &Places, explicit: Option<&Path>, variable: Option<OsString>) -> Result<Self, Unavailable> {
        let named = explicit.map(Path::to_path_buf).or(variable.filter(|v| !v.is_empty()).map(PathBuf::from));
        if let Some(program) = named {
            let refuse = |why| Err(Unavailable::new(WHAT, format!("'{}' {why}", program.display()), HINT));
            return match (program.is_absolute(), program.is_file()) {
                (false, _) => refuse("is a relative path"),
                (true, false) => refuse("is not a file"),
                (true, true) => Ok(Self { program }),
            };
        }
        let toolkits = places.toolkits().map(|toolkit| toolkit.join("bin"));
        let wheels = places.packages().flat_map(|packages| WHEEL_FOLDERS.map(|folder| packages.join(folder)));
        let folders = toolkits.chain(wheels).chain(places.programs.iter().cloned());
        let found = folders.map(|folder| folder.join("nvdisasm")).find(|program| program.is_file());
        found.map(|program| Self { program }).ok_or_else(|| {
            Unavailable::new(WHAT, "it is in no toolkit folder, Python environment or folder of PATH", HINT)
        })
    }

    /// Its path.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Disassembles a cubin into text for [`plimsoll_gen::sass::Listing::parse`].
    ///
    /// # Errors
    /// Its error output; that it took too long or wrote too much; a system error.
    pub fn run(&self, cubin: &[u8]) -> Result<String, Unavailable> {
        let system = |error: std::io::Error| {
            Unavailable::new(
                WHAT,
                format!("{}: {error}", self.program.display()),
                "Free space in the temporary folder and try again",
            )
        };
        let folder = tempfile::tempdir().map_err(system)?;
        let [input, output, errors] = ["cubin", "text", "errors"].map(|name| folder.path().join(name));
        File::create(&input).and_then(|mut file| file.write_all(cubin)).map_err(system)?;
        let mut command = Command::new(&self.program);
        command.args(DISASSEMBLER_OPTIONS).arg(&input).current_dir(folder.path()).stdin(Stdio::null());
        command.stdout(File::create(&output).map_err(system)?).stderr(File::create(&errors).map_err(system)?);
        let mut child = command
            .spawn()
            .map_err(|error| Unavailable::new(WHAT, format!("{}: {error}", self.program.display()), HINT))?;
        let ended = wait(&mut child, &output).map_err(system)?;
        if let Some(why) = ended {
            return Err(Unavailable::new(WHAT, why, "Give it a cubin of fewer kernels"));
        }
        let text = fs::read(&output).map_err(system)?;
        if text.is_empty() {
            let mut why = String::new();
            let _ = File::open(&errors).map(|file| file.take(MAX_ERROR_BYTES).read_to_string(&mut why));
            let why: String = why.chars().filter(|c| !c.is_control()).collect();
            let why = if why.is_empty() { "it wrote nothing".to_owned() } else { why };
            return Err(Unavailable::new(
                WHAT,
                why,
                "Give it a cubin of a target that this version knows, or install a newer one",
            ));
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Waits until the process ends. If it had to be killed, returns the reason.
fn wait(child: &mut Child, output: &Path) -> std::io::Result<Option<String>> {
    let start = Instant::now();
    loop {
        if child.try_wait()?.is_some() {
            return Ok(None);
        }
        let too_long = start.elapsed() > DEADLINE;
        let too_much = fs::metadata(output)?.len() > MAX_LISTING as u64;
        if too_long || too_much {
            child.kill()?;
            child.wait()?;
            let why = if too_long { "it took longer than a minute" } else { "it wrote too much output" };
            return Ok(Some(why.to_owned()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_disassembler_comes_with_an_install_hint() {
        let places = Places { root: "/nowhere".into(), ..Places::default() };
        let error = Disassembler::find_in(&places, None, None).unwrap_err();
        assert!(error.hint.contains("pip install nvidia-cuda-nvdisasm"), "{error}");
    }

    #[test]
    fn a_relative_path_and_a_missing_file_are_refused() {
        let places = Places::default();
        assert!(Disassembler::find_in(&places, Some(Path::new("nvdisasm")), None).is_err());
        assert!(Disassembler::find_in(&places, None, Some("/nowhere/nvdisasm".into())).is_err());
    }

    #[test]
    fn the_wheel_of_the_active_environment_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("lib/python3.11/site-packages/nvidia/cu13/bin");
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join("nvdisasm"), "").unwrap();
        let environments = vec![folder.path().to_path_buf()];
        let places = Places { environments, root: "/nowhere".into(), ..Places::default() };
        assert_eq!(Disassembler::find_in(&places, None, None).unwrap().program(), bin.join("nvdisasm"));
    }

    #[test]
    fn a_program_without_output_is_an_error() {
        let silent = Disassembler { program: PathBuf::from("/bin/false") };
        assert!(silent.run(b"no cubin").unwrap_err().why.contains("it wrote nothing"));
        let writing = Disassembler { program: PathBuf::from("/bin/echo") };
        assert!(writing.run(b"").is_ok_and(|text| text.contains("cubin")));
    }
}
