//! Reports on real listings and on small ones written by hand.

use proptest::prelude::*;

use super::*;

/// Kernels of `copy.cu`, compiled by NVRTC 13.0 and disassembled by nvdisasm 13.2.
const COPY_80: &str = include_str!("../../../tests/data/copy.sm_80.sass");
const COPY_90: &str = include_str!("../../../tests/data/copy.sm_90.sass");

fn hot(listing: &str, kernel: &str) -> Hot {
    let report = Report::new(&Listing::parse(listing).unwrap(), &[]);
    report.kernel(kernel).unwrap().hot.clone().unwrap()
}

#[test]
fn copy_loops_have_the_instruction_counts_of_the_original_code() {
    let counts = |listing, kernel| {
        let hot = hot(listing, kernel);
        (hot.kind, hot.instructions, hot.moved())
    };
    assert_eq!(counts(COPY_80, "vector1_u32"), (HotKind::Loop, 9, 8));
    assert_eq!(counts(COPY_80, "vector1_u64"), (HotKind::Loop, 14, 8));
    assert_eq!(counts(COPY_80, "vector4_u32"), (HotKind::Loop, 9, 32));
    assert_eq!(counts(COPY_90, "vector1_u32"), (HotKind::Loop, 7, 8));
    assert_eq!(counts(COPY_90, "vector1_u64"), (HotKind::Loop, 13, 8));
    assert_eq!(counts(COPY_90, "vector4_u32"), (HotKind::Loop, 7, 32));
}

#[test]
fn kernel_without_a_loop_is_counted_per_thread() {
    let hot = hot(COPY_80, "naive_u32");
    assert_eq!((hot.kind, hot.read, hot.written), (HotKind::Straight, 4, 4));
    assert_eq!(hot.first, 0);
    assert_eq!(hot.classes[&Class::GlobalLoad], 1);
}

#[test]
fn remainder_loop_is_not_the_hot_part_even_if_it_moves_as_much() {
    let four = |what: &str| format!("{what}\n").repeat(4);
    let text = format!(
        "LDG.E.128 R4, [R2.64]\nSTG.E.128 [R2.64], R4\n@P0 EXIT\n{}{}@P1 BRA 0x30\nEXIT",
        four("LDG.E R4, [R2.64]"),
        four("STG.E [R2.64], R4")
    );
    let lines: String = text.lines().enumerate().map(|(at, line)| format!("/*{:04x}*/ {line} ;\n", at * 16)).collect();
    let hot = hot(&format!(".section .text.k\n{lines}"), "k");
    assert_eq!((hot.kind, hot.moved(), hot.accesses.len()), (HotKind::Straight, 32, 2));
}

/// The hot part of a kernel of these instructions.
fn hot_of(instructions: &str) -> Hot {
    let numbered = instructions.split("; ").enumerate().map(|(at, line)| format!("/*{:04x}*/ {line} ;\n", at * 16));
    hot(&format!(".section .text.k\n{}", numbered.collect::<String>()), "k")
}

#[test]
fn code_over_a_bulk_copied_tile_is_the_hot_part_instead_of_the_remainder_loop() {
    let issue_copy = "LDG.E R9, [R8.64]; UBLKCP [UR12], [UR8], UR5; @!P2 BRA 0x20";
    let rest = |at| format!("IADD3 R2, R2, 0x4, RZ; LDG.E R3, [R2.64]; STG.E [R2.64], R3; @P1 BRA {at:#x}; EXIT");
    let summary = |tile: &str, at| {
        let found = hot_of(&format!("{issue_copy}; {tile}; {}", rest(at)));
        (found.kind, found.last, found.read, found.written)
    };
    let looped = summary("LDS R3, [R4]; STG.E [R2.64], R3; @P0 BRA 0x30", 0x60);
    assert_eq!(looped, (HotKind::Loop, 0x50, 4, 4));
    // A single iteration is not a loop; data loaded before, the same for all elements, are not part of the tile.
    let straight = summary("LDS R3, [R4]; STG.E [R2.64], R3; @P0 EXIT", 0x60);
    assert_eq!(straight, (HotKind::Straight, 0x50, 4, 4));
    // A loop that issues more copies only counts its direct accesses to global memory.
    let stencil = summary("LDS R3, [R4]; STG.E [R2.64], R3; UBLKCP [UR12], [UR8], UR5; @P0 BRA 0x30", 0x70);
    assert_eq!(stencil, (HotKind::Loop, 0xa0, 4, 4));
    // A short ending after a loop that moves more is not the hot part.
    let end =
        summary("LDG.E.128 R4, [R2.64]; STG.E.128 [R2.64], R4; @P0 BRA 0x30; LDS R3, [R4]; STG.E [R2.64], R3", 0x80);
    assert_eq!(end, (HotKind::Loop, 0x50, 16, 16));
}

/// `x/6` of four elements in bf16 for sm_90, compiled by NVRTC 13.0: the test of each quotient may call a routine.
const DIVISION: &str = include_str!("../../../tests/data/division.sm_90.sass");

