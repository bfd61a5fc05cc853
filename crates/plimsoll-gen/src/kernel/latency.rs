//! A pointer chase, and what builds its chain. Where chains lead is [`super::chain`]'s to say.

use super::{Grid, KernelDesc, Source};

/// Which cache a chase may find its lines in first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearest {
    /// Any.
    FirstLevel,
    /// The second level: the first is passed by.
    SecondLevel,
}

/// Builds a chain. n counts its elements.
#[must_use]
pub fn build() -> KernelDesc {
    let name = "latency_build".to_owned();
    KernelDesc {
        entry: format!("LATENCY_BUILD({name})"),
        parameters: &["base", "pages", "visits", "pitch", "seed", "n"],
        grid: Grid::Least { waves: 2 },
        looping: true,
        ..KernelDesc::new(Source::Latency, name, 256)
    }
}

/// Follows one, in one thread.
#[must_use]
pub fn chase(nearest: Nearest) -> KernelDesc {
    let (name, in_source) = match nearest {
        Nearest::FirstLevel => ("latency_chase", "FIRST_LEVEL"),
        Nearest::SecondLevel => ("latency_chase_past_l1", "SECOND_LEVEL"),
    };
    KernelDesc {
        entry: format!("LATENCY_CHASE({name}, {in_source})"),
        parameters: &["out", "cursor", "warm", "hops"],
        vector_bytes: 8,
        grid: Grid::Blocks(1),
        looping: true,
        ..KernelDesc::new(Source::Latency, name.to_owned(), 32)
    }
}

/// Every one.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![build(), chase(Nearest::FirstLevel), chase(Nearest::SecondLevel)]
}
