use proptest::prelude::*;

use super::*;
use crate::made;

/// Every element closed, no stray ampersand or angle: what an XML parser would insist on.
fn assert_well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    for (place, _) in svg.match_indices('<') {
        let tag = &svg[place + 1..place + svg[place..].find('>').expect("a tag that ends")];
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split(' ').next().unwrap()),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    for (place, _) in svg.match_indices('&') {
        let rest = &svg[place..];
        assert!(["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"].iter().any(|entity| rest.starts_with(entity)));
    }
}

#[test]
fn a_small_curve() {
    let runs = [made::curve(&[(4096.0, 1e-6), (1048576.0, 2.5e-5)])];
    let report = Report::new(&runs);
    let chart = charts(&report.sections[0], &report.sections[0].cases[0]).remove(0);
    insta::assert_snapshot!(inline(&chart).replace('<', "\n<"));
}

#[test]
fn pictures_of_hostile_names_are_well_formed_and_hold_no_markup_of_theirs() {
    let runs =
        [made::run(made::HOSTILE, "2026-01-02T03:04:05Z", 1.0), made::run(made::HOSTILE, "2026-01-02T03:04:06Z", 1.2)];
    let pictures = render(&Report::new(&runs));
    assert!(pictures.len() >= 3);
    for picture in pictures {
        assert_well_formed(&picture.svg);
        assert!(!picture.svg.contains("<script") && !picture.svg.contains('\u{202e}') && !picture.svg.contains('\x1b'));
        assert!(picture.file.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b)), "{}", picture.file);
    }
}

#[test]
fn every_point_can_be_focused_and_says_its_figure() {
    let runs = [made::run("Box", "2026-01-02T03:04:05Z", 1.0)];
    let svg = &render(&Report::new(&runs))[0].svg;
    let points = svg.matches("class=\"pt ").count();
    assert_eq!(points, runs[0].series[0].rows.len());
    assert_eq!(svg.matches("tabindex=\"0\" role=\"img\" aria-label=").count(), points);
    assert!(svg.contains("kernel triad, stores ordinary: bandwidth 47.7 GB/s") && svg.contains("THROTTLE_THERMAL"));
    assert_eq!(svg.matches(" doubt\"").count(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_curve_is_well_formed_and_has_no_nan(
        points in prop::collection::vec((1.0..1e18f64, 1e-12..1e6f64), 0..6),
    ) {
        let runs = [made::curve(&points)];
        for picture in render(&Report::new(&runs)) {
            assert_well_formed(&picture.svg);
            prop_assert!(!picture.svg.contains("NaN") && !picture.svg.contains("inf"));
        }
    }
}
