//! Standings: each finding with the numbers that say how good it is: the theoretical peak, the ceiling measured on the same
//! device, and the reference for the same model. Where one is missing, the standing holds the reason. Reports display them.

use plimsoll_core::Flags;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::record::{Finding, Run};
use plimsoll_core::series::Estimate;
use plimsoll_core::unit::Unit;

use crate::operations;
use crate::references;

/// The probe that looks for the fastest kernels, whose findings are the first choice for a ceiling.
const CEILING_PROBE: &str = "stream";
/// The metric that has a ceiling.
const CEILING_METRIC: &str = "bandwidth";

/// A number to compare an achieved figure with.
#[derive(Clone, Debug, PartialEq)]
pub struct Yardstick {
    /// The value in the finding's unit.
    pub value: f64,
    /// Its source: a formula, a document, a kernel or a machine.
    pub source: String,
}

/// A yardstick, or the reason why there is none.
pub type YardstickResult = Result<Yardstick, &'static str>;

/// An achieved figure with its yardsticks.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Index into the run's devices.
    pub device: u32,
    /// The device's name, as recorded.
    pub device_name: String,
    /// The probe that found it.
    pub probe: String,
    /// The finding's name.
    pub name: String,
    /// The unit of all its numbers.
    pub unit: Unit,
    /// The measured figure.
    pub achieved: Estimate,
    /// The largest figure of the same traffic in this run and on this device: stream's for the same kernel, or its best where it
    /// doesn't have that kernel, unless another probe was faster. So no figure is above its ceiling.
    pub ceiling: YardstickResult,
    /// The theoretical peak, as the device reports it.
    pub peak: YardstickResult,
    /// The published or recorded figure for the same model. It is nothing to reach: a better card or program may exceed it.
    pub reference: YardstickResult,
    /// Flags of the row that it was read from.
    pub flags: Flags,
    /// The finding's own sentence; may be empty.
    pub says: String,
}

/// The kinds of yardsticks that a percentage can refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YardstickKind {
    /// [`Standing::peak`].
    Peak,
    /// [`Standing::ceiling`].
    Ceiling,
    /// [`Standing::reference`].
    Reference,
    /// [`Standing::reference`] of a size, which the system reports.
    Reported,
}

impl YardstickKind {
    /// The name as reports show it after a percentage.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Peak => "peak",
            Self::Ceiling => "ceiling",
            Self::Reference => "published",
            Self::Reported => "reported",
        }
    }
}

impl Standing {
    /// The achieved figure in per cent of the strictest yardstick that it can reach (peak, else ceiling). Where there is none,
    /// it is compared with the published figure: 103 % is 1.03 times the published number, also where less is better. The kind of
    /// yardstick is always shown with the percentage.
    #[must_use]
    pub fn percent(&self) -> Option<(f64, YardstickKind)> {
        let limits = [(YardstickKind::Peak, &self.peak), (YardstickKind::Ceiling, &self.ceiling)];
        let share = limits.into_iter().find_map(|(kind, yardstick)| Some((self.percent_of(yardstick)?, kind)));
        share.or_else(|| {
            let percent = 100.0 * self.achieved.value / self.reference.as_ref().ok()?.value;
            let kind = if self.unit == Unit::Byte { YardstickKind::Reported } else { YardstickKind::Reference };
            percent.is_finite().then_some((percent, kind))
        })
    }

    /// The achieved figure in per cent of one yardstick. Where less is better (a latency) the ratio is inverted, so that 100 is
    /// always as good as the yardstick and more is better.
    #[must_use]
    pub fn percent_of(&self, yardstick: &YardstickResult) -> Option<f64> {
        let ratio = self.achieved.value / yardstick.as_ref().ok()?.value;
        let percent = 100.0 * if self.unit.larger_is_better() == Some(false) { ratio.recip() } else { ratio };
        percent.is_finite().then_some(percent)
    }
}

