//! The data that the template shows: plain texts that are safe to show but not yet escaped.

use minijinja::Value;
use serde::Serialize;

use plimsoll_core::device::{DeviceInfo, Peak};
use plimsoll_core::unit::Unit;
use plimsoll_suite::findings::advice::is_advice;
use plimsoll_suite::operations::{unit, unit_of_finding};
use plimsoll_suite::standing::{Standing, YardstickResult};

use crate::chart::charts;
use crate::content::{Case, Entry, Report, Section, format_coordinate, format_figure, glossary};
use crate::svg;
use crate::terminal::format_yardstick;
use crate::text::clean;

#[derive(Serialize)]
pub(super) struct Page {
    title: String,
    simulated: bool,
    doubtful: usize,
    points: usize,
    devices: Vec<Device>,
    sections: Vec<Probe>,
    problems: Vec<String>,
    flags: Vec<(&'static str, &'static str)>,
}

/// A device of one run.
#[derive(Serialize)]
struct Device {
    label: String,
    facts: Vec<(String, String)>,
    rows: Vec<Row>,
    sources: Vec<String>,
}

/// A finding.
#[derive(Serialize)]
struct Row {
    id: String,
    probe: String,
    name: String,
    achieved: String,
    doubtful: bool,
    /// Ceiling, peak and reference: the figure, and its source or why there is none.
    yardsticks: [(String, String); 3],
    share: Option<String>,
    /// Length of the bar below the share, 0 to 100.
    meter: f64,
    flags: String,
}

#[derive(Serialize)]
struct Probe {
    id: String,
    probe: String,
    sentence: &'static str,
    pictures: Vec<Value>,
    advice: Vec<(String, String)>,
    findings: Vec<String>,
    tables: Vec<Table>,
}

#[derive(Serialize)]
struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

pub(super) fn build_page(report: &Report<'_>) -> Page {
    let (doubtful, points) = report.count_doubtful();
    let labels: Vec<&str> = report.entries.iter().flat_map(|entry| &entry.labels).map(String::as_str).collect();
    Page {
        title: if labels.is_empty() {
            "plimsoll: no runs".into()
        } else {
            format!("plimsoll: {}", labels.join(" · "))
        },
        simulated: report.is_simulated(),
        doubtful,
        points,
        devices: report.entries.iter().flat_map(|entry| build_devices(report, entry)).collect(),
        sections: report
            .sections
            .iter()
            .enumerate()
            .map(|(place, section)| build_probe(report, place, section))
            .collect(),
        problems: report.list_problems(),
        flags: glossary(report.flags()).collect(),
    }
}

fn build_devices(report: &Report<'_>, entry: &Entry<'_>) -> Vec<Device> {
    let all = entry.run.header.devices.iter().zip(&entry.labels).enumerate();
    all.map(|(place, (device, label))| {
        let own = || entry.standings.iter().filter(|standing| standing.device as usize == place);
        Device {
            label: label.clone(),
            facts: list_facts(entry, place, device),
            rows: own().map(|standing| build_row(report, standing)).collect(),
            sources: list_sources(device, own()),
        }
    })
    .collect()
}

/// The calibrated clock, and the lowest and highest at which points ran.
fn describe_clocks(entry: &Entry<'_>, place: usize, device: &DeviceInfo) -> String {
    let calibrated = device.calibration.clock_hz.map_or_else(|| "not measured".into(), |hz| Unit::Hertz.format(hz));
    let own = entry.run.series.iter().filter(|series| series.spec.device as usize == place);
    let clocks: Vec<f64> = own.flat_map(|series| &series.rows).filter_map(|row| row.clock_hz()).collect();
    let ends = (clocks.iter().copied().reduce(f64::min), clocks.iter().copied().reduce(f64::max));
    match ends {
        (Some(lo), Some(hi)) => {
            let (lo, hi) = (Unit::Hertz.format(lo), Unit::Hertz.format(hi));
            format!("{calibrated} at the start; {lo} to {hi} during the points")
        }
        _ => calibrated,
    }
}

fn list_facts(entry: &Entry<'_>, place: usize, device: &DeviceInfo) -> Vec<(String, String)> {
    let header = &entry.run.header;
    let caches: Vec<String> = device
        .caches
        .iter()
        .map(|cache| format!("{} {}", cache.level, Unit::Byte.format(cache.bytes as f64)))
        .collect();
    let memory = format!(
        "{}, {} free at the start",
        Unit::Byte.format(device.memory_total as f64),
        Unit::Byte.format(device.memory_free as f64)
    );
    let describe_peak = |peak: &Peak| format!("{} {}", peak.metric, unit(&peak.unit, &peak.metric).format(peak.value));
    let peaks: Vec<String> = device.peaks.iter().map(describe_peak).collect();
    let mut facts = vec![
        ("device", format!("{} ({})", device.name, device.selector)),
        ("architecture", device.architecture.clone().unwrap_or_default()),
        ("driver", device.driver.clone().unwrap_or_default()),
        ("core clock", describe_clocks(entry, place, device)),
        ("memory", memory),
        ("caches", caches.join(", ")),
        ("theoretical peaks", peaks.join("; ")),
        ("measured", header.started.clone()),
        ("effort", format!("{}, seed {}", header.effort.name(), header.seed)),
        ("plimsoll", header.tool.clone()),
    ];
    let more = device.notes.iter().chain(&header.host);
    facts.extend(more.map(|(name, text)| (name.as_str(), text.clone())));
    facts.retain(|(_, text)| !text.is_empty());
    facts.into_iter().map(|(name, text)| (clean(name), clean(&text))).collect()
}

