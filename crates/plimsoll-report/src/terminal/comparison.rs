//! The table of a comparison: slower figures come first; unchanged figures are only counted.

use plimsoll_suite::verdict::{Compared, Comparison, Verdict};

use super::{Column, Style, Table, wrap};
use crate::text::clean;

/// Narrower terminals have no room for the explanations next to the figures; the last line counts the causes.
const NARROW: usize = 60;
/// Figures in one run only that are listed by name; the others are counted.
const LISTED: usize = 10;

/// Every figure that changed or is ambiguous, what could not be compared, and the counts. `all` also lists unchanged figures.
/// On narrow terminals base and new are left out first, then the interval, and the explanation last.
#[must_use]
pub fn comparison(comparison: &Comparison, all: bool, style: &Style) -> String {
    let why = Column::text("explained by").wrapping();
    let why = if style.columns() < NARROW { why.keep(4) } else { why };
    let mut table = Table::new(vec![
        Column::text("verdict"),
        Column::text("figure"),
        Column::number("base").keep(1),
        Column::number("new").keep(2),
        Column::number("change"),
        Column::number("95 % interval").keep(3),
        why,
    ]);
    for verdict in Verdict::ALL.into_iter().filter(|&verdict| all || verdict != Verdict::Same) {
        for row in comparison.rows.iter().filter(|row| row.verdict == verdict) {
            table.row(row_cells(row));
        }
    }
    let mut out = if table.is_empty() { String::new() } else { format!("{}\n", table.render(style)) };
    for note in &comparison.notes {
        out.push_str(&format!("{}\n", wrap(&format!("note: {}", clean(note)), style.columns(), "  ")));
    }
    for each in &comparison.incomparable {
        let line = format!("incomparable: {}: {}", clean(&each.what), clean(&each.why));
        out.push_str(&format!("{}\n", wrap(&line, style.columns(), "  ")));
    }
    for name in comparison.unmatched.iter().take(LISTED) {
        out.push_str(&format!("{}\n", wrap(&format!("unmatched: {}", clean(name)), style.columns(), "  ")));
    }
    if comparison.unmatched.len() > LISTED {
        out.push_str(&format!("unmatched: {} more\n", comparison.unmatched.len() - LISTED));
    }
    out.push_str(&format!("{}\n", wrap(&counts_line(comparison), style.columns(), "  ")));
    if comparison.counts.ambiguous > 0 {
        out.push_str(&format!("{}\n", wrap(&causes_line(comparison), style.columns(), "  ")));
    }
    out
}

/// One line with the number of figures of each verdict.
fn counts_line(comparison: &Comparison) -> String {
    let counts = comparison.counts;
    let (incomparable, unmatched) = (comparison.incomparable.len(), comparison.unmatched.len());
    format!(
        "{} slower, {} ambiguous, {} faster, {} the same within 1 %; {incomparable} incomparable, {unmatched} in one run only",
        counts.slower, counts.ambiguous, counts.faster, counts.same
    )
}

/// One line with the causes of ambiguous figures and how many figures each has.
fn causes_line(comparison: &Comparison) -> String {
    let causes = comparison.count_causes();
    let each: Vec<String> = causes.iter().map(|(label, n)| format!("{n} {label}")).collect();
    // Explains why the parts may add up to more than the whole.
    let overlap = causes.iter().map(|(_, n)| n).sum::<usize>() > comparison.counts.ambiguous;
    let overlap = if overlap { " (a figure may have several causes)" } else { "" };
    format!("{} ambiguous: {}{overlap}", comparison.counts.ambiguous, each.join(", "))
}

fn row_cells(row: &Compared) -> [String; 7] {
    let change = |ratio: f64| format!("{:+.2}", 100.0 * (ratio - 1.0));
    [
        row.verdict.name().to_owned(),
        row.subject.describe(),
        row.unit.format(row.base),
        row.unit.format(row.new),
        format!("{} %", change(row.ratio)),
        format!("[{}, {}]", change(row.interval.lo), change(row.interval.hi)),
        row.explained_by(),
    ]
}

#[cfg(test)]
mod tests {
    use plimsoll_core::record::Run;
    use plimsoll_core::series::Series;
    use plimsoll_suite::verdict::{Across, compare};

    use super::*;
    use crate::synthetic;

    /// `run` with this clock at every point.
    fn at_clock(mut run: Run, hertz: f64) -> Run {
        for series in &mut run.series {
            let mut points: Vec<_> = series.rows.iter().flat_map(|row| row.points.clone()).collect();
            points.iter_mut().for_each(|point| point.evidence.clock_hz = Some(hertz));
            *series = Series::new(series.spec.clone(), points);
        }
        run
    }

    #[test]
    fn table_explains_ambiguous_figures_and_counts_their_causes() {
        let run = || synthetic::run("Box", "2026-01-02T03:04:05Z", 1.0);
        let compared = compare(&at_clock(run(), 3.02e9), &at_clock(run(), 3.19e9), Across::default());
        assert!(compared.counts.ambiguous > 0, "{:?}", compared.counts);
        let show = |width| comparison(&compared, false, &Style { width, ..Style::PLAIN });
        assert!(show(200).contains("clock 3.02 → 3.19 GHz"), "{}", show(200));
        let narrow = show(60);
        let headings = narrow.lines().next().unwrap();
        assert!(headings.contains("explained by") && !headings.contains("95 % interval"), "{narrow}");
        let n = compared.counts.ambiguous;
        assert!(show(200).contains(&format!("{n} ambiguous: {n} clock")), "{}", show(200));
        let unmoved = compare(&run(), &run(), Across::default());
        assert!(!comparison(&unmoved, false, &Style::PLAIN).contains("clock"));
    }
}
