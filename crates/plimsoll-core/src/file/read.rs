//! Reading with a limit: nothing that a path names, be it endless or no file at all, takes more memory than its reader
//! allows.

use std::fs::{File, FileType};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::unit::ByteSize;

/// What may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// Regular files. Opening a pipe would wait for its other end.
    Regular,
    /// Pipes and devices too, as a user names them who writes `<(command)`.
    Streams,
}

/// Why a file can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system's answer.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("it is {0}, not a regular file")]
    NotRegular(&'static str),
    /// It is longer than anything of its kind.
    #[error("it is larger than {}", ByteSize(*.0))]
    TooLarge(u64),
    /// It is not text.
    #[error("it is not text: the byte at {0} is no UTF-8")]
    NotText(usize),
}

impl FileError {
    /// True where there is no such file.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// The whole of a file of at most `most` bytes.
///
/// # Errors
/// It can't be read, is not what is accepted, or holds more.
pub fn read(path: &Path, most: u64, accept: Accept) -> Result<Vec<u8>, FileError> {
    // Before it is opened, which may wait.
    refuse_others(std::fs::metadata(path)?.file_type(), accept)?;
    let mut bytes = Vec::new();
    // The limit holds for what is read, not for what the file system says: devices and growing files have no length.
    File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(FileError::TooLarge(most)) } else { Ok(bytes) }
}

/// The same as text.
///
/// # Errors
/// Those of [`read`], and what is no UTF-8.
pub fn read_text(path: &Path, most: u64, accept: Accept) -> Result<String, FileError> {
    let text = String::from_utf8(read(path, most, accept)?);
    text.map_err(|error| FileError::NotText(error.utf8_error().valid_up_to()))
}

fn refuse_others(kind: FileType, accept: Accept) -> Result<(), FileError> {
    if kind.is_file() || (accept == Accept::Streams && !kind.is_dir()) {
        return Ok(());
    }
    Err(FileError::NotRegular(name(kind)))
}

/// What somebody would call it.
fn name(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_limit_and_refused_beyond() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, [b'x'; 10]).unwrap();
        for accept in [Accept::Regular, Accept::Streams] {
            assert_eq!(read(&path, 10, accept).unwrap().len(), 10);
            let error = read(&path, 9, accept).unwrap_err();
            assert_eq!(error.to_string(), "it is larger than 9 B");
        }
        assert!(read(&folder.path().join("none"), 9, Accept::Regular).unwrap_err().is_absent());
    }

    #[test]
    fn an_endless_device_ends_at_the_limit_and_is_no_regular_file() {
        let zero = Path::new("/dev/zero");
        assert!(matches!(read(zero, 1 << 20, Accept::Streams), Err(FileError::TooLarge(_))));
        let error = read(zero, 1 << 20, Accept::Regular).unwrap_err();
        assert_eq!(error.to_string(), "it is a device, not a regular file");
    }

    #[test]
    fn a_folder_a_pipe_and_a_socket_are_called_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        for accept in [Accept::Regular, Accept::Streams] {
            let error = read(folder.path(), 9, accept).unwrap_err();
            assert_eq!(error.to_string(), "it is a folder, not a regular file");
        }
        let socket = folder.path().join("s");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let error = read(&socket, 9, Accept::Regular).unwrap_err();
        assert_eq!(error.to_string(), "it is a socket, not a regular file");
        let pipe = folder.path().join("p");
        if std::process::Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()) {
            let error = read(&pipe, 9, Accept::Regular).unwrap_err();
            assert_eq!(error.to_string(), "it is a pipe, not a regular file");
        }
    }

    #[test]
    fn text_that_is_none_is_refused_with_the_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, b"ab\xff").unwrap();
        let error = read_text(&path, 9, Accept::Regular).unwrap_err();
        assert_eq!(error.to_string(), "it is not text: the byte at 2 is no UTF-8");
    }
}
