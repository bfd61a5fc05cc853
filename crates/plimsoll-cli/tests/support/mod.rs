//! Helpers for the tests of the command: running it in an empty folder with a known environment.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use plimsoll::core::record::{Run, read_file};
use tempfile::TempDir;

/// The command in an empty folder, with a terminal of 80 columns and no preferences.
pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Arguments are split at spaces.
    pub fn command(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(args.split_whitespace()).current_dir(self.folder.path());
        command
            .env_remove("RUST_BACKTRACE")
            .env("COLUMNS", "80")
            .env_remove("NO_COLOR")
            .env("XDG_DATA_HOME", self.folder.path().join("data"))
            .env_remove("PLIMSOLL_PROFILE")
            .env_remove("LC_ALL")
            .env_remove("LC_CTYPE")
            .env_remove("LANG");
        command
    }

    pub fn run(&self, args: &str) -> Ran {
        Ran::from_output(self.command(args).output().unwrap())
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    /// Reads the record in the folder `out`.
    pub fn record(&self, out: &str) -> Run {
        read_record(&self.path(out))
    }
}

/// Reads the record in a run's folder, which must be undamaged.
pub fn read_record(folder: &Path) -> Run {
    let run = read_file(&folder.join("run.jsonl")).unwrap();
    assert_eq!(run.damaged_lines, 0, "{:?}", run.damage);
    run
}

/// The number of points in all series.
pub fn points(run: &Run) -> usize {
    run.series.iter().flat_map(|series| &series.rows).map(|row| row.points.len()).sum()
}

/// The output and exit code of the command.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn from_output(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Asserts that the command ended with this code and without a panic.
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked at"), "{}", self.stderr);
        self
    }

    /// Asserts that stderr contains `words`.
    #[track_caller]
    pub fn says(self, words: &str) -> Self {
        assert!(self.stderr.contains(words), "no {words:?} in:\n{}", self.stderr);
        self
    }
}
