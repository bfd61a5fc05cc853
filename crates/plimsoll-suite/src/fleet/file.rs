//! The file of one device: a record with its headline figures and only those points that they are derived from, so that whoever
//! reads it can derive them again.

use std::collections::BTreeMap;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::flag::Flags;
use plimsoll_core::headline::{Headline, Role};
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::{Finding, Member, Record, Run, RunHeader};
use plimsoll_core::series::{Row, Series};
use plimsoll_core::text::shorten;

use super::device::{COMPARED_NOTES, LONGEST_NAME};
use super::launcher::sanitise;
use crate::check::is_checked;
use crate::headlines::derive_findings;

/// Largest file, bytes: ten thousand of them are read in seconds.
pub const LARGEST: usize = 40 << 10;
/// Most faults that are kept, and most characters of each.
const MOST_FAULTS: usize = 20;
const LONGEST_FAULT: usize = 300;
/// Samples of a point below which it isn't thinned any more.
const FEWEST_SAMPLES: usize = 5;

/// The name of a device's file. It never has the rank: two processes may believe to be the same one.
#[must_use]
pub fn file_name(member: &Member, info: &DeviceInfo) -> String {
    let id = sanitise(if info.id.is_empty() { &info.selector } else { &info.id });
    let round = if member.round > 1 { format!(".r{}", member.round) } else { String::new() };
    format!("{}-{id}{round}.jsonl", sanitise(&member.host))
}

/// The records of one device of a run, as its file holds them: header, place, points, headline findings, faults and the end.
/// Long texts of the header are shortened. `None` where the run has no such device, or where what identifies it is larger than a file
/// may be.
#[must_use]
pub fn reduce(run: &Run, device: u32, member: &Member, probes: &[&'static ProbeSpec]) -> Option<Vec<Record>> {
    let own = split(run, device)?;
    let info = &own.header.devices[0];
    let mut kept = Vec::new();
    for probe in probes.iter().filter(|probe| is_checked(probe)) {
        let series: Vec<Series> = own.series.iter().filter(|series| series.spec.probe == probe.name).cloned().collect();
        kept.push(Kept::new(probe, info, series, &own.findings));
    }
    let mut header = own.header.clone();
    if size_of(&header) > LARGEST_HEADER {
        shorten_header(&mut header);
    }
    let build = |kept: &[Kept]| build(&header, &own, member, kept);
    while lines(&build(&kept)).len() > LARGEST && thin(&mut kept, info) {}
    Some(build(&kept)).filter(|records| lines(records).len() <= LARGEST)
}

/// Bytes of a header above which its texts are shortened. That of an H200 has 4 KiB.
const LARGEST_HEADER: usize = 12 << 10;
/// Most texts of a kind in a header that is shortened, and most characters of each.
const MOST_TEXTS: usize = 40;
const LONGEST_TEXT: usize = 80;

fn size_of(header: &RunHeader) -> usize {
    lines(&[Record::Run(header.clone())]).len()
}

/// Shortens what only people read: the command line, facts about the host, notes, reasons, sources. What identifies the device stays, and
/// so do the notes that tell it from others.
fn shorten_header(header: &mut RunHeader) {
    fn cut(text: &mut String) {
        *text = shorten(text, LONGEST_TEXT);
    }
    fn cut_map(map: &mut BTreeMap<String, String>) {
        let size = |name: &String| name.len() + map[name].len();
        let mut names: Vec<String> = map.keys().cloned().collect();
        names.sort_by_key(|name| (!COMPARED_NOTES.contains(&name.as_str()), size(name)));
        for name in names.iter().skip(MOST_TEXTS) {
            map.remove(name);
        }
        let cut_entry = |(name, text): (String, String)| {
            let longest = if COMPARED_NOTES.contains(&name.as_str()) { LONGEST_NAME } else { LONGEST_TEXT };
            (shorten(&name, LONGEST_TEXT), shorten(&text, longest))
        };
        *map = std::mem::take(map).into_iter().map(cut_entry).collect();
    }
    header.argv.truncate(MOST_TEXTS);
    header.argv.iter_mut().for_each(cut);
    cut_map(&mut header.host);
    for info in &mut header.devices {
        cut_map(&mut info.notes);
        info.capabilities.truncate(MOST_TEXTS);
        for capability in &mut info.capabilities {
            [&mut capability.name, &mut capability.why_not, &mut capability.hint].into_iter().for_each(cut);
        }
        info.peaks.truncate(MOST_TEXTS);
        info.peaks.iter_mut().for_each(|peak| cut(&mut peak.source));
        cut_map(&mut info.health.hidden);
    }
}

/// The bytes of a file with these records.
#[must_use]
pub fn lines(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        // Numbers of records are finite, and nothing else can fail in memory; a line that fails is left out.
        if let Ok(mut line) = serde_json::to_vec(record) {
            bytes.append(&mut line);
            bytes.push(b'\n');
        }
    }
    bytes
}

