//! Expectations on machine code, tested on copy kernels with known code.

use plimsoll_gen::Target;
use plimsoll_gen::kernel::{Index, Issue, KernelDesc};
use plimsoll_gen::sass::expect::{Facts, faults};
use plimsoll_gen::sass::{KernelReport, Listing, Report};
use plimsoll_probes::copy::kernels as copy;

const COPY_80: &str = include_str!("../../plimsoll-gen/tests/data/copy.sm_80.sass");

fn report(name: &str) -> KernelReport {
    let mut report = Report::new(&Listing::parse(COPY_80).unwrap(), &[]).kernel(name).unwrap().clone();
    report.name = "copy".to_owned();
    report
}

#[test]
fn right_code_has_no_fault() {
    let sm_80 = Target::plain(80);
    assert_eq!(faults(&copy::vector(4, Index::U32), sm_80, &report("vector4_u32")), [""; 0]);
    assert_eq!(faults(&copy::naive(Index::U32), sm_80, &report("naive_u32")), [""; 0]);
}

#[test]
fn counted_instructions_must_exist_in_separate_chains() {
    let faults_of = |mnemonics: &'static [&'static str], count, chains| {
        let issues = vec![Issue { mnemonics, count, chains }];
        faults(&KernelDesc { issues, ..copy::vector(4, Index::U32) }, Target::plain(80), &report("vector4_u32"))
    };
    assert_eq!(faults_of(&["LDG.E.128"], 1, 1), [""; 0]);
    assert_eq!(faults_of(&["FFMA", "LDG"], 1, 1), [""; 0]);
    for (mnemonics, count, chains) in [(&["LDG"], 2, 1), (&["LDG"], 1, 2), (&["FFMA"], 1, 1)] {
        assert_eq!(faults_of(mnemonics, count, chains).len(), 1, "{mnemonics:?} {count} {chains}");
    }
}

#[test]
fn narrow_accesses_missing_loops_and_spills_are_faults() {
    let sm_80 = Target::plain(80);
    let wide = copy::vector(4, Index::U32);
    assert_eq!(faults(&wide, sm_80, &report("vector1_u32")).len(), 2);
    assert_eq!(faults(&copy::vector(1, Index::U32), sm_80, &report("naive_u32")).len(), 1);
    let spilling = KernelReport { local_bytes: 16, ..report("vector4_u32") };
    assert!(faults(&wide, sm_80, &spilling)[0].contains("16 bytes of local memory"));
}

#[test]
fn facts_match_the_seed_counts_for_every_vector_width() {
    let facts: Facts = serde_json::from_str(include_str!("../../plimsoll-gen/facts/copy.json")).unwrap();
    let count = |kernel: &KernelDesc, target: &str| facts[&kernel.name][target].1;
    for width in [1, 2, 4] {
        let (narrow, wide) = (copy::vector(width, Index::U32), copy::vector(width, Index::U64));
        assert_eq!([count(&narrow, "sm_80"), count(&wide, "sm_80")], [9, 14], "{width}");
        assert_eq!([count(&narrow, "sm_90"), count(&wide, "sm_90")], [7, 13], "{width}");
    }
}
