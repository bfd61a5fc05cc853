//! Writes the machine profiles and the expectations that are shipped with the tool, from this repository's records. This module chooses the runs; the
//! profile chooses the figures. Findings are derived from the series again, because older versions derived them differently.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use plimsoll::probes;
use plimsoll_core::record::{Finding, Record, Run, Sink, Writer, path_in, read_file};
use plimsoll_core::sample::Effort;
use plimsoll_suite::profile::{Profile, shipped};

use crate::expected;
use crate::test::root;

/// For each model, the folder of `records/` with its runs (`DATE/NAME/run.jsonl.gz`) and its name in the catalogue.
const MODELS: [(&str, &str); 1] = [("h200", "H200")];

/// `cargo xtask profiles`: writes the profiles and the expectations; with `--check` only fails if one is out of date.
pub fn command(arguments: &[String]) -> Result<()> {
    let check = match arguments {
        [] => false,
        [only] if only == "--check" => true,
        _ => bail!("usage: cargo xtask profiles [--check]"),
    };
    for (folder, name) in MODELS {
        for (kind, text) in [("profiles", build_profile(folder, name)?), ("expected", expected::build(folder, name)?)] {
            let path = root().join(format!("crates/plimsoll-suite/{kind}/{folder}.json"));
            if !check {
                std::fs::write(&path, &text).with_context(|| format!("can't write {}", path.display()))?;
            } else if std::fs::read_to_string(&path).ok().as_ref() != Some(&text) {
                bail!("{} is out of date with records/{folder}: run `cargo xtask profiles`", path.display());
            }
            eprintln!("{name}: {}", path.display());
        }
    }
    Ok(())
}

/// `cargo xtask headlines RUN FILE`: writes the small record that is kept for a further card of a known model: no series, only the
/// run's header and those of today's findings that have a metric or are headlines. Fails if `FILE` exists.
pub fn headlines(arguments: &[String]) -> Result<()> {
    let [run, file] = arguments else { bail!("usage: cargo xtask headlines RUN FILE") };
    let path = if Path::new(run).is_dir() { path_in(Path::new(run)) } else { run.into() };
    let run = read_file(&path).with_context(|| format!("can't read {}", path.display()))?;
    let mut record = Writer::create(Path::new(file)).with_context(|| format!("can't write {file}"))?;
    let is_headline = |finding: &Finding| {
        let declared = probes::ALL.iter().filter(|probe| probe.name == finding.probe).flat_map(|probe| probe.headlines);
        declared.flat_map(|headline| headline.findings).any(|name| *name == finding.name)
    };
    let findings = derive_findings(&run).into_iter();
    let findings = findings.filter(|finding| !finding.metric.is_empty() || is_headline(finding));
    record.write(&Record::Run(run.header.clone()))?;
    for finding in findings {
        record.write(&Record::Finding(finding))?;
    }
    Ok(record.write(&Record::End { complete: run.end.unwrap_or(false) })?)
}

/// The profile of a model as text: the newest value of each figure, from runs at effort `standard` or above.
fn build_profile(folder: &str, name: &str) -> Result<String> {
    let records = root().join("records").join(folder);
    let mut runs = Vec::new();
    for path in records_in(&records)? {
        let mut run = read_file(&path).with_context(|| format!("can't read {}", path.display()))?;
        // Runs with counters are left out: reading counters needs extra launches.
        if run.header.effort != Effort::Quick && !run.header.conditions.counters {
            run.findings = derive_findings(&run);
            let source = path.parent().and_then(|parent| parent.strip_prefix(root().join("records")).ok());
            runs.push((source.context("a record outside records/")?.display().to_string(), run));
        }
    }
    runs.sort_by(|(_, a), (_, b)| a.header.started.cmp(&b.header.started));
    let mut profile = Profile::new(&shipped::model_id(name), name, "", "");
    for (source, run) in &runs {
        merge_run(&mut profile, source, run)?;
    }
    Ok(profile.to_json()?)
}

/// The findings that today's probes derive from a run's series.
pub(crate) fn derive_findings(run: &Run) -> Vec<Finding> {
    plimsoll_suite::headlines::derive_findings(run, probes::ALL)
}

fn merge_run(profile: &mut Profile, source: &str, run: &Run) -> Result<()> {
    for device in 0..run.header.devices.len() as u32 {
        // A run under special conditions adds nothing.
        let Ok(Some(found)) = Profile::from_run(run, device, source) else { continue };
        let (device_id, device_name) = (profile.device_id.clone(), profile.device_name.clone());
        profile.merge(Profile { device_id, device_name, ..found })?;
    }
    Ok(())
}

/// The records `DATE/NAME/run.jsonl`, compressed or not, below a folder.
pub(crate) fn records_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let children = |folder: &Path| -> Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(folder).with_context(|| format!("can't list {}", folder.display()))?;
        Ok(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect())
    };
    let mut found = Vec::new();
    for date in children(folder)? {
        found.extend(children(&date)?.iter().map(|run| path_in(run)).filter(|path| path.is_file()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_derived_by_today_s_probes_and_not_taken_from_the_record() {
        let folder = root().join("records/h200/2026-11-20-second/measure-1");
        let mut run = read_file(&path_in(&folder)).unwrap();
        let stored = std::mem::take(&mut run.findings);
        let (copy, found) = (|finding: &&Finding| finding.probe == "copy", derive_findings(&run));
        assert!(found.iter().any(|finding| copy(&finding)) && stored.iter().any(|finding| copy(&finding)));
        let known = probes::ALL.iter().map(|spec| spec.name).collect::<Vec<_>>();
        assert!(found.iter().all(|finding| known.contains(&&*finding.probe) && finding.device == 0));
        // The findings in a record make no difference.
        run.findings = stored;
        run.findings[0].name = "nonsense".to_owned();
        assert_eq!(derive_findings(&run), found);
    }

    #[test]
    fn headlines_of_a_run_are_a_record_of_findings_with_a_metric() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("card.jsonl").display().to_string();
        let run = root().join("records/h200/2026-11-20-second/measure-1");
        let arguments = [run.display().to_string(), file];
        headlines(&arguments).unwrap();
        let [whole, kept] = [path_in(&run), arguments[1].clone().into()].map(|path| read_file(&path).unwrap());
        assert_eq!(kept.header, whole.header);
        assert!(
            kept.series.is_empty()
                && kept.findings.iter().any(|finding| finding.metric == "bandwidth")
                && kept.end.is_some()
        );
        assert!(headlines(&arguments).is_err(), "an existing file was overwritten");
    }

    #[test]
    fn the_shipped_profiles_match_the_records() {
        command(&["--check".to_owned()]).unwrap();
    }
}
