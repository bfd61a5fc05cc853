//! The profiles of machines that are shipped with the tool, made from this repository's records. Which figures are taken is
//! the profile's own business; here it is which runs. Findings are derived from the series again, because the records were
//! made by older versions, which read their own figures otherwise.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use plimsoll::probes;
use plimsoll_core::record::{Finding, Record, Run, Sink, Writer, path_in, read_file};
use plimsoll_core::sample::Effort;
use plimsoll_core::series::Series;
use plimsoll_suite::profile::{Profile, shipped};

use crate::test::root;

/// The folder of `records/` with a model's runs (`DATE/NAME/run.jsonl.gz`), and its name in the catalogue.
const MODELS: [(&str, &str); 1] = [("h200", "H200")];

/// `cargo xtask profiles`: writes them; with `--check` only says whether they are as the records have them.
///
/// # Errors
/// A record that can't be read, a file that can't be written, or one that is out of date.
pub fn command(arguments: &[String]) -> Result<()> {
    let check = match arguments {
        [] => false,
        [only] if only == "--check" => true,
        _ => bail!("usage: cargo xtask profiles [--check]"),
    };
    for (folder, name) in MODELS {
        let text = made(folder, name)?;
        let path = root().join(format!("crates/plimsoll-suite/profiles/{folder}.json"));
        if !check {
            std::fs::write(&path, &text).with_context(|| format!("can't write {}", path.display()))?;
        } else if std::fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            bail!("{} isn't what records/{folder} gives: run `cargo xtask profiles`", path.display());
        }
        eprintln!("{name}: {}", path.display());
    }
    Ok(())
}

/// `cargo xtask headlines RUN FILE`: writes what is kept of a further card of a known model: a record with no series, only the
/// run's header and, of today's findings, those that compete in a metric.
///
/// # Errors
/// A run that can't be read, or a file that exists or can't be written.
pub fn headlines(arguments: &[String]) -> Result<()> {
    let [run, file] = arguments else { bail!("usage: cargo xtask headlines RUN FILE") };
    let path = if Path::new(run).is_dir() { path_in(Path::new(run)) } else { run.into() };
    let run = read_file(&path).with_context(|| format!("can't read {}", path.display()))?;
    let mut record = Writer::create(Path::new(file)).with_context(|| format!("can't write {file}"))?;
    let findings = derived(&run).into_iter().filter(|finding| !finding.metric.is_empty());
    record.write(&Record::Run(run.header.clone()))?;
    for finding in findings {
        record.write(&Record::Finding(finding))?;
    }
    Ok(record.write(&Record::End { complete: run.end.unwrap_or(false) })?)
}

/// The profile of a model as text: of its runs that tried as hard as figures to compare need, the newest of each figure.
fn made(folder: &str, name: &str) -> Result<String> {
    let records = root().join("records").join(folder);
    let mut runs = Vec::new();
    for path in records_in(&records)? {
        let mut run = read_file(&path).with_context(|| format!("can't read {}", path.display()))?;
        // Reading counters takes launches of its own.
        if run.header.effort != Effort::Quick && !run.header.conditions.counters {
            run.findings = derived(&run);
            let of = path.parent().and_then(|parent| parent.strip_prefix(root().join("records")).ok());
            runs.push((of.context("a record outside of records/")?.display().to_string(), run));
        }
    }
    runs.sort_by(|(_, a), (_, b)| a.header.started.cmp(&b.header.started));
    let mut profile = Profile::new(&shipped::model_id(name), name, "", "");
    for (of, run) in &runs {
        take(&mut profile, of, run)?;
    }
    Ok(profile.text()?)
}

/// What today's probes find in a run's series.
fn derived(run: &Run) -> Vec<Finding> {
    let mut found = Vec::new();
    for (device, info) in (0..).zip(&run.header.devices) {
        for spec in probes::ALL {
            let own = |series: &&Series| series.spec.device == device && series.spec.probe == spec.name;
            let series: Vec<Series> = run.series.iter().filter(own).cloned().collect();
            if series.is_empty() {
                continue;
            }
            let probe = || spec.name.to_owned();
            found.extend((spec.findings)(info, &series).into_iter().map(|of| Finding { device, probe: probe(), ..of }));
        }
    }
    found
}

fn take(profile: &mut Profile, of: &str, run: &Run) -> Result<()> {
    for device in 0..run.header.devices.len() as u32 {
        // A run under conditions of its own has nothing to give.
        let Ok(Some(found)) = Profile::of_run(run, device, of) else { continue };
        let (device_id, device_name) = (profile.device_id.clone(), profile.device_name.clone());
        profile.merge(Profile { device_id, device_name, ..found })?;
    }
    Ok(())
}

/// `DATE/NAME/run.jsonl`, compressed or not, below a folder.
fn records_in(folder: &Path) -> Result<Vec<PathBuf>> {
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
    fn findings_are_those_of_today_s_probes_and_not_those_that_a_record_holds() {
        let folder = root().join("records/h200/2026-11-20-second/measure-1");
        let mut run = read_file(&path_in(&folder)).unwrap();
        let stored = std::mem::take(&mut run.findings);
        let (copy, found) = (|of: &&Finding| of.probe == "copy", derived(&run));
        assert!(found.iter().any(|finding| copy(&finding)) && stored.iter().any(|finding| copy(&finding)));
        let known = probes::ALL.iter().map(|spec| spec.name).collect::<Vec<_>>();
        assert!(found.iter().all(|finding| known.contains(&&*finding.probe) && finding.device == 0));
        // Whatever a record says that it found makes no difference.
        run.findings = stored;
        run.findings[0].name = "nonsense".to_owned();
        assert_eq!(derived(&run), found);
    }

    #[test]
    fn headlines_of_a_run_are_a_record_of_findings_that_compete() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("card.jsonl").display().to_string();
        let run = root().join("records/h200/2026-11-20-second/measure-1");
        let arguments = [run.display().to_string(), file];
        headlines(&arguments).unwrap();
        let [whole, kept] = [path_in(&run), arguments[1].clone().into()].map(|path| read_file(&path).unwrap());
        assert_eq!(kept.header, whole.header);
        assert!(
            kept.series.is_empty() && kept.findings.iter().any(|of| of.metric == "bandwidth") && kept.end.is_some()
        );
        assert!(headlines(&arguments).is_err(), "nothing is overwritten");
    }

    #[test]
    fn the_shipped_profiles_are_what_the_records_give() {
        command(&["--check".to_owned()]).unwrap();
    }
}
