//! Several machines side by side: a column for each, headline figures in rows, outliers marked.

use serde::Serialize;

use plimsoll_core::headline::Role;
use plimsoll_suite::check::{Row, State};
use plimsoll_suite::expected::run_spread;
use plimsoll_suite::headlines::figures;

use super::machine::{Machine, sentence, state_class, verdict_class};
use super::pieces::anchor_of;
use crate::Report;
use crate::text::clean;

/// A figure is an outlier where it is further from the median than this many times the usual spread from run to run.
const SPREADS: f64 = 4.0;
/// Smallest distance of an outlier, as a share: what the engine promises.
const LEAST: f64 = 0.01;

/// The comparison of all machines.
#[derive(Serialize)]
pub(super) struct Comparison {
    columns: Vec<Column>,
    rows: Vec<MatrixRow>,
    more: Vec<MatrixRow>,
    outliers: usize,
    /// True where all are of one model, so that a machine can be an outlier.
    one_model: bool,
}

#[derive(Serialize)]
struct Column {
    short: String,
    label: String,
    started: String,
    verdict: &'static str,
    class: &'static str,
    sentence: String,
}

#[derive(Serialize)]
struct MatrixRow {
    id: String,
    name: &'static str,
    cells: Vec<MatrixCell>,
    median: String,
    limit: String,
}

#[derive(Serialize)]
struct MatrixCell {
    text: String,
    exact: String,
    class: &'static str,
    /// How far from the median, for an outlier: `−3.2 %`.
    outlier: String,
}

/// `None` for a single machine.
pub(super) fn compare_machines(report: &Report<'_>, machines: &[Machine<'_>]) -> Option<Comparison> {
    if machines.len() < 2 {
        return None;
    }
    let mut rows: Vec<(Role, MatrixRow)> = Vec::new();
    for probe in plimsoll_probes::ALL {
        for headline in probe.headlines {
            let own: Vec<Option<&Row>> = machines
                .iter()
                .map(|machine| machine.check.rows.iter().find(|row| row.headline.id == headline.id))
                .collect();
            if own.iter().any(Option::is_some) {
                let row = build_row(report, machines, (headline.id, headline.name), &own);
                rows.push((headline.role, row));
            }
        }
    }
    let outliers = rows.iter().flat_map(|(_, row)| &row.cells).filter(|cell| !cell.outlier.is_empty()).count();
    let (gates, more): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(role, _)| *role == Role::Gate);
    let only_rows = |rows: Vec<(Role, MatrixRow)>| rows.into_iter().map(|(_, row)| row).collect();
    Some(Comparison {
        columns: machines.iter().enumerate().map(|(place, machine)| build_column(report, place, machine)).collect(),
        rows: only_rows(gates),
        more: only_rows(more),
        outliers,
        one_model: machines.iter().all(|machine| machine.info.name == machines[0].info.name),
    })
}

fn build_column(report: &Report<'_>, place: usize, machine: &Machine<'_>) -> Column {
    let check = &machine.check;
    Column {
        short: short_name(place),
        label: machine.label.clone(),
        started: clean(&report.entries[machine.run].run.header.started)
            .chars()
            .take(16)
            .collect::<String>()
            .replace('T', " "),
        verdict: check.verdict.name(),
        class: verdict_class(check.verdict),
        sentence: sentence(check),
    }
}

/// The name of a column: its number, as in `run 2` of the pictures where each run has one device.
pub(super) fn short_name(place: usize) -> String {
    (place + 1).to_string()
}

fn build_row(
    report: &Report<'_>,
    machines: &[Machine<'_>],
    (id, name): (&'static str, &'static str),
    own: &[Option<&Row>],
) -> MatrixRow {
    let cell = |(machine, row): (&Machine<'_>, &Option<&Row>)| {
        let Some(row) = row else {
            return MatrixCell { text: "–".into(), exact: String::new(), class: "none", outlier: String::new() };
        };
        let deviation = deviation(report, machines, own, machine, row);
        MatrixCell {
            text: clean(&row.unit.format(row.measured.value)),
            exact: clean(&row.unit.format_with_interval(row.measured.value, row.measured.interval.into())),
            class: state_class(row.state),
            outlier: deviation.map_or_else(String::new, |share| format!("{:+.1} %", 100.0 * share).replace('-', "−")),
        }
    };
    let rows: Vec<&Row> = own.iter().flatten().copied().collect();
    let values: Vec<f64> = sorted(rows.iter().map(|row| row.measured.value));
    let same = machines.iter().all(|machine| machine.info.name == machines[0].info.name);
    let middle = median(&values);
    MatrixRow {
        id: rows.first().map_or_else(String::new, |row| anchor_of(report, row.probe)),
        name,
        cells: machines.iter().zip(own).map(cell).collect(),
        median: rows.first().filter(|_| same).map_or_else(String::new, |row| clean(&row.unit.format(middle))),
        limit: match rows.first() {
            Some(row) if same => format!("± {:.1} %", 100.0 * limit(report, &machines[0], row, id, middle)),
            _ => String::new(),
        },
    }
}

/// The distance from the median of the machines of the same model, as a share, where it is larger than usual. Two machines have
/// no majority: then both differ.
fn deviation(
    report: &Report<'_>,
    machines: &[Machine<'_>],
    own: &[Option<&Row>],
    machine: &Machine<'_>,
    row: &Row,
) -> Option<f64> {
    let same = machines.iter().zip(own).filter(|(other, _)| other.info.name == machine.info.name);
    let values = sorted(same.filter_map(|(_, row)| Some((*row)?.measured.value)));
    if values.len() < 2 {
        return None;
    }
    let middle = median(&values);
    let share = row.measured.value / middle - 1.0;
    (share.abs() < 1e6 && share.abs() > limit(report, machine, row, row.headline.id, middle)).then_some(share)
}

/// How far from the median a figure may be: the usual spread from run to run, half the expected range, or its own interval,
/// whichever is widest.
fn limit(report: &Report<'_>, machine: &Machine<'_>, row: &Row, id: &str, middle: f64) -> f64 {
    let run = report.entries[machine.run].run;
    let all = figures(run, machine.device, plimsoll_probes::ALL);
    let spread = all.iter().find(|figure| figure.headline.id == id).map_or(0.0, run_spread);
    let expected = row.expected.as_ref().map_or(0.0, |known| (known.interval.hi - known.interval.lo) / 2.0 / middle);
    let interval = (row.measured.interval.hi - row.measured.interval.lo) / 2.0 / row.measured.value;
    [SPREADS * spread, expected, interval].into_iter().filter(|share| share.is_finite()).fold(LEAST, f64::max).min(1.0)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The median of sorted numbers; of an even count the mean of the two in the middle.
pub(super) fn median(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    match n {
        0 => f64::NAN,
        _ if !n.is_multiple_of(2) => sorted[n / 2],
        _ => sorted[n / 2 - 1] / 2.0 + sorted[n / 2] / 2.0,
    }
}

/// Orders states by how bad they are.
pub(super) const fn severity(state: State) -> u8 {
    match state {
        State::Unjudged => 0,
        State::Ok => 1,
        State::Unclear => 2,
        State::Low => 3,
        State::Impossible => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_even_count_is_the_mean_of_the_middle() {
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
        assert!(median(&[]).is_nan());
    }
}
