//! Commands that drain the nodes of slow and broken devices: one per node, for an administrator to read and run.

use std::collections::BTreeMap;

use plimsoll_suite::fleet::collect::Fleet;
use plimsoll_suite::fleet::launcher::sanitise;

use super::nodes::{describe, is_bad, not_a_node};

/// Most characters of a reason.
const LONGEST: usize = 160;

/// One `scontrol` command per node with a slow or broken device; empty where there is none.
#[must_use]
pub fn render_slurm(fleet: &Fleet) -> String {
    let mut hosts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for judged in fleet.devices.iter().filter(|judged| is_bad(judged)) {
        hosts.entry(judged.device.host.clone()).or_default().push(describe(judged));
    }
    let command = |(host, reasons): (String, Vec<String>)| {
        let reason: String = format!("plimsoll: {}", reasons.join(", ")).chars().take(LONGEST).collect();
        format!("scontrol update NodeName={host} State=DRAIN Reason='{reason}'\n")
    };
    let (nodes, others): (Vec<_>, Vec<_>) = hosts.into_iter().partition(|(host, _)| is_node(host));
    nodes.into_iter().map(command).chain(others.into_iter().map(|(host, _)| not_a_node(&host))).collect()
}

/// Whether a name can only be one node's: Slurm takes `ALL` for every node, and brackets and commas for several. A name that
/// would have to be changed isn't the node's.
fn is_node(host: &str) -> bool {
    !host.is_empty() && sanitise(host) == host && !host.eq_ignore_ascii_case("all")
}
