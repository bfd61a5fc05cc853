//! Terminal output: the summary, plots and notes, within a given width and with or without colour and Unicode. The caller
//! checks whether there is a terminal and whether `NO_COLOR` is set.

mod bars;
mod brief;
mod canvas;
mod check;
mod comparison;
mod gate;
mod lines;
mod side_by_side;
mod summary;
mod table;

#[cfg(test)]
mod tests;

use crate::Report;
use crate::chart::{Lines, Plot, charts};
use crate::content::Section;
use crate::text::clean;

pub use brief::brief;
pub use check::check;
pub use comparison::comparison;
pub use gate::gate;
pub use side_by_side::side_by_side;
pub(crate) use summary::format_yardstick;
pub use summary::{format_margin, notes, summary};
pub use table::{Column, Table};

/// The style of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Most columns of a line; less than 40 counts as 40.
    pub width: usize,
    /// ANSI colours.
    pub colour: bool,
    /// True for box, block and braille characters; otherwise ASCII, except for the text of records and the symbols of units.
    pub unicode: bool,
}

/// The words before a sentence of advice.
const ADVICE: &str = "Advice of";

/// Rows of a plot's canvas.
const HEIGHT: usize = 14;

impl Style {
    /// Plain text of 80 columns, for files and pipes.
    pub const PLAIN: Style = Style { width: 80, colour: false, unicode: true };

    pub(crate) fn columns(&self) -> usize {
        self.width.max(40)
    }

    pub(crate) fn paint(&self, text: &str, code: &str) -> String {
        if self.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn bold(&self, text: &str) -> String {
        self.paint(text, "1")
    }

    pub(crate) fn hue(&self, text: &str, place: usize) -> String {
        const CODES: [&str; 6] = ["34", "33", "36", "35", "32", "31"];
        self.paint(text, CODES[place % CODES.len()])
    }

    pub(crate) fn faint(&self, text: &str) -> String {
        self.paint(text, "2")
    }
}

/// Summary, plots and notes: everything that is shown after a measurement.
#[must_use]
pub fn render(report: &Report<'_>, style: &Style) -> String {
    let parts = [summary(report, style), plots(report, style), notes(report, style)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// One plot for each series that can be drawn, and an experiment's advice below its plots.
#[must_use]
pub fn plots(report: &Report<'_>, style: &Style) -> String {
    let mut out = String::new();
    for section in &report.sections {
        for chart in charts(report, section) {
            let note = format!("({})", chart.note);
            out.push_str(&format!("{} {}\n", style.bold(&chart.title), style.faint(&note)));
            out.push_str(&match &chart.plot {
                Plot::Lines { x, y, levels, guides, traces } => {
                    lines::draw_lines(&Lines { x, y, levels, guides, traces }, HEIGHT, style)
                }
                Plot::Bars { y, categories, labels, references } => {
                    bars::draw_bars(y, categories, [labels, references], style)
                }
                Plot::Heat(heat) => bars::draw_heat(heat, style),
            });
            out.push('\n');
        }
        for advice in advice_of(section, style) {
            out.push_str(&format!("{advice}\n\n"));
        }
    }
    out.truncate(out.trim_end().len());
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// The advice of every experiment, a paragraph each. Empty where there is none.
#[must_use]
pub fn advice(report: &Report<'_>, style: &Style) -> String {
    report.sections.iter().flat_map(|section| advice_of(section, style)).map(|advice| advice + "\n").collect()
}

fn advice_of(section: &Section<'_>, style: &Style) -> impl Iterator<Item = String> {
    section.advice().map(|(label, says)| {
        let probe = if label.is_empty() { section.probe.clone() } else { format!("{} ({label})", section.probe) };
        let line = wrap(&format!("{ADVICE} {}: {}", clean(&probe), clean(&says)), style.columns(), "    ");
        line.replacen(ADVICE, &style.bold(ADVICE), 1)
    })
}

/// Shortens `text` to `width` columns, with `…` where it was cut.
pub(crate) fn fit(text: &str, width: usize) -> String {
    use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
    if text.width() <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let kept: String = text
        .chars()
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= width
        })
        .collect();
    if width == 0 { String::new() } else { format!("{kept}…") }
}

/// Breaks `text` at spaces into lines of at most `width` columns; all lines except the first begin with `indent`.
pub(crate) fn wrap(text: &str, width: usize, indent: &str) -> String {
    use unicode_width::UnicodeWidthStr;
    let (mut out, mut used) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.width();
        if used > 0 && used + 1 + length > width {
            out.push('\n');
            out.push_str(indent);
            used = indent.width();
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    out
}
