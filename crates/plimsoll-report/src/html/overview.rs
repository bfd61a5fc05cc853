//! The first screen: four tiles and one picture.

use minijinja::Value;
use serde::Serialize;

use plimsoll_core::unit::Unit;
use plimsoll_suite::check::Row;

use super::machine::{Machine, state_class};
use super::pieces::{anchor, anchor_of, format_range, range_picture};
use crate::Report;
use crate::chart::{Chart, Plot, charts};
use crate::svg;
use crate::text::clean;

/// Headlines for the tiles: for each tile the first one that the device has.
const TILES: [&[&str]; 4] = [
    &["memory-read", "memory-copy", "memory-triad", "memory-write"],
    &["tensor-bf16", "tensor-f8", "fma-f32", "fma-f64"],
    &["latency-memory", "l2-read", "l2-bandwidth", "l3-bandwidth"],
    &["host-to-device", "launch", "line-hand-over", "device-to-host", "launch-host"],
];

/// Probes for the picture, best first, and how it is called.
const PICTURES: [&str; 3] = ["roofline", "footprint", "latency"];

/// One of the most important figures.
#[derive(Serialize)]
pub(super) struct Tile {
    id: String,
    name: String,
    number: String,
    unit: String,
    detail: String,
    class: &'static str,
    range: Option<Value>,
    /// Length of the bar, 0 to 100, where the theoretical peak is known.
    meter: Option<f64>,
}

/// The picture of the first screen.
#[derive(Serialize)]
pub(super) struct Overview {
    /// The anchor of its section.
    id: String,
    picture: Value,
}

/// At most four tiles. The machines are one, or several that are compared: then a tile shows their median and range.
pub(super) fn build_tiles(report: &Report<'_>, machines: &[Machine<'_>]) -> Vec<Tile> {
    let Some(first) = machines.first() else { return Vec::new() };
    if machines.iter().any(|machine| machine.info.name != first.info.name) {
        return Vec::new();
    }
    let rows = &first.check.rows;
    let find = |ids: &&[&str]| ids.iter().find_map(|id| rows.iter().find(|row| row.headline.id == *id));
    let mut chosen: Vec<&Row> = TILES.iter().filter_map(find).collect();
    let more = rows.iter().filter(|row| !TILES.concat().contains(&row.headline.id));
    let wanted = TILES.len().saturating_sub(chosen.len());
    chosen.extend(more.take(wanted));
    if chosen.is_empty() {
        return standing_tiles(report, first);
    }
    chosen.into_iter().map(|row| build_tile(report, row, machines)).collect()
}

fn build_tile(report: &Report<'_>, row: &Row, machines: &[Machine<'_>]) -> Tile {
    let all = || {
        machines
            .iter()
            .filter_map(|machine| machine.check.rows.iter().find(|other| other.headline.id == row.headline.id))
    };
    let mut values: Vec<f64> = all().map(|row| row.measured.value).collect();
    values.sort_by(f64::total_cmp);
    let value = super::compare::median(&values);
    let worst = all().max_by_key(|row| super::compare::severity(row.state)).unwrap_or(row);
    let detail = match (&row.expected, values.as_slice()) {
        (_, [lo, .., hi]) => format!("{} on {} machines", format_range(&row.unit, [*lo, *hi]), values.len()),
        (Some(known), _) => format!("expected {}", format_range(&row.unit, known.interval.into())),
        (None, _) => String::new(),
    };
    let share = row.peak.map(|peak| 100.0 * (value / peak)).filter(|share| share.abs() < 1e6);
    let expected = row.expected.as_ref();
    let tile = Tile {
        id: anchor_of(report, row.probe),
        name: row.headline.name.to_owned(),
        detail,
        class: state_class(worst.state),
        range: expected.and_then(|known| range_picture(value, known.interval.into())),
        meter: share.map(|share| share.clamp(0.0, 100.0).round()),
        ..Tile::figure(&row.unit, value)
    };
    match share {
        Some(share) if values.len() == 1 => Tile { detail: format!("{share:.0} % of peak"), ..tile },
        _ => tile,
    }
}

/// Tiles of a machine without headlines: findings with a yardstick.
fn standing_tiles(report: &Report<'_>, machine: &Machine<'_>) -> Vec<Tile> {
    let own = report.entries[machine.run].standings.iter().filter(|standing| standing.device == machine.device);
    let tile = |standing: &plimsoll_suite::standing::Standing| {
        let (share, kind) = standing.percent()?;
        Some(Tile {
            id: anchor_of(report, &standing.probe),
            name: clean(&format!("{} {}", standing.probe, standing.name)),
            detail: format!("{share:.0} % of {}", kind.name()),
            meter: Some(share.clamp(0.0, 100.0).round()),
            ..Tile::figure(&standing.unit, standing.achieved.value)
        })
    };
    own.filter_map(tile).take(TILES.len()).collect()
}

impl Tile {
    /// A tile with only its figure.
    fn figure(unit: &Unit, value: f64) -> Self {
        let text = clean(&unit.format(value));
        let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
        Self {
            id: String::new(),
            name: String::new(),
            number: number.to_owned(),
            unit: unit.to_owned(),
            detail: String::new(),
            class: "none",
            range: None,
            meter: None,
        }
    }
}

/// The roofline where it was measured, else another curve, else any picture.
pub(super) fn choose_picture(report: &Report<'_>) -> Option<Overview> {
    let places = PICTURES.iter().filter_map(|probe| report.sections.iter().position(|section| section.probe == *probe));
    let all = || 0..report.sections.len().min(super::view::MOST_SECTIONS);
    let is_lines = |chart: &Chart| matches!(chart.plot, Plot::Lines { .. });
    let pick = |place: usize, good: &dyn Fn(&Chart) -> bool| {
        let chart = charts(report, &report.sections[place]).into_iter().find(|chart| good(chart))?;
        let picture = svg::render_inline(&chart);
        let fits = picture.len() <= super::view::LARGEST_PICTURE;
        fits.then(|| Overview { id: anchor(place), picture: Value::from_safe_string(picture) })
    };
    let best = places.into_iter().find_map(|place| pick(place, &is_lines));
    best.or_else(|| all().find_map(|place| pick(place, &is_lines)))
        .or_else(|| all().find_map(|place| pick(place, &|_| true)))
}
