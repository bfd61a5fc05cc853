//! The machine profile: what was found about a device, kept as one JSON file per device so that predictions, tuning and
//! explanations need no new measurement. The folder is the caller's choice; what a finding means is its probe's.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use plimsoll_core::flag::Flag;
use plimsoll_core::record::Finding;
use plimsoll_core::unit::Unit;
use serde::{Deserialize, Serialize};

/// The version of the file's layout that this version writes. Fields may be added without raising it.
pub const SCHEMA: u32 = 1;

/// Larger files are refused: a profile holds some hundred findings of some hundred bytes.
const LARGEST_FILE: u64 = 4 << 20;
const LONGEST_ID: usize = 128;

/// What is known about one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Layout of the file, see [`SCHEMA`].
    pub schema: u32,
    /// The device's own identity: a GPU's UUID, or `cpu-…`. It names the file.
    pub device_id: String,
    /// The device as its driver calls it.
    pub device_name: String,
    /// Version of plimsoll that wrote it last.
    pub tool_version: String,
    /// When it was last written: UTC in RFC 3339 with a `Z`, so that text order is time order.
    pub when: String,
    /// What was found, at most one of each probe and name.
    #[serde(default)]
    pub findings: Vec<StoredFinding>,
}

/// One finding as kept: its flags come with it, so that a reader knows what to make of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredFinding {
    /// What was found. The place of its device is that in its run, and means nothing here.
    #[serde(flatten)]
    pub finding: Finding,
    /// The run that it comes from, as its record names it.
    #[serde(default)]
    pub run: String,
    /// When that run began, in the form of [`Profile::when`]; empty counts as oldest.
    #[serde(default)]
    pub when: String,
}

impl StoredFinding {
    fn is_same_thing(&self, other: &Self) -> bool {
        self.finding.probe == other.finding.probe && self.finding.name == other.finding.name
    }

    fn is_clean(&self) -> bool {
        self.finding.flags.impugning().is_empty()
    }
}

/// A profile that can't be read, written or merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The device's identity can't be a file name.
    #[error(
        "device id {0:?} can't name a profile: 1 to 128 letters, digits, '-', '_' and '.' are allowed, and no '.' first"
    )]
    BadId(String),
    /// The system refused a file operation.
    #[error("can't {doing} {}: {why}. Check the folder's permissions and free space, or name another folder", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// The system's answer.
        #[source]
        why: io::Error,
    },
    /// The file is no profile.
    #[error("{} is damaged: {why}. Remove it and measure again; only stored findings are lost", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file was written by a later version.
    #[error(
        "{} has layout {found}, and this version reads up to {SCHEMA}. Update plimsoll, or remove the file and measure again",
        path.display()
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its layout.
        found: u32,
    },
    /// A finding that JSON can't hold.
    #[error("finding {probe}/{name} isn't a finite number and can't be kept; measure {probe} again")]
    NotFinite {
        /// Its probe.
        probe: String,
        /// Its name.
        name: String,
    },
    /// Two profiles of different devices.
    #[error("a profile of {theirs} can't be merged into that of {ours}; store it under its own device")]
    OtherDevice {
        /// The device of the profile merged into.
        ours: String,
        /// The device of the profile to merge.
        theirs: String,
    },
}

impl Profile {
    /// An empty profile of a device.
    #[must_use]
    pub fn new(device_id: &str, device_name: &str, tool_version: &str, when: &str) -> Self {
        Self {
            schema: SCHEMA,
            device_id: device_id.to_owned(),
            device_name: device_name.to_owned(),
            tool_version: tool_version.to_owned(),
            when: when.to_owned(),
            findings: Vec::new(),
        }
    }

