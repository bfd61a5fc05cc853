//! The judgement of a fleet: the verdict on every device, against the fleet and against what its model should reach.

use plimsoll_core::headline::Headline;
use plimsoll_core::stats::Interval;

use super::complete::{Expected, Kind, Problem, Sorted, sort};
use super::device::Device;
use super::read::Folder;
use super::rule::{Deviation, Group, LEAST};
use super::strata::{FigureOfFleet, Population, Stratum, judge_figures, populate, stratify};
use crate::check::{Row, State, Verdict, is_disturbed};

/// Runs whose median confirms a slow figure.
pub const RUNS: usize = 3;

/// How a fleet is judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What it should be.
    pub expected: Expected,
    /// A device is slow only where [`RUNS`] runs agree; until then it is unknown.
    pub confirm: bool,
}

/// What a device is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The median of its fleet.
    Fleet,
    /// What its model should reach.
    Model,
    /// The other hosts or racks.
    Group,
    /// Nothing: a fact about the device or its measurement.
    None,
}

impl Baseline {
    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fleet => "fleet",
            Self::Model => "model",
            Self::Group => "group",
            Self::None => "none",
        }
    }
}

/// Why a device has its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// The verdict that it speaks for.
    pub verdict: Verdict,
    /// The figure, where it is about one.
    pub headline: Option<&'static Headline>,
    /// How much worse the figure is, as a share.
    pub share: Option<f64>,
    /// What the device is compared with.
    pub baseline: Baseline,
    /// The reason in words.
    pub text: String,
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

    /// The verdict on the fleet: the worst of its devices, and unknown where devices or files are missing.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let worst = self.devices.iter().map(|judged| judged.verdict).max_by_key(|verdict| verdict.severity());
        let is_incomplete = self.missing > 0 || self.problems.iter().any(|problem| problem.kind.is_serious());
        match worst {
            None => Verdict::Unknown,
            Some(worst) if is_incomplete && worst.severity() < Verdict::Unknown.severity() => Verdict::Unknown,
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
    let homes = find_homes(sorted.devices.len(), &strata, &populations);
    let context = Context {
        options,
        strata: &strata,
        populations: &populations,
        homes: &homes,
        figures: &figures,
        groups: &groups,
    };
    let judge = |number: usize| {
        let contested = sorted.contested.contains(&number);
        context.judge(number, &sorted.devices[number], &sorted.repeats[number], contested)
    };
    let verdicts: Vec<(Vec<Reason>, bool, Verdict)> = (0..sorted.devices.len()).map(judge).collect();
    let mut problems = sorted.problems;
    problems.extend(sorted.devices.iter().chain(sorted.repeats.iter().flatten()).flat_map(list_edits));
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

/// Most strata of a model whose differences are listed.
const MOST_MIXTURES: usize = 20;

/// The settings in which smaller strata differ from the largest of their model.
fn list_mixtures(devices: &[Device], strata: &[Stratum], populations: &[Population]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (place, stratum) in strata.iter().enumerate() {
        let largest = strata.iter().position(|other| other.model == stratum.model).unwrap_or(place);
        if largest == place || problems.len() >= MOST_MIXTURES {
            continue;
        }
        let who = match stratum.members[..] {
            [one] => devices[one].place(),
            _ => format!("{} of {} {}", stratum.members.len(), stratum.model, "devices"),
        };
        let text = format!("{who}: {}", stratum.differences(&strata[largest]).join(", "));
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
    strata: &'c [Stratum],
    populations: &'c [Population],
    /// Of each device.
    homes: &'c [Home],
    figures: &'c [FigureOfFleet],
    groups: &'c [SlowGroup],
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
        let (of_fleet, to_confirm) = self.by_fleet(number, device, repeats);
        let is_compared = self.homes[number].population.is_some();
        let of_model = by_model(device, repeats, &of_fleet);
        reasons.extend(of_fleet);
        reasons.extend(of_model);
        reasons.extend(self.by_groups(number, device));
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
    fn by_fleet(&self, number: usize, device: &Device, repeats: &[Device]) -> (Vec<Reason>, bool) {
        let (mut reasons, mut to_confirm) = (Vec::new(), false);
        let Some((home, place)) = self.homes[number].population else { return (reasons, to_confirm) };
        for figure in self.figures.iter().filter(|figure| figure.population == home) {
            let flagged = |judged: &super::rule::Judged| judged.devices[place].filter(|known| known.is_flagged());
            let (Some(first), Some((run, row))) =
                (flagged(&figure.first), median_run(device, repeats, figure.headline))
            else {
                continue;
            };
            let Some(last) = flagged(figure.last()).or_else(|| figure.again.is_none().then_some(first)) else {
                continue;
            };
            let is_confirmed = 1 + repeats.len() >= RUNS;
            let mut text = format!(
                "{} {:.1} % worse than the fleet: {}, median {}",
                figure.headline.name,
                100.0 * last.share(),
                row.unit.format(row.measured.value),
                figure.unit.format(figure.median)
            );
            let why = self.explain(number, figure.population, row);
            let doubt = find_doubt(run, row, last);
            let verdict = match (&doubt, self.options.confirm && !is_confirmed) {
                (None, false) => Verdict::Slow,
                _ => Verdict::Unknown,
            };
            text += &doubt.or(why).map_or(String::new(), |why| format!(" ({why})"));
            if !is_confirmed {
                to_confirm = true;
                text += if self.options.confirm { "; measure again" } else { "; not confirmed" };
            }
            let share = Some(last.share());
            reasons.push(Reason { verdict, headline: Some(figure.headline), share, baseline: Baseline::Fleet, text });
        }
        (reasons, to_confirm)
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
        let is_of = |group: &&SlowGroup| {
            let is_member = match group.group {
                Group::Host(host) => host == place.host,
                Group::Rack(rack) => rack == place.rack,
                Group::Slot(_) => false,
            };
            is_member && group.population == home && find_row(device, group.headline).is_some()
        };
        let reason = |group: &SlowGroup| {
            let share = group.deviation.share();
            let text =
                format!("{} {:.1} % worse than the fleet on all of {}", group.headline.name, 100.0 * share, group.name);
            let (verdict, baseline) = (Verdict::Slow, Baseline::Group);
            Reason { verdict, headline: Some(group.headline), share: Some(share), baseline, text }
        };
        self.groups.iter().filter(is_of).map(reason).collect()
    }

    /// Figures that most of the population has and this device lacks, or that it has none.
    fn unmeasured(&self, number: usize, device: &Device) -> Vec<Reason> {
        let mut lacking: Vec<&str> = Vec::new();
        let home = self.homes[number].population.map(|(home, _)| home);
        for figure in self.figures.iter().filter(|figure| Some(figure.population) == home) {
            let is_usual = 2 * figure.count > self.populations[figure.population].members.len();
            if is_usual && device.goodness(figure.headline.id).is_none() {
                lacking.push(figure.headline.name);
            }
        }
        let faults =
            || if device.faults.is_empty() { String::new() } else { format!(" ({})", device.faults.join("; ")) };
        match (&lacking[..], device.complete) {
            ([], _) if !device.has_figures() => vec![unknown(format!("no figure was measured{}", faults()))],
            ([], true) => vec![],
            ([], false) => vec![unknown(format!("the measurement was ended early{}", faults()))],
            (lacking, _) => vec![unknown(format!("not measured: {}{}", lacking.join(", "), faults()))],
        }
    }
}

/// Figures below what the model should reach. Those that the fleet already calls slow aren't repeated.
fn by_model(device: &Device, repeats: &[Device], of_fleet: &[Reason]) -> Vec<Reason> {
    let is_new = |row: &&Row| {
        let same = |reason: &Reason| reason.headline.is_some_and(|headline| headline.id == row.headline.id);
        device.has_expectation(row) && !of_fleet.iter().any(same)
    };
    let reason = |first: &Row| {
        let (_, row) = median_run(device, repeats, first.headline)?;
        let verdict = match row.state {
            State::Low => Verdict::Slow,
            State::Unclear | State::Impossible => Verdict::Unknown,
            State::Ok | State::Unjudged => return None,
        };
        let expected = row.expected.as_ref().map_or(String::new(), |known| {
            let range = row.unit.format_range(known.interval.lo, known.interval.hi);
            format!(", expected {range} ({})", known.origin.describe())
        });
        let why = if row.why.is_empty() { String::new() } else { format!("; {}", row.why) };
        let text = format!("{} {}{expected}{why}", row.headline.name, row.unit.format(row.measured.value));
        let share = Some(row.shortfall());
        Some(Reason { verdict, headline: Some(row.headline), share, baseline: Baseline::Model, text })
    };
    device.gates().filter(is_new).filter_map(reason).collect()
}

/// A device in all its rounds.
fn runs<'d>(device: &'d Device, repeats: &'d [Device]) -> impl Iterator<Item = &'d Device> {
    std::iter::once(device).chain(repeats)
}

/// The run with the median of a figure, and its row; of an even number of runs the better of the two in the middle.
fn median_run<'d>(device: &'d Device, repeats: &'d [Device], headline: &Headline) -> Option<(&'d Device, &'d Row)> {
    let known = |run: &'d Device| Some((run.goodness(headline.id)?, run, find_row(run, headline)?));
    let mut known: Vec<(f64, &Device, &Row)> = runs(device, repeats).filter_map(known).collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    known.get(known.len() / 2).map(|(_, run, row)| (*run, *row))
}

fn unknown(text: String) -> Reason {
    Reason { verdict: Verdict::Unknown, headline: None, share: None, baseline: Baseline::None, text }
}

fn find_row<'d>(device: &'d Device, headline: &Headline) -> Option<&'d Row> {
    device.gates().find(|row| row.headline.id == headline.id)
}

/// Wrong results, and memory that is worn out.
fn of_health(device: &Device) -> Vec<Reason> {
    let broken = device.check.notes.iter().filter(|note| note.state == State::Impossible);
    let reason = |note: &crate::check::Note| Reason {
        verdict: Verdict::Broken,
        headline: None,
        share: None,
        baseline: Baseline::None,
        text: format!("{}: {}", note.name, note.text),
    };
    broken.map(reason).collect()
}

/// Why a flagged figure may not be the device's fault.
fn find_doubt(device: &Device, row: &Row, deviation: Deviation) -> Option<String> {
    if device.is_shared {
        return Some("another process had the device open".to_owned());
    }
    if is_disturbed(row.flags) {
        return Some("another program or the system disturbed it".to_owned());
    }
    // Only the interval's better end counts: the figure could as well be there.
    let Interval { lo, hi } = row.measured.interval;
    let better =
        row.headline.better.ratio(hi, row.measured.value).max(row.headline.better.ratio(lo, row.measured.value));
    let is_wide = deviation.worse - better.ln() < -(1.0 - LEAST).ln();
    is_wide.then(|| "its interval is too wide".to_owned())
}
