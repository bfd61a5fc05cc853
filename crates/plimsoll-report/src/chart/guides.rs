//! What a picture's figures show, told where it is: where a cache ends, what a flat part of a curve is, up to where a rate is
//! bound by memory or a cache, what a fit says. All of it comes from the probes' findings; here it only gets its place.

use plimsoll_core::Flag;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::record::Finding;
use plimsoll_core::series::{Metric, Quantity, SeriesSpec};
use plimsoll_core::unit::Unit;
use plimsoll_probes::launch::{self, Mode};
use plimsoll_suite::findings::affine::Affine;

use super::build::spec_of;
use super::bundle::beside_others;
use super::levels::{CEILING_PROBE, PEAK, only_device, same};
use super::{Form, Guide, Trace};
use crate::Report;
use crate::content::{Case, Section};
use crate::text::clean;

/// More of one kind would hide the marks.
const MOST: usize = 8;
/// Places along a fitted curve.
const ALONG: usize = 24;

/// None where the picture shows several devices or runs: each has its own.
pub(super) fn guides(
    report: &Report<'_>,
    section: &Section<'_>,
    group: &[&Case<'_>],
    (x, y): (&Unit, &Metric),
    traces: &[Trace],
) -> Vec<Guide> {
    let Some(device) = only_device(group) else { return Vec::new() };
    let first = &group[0].sources[0];
    let mut sources = group.iter().flat_map(|case| &case.sources);
    if !sources.all(|source| source.run == first.run) {
        return Vec::new();
    }
    let own = |finding: &&Finding| {
        finding.probe == section.probe
            && finding.device == first.series.spec.device
            && finding.value.is_finite()
            && !finding.flags.contains(Flag::VerifyFail)
    };
    let found: Vec<&Finding> = report.entries[first.run].run.findings.iter().filter(own).collect();
    let mut guides = uprights(&found, x, traces);
    if *x == Unit::Byte {
        guides.extend(plateaus(device, &found, y, traces));
        guides.extend(fits(device, section, group, y, traces));
    }
    if (x, &y.unit) == (&Unit::FlopPerByte, &Unit::FlopPerSecond) {
        guides.extend(ceilings(report, device));
    }
    guides
}

fn figure(finding: &Finding) -> String {
    clean(&finding.unit.format(finding.value))
}

fn source(finding: &Finding) -> String {
    let known = finding.unit.format_with_interval(finding.value, finding.interval.into());
    clean(&format!("{}: {} {known}", finding.probe, finding.name))
}

/// Findings in the unit of the x axis, within the marks.
fn uprights(found: &[&Finding], x: &Unit, traces: &[Trace]) -> Vec<Guide> {
    let marks = || traces.iter().flat_map(|trace| &trace.marks).map(|mark| mark.x);
    let (lo, hi) = (marks().fold(f64::INFINITY, f64::min), marks().fold(f64::NEG_INFINITY, f64::max));
    let within = found.iter().filter(|finding| finding.unit == *x && *x != Unit::One);
    let within = within.filter(|finding| (lo..=hi).contains(&finding.value));
    // What lies at one place, told once: its figure with all findings that have it.
    let mut places: Vec<(String, Vec<&Finding>)> = Vec::new();
    for &finding in within {
        let figure = figure(finding);
        match places.iter_mut().find(|(known, _)| *known == figure) {
            Some((_, same)) => same.push(finding),
            None => places.push((figure, vec![finding])),
        }
    }
    let guide = |(figure, same): (String, Vec<&Finding>)| Guide {
        form: Form::Upright(same[0].value),
        label: together(&same.iter().map(|one| clean(&one.name)).collect::<Vec<String>>(), &figure),
        source: same.iter().map(|one| source(one)).collect::<Vec<String>>().join("; "),
    };
    places.into_iter().take(MOST).map(guide).collect()
}

/// A figure with the names of all that have it. The words that all begin or end with come first, so that what is cut for want
/// of room is a name and not the figure: `full speed to 40 MiB: graph, stream` for `graph, full speed to` and `stream, full
/// speed to`.
fn together(names: &[String], figure: &str) -> String {
    let words: Vec<Vec<&str>> = names.iter().map(|name| name.split(' ').collect()).collect();
    let shortest = words.iter().map(Vec::len).min().unwrap_or(0);
    let first = (0..shortest).take_while(|&nth| words.iter().all(|name| name[nth] == words[0][nth])).count();
    let end = |name: &[&str], nth: usize| name[name.len() - 1 - nth].to_owned();
    let last = (0..shortest - first).take_while(|&nth| words.iter().all(|name| end(name, nth) == end(&words[0], nth)));
    let last = last.count();
    let own = words.iter().map(|name| name[first..name.len() - last].join(" ").trim_end_matches(',').to_owned());
    let own: Vec<String> = own.filter(|own| !own.is_empty()).collect();
    let own = own.join(if own.iter().any(|own| own.contains(',')) { "; " } else { ", " });
    let shared = [&words[0][..first], &words[0][words[0].len() - last..]].concat().join(" ");
    // `L2 holds of ones` without the ones.
    let shared = if own.is_empty() { shared.as_str() } else { shared.trim_end_matches(" of") };
    let parts = [shared, figure].into_iter().filter(|part| !part.is_empty()).collect::<Vec<&str>>().join(" ");
    if own.is_empty() { parts } else { format!("{parts}: {own}") }
}

/// A finding that is named after where the data were: its name without the probe and the unit, and the level at its end.
fn level<'f>(device: &DeviceInfo, finding: &'f Finding) -> Option<(&'f str, &'f str)> {
    let name = finding.name.strip_suffix(" in cycles").unwrap_or(&finding.name);
    let name = name.strip_prefix(finding.probe.as_str()).map_or(name, str::trim_start);
    let part = [" near", " far"].iter().find(|part| name.ends_with(*part)).map_or(0, |part| part.len());
    let from = name[..name.len() - part].rfind(' ').map_or(0, |space| space + 1);
    let level = name[from..].split(' ').next()?;
    let known = ["L1", "L2", "L3", MEMORY].contains(&level) || device.caches.iter().any(|cache| cache.level == level);
    known.then_some((name, &name[from..]))
}

