//! A comparison as JSON, CSV and Markdown.

use plimsoll::core::headline::Role;
use plimsoll::core::unit::Unit;
use plimsoll::suite::gate::{self, Gate};
use plimsoll::suite::verdict::{Compared, Comparison};
use serde_json::{Value, json};

use super::sheet::{ALWAYS, Sheet};

/// One row per figure, then one per figure that could not be compared, so that none is missing silently.
pub(crate) fn point_sheet(comparison: &Comparison) -> Sheet<12> {
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

/// The headlines of both runs, one per row; of more than `top` the worst.
pub(crate) fn headline_sheet(gate: &Gate, top: Option<usize>) -> Sheet<15> {
    let mut sheet = Sheet::new(
        [
            "device",
            "id",
            "figure",
            "probe",
            "role",
            "better",
            "unit",
            "base",
            "new",
            "ratio",
            "lo",
            "hi",
            "threshold",
            "verdict",
            "why",
        ]
        .map(|heading| (heading, ALWAYS)),
    );
    for row in gate.worst(top) {
        sheet.row([
            row.device.clone(),
            row.headline.id.to_owned(),
            row.headline.name.to_owned(),
            row.probe.to_owned(),
            role(row.headline.role).to_owned(),
            row.headline.better.name().to_owned(),
            row.unit.to_string(),
            row.base.value.to_string(),
            row.new.value.to_string(),
            row.ratio.to_string(),
            row.interval.lo.to_string(),
            row.interval.hi.to_string(),
            row.threshold.to_string(),
            row.verdict.name().to_owned(),
            row.why.clone(),
        ]);
    }
    sheet
}

const fn role(role: Role) -> &'static str {
    match role {
        Role::Gate => "gate",
        Role::Information => "information",
    }
}

/// The unit of shares and ratios.
const NO_UNIT: &str = "1";

/// Headlines, counts and remarks; with `all` also every point, and of more than `top` headlines the worst. Each number comes with its
/// unit.
pub(crate) fn as_json(gate: &Gate, points: &Comparison, all: bool, top: Option<usize>) -> String {
    let counts = &points.counts;
    let headlines: Vec<Value> = gate.worst(top).iter().map(headline).collect();
    let incomparable = gate.incomparable.iter().chain(all.then_some(&points.incomparable).into_iter().flatten());
    let mut incomparable: Vec<_> = incomparable.map(|row| json!({ "what": row.what, "why": row.why })).collect();
    incomparable.dedup();
    let mut whole = json!({
        "verdict": gate.sentence(),
        "exit_code": gate.exit_code(),
        "least_difference": gate.least,
        "least_difference_unit": NO_UNIT,
        "headlines_left_out": gate.rows.len() - headlines.len(),
        "headlines": headlines,
        "incomparable": incomparable,
        "notes": gate.notes,
        "points": {
            "same": counts.same, "faster": counts.faster, "slower": counts.slower, "ambiguous": counts.ambiguous,
            "unmatched": points.unmatched.len(),
        },
    });
    if all {
        whole["rows"] = points.rows.iter().map(point).collect();
        whole["unmatched"] = json!(points.unmatched);
    }
    plimsoll_report::json::to_text(&whole)
}

fn headline(row: &gate::Row) -> Value {
    json!({
        "id": row.headline.id, "name": row.headline.name, "device": row.device, "probe": row.probe,
        "role": role(row.headline.role), "better": row.headline.better.name(), "unit": row.unit.to_string(),
        "base": row.base.value, "base_interval": [row.base.interval.lo, row.base.interval.hi],
        "new": row.new.value, "new_interval": [row.new.interval.lo, row.new.interval.hi],
        "ratio": row.ratio, "interval": [row.interval.lo, row.interval.hi], "ratio_unit": NO_UNIT,
        "run_spread": row.spread, "threshold": row.threshold, "threshold_unit": NO_UNIT,
        "verdict": row.verdict.name(), "flags": row.flags, "why": row.why,
    })
}