/// Every finding of a run with its yardsticks. `reference` looks up a figure of the same machine model in the finding's unit.
#[must_use]
pub fn standings(run: &Run, reference: &dyn Fn(&DeviceInfo, &Finding) -> Option<Yardstick>) -> Vec<Standing> {
    let findings = run.findings.iter().filter(|finding| finding.value.is_finite());
    findings
        .filter_map(|finding| Some((run.header.devices.get(finding.device as usize)?, finding)))
        .map(|(device, finding)| Standing {
            device: finding.device,
            device_name: device.name.clone(),
            probe: finding.probe.clone(),
            name: finding.name.clone(),
            unit: operations::unit_of_finding(finding),
            achieved: Estimate { value: finding.value, interval: finding.interval },
            ceiling: ceiling(run, finding),
            peak: peak(device, finding),
            reference: published_figure(finding)
                .or_else(|| reference(device, finding))
                .filter(|known| known.value.is_finite())
                .ok_or("no reference for this machine model"),
            flags: finding.flags,
            says: finding.says.clone(),
        })
        .collect()
}

/// The shipped figure for a finding of a machine in the catalogue, with the same probe, unit and name. The finding's name is the
/// case, or metric and case as in `latency L2`. Figures for one point of a curve and lower bounds are ignored.
#[must_use]
pub fn shipped_reference(device: &DeviceInfo, finding: &Finding) -> Option<Yardstick> {
    let matches = |figure: &&references::Reference| {
        let named = finding.name == figure.case || finding.name == format!("{} {}", figure.metric, figure.case);
        named
            && figure.probe == finding.probe
            && figure.unit == finding.unit
            && figure.x.is_none()
            && figure.lower_bound.is_none()
    };
    let figure = references::of_machine(&device.name).find(matches)?;
    Some(Yardstick { value: figure.value, source: format!("{}: {}", figure.machine, figure.source) })
}

/// The published figure that the finding itself names; of a range, the number nearest to the measured one.
fn published_figure(finding: &Finding) -> Option<Yardstick> {
    let known = finding.published.as_ref().filter(|known| known.range.lo <= known.range.hi)?;
    let value = finding.value.clamp(known.range.lo, known.range.hi);
    Some(Yardstick { value, source: known.source.clone() })
}

fn peak(device: &DeviceInfo, finding: &Finding) -> YardstickResult {
    if finding.metric.is_empty() {
        return Err("no theoretical peak applies to this figure");
    }
    let peak = device.peak(&finding.metric).ok_or("the device reports no peak for this metric")?;
    let same = operations::unit(&peak.unit, &peak.metric) == operations::unit_of_finding(finding);
    if !same || !peak.value.is_finite() {
        return Err("the device's peak is in another unit");
    }
    Ok(Yardstick { value: peak.value, source: peak.source.clone() })
}

fn ceiling(run: &Run, finding: &Finding) -> YardstickResult {
    if finding.metric != CEILING_METRIC || finding.probe == CEILING_PROBE {
        return Err("ceilings exist for bandwidth only; they are the best figures of stream and of the same traffic");
    }
    let is_candidate = |other: &&Finding| {
        other.metric == CEILING_METRIC
            && other.device == finding.device
            && other.unit == finding.unit
            && other.value.is_finite()
            && !other.flags.is_unverified()
    };
    let (of_stream, of_others): (Vec<_>, Vec<_>) =
        run.findings.iter().filter(is_candidate).partition(|other| other.probe == CEILING_PROBE);
    // A finding of a kernel that stream has too (`read memory`) is compared with that kernel: the same mix of reads and writes.
    let (same, different): (Vec<_>, Vec<_>) =
        of_stream.into_iter().partition(|other| traffic(other) == traffic(finding));
    let candidates = if same.is_empty() { different } else { same };
    let best = find_largest(candidates.into_iter()).ok_or("stream was not measured in this run")?;
    // Flagged figures may be too high; the finding itself counts anyway, since it is what the ceiling is shown with.
    let is_sound = |other: &Finding| other.flags.doubtful().is_empty();
    let is_rival =
        |other: &&Finding| traffic(other) == traffic(finding) && (std::ptr::eq(*other, finding) || is_sound(other));
    let rival = find_largest(of_others.into_iter().filter(is_rival));
    Ok(match rival {
        Some(faster) if faster.value > best.value => Yardstick {
            value: faster.value,
            source: format!("{}: {}, faster than stream: {}", faster.probe, faster.name, best.name),
        },
        _ => Yardstick { value: best.value, source: format!("stream: {}", best.name) },
    })
}

