//! Atomic writes: a reader never sees half of a file, whatever ends the writer. The bytes go to a temporary file in the same
//! folder (an unnamed one where the system supports it), which then takes the target's name. Symbolic links are followed and
//! kept. A pipe, a device or the process's own standard output is written directly.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::unnamed;

/// The number of symbolic links that the system follows at most (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// An output path with its symbolic links resolved, and what exists there now.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    existing: Existing,
}

#[derive(Debug)]
enum Existing {
    Nothing,
    /// A regular file, which will be replaced.
    Regular(Metadata),
    /// A pipe or a device, which will be written to.
    Stream(Metadata),
    /// A descriptor of this process, such as `/dev/stdout`: its file is written from the current position on.
    Descriptor(u32, Metadata),
}

impl Target {
    /// Resolves a path. Opens nothing, so it can't block.
    ///
    /// # Errors
    /// The path names a folder or a disk, or its metadata can't be read.
    pub fn find(path: &Path) -> io::Result<Self> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            if let Some(descriptor) = own_descriptor(&path) {
                return Ok(Self { existing: Existing::Descriptor(descriptor, path.metadata()?), path });
            }
            let Ok(target) = path.read_link() else {
                let existing = inspect(&path)?;
                return Ok(Self { path, existing });
            };
            path = folder(&path).join(target);
        }
        Err(io::Error::other("too many levels of symbolic links"))
    }

    /// The entry of a folder itself: a symbolic link there is replaced, not followed. For folders that others can write to.
    ///
    /// # Errors
    /// The entry is a folder, a pipe or a device, or its metadata can't be read.
    pub fn entry(path: &Path) -> io::Result<Self> {
        let existing = match path.symlink_metadata() {
            Ok(metadata) if metadata.is_file() => Existing::Regular(metadata),
            Ok(metadata) if metadata.is_symlink() => Existing::Nothing,
            Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Existing::Nothing,
            Err(error) => return Err(error),
        };
        Ok(Self { path: path.to_owned(), existing })
    }

    /// The path that is written, with links resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True where a regular file exists, which writing replaces.
    #[must_use]
    pub fn is_regular(&self) -> bool {
        matches!(self.existing, Existing::Regular(_))
    }

    /// True for pipes, devices and descriptors, which are written directly and replace nothing.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        matches!(self.existing, Existing::Stream(_) | Existing::Descriptor(..))
    }

    /// Whether `other` names the same file, under any name, or would once it exists. Terminals and similar devices never
    /// count as the same, because reading from them and writing to them don't interfere.
    #[must_use]
    pub fn is_same_file(&self, other: &Path) -> bool {
        match &self.existing {
            Existing::Nothing => {
                self.path.file_name() == other.file_name()
                    && folder(&self.path).metadata().is_ok_and(|metadata| is_file_of(&metadata, folder(other)))
            }
            Existing::Regular(metadata) | Existing::Stream(metadata) | Existing::Descriptor(_, metadata) => {
                (metadata.is_file() || metadata.file_type().is_fifo()) && is_file_of(metadata, other)
            }
        }
    }

    /// Checks whether [`write`](Self::write) can write here, as far as that can be known in advance.
    pub fn check_writable(&self) -> io::Result<()> {
        if self.is_stream() {
            return Ok(());
        }
        // A trial file, deleted when it is dropped.
        let file = match unnamed::create(folder(&self.path)) {
            Some(file) => file,
            None => create_named(folder(&self.path))?.into_file(),
        };
        let Existing::Regular(metadata) = &self.existing else { return Ok(()) };
        let folder = folder(&self.path).metadata()?;
        let protected = is_protected((folder.mode(), folder.uid()), metadata.uid(), file.metadata()?.uid());
        if protected { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }

    /// Writes `bytes`. Replaces an existing file only if `replace` is set, even one created since [`find`](Self::find).
    ///
    /// # Errors
    /// The system's, or [`AlreadyExists`](io::ErrorKind::AlreadyExists) where `replace` is not set. The existing file is
    /// then unchanged.
    pub fn write(&self, bytes: &[u8], replace: bool) -> io::Result<()> {
        match self.existing {
            Existing::Descriptor(1, _) => write_and_flush(io::stdout().lock(), bytes),
            Existing::Descriptor(2, _) => write_and_flush(io::stderr().lock(), bytes),
            Existing::Descriptor(..) | Existing::Stream(_) => {
                write_and_flush(OpenOptions::new().append(true).open(&self.path)?, bytes)
            }
            Existing::Regular(_) if !replace => Err(io::ErrorKind::AlreadyExists.into()),
            Existing::Nothing | Existing::Regular(_) => self.write_atomically(bytes, replace),
        }
    }

    fn write_atomically(&self, bytes: &[u8], replace: bool) -> io::Result<()> {
        let folder = folder(&self.path);
        let into_io = |renamed: Result<(), tempfile::PathPersistError>| renamed.map_err(|error| error.error);
        let Some(mut file) = unnamed::create(folder) else {
            let mut file = create_named(folder)?;
            self.fill(file.as_file_mut(), bytes)?;
            let path = file.into_temp_path();
            return into_io(if replace { path.persist(&self.path) } else { path.persist_noclobber(&self.path) });
        };
        self.fill(&mut file, bytes)?;
        if !replace {
            return unnamed::link(&file, &self.path);
        }
        // linkat can't replace a file, so the new file gets a temporary name first and is then renamed.
        let linked = builder().make_in(folder, |path| unnamed::link(&file, path)).map_err(without_path)?;
        into_io(linked.into_temp_path().persist(&self.path))
    }

    /// Writes the new file's content, with the permissions of the file that it replaces.
    fn fill(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        if let Existing::Regular(metadata) = &self.existing {
            file.set_permissions(metadata.permissions())?;
        }
        file.write_all(bytes)?;
        file.sync_all()
    }
}

fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".plimsoll-");
    builder
}

/// A named temporary file with the permissions that the umask allows; tempfile's default is private.
fn create_named(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    builder().permissions(PermissionsExt::from_mode(0o666)).tempfile_in(folder).map_err(without_path)
}

/// Whether `path` names the file that `metadata` is from.
fn is_file_of(metadata: &Metadata, path: &Path) -> bool {
    path.metadata().is_ok_and(|other| (other.dev(), other.ino()) == (metadata.dev(), metadata.ino()))
}

/// Whether the folder's sticky bit (S_ISVTX of inode(7), as on /tmp) keeps `user` from replacing a file owned by `file`.
fn is_protected((modes, folder): (u32, u32), file: u32, user: u32) -> bool {
    modes & 0o1000 != 0 && ![0, folder, file].contains(&user)
}

/// Removes the temporary file's path, which would mean nothing to the user, from an error message.
fn without_path(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.split_once(" at path ") {
        Some((message, _)) => io::Error::new(error.kind(), message),
        None => error,
    }
}

fn write_and_flush(mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

/// What exists at a path that is not a symbolic link.
fn inspect(path: &Path) -> io::Result<Existing> {
    let slashed = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(metadata) if metadata.file_type().is_block_device() => Err(io::Error::other("it is a disk")),
        Ok(metadata) if metadata.is_file() => Ok(Existing::Regular(metadata)),
        Ok(metadata) => Ok(Existing::Stream(metadata)),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Err(_) if slashed => Err(io::ErrorKind::IsADirectory.into()),
        Err(error) => path.file_name().map(|_| Existing::Nothing).ok_or(error),
    }
}

