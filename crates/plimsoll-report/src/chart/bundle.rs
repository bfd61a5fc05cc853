//! Lines of one picture: which row belongs to which, what each is called, and what its colour and its dashes say. Lines
//! that share what the picture compares (the grid, the kernel) share a hue; dashes tell apart what is left: where the
//! data were, the other axes, or the run.

use std::collections::BTreeMap;

use plimsoll_core::series::Row;
use plimsoll_core::unit::Unit;

use super::{Mark, Trace};
use crate::content::{Case, Source, coordinate};
use crate::text::clean;

/// Dashes that can be told apart.
const DASHES: usize = 3;

/// Names numbered as they come: records may hold very many.
#[derive(Default)]
pub(super) struct Places(BTreeMap<String, usize>);

impl Places {
    pub fn of(&mut self, name: &str) -> usize {
        if let Some(&place) = self.0.get(name) {
            return place;
        }
        let place = self.0.len();
        self.0.insert(name.to_owned(), place);
        place
    }
}

/// What tells a row from others in the same picture: its source, and its place on each axis in `axes`.
pub(super) fn label(source: &Source<'_>, row: &Row, axes: &[usize]) -> String {
    let mut parts = coordinates(source, row, axes);
    if !source.label.is_empty() {
        parts.push(source.label.clone());
    }
    parts.join(", ")
}

/// A row's place on each of `axes`, as words.
pub(super) fn coordinates(source: &Source<'_>, row: &Row, axes: &[usize]) -> Vec<String> {
    let spec = &source.series.spec;
    axes.iter()
        .filter_map(|&place| {
            let (axis, value) = (spec.axes.get(place)?, row.at.get(place)?);
            let text = coordinate(&axis.unit, value);
            // A bare number doesn't say what it counts.
            let bare = value.number().is_some() && axis.unit == Unit::One;
            Some(if bare { format!("{} {text}", clean(&axis.name)) } else { text })
        })
        .collect()
}

/// What all sources of a picture are called; empty where they differ, and lines are called after them.
pub(super) fn shared_source<'c>(group: &[&'c Case<'_>]) -> &'c str {
    let first = &group[0].sources[0].label;
    let mut all = group.iter().flat_map(|case| &case.sources);
    if all.all(|source| source.label == *first) { first } else { "" }
}

/// What a line of one cache policy is called where the picture has several.
pub(super) fn beside_others(own: &str, policy: &str) -> String {
    if own.is_empty() { policy.to_owned() } else { format!("{own}, {policy}") }
}

/// Lines in the making.
pub(super) struct Bundle {
    apart: Vec<usize>,
    /// Axis whose values are hues.
    by: Option<usize>,
    /// Several cache policies: they are the dashes.
    policies: bool,
    /// Several sources: lines are called after them.
    sources: bool,
    lines: Vec<Trace>,
    places: Places,
    hues: Places,
    dashes: Places,
}

impl Bundle {
    /// `apart` are the axes on which rows of different lines differ, `by` the one that the picture is about.
    pub fn new(group: &[&Case<'_>], by: Option<usize>, apart: Vec<usize>) -> Self {
        let mut all = group.iter().flat_map(|case| &case.sources);
        let sources = !all.all(|source| source.label == group[0].sources[0].label);
        Self {
            by: by.filter(|by| apart.contains(by) && !sources),
            policies: group.len() > 1,
            sources,
            apart,
            lines: Vec::new(),
            places: Places::default(),
            hues: Places::default(),
            dashes: Places::default(),
        }
    }

    /// The marks of the line that a row belongs to.
    pub fn line_of(&mut self, source: &Source<'_>, row: &Row) -> &mut Vec<Mark> {
        let named = |axes: &[usize]| {
            if self.sources { label(source, row, axes) } else { coordinates(source, row, axes).join(", ") }
        };
        let own = named(&self.apart);
        let policy = source.series.spec.cache.name();
        let full = if self.policies { beside_others(&own, policy) } else { own.clone() };
        // One device measured twice has two lines of one label only where nothing tells the runs apart.
        let place = self.places.of(&format!("{full}\0{}", source.run));
        if place == self.lines.len() {
            let (hue, dash) = match self.by {
                _ if self.policies => (self.hues.of(&own), self.dashes.of(policy)),
                Some(by) => {
                    let rest: Vec<usize> = self.apart.iter().copied().filter(|axis| *axis != by).collect();
                    (self.hues.of(&named(&[by])), self.dashes.of(&named(&rest)))
                }
                None => (place, source.run),
            };
            self.lines.push(Trace { label: full, reference: false, hue, dash, marks: vec![], path: None });
        }
        &mut self.lines[place].marks
    }

    /// The lines, in the order they came. Hot and cold are the hues where few rows are told apart beside them; where there
    /// aren't enough dashes, each line has a hue of its own.
    pub fn traces(mut self) -> Vec<Trace> {
        let most = |of: fn(&Trace) -> usize| self.lines.iter().map(of).max().unwrap_or(0);
        let (hues, dashes) = (most(|line| line.hue), most(|line| line.dash));
        if self.policies && hues <= dashes {
            self.lines.iter_mut().for_each(|line| std::mem::swap(&mut line.hue, &mut line.dash));
        } else if dashes >= DASHES && (self.policies || self.by.is_some()) {
            for (place, line) in self.lines.iter_mut().enumerate() {
                (line.hue, line.dash) = (place, 0);
            }
        }
        self.lines
    }
}
