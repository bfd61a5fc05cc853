//! JSON for programs: findings with their yardsticks and series with their computed figures, in base units. Raw samples
//! are only in the records.

use serde_json::{Value, json};

use plimsoll_core::series::{Estimate, Row, Series};
use plimsoll_suite::standing::{Standing, YardstickResult};

use crate::Report;
use crate::content::{Entry, Source, is_finite};
use crate::text::is_hidden;

/// Version of this format's layout.
const VERSION: u32 = 1;

/// The whole report, indented.
#[must_use]
pub fn render(report: &Report<'_>) -> String {
    let runs: Vec<Value> = report.entries.iter().map(run).collect();
    let sources = report.sections.iter().flat_map(|section| &section.cases).flat_map(|case| &case.sources);
    let series: Vec<Value> = sources.map(series).collect();
    let whole = json!({
        "version": VERSION,
        "simulated": report.is_simulated(),
        "runs": runs,
        "series": series,
        "not_measured": report.list_problems(),
    });
    to_text(&whole)
}

/// JSON for people and programs: indented, with a newline at the end. Characters that a terminal would act on (control,
/// direction) are written as escapes, so nothing is lost and a terminal ignores them.
#[must_use]
pub fn to_text(value: &Value) -> String {
    let mut out = String::new();
    for c in format!("{value:#}\n").chars() {
        if c == '\n' || !is_hidden(c) {
            out.push(c);
            continue;
        }
        for half in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{half:04x}"));
        }
    }
    out
}

fn run(entry: &Entry<'_>) -> Value {
    let header = &entry.run.header;
    let findings: Vec<Value> = entry.standings.iter().map(standing).collect();
    json!({
        "started": header.started,
        "tool": header.tool,
        "effort": header.effort,
        "seed": header.seed,
        "host": header.host,
        "devices": header.devices,
        "complete": entry.run.end == Some(true),
        "findings": findings,
    })
}

fn standing(standing: &Standing) -> Value {
    let yardstick = |result: &YardstickResult| match result {
        Ok(known) => json!({ "value": known.value, "source": known.source }),
        Err(why) => json!({ "value": null, "why_not": why }),
    };
    json!({
        "device": standing.device,
        "probe": standing.probe,
        "name": standing.name,
        "unit": standing.unit,
        "value": standing.achieved.value,
        "interval": standing.achieved.interval,
        "ceiling": yardstick(&standing.ceiling),
        "peak": yardstick(&standing.peak),
        "reference": yardstick(&standing.reference),
        "flags": standing.flags,
        "says": standing.says,
    })
}

fn series(source: &Source<'_>) -> Value {
    let spec = &source.series.spec;
    let rows: Vec<Value> = source.series.rows.iter().map(|each| row(source.series, each)).collect();
    json!({
        "run": source.run,
        "device": spec.device,
        "probe": spec.probe,
        "case": spec.case,
        "figure": spec.figure,
        "cache": spec.cache,
        "axes": spec.axes,
        "metrics": spec.metrics,
        "rows": rows,
    })
}

fn row(series: &Series, row: &Row) -> Value {
    let figure = |known: Estimate| json!({ "value": known.value, "interval": known.interval });
    let known = |name: &str| series.estimate(row, name).filter(is_finite).map_or(Value::Null, figure);
    let metrics: serde_json::Map<String, Value> =
        series.spec.metrics.iter().map(|metric| (metric.name.clone(), known(&metric.name))).collect();
    json!({ "at": row.at, "n": row.n, "flags": row.flags, "clock_hz": row.clock_hz(), "metrics": metrics })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn json_reads_back_with_every_finding_and_row() {
        let runs = [synthetic::run(synthetic::HOSTILE, "2026-01-02T03:04:05Z", 1.0)];
        let report = Report::new(&runs);
        let text = render(&report);
        assert!(!text.contains('\u{202e}') && !text.contains('\x1b'));
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["runs"][0]["devices"][0]["name"], synthetic::HOSTILE);
        assert_eq!(read["runs"][0]["findings"].as_array().unwrap().len(), runs[0].findings.len());
        assert_eq!(read["series"].as_array().unwrap().len(), runs[0].series.len());
        assert_eq!(read["runs"][0]["findings"][2]["ceiling"]["value"], 61.2e9);
        assert_eq!(read["runs"][0]["findings"][3]["peak"]["why_not"], "no theoretical peak applies to this figure");
        assert_eq!(read["series"][0]["rows"][3]["flags"][0], "THROTTLE_THERMAL");
    }
}
