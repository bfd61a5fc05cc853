//! The short summary of a run: the verdict block of each device with all its headlines, the advice of experiments, and what could not
//! be measured.

use plimsoll_core::record::Run;
use plimsoll_suite::check::check;

use super::{Style, wrap};
use crate::Report;
use crate::text::clean;

/// Most reasons why something was not measured that are listed; the others are counted.
const REASONS: usize = 8;

/// The short summary, with at most the `top` headlines of each device that matter most. `None` where a run has no headlines or several runs are reported, so that only the whole summary says anything.
#[must_use]
pub fn brief(report: &Report<'_>, top: Option<usize>, style: &Style) -> Option<String> {
    let [entry] = report.entries.as_slice() else { return None };
    let run: &Run = entry.run;
    let mut out = String::new();
    if report.is_simulated() {
        let warning = style.bold("SIMULATED: these figures describe no real machine");
        out += &format!("{}\n", wrap(&warning, style.columns(), "  "));
    }
    for (device, info) in (0..).zip(&run.header.devices) {
        let mut found = check(run, device, plimsoll_probes::ALL)?;
        if found.rows.is_empty() {
            return None;
        }
        let all = found.rows.len();
        let left_out = top.map_or(0, |top| found.keep_top(top));
        out += &super::check(&found, info, true, style);
        if left_out > 0 {
            out +=
                &format!("{}\n", wrap(&format!("--top left out {left_out} of {all} figures"), style.columns(), "  "));
        }
        out.push('\n');
    }
    for section in &report.sections {
        for (label, says) in section.advice() {
            let probe = if label.is_empty() { section.probe.clone() } else { format!("{} ({label})", section.probe) };
            out += &format!("{}\n", wrap(&clean(&format!("{probe}: {says}")), style.columns(), "  "));
        }
    }
    let (doubtful, points) = report.count_doubtful();
    if doubtful > 0 {
        let line = format!("{doubtful} of {points} points carry a flag that throws doubt on them.");
        out += &format!("{}\n", wrap(&line, style.columns(), "  "));
    }
    let problems = report.list_problems();
    for problem in problems.iter().take(REASONS) {
        out += &format!("{}\n", wrap(&format!("not measured: {problem}"), style.columns(), "  "));
    }
    if problems.len() > REASONS {
        out += &format!("not measured: {} more\n", problems.len() - REASONS);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn a_run_with_headlines_has_a_short_summary_and_others_have_none() {
        let runs = [synthetic::run("Box", "2026-01-02T03:04:05Z", 1.0)];
        let text = brief(&Report::new(&runs), None, &Style::PLAIN).unwrap();
        assert!(text.contains("memory read") && text.contains("not judged"), "{text}");
        assert!(text.lines().count() <= 60, "{text}");
        let top = brief(&Report::new(&runs), Some(1), &Style::PLAIN).unwrap();
        assert!(top.contains("--top left out 1 of 2 figures") && top.contains("memory read"), "{top}");
        assert!(!top.contains("triad") && !text.contains("--top"), "{top}");
        let two = [runs[0].clone(), runs[0].clone()];
        assert!(brief(&Report::new(&two), None, &Style::PLAIN).is_none());
        let mut without = runs[0].clone();
        without.findings.clear();
        assert!(brief(&Report::new(&[without]), None, &Style::PLAIN).is_none());
    }
}
