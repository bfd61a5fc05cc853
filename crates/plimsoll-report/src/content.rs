//! The content that all formats share: runs with their standings, and their series grouped by probe and case, so that
//! several runs can be compared. This module decides order and labels; each format decides the layout.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::record::{Finding, Run};
use plimsoll_core::series::{Row, Series, SeriesSpec, Value};
use plimsoll_core::unit::Unit;
use plimsoll_core::{Flag, Flags};
use plimsoll_suite::findings::advice::is_advice;
use plimsoll_suite::operations::unit_at;
use plimsoll_suite::standing::{Standing, shipped_reference, standings};

use crate::faults::faults;
use crate::text::clean;

/// One or more runs, arranged for display.
#[derive(Debug)]
pub struct Report<'r> {
    /// The runs in the order given.
    pub entries: Vec<Entry<'r>>,
    /// One section per probe, in the order in which they were first measured.
    pub sections: Vec<Section<'r>>,
}

/// A run and what is derived from it as a whole.
#[derive(Debug)]
pub struct Entry<'r> {
    /// The run.
    pub run: &'r Run,
    /// Its findings with their yardsticks.
    pub standings: Vec<Standing>,
    /// A label for each of its devices: safe to show, and unique even where two runs have the same device.
    pub labels: Vec<String>,
}

/// Everything about one probe.
#[derive(Debug)]
pub struct Section<'r> {
    /// The probe's name.
    pub probe: String,
    /// The question it answers, in a sentence; empty where this version doesn't know the probe.
    pub sentence: &'static str,
    /// Its series.
    pub cases: Vec<Case<'r>>,
    /// Its findings, each with the label of its source.
    pub findings: Vec<(String, &'r Finding)>,
}

impl Section<'_> {
    /// An experiment's advice for each device: the device's label (empty where there is only one) and the sentence. Safe to show.
    pub fn advice(&self) -> impl Iterator<Item = (String, String)> {
        let advice = self.findings.iter().filter(|(_, finding)| is_advice(finding));
        advice.map(|(label, finding)| (clean(label), clean(&finding.says)))
    }
}

/// One series of a probe, from every run and device that has it.
#[derive(Debug)]
pub struct Case<'r> {
    /// Its name within the probe.
    pub name: String,
    /// The runs and devices that measured it; never empty.
    pub sources: Vec<Source<'r>>,
}

/// A series and where it comes from.
#[derive(Debug)]
pub struct Source<'r> {
    /// Index of the run in the report.
    pub run: usize,
    /// The device.
    pub device: &'r DeviceInfo,
    /// Tells it from other sources: run, device or both; empty where there is only one.
    pub label: String,
    /// The measured series.
    pub series: &'r Series,
    /// The number of its first row within the section, counted over all cases and sources.
    pub first_row: usize,
}

impl<'r> Report<'r> {
    /// Arranges runs and compares them with the figures of known machines that plimsoll ships.
    #[must_use]
    pub fn new(runs: &'r [Run]) -> Self {
        let entries: Vec<Entry<'r>> = runs
            .iter()
            .enumerate()
            .map(|(place, run)| Entry {
                run,
                standings: standings(run, &shipped_reference),
                labels: run.header.devices.iter().map(|device| label_device(runs, place, device)).collect(),
            })
            .collect();
        let sections = build_sections(&entries);
        Self { entries, sections }
    }

    /// Every flag that any figure carries.
    #[must_use]
    pub fn flags(&self) -> Flags {
        let of_rows = self.entries.iter().flat_map(|entry| &entry.run.series).flat_map(|series| &series.rows);
        let of_findings = self.entries.iter().flat_map(|entry| &entry.run.findings).map(|finding| finding.flags);
        of_rows.map(|row| row.flags).chain(of_findings).fold(Flags::NONE, Flags::union)
    }

    /// True where one of the devices is simulated: its figures describe no real machine.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.entries.iter().flat_map(|entry| &entry.run.header.devices).any(|device| device.backend == "sim")
    }

    /// The number of points with a flag that throws doubt on them, and the number of all points.
    #[must_use]
    pub fn count_doubtful(&self) -> (usize, usize) {
        let series = || self.entries.iter().flat_map(|entry| &entry.run.series);
        let doubtful = |series: &Series| series.rows.iter().filter(|row| !series.doubtful(row).is_empty()).count();
        (series().map(doubtful).sum(), series().map(|series| series.rows.len()).sum())
    }

    /// What could not be measured, one sentence each: faults, damaged lines, a run cut off.
    #[must_use]
    pub fn list_problems(&self) -> Vec<String> {
        self.entries
            .iter()
            .enumerate()
            .flat_map(|(place, entry)| entry.list_problems(&self.run_prefix(place)))
            .collect()
    }

    /// `run 2: ` where there are several runs, else empty.
    fn run_prefix(&self, place: usize) -> String {
        if self.entries.len() > 1 { format!("run {}: ", place + 1) } else { String::new() }
    }
}

impl Entry<'_> {
    fn list_problems(&self, prefix: &str) -> Vec<String> {
        let run = self.run;
        let mut problems: Vec<String> = faults(run).into_iter().map(|fault| format!("{prefix}{fault}")).collect();
        if run.damaged_lines > 0 {
            let first = run.damage.first().map(|damage| format!(" (line {}: {})", damage.line, clean(&damage.what)));
            let count = run.damaged_lines;
            let lines = if count == 1 { "1 line".into() } else { format!("{count} lines") };
            problems.push(format!("{prefix}{lines} of the record could not be read{}", first.unwrap_or_default()));
        }
        match run.end {
            None => problems.push(format!("{prefix}the record has no end: the run was cut off")),
            Some(false) => problems.push(format!("{prefix}the run ended before everything was measured")),
            Some(true) => {}
        }
        problems
    }
}