fn build_row(report: &Report<'_>, standing: &Standing) -> Row {
    let place = report.sections.iter().position(|section| section.probe == standing.probe).unwrap_or(0);
    let cell = |yardstick: &YardstickResult| {
        let source = yardstick.as_ref().map_or_else(|why| (*why).to_owned(), |known| clean(&known.source));
        (format_yardstick(standing, yardstick), source)
    };
    let percent = standing.percent();
    let achieved = standing.unit.format_with_interval(standing.achieved.value, standing.achieved.interval.into());
    Row {
        id: anchor(place),
        probe: clean(&standing.probe),
        name: clean(&standing.name),
        achieved: clean(&achieved),
        doubtful: !standing.flags.doubtful().is_empty(),
        yardsticks: [cell(&standing.ceiling), cell(&standing.peak), cell(&standing.reference)],
        share: percent.map(|(percent, kind)| format!("{percent:.1} % of {}", kind.name())),
        meter: percent.map_or(0.0, |(percent, _)| percent.clamp(0.0, 100.0).round()),
        flags: standing.flags.to_string(),
    }
}

/// Every source of a yardstick and every reason for a missing one, each once; all the device's peaks, used or not.
fn list_sources<'s>(device: &DeviceInfo, standings: impl Iterator<Item = &'s Standing>) -> Vec<String> {
    let describe_peak =
        |peak: &Peak| format!("peak {}: {}", unit(&peak.unit, &peak.metric).format(peak.value), clean(&peak.source));
    let mut lines: Vec<String> = device.peaks.iter().map(describe_peak).collect();
    for standing in standings {
        let all = [("ceiling", &standing.ceiling), ("peak", &standing.peak), ("reference", &standing.reference)];
        for (name, yardstick) in all {
            let line = match yardstick {
                Ok(known) => format!("{name} {}: {}", standing.unit.format(known.value), clean(&known.source)),
                Err(why) => format!("no {name}: {why}"),
            };
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines.sort_by_key(|line| line.starts_with("no "));
    lines
}

/// The anchor of a probe's section: a number, because names are untrusted.
fn anchor(place: usize) -> String {
    format!("probe-{place}")
}

fn build_probe(report: &Report<'_>, place: usize, section: &Section<'_>) -> Probe {
    let pictures = charts(report, section).into_iter();
    let others = section.findings.iter().filter(|(_, finding)| !is_advice(finding));
    let findings = others.map(|(label, finding)| {
        let figure = unit_of_finding(finding).format_with_interval(finding.value, finding.interval.into());
        let device = if label.is_empty() { String::new() } else { format!(" ({label})") };
        let says = if finding.says.is_empty() { String::new() } else { format!(": {}", finding.says) };
        let flags = if finding.flags.is_empty() { String::new() } else { format!(" [{}]", finding.flags) };
        clean(&format!("{} {figure}{flags}{device}{says}", finding.name))
    });
    Probe {
        id: anchor(place),
        probe: clean(&section.probe),
        sentence: section.sentence,
        pictures: pictures.map(|chart| Value::from_safe_string(svg::render_inline(&chart))).collect(),
        advice: section.advice().collect(),
        findings: findings.collect(),
        tables: section.cases.iter().map(build_table).collect(),
    }
}

fn build_table(case: &Case<'_>) -> Table {
    let spec = &case.sources[0].series.spec;
    let mut head: Vec<String> = spec.axes.iter().map(|axis| clean(&axis.name)).collect();
    head.extend(spec.metrics.iter().map(|metric| clean(&metric.name)));
    head.extend(["samples".to_owned(), "flags".to_owned()]);
    let several = case.sources.len() > 1;
    if several {
        head.insert(0, "device".into());
    }
    let rows = case.sources.iter().flat_map(|source| {
        source.series.rows.iter().map(move |row| {
            let mut cells: Vec<String> =
                spec.axes.iter().zip(&row.at).map(|(axis, value)| format_coordinate(&axis.unit, value)).collect();
            cells.extend(spec.metrics.iter().map(|metric| format_figure(source.series, row, &metric.name)));
            cells.extend([row.n.to_string(), row.flags.to_string()]);
            if several {
                cells.insert(0, source.label.clone());
            }
            cells
        })
    });
    Table { title: clean(&case.name), head, rows: rows.collect() }
}
