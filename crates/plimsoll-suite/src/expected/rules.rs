//! Rules: what share of its peak a device of some kind reaches. They apply to models without known figures.

use plimsoll_core::stats::Interval;

use super::{Expected, Origin};
use crate::headlines::{Figure, is_transfer};
use crate::machines::{self, Class, Vendor};

/// A range of shares of a theoretical peak.
struct Rule {
    /// The headline.
    id: &'static str,
    /// The vendor that it holds for.
    vendor: Vendor,
    /// Least and most share of the peak.
    share: [f64; 2],
}

/// Shares of the theoretical memory bandwidth. They enclose the measured and published figures of V100, A100, H100, H200 and L40,
/// and of MI210 and MI300X (`references.jsonl`, from programs that reach the memory's limit), and are two points wider.
const MEMORY: [Rule; 6] = [
    Rule { id: "memory-write", vendor: Vendor::Nvidia, share: [0.90, 1.0] },
    Rule { id: "memory-read", vendor: Vendor::Nvidia, share: [0.84, 1.0] },
    Rule { id: "memory-copy", vendor: Vendor::Nvidia, share: [0.81, 0.95] },
    Rule { id: "memory-write", vendor: Vendor::Amd, share: [0.87, 0.98] },
    Rule { id: "memory-read", vendor: Vendor::Amd, share: [0.76, 0.92] },
    Rule { id: "memory-copy", vendor: Vendor::Amd, share: [0.72, 0.90] },
];

/// Share of a GPU's arithmetic peak, at its highest clock. H200s reach 0.97 to 0.99; boards with a low power limit run below their
/// highest clock.
const GPU_ARITHMETIC: [f64; 2] = [0.85, 1.005];
/// Share of a CPU's arithmetic peak at the clock that was calibrated; wide vectors lower the clock.
const CPU_ARITHMETIC: [f64; 2] = [0.75, 1.03];
/// Share of a PCI Express link's rate after its encoding. Measured: 0.78 (V100, generation 3), 0.88 (H200, generation 5).
const LINK: [f64; 2] = [0.76, 0.93];

/// What a rule says of a figure.
pub(super) fn apply(figure: &Figure<'_>) -> Option<Expected> {
    let peak = figure.peak()?;
    let (share, what) = find_share(figure)?;
    let source = format!("rule: {:.0} to {:.0} % of {what}", 100.0 * share[0], 100.0 * share[1].min(1.0));
    let interval = Interval { lo: share[0] * peak, hi: share[1] * peak };
    Some(Expected { interval, origin: Origin::Rule { source }, groups: Vec::new() })
}

/// The simulated device's own shares, by headline, and how far noise may move them.
const SIMULATED: [(&str, f64); 5] =
    [("memory-write", 0.806), ("memory-read", 0.881), ("memory-copy", 0.845), ("fma-f32", 0.98), ("fma-f64", 0.98)];
const SIMULATED_NOISE: f64 = 0.02;

fn find_share(figure: &Figure<'_>) -> Option<([f64; 2], String)> {
    let id = figure.headline.id;
    if figure.info.backend == "sim" && !is_transfer(figure.headline) {
        let share = SIMULATED.iter().find(|(known, _)| *known == id)?.1;
        let range = [share * (1.0 - SIMULATED_NOISE), share * (1.0 + SIMULATED_NOISE)];
        return Some((range, "the simulated machine's peak".to_owned()));
    }
    if is_transfer(figure.headline) {
        return Some((LINK, format!("{}'s rate", figure.info.health.link_most?)));
    }
    if matches!(id, "fma-f32" | "fma-f64") {
        return match figure.info.backend.as_str() {
            "cpu" => Some((CPU_ARITHMETIC, "the units' peak at the measured clock".to_owned())),
            _ => Some((GPU_ARITHMETIC, "the units' peak at the highest clock".to_owned())),
        };
    }
    let machine = machines::find(&figure.info.name).filter(|machine| machine.class == Class::Gpu)?;
    let rule = MEMORY.iter().find(|rule| rule.id == id && rule.vendor == machine.vendor)?;
    Some((rule.share, format!("the memory's peak, as its relatives reach ({:?})", machine.vendor)))
}
