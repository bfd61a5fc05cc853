//! The machine profile: what was found about a device, kept as one JSON file per device so that predictions, tuning and
//! explanations need no new measurement. How it is stored is [`mod@file`]'s business, what is known of machines that aren't
//! here is [`shipped`]'s. Where it is stored is the caller's choice; what a finding means is its probe's.

pub mod file;
pub mod shipped;

use std::path::PathBuf;

use plimsoll_core::flag::Flag;
use plimsoll_core::record::{Conditions, Finding, Run, RunHeader};
use serde::{Deserialize, Serialize};

pub use file::{Kept, SetAside};

/// The version of the file's layout that this version writes. Fields may be added without raising it.
pub const SCHEMA: u32 = 1;

/// What is known about one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Layout of the file, see [`SCHEMA`].
    pub schema: u32,
    /// The device's own identity: a GPU's UUID, or `cpu-…`; `model-…` of a machine that is known by its model alone.
    pub device_id: String,
    /// The device as its driver calls it.
    pub device_name: String,
    /// Version of plimsoll that wrote it last.
    pub tool_version: String,
    /// When it was last written: UTC in RFC 3339, whole seconds and a `Z`, so that text order is time order. Empty where no
    /// run told.
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
    /// The run that it comes from: the name of its folder. Empty of a published figure.
    #[serde(default)]
    pub run: String,
    /// When that run began, in the form of [`Profile::when`]; empty counts as oldest.
    #[serde(default)]
    pub when: String,
    /// Version of plimsoll that measured it.
    #[serde(default)]
    pub tool: String,
    /// The document that publishes the figure, where it was not measured by plimsoll; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
}

impl StoredFinding {
    /// True of a figure that others published: its interval is an allowance, not a measurement.
    #[must_use]
    pub fn is_published(&self) -> bool {
        !self.source.is_empty()
    }

    fn is_same_thing(&self, other: &Self) -> bool {
        self.finding.probe == other.finding.probe && self.finding.name == other.finding.name
    }

    fn is_clean(&self) -> bool {
        self.finding.flags.impugning().is_empty()
    }

    /// False of what was read from a wrong result.
    fn is_right(&self) -> bool {
        !self.finding.flags.contains(Flag::VerifyFail)
    }

    /// Whether this takes the place of `old`, the same thing: clean before doubtful, then newer before older, then the later
    /// to come.
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
    /// A finding that no file may hold.
    #[error("finding {probe}/{name} isn't a number within its own interval and can't be kept; measure {probe} again")]
    Unsound {
        /// Its probe.
        probe: String,
        /// Its name.
        name: String,
    },
    /// Something is dated later than now, so that nothing could ever replace it.
    #[error(
        "{}: {what} is of {when}, which is not yet: a clock is or was wrong. Set it right, or remove the file and measure again",
        path.display()
    )]
    Future {
        /// The file.
        path: PathBuf,
        /// The finding, or the whole.
        what: String,
        /// Its time.
        when: String,
    },
    /// The file holds the profile of another device.
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

/// A run whose figures are no limits of the machine.
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

    /// What a run found about one of its devices, by its place in the header; `name` is the run's. Probes that did not end
    /// well are left out, because what is found from a part of their points may be another thing under the same name; so are
    /// traces and wrong results. `None` where the run has no such device.
    ///
    /// # Errors
    /// [`Unfit`] where the whole run was made under conditions of its own, or doesn't tell when.
    pub fn of_run(run: &Run, device: u32, name: &str) -> Result<Option<Self>, Unfit> {
        if let Some(why) = unfit(&run.header) {
            return Err(Unfit(why));
        }
        let header = &run.header;
        let Some(info) = header.devices.get(device as usize) else { return Ok(None) };
        let mut profile = Self::new(&info.id, &info.name, &header.tool, &header.started);
        let failed = |probe: &str| {
            let whole = |fault: &&plimsoll_core::record::FaultRecord| fault.series.is_none() && fault.at.is_empty();
            run.faults.iter().filter(whole).any(|fault| fault.device == device && fault.probe == probe)
        };
        let traced = |probe: &str| run.series.iter().any(|series| series.spec.trace && series.spec.probe == probe);
        for finding in run.findings.iter().filter(|finding| finding.device == device && finding.is_sound()) {
            if failed(&finding.probe) || traced(&finding.probe) {
                continue;
            }
            profile.put(StoredFinding {
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

    /// Takes over the findings of `other`, another profile of the same device, each as [`put`](Self::put) does, and says
    /// how many it took. Order is by probe and name, so that the file is stable.
    ///
    /// # Errors
    /// [`ProfileError::OtherDevice`] where the devices differ; nothing is changed then.
    pub fn merge(&mut self, other: Self) -> Result<usize, ProfileError> {
        if self.device_id != other.device_id {
            return Err(ProfileError::OtherDevice { ours: self.device_id.clone(), theirs: other.device_id });
        }
        if other.when >= self.when {
            self.device_name = other.device_name;
            self.tool_version = other.tool_version;
            self.when = other.when;
        }
        let taken = other.findings.into_iter().map(|finding| usize::from(self.put(finding))).sum();
        self.sort();
        Ok(taken)
    }

    fn sort(&mut self) {
        let key = |stored: &StoredFinding| (stored.finding.probe.clone(), stored.finding.name.clone());
        self.findings.sort_by_cached_key(key);
    }

    /// Keeps a finding and says whether it did: not one of a wrong result; not one that something else may have moved (a
    /// flag that impugns) where a clean one of the same probe and name is there; else the newer one stays, and `new`
    /// where they are equally old.
    pub fn put(&mut self, new: StoredFinding) -> bool {
        if !new.is_right() {
            return false;
        }
        match self.findings.iter_mut().find(|old| old.is_same_thing(&new)) {
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

    /// Makes what a file held what [`put`](Self::put) would have made of it, in time that grows with its length alone.
    fn unite(&mut self) {
        self.findings.retain(StoredFinding::is_right);
        // Of equals, sorting keeps the order.
        self.sort();
        let mut found = std::mem::take(&mut self.findings).into_iter();
        self.findings.extend(found.next());
        for new in found {
            match self.findings.last_mut() {
                Some(old) if old.is_same_thing(&new) => {
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

    /// The most that memory was found to move, reads and writes together: the best of `stream` that nothing throws doubt on.
    #[must_use]
    pub fn best_bandwidth(&self) -> Option<&StoredFinding> {
        let of_memory = |stored: &&StoredFinding| {
            let finding = &stored.finding;
            finding.probe == "stream" && finding.metric == "bandwidth" && stored.is_clean()
        };
        self.findings.iter().filter(of_memory).max_by(|a, b| a.finding.value.total_cmp(&b.finding.value))
    }
}

/// Why a run's figures are no limits of its machine, or can't be put in order with others.
fn unfit(header: &RunHeader) -> Option<&'static str> {
    let Conditions { bytes, trace, concurrent, counters: _ } = header.conditions;
    if trace {
        Some("a trace shows first launches, not what the machine can do")
    } else if bytes.is_some() {
        Some("a size of one's own (--bytes) finds what holds for that size")
    } else if concurrent {
        Some("devices that are measured at once (--concurrent) share what they run on")
    } else if time(&header.started).is_none() {
        Some("the record doesn't tell when it was made")
    } else {
        None
    }
}

/// The time that a text in the form of [`Profile::when`] tells; no other form, because texts are compared.
fn time(text: &str) -> Option<jiff::Timestamp> {
    let time: jiff::Timestamp = text.parse().ok()?;
    (time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string() == text).then_some(time)
}

#[cfg(test)]
mod tests;
