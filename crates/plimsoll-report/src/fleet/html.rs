//! A fleet as one page: the verdict, the map of hosts and slots, who isn't healthy and why, and the distributions.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};
use plimsoll_suite::check::Verdict;
use plimsoll_suite::fleet::collect::Fleet;
use serde::Serialize;

use super::map::{draw_distribution, draw_map, has_flagged};
use super::{expected, reasons, sentence};
use crate::html::{PAGE, build_policy};
use crate::svg::{PALETTE, STYLE};
use crate::text::clean;

const TEMPLATE: &str = include_str!("fleet.html");
/// Most rows of a table, and most pictures.
const MOST_ROWS: usize = 500;
const MOST_PICTURES: usize = 60;

#[derive(Serialize)]
struct Page {
    sentence: String,
    class: &'static str,
    maps: Vec<Value>,
    devices: Vec<DeviceRow>,
    devices_left_out: usize,
    problems: Vec<[String; 3]>,
    problems_left_out: usize,
    figures: Vec<[String; 7]>,
    figures_left_out: usize,
    groups: Vec<String>,
    distributions: Vec<Value>,
}

#[derive(Serialize)]
struct DeviceRow {
    verdict: &'static str,
    class: &'static str,
    place: String,
    id: String,
    why: String,
}

/// The whole page.
///
/// # Panics
/// Never, whatever the files hold: the template is compiled in, and data can't make any of its operations fail.
#[must_use]
pub fn render_html(fleet: &Fleet) -> String {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the standard delimiters"));
    environment.add_template("fleet.html", TEMPLATE).expect("the template is compiled in");
    let template = environment.get_template("fleet.html").expect("added a line above");
    let style = Value::from_safe_string(format!("{PALETTE}{STYLE}{PAGE}"));
    let policy = Value::from_safe_string(build_policy(""));
    template.render(context! { style, policy, ..Value::from(Serde(&build_page(fleet))) }).expect("plain data")
}

fn build_page(fleet: &Fleet) -> Page {
    let mut devices: Vec<DeviceRow> = Vec::new();
    let mut bad: Vec<_> = fleet.devices.iter().filter(|judged| judged.verdict != Verdict::Healthy).collect();
    bad.sort_by_key(|judged| std::cmp::Reverse(judged.verdict.severity()));
    for judged in bad.iter().take(MOST_ROWS) {
        devices.push(DeviceRow {
            verdict: judged.verdict.name(),
            class: class(judged.verdict),
            place: clean(&judged.device.place()),
            id: clean(&judged.device.id),
            why: clean(&reasons(judged)),
        });
    }
    let problems = fleet.problems.iter().take(MOST_ROWS).map(|problem| {
        [problem.kind.name().to_owned(), clean(problem.file.as_deref().unwrap_or_default()), clean(&problem.text)]
    });
    let groups = fleet.groups.iter().take(MOST_ROWS).map(|group| {
        clean(&format!("{}: {} {:.1} % worse", group.name, group.headline.name, 100.0 * group.deviation.share()))
    });
    let pictures = fleet.figures.iter().filter(|figure| has_flagged(figure));
    let pictures = pictures.chain(fleet.figures.iter().filter(|figure| !has_flagged(figure))).take(MOST_PICTURES);
    Page {
        sentence: clean(&sentence(fleet)),
        class: class(fleet.verdict()),
        maps: (0..fleet.populations.len()).take(MOST_PICTURES).map(|number| picture(draw_map(fleet, number))).collect(),
        devices_left_out: bad.len() - devices.len(),
        devices,
        problems_left_out: fleet.problems.len().saturating_sub(MOST_ROWS),
        problems: problems.collect(),
        figures: list_figures(fleet),
        figures_left_out: fleet.figures.len().saturating_sub(MOST_ROWS),
        groups: groups.collect(),
        distributions: pictures.map(|figure| picture(draw_distribution(fleet, figure))).collect(),
    }
}

fn picture(svg: String) -> Value {
    Value::from_safe_string(svg)
}

fn list_figures(fleet: &Fleet) -> Vec<[String; 7]> {
    let figure = |figure: &plimsoll_suite::fleet::strata::FigureOfFleet| {
        let known = expected(fleet, figure);
        let range = known.map(|known| figure.unit.format_range(known.interval.lo, known.interval.hi));
        [
            clean(&fleet.strata[fleet.populations[figure.population].stratum].model),
            figure.headline.name.to_owned(),
            figure.count.to_string(),
            clean(&figure.unit.format(figure.median)),
            clean(&range.unwrap_or_else(|| "–".to_owned())),
            format!("{:.2} %", 100.0 * figure.last().scale),
            format!("{:.1} %", 100.0 * figure.last().detection_limit()),
        ]
    };
    fleet.figures.iter().take(MOST_ROWS).map(figure).collect()
}

const fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Healthy => "good",
        Verdict::Slow | Verdict::Broken => "bad",
        Verdict::Unknown | Verdict::NotJudged => "unclear",
    }
}
