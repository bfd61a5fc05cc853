use super::*;
use crate::synthetic;

#[test]
fn page_loads_nothing_from_outside_and_runs_no_script() {
    let runs = [synthetic::run("Box 9000", "2026-01-02T03:04:05Z", 1.0)];
    let page = render(&Report::new(&runs));
    assert!(page.contains("default-src 'none'; style-src 'unsafe-inline'; img-src data:"));
    for outside in ["<script", "http://", "https://", "@import", "url(", " src=", "<link", "<iframe"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for shown in ["Box 9000", "77.2 % of peak", "THROTTLE_THERMAL", "no cycle counter", "<figure><svg", "2 channels"] {
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
    assert!(!page.contains("<script") && !page.contains("</style></title>") && page.matches("</style>").count() == 1);
    assert!(!page.contains('\u{202e}') && !page.contains('\x1b'));
    assert!(page.contains("&lt;script&gt;"));
}

#[test]
fn two_runs_of_one_device_share_pictures_and_have_distinct_labels() {
    let runs = [synthetic::run("Box", "2026-01-02T03:04:05Z", 1.0), synthetic::run("Box", "2026-01-03T03:04:05Z", 1.1)];
    let page = render(&Report::new(&runs));
    assert!(page.contains(">read, run 1<") && page.contains(">read, run 2<"));
    // Two pictures for the heat maps, one each for the rest.
    assert_eq!(page.matches("<figure>").count(), 4);
}

#[test]
fn page_marks_simulated_devices_and_renders_empty_reports() {
    let mut run = synthetic::RunBuilder::new("sim", "2026-01-02T03:04:05Z").cut_off();
    run.header.devices[0].backend = "sim".into();
    let page = render(&Report::new(&[run]));
    assert!(page.contains("SIMULATED") && page.contains("No findings") && page.contains("cut off"));
    assert!(render(&Report::new(&[])).contains("no runs"));
}
