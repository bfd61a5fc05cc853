//! The machine profile: findings about a device, stored as one JSON file per device so that predictions, tuning and explanations
//! need no new measurement. [`mod@file`] reads and writes it, and [`shipped`] has profiles of machines that aren't here. The
//! caller chooses the path; the meaning of a finding is defined by its probe.

pub mod file;
pub mod shipped;

use std::path::PathBuf;

use plimsoll_core::record::{Conditions, Finding, Run, RunHeader};
use serde::{Deserialize, Serialize};

pub use file::{Kept, SetAside};

/// The version of the file's layout that this version writes. Fields may be added without raising it.
pub const SCHEMA: u32 = 1;

/// The findings about one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Layout version of the file, see [`SCHEMA`].
    pub schema: u32,
    /// The device's identity: a GPU's UUID, `cpu-…`, or `model-…` for a machine model.
    pub device_id: String,
    /// The device's name as its driver reports it.
    pub device_name: String,
    /// Version of plimsoll that wrote it last.
    pub tool_version: String,
    /// Time of the latest run in it: UTC in RFC 3339 with whole seconds and a `Z`, so that text order is time order. Empty where
    /// it isn't known.
    pub when: String,
    /// The findings, at most one for each probe and name.
    #[serde(default)]
    pub findings: Vec<StoredFinding>,
}

/// A stored finding, including its flags, and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredFinding {
    /// The finding. Its device index has no meaning here.
    #[serde(flatten)]
    pub finding: Finding,
    /// The run that it comes from: the name of its folder. Empty for a published figure.
    #[serde(default)]
    pub run: String,
    /// When that run began, in the format of [`Profile::when`]; empty counts as oldest.
    #[serde(default)]
    pub when: String,
    /// Version of plimsoll that measured it.
    #[serde(default)]
    pub tool: String,
    /// The document with the figure if it was published by others; empty if plimsoll measured it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
}

impl StoredFinding {
    /// True for a figure that others published: its interval is assumed, not measured.
    #[must_use]
    pub fn is_published(&self) -> bool {
        !self.source.is_empty()
    }

    fn has_same_name(&self, other: &Self) -> bool {
        self.finding.probe == other.finding.probe && self.finding.name == other.finding.name
    }

    fn is_clean(&self) -> bool {
        self.finding.flags.doubtful().is_empty()
    }

    /// False for a finding from a kernel with a wrong result.
    fn is_verified(&self) -> bool {
        !self.finding.flags.is_unverified()
    }

    /// True where this replaces `old`, a finding with the same name: clean ones win over doubtful ones, then newer over older
    /// ones, then the one that is added later.
    fn replaces(&self, old: &Self) -> bool {
        (self.is_clean(), self.when.as_str()) >= (old.is_clean(), old.when.as_str())
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
        why: std::io::Error,
    },
    /// The file isn't a valid profile.
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
        /// Its layout version.
        found: u32,
    },
    /// A finding that can't be stored in a file.
    #[error("finding {probe}/{name} isn't a number within its own interval and can't be stored; measure {probe} again")]
    Unsound {
        /// Its probe.
        probe: String,
        /// Its name.
        name: String,
    },
    /// A date in the future, so that no new finding could replace the old one.
    #[error(
        "{}: {what} is dated {when}, which is in the future: a clock is or was wrong. Correct it, or remove the file \
         and measure again",
        path.display()
    )]
    Future {
        /// The file.
        path: PathBuf,
        /// The finding, or the profile itself.
        what: String,
        /// Its time.
        when: String,
    },
    /// The file contains the profile of another device.
    #[error("{} is the profile of another device ({theirs}); name another file, or a folder", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// The device that it belongs to.
        theirs: String,
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