    /// The file of a device's profile in `dir`.
    ///
    /// # Errors
    /// [`ProfileError::BadId`] where the identity could lead out of the folder or isn't a plain name.
    pub fn path(dir: &Path, device_id: &str) -> Result<PathBuf, ProfileError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let good =
            (1..=LONGEST_ID).contains(&device_id.len()) && device_id.bytes().all(plain) && !device_id.starts_with('.');
        if good {
            Ok(dir.join(format!("{device_id}.json")))
        } else {
            let shown = device_id.chars().take(LONGEST_ID).collect();
            Err(ProfileError::BadId(shown))
        }
    }

    /// The stored profile of a device, or `None` where there is none yet. Unknown fields are ignored.
    ///
    /// # Errors
    /// Every [`ProfileError`] but `NotFinite` and `OtherDevice`; each names the file and the way out.
    pub fn load(dir: &Path, device_id: &str) -> Result<Option<Self>, ProfileError> {
        let path = Self::path(dir, device_id)?;
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(refused("open", &path, why)),
        };
        let mut bytes = Vec::new();
        // The limit holds for what is read, not for what the file system says, so a pipe or a growing file is harmless.
        file.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(|why| refused("read", &path, why))?;
        if bytes.len() as u64 > LARGEST_FILE {
            let why = format!("it is larger than {}", Unit::Byte.format(LARGEST_FILE as f64));
            return Err(ProfileError::Damaged { path, why });
        }
        Self::read(&bytes, device_id, path).map(Some)
    }

    fn read(bytes: &[u8], device_id: &str, path: PathBuf) -> Result<Self, ProfileError> {
        /// The layout is looked at first, because later layouts may not fit the type at all.
        #[derive(Deserialize)]
        struct Layout {
            schema: u32,
        }
        let damaged = |why: String| ProfileError::Damaged { path: path.clone(), why };
        let layout: Layout = serde_json::from_slice(bytes).map_err(|e| damaged(e.to_string()))?;
        if layout.schema > SCHEMA {
            let found = layout.schema;
            return Err(ProfileError::TooNew { path, found });
        }
        let profile: Self = serde_json::from_slice(bytes).map_err(|e| damaged(e.to_string()))?;
        if profile.device_id != device_id {
            return Err(damaged("it belongs to another device".to_owned()));
        }
        Ok(profile)
    }

    /// Writes the profile to its file in `dir`, which is made if need be: first to a temporary file in the same folder,
    /// then by renaming, so that a reader sees the old or the new profile and never half of one.
    ///
    /// # Errors
    /// `BadId`, `NotFinite` and `Io` of [`ProfileError`]; the file is then as it was.
    pub fn store(&self, dir: &Path) -> Result<PathBuf, ProfileError> {
        let path = Self::path(dir, &self.device_id)?;
        for StoredFinding { finding, .. } in &self.findings {
            let published = finding.published.as_ref().map_or([0.0; 2], |published| published.range.into());
            let numbers = [[finding.value, 0.0], finding.interval.into(), published];
            if !numbers.as_flattened().iter().all(|x| x.is_finite()) {
                return Err(ProfileError::NotFinite { probe: finding.probe.clone(), name: finding.name.clone() });
            }
        }
        std::fs::create_dir_all(dir).map_err(|why| refused("make the folder", dir, why))?;
        let mut file = tempfile::NamedTempFile::new_in(dir).map_err(|why| refused("write in", dir, why))?;
        let written = serde_json::to_writer_pretty(&mut file, self)
            .map_err(io::Error::from)
            .and_then(|()| file.write_all(b"\n"))
            .and_then(|()| file.as_file().sync_all());
        written.map_err(|why| refused("write", &path, why))?;
        file.persist(&path).map_err(|error| refused("replace", &path, error.error))?;
        Ok(path)
    }

    /// Takes over the findings of `other`, another profile of the same device, each as [`put`](Self::put) does. Order is by
    /// probe and name, so that the file is stable.
    ///
    /// # Errors
    /// [`ProfileError::OtherDevice`] where the devices differ; nothing is changed then.
    pub fn merge(&mut self, other: Self) -> Result<(), ProfileError> {
        if self.device_id != other.device_id {
            return Err(ProfileError::OtherDevice { ours: self.device_id.clone(), theirs: other.device_id });
        }
        if other.when >= self.when {
            self.device_name = other.device_name;
            self.tool_version = other.tool_version;
            self.when = other.when;
        }
        for finding in other.findings {
            self.put(finding);
        }
        let key = |stored: &StoredFinding| (stored.finding.probe.clone(), stored.finding.name.clone());
        self.findings.sort_by_cached_key(key);
        Ok(())
    }

    /// Keeps a finding and says whether it did: not one of a wrong result; not one that something else may have moved (a
    /// flag that impugns) where a clean one of the same probe and name is there; else the newer one stays, and `new`
    /// where they are equally old.
    pub fn put(&mut self, new: StoredFinding) -> bool {
        if new.finding.flags.contains(Flag::VerifyFail) {
            return false;
        }
        match self.findings.iter_mut().find(|old| old.is_same_thing(&new)) {
            Some(old) if (old.is_clean(), old.when.as_str()) > (new.is_clean(), new.when.as_str()) => false,
            Some(old) => {
                *old = new;
                true
            }
            None => {
                self.findings.push(new);
                true
            }
        }
    }

    /// The finding of a probe with this name.
    #[must_use]
    pub fn finding(&self, probe: &str, name: &str) -> Option<&StoredFinding> {
        self.findings.iter().find(|stored| stored.finding.probe == probe && stored.finding.name == name)
    }
}

