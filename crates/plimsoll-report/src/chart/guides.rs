//! Guides: annotations at the place in a picture that they are about. They show where a cache ends, which level a flat part of
//! a curve belongs to, up to where memory or a cache limits a rate, and fitted lines. All of them come from the probes'
//! findings; this module only places them.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::record::Finding;
use plimsoll_core::series::{Metric, Quantity, SeriesSpec};
use plimsoll_core::unit::Unit;
use plimsoll_probes::launch::{self, Mode};
use plimsoll_suite::findings::affine::Affine;

use super::build::spec_of;
use super::bundle::label_with_policy;
use super::levels::{CEILING_PROBE, PEAK, is_same_device, only_device};
use super::{Form, Guide, Trace};
use crate::Report;
use crate::content::{Case, Section};
use crate::text::clean;

/// Most guides of one kind; more would hide the marks.
const MOST: usize = 8;
/// Number of points along a fitted curve.
const ALONG: usize = 24;

/// The guides of a picture. There are none where it shows several devices or runs, because each has its own.
pub(super) fn build_guides(
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
            && !finding.flags.is_unverified()
    };
    let found: Vec<&Finding> = report.entries[first.run].run.findings.iter().filter(own).collect();
    let mut guides = vertical_guides(&found, x, traces);
    if *x == Unit::Byte {
        guides.extend(plateau_guides(device, &found, y, traces));
        guides.extend(fit_guides(device, section, group, y, traces));
    }
    if (x, &y.unit) == (&Unit::FlopPerByte, &Unit::FlopPerSecond) {
        guides.extend(ceiling_guides(report, device));
    }
    guides
}

fn format_value(finding: &Finding) -> String {
    clean(&finding.unit.format(finding.value))
}

fn describe_source(finding: &Finding) -> String {
    let known = finding.unit.format_with_interval(finding.value, finding.interval.into());
    clean(&format!("{}: {} {known}", finding.probe, finding.name))
}

/// Vertical lines for findings in the unit of the x axis that lie within the range of the marks.
fn vertical_guides(found: &[&Finding], x: &Unit, traces: &[Trace]) -> Vec<Guide> {
    let marks = || traces.iter().flat_map(|trace| &trace.marks).map(|mark| mark.x);
    let (lo, hi) = (marks().fold(f64::INFINITY, f64::min), marks().fold(f64::NEG_INFINITY, f64::max));
    let within = found.iter().filter(|finding| finding.unit == *x && *x != Unit::One);
    let within = within.filter(|finding| (lo..=hi).contains(&finding.value));
    // Findings with the same value share a line.
    let mut places: Vec<(String, Vec<&Finding>)> = Vec::new();
    for &finding in within {
        let figure = format_value(finding);
        match places.iter_mut().find(|(known, _)| *known == figure) {
            Some((_, same)) => same.push(finding),
            None => places.push((figure, vec![finding])),
        }
    }
    let guide = |(figure, same): (String, Vec<&Finding>)| Guide {
        form: Form::Vertical(same[0].value),
        label: join_names(&same.iter().map(|finding| clean(&finding.name)).collect::<Vec<String>>(), &figure),
        source: same.iter().map(|finding| describe_source(finding)).collect::<Vec<String>>().join("; "),
    };
    places.into_iter().take(MOST).map(guide).collect()
}

/// A figure with the names of all findings that have it. The words that all names begin or end with come first, so that
/// shortening the label cuts a name and not the figure: `full speed to 40 MiB: graph, stream` for `graph, full speed to` and
/// `stream, full speed to`.
fn join_names(names: &[String], figure: &str) -> String {
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

/// For a finding that is named after the memory level: its name without the probe and the unit, and the level at its end.
fn split_level<'f>(device: &DeviceInfo, finding: &'f Finding) -> Option<(&'f str, &'f str)> {
    let name = finding.name.strip_suffix(" in cycles").unwrap_or(&finding.name);
    let name = name.strip_prefix(finding.probe.as_str()).map_or(name, str::trim_start);
    let part = [" near", " far"].iter().find(|part| name.ends_with(*part)).map_or(0, |part| part.len());
    let from = name[..name.len() - part].rfind(' ').map_or(0, |space| space + 1);
    let level = name[from..].split(' ').next()?;
    let known = ["L1", "L2", "L3", MEMORY].contains(&level) || device.caches.iter().any(|cache| cache.level == level);
    known.then_some((name, &name[from..]))
}

/// The level for data that no cache holds.
const MEMORY: &str = "memory";

/// Names above flat parts of lines. The findings are named after a level, or after a line and a level.
fn plateau_guides(device: &DeviceInfo, found: &[&Finding], y: &Metric, traces: &[Trace]) -> Vec<Guide> {
    let guide = |finding: &&Finding| {
        let (name, level) = split_level(device, finding).filter(|_| finding.unit == y.unit)?;
        let line = name[..name.len() - level.len()].trim_end();
        // Findings are read off the first line that shows them.
        let mut candidates = traces.iter().filter(|trace| line.is_empty() || trace.label == line);
        let (from, to) = candidates.find_map(|trace| find_flat_part(trace, finding.value))?;
        Some(Guide {
            form: Form::Plateau { from, to, value: finding.value },
            label: format!("{} {}", clean(name), format_value(finding)),
            source: describe_source(finding),
        })
    };
    found.iter().filter_map(guide).take(MOST).collect()
}

