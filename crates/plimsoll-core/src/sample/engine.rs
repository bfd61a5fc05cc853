//! The sampling loop: warm up, choose the batch size, sample until the interval is narrow enough or the time is up.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Check, Clock, Evidence, EvidenceSum, Figure, Policy, Workload};
use crate::Fault;
use crate::stats::{MAX_SAMPLES, Scratch, StopRule, estimate};

/// The number of samples taken even after the time is up.
const MIN_AFTER_DEADLINE: usize = 3;
/// Longest time between two checks of the stop signal, the budget and the evidence, unless one sample takes longer.
const SLICE_SECONDS: f64 = 0.05;
/// Least length of a sample, in timer resolutions.
const RESOLUTIONS: f64 = 200.0;

/// Why sampling ended.
#[derive(Debug)]
pub enum Ended {
    /// The interval is as narrow as the policy requires.
    Converged,
    /// The time or the number of samples ran out first.
    Budget,
    /// The user stopped it; the samples taken count.
    Stopped,
    /// The device failed; the samples taken before count.
    Fault(Fault),
}

/// One point as sampled, borrowed from the sampler's buffers.
#[derive(Debug)]
pub struct Measured<'s> {
    /// Launches per sample.
    pub k: u32,
    /// Ticks of each sample (all k launches together), in the order taken.
    pub ticks: &'s [u64],
    /// The same as seconds per launch.
    pub seconds: &'s [f64],
    /// Seconds per tick.
    pub tick: f64,
    /// Smallest difference that a sample can show, seconds.
    pub resolution: f64,
    /// What happened during sampling.
    pub evidence: Evidence,
    /// Why sampling ended.
    pub ended: Ended,
    /// The result of the check; `None` where a fault came before it, or in it.
    pub check: Option<Check>,
}

/// Times workloads against one clock.
#[derive(Debug)]
pub struct Sampler<C> {
    clock: C,
    policy: Policy,
    ticks: Vec<u64>,
    seconds: Vec<f64>,
    scratch: Scratch,
}

impl<C: Clock> Sampler<C> {
    /// Allocates everything that measuring needs.
    #[must_use]
    pub fn new(clock: C, policy: Policy) -> Self {
        Self {
            clock,
            policy,
            ticks: Vec::with_capacity(MAX_SAMPLES),
            seconds: Vec::with_capacity(MAX_SAMPLES),
            scratch: Scratch::with_capacity(MAX_SAMPLES),
        }
    }

    /// The clock, for budgets and settling.
    pub fn clock(&mut self) -> &mut C {
        &mut self.clock
    }

