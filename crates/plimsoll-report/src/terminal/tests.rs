use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;
use plimsoll_suite::verdict::{Across, compare};

use super::*;
use crate::synthetic;

fn shown(width: usize, colour: bool, unicode: bool) -> String {
    let runs = [synthetic::run("Box 9000", "2026-01-02T03:04:05Z", 1.0)];
    render(&Report::new(&runs), &Style { width, colour, unicode })
}

fn assert_fits(text: &str, width: usize) {
    for line in text.lines() {
        assert!(line.width() <= width, "{} columns in {width}: {line:?}", line.width());
    }
}

#[test]
fn a_run_at_80_columns() {
    let text = shown(80, false, true);
    assert_fits(&text, 80);
    insta::assert_snapshot!(text);
}

#[test]
fn a_run_at_48_columns() {
    let text = shown(48, false, true);
    assert_fits(&text, 48);
    insta::assert_snapshot!(text);
}

#[test]
fn ascii_style_draws_only_ascii_characters() {
    let text = shown(100, false, false);
    // Symbols that are part of units and numbers.
    let foreign: String = text.chars().filter(|c| !c.is_ascii() && !"±µ°—×".contains(*c)).collect();
    assert_eq!(foreign, "");
}

#[test]
fn colour_adds_only_escapes_and_plain_text_has_none() {
    let plain = shown(100, false, true);
    assert!(!plain.contains('\x1b'));
    let coloured = shown(100, true, true);
    assert!(coloured.contains('\x1b'));
    let mut stripped = String::new();
    let mut inside = false;
    for c in coloured.chars() {
        match (inside, c) {
            (false, '\x1b') => inside = true,
            (true, 'm') => inside = false,
            (true, _) => {}
            (false, c) => stripped.push(c),
        }
    }
    let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    assert_eq!(trimmed(&stripped), trimmed(&plain));
}

#[test]
fn names_cannot_send_escapes_or_reverse_the_text() {
    let runs = [synthetic::run(synthetic::HOSTILE, "2026-01-02T03:04:05Z", 1.0)];
    let text = render(&Report::new(&runs), &Style { width: 80, colour: false, unicode: true });
    assert!(!text.contains('\x1b') && !text.contains('\u{202e}'));
}

#[test]
fn empty_and_cut_off_runs_say_so() {
    let runs = [synthetic::RunBuilder::new("Box", "2026-01-02T03:04:05Z").cut_off()];
    let text = render(&Report::new(&runs), &Style::PLAIN);
    assert!(text.contains("no findings") && text.contains("cut off"), "{text}");
    assert_eq!(render(&Report::new(&[]), &Style::PLAIN), "");
}

#[test]
fn comparison_lists_changed_figures_and_counts_the_rest() {
    let (base, new) =
        (synthetic::run("Box", "2026-01-02T03:04:05Z", 1.0), synthetic::run("Box", "2026-01-03T03:04:05Z", 1.08));
    let compared = compare(&base, &new, Across::default());
    for width in [40, 80, 120] {
        assert_fits(&comparison(&compared, true, &Style { width, ..Style::PLAIN }), width);
    }
    let text = comparison(&compared, false, &Style::PLAIN);
    assert!(text.contains("slower") && text.contains("within 1 %"), "{text}");
}

#[test]
fn columns_are_left_out_in_order_and_numbers_stay_whole() {
    let columns = || vec![Column::text("what"), Column::number("a").keep(1), Column::number("b").keep(2)];
    let mut table = Table::new(columns());
    table.row(["a long name of something that was measured".to_owned(), "123.456 GB/s".into(), "7".into()]);
    let wide = table.render(&Style { width: 80, ..Style::PLAIN });
    assert!(wide.contains("123.456 GB/s"));
    let narrow = table.render(&Style { width: 50, ..Style::PLAIN });
    assert!(!narrow.contains("123.456") && narrow.contains('7'), "{narrow}");
    assert!(narrow.ends_with("(not shown at 50 columns: a)\n") && !wide.contains("not shown"), "{narrow}");
}

