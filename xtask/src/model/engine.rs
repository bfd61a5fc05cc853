//! Compares the model with the engine's own kernels: the output of `plimsoll explain --format json` on a device, in folders of
//! `records/h200/` whose names end in `-explain`. Each launch includes its description, so it is predicted again by today's model.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use plimsoll_core::model::{Description, Machine, predict};
use plimsoll_core::record::read_text;
use serde_json::Value;

use super::{Errors, MAX_BYTES, naive, regime};
use crate::test::root;

/// Printed if there are no such records yet.
const NONE: &str = "No records of the engine's own launches are committed yet.\n";
/// Flags of figures that are not usable for the comparison.
const UNFIT: [&str; 2] = ["VERIFY_FAIL", "BUDGET"];

/// One launch, with the names that the files give it.
struct Launch {
    expression: String,
    cache: String,
    description: Description,
    /// Seconds.
    measured: f64,
}

fn files() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in std::fs::read_dir(root().join("records/h200"))?.flatten() {
        if folder.file_name().to_string_lossy().ends_with("-explain") {
            let inside = std::fs::read_dir(folder.path())?.flatten().map(|file| file.path());
            let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.extend(inside.filter(|path| [".json", ".json.gz"].iter().any(|ending| name(path).ends_with(ending))));
        }
    }
    files.sort();
    Ok(files)
}

fn launches() -> Result<Vec<Launch>> {
    let mut launches = Vec::new();
    for path in files()? {
        let text = read_text(&path, MAX_BYTES).with_context(|| path.display().to_string())?;
        let all: Vec<Value> = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        for value in &all {
            launches.extend(parse_launch(value).with_context(|| path.display().to_string())?);
        }
    }
    Ok(launches)
}

/// Parses a launch; `None` if it was not measured or its figure is not usable.
fn parse_launch(value: &Value) -> Result<Option<Launch>> {
    let Some(measured) = value["measured"]["seconds"].as_f64() else { return Ok(None) };
    let flags = value["measured"]["flags"].as_str().unwrap_or_default();
    if UNFIT.iter().any(|flag| flags.contains(flag)) {
        return Ok(None);
    }
    let word = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let description = serde_json::from_value(value["description"].clone())?;
    Ok(Some(Launch { expression: word("expression"), cache: word("cache"), description, measured }))
}

/// The group of all launches.
const ALL: &str = "**all**";

/// Errors by expression, by cache, by limiter, and of all launches.
fn groups(machine: &Machine) -> Result<BTreeMap<(u8, String), Errors>> {
    let mut groups: BTreeMap<(u8, String), Errors> = BTreeMap::new();
    for launch in &launches()? {
        let predicted = predict(&launch.description, machine);
        let total = predicted.total.context("a term is missing")?.value;
        let simple = naive(machine, &launch.description)?;
        let names = [
            (0, launch.expression.clone()),
            (1, launch.cache.clone()),
            (2, format!("limited by {}", regime(predicted.limiter))),
            (3, ALL.to_owned()),
        ];
        for name in names {
            let errors = groups.entry(name).or_default();
            errors.model.push(total / launch.measured - 1.0);
            errors.naive.push(simple / launch.measured - 1.0);
        }
    }
    Ok(groups)
}

/// The table: median and 95 % quantile of the errors by expression, by cache, by limiter and of all launches, next to those of
/// T₀ + V/B.
pub fn table(machine: &Machine) -> Result<String> {
    let groups = groups(machine)?;
    if groups.is_empty() {
        return Ok(NONE.to_owned());
    }
    let mut text = String::from(
        "| launches | number | median | 95 % | T₀ + V/B: median | 95 % | ratio of medians |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for ((_, name), Errors { model, naive }) in &groups {
        let percent = |errors: &[f64], share: f64| 100.0 * Errors::quantile(errors, share);
        let [a, b, c, d] = [percent(model, 0.5), percent(model, 0.95), percent(naive, 0.5), percent(naive, 0.95)];
        writeln!(text, "| {name} | {} | {a:.1} % | {b:.1} % | {c:.1} % | {d:.1} % | {:.2} |", model.len(), a / c)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_of_an_explanation_are_parsed_without_unusable_ones() {
        let value = |flags: &str| {
            serde_json::json!({
                "expression": "copy", "cache": "hot",
                "measured": {"seconds": 2e-6, "flags": flags},
                "description": {
                    "traffic": {"read": 1024, "written": 1024}, "footprint": 2048, "cache": "hot", "launch": "graph",
                    "blocks": 1, "threads": 128, "resident": 16, "in_flight": 16, "instructions": {"issue": 20.0},
                    "serial_cycles": 0.0,
                },
            })
        };
        let launch = parse_launch(&value("")).unwrap().unwrap();
        assert_eq!((launch.expression.as_str(), launch.description.traffic.total()), ("copy", 2048));
        assert!(parse_launch(&value("VERIFY_FAIL")).unwrap().is_none());
        assert!(parse_launch(&serde_json::json!({"measured": null})).unwrap().is_none());
    }

    #[test]
    fn errors_for_the_engine_s_launches_stay_within_the_documented_limits() {
        let h200 = plimsoll_suite::model::of_machine("H200").unwrap();
        assert!(table(&h200).unwrap().contains(ALL));
        for ((kind, name), Errors { model, naive }) in &groups(&h200).unwrap() {
            let [median, most] = [0.5, 0.95].map(|share| Errors::quantile(model, share));
            let simple = Errors::quantile(naive, 0.5);
            match kind {
                // Launches limited by memory are V/B in either model.
                2 => assert!(median <= 0.08 && (median <= 0.5 * simple || simple < 0.02), "{name}: {median} {simple}"),
                3 => assert!(median <= 0.05 && most <= 0.12, "{name}: {median} {most}"),
                _ => assert!(median <= 0.05, "{name}: {median}"),
            }
        }
    }
}
