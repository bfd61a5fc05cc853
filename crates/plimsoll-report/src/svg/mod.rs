//! SVG pictures of charts. Colours are classes and CSS variables, so one picture serves light and dark; every point can be
//! reached by pointer and keyboard and says its figure aloud; in a page it shows it in the line below the title, in a file of
//! its own, whose size counts, where the pointer is. No script.

mod bars;
mod guides;
mod heat;
mod lines;
mod markup;
mod names;
mod paths;

#[cfg(test)]
mod tests;

use crate::Report;
use crate::chart::{Chart, HUES, Plot, charts};
use markup::Markup;

/// Colours as CSS variables, light and dark.
pub(crate) const PALETTE: &str = include_str!("palette.css");
/// What the classes of a picture look like.
pub(crate) const STYLE: &str = include_str!("chart.css");

/// Width of every picture in its own units, which are pixels at its natural size.
pub(crate) const WIDTH: f64 = 640.0;
/// First row that a plot may use, below title and readout.
const TOP: f64 = 84.0;
/// Free space at the right.
const RIGHT: f64 = 14.0;

/// A picture with the name of a file for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Letters, digits and hyphens, with `.svg`; unique within the report.
    pub file: String,
    /// The picture: a whole file that needs no other.
    pub svg: String,
}

/// Every picture of a report, each a file of its own.
#[must_use]
pub fn render(report: &Report<'_>) -> Vec<Picture> {
    let mut pictures: Vec<Picture> = Vec::new();
    for section in &report.sections {
        for chart in charts(report, section) {
            let words = chart.title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
            let mut stem = words.collect::<Vec<_>>().join("-").to_lowercase();
            stem.truncate(80);
            let file = free(&stem, |file| pictures.iter().any(|picture| picture.file == file));
            pictures.push(Picture { file, svg: alone(&chart) });
        }
    }
    pictures
}

/// `STEM.svg`, or with the first number from 2 on that no other picture has. A title without a letter or digit has no stem.
fn free(stem: &str, taken: impl Fn(&str) -> bool) -> String {
    let stem = if stem.is_empty() { "picture" } else { stem };
    let numbered = (2..).map(|number| format!("{stem}-{number}.svg"));
    let mut names = std::iter::once(format!("{stem}.svg")).chain(numbered);
    names.find(|name| !taken(name)).unwrap_or_else(|| unreachable!("there are more numbers than pictures"))
}

/// A picture as a whole file.
#[must_use]
pub fn alone(chart: &Chart) -> String {
    let style = format!("<style>{PALETTE}{STYLE}</style>");
    draw(chart, Markup::new(false), " xmlns=\"http://www.w3.org/2000/svg\"", &style)
}

/// A picture for an HTML page that has [`PALETTE`] and [`STYLE`] itself.
pub(crate) fn inline(chart: &Chart) -> String {
    draw(
        chart,
        Markup::new(true),
        "",
        "<text class=\"soft hint\" x=\"4\" y=\"38\">Point at a mark, or tab to it, to read its figure here.</text>",
    )
}

/// `extra` comes before all marks: a style, a hint.
fn draw(chart: &Chart, mut body: Markup, attributes: &str, extra: &str) -> String {
    let height = match &chart.plot {
        Plot::Lines { x, y, levels, guides, traces } => {
            lines::draw(&mut body, &lines::Lines { x, y, levels, guides, traces })
        }
        Plot::Bars { y, categories, labels, references } => bars::draw(&mut body, y, categories, [labels, references]),
        Plot::Heat(heat) => heat::draw(&mut body, heat),
    };
    // A title is of bold and larger letters.
    let beside_title = WIDTH - 20.0 - 1.08 * markup::width(&chart.title);
    let note = markup::fit(&chart.note, beside_title.max(340.0));
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
