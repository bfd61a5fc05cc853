//! Heat maps: one cell per row of a series, one map per source and per value of any further axis. A map with few rows and very
//! many columns is folded: each row becomes a separate tableau whose cells have room for their figures.

use std::cmp::Ordering;

use plimsoll_core::series::Value;
use plimsoll_core::unit::Unit;

use super::build::{mark, varying_axes};
use super::bundle::{NameIndex, coordinates, label};
use super::{Cell, Heat, Mark, Plot, Scale};
use crate::content::{Case, format_coordinate};
use crate::text::clean;

/// With more columns than this, cells have no room for a figure.
const WIDE: usize = 40;
/// Columns of a tableau.
const FOLD: usize = 16;
/// A map with more rows than this isn't folded: that would make too many pictures.
const FEW: usize = 4;

/// A cell with its coordinates on both axes, before columns and rows are numbered.
struct RawCell<'v> {
    x: &'v Value,
    y: &'v Value,
    mark: Mark,
}

/// The cells of one map.
struct Group<'v> {
    label: String,
    /// Its coordinates on further axes. Maps that share them come from different sources and share a scale of shades.
    scale_key: String,
    cells: Vec<RawCell<'v>>,
}

/// The maps, each with a label that tells it from the others.
pub(super) fn build_heat_maps(case: &Case<'_>, x: &str, y: &str, value: &str) -> Vec<(String, Plot)> {
    let first = case.sources[0].series;
    let unit_of = |name: &str| first.axis(name).map_or(Unit::One, |place| first.spec.axes[place].unit.clone());
    let Some(unit) = first.metric(value).map(|metric| metric.unit.clone()) else { return Vec::new() };
    let groups = group_rows(case, x, y, value);
    let mut maps = Vec::new();
    for group in &groups {
        let same = groups.iter().filter(|other| other.scale_key == group.scale_key);
        let shades = same.flat_map(|group| &group.cells).map(|cell| cell.mark.y);
        let (columns, rows) = order_axes(&group.cells);
        let map = Map {
            columns,
            rows,
            cells: &group.cells,
            names: [x, y],
            units: [unit_of(x), unit_of(y)],
            value: Scale::shades(value, &unit, shades),
        };
        let label_parts = |more: String| [group.label.clone(), more].into_iter().filter(|part| !part.is_empty());
        match map.should_fold() {
            true => maps.extend(
                map.into_tableaus()
                    .into_iter()
                    .map(|(row, heat)| (label_parts(row).collect::<Vec<String>>().join(", "), Plot::Heat(heat))),
            ),
            false => maps.push((group.label.clone(), Plot::Heat(map.into_heat()))),
        }
    }
    maps
}

fn group_rows<'v>(case: &'v Case<'_>, x: &str, y: &str, value: &str) -> Vec<Group<'v>> {
    let apart = varying_axes(&[case], &[x, y], false);
    let (mut groups, mut indices): (Vec<Group<'_>>, NameIndex) = Default::default();
    for source in &case.sources {
        for (nth, row) in source.series.rows.iter().enumerate() {
            let (Some(x), Some(y)) = (source.series.coordinate(row, x), source.series.coordinate(row, y)) else {
                continue;
            };
            let Some(mark) = mark(source, nth, 0.0, value) else { continue };
            let label = label(source, row, &apart);
            let place = indices.index_of(&label);
            if place == groups.len() {
                let scale_key = coordinates(source, row, &apart).join(", ");
                groups.push(Group { label, scale_key, cells: vec![] });
            }
            groups[place].cells.push(RawCell { x, y, mark });
        }
    }
    groups
}

/// A map before it is laid out.
struct Map<'m> {
    columns: Vec<&'m Value>,
    rows: Vec<&'m Value>,
    cells: &'m [RawCell<'m>],
    names: [&'m str; 2],
    units: [Unit; 2],
    value: Scale,
}

