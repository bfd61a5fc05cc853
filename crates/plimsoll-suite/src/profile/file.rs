//! Profiles on disk: read with distrust, written whole or not at all, and merged under a lock, so that runs that end at the
//! same time lose nothing of each other. What is merged is the profile's own business.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use plimsoll_core::file::{self, Accept, FileError, Target};
use serde::Deserialize;

use super::{Profile, ProfileError, SCHEMA, StoredFinding, time};

/// Larger files are refused: a profile holds some hundred findings of some hundred bytes.
pub(super) const LARGEST_FILE: u64 = 4 << 20;
const LONGEST_ID: usize = 128;
/// How long a run waits for another that merges. A merge takes milliseconds; what lasts longer hangs.
const PATIENCE: Duration = Duration::from_secs(5);
/// How far the clocks of machines that share a folder may differ.
const SLACK: SignedDuration = SignedDuration::from_hours(24);
/// Damaged files that are kept beside one profile.
const MOST_SET_ASIDE: u32 = 99;

/// What [`Profile::keep`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Findings that it took over: new ones, and newer ones of what was known.
    pub taken: usize,
    /// Findings that the file holds now.
    pub known: usize,
    /// A damaged file that was in the way.
    pub set_aside: Option<SetAside>,
}

/// A damaged profile and where it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Its new name, in the same folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

impl Profile {
    /// The file of a device's profile in `folder`.
    ///
    /// # Errors
    /// [`ProfileError::BadId`] where the identity could lead out of the folder or isn't a plain name.
    pub fn path(folder: &Path, device_id: &str) -> Result<PathBuf, ProfileError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let good =
            (1..=LONGEST_ID).contains(&device_id.len()) && device_id.bytes().all(plain) && !device_id.starts_with('.');
        if good { Ok(folder.join(format!("{device_id}.json"))) } else { Err(ProfileError::BadId(shortened(device_id))) }
    }

    /// The stored profile of a device, or `None` where there is none yet or the file is empty. Unknown fields are ignored. Of
    /// findings that the file has twice, that one is returned which [`put`](Self::put) would have kept.
    ///
    /// # Errors
    /// `Io`, `Damaged`, `TooNew`, `Future` and `NotOurs` of [`ProfileError`]; each names the file and the way out.
    pub fn load(path: &Path, device_id: &str) -> Result<Option<Self>, ProfileError> {
        let Some(profile) = Self::load_any(path)? else { return Ok(None) };
        if profile.device_id != device_id {
            return Err(ProfileError::NotOurs { path: path.to_owned(), theirs: shortened(&profile.device_id) });
        }
        Ok(Some(profile))
    }

    /// The same of whatever device the file holds.
    ///
    /// # Errors
    /// Those of [`load`](Self::load) but `NotOurs`.
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
        let profile = Self::read(&bytes, path)?;
        profile.not_of_the_future(path)?;
        Ok(Some(profile))
    }

    /// Whether [`keep`](Self::keep) can keep a profile of a device at `path`, as far as that can be told before there is one.
    /// The folder is made if need be.
    ///
    /// # Errors
    /// Those of [`keep`](Self::keep).
    pub fn ready(path: &Path, device_id: &str) -> Result<(), ProfileError> {
        match Self::load(path, device_id) {
            // A damaged one will be set aside.
            Ok(_) | Err(ProfileError::Damaged { .. }) => {}
            Err(other) => return Err(other),
        }
        let path = real(path)?;
        target(&path)?.ready().map_err(|why| refused("write", &path, why))?;
        // One that is there can be held by a process that hangs.
        if lock_is_there(&lock_path(&path))? { locked(&path).map(drop) } else { Ok(()) }
    }

    fn read(bytes: &[u8], path: &Path) -> Result<Self, ProfileError> {
        /// The layout is looked at first, because later layouts may not fit the type at all.
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
            return Err(damaged(format!("{} lies outside its own interval, or beyond all measure", name(bad))));
        }
        if let Some((what, when)) = profile.times().find(|(_, when)| time(when).is_none()) {
            let when = shortened(when);
            return Err(damaged(format!("{what} is of '{when}', which is no time like 2026-01-02T03:04:05Z")));
        }
        profile.unite();
        Ok(profile)
    }

    /// What is dated, and when. An empty date is none.
    fn times(&self) -> impl Iterator<Item = (String, &str)> {
        let whole = std::iter::once(("the whole".to_owned(), self.when.as_str()));
        let findings = self.findings.iter().map(|stored| (name(stored), stored.when.as_str()));
        whole.chain(findings).filter(|(_, when)| !when.is_empty())
    }

    fn not_of_the_future(&self, path: &Path) -> Result<(), ProfileError> {
        let now = Timestamp::now();
        let later = |when: &str| time(when).is_some_and(|when| when.duration_since(now) > SLACK);
        match self.times().find(|(_, when)| later(when)) {
            Some((what, when)) => Err(ProfileError::Future { path: path.to_owned(), what, when: when.to_owned() }),
            None => Ok(()),
        }
    }

    /// The profile as its file's text.
    ///
    /// # Errors
    /// [`ProfileError::Unsound`] for what JSON can't hold, or would not be read again.
    pub fn text(&self) -> Result<String, ProfileError> {
        let bad = self.findings.iter().find(|stored| !stored.finding.is_sound());
        if let Some(StoredFinding { finding, .. }) = bad {
            return Err(ProfileError::Unsound { probe: finding.probe.clone(), name: finding.name.clone() });
        }
        let text = serde_json::to_string_pretty(self);
        let text = text.map_err(|why| refused("write", Path::new(&self.device_id), io::Error::from(why)))?;
        Ok(text + "\n")
    }

    /// Writes the profile to `path`, whose folder is made if need be: first to a temporary file in the same folder, then by
    /// renaming, so that a reader sees the old or the new profile and never half of one. A link stays one.
    ///
    /// # Errors
    /// `Unsound` and `Io` of [`ProfileError`]; the file is then as it was.
    pub fn store(&self, path: &Path) -> Result<(), ProfileError> {
        let text = self.text()?;
        let path = real(path)?;
        target(&path)?.write(text.as_bytes(), true).map_err(|why| refused("write", &path, why))
    }

    /// Merges this profile into the one stored at `path`, as [`merge`](Self::merge) does. A damaged file is kept under
    /// another name. Others who keep theirs meanwhile wait: a lock is held on `.NAME.lock` in the same folder, which stays.
    ///
    /// # Errors
    /// `Io`, `TooNew`, `Future`, `NotOurs` and `Unsound` of [`ProfileError`]; the file is then as it was.
    pub fn keep(self, path: &Path) -> Result<Kept, ProfileError> {
        self.not_of_the_future(path)?;
        // Whoever knows it by another name holds the same lock.
        let path = &real(path)?;
        let _lock = locked(path)?;
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

/// A finding for a person: `finding stream/copy`.
fn name(stored: &StoredFinding) -> String {
    format!("finding {}/{}", shortened(&stored.finding.probe), shortened(&stored.finding.name))
}

fn shortened(id: &str) -> String {
    id.chars().take(LONGEST_ID).collect()
}

fn made_folder(path: &Path) -> Result<&Path, ProfileError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(|why| refused("make the folder", folder, why))?;
    Ok(folder)
}

