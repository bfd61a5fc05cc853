use super::*;
use crate::synthetic;

#[test]
fn page_loads_nothing_from_outside_and_runs_only_its_own_script() {
    let runs = [synthetic::run("Box 9000", "2026-01-02T03:04:05Z", 1.0)];
    let page = render(&Report::new(&runs));
    assert!(page.contains("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"));
    assert!(page.contains("img-src data:; base-uri 'none'; form-action 'none'"));
    assert_eq!(page.matches("<script").count(), 1);
    assert!(page.contains(&format!("<script>{SCRIPT}</script>")));
    for unsafe_use in ["innerHTML", "outerHTML", "insertAdjacent", "eval", "document.write", "fetch", "</script"] {
        assert!(!SCRIPT.contains(unsafe_use), "{unsafe_use}");
    }
    for outside in ["http://", "https://", "@import", "url(", " src=", "<link", "<iframe"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for shown in
        ["Box 9000", "77.2 % of peak", "THROTTLE_THERMAL", "no cycle counter", "<svg class=\"chart\"", "2 channels"]
    {
        assert!(page.contains(shown), "{shown}");
    }
    assert!(!page.contains("NaN") && !page.contains("SIMULATED"));
}

#[test]
fn advice_of_an_experiment_is_shown_once_and_escaped() {
    let mut builder = synthetic::RunBuilder::new("Box", "2026-01-02T03:04:05Z");
    builder.advice("residency", "Pin it: <b>1.5</b> times as fast.");
    let runs = [builder.run()];
    let page = render(&Report::new(&runs));
    assert_eq!(page.matches("Pin it: &lt;b&gt;1.5&lt;&#x2f;b&gt; times as fast.").count(), 1, "{page}");
    assert!(page.contains("<strong>Advice:</strong>"));
    let marked = crate::markdown::render(&Report::new(&runs));
    assert!(marked.contains("**Advice:** Pin it: &lt;b&gt;1.5&lt;/b&gt; times as fast."), "{marked}");
    let plain = crate::terminal::render(&Report::new(&runs), &crate::terminal::Style::PLAIN);
    assert!(plain.contains("Advice of residency: Pin it: <b>1.5</b> times as fast."), "{plain}");
}

#[test]
fn hostile_names_are_escaped() {
    let mut run = synthetic::run(synthetic::HOSTILE, "2026-01-02T03:04:05Z", 1.0);
    let device = &mut run.header.devices[0];
    device.driver = Some(synthetic::HOSTILE.into());
    device.notes.insert(synthetic::HOSTILE.into(), "</style></title>".into());
    run.faults[0].what = synthetic::HOSTILE.into();
    run.findings[0].name = synthetic::HOSTILE.into();
    let page = render(&Report::new(&[run]));
    assert!(
        page.matches("<script").count() == 1
            && !page.contains("</style></title>")
            && page.matches("</style>").count() == 1
    );
    assert!(!page.contains('\u{202e}') && !page.contains('\x1b'));
    assert!(page.contains("&lt;script&gt;"));
}

#[test]
fn two_runs_of_one_device_share_pictures_and_have_distinct_labels() {
    let runs = [synthetic::run("Box", "2026-01-02T03:04:05Z", 1.0), synthetic::run("Box", "2026-01-03T03:04:05Z", 1.1)];
    let page = render(&Report::new(&runs));
    // The legend names each series once and each run once: a line has one of each.
    let curve = page.split("<svg class=\"chart\"").find(|picture| picture.contains(">footprint curve<")).unwrap();
    for label in [">read<", ">copy<", ">run 1<", ">run 2<"] {
        assert_eq!(curve.matches(label).count(), 1, "{label}");
    }
    assert_eq!(
        curve.matches("<g class=\"h0\" data-k=\"0 ").count(),
        2 * 2,
        "both runs' lines and marks share a colour"
    );
    // Two pictures for the heat maps, one each for the rest, and one in the overview.
    assert_eq!(page.matches("<figure ").count(), 5);
}

#[test]
fn page_marks_simulated_devices_and_renders_empty_reports() {
    let mut run = synthetic::RunBuilder::new("sim", "2026-01-02T03:04:05Z").cut_off();
    run.header.devices[0].backend = "sim".into();
    let page = render(&Report::new(&[run]));
    assert!(page.contains("SIMULATED") && page.contains("No findings") && page.contains("cut off"));
    assert!(render(&Report::new(&[])).contains("no runs"));
}

#[test]
fn marks_of_pictures_name_their_rows_of_the_tables() {
    let runs = [synthetic::run("Box", "2026-01-02T03:04:05Z", 1.0)];
    let report = Report::new(&runs);
    let page = render(&report);
    let (_, section) = page.split_once("<section id=\"probe-0\"").unwrap();
    let section = section.split("</section>").next().unwrap();
    let rows = runs[0].series[0].rows.len();
    for row in 0..rows {
        assert_eq!(section.matches(&format!("data-r=\"{row}\"")).count(), 1, "{row}");
    }
    assert!(!section.contains(&format!("data-r=\"{rows}\"")));
    let (_, body) = section.split_once("data-first=\"0\"").unwrap();
    assert_eq!(body.split("</tbody>").next().unwrap().matches("<tr><td>").count(), rows);
}

#[test]
fn an_outlier_among_machines_of_one_model_is_marked() {
    let run = |slower: f64| synthetic::run("Box", "2026-01-02T03:04:05Z", slower);
    let page = render(&Report::new(&[run(1.0), run(1.0), run(1.0), run(2.0)]));
    assert!(page.contains("−50.0 %") && page.matches("class=\"off\"").count() == 2, "read and triad of the last run");
    assert!(page.contains("4 × Box"));
    let page = render(&Report::new(&[run(1.0), run(1.0), run(1.001)]));
    assert!(page.contains("No figure is further from the median") && !page.contains("class=\"off\""));
    let other = synthetic::run("Other", "2026-01-02T03:04:05Z", 2.0);
    let page = render(&Report::new(&[run(1.0), other]));
    assert!(page.contains("of several models") && !page.contains("class=\"off\""));
}

#[test]
fn a_page_of_a_record_with_unknown_probes_is_complete_and_bounded() {
    let mut builder = synthetic::RunBuilder::new("Box", "2026-01-02T03:04:05Z");
    for probe in 0..300 {
        builder.finding(
            &format!("later-{probe}"),
            "rate",
            1e9,
            plimsoll_core::unit::Unit::BytePerSecond,
            "",
            plimsoll_core::Flags::NONE,
        );
    }
    for finding in 0..600 {
        builder.finding(
            "later-0",
            &format!("more {finding}"),
            1.0,
            plimsoll_core::unit::Unit::One,
            "",
            plimsoll_core::Flags::NONE,
        );
    }
    let page = render(&Report::new(&[builder.run()]));
    assert!(page.contains("later-0") && page.contains("1.000 GB&#x2f;s ± 0.005") && page.contains("not judged"));
    assert!(page.contains("100 more probes are left out") && page.contains("201 more findings are left out"));
}
