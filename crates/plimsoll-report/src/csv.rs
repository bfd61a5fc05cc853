//! CSV for spreadsheets and scripts: one row per device, series, point (rounds joined) and metric, in base units with
//! every digit. Series have different axes and metrics, so a row names its own. Quoting after RFC 4180.

use plimsoll_core::series::{Estimate, Row, Series, Value};
use plimsoll_suite::operations::unit_at;

use crate::Report;
use crate::content::{Source, is_finite};
use crate::text::clean;

/// The columns. Up to [`AXES`] axes, each with its name, value and unit.
const HEAD: &str = "run,started,device,probe,case,figure,cache";
/// Axes that have columns; no series has more.
const AXES: usize = 4;

/// All series of all runs, with a header row. Lines end in CR LF, as the RFC has it.
#[must_use]
pub fn render(report: &Report<'_>) -> String {
    let mut out = String::from(HEAD);
    for axis in 1..=AXES {
        out.push_str(&format!(",axis {axis},at {axis},unit {axis}"));
    }
    out.push_str(",metric,unit,value,lo,hi,n,flags\r\n");
    for section in &report.sections {
        for source in section.cases.iter().flat_map(|case| &case.sources) {
            let started = &report.entries[source.run].run.header.started;
            for row in &source.series.rows {
                rows(&mut out, source, started, row);
            }
        }
    }
    out
}

fn rows(out: &mut String, source: &Source<'_>, started: &str, row: &Row) {
    let series = source.series;
    for metric in &series.spec.metrics {
        let Some(known) = series.estimate(row, &metric.name).filter(is_finite) else { continue };
        let mut cells = vec![(source.run + 1).to_string()];
        cells.extend([started, &source.device.name, &series.spec.probe, &series.spec.case].map(text));
        cells.extend([word(&series.spec.figure), series.spec.cache.name().to_owned()]);
        cells.extend(coordinates(series, row));
        cells.extend([text(&metric.name), text(unit_at(metric, &row.at).symbol())]);
        cells.extend(numbers(&known));
        cells.extend([row.n.to_string(), row.flags.to_string()]);
        out.push_str(&cells.join(","));
        out.push_str("\r\n");
    }
}

fn coordinates(series: &Series, row: &Row) -> Vec<String> {
    let mut cells: Vec<String> = series
        .spec
        .axes
        .iter()
        .zip(&row.at)
        .take(AXES)
        .flat_map(|(axis, value)| {
            let value = match value {
                Value::Number(number) => number.to_string(),
                Value::Text(name) => text(name),
            };
            [text(&axis.name), value, text(axis.unit.symbol())]
        })
        .collect();
    cells.resize(3 * AXES, String::new());
    cells
}

fn numbers(known: &Estimate) -> [String; 3] {
    [known.value, known.interval.lo, known.interval.hi].map(|number| number.to_string())
}

fn word(figure: &plimsoll_core::sample::Figure) -> String {
    format!("{figure:?}").to_lowercase()
}

/// A cell of text: quoted where the RFC asks for it, and with an apostrophe before what a spreadsheet would take for a
/// formula.
#[must_use]
pub fn text(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let clean = clean(text);
    let safe = if formula || clean.starts_with(['=', '+', '-', '@']) { format!("'{clean}") } else { clean };
    if safe.contains([',', '"', '\n', '\r']) { format!("\"{}\"", safe.replace('"', "\"\"")) } else { safe }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    #[test]
    fn a_small_run() {
        let runs = [made::curve(&[(4096.0, 1e-6), (8192.0, 2.5e-6)])];
        insta::assert_snapshot!(render(&Report::new(&runs)));
    }

    #[test]
    fn text_that_would_be_a_formula_is_defused_and_separators_are_quoted() {
        assert_eq!(text("=cmd()"), "'=cmd()");
        assert_eq!(text("\t=1"), "' =1");
        assert_eq!(text("\u{202e}@x"), "'@x");
        assert_eq!(text("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(text("1\r\n2"), "1  2");
    }

    #[test]
    fn every_row_has_as_many_cells_as_the_header() {
        let runs = [made::run("a plain name", "2026-01-02T03:04:05Z", 1.0)];
        let csv = render(&Report::new(&runs));
        let widths: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert!(widths.len() > 100 && widths.iter().all(|&width| width == widths[0]));
    }
}
