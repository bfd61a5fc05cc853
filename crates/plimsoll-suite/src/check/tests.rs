//! Checks of runs with known faults.

use std::collections::BTreeMap;

use plimsoll_core::Fault;
use plimsoll_core::headline::Headline;
use plimsoll_core::health::{Health, Link, RemappedRows};
use plimsoll_core::record::{FaultRecord, Finding, Record, RunHeader};
use plimsoll_core::sample::Effort;

use super::*;

fn nothing(_: &DeviceInfo, _: &[plimsoll_core::series::Series]) -> Vec<Finding> {
    Vec::new()
}

const fn spec(name: &'static str, headlines: &'static [Headline]) -> ProbeSpec {
    ProbeSpec { headlines, ..ProbeSpec::unlisted(name, nothing) }
}

static STREAM: ProbeSpec =
    spec("stream", &[Headline::gate("memory-read", "memory read", Better::More, &["read"], 0.003)]);
static TRANSFER: ProbeSpec =
    spec("transfer", &[Headline::gate("host-to-device", "host to device", Better::More, &["H2D pinned"], 0.003)]);
const PROBES: &[&ProbeSpec] = &[&STREAM, &TRANSFER];

fn finding(probe: &str, name: &str, value: f64, width: f64, flags: &[Flag]) -> Finding {
    Finding {
        device: 0,
        probe: probe.to_owned(),
        name: name.to_owned(),
        value,
        interval: Interval { lo: value * (1.0 - width), hi: value * (1.0 + width) },
        unit: Unit::BytePerSecond,
        flags: flags.iter().copied().collect(),
        metric: if probe == "stream" { "bandwidth".to_owned() } else { String::new() },
        says: String::new(),
        published: None,
    }
}

fn run(device: &str, health: Health, findings: Vec<Finding>, faults: Vec<FaultRecord>) -> Run {
    let peak = plimsoll_core::device::Peak {
        metric: "bandwidth".to_owned(),
        value: 4.81e12,
        unit: Unit::BytePerSecond,
        source: String::new(),
    };
    let info = DeviceInfo {
        name: device.to_owned(),
        backend: "cuda".to_owned(),
        peaks: vec![peak],
        health,
        ..DeviceInfo::default()
    };
    let header = RunHeader {
        schema: 1,
        tool: String::new(),
        started: "2026-01-02T03:04:05Z".to_owned(),
        argv: vec![],
        conditions: plimsoll_core::record::Conditions::default(),
        effort: Effort::Quick,
        seed: 0,
        host: BTreeMap::new(),
        devices: vec![info],
    };
    let records = [Record::Run(header)].into_iter();
    let records = records.chain(findings.into_iter().map(Record::Finding)).chain(faults.into_iter().map(Record::Fault));
    Run::from_records(records.chain([Record::End { complete: true }])).unwrap()
}

fn check_h200(health: Health, findings: Vec<Finding>) -> Check {
    check(&run("NVIDIA H200", health, findings, vec![]), 0, PROBES).unwrap()
}

fn link(lanes: u32) -> Option<Link> {
    Some(Link { generation: 5, lanes })
}

#[test]
fn a_figure_of_either_group_of_cards_is_healthy() {
    for read in [4.58e12, 4.592e12, 4.668e12] {
        let found = check_h200(Health::default(), vec![finding("stream", "read", read, 0.001, &[])]);
        assert_eq!(found.verdict, Verdict::Healthy, "{found:?}");
        assert!(
            found.sentence.starts_with("healthy: 1 of 1 figures are where an NVIDIA H200 should be ("),
            "{}",
            found.sentence
        );
    }
}

#[test]
fn slow_memory_is_slow_without_a_visible_cause() {
    let found = check_h200(Health::default(), vec![finding("stream", "read", 0.95 * 4.592e12, 0.001, &[])]);
    assert_eq!(found.verdict, Verdict::Slow);
    assert!(found.sentence.contains("no cause is visible"), "{}", found.sentence);
    assert!(found.rows[0].shortfall() > 0.0 && found.rows[0].state == State::Low);
}

#[test]
fn a_narrow_link_explains_a_slow_transfer() {
    let health = Health { link: link(8), link_most: link(16), ..Health::default() };
    let found = check_h200(health, vec![finding("transfer", "H2D pinned", 27e9, 0.001, &[Flag::LinkDegraded])]);
    assert_eq!(found.verdict, Verdict::Slow);
    assert_eq!(found.rows[0].why, "the link runs PCIe 5.0 x8 instead of PCIe 5.0 x16");
    assert!((found.rows[0].of_peak().unwrap() - 27.0 / 63.015).abs() < 1e-3);
}

