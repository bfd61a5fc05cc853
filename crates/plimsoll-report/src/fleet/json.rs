//! A fleet for programs: every device with its verdict, reasons and figures, in base units.

use plimsoll_core::unit::Unit;
use plimsoll_suite::fleet::collect::{Fleet, Judgement};
use plimsoll_suite::fleet::rule::Deviation;
use plimsoll_suite::fleet::strata::FigureOfFleet;
use serde_json::{Value, json};

use super::{deviations, expected, sentence};
use crate::json::to_text;

/// Version of this format's layout.
const VERSION: u32 = 1;

/// The judgement as JSON.
#[must_use]
pub fn render_json(fleet: &Fleet) -> String {
    let devices: Vec<Value> =
        fleet.devices.iter().zip(deviations(fleet)).map(|(judged, known)| device(judged, &known)).collect();
    let strata = fleet.strata.iter().map(|stratum| {
        let settings: serde_json::Map<String, Value> =
            stratum.settings.iter().map(|(what, value)| ((*what).to_owned(), json!(value))).collect();
        json!({ "model": stratum.model, "devices": stratum.members.len(), "settings": settings })
    });
    let problems = fleet
        .problems
        .iter()
        .map(|problem| json!({ "kind": problem.kind.name(), "file": problem.file, "text": problem.text }));
    let groups = fleet.groups.iter().map(|group| {
        json!({ "name": group.name, "figure": group.headline.id, "worse": group.deviation.share(), "z": group.deviation.z })
    });
    to_text(&json!({
        "version": VERSION,
        "verdict": fleet.verdict().name(),
        "sentence": sentence(fleet),
        "missing": fleet.missing,
        "devices": devices,
        "figures": fleet.figures.iter().map(|known| figure(fleet, known)).collect::<Vec<_>>(),
        "strata": strata.collect::<Vec<_>>(),
        "groups": groups.collect::<Vec<_>>(),
        "problems": problems.collect::<Vec<_>>(),
    }))
}

fn device(judged: &Judgement, deviations: &[(&FigureOfFleet, Deviation)]) -> Value {
    let device = &judged.device;
    let reasons = judged.reasons.iter().map(|reason| {
        json!({
            "verdict": reason.verdict.name(), "figure": reason.headline.map(|headline| headline.id),
            "worse": reason.share, "baseline": reason.baseline.name(), "text": reason.text,
        })
    });
    let figures = device.stated().map(|row| {
        let known = deviations.iter().find(|(figure, _)| figure.headline.id == row.headline.id);
        json!({
            "id": row.headline.id, "value": row.measured.value, "unit": row.unit.to_string(),
            "interval": [row.measured.interval.lo, row.measured.interval.hi],
            "worse_than_fleet": known.map(|(_, deviation)| deviation.share()),
            "expected": row.state.name(), "checked": device.is_checked(row),
        })
    });
    let digests = device.digests.iter().map(|digest| {
        let bits = Unit::Digest.format(f64::from(digest.bits));
        json!({ "kernel": digest.kernel, "version": digest.version, "digest": bits })
    });
    json!({
        "host": device.host, "slot": device.slot, "id": device.id, "model": device.model, "file": device.file,
        "rank": device.rank, "job": device.job, "rack": device.rack, "started": device.started,
        "verdict": judged.verdict.name(), "runs": judged.runs, "to_confirm": judged.to_confirm,
        "reasons": reasons.collect::<Vec<_>>(), "figures": figures.collect::<Vec<_>>(),
        "digests": digests.collect::<Vec<_>>(), "unchecked_figures": device.unchecked.len(), "faults": device.faults,
    })
}

fn figure(fleet: &Fleet, figure: &FigureOfFleet) -> Value {
    let stratum = &fleet.strata[fleet.populations[figure.population].stratum];
    let expected = expected(fleet, figure)
        .map(|known| json!({ "interval": [known.interval.lo, known.interval.hi], "source": known.origin.describe() }));
    json!({
        "id": figure.headline.id, "model": stratum.model, "devices": figure.count, "unit": figure.unit.to_string(),
        "median": figure.median, "spread": figure.last().scale, "detection_limit": figure.last().detection_limit(),
        "prior_spread": figure.prior.share, "prior_source": figure.prior.source.describe(), "expected": expected,
    })
}
