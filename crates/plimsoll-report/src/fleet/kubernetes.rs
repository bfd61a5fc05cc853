//! The condition of each node for Kubernetes: one `kubectl` command per node, for an administrator to read and run.

use std::collections::BTreeMap;

use plimsoll_suite::check::Verdict;
use plimsoll_suite::fleet::collect::{Fleet, Judgement};
use serde_json::json;

use super::nodes::{describe, is_bad, not_a_node};

/// The condition's type. As with the conditions of the node problem detector, `True` is bad.
const CONDITION: &str = "GpuSlowOrBroken";
/// Most characters of a message.
const LONGEST: usize = 1024;
/// Most characters of a node's name.
const LONGEST_NODE: usize = 253;

/// One command per node with a device. The condition is `True` where a device is slow or broken; else `Unknown` where one is unknown, or
/// where devices of the fleet have no usable file, since nobody knows whose they are; else `False`: a repaired node needs the command too.
#[must_use]
pub fn render_kubernetes(fleet: &Fleet) -> String {
    let mut hosts: BTreeMap<&str, Vec<&Judgement>> = BTreeMap::new();
    for judged in &fleet.devices {
        hosts.entry(&judged.device.host).or_default().push(judged);
    }
    let (nodes, others): (Vec<_>, Vec<_>) = hosts.into_iter().partition(|(host, _)| is_node(host));
    let command = |(host, devices): (&str, Vec<&Judgement>)| {
        let patch = json!({ "status": { "conditions": [condition(devices, fleet.is_incomplete())] } });
        format!("kubectl patch node {host} --subresource=status --type=strategic --patch='{patch}'\n")
    };
    nodes.into_iter().map(command).chain(others.into_iter().map(|(host, _)| not_a_node(host))).collect()
}

fn condition(mut devices: Vec<&Judgement>, incomplete: bool) -> serde_json::Value {
    devices.sort_by_key(|judged| std::cmp::Reverse(judged.verdict.severity()));
    let with = |verdict: Verdict| devices.iter().filter(move |judged| judged.verdict == verdict);
    let (status, reason) = if with(Verdict::Broken).next().is_some() {
        ("True", "GpuBroken")
    } else if with(Verdict::Slow).next().is_some() {
        ("True", "GpuSlow")
    } else if with(Verdict::Unknown).next().is_some() {
        ("Unknown", "NotMeasured")
    } else if incomplete {
        ("Unknown", "FilesMissing")
    } else {
        ("False", "NoFaultFound")
    };
    let named = devices.iter().filter(|judged| is_bad(judged) || judged.verdict == Verdict::Unknown);
    let named: Vec<String> = named.map(|judged| describe(judged)).collect();
    let plural = if devices.len() == 1 { "" } else { "s" };
    let text = match named.join(", ") {
        text if text.is_empty() => format!("no fault found in {} device{plural}", devices.len()),
        text => text,
    };
    let text = if incomplete { format!("{text}; devices of the fleet are missing") } else { text };
    let message: String = format!("plimsoll: {text}").chars().take(LONGEST).collect();
    let mut condition = json!({ "type": CONDITION, "status": status, "reason": reason, "message": message });
    let latest = devices.iter().map(|judged| judged.device.started.as_str()).filter(|time| is_time(time)).max();
    if let Some(latest) = latest {
        condition["lastHeartbeatTime"] = format!("{}Z", &latest[..SECONDS]).into();
    }
    condition
}

/// Characters of a time to the second.
const SECONDS: usize = "2026-01-01T00:00:00".len();

/// Whether it is a time in UTC as RFC 3339 writes it, with or without parts of a second; each part is in its range.
fn is_time(text: &str) -> bool {
    let matches = |(c, like): (char, char)| if like == '0' { c.is_ascii_digit() } else { c == like };
    let (Some(start), Some(rest)) = (text.get(..SECONDS), text.get(SECONDS..)) else { return false };
    let part = |place: usize, least: u32, most: u32| {
        start[place..place + 2].parse().is_ok_and(|number: u32| (least..=most).contains(&number))
    };
    let parts = rest.strip_suffix('Z').map(|parts| parts.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit()));
    start.chars().zip("0000-00-00T00:00:00".chars()).all(matches)
        && part(5, 1, 12)
        && part(8, 1, 31)
        && part(11, 0, 23)
        && part(14, 0, 59)
        && part(17, 0, 59)
        && parts == Some("")
}

/// Whether Kubernetes can have a node of this name (RFC 1123).
fn is_node(host: &str) -> bool {
    let allowed = |label: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        label.chars().all(|c| inner(c) || c == '-') && label.starts_with(inner) && label.ends_with(inner)
    };
    host.len() <= LONGEST_NODE && host.split('.').all(allowed)
}