/// The run of one device alone.
fn split(run: &Run, device: u32) -> Option<Run> {
    let info = run.header.devices.get(device as usize)?.clone();
    let mut own = Run { header: run.header.clone(), ..run.clone() };
    own.header.devices = vec![info];
    own.series.retain(|series| series.spec.device == device);
    own.series.iter_mut().for_each(|series| series.spec.device = 0);
    own.findings.retain(|finding| finding.device == device);
    own.findings.iter_mut().for_each(|finding| finding.device = 0);
    own.faults.retain(|fault| fault.device == device && fault.unopened.is_empty());
    own.faults.iter_mut().for_each(|fault| fault.device = 0);
    Some(own)
}

/// What is kept of a probe.
struct Kept {
    probe: &'static ProbeSpec,
    series: Vec<Series>,
    findings: Vec<Finding>,
    /// All flags of the probe: a disturbance need not hit the very points that are kept.
    flags: Flags,
}

impl Kept {
    fn new(probe: &'static ProbeSpec, info: &DeviceInfo, series: Vec<Series>, recorded: &[Finding]) -> Self {
        let flags = series.iter().flat_map(|series| &series.rows).fold(Flags::NONE, |all, row| all.union(row.flags));
        let recorded: Vec<Finding> = recorded.iter().filter(|finding| finding.probe == probe.name).cloned().collect();
        let headlines = || probe.headlines.iter().filter(|headline| headline.role == Role::Gate);
        let findings: Vec<Finding> = if probe.headlines.is_empty() {
            recorded
        } else {
            headlines().filter_map(|headline| headline.find(recorded.iter())).cloned().collect()
        };
        let wanted: Vec<(&Headline, &Finding)> =
            headlines().filter_map(|headline| Some((headline, headline.find(findings.iter())?))).collect();
        let series = if wanted.is_empty() { Vec::new() } else { minimise(probe, info, series, &wanted) };
        Self { probe, series, findings, flags }
    }
}

/// Whether these series give the same figures.
fn is_enough(probe: &ProbeSpec, info: &DeviceInfo, series: &[Series], wanted: &[(&Headline, &Finding)]) -> bool {
    let found = (probe.findings)(info, series);
    wanted.iter().all(|(headline, wanted)| {
        let same = |found: &Finding| {
            found.name == wanted.name && found.value == wanted.value && found.interval == wanted.interval
        };
        headline.find(found.iter()).is_some_and(same)
    })
}

/// The series and rows without which the figures would change, nearly: whole series are dropped first, then ever smaller parts of
/// the rest (Zeller and Hildebrandt, 'Simplifying and isolating failure-inducing input', 2002). Nothing is kept where even all
/// series don't give the recorded figures.
fn minimise(
    probe: &ProbeSpec,
    info: &DeviceInfo,
    mut series: Vec<Series>,
    wanted: &[(&Headline, &Finding)],
) -> Vec<Series> {
    if !is_enough(probe, info, &series, wanted) {
        return Vec::new();
    }
    let mut place = 0;
    while place < series.len() {
        let dropped = series.remove(place);
        if !is_enough(probe, info, &series, wanted) {
            series.insert(place, dropped);
            place += 1;
        }
    }
    for place in 0..series.len() {
        let mut size = series[place].rows.len().div_ceil(2);
        while size > 0 {
            let mut from = 0;
            while from < series[place].rows.len() {
                let to = (from + size).min(series[place].rows.len());
                let dropped: Vec<Row> = series[place].rows.drain(from..to).collect();
                if !is_enough(probe, info, &series, wanted) {
                    series[place].rows.splice(from..from, dropped);
                    from = to;
                }
            }
            size /= 2;
        }
    }
    series
}