/// The number of this process's file descriptor that the path names, if it does (proc_pid_fd(5)). Following that link would
/// reopen the file from its beginning.
fn own_descriptor(path: &Path) -> Option<u32> {
    let number = path.file_name()?.to_str()?.parse().ok()?;
    let own = Path::new("/proc/self/fd").canonicalize().ok()?;
    (folder(path).canonicalize().ok()? == own).then_some(number)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(path: &Path, replace: bool) -> io::Result<()> {
        Target::find(path)?.write(b"new", replace)
    }

    #[test]
    fn an_entry_that_is_a_link_is_replaced_and_its_target_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let [link, target] = ["link", "target"].map(|name| dir.path().join(name));
        fs::write(&target, "old").unwrap();
        symlink(&target, &link).unwrap();
        Target::entry(&link).unwrap().write(b"new", true).unwrap();
        assert_eq!((fs::read(&link).unwrap(), fs::read(&target).unwrap()), (b"new".to_vec(), b"old".to_vec()));
        assert!(!link.is_symlink());
        Target::entry(dir.path()).unwrap_err();
    }

    #[test]
    fn an_existing_file_is_replaced_only_on_request() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        write(&path, false).unwrap();
        fs::write(&path, "old").unwrap();
        assert_eq!(write(&path, false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        write(&path, true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "a temporary file is left");
    }

    #[test]
    fn a_killed_writer_leaves_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::find(&dir.path().join("f")).unwrap();
        let Some(mut file) = unnamed::create(dir.path()) else { return };
        target.fill(&mut file, b"new").unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the unfinished file has a name");
    }

    #[test]
    fn a_new_file_gets_the_permissions_that_the_umask_allows() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
        write(&ours, false).unwrap();
        fs::write(&theirs, "").unwrap();
        assert_eq!(fs::metadata(ours).unwrap().mode(), fs::metadata(theirs).unwrap().mode());
    }

    #[test]
    fn a_file_created_since_find_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let target = Target::find(&path).unwrap();
        fs::write(&path, "theirs").unwrap();
        assert_eq!(target.write(b"new", false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "a temporary file is left");
    }

    #[test]
    fn a_replaced_file_keeps_its_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        write(&path, true).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    }

    #[test]
    fn symbolic_links_are_followed_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("below")).unwrap();
        fs::write(path("below/kept"), "old").unwrap();
        // A link relative to its own folder, a dangling link, and a chain of two links.
        for (link, target, end) in
            [("l1", "below/kept", "below/kept"), ("below/l2", "../fresh", "fresh"), ("l3", "below/l2", "fresh")]
        {
            symlink(target, path(link)).unwrap();
            write(&path(link), true).unwrap();
            assert!(path(link).is_symlink(), "{link}");
            assert_eq!(fs::read_to_string(path(end)).unwrap(), "new", "{link}");
        }
        symlink("l4", path("l4")).unwrap();
        assert!(write(&path("l4"), true).is_err());
    }

    #[test]
    fn a_file_is_recognized_under_all_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("f"), "").unwrap();
        fs::write(path("other"), "").unwrap();
        fs::hard_link(path("f"), path("hard")).unwrap();
        symlink("f", path("soft")).unwrap();
        for name in ["f", "hard", "soft", "./f"] {
            assert!(Target::find(&path(name)).unwrap().is_same_file(&path("f")), "{name}");
        }
        assert!(!Target::find(&path("other")).unwrap().is_same_file(&path("f")));
        symlink(".", path("here")).unwrap();
        assert!(Target::find(&path("here/none")).unwrap().is_same_file(&path("none")));
        assert!(!Target::find(&path("here/none")).unwrap().is_same_file(&path("nothing")));
        assert!(!Target::find(Path::new("/dev/null")).unwrap().is_same_file(Path::new("/dev/null")));
    }

    #[test]
    fn folders_and_impossible_names_are_refused_before_writing() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("none/f");
        let error = Target::find(&below).unwrap().check_writable().unwrap_err().to_string();
        assert!(error.starts_with("No such file") && !error.contains(".plimsoll"), "{error}");
        for name in ["", ".", "..", "/", "new/"] {
            assert!(Target::find(&dir.path().join(name)).is_err(), "{name:?}");
        }
        assert!(Target::find(Path::new("")).is_err());
        let target = Target::find(&dir.path().join("f")).unwrap();
        target.check_writable().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the trial file is left");
    }

    #[test]
    fn with_the_sticky_bit_only_root_and_the_owners_of_file_and_folder_may_replace() {
        let (root, folder, file, other) = (0, 1, 2, 3);
        assert!(is_protected((0o41777, folder), file, other));
        assert!([root, folder, file].iter().all(|&user| !is_protected((0o41777, folder), file, user)));
        assert!(!is_protected((0o40777, folder), file, other));
    }

    #[test]
    fn devices_and_descriptors_are_written_directly() {
        let null = Target::find(Path::new("/dev/null")).unwrap();
        assert!(null.is_stream() && !null.is_regular());
        null.write(b"new", false).unwrap();
        assert!(Target::find(Path::new("/dev/full")).unwrap().write(b"new", false).is_err());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(b"before ").unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&file);
        for name in [format!("/dev/fd/{number}"), format!("/proc/self/fd/{number}")] {
            let target = Target::find(Path::new(&name)).unwrap();
            assert!(target.is_stream() && target.is_same_file(&path), "{name}");
            target.write(b"new ", false).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "before new new ");
        assert!(Target::find(Path::new("/dev/stdout")).unwrap().is_stream());
    }
}
