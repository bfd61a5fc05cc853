//! Profiles on disk: checked when read, written atomically, and merged under a lock, so that runs that end at the same time don't
//! overwrite each other's findings.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use plimsoll_core::file::{self, Accept, FileError, Target};
use serde::Deserialize;

use super::{Profile, ProfileError, SCHEMA, StoredFinding, parse_time};

/// Larger files are refused: a profile has a few hundred findings of a few hundred bytes each.
pub(super) const LARGEST_FILE: u64 = 4 << 20;
const LONGEST_ID: usize = 128;
/// How long a run waits for another one to merge. A merge takes milliseconds; a process that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(5);
/// How far the clocks of machines that share a folder may differ.
const SLACK: SignedDuration = SignedDuration::from_hours(24);
/// Largest number of damaged files that are kept next to a profile.
const MOST_SET_ASIDE: u32 = 99;

/// The result of [`Profile::keep`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Number of findings that were new or replaced older ones.
    pub taken: usize,
    /// Number of findings in the file now.
    pub known: usize,
    /// A damaged file that was found at the path and renamed.
    pub set_aside: Option<SetAside>,
}

/// A damaged profile that was renamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Its new path, in the same folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

impl Profile {
    /// The path of a device's profile in `folder`.
    ///
    /// # Errors
    /// [`ProfileError::BadId`] where the identity isn't a plain file name.
    pub fn path(folder: &Path, device_id: &str) -> Result<PathBuf, ProfileError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let good =
            (1..=LONGEST_ID).contains(&device_id.len()) && device_id.bytes().all(plain) && !device_id.starts_with('.');
        if good { Ok(folder.join(format!("{device_id}.json"))) } else { Err(ProfileError::BadId(shortened(device_id))) }
    }

    /// The stored profile of a device, or `None` where there is no file or it is empty. Unknown fields are ignored. Of duplicate
    /// findings the one that [`insert`](Self::insert) would have kept is returned.
    ///
    /// # Errors
    /// `Io`, `Damaged`, `TooNew`, `Future` and `NotOurs` of [`ProfileError`]; each names the file and a remedy.
    pub fn load(path: &Path, device_id: &str) -> Result<Option<Self>, ProfileError> {
        let Some(profile) = Self::load_any(path)? else { return Ok(None) };
        if profile.device_id != device_id {
            return Err(ProfileError::NotOurs { path: path.to_owned(), theirs: shortened(&profile.device_id) });
        }
        Ok(Some(profile))
    }

    /// Like [`load`](Self::load), but for any device.
    ///
    /// # Errors
    /// Those of [`load`](Self::load) except `NotOurs`.
    pub fn load_any(path: &Path) -> Result<Option<Self>, ProfileError> {
        let bytes = match file::read(path, LARGEST_FILE, Accept::Regular) {
            Ok(bytes) => bytes,
            Err(why) if why.is_absent() => return Ok(None),
            Err(FileError::Io(why)) => return Err(refused("read", path, why)),
            Err(why @ FileError::TooLarge(_)) => {
                return Err(ProfileError::Damaged { path: path.to_owned(), why: why.to_string() });
            }
            Err(why) => return Err(refused("read", path, io::Error::other(why.to_string()))),
        };
        if bytes.is_empty() {
            return Ok(None);
        }
        let profile = Self::parse(&bytes, path)?;
        profile.check_dates(path)?;
        Ok(Some(profile))
    }

    /// Checks whether [`keep`](Self::keep) will be able to store a device's profile at `path`, as far as that is known before
    /// there is one. Creates the folder if needed.
    ///
    /// # Errors
    /// Those of [`keep`](Self::keep).
    pub fn check_writable(path: &Path, device_id: &str) -> Result<(), ProfileError> {
        match Self::load(path, device_id) {
            // A damaged file will be renamed.
            Ok(_) | Err(ProfileError::Damaged { .. }) => {}
            Err(other) => return Err(other),
        }
        let path = resolve(path)?;
        find_target(&path)?.check_writable().map_err(|why| refused("write", &path, why))?;
        // An existing lock file may be held by a process that hangs.
        if lock_exists(&lock_path(&path))? { acquire_lock(&path).map(drop) } else { Ok(()) }
    }

    fn parse(bytes: &[u8], path: &Path) -> Result<Self, ProfileError> {
        /// The layout version is checked first, because later layouts may not match the type.
        #[derive(Deserialize)]
        struct Layout {
            schema: u32,
        }
        let damaged = |why: String| ProfileError::Damaged { path: path.to_owned(), why };
        let syntax = |error: serde_json::Error| damaged(error.to_string());
        let layout: Layout = serde_json::from_slice(bytes).map_err(syntax)?;
        if layout.schema > SCHEMA {
            return Err(ProfileError::TooNew { path: path.to_owned(), found: layout.schema });
        }
        let mut profile: Self = serde_json::from_slice(bytes).map_err(syntax)?;
        if let Some(bad) = profile.findings.iter().find(|stored| !stored.finding.is_sound()) {
            return Err(damaged(format!(
                "{} lies outside its own interval, or its numbers are out of range",
                describe(bad)
            )));
        }
        if let Some((what, when)) = profile.dates().find(|(_, when)| parse_time(when).is_none()) {
            let when = shortened(when);
            return Err(damaged(format!(
                "{what} is dated '{when}', which isn't a time of the form 2026-01-02T03:04:05Z"
            )));
        }
        profile.deduplicate();
        Ok(profile)
    }

    /// The dates in the profile, each with what it belongs to. Empty dates are skipped.
    fn dates(&self) -> impl Iterator<Item = (String, &str)> {
        let profile = std::iter::once(("the profile".to_owned(), self.when.as_str()));
        let findings = self.findings.iter().map(|stored| (describe(stored), stored.when.as_str()));
        profile.chain(findings).filter(|(_, when)| !when.is_empty())
    }

    /// Refuses dates in the future.
    fn check_dates(&self, path: &Path) -> Result<(), ProfileError> {
        let now = Timestamp::now();
        let is_future = |when: &str| parse_time(when).is_some_and(|when| when.duration_since(now) > SLACK);
        match self.dates().find(|(_, when)| is_future(when)) {
            Some((what, when)) => Err(ProfileError::Future { path: path.to_owned(), what, when: when.to_owned() }),
            None => Ok(()),
        }
    }

    /// The profile as the text of its file.
    ///
    /// # Errors
    /// [`ProfileError::Unsound`] for numbers that JSON can't hold or that could not be read again.
    pub fn to_json(&self) -> Result<String, ProfileError> {
        let bad = self.findings.iter().find(|stored| !stored.finding.is_sound());
        if let Some(StoredFinding { finding, .. }) = bad {
            return Err(ProfileError::Unsound { probe: finding.probe.clone(), name: finding.name.clone() });
        }
        let text = serde_json::to_string_pretty(self);
        let text = text.map_err(|why| refused("write", Path::new(&self.device_id), io::Error::from(why)))?;
        Ok(text + "\n")
    }

    /// Writes the profile to `path` and creates its folder if needed. The text goes to a temporary file in the same folder, which
    /// is then renamed, so that a reader sees either the old or the new profile. A symbolic link stays one.
    ///
    /// # Errors
    /// `Unsound` and `Io` of [`ProfileError`]; then the file is unchanged.
    pub fn store(&self, path: &Path) -> Result<(), ProfileError> {
        let text = self.to_json()?;
        let path = resolve(path)?;
        find_target(&path)?.write(text.as_bytes(), true).map_err(|why| refused("write", &path, why))
    }

    /// Merges this profile into the one stored at `path`, as [`merge`](Self::merge) does. A damaged file is renamed. Concurrent
    /// calls wait for each other: a lock is held on `.NAME.lock` in the same folder; the lock file stays.
    ///
    /// # Errors
    /// `Io`, `TooNew`, `Future`, `NotOurs` and `Unsound` of [`ProfileError`]; then the file is unchanged.
    pub fn keep(self, path: &Path) -> Result<Kept, ProfileError> {
        self.check_dates(path)?;
        // The resolved path, so that all names of the file share one lock.
        let path = &resolve(path)?;
        let _lock = acquire_lock(path)?;
        let (known, set_aside) = match Self::load(path, &self.device_id) {
            Ok(known) => (known, None),
            Err(ProfileError::Damaged { why, .. }) => (None, Some(set_aside(path, why)?)),
            Err(other) => return Err(other),
        };
        let empty = || Self { findings: vec![], ..self.clone() };
        let mut all = known.unwrap_or_else(empty);
        let taken = all.merge(self)?;
        all.store(path)?;
        Ok(Kept { taken, known: all.findings.len(), set_aside })
    }
}

