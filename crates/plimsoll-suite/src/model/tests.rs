use std::collections::BTreeMap;

use plimsoll_core::Traffic;
use plimsoll_core::model::{Cache, Description, Key, Kind, LaunchForm, Level, predict};

use super::*;

const MIB: u64 = 1 << 20;

/// x + 1 over as many bytes in and out together, with 16 bytes a thread as the article's kernels have.
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

/// Bytes per second that a launch of so many bytes seems to reach.
fn seems(machine: &Machine, bytes: u64) -> f64 {
    bytes as f64 / predict(&add_const(bytes, Cache::Hot), machine).total.unwrap().value
}

#[test]
fn the_h200_has_every_term_from_its_own_measurements() {
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
    assert!(!h200.published(), "{:?}", h200.terms.iter().find(|(_, term)| term.published));
}

#[test]
fn machines_known_from_publications_say_so_and_have_wider_intervals() {
    let width = |name: &str| {
        let machine = of_machine(name).unwrap();
        let total = predict(&add_const(1 << 30, Cache::Cold), &machine).total.unwrap_or_else(|| panic!("{name}"));
        assert_eq!(machine.published(), name != "H200", "{name}");
        (total.interval.hi - total.interval.lo) / total.value
    };
    let measured = width("H200");
    for name in ["A100 40GB", "A100 80GB", "H100 PCIe", "H100 SXM", "L4", "A10", "V100"] {
        let published = width(name);
        assert!(published > 2.0 * measured && published > 0.05, "{name}: {published} and {measured}");
    }
}

#[test]
fn what_nobody_published_is_named() {
    let a100 = of_machine("A100 40GB").unwrap();
    let missing = predict(&add_const(64 * MIB, Cache::Cold), &a100).missing;
    assert!(missing.iter().any(|missing| missing.kind == Kind::Dispatch), "{missing:?}");
    assert!(missing.iter().any(|missing| missing.key == Key::LatencyFull), "{missing:?}");
}

/// The article's plots: with 12 MiB moved bf16 seems slower than f32 with 24 MiB; at twice the elements the roles flip.
#[test]
fn the_puzzle_of_the_a100_is_the_fixed_cost_and_the_second_level() {
    let a100 = of_machine("A100 40GB").unwrap();
    let flips = |machine: &Machine| {
        let [bf16, f32, twice_bf16, twice_f32] = [12, 24, 24, 48].map(|mib| seems(machine, mib * MIB));
        bf16 < f32 && twice_f32 < twice_bf16
    };
    assert!(flips(&a100));
    let limiter = |mib: u64| predict(&add_const(mib * MIB, Cache::Hot), &a100);
    // Up to 24 MiB nothing comes from memory, at 48 MiB everything does.
    assert!(limiter(12).part(Kind::Memory).is_none() && limiter(24).part(Kind::Memory).is_none());
    assert_eq!(limiter(48).limiter, Some(Kind::Memory));
    let share = |mib: u64| {
        let predicted = limiter(mib);
        predicted.part(Kind::Launch).unwrap().seconds.value / predicted.total.unwrap().value
    };
    assert!(share(12) > 0.4 && share(48) < 0.1, "{} {}", share(12), share(48));
}

/// How large the fixed cost may be for the roles to flip, and for f32 alone to seem faster than the memory's peak: the
/// range that `docs/model.md` states.
#[test]
fn the_range_of_the_fixed_cost_in_which_the_roles_flip_is_the_documented_one() {
    let a100 = of_machine("A100 40GB").unwrap();
    let with = |microseconds: f64| {
        let mut machine = a100.clone();
        let key = Key::Launch(LaunchForm::Stream);
        machine.terms.insert(key, plimsoll_core::model::Term::exact(microseconds * 1e-6, "assumed"));
        [12, 24, 24, 48].map(|mib| seems(&machine, mib * MIB))
    };
    let peak = 1.555e12;
    let holds = |of: &dyn Fn([f64; 4]) -> bool| {
        let tenths: Vec<f64> = (1..400).map(|t| f64::from(t) / 10.0).filter(|t| of(with(*t))).collect();
        [tenths[0], tenths[tenths.len() - 1]]
    };
    let flips = holds(&|[bf16, f32, twice_bf16, twice_f32]| bf16 < f32 && twice_f32 < twice_bf16);
    let above_peak =
        holds(&|[bf16, f32, twice_bf16, twice_f32]| bf16 < peak && f32 > peak && twice_bf16 > peak && twice_f32 < peak);
    assert_eq!(flips, [0.1, 25.0]);
    assert_eq!(above_peak, [4.8, 9.5]);
}

#[test]
fn a_name_that_means_no_machine_is_refused() {
    assert!(of_machine("no such card").is_err());
    assert!(of_machine("H100").is_err());
}

#[test]
fn a_profile_without_findings_leaves_the_chip_alone() {
    let chip = Chip { multiprocessors: 10, clock_hz: 1e9, capability: 61 };
    let machine = of_profile("old", chip, &Profile::new("id", "old", "", ""));
    assert_eq!(machine.terms.len(), 2);
    let predicted = predict(&add_const(MIB, Cache::Cold), &machine);
    assert_eq!(predicted.total, None);
    assert!(predicted.missing.iter().any(|m| m.key == Key::Launch(LaunchForm::Stream)));
    assert!(predicted.missing.iter().any(|m| matches!(m.key, Key::Bandwidth(Level::Memory, _))));
}
