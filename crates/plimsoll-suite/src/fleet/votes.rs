//! Votes about digests: devices of one model compute the same bits, so one whose digest most others don't have computes wrongly.
//!
//! A device in the minority of at least [`FEWEST`] is broken. Where no digest has a majority, nobody knows who is wrong.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::record::Run;
use plimsoll_core::text::list_names;
use plimsoll_core::unit::Unit;

use super::collect::{Baseline, Reason};
use super::device::{Device, name};
use super::reasons::{runs, unknown};
use crate::check::{DIGESTS, Verdict};

/// Fewest devices with a digest for a majority to decide.
pub const FEWEST: usize = 3;
/// Most digests that are read from a file.
const MOST: usize = 32;

/// What one device computed with one kernel: 32 bits that stand for all results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The kernel: `integer`.
    pub kernel: String,
    /// The version of the kernel and its numbers.
    pub version: String,
    /// The digest.
    pub bits: u32,
}

/// The digests of a file, the first of each kernel.
#[must_use]
pub(super) fn read_digests(run: &Run) -> Vec<Digest> {
    let mut digests: Vec<Digest> = Vec::new();
    for finding in run.findings.iter().filter(|finding| finding.probe == DIGESTS && finding.unit == Unit::Digest) {
        let (kernel, bits) = (name(&finding.name), finding.value as u32);
        let is_new = !digests.iter().any(|known| known.kernel == kernel);
        if digests.len() < MOST && is_new && f64::from(bits) == finding.value {
            digests.push(Digest { kernel, version: name(&finding.metric), bits });
        }
    }
    digests
}

/// What a vote says of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opinion {
    /// It has the digest of the others, or there are no others.
    Agrees,
    /// It has no digest, but most devices have one.
    Lacks,
    /// Its runs gave two digests.
    Changes(u32, u32),
    /// It has another digest than most.
    Differs {
        /// Its digest.
        own: u32,
        /// The digest of the majority.
        usual: u32,
        /// The devices that have it.
        count: usize,
        /// The devices that have a digest.
        voters: usize,
    },
    /// The devices differ, and no digest has a majority of enough devices.
    Undecided {
        /// Its digest.
        own: u32,
        /// The devices that have it.
        count: usize,
        /// The devices that have a digest.
        voters: usize,
    },
}

/// Votes about one kernel. `devices` has the digests of each device, one per run. A device whose runs differ has no vote.
#[must_use]
pub fn vote(devices: &[Vec<u32>]) -> Vec<Opinion> {
    let change = |runs: &[u32]| runs.iter().find(|bits| **bits != runs[0]).map(|other| (runs[0], *other));
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for runs in devices.iter().filter(|runs| change(runs).is_none()) {
        runs.first().into_iter().for_each(|bits| *counts.entry(*bits).or_default() += 1);
    }
    let voters: usize = counts.values().sum();
    let usual = counts.iter().find(|(_, count)| 2 * **count > voters && voters >= FEWEST);
    let having = devices.iter().filter(|runs| !runs.is_empty()).count();
    let judge = |runs: &Vec<u32>| {
        let Some(&own) = runs.first() else {
            return if 2 * having > devices.len() { Opinion::Lacks } else { Opinion::Agrees };
        };
        match (change(runs), usual) {
            (Some((first, other)), _) => Opinion::Changes(first, other),
            (None, Some((&usual, &count))) if usual != own => Opinion::Differs { own, usual, count, voters },
            (None, None) if counts.len() > 1 => Opinion::Undecided { own, count: counts[&own], voters },
            _ => Opinion::Agrees,
        }
    };
    devices.iter().map(judge).collect()
}

/// What the votes say of each device, where that is bad. Devices vote with those of the same model, tool and version of the kernel.
/// `repeats` has the further rounds of each device; devices in `contested` may be several, so they have no vote.
pub(super) fn judge_digests(
    devices: &[Device],
    repeats: &[Vec<Device>],
    contested: &BTreeSet<usize>,
) -> Vec<Vec<Reason>> {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<usize>> = BTreeMap::new();
    for (place, device) in devices.iter().enumerate().filter(|(place, _)| !contested.contains(place)) {
        groups.entry((&device.model, &device.backend, find_tool(device))).or_default().push(place);
    }
    let mut reasons = vec![Vec::new(); devices.len()];
    let mut lacking: Vec<Vec<&str>> = vec![Vec::new(); devices.len()];
    for members in groups.values() {
        let mut kernels: BTreeMap<(&str, &str), BTreeMap<usize, Vec<u32>>> = BTreeMap::new();
        for (number, member) in members.iter().enumerate() {
            for digest in runs(&devices[*member], &repeats[*member]).flat_map(|run| &run.digests) {
                let kernel = (digest.kernel.as_str(), digest.version.as_str());
                kernels.entry(kernel).or_default().entry(number).or_default().push(digest.bits);
            }
        }
        for ((kernel, _), mut known) in kernels {
            // A kernel that most devices don't have says nothing of those that lack it: this bounds the work for hostile files.
            let numbers: Vec<usize> = if 2 * known.len() > members.len() {
                (0..members.len()).collect()
            } else {
                known.keys().copied().collect()
            };
            let digests: Vec<Vec<u32>> =
                numbers.iter().map(|number| known.remove(number).unwrap_or_default()).collect();
            for (number, opinion) in numbers.iter().zip(vote(&digests)) {
                let member = members[*number];
                match opinion {
                    Opinion::Lacks => lacking[member].push(kernel),
                    _ => reasons[member].extend(describe(kernel, &devices[member].model, opinion)),
                }
            }
        }
    }
    for (reasons, lacking) in reasons.iter_mut().zip(lacking).filter(|(_, lacking)| !lacking.is_empty()) {
        reasons.push(unknown(format!("no digest to compare: {}", list_names(&lacking))));
    }
    reasons
}