/// The reason why a run's figures don't show what the machine can do in general, so that no profile can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(&'static str);

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

    /// The findings of a run about one of its devices, by its index in the header; `name` is the run's. Probes that failed are left
    /// out, because a finding from some of their points may mean something else; so are traces and wrong results. `None` where the
    /// run has no such device.
    ///
    /// # Errors
    /// [`Unfit`] where the run was made under special conditions, or its start time isn't valid.
    pub fn from_run(run: &Run, device: u32, name: &str) -> Result<Option<Self>, Unfit> {
        if let Some(why) = why_unfit(&run.header) {
            return Err(Unfit(why));
        }
        let header = &run.header;
        let Some(info) = header.devices.get(device as usize) else { return Ok(None) };
        let mut profile = Self::new(&info.id, &info.name, &header.tool, &header.started);
        let failed = |probe: &str| {
            let is_of_probe =
                |fault: &&plimsoll_core::record::FaultRecord| fault.series.is_none() && fault.at.is_empty();
            run.faults.iter().filter(is_of_probe).any(|fault| fault.device == device && fault.probe == probe)
        };
        let traced = |probe: &str| run.series.iter().any(|series| series.spec.trace && series.spec.probe == probe);
        for finding in run.findings.iter().filter(|finding| finding.device == device && finding.is_sound()) {
            if failed(&finding.probe) || traced(&finding.probe) {
                continue;
            }
            profile.insert(StoredFinding {
                finding: Finding { device: 0, ..finding.clone() },
                run: name.to_owned(),
                when: header.started.clone(),
                tool: header.tool.clone(),
                source: String::new(),
            });
        }
        profile.sort();
        Ok(Some(profile))
    }

    /// Inserts the findings of `other`, another profile of the same device, as [`insert`](Self::insert) does, and returns how many
    /// were taken. The result is sorted by probe and name, so that the file is stable.
    ///
    /// # Errors
    /// [`ProfileError::OtherDevice`] where the devices differ; then nothing is changed.
    pub fn merge(&mut self, other: Self) -> Result<usize, ProfileError> {
        if self.device_id != other.device_id {
            return Err(ProfileError::OtherDevice { ours: self.device_id.clone(), theirs: other.device_id });
        }
        if other.when >= self.when {
            self.device_name = other.device_name;
            self.tool_version = other.tool_version;
            self.when = other.when;
        }
        let taken = other.findings.into_iter().map(|finding| usize::from(self.insert(finding))).sum();
        self.sort();
        Ok(taken)
    }

    fn sort(&mut self) {
        let key = |stored: &StoredFinding| (stored.finding.probe.clone(), stored.finding.name.clone());
        self.findings.sort_by_cached_key(key);
    }

    /// Inserts a finding and returns whether it was taken. A finding from a wrong result is refused. A doubtful one never replaces
    /// a clean one of the same probe and name; otherwise the newer one stays, or `new` where both have the same date.
    pub fn insert(&mut self, new: StoredFinding) -> bool {
        if !new.is_verified() {
            return false;
        }
        match self.findings.iter_mut().find(|old| old.has_same_name(&new)) {
            Some(old) if !new.replaces(old) => false,
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

    /// Removes duplicates that a file contains, with the result that [`insert`](Self::insert) would have had, in O(n log n).
    fn deduplicate(&mut self) {
        self.findings.retain(StoredFinding::is_verified);
        // The sort is stable.
        self.sort();
        let mut found = std::mem::take(&mut self.findings).into_iter();
        self.findings.extend(found.next());
        for new in found {
            match self.findings.last_mut() {
                Some(old) if old.has_same_name(&new) => {
                    if new.replaces(old) {
                        *old = new;
                    }
                }
                _ => self.findings.push(new),
            }
        }
    }

    /// The finding of a probe with this name.
    #[must_use]
    pub fn finding(&self, probe: &str, name: &str) -> Option<&StoredFinding> {
        self.findings.iter().find(|stored| stored.finding.probe == probe && stored.finding.name == name)
    }

    /// The highest measured memory bandwidth, reads and writes together: the best clean finding of `stream`.
    #[must_use]
    pub fn best_bandwidth(&self) -> Option<&StoredFinding> {
        let of_memory = |stored: &&StoredFinding| {
            let finding = &stored.finding;
            finding.probe == "stream" && finding.metric == "bandwidth" && stored.is_clean()
        };
        self.findings.iter().filter(of_memory).max_by(|a, b| a.finding.value.total_cmp(&b.finding.value))
    }
}

/// Why a run's figures don't show what its machine can do, or can't be ordered by time.
fn why_unfit(header: &RunHeader) -> Option<&'static str> {
    let Conditions { bytes, trace, concurrent, counters: _ } = header.conditions;
    if trace {
        Some("a trace shows first launches, not what the machine can do")
    } else if bytes.is_some() {
        Some("with --bytes the figures hold for that size only")
    } else if concurrent {
        Some("devices measured at the same time (--concurrent) share the host's resources")
    } else if parse_time(&header.started).is_none() {
        Some("the record has no valid start time")
    } else {
        None
    }
}

/// Parses a time in the format of [`Profile::when`]; no other format is accepted, because times are compared as text.
fn parse_time(text: &str) -> Option<jiff::Timestamp> {
    let time: jiff::Timestamp = text.parse().ok()?;
    (time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string() == text).then_some(time)
}

#[cfg(test)]
mod tests;
