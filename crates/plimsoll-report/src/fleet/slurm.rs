//! Commands that drain the nodes of slow and broken devices: one per node, for an administrator to read and run.

use std::collections::BTreeMap;

use plimsoll_suite::check::Verdict;
use plimsoll_suite::fleet::collect::{Fleet, Judgement};
use plimsoll_suite::fleet::launcher::sanitise;

/// Most characters of a reason.
const LONGEST: usize = 160;

/// One `scontrol` command per node with a slow or broken device; empty where there is none.
#[must_use]
pub fn render_slurm(fleet: &Fleet) -> String {
    let mut hosts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let is_bad = |judged: &&Judgement| matches!(judged.verdict, Verdict::Slow | Verdict::Broken);
    for judged in fleet.devices.iter().filter(is_bad) {
        let host = sanitise(&judged.device.host);
        let reason = judged.reasons.first().map_or(String::new(), |reason| match (reason.headline, reason.share) {
            (Some(headline), Some(share)) => format!(" {} -{:.1}%", headline.id, 100.0 * share),
            _ => String::new(),
        });
        hosts.entry(host).or_default().push(plain(&format!(
            "{} {}{reason}",
            judged.device.slot,
            judged.verdict.name()
        )));
    }
    let command = |(host, reasons): (String, Vec<String>)| {
        let reason: String = format!("plimsoll: {}", reasons.join(", ")).chars().take(LONGEST).collect();
        format!("scontrol update NodeName={host} State=DRAIN Reason='{reason}'\n")
    };
    hosts.into_iter().filter(|(host, _)| !host.is_empty()).map(command).collect()
}

/// Without characters that a shell or Slurm acts on.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || " .:%-_+".contains(c) { c } else { '_' }).collect()
}
