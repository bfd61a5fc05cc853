//! The gate: whether any headline figure of a run is worse than in a base run, for scripts that must decide. The exit code follows
//! from the [gate headlines](Role::Gate) alone, and from how much they usually vary from run to run; [`rule`] is the arithmetic.

mod figure;
mod outliers;
pub mod rule;
#[cfg(test)]
mod tests;

use plimsoll_core::Flags;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::headline::{Headline, Role};
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Run;
use plimsoll_core::series::Estimate;
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

use crate::expected::shipped;
use crate::headlines::{derive_findings, figures};
use crate::verdict::pairing::pair_machines;
use crate::verdict::{Across, Incomparable, MARGIN};

pub use outliers::find_outliers;

/// The verdict on a headline figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It lost more than runs differ by chance.
    Worse,
    /// It looks worse, but one of the runs was disturbed, or noisier than usual.
    Unclear,
    /// No difference that matters.
    Same,
    /// It gained more than runs differ by chance.
    Better,
}

impl Verdict {
    /// All verdicts, worst first.
    pub const ALL: [Verdict; 4] = [Verdict::Worse, Verdict::Unclear, Verdict::Same, Verdict::Better];

    /// The name in tables and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Unclear => "unclear",
            Self::Same => "same",
            Self::Better => "better",
        }
    }
}

/// What to compare, and how strictly.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The least relevant difference, as a share.
    pub least: f64,
    /// The names of the probes to look at; empty for all.
    pub probes: Vec<String>,
    /// Differences between the runs to ignore.
    pub across: Across,
}

impl Default for Options {
    fn default() -> Self {
        Self { least: MARGIN, probes: Vec::new(), across: Across::default() }
    }
}

/// A headline figure of both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The device's name.
    pub device: String,
    /// Its declaration.
    pub headline: &'static Headline,
    /// The probe that measured it.
    pub probe: &'static str,
    /// The unit of `base` and `new`.
    pub unit: Unit,
    /// The base run's figure.
    pub base: Estimate,
    /// The new run's figure.
    pub new: Estimate,
    /// New ÷ base.
    pub ratio: f64,
    /// 95 % interval of the ratio, if both runs were repeated.
    pub interval: Interval,
    /// The usual spread from run to run, as a relative standard deviation.
    pub spread: f64,
    /// The smallest loss that counts as worse in these two runs, as a share.
    pub threshold: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// The flags of both figures.
    pub flags: Flags,
    /// What else to know: a disturbance, a clock that moved, different cards; empty where there is nothing to say.
    pub why: String,
}

impl Row {
    /// How much it gained, as a share; negative where it is worse.
    #[must_use]
    pub fn gain(&self) -> f64 {
        self.headline.better.ratio(self.ratio, 1.0) - 1.0
    }

    /// Whether it makes the comparison fail or inconclusive.
    #[must_use]
    pub fn decides(&self) -> bool {
        self.headline.role == Role::Gate && matches!(self.verdict, Verdict::Worse | Verdict::Unclear)
    }
}

/// Two runs, compared by their headlines.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// Headlines of both runs, worst first: those that decide, then the other gate headlines, then those for information.
    pub rows: Vec<Row>,
    /// What can't be compared.
    pub incomparable: Vec<Incomparable>,
    /// Remarks on the devices.
    pub notes: Vec<String>,
    /// The least relevant difference, as a share.
    pub least: f64,
}

impl Gate {
    /// 1 where a gate headline is worse; else 4 where one is unclear, a device can't be compared, or there is no gate headline; else 0.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let any = |verdict: Verdict| self.gates().any(|row| row.verdict == verdict);
        if any(Verdict::Worse) {
            1
        } else if any(Verdict::Unclear) || !self.incomparable.is_empty() || self.gates().next().is_none() {
            4
        } else {
            0
        }
    }

    /// The `top` worst headlines; all of them without a number.
    #[must_use]
    pub fn worst(&self, top: Option<usize>) -> &[Row] {
        &self.rows[..top.unwrap_or(usize::MAX).min(self.rows.len())]
    }

    /// The headlines that decide the exit code.
    pub fn gates(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.headline.role == Role::Gate)
    }

    /// The result in a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let names = |verdict: Verdict| {
            let names: Vec<&str> =
                self.gates().filter(|row| row.verdict == verdict).map(|row| row.headline.name).collect();
            names.join(", ")
        };
        let all = self.gates().count();
        let (worse, unclear) = (names(Verdict::Worse), names(Verdict::Unclear));
        if !worse.is_empty() {
            return format!("worse: {worse}");
        }
        if !unclear.is_empty() {
            return format!("inconclusive: {unclear} may be worse");
        }
        match self.incomparable.first() {
            Some(first) => format!("inconclusive: {} can't be compared", first.what),
            None if all == 0 => "inconclusive: the runs share no figure that decides".to_owned(),
            None => format!("nothing is worse: {all} of {all} figures are the same or better"),
        }
    }
}

