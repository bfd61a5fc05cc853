//! `plimsoll compare`: what `plimsoll-suite` says of two runs, printed, with an exit code for scripts.

use plimsoll::suite::verdict::{Across, Comparison, compare};
use plimsoll_report::terminal;
use serde_json::json;

use super::args::{AcrossWhat, CompareArgs, Format};
use super::exit::{Exit, Failure};
use super::sheet::{ALWAYS, Sheet};
use super::{output, runs};

pub(crate) fn run(args: &CompareArgs) -> Result<Exit, Failure> {
    let (base, new) = (runs::load(&args.base)?, runs::load(&args.new)?);
    let across = Across {
        driver: args.across.contains(&AcrossWhat::Driver),
        version: args.across.contains(&AcrossWhat::Version),
    };
    let comparison = compare(&base, &new, across);
    let text = match args.format {
        Format::Table => terminal::comparison(&comparison, args.all, &output::style()),
        Format::Json => as_json(&comparison),
        Format::Csv | Format::Markdown => as_sheet(&comparison).render(args.format),
    };
    output::print(&text)?;
    Ok(match comparison.exit_code() {
        0 => Exit::Success,
        1 => Exit::Failed,
        _ => Exit::Inconclusive,
    })
}

/// One row per figure, then one per thing that could not be compared, so that no row is missing without a word.
fn as_sheet(comparison: &Comparison) -> Sheet<10> {
    let mut sheet = Sheet::new(
        ["figure", "metric", "unit", "base", "new", "ratio", "lo", "hi", "verdict", "why"]
            .map(|heading| (heading, ALWAYS)),
    );
    for row in &comparison.rows {
        sheet.row([
            row.subject.words(),
            row.metric.clone(),
            row.unit.to_string(),
            row.base.to_string(),
            row.new.to_string(),
            row.ratio.to_string(),
            row.interval.lo.to_string(),
            row.interval.hi.to_string(),
            row.verdict.name().to_owned(),
            row.explained_by.to_string(),
        ]);
    }
    let mut without = |what: &str, verdict: &str, why: &str| {
        let none = String::new;
        let cells = [what.to_owned(), none(), none(), none(), none(), none(), none(), none()];
        let [figure, metric, unit, base, new, ratio, lo, hi] = cells;
        sheet.row([figure, metric, unit, base, new, ratio, lo, hi, verdict.to_owned(), why.to_owned()]);
    };
    comparison.incomparable.iter().for_each(|row| without(&row.what, "incomparable", &row.why));
    comparison.unmatched.iter().for_each(|what| without(what, "unmatched", "only one of the runs has it"));
    sheet
}

fn as_json(comparison: &Comparison) -> String {
    let counts = &comparison.counts;
    let rows: Vec<_> = comparison
        .rows
        .iter()
        .map(|row| {
            json!({
                "figure": row.subject.words(), "metric": row.metric, "unit": row.unit, "base": row.base,
                "new": row.new, "ratio": row.ratio, "interval": [row.interval.lo, row.interval.hi], "p": row.p,
                "verdict": row.verdict.name(), "explained_by": row.explained_by,
            })
        })
        .collect();
    let incomparable: Vec<_> =
        comparison.incomparable.iter().map(|row| json!({ "what": row.what, "why": row.why })).collect();
    plimsoll_report::json::text(&json!({
        "rows": rows, "incomparable": incomparable, "unmatched": comparison.unmatched,
        "counts": {
            "same": counts.same, "faster": counts.faster, "slower": counts.slower, "ambiguous": counts.ambiguous,
        },
    }))
}
