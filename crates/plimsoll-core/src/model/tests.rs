use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::Traffic;
use crate::stats::Interval;

fn term(value: f64, spread: f64) -> Term {
    let interval = Interval { lo: value * (1.0 - spread), hi: value * (1.0 + spread) };
    Term { value, interval, source: "test".to_owned(), published: false }
}

/// A machine of round numbers: 100 SMs at 1 GHz, memory of 1 TB/s at 1:1, L2 of 4 TB/s and 40 MB.
fn machine(spread: f64) -> Machine {
    let mut machine = Machine::new("round");
    let mix = |read, written| Mix { read, written };
    for (key, value) in [
        (Key::Multiprocessors, 100.0),
        (Key::Clock, 1e9),
        (Key::Launch(LaunchForm::Graph), 1e-6),
        (Key::Latency(Level::L2), 2e-7),
        (Key::Latency(Level::Memory), 5e-7),
        (Key::LatencyHalf, 6e-7),
        (Key::LatencyFull, 1e-6),
        (Key::Bandwidth(Level::L2, mix(1, 1)), 4e12),
        (Key::Bandwidth(Level::Memory, mix(1, 0)), 2e12),
        (Key::Bandwidth(Level::Memory, mix(1, 1)), 1e12),
        (Key::OneMultiprocessor, 2e11),
        (Key::BlocksPerClock, 1.0),
        (Key::Rate(Pipe::Issue), 4.0),
        (Key::Rate(Pipe::Mufu), 0.5),
        (Key::L2Full, 2e7),
        (Key::L2Capacity, 4e7),
    ] {
        machine.insert(key, term(value, if key == Key::Multiprocessors { 0.0 } else { spread }));
    }
    machine
}

fn copy(bytes: u64) -> Description {
    Description {
        traffic: Traffic::new(bytes / 2, bytes / 2),
        footprint: bytes,
        cache: Cache::Cold,
        launch: LaunchForm::Graph,
        prefetched: false,
        signals: 0,
        blocks: (bytes / 2).div_ceil(4096),
        threads: 256,
        resident: 8,
        in_flight: 16,
        instructions: BTreeMap::new(),
        serial_cycles: 0.0,
    }
}

fn is_near(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 0.02
}

#[test]
fn memory_limits_a_large_copy_and_the_launch_a_small_one() {
    let large = predict(&copy(1 << 32), &machine(0.0));
    assert_eq!(large.limiter, Some(Kind::Memory));
    // The launch and latencies add 1.3 µs; L2, dispatch and loads in flight are far shorter.
    assert!(is_near(large.total.unwrap().value, 4.295e-3), "{large:?}");
    let small = predict(&copy(8192), &machine(0.0));
    assert_eq!(small.limiter, Some(Kind::Launch));
    assert!(is_near(small.part(Kind::Latency).unwrap().seconds.value, 3e-7));
    assert!(is_near(small.total.unwrap().value, 1.3e-6 + 4e-8), "{small:?}");
}

#[test]
fn a_hot_copy_takes_memory_time_only_for_the_share_that_misses_in_l2() {
    let hot = |bytes| predict(&Description { cache: Cache::Hot, ..copy(bytes) }, &machine(0.0));
    let inside = hot(16_000_000);
    assert_eq!((inside.part(Kind::Memory), inside.part(Kind::Latency)), (None, None));
    assert_eq!(inside.limiter, Some(Kind::L2));
    let between = hot(30_000_000).part(Kind::Memory).unwrap().seconds.value;
    assert!(is_near(between, 0.5 * 30e-6), "{between}");
    assert!(is_near(hot(80_000_000).part(Kind::Memory).unwrap().seconds.value, 80e-6));
}

#[test]
fn between_two_known_mixes_time_per_byte_is_interpolated() {
    let triad = Description { traffic: Traffic::new(3 << 30, 1 << 30), ..copy(1 << 32) };
    let seconds = predict(&triad, &machine(0.0)).part(Kind::Memory).unwrap().seconds.value;
    // A written share of a quarter lies half-way between 0.5 and 1 ps per byte.
    assert!(is_near(seconds, 4.295e9 * 0.75e-12), "{seconds}");
}

