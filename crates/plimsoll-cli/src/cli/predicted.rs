//! The column `predicted` of `bench`: the model's prediction for each point, and the figures it lacks.

use std::path::Path;

use plimsoll::bench::{Cell, Line, Point};
use plimsoll::explain::{Forecast, Subject, forecasts};
use plimsoll::predict::Tools;
use plimsoll::predict::model::{Estimate, Missing};

use super::exit::say;
use super::predict;

/// With more points than this, instruction counts are estimated: compiling a sweep over plans would take minutes.
const MAX_COMPILED: usize = 24;

/// Forecasts by cell.
pub(super) struct Predicted(Vec<(Cell, Forecast)>);

impl Predicted {
    /// Forecasts for the points that are measured.
    pub(super) fn from_points(subject: &Subject, points: &[Point], nvrtc: Option<&Path>) -> Self {
        let (nvrtc, disassembler) = predict::tools(points.len() > MAX_COMPILED, nvrtc, None);
        let tools =
            nvrtc.as_ref().zip(disassembler.as_ref()).map(|(nvrtc, disassembler)| Tools { nvrtc, disassembler });
        let pairs = points.iter().zip(forecasts(subject, points, tools));
        Self(pairs.filter_map(|(point, forecast)| Some((point.cell.clone(), forecast?))).collect())
    }

    /// Whether there is anything to show.
    pub(super) fn has_any(&self) -> bool {
        self.0.iter().any(|(_, forecast)| forecast.prediction.total.is_some() || forecast.plan.is_some())
    }

    /// The predicted time of a measured point.
    pub(super) fn time(&self, line: &Line) -> Option<Estimate> {
        let matches = |cell: &Cell| {
            cell.coordinates() == line.cell.coordinates() && cell.cache.is_cold() == line.cell.cache.is_cold()
        };
        self.0.iter().find(|(cell, _)| matches(cell))?.1.prediction.total
    }

    /// Prints a note on why cells are blank or only lower bounds.
    pub(super) fn print_footnote(&self) {
        let mut missing: Vec<Missing> =
            self.0.iter().flat_map(|(_, forecast)| forecast.prediction.missing.clone()).collect();
        missing.sort_unstable();
        missing.dedup();
        if !self.has_any() || missing.is_empty() {
            return;
        }
        let listed: Vec<String> = missing.iter().map(|Missing { kind, key }| format!("{kind} ({key})")).collect();
        let rest = match self.0.iter().all(|(_, forecast)| forecast.prediction.total.is_some()) {
            true => "launches take at least the predicted time",
            false => "blank cells can't be predicted without them; `plimsoll measure` finds the figures",
        };
        say("note", &format!("predicted: left out because their figures are missing: {}; {rest}", listed.join(", ")));
    }
}