/// What is at a path.
fn target(path: &Path) -> Result<Target, ProfileError> {
    match Target::find(path) {
        Ok(target) if target.is_stream() => {
            Err(refused("write", path, io::Error::other("a profile is kept in a regular file, and it is none")))
        }
        found => found.map_err(|why| refused("write", path, why)),
    }
}

/// The path without links, also where nothing is yet; the folders of both are made.
fn real(path: &Path) -> Result<PathBuf, ProfileError> {
    made_folder(path)?;
    let real = target(path)?.path().to_owned();
    made_folder(&real)?;
    Ok(real)
}

fn lock_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.lock"))
}

/// Whether there is a lock's file. What is none is refused: opening a pipe would wait for its other end, and a link could lead
/// anywhere.
fn lock_is_there(path: &Path) -> Result<bool, ProfileError> {
    match path.symlink_metadata() {
        Ok(about) if about.is_file() => Ok(true),
        Ok(_) => Err(refused("lock", path, io::Error::other("it is no regular file: remove it"))),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(why) => Err(refused("lock", path, why)),
    }
}

/// The profile for this process alone, until what is returned is dropped or the process ends, however it ends.
fn locked(path: &Path) -> Result<Option<File>, ProfileError> {
    let beside = lock_path(path);
    lock_is_there(&beside)?;
    let write = || File::options().create(true).truncate(false).write(true).open(&beside);
    let file = match write() {
        // Another user's: reading is enough to lock it.
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => File::open(&beside).map_err(|_| why),
        opened => opened,
    };
    let file = file.map_err(|why| refused("lock", &beside, why))?;
    let until = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            Err(TryLockError::WouldBlock) => {
                let why = format!("another process has held it for {} s", PATIENCE.as_secs());
                return Err(refused("lock", &beside, io::Error::new(io::ErrorKind::WouldBlock, why)));
            }
            // Some network file systems know no locks. Two runs that end in the same instant may lose one's findings there.
            Err(TryLockError::Error(why)) if why.kind() == io::ErrorKind::Unsupported => return Ok(None),
            Err(TryLockError::Error(why)) => return Err(refused("lock", &beside, why)),
        }
    }
}

/// `NAME.damaged`, `NAME.damaged-2` …: whatever it was, nothing is thrown away.
fn set_aside(path: &Path, why: String) -> Result<SetAside, ProfileError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for n in 1..=MOST_SET_ASIDE {
        let number = if n == 1 { String::new() } else { format!("-{n}") };
        let aside = path.with_file_name(format!("{name}.damaged{number}"));
        // The lock is held, so nobody else takes this name meanwhile.
        if aside.symlink_metadata().is_err() {
            std::fs::rename(path, &aside).map_err(|why| refused("rename", path, why))?;
            return Ok(SetAside { path: aside, why });
        }
    }
    Err(refused("set aside", path, io::Error::other(format!("{MOST_SET_ASIDE} damaged ones lie beside it"))))
}

fn refused(doing: &'static str, path: &Path, why: io::Error) -> ProfileError {
    ProfileError::Io { doing, path: path.to_owned(), why }
}
