//! Which rows of two runs are the same figure, and which can't be compared although both have them.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::record::Run;
use plimsoll_core::series::{Metric, Row, Series, Value};
use plimsoll_core::unit::Unit;
use plimsoll_core::{Flag, Flags};

use super::spread::{Known, of_row};
use super::{Across, Incomparable, Subject};

/// Clocks that differ by more than this share measure different machines.
const CLOCK_APART: f64 = 0.01;

/// A figure that both runs have.
pub(super) struct Pair {
    pub subject: Subject,
    pub metric: Metric,
    pub more_is_better: bool,
    pub base: Known,
    pub new: Known,
    /// Of both sides.
    pub flags: Flags,
}

#[derive(Default)]
pub(super) struct Paired {
    pub pairs: Vec<Pair>,
    pub incomparable: Vec<Incomparable>,
    pub unmatched: Vec<String>,
}

/// One run's rows by what identifies a figure, devices apart.
type Rows<'r> = BTreeMap<String, (&'r Series, &'r Row)>;

pub(super) fn pair(base: &Run, new: &Run, across: Across) -> Paired {
    let mut paired = Paired::default();
    if !across.version && base.header.tool != new.header.tool {
        let (a, b) = (&base.header.tool, &new.header.tool);
        let why = format!("versions of plimsoll differ ({a} and {b}): allow it with --across version");
        paired.incomparable.push(Incomparable { what: "the runs".into(), why });
        return paired;
    }
    let mut free: Vec<usize> = (0..new.header.devices.len()).collect();
    for (place, device) in base.header.devices.iter().enumerate() {
        let same_model = |&&other: &&usize| new.header.devices[other].name == device.name;
        let Some(other) = free.iter().find(same_model).copied() else {
            let names: Vec<&str> = new.header.devices.iter().map(|device| device.name.as_str()).collect();
            let why = format!("the new run has no such device model, but {}", names.join(", "));
            paired.incomparable.push(Incomparable { what: device.name.clone(), why });
            continue;
        };
        free.retain(|&place| place != other);
        let (a, b) = (&device.driver, &new.header.devices[other].driver);
        if !across.driver && a != b {
            let word = |driver: &Option<String>| driver.clone().unwrap_or_else(|| "unknown".into());
            let why = format!("drivers differ ({} and {}): allow it with --across driver", word(a), word(b));
            paired.incomparable.push(Incomparable { what: device.name.clone(), why });
            continue;
        }
        pair_devices(&device.name, &rows_of(base, place), &rows_of(new, other), &mut paired);
    }
    paired
}

/// Rows of one device; where two series hold the same figure, the first counts.
fn rows_of(run: &Run, device: usize) -> Vec<(String, (&Series, &Row))> {
    let mut seen = BTreeSet::new();
    let series = run.series.iter().filter(|series| series.spec.device as usize == device);
    series
        .flat_map(|series| series.rows.iter().map(move |row| (key(series, row), (series, row))))
        .filter(|(key, _)| seen.insert(key.clone()))
        .collect()
}

fn key(series: &Series, row: &Row) -> String {
    let spec = &series.spec;
    let axes: Vec<(&str, &Value)> = spec.axes.iter().map(|axis| axis.name.as_str()).zip(&row.at).collect();
    format!("{:?}", (&spec.probe, &spec.case, axes))
}

fn pair_devices(
    device: &str,
    base: &[(String, (&Series, &Row))],
    new: &[(String, (&Series, &Row))],
    paired: &mut Paired,
) {
    let others: Rows<'_> = new.iter().map(|(key, row)| (key.clone(), *row)).collect();
    let ours: BTreeSet<&String> = base.iter().map(|(key, _)| key).collect();
    for (key, (series, row)) in base {
        let subject = subject(device, series, row);
        let Some((other_series, other_row)) = others.get(key) else {
            paired.unmatched.push(format!("{} (base only)", subject.words()));
            continue;
        };
        match comparable(subject, (series, row), (other_series, other_row)) {
            Ok(pair) => paired.pairs.push(pair),
            Err(incomparable) => paired.incomparable.push(incomparable),
        }
    }
    for (key, (series, row)) in new {
        if !ours.contains(key) {
            paired.unmatched.push(format!("{} (new only)", subject(device, series, row).words()));
        }
    }
}

fn subject(device: &str, series: &Series, row: &Row) -> Subject {
    let spec = &series.spec;
    let at = spec.axes.iter().zip(&row.at).map(|(axis, value)| (axis.name.clone(), axis.unit.clone(), value.clone()));
    Subject { device: device.to_owned(), probe: spec.probe.clone(), case: spec.case.clone(), at: at.collect() }
}

impl Subject {
    /// Probe, case and coordinates for a person: `stream kernels, kernel copy, stores plain`. The device is left out.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words = format!("{} {}", self.probe, self.case);
        for (axis, unit, value) in &self.at {
            words.push_str(&format!(", {axis} {}", value.format(unit)));
        }
        words
    }
}

fn comparable(subject: Subject, base: (&Series, &Row), new: (&Series, &Row)) -> Result<Pair, Incomparable> {
    let refuse = |why: String| Incomparable { what: subject.words(), why };
    let (a, b) = (&base.0.spec, &new.0.spec);
    let (metric, other) = match (a.metrics.first(), b.metrics.first()) {
        (Some(metric), Some(other)) => (metric, other),
        _ => return Err(refuse("it has no metric".into())),
    };
    if metric != other {
        return Err(refuse(format!("one is given as {}, the other as {}", metric.name, other.name)));
    }
    if a.figure != b.figure {
        return Err(refuse("one is a latency, the other a throughput".into()));
    }
    if a.cache != b.cache {
        return Err(refuse(format!("cache policies differ ({} and {})", a.cache.name(), b.cache.name())));
    }
    let flags = base.1.flags.union(new.1.flags);
    if flags.contains(Flag::VerifyFail) {
        return Err(refuse("a kernel's result was wrong (VERIFY_FAIL)".into()));
    }
    if let (Some(x), Some(y)) = (base.1.clock_hz(), new.1.clock_hz())
        && (x / y).ln().abs() > CLOCK_APART.ln_1p()
    {
        let (x, y) = (Unit::Hertz.format(x), Unit::Hertz.format(y));
        return Err(refuse(format!("clocks differ by more than 1 % ({x} and {y})")));
    }
    let (Some(base), Some(new)) = (of_row(base.1, metric), of_row(new.1, metric)) else {
        return Err(refuse(format!("{} could not be derived on one side", metric.name)));
    };
    let Some(more_is_better) = metric.more_is_better() else {
        return Err(refuse(format!("nothing says whether more or less {} is better", metric.name)));
    };
    Ok(Pair { subject, metric: metric.clone(), more_is_better, base, new, flags })
}
