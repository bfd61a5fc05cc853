//! A fleet on a terminal: the verdict first, then who isn't healthy and why, then what is wrong with the files, then the figures.

use plimsoll_core::unit::Unit;
use plimsoll_suite::check::Verdict;
use plimsoll_suite::fleet::collect::{Fleet, Judgement};

use super::{expected, reasons, sentence};
use crate::terminal::{Column, Style, Table, wrap};
use crate::text::clean;

/// Devices, and problems, that are listed without `--all`.
const MOST: usize = 20;

/// The judgement as text. `all` lists every device and every problem.
#[must_use]
pub fn render_table(fleet: &Fleet, all: bool, style: &Style) -> String {
    let word = fleet.verdict().name();
    let line = wrap(&clean(&sentence(fleet)), style.columns(), "  ");
    let mut out = format!("{}\n", line.replacen(word, &style.bold(word), 1));
    let parts = [list_devices(fleet, all, style), list_problems(fleet, all, style), list_figures(fleet, all, style)];
    let groups = fleet.groups.iter().map(|group| {
        let share = 100.0 * group.deviation.share();
        let text = format!("{}: {} {share:.1} % worse than the others", group.name, group.headline.name);
        format!("{}\n", wrap(&clean(&text), style.columns(), "  "))
    });
    let groups = groups.take(if all { usize::MAX } else { MOST }).collect::<String>();
    for part in parts.into_iter().chain([groups]).filter(|part| !part.is_empty()) {
        out += &format!("\n{part}");
    }
    out
}

fn list_devices(fleet: &Fleet, all: bool, style: &Style) -> String {
    let mut shown: Vec<&Judgement> =
        fleet.devices.iter().filter(|judged| all || judged.verdict != Verdict::Healthy).collect();
    shown.sort_by_key(|judged| std::cmp::Reverse(judged.verdict.severity()));
    let count = shown.len();
    if !all {
        shown.truncate(MOST);
    }
    if shown.is_empty() {
        return String::new();
    }
    let mut table = Table::new(vec![
        Column::text(""),
        Column::text("device"),
        Column::text("id").keep(1),
        Column::text("why").wrapping(),
    ]);
    for judged in &shown {
        let device = &judged.device;
        table.row([judged.verdict.name().to_owned(), device.place(), device.id.clone(), reasons(judged)]);
    }
    table.render(style) + &left_out(count - shown.len(), "devices", style)
}

fn list_problems(fleet: &Fleet, all: bool, style: &Style) -> String {
    let most = if all { fleet.problems.len() } else { MOST };
    let mut table = Table::new(vec![Column::text("files"), Column::text("").keep(2), Column::text("what").wrapping()]);
    for problem in fleet.problems.iter().take(most) {
        let file = problem.file.clone().unwrap_or_default();
        table.row([problem.kind.name().to_owned(), file, problem.text.clone()]);
    }
    if table.is_empty() {
        return String::new();
    }
    table.render(style) + &left_out(fleet.problems.len().saturating_sub(most), "problems", style)
}

fn left_out(count: usize, what: &str, style: &Style) -> String {
    if count == 0 {
        String::new()
    } else {
        format!("{}\n", style.faint(&format!("({count} more {what}: --all lists them)")))
    }
}

/// The figures of each population: both baselines, and what can be found.
fn list_figures(fleet: &Fleet, all: bool, style: &Style) -> String {
    let mut out = String::new();
    let count = fleet.populations.len();
    let shown = if all { count } else { count.min(MOST) };
    for (number, population) in fleet.populations.iter().enumerate().take(shown) {
        let stratum = &fleet.strata[population.stratum];
        let mut table = Table::new(vec![
            Column::text("figure"),
            Column::number("devices").keep(2),
            Column::number("fleet's median"),
            Column::number("expected").keep(3),
            Column::number("spread").keep(1),
            Column::number("found from"),
        ]);
        for figure in fleet.figures_of(number) {
            let range = |unit: &Unit| {
                expected(fleet, figure).map(|known| unit.format_range(known.interval.lo, known.interval.hi))
            };
            table.row([
                figure.headline.name.to_owned(),
                figure.count.to_string(),
                figure.unit.format(figure.median),
                range(&figure.unit).unwrap_or_else(|| "–".to_owned()),
                format!("{:.2} %", 100.0 * figure.last().scale),
                format!("{:.1} %", 100.0 * figure.last().detection_limit()),
            ]);
        }
        let title = format!("{} × {}", population.members.len(), stratum.model);
        out += &format!("{}\n{}", style.bold(&wrap(&clean(&title), style.columns(), "  ")), table.render(style));
    }
    if !out.is_empty() {
        let note = "'found from': the smallest slowness that is found with 95 % probability.";
        out += &left_out(count - shown, "populations", style);
        out += &format!("{}\n", style.faint(&wrap(note, style.columns(), "")));
    }
    out
}