#[test]
fn straight_code_is_followed_past_branches_to_its_stores() {
    let hot = hot(DIVISION, "elementwise");
    assert_eq!((hot.kind, hot.read, hot.written), (HotKind::Straight, 16, 16));
    // Every division tests its operands once, and none calls the routine.
    let count = |class| hot.classes[&class];
    assert_eq!((hot.instructions, hot.shortest, count(Class::Branch)), (112, 112, 9));
    assert!(hot.beside > 100 && hot.roles.memory == 2, "{hot:?}");
}

#[test]
fn routines_that_are_always_called_count_and_slow_paths_do_not() {
    let routine = "MOV R8, 0x60; CALL.REL.NOINC `(.L_r); STG.E [R2.64], R5; EXIT";
    let text = |guard: &str| {
        let code = format!("LDG.E R4, [R2.64]; {guard}; {routine}");
        let lines = |from: usize, text: &str| -> String {
            text.split("; ").enumerate().map(|(at, line)| format!("/*{:04x}*/ {line} ;\n", (from + at) * 16)).collect()
        };
        let routine = "FADD R5, R4, R4; FMUL R5, R5, R5; RET.REL.NODEC R8 `(k)";
        format!(".section .text.k\n{}.L_r:\n{}", lines(0, &code), lines(6, routine))
    };
    let always = hot(&text("FADD R4, R4, 1"), "k");
    assert_eq!((always.instructions, always.beside, always.read, always.written), (9, 0, 4, 4));
    // If a branch skips the call, the call is the rare case.
    let rare = hot(&text("@P0 BRA 0x40"), "k");
    assert_eq!((rare.instructions, rare.beside, rare.read, rare.written), (4, 5, 4, 4));
}

#[test]
fn loads_from_module_tables_are_counted_separately() {
    let found = hot_of(
        "LDG.E R4, [R2.64]; LDC.64 R8, c[0x4][RZ]; IMAD.WIDE R8, R4, 0x8, R8; LDG.E.64 R6, [R8.64]; STG.E [R2.64], R6",
    );
    assert_eq!((found.read, found.tables, found.written), (4, 8, 4));
}

#[test]
fn longer_of_two_paths_that_move_as_much_counts() {
    let found = hot_of("LDG.E R4, [R2.64]; @P0 BRA 0x40; FADD R4, R4, R4; FMUL R4, R4, R4; STG.E [R2.64], R4; EXIT");
    assert_eq!((found.instructions, found.shortest, found.beside), (6, 4, 0));
}

#[test]
fn straight_code_continues_after_an_early_exit_with_similar_code() {
    let iteration = "LDS.128 R4, [R8]; STG.E.128 [R2.64], R4";
    let first = format!("LDG.E.128 R4, [R2.64]; STS.128 [R8], R4; @P0 BRA 0x50; {iteration}; NOP");
    let summary = |rest: &str| {
        let found = hot_of(&format!("{first}; @P1 EXIT; {rest}; EXIT"));
        (found.read, found.written, found.instructions)
    };
    assert_eq!(summary(iteration), (16, 32, 10));
    // Another early exit, followed by another iteration.
    assert_eq!(summary(&format!("{iteration}; @P2 EXIT; {iteration}")), (16, 48, 13));
    // A result that few threads store doesn't count, however wide it is.
    assert_eq!(summary("FADD R4, R4, R5; STG.E.128 [R2.64], R4"), (16, 16, 7));
    assert_eq!(summary("LDS R4, [R8]; STG.E [R2.64], R4"), (16, 16, 7));
}

#[test]
fn loop_with_an_early_continue_is_followed_to_its_last_stores() {
    let found = hot_of("LDG.E R4, [R2.64]; STG.E [R2.64], R4; @P0 BRA 0x0; STG.E [R2.64+0x4], R4; @P1 BRA 0x0; EXIT");
    assert_eq!((found.kind, found.read, found.written, found.shortest), (HotKind::Loop, 4, 8, 3));
}

#[test]
fn accesses_are_counted_by_width() {
    let hot = hot(COPY_90, "vector4_u32");
    let accesses: Vec<String> = hot.accesses.iter().map(ToString::to_string).collect();
    assert_eq!(accesses, ["1 × load 16 B", "1 × store 16 B"]);
}

#[test]
fn registers_come_from_the_listing_without_a_cubin() {
    let registers = |listing| Report::new(&Listing::parse(listing).unwrap(), &[]).kernels[0].registers;
    assert!(registers(COPY_80).is_some_and(|registers| registers > 4));
    assert_eq!(registers(COPY_90), None);
}

#[test]
fn reports_survive_json() {
    let report = Report::new(&Listing::parse(COPY_80).unwrap(), &[]);
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
}

proptest! {
    #[test]
    fn damaged_listings_never_cause_a_panic(
        from in 0..COPY_90.len(),
        to in 0..COPY_90.len(),
        junk in "[@!PB `(.L_x0-9);\n]{0,12}",
    ) {
        let text = format!("{}{junk}{}", &COPY_90[..from], &COPY_90[to..]);
        if let Ok(listing) = Listing::parse(&text) {
            let _ = Report::new(&listing, &[]).to_string();
        }
    }
}
