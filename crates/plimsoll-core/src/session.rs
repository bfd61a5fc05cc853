//! The session: measures the points of one probe on one device and writes each as it is known.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::counted;
use crate::device::DeviceInfo;
use crate::flag::{Flag, Flags};
use crate::probe::{Backend, Parts, ProbeSpec, Request};
use crate::record::{FaultRecord, Progress, Record};
use crate::sample::{CachePolicy, Check, Clock, Context, Ended, Policy, Workload, judge, narrow_enough};
use crate::series::{Point, Series, SeriesSpec, SweptSeries, Value};
use crate::{Fault, FaultClass};

/// By which name a point says how many elements of its check couldn't be judged.
const UNJUDGED: &str = "unjudged";

/// A sweep to be measured: a series, its points, and how much of the probe's time it may take.
#[derive(Clone, Debug)]
pub struct Sweep<'p, P, S = SeriesSpec> {
    /// What the series is, with typed or with positional coordinates; the session fills in `id`, `device`, `probe` and `trace`.
    pub series: S,
    /// What is measured, in order.
    pub points: &'p [P],
    /// Share of the probe's whole budget, 0…1; what an earlier sweep left over comes on top.
    pub share: f64,
    /// Flags that all points carry beside those that are judged (`SHRUNK`).
    pub flags: Flags,
}

/// Measures one probe on one device.
pub struct Session<'s, B: Backend> {
    /// The device.
    pub device: &'s mut B::Device,
    /// What the user asked.
    pub request: &'s Request,
    info: &'s DeviceInfo,
    device_index: u32,
    spec: &'static ProbeSpec,
    parts: Parts<'s, B::Clock>,
    started: f64,
    budget: f64,
    promised: f64,
    measured: usize,
    idle_since: f64,
    /// Whether every point is counted as well.
    counting: bool,
    series: Vec<Series>,
    /// The sweep at work, so that even a panic in it loses no point.
    open: Option<(SeriesSpec, Vec<Point>)>,
}

impl<'s, B: Backend> Session<'s, B> {
    pub(crate) fn new(
        device: &'s mut B::Device,
        request: &'s Request,
        info: &'s DeviceInfo,
        device_index: u32,
        spec: &'static ProbeSpec,
        parts: Parts<'s, B::Clock>,
    ) -> Self {
        let started = parts.sampler.clock().now();
        let budget = spec.budget(request.effort);
        let counting = request.counters && !request.trace && B::counters(device).is_ok();
        Self {
            device,
            request,
            info,
            device_index,
            spec,
            parts,
            started,
            budget,
            promised: 0.0,
            measured: 0,
            idle_since: started,
            counting,
            series: Vec::new(),
            open: None,
        }
    }