/// A finding as readable text: `finding stream/copy`.
fn describe(stored: &StoredFinding) -> String {
    format!("finding {}/{}", shortened(&stored.finding.probe), shortened(&stored.finding.name))
}

fn shortened(id: &str) -> String {
    id.chars().take(LONGEST_ID).collect()
}

/// Creates the folder of a path.
fn create_folder(path: &Path) -> Result<&Path, ProfileError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(|why| refused("create the folder", folder, why))?;
    Ok(folder)
}

/// The regular file that a path leads to.
fn find_target(path: &Path) -> Result<Target, ProfileError> {
    match Target::find(path) {
        Ok(target) if target.is_stream() => Err(refused("write", path, io::Error::other("it isn't a regular file"))),
        found => found.map_err(|why| refused("write", path, why)),
    }
}

/// The path with symbolic links resolved, even where there is no file yet. Creates the folders of the link and of the file.
fn resolve(path: &Path) -> Result<PathBuf, ProfileError> {
    create_folder(path)?;
    let resolved = find_target(path)?.path().to_owned();
    create_folder(&resolved)?;
    Ok(resolved)
}

fn lock_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.lock"))
}

/// True where the lock file exists. Anything but a regular file is refused: opening a pipe would block until its other end is
/// opened, and a link could lead anywhere.
fn lock_exists(path: &Path) -> Result<bool, ProfileError> {
    match path.symlink_metadata() {
        Ok(about) if about.is_file() => Ok(true),
        Ok(_) => Err(refused("lock", path, io::Error::other("it isn't a regular file: remove it"))),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(why) => Err(refused("lock", path, why)),
    }
}

