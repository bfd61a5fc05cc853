//! The summary table (each finding next to its yardsticks) and the notes below it: the meaning of flags, and faults.

use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;
use plimsoll_suite::standing::{Standing, YardstickResult};

use super::{Column, Style, Table, wrap};
use crate::Report;
use crate::content::glossary;
use crate::text::clean;

/// One table per device: its findings next to ceiling, peak and reference. On narrow terminals columns are left out in this
/// order: flags, reference, ceiling, peak, share, probe. A figure whose flags throw doubt on it is marked '!'. Only the longer
/// side of the interval is given, in per cent of the figure; records and the other formats have both sides.
#[must_use]
pub fn summary(report: &Report<'_>, style: &Style) -> String {
    let mut out = String::new();
    if report.is_simulated() {
        let warning = style.bold("SIMULATED: these figures describe no real machine");
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
            out.push_str(&build_table(standings).render(style));
            out.push('\n');
        }
    }
    out.truncate(out.trim_end().len());
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

fn build_table<'s>(standings: impl Iterator<Item = &'s Standing>) -> Table {
    let mut table = Table::new(vec![
        Column::text("probe").keep(6),
        Column::text("finding"),
        Column::number("achieved"),
        Column::number("ceiling").keep(2),
        Column::number("peak").keep(3),
        Column::number("reference").keep(1),
        Column::number("share").keep(4),
        Column::text("flags").keep(0),
    ]);
    let mut last_probe = "";
    for standing in standings {
        let probe = if standing.probe == last_probe { "" } else { standing.probe.as_str() };
        last_probe = &standing.probe;
        let doubt = if standing.flags.doubtful().is_empty() { "" } else { " !" };
        // A digest is exact.
        let margin = match &standing.unit {
            Unit::Digest => String::new(),
            unit => format_margin(unit, standing.achieved.value, standing.achieved.interval),
        };
        let achieved = standing.unit.format(standing.achieved.value) + &margin;
        table.row([
            probe.to_owned(),
            standing.name.clone(),
            format!("{achieved}{doubt}"),
            format_yardstick(standing, &standing.ceiling),
            format_yardstick(standing, &standing.peak),
            format_yardstick(standing, &standing.reference),
            standing.percent().map(|(percent, kind)| format!("{percent:.1} % of {}", kind.name())).unwrap_or_default(),
            standing.flags.to_string(),
        ]);
    }
    table
}

/// ` ± 1.5 %`, by the longer side of a figure's interval; empty where the figure is zero. For figures in percent, percentage points:
/// ` ± 0.4 points`.
#[must_use]
pub fn format_margin(unit: &Unit, value: f64, interval: Interval) -> String {
    let side = (interval.hi - value).max(value - interval.lo);
    if *unit == Unit::Percent {
        return match side {
            points if !points.is_finite() => String::new(),
            points if points < 0.05 => " ± 0.1 points".to_owned(),
            points if points < 9.95 => format!(" ± {points:.1} points"),
            points => format!(" ± {points:.0} points"),
        };
    }
    let percent = 100.0 * side / value.abs();
    match percent {
        p if !p.is_finite() => String::new(),
        p if p < 0.05 => " ± 0.1 %".to_owned(),
        p if p < 9.95 => format!(" ± {p:.1} %"),
        p => format!(" ± {p:.0} %"),
    }
}

/// A yardstick in the figure's unit, `—` where there is none.
pub(crate) fn format_yardstick(standing: &Standing, yardstick: &YardstickResult) -> String {
    yardstick.as_ref().map_or_else(|_| "—".to_owned(), |known| clean(&standing.unit.format(known.value)))
}

/// The meaning of each flag in the report, and what could not be measured. Empty where there is nothing to say.
#[must_use]
pub fn notes(report: &Report<'_>, style: &Style) -> String {
    let mut out = String::new();
    let (doubtful, points) = report.count_doubtful();
    if doubtful > 0 {
        let line = format!("{doubtful} of {points} points carry a flag that throws doubt on them (marked !).");
        out.push_str(&format!("{}\n", wrap(&line, style.columns(), "")));
    }
    for (name, meaning) in glossary(report.flags()) {
        let line = wrap(&format!("{name}: {meaning}"), style.columns(), "    ");
        out.push_str(&line.replacen(name, &style.bold(name), 1));
        out.push('\n');
    }
    let problems = report.list_problems();
    if !problems.is_empty() {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&style.bold("Not measured"));
        out.push('\n');
    }
    for problem in problems {
        out.push_str(&format!("  {}", wrap(&problem, style.columns() - 2, "    ")));
        out.push('\n');
    }
    out
}