    /// What the device says of itself.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        self.info
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.parts.sampler.policy()
    }

    /// The device's clock.
    pub fn clock(&mut self) -> &mut B::Clock {
        self.parts.sampler.clock()
    }

    /// True once the user asked to stop: long set-up work should look.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.parts.stop.load(Ordering::Relaxed)
    }

    /// The signal that [`Session::stopped`] looks at, for set-up work within a sweep.
    #[must_use]
    pub fn stop_signal(&self) -> &'s AtomicBool {
        self.parts.stop
    }

    /// Tells of something that the probe found wrong when it looked at its points together, and goes on.
    ///
    /// # Errors
    /// The record's.
    pub fn doubt(&mut self, what: String) -> Result<(), Fault> {
        let fault = FaultRecord::new(self.device_index, self.spec.name, FaultClass::Verify, what);
        self.parts.sink.write(&Record::Fault(fault))
    }

    /// Tells of something that this device doesn't give to the probe, which goes on without it.
    ///
    /// # Errors
    /// The record's.
    pub fn tell(&mut self, fault: &Fault) -> Result<(), Fault> {
        self.parts.sink.write(&Record::Fault(FaultRecord::of(self.device_index, self.spec.name, fault)))
    }

    /// The series measured so far.
    #[must_use]
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    pub(crate) fn into_series(mut self) -> Vec<Series> {
        self.close();
        self.series
    }

    /// Joins the points of the sweep at work.
    fn close(&mut self) {
        self.series.extend(self.open.take().map(|(spec, points)| Series::new(spec, points)));
    }

    /// Measures every point in every round, interleaved, and returns the series with all that was derived.
    ///
    /// `at` gives a point's coordinates, `setup` its workload; `setup` is called once per point and round. A point that
    /// needs more memory than there is leaves a fault record and the others go on.
    ///
    /// # Errors
    /// What ended the sweep early; its points so far are written and kept in [`Session::series`]. [`Fault::Panicked`] before
    /// anything is measured where a point of a positional series has more or fewer coordinates than there are axes.
    pub fn sweep<P, S: SweptSeries, W: Workload>(
        &mut self,
        sweep: Sweep<'_, P, S>,
        at: impl Fn(&P) -> S::At,
        setup: impl FnMut(&mut B::Device, &P) -> Result<W, Fault>,
    ) -> Result<&Series, Fault> {
        let Sweep { series, points, share, flags } = sweep;
        let sweep = Sweep { series: series.into(), points, share, flags };
        self.sweep_values(sweep, |point| S::to_values(at(point)), setup)
    }

    fn sweep_values<P, W: Workload>(
        &mut self,
        mut sweep: Sweep<'_, P>,
        at: impl Fn(&P) -> Vec<Value>,
        mut setup: impl FnMut(&mut B::Device, &P) -> Result<W, Fault>,
    ) -> Result<&Series, Fault> {
        if let Some(wrong) = sweep.points.iter().find_map(|point| sweep.series.count_error(&at(point))) {
            return Err(Fault::Panicked(format!("{wrong} (series '{}')", sweep.series.case)));
        }
        sweep.series.id = *self.parts.next_series;
        *self.parts.next_series += 1;
        sweep.series.device = self.device_index;
        sweep.series.probe = self.spec.name.to_owned();
        sweep.series.trace = self.policy().trace;
        if self.counting {
            sweep.series.metrics.extend(counted::metrics());
        }
        self.parts.sink.write(&Record::Series(sweep.series.clone()))?;
        self.promised += sweep.share * self.budget;
        let rounds = self.policy().rounds.max(1);
        let mut left = sweep.points.len() * rounds as usize;
        self.open = Some((sweep.series.clone(), Vec::with_capacity(left)));
        let mut outcome = Ok(());
        let mut too_large = vec![false; sweep.points.len()];
        let policy = self.policy();
        let half_width = policy.half_width.max(sweep.series.precision);
        self.parts.sampler.set_policy(Policy { half_width, ..policy });
        'rounds: for round in 0..rounds {
            for (point, too_large) in sweep.points.iter().zip(&mut too_large) {
                let now = self.parts.sampler.clock().now();
                // Counting moves the start.
                let end = self.started + self.promised;
                let seconds = ((end - now) / left as f64).max(0.0);
                left -= 1;
                if *too_large {
                    continue;
                }
                match self.visit(&sweep, round, at(point), seconds, |device| setup(device, point)) {
                    Ok(()) => {}
                    Err(fault @ Fault::OutOfMemory { .. }) => {
                        *too_large = true;
                        let fault = FaultRecord::of(self.device_index, self.spec.name, &fault);
                        self.parts.sink.write(&Record::Fault(fault.at(sweep.series.id, at(point))))?;
                    }
                    Err(fault) => {
                        outcome = Err(fault);
                        break 'rounds;
                    }
                }
            }
        }
        self.parts.sampler.set_policy(policy);
        self.close();
        outcome.map(|()| &self.series[self.series.len() - 1])
    }

    /// Measures one point in one round and writes it, whatever ended it.
    fn visit<P, W: Workload>(
        &mut self,
        sweep: &Sweep<'_, P>,
        round: u32,
        at: Vec<Value>,
        seconds: f64,
        setup: impl FnOnce(&mut B::Device) -> Result<W, Fault>,
    ) -> Result<(), Fault> {
        if self.stopped() {
            return Err(Fault::Stopped);
        }
        let mut workload = setup(self.device)?;
        let figure = sweep.series.figure;
        let clock = self.parts.sampler.clock();
        let idle = clock.now() - self.idle_since;
        clock.resume(idle, self.parts.stop)?;
        let Policy { trace, half_width: asked, .. } = self.parts.sampler.policy();
        let mut measured = self.parts.sampler.measure(&mut workload, figure, seconds, self.parts.stop)?;
        let work = workload.work();
        let (cache, precision) = (sweep.series.cache, sweep.series.precision);
        let context = Context { device: self.info, cache, resolution: measured.resolution, asked, precision };
        let mut flags = judge(measured.seconds, measured.k, &work, &measured.evidence, &context).union(sweep.flags);
        // What turned counted cycles into time turns them back; whether the clock was low, the telemetry's has told.
        measured.evidence.clock_hz = workload.clock_hz().or(measured.evidence.clock_hz);
        let cut = matches!(measured.ended, Ended::Budget) && !trace;
        flags.insert_if(Flag::Budget, cut && !narrow_enough(measured.seconds, asked));
        let [unjudged, looked_at] = if measured.check.is_some() { workload.unjudged() } else { [0, 0] };
        let wrong = match measured.check {
            Some(Check::Failed(what)) => Some(what),
            _ => None,
        };
        flags.insert_if(Flag::VerifyFail, wrong.is_some());
        let mut point = Point {
            series: sweep.series.id,
            round,
            at,
            k: measured.k,
            tick: measured.tick,
            work,
            samples: measured.ticks.to_vec(),
            evidence: measured.evidence,
            flags,
            extra: Default::default(),
        };
        let mut ended = measured.ended;
        self.idle_since = self.parts.sampler.clock().now();
        // One round is enough: counts hardly differ from round to round.
        if self.counting && round == 0 && matches!(ended, Ended::Converged | Ended::Budget) {
            match self.count(&mut workload, cache, &mut point) {
                Ok(()) => {}
                Err(fault) => ended = Ended::Fault(fault),
            }
        }
        workload.extra(&mut point.extra);
        point.extra.retain(|_, value| value.is_finite());
        if unjudged > 0 {
            point.extra.insert(UNJUDGED.to_owned(), unjudged as f64);
        }
        let record = Record::Point(point);
        let written = self.parts.sink.write(&record);
        let Record::Point(point) = record else { unreachable!("made a few lines above") };
        let at = point.at.clone();
        // Kept before anything is refused, so that the findings miss no point that the record may hold.
        if let Some((_, points)) = &mut self.open {
            points.push(point);
        }
        self.measured += 1;
        self.report_progress();
        written?;
        if let Some(what) = wrong {
            let fault = FaultRecord::new(self.device_index, self.spec.name, FaultClass::Verify, what);
            self.parts.sink.write(&Record::Fault(fault.at(sweep.series.id, at)))?;
        }
        if unjudged > 0 && unjudged == looked_at {
            let why = format!("all {unjudged} elements looked at depend on rounding errors that are allowed");
            let hint = "see whether an expression without its steps passes".to_owned();
            self.tell(&Fault::Unavailable { what: "a check of the results", why, hint })?;
        }
        match ended {
            Ended::Fault(fault) => Err(fault),
            Ended::Stopped => Err(Fault::Stopped),
            Ended::Converged | Ended::Budget => Ok(()),
        }
    }

    /// Counts what a launch of the point does. A failure that leaves the device whole is told once and ends the counting.
    fn count(&mut self, workload: &mut dyn Workload, cache: CachePolicy, point: &mut Point) -> Result<(), Fault> {
        let begin = self.parts.sampler.clock().now();
        match B::count(self.device, workload) {
            Ok(counted) => point.extra.extend(counted),
            Err(fault) if fault.ends_the_device() => return Err(fault),
            Err(fault) => {
                self.counting = false;
                let fault = FaultRecord::of(self.device_index, self.spec.name, &fault);
                self.parts.sink.write(&Record::Fault(fault.at(point.series, point.at.clone())))?;
            }
        }
        let cold = matches!(cache, CachePolicy::ColdRotate | CachePolicy::Stream);
        let cold = cold && point.work.window >= self.info.cold_window();
        point.flags.insert_if(Flag::Counted, cold && counted::disagrees(&point.extra, &point.work));
        // What counting takes is no part of the probe's budget.
        self.started += self.parts.sampler.clock().now() - begin;
        Ok(())
    }

    fn report_progress(&mut self) {
        let spent = self.parts.sampler.clock().now() - self.started;
        let progress = Progress {
            probe: self.spec.name,
            points: self.measured,
            spent: (spent / self.budget.max(1e-9)).min(1.0),
            seconds_left: (self.budget - spent).max(0.0),
        };
        self.parts.sink.progress(&progress);
    }
}
