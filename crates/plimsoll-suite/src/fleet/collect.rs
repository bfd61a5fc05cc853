//! The judgement of a fleet: the verdict on every device, against the fleet and against what its model should reach.

use std::collections::{BTreeMap, HashMap};

use plimsoll_core::headline::Headline;

use super::complete::{Expected, Kind, Problem, Sorted, sort};
use super::device::Device;
use super::read::Folder;
use super::reasons::{
    by_model, confirm, describe_unchecked, find_doubt, find_row, median_run, of_health, runs, unknown,
};
use super::rule::{Deviation, Group, Judged};
use super::strata::{FigureOfFleet, Population, Stratum, judge_figures, populate, stratify};
use super::votes::judge_digests;
use crate::check::{Row, State, Verdict};

pub use super::reasons::{Baseline, RUNS, Reason};

/// How a fleet is judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What it should be.
    pub expected: Expected,
    /// A device is slow only where [`RUNS`] runs agree; until then it is unknown.
    pub confirm: bool,
}

/// A device with its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The device.
    pub device: Device,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, worst first.
    pub reasons: Vec<Reason>,
    /// Runs that it was judged by.
    pub runs: usize,
    /// Whether it has to be measured again before it can be called slow.
    pub to_confirm: bool,
}

/// A group of devices that is slow as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowGroup {
    /// Its name: `host n3`.
    pub name: String,
    /// Its kind.
    pub group: Group,
    /// The population, as an index.
    pub population: usize,
    /// The figure.
    pub headline: &'static Headline,
    /// How much worse it is.
    pub deviation: Deviation,
}

/// A fleet, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// Its devices, in the order of hosts and slots.
    pub devices: Vec<Judgement>,
    /// Devices that are missing, as far as their number is known.
    pub missing: usize,
    /// What is wrong with the files.
    pub problems: Vec<Problem>,
    /// The strata, largest first.
    pub strata: Vec<Stratum>,
    /// Devices that were judged together.
    pub populations: Vec<Population>,
    /// Every figure of every population.
    pub figures: Vec<FigureOfFleet>,
    /// Groups that are slow as a whole.
    pub groups: Vec<SlowGroup>,
}

impl Fleet {
    /// How many devices have this verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.devices.iter().filter(|judged| judged.verdict == verdict).count()
    }

    /// The figures of one population, given as an index.
    #[must_use]
    pub fn figures_of(&self, population: usize) -> &[FigureOfFleet] {
        figures_of(&self.figures, population)
    }

    /// Whether devices are missing, or files can't be used.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.missing > 0 || self.problems.iter().any(|problem| problem.kind.is_serious())
    }

    /// The verdict on the fleet: the worst of its devices, and unknown where devices or files are missing.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let worst = self.devices.iter().map(|judged| judged.verdict).max_by_key(|verdict| verdict.severity());
        match worst {
            None => Verdict::Unknown,
            Some(worst) if self.is_incomplete() && worst.severity() < Verdict::Unknown.severity() => Verdict::Unknown,
            Some(worst) => worst,
        }
    }
}

/// Judges the devices of a folder.
#[must_use]
pub fn collect(folder: Folder, options: &Options) -> Fleet {
    let mut sorted = sort(folder, &options.expected);
    order(&mut sorted);
    let strata = stratify(&sorted.devices);
    let populations = populate(&sorted.devices, &strata);
    let judged = populations
        .iter()
        .enumerate()
        .map(|(number, population)| judge_figures(&sorted.devices, &sorted.repeats, number, population));
    let figures: Vec<FigureOfFleet> = judged.flatten().collect();
    let groups = find_groups(&populations, &figures);
    let mut by_group: BTreeMap<(usize, Group), Vec<&SlowGroup>> = BTreeMap::new();
    groups.iter().for_each(|group| by_group.entry((group.population, group.group)).or_default().push(group));
    let homes = find_homes(sorted.devices.len(), &strata, &populations);
    let digests = judge_digests(&sorted.devices, &sorted.repeats, &sorted.contested);
    let context = Context {
        options,
        digests: &digests,
        strata: &strata,
        populations: &populations,
        homes: &homes,
        figures: &figures,
        groups: by_group,
    };
    let judge = |number: usize| {
        let contested = sorted.contested.contains(&number);
        context.judge(number, &sorted.devices[number], &sorted.repeats[number], contested)
    };
    let verdicts: Vec<(Vec<Reason>, bool, Verdict)> = (0..sorted.devices.len()).map(judge).collect();
    let mut problems = sorted.problems;
    let all_files = || sorted.devices.iter().chain(sorted.repeats.iter().flatten());
    problems.extend(all_files().flat_map(list_edits));
    problems.extend(all_files().filter_map(name_unchecked));
    problems.extend(list_mixtures(&sorted.devices, &strata, &populations));
    let devices = sorted.devices.into_iter().zip(&sorted.repeats).zip(verdicts);
    let devices = devices.map(|((device, repeats), (reasons, to_confirm, verdict))| Judgement {
        device,
        verdict,
        reasons,
        runs: 1 + repeats.len(),
        to_confirm,
    });
    Fleet { devices: devices.collect(), missing: sorted.missing, problems, strata, populations, figures, groups }
}

