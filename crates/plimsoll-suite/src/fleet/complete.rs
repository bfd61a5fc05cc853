//! What is missing, twice or mixed up in a fleet's folder.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use plimsoll_core::text::list_names;

use super::device::Device;
use super::launcher;
use super::read::{Folder, Partial};

/// What a fleet should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Devices in all.
    pub devices: Option<usize>,
    /// Devices of each host.
    pub per_host: Option<usize>,
    /// Earliest start of a measurement that counts, UTC as in records: `2026-01-02T03:04:05Z`.
    pub since: Option<String>,
}

/// Something wrong with a fleet's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The kind.
    pub kind: Kind,
    /// The file, where one is meant.
    pub file: Option<String>,
    /// What is wrong, in words.
    pub text: String,
}

/// The kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Devices or ranks have no file.
    Missing,
    /// A measurement was cut off.
    CutOff,
    /// A file can't be used.
    Unusable,
    /// A device has two files, or is on two hosts.
    Duplicate,
    /// A file is older than the fleet.
    Stale,
    /// Ranks, jobs or host names contradict each other.
    Ambiguous,
    /// Figures don't match the samples of their file.
    Edited,
    /// A file states figures without samples.
    Unchecked,
    /// Settings differ within a model.
    Mixed,
}

impl Kind {
    /// The word in tables and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::CutOff => "cut off",
            Self::Unusable => "unusable",
            Self::Duplicate => "duplicate",
            Self::Stale => "stale",
            Self::Ambiguous => "ambiguous",
            Self::Edited => "edited",
            Self::Unchecked => "unchecked",
            Self::Mixed => "mixed",
        }
    }

    /// Whether it leaves devices without a verdict.
    #[must_use]
    pub const fn is_serious(self) -> bool {
        matches!(self, Self::Missing | Self::CutOff | Self::Unusable | Self::Duplicate)
    }
}

fn problem(kind: Kind, file: Option<&str>, text: String) -> Problem {
    Problem { kind, file: file.map(str::to_owned), text }
}

/// The devices of a folder, sorted out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sorted {
    /// The first round, one per device.
    pub devices: Vec<Device>,
    /// The further rounds of each device.
    pub repeats: Vec<Vec<Device>>,
    /// Devices that two hosts claim, as indexes.
    pub contested: BTreeSet<usize>,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// Devices that are missing, as far as their number is known.
    pub missing: usize,
}

/// Sorts a folder: leaves out what is old, finds duplicates, and counts what is missing.
#[must_use]
pub fn sort(folder: Folder, expected: &Expected) -> Sorted {
    let Folder { devices, mut partial, unusable } = folder;
    let mut sorted = Sorted::default();
    sorted.problems.extend(unusable.iter().map(|(file, why)| problem(Kind::Unusable, Some(file), why.clone())));
    let is_old = |device: &Device| expected.since.as_ref().is_some_and(|since| device.started < *since);
    let (old, current): (Vec<Device>, Vec<Device>) = devices.into_iter().partition(is_old);
    for device in old {
        let text = format!("{}: measured {}, before the time that counts", device.place(), device.started);
        sorted.problems.push(problem(Kind::Stale, Some(&device.file), text));
    }
    partial.retain(|cut| expected.since.as_ref().is_none_or(|since| cut.started >= *since));
    sorted.take_rounds(current);
    sorted.name_partial(&partial);
    sorted.count_missing(expected);
    sorted.check_ranks();
    sorted
}

impl Sorted {
    /// Newest file of each device and round; others of the same are duplicates.
    fn take_rounds(&mut self, current: Vec<Device>) {
        let mut by_device: BTreeMap<(String, String), Vec<Device>> = BTreeMap::new();
        for device in current {
            let (host, id) = device.key();
            by_device.entry((host.to_owned(), id.to_owned())).or_default().push(device);
        }
        for (_, mut own) in by_device {
            own.sort_by(|a, b| (a.round, &b.started, &a.file).cmp(&(b.round, &a.started, &b.file)));
            let hosts: BTreeSet<String> = own.iter().map(|device| device.host.clone()).collect();
            let files: Vec<&str> = own.iter().map(|device| device.file.as_str()).collect();
            let is_contested = hosts.len() > 1;
            if is_contested {
                let text = format!(
                    "{} is on {} hosts: {} ({})",
                    own[0].id,
                    hosts.len(),
                    list_names(&hosts),
                    list_names(&files)
                );
                self.problems.push(problem(Kind::Duplicate, None, text));
            }
            let mut rounds: Vec<Device> = Vec::new();
            for device in own {
                match rounds.last() {
                    Some(last) if last.round == device.round => {
                        if !is_contested {
                            let text = format!("{} has a newer file: {}", device.id, last.file);
                            self.problems.push(problem(Kind::Duplicate, Some(&device.file), text));
                        }
                    }
                    _ => rounds.push(device),
                }
            }
            self.drop_old_rounds(&mut rounds);
            if is_contested {
                self.contested.insert(self.devices.len());
            }
            let mut rounds = rounds.into_iter();
            self.devices.extend(rounds.next());
            self.repeats.push(rounds.collect());
        }
    }