    /// The current policy.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Changes the policy for the following measurements.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Samples one workload for at most about `budget` seconds. Allocates nothing.
    ///
    /// # Errors
    /// The workload's fault, or [`Fault::Stopped`], where not even one sample was taken; later faults are in [`Measured::ended`].
    pub fn measure(
        &mut self,
        workload: &mut dyn Workload,
        figure: Figure,
        budget: f64,
        stop: &AtomicBool,
    ) -> Result<Measured<'_>, Fault> {
        self.ticks.clear();
        self.seconds.clear();
        let deadline = self.clock.now() + budget;
        let before = self.clock.now();
        let k = self.choose_batch(workload, figure, stop)?;
        // No less than the length of a sample, so that the first slice doesn't hold many long samples.
        let guess = if self.policy.trace { SLICE_SECONDS } else { (self.clock.now() - before).min(SLICE_SECONDS) };
        self.clock.observe();
        let mut evidence_sum = EvidenceSum::default();
        let mut ended = self.fill(workload, k, deadline, stop, guess, &mut evidence_sum);
        if self.ticks.is_empty() {
            return Err(match ended {
                Ended::Fault(fault) => fault,
                _ => Fault::Stopped,
            });
        }
        let mut check = None;
        if !matches!(ended, Ended::Fault(_)) {
            match workload.check() {
                Ok(verdict) => check = Some(verdict),
                Err(fault) => ended = Ended::Fault(fault),
            }
        }
        let (tick, resolution) = (self.clock.tick(), self.resolution(workload));
        let evidence = evidence_sum.evidence();
        Ok(Measured { k, ticks: &self.ticks, seconds: &self.seconds, tick, resolution, evidence, ended, check })
    }

    /// Smallest difference that a sample can show: the clock's, or one cycle where the workload counts cycles itself.
    fn resolution(&self, workload: &dyn Workload) -> f64 {
        workload.clock_hz().map_or(self.clock.resolution(), |hz| hz.recip().max(self.clock.tick()))
    }

    /// Warms up with two discarded samples and chooses how many launches make a sample long enough.
    fn choose_batch(&mut self, workload: &mut dyn Workload, figure: Figure, stop: &AtomicBool) -> Result<u32, Fault> {
        let batch = workload.batch();
        let cycle = batch.cycle.max(1);
        let most = (batch.max / cycle).max(1) * cycle;
        if self.policy.trace {
            return Ok(cycle);
        }
        let mut length = [0_u64];
        for _ in 0..2 {
            workload.prepare(cycle)?;
            workload.sample(cycle, &mut length)?;
        }
        if figure == Figure::Latency {
            return Ok(1);
        }
        let resolution = self.resolution(workload);
        let need = self.policy.sample_seconds.max(RESOLUTIONS * resolution);
        let mut k = cycle;
        while k < most && !stop.load(Ordering::Relaxed) {
            // A sample shorter than the resolution says only that k must grow.
            let seconds = (length[0] as f64 * self.clock.tick()).max(resolution);
            let wanted = (f64::from(k) * need / seconds).min(f64::from(most)).ceil() as u32;
            let next = wanted.div_ceil(cycle).saturating_mul(cycle).clamp(cycle, most);
            if next <= k {
                break;
            }
            let growth = next / k;
            k = next;
            if growth <= 4 {
                break;
            }
            workload.prepare(k)?;
            workload.sample(k, &mut length)?;
        }
        Ok(k)
    }

    /// Takes samples slice by slice until something ends the point.
    fn fill(
        &mut self,
        workload: &mut dyn Workload,
        k: u32,
        deadline: f64,
        stop: &AtomicBool,
        mut sample_seconds: f64,
        evidence_sum: &mut EvidenceSum,
    ) -> Ended {
        let mut rule = StopRule::new(self.policy.min_samples, self.policy.half_width);
        let to_launch = self.clock.tick() / f64::from(k);
        let mut check_at = self.policy.min_samples.clamp(1, MAX_SAMPLES);
        loop {
            if stop.load(Ordering::Relaxed) {
                return Ended::Stopped;
            }
            let old = self.ticks.len();
            let affordable = (SLICE_SECONDS / sample_seconds.max(1e-9)).max(1.0) as usize;
            let slice = affordable.min(check_at - old);
            self.ticks.resize(old + slice, 0);
            let before = self.clock.now();
            let taken = workload.prepare(k).and_then(|()| workload.sample(k, &mut self.ticks[old..]));
            if let Err(fault) = taken {
                self.ticks.truncate(old);
                return Ended::Fault(fault);
            }
            let now = self.clock.now();
            sample_seconds = (now - before) / slice as f64;
            self.seconds.extend(self.ticks[old..].iter().map(|&ticks| ticks as f64 * to_launch));
            evidence_sum.add(&self.clock.observe());
            let n = self.ticks.len();
            if n == check_at {
                let estimate = estimate(&self.seconds, &mut self.scratch);
                let resolution = self.resolution(workload) / (estimate.median * f64::from(k)).max(f64::MIN_POSITIVE);
                if rule.check(&estimate, resolution) && !self.policy.trace {
                    return Ended::Converged;
                }
                if n == MAX_SAMPLES {
                    return Ended::Budget;
                }
                check_at = rule.next_check(n).min(MAX_SAMPLES);
            }
            if now >= deadline && n >= MIN_AFTER_DEADLINE {
                return Ended::Budget;
            }
        }
    }
}
