//! Files that have no name until they are whole: where a signal or a crash ends the writer, nothing is left of them. Linux alone has
//! them (`O_TMPFILE` of open(2)), on most of its file systems.

use std::fs::File;
use std::io;
use std::path::Path;

/// A new, empty file on a folder's file system; `None` where there can't be one.
#[cfg(target_os = "linux")]
pub(super) fn create(folder: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags, open};
    let file = open(folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::from_raw_mode(0o666));
    let file = File::from(file.ok()?);
    Path::new(&name(&file)).exists().then_some(file)
}

/// Gives a file a name that is free.
///
/// # Errors
/// [`AlreadyExists`](io::ErrorKind::AlreadyExists) where it isn't; else the system's.
#[cfg(target_os = "linux")]
pub(super) fn link(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    Ok(linkat(CWD, name(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// What leads to a file that has no name (open(2)).
#[cfg(target_os = "linux")]
fn name(file: &File) -> String {
    format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn create(_: &Path) -> Option<File> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(super) fn link(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
