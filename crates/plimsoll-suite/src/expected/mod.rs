//! What a headline figure should be on a device: an interval with its origin. Best known from cards of the same model that were
//! measured with plimsoll, else published for the model, else from a rule about its kind. Where nothing is known, nothing is
//! expected.

pub mod derive;
pub mod rules;
pub mod shipped;

use plimsoll_core::record::Finding;
use plimsoll_core::stats::Interval;

use crate::headlines::Figure;
use crate::{machines, references};

/// The range in which a figure of a healthy device lies.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The range, in the finding's unit.
    pub interval: Interval,
    /// Where it is from.
    pub origin: Origin,
    /// Ranges of the groups into which the measured cards fall; empty where they form one group.
    pub groups: Vec<Interval>,
}

/// The source of an expectation.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// Cards of this model, measured with plimsoll.
    Measured {
        /// The model.
        model: &'static str,
        /// The number of cards.
        cards: u32,
    },
    /// A figure that others published for this model.
    Published {
        /// The document or program.
        source: String,
    },
    /// A range of efficiency, known from related devices.
    Rule {
        /// The rule and what it is based on.
        source: String,
    },
}

impl Origin {
    /// One word for tables: `measured`, `published` or `rule`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Measured { .. } => "measured",
            Self::Published { .. } => "published",
            Self::Rule { .. } => "rule",
        }
    }

    /// The source in plain words.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Measured { model, cards: 1 } => format!("one {model} measured"),
            Self::Measured { model, cards } => format!("{cards} {model} cards measured"),
            Self::Published { source } | Self::Rule { source } => source.clone(),
        }
    }
}

/// Published figures are from another program on one card: how far a healthy card may be from one.
const PUBLISHED: f64 = 0.05;

/// What is expected of a figure on its device.
#[must_use]
pub fn expected(figure: &Figure<'_>) -> Option<Expected> {
    let measured = shipped::of_device(&figure.info.name).and_then(|model| model.expected(figure.headline.id));
    let mut known = measured.or_else(|| published(figure)).or_else(|| rules::apply(figure))?;
    if let Some(peak) = figure.peak() {
        known.interval.hi = known.interval.hi.min(peak);
        known.interval.lo = known.interval.lo.min(known.interval.hi);
    }
    Some(known)
}

fn published(figure: &Figure<'_>) -> Option<Expected> {
    let Finding { metric, name, unit, .. } = figure.finding;
    let is_same = |known: &&references::Reference| {
        known.probe == figure.probe.name
            && known.case == *name
            && known.metric == *metric
            && known.unit == *unit
            && known.x.is_none()
            && known.at.is_empty()
            && !known.is_theoretical()
            && known.lower_bound.is_none()
    };
    machines::find(&figure.info.name)?;
    let known = references::of_machine(&figure.info.name).find(is_same)?;
    let [lo, hi] = known.interval.unwrap_or([known.value; 2]);
    let interval = Interval { lo: lo * (1.0 - PUBLISHED), hi: hi * (1.0 + PUBLISHED) };
    Some(Expected { interval, origin: Origin::Published { source: known.source.clone() }, groups: Vec::new() })
}

/// The usual spread from run to run of a figure on one unchanged device, as a relative standard deviation: the model's own where it
/// is known, else the declared one.
#[must_use]
pub fn run_spread(figure: &Figure<'_>) -> f64 {
    let model = shipped::of_device(&figure.info.name);
    let own = model.and_then(|model| model.figure(figure.headline.id)).and_then(|figure| figure.known.run_spread);
    own.unwrap_or(figure.headline.spread)
}
