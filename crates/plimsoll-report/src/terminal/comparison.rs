//! The table of a comparison: what is slower first, what is the same only counted.

use plimsoll_suite::verdict::{Compared, Comparison, Verdict};

use super::{Column, Style, Table, wrap};
use crate::text::clean;

/// Rows of figures of one run alone that are listed by name.
const LISTED: usize = 10;

/// Every figure that is not the same, what could not be compared, and the counts. `all` lists those that are the same
/// too. Narrow terminals lose base and new first, then the interval.
#[must_use]
pub fn comparison(comparison: &Comparison, all: bool, style: &Style) -> String {
    let mut table = Table::new(vec![
        Column::text("verdict"),
        Column::text("figure"),
        Column::number("base").keep(1),
        Column::number("new").keep(2),
        Column::number("change"),
        Column::number("95 % interval").keep(3),
        Column::text("explained by").keep(4).wrapping(),
    ]);
    for verdict in Verdict::ALL.into_iter().filter(|&verdict| all || verdict != Verdict::Same) {
        for row in comparison.rows.iter().filter(|row| row.verdict == verdict) {
            table.row(cells(row));
        }
    }
    let mut out = if table.is_empty() { String::new() } else { format!("{}\n", table.render(style)) };
    for note in &comparison.notes {
        out.push_str(&format!("{}\n", wrap(&format!("note: {}", clean(note)), style.columns(), "  ")));
    }
    for refused in &comparison.incomparable {
        let line = format!("incomparable: {}: {}", clean(&refused.what), clean(&refused.why));
        out.push_str(&format!("{}\n", wrap(&line, style.columns(), "  ")));
    }
    for alone in comparison.unmatched.iter().take(LISTED) {
        out.push_str(&format!("{}\n", wrap(&format!("unmatched: {}", clean(alone)), style.columns(), "  ")));
    }
    if comparison.unmatched.len() > LISTED {
        out.push_str(&format!("unmatched: {} more\n", comparison.unmatched.len() - LISTED));
    }
    out.push_str(&format!("{}\n", wrap(&counts(comparison), style.columns(), "  ")));
    out
}

/// One line: how many of each, and what the words mean.
fn counts(comparison: &Comparison) -> String {
    let counts = comparison.counts;
    let (refused, alone) = (comparison.incomparable.len(), comparison.unmatched.len());
    format!(
        "{} slower, {} ambiguous, {} faster, {} the same within 1 %; {refused} incomparable, {alone} in one run only",
        counts.slower, counts.ambiguous, counts.faster, counts.same
    )
}

fn cells(row: &Compared) -> [String; 7] {
    let change = |ratio: f64| format!("{:+.2}", 100.0 * (ratio - 1.0));
    [
        row.verdict.name().to_owned(),
        row.subject.words(),
        row.unit.format(row.base),
        row.unit.format(row.new),
        format!("{} %", change(row.ratio)),
        format!("[{}, {}]", change(row.interval.lo), change(row.interval.hi)),
        row.explained_by.to_string(),
    ]
}
