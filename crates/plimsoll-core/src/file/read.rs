//! Reading with a limit: whatever a path names, even an endless device, takes no more memory than the reader allows.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::unit::ByteSize;

/// The kinds of file to accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// Only regular files. (Opening a pipe would wait for its other end.)
    Regular,
    /// Also pipes and devices, as in `<(command)` on a command line.
    Streams,
}

/// Why a file can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system's error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is not a regular file.
    #[error("it is {0}, not a regular file")]
    NotRegular(&'static str),
    /// It is larger than the limit.
    #[error("it is larger than {}", ByteSize(*.0))]
    TooLarge(u64),
    /// It is not UTF-8 text; the offset of the first wrong byte.
    #[error("it is not text: the byte at {0} is not UTF-8")]
    NotText(usize),
}

impl FileError {
    /// True where the file doesn't exist.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads a whole file of at most `limit` bytes.
///
/// # Errors
/// It can't be read, is not of an accepted kind, or is larger than `limit`.
pub fn read(path: &Path, limit: u64, accept: Accept) -> Result<Vec<u8>, FileError> {
    // The limit applies to the bytes read, not to the reported size: devices and growing files have no reliable size.
    let bytes = read_up_to(path, limit.saturating_add(1), accept)?;
    if bytes.len() as u64 > limit { Err(FileError::TooLarge(limit)) } else { Ok(bytes) }
}

/// Reads the first `most` bytes of a regular file, or all of a shorter one.
///
/// # Errors
/// It can't be read, or is not a regular file.
pub fn read_beginning(path: &Path, most: u64) -> Result<Vec<u8>, FileError> {
    read_up_to(path, most, Accept::Regular)
}

fn read_up_to(path: &Path, most: u64, accept: Accept) -> Result<Vec<u8>, FileError> {
    // Checked before opening, because opening a pipe waits and opening a device may act on it.
    check_kind(std::fs::metadata(path)?.file_type(), accept)?;
    let file = open(path, accept)?;
    // Checked again, because the name may stand for another file by now.
    check_kind(file.metadata()?.file_type(), accept)?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a file; where only a regular file is accepted, without waiting for the other end of a pipe.
fn open(path: &Path, accept: Accept) -> io::Result<File> {
    let flags = match accept {
        Accept::Regular => OFlags::NONBLOCK | OFlags::NOCTTY,
        Accept::Streams => OFlags::NOCTTY,
    };
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

/// Reads a whole text file of at most `limit` bytes.
///
/// # Errors
/// Those of [`read`], and [`FileError::NotText`].
pub fn read_text(path: &Path, limit: u64, accept: Accept) -> Result<String, FileError> {
    let text = String::from_utf8(read(path, limit, accept)?);
    text.map_err(|error| FileError::NotText(error.utf8_error().valid_up_to()))
}

fn check_kind(kind: FileType, accept: Accept) -> Result<(), FileError> {
    if kind.is_file() || (accept == Accept::Streams && !kind.is_dir()) {
        return Ok(());
    }
    Err(FileError::NotRegular(kind_name(kind)))
}

/// The kind of file in words.
fn kind_name(kind: FileType) -> &'static str {
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
    fn files_larger_than_the_limit_are_refused() {
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
    fn endless_devices_stop_at_the_limit_and_are_not_regular_files() {
        let zero = Path::new("/dev/zero");
        assert!(matches!(read(zero, 1 << 20, Accept::Streams), Err(FileError::TooLarge(_))));
        let error = read(zero, 1 << 20, Accept::Regular).unwrap_err();
        assert_eq!(error.to_string(), "it is a device, not a regular file");
    }

    #[test]
    fn errors_say_whether_it_is_a_folder_a_pipe_or_a_socket() {
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
    fn opening_only_regular_files_does_not_wait_for_the_other_end_of_a_pipe() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("p");
        if std::process::Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()) {
            // As where the pipe took the place of a file that was checked. It must not hang.
            let (send, receive) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                send.send(open(&pipe, Accept::Regular).map(|file| file.metadata().unwrap().file_type()))
            });
            let opened = receive.recv_timeout(std::time::Duration::from_secs(5)).expect("it waits").unwrap();
            assert!(check_kind(opened, Accept::Regular).is_err());
        }
    }

    #[test]
    fn the_beginning_of_a_file_is_read_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(read_beginning(&path, 2).unwrap(), b"ab");
        assert_eq!(read_beginning(&path, 9).unwrap(), b"abc");
        assert!(matches!(read_beginning(folder.path(), 9), Err(FileError::NotRegular("a folder"))));
    }

    #[test]
    fn invalid_utf8_is_refused_with_its_offset() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, b"ab\xff").unwrap();
        let error = read_text(&path, 9, Accept::Regular).unwrap_err();
        assert_eq!(error.to_string(), "it is not text: the byte at 2 is not UTF-8");
    }
}
