//! `plimsoll compare`: prints `plimsoll-suite`'s comparison of two runs, with an exit code for scripts.

use plimsoll::core::unit::Unit;
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

/// One row per figure, then one per figure that could not be compared, so that none is missing silently.
fn as_sheet(comparison: &Comparison) -> Sheet<12> {
    let mut sheet = Sheet::new(
        ["figure", "metric", "unit", "base", "new", "ratio", "lo", "hi", "verdict", "why", "base clock", "new clock"]
            .map(|heading| (heading, ALWAYS)),
    );
    let clock = |clock: Option<f64>| clock.map(|hertz| hertz.to_string()).unwrap_or_default();
    for row in &comparison.rows {
        sheet.row([
            row.subject.describe(),
            row.metric.clone(),
            row.unit.to_string(),
            row.base.to_string(),
            row.new.to_string(),
            row.ratio.to_string(),
            row.interval.lo.to_string(),
            row.interval.hi.to_string(),
            row.verdict.name().to_owned(),
            row.explained_by(),
            clock(row.clocks.map(|clocks| clocks.0)),
            clock(row.clocks.map(|clocks| clocks.1)),
        ]);
    }
    let mut add_uncompared = |what: &str, verdict: &str, why: &str| {
        let mut cells = [const { String::new() }; 12];
        (cells[0], cells[8], cells[9]) = (what.to_owned(), verdict.to_owned(), why.to_owned());
        sheet.row(cells);
    };
    comparison.incomparable.iter().for_each(|row| add_uncompared(&row.what, "incomparable", &row.why));
    comparison.unmatched.iter().for_each(|what| add_uncompared(what, "unmatched", "only one of the runs has it"));
    sheet
}

fn as_json(comparison: &Comparison) -> String {
    let counts = &comparison.counts;
    let rows: Vec<_> = comparison
        .rows
        .iter()
        .map(|row| {
            json!({
                "figure": row.subject.describe(), "metric": row.metric, "unit": row.unit, "base": row.base,
                "new": row.new, "ratio": row.ratio, "interval": [row.interval.lo, row.interval.hi], "p": row.p,
                "verdict": row.verdict.name(), "explained_by": row.explained_by(), "clocks": row.clocks,
                "clocks_unit": row.clocks.map(|_| Unit::Hertz.to_string()),
            })
        })
        .collect();
    let incomparable: Vec<_> =
        comparison.incomparable.iter().map(|row| json!({ "what": row.what, "why": row.why })).collect();
    plimsoll_report::json::to_text(&json!({
        "rows": rows, "incomparable": incomparable, "unmatched": comparison.unmatched,
        "notes": comparison.notes,
        "counts": {
            "same": counts.same, "faster": counts.faster, "slower": counts.slower, "ambiguous": counts.ambiguous,
        },
    }))
}

#[cfg(test)]
mod tests {
    use plimsoll::suite::verdict::{Cause, Compared, Counts, Incomparable, Subject, Verdict};

    use super::*;

    fn ambiguous() -> Comparison {
        let subject = Subject {
            device: "Box".into(),
            probe: "latency".into(),
            case: "chase".into(),
            at: vec![],
            kind: String::new(),
        };
        let (base, new) = (3.02e9, 3.19e9);
        let row = Compared {
            subject,
            metric: "latency".into(),
            unit: Unit::Second,
            base: 1e-9,
            new: 1e-9,
            ratio: 1.0,
            interval: plimsoll::core::stats::Interval { lo: 0.99, hi: 1.06 },
            p: 1.0,
            verdict: Verdict::Ambiguous,
            clocks: Some((base, new)),
            causes: vec![Cause::Clock { base, new }],
        };
        Comparison {
            rows: vec![row],
            incomparable: vec![Incomparable { what: "Box".into(), why: "drivers differ".into() }],
            unmatched: vec![],
            notes: vec!["Box: A is compared with B".into()],
            counts: Counts { ambiguous: 1, ..Counts::default() },
        }
    }

    #[test]
    fn every_format_shows_the_clocks_and_why_a_figure_is_ambiguous() {
        let why = "clock 3.02 → 3.19 GHz";
        let json: serde_json::Value = serde_json::from_str(&as_json(&ambiguous())).unwrap();
        assert_eq!(json["rows"][0]["explained_by"], why);
        assert_eq!(json["rows"][0]["clocks"], json!([3.02e9, 3.19e9]));
        assert_eq!(json["rows"][0]["clocks_unit"], "Hz");
        assert!(["base", "new", "ratio", "p"].iter().all(|key| json["rows"][0][key].is_number()), "{json}");
        assert_eq!(json["notes"][0], "Box: A is compared with B");
        let csv = as_sheet(&ambiguous()).render(Format::Csv);
        let lines: Vec<&str> = csv.lines().collect();
        assert!(lines[0].ends_with("verdict,why,base clock,new clock"), "{csv}");
        assert!(lines[1].ends_with(&format!("ambiguous,{why},3020000000,3190000000")), "{csv}");
        assert_eq!(lines[2], "Box,,,,,,,,incomparable,drivers differ,,");
        assert!(as_sheet(&ambiguous()).render(Format::Markdown).contains(why));
    }
}
