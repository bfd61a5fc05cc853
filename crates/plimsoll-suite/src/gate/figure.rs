//! A headline of both runs: how well each is known, and what disturbed it.

use plimsoll_core::headline::Headline;
use plimsoll_core::record::{Finding, Run};
use plimsoll_core::series::{Estimate, Row as Point, Series};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;
use plimsoll_core::{Flag, Flags};

use super::rule::{Side, Terms, judge};
use super::{Row, Verdict};
use crate::expected::run_spread;
use crate::expected::shipped::{self, ModelFigure};
use crate::headlines::Figure;
use crate::verdict::spread::estimate_as_measured;

/// Flags by which a figure can't be blamed on the device: something else changed it, or the result was wrong.
const DISTURBED: [Flag; 6] =
    [Flag::Cotenant, Flag::Steal, Flag::CpuQuota, Flag::Preempted, Flag::VerifyFail, Flag::Unchecked];
/// Clocks that differ by at most this share count as equal.
const SAME_CLOCK: f64 = 0.01;

/// A headline that both runs have.
pub(super) struct Pair<'r> {
    base: Measured<'r>,
    new: Measured<'r>,
}

/// A headline of one run.
struct Measured<'r> {
    figure: Figure<'r>,
    side: Side,
    /// Mean clock of the row that it was read off, hertz.
    clock: Option<f64>,
    /// The flags of every point of its probe: a disturbance need not hit the very point that became the figure.
    flags: Flags,
}

impl<'r> Pair<'r> {
    /// `None` where one of the figures isn't positive.
    pub fn new(base_run: &'r Run, new_run: &'r Run, base: Figure<'r>, new: Figure<'r>) -> Option<Self> {
        let (base, new) = (Measured::new(base_run, base)?, Measured::new(new_run, new)?);
        Some(Self { base, new })
    }

    pub fn headline(&self) -> &'static Headline {
        self.base.figure.headline
    }

    /// Judges it as one of `figures` that decide.
    pub fn judge(&self, least: f64, figures: usize) -> Row {
        let (base, new, headline) = (&self.base, &self.new, self.headline());
        let disturbance: Flags = base.flags.union(new.flags).iter().filter(|flag| DISTURBED.contains(flag)).collect();
        let spread = run_spread(&base.figure);
        let disturbed = !disturbance.is_empty();
        let spread_is_measured = self.model_figure().is_some_and(|figure| figure.known.run_spread.is_some());
        let terms = Terms { better: headline.better, spread, spread_is_measured, least, figures, disturbed };
        let mut judgement = judge(&base.side, &new.side, &terms);
        let wrong = base.flags.union(new.flags).contains(Flag::VerifyFail);
        if wrong && base.figure.finding != new.figure.finding {
            judgement.verdict = Verdict::Unclear;
        }
        let estimate = |finding: &Finding| Estimate { value: finding.value, interval: finding.interval };
        let mut row = Row {
            device: base.figure.info.name.clone(),
            headline,
            probe: base.figure.probe.name,
            unit: base.figure.unit(),
            base: estimate(base.figure.finding),
            new: estimate(new.figure.finding),
            ratio: judgement.ratio,
            interval: judgement.interval,
            spread,
            threshold: judgement.threshold,
            verdict: judgement.verdict,
            flags: base.figure.finding.flags.union(new.figure.finding.flags),
            why: String::new(),
        };
        row.why = self.explain(&row, disturbance);
        row
    }

    /// What records say of this headline on the device's model.
    fn model_figure(&self) -> Option<&'static ModelFigure> {
        shipped::of_device(&self.base.figure.info.name)?.figure(self.headline().id)
    }

    fn explain(&self, row: &Row, disturbance: Flags) -> String {
        let mut why: Vec<String> = Vec::new();
        let differs = !matches!(row.verdict, Verdict::Same);
        if differs {
            why.extend(disturbance.iter().map(|flag| flag.name().to_owned()));
        }
        if let Some((a, b)) = self.base.clock.zip(self.new.clock)
            && differs
            && (b / a).ln().abs() > SAME_CLOCK.ln_1p()
        {
            why.push(format!("clock {} → {}", Unit::Hertz.format(a), Unit::Hertz.format(b)));
        }
        if row.verdict == Verdict::Unclear && disturbance.is_empty() {
            why.push(format!("these runs can only show losses above {:.1} %", 100.0 * row.threshold));
        }
        let (ours, theirs) = (self.base.figure.info, self.new.figure.info);
        if let Some(spread) = self.model_figure().and_then(|figure| figure.known.card_spread)
            && differs
            && ours.id != theirs.id
        {
            why.push(format!("from card to card {:.1} %", 100.0 * spread));
        }
        why.join(", ")
    }
}

