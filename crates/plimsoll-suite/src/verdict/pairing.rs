//! Pairs the rows of two runs that are the same figure, and finds those that both runs have but that can't be compared.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::record::Run;
use plimsoll_core::series::{Metric, Row, Series, Value};
use plimsoll_core::unit::Unit;
use plimsoll_core::{Flag, Flags};

use super::spread::{FigureEstimate, estimate_row};
use super::{Across, Incomparable, Subject, clock};

/// A figure that both runs have.
pub(super) struct Pair {
    pub subject: Subject,
    pub metric: Metric,
    pub more_is_better: bool,
    pub base: FigureEstimate,
    pub new: FigureEstimate,
    /// Mean clocks of the base and the new run, hertz, where both are known.
    pub clocks: Option<(f64, f64)>,
    /// The flags of both rows.
    pub flags: Flags,
    /// True where both are the same measurement, as in a run that is compared with itself.
    pub identical: bool,
}

#[derive(Default)]
pub(super) struct Paired {
    pub pairs: Vec<Pair>,
    pub incomparable: Vec<Incomparable>,
    pub unmatched: Vec<String>,
    pub notes: Vec<String>,
}

/// A row with its series.
type Figure<'r> = (&'r Series, &'r Row);

/// A row with the keys that identify it.
struct Keyed<'r> {
    /// Probe, case and coordinates.
    place: String,
    /// The same, with the kind of figure and the cache policy.
    full_key: String,
    figure: Figure<'r>,
}

pub(super) fn pair(base: &Run, new: &Run, across: Across) -> Paired {
    let Partners { pairs, incomparable, unmatched, notes } = pair_machines(base, new, across);
    let mut paired = Paired { pairs: Vec::new(), incomparable, unmatched: Vec::new(), notes };
    for (place, other) in pairs {
        let name = &base.header.devices[place].name;
        pair_devices(name, &rows_of(base, place), &rows_of(new, other), &mut paired);
    }
    paired.unmatched.extend(unmatched);
    paired
}

/// The devices of two runs that can be compared.
#[derive(Debug, Default)]
pub(crate) struct Partners {
    /// Indices into the devices of the base and the new run.
    pub pairs: Vec<(usize, usize)>,
    /// Devices, or whole runs, that can't be compared.
    pub incomparable: Vec<Incomparable>,
    /// Devices of the new run without a partner.
    pub unmatched: Vec<String>,
    /// Devices that were compared with another one of their model although a run has several.
    pub notes: Vec<String>,
}

/// Finds for each device of the base run its partner in the new one.
pub(crate) fn pair_machines(base: &Run, new: &Run, across: Across) -> Partners {
    let mut found = Partners::default();
    if !across.version && base.header.tool != new.header.tool {
        let (a, b) = (&base.header.tool, &new.header.tool);
        let why = format!("versions of plimsoll differ ({a} and {b}): allow it with --across version");
        found.incomparable.push(Incomparable { what: "the runs".into(), why });
        return found;
    }
    let (ours, theirs) = (&base.header.devices, &new.header.devices);
    let partners = find_partners(ours, theirs);
    for ((place, device), partner) in ours.iter().enumerate().zip(&partners) {
        let refuse = |why: String| Incomparable { what: device.name.clone(), why };
        let Some(other) = *partner else {
            found.incomparable.push(refuse(explain_no_partner(device, theirs)));
            continue;
        };
        let (a, b) = (&device.driver, &theirs[other].driver);
        if !across.driver && a != b {
            let word = |driver: &Option<String>| driver.clone().unwrap_or_else(|| "unknown".into());
            let why = format!("drivers differ ({} and {}): allow it with --across driver", word(a), word(b));
            found.incomparable.push(refuse(why));
            continue;
        }
        let several = |devices: &[DeviceInfo]| devices.iter().filter(|other| other.name == device.name).count() > 1;
        let (a, b) = (&device.id, &theirs[other].id);
        if a != b && (several(ours) || several(theirs)) {
            found.notes.push(format!("{}: {a} is compared with {b}, another device of the same model", device.name));
        }
        found.pairs.push((place, other));
    }
    let alone = theirs.iter().enumerate().filter(|(place, _)| !partners.contains(&Some(*place)));
    found.unmatched = alone.map(|(_, device)| format!("{} (new only)", device.name)).collect();
    found
}

