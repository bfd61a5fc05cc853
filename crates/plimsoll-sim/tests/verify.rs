//! `verify` finds a wrong kernel and passes right ones.

mod common;

use common::{device, probes};
use plimsoll_core::probe::{Depth, Instrument};

fn cases(scenario: &str, probe: &str, depth: Depth) -> Vec<plimsoll_core::probe::Case> {
    let mut cases = Vec::new();
    device(scenario).verify(probe, depth, &mut |case| cases.push(case)).unwrap();
    cases
}

#[test]
fn right_kernels_pass_at_every_depth_and_a_greater_depth_tries_more() {
    for probe in probes() {
        let [small, usual] = [Depth::Small, Depth::Usual].map(|depth| cases("", probe, depth));
        assert!(!small.is_empty() && small.len() < usual.len());
        assert!(small.iter().chain(&usual).all(|case| case.wrong.is_empty()));
    }
    assert!(cases("", "latency", Depth::Exhaustive).len() > 1000);
}

#[test]
fn one_skipped_element_fails_one_case_of_the_probe_that_is_wrong() {
    for depth in [Depth::Small, Depth::Usual] {
        let failed = |probe| cases("wrong=stream", probe, depth).iter().filter(|case| !case.wrong.is_empty()).count();
        assert_eq!((failed("stream"), failed("sync")), (1, 0));
    }
}