impl<'r> Measured<'r> {
    fn new(run: &'r Run, figure: Figure<'r>) -> Option<Self> {
        let finding = figure.finding;
        if !(finding.value > 0.0 && finding.value.is_finite()) {
            return None;
        }
        let own = |series: &&Series| series.spec.device == figure.device && series.spec.probe == figure.probe.name;
        let series = || run.series.iter().filter(own);
        let source = series().find_map(|series| find_source(series, finding));
        let side = source.as_ref().map(|(side, _)| *side).or_else(|| side_by_round(&figure, series()));
        let rows = series().flat_map(|series| &series.rows);
        Some(Self {
            figure,
            side: side.unwrap_or_else(|| side_of_one_round(finding)),
            clock: source.and_then(|(_, row)| row.clock_hz()),
            flags: rows.fold(finding.flags, |all, row| all.union(row.flags)),
        })
    }
}

/// The row that a finding was read off: the one with exactly its value and interval in one of the metrics. A finding that was computed
/// from several rows has none.
fn find_source<'r>(series: &'r Series, finding: &Finding) -> Option<(Side, &'r Point)> {
    let of_unit = series.spec.metrics.iter().filter(|metric| metric.unit == finding.unit);
    of_unit.into_iter().find_map(|metric| {
        let is_source = |row: &&Point| {
            row.estimate(metric).is_some_and(|known| known.value == finding.value && known.interval == finding.interval)
        };
        let row = series.rows.iter().find(is_source)?;
        let known = estimate_as_measured(row, metric)?;
        Some((Side { value: known.value, variance: known.variance, freedom: known.freedom }, row))
    })
}

/// A finding that was computed from several rows, with the error that its rounds show: each of them alone gives the finding again.
/// `None` with fewer than two rounds.
fn side_by_round<'r>(figure: &Figure<'_>, series: impl Iterator<Item = &'r Series> + Clone) -> Option<Side> {
    let rounds = series.clone().flat_map(|series| &series.rows).map(|row| row.points.len()).max()?;
    let find = |round: usize| {
        let alone: Vec<Series> = series.clone().map(|series| keep_round(series, round)).collect();
        let findings = (figure.probe.findings)(figure.info, &alone);
        let same = findings.iter().find(|finding| finding.name == figure.finding.name)?;
        Some(same.value.ln()).filter(|log| log.is_finite())
    };
    let logs: Vec<f64> = (0..rounds).filter_map(find).collect();
    let n = logs.len() as f64;
    if logs.len() < 2 {
        return None;
    }
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
    Some(Side { value: figure.finding.value, variance: variance / n, freedom: n - 1.0 })
}

fn keep_round(series: &Series, round: usize) -> Series {
    let keep = |row: &Point| {
        let (point, time) = (row.points.get(round)?.clone(), *row.rounds.get(round)?);
        let (n, flags) = (point.samples.len(), point.flags);
        Some(Point { at: row.at.clone(), points: vec![point], rounds: vec![time], time, n, flags })
    };
    Series { spec: series.spec.clone(), rows: series.rows.iter().filter_map(keep).collect() }
}

/// A finding that was computed from several rows of a single round. Its interval says what the method can resolve, which is far wider
/// than the figure's spread from run to run; it counts where a flag says that the samples were noisier than usual.
fn side_of_one_round(finding: &Finding) -> Side {
    let noisy = !finding.flags.widening().is_empty();
    let width = if noisy { finding.interval } else { Interval { lo: finding.value, hi: finding.value } };
    Side::from_interval(finding.value, width)
}
