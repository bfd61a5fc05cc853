//! Temporary files without a name: if a signal or a crash ends the writer, nothing is left behind. Only Linux has them
//! (`O_TMPFILE` of open(2)), on most file systems.

use std::fs::File;
use std::io;
use std::path::Path;

/// A new, empty file on a folder's file system; `None` where unnamed files aren't supported.
#[cfg(target_os = "linux")]
pub(super) fn create(folder: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags, open};
    let file = open(folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::from_raw_mode(0o666));
    let file = File::from(file.ok()?);
    Path::new(&proc_path(&file)).exists().then_some(file)
}

/// Gives an unnamed file a name.
///
/// # Errors
/// [`AlreadyExists`](io::ErrorKind::AlreadyExists) where the name is taken.
#[cfg(target_os = "linux")]
pub(super) fn link(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    Ok(linkat(CWD, proc_path(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// A path to a file that has no name (open(2)).
#[cfg(target_os = "linux")]
fn proc_path(file: &File) -> String {
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