/// Compares the headlines of `new` with those of `base`. `probes` are those whose headlines are looked at. Findings are derived anew
/// from the series of both runs.
#[must_use]
pub fn gate(base: &Run, new: &Run, probes: &[&'static ProbeSpec], options: &Options) -> Gate {
    let is_chosen =
        |probe: &&&'static ProbeSpec| options.probes.is_empty() || options.probes.iter().any(|name| name == probe.name);
    let probes: Vec<&'static ProbeSpec> = probes.iter().filter(is_chosen).copied().collect();
    let mut partners = pair_machines(base, new, options.across);
    name_kinds(base, new, &mut partners.incomparable);
    let derive = |run: &Run| Run { findings: derive_findings(run, &probes), ..run.clone() };
    let (base, new) = (derive(base), derive(new));
    let mut pairs = Vec::new();
    for (ours, theirs) in partners.pairs {
        let known = figures(&new, theirs as u32, &probes);
        for figure in figures(&base, ours as u32, &probes) {
            let same = known.iter().find(|other| other.headline.id == figure.headline.id);
            let same = same.filter(|other| other.finding.unit == figure.finding.unit);
            pairs.extend(same.and_then(|other| figure::Pair::new(&base, &new, figure, *other)));
        }
        partners.notes.extend(remark_on_cards(&base.header.devices[ours], &new.header.devices[theirs], &probes));
    }
    let gates = pairs.iter().filter(|pair| pair.headline().role == Role::Gate).count();
    let mut rows: Vec<Row> = pairs.iter().map(|pair| pair.judge(options.least, gates)).collect();
    let order = |row: &Row| (!row.decides(), row.headline.role != Role::Gate);
    rows.sort_by(|a, b| order(a).cmp(&order(b)).then(a.gain().total_cmp(&b.gain())));
    Gate { rows, incomparable: partners.incomparable, notes: partners.notes, least: options.least }
}

/// Says so where a device has no partner because one run is of CPUs and the other of GPUs.
fn name_kinds(base: &Run, new: &Run, incomparable: &mut [Incomparable]) {
    let kind = |run: &Run| {
        let mut kinds = run.header.devices.iter().map(|device| if device.backend == "cpu" { "a CPU" } else { "a GPU" });
        let first = kinds.next()?;
        kinds.all(|kind| kind == first).then_some(first)
    };
    let (Some(a), Some(b)) = (kind(base), kind(new)) else { return };
    if a != b && base.header.tool == new.header.tool {
        for row in incomparable {
            row.why = format!("the base run is of {a}, the new run of {b}: `plimsoll report` shows them side by side");
        }
    }
}

/// A remark where two cards of one model are compared. `probes` are those whose headlines count.
fn remark_on_cards(base: &DeviceInfo, new: &DeviceInfo, probes: &[&'static ProbeSpec]) -> Option<String> {
    if base.id == new.id || base.id.is_empty() || new.id.is_empty() {
        return None;
    }
    let gates = probes.iter().flat_map(|probe| probe.headlines).filter(|headline| headline.role == Role::Gate);
    let model = shipped::of_device(&base.name);
    let spreads = gates.filter_map(|headline| model?.figure(headline.id)?.known.card_spread);
    let known = spreads.reduce(f64::max).map(|most| {
        format!(" From card to card the figures that decide vary by up to {:.1} % (standard deviation).", 100.0 * most)
    });
    Some(format!(
        "{}: {} is compared with {}, another card: healthy cards of one model differ more than runs of one card do.{}",
        base.name,
        base.id,
        new.id,
        known.unwrap_or_default()
    ))
}
