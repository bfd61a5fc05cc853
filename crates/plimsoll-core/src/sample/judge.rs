//! Decides a point's flags from its samples and evidence alone. Pure functions, so that a reader can judge again.
//!
//! The shape of the samples is flagged only where it can change a figure by more than the promised precision. Outliers
//! hardly change a median, and its interval already covers their effect. But they move the mean away from the median, and the
//! mean is what a program that launches repeatedly pays. So outliers are flagged where they separate the two by more than
//! the promised precision. (Example: of the `init` kernels on an H200, three samples in 33 are 0.5 to 3 % longer, when
//! the memory does its own housekeeping: 0.1 % of the time, on a median that is known within 0.05 %.)

use super::{CachePolicy, Evidence, Work};
use crate::device::DeviceInfo;
use crate::flag::{Flag, Flags};
use crate::stats::{OUTLIER_LEAST, Scratch, outliers, summarize};

/// Share of the wall time above which quota, steal and co-tenant time are flagged.
const DISTURBED: f64 = 0.005;
/// Seconds summed over all processors below which steal and co-tenant time are not flagged: they are counted in ticks of
/// 10 ms, and two ticks may be chance.
const CHANCE_TICKS: f64 = 0.025;

/// Relative change below which nothing is flagged.
const MATERIAL: f64 = OUTLIER_LEAST;

/// The properties of the device and the series that [`judge`] needs.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// The device.
    pub device: &'a DeviceInfo,
    /// The series' cache policy.
    pub cache: CachePolicy,
    /// Smallest difference that a sample can show, seconds.
    pub resolution: f64,
    /// The requested relative half-width of the median's interval.
    pub half_width: f64,
    /// The best precision that the series promises ([`crate::series::SeriesSpec::precision`]).
    pub precision: f64,
}

/// True where a point that ran out of time or samples still reached the requested precision. With fewer than six samples, no
/// two of them enclose the median with 95 % confidence (1 − 2 · ½ⁿ).
#[must_use]
pub fn is_narrow_enough(seconds: &[f64], half_width: f64) -> bool {
    let summary = summarize(seconds, &mut Scratch::with_capacity(seconds.len()));
    summary.n >= 6 && summary.relative_half_width() <= half_width
}

/// The flags of one point: `seconds` per launch in the order taken, in samples of `k` launches.
#[must_use]
pub fn judge(seconds: &[f64], k: u32, work: &Work, evidence: &Evidence, context: &Context<'_>) -> Flags {
    let mut flags = judge_samples(seconds, k, work, context);
    judge_evidence(&mut flags, seconds.len(), evidence, context);
    flags
}

fn judge_samples(seconds: &[f64], k: u32, work: &Work, context: &Context<'_>) -> Flags {
    let mut flags = Flags::NONE;
    if seconds.is_empty() {
        return flags;
    }
    let summary = summarize(seconds, &mut Scratch::with_capacity(seconds.len()));
    let mut sorted = seconds.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let material = MATERIAL.max(context.precision);
    let (median, device) = (summary.median, context.device);
    flags.insert_if(Flag::LaunchBound, !work.in_kernel && median < 3.0 * device.calibration.empty_launch);
    let moved = summary.drift.relative.abs() > material;
    flags.insert_if(Flag::Drift, summary.drift.significant && moved);
    let bimodal = summary.modes.is_some_and(|modes| modes.upper - modes.lower > material * median);
    flags.insert_if(Flag::Bimodal, bimodal);
    let far = outliers(&sorted, material);
    flags.insert_if(Flag::Outliers, far.significant && far.weight > material);
    let wide = summary.relative_half_width() > context.half_width;
    flags.insert_if(Flag::Correlated, summary.correlated && wide);
    flags.insert_if(Flag::Quantized, context.resolution > material * median * f64::from(k));
    let too_small = work.window < device.cold_window();
    let rotates = matches!(context.cache, CachePolicy::ColdRotate | CachePolicy::Stream);
    flags.insert_if(Flag::CacheResident, rotates && too_small);
    if let (true, Some(peak)) = (context.cache.is_cold() && !too_small, device.peak("bandwidth")) {
        flags.insert_if(Flag::AbovePeak, work.traffic.bandwidth(median) > 1.005 * peak.value);
    }
    flags
}

