//! Heat maps: a cell per row of a series, one map per source and per value of any further axis. Few rows of very many
//! columns are folded, each into a tableau of its own whose cells have room for their figures.

use std::cmp::Ordering;

use plimsoll_core::series::Value;
use plimsoll_core::unit::Unit;

use super::build::{mark, varying};
use super::bundle::{Places, coordinates, label};
use super::{Cell, Heat, Mark, Plot, Scale};
use crate::content::{Case, coordinate};
use crate::text::clean;

/// More columns than this have no room for a figure in their cells.
const WIDE: usize = 40;
/// Columns of a tableau.
const FOLD: usize = 16;
/// More rows than this would be too many pictures.
const FEW: usize = 4;

/// A row of a series before its column and row of the map are counted: its places on both axes.
struct Placed<'v> {
    x: &'v Value,
    y: &'v Value,
    mark: Mark,
}

/// Rows that make one map.
struct Group<'v> {
    label: String,
    /// Maps of one shade are compared: the same further axes from several sources.
    shade: String,
    cells: Vec<Placed<'v>>,
}

/// The maps with what tells each from the others.
pub(super) fn heats(case: &Case<'_>, x: &str, y: &str, value: &str) -> Vec<(String, Plot)> {
    let first = case.sources[0].series;
    let unit_of = |name: &str| first.axis(name).map_or(Unit::One, |place| first.spec.axes[place].unit.clone());
    let Some(unit) = first.metric(value).map(|metric| metric.unit.clone()) else { return Vec::new() };
    let groups = groups(case, x, y, value);
    let mut maps = Vec::new();
    for group in &groups {
        let same = groups.iter().filter(|other| other.shade == group.shade);
        let shades = same.flat_map(|group| &group.cells).map(|cell| cell.mark.y);
        let (columns, rows) = sides(&group.cells);
        let map = Map {
            columns,
            rows,
            cells: &group.cells,
            names: [x, y],
            units: [unit_of(x), unit_of(y)],
            value: Scale::shades(value, &unit, shades),
        };
        let named = |more: String| [group.label.clone(), more].into_iter().filter(|part| !part.is_empty());
        match map.folds() {
            true => maps.extend(
                map.tableaus()
                    .into_iter()
                    .map(|(of, heat)| (named(of).collect::<Vec<String>>().join(", "), Plot::Heat(heat))),
            ),
            false => maps.push((group.label.clone(), Plot::Heat(map.whole()))),
        }
    }
    maps
}

fn groups<'v>(case: &'v Case<'_>, x: &str, y: &str, value: &str) -> Vec<Group<'v>> {
    let apart = varying(&[case], &[x, y], false);
    let (mut groups, mut places): (Vec<Group<'_>>, Places) = Default::default();
    for source in &case.sources {
        for row in &source.series.rows {
            let (Some(x), Some(y)) = (source.series.at(row, x), source.series.at(row, y)) else { continue };
            let Some(mark) = mark(source, row, 0.0, value) else { continue };
            let label = label(source, row, &apart);
            let place = places.of(&label);
            if place == groups.len() {
                let shade = coordinates(source, row, &apart).join(", ");
                groups.push(Group { label, shade, cells: vec![] });
            }
            groups[place].cells.push(Placed { x, y, mark });
        }
    }
    groups
}

/// A map before it is laid out.
struct Map<'m> {
    columns: Vec<&'m Value>,
    rows: Vec<&'m Value>,
    cells: &'m [Placed<'m>],
    names: [&'m str; 2],
    units: [Unit; 2],
    value: Scale,
}

impl Map<'_> {
    /// True for few rows of many columns that are whole numbers, at least half of those from the first to the last.
    fn folds(&self) -> bool {
        let numbers: Vec<f64> = self.columns.iter().filter_map(|column| column.number()).collect();
        let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { return false };
        self.rows.len() <= FEW
            && numbers.len() == self.columns.len()
            && numbers.len() > WIDE
            && numbers.iter().all(|number| number.fract() == 0.0)
            && 2.0 * numbers.len() as f64 > last - first
    }

    fn whole(&self) -> Heat {
        let named = |all: &[&Value], unit: &Unit| all.iter().map(|value| coordinate(unit, value)).collect();
        let (columns, rows) = (numbered(&self.columns), numbered(&self.rows));
        let cell = |cell: &Placed<'_>| {
            let (column, row) = (columns(cell.x)?, rows(cell.y)?);
            Some(Cell { column, row, mark: cell.mark.clone() })
        };
        Heat {
            x: clean(self.names[0]),
            y: clean(self.names[1]),
            columns: named(&self.columns, &self.units[0]),
            rows: named(&self.rows, &self.units[1]),
            value: self.value.clone(),
            cells: self.cells.iter().filter_map(cell).collect(),
        }
    }

    /// Each row as a tableau that is read like text: a column's place is its line's name and the number above it. Numbers that nobody
    /// measured stay empty.
    fn tableaus(&self) -> Vec<(String, Heat)> {
        let number = |value: &Value| value.number().unwrap_or(0.0);
        let first = self.columns.first().map_or(0.0, |value| number(value));
        let place = |value: &Value| (number(value) - first) as usize;
        let lines = self.columns.last().map_or(0, |last| place(last) / FOLD + 1);
        let tableau = |row: &&Value| {
            let of = format!("{} {}", clean(self.names[1]), coordinate(&self.units[1], row));
            let own = self.cells.iter().filter(|cell| key(cell.y) == key(row));
            let cell = |cell: &Placed<'_>| {
                let place = place(cell.x);
                let row = lines - 1 - place / FOLD;
                // The title says which row it is.
                let at = cell.mark.place.replacen(&format!("{of}, "), "", 1).replacen(&format!(", {of}"), "", 1);
                Cell { column: place % FOLD, row, mark: Mark { place: at, ..cell.mark.clone() } }
            };
            let heat = Heat {
                x: String::new(),
                y: format!("{} = row + column", clean(self.names[0])),
                columns: (0..FOLD).map(|column| format!("+{column}")).collect(),
                rows: (0..lines).rev().map(|line| format!("{}", first + (line * FOLD) as f64)).collect(),
                value: self.value.clone(),
                cells: own.map(cell).collect(),
            };
            (of, heat)
        };
        self.rows.iter().map(tableau).collect()
    }
}

/// Columns from the left and rows from the bottom. What both sides name (devices) is in the same order on both; names are
/// read from the top, numbers grow from the bottom.
fn sides<'v>(cells: &[Placed<'v>]) -> (Vec<&'v Value>, Vec<&'v Value>) {
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

/// The place of a value among others.
fn numbered(all: &[&Value]) -> impl Fn(&Value) -> Option<usize> {
    let places: std::collections::BTreeMap<String, usize> =
        all.iter().enumerate().map(|(place, value)| (key(value), place)).collect();
    move |value| places.get(&key(value)).copied()
}

/// What tells values apart.
fn key(value: &Value) -> String {
    format!("{value:?}")
}

/// Different values in order: numbers by size, names as they come.
fn ordered<'v>(values: impl Iterator<Item = &'v Value>) -> Vec<&'v Value> {
    let (mut all, mut places): (Vec<&Value>, Places) = Default::default();
    for value in values {
        if places.of(&key(value)) == all.len() {
            all.push(value);
        }
    }
    all.sort_by(|a, b| match (a.number(), b.number()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        // Names before numbers, where an axis has both: an order must be total.
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    });
    all
}
