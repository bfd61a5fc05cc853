//! Terminal output: the summary, plots, and the notes below them, within a width and with or without colour and
//! Unicode. Whether there is a terminal, and what `NO_COLOR` says, is the caller's to find out.

mod bars;
mod canvas;
mod comparison;
mod lines;
mod summary;
mod table;

#[cfg(test)]
mod tests;

use crate::Report;
use crate::chart::{Plot, charts};
use crate::text::clean;

pub use comparison::comparison;
pub(crate) use summary::beside;
pub use summary::{margin, notes, summary};
pub use table::{Column, Table};

/// How to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns to stay within; less than 40 counts as 40.
    pub width: usize,
    /// ANSI colours.
    pub colour: bool,
    /// Box, block and braille characters; else ASCII, but for the text of records and the signs of units.
    pub unicode: bool,
}

/// What stands before a sentence of advice.
const ADVICE: &str = "Advice of";

/// Rows of a plot's canvas.
const HEIGHT: usize = 14;

impl Style {
    /// Plain text of 80 columns: for files and pipes.
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

/// Summary, plots and notes: all that is shown after a measurement.
#[must_use]
pub fn render(report: &Report<'_>, style: &Style) -> String {
    let parts = [summary(report, style), plots(report, style), notes(report, style)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// One plot for each series that can be drawn, and below those of an experiment its advice.
#[must_use]
pub fn plots(report: &Report<'_>, style: &Style) -> String {
    let mut out = String::new();
    for section in &report.sections {
        for chart in charts(report, section) {
            let note = format!("({})", chart.note);
            out.push_str(&format!("{} {}\n", style.bold(&chart.title), style.faint(&note)));
            out.push_str(&match &chart.plot {
                Plot::Lines { x, y, levels, guides, traces } => {
                    lines::draw(&lines::Lines { x, y, levels, guides, traces }, HEIGHT, style)
                }
                Plot::Bars { y, categories, labels, references } => {
                    bars::draw(y, categories, [labels, references], style)
                }
                Plot::Heat(heat) => bars::heat(heat, style),
            });
            out.push('\n');
        }
        for (label, says) in section.advice() {
            let of = if label.is_empty() { section.probe.clone() } else { format!("{} ({label})", section.probe) };
            let line = wrap(&format!("{ADVICE} {}: {says}", clean(&of)), style.columns(), "    ");
            out.push_str(&format!("{}\n\n", line.replacen(ADVICE, &style.bold(ADVICE), 1)));
        }
    }
    out.truncate(out.trim_end().len());
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// Cuts `text` to `width` columns, with `…` where something is missing.
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

/// Breaks `text` at spaces into lines of at most `width` columns; `indent` goes before all but the first.
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