fn explain_no_partner(device: &DeviceInfo, theirs: &[DeviceInfo]) -> String {
    match theirs.iter().filter(|other| other.name == device.name).count() {
        0 => {
            let names: Vec<&str> = theirs.iter().map(|device| device.name.as_str()).collect();
            format!("the new run has no device of this model; it has {}", names.join(", "))
        }
        n => format!("the new run has only {n} of this model"),
    }
}

/// For each device of `ours` the index in `theirs` of the same device, in whatever order, or of another one of its model.
fn find_partners(ours: &[DeviceInfo], theirs: &[DeviceInfo]) -> Vec<Option<usize>> {
    let mut partners = vec![None; ours.len()];
    let mut free: Vec<usize> = (0..theirs.len()).collect();
    for by_identity in [true, false] {
        for (device, partner) in ours.iter().zip(&mut partners).filter(|(_, partner)| partner.is_none()) {
            let fits = |other: &DeviceInfo| {
                other.name == device.name && (!by_identity || (other.id == device.id && !device.id.is_empty()))
            };
            *partner = free.iter().copied().find(|&place| fits(&theirs[place]));
            free.retain(|&place| Some(place) != *partner);
        }
    }
    partners
}

/// Rows of one device; where two series contain the same figure, the first counts.
fn rows_of(run: &Run, device: usize) -> Vec<Keyed<'_>> {
    let mut seen = BTreeSet::new();
    let series = run.series.iter().filter(|series| series.spec.device as usize == device);
    series
        .flat_map(|series| series.rows.iter().map(move |row| add_keys(series, row)))
        .filter(|row| seen.insert(row.full_key.clone()))
        .collect()
}

fn add_keys<'r>(series: &'r Series, row: &'r Row) -> Keyed<'r> {
    let spec = &series.spec;
    let axes: Vec<(&str, &Value)> = spec.axes.iter().map(|axis| axis.name.as_str()).zip(&row.at).collect();
    let place = format!("{:?}", (&spec.probe, &spec.case, axes));
    let full_key = format!("{place} {:?} {:?} {}", spec.figure, spec.cache, spec.trace);
    Keyed { place, full_key, figure: (series, row) }
}

fn pair_devices(device: &str, base: &[Keyed<'_>], new: &[Keyed<'_>], paired: &mut Paired) {
    let ours: BTreeSet<&String> = base.iter().map(|row| &row.full_key).collect();
    let theirs: BTreeMap<&String, Figure<'_>> = new.iter().map(|row| (&row.full_key, row.figure)).collect();
    // A row without a partner of its kind may have one of another kind at the same place; then the reason is reported.
    let mut other_kinds: BTreeMap<&String, Vec<&Keyed<'_>>> = BTreeMap::new();
    for row in new.iter().filter(|row| !ours.contains(&row.full_key)) {
        other_kinds.entry(&row.place).or_default().push(row);
    }
    let mut kinds: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
    for row in base.iter().chain(new) {
        kinds.entry(&row.place).or_default().insert(&row.full_key);
    }
    let subject_of = |row: &Keyed<'_>| build_subject(device, row.figure, kinds[&row.place].len() > 1);
    let mut refused = BTreeSet::new();
    for row in base {
        let same_kind = theirs.get(&row.full_key).copied();
        let other = same_kind.or_else(|| {
            let other = other_kinds.get_mut(&row.place)?.pop()?;
            refused.insert(&other.full_key);
            Some(other.figure)
        });
        let Some(other) = other else {
            paired.unmatched.push(format!("{} (base only)", subject_of(row).describe()));
            continue;
        };
        match build_pair(subject_of(row), row.figure, other) {
            Ok(pair) => paired.pairs.extend(pair),
            Err(incomparable) => paired.incomparable.push(incomparable),
        }
    }
    for row in new.iter().filter(|row| !ours.contains(&row.full_key) && !refused.contains(&row.full_key)) {
        paired.unmatched.push(format!("{} (new only)", subject_of(row).describe()));
    }
}

