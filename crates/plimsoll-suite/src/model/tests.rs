use std::collections::BTreeMap;

use plimsoll_core::Traffic;
use plimsoll_core::model::{Cache, Description, Key, Kind, LaunchForm, Level, predict};

use super::*;

const MIB: u64 = 1 << 20;

/// x + 1, with so many bytes read and written together and 16 bytes per thread, like the article's kernels.
fn add_const(bytes: u64, cache: Cache) -> Description {
    Description {
        traffic: Traffic::new(bytes / 2, bytes / 2),
        footprint: bytes,
        cache,
        launch: LaunchForm::Stream,
        prefetched: false,
        signals: 0,
        blocks: (bytes / 2).div_ceil(16 * 256),
        threads: 256,
        resident: 8,
        in_flight: 16,
        instructions: BTreeMap::new(),
        serial_cycles: 0.0,
    }
}

/// Apparent bandwidth of a hot launch, bytes per second.
fn apparent_bandwidth(machine: &Machine, bytes: u64) -> f64 {
    bytes as f64 / predict(&add_const(bytes, Cache::Hot), machine).total.unwrap().value
}

#[test]
fn every_term_of_the_h200_is_measured() {
    let h200 = of_machine("H200").unwrap();
    let measured = |key: &Key| h200.terms.get(key).is_some_and(|term| !term.published);
    for form in LaunchForm::ALL {
        assert!(measured(&Key::Launch(form)), "{form}");
    }
    for pipe in plimsoll_core::model::Pipe::ALL {
        assert!(measured(&Key::Rate(pipe)), "{pipe}");
    }
    let predicted = predict(&add_const(MIB, Cache::Cold), &h200);
    assert_eq!(predicted.missing, []);
    assert!(!h200.has_published_terms(), "{:?}", h200.terms.iter().find(|(_, term)| term.published));
}

#[test]
fn machines_with_published_terms_are_marked_and_have_wider_intervals() {
    let width = |name: &str| {
        let machine = of_machine(name).unwrap();
        let total = predict(&add_const(1 << 30, Cache::Cold), &machine).total.unwrap_or_else(|| panic!("{name}"));
        assert_eq!(machine.has_published_terms(), name != "H200", "{name}");
        (total.interval.hi - total.interval.lo) / total.value
    };
    let measured = width("H200");
    for name in ["A100 40GB", "A100 80GB", "H100 PCIe", "H100 SXM", "L4", "A10", "V100"] {
        let published = width(name);
        assert!(published > 2.0 * measured && published > 0.05, "{name}: {published} and {measured}");
    }
}

#[test]
fn terms_that_nobody_published_are_listed_as_missing() {
    let a100 = of_machine("A100 40GB").unwrap();
    let missing = predict(&add_const(64 * MIB, Cache::Cold), &a100).missing;
    assert!(missing.iter().any(|missing| missing.kind == Kind::Dispatch), "{missing:?}");
    assert!(missing.iter().any(|missing| missing.key == Key::LatencyFull), "{missing:?}");
}

/// The article's plots: bf16 with 12 MiB appears slower than f32 with 24 MiB; with twice the elements it is the other way round.
#[test]
fn fixed_cost_and_l2_explain_why_bf16_and_f32_swap_on_the_a100() {
    let a100 = of_machine("A100 40GB").unwrap();
    let flips = |machine: &Machine| {
        let [bf16, f32, twice_bf16, twice_f32] = [12, 24, 24, 48].map(|mib| apparent_bandwidth(machine, mib * MIB));
        bf16 < f32 && twice_f32 < twice_bf16
    };
    assert!(flips(&a100));
    let predict_hot = |mib: u64| predict(&add_const(mib * MIB, Cache::Hot), &a100);
    // Up to 24 MiB nothing comes from memory, at 48 MiB everything does.
    assert!(predict_hot(12).part(Kind::Memory).is_none() && predict_hot(24).part(Kind::Memory).is_none());
    assert_eq!(predict_hot(48).limiter, Some(Kind::Memory));
    let share = |mib: u64| {
        let predicted = predict_hot(mib);
        predicted.part(Kind::Launch).unwrap().seconds.value / predicted.total.unwrap().value
    };
    assert!(share(12) > 0.4 && share(48) < 0.1, "{} {}", share(12), share(48));
}

/// The range of fixed costs for which the two types swap, and for which f32 with 24 MiB and bf16 with twice the elements appear
/// faster than memory's peak, as documented in `docs/model.md`.
#[test]
fn range_of_fixed_costs_for_the_swap_is_as_documented() {
    let a100 = of_machine("A100 40GB").unwrap();
    let bandwidths = |microseconds: f64| {
        let mut machine = a100.clone();
        let key = Key::Launch(LaunchForm::Stream);
        machine.terms.insert(key, plimsoll_core::model::Term::exact(microseconds * 1e-6, "assumed"));
        [12, 24, 24, 48].map(|mib| apparent_bandwidth(&machine, mib * MIB))
    };
    let peak = 1.555e12;
    let range_where = |condition: &dyn Fn([f64; 4]) -> bool| {
        let tenths: Vec<f64> = (1..400).map(|t| f64::from(t) / 10.0).filter(|t| condition(bandwidths(*t))).collect();
        [tenths[0], tenths[tenths.len() - 1]]
    };
    let flips = range_where(&|[bf16, f32, twice_bf16, twice_f32]| bf16 < f32 && twice_f32 < twice_bf16);
    let above_peak = range_where(&|[bf16, f32, twice_bf16, twice_f32]| {
        bf16 < peak && f32 > peak && twice_bf16 > peak && twice_f32 < peak
    });
    assert_eq!(flips, [0.1, 25.0]);
    assert_eq!(above_peak, [4.8, 9.5]);
}

#[test]
fn unknown_and_ambiguous_names_are_refused() {
    assert!(of_machine("no such card").is_err());
    assert!(of_machine("H100").is_err());
}

#[test]
fn profile_without_findings_gives_only_the_chips_terms() {
    let chip = Chip { multiprocessors: 10, clock_hz: 1e9, capability: 61 };
    let machine = of_profile("old", chip, &Profile::new("id", "old", "", ""));
    assert_eq!(machine.terms.len(), 2);
    let predicted = predict(&add_const(MIB, Cache::Cold), &machine);
    assert_eq!(predicted.total, None);
    assert!(predicted.missing.iter().any(|m| m.key == Key::Launch(LaunchForm::Stream)));
    assert!(predicted.missing.iter().any(|m| matches!(m.key, Key::Bandwidth(Level::Memory, _))));
}
