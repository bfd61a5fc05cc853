//! Writes the files that a GPU machine without cargo needs: the staged script (`stages.sh`) and next to it the executable, a
//! stripped release build. The stages are in the script; `records/README.md` says where their records are kept.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::test::{cargo, root, target};

const SCRIPT: &str = include_str!("stages.sh");
/// The default path of the script, in a folder that git ignores.
const DEFAULT_PATH: &str = "carry/stages.sh";

/// `cargo xtask stages [-o FILE]`: builds the executable and writes both files.
pub fn command(arguments: &[String]) -> Result<()> {
    let script = match arguments {
        [] => root().join(DEFAULT_PATH),
        [flag, file] if flag == "-o" => PathBuf::from(file),
        _ => bail!("usage: cargo xtask stages [-o FILE]"),
    };
    cargo(&["build", "--release", "-p", "plimsoll-cli"])?;
    write(&script, &target().join("release/plimsoll"))
}

/// Writes the script to `script` and the stripped executable next to it.
fn write(script: &Path, built: &Path) -> Result<()> {
    let folder = script.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("can't create {}", folder.display()))?;
    fs::write(script, SCRIPT).with_context(|| format!("can't write {}", script.display()))?;
    fs::set_permissions(script, fs::Permissions::from_mode(0o755))?;
    let executable = folder.join("plimsoll");
    // Remove the old file first, because it may be running.
    let _ = fs::remove_file(&executable);
    fs::copy(built, &executable).with_context(|| format!("can't copy {}", built.display()))?;
    if !Command::new("strip").arg(&executable).status().is_ok_and(|status| status.success()) {
        eprintln!("strip is not installed or failed: the executable keeps its symbols");
    }
    let size = fs::metadata(&executable)?.len();
    eprintln!("wrote {} and {} ({} MB)", script.display(), executable.display(), size / 1_000_000);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fake plimsoll that logs its arguments, creates the requested output, and fails if they contain `$FAILS`.
    const FAKE: &str = r#"#!/bin/sh
echo "$@" >>"$CALLS"
case " $* " in *" $FAILS "*) exit 4 ;; esac
while [ $# -gt 1 ]; do
    case $1 in --out) mkdir "$2" && echo record >"$2/run.jsonl" ;; -o) echo page >"$2" ;; esac
    shift
