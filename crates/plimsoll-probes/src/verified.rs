//! Shared code of the tests of CPU runners.

use plimsoll_core::probe::{Depth, Instrument as _, ProbeSpec};

/// Verifies a probe on this CPU at awkward small sizes and returns the number of cases.
///
/// # Panics
/// Panics on a wrong result or a fault.
pub(crate) fn verify_on_cpu(spec: &ProbeSpec) -> usize {
    let mut bench = plimsoll_cpu::open(crate::cpu_probes()).unwrap();
    let mut cases = 0;
    let mut count = |case: plimsoll_core::probe::Case| {
        assert_eq!(case.wrong, "", "{} {}", case.kernel, case.on);
        cases += 1;
    };
    bench.verify(spec.name, Depth::Small, &mut count).unwrap();
    cases
}
