//! Devices that can be compared: of one model, with equal settings.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use plimsoll_core::headline::{Better, Headline};
use plimsoll_core::stats::median;
use plimsoll_core::unit::Unit;

use super::device::{Device, Setting};
use super::rule::{Group, Judged, Place, judge};
use super::spread::{Spread, find_spread};

/// Devices from which on a stratum is compared within itself. Smaller ones are compared with the largest of their model.
pub const FEWEST: usize = 4;

/// Devices of one model with equal settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Stratum {
    /// The model.
    pub model: String,
    /// The settings.
    pub settings: Vec<Setting>,
    /// Its devices, as indexes.
    pub members: Vec<usize>,
}

impl Stratum {
    /// The settings that differ from another stratum's: `power limit 500 W instead of 700 W`.
    #[must_use]
    pub fn differences(&self, other: &Stratum) -> Vec<String> {
        let find = |settings: &[Setting], what: &str| {
            settings.iter().find(|(known, _)| *known == what).map_or("unknown", |(_, value)| value.as_str()).to_owned()
        };
        let names: Vec<&str> = self.settings.iter().chain(&other.settings).map(|(what, _)| *what).collect();
        let mut differences = Vec::new();
        for (place, what) in names.iter().enumerate() {
            let [own, others] = [&self.settings, &other.settings].map(|settings| find(settings, what));
            if own != others && !names[..place].contains(what) {
                differences.push(format!("{what} {own} instead of {others}"));
            }
        }
        differences
    }
}

/// The strata of the devices, largest first.
#[must_use]
pub fn stratify(devices: &[Device]) -> Vec<Stratum> {
    let mut strata: BTreeMap<(&str, &[Setting]), Vec<usize>> = BTreeMap::new();
    for (place, device) in devices.iter().enumerate() {
        strata.entry((&device.model, &device.settings)).or_default().push(place);
    }
    let mut strata: Vec<Stratum> = strata
        .into_iter()
        .map(|((model, settings), members)| Stratum { model: model.to_owned(), settings: settings.to_vec(), members })
        .collect();
    strata.sort_by_key(|stratum| std::cmp::Reverse(stratum.members.len()));
    strata
}

/// Devices that are judged together.
#[derive(Clone, Debug, PartialEq)]
pub struct Population {
    /// The stratum that they belong to or are compared with.
    pub stratum: usize,
    /// The devices, as indexes.
    pub members: Vec<usize>,
    /// The hosts, by the index that places have.
    pub hosts: Vec<String>,
    /// The slots.
    pub slots: Vec<String>,
    /// The racks.
    pub racks: Vec<String>,
    /// The place of each member.
    pub places: Vec<Place>,
    /// True where two devices of one host have the same slot: several hosts call themselves alike.
    pub ambiguous_hosts: bool,
}

/// Which devices are judged together: each stratum of at least [`FEWEST`] devices, and with the largest of a model all its devices
/// in smaller ones. A model with too few devices has no population.
#[must_use]
pub fn populate(devices: &[Device], strata: &[Stratum]) -> Vec<Population> {
    let mut populations: Vec<Population> = Vec::new();
    // The devices of small strata, by model.
    let mut small: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut seen: HashSet<&str> = HashSet::new();
    for stratum in strata {
        let is_largest = seen.insert(&stratum.model);
        if !is_largest && stratum.members.len() < FEWEST {
            small.entry(&stratum.model).or_default().extend(&stratum.members);
        }
    }
    seen.clear();
    for (place, stratum) in strata.iter().enumerate() {
        let mut members = stratum.members.clone();
        if seen.insert(&stratum.model) {
            members.extend(small.remove(stratum.model.as_str()).unwrap_or_default());
        }
        if members.len() >= FEWEST {
            populations.push(Population::new(devices, place, members));
        }
    }
    populations
}

impl Population {
    fn new(devices: &[Device], stratum: usize, members: Vec<usize>) -> Self {
        let own = || members.iter().map(|member| &devices[*member]);
        let hosts: Vec<String> = unique(own().map(|device| device.host.clone()));
        let racks: Vec<String> = unique(own().map(|device| device.rack.clone().unwrap_or_default()));
        let seen: BTreeSet<(&str, &str)> = own().map(|device| (device.host.as_str(), device.slot.as_str())).collect();
        let ambiguous_hosts = seen.len() < members.len();
        let (slots, slot_of) = find_slots(devices, &members, &hosts);
        let index =
            |names: &[String], name: &str| names.binary_search_by(|known| known.as_str().cmp(name)).unwrap_or(0);
        let place = |(member, slot): (&usize, &usize)| {
            let device = &devices[*member];
            let host = if ambiguous_hosts { 0 } else { index(&hosts, &device.host) };
            Place { host, slot: *slot, rack: index(&racks, device.rack.as_deref().unwrap_or_default()) }
        };
        let places = members.iter().zip(&slot_of).map(place).collect();
        Self { stratum, members, hosts, slots, racks, places, ambiguous_hosts }
    }

