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
        let host = judged.device.host.clone();
        let reason = judged.reasons.first().map_or(String::new(), |reason| match (reason.headline, reason.share) {
            (Some(headline), Some(share)) => format!(" {} -{:.1}%", headline.id, 100.0 * share),
            // What it is about: `digest of integer`.
            _ => reason.text.split_once(':').map_or(String::new(), |(what, _)| format!(" {what}")),
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
    let (nodes, others): (Vec<_>, Vec<_>) = hosts.into_iter().partition(|(host, _)| is_node(host));
    let comment = |(host, _): (String, Vec<String>)| format!("# not a node's name: {}\n", plain(&host));
    nodes.into_iter().map(command).chain(others.into_iter().map(comment)).collect()
}

/// Whether a name can only be one node's: Slurm takes `ALL` for every node, and brackets and commas for several. A name that
/// would have to be changed isn't the node's.
fn is_node(host: &str) -> bool {
    !host.is_empty() && sanitise(host) == host && !host.eq_ignore_ascii_case("all")
}

/// Without characters that a shell or Slurm acts on.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || " .:%-_+".contains(c) { c } else { '_' }).collect()
}