/// The level of what no cache holds.
const MEMORY: &str = "memory";

/// Findings that are a flat part of a line: named above it. Their names are that of a level, or that of a line and a level.
fn plateaus(device: &DeviceInfo, found: &[&Finding], y: &Metric, traces: &[Trace]) -> Vec<Guide> {
    let guide = |finding: &&Finding| {
        let (name, level) = level(device, finding).filter(|_| finding.unit == y.unit)?;
        let of = name[..name.len() - level.len()].trim_end();
        // The first line that has it: findings are read from what comes first.
        let mut named = traces.iter().filter(|trace| of.is_empty() || trace.label == of);
        let (from, to) = named.find_map(|trace| flat(trace, finding.value))?;
        Some(Guide {
            form: Form::Plateau { from, to, value: finding.value },
            label: format!("{} {}", clean(name), figure(finding)),
            source: source(finding),
        })
    };
    found.iter().filter_map(guide).take(MOST).collect()
}

/// The longest run of at least three marks near `value`: the first x and the last.
fn flat(trace: &Trace, value: f64) -> Option<(f64, f64)> {
    let near = |y: f64| (y / value).ln().abs() < 0.1;
    let runs = trace.marks.chunk_by(|a, b| near(a.y) == near(b.y)).filter(|run| near(run[0].y));
    let longest = runs.max_by_key(|run| run.len()).filter(|run| run.len() >= 3)?;
    Some((longest[0].x, longest[longest.len() - 1].x))
}

