//! The expectations that are shipped: one file per model, made by `cargo xtask profiles` from this repository's records.

use std::sync::OnceLock;

use plimsoll_core::unit::Unit;
use serde::{Deserialize, Serialize};

use super::derive::Derived;
use super::{Expected, Origin};
use crate::machines;

/// The shipped files. A test reads each of them.
const FILES: &[&str] = &[include_str!("../../expected/h200.json")];

/// What to expect of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// The catalogue's name.
    pub machine: String,
    /// The number of cards measured.
    pub cards: u32,
    /// Its headline figures.
    pub figures: Vec<ModelFigure>,
}

/// What to expect of one headline of a model; numbers in `unit`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelFigure {
    /// The headline's id.
    pub id: String,
    /// A base unit.
    pub unit: Unit,
    /// The number of cards with this figure.
    pub cards: u32,
    /// The number of runs on all cards.
    pub runs: u32,
    /// What its cards show.
    #[serde(flatten)]
    pub known: Derived,
}

impl Model {
    /// What is known of a headline.
    #[must_use]
    pub fn figure(&self, id: &str) -> Option<&ModelFigure> {
        self.figures.iter().find(|figure| figure.id == id)
    }

    /// What to expect of a headline.
    #[must_use]
    pub fn expected(&self, id: &str) -> Option<Expected> {
        let figure = self.figure(id)?;
        let model = machines::find(&self.machine)?.name;
        let origin = Origin::Measured { model, cards: figure.cards };
        Some(Expected { interval: figure.known.interval, origin, groups: figure.known.groups.clone() })
    }
}

/// Every shipped model.
pub fn models() -> &'static [Model] {
    static READ: OnceLock<Vec<Model>> = OnceLock::new();
    // A test reads every file; a build with a damaged one expects nothing rather than fail.
    READ.get_or_init(|| FILES.iter().filter_map(|text| serde_json::from_str(text).ok()).collect())
}

/// The shipped model of a device, by the name that its driver reports.
#[must_use]
pub fn of_device(name: &str) -> Option<&'static Model> {
    let machine = machines::find(name)?;
    models().iter().find(|model| model.machine == machine.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_file_is_read_and_its_ranges_hold_the_typical_card() {
        assert_eq!(models().len(), FILES.len());
        for figure in models().iter().flat_map(|model| &model.figures) {
            assert!(figure.known.interval.contains(figure.known.typical), "{figure:?}");
            assert!(figure.cards > 0 && figure.runs >= figure.cards, "{figure:?}");
            let spreads = [figure.known.card_spread, figure.known.run_spread];
            assert!(spreads.into_iter().flatten().all(|spread| (0.0..0.5).contains(&spread)), "{figure:?}");
        }
        assert!(models().iter().all(|model| machines::machine(&model.machine).is_ok()));
    }

    #[test]
    fn every_shipped_file_is_written_as_it_was_read() {
        for text in FILES {
            let model: Model = serde_json::from_str(text).unwrap();
            assert_eq!(format!("{}\n", serde_json::to_string_pretty(&model).unwrap()), *text);
        }
    }

    #[test]
    fn models_are_found_by_a_drivers_name() {
        assert_eq!(of_device("NVIDIA H200").unwrap().machine, "H200");
        assert_eq!(of_device("no such card"), None);
    }
}