/// Puts the devices in the order of hosts and slots, where numbers in names count as numbers: n2 before n10.
fn order(sorted: &mut Sorted) {
    let mut places: Vec<usize> = (0..sorted.devices.len()).collect();
    places.sort_by_cached_key(|place| {
        let device = &sorted.devices[*place];
        (natural(&device.host), natural(&device.slot), device.id.clone())
    });
    let mut devices: Vec<Option<Device>> = std::mem::take(&mut sorted.devices).into_iter().map(Some).collect();
    let mut repeats = std::mem::take(&mut sorted.repeats);
    sorted.contested =
        places.iter().enumerate().filter(|(_, old)| sorted.contested.contains(old)).map(|(new, _)| new).collect();
    for place in places {
        sorted.devices.extend(devices[place].take());
        sorted.repeats.push(std::mem::take(&mut repeats[place]));
    }
}

/// Text and numbers in turn.
fn natural(text: &str) -> Vec<(String, u64)> {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find(is_digit).unwrap_or(rest.len()));
        let (number, after) = after.split_at(after.find(|c| !is_digit(c)).unwrap_or(after.len()));
        parts.push((word.to_owned(), number.parse().unwrap_or(0)));
        rest = after;
    }
    parts
}

fn find_groups(populations: &[Population], figures: &[FigureOfFleet]) -> Vec<SlowGroup> {
    let of_figure = |figure: &FigureOfFleet| {
        let population = &populations[figure.population];
        let group = |(group, deviation): &(Group, Deviation)| SlowGroup {
            name: population.name(*group),
            group: *group,
            population: figure.population,
            headline: figure.headline,
            deviation: *deviation,
        };
        // Devices whose rack isn't known share no rack.
        let is_known = |(group, _): &&(Group, Deviation)| match group {
            Group::Rack(rack) => !population.racks[*rack].is_empty(),
            _ => true,
        };
        figure.last().groups.iter().filter(is_known).map(group).collect::<Vec<_>>()
    };
    figures.iter().flat_map(of_figure).collect()
}

fn list_edits(device: &Device) -> Vec<Problem> {
    let edit = |(headline, claimed): &(&'static Headline, f64)| {
        let row = device.check.rows.iter().find(|row| row.headline.id == headline.id);
        let figure = row.map_or(String::new(), |row| {
            format!(": {} claimed, {} by its samples", row.unit.format(*claimed), row.unit.format(row.measured.value))
        });
        let text = format!("{}: {} doesn't match its samples{figure}", device.place(), headline.name);
        Problem { kind: Kind::Edited, file: Some(device.file.clone()), text }
    };
    device.edited.iter().map(edit).collect()
}

fn name_unchecked(device: &Device) -> Option<Problem> {
    let text = format!("{}: {}", device.place(), describe_unchecked(device, |_| true)?);
    Some(Problem { kind: Kind::Unchecked, file: Some(device.file.clone()), text })
}

/// Most strata of a model whose differences are listed.
const MOST_MIXTURES: usize = 20;