done
"#;

    /// A temporary folder with the script and the fake executable.
    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            let built = place.path("fake");
            fs::write(&built, FAKE).unwrap();
            fs::set_permissions(&built, fs::Permissions::from_mode(0o755)).unwrap();
            fs::write(place.path("stages.sh"), SCRIPT).unwrap();
            place
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// Runs the script; returns its exit code and the calls that it made.
        fn run(&self, arguments: &[&str], fails: &str) -> (Option<i32>, Vec<String>) {
            self.run_on("cuda:0", arguments, fails)
        }

        fn run_on(&self, device: &str, arguments: &[&str], fails: &str) -> (Option<i32>, Vec<String>) {
            let _ = fs::remove_file(self.path("calls"));
            let status = Command::new("sh")
                .arg(self.path("stages.sh"))
                .args(arguments)
                .env("PLIMSOLL", self.path("fake"))
                .env("CALLS", self.path("calls"))
                .env("FAILS", fails)
                .env("DEVICE", device)
                .env("OUT", self.path("out"))
                .env("PATH", "/usr/bin:/bin")
                .output()
                .unwrap()
                .status;
            let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
            (status.code(), calls.lines().map(str::to_owned).collect())
        }
    }

    const STAGES: [&str; 8] = ["doctor", "verify", "measure-1", "measure-2", "compare", "trace", "report", "pack"];

    #[test]
    fn every_stage_leaves_a_log_and_its_record_and_is_skipped_the_next_time() {
        let place = Place::new();
        let (code, calls) = place.run(&STAGES, "none");
        assert_eq!((code, calls.len()), (Some(0), 9), "{calls:?}");
        assert!(calls.iter().any(|call| call.starts_with("measure stream mix copy launch dispatch transfer --effort")));
        for stage in STAGES {
            let status = fs::read_to_string(place.path(&format!("out/stages/{stage}.status"))).unwrap();
            assert!(status.starts_with("0 ") && place.path(&format!("out/stages/{stage}.log")).exists(), "{stage}");
        }
        for record in ["measure-1/run.jsonl", "measure-2/run.jsonl", "trace/run.jsonl", "report.html", "stages.tar.gz"]
        {
            assert!(place.path("out/stages").join(record).exists(), "{record}");
        }
        assert_eq!(place.run(&STAGES, "none"), (Some(0), vec![]));
    }

    #[test]
    fn a_failed_stage_is_reported_and_repeated_and_does_not_stop_the_others() {
        let place = Place::new();
        assert_eq!(place.run(&STAGES, "--trace").0, Some(1));
        assert!(place.path("out/stages/stages.tar.gz").exists());
        let (code, calls) = place.run(&STAGES, "none");
        assert_eq!(code, Some(0));
        assert!(
            calls.iter().any(|call| call.contains("--trace")) && !calls.iter().any(|call| call.contains("--effort"))
        );
    }

    #[test]
    fn a_comparison_with_ambiguous_figures_counts_as_done_and_keeps_its_code() {
        let place = Place::new();
        let all = ["suite-1", "suite-2", "suite-compare", "measure-1", "measure-2", "compare"];
        assert_eq!(place.run(&all, "compare").0, Some(0));
        for stage in ["compare", "suite-compare"] {
            let status = fs::read_to_string(place.path(&format!("out/stages/{stage}.status"))).unwrap();
            assert!(status.starts_with("4 "), "{status}");
        }
        assert_eq!(place.run(&all, "none"), (Some(0), vec![]));
    }

    #[test]
    fn figures_go_into_a_separate_profile_of_the_stages() {
        let place = Place::new();
        let (_, calls) = place.run(&["suite-1", "measure-1", "counters"], "none");
        let profiles = place.path("out/stages/profiles");
        let named = format!("--profile {} ", profiles.canonicalize().unwrap().display());
        assert!(calls.len() == 3 && calls.iter().all(|call| call.contains(&named)), "{calls:?}");
        assert!(profiles.is_dir(), "the profile path must be an existing folder, or it would be a file for one device");
    }

    #[test]
    fn doctor_requires_the_backend_of_the_device() {
        for (device, last) in
            [("cuda:3", "doctor --require cuda"), ("cpu", "doctor --require cpu"), ("sim", "doctor"), ("all", "doctor")]
        {
            let (_, calls) = Place::new().run_on(device, &["doctor"], "none");
            assert_eq!(calls.last().map(String::as_str), Some(last));
        }
    }

    #[test]
    fn pages_are_written_for_existing_runs_and_again_for_later_ones() {
        let place = Place::new();
        assert_eq!(place.run(&["report"], "none"), (Some(1), vec![]));
        assert_eq!(place.run(&["measure-1", "report"], "none").0, Some(0));
        let page = |name: &str| place.path("out/stages").join(name).exists();
        assert!(page("report.html") && !page("trace.html"));
        let (code, calls) = place.run(&["trace", "report"], "none");
        assert_eq!((code, calls.len()), (Some(0), 3), "{calls:?}");
        assert!(page("trace.html"));
    }

    #[test]
    fn the_suite_runs_every_probe_once_at_quick_and_twice_at_standard() {
        let place = Place::new();
        let (code, calls) = place.run(&["suite-quick", "suite-1", "suite-2", "suite-compare", "report"], "none");
        assert_eq!((code, calls.len()), (Some(0), 5), "{calls:?}");
        assert!(calls[0].starts_with("measure --effort quick") && calls[2].starts_with("measure --effort standard"));
        assert!(place.path("out/stages/suite.html").exists());
    }

    #[test]
    fn no_other_stage_runs_without_a_device() {
        let place = Place::new();
        let (code, calls) = place.run(&[], "doctor");
        assert_eq!((code, calls.len()), (Some(1), 2), "{calls:?}");
    }

    #[test]
    fn unknown_stages_and_a_missing_executable_are_usage_errors() {
        let place = Place::new();
        assert_eq!(place.run(&["verfy"], "none"), (Some(2), vec![]));
        fs::remove_file(place.path("fake")).unwrap();
        assert_eq!(place.run(&["verify"], "none").0, Some(2));
    }

    #[test]
    fn the_executable_is_written_next_to_the_script() {
        let place = Place::new();
        let script = place.path("new/stages.sh");
        write(&script, Path::new("/bin/true")).unwrap();
        assert_eq!(fs::read_to_string(&script).unwrap(), SCRIPT);
        assert!(Command::new(place.path("new/plimsoll")).status().unwrap().success());
    }
}
