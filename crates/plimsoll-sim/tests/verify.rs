//! `verify` detects a wrong kernel and passes correct ones.

mod common;

use common::{device, probes};
use plimsoll_core::probe::{Depth, Instrument};

fn cases(scenario: &str, probe: &str, depth: Depth) -> Vec<plimsoll_core::probe::Case> {
    let mut cases = Vec::new();
    device(scenario).verify(probe, depth, &mut |case| cases.push(case)).unwrap();
    cases
}

#[test]
fn correct_kernels_pass_and_greater_depths_check_more_sizes() {
    for probe in probes() {
        let [small, usual] = [Depth::Small, Depth::Usual].map(|depth| cases("", probe, depth));
        assert!(!small.is_empty() && small.len() < usual.len());
        assert!(small.iter().chain(&usual).all(|case| case.wrong.is_empty()));
    }
    assert!(cases("", "latency", Depth::Exhaustive).len() > 1000);
}

#[test]
fn one_skipped_element_fails_exactly_one_case_of_its_probe() {
    for depth in [Depth::Small, Depth::Usual] {
        let failed = |probe| cases("wrong=stream", probe, depth).iter().filter(|case| !case.wrong.is_empty()).count();
        assert_eq!((failed("stream"), failed("sync")), (1, 0));
    }
}