/// `one_of_several`: the place alone doesn't identify the figure.
fn build_subject(device: &str, (series, row): Figure<'_>, one_of_several: bool) -> Subject {
    let spec = &series.spec;
    let at = spec.axes.iter().zip(&row.at).map(|(axis, value)| (axis.name.clone(), axis.unit.clone(), value.clone()));
    let latency = if spec.figure == plimsoll_core::sample::Figure::Latency { "latency, " } else { "" };
    let kind = if one_of_several { format!("{latency}{}", spec.cache.name()) } else { String::new() };
    Subject { device: device.to_owned(), probe: spec.probe.clone(), case: spec.case.clone(), at: at.collect(), kind }
}

impl Subject {
    /// Probe, case and coordinates as readable text: `stream kernels, kernel copy, stores plain`. The device is left out.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = format!("{} {}", self.probe, self.case);
        for (axis, unit, value) in &self.at {
            text.push_str(&format!(", {axis} {}", value.format(unit)));
        }
        if !self.kind.is_empty() {
            text.push_str(&format!(", {}", self.kind));
        }
        text
    }
}

/// Pairs two rows, or says why they can't be compared. `None` where both are the same measurement and have no figure.
fn build_pair(subject: Subject, base: Figure<'_>, new: Figure<'_>) -> Result<Option<Pair>, Incomparable> {
    let refuse = |why: String| Incomparable { what: subject.describe(), why };
    let (a, b) = (&base.0.spec, &new.0.spec);
    let (metric, other) = match (a.metrics.first(), b.metrics.first()) {
        (Some(metric), Some(other)) => (metric, other),
        _ => return Err(refuse("it has no metric".into())),
    };
    if metric != other {
        return Err(refuse(format!("the metrics differ ({} and {})", metric.name, other.name)));
    }
    if a.figure != b.figure {
        return Err(refuse("one is a latency, the other a throughput".into()));
    }
    if a.trace != b.trace {
        return Err(refuse("one run was traced call by call, the other not".into()));
    }
    if a.cache != b.cache {
        return Err(refuse(format!("cache policies differ ({} and {})", a.cache.name(), b.cache.name())));
    }
    let flags = base.1.flags.union(new.1.flags);
    let identical = base.1.points == new.1.points;
    if !identical && flags.contains(Flag::VerifyFail) {
        return Err(refuse("a kernel's result was wrong (VERIFY_FAIL)".into()));
    }
    let clock_of = |row: &Row| row.clock_hz().filter(|&hertz| hertz > 0.0);
    let clocks = clock_of(base.1).zip(clock_of(new.1));
    if let Some((x, y)) = clocks.filter(|&clocks| clock::are_too_far_apart(clocks)) {
        let (x, y) = (Unit::Hertz.format(x), Unit::Hertz.format(y));
        return Err(refuse(format!("clocks differ by more than 10 % ({x} and {y})")));
    }
    let (Some(base), Some(new)) = (estimate_row(base.1, metric), estimate_row(new.1, metric)) else {
        if identical {
            return Ok(None);
        }
        return Err(refuse(format!("{} could not be computed in one of the runs", metric.name)));
    };
    let Some(more_is_better) = metric.more_is_better().or(identical.then_some(true)) else {
        return Err(refuse(format!("it is unknown whether more or less {} is better", metric.name)));
    };
    Ok(Some(Pair { subject, metric: metric.clone(), more_is_better, base, new, clocks, flags, identical }))
}