impl Map<'_> {
    /// True for few rows of many columns where the columns are whole numbers that fill at least half of their range.
    fn should_fold(&self) -> bool {
        let numbers: Vec<f64> = self.columns.iter().filter_map(|column| column.number()).collect();
        let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { return false };
        self.rows.len() <= FEW
            && numbers.len() == self.columns.len()
            && numbers.len() > WIDE
            && numbers.iter().all(|number| number.fract() == 0.0)
            && 2.0 * numbers.len() as f64 > last - first
    }

    fn into_heat(self) -> Heat {
        let names = |all: &[&Value], unit: &Unit| all.iter().map(|value| format_coordinate(unit, value)).collect();
        let (columns, rows) = (index_values(&self.columns), index_values(&self.rows));
        let cell = |cell: &RawCell<'_>| {
            let (column, row) = (columns(cell.x)?, rows(cell.y)?);
            Some(Cell { column, row, mark: cell.mark.clone() })
        };
        Heat {
            x: clean(self.names[0]),
            y: clean(self.names[1]),
            columns: names(&self.columns, &self.units[0]),
            rows: names(&self.rows, &self.units[1]),
            value: self.value.clone(),
            cells: self.cells.iter().filter_map(cell).collect(),
        }
    }

    /// Folds each row into a tableau that is read like text: a cell's number is that of its line plus that of its column. Numbers
    /// that were not measured stay blank.
    fn into_tableaus(self) -> Vec<(String, Heat)> {
        let number = |value: &Value| value.number().unwrap_or(0.0);
        let first = self.columns.first().map_or(0.0, |value| number(value));
        let place = |value: &Value| (number(value) - first) as usize;
        let lines = self.columns.last().map_or(0, |last| place(last) / FOLD + 1);
        let tableau = |row: &&Value| {
            let label = format!("{} {}", clean(self.names[1]), format_coordinate(&self.units[1], row));
            let own = self.cells.iter().filter(|cell| key(cell.y) == key(row));
            let cell = |cell: &RawCell<'_>| {
                let place = place(cell.x);
                let row = lines - 1 - place / FOLD;
                // The title already names the row's value.
                let text = cell.mark.place.replacen(&format!("{label}, "), "", 1);
                let text = text.replacen(&format!(", {label}"), "", 1);
                Cell { column: place % FOLD, row, mark: Mark { place: text, ..cell.mark.clone() } }
            };
            let heat = Heat {
                x: String::new(),
                y: format!("{} = row + column", clean(self.names[0])),
                columns: (0..FOLD).map(|column| format!("+{column}")).collect(),
                rows: (0..lines).rev().map(|line| format!("{}", first + (line * FOLD) as f64)).collect(),
                value: self.value.clone(),
                cells: own.map(cell).collect(),
            };
            (label, heat)
        };
        self.rows.iter().map(tableau).collect()
    }
}

/// Columns from the left and rows from the bottom. If both axes share names (devices), both have the same order. Names are
/// listed from the top, numbers grow from the bottom.
fn order_axes<'v>(cells: &[RawCell<'v>]) -> (Vec<&'v Value>, Vec<&'v Value>) {
    let mut columns = ordered(cells.iter().map(|cell| cell.x));
    let mut rows = ordered(cells.iter().map(|cell| cell.y));
    let is_text = |value: &&&Value| value.number().is_none();
    if columns.iter().any(|column| is_text(&column) && rows.iter().any(|row| key(row) == key(column))) {
        rows = ordered(cells.iter().map(|cell| cell.y).chain(columns));
        columns = rows.clone();
    }
    if rows.iter().all(|row| is_text(&row)) {
        rows.reverse();
    }
    (columns, rows)
}

/// A function that gives the index of a value.
fn index_values(all: &[&Value]) -> impl Fn(&Value) -> Option<usize> {
    let places: std::collections::BTreeMap<String, usize> =
        all.iter().enumerate().map(|(place, value)| (key(value), place)).collect();
    move |value| places.get(&key(value)).copied()
}

/// Text that identifies a value.
fn key(value: &Value) -> String {
    format!("{value:?}")
}

/// Distinct values in order: numbers by size, names in order of first use.
fn ordered<'v>(values: impl Iterator<Item = &'v Value>) -> Vec<&'v Value> {
    let (mut all, mut indices): (Vec<&Value>, NameIndex) = Default::default();
    for value in values {
        if indices.index_of(&key(value)) == all.len() {
            all.push(value);
        }
    }
    all.sort_by(|a, b| match (a.number(), b.number()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        // Where an axis has both, names come before numbers: the order must be total.
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    });
    all
}
