//! Markdown for issues and notebooks: the summary, a table per series, and the flags and faults in words.

use crate::Report;
use crate::content::{Case, format_coordinate, format_figure, glossary};
use crate::terminal::format_yardstick;
use crate::text::clean;

/// The whole report as GitHub-flavoured Markdown.
#[must_use]
pub fn render(report: &Report<'_>) -> String {
    let mut out = String::new();
    if report.is_simulated() {
        out.push_str("**SIMULATED: these figures describe no real machine.**\n\n");
    }
    for entry in &report.entries {
        for (device, label) in entry.labels.iter().enumerate() {
            let header = &entry.run.header;
            let line = format!("{}, {} effort, plimsoll {}", header.started, header.effort.name(), header.tool);
            out.push_str(&format!("## {}\n\n{}\n\n", escape(label), escape(&line)));
            let of_device = entry.standings.iter().filter(|standing| standing.device as usize == device);
            let rows = of_device.map(|standing| {
                let interval = standing.achieved.interval;
                vec![
                    standing.probe.clone(),
                    standing.name.clone(),
                    standing.unit.format_with_interval(standing.achieved.value, interval.into()),
                    format_yardstick(standing, &standing.ceiling),
                    format_yardstick(standing, &standing.peak),
                    format_yardstick(standing, &standing.reference),
                    standing
                        .percent()
                        .map_or("—".into(), |(percent, kind)| format!("{percent:.1} % of {}", kind.name())),
                    standing.flags.to_string(),
                ]
            });
            let head = ["probe", "finding", "achieved", "ceiling", "peak", "reference", "share", "flags"];
            out.push_str(&table(&head, rows));
        }
    }
    for section in &report.sections {
        for case in &section.cases {
            let cache = case.sources[0].series.spec.cache.name();
            out.push_str(&format!("### {} {} ({cache})\n\n", escape(&section.probe), escape(&case.name)));
            out.push_str(&series_table(case));
        }
        for (label, says) in section.advice() {
            let device = if label.is_empty() { String::new() } else { format!(" ({})", escape(&label)) };
            out.push_str(&format!("**Advice{device}:** {}\n\n", escape(&says)));
        }
    }
    let flags: Vec<String> =
        glossary(report.flags()).map(|(name, meaning)| format!("- `{name}`: {meaning}\n")).collect();
    let problems: Vec<String> =
        report.list_problems().iter().map(|problem| format!("- {}\n", escape(problem))).collect();
    for (title, lines) in [("Flags", flags), ("Not measured", problems)] {
        if !lines.is_empty() {
            out.push_str(&format!("### {title}\n\n{}\n", lines.concat()));
        }
    }
    out
}

/// A table of the rows of a series, from all its sources.
fn series_table(case: &Case<'_>) -> String {
    let spec = &case.sources[0].series.spec;
    let several = case.sources.len() > 1;
    let mut head: Vec<&str> = if several { vec!["device"] } else { vec![] };
    head.extend(spec.axes.iter().map(|axis| axis.name.as_str()));
    head.extend(spec.metrics.iter().map(|metric| metric.name.as_str()));
    head.extend(["n", "flags"]);
    let rows = case.sources.iter().flat_map(|source| {
        source.series.rows.iter().map(move |row| {
            let mut cells: Vec<String> = if several { vec![source.label.clone()] } else { vec![] };
            cells.extend(spec.axes.iter().zip(&row.at).map(|(axis, value)| format_coordinate(&axis.unit, value)));
            cells.extend(spec.metrics.iter().map(|metric| format_figure(source.series, row, &metric.name)));
            cells.extend([row.n.to_string(), row.flags.to_string()]);
            cells
        })
    });
    table(&head, rows)
}

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = line(head.iter().map(|cell| escape(cell)).collect());
    out.push_str(&line(vec!["---".to_owned(); head.len()]));
    for row in rows {
        out.push_str(&line(row.iter().map(|cell| escape(cell)).collect()));
    }
    out.push('\n');
    out
}

/// Escapes text so that nothing in it ends a cell, begins markup or becomes a link.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in clean(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // A name must not mention a user.
            '@' => out.push_str("&#64;"),
            // An underscore inside a word and a bracket inside an interval aren't markup; unescaped they are easier to read.
            '|' | '\\' | '`' | '*' | '#' | '~' => out.extend(['\\', c]),
            '[' if !text.contains("](") => out.push('['),
            '[' => out.push_str("\\["),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn a_run() {
        let runs = [synthetic::run("Box 9000", "2026-01-02T03:04:05Z", 1.0)];
        insta::assert_snapshot!(render(&Report::new(&runs)));
    }

    #[test]
    fn escape_keeps_names_from_ending_a_cell_or_starting_markup() {
        assert_eq!(escape("a|b `c` <b> *d*"), "a\\|b \\`c\\` &lt;b&gt; \\*d\\*");
        assert_eq!(escape("[x](http://y)"), "\\[x](http://y)");
        assert_eq!(escape("2 µs [1, 3]"), "2 µs [1, 3]");
    }
}