fn point(row: &Compared) -> Value {
    json!({
        "figure": row.subject.describe(), "metric": row.metric, "unit": row.unit.to_string(), "base": row.base,
        "new": row.new, "ratio": row.ratio, "interval": [row.interval.lo, row.interval.hi], "ratio_unit": NO_UNIT,
        "p": row.p, "verdict": row.verdict.name(), "explained_by": row.explained_by(), "clocks": row.clocks,
        "clocks_unit": row.clocks.map(|_| Unit::Hertz.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use plimsoll::core::headline::{Better, Headline};
    use plimsoll::core::series::Estimate;
    use plimsoll::core::stats::Interval;
    use plimsoll::suite::verdict::{Cause, Counts, Incomparable, Subject, Verdict};

    use super::super::args::Format;
    use super::*;

    fn nothing() -> Gate {
        Gate { rows: vec![], incomparable: vec![], notes: vec![], least: 0.01 }
    }

    fn worse() -> Gate {
        let estimate = |value: f64| Estimate { value, interval: Interval { lo: value, hi: value } };
        let row = gate::Row {
            device: "Box".into(),
            headline: &const { Headline::gate("memory-read", "memory read", Better::More, &["read"], 0.001) },
            probe: "stream",
            unit: Unit::BytePerSecond,
            base: estimate(4.6e12),
            new: estimate(4.4e12),
            ratio: 4.4 / 4.6,
            interval: Interval { lo: 0.95, hi: 0.96 },
            spread: 0.0005,
            threshold: 0.01,
            verdict: gate::Verdict::Worse,
            flags: Default::default(),
            why: String::new(),
        };
        Gate { rows: vec![row], ..nothing() }
    }

    #[test]
    fn headlines_in_json_are_numbers_with_units() {
        let json: serde_json::Value = serde_json::from_str(&as_json(&worse(), &ambiguous(), false, None)).unwrap();
        let row = &json["headlines"][0];
        assert_eq!((&row["id"], &row["name"]), (&json!("memory-read"), &json!("memory read")));
        assert_eq!((&row["better"], &row["role"], &row["unit"]), (&json!("more"), &json!("gate"), &json!("B/s")));
        assert!(["base", "new", "ratio", "threshold"].iter().all(|key| row[key].is_number()), "{row}");
        assert_eq!((&json["exit_code"], &json["verdict"]), (&json!(1), &json!("worse: memory read")));
        let csv = headline_sheet(&worse(), None).render(Format::Csv);
        assert!(csv.contains("Box,memory-read,memory read,stream,gate,more,B/s,4600000000000,"), "{csv}");
    }

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
        let json: serde_json::Value = serde_json::from_str(&as_json(&nothing(), &ambiguous(), true, None)).unwrap();
        assert_eq!(json["rows"][0]["explained_by"], why);
        assert_eq!(json["rows"][0]["clocks"], json!([3.02e9, 3.19e9]));
        assert_eq!(json["rows"][0]["clocks_unit"], "Hz");
        assert!(["base", "new", "ratio", "p"].iter().all(|key| json["rows"][0][key].is_number()), "{json}");
        assert_eq!(json["points"]["ambiguous"], 1);
        let short: serde_json::Value = serde_json::from_str(&as_json(&nothing(), &ambiguous(), false, None)).unwrap();
        assert!(short["rows"].is_null() && short["exit_code"] == 4, "{short}");
        let csv = point_sheet(&ambiguous()).render(Format::Csv);
        let lines: Vec<&str> = csv.lines().collect();
        assert!(lines[0].ends_with("verdict,why,base clock,new clock"), "{csv}");
        assert!(lines[1].ends_with(&format!("ambiguous,{why},3020000000,3190000000")), "{csv}");
        assert_eq!(lines[2], "Box,,,,,,,,incomparable,drivers differ,,");
        assert!(point_sheet(&ambiguous()).render(Format::Markdown).contains(why));
    }
}
