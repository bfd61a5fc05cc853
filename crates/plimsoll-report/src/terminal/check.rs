//! The verdict block: what a device is, its headline figures next to what they should be, and one sentence.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::headline::Role;
use plimsoll_core::unit::Unit;
use plimsoll_suite::check::{Check, Note, Row, State, Verdict};
use unicode_width::UnicodeWidthStr;

use super::{Column, Style, Table, format_margin, wrap};
use crate::text::clean;

/// The verdict block of one device. `all` also shows the headlines that aren't part of the verdict.
#[must_use]
pub fn check(check: &Check, info: &DeviceInfo, all: bool, style: &Style) -> String {
    let mut out = format!("{}\n", wrap(&style.bold(&describe_device(info)), style.columns(), "  "));
    let rows: Vec<&Row> = check.rows.iter().filter(|row| all || row.headline.role == Role::Gate).collect();
    if !rows.is_empty() {
        out += &build_table(&rows).render(style);
    }
    let width =
        rows.iter().map(|row| row.headline.name.width()).chain(check.notes.iter().map(|note| note.name.width())).max();
    for note in &check.notes {
        out += &describe_note(note, width.unwrap_or(0), style);
    }
    if !check.hidden.is_empty() {
        let line = clean(&format!("not visible here: {}", check.hidden.join("; ")));
        out += &format!("{}\n", style.faint(&wrap(&line, style.columns(), "  ")));
    }
    let verdict = clean(&check.sentence);
    let word = check.verdict.name();
    let line = wrap(&verdict, style.columns(), "");
    out += &format!("\n{}\n", line.replacen(word, &paint(word, check.verdict, style), 1));
    if style.unicode { out } else { out.replace(" … ", " to ").replace('–', "-") }
}

fn paint(word: &str, verdict: Verdict, style: &Style) -> String {
    let code = match verdict {
        Verdict::Healthy => "1;32",
        Verdict::Slow | Verdict::Broken => "1;31",
        Verdict::Unknown | Verdict::NotJudged => "1;33",
    };
    style.paint(word, code)
}

/// `NVIDIA H200 (cuda:0)  driver 580.159.04  140 GiB  1.980 GHz  700 W  PCIe 5.0 x16`
fn describe_device(info: &DeviceInfo) -> String {
    let health = &info.health;
    let driver = info.notes.get("driver release").or(info.driver.as_ref());
    let memory = (info.memory_total > 0).then(|| Unit::Byte.format(info.memory_total as f64));
    let clock = health.clock_most.or(info.calibration.clock_hz).map(|hertz| Unit::Hertz.format(hertz));
    let parts = [
        Some(format!("{} ({})", info.name, info.selector)),
        driver.map(|driver| format!("driver {driver}")),
        memory,
        clock,
        health.power_limit.map(|watts| format!("{watts:.0} W")),
        health.link.map(|link| link.to_string()),
    ];
    clean(&parts.into_iter().flatten().collect::<Vec<_>>().join("  "))
}

fn build_table(rows: &[&Row]) -> Table {
    let mut table = Table::new(vec![
        Column::text(""),
        Column::number("measured"),
        Column::number("expected").keep(3).below(),
        Column::number("of peak").keep(2).below(),
        Column::text(""),
        Column::text("why").keep(1).below(),
    ]);
    for row in rows {
        let margin = format_margin(&row.unit, row.measured.value, row.measured.interval);
        let is_wide = row.state == State::Unclear;
        let measured = format!("{}{}", row.unit.format(row.measured.value), if is_wide { &margin } else { "" });
        let expected = row.expected.as_ref().map(|known| row.unit.format_range(known.interval.lo, known.interval.hi));
        let of_peak = row.of_peak().map(|share| format!("{:.0} %", 100.0 * share));
        table.row([
            row.headline.name.to_owned(),
            measured,
            expected.unwrap_or_else(|| "–".to_owned()),
            of_peak.unwrap_or_else(|| "–".to_owned()),
            row.state.name().to_owned(),
            row.why.clone(),
        ]);
    }
    table
}

/// `memory errors   0 uncorrectable, 0 corrected   ok`
fn describe_note(note: &Note, width: usize, style: &Style) -> String {
    let name = format!("{}{}", note.name, " ".repeat(width.saturating_sub(note.name.width())));
    let line = clean(&format!("{name}  {} – {}", note.text, note.word()));
    format!("{}\n", wrap(&line, style.columns(), &" ".repeat((width + 2).min(style.columns() / 2))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    fn checked(width: usize) -> String {
        let run = synthetic::run("NVIDIA H200", "2026-01-02T03:04:05Z", 1.0);
        let found = plimsoll_suite::check::check(&run, 0, plimsoll_probes::ALL).unwrap();
        check(&found, &run.header.devices[0], true, &Style { width, ..Style::PLAIN })
    }

    #[test]
    fn every_line_fits_and_no_row_loses_its_name() {
        for width in [40, 60, 80, 120] {
            let text = checked(width);
            assert!(text.lines().all(|line| line.width() <= width), "{width}:\n{text}");
            assert!(text.contains("NVIDIA H200") && text.contains("wrong results"), "{text}");
        }
    }

    #[test]
    fn a_terminal_without_unicode_gets_neither_dashes_nor_ellipses() {
        let run = synthetic::run("NVIDIA H200", "2026-01-02T03:04:05Z", 1.0);
        let found = plimsoll_suite::check::check(&run, 0, plimsoll_probes::ALL).unwrap();
        let text = check(&found, &run.header.devices[0], true, &Style { unicode: false, ..Style::PLAIN });
        assert!(!text.contains(['…', '–', '─']) && text.contains(" to "), "{text}");
    }
}
