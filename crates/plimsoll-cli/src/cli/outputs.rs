//! Files that the command line names for its output: never one that it reads, and one that is there only with `--force`. How a
//! file is written is `plimsoll-core`'s.

use std::io;
use std::path::Path;

use plimsoll::core::file::Target;

use super::exit::Failure;

/// What becomes of a file that is already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays.
    Stays,
    /// It stays unless `--force`, which the verb has, was given.
    IfForced(bool),
    /// It is replaced: what it held was read, or is being kept up to date.
    IsUpdated,
}

/// What a verb may write.
#[derive(Clone, Debug)]
pub(crate) struct Outputs<'i> {
    inputs: Vec<&'i Path>,
    existing: Existing,
}

impl<'i> Outputs<'i> {
    /// The files that the verb reads are compared by identity, so any names of them will do.
    pub fn new(inputs: impl IntoIterator<Item = &'i Path>, existing: Existing) -> Self {
        Self { inputs: inputs.into_iter().collect(), existing }
    }

    /// Whether `path` can be written, asked before there is anything to write.
    ///
    /// # Errors
    /// 2 for an input, for a file that stays, and for what can't be written.
    pub fn ready(&self, path: &Path) -> Result<(), Failure> {
        self.target(path)?.ready().map_err(|error| self.refused(path, &error))
    }

    /// Writes a whole file or leaves what is there. Nobody minds a reader that has gone.
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
        let target = self.target(path)?;
        match target.write(bytes, matches!(self.existing, Existing::IfForced(true) | Existing::IsUpdated)) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && target.is_stream() => Ok(()),
            written => written.map_err(|error| self.refused(path, &error)),
        }
    }

    fn target(&self, path: &Path) -> Result<Target, Failure> {
        let target = Target::find(path).map_err(|error| self.refused(path, &error))?;
        if let Some(input) = self.inputs.iter().find(|input| target.is_same_file(input)) {
            let what = match *input == path {
                true => "it is an input".to_owned(),
                false => format!("it is the same file as {}, an input", input.display()),
            };
            return Err(Failure::file("write", path, what).hint("name another file"));
        }
        if target.is_regular() && matches!(self.existing, Existing::Stays | Existing::IfForced(false)) {
            return Err(self.refused(path, &io::ErrorKind::AlreadyExists.into()));
        }
        Ok(target)
    }

    fn refused(&self, path: &Path, error: &io::Error) -> Failure {
        match (error.kind(), self.existing) {
            (io::ErrorKind::AlreadyExists, Existing::IfForced(_)) => {
                Failure::file("write", path, "it is already there").hint("--force replaces it")
            }
            (io::ErrorKind::AlreadyExists, _) => Failure::file("write", path, "it is already there"),
            (io::ErrorKind::IsADirectory, _) => Failure::file("write", path, "it names a folder"),
            _ => Failure::file("write", path, error),
        }
    }
}