/// Drops every second sample of the points with the most, and derives the figures anew. False where nothing is left to drop.
fn thin(kept: &mut [Kept], info: &DeviceInfo) -> bool {
    let points = kept.iter().flat_map(|kept| &kept.series).flat_map(|series| &series.rows).flat_map(|row| &row.points);
    let most = points.map(|point| point.samples.len()).max().unwrap_or(0);
    if most < 2 * FEWEST_SAMPLES {
        // A device whose figures need this many points keeps none: they can't be derived again.
        return kept
            .iter_mut()
            .max_by_key(|kept| kept.series.iter().map(|series| series.rows.len()).sum::<usize>())
            .is_some_and(|largest| {
                let had = !largest.series.is_empty();
                largest.series.clear();
                had
            });
    }
    for probe in kept {
        for series in &mut probe.series {
            let mut points: Vec<_> = series.rows.drain(..).flat_map(|row| row.points).collect();
            for point in points.iter_mut().filter(|point| 2 * point.samples.len() > most) {
                let mut place = 0;
                point.samples.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
            }
            *series = Series::new(series.spec.clone(), points);
        }
        let derived = (probe.probe.findings)(info, &probe.series);
        for finding in &mut probe.findings {
            if let Some(again) = derived.iter().find(|derived| derived.name == finding.name) {
                *finding = Finding { probe: finding.probe.clone(), ..again.clone() };
            }
        }
    }
    true
}

fn build(header: &RunHeader, own: &Run, member: &Member, kept: &[Kept]) -> Vec<Record> {
    let mut records = vec![Record::Run(header.clone()), Record::Member(member.clone())];
    for series in kept.iter().flat_map(|kept| &kept.series) {
        records.push(Record::Series(series.spec.clone()));
        records.extend(series.rows.iter().flat_map(|row| row.points.iter().cloned().map(Record::Point)));
    }
    for kept in kept {
        let with_flags = |finding: &Finding| {
            Record::Finding(Finding { flags: finding.flags.union(kept.flags), says: String::new(), ..finding.clone() })
        };
        records.extend(kept.findings.iter().map(with_flags));
    }
    for fault in own.faults.iter().take(MOST_FAULTS) {
        let what = shorten(&fault.what, LONGEST_FAULT);
        records.push(Record::Fault(plimsoll_core::record::FaultRecord {
            what,
            series: None,
            at: vec![],
            ..fault.clone()
        }));
    }
    records.push(Record::End { complete: own.end == Some(true) });
    records
}

/// How a figure stands to the samples that its file holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Origin {
    /// The samples give this figure.
    Confirmed,
    /// The samples give another figure.
    Edited {
        /// What the file claims, in the figure's unit.
        claimed: f64,
    },
    /// The file holds no samples for it.
    Unverified,
}

/// Relative difference up to which two figures are the same: they are computed alike, so only the text's digits can differ.
const SAME: f64 = 1e-9;

/// Derives the figures of a file from its samples, replaces those that differ, and says how each headline figure stands.
pub fn recompute(run: &mut Run, probes: &[&'static ProbeSpec]) -> Vec<(&'static Headline, Origin)> {
    let derived = if run.series.is_empty() { Vec::new() } else { derive_findings(run, probes) };
    let mut origins = Vec::new();
    for probe in probes {
        for headline in probe.headlines {
            let own = run.findings.iter_mut().filter(|finding| finding.probe == probe.name);
            let mut own: Vec<&mut Finding> = own.collect();
            let named = |finding: &&&mut Finding| headline.findings.contains(&finding.name.as_str());
            let Some(name) = own.iter().find(named).map(|finding| finding.name.clone()) else { continue };
            let again = derived.iter().find(|again| again.probe == probe.name && again.name == name);
            let Some(claimed) = own.iter_mut().find(|finding| finding.name == name) else { continue };
            let origin = match again {
                None => Origin::Unverified,
                Some(again) if (claimed.value - again.value).abs() <= SAME * again.value.abs() => Origin::Confirmed,
                Some(again) => {
                    let was = claimed.value;
                    **claimed = Finding { flags: again.flags.union(claimed.flags), ..again.clone() };
                    Origin::Edited { claimed: was }
                }
            };
            origins.push((headline, origin));
        }
    }
    origins
}
