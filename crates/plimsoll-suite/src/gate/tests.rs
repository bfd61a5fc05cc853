//! The gate on small runs without series.

use std::collections::BTreeMap;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::headline::Better;
use plimsoll_core::record::{Finding, Record, RunHeader};
use plimsoll_core::sample::Effort;
use plimsoll_core::{Flag, Flags};

use super::*;

fn nothing(_: &DeviceInfo, _: &[plimsoll_core::series::Series]) -> Vec<Finding> {
    Vec::new()
}

const HEADLINES: &[Headline] = &[
    Headline::gate("read", "read", Better::More, &["read"], 0.003),
    Headline::gate("wait", "wait", Better::Less, &["wait"], 0.003),
    Headline::gate("shown", "shown", Better::More, &["shown"], 0.003).shown_only(),
];

const SPEC: ProbeSpec = ProbeSpec { headlines: HEADLINES, ..ProbeSpec::unlisted("stream", nothing) };
static PROBE: ProbeSpec = SPEC;

fn device(name: &str, id: &str, backend: &str) -> DeviceInfo {
    DeviceInfo { name: name.into(), id: id.into(), backend: backend.into(), ..DeviceInfo::default() }
}

fn run(device: DeviceInfo, figures: &[(&str, f64)], flags: Flags) -> Run {
    let header = RunHeader {
        schema: 1,
        tool: "0.1.0".into(),
        started: "2026-01-02T03:04:05Z".into(),
        argv: vec![],
        conditions: Default::default(),
        effort: Effort::Quick,
        seed: 0,
        host: BTreeMap::new(),
        devices: vec![device],
    };
    let finding = |(name, value): &(&str, f64)| {
        Record::Finding(Finding {
            device: 0,
            probe: "stream".into(),
            name: (*name).into(),
            value: *value,
            interval: Interval { lo: value * 0.999, hi: value * 1.001 },
            unit: Unit::BytePerSecond,
            flags,
            metric: String::new(),
            says: String::new(),
            published: None,
        })
    };
    Run::from_records(std::iter::once(Record::Run(header)).chain(figures.iter().map(finding))).unwrap()
}

fn box_run(figures: &[(&str, f64)]) -> Run {
    run(device("Box", "1", "cuda"), figures, Flags::NONE)
}

fn compare(base: &Run, new: &Run) -> Gate {
    gate(base, new, &[&PROBE], &Options::default())
}

const BASE: &[(&str, f64)] = &[("read", 100.0), ("wait", 10.0), ("shown", 5.0)];

#[test]
fn the_exit_code_follows_from_gate_headlines_only() {
    let base = box_run(BASE);
    let code = |figures: &[(&str, f64)]| compare(&base, &box_run(figures)).exit_code();
    assert_eq!(code(BASE), 0);
    assert_eq!(code(&[("read", 95.0), ("wait", 10.0), ("shown", 5.0)]), 1);
    assert_eq!(code(&[("read", 100.0), ("wait", 10.5), ("shown", 5.0)]), 1);
    assert_eq!(code(&[("read", 105.0), ("wait", 9.0), ("shown", 5.0)]), 0);
    assert_eq!(code(&[("read", 100.0), ("wait", 10.0), ("shown", 1.0)]), 0);
    assert_eq!(code(&[("shown", 5.0)]), 4, "no gate headline in common");
    assert_eq!(code(&[]), 4);
}

#[test]
fn rows_that_decide_come_first_and_information_last() {
    let new = box_run(&[("read", 110.0), ("wait", 11.0), ("shown", 1.0)]);
    let found = compare(&box_run(BASE), &new);
    assert_eq!(found.rows.iter().map(|row| row.headline.id).collect::<Vec<_>>(), ["wait", "read", "shown"]);
    assert_eq!(found.sentence(), "worse: wait");
    assert!((found.rows[0].gain() + 1.0 / 11.0).abs() < 1e-9 && (found.rows[0].ratio - 1.1).abs() < 1e-9);
}

#[test]
fn a_disturbed_loss_is_inconclusive_and_a_disturbed_gain_is_not() {
    let disturbed: Flags = [Flag::Cotenant].into_iter().collect();
    let found = |read: f64| {
        let new = run(device("Box", "1", "cuda"), &[("read", read), ("wait", 10.0)], disturbed);
        compare(&box_run(BASE), &new)
    };
    assert_eq!(found(80.0).exit_code(), 4);
    assert_eq!((found(80.0).rows[0].verdict, found(80.0).rows[0].why.as_str()), (Verdict::Unclear, "COTENANT"));
    assert_eq!(found(120.0).exit_code(), 0);
}

#[test]
fn a_cpu_and_a_gpu_are_refused_with_their_kinds() {
    let found = compare(&box_run(BASE), &run(device("Chip", "2", "cpu"), BASE, Flags::NONE));
    assert_eq!((found.exit_code(), found.rows.len()), (4, 0));
    assert!(found.incomparable[0].why.starts_with("the base run is of a GPU, the new run of a CPU"), "{found:?}");
}

#[test]
fn two_cards_of_one_model_are_compared_with_a_remark() {
    const KNOWN: &[Headline] = &[Headline::gate("memory-read", "memory read", Better::More, &["read"], 0.003)];
    static PROBE: ProbeSpec = ProbeSpec { headlines: KNOWN, ..SPEC };
    let card = |id: &str, read: f64| run(device("NVIDIA H200", id, "cuda"), &[("read", read)], Flags::NONE);
    let compare = |base: &Run, new: &Run| gate(base, new, &[&PROBE], &Options::default());
    let found = compare(&card("GPU-1", 100.0), &card("GPU-2", 90.0));
    assert_eq!(found.exit_code(), 1);
    assert!(found.notes[0].contains("another card") && found.notes[0].contains("From card to card"), "{found:?}");
    assert!(compare(&card("GPU-1", 100.0), &card("GPU-1", 90.0)).notes.is_empty());
}

#[test]
fn probes_and_the_least_difference_can_be_chosen() {
    let new = box_run(&[("read", 97.0), ("wait", 10.0)]);
    let with = |options: Options| gate(&box_run(BASE), &new, &[&PROBE], &options).exit_code();
    assert_eq!(with(Options::default()), 1);
    assert_eq!(with(Options { least: 0.05, ..Options::default() }), 0);
    assert_eq!(with(Options { probes: vec!["latency".into()], ..Options::default() }), 4);
    assert_eq!(with(Options { probes: vec!["stream".into()], ..Options::default() }), 1);
}
