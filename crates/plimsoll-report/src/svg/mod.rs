//! SVG pictures of charts, without scripts. Colours are classes and CSS variables, so one picture serves light and dark themes.
//! In a separate file every point can be reached by pointer and keyboard, and screen readers read its figure. In a page a point
//! only names its row of the tables below, which hold the figures; that keeps pages small.

mod bars;
mod differences;
mod guides;
mod heat;
mod legend;
mod lines;
mod markup;
mod names;
mod paths;

#[cfg(test)]
mod tests;

use crate::Report;
use crate::chart::{Chart, HUES, Lines, Plot, charts};
pub(crate) use markup::{Markup, escape, fit, number, width};

pub use differences::render_differences;
pub(crate) use differences::render_differences_inline;

/// Colours as CSS variables, light and dark.
pub(crate) const PALETTE: &str = include_str!("palette.css");
/// The style sheet for a picture's classes.
pub(crate) const STYLE: &str = include_str!("chart.css");

/// Width of every picture in user units, which are pixels at its natural size.
pub(crate) const WIDTH: f64 = 640.0;
/// Top of the plot area, below the title.
const TOP: f64 = 54.0;
/// Number of dash patterns; then they repeat with other marks.
const PATTERNS: usize = 6;
/// Margin at the right.
const RIGHT: f64 = 14.0;

/// A picture and its file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Letters, digits and hyphens, with `.svg`; unique within the report.
    pub file: String,
    /// The picture as a self-contained file.
    pub svg: String,
}

/// Every picture of a report as a separate file.
#[must_use]
pub fn render(report: &Report<'_>) -> Vec<Picture> {
    let mut pictures: Vec<Picture> = Vec::new();
    for section in &report.sections {
        for chart in charts(report, section) {
            let words = chart.title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
            let mut stem = words.collect::<Vec<_>>().join("-").to_lowercase();
            stem.truncate(80);
            let file = unused_name(&stem, |file| pictures.iter().any(|picture| picture.file == file));
            pictures.push(Picture { file, svg: render_file(&chart) });
        }
    }
    pictures
}

/// `STEM.svg`, or `STEM-N.svg` with the first number from 2 on that is free. A title without letters or digits has an empty
/// stem, which becomes `picture`.
fn unused_name(stem: &str, taken: impl Fn(&str) -> bool) -> String {
    let stem = if stem.is_empty() { "picture" } else { stem };
    let numbered = (2..).map(|number| format!("{stem}-{number}.svg"));
    let mut names = std::iter::once(format!("{stem}.svg")).chain(numbered);
    names.find(|name| !taken(name)).unwrap_or_else(|| unreachable!("there are more numbers than pictures"))
}

/// A picture as a self-contained file.
#[must_use]
pub fn render_file(chart: &Chart) -> String {
    in_file(|attributes, style| draw(chart, Markup::new(false), attributes, style))
}

/// Draws with what a self-contained file needs: attributes of its root, and its style sheets.
fn in_file(draw: impl FnOnce(&str, &str) -> String) -> String {
    draw(" xmlns=\"http://www.w3.org/2000/svg\"", &format!("<style>{PALETTE}{STYLE}</style>"))
}

/// A picture for an HTML page that already contains [`PALETTE`] and [`STYLE`].
pub(crate) fn render_inline(chart: &Chart) -> String {
    draw(chart, Markup::new(true), "", "")
}

/// `extra` is markup that goes before everything else: a style.
fn draw(chart: &Chart, mut body: Markup, attributes: &str, extra: &str) -> String {
    let height = match &chart.plot {
        Plot::Lines { x, y, levels, guides, traces } => {
            lines::draw_lines(&mut body, &Lines { x, y, levels, guides, traces })
        }
        Plot::Bars { y, categories, labels, references } => {
            bars::draw_bars(&mut body, y, categories, [labels, references])
        }
        Plot::Heat(heat) => heat::draw_heat(&mut body, heat),
    };
    // The factor allows for the title's bold and larger letters.
    let room_after_title = WIDTH - 20.0 - 1.08 * markup::width(&chart.title);
    let note = markup::fit(&chart.note, room_after_title.max(340.0));
    let title = markup::escape(&markup::fit(&chart.title, WIDTH - 20.0 - markup::width(&note)));
    let note = markup::escape(&note);
    let label = markup::escape(&format!("{}, {}", chart.title, chart.note));
    format!(
        "<svg class=\"chart\"{attributes} viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"group\" aria-label=\"{label}\">\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height:.0}\"/>{extra}\
         <text class=\"title\" x=\"4\" y=\"18\">{title}</text>\
         <text class=\"soft\" x=\"{:.0}\" y=\"18\" text-anchor=\"end\">{note}</text>{}</svg>\n",
        WIDTH - 4.0,
        body.into_string()
    )
}
