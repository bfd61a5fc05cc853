//! Narrows what is shown: `--probe` keeps some probes of a record, `--top` the rows that matter most. What is left out is counted.

use plimsoll::core::record::Run;

use super::exit::Failure;

/// Keeps only these probes of each run; an empty list keeps all. Returns the names of the probes that are left out. Fails where no run
/// has one of the probes, and lists those that the runs have.
pub(crate) fn keep_probes(runs: &mut [Run], names: &[String]) -> Result<Vec<String>, Failure> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let known = list_probes(runs);
    if let Some(name) = names.iter().find(|name| !known.contains(*name)) {
        let place = if runs.len() == 1 { "the record" } else { "the records" };
        let hint = match known.as_slice() {
            [] => format!("{place} holds no probe"),
            _ => format!("{place} has {}", known.join(", ")).replace("records has", "records have"),
        };
        return Err(Failure::usage(format!("no probe of {place} is called '{name}'")).hint(hint));
    }
    for run in runs {
        run.series.retain(|series| names.contains(&series.spec.probe));
        run.findings.retain(|finding| names.contains(&finding.probe));
        run.faults.retain(|fault| !fault.unopened.is_empty() || names.contains(&fault.probe));
    }
    Ok(known.into_iter().filter(|name| !names.contains(name)).collect())
}

/// The probes with a series, a finding or a fault in a run, in the order of the records.
fn list_probes(runs: &[Run]) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for run in runs {
        let series = run.series.iter().map(|series| &series.spec.probe);
        let findings = run.findings.iter().map(|finding| &finding.probe);
        let faults = run.faults.iter().map(|fault| &fault.probe);
        for name in series.chain(findings).chain(faults) {
            if !name.is_empty() && !known.contains(name) {
                known.push(name.clone());
            }
        }
    }
    known
}

/// `--probe left out 5 probes: copy, latency, …`; `None` where none is left out.
pub(crate) fn describe_probes(left_out: &[String]) -> Option<String> {
    match left_out {
        [] => None,
        [one] => Some(format!("--probe left out 1 probe: {one}")),
        several => Some(format!("--probe left out {} probes: {}", several.len(), several.join(", "))),
    }
}

/// `--top left out 5 of 17 figures`; `None` where none is left out.
pub(crate) fn describe_rows(all: usize, top: Option<usize>) -> Option<String> {
    let left_out = all.saturating_sub(top.unwrap_or(all));
    (left_out > 0).then(|| format!("--top left out {left_out} of {all} figures"))
}