fn judge_evidence(flags: &mut Flags, samples: usize, evidence: &Evidence, context: &Context<'_>) {
    let processors = f64::from(context.device.multiprocessors.max(1));
    let is_large = |seconds: f64| seconds > DISTURBED * evidence.wall;
    let is_significant = |seconds: f64| seconds * processors > CHANCE_TICKS && is_large(seconds);
    flags.insert_if(Flag::ThrottlePower, evidence.throttle.power);
    flags.insert_if(Flag::ThrottleThermal, evidence.throttle.thermal);
    flags.insert_if(Flag::ThrottleHw, evidence.throttle.hardware);
    flags.insert_if(Flag::Steal, is_significant(evidence.steal));
    flags.insert_if(Flag::CpuQuota, is_large(evidence.quota));
    flags.insert_if(Flag::Cotenant, is_significant(evidence.cotenant));
    flags.insert_if(Flag::Preempted, evidence.preemptions as f64 > 0.1 * samples as f64);
    flags.insert_if(Flag::SmtShared, evidence.smt_shared);
    flags.insert_if(Flag::Ecc, evidence.ecc_errors > 0);
    flags.insert_if(Flag::LinkDegraded, evidence.link_degraded);
    if let (Some(now), Some(calibrated)) = (evidence.clock_hz, context.device.calibration.clock_hz) {
        flags.insert_if(Flag::ClockLow, now < 0.97 * calibrated);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge_hot(seconds: &[f64], precision: f64) -> Flags {
        let device = DeviceInfo::default();
        let cache = CachePolicy::Hot;
        let context = Context { device: &device, cache, resolution: 0.0, half_width: 1.0, precision };
        judge(seconds, 1, &Work::default(), &Evidence::default(), &context)
    }

    /// 33 samples within 0.1 % of each other, except that `count` of them are longer by the share `by`.
    fn samples_with_outliers(count: usize, by: f64) -> Vec<f64> {
        let mut seconds: Vec<f64> = (0..33).map(|i| 1.0 + 1e-4 * f64::from(i * 7 % 11)).collect();
        // Spread evenly, so that nothing drifts.
        (0..count).for_each(|i| seconds[2 + i * 33 / count] *= 1.0 + by);
        seconds
    }

    #[test]
    fn outliers_are_flagged_where_they_move_the_mean_by_more_than_the_precision() {
        assert_eq!(judge_hot(&samples_with_outliers(0, 0.0), 0.0), Flags::NONE);
        // Three samples in 33 that are 2.5 % longer add 0.2 % of the time; 20 % longer, 2 %.
        assert_eq!(judge_hot(&samples_with_outliers(3, 0.025), 0.0), Flags::NONE);
        let flagged: Flags = std::iter::once(Flag::Outliers).collect();
        assert_eq!(judge_hot(&samples_with_outliers(3, 0.2), 0.0), flagged);
        assert_eq!(judge_hot(&samples_with_outliers(3, 0.2), 0.02), Flags::NONE, "within the precision");
        assert_eq!(judge_hot(&samples_with_outliers(3, 0.4), 0.02), flagged);
    }

    #[test]
    fn modes_closer_than_the_precision_are_not_flagged() {
        let two: Vec<f64> =
            (0..200).map(|i| 1.0 + 1e-4 * f64::from(i * 7 % 11) + 0.01 * f64::from(u8::from(i * 37 % 5 > 2))).collect();
        assert!(judge_hot(&two, 0.0).contains(Flag::Bimodal));
        assert!(!judge_hot(&two, 0.02).contains(Flag::Bimodal));
    }
}
