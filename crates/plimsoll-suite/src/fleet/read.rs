//! Reads the files of a fleet's folder, on all processors, each up to a limit.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_core::file::{Accept, FileError};
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::{self, Limits, Member, Run};

use super::device::{Device, name, shorten_member};

/// Largest file that is read, bytes. A device's file has at most 40 KiB.
pub const LARGEST_READ: u64 = 1 << 20;
/// Most files of a folder.
pub const MOST_FILES: usize = 100_000;
/// The ending of a device's file, and of the file that its process writes while it measures.
pub const ENDING: &str = ".jsonl";
/// See [`ENDING`]; its name also begins with a dot.
pub const PARTIAL: &str = ".part";
/// Most devices, and most probes, of a measurement that was cut off.
const MOST_NAMES: usize = 256;
const LIMITS: Limits = Limits { line: LARGEST_READ, file: LARGEST_READ, lines: 20_000, damage: 5 };

/// What a folder holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Folder {
    /// The devices.
    pub devices: Vec<Device>,
    /// Measurements that were cut off, or still run.
    pub partial: Vec<Partial>,
    /// Files that can't be used, with the reason.
    pub unusable: Vec<(String, String)>,
}

/// A measurement that didn't end, as far as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Its file's name.
    pub file: String,
    /// The place of its device.
    pub member: Member,
    /// Its devices' identities.
    pub ids: Vec<String>,
    /// When its measurement began, UTC.
    pub started: String,
    /// The probes that it had begun, in order.
    pub probes: Vec<String>,
}

enum Outcome {
    Device(Box<Device>),
    Partial(Partial),
    Unusable(String),
}

/// Reads all files of a folder whose names end like a device's file.
///
/// # Errors
/// The folder can't be listed, or has more than [`MOST_FILES`] files.
pub fn read_folder(folder: &Path, probes: &[&'static ProbeSpec]) -> io::Result<Folder> {
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_partial(&name) || (name.ends_with(ENDING) && !name.starts_with('.')) {
            files.push((name, entry.path()));
        }
        if files.len() > MOST_FILES {
            return Err(io::Error::other(format!("it holds more than {MOST_FILES} files of devices")));
        }
    }
    files.sort();
    let outcomes = read_all(&files, probes);
    let mut found = Folder::default();
    for ((name, _), outcome) in files.into_iter().zip(outcomes) {
        match outcome {
            Outcome::Device(device) => found.devices.push(*device),
            Outcome::Partial(partial) => found.partial.push(partial),
            Outcome::Unusable(why) => found.unusable.push((name, why)),
        }
    }
    Ok(found)
}

fn is_partial(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(PARTIAL)
}

fn read_all(files: &[(String, PathBuf)], probes: &[&'static ProbeSpec]) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::with_capacity(files.len()));
    let work = || {
        while let Some((place, (name, path))) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|place| Some((place, files.get(place)?)))
        {
            let outcome = if is_partial(name) { read_partial(name, path) } else { read_device(name, path, probes) };
            let outcome = outcome.unwrap_or_else(Outcome::Unusable);
            outcomes.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((place, outcome));
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(files.len().max(1));
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    let mut outcomes = outcomes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    outcomes.sort_unstable_by_key(|(place, _)| *place);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Whether this is the file of a device that was measured to the end.
#[must_use]
pub fn is_complete(path: &Path) -> bool {
    let bytes = plimsoll_core::file::read(path, LARGEST_READ, Accept::Regular);
    let run = bytes.ok().and_then(|bytes| parse(&bytes).ok());
    run.is_some_and(|run| run.member.is_some() && run.damage.is_empty() && run.end == Some(true))
}

fn read_device(name: &str, path: &Path, probes: &[&'static ProbeSpec]) -> Result<Outcome, String> {
    let bytes = plimsoll_core::file::read(path, LARGEST_READ, Accept::Regular).map_err(|error| match error {
        FileError::TooLarge(_) => "larger than 1 MiB: no file of a fleet is".to_owned(),
        other => other.to_string(),
    })?;
    let run = parse(&bytes)?;
    Ok(Outcome::Device(Box::new(Device::from_run(run, name, probes)?)))
}

/// Reads the beginning of a measurement that didn't end; it may have any length.
fn read_partial(file: &str, path: &Path) -> Result<Outcome, String> {
    let bytes = plimsoll_core::file::read_beginning(path, LARGEST_READ).map_err(|error| error.to_string())?;
    let run = parse(&bytes)?;
    let member = run.member.ok_or("a record, but not one of a fleet")?;
    let mut probes: Vec<String> = Vec::new();
    for series in run.series.iter().filter(|series| !series.spec.probe.is_empty()) {
        if probes.len() < MOST_NAMES && probes.last() != Some(&series.spec.probe) {
            probes.push(name(&series.spec.probe));
        }
    }
    probes.dedup();
    let ids = run.header.devices.iter().take(MOST_NAMES).map(|info| name(&info.id)).collect();
    let started = name(&run.header.started);
    let file = file.to_owned();
    Ok(Outcome::Partial(Partial { file, member: shorten_member(&member), ids, started, probes }))
}

fn parse(bytes: &[u8]) -> Result<Run, String> {
    record::read(bytes, LIMITS).map_err(|error| error.to_string())
}
