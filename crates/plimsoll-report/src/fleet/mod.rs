//! The judgement of a fleet in each format. Names in it are from files of many hosts: each format cleans and escapes them.

mod html;
mod json;
mod kubernetes;
mod map;
mod nodes;
mod openmetrics;
mod slurm;
mod table;

#[cfg(test)]
mod tests;

use plimsoll_suite::check::Verdict;
use plimsoll_suite::expected::Expected;
use plimsoll_suite::fleet::collect::{Fleet, Judgement, Reason};
use plimsoll_suite::fleet::rule::Deviation;
use plimsoll_suite::fleet::strata::FigureOfFleet;

pub use html::render_html;
pub use json::render_json;
pub use kubernetes::render_kubernetes;
pub use openmetrics::render_openmetrics;
pub use slurm::render_slurm;
pub use table::render_table;

/// The verdicts, worst first.
const VERDICTS: [Verdict; 5] = [Verdict::Broken, Verdict::Slow, Verdict::Unknown, Verdict::NotJudged, Verdict::Healthy];

/// The verdict on a fleet in one sentence: `slow: of 32 devices 1 is slow, 31 are healthy; 1 is missing`.
#[must_use]
pub fn sentence(fleet: &Fleet) -> String {
    let all = fleet.devices.len();
    let count = |verdict: Verdict| match fleet.count(verdict) {
        0 => None,
        1 => Some(format!("1 is {}", verdict.name())),
        several => Some(format!("{several} are {}", verdict.name())),
    };
    let counts: Vec<String> = VERDICTS.into_iter().filter_map(count).collect();
    let missing = match fleet.missing {
        0 => String::new(),
        1 => "; 1 is missing".to_owned(),
        several => format!("; {several} are missing"),
    };
    let counts = if counts.is_empty() { "none can be judged".to_owned() } else { counts.join(", ") };
    let devices = if all == 1 { "device" } else { "devices" };
    format!("{}: of {all} {devices} {counts}{missing}", fleet.verdict().name())
}

/// The reasons of a device in one line: the worst in full, further figures with their shares only.
fn reasons(judged: &Judgement) -> String {
    let Some((first, others)) = judged.reasons.split_first() else { return String::new() };
    let mut text = first.text.clone();
    let (figures, facts): (Vec<&Reason>, Vec<&Reason>) =
        others.iter().partition(|reason| reason.headline.is_some() && first.headline.is_some());
    let short = |reason: &Reason| {
        let name = reason.headline.map_or("", |headline| headline.name);
        let (share, baseline) = (100.0 * reason.share.unwrap_or(0.0), reason.baseline);
        if baseline == first.baseline { format!("{name} {share:.1} %") } else { reason.text.clone() }
    };
    if !figures.is_empty() {
        text += &format!("; also {}", figures.into_iter().map(short).collect::<Vec<_>>().join(", "));
    }
    facts.iter().for_each(|fact| text += &format!("; {}", fact.text));
    text
}

/// How every device compares with its fleet, by figure.
fn deviations(fleet: &Fleet) -> Vec<Vec<(&FigureOfFleet, Deviation)>> {
    let mut all = vec![Vec::new(); fleet.devices.len()];
    for figure in &fleet.figures {
        let members = &fleet.populations[figure.population].members;
        for (member, known) in members.iter().zip(&figure.last().devices) {
            all[*member].extend(known.map(|known| (figure, known)));
        }
    }
    all
}

/// What the model should reach in a figure.
fn expected<'f>(fleet: &'f Fleet, figure: &FigureOfFleet) -> Option<&'f Expected> {
    let members = fleet.populations[figure.population].members.iter();
    let rows = members.flat_map(|member| &fleet.devices[*member].device.check.rows);
    let mut own = rows.filter(|row| row.headline.id == figure.headline.id);
    own.find_map(|row| row.expected.as_ref())
}
