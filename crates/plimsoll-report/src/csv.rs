//! CSV for spreadsheets and scripts: one row per device, series, point (rounds combined) and metric, in base units with
//! all digits. Series have different axes and metrics, so every row names its own. Quoting follows RFC 4180.

use plimsoll_core::series::{Estimate, Row, Series, Value};
use plimsoll_suite::operations::unit_at;

use crate::Report;
use crate::content::{Source, is_finite};
use crate::text::clean;

/// The first columns; those of the axes follow, each axis with its name, value and unit.
const HEAD: &str = "run,started,device,probe,case,figure,cache";
/// Axes that have columns in every file. A report with a series of more axes has more columns.
const LEAST_AXES: usize = 4;

/// All series of all runs, with a header row. Lines end in CR LF, as the RFC requires.
#[must_use]
pub fn render(report: &Report<'_>) -> String {
    let mut out = String::from(HEAD);
    let axes = count_axes(report);
    for axis in 1..=axes {
        out.push_str(&format!(",axis {axis},at {axis},unit {axis}"));
    }
    out.push_str(",metric,unit,value,lo,hi,n,flags\r\n");
    for section in &report.sections {
        for source in section.cases.iter().flat_map(|case| &case.sources) {
            let started = &report.entries[source.run].run.header.started;
            for row in &source.series.rows {
                push_rows(&mut out, source, started, row, axes);
            }
        }
    }
    out
}

/// The number of axes of the series that has most, at least [`LEAST_AXES`].
fn count_axes(report: &Report<'_>) -> usize {
    let cases = report.sections.iter().flat_map(|section| &section.cases);
    let axes = cases.flat_map(|case| &case.sources).map(|source| source.series.spec.axes.len());
    axes.fold(LEAST_AXES, usize::max)
}

/// Adds one line per metric of a row.
fn push_rows(out: &mut String, source: &Source<'_>, started: &str, row: &Row, axes: usize) {
    let series = source.series;
    for metric in &series.spec.metrics {
        let Some(known) = series.estimate(row, &metric.name).filter(is_finite) else { continue };
        let mut cells = vec![(source.run + 1).to_string()];
        cells.extend([started, &source.device.name, &series.spec.probe, &series.spec.case].map(escape));
        cells.extend([figure_name(&series.spec.figure), series.spec.cache.name().to_owned()]);
        cells.extend(coordinates(series, row, axes));
        cells.extend([escape(&metric.name), escape(unit_at(metric, &row.at).symbol())]);
        cells.extend(numbers(&known));
        cells.extend([row.n.to_string(), row.flags.to_string()]);
        out.push_str(&cells.join(","));
        out.push_str("\r\n");
    }
}

/// Name, value and unit of each axis of a row, with empty cells up to `axes` axes.
fn coordinates(series: &Series, row: &Row, axes: usize) -> Vec<String> {
    let mut cells: Vec<String> = series
        .spec
        .axes
        .iter()
        .zip(&row.at)
        .flat_map(|(axis, value)| {
            let value = match value {
                Value::Number(number) => number.to_string(),
                Value::Text(name) => escape(name),
            };
            [escape(&axis.name), value, escape(axis.unit.symbol())]
        })
        .collect();
    cells.resize(3 * axes, String::new());
    cells
}

fn numbers(known: &Estimate) -> [String; 3] {
    [known.value, known.interval.lo, known.interval.hi].map(|number| number.to_string())
}

fn figure_name(figure: &plimsoll_core::sample::Figure) -> String {
    format!("{figure:?}").to_lowercase()
}

/// A cell of text: quoted where the RFC requires it, and with an apostrophe before text that a spreadsheet would take for
/// a formula.
#[must_use]
pub fn escape(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let clean = clean(text);
    let safe = if formula || clean.starts_with(['=', '+', '-', '@']) { format!("'{clean}") } else { clean };
    if safe.contains([',', '"', '\n', '\r']) { format!("\"{}\"", safe.replace('"', "\"\"")) } else { safe }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::Flags;
    use plimsoll_probes::{footprint, stream};

    use super::*;
    use crate::synthetic;

    #[test]
    fn a_small_run() {
        let runs = [synthetic::curve(&[(4096.0, 1e-6), (8192.0, 2.5e-6)])];
        insta::assert_snapshot!(render(&Report::new(&runs)));
    }

    #[test]
    fn escape_defuses_formulas_and_quotes_separators() {
        assert_eq!(escape("=cmd()"), "'=cmd()");
        assert_eq!(escape("\t=1"), "' =1");
        assert_eq!(escape("\u{202e}@x"), "'@x");
        assert_eq!(escape("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(escape("1\r\n2"), "1  2");
    }

    #[test]
    fn a_series_of_more_axes_adds_columns_to_every_row() {
        let mut builder = synthetic::RunBuilder::new("a plain name", "2026-01-02T03:04:05Z");
        builder.series("footprint", footprint::curve());
        builder.point(vec!["read".into(), 4096.0.into()], 1e-6, synthetic::bytes(4096, 0), Flags::NONE);
        builder.series("stream", stream::bytes_in_flight());
        let at = vec!["read".into(), "no hint".into(), 16.0.into(), 4.0.into(), 128.0.into()];
        builder.point(at, 1e-3, synthetic::bytes(1 << 30, 0), Flags::NONE);
        let csv = render(&Report::new(&[builder.run()]));
        assert!(csv.lines().next().unwrap().contains(",axis 5,at 5,unit 5,metric,"), "{csv}");
        assert!(csv.contains(",block,128,thread,bandwidth,"), "{csv}");
        assert!(csv.lines().all(|line| line.split(',').count() == 29), "{csv}");
    }

    #[test]
    fn every_row_has_as_many_cells_as_the_header() {
        let runs = [synthetic::run("a plain name", "2026-01-02T03:04:05Z", 1.0)];
        let csv = render(&Report::new(&runs));
        let widths: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert!(widths.len() > 100 && widths.iter().all(|&width| width == widths[0]));
    }
}
