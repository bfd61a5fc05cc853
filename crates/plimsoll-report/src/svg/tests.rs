use plimsoll_core::Flags;
use plimsoll_core::unit::Unit;
use proptest::prelude::*;

use super::*;
use crate::chart::{Cell, Heat, Mark, Scale};
use crate::synthetic::{self, RunBuilder};

/// Checks what an XML parser would: every element is closed, and there is no stray ampersand or angle bracket.
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
    let runs = [synthetic::curve(&[(4096.0, 1e-6), (1048576.0, 2.5e-5)])];
    let report = Report::new(&runs);
    let chart = charts(&report, &report.sections[0]).remove(0);
    insta::assert_snapshot!(render_inline(&chart).replace('<', "\n<"));
}

#[test]
fn pictures_of_hostile_names_are_well_formed_and_escape_them() {
    let runs = [
        synthetic::run(synthetic::HOSTILE, "2026-01-02T03:04:05Z", 1.0),
        synthetic::run(synthetic::HOSTILE, "2026-01-02T03:04:06Z", 1.2),
    ];
    let pictures = render(&Report::new(&runs));
    assert!(pictures.len() >= 3);
    for picture in pictures {
        assert_well_formed(&picture.svg);
        assert!(!picture.svg.contains("<script") && !picture.svg.contains('\u{202e}') && !picture.svg.contains('\x1b'));
        assert!(picture.file.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b)), "{}", picture.file);
    }
}

#[test]
fn every_point_can_be_focused_and_has_its_figure_as_title() {
    let runs = [synthetic::run("Box", "2026-01-02T03:04:05Z", 1.0)];
    let svg = &render(&Report::new(&runs))[0].svg;
    let points = svg.matches("class=\"pt ").count();
    assert_eq!(points, runs[0].series[0].rows.len());
    assert_eq!(svg.matches("tabindex=\"0\" role=\"img\"><title>").count(), points);
    assert!(svg.contains("kernel triad, stores ordinary: bandwidth 47.7 GB/s") && svg.contains("THROTTLE_THERMAL"));
    assert_eq!(svg.matches(" doubt\"").count(), 1);
}

#[test]
fn field_of_very_many_cells_has_one_path_per_shade() {
    let cell = |place: usize| {
        let y = if place % 50 < 25 { 1.0 } else { 4.0 };
        let (place, figure) = (String::new(), String::new());
        Mark { x: 0.0, y, interval: [y, y].into(), doubtful: false, place, figure, row: None }
    };
    let names = || (0..50).map(|place| place.to_string()).collect::<Vec<String>>();
    let heat = Heat {
        x: "x".into(),
        y: "z".into(),
        columns: names(),
        rows: names(),
        value: Scale::shades("pressure", &Unit::One, [1.0, 4.0]),
        cells: (0..2500).map(|place| Cell { column: place % 50, row: place / 50, mark: cell(place) }).collect(),
    };
    let svg = render_file(&Chart { title: "field".into(), note: String::new(), plot: Plot::Heat(heat) });
    assert_well_formed(&svg);
    assert_eq!(svg.matches("<path class=\"cell\"").count(), 2);
    assert!(svg.len() < 15_000, "{} bytes", svg.len());
}

#[test]
fn vertical_name_is_shortened_to_the_height_of_the_plot() {
    let points: Vec<(f64, f64)> = (12..20).map(|power| (f64::from(power).exp2(), 1e-9)).collect();
    let mut run = synthetic::curve(&points);
    let name = "a very long name of what ends here, ".repeat(4);
    let mut found = RunBuilder::new("Box", "2026-01-02T03:04:05Z");
    found.finding("latency", &name, 65536.0, Unit::Byte, "", Flags::NONE);
    run.findings = found.run().findings;
    let runs = [run];
    let svg = &render(&Report::new(&runs))[0].svg;
    let (_, vertical) = svg.split_once("rotate(-90.0").unwrap();
    let (title, shown) = vertical.split_once("</title>").unwrap();
    let shown = shown.split('<').next().unwrap();
    assert!(title.contains(&name) && shown.ends_with('…') && shown.chars().count() < 40, "{shown}");
}

/// Relative luminance (WCAG 2.2) of `#rrggbb`, each channel 0 to 1.
fn luminance(colour: [f64; 3]) -> f64 {
    let linear = |c: f64| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
    let [r, g, b] = colour.map(linear);
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn text_has_enough_contrast_on_every_background_in_light_and_dark() {
    let (light, dark) = PALETTE.split_once("@media").unwrap();
    for mode in [light, dark] {
        let value = |name: &str| {
            let (_, rest) = mode.split_once(&format!("--{name}: ")).unwrap();
            rest.split(';').next().unwrap().to_owned()
        };
        let colour = |name: &str| {
            let hex = u32::from_str_radix(value(name).trim_start_matches('#'), 16).unwrap();
            [16, 8, 0].map(|shift| f64::from(hex >> shift & 0xff) / 255.0)
        };
        let (paper, ink) = (colour("paper"), colour("ink"));
        for text in ["ink", "soft", "warn", "h0"] {
            assert!(contrast(colour(text), paper) >= 4.5, "{text}: {}", contrast(colour(text), paper));
        }
        // Marks need a contrast of 3 (WCAG 1.4.11).
        for hue in 0..HUES {
            assert!(contrast(colour(&format!("h{hue}")), paper) >= 3.0, "h{hue}");
        }
        let most: f64 = value("most").parse().unwrap();
        let heat = colour("heat");
        let strongest = [0, 1, 2].map(|c| most * heat[c] + (1.0 - most) * paper[c]);
        assert!(contrast(ink, strongest) >= 4.5, "{}", contrast(ink, strongest));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_curve_is_well_formed_and_has_no_nan(
        points in prop::collection::vec((1.0..1e18f64, 1e-12..1e6f64), 0..6),
    ) {
        let runs = [synthetic::curve(&points)];
        for picture in render(&Report::new(&runs)) {
            assert_well_formed(&picture.svg);
            prop_assert!(!picture.svg.contains("NaN") && !picture.svg.contains("inf"));
        }
    }
}

#[test]
fn no_two_pictures_share_a_file_name() {
    let mut files: Vec<String> = Vec::new();
    for stem in ["a-b-2", "a-b", "a-b", "a-b-2", "", ""] {
        let file = unused_name(stem, |file| files.iter().any(|known| known == file));
        assert!(!files.contains(&file) && !file.starts_with('.'), "{file} of {files:?}");
        files.push(file);
    }
    assert_eq!(files[..2], ["a-b-2.svg", "a-b.svg"]);
}
