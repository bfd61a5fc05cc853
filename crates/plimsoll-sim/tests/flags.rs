//! Every flag is raised by its cause, and hardly ever on an undisturbed machine.

mod common;

use common::{measure, points, probes, request_with};
use plimsoll_core::Flag;
use plimsoll_core::probe::Request;
use plimsoll_core::sample::Effort;

/// The cause of a flag: scenario, probe, and requested size. `None` for flags that a simulated device can't raise.
fn cause(flag: Flag) -> Option<(&'static str, &'static str, Option<u64>)> {
    Some(match flag {
        Flag::LaunchBound => ("launch=1ms", "stream", None),
        Flag::ThrottlePower => ("throttle-after=0s,throttle=power", "sync", None),
        Flag::ThrottleThermal => ("throttle-after=0.3s", "sync", None),
        Flag::ThrottleHw => ("throttle-after=0s,throttle=hw", "sync", None),
        Flag::ClockLow => ("clock-low=0.9", "sync", None),
        Flag::Drift => ("drift=0.05", "sync", None),
        Flag::Bimodal => ("bimodal=0.1", "sync", None),
        Flag::Outliers => ("outliers=0.1", "sync", None),
        Flag::Correlated => ("correlated=0.8,noise=0.2", "sync", None),
        Flag::Quantized => ("tick=10ms", "sync", None),
        Flag::CacheResident => ("", "stream", Some(1 << 20)),
        Flag::AbovePeak => ("above-peak", "stream", None),
        Flag::Cotenant => ("cotenant=0.1", "sync", None),
        Flag::Steal => ("steal=0.1", "sync", None),
        Flag::CpuQuota => ("quota=0.1", "sync", None),
        Flag::Preempted => ("preempt=0.2", "sync", None),
        Flag::SmtShared => ("smt", "sync", None),
        Flag::Ecc => ("ecc=1", "sync", None),
        Flag::LinkDegraded => ("link-degraded", "sync", None),
        Flag::Budget => ("noise=0.5", "sync", None),
        Flag::VerifyFail => ("wrong=sync", "sync", None),
        Flag::Unchecked => ("lost-after=5", "sync", None),
        Flag::Shrunk => ("memory=1GiB", "stream", None),
        // A simulated device has no hardware counters.
        Flag::Counted | Flag::SizeDiffers | Flag::Unknown => return None,
    })
}

/// Share of the points that carry a flag.
fn share(flag: Flag, scenario: &str, probe: &str, bytes: Option<u64>) -> f64 {
    let (_, records) = measure(scenario, probe, &Request { bytes, ..Request::default() });
    let points = points(&records);
    points.iter().filter(|point| point.flags.contains(flag)).count() as f64 / points.len() as f64
}

#[test]
fn every_flag_is_raised_by_its_cause_and_not_without_it() {
    for &flag in Flag::ALL {
        let Some((scenario, probe, bytes)) = cause(flag) else { continue };
        let raised = share(flag, scenario, probe, bytes);
        let least = match flag {
            Flag::Drift | Flag::Correlated | Flag::AbovePeak | Flag::Bimodal | Flag::Outliers => 0.2,
            _ => 0.75,
        };
        assert!(raised >= least, "{} on {:.0} % of the points of '{scenario}'", flag.name(), 100.0 * raised);
        let clean = share(flag, "", probe, None);
        assert!(clean <= 0.05, "{} on {:.0} % of the points of a clean run", flag.name(), 100.0 * clean);
    }
}

#[test]
fn an_undisturbed_machine_flags_at_most_one_point_in_twenty() {
    for effort in Effort::ALL {
        for seed in [0, 1] {
            let (mut total, mut flagged) = (0, Vec::new());
            for probe in probes() {
                let (_, records) = measure(&format!("seed={seed}"), probe, &request_with(effort));
                for point in points(&records) {
                    total += 1;
                    let mut flags = point.flags.iter();
                    let is_harmless = |flag| matches!(flag, Flag::LaunchBound | Flag::CacheResident);
                    if !flags.all(is_harmless) {
                        flagged.push(format!("{probe} {:?} {}", point.at, point.flags));
                    }
                }
            }
            assert!(flagged.len() * 20 <= total, "{} of {total} at {}: {flagged:#?}", flagged.len(), effort.name());
        }
    }
}

#[test]
fn a_throttled_clock_explains_the_slower_time_in_cycles() {
    let clock_and_time = |scenario: &str| {
        let (_, records) = measure(scenario, "sync", &Request::default());
        let points = points(&records);
        let clock = points.iter().map(|point| point.evidence.clock_hz.unwrap()).sum::<f64>();
        let time = points.iter().map(|point| point.seconds().sum::<f64>() / point.samples.len() as f64);
        (clock, time.sum::<f64>())
    };
    let ((clean_hz, clean), (throttled_hz, throttled)) = (clock_and_time(""), clock_and_time("throttle-after=0s"));
    assert!(throttled_hz < 0.81 * clean_hz && throttled > 1.2 * clean);
    assert!((throttled * throttled_hz / (clean * clean_hz) - 1.0).abs() < 0.01);
}
