//! The headlines of several machines side by side: one column per machine.

use plimsoll_core::headline::{Better, Headline};
use plimsoll_core::record::Run;
use plimsoll_probes::ALL;
use plimsoll_suite::check::check;
use plimsoll_suite::expected::run_spread;
use plimsoll_suite::gate::find_outliers;
use plimsoll_suite::headlines::{Figure, derive_findings, figures};

use super::{Column, Style, Table, wrap};
use crate::Report;
use crate::text::clean;

/// Columns that the names of the figures take.
const NAMES: usize = 26;
/// Columns that one machine takes.
const MACHINE: usize = 13;

/// A device of a run.
struct Machine<'r> {
    label: String,
    verdict: String,
    figures: Vec<Figure<'r>>,
}

/// One column per machine and one row per headline figure; figures that stand out from all others are marked. Then each machine's
/// verdict. Where the columns don't fit, several tables follow each other.
#[must_use]
pub fn side_by_side(report: &Report<'_>, style: &Style) -> String {
    let derive = |run: &Run| Run { findings: derive_findings(run, ALL), ..run.clone() };
    let runs: Vec<Run> = report.entries.iter().map(|entry| derive(entry.run)).collect();
    let labels = report.entries.iter().map(|entry| &entry.labels);
    let machines: Vec<Machine<'_>> =
        runs.iter().zip(labels).flat_map(|(run, labels)| list_machines(run, labels)).collect();
    let headlines: Vec<&Headline> = ALL.iter().flat_map(|probe| probe.headlines).collect();
    let rows: Vec<Vec<String>> = headlines.iter().filter_map(|headline| build_row(headline, &machines)).collect();
    let mut out = String::new();
    if report.is_simulated() {
        out.push_str(&format!("{}\n\n", style.bold("SIMULATED: these figures describe no real machine")));
    }
    let at_once = ((style.columns() - NAMES) / MACHINE).max(1);
    let places: Vec<usize> = (0..machines.len()).collect();
    for shown in places.chunks(at_once).filter(|_| !rows.is_empty()) {
        let columns = shown.iter().map(|place| Column::number(&format!("[{}]", place + 1)));
        let mut table = Table::new(std::iter::once(Column::text("figure")).chain(columns).collect());
        for row in &rows {
            table.row(std::iter::once(row[0].clone()).chain(shown.iter().map(|place| row[place + 1].clone())));
        }
        out.push_str(&format!("{}\n", table.render(style)));
    }
    let mut line = |text: &str| out.push_str(&format!("{}\n", wrap(&clean(text), style.columns(), "    ")));
    for (place, machine) in machines.iter().enumerate() {
        line(&format!("[{}] {}: {}", place + 1, machine.label, machine.verdict));
    }
    if rows.iter().flatten().any(|cell| cell.ends_with(MARKS)) {
        line("▲ better and ▼ worse than all others by more than they differ among themselves.");
    }
    line("`--all` shows every finding and plot.");
    out
}

/// The marks of a figure that stands out, better and worse.
const MARKS: [char; 2] = ['▲', '▼'];

fn list_machines<'r>(run: &'r Run, labels: &[String]) -> Vec<Machine<'r>> {
    let machine = |(device, label): (u32, &String)| {
        let checked = check(run, device, ALL);
        Machine {
            label: label.clone(),
            verdict: checked.map_or_else(String::new, |checked| checked.sentence),
            figures: figures(run, device, ALL),
        }
    };
    (0..).zip(labels).map(machine).collect()
}

/// The name of a headline and its figure on each machine; `None` where no machine has it.
fn build_row(headline: &Headline, machines: &[Machine<'_>]) -> Option<Vec<String>> {
    let find = |machine: &Machine<'_>| machine.figures.iter().position(|figure| figure.headline.id == headline.id);
    let found: Vec<Option<&Figure<'_>>> =
        machines.iter().map(|machine| find(machine).map(|place| &machine.figures[place])).collect();
    let spread = found.iter().flatten().map(|figure| run_spread(figure)).fold(0.0, f64::max);
    found.iter().flatten().next()?;
    let values: Vec<Option<f64>> = found.iter().map(|figure| figure.map(|figure| figure.finding.value)).collect();
    let known: Vec<f64> = values.iter().flatten().copied().collect();
    let middle = known.iter().sum::<f64>() / known.len() as f64;
    let cell = |(figure, is_outlier): (&Option<&Figure<'_>>, bool)| {
        let Some(figure) = figure else { return "–".to_owned() };
        let text = figure.unit().format(figure.finding.value);
        let is_better = match headline.better {
            Better::More => figure.finding.value > middle,
            Better::Less => figure.finding.value < middle,
        };
        if is_outlier { format!("{text} {}", MARKS[usize::from(!is_better)]) } else { text }
    };
    let cells = found.iter().zip(find_outliers(&values, spread)).map(cell);
    Some(std::iter::once(headline.name.to_owned()).chain(cells).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    fn show(slower: &[f64], width: usize) -> String {
        let mut runs: Vec<Run> =
            slower.iter().map(|slower| synthetic::run("Box", "2026-01-02T03:04:05Z", *slower)).collect();
        runs.iter_mut().for_each(|run| run.series.clear());
        side_by_side(&Report::new(&runs), &Style { width, ..Style::PLAIN })
    }

    #[test]
    fn the_machine_that_stands_out_is_marked_in_its_column() {
        let text = show(&[1.0, 1.3, 1.001, 0.999], 100);
        let row = text.lines().find(|line| line.starts_with("memory read")).unwrap();
        assert_eq!(row.matches('▼').count(), 1, "{text}");
        assert!(row.contains("47.1 GB/s ▼") && text.contains("[2] Box, run 2: "), "{text}");
        assert!(!show(&[1.0, 1.0], 100).contains('▼'));
    }

    #[test]
    fn sixteen_machines_fit_eighty_columns_in_several_tables() {
        let text = show(&[1.0; 16], 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("memory read")).count(), 4, "{text}");
        assert!((1..=16).all(|place| text.contains(&format!("[{place}] Box"))), "{text}");
    }
}
