//! A fleet as gauges for monitoring, in the OpenMetrics text format, which Prometheus' textfile collector reads too: base units in the
//! names, no time stamps, the verdict as a label.

use std::collections::BTreeMap;

use plimsoll_core::unit::Unit;
use plimsoll_suite::fleet::collect::{Fleet, Judgement};
use plimsoll_suite::fleet::rule::Deviation;
use plimsoll_suite::fleet::strata::FigureOfFleet;

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
    let limits = fleet.figures.iter().map(|figure| {
        let model = fleet.strata[fleet.populations[figure.population].stratum].model.clone();
        let stratum = fleet.populations[figure.population].stratum.to_string();
        let labels = vec![("model", model), ("stratum", stratum), ("figure", figure.headline.id.to_owned())];
        (labels, figure.last().detection_limit())
    });
    let help = "Smallest slowness that is found with 95 % probability.";
    write_gauge(&mut out, "plimsoll_fleet_detection_limit_ratio", help, limits);
    let verdicts =
        fleet.devices.iter().map(|judged| (with(judged, [("verdict", judged.verdict.name().to_owned())]), 1.0));
    write_gauge(&mut out, "plimsoll_device_verdict", "1 for the verdict of each device.", verdicts);
    write_worse(&mut out, fleet);
    write_figures(&mut out, fleet);
    out + "# EOF\n"
}

fn write_worse(out: &mut String, fleet: &Fleet) {
    let of_device = |(judged, known): (&Judgement, Vec<(&FigureOfFleet, Deviation)>)| -> Vec<(Labels, f64)> {
        let sample = |(figure, deviation): (&FigureOfFleet, Deviation)| {
            (with(judged, [("figure", figure.headline.id.to_owned())]), deviation.share())
        };
        known.into_iter().map(sample).collect()
    };
    let samples = fleet.devices.iter().zip(deviations(fleet)).flat_map(of_device);
    write_gauge(out, "plimsoll_device_worse_than_fleet_ratio", "How much worse than its fleet a device is.", samples);
}

fn write_figures(out: &mut String, fleet: &Fleet) {
    let mut by_unit: BTreeMap<&str, Vec<(Labels, f64)>> = BTreeMap::new();
    for judged in &fleet.devices {
        for row in judged.device.gates() {
            let sample = (with(judged, [("figure", row.headline.id.to_owned())]), row.measured.value);
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

fn with<const N: usize>(judged: &Judgement, more: [(&'static str, String); N]) -> Labels {
    let device = &judged.device;
    let own = [("host", &device.host), ("slot", &device.slot), ("device", &device.id), ("model", &device.model)];
    own.into_iter().map(|(name, value)| (name, value.clone())).chain(more).collect()
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