/// The first and last x of the longest run of at least three marks near `value`.
fn find_flat_part(trace: &Trace, value: f64) -> Option<(f64, f64)> {
    let near = |y: f64| (y / value).ln().abs() < 0.1;
    let runs = trace.marks.chunk_by(|a, b| near(a.y) == near(b.y)).filter(|run| near(run[0].y));
    let longest = runs.max_by_key(|run| run.len()).filter(|run| run.len() >= 3)?;
    Some((longest[0].x, longest[longest.len() - 1].x))
}

/// Read bandwidths as ceilings of arithmetic: for each cache and for memory the best found on the device in any run; for
/// memory the theoretical peak where there is none.
fn ceiling_guides(report: &Report<'_>, device: &DeviceInfo) -> Vec<Guide> {
    let mut best: Vec<(&str, &Finding)> = Vec::new();
    for entry in &report.entries {
        for finding in &entry.run.findings {
            let owner = entry.run.header.devices.get(finding.device as usize);
            let read = finding.unit == Unit::BytePerSecond && finding.name.starts_with("read");
            if !read || !owner.is_some_and(|owner| is_same_device(owner, device)) || finding.flags.is_unverified() {
                continue;
            }
            let level = if finding.probe == CEILING_PROBE && finding.name == "read" {
                MEMORY
            } else if let Some((_, level)) = split_level(device, finding) {
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
        label: format!("{} {}", clean(level), format_value(finding)),
        source: describe_source(finding),
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

/// `T = a + V/b` for each launch mode, hot and cold, over the volumes that it was fitted to.
fn fit_guides(
    device: &DeviceInfo,
    section: &Section<'_>,
    group: &[&Case<'_>],
    y: &Metric,
    traces: &[Trace],
) -> Vec<Guide> {
    let (scale, cold) = (launch::scale(), launch::cold());
    let is_fitted = |case: &&Case<'_>| [scale.spec(), cold.spec()].iter().any(|spec| spec.case == spec_of(case).case);
    if section.probe != launch::SPEC.name || !group.iter().all(is_fitted) {
        return Vec::new();
    }
    let case_guides = |case: &Case<'_>| {
        let series = case.sources[0].series;
        let mode_guides = |mode: Mode| {
            let trace = trace_of(mode.name(), spec_of(case), group, traces)?;
            let [near, far] = launch::fits(device, series, mode);
            // The fit for large volumes is a finding only where it has a rate.
            let lines = near.into_iter().chain(far.filter(|(line, _)| line.b.is_some()));
            Some(lines.map(|(line, _)| fit_guide(trace, mode.name(), &line, y)).collect::<Vec<Guide>>())
        };
        Mode::ALL.into_iter().filter_map(mode_guides).flatten().collect::<Vec<Guide>>()
    };
    group.iter().flat_map(|case| case_guides(case)).collect()
}

/// The line of a mode. Its label names the mode and the cache policy, each only where the picture has several.
fn trace_of<'t>(mode: &str, spec: &SeriesSpec, group: &[&Case<'_>], traces: &'t [Trace]) -> Option<&'t Trace> {
    let policy = spec.cache.name();
    let label = |own: &str| if group.len() > 1 { label_with_policy(own, policy) } else { own.to_owned() };
    let find = |label: String| traces.iter().find(|trace| trace.label == label);
    find(label(&clean(mode))).or_else(|| find(label("")))
}

fn fit_guide(trace: &Trace, mode: &str, line: &Affine, y: &Metric) -> Guide {
    let [from, to] = line.over.map(|bytes| Unit::Byte.format(bytes));
    // A single line has no label; then there is only one mode.
    let name = if trace.label.is_empty() { clean(mode) } else { trace.label.clone() };
    Guide {
        form: Form::Fit { hue: trace.hue, dash: trace.dash, path: sample_fit(line, &y.quantity) },
        label: format!("{name}: {}", describe_fit(line)),
        source: format!("T = a + V/b over {from} to {to}"),
    }
}

fn describe_fit(line: &Affine) -> String {
    let a = Unit::Second.format(line.a.value);
    line.b.map_or_else(|| format!("{a}, no limit"), |b| format!("{a} + V / {}", Unit::BytePerSecond.format(b.value)))
}

/// Points along a fitted line, evenly spaced on a logarithmic axis.
fn sample_fit(line: &Affine, quantity: &Quantity) -> Vec<(f64, f64)> {
    let [from, to] = line.over;
    let point = |step: usize| {
        let volume = from * (to / from).powf(step as f64 / (ALONG - 1) as f64);
        let time = line.a.value + line.b.map_or(0.0, |b| volume / b.value);
        let figure = if matches!(quantity, Quantity::Bandwidth) { volume / time } else { time };
        (volume, figure)
    };
    (0..ALONG).map(point).filter(|point| point.1.is_finite() && point.1 > 0.0).collect()
}

#[cfg(test)]
mod tests;