/// The device's name, with its selector where the run has several of the model, and the run where several runs have the model.
fn label_device(runs: &[Run], place: usize, device: &DeviceInfo) -> String {
    let name = clean(&device.name);
    let name = if name.trim().is_empty() { clean(&device.selector) } else { name };
    let twins = |run: &Run| run.header.devices.iter().filter(|other| other.name == device.name).count();
    let selector = if twins(&runs[place]) > 1 { format!(" {}", clean(&device.selector)) } else { String::new() };
    let run = if runs.iter().filter(|run| twins(run) > 0).count() > 1 {
        format!(", run {}", place + 1)
    } else {
        String::new()
    };
    format!("{name}{selector}{run}")
}

/// The labels, without the device's name where all runs have one device each and all of them share the name.
fn short_labels(entries: &[Entry<'_>]) -> Vec<Vec<String>> {
    let devices = || entries.iter().flat_map(|entry| &entry.run.header.devices);
    let shared = devices().next().map(|device| &device.name);
    let one_each = entries.iter().all(|entry| entry.labels.len() == 1);
    if one_each && devices().all(|device| Some(&device.name) == shared) {
        let single = entries.len() == 1;
        let word = |place: usize| if single { String::new() } else { format!("run {}", place + 1) };
        return (0..entries.len()).map(|place| vec![word(place)]).collect();
    }
    entries.iter().map(|entry| entry.labels.clone()).collect()
}

fn build_sections<'r>(entries: &[Entry<'r>]) -> Vec<Section<'r>> {
    let labels = short_labels(entries);
    let mut sections: Vec<Section<'r>> = Vec::new();
    for (place, entry) in entries.iter().enumerate() {
        for series in &entry.run.series {
            let Some(device) = entry.run.header.devices.get(series.spec.device as usize) else { continue };
            let label = labels[place][series.spec.device as usize].clone();
            let source = Source { run: place, device, label, series, first_row: 0 };
            let cases = &mut section_of(&mut sections, &series.spec.probe).cases;
            match cases.iter_mut().find(|case| case.accepts(series)) {
                Some(case) => case.sources.push(source),
                None => cases.push(Case { name: series.spec.case.clone(), sources: vec![source] }),
            }
        }
        for finding in &entry.run.findings {
            let label = labels[place].get(finding.device as usize).cloned().unwrap_or_default();
            section_of(&mut sections, &finding.probe).findings.push((label, finding));
        }
    }
    sections.iter_mut().for_each(number_rows);
    sections
}

/// Numbers the rows of a section in the order of its cases and their sources.
fn number_rows(section: &mut Section<'_>) {
    let mut next = 0;
    for source in section.cases.iter_mut().flat_map(|case| &mut case.sources) {
        source.first_row = next;
        next += source.series.rows.len();
    }
}

/// The section of a probe; it is added where there is none yet.
fn section_of<'s, 'r>(sections: &'s mut Vec<Section<'r>>, probe: &str) -> &'s mut Section<'r> {
    let place = sections.iter().position(|section| section.probe == probe).unwrap_or_else(|| {
        let sentence = plimsoll_probes::find(probe).map_or("", |spec| spec.sentence);
        sections.push(Section { probe: probe.to_owned(), sentence, cases: vec![], findings: vec![] });
        sections.len() - 1
    });
    &mut sections[place]
}

impl Case<'_> {
    /// True where the series measures the same thing as those of this case and may share a picture with them.
    fn accepts(&self, series: &Series) -> bool {
        let (ours, theirs) = (&self.sources[0].series.spec, &series.spec);
        self.name == theirs.case && ours.cache == theirs.cache && has_same_shape(ours, theirs)
    }
}

/// True for series that have the same axes and metrics; name and cache policy may differ.
pub(crate) fn has_same_shape(one: &SeriesSpec, other: &SeriesSpec) -> bool {
    one.axes == other.axes
        && one.metrics == other.metrics
        && one.draw == other.draw
        && one.figure == other.figure
        && one.trace == other.trace
}

/// A coordinate as readable text.
pub(crate) fn format_coordinate(unit: &Unit, value: &Value) -> String {
    clean(&value.format(unit))
}

/// A row's figure with its interval as readable text; `—` where it can't be computed.
pub(crate) fn format_figure(series: &Series, row: &Row, metric: &str) -> String {
    let Some(metric) = series.metric(metric) else { return "—".into() };
    match series.estimate(row, &metric.name).filter(is_finite) {
        Some(known) => clean(&unit_at(metric, &row.at).format_with_interval(known.value, known.interval.into())),
        None => "—".into(),
    }
}

/// True where a figure and its interval are finite.
pub(crate) fn is_finite(known: &plimsoll_core::series::Estimate) -> bool {
    known.value.is_finite() && known.interval.lo.is_finite() && known.interval.hi.is_finite()
}

/// Each flag's name and meaning.
pub(crate) fn glossary(flags: Flags) -> impl Iterator<Item = (&'static str, &'static str)> {
    flags.iter().map(|flag: Flag| (flag.name(), flag.meaning()))
}
