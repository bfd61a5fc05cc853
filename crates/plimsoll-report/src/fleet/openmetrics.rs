//! A fleet as gauges for monitoring, in the OpenMetrics text format, which Prometheus' textfile collector reads too: base units in the
//! names, no time stamps, the verdict as a label.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use plimsoll_core::unit::Unit;
use plimsoll_suite::fleet::collect::{Fleet, Judgement};
use plimsoll_suite::fleet::strata::{Population, Stratum};

use super::{VERDICTS, deviations};
use crate::text::clean;

/// The judgement as gauges.
#[must_use]
pub fn render_openmetrics(fleet: &Fleet) -> String {
    let mut out = String::new();
    let count = |verdict: plimsoll_suite::check::Verdict| {
        (vec![("verdict", verdict.name().to_owned())], fleet.count(verdict) as f64)
    };
    write_gauge(&mut out, "plimsoll_fleet_devices", "Devices with a verdict.", VERDICTS.map(count));
    write_gauge(
        &mut out,
        "plimsoll_fleet_missing_devices",
        "Devices without a file.",
        [(vec![], fleet.missing as f64)],
    );
    let mut kinds: BTreeMap<&str, f64> = BTreeMap::new();
    fleet.problems.iter().for_each(|problem| *kinds.entry(problem.kind.name()).or_default() += 1.0);
    let kinds = kinds.into_iter().map(|(kind, count)| (vec![("kind", kind.to_owned())], count));
    write_gauge(&mut out, "plimsoll_fleet_problems", "Problems of the files.", kinds);
    let stratum_of = |population: &Population| &fleet.strata[population.stratum];
    let strata = fleet.populations.iter().map(|population| {
        let settings: Vec<String> =
            stratum_of(population).settings.iter().map(|(what, value)| format!("{what} {value}")).collect();
        let mut labels = label_stratum(stratum_of(population));
        labels.push(("settings", settings.join(", ")));
        (labels, population.members.len() as f64)
    });
    write_gauge(&mut out, "plimsoll_fleet_stratum_devices", "Devices that are compared with each other.", strata);
    let limits = fleet.figures.iter().map(|figure| {
        let mut labels = label_stratum(stratum_of(&fleet.populations[figure.population]));
        labels.push(("figure", figure.headline.id.to_owned()));
        (labels, figure.last().detection_limit())
    });
    let help = "Smallest slowness that is found with 95 % probability.";
    write_gauge(&mut out, "plimsoll_fleet_detection_limit_ratio", help, limits);
    let devices = label_devices(fleet);
    let verdicts = fleet.devices.iter().zip(&devices);
    let verdicts = verdicts.map(|(judged, own)| (add_label(own, ("verdict", judged.verdict.name())), 1.0));
    write_gauge(&mut out, "plimsoll_device_verdict", "1 for the verdict of each device.", verdicts);
    write_worse(&mut out, fleet, &devices);
    write_figures(&mut out, fleet, &devices);
    out + "# EOF\n"
}

/// A stratum keeps its label whatever else is in the fleet: a hash of what its devices have in common.
fn label_stratum(stratum: &Stratum) -> Labels {
    let mut hasher = DefaultHasher::new();
    (&stratum.model, &stratum.settings).hash(&mut hasher);
    vec![("model", stratum.model.clone()), ("stratum", format!("{:016x}", hasher.finish()))]
}

/// The labels of each device. Names that look alike get a number, because a sample may be there only once.
fn label_devices(fleet: &Fleet) -> Vec<Labels> {
    let mut seen: HashMap<Vec<String>, usize> = HashMap::new();
    let label = |judged: &Judgement| {
        let device = &judged.device;
        let mut own = [&device.host, &device.slot, &device.id, &device.model].map(|text| clean(text)).to_vec();
        let id = own[2].clone();
        while let Some(count) = seen.get_mut(&own) {
            *count += 1;
            own[2] = format!("{id} #{count}");
        }
        seen.insert(own.clone(), 1);
        ["host", "slot", "device", "model"].into_iter().zip(own).collect()
    };
    fleet.devices.iter().map(label).collect()
}

fn write_worse(out: &mut String, fleet: &Fleet, devices: &[Labels]) {
    let known = devices.iter().zip(deviations(fleet));
    let samples = known.flat_map(|(own, known)| {
        known
            .into_iter()
            .map(move |(figure, deviation)| (add_label(own, ("figure", figure.headline.id)), deviation.share()))
    });
    write_gauge(out, "plimsoll_device_worse_than_fleet_ratio", "How much worse than its fleet a device is.", samples);
}

fn write_figures(out: &mut String, fleet: &Fleet, devices: &[Labels]) {
    let mut by_unit: BTreeMap<&str, Vec<(Labels, f64)>> = BTreeMap::new();
    for (judged, own) in fleet.devices.iter().zip(devices) {
        for row in judged.device.gates() {
            let sample = (add_label(own, ("figure", row.headline.id)), row.measured.value);
            by_unit.entry(suffix(&row.unit)).or_default().push(sample);
        }
    }
    for (unit, samples) in by_unit {
        write_gauge(out, &format!("plimsoll_device_figure_{unit}"), "A headline figure of a device.", samples);
    }
}

/// The base unit as the end of a metric's name.
fn suffix(unit: &Unit) -> &'static str {
    match unit {
        Unit::BytePerSecond => "bytes_per_second",
        Unit::Second => "seconds",
        Unit::Byte => "bytes",
        Unit::Hertz => "hertz",
        Unit::FlopPerSecond => "flops_per_second",
        _ => "operations_per_second",
    }
}

type Labels = Vec<(&'static str, String)>;

fn add_label(own: &Labels, (name, value): (&'static str, &str)) -> Labels {
    own.iter().cloned().chain([(name, value.to_owned())]).collect()
}

fn write_gauge(out: &mut String, name: &str, help: &str, samples: impl IntoIterator<Item = (Labels, f64)>) {
    let mut samples = samples.into_iter().filter(|(_, value)| value.is_finite()).peekable();
    if samples.peek().is_none() {
        return;
    }
    out.push_str(&format!("# HELP {name} {help}\n# TYPE {name} gauge\n"));
    for (labels, value) in samples {
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        out.push_str(&format!("{name}{labels} {value}\n"));
    }
}

/// A label's value: backslashes, quotes and line feeds are escaped (OpenMetrics 1.0, 'escaping').
fn escape(text: &str) -> String {
    clean(text).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
