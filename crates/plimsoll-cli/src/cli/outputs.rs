//! Checks for output files that the command line names: an input is never overwritten, an existing file only with `--force`.
//! `plimsoll-core` does the writing.

use std::io;
use std::path::Path;

use plimsoll::core::file::Target;

use super::exit::Failure;

/// What happens to a file that already exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It is kept, and writing fails.
    Kept,
    /// It is replaced if the verb's `--force` was given (`true`), else kept.
    ReplacedIfForced(bool),
    /// It is replaced: the verb has merged its content, or maintains the file.
    Updated,
}

/// The rules for a verb's output files.
#[derive(Clone, Debug)]
pub(crate) struct Outputs<'i> {
    inputs: Vec<&'i Path>,
    existing: Existing,
}

impl<'i> Outputs<'i> {
    /// `inputs` are the files that the verb reads. They are compared by identity, so links and other names count too.
    pub fn new(inputs: impl IntoIterator<Item = &'i Path>, existing: Existing) -> Self {
        Self { inputs: inputs.into_iter().collect(), existing }
    }

    /// Checks that `path` can be written, before there is anything to write. Fails with exit code 2 if it is an input, an
    /// existing file to keep, or not writable.
    pub fn check(&self, path: &Path) -> Result<(), Failure> {
        self.target(path)?.check_writable().map_err(|error| self.failure(path, &error))
    }

    /// Writes the whole file or leaves it unchanged. Fails like [`check`](Self::check); a closed pipe is not an error.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
        let target = self.target(path)?;
        match target.write(bytes, matches!(self.existing, Existing::ReplacedIfForced(true) | Existing::Updated)) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && target.is_stream() => Ok(()),
            written => written.map_err(|error| self.failure(path, &error)),
        }
    }

    fn target(&self, path: &Path) -> Result<Target, Failure> {
        let target = Target::find(path).map_err(|error| self.failure(path, &error))?;
        if let Some(input) = self.inputs.iter().find(|input| target.is_same_file(input)) {
            let what = match *input == path {
                true => "it is an input".to_owned(),
                false => format!("it is the same file as {}, an input", input.display()),
            };
            return Err(Failure::file("write", path, what).hint("name another file"));
        }
        if target.is_regular() && matches!(self.existing, Existing::Kept | Existing::ReplacedIfForced(false)) {
            return Err(self.failure(path, &io::ErrorKind::AlreadyExists.into()));
        }
        Ok(target)
    }

    fn failure(&self, path: &Path, error: &io::Error) -> Failure {
        match (error.kind(), self.existing) {
            (io::ErrorKind::AlreadyExists, Existing::ReplacedIfForced(_)) => {
                Failure::file("write", path, "it already exists").hint("--force replaces it")
            }
            (io::ErrorKind::AlreadyExists, _) => Failure::file("write", path, "it already exists"),
            (io::ErrorKind::IsADirectory, _) => Failure::file("write", path, "it is a folder"),
            _ => Failure::file("write", path, error),
        }
    }
}