#[test]
fn a_disturbed_or_uncertain_low_figure_blames_nobody() {
    let low = 0.9 * 4.592e12;
    for disturbance in [Flag::Cotenant, Flag::Steal] {
        let found = check_h200(Health::default(), vec![finding("stream", "read", low, 0.001, &[disturbance])]);
        assert_eq!((found.verdict, found.verdict.exit_code()), (Verdict::Unknown, 4), "{disturbance:?}");
    }
    let shared = Health { other_processes: Some(1), ..Health::default() };
    let shared = check_h200(shared, vec![finding("stream", "read", low, 0.001, &[])]);
    assert_eq!(
        (shared.verdict, shared.rows[0].why.as_str()),
        (Verdict::Unknown, "another process had the device open")
    );
    let wide = check_h200(Health::default(), vec![finding("stream", "read", low, 0.2, &[])]);
    assert_eq!(wide.verdict, Verdict::Unknown);
    assert!(wide.sentence.contains("wider than the expected range"), "{}", wide.sentence);
    let good = check_h200(Health::default(), vec![finding("stream", "read", 4.592e12, 0.001, &[Flag::Cotenant])]);
    assert_eq!(good.verdict, Verdict::Healthy, "a disturbed figure that is good enough is good");
}

#[test]
fn wrong_results_and_uncorrectable_errors_are_broken() {
    let wrong = Fault::Invalid(String::new());
    let mut fault = FaultRecord::from_fault(0, "pattern", &wrong);
    (fault.class, fault.what) = (FaultClass::Verify, "byte 7 is 1 instead of 0".to_owned());
    let good = || vec![finding("stream", "read", 4.6e12, 0.001, &[])];
    let found = check(&run("NVIDIA H200", Health::default(), good(), vec![fault]), 0, PROBES).unwrap();
    assert_eq!((found.verdict, found.verdict.exit_code()), (Verdict::Broken, 1));
    assert!(found.sentence.contains("byte 7 is 1 instead of 0"), "{}", found.sentence);
    let errors = Health { uncorrected_errors: Some(1), ..Health::default() };
    assert_eq!(check_h200(errors, good()).verdict, Verdict::Broken);
    let rows = RemappedRows { failed: true, ..RemappedRows::default() };
    let rows = Health { uncorrected_errors: Some(0), remapped_rows: Some(rows), ..Health::default() };
    assert_eq!(check_h200(rows, good()).verdict, Verdict::Broken);
    let corrected = Health { uncorrected_errors: Some(0), corrected_errors: Some(9), ..Health::default() };
    assert_eq!(check_h200(corrected, good()).verdict, Verdict::Healthy);
}

#[test]
fn a_figure_above_the_peak_is_impossible_and_not_healthy() {
    let found = check_h200(Health::default(), vec![finding("stream", "read", 5.2e12, 0.001, &[])]);
    assert_eq!(found.rows[0].state, State::Impossible);
    assert_eq!(found.verdict, Verdict::Unknown);
    assert!(found.sentence.contains("a fault of plimsoll"), "{}", found.sentence);
    let both = vec![finding("stream", "read", 5.2e12, 0.001, &[]), finding("transfer", "H2D pinned", 55e9, 0.001, &[])];
    assert_eq!(check_h200(Health::default(), both).verdict, Verdict::Unknown, "a good figure doesn't hide it");
}

#[test]
fn an_unknown_model_is_measured_but_not_judged() {
    let found = check(
        &run("Some card", Health::default(), vec![finding("stream", "read", 1e12, 0.001, &[])], vec![]),
        0,
        PROBES,
    );
    let found = found.unwrap();
    assert_eq!((found.verdict, found.verdict.exit_code()), (Verdict::NotJudged, 0));
    assert_eq!(found.rows[0].state, State::Unjudged);
    assert!(found.rows[0].expected.is_none());
}

#[test]
fn a_rule_judges_transfers_of_an_unknown_model() {
    let health = Health { link: link(16), link_most: link(16), ..Health::default() };
    let of = |value| {
        let findings = vec![finding("transfer", "H2D pinned", value, 0.001, &[])];
        check(&run("Some card", health.clone(), findings, vec![]), 0, PROBES).unwrap()
    };
    assert_eq!(of(55e9).verdict, Verdict::Healthy);
    assert_eq!(of(27e9).verdict, Verdict::Slow);
    assert!(of(55e9).sentence.contains("1 by rule"), "{}", of(55e9).sentence);
}