/// Locks the profile for this process until the returned file is dropped or the process ends in any way. `None` where the file
/// system doesn't support locks.
fn acquire_lock(path: &Path) -> Result<Option<File>, ProfileError> {
    let lock = lock_path(path);
    lock_exists(&lock)?;
    let open = || File::options().create(true).truncate(false).write(true).open(&lock);
    let file = match open() {
        // It belongs to another user; read access is enough to lock it.
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => File::open(&lock).map_err(|_| why),
        opened => opened,
    };
    let file = file.map_err(|why| refused("lock", &lock, why))?;
    let until = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            Err(TryLockError::WouldBlock) => {
                let why = format!("another process has held it for {} s", PATIENCE.as_secs());
                return Err(refused("lock", &lock, io::Error::new(io::ErrorKind::WouldBlock, why)));
            }
            // Some network file systems don't support locks. There, one of two runs that end together may lose its findings.
            Err(TryLockError::Error(why)) if why.kind() == io::ErrorKind::Unsupported => return Ok(None),
            Err(TryLockError::Error(why)) => return Err(refused("lock", &lock, why)),
        }
    }
}

/// Renames a damaged file to `NAME.damaged`, `NAME.damaged-2` …, so that nothing is lost.
fn set_aside(path: &Path, why: String) -> Result<SetAside, ProfileError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for n in 1..=MOST_SET_ASIDE {
        let number = if n == 1 { String::new() } else { format!("-{n}") };
        let aside = path.with_file_name(format!("{name}.damaged{number}"));
        // The lock is held, so no other run takes this name meanwhile.
        if aside.symlink_metadata().is_err() {
            std::fs::rename(path, &aside).map_err(|why| refused("rename", path, why))?;
            return Ok(SetAside { path: aside, why });
        }
    }
    Err(refused(
        "set aside",
        path,
        io::Error::other(format!("there are already {MOST_SET_ASIDE} damaged copies in the folder")),
    ))
}

fn refused(doing: &'static str, path: &Path, why: io::Error) -> ProfileError {
    ProfileError::Io { doing, path: path.to_owned(), why }
}
