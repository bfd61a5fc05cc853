//! Simulated `digest`: a digest for each kind of arithmetic, the same on every core unless the scenario says otherwise.

use std::collections::BTreeMap;

use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_core::series::{Axes as _, Value};
use plimsoll_probes::digest::{self, ALIKE, DIGEST, Kind, Place, SPEC, describe_difference, percent_alike};

use super::{LAUNCH_SECONDS, PlanInput, Planned, Simulated};
use crate::device::Job;
use crate::machine::CORES;
use crate::scenario::Scenario;

pub(super) static PROBE: Simulated = Simulated { spec: &SPEC, kernels: &["digest"], sweeps: &[sweep] };

/// Words of the simulated work of a core.
const WORDS: u32 = 1000;

fn sweep(input: &PlanInput<'_>) -> Planned {
    let points = Kind::ALL.into_iter().flat_map(|kind| {
        let digests = digests(input.scenario, kind);
        digests.clone().into_iter().map(move |(core, digest)| {
            let extra = [Some((DIGEST, f64::from(digest))), Some((ALIKE, percent_alike(digest, &digests)))];
            let job = Job { allocate: 0, seconds: LAUNCH_SECONDS, work: Work::default(), extra };
            (Place { kind, multiprocessor: core.into() }, job)
        })
    });
    Planned { find_wrong, ..Planned::new(digest::digests(), 1.0, Flags::NONE, points.collect()) }
}

fn find_wrong(scenario: &Scenario, at: &[Value]) -> Option<String> {
    let place = Place::from_values(at)?;
    let digests = digests(scenario, place.kind);
    describe_difference(place, &digests)
}

/// The digest of each core: of the words of a linear congruential generator; a fault flips a bit of one word.
fn digests(scenario: &Scenario, kind: Kind) -> BTreeMap<u64, u32> {
    let run = |core: u32| {
        let is_wrong = match kind {
            Kind::Integer => scenario.wrong_sm == Some(core.into()),
            Kind::Special => scenario.wrong_digest,
            _ => false,
        };
        let next = |(word, digest): (u32, u32), step: u32| {
            let word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let flip = u32::from(is_wrong && step == WORDS / 2);
            (word, (digest ^ word ^ flip).rotate_left(5).wrapping_mul(0x9e37_79b1))
        };
        (u64::from(core), (0..WORDS).fold((kind as u32, 0), next).1)
    };
    (0..CORES).map(run).collect()
}
