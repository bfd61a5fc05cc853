//! How much healthy devices of one model differ in a headline figure: the prior scale of the [rule](super::rule).

use crate::expected::derive::ASSUMED_SPREAD;
use crate::expected::shipped;

/// The spread of a figure from card to card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Relative standard deviation.
    pub share: f64,
    /// Where it is from.
    pub source: Source,
}

/// The source of a spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The model's own cards, from its shipped file.
    Model,
    /// Cards of the H200, rounded up.
    Declared,
    /// Nothing is known of this figure.
    Assumed,
}

impl Source {
    /// The source in plain words.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Model => "cards of this model",
            Self::Declared => "cards of the H200",
            Self::Assumed => "assumed",
        }
    }
}

/// Spreads for models without a shipped file: those of 3 to 12 cards of the H200 (`expected/h200.json`), rounded up, because a fleet
/// of another model may differ more. A prior that is too wide finds less in small fleets; one that is too narrow accuses healthy cards.
const DECLARED: [(&str, f64); 14] = [
    ("memory-write", 0.0015),
    ("memory-read", 0.009),
    ("memory-copy", 0.006),
    ("memory-triad", 0.007),
    ("latency-memory", 0.02),
    ("latency-l1", 0.002),
    ("latency-l2", 0.015),
    ("l2-read", 0.01),
    ("host-to-device", 0.007),
    ("device-to-host", 0.003),
    ("fma-f32", 0.005),
    ("fma-f64", 0.005),
    ("tensor-bf16", 0.02),
    ("tensor-f8", 0.02),
];
/// Healthy devices never differ by less: the engine promises no more.
const LEAST: f64 = 0.0005;

/// The spread of a headline among healthy devices that call themselves `name`. CPUs and simulated devices have none declared.
#[must_use]
pub fn find_spread(name: &str, backend: &str, id: &str) -> Spread {
    let model = shipped::of_device(name).and_then(|model| model.figure(id));
    let own = model.and_then(|figure| {
        let card = figure.known.card_spread?;
        Some(card.max(figure.known.run_spread.unwrap_or(0.0)))
    });
    if let Some(share) = own {
        return Spread { share: share.max(LEAST), source: Source::Model };
    }
    let declared = DECLARED.iter().find(|(known, _)| *known == id).filter(|_| backend != "cpu");
    match declared {
        Some((_, share)) => Spread { share: *share, source: Source::Declared },
        None => Spread { share: ASSUMED_SPREAD, source: Source::Assumed },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_own_cards_come_before_declared_and_assumed_spreads() {
        let find = |name, id| find_spread(name, "cuda", id);
        assert_eq!(find("NVIDIA H200", "memory-read"), Spread { share: 0.008914, source: Source::Model });
        assert_eq!(find("NVIDIA L40", "memory-read"), Spread { share: 0.009, source: Source::Declared });
        assert_eq!(find("NVIDIA L40", "launch"), Spread { share: 0.02, source: Source::Assumed });
        assert_eq!(find_spread("Some CPU", "cpu", "memory-read").source, Source::Assumed);
    }

    #[test]
    fn every_declared_spread_is_at_least_that_of_the_cards_it_is_from() {
        for (id, declared) in DECLARED {
            let own = find_spread("NVIDIA H200", "cuda", id);
            assert!(own.source == Source::Model && declared >= own.share, "{id}: {declared} {own:?}");
        }
    }
}