/// The settings in which smaller strata differ from the largest of their model.
fn list_mixtures(devices: &[Device], strata: &[Stratum], populations: &[Population]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut unlisted = 0;
    let mut largest_of: HashMap<&str, usize> = HashMap::new();
    for (place, stratum) in strata.iter().enumerate() {
        let largest = *largest_of.entry(&stratum.model).or_insert(place);
        if largest == place {
            continue;
        }
        if problems.len() >= MOST_MIXTURES {
            unlisted += stratum.members.len();
            continue;
        }
        let who = match stratum.members[..] {
            [one] => devices[one].place(),
            _ => format!("{} devices of {}", stratum.members.len(), stratum.model),
        };
        let text = format!("{who}: {}", stratum.differences(&strata[largest]).join(", "));
        problems.push(Problem { kind: Kind::Mixed, file: None, text });
    }
    if unlisted > 0 {
        let text = format!("{unlisted} more devices differ in their settings from the most common ones of their model");
        problems.push(Problem { kind: Kind::Mixed, file: None, text });
    }
    for population in populations.iter().filter(|population| population.ambiguous_hosts) {
        let text = format!(
            "several hosts call themselves {}: hosts aren't judged as groups",
            plimsoll_core::text::list_names(&population.hosts)
        );
        problems.push(Problem { kind: Kind::Ambiguous, file: None, text });
    }
    problems
}

/// Where a device is judged.
#[derive(Clone, Copy, Default)]
struct Home {
    stratum: usize,
    /// Its population and its place there. A device has at most one.
    population: Option<(usize, usize)>,
}

fn find_homes(devices: usize, strata: &[Stratum], populations: &[Population]) -> Vec<Home> {
    let mut homes = vec![Home::default(); devices];
    for (number, stratum) in strata.iter().enumerate() {
        stratum.members.iter().for_each(|member| homes[*member].stratum = number);
    }
    for (number, population) in populations.iter().enumerate() {
        let members = population.members.iter().enumerate();
        members.for_each(|(place, member)| homes[*member].population = Some((number, place)));
    }
    homes
}

struct Context<'c> {
    options: &'c Options,
    /// What the votes say of each device.
    digests: &'c [Vec<Reason>],
    strata: &'c [Stratum],
    populations: &'c [Population],
    /// Of each device.
    homes: &'c [Home],
    figures: &'c [FigureOfFleet],
    /// By population and group.
    groups: BTreeMap<(usize, Group), Vec<&'c SlowGroup>>,
}

/// The figures of one population. They are in the order of populations.
fn figures_of(figures: &[FigureOfFleet], population: usize) -> &[FigureOfFleet] {
    let from = figures.partition_point(|figure| figure.population < population);
    let to = figures.partition_point(|figure| figure.population <= population);
    &figures[from..to]
}

