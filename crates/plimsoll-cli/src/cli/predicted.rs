//! The column `predicted` of `bench`: what the model expects of each point, and what it lacks for that.

use std::path::Path;

use plimsoll::bench::{Cell, Line, Point};
use plimsoll::explain::{Forecast, Subject, forecasts};
use plimsoll::predict::Tools;
use plimsoll::predict::model::{Estimate, Missing};

use super::exit::say;
use super::predict;

/// More kernels than this are not compiled for their counts of instructions: a sweep over plans would take minutes.
const MOST_COMPILED: usize = 24;

/// Predictions by point.
pub(super) struct Predicted(Vec<(Cell, Forecast)>);

impl Predicted {
    /// For points as they are measured.
    pub(super) fn of(subject: &Subject, points: &[Point], nvrtc: Option<&Path>) -> Self {
        let (nvrtc, disassembler) = predict::tools(points.len() > MOST_COMPILED, nvrtc, None);
        let tools =
            nvrtc.as_ref().zip(disassembler.as_ref()).map(|(nvrtc, disassembler)| Tools { nvrtc, disassembler });
        let found = points.iter().zip(forecasts(subject, points, tools));
        Self(found.filter_map(|(point, forecast)| Some((point.cell.clone(), forecast?))).collect())
    }

    /// Whether there is anything to show.
    pub(super) fn any(&self) -> bool {
        self.0.iter().any(|(_, forecast)| forecast.prediction.total.is_some() || forecast.plan.is_some())
    }

    /// What was expected of a measured point.
    pub(super) fn time(&self, line: &Line) -> Option<Estimate> {
        let is = |cell: &Cell| cell.at() == line.cell.at() && cell.cache.is_cold() == line.cell.cache.is_cold();
        self.0.iter().find(|(cell, _)| is(cell))?.1.prediction.total
    }

    /// Why cells are blank, or bounds.
    pub(super) fn footnote(&self) {
        let mut missing: Vec<Missing> = self.0.iter().flat_map(|(_, found)| found.prediction.missing.clone()).collect();
        missing.sort_unstable();
        missing.dedup();
        if !self.any() || missing.is_empty() {
            return;
        }
        let listed: Vec<String> = missing.iter().map(|Missing { kind, key }| format!("{kind} ({key})")).collect();
        let rest = match self.0.iter().all(|(_, found)| found.prediction.total.is_some()) {
            true => "launches take at least what is predicted",
            false => "what is blank can't be predicted without them; `plimsoll measure` finds them",
        };
        say("note", &format!("predicted: left out for want of a figure: {}; {rest}", listed.join(", ")));
    }
}
