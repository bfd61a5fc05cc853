//! One device of a fleet, as its file describes it.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::headline::{Better, Headline, Role};
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::{Member, Rank, Run};
use plimsoll_core::text::shorten;
use plimsoll_core::unit::ByteSize;

use super::file::{Origin, recompute};
use super::votes::{Digest, read_digests};
use crate::check::{Check, Note, Row, check};
use crate::headlines::is_transfer;

/// A device and its figures in one round of measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Its file's name.
    pub file: String,
    /// Its host.
    pub host: String,
    /// Its identity: a GPU's UUID.
    pub id: String,
    /// Its model, as the driver names it.
    pub model: String,
    /// Its backend.
    pub backend: String,
    /// Its place within the host: the PCI address, else its name on the command line.
    pub slot: String,
    /// The process that measured it.
    pub rank: Option<Rank>,
    /// The launcher's job.
    pub job: Option<String>,
    /// Its rack.
    pub rack: Option<String>,
    /// The round of measurement, from 1.
    pub round: u32,
    /// When its measurement began, UTC.
    pub started: String,
    /// What its figures depend on other than the model.
    pub settings: Vec<Setting>,
    /// Its headline figures and its health, judged by what its model should reach.
    pub check: Check,
    /// Figures that differ from their samples: what the file claimed.
    pub edited: Vec<(&'static Headline, f64)>,
    /// Figures of the verdict that the file only states, as ids: it holds no samples for them.
    pub unchecked: Vec<&'static str>,
    /// What it computed with each kernel.
    pub digests: Vec<Digest>,
    /// What could not be measured.
    pub faults: Vec<String>,
    /// Whether the measurement ended as planned.
    pub complete: bool,
    /// Whether another process had the device open.
    pub is_shared: bool,
}