fn refused(doing: &'static str, path: &Path, why: io::Error) -> ProfileError {
    ProfileError::Io { doing, path: path.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::flag::Flags;
    use plimsoll_core::record::Published;
    use plimsoll_core::stats::Interval;

    use super::*;

    fn finding(probe: &str, name: &str, value: f64, when: &str) -> StoredFinding {
        let finding = Finding {
            device: 0,
            probe: probe.to_owned(),
            name: name.to_owned(),
            value,
            interval: Interval { lo: value * 0.99, hi: value * 1.01 },
            unit: Unit::BytePerSecond,
            flags: Flags::NONE,
            metric: "bandwidth".to_owned(),
            says: String::new(),
            published: None,
        };
        StoredFinding { finding, run: "run".to_owned(), when: when.to_owned() }
    }

    fn flagged(flag: Flag, value: f64, when: &str) -> StoredFinding {
        let mut stored = finding("stream", "copy", value, when);
        stored.finding.flags.insert(flag);
        stored
    }

    fn profile(when: &str, findings: Vec<StoredFinding>) -> Profile {
        Profile { findings, ..Profile::new("GPU-1234", "NVIDIA H200", "0.1.0", when) }
    }

    #[test]
    fn a_stored_profile_comes_back_bit_for_bit() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("made/on/demand");
        let kept = profile(
            "2026-01-02T03:04:05Z",
            vec![
                finding("stream", "copy", 4.3e12 / 3.0, "2026-01-02T03:04:05Z"),
                finding("latency", "L2", f64::MIN_POSITIVE, ""),
            ],
        );
        assert_eq!(Profile::load(&folder, "GPU-1234").unwrap(), None);
        let path = kept.store(&folder).unwrap();
        assert_eq!(path, folder.join("GPU-1234.json"));
        assert_eq!(Profile::load(&folder, "GPU-1234").unwrap(), Some(kept));
        let files = std::fs::read_dir(&folder).unwrap().count();
        assert_eq!(files, 1, "no temporary file stays");
    }

    #[test]
    fn the_newer_finding_wins_and_others_stay() {
        let old = profile(
            "2026-01-01T00:00:00Z",
            vec![
                finding("stream", "copy", 1.0, "2026-01-01T00:00:00Z"),
                finding("latency", "L1", 2.0, "2026-01-01T00:00:00Z"),
            ],
        );
        let new = profile("2026-02-01T00:00:00Z", vec![finding("stream", "copy", 3.0, "2026-02-01T00:00:00Z")]);
        for (mut into, from) in [(old.clone(), new.clone()), (new, old)] {
            into.merge(from).unwrap();
            assert_eq!(into.when, "2026-02-01T00:00:00Z");
            assert_eq!(into.findings.len(), 2);
            assert_eq!(into.finding("stream", "copy").unwrap().finding.value, 3.0);
            assert_eq!(into.finding("latency", "L1").unwrap().finding.value, 2.0);
            assert!(into.findings.is_sorted_by_key(|f| (f.finding.probe.clone(), f.finding.name.clone())));
        }
    }

    #[test]
    fn a_doubtful_finding_never_replaces_a_clean_one_whatever_comes_first() {
        let clean = finding("stream", "copy", 1.0, "2026-01-01T00:00:00Z");
        let doubtful = flagged(Flag::ThrottlePower, 2.0, "2026-02-01T00:00:00Z");
        for order in [[clean.clone(), doubtful.clone()], [doubtful.clone(), clean.clone()]] {
            let mut profile = profile("", vec![]);
            order.into_iter().for_each(|stored| _ = profile.put(stored));
            assert_eq!(profile.findings, std::slice::from_ref(&clean));
        }
        // Flags that only qualify are no doubt, and of two doubtful ones the newer stays.
        let qualified = flagged(Flag::Outliers, 3.0, "2026-03-01T00:00:00Z");
        let mut of_clean = profile("", vec![clean]);
        assert!(of_clean.put(qualified.clone()) && of_clean.findings == [qualified]);
        let newer = flagged(Flag::Steal, 4.0, "2026-03-01T00:00:00Z");
        let mut of_doubtful = profile("", vec![doubtful]);
        assert!(of_doubtful.put(newer.clone()) && of_doubtful.findings == [newer]);
    }

    #[test]
    fn a_finding_of_a_wrong_result_is_never_kept() {
        let mut profile = profile("", vec![]);
        assert!(!profile.put(flagged(Flag::VerifyFail, 1.0, "")));
        assert!(profile.findings.is_empty());
    }

    #[test]
    fn flags_metric_and_what_is_published_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut stored = flagged(Flag::Outliers, 1.0, "");
        let range = Interval { lo: 1.0, hi: 2.0 };
        stored.finding.published = Some(Published { range, source: "a page".to_owned() });
        let kept = profile("", vec![stored]);
        kept.store(dir.path()).unwrap();
        assert_eq!(Profile::load(dir.path(), "GPU-1234").unwrap(), Some(kept));
    }

    #[test]
    fn another_devices_profile_is_not_merged() {
        let mut ours = profile("", vec![]);
        let theirs = Profile::new("GPU-other", "", "", "");
        assert!(matches!(ours.merge(theirs), Err(ProfileError::OtherDevice { .. })));
    }

    #[test]
    fn a_damaged_file_is_named_with_the_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("GPU-1234.json");
        let kept = serde_json::to_vec(&profile("", vec![finding("a", "b", 1.0, "")])).unwrap();
        for length in 0..kept.len() {
            std::fs::write(&path, &kept[..length]).unwrap();
            let error = Profile::load(dir.path(), "GPU-1234").unwrap_err();
            assert!(matches!(error, ProfileError::Damaged { .. }), "{length}: {error}");
            let text = error.to_string();
            assert!(text.contains("GPU-1234.json") && text.contains("Remove it"), "{text}");
        }
        std::fs::write(&path, [0xff; 64]).unwrap();
        assert!(Profile::load(dir.path(), "GPU-1234").is_err());
    }

    #[test]
    fn a_huge_file_is_refused_and_not_kept_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("GPU-1234.json")).unwrap();
        file.set_len(LARGEST_FILE * 1000).unwrap();
        let error = Profile::load(dir.path(), "GPU-1234").unwrap_err();
        assert!(error.to_string().contains("larger than 4 MiB"), "{error}");
    }

    #[test]
    fn later_fields_are_ignored_and_later_layouts_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("GPU-1234.json");
        let mut value = serde_json::to_value(profile("", vec![finding("a", "b", 1.0, "")])).unwrap();
        value["colour"] = "blue".into();
        value["findings"][0]["mood"] = 7.into();
        std::fs::write(&path, value.to_string()).unwrap();
        assert!(Profile::load(dir.path(), "GPU-1234").unwrap().is_some());
        std::fs::write(&path, r#"{"schema":99,"device":{}}"#).unwrap();
        assert!(matches!(Profile::load(dir.path(), "GPU-1234"), Err(ProfileError::TooNew { found: 99, .. })));
    }

    #[test]
    fn a_file_of_another_device_is_not_taken_for_ours() {
        let dir = tempfile::tempdir().unwrap();
        let path = profile("", vec![]).store(dir.path()).unwrap();
        std::fs::rename(path, dir.path().join("GPU-5678.json")).unwrap();
        let error = Profile::load(dir.path(), "GPU-5678").unwrap_err();
        assert!(error.to_string().contains("another device"), "{error}");
    }

    #[test]
    fn ids_can_not_lead_out_of_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let long = "a".repeat(129);
        for id in ["", ".", "..", ".hidden", "../x", "a/b", "a\\b", "a\0b", "a b", "é", &long] {
            assert!(matches!(Profile::load(dir.path(), id), Err(ProfileError::BadId(_))));
            assert!(Profile::new(id, "", "", "").store(dir.path()).is_err());
        }
        assert!(Profile::load(dir.path(), "cpu-0123456789abcdef").unwrap().is_none());
    }

    #[test]
    fn what_json_can_not_hold_is_refused_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let bad = profile("", vec![finding("stream", "copy", f64::NAN, "")]);
        assert!(matches!(bad.store(dir.path()), Err(ProfileError::NotFinite { .. })));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_unwritable_folder_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let blocked = dir.path().join("a file");
        std::fs::write(&blocked, "").unwrap();
        let error = profile("", vec![]).store(&blocked).unwrap_err();
        assert!(error.to_string().contains("a file"), "{error}");
    }
}