/// The version of plimsoll that measured a device.
fn find_tool(device: &Device) -> &str {
    device.settings.iter().find(|(what, _)| *what == "tool").map_or("", |(_, version)| version)
}

/// Why a device is wrong or in doubt; `None` where it isn't.
fn describe(kernel: &str, model: &str, opinion: Opinion) -> Option<Reason> {
    let hex = |bits: u32| Unit::Digest.format(f64::from(bits));
    let (verdict, text) = match opinion {
        Opinion::Agrees | Opinion::Lacks => return None,
        Opinion::Changes(first, other) => {
            (Verdict::Broken, format!("digest of {kernel}: {} in one run, {} in another", hex(first), hex(other)))
        }
        Opinion::Differs { own, usual, count, voters } => {
            let text = format!("digest of {kernel}: {}, but {} on {count} of {voters} {model}", hex(own), hex(usual));
            (Verdict::Broken, text)
        }
        Opinion::Undecided { own, count, voters } => {
            let text = format!("digest of {kernel}: {} on {count} of {voters} {model}, no majority", hex(own));
            (Verdict::Unknown, text)
        }
    };
    Some(Reason { verdict, headline: None, share: None, baseline: Baseline::Fleet, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote_once(digests: &[Option<u32>]) -> Vec<Opinion> {
        vote(&digests.iter().map(|bits| bits.iter().copied().collect()).collect::<Vec<Vec<u32>>>())
    }

    #[test]
    fn the_minority_of_three_or_more_differs_and_nobody_else() {
        let found = vote_once(&[Some(7), Some(7), Some(8)]);
        let differs = Opinion::Differs { own: 8, usual: 7, count: 2, voters: 3 };
        assert_eq!(found, [Opinion::Agrees, Opinion::Agrees, differs]);
        let mut many = vec![Some(u32::MAX); 512];
        (many[3], many[400]) = (Some(1), Some(2));
        let found = vote_once(&many);
        let wrong: Vec<usize> = (0..512).filter(|place| found[*place] != Opinion::Agrees).collect();
        assert_eq!(wrong, [3, 400]);
        assert_eq!(found[3], Opinion::Differs { own: 1, usual: u32::MAX, count: 510, voters: 512 });
    }

    #[test]
    fn two_devices_and_ties_decide_nothing() {
        let undecided = |own, count, voters| Opinion::Undecided { own, count, voters };
        assert_eq!(vote_once(&[Some(7), Some(8)]), [undecided(7, 1, 2), undecided(8, 1, 2)]);
        let tie = vote_once(&[Some(7), Some(8), Some(7), Some(8)]);
        assert_eq!(tie, [undecided(7, 2, 4), undecided(8, 2, 4), undecided(7, 2, 4), undecided(8, 2, 4)]);
        // The most common digest has no majority.
        assert_eq!(vote_once(&[Some(7), Some(7), Some(8), Some(9)])[0], undecided(7, 2, 4));
    }

    #[test]
    fn one_device_and_equal_devices_agree() {
        assert_eq!(vote_once(&[]), []);
        for devices in [vec![Some(7)], vec![Some(7); 2], vec![Some(0); 9], vec![None; 3]] {
            assert!(vote_once(&devices).iter().all(|opinion| *opinion == Opinion::Agrees), "{devices:?}");
        }
    }

    #[test]
    fn a_device_without_a_digest_lacks_it_where_most_have_one_and_has_no_vote() {
        assert_eq!(vote_once(&[Some(7), Some(7), None])[2], Opinion::Lacks);
        assert_eq!(vote_once(&[Some(7), None, None])[2], Opinion::Agrees);
        // Two of three devices have a digest: too few to decide.
        assert_eq!(vote_once(&[Some(7), Some(8), None])[0], Opinion::Undecided { own: 7, count: 1, voters: 2 });
    }

    #[test]
    fn a_device_whose_runs_differ_is_wrong_and_has_no_vote() {
        let found = vote(&[vec![7, 7], vec![7], vec![7, 8, 7], vec![8]]);
        assert_eq!(found[2], Opinion::Changes(7, 8));
        assert_eq!(found[3], Opinion::Differs { own: 8, usual: 7, count: 2, voters: 3 });
        assert_eq!(found[..2], [Opinion::Agrees; 2]);
    }
}
