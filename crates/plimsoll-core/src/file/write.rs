//! Writing so that a reader never sees half of a file, whatever ends the writer: to a temporary file in the same folder, without a
//! name where the system can, which then takes the name. Links stay links; a pipe, a device or the process's own standard output is written to.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::unnamed;

/// As many links as the system follows (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// The place of an output: a path with its links followed, and what is there now.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    there: There,
}

#[derive(Debug)]
enum There {
    Nothing,
    /// Will be replaced.
    Regular(Metadata),
    /// Will be written to.
    Stream(Metadata),
    /// A descriptor of this process, as `/dev/stdout` is one: what it leads to is written on, from where it is.
    Descriptor(u32, Metadata),
}

impl Target {
    /// Looks at what a path names. Nothing is opened, so nothing waits.
    ///
    /// # Errors
    /// It can only be a folder, is a disk, or can't be looked at.
    pub fn find(path: &Path) -> io::Result<Self> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            if let Some(descriptor) = descriptor(&path) {
                return Ok(Self { there: There::Descriptor(descriptor, path.metadata()?), path });
            }
            let Ok(target) = path.read_link() else {
                let there = there(&path)?;
                return Ok(Self { path, there });
            };
            path = folder(&path).join(target);
        }
        Err(io::Error::other("too many links lead to each other"))
    }

    /// The path that is written, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True where a regular file is there, which writing replaces.
    #[must_use]
    pub fn is_regular(&self) -> bool {
        matches!(self.there, There::Regular(_))
    }

    /// True for what is read by others as it is written, and where nothing is replaced.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        matches!(self.there, There::Stream(_) | There::Descriptor(..))
    }

    /// Whether this is the very file that `other` names, under whatever name, or would be. Terminals and the like are never the
    /// same: reading from and writing to them don't meet.
    #[must_use]
    pub fn is_same_file(&self, other: &Path) -> bool {
        match &self.there {
            There::Nothing => {
                self.path.file_name() == other.file_name()
                    && folder(&self.path).metadata().is_ok_and(|about| is_at(&about, folder(other)))
            }
            There::Regular(about) | There::Stream(about) | There::Descriptor(_, about) => {
                (about.is_file() || about.file_type().is_fifo()) && is_at(about, other)
            }
        }
    }

    /// Whether [`write`](Self::write) can write here, as far as that can be told before.
    ///
    /// # Errors
    /// The system's.
    pub fn ready(&self) -> io::Result<()> {
        if self.is_stream() {
            return Ok(());
        }
        // Gone when it is dropped.
        let file = match unnamed::create(folder(&self.path)) {
            Some(file) => file,
            None => named(folder(&self.path))?.into_file(),
        };
        let There::Regular(about) = &self.there else { return Ok(()) };
        let folder = folder(&self.path).metadata()?;
        let kept = is_kept((folder.mode(), folder.uid()), about.uid(), file.metadata()?.uid());
        if kept { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }

    /// Writes `bytes`. What is already there is replaced only where `replace` says so, even if it came since
    /// [`find`](Self::find).
    ///
    /// # Errors
    /// The system's; [`AlreadyExists`](io::ErrorKind::AlreadyExists) for what may not be replaced. What was there is then as
    /// it was.
    pub fn write(&self, bytes: &[u8], replace: bool) -> io::Result<()> {
        match self.there {
            There::Descriptor(1, _) => all(io::stdout().lock(), bytes),
            There::Descriptor(2, _) => all(io::stderr().lock(), bytes),
            There::Descriptor(..) | There::Stream(_) => all(OpenOptions::new().append(true).open(&self.path)?, bytes),
            There::Regular(_) if !replace => Err(io::ErrorKind::AlreadyExists.into()),
            There::Nothing | There::Regular(_) => self.replace(bytes, replace),
        }
    }

    fn replace(&self, bytes: &[u8], replace: bool) -> io::Result<()> {
        let folder = folder(&self.path);
        let done = |named: Result<(), tempfile::PathPersistError>| named.map_err(|error| error.error);
        let Some(mut file) = unnamed::create(folder) else {
            let mut file = named(folder)?;
            self.fill(file.as_file_mut(), bytes)?;
            let path = file.into_temp_path();
            return done(if replace { path.persist(&self.path) } else { path.persist_noclobber(&self.path) });
        };
        self.fill(&mut file, bytes)?;
        if !replace {
            return unnamed::link(&file, &self.path);
        }
        // A link can't replace a file: the whole one takes another name first.
        let linked = builder().make_in(folder, |path| unnamed::link(&file, path)).map_err(system)?;
        done(linked.into_temp_path().persist(&self.path))
    }

    /// Writes a new file, with the modes of the one that it replaces.
    fn fill(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        if let There::Regular(about) = &self.there {
            file.set_permissions(about.permissions())?;
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

/// A temporary file with the modes that the user's mask leaves; they are private by default.
fn named(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    builder().permissions(PermissionsExt::from_mode(0o666)).tempfile_in(folder).map_err(system)
}

fn is_at(about: &Metadata, path: &Path) -> bool {
    path.metadata().is_ok_and(|other| (other.dev(), other.ino()) == (about.dev(), about.ino()))
}

/// Whether a folder, by its modes and owner, lets nobody but a file's owner replace it, as /tmp does (S_ISVTX of inode(7)).
fn is_kept((modes, folder): (u32, u32), file: u32, user: u32) -> bool {
    modes & 0o1000 != 0 && ![0, folder, file].contains(&user)
}

/// The system's words alone: the temporary file's name, which comes after them, would say nothing to anyone.
fn system(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.split_once(" at path ") {
        Some((words, _)) => io::Error::new(error.kind(), words),
        None => error,
    }
}

fn all(mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

/// What a path names that is no link.
fn there(path: &Path) -> io::Result<There> {
    let slashed = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    match path.metadata() {
        Ok(about) if about.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(about) if about.file_type().is_block_device() => Err(io::Error::other("it is a disk")),
        Ok(about) if about.is_file() => Ok(There::Regular(about)),
        Ok(about) => Ok(There::Stream(about)),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Err(_) if slashed => Err(io::ErrorKind::IsADirectory.into()),
        Err(error) => path.file_name().map(|_| There::Nothing).ok_or(error),
    }
}

/// The number of a descriptor of this process, where the path names one (proc_pid_fd(5)). Following the link there would
/// open the file anew, from its beginning.
fn descriptor(path: &Path) -> Option<u32> {
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
    fn a_file_is_written_once_and_replaced_only_where_that_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        write(&path, false).unwrap();
        fs::write(&path, "old").unwrap();
        assert_eq!(write(&path, false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        write(&path, true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn a_writer_that_is_killed_leaves_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::find(&dir.path().join("f")).unwrap();
        let Some(mut file) = unnamed::create(dir.path()) else { return };
        target.fill(&mut file, b"new").unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "it has no name before it is whole");
    }

    #[test]
    fn a_new_file_has_the_modes_that_the_mask_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
        write(&ours, false).unwrap();
        fs::write(&theirs, "").unwrap();
        assert_eq!(fs::metadata(ours).unwrap().mode(), fs::metadata(theirs).unwrap().mode());
    }

    #[test]
    fn a_file_that_came_meanwhile_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let target = Target::find(&path).unwrap();
        fs::write(&path, "theirs").unwrap();
        assert_eq!(target.write(b"new", false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn what_is_replaced_keeps_its_modes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        write(&path, true).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    }

    #[test]
    fn links_are_followed_to_their_end_and_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("below")).unwrap();
        fs::write(path("below/kept"), "old").unwrap();
        // Relative to the folder of the link, through one that leads nowhere yet, and through two.
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
    fn one_file_is_the_same_under_every_name() {
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
    fn folders_and_names_of_nothing_are_refused_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("none/f");
        let error = Target::find(&below).unwrap().ready().unwrap_err().to_string();
        assert!(error.starts_with("No such file") && !error.contains(".plimsoll"), "{error}");
        for name in ["", ".", "..", "/", "new/"] {
            assert!(Target::find(&dir.path().join(name)).is_err(), "{name:?}");
        }
        assert!(Target::find(Path::new("")).is_err());
        let target = Target::find(&dir.path().join("f")).unwrap();
        target.ready().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left there");
    }

    #[test]
    fn in_a_folder_like_tmp_a_file_is_replaced_by_its_owner_the_folder_s_and_root() {
        let (root, folder, file, other) = (0, 1, 2, 3);
        assert!(is_kept((0o41777, folder), file, other));
        assert!([root, folder, file].iter().all(|&user| !is_kept((0o41777, folder), file, user)));
        assert!(!is_kept((0o40777, folder), file, other));
    }

    #[test]
    fn devices_and_descriptors_are_written_to_and_never_replaced() {
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
