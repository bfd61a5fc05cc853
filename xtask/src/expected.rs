//! Builds the expectations of a model: what each headline is on a healthy card, from every card in `records/`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use plimsoll::probes;
use plimsoll_core::flag::Flag;
use plimsoll_core::headline::Headline;
use plimsoll_core::record::{Run, read_file};
use plimsoll_core::unit::Unit;
use plimsoll_suite::expected::derive::{Card, Derived, derive};
use plimsoll_suite::expected::shipped::{Model, ModelFigure};
use plimsoll_suite::headlines::figures;
use plimsoll_suite::profile::Profile;

use crate::profiles::{derive_findings, records_in};
use crate::test::root;

/// The digits that are kept of a shipped figure.
const DIGITS: i32 = 5;

/// The figures of all cards: by headline, then by the device's identity.
type Cards = BTreeMap<&'static str, BTreeMap<String, Card>>;

/// The expectations of a model as text.
pub(crate) fn build(folder: &str, name: &str) -> Result<String> {
    let records = root().join("records").join(folder);
    let mut paths = records_in(&records)?;
    paths.extend(cards_in(&records.join("cards"))?);
    paths.sort();
    let (mut cards, mut units) = (Cards::new(), BTreeMap::new());
    for path in paths {
        let mut run = read_file(&path).with_context(|| format!("can't read {}", path.display()))?;
        if !run.series.is_empty() {
            run.findings = derive_findings(&run);
        }
        add_run(&mut cards, &mut units, &run);
    }
    let all: std::collections::BTreeSet<&String> = cards.values().flat_map(BTreeMap::keys).collect();
    let headlines = probes::ALL.iter().flat_map(|probe| probe.headlines);
    let figures =
        headlines.filter_map(|headline| build_figure(headline, cards.get(headline.id)?, units[headline.id].clone()));
    let model = Model { machine: name.to_owned(), cards: all.len() as u32, figures: figures.collect() };
    Ok(format!("{}\n", serde_json::to_string_pretty(&model)?))
}

/// The kept headlines of further cards.
fn cards_in(folder: &std::path::Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("can't list {}", folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect())
}

/// Adds the headlines of a run through CUDA, unless it was made under special conditions or another process disturbed it.
fn add_run(cards: &mut Cards, units: &mut BTreeMap<&'static str, Unit>, run: &Run) {
    for (device, info) in (0..).zip(&run.header.devices) {
        let is_shared = info.health.other_processes.unwrap_or(0) > 0;
        if info.backend != "cuda" || is_shared || !matches!(Profile::from_run(run, device, ""), Ok(Some(_))) {
            continue;
        }
        for figure in figures(run, device, probes::ALL) {
            let disturbed =
                [Flag::VerifyFail, Flag::Unchecked, Flag::Cotenant, Flag::ThrottleHw, Flag::ThrottleThermal];
            if figure.finding.value > 0.0 && !disturbed.iter().any(|flag| figure.finding.flags.contains(*flag)) {
                let id = figure.headline.id;
                cards.entry(id).or_default().entry(info.id.clone()).or_default().push(figure.finding.value);
                units.insert(id, figure.finding.unit.clone());
            }
        }
    }
}

fn build_figure(headline: &Headline, cards: &BTreeMap<String, Card>, unit: Unit) -> Option<ModelFigure> {
    let runs: Vec<Card> = cards.values().cloned().collect();
    let known = derive(&runs, headline.spread)?;
    let interval = |range: plimsoll_core::stats::Interval| plimsoll_core::stats::Interval {
        lo: round(range.lo),
        hi: round(range.hi),
    };
    Some(ModelFigure {
        id: headline.id.to_owned(),
        unit,
        cards: runs.len() as u32,
        runs: runs.iter().map(|runs| runs.len() as u32).sum(),
        known: Derived {
            typical: round(known.typical),
            interval: interval(known.interval),
            card_spread: known.card_spread.map(round),
            run_spread: known.run_spread.map(round),
            groups: known.groups.into_iter().map(interval).collect(),
        },
    })
}

/// Rounds to [`DIGITS`] significant digits, so that the file doesn't depend on the last bits of a library.
fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let text = format!("{value:.*e}", (DIGITS - 1) as usize);
    text.parse().unwrap_or(value)
}