fn find_largest<'f>(findings: impl Iterator<Item = &'f Finding>) -> Option<&'f Finding> {
    findings.max_by(|a, b| a.value.total_cmp(&b.value))
}

/// The kernel in a finding's name, which says what it reads and writes: `read` in `read memory`, `2:1` in `2:1`.
fn traffic(finding: &Finding) -> &str {
    finding.name.split(' ').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use plimsoll_core::Flag;

    use plimsoll_core::device::Peak;
    use plimsoll_core::record::{Record, RunHeader};
    use plimsoll_core::sample::Effort;
    use plimsoll_core::stats::Interval;

    use super::*;

    fn run(findings: &[(&str, &str, f64, &str)]) -> Run {
        let peak =
            Peak { metric: "bandwidth".into(), value: 400.0, unit: Unit::BytePerSecond, source: "8 channels".into() };
        let device = DeviceInfo { name: "Box".into(), peaks: vec![peak], ..DeviceInfo::default() };
        let header = RunHeader {
            schema: 1,
            tool: "0.1.0".into(),
            started: "2026-01-01T00:00:00Z".into(),
            argv: vec![],
            conditions: Default::default(),
            effort: Effort::Quick,
            seed: 1,
            host: Default::default(),
            devices: vec![device],
        };
        let findings = findings.iter().map(|&(probe, name, value, metric)| {
            Record::Finding(Finding {
                device: 0,
                probe: probe.into(),
                name: name.into(),
                value,
                interval: Interval { lo: value, hi: value },
                unit: Unit::BytePerSecond,
                flags: Flags::NONE,
                metric: metric.into(),
                says: String::new(),
                published: None,
            })
        });
        Run::from_records(std::iter::once(Record::Run(header)).chain(findings)).unwrap()
    }

    #[test]
    fn ceiling_is_streams_same_kernel_or_its_best_and_stream_has_none() {
        let run = run(&[
            ("stream", "copy", 300.0, "bandwidth"),
            ("stream", "triad", 320.0, "bandwidth"),
            ("footprint", "memory", 240.0, "bandwidth"),
            ("footprint", "copy memory", 240.0, "bandwidth"),
        ]);
        let all = standings(&run, &|_, _| None);
        assert!(all[0].ceiling.is_err() && all[1].ceiling.is_err());
        let ceiling = all[2].ceiling.as_ref().unwrap();
        assert_eq!((ceiling.value, ceiling.source.as_str()), (320.0, "stream: triad"));
        assert_eq!(all[2].percent_of(&all[2].ceiling), Some(75.0));
        assert_eq!(all[3].percent_of(&all[3].ceiling), Some(80.0));
    }

    #[test]
    fn no_figure_is_above_its_ceiling_and_a_faster_probe_is_named() {
        let mut run = run(&[
            ("stream", "copy", 300.0, "bandwidth"),
            ("footprint", "copy memory", 310.0, "bandwidth"),
            ("copy", "copy memory", 305.0, "bandwidth"),
            ("mix", "1:1", 330.0, "bandwidth"),
        ]);
        run.header.devices[0].peaks.clear();
        let all = standings(&run, &|_, _| None);
        let ceiling = all[1].ceiling.as_ref().unwrap();
        assert_eq!(
            (ceiling.value, ceiling.source.as_str()),
            (310.0, "footprint: copy memory, faster than stream: copy")
        );
        assert_eq!(all[1].percent(), Some((100.0, YardstickKind::Ceiling)));
        assert_eq!(all[2].ceiling, all[1].ceiling);
        // stream has no such kernel: its best figure is the ceiling only while the finding isn't above it.
        assert_eq!(all[3].percent(), Some((100.0, YardstickKind::Ceiling)));
        run.findings[1].flags.insert(Flag::Cotenant);
        let all = standings(&run, &|_, _| None);
        assert_eq!(all[2].ceiling.as_ref().unwrap().source, "copy: copy memory, faster than stream: copy");
    }

    #[test]
    fn lower_bounds_are_no_yardsticks() {
        let run = run(&[("stream", "read", 4.59e12, "bandwidth"), ("stream", "init", 4.68e12, "bandwidth")]);
        let device = DeviceInfo { name: "NVIDIA H200".into(), ..DeviceInfo::default() };
        assert_eq!(shipped_reference(&device, &run.findings[0]), None);
        assert!(shipped_reference(&device, &run.findings[1]).is_some());
    }

    #[test]
    fn percentage_names_its_yardstick_and_missing_yardsticks_have_a_reason() {
        let run = run(&[("stream", "copy", 300.0, "bandwidth"), ("footprint", "L1", 900.0, "")]);
        let reference = |_: &DeviceInfo, finding: &Finding| {
            (finding.name == "L1").then(|| Yardstick { value: 1000.0, source: "a Box elsewhere".into() })
        };
        let all = standings(&run, &reference);
        assert_eq!(all[0].percent(), Some((75.0, YardstickKind::Peak)));
        assert_eq!(all[0].reference, Err("no reference for this machine model"));
        assert_eq!(all[1].percent(), Some((90.0, YardstickKind::Reference)));
        assert_eq!(YardstickKind::Reference.name(), "published");
        assert_eq!(all[1].peak, Err("no theoretical peak applies to this figure"));
    }

    #[test]
    fn shipped_figure_is_found_by_machine_probe_and_name() {
        let run = run(&[("stream", "triad", 2e12, "bandwidth"), ("stream", "no such kernel", 2e12, "bandwidth")]);
        let device = DeviceInfo { name: "NVIDIA H100 PCIe".into(), ..DeviceInfo::default() };
        let found = shipped_reference(&device, &run.findings[0]).unwrap();
        assert!(found.value > 1e12 && found.source.starts_with("H100 PCIe: "), "{found:?}");
        assert_eq!(shipped_reference(&device, &run.findings[1]), None);
        assert_eq!(shipped_reference(&run.header.devices[0], &run.findings[0]), None);
    }

    #[test]
    fn peak_of_zero_gives_no_percentage() {
        let mut run = run(&[("stream", "copy", 300.0, "bandwidth")]);
        run.header.devices[0].peaks[0].value = 0.0;
        assert_eq!(standings(&run, &|_, _| None)[0].percent(), None);
    }

    #[test]
    fn share_of_a_latency_is_inverted_and_the_comparison_with_a_published_one_is_not() {
        let mut run = run(&[("latency", "latency memory", 125e-9, "latency")]);
        run.findings[0].unit = Unit::Second;
        let reference = |_: &DeviceInfo, _: &Finding| Some(Yardstick { value: 100e-9, source: "a paper".into() });
        let standing = &standings(&run, &reference)[0];
        let percent = standing.percent_of(&standing.reference).unwrap();
        assert!((percent - 80.0).abs() < 1e-9, "{percent}");
        let (percent, kind) = standing.percent().unwrap();
        assert!((percent - 125.0).abs() < 1e-9 && kind == YardstickKind::Reference, "{percent}");
    }
}