#[test]
fn flags_are_shown_below_their_rows_where_the_table_is_too_wide() {
    let number = Column::number;
    let mut table = Table::new(vec![
        number("per tensor"),
        number("time").keep(3),
        number("GB/s"),
        number("of peak").keep(2),
        Column::text("flags").keep(1).below(),
    ]);
    let flags = "THROTTLE_THERMAL BIMODAL UNSTABLE_CLOCK";
    table.row(["1 MiB", "12.3 µs ± 0.5 %", "170.5", "3.6 %", ""].map(str::to_owned));
    table.row(["256 MiB", "201.0 µs ± 0.2 %", "4006.2", "83.5 %", flags].map(str::to_owned));
    table.row(["1 GiB", "800.0 µs ± 0.1 %", "4026.5", "83.9 %", "VERIFY_FAIL"].map(str::to_owned));
    let render = |width| table.render(&Style { width, ..Style::PLAIN });
    assert_fits(&render(80), 80);
    insta::assert_snapshot!(render(80));
    for width in 40..=200 {
        let text = render(width);
        assert_fits(&text, width);
        for flag in flags.split(' ').chain(["VERIFY_FAIL"]) {
            assert_eq!(text.matches(flag).count(), 1, "{flag} in {width} columns:\n{text}");
        }
        let named = |title: &str| text.lines().any(|line| line.contains(title));
        assert!(named("time") && named("of peak"), "{width} columns name all figures:\n{text}");
    }
}

#[test]
fn a_column_without_content_gives_way_first_and_takes_no_lines() {
    let mut table = Table::new(vec![
        Column::text(""),
        Column::number("measured"),
        Column::number("expected").keep(3).below(),
        Column::number("of peak").keep(2).below(),
        Column::text("why").keep(1).below(),
    ]);
    table.row(["memory read", "33.8 GB/s", "–", "–", ""].map(str::to_owned));
    table.row(
        ["FMA f32", "106 GFLOP/s", "178 … 237 GFLOP/s", "–", "another process used the device"].map(str::to_owned),
    );
    let text = table.render(&Style { width: 52, ..Style::PLAIN });
    assert!(!text.contains("of peak") && text.contains("expected"), "{text}");
    assert_eq!(text.matches("why: ").count(), 1, "{text}");
    let narrow = table.render(&Style { width: 34, ..Style::PLAIN });
    assert_eq!(narrow.matches("expected: ").count(), 1, "{narrow}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_curve_fits_any_width_without_nan(
        points in prop::collection::vec((1.0..1e18f64, 1e-12..1e6f64), 0..6), width in 0usize..160, unicode: bool,
    ) {
        let runs = [synthetic::curve(&points)];
        let text = render(&Report::new(&runs), &Style { width, colour: false, unicode });
        assert_fits(&text, width.max(40));
        prop_assert!(!text.contains("NaN") && !text.contains("inf"), "{}", text);
    }
}

#[test]
fn simulation_warning_fits_the_narrowest_terminal() {
    let mut run = synthetic::run("Box", "2026-01-02T03:04:05Z", 1.0);
    run.header.devices[0].backend = "sim".into();
    let runs = [run];
    let text = summary(&Report::new(&runs), &Style { width: 40, ..Style::PLAIN });
    let widest = text.lines().take(2).map(|line| line.chars().count()).max();
    assert!(text.starts_with("SIMULATED") && widest <= Some(40), "{text}");
}

#[test]
fn margins_of_percentages_are_points_and_others_are_relative() {
    let interval = |lo, hi| Interval { lo, hi };
    assert_eq!(format_margin(&Unit::Percent, -0.02, interval(-0.4, 0.1)), " ± 0.4 points");
    assert_eq!(format_margin(&Unit::Percent, 41.0, interval(31.0, 50.0)), " ± 10 points");
    assert_eq!(format_margin(&Unit::Percent, 3.0, interval(3.0, 3.0)), " ± 0.1 points");
    assert_eq!(format_margin(&Unit::Second, 2.0, interval(1.9, 2.06)), " ± 5.0 %");
    assert_eq!(format_margin(&Unit::Second, 0.0, interval(-1.0, 1.0)), "");
}