#[test]
fn few_loads_in_flight_small_blocks_and_a_single_block_are_limiters() {
    let few = Description { in_flight: 1, ..copy(1 << 30) };
    assert_eq!(predict(&few, &machine(0.0)).limiter, Some(Kind::InFlight));
    let small = Description { blocks: 1 << 22, ..copy(1 << 30) };
    assert_eq!(predict(&small, &machine(0.0)).limiter, Some(Kind::Dispatch));
    let dispatch = |launch: &Description| predict(launch, &machine(0.0)).part(Kind::Dispatch).unwrap().seconds.value;
    let signalling = Description { signals: small.blocks, ..small.clone() };
    assert!(is_near(dispatch(&signalling), 2.0 * dispatch(&small)));
    let single = Description { blocks: 1, ..copy(1 << 20) };
    assert_eq!(predict(&single, &machine(0.0)).limiter, Some(Kind::Busiest));
}

#[test]
fn instructions_are_limited_by_their_pipe() {
    let instructions = BTreeMap::from([(Pipe::Issue, 4e9), (Pipe::Mufu, 1e9)]);
    let heavy = Description { instructions, serial_cycles: 1e6, blocks: 1_000_000, ..copy(1 << 20) };
    let predicted = predict(&heavy, &machine(0.0));
    // 10⁹ warp instructions on 100 SMs, one per two clocks of 1 ns.
    assert_eq!(predicted.limiter, Some(Kind::Pipe(Pipe::Mufu)));
    assert!(is_near(predicted.part(Kind::Pipe(Pipe::Mufu)).unwrap().seconds.value, 0.02));
    assert!(is_near(predicted.part(Kind::Pipe(Pipe::Issue)).unwrap().seconds.value, 0.01));
    assert!(is_near(predicted.part(Kind::Serial).unwrap().seconds.value, 1e-3));
}

#[test]
fn a_pipe_that_lengthens_the_launch_is_the_limiter_even_if_the_bytes_alone_take_longer() {
    let predict_with = |share: f64| {
        // Memory takes 1.07 ms for 1 GiB; instructions that take this share of it on 100 SMs at four per nanosecond.
        let instructions = BTreeMap::from([(Pipe::Issue, share * 1.074e-3 * 400e9)]);
        predict(&Description { instructions, ..copy(1 << 30) }, &machine(0.0))
    };
    assert_eq!(predict_with(0.5).limiter, Some(Kind::Memory));
    let heavy = predict_with(0.85);
    assert_eq!(heavy.limiter, Some(Kind::Pipe(Pipe::Issue)));
    let without = heavy.without(|kind| matches!(kind, Kind::Pipe(_))).unwrap();
    assert!(is_near(without, predict_with(0.0).total.unwrap().value) && heavy.total.unwrap().value > 1.03 * without);
}

#[test]
fn unknown_figures_are_listed_as_missing_and_never_guessed() {
    let mut machine = machine(0.0);
    machine.terms.remove(&Key::BlocksPerClock);
    let predicted = predict(&copy(1 << 30), &machine);
    assert_eq!(predicted.missing, [Missing { kind: Kind::Dispatch, key: Key::BlocksPerClock }]);
    assert!(predicted.total.is_some() && predicted.part(Kind::Dispatch).is_none());
    machine.terms.remove(&Key::Launch(LaunchForm::Graph));
    assert_eq!(predict(&copy(1 << 30), &machine).total, None);
    let nothing = predict(&copy(1 << 30), &Machine::new("unknown"));
    assert_eq!((nothing.total, nothing.parts.len()), (None, 0));
    assert!(nothing.missing.iter().any(|missing| missing.kind == Kind::Memory));
}

#[test]
fn figures_that_are_not_positive_and_finite_are_ignored() {
    let mut machine = Machine::new("odd");
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        machine.insert(Key::Clock, term(value, 0.1));
    }
    assert!(machine.terms.is_empty());
}

#[test]
fn predictions_round_trip_through_json() {
    let predicted = predict(&copy(1 << 24), &machine(0.05));
    let text = serde_json::to_string(&predicted).unwrap();
    assert_eq!(serde_json::from_str::<Prediction>(&text).unwrap(), predicted);
}

