//! What slow and broken devices mean for their nodes, in words that shells and schedulers don't act on.

use plimsoll_suite::check::Verdict;
use plimsoll_suite::fleet::collect::Judgement;

/// Whether the verdict is a reason to take a node out of service.
pub(super) fn is_bad(judged: &Judgement) -> bool {
    matches!(judged.verdict, Verdict::Slow | Verdict::Broken)
}

/// A device, its verdict and its first reason: `0000:1b:00.0 slow stream.read -5.1%`.
pub(super) fn describe(judged: &Judgement) -> String {
    let reason = judged.reasons.first().map_or(String::new(), |reason| match (reason.headline, reason.share) {
        (Some(headline), Some(share)) => format!(" {} -{:.1}%", headline.id, 100.0 * share),
        // What it is about: `digest of integer`.
        _ => reason.text.split_once(':').map_or(String::new(), |(what, _)| format!(" {what}")),
    });
    plain(&format!("{} {}{reason}", judged.device.slot, judged.verdict.name()))
}

/// Without characters that a shell or a scheduler acts on.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || " .:%-_+".contains(c) { c } else { '_' }).collect()
}

/// The line for a host whose name can't be a node's.
pub(super) fn not_a_node(host: &str) -> String {
    format!("# not a node's name: {}\n", plain(host))
}