    /// A group's name: `host n3`.
    #[must_use]
    pub fn name(&self, group: Group) -> String {
        match group {
            Group::Host(host) => format!("host {}", self.hosts[host]),
            Group::Slot(slot) => format!("slot {}", self.slots[slot]),
            Group::Rack(rack) => format!("rack {}", self.racks[rack]),
        }
    }
}

/// Most slots by their addresses for each device of the fullest host: more than that, and addresses differ from host to host.
const MOST_ADDRESSES: usize = 4;

/// The names of the slots and each member's: the PCI addresses where hosts have the same, else the number within the host.
fn find_slots(devices: &[Device], members: &[usize], hosts: &[String]) -> (Vec<String>, Vec<usize>) {
    let addresses: Vec<String> = unique(members.iter().map(|member| devices[*member].slot.clone()));
    let mut by_host: BTreeMap<&str, Vec<&str>> = hosts.iter().map(|host| (host.as_str(), Vec::new())).collect();
    for member in members {
        by_host.entry(&devices[*member].host).or_default().push(&devices[*member].slot);
    }
    by_host.values_mut().for_each(|slots| slots.sort_unstable());
    let fullest = by_host.values().map(Vec::len).max().unwrap_or(0);
    if addresses.len() <= MOST_ADDRESSES * fullest {
        let index = |member: &usize| addresses.binary_search(&devices[*member].slot).unwrap_or(0);
        let own = members.iter().map(index).collect();
        return (addresses, own);
    }
    let number = |member: &usize| {
        let own = &by_host[devices[*member].host.as_str()];
        own.partition_point(|slot| *slot < devices[*member].slot.as_str())
    };
    ((0..fullest).map(|slot| slot.to_string()).collect(), members.iter().map(number).collect())
}

fn unique(names: impl Iterator<Item = String>) -> Vec<String> {
    names.collect::<BTreeSet<String>>().into_iter().collect()
}

/// One figure of a population, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureOfFleet {
    /// Its population, as an index.
    pub population: usize,
    /// Its declaration.
    pub headline: &'static Headline,
    /// The unit of the median.
    pub unit: Unit,
    /// The figure of the median device.
    pub median: f64,
    /// The number of devices that have it.
    pub count: usize,
    /// The spread that was known before.
    pub prior: Spread,
    /// The judgement of the first runs.
    pub first: Judged,
    /// The judgement with the median of all runs, where devices were measured again.
    pub again: Option<Judged>,
}

impl FigureOfFleet {
    /// The judgement that counts.
    #[must_use]
    pub fn last(&self) -> &Judged {
        self.again.as_ref().unwrap_or(&self.first)
    }
}

/// Judges every figure of a population. `repeats` has the further rounds of each device.
#[must_use]
pub fn judge_figures(
    devices: &[Device],
    repeats: &[Vec<Device>],
    number: usize,
    population: &Population,
) -> Vec<FigureOfFleet> {
    let mut figures: Vec<(&'static Headline, Unit)> = Vec::new();
    for row in population.members.iter().flat_map(|member| devices[*member].gates()) {
        if !figures.iter().any(|(known, _)| known.id == row.headline.id) {
            figures.push((row.headline, row.unit.clone()));
        }
    }
    let judge_figure = |(headline, unit): (&'static Headline, Unit)| {
        let first: Vec<Option<f64>> =
            population.members.iter().map(|member| devices[*member].goodness(headline.id)).collect();
        let some = devices.get(*population.members.first()?)?;
        let prior = find_spread(&some.model, &some.backend, headline.id);
        let is_again = population.members.iter().any(|member| !repeats[*member].is_empty());
        let again = is_again.then(|| {
            let all = |(member, first): (&usize, &Option<f64>)| {
                let runs: Vec<f64> =
                    repeats[*member].iter().filter_map(|device| device.goodness(headline.id)).chain(*first).collect();
                first.map(|_| median(runs))
            };
            let values: Vec<Option<f64>> = population.members.iter().zip(&first).map(all).collect();
            judge(&values, &population.places, prior.share)
        });
        let judged = judge(&first, &population.places, prior.share);
        let median = match headline.better {
            Better::More => judged.median.exp(),
            Better::Less => (-judged.median).exp(),
        };
        let count = judged.devices.iter().flatten().count();
        Some(FigureOfFleet { population: number, headline, unit, median, count, prior, first: judged, again })
    };
    figures.into_iter().filter_map(judge_figure).collect()
}