/// Bandwidths of reading as ceilings of arithmetic: of each cache and of memory the best that was found on the device, in
/// whichever run; of memory else the theoretical peak.
fn ceilings(report: &Report<'_>, device: &DeviceInfo) -> Vec<Guide> {
    let mut best: Vec<(&str, &Finding)> = Vec::new();
    for entry in &report.entries {
        for finding in &entry.run.findings {
            let of = entry.run.header.devices.get(finding.device as usize);
            let read = finding.unit == Unit::BytePerSecond && finding.name.starts_with("read");
            if !read || !of.is_some_and(|of| same(of, device)) || finding.flags.contains(Flag::VerifyFail) {
                continue;
            }
            let level = if finding.probe == CEILING_PROBE && finding.name == "read" {
                MEMORY
            } else if let Some((_, level)) = level(device, finding) {
                level
            } else {
                continue;
            };
            match best.iter_mut().find(|known| known.0 == level) {
                Some(known) if known.1.value < finding.value => known.1 = finding,
                Some(_) => {}
                None => best.push((level, finding)),
            }
        }
    }
    let guide = |(level, finding): &(&str, &Finding)| Guide {
        form: Form::Slope(finding.value),
        label: format!("{} {}", clean(level), figure(finding)),
        source: source(finding),
    };
    let mut all: Vec<Guide> = best.iter().map(guide).collect();
    let peak = device.peak("bandwidth").filter(|peak| peak.unit == Unit::BytePerSecond);
    if let (Some(peak), false) = (peak, best.iter().any(|known| known.0 == MEMORY)) {
        all.push(Guide {
            form: Form::Slope(peak.value),
            label: format!("{MEMORY}: {PEAK}{}", clean(&peak.unit.format(peak.value))),
            source: clean(&peak.source),
        });
    }
    all
}

/// `T = a + V/b` of each launch mode, hot and cold, over the volumes that it was laid through.
fn fits(device: &DeviceInfo, section: &Section<'_>, group: &[&Case<'_>], y: &Metric, traces: &[Trace]) -> Vec<Guide> {
    let (scale, cold) = (launch::scale(), launch::cold());
    let is_fitted = |case: &&Case<'_>| [scale.spec(), cold.spec()].iter().any(|spec| spec.case == spec_of(case).case);
    if section.probe != launch::SPEC.name || !group.iter().all(is_fitted) {
        return Vec::new();
    }
    let of = |case: &Case<'_>| {
        let series = case.sources[0].series;
        let of_mode = |mode: Mode| {
            let trace = trace_of(mode.name(), spec_of(case), group, traces)?;
            let [near, far] = launch::fits(device, series, mode);
            // Far lines are findings only by their rate.
            let lines = near.into_iter().chain(far.filter(|(line, _)| line.b.is_some()));
            Some(lines.map(|(line, _)| fit(trace, mode.name(), &line, y)).collect::<Vec<Guide>>())
        };
        Mode::ALL.into_iter().filter_map(of_mode).flatten().collect::<Vec<Guide>>()
    };
    group.iter().flat_map(|case| of(case)).collect()
}

/// The line of a mode: called after the mode and the cache policy, as far as the picture has several of either.
fn trace_of<'t>(mode: &str, spec: &SeriesSpec, group: &[&Case<'_>], traces: &'t [Trace]) -> Option<&'t Trace> {
    let policy = spec.cache.name();
    let label = |own: &str| if group.len() > 1 { beside_others(own, policy) } else { own.to_owned() };
    let called = |label: String| traces.iter().find(|trace| trace.label == label);
    called(label(&clean(mode))).or_else(|| called(label("")))
}

fn fit(trace: &Trace, mode: &str, line: &Affine, y: &Metric) -> Guide {
    let [from, to] = line.over.map(|bytes| Unit::Byte.format(bytes));
    // A line alone has no label, and the only mode.
    let of = if trace.label.is_empty() { clean(mode) } else { trace.label.clone() };
    Guide {
        form: Form::Fit { hue: trace.hue, dash: trace.dash, path: along(line, &y.of) },
        label: format!("{of}: {}", words(line)),
        source: format!("T = a + V/b over {from} to {to}"),
    }
}

fn words(line: &Affine) -> String {
    let a = Unit::Second.format(line.a.value);
    line.b.map_or_else(|| format!("{a}, no limit"), |b| format!("{a} + V / {}", Unit::BytePerSecond.format(b.value)))
}

fn along(line: &Affine, of: &Quantity) -> Vec<(f64, f64)> {
    let [from, to] = line.over;
    let place = |step: usize| {
        let volume = from * (to / from).powf(step as f64 / (ALONG - 1) as f64);
        let time = line.a.value + line.b.map_or(0.0, |b| volume / b.value);
        let figure = if matches!(of, Quantity::Bandwidth) { volume / time } else { time };
        (volume, figure)
    };
    (0..ALONG).map(place).filter(|place| place.1.is_finite() && place.1 > 0.0).collect()
}

#[cfg(test)]
mod tests;
