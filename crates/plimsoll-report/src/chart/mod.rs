//! Pictures before they are drawn: which points lie where, on which scale, under which label. A terminal and an SVG show
//! the same chart; neither looks at a series itself.

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

/// Hues before they repeat.
pub(crate) const HUES: usize = 8;

/// A picture of one series, or of several that differ only by where the data were, from all their sources.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Probe and case.
    pub title: String,
    /// What kind of figure, and where the data were.
    pub note: String,
    /// What is drawn.
    pub plot: Plot,
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Plot {
    /// y over x.
    Lines {
        /// Along the bottom.
        x: Scale,
        /// Along the left.
        y: Scale,
        /// What the figures are to be held against.
        levels: Vec<Level>,
        /// What the figures show: where a cache ends, what a flat part is called, a fit.
        guides: Vec<Guide>,
        /// Lines; those of references first, so that they lie behind.
        traces: Vec<Trace>,
    },
    /// Bars from zero.
    Bars {
        /// Their length.
        y: Scale,
        /// Categories in order, each with its bars.
        categories: Vec<Category>,
        /// What the colours mean; one empty label where there is nothing to tell apart.
        labels: Vec<String>,
        /// Whose published figures are marked on the bars.
        references: Vec<String>,
    },
    /// Shades over two axes.
    Heat(Heat),
}

/// A yardstick across a whole picture: a peak, a ceiling.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// On the y scale.
    pub value: f64,
    /// What it is, with its figure.
    pub label: String,
    /// Where it comes from.
    pub source: String,
}

/// What a picture's figures show, or what bounds them, told where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Guide {
    /// Where it lies.
    pub form: Form,
    /// What it is, with its figure.
    pub label: String,
    /// Where it comes from.
    pub source: String,
}

/// Where a guide lies, in the units of both scales.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// Upright at this x: where a cache ends, where a ridge is.
    Upright(f64),
    /// y = this · x, up to the highest level: a ceiling of what goes in proportion to x.
    Slope(f64),
    /// The flat part of a curve: it is named, and no line is drawn.
    Plateau {
        /// Its first x.
        from: f64,
        /// Its last x.
        to: f64,
        /// Its y.
        value: f64,
    },
    /// A curve laid through the marks of one line.
    Fit {
        /// That line's hue.
        hue: usize,
        /// Its dashes.
        dash: usize,
        /// Places along it, from the left.
        path: Vec<(f64, f64)>,
    },
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// What tells it from the others; empty where there is only one.
    pub label: String,
    /// A reference, drawn faint behind.
    pub reference: bool,
    /// Lines of one hue have something in common: the kernel, the grid. References have none.
    pub hue: usize,
    /// What tells lines of one hue apart, or runs: dashes and the shape of the marks.
    pub dash: usize,
    /// In drawing order.
    pub marks: Vec<Mark>,
    /// Where the line goes, if not from mark to mark: along the best of marks that share an x.
    pub path: Option<Vec<(f64, f64)>>,
}

impl Trace {
    /// The places that the line joins, in the units of both scales.
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
    /// On the y scale (or the shade's).
    pub y: f64,
    /// 95 % interval of `y`; where `y` stands for several calls, the least and the most of them.
    pub interval: Interval,
    /// Carries a flag that throws doubt on it.
    pub doubtful: bool,
    /// Where it is: label and coordinates.
    pub place: String,
    /// Its figure with interval, number of samples and flags.
    pub figure: String,
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
    /// Place of its label.
    pub label: usize,
    /// Its figure.
    pub mark: Mark,
    /// What the figure is counted in: of whole numbers another unit than the scale's.
    pub unit: Unit,
    /// What else tells it from others; empty where nothing does.
    pub note: String,
    /// Published figures of the same, each with the place of its label among the picture's references.
    pub references: Vec<(usize, Mark)>,
}

/// Shades over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// Name of the axis along the bottom.
    pub x: String,
    /// Name of the axis along the left.
    pub y: String,
    /// Columns from the left.
    pub columns: Vec<String>,
    /// Rows from the bottom.
    pub rows: Vec<String>,
    /// The shade.
    pub value: Scale,
    /// What was measured; cells may be missing.
    pub cells: Vec<Cell>,
}

/// A cell of a heat map.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// From the left.
    pub column: usize,
    /// From the bottom.
    pub row: usize,
    /// Its figure.
    pub mark: Mark,
}
