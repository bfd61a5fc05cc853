//! Which flags a point deserves, from its samples and evidence alone. Pure, so that a reader can judge again.
//!
//! Of the samples' shape only that is flagged which can move a figure by more than is promised of it. Outliers hardly move a
//! median, and its interval already holds what they do to it. What they can part is the median from the mean, which is what
//! a program that launches again and again pays: they are flagged where they part the two by more than is promised. (Of the
//! `init` kernels on an H200, three samples of 33 are 0.5 to 3 % longer, wherever the memory has to be looked after meanwhile:
//! 0.1 % of the time, on a median that is known within 0.05 %.)

use super::{CachePolicy, Evidence, Work};
use crate::device::DeviceInfo;
use crate::flag::{Flag, Flags};
use crate::stats::{OUTLIER_LEAST, Scratch, outliers, summarize};

/// Share of the wall time beyond which a quota, steal or a co-tenant counts.
const DISTURBED: f64 = 0.005;
/// Seconds over all processors below which steal and co-tenants don't: they are counted in ticks of 10 ms, and two
/// ticks may be chance.
const TICKS: f64 = 0.025;

/// Relative change below which no figure is qualified.
const MATERIAL: f64 = OUTLIER_LEAST;

/// What a judgement needs to know of the device and the series.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// The device.
    pub device: &'a DeviceInfo,
    /// What the series promises about caches.
    pub cache: CachePolicy,
    /// Smallest difference that a sample can show, seconds.
    pub resolution: f64,
    /// Relative half-width of the median's interval that was asked for.
    pub asked: f64,
    /// What the series promises at best ([`crate::series::SeriesSpec::precision`]).
    pub precision: f64,
}

/// True where a point that ran out of time or samples is known as well as was asked all the same. Below six samples no two
/// of them enclose the median with 95 % confidence (1 − 2 · ½ⁿ).
#[must_use]
pub fn narrow_enough(seconds: &[f64], asked: f64) -> bool {
    let summary = summarize(seconds, &mut Scratch::with_capacity(seconds.len()));
    summary.n >= 6 && summary.relative_half_width() <= asked
}

/// The flags of one point: `seconds` per launch in the order taken, in samples of `k` launches.
#[must_use]
pub fn judge(seconds: &[f64], k: u32, work: &Work, evidence: &Evidence, context: &Context<'_>) -> Flags {
    let mut flags = of_samples(seconds, k, work, context);
    of_evidence(&mut flags, seconds.len(), evidence, context);
    flags
}

fn of_samples(seconds: &[f64], k: u32, work: &Work, context: &Context<'_>) -> Flags {
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
    let apart = summary.modes.is_some_and(|modes| modes.upper - modes.lower > material * median);
    flags.insert_if(Flag::Bimodal, apart);
    let far = outliers(&sorted, material);
    flags.insert_if(Flag::Outliers, far.significant && far.weight > material);
    let wide = summary.relative_half_width() > context.asked;
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

fn of_evidence(flags: &mut Flags, samples: usize, evidence: &Evidence, context: &Context<'_>) {
    let processors = f64::from(context.device.multiprocessors.max(1));
    let share = |seconds: f64| seconds > DISTURBED * evidence.wall;
    let ticked = |seconds: f64| seconds * processors > TICKS && share(seconds);
    flags.insert_if(Flag::ThrottlePower, evidence.throttle.power);
    flags.insert_if(Flag::ThrottleThermal, evidence.throttle.thermal);
    flags.insert_if(Flag::ThrottleHw, evidence.throttle.hardware);
    flags.insert_if(Flag::Steal, ticked(evidence.steal));
    flags.insert_if(Flag::CpuQuota, share(evidence.quota));
    flags.insert_if(Flag::Cotenant, ticked(evidence.cotenant));
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

    fn of(seconds: &[f64], precision: f64) -> Flags {
        let device = DeviceInfo::default();
        let cache = CachePolicy::Hot;
        let context = Context { device: &device, cache, resolution: 0.0, asked: 1.0, precision };
        judge(seconds, 1, &Work::default(), &Evidence::default(), &context)
    }

    /// 33 samples within 0.1 %, of which so many are longer by this share.
    fn with_long_ones(count: usize, by: f64) -> Vec<f64> {
        let mut seconds: Vec<f64> = (0..33).map(|i| 1.0 + 1e-4 * f64::from(i * 7 % 11)).collect();
        // Spread over the whole, so that nothing drifts.
        (0..count).for_each(|i| seconds[2 + i * 33 / count] *= 1.0 + by);
        seconds
    }

    #[test]
    fn outliers_are_flagged_where_they_part_the_mean_from_the_median_by_more_than_is_promised() {
        assert_eq!(of(&with_long_ones(0, 0.0), 0.0), Flags::NONE);
        // Three of 33 that are 2.5 % longer are 0.2 % of the time, as those of the H200's memory; 20 % longer are 2 %.
        assert_eq!(of(&with_long_ones(3, 0.025), 0.0), Flags::NONE);
        let flagged: Flags = std::iter::once(Flag::Outliers).collect();
        assert_eq!(of(&with_long_ones(3, 0.2), 0.0), flagged);
        assert_eq!(of(&with_long_ones(3, 0.2), 0.02), Flags::NONE, "no more than is promised");
        assert_eq!(of(&with_long_ones(3, 0.4), 0.02), flagged);
    }

    #[test]
    fn modes_that_are_nearer_than_what_is_promised_are_one() {
        let two: Vec<f64> =
            (0..200).map(|i| 1.0 + 1e-4 * f64::from(i * 7 % 11) + 0.01 * f64::from(u8::from(i * 37 % 5 > 2))).collect();
        assert!(of(&two, 0.0).contains(Flag::Bimodal));
        assert!(!of(&two, 0.02).contains(Flag::Bimodal));
    }
}
