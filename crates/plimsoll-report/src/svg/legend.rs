//! The legend of a line picture: one entry per line or, where runs or devices are overlaid, one per series (its colour) and one per
//! run (its dashes and marks). Each entry has a number, by which a page shows and hides the lines that belong to it.

use super::PATTERNS;
use super::lines::draw_dot;
use super::markup::{Markup, hue};
use crate::chart::Trace;

/// What an entry stands for; the number is the index of a line that looks so.
#[derive(Clone, Copy)]
enum Look {
    Line(usize),
    Series(usize),
    Source(usize),
}

/// The entries of a picture's legend.
pub(super) struct Keys<'t> {
    traces: &'t [Trace],
    entries: Vec<(String, Look)>,
    /// The entries of each line.
    of_trace: Vec<Vec<usize>>,
}

impl<'t> Keys<'t> {
    pub fn new(traces: &'t [Trace]) -> Self {
        let mut keys = Self { traces, entries: Vec::new(), of_trace: Vec::new() };
        if traces.iter().all(|trace| trace.source.is_empty()) {
            keys.entries =
                traces.iter().enumerate().map(|(nth, trace)| (trace.label.clone(), Look::Line(nth))).collect();
            keys.of_trace = (0..traces.len()).map(|nth| vec![nth]).collect();
            return keys;
        }
        let mut numbers: Vec<[usize; 2]> = vec![[0; 2]; traces.len()];
        for (nth, trace) in traces.iter().enumerate() {
            numbers[nth][0] = keys.number_of(&trace.series, nth, Look::Series);
        }
        for (nth, trace) in traces.iter().enumerate().filter(|(_, trace)| !trace.reference) {
            numbers[nth][1] = keys.number_of(&trace.source, nth, Look::Source);
        }
        let own = |(numbers, trace): (&[usize; 2], &Trace)| numbers[..if trace.reference { 1 } else { 2 }].to_vec();
        keys.of_trace = numbers.iter().zip(traces).map(own).collect();
        keys
    }

    /// The number of the entry for a line's series or source; a new one is added.
    fn number_of(&mut self, label: &str, nth: usize, look: fn(usize) -> Look) -> usize {
        let kind = std::mem::discriminant(&look(nth));
        let same = |entry: &(String, Look)| entry.0 == label && std::mem::discriminant(&entry.1) == kind;
        self.entries.iter().position(same).unwrap_or_else(|| {
            self.entries.push((label.to_owned(), look(nth)));
            self.entries.len() - 1
        })
    }

    /// Opens the group of a line: its colour and the numbers of its entries.
    pub fn open(&self, nth: usize) -> String {
        let numbers: Vec<String> = self.of_trace[nth].iter().map(usize::to_string).collect();
        format!("<g class=\"{}\" data-k=\"{}\">", class(&self.traces[nth]), numbers.join(" "))
    }

    /// Opens the group of a curve that is drawn in the look of a line.
    pub fn open_like(&self, index: usize, dash: usize) -> String {
        let like = |trace: &Trace| !trace.reference && (trace.hue, trace.dash) == (index, dash);
        match self.traces.iter().position(like) {
            Some(nth) => self.open(nth),
            None => format!("<g class=\"{}\">", hue(index)),
        }
    }

    /// Draws the legend from `top` and returns the position below it.
    pub fn draw(&self, out: &mut Markup, top: f64) -> f64 {
        let labels = self.entries.iter().enumerate().map(|(number, (label, _))| (number, label.as_str()));
        out.legend(top, labels, |out, number, (x, y)| {
            let look = self.entries[number].1;
            let (Look::Line(nth) | Look::Series(nth) | Look::Source(nth)) = look;
            let trace = &self.traces[nth];
            let (class, dash) = match look {
                Look::Line(_) => (class(trace), trace.dash),
                Look::Series(_) => (class(trace), 0),
                Look::Source(_) => ("run".to_owned(), trace.dash),
            };
            out.raw(&format!("<g class=\"{class}\">"));
            out.line(&format!("line dash{}", dash % PATTERNS), (x, y), (x + 26.0, y));
            if !matches!(look, Look::Series(_)) {
                draw_dot(out, trace, (x + 13.0, y));
            }
            out.raw("</g>");
        })
    }
}

/// The class of a line's colour; all references share one.
pub(super) fn class(trace: &Trace) -> String {
    if trace.reference { "ref".to_owned() } else { hue(trace.hue) }
}