    /// Leaves out further rounds from before the first one: that was measured again since, perhaps after a repair.
    fn drop_old_rounds(&mut self, rounds: &mut Vec<Device>) {
        let Some(first) = rounds.first().map(|first| first.started.clone()) else { return };
        rounds.retain(|device| {
            let is_old = device.started < first;
            if is_old {
                let text = format!("{}: round {} is from before the first", device.place(), device.round);
                self.problems.push(problem(Kind::Stale, Some(&device.file), text));
            }
            !is_old
        });
    }

    /// What was cut off, except devices whose file is complete.
    fn name_partial(&mut self, partial: &[Partial]) {
        // A CPU's identity is its model.
        let host_of = |device: &Device| (device.backend == "cpu").then(|| device.host.clone());
        let known: HashSet<(Option<String>, String)> =
            self.devices.iter().map(|device| (host_of(device), device.id.clone())).collect();
        for cut in partial {
            let host = Some(cut.member.host.clone());
            let is_known =
                |id: &&String| known.contains(&(None, (*id).clone())) || known.contains(&(host.clone(), (*id).clone()));
            let open: Vec<&String> = cut.ids.iter().filter(|id| !is_known(id)).collect();
            if open.is_empty() {
                continue;
            }
            let rank = cut.member.rank.as_ref().map_or(String::new(), |rank| format!("rank {} on ", rank.number));
            let had = match &cut.probes[..] {
                [] => "nothing measured yet".to_owned(),
                [last] => format!("cut off in {last}"),
                [begun @ .., last] => format!("it had {}; cut off in {last}", list_names(begun)),
            };
            let text = format!("{rank}{} ({}): {had}", cut.member.host, list_names(open));
            self.problems.push(problem(Kind::CutOff, Some(&cut.file), text));
        }
    }

    fn count_missing(&mut self, expected: &Expected) {
        let mut missing = 0;
        if let Some(per_host) = expected.per_host {
            let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
            self.devices.iter().for_each(|device| *hosts.entry(&device.host).or_default() += 1);
            let found: Vec<(String, usize)> = hosts
                .into_iter()
                .map(|(host, count)| (host.to_owned(), count))
                .filter(|(_, count)| *count != per_host)
                .collect();
            for (host, count) in found {
                missing += per_host.saturating_sub(count);
                let (kind, what) = if count < per_host { (Kind::Missing, "only ") } else { (Kind::Ambiguous, "") };
                self.problems.push(problem(kind, None, format!("{host} has {what}{count} of {per_host} devices")));
            }
        }
        if let Some(all) = expected.devices {
            let count = self.devices.len();
            let here = all.saturating_sub(count);
            if here > missing {
                self.problems.push(problem(Kind::Missing, None, format!("{count} of {all} devices are here")));
            } else if count > all {
                self.problems.push(problem(
                    Kind::Ambiguous,
                    None,
                    format!("{count} devices are here, more than the {all} expected"),
                ));
            }
            missing = missing.max(here);
        }
        self.missing = missing;
    }

    /// Ranks that have no file, by the world that the others name. A rank may have several devices.
    fn check_ranks(&mut self) {
        type World<'d> = (Option<&'d str>, &'d str, u32);
        let mut worlds: BTreeMap<World<'_>, BTreeMap<u32, BTreeSet<&str>>> = BTreeMap::new();
        for device in &self.devices {
            let Some(rank) = &device.rank else { continue };
            // A file may claim any number.
            let world = rank.world.filter(|world| *world <= launcher::MOST).unwrap_or(0);
            let world = (device.job.as_deref(), rank.source.as_str(), world);
            worlds.entry(world).or_default().entry(rank.number).or_default().insert(&device.host);
        }
        let jobs: BTreeSet<&str> = self.devices.iter().filter_map(|device| device.job.as_deref()).collect();
        let mut problems = Vec::new();
        if jobs.len() > 1 {
            let text = format!("the files are of {} jobs: {}", jobs.len(), list_names(&jobs));
            problems.push(problem(Kind::Ambiguous, None, text));
        }
        let mut missing = 0;
        for ((_, source, world), ranks) in &worlds {
            let absent = (*world as usize).saturating_sub(ranks.range(..world).count());
            // A host that is measured again has its files from a later job, which the first lacks.
            if absent > 0 && jobs.len() <= 1 {
                missing += absent;
                let first = (0..*world).filter(|rank| !ranks.contains_key(rank)).take(8);
                let first: Vec<String> = first.map(|rank| rank.to_string()).collect();
                let more = if absent > 8 { ", …" } else { "" };
                let text = format!("{absent} of {world} ranks ({source}) have no file: {}{more}", first.join(", "));
                problems.push(problem(Kind::Missing, None, text));
            }
            let twice: Vec<String> =
                ranks.iter().filter(|(_, hosts)| hosts.len() > 1).map(|(rank, _)| rank.to_string()).collect();
            if !twice.is_empty() {
                let text = format!("ranks of {source} that several hosts have: {}", list_names(&twice));
                problems.push(problem(Kind::Ambiguous, None, text));
            }
        }
        self.problems.extend(problems);
        self.missing = self.missing.max(missing);
    }
}