proptest! {
    #[test]
    fn more_bytes_never_take_less_time(bytes in 0_u64..1 << 34, more in 0_u64..1 << 33, hot: bool) {
        let seconds = |bytes: u64| {
            let cache = if hot { Cache::Hot } else { Cache::Cold };
            predict(&Description { cache, ..copy(bytes) }, &machine(0.0)).total.unwrap().value
        };
        prop_assert!(seconds(bytes) <= seconds(bytes + more) * (1.0 + 1e-9));
    }

    #[test]
    fn intervals_contain_their_value_and_widen_with_the_machine_s(bytes in 1_u64..1 << 34, spread in 0.0..0.5_f64, threads in 1_u32..1024, hot: bool) {
        let cache = if hot { Cache::Hot } else { Cache::Cold };
        let description = Description { cache, threads, ..copy(bytes) };
        let [narrow, wide] = [spread / 2.0, spread].map(|spread| predict(&description, &machine(spread)));
        for part in &wide.parts {
            prop_assert!(part.seconds.interval.lo <= part.seconds.value && part.seconds.value <= part.seconds.interval.hi);
        }
        let (narrow, wide) = (narrow.total.unwrap(), wide.total.unwrap());
        prop_assert!(wide.interval.lo <= narrow.interval.lo * (1.0 + 1e-9));
        prop_assert!(narrow.interval.hi <= wide.interval.hi * (1.0 + 1e-9));
        prop_assert!(narrow.interval.lo <= narrow.value && narrow.value <= narrow.interval.hi);
    }

    #[test]
    fn any_launch_has_a_positive_total_without_panic(read: u64, written: u64, blocks: u64, threads: u32, resident: u32, in_flight: u32) {
        let description = Description { traffic: Traffic::new(read, written), blocks, threads, resident, in_flight, ..copy(0) };
        let total = predict(&description, &machine(0.1)).total.unwrap();
        prop_assert!(total.value > 0.0 && !total.value.is_nan());
    }
}

#[test]
fn a_measured_cold_launch_replaces_the_latency_of_memory() {
    let mut machine = machine(0.0);
    machine.insert(Key::ColdLaunch(LaunchForm::Graph), term(1.4e-6, 0.0));
    let cold = predict(&copy(8192), &machine);
    assert!(is_near(cold.part(Kind::Launch).unwrap().seconds.value, 1e-6));
    assert!(is_near(cold.part(Kind::Latency).unwrap().seconds.value, 4e-7), "{cold:?}");
    // Half of the bytes miss in L2, so half of the difference.
    let between = Description { cache: Cache::Hot, ..copy(30_000_000) };
    assert!(is_near(predict(&between, &machine).part(Kind::Latency).unwrap().seconds.value, 2e-7));
    // A cold launch can't be faster than a hot one.
    machine.terms.insert(Key::ColdLaunch(LaunchForm::Graph), term(0.9e-6, 0.0));
    assert_eq!(predict(&copy(8192), &machine).part(Kind::Latency), None);
}

#[test]
fn missing_figures_are_copied_from_another_machine_of_the_model_and_marked() {
    let mut own = Machine::new("own");
    own.insert(Key::Launch(LaunchForm::Graph), term(9e-7, 0.0));
    let taken = own.fill_gaps_from(&machine(0.0));
    assert!(!taken.contains(&Key::Launch(LaunchForm::Graph)) && taken.contains(&Key::BlocksPerClock));
    assert!(!own.terms[&Key::Launch(LaunchForm::Graph)].published);
    let copied = &own.terms[&Key::BlocksPerClock];
    assert!(copied.published && copied.source.starts_with("from another device of this model: "));
    assert!(predict(&copy(1 << 20), &own).missing.is_empty());
    assert!(own.fill_gaps_from(&machine(0.0)).is_empty());
}

#[test]
fn insert_best_keeps_the_largest_figure_and_prefers_measured_ones() {
    let key = Key::Bandwidth(Level::Memory, Mix { read: 1, written: 1 });
    let mut machine = Machine::new("m");
    let published = Term { published: true, ..term(9e12, 0.0) };
    for (next, expected) in [(published.clone(), 9e12), (term(4.2e12, 0.0), 4.2e12), (term(4.3e12, 0.0), 4.3e12)] {
        machine.insert_best(key, next);
        assert!(is_near(machine.terms[&key].value, expected));
    }
    machine.insert_best(key, term(4.1e12, 0.0));
    machine.insert_best(key, published);
    assert!(is_near(machine.terms[&key].value, 4.3e12));
}

#[test]
fn a_prefetched_launch_pays_no_memory_latency() {
    let cold = copy(1 << 20);
    let usual = predict(&cold, &machine(0.0));
    let prefetched = predict(&Description { prefetched: true, ..cold }, &machine(0.0));
    let latency: f64 =
        [Kind::Latency, Kind::Tail].iter().filter_map(|kind| usual.part(*kind)).map(|part| part.seconds.value).sum();
    assert!(latency > 0.0 && prefetched.part(Kind::Latency).is_none() && prefetched.part(Kind::Tail).is_none());
    let saved = usual.total.unwrap().value - prefetched.total.unwrap().value;
    assert!((saved - latency).abs() < 1e-12, "{saved} {latency}");
    // The bytes still come from memory.
    assert_eq!(prefetched.part(Kind::Memory), usual.part(Kind::Memory));
}
