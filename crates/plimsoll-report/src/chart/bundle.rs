//! The lines of one picture: which row belongs to which line, and each line's label, hue and dashes. Lines that share the
//! coordinate that the picture compares (the grid, the kernel) share a hue; dashes distinguish the rest: the cache policy or the
//! other axes. Where runs or devices are overlaid, a hue stands for the series and the dashes for the run or device.

use std::collections::BTreeMap;

use plimsoll_core::series::Row;
use plimsoll_core::unit::Unit;

use super::{Mark, Trace};
use crate::content::{Case, Source, format_coordinate};
use crate::text::clean;

/// The number of dash patterns that are easy to distinguish.
const DASHES: usize = 3;

/// Numbers names in order of first use, in logarithmic time: records may hold very many.
#[derive(Default)]
pub(super) struct NameIndex(BTreeMap<String, usize>);

impl NameIndex {
    /// The number of a name; a new name gets the next one.
    pub fn index_of(&mut self, name: &str) -> usize {
        if let Some(&place) = self.0.get(name) {
            return place;
        }
        let place = self.0.len();
        self.0.insert(name.to_owned(), place);
        place
    }
}

/// A row's coordinates on `axes` and its source: what tells it from others in the picture.
pub(super) fn label(source: &Source<'_>, row: &Row, axes: &[usize]) -> String {
    let mut parts = coordinates(source, row, axes);
    if !source.label.is_empty() {
        parts.push(source.label.clone());
    }
    parts.join(", ")
}

/// A row's coordinates on `axes` as text.
pub(super) fn coordinates(source: &Source<'_>, row: &Row, axes: &[usize]) -> Vec<String> {
    let spec = &source.series.spec;
    axes.iter()
        .filter_map(|&place| {
            let (axis, value) = (spec.axes.get(place)?, row.at.get(place)?);
            let text = format_coordinate(&axis.unit, value);
            // A bare number doesn't say what it counts.
            let bare = value.number().is_some() && axis.unit == Unit::One;
            Some(if bare { format!("{} {text}", clean(&axis.name)) } else { text })
        })
        .collect()
}

/// The label that all sources of a picture share; empty where they differ, and the lines' labels name them.
pub(super) fn shared_source<'c>(group: &[&'c Case<'_>]) -> &'c str {
    let first = &group[0].sources[0].label;
    let mut all = group.iter().flat_map(|case| &case.sources);
    if all.all(|source| source.label == *first) { first } else { "" }
}

/// The label of a line where the picture has several cache policies.
pub(super) fn label_with_policy(own: &str, policy: &str) -> String {
    if own.is_empty() { policy.to_owned() } else { format!("{own}, {policy}") }
}

/// Collects marks into lines.
pub(super) struct LineSet {
    /// Axes on which rows of different lines differ.
    apart: Vec<usize>,
    /// Axis whose values determine the hue.
    by: Option<usize>,
    /// True where there are several cache policies, which determine the dashes.
    has_policies: bool,
    /// True where there are several sources, which labels name.
    has_sources: bool,
    lines: Vec<Trace>,
    line_indices: NameIndex,
    hues: NameIndex,
    dashes: NameIndex,
}

impl LineSet {
    /// `apart` are the axes on which rows of different lines differ, `by` the one that the picture compares.
    pub fn new(group: &[&Case<'_>], by: Option<usize>, apart: Vec<usize>) -> Self {
        let mut all = group.iter().flat_map(|case| &case.sources);
        let has_sources = !all.all(|source| source.label == group[0].sources[0].label);
        Self {
            by: by.filter(|by| apart.contains(by)),
            has_policies: group.len() > 1,
            has_sources,
            apart,
            lines: Vec::new(),
            line_indices: NameIndex::default(),
            hues: NameIndex::default(),
            dashes: NameIndex::default(),
        }
    }

    /// The marks of the line that a row belongs to.
    pub fn line_of(&mut self, source: &Source<'_>, row: &Row) -> &mut Vec<Mark> {
        let describe = |axes: &[usize]| {
            if self.has_sources { label(source, row, axes) } else { coordinates(source, row, axes).join(", ") }
        };
        let own = describe(&self.apart);
        let policy = source.series.spec.cache.name();
        let with_policy = |own: &str| if self.has_policies { label_with_policy(own, policy) } else { own.to_owned() };
        let full = with_policy(&own);
        let series = with_policy(&coordinates(source, row, &self.apart).join(", "));
        let name = if self.has_sources { source.label.clone() } else { String::new() };
        // Runs whose labels are equal still get separate lines.
        let place = self.line_indices.index_of(&format!("{full}\0{}", source.run));
        if place == self.lines.len() {
            let (hue, dash) = match self.by {
                _ if self.has_sources => {
                    (self.hues.index_of(&series), self.dashes.index_of(&format!("{name}\0{}", source.run)))
                }
                _ if self.has_policies => (self.hues.index_of(&own), self.dashes.index_of(policy)),
                Some(by) => {
                    let rest: Vec<usize> = self.apart.iter().copied().filter(|axis| *axis != by).collect();
                    (self.hues.index_of(&describe(&[by])), self.dashes.index_of(&describe(&rest)))
                }
                None => (place, source.run),
            };
            let (source, reference) = (name, false);
            self.lines.push(Trace { label: full, series, source, reference, hue, dash, marks: vec![], path: None });
        }
        &mut self.lines[place].marks
    }

    /// The lines in order of first use. Hues and dashes are swapped where there are at least as many cache policies as other
    /// kinds of lines; where there are too few dash patterns, each line has its own hue. Overlaid runs keep theirs.
    pub fn into_traces(mut self) -> Vec<Trace> {
        let most = |attribute: fn(&Trace) -> usize| self.lines.iter().map(attribute).max().unwrap_or(0);
        let (hues, dashes) = (most(|line| line.hue), most(|line| line.dash));
        if self.has_sources {
            return self.lines;
        }
        if self.has_policies && hues <= dashes {
            self.lines.iter_mut().for_each(|line| std::mem::swap(&mut line.hue, &mut line.dash));
        } else if dashes >= DASHES && (self.has_policies || self.by.is_some()) {
            for (place, line) in self.lines.iter_mut().enumerate() {
                (line.hue, line.dash) = (place, 0);
            }
        }
        self.lines
    }
}