impl Context<'_> {
    /// The reasons, whether the device has to be measured again, and the verdict.
    fn judge(
        &self,
        number: usize,
        device: &Device,
        repeats: &[Device],
        contested: bool,
    ) -> (Vec<Reason>, bool, Verdict) {
        let mut reasons: Vec<Reason> = runs(device, repeats).flat_map(of_health).collect();
        if contested {
            reasons.push(unknown("two hosts claim this device".to_owned()));
        }
        reasons.extend(self.digests[number].iter().cloned());
        let of_fleet = self.by_fleet(number, device, repeats);
        let is_compared = self.homes[number].population.is_some();
        let of_model = by_model(device, repeats, &of_fleet);
        let slow = of_fleet.into_iter().chain(of_model).chain(self.by_groups(number, device));
        let (slow, to_confirm) = confirm(slow.collect(), device, repeats, self.options.confirm);
        reasons.extend(slow);
        reasons.extend(self.unmeasured(number, device));
        reasons.sort_by(|a, b| {
            let size = |reason: &Reason| reason.share.unwrap_or(0.0);
            (b.verdict.severity().cmp(&a.verdict.severity())).then(size(b).total_cmp(&size(a)))
        });
        let is_judged = is_compared || device.gates().any(|row| row.state == State::Ok);
        let verdict = match reasons.first() {
            Some(reason) => reason.verdict,
            None if is_judged => Verdict::Healthy,
            None => Verdict::NotJudged,
        };
        (reasons, to_confirm, verdict)
    }

    /// The figures that the rule flags in the device's population.
    fn by_fleet(&self, number: usize, device: &Device, repeats: &[Device]) -> Vec<Reason> {
        let Some((home, place)) = self.homes[number].population else { return Vec::new() };
        let reason = |figure: &FigureOfFleet| {
            let flagged = |judged: &Judged| judged.devices[place].filter(|known| known.is_flagged());
            flagged(&figure.first)?;
            let last = flagged(figure.last())?;
            let (run, row) = median_run(device, repeats, figure.headline)?;
            let mut text = format!(
                "{} {:.1} % worse than the fleet: {}, median {}",
                figure.headline.name,
                100.0 * last.share(),
                row.unit.format(row.measured.value),
                figure.unit.format(figure.median)
            );
            let doubt = find_doubt(run, row, last);
            let verdict = if doubt.is_some() { Verdict::Unknown } else { Verdict::Slow };
            let why = doubt.or_else(|| self.explain(number, home, row));
            text += &why.map_or(String::new(), |why| format!(" ({why})"));
            let share = Some(last.share());
            Some(Reason { verdict, headline: Some(figure.headline), share, baseline: Baseline::Fleet, text })
        };
        figures_of(self.figures, home).iter().filter_map(reason).collect()
    }

    /// The cause that the check knows, or the settings in which the device differs from those that it is compared with.
    fn explain(&self, number: usize, population: usize, row: &Row) -> Option<String> {
        let own = self.homes[number].stratum;
        let others = self.populations[population].stratum;
        if own != others {
            return Some(self.strata[own].differences(&self.strata[others]).join(", "));
        }
        Some(row.why.clone()).filter(|why| !why.is_empty())
    }

    /// The slow hosts and racks that the device is part of. Slots differ by the design of a board, so they accuse no device.
    fn by_groups(&self, number: usize, device: &Device) -> Vec<Reason> {
        let Some((home, member)) = self.homes[number].population else { return Vec::new() };
        let place = self.populations[home].places[member];
        let own = [Group::Host(place.host), Group::Rack(place.rack)];
        let own = own.into_iter().filter_map(|group| self.groups.get(&(home, group))).flatten().copied();
        let reason = |group: &SlowGroup| {
            let share = group.deviation.share();
            let text =
                format!("{} {:.1} % worse than the fleet on all of {}", group.headline.name, 100.0 * share, group.name);
            let (verdict, baseline) = (Verdict::Slow, Baseline::Group);
            Reason { verdict, headline: Some(group.headline), share: Some(share), baseline, text }
        };
        own.filter(|group| find_row(device, group.headline).is_some()).map(reason).collect()
    }

    /// Figures that most of the population has and this device lacks or only states, or that it has none.
    fn unmeasured(&self, number: usize, device: &Device) -> Vec<Reason> {
        let usual = |home: usize| {
            let members = self.populations[home].members.len();
            figures_of(self.figures, home).iter().filter(move |figure| 2 * figure.count > members)
        };
        let usual = self.homes[number].population.into_iter().flat_map(|(home, _)| usual(home));
        let mut lacking: Vec<&Headline> = usual.map(|figure| figure.headline).collect();
        lacking.retain(|headline| device.goodness(headline.id).is_none());
        let is_lacking = |headline: &Headline| lacking.iter().any(|known| known.id == headline.id);
        let unchecked = describe_unchecked(device, |headline| !device.has_figures() || is_lacking(headline));
        let lacking = lacking.iter().filter(|headline| !device.unchecked.contains(&headline.id));
        let lacking: Vec<&str> = lacking.map(|headline| headline.name).collect();
        let faults =
            || if device.faults.is_empty() { String::new() } else { format!(" ({})", device.faults.join("; ")) };
        let reason = match (&lacking[..], device.complete) {
            ([], _) if !device.has_figures() && unchecked.is_none() => {
                Some(format!("no figure was measured{}", faults()))
            }
            ([], true) => None,
            ([], false) => Some(format!("the measurement was ended early{}", faults())),
            (lacking, _) => Some(format!("not measured: {}{}", lacking.join(", "), faults())),
        };
        reason.into_iter().chain(unchecked).map(unknown).collect()
    }
}
