//! nvdisasm, which iterations cubins into text: found and run, with limits, as it may be given any file. Reading its text is
//! `plimsoll-gen`'s.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_gen::sass::{DISASSEMBLER_OPTIONS, MAX_LISTING};

use crate::toolkit::Places;
use plimsoll_gpu::Unavailable;

/// Names the program by absolute path.
pub const VARIABLE: &str = "PLIMSOLL_NVDISASM";
const WHAT: &str = "nvdisasm";
const MEND: &str = "Install it into the active Python environment with 'pip install nvidia-cuda-nvdisasm', or install the CUDA \
                    toolkit, or set PLIMSOLL_NVDISASM to its absolute path";
/// Folders of Python packages that hold it: the wheels of CUDA 13, and those before.
const WHEEL_FOLDERS: [&str; 2] = ["nvidia/cu13/bin", "nvidia/cuda_nvdisasm/bin"];
/// A large cubin takes seconds.
const DEADLINE: Duration = Duration::from_secs(60);
/// Longest part of its complaint that an error carries, bytes.
const MOST_COMPLAINT: u64 = 500;

/// A disassembler on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disassembler {
    program: PathBuf,
}

impl Disassembler {
    /// Finds it: `explicit`, else `PLIMSOLL_NVDISASM`, the toolkits, the active Python environment, `PATH`.
    ///
    /// # Errors
    /// That there is none, or that what was named is none, and what brings it.
    pub fn find(explicit: Option<&Path>) -> Result<Self, Unavailable> {
        Self::among(&Places::of_process(), explicit, std::env::var_os(VARIABLE))
    }

    fn among(places: &Places, explicit: Option<&Path>, variable: Option<OsString>) -> Result<Self, Unavailable> {
        let named = explicit.map(Path::to_path_buf).or(variable.filter(|v| !v.is_empty()).map(PathBuf::from));
        if let Some(program) = named {
            let refuse = |why| Err(Unavailable::new(WHAT, format!("'{}' {why}", program.display()), MEND));
            return match (program.is_absolute(), program.is_file()) {
                (false, _) => refuse("is a relative path"),
                (true, false) => refuse("is no file"),
                (true, true) => Ok(Self { program }),
            };
        }
        let toolkits = places.toolkits().map(|toolkit| toolkit.join("bin"));
        let wheels = places.packages().flat_map(|packages| WHEEL_FOLDERS.map(|folder| packages.join(folder)));
        let folders = toolkits.chain(wheels).chain(places.programs.iter().cloned());
        let found = folders.map(|folder| folder.join("nvdisasm")).find(|program| program.is_file());
        found.map(|program| Self { program }).ok_or_else(|| {
            Unavailable::new(WHAT, "it is in no toolkit folder, Python environment or folder of PATH", MEND)
        })
    }

    /// Where it is.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The text of a cubin, for [`plimsoll_gen::sass::Listing::parse`].
    ///
    /// # Errors
    /// Its own complaint; that it took too long or wrote too much; what the system said.
    pub fn run(&self, cubin: &[u8]) -> Result<String, Unavailable> {
        let system = |error: std::io::Error| {
            Unavailable::new(
                WHAT,
                format!("{}: {error}", self.program.display()),
                "Free space in the temporary folder and try again",
            )
        };
        let folder = tempfile::tempdir().map_err(system)?;
        let [input, output, complaint] = ["cubin", "text", "complaint"].map(|name| folder.path().join(name));
        File::create(&input).and_then(|mut file| file.write_all(cubin)).map_err(system)?;
        let mut command = Command::new(&self.program);
        command.args(DISASSEMBLER_OPTIONS).arg(&input).current_dir(folder.path()).stdin(Stdio::null());
        command.stdout(File::create(&output).map_err(system)?).stderr(File::create(&complaint).map_err(system)?);
        let mut child = command
            .spawn()
            .map_err(|error| Unavailable::new(WHAT, format!("{}: {error}", self.program.display()), MEND))?;
        let ended = wait(&mut child, &output).map_err(system)?;
        if let Some(why) = ended {
            return Err(Unavailable::new(WHAT, why, "Give it a cubin of fewer kernels"));
        }
        let text = fs::read(&output).map_err(system)?;
        if text.is_empty() {
            let mut why = String::new();
            let _ = File::open(&complaint).map(|file| file.take(MOST_COMPLAINT).read_to_string(&mut why));
            let why: String = why.chars().filter(|c| !c.is_control()).collect();
            let why = if why.is_empty() { "it said nothing".to_owned() } else { why };
            return Err(Unavailable::new(
                WHAT,
                why,
                "Give it a cubin of a target that this version knows, or install a newer one",
            ));
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Waits for the end; the reason where it had to be brought about.
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
            let why = if too_long { "it took longer than a minute" } else { "it wrote more than is ever needed" };
            return Ok(Some(why.to_owned()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_it_is_told_what_brings_it() {
        let places = Places { root: "/nowhere".into(), ..Places::default() };
        let error = Disassembler::among(&places, None, None).unwrap_err();
        assert!(error.hint.contains("pip install nvidia-cuda-nvdisasm"), "{error}");
    }

    #[test]
    fn a_relative_path_and_a_missing_file_are_refused() {
        let places = Places::default();
        assert!(Disassembler::among(&places, Some(Path::new("nvdisasm")), None).is_err());
        assert!(Disassembler::among(&places, None, Some("/nowhere/nvdisasm".into())).is_err());
    }

    #[test]
    fn the_wheel_of_the_active_environment_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("lib/python3.11/site-packages/nvidia/cu13/bin");
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join("nvdisasm"), "").unwrap();
        let environments = vec![folder.path().to_path_buf()];
        let places = Places { environments, root: "/nowhere".into(), ..Places::default() };
        assert_eq!(Disassembler::among(&places, None, None).unwrap().program(), bin.join("nvdisasm"));
    }

    #[test]
    fn a_program_that_says_nothing_is_an_error_with_its_complaint() {
        let refuses = Disassembler { program: PathBuf::from("/bin/false") };
        assert!(refuses.run(b"no cubin").unwrap_err().why.contains("it said nothing"));
        let speaks = Disassembler { program: PathBuf::from("/bin/echo") };
        assert!(speaks.run(b"").is_ok_and(|text| text.contains("cubin")));
    }
}