/// A name and a value, in words.
pub type Setting = (&'static str, String);

/// Most faults that are kept of a device, and most characters of each.
const MOST_FAULTS: usize = 8;
const LONGEST_FAULT: usize = 120;
/// Most characters of a note.
const LONGEST_NOTE: usize = 300;
/// Most characters of a name in a file.
pub(super) const LONGEST_NAME: usize = 100;

impl Device {
    /// The device of a fleet's file.
    ///
    /// # Errors
    /// The record isn't a fleet's, or is damaged.
    pub fn from_run(mut run: Run, file: &str, probes: &[&'static ProbeSpec]) -> Result<Self, String> {
        let Some(member) = run.member.clone() else { return Err("a record, but not one of a fleet".to_owned()) };
        let [_] = run.header.devices[..] else { return Err(format!("{} devices, not one", run.header.devices.len())) };
        if run.end.is_none() {
            return Err("cut off: its last line is missing".to_owned());
        }
        if let Some(damage) = run.damage.first() {
            return Err(format!("damaged: line {}: {}", damage.line, damage.what));
        }
        let origins = recompute(&mut run, probes);
        // Figures of another version may be derived in another way.
        let is_own_version = run.header.tool == env!("CARGO_PKG_VERSION");
        let edited = origins.iter().filter_map(|(headline, origin)| match origin {
            Origin::Edited { claimed } if is_own_version => Some((*headline, *claimed)),
            _ => None,
        });
        let is_unchecked = |(headline, origin): &&(&'static Headline, Origin)| {
            headline.role == Role::Gate && *origin == Origin::Unverified
        };
        let unchecked = origins.iter().filter(is_unchecked).map(|(headline, _)| headline.id);
        let Some(found) = check(&run, 0, probes) else { return Err("no device".to_owned()) };
        let info = &run.header.devices[0];
        let faults = run.faults.iter().take(MOST_FAULTS);
        Ok(Self {
            file: file.to_owned(),
            edited: edited.collect(),
            unchecked: unchecked.collect(),
            digests: read_digests(&run),
            faults: faults
                .map(|fault| format!("{}: {}", name(&fault.probe), shorten(&fault.what, LONGEST_FAULT)))
                .collect(),
            complete: run.end == Some(true),
            is_shared: info.health.other_processes.unwrap_or(0) > 0,
            started: name(&run.header.started),
            settings: settings(&run, info),
            check: Check { hidden: Vec::new(), notes: found.notes.into_iter().map(shorten_note).collect(), ..found },
            ..Self::placed(&member, info)
        })
    }

    fn placed(member: &Member, info: &DeviceInfo) -> Self {
        let member = shorten_member(member);
        let slot = info.notes.get("PCIe address").filter(|address| !address.is_empty()).unwrap_or(&info.selector);
        // The instances of a MIG device share its address.
        let slot = match info.id.strip_prefix("MIG-") {
            Some(uuid) => format!("{slot} MIG-{}", uuid.chars().take(8).collect::<String>()),
            None => slot.clone(),
        };
        Self {
            file: String::new(),
            host: member.host,
            id: name(if info.id.is_empty() { &info.selector } else { &info.id }),
            model: name(&info.name),
            backend: name(&info.backend),
            slot: name(&slot),
            rank: member.rank,
            job: member.job,
            rack: member.rack,
            round: member.round,
            started: String::new(),
            settings: Vec::new(),
            check: Check {
                device: 0,
                rows: Vec::new(),
                notes: Vec::new(),
                hidden: Vec::new(),
                verdict: crate::check::Verdict::NotJudged,
                sentence: String::new(),
            },
            edited: Vec::new(),
            unchecked: Vec::new(),
            digests: Vec::new(),
            faults: Vec::new(),
            complete: false,
            is_shared: false,
        }
    }

    /// What identifies it in a fleet. A CPU's id is made of the system's, which images may share.
    #[must_use]
    pub fn key(&self) -> (&str, &str) {
        (if self.backend == "cpu" { &self.host } else { "" }, &self.id)
    }

    /// Its place for people: `n3 0000:1b:00.0`.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{} {}", self.host, self.slot)
    }

    /// The figures of the verdict: those that follow from the file's samples.
    pub fn gates(&self) -> impl Iterator<Item = &Row> {
        self.stated().filter(|row| self.is_checked(row))
    }

    /// All figures of the verdict that the file states, also those that it holds no samples for.
    pub fn stated(&self) -> impl Iterator<Item = &Row> {
        self.check.rows.iter().filter(|row| row.headline.role == Role::Gate)
    }

    /// Whether a figure follows from the file's samples.
    #[must_use]
    pub fn is_checked(&self, row: &Row) -> bool {
        !self.unchecked.contains(&row.headline.id)
    }

    /// Whether its model's expectation can be used for this figure: not for transfers that ran on all devices of a host at once.
    #[must_use]
    pub fn has_expectation(&self, row: &Row) -> bool {
        !is_transfer(row.headline) || !self.settings.iter().any(|(what, value)| (*what, value.as_str()) == AT_ONCE)
    }

    /// Whether a figure of the verdict was measured.
    #[must_use]
    pub fn has_figures(&self) -> bool {
        self.gates().any(|row| self.goodness(row.headline.id).is_some())
    }

    /// The logarithm of a figure, negated where less is better; `None` where the device doesn't have it.
    #[must_use]
    pub fn goodness(&self, id: &str) -> Option<f64> {
        let row = self.gates().find(|row| row.headline.id == id)?;
        let log = row.measured.value.ln();
        log.is_finite().then_some(match row.headline.better {
            Better::More => log,
            Better::Less => -log,
        })
    }
}

/// How the devices of a host were measured: its name, and its value where they were measured at once.
const AT_ONCE: (&str, &str) = ("devices of a host", "at once");

/// Shortens a name from a file for display and comparison.
pub(super) fn name(text: &str) -> String {
    shorten(text, LONGEST_NAME)
}

/// A place with short names.
pub(super) fn shorten_member(member: &Member) -> Member {
    Member {
        host: name(&member.host),
        rank: member.rank.as_ref().map(|rank| Rank { source: name(&rank.source), ..rank.clone() }),
        job: member.job.as_deref().map(name),
        rack: member.rack.as_deref().map(name),
        round: member.round.max(1),
    }
}

/// A note may quote a fault.
fn shorten_note(note: Note) -> Note {
    Note { text: shorten(&note.text, LONGEST_NOTE), ..note }
}

/// The notes of a device that are compared with those of others. A file keeps them.
pub(super) const COMPARED_NOTES: [&str; 6] =
    ["PCIe address", "driver release", "VBIOS", "board part number", "ECC", "MIG"];

fn settings(run: &Run, info: &DeviceInfo) -> Vec<Setting> {
    let note = |name: &str| {
        debug_assert!(COMPARED_NOTES.contains(&name), "files leave out the note '{name}'");
        info.notes.get(name).cloned()
    };
    let health = &info.health;
    let effort = serde_json::to_value(run.header.effort).ok();
    let all = [
        ("tool", Some(run.header.tool.clone())),
        ("effort", effort.and_then(|effort| effort.as_str().map(str::to_owned))),
        (AT_ONCE.0, Some(if run.header.conditions.concurrent { AT_ONCE.1 } else { "one by one" }.to_owned())),
        ("size", run.header.conditions.bytes.map(|bytes| ByteSize(bytes).to_string())),
        ("driver", note("driver release").or_else(|| info.driver.clone())),
        ("VBIOS", note("VBIOS")),
        ("board part number", note("board part number")),
        ("SMs or cores", (info.multiprocessors > 0).then(|| info.multiprocessors.to_string())),
        ("ECC", note("ECC")),
        ("MIG", note("MIG")),
        ("power limit", health.power_limit.map(|watts| format!("{watts:.0} W"))),
        ("highest clock", health.clock_most.map(|hertz| format!("{:.0} MHz", hertz / 1e6))),
        // The generation isn't a setting: an idle link lowers it to save power.
        ("PCIe lanes", health.link.map(|link| format!("x{}", link.lanes))),
    ];
    all.into_iter().filter_map(|(what, value)| Some((what, name(&value?)))).collect()
}
