//! The headlines of two runs, worst first.

use plimsoll_core::headline::Role;
use plimsoll_suite::gate::{Gate, Row};
use plimsoll_suite::verdict::Comparison;

use super::{Column, Style, Table, wrap};
use crate::text::clean;

/// The headline figures with base, new, ratio, interval and verdict, worst first, then the remarks, the number of all other figures
/// and the verdict; with `top` only the worst ones, and how many are left out. On narrow terminals the reasons
/// move below their rows; then the base and the new figure are left out.
#[must_use]
pub fn gate(gate: &Gate, points: &Comparison, top: Option<usize>, style: &Style) -> String {
    let several = gate.rows.iter().any(|row| row.device != gate.rows[0].device);
    let mut table = Table::new(vec![
        Column::text("device").wrapping(),
        Column::text("figure"),
        Column::number("base").keep(1),
        Column::number("new").keep(2),
        Column::number("ratio (95 %)"),
        Column::text("verdict"),
        Column::text("why").keep(0).below(),
    ]);
    let shown = gate.worst(top);
    for row in shown {
        table.row([
            if several { row.device.clone() } else { String::new() },
            row.headline.name.to_owned(),
            row.unit.format(row.base.value),
            row.unit.format(row.new.value),
            format!("{:.3} ± {:.3}", row.ratio, (row.interval.hi - row.interval.lo) / 2.0),
            word(row),
            row.why.clone(),
        ]);
    }
    let mut out = if table.is_empty() { String::new() } else { format!("{}\n", table.render(style)) };
    let mut line = |text: &str| out.push_str(&format!("{}\n", wrap(&clean(text), style.columns(), "  ")));
    if shown.len() < gate.rows.len() {
        line(&format!("--top left out {} of {} figures", gate.rows.len() - shown.len(), gate.rows.len()));
    }
    if shown.iter().any(|row| row.headline.role == Role::Information) {
        line("Verdicts in parentheses don't count: those figures are for information.");
    }
    gate.notes.iter().for_each(|note| line(&format!("note: {note}")));
    for each in &gate.incomparable {
        line(&format!("incomparable: {}: {}", each.what, each.why));
    }
    if !points.rows.is_empty() {
        line(&format!("all points: {}; `--all` lists them", count_points(points)));
    }
    line(&gate.sentence());
    out
}

/// The verdict, in parentheses where it doesn't count.
fn word(row: &Row) -> String {
    match row.headline.role {
        Role::Gate => row.verdict.name().to_owned(),
        Role::Information => format!("({})", row.verdict.name()),
    }
}

fn count_points(points: &Comparison) -> String {
    let counts = points.counts;
    format!(
        "{} slower, {} ambiguous, {} faster, {} the same within 1 %, {} in one run only",
        counts.slower,
        counts.ambiguous,
        counts.faster,
        counts.same,
        points.unmatched.len()
    )
}

#[cfg(test)]
mod tests {
    use plimsoll_suite::gate::{Options, gate as compare_headlines};
    use plimsoll_suite::verdict::{Across, compare};

    use super::*;
    use crate::synthetic;

    fn show(slower: f64, width: usize) -> String {
        show_top(slower, width, None)
    }

    fn show_top(slower: f64, width: usize, top: Option<usize>) -> String {
        let mut runs = [1.0, slower].map(|slower| synthetic::run("Box", "2026-01-02T03:04:05Z", slower));
        // The findings as recorded, without series that would give them anew.
        let points = compare(&runs[0], &runs[1], Across::default());
        runs.iter_mut().for_each(|run| run.series.clear());
        let found = compare_headlines(&runs[0], &runs[1], plimsoll_probes::ALL, &Options::default());
        gate(&found, &points, top, &Style { width, ..Style::PLAIN })
    }

    #[test]
    fn the_table_names_what_is_worse_and_counts_the_rest() {
        let text = show(1.1, 160);
        assert!(text.contains("worse: memory read") && text.contains("0.909"), "{text}");
        assert!(text.contains("(worse)"), "memory triad is for information only: {text}");
        assert!(text.contains("all points: ") && text.contains("`--all` lists them"), "{text}");
        assert!(show(1.0, 100).contains("nothing is worse: 1 of 1 figures"), "{}", show(1.0, 100));
    }

    #[test]
    fn rows_beyond_the_worst_are_counted_and_the_verdict_stays() {
        let text = show_top(1.1, 160, Some(1));
        assert!(text.contains("--top left out 1 of 2 figures") && text.contains("worse: memory read"), "{text}");
        assert!(!text.contains("memory triad") && !show(1.1, 160).contains("--top"), "{text}");
    }

    #[test]
    fn the_verdict_is_shown_at_any_width() {
        for width in [40, 60, 80] {
            let text = show(1.1, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(text.contains("worse") && text.contains("0.909"), "{text}");
        }
    }
}
