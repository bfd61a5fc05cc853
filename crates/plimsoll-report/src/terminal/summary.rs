//! The summary table (each finding beside its yardsticks) and the notes below: flags in words, faults.

use plimsoll_core::stats::Interval;
use plimsoll_suite::standing::{Beside, Standing};

use super::{Column, Style, Table, wrap};
use crate::Report;
use crate::content::glossary;
use crate::text::clean;

/// One table per device: what was found, beside ceiling, peak and reference. Narrow terminals lose columns in this
/// order: flags, reference, ceiling, peak, the percentage, probe. A figure whose flags throw doubt on it is marked '!'.
/// The interval is given by its longer side, in per cent of the figure; records and the other formats have both sides.
#[must_use]
pub fn summary(report: &Report<'_>, style: &Style) -> String {
    let mut out = String::new();
    if report.simulated() {
        let warning = style.bold("SIMULATED: these figures say nothing of any machine");
        out.push_str(&format!("{}\n", wrap(&warning, style.columns(), "  ")));
    }
    for entry in &report.entries {
        for (device, label) in entry.labels.iter().enumerate() {
            let of_device = |standing: &&Standing| standing.device as usize == device;
            let mut standings = entry.standings.iter().filter(of_device).peekable();
            out.push_str(&format!("{}\n", wrap(&style.bold(label), style.columns(), "  ")));
            if standings.peek().is_none() {
                out.push_str("  no findings\n");
                continue;
            }
            out.push_str(&table(standings).render(style));
            out.push('\n');
        }
    }
    out.truncate(out.trim_end().len());
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

fn table<'s>(standings: impl Iterator<Item = &'s Standing>) -> Table {
    let mut table = Table::new(vec![
        Column::text("probe").keep(6),
        Column::text("what"),
        Column::number("achieved"),
        Column::number("ceiling").keep(2),
        Column::number("peak").keep(3),
        Column::number("reference").keep(1),
        Column::number("that is").keep(4),
        Column::text("flags").keep(0),
    ]);
    let mut last_probe = "";
    for standing in standings {
        let probe = if standing.probe == last_probe { "" } else { standing.probe.as_str() };
        last_probe = &standing.probe;
        let doubt = if standing.flags.impugning().is_empty() { "" } else { " !" };
        let achieved = format!(
            "{}{}",
            standing.unit.format(standing.achieved.value),
            margin(standing.achieved.value, standing.achieved.interval)
        );
        table.row([
            probe.to_owned(),
            standing.name.clone(),
            format!("{achieved}{doubt}"),
            beside(standing, &standing.ceiling),
            beside(standing, &standing.peak),
            beside(standing, &standing.reference),
            standing.percent().map(|(percent, of)| format!("{percent:.1} % of {}", of.name())).unwrap_or_default(),
            standing.flags.to_string(),
        ]);
    }
    table
}

/// ` ± 1.5 %`, by the longer side of a figure's interval; empty where the figure is zero.
#[must_use]
pub fn margin(value: f64, interval: Interval) -> String {
    let side = (interval.hi - value).max(value - interval.lo);
    let percent = 100.0 * side / value.abs();
    match percent {
        p if !p.is_finite() => String::new(),
        p if p < 0.05 => " ± 0.1 %".to_owned(),
        p if p < 9.95 => format!(" ± {p:.1} %"),
        p => format!(" ± {p:.0} %"),
    }
}

/// A yardstick in the figure's unit, `—` where there is none.
pub(crate) fn beside(standing: &Standing, beside: &Beside) -> String {
    beside.as_ref().map_or_else(|_| "—".to_owned(), |found| clean(&standing.unit.format(found.value)))
}

/// What the figures' flags mean, once each, and what could not be measured. Empty where there is nothing to say.
#[must_use]
pub fn notes(report: &Report<'_>, style: &Style) -> String {
    let mut out = String::new();
    let (doubtful, points) = report.doubtful();
    if doubtful > 0 {
        let line = format!("{doubtful} of {points} points carry a flag that throws doubt on them (marked !).");
        out.push_str(&format!("{}\n", wrap(&line, style.columns(), "")));
    }
    for (name, meaning) in glossary(report.flags()) {
        let line = wrap(&format!("{name}: {meaning}"), style.columns(), "    ");
        out.push_str(&line.replacen(name, &style.bold(name), 1));
        out.push('\n');
    }
    let troubles = report.troubles();
    if !troubles.is_empty() {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&style.bold("Not measured"));
        out.push('\n');
    }
    for trouble in troubles {
        out.push_str(&format!("  {}", wrap(&trouble, style.columns() - 2, "    ")));
        out.push('\n');
    }
    out
}
