//! Charts, independent of how they are drawn: points, scales and labels. The terminal and SVG renderers draw the same charts;
//! neither reads a series itself.

mod bars;
mod build;
mod bundle;
mod calls;
mod guides;
mod heat;
mod levels;
mod references;
mod scale;

#[cfg(test)]
mod tests;

pub use build::charts;
pub use scale::{Scale, Tick};

use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

/// Number of hues; then they repeat.
pub(crate) const HUES: usize = 8;

/// A picture of one series, or of several that differ only by cache policy, from all their sources.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Probe and case.
    pub title: String,
    /// The kind of figure, and where the data were.
    pub note: String,
    /// The content.
    pub plot: Plot,
}

/// The content of a chart.
#[derive(Clone, Debug, PartialEq)]
pub enum Plot {
    /// y over x.
    Lines {
        /// Horizontal axis.
        x: Scale,
        /// Vertical axis.
        y: Scale,
        /// Yardsticks to compare the figures with.
        levels: Vec<Level>,
        /// Annotations: where a cache ends, the name of a flat part, a fit.
        guides: Vec<Guide>,
        /// Lines; references come first, so that they lie behind.
        traces: Vec<Trace>,
    },
    /// Bars from zero.
    Bars {
        /// Their length.
        y: Scale,
        /// Categories in order, each with its bars.
        categories: Vec<Category>,
        /// The meaning of the colours; one empty label where there is only one.
        labels: Vec<String>,
        /// The owners of the published figures that are marked on the bars.
        references: Vec<String>,
    },
    /// Shades over two axes.
    Heat(Heat),
}

/// The content of [`Plot::Lines`].
pub(crate) struct Lines<'c> {
    pub x: &'c Scale,
    pub y: &'c Scale,
    pub levels: &'c [Level],
    pub guides: &'c [Guide],
    pub traces: &'c [Trace],
}

/// A horizontal yardstick across a whole picture: a peak or a ceiling.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// On the y scale.
    pub value: f64,
    /// What it is, with its figure.
    pub label: String,
    /// Where it comes from.
    pub source: String,
}

/// An annotation at its place in the picture: a feature of the figures, or a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Guide {
    /// Its shape and position.
    pub form: Form,
    /// What it is, with its figure.
    pub label: String,
    /// Where it comes from.
    pub source: String,
}

/// The shape and position of a guide, in the units of both scales.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// A vertical line at this x: where a cache ends, where a ridge lies.
    Vertical(f64),
    /// y = this · x, up to the highest level: a ceiling that is proportional to x.
    Slope(f64),
    /// The flat part of a curve: only a name, no line.
    Plateau {
        /// Its first x.
        from: f64,
        /// Its last x.
        to: f64,
        /// Its y.
        value: f64,
    },
    /// A curve fitted to the marks of one line.
    Fit {
        /// That line's hue.
        hue: usize,
        /// Its dashes.
        dash: usize,
        /// Points along it, from the left.
        path: Vec<(f64, f64)>,
    },
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Tells it from the others; empty where there is only one.
    pub label: String,
    /// The part of the label that lines of other runs or devices share.
    pub series: String,
    /// The run or device, where the picture has several; else empty.
    pub source: String,
    /// True for a reference, which is drawn faintly in the background.
    pub reference: bool,
    /// Lines of one hue have something in common: the kernel, the grid. Where runs are overlaid, lines of one series share it.
    /// Unused for references.
    pub hue: usize,
    /// Distinguishes lines of one hue, or runs, by dashes and the shape of the marks.
    pub dash: usize,
    /// In drawing order.
    pub marks: Vec<Mark>,
    /// The path of the line where it doesn't go from mark to mark: through the best of the marks that share an x, or empty where
    /// a fit replaces it.
    pub path: Option<Vec<(f64, f64)>>,
}

impl Trace {
    /// The points that the line joins, in the units of both scales.
    #[must_use]
    pub fn places(&self) -> Vec<(f64, f64)> {
        let marks = || self.marks.iter().map(|mark| (mark.x, mark.y)).collect();
        self.path.clone().unwrap_or_else(marks)
    }
}

/// A point.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// On the x scale; unused for bars and cells.
    pub x: f64,
    /// On the y scale, or on the scale of shades.
    pub y: f64,
    /// 95 % interval of `y`; where `y` is the median of several calls, the smallest and the largest of them.
    pub interval: Interval,
    /// True where it carries a flag that throws doubt on it.
    pub doubtful: bool,
    /// Coordinates and source, as text.
    pub place: String,
    /// Its figure with interval, number of samples and flags.
    pub figure: String,
    /// The number of its row within the section, counted over all cases and sources; `None` where it isn't one row of a series.
    pub row: Option<usize>,
}

/// A category of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Category {
    /// Its name.
    pub name: String,
    /// Its bars.
    pub bars: Vec<Bar>,
}

/// A bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Index of its label.
    pub label: usize,
    /// Its colour, which bars of other runs or devices share.
    pub hue: usize,
    /// The run or device: an index among the picture's sources.
    pub source: usize,
    /// Its figure.
    pub mark: Mark,
    /// The figure's unit; it differs from the scale's where the bar is a rate of integer operations.
    pub unit: Unit,
    /// Further text that tells it from others; may be empty.
    pub note: String,
    /// Published figures for the same point, each with the index of its owner among the picture's references.
    pub references: Vec<(usize, Mark)>,
}

/// Shades over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// Name of the axis along the bottom.
    pub x: String,
    /// Name of the axis along the left.
    pub y: String,
    /// Names of the columns, from the left.
    pub columns: Vec<String>,
    /// Names of the rows, from the bottom.
    pub rows: Vec<String>,
    /// The scale of the shades.
    pub value: Scale,
    /// The measured cells; some may be missing.
    pub cells: Vec<Cell>,
}

/// A cell of a heat map.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Index from the left.
    pub column: usize,
    /// Index from the bottom.
    pub row: usize,
    /// Its figure.
    pub mark: Mark,
}
