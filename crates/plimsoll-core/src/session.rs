//! The session: measures the points of one probe on one device and writes each immediately.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::counted;
use crate::device::DeviceInfo;
use crate::flag::{Flag, Flags};
use crate::probe::{Backend, ProbeSpec, Request, SessionParts};
use crate::record::{FaultRecord, Progress, Record};
use crate::sample::{CachePolicy, Check, Clock, Context, Ended, Measured, Policy, Workload, is_narrow_enough, judge};
use crate::series::{Point, Series, SeriesSpec, SweptSeries, Value};
use crate::{Fault, FaultClass};

/// The metric name for the number of elements that a point's check couldn't judge.
const UNJUDGED: &str = "unjudged";

/// A sweep to measure: a series, its points, and its share of the probe's time.
#[derive(Clone, Debug)]
pub struct Sweep<'p, P, S = SeriesSpec> {
    /// The series, with typed or positional coordinates; the session fills in `id`, `device`, `probe` and `trace`.
    pub series: S,
    /// The points, in order.
    pub points: &'p [P],
    /// Share of the probe's whole budget, 0…1; time that earlier sweeps left over is added. Set-up before and between sweeps, such
    /// as compiling and filling, doesn't use up the budget.
    pub share: f64,
    /// Flags of all points in addition to the judged ones (`SHRUNK`).
    pub flags: Flags,
}

/// Makes the workload of the point at a place.
type Setup<'s, 'w, D> = dyn FnMut(&mut D, usize) -> Result<Box<dyn Workload + 'w>, Fault> + 's;

/// Measures one probe on one device.
pub struct Session<'s, B: Backend> {
    /// The device.
    pub device: &'s mut B::Device,
    /// The user's request.
    pub request: &'s Request,
    info: &'s DeviceInfo,
    device_index: u32,
    spec: &'static ProbeSpec,
    parts: SessionParts<'s, B::Clock>,
    /// When measuring began, in the clock's seconds; moved on by everything that doesn't use up the budget.
    started: f64,
    /// When the last sweep ended: the time since then was set-up.
    swept: f64,
    budget: f64,
    promised: f64,
    measured: usize,
    /// When the last point ended, or the session began: a device that was idle since then may have to settle.
    pub(crate) idle_since: f64,
    /// Whether hardware counters are read for every point.
    counting: bool,
    series: Vec<Series>,
    /// The current sweep, kept here so that even a panic in it loses no point.
    open: Option<(SeriesSpec, Vec<Point>)>,
}

impl<'s, B: Backend> Session<'s, B> {
    pub(crate) fn new(
        device: &'s mut B::Device,
        request: &'s Request,
        info: &'s DeviceInfo,
        device_index: u32,
        spec: &'static ProbeSpec,
        parts: SessionParts<'s, B::Clock>,
    ) -> Self {
        let started = parts.sampler.clock().now();
        let budget = request.seconds.unwrap_or_else(|| spec.budget(request.effort));
        let counting = request.counters && !request.trace && B::counters(device).is_ok();
        Self {
            device,
            request,
            info,
            device_index,
            spec,
            parts,
            started,
            swept: started,
            budget,
            promised: 0.0,
            measured: 0,
            idle_since: started,
            counting,
            series: Vec::new(),
            open: None,
        }
    }

    /// The device's description.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        self.info
    }

    /// The time for all sweeps together, seconds.
    #[must_use]
    pub fn budget(&self) -> f64 {
        self.budget
    }

    /// The current policy.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.parts.sampler.policy()
    }

    /// The device's clock.
    pub fn clock(&mut self) -> &mut B::Clock {
        self.parts.sampler.clock()
    }

    /// True once the user asked to stop. Long set-up work should poll it.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.parts.stop.load(Ordering::Relaxed)
    }

    /// The signal that [`Session::is_stopped`] reads, for set-up work within a sweep.
    #[must_use]
    pub fn stop_signal(&self) -> &'s AtomicBool {
        self.parts.stop
    }

    /// Records a contradiction that the probe found between its points, and continues.
    pub fn report_mismatch(&mut self, what: String) -> Result<(), Fault> {
        let fault = FaultRecord::new(self.device_index, self.spec.name, FaultClass::Verify, what);
        self.parts.sink.write(&Record::Fault(fault))
    }

    /// Records a fault that the probe continues without, such as a capability that the device lacks.
    pub fn report_fault(&mut self, fault: &Fault) -> Result<(), Fault> {
        self.parts.sink.write(&Record::Fault(FaultRecord::from_fault(self.device_index, self.spec.name, fault)))
    }

    /// The series measured so far.
    #[must_use]
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    pub(crate) fn into_series(mut self) -> Vec<Series> {
        self.close_sweep();
        self.series
    }

    /// Turns the points of the current sweep into a series.
    fn close_sweep(&mut self) {
        self.series.extend(self.open.take().map(|(spec, points)| Series::new(spec, points)));
    }

    /// Measures every point in every round, interleaved, and returns the series with all derived figures.
    ///
    /// `at` returns a point's coordinates, `setup` its workload; `setup` is called once per point and round. A point that
    /// needs more memory than is free leaves a fault record, and the others are measured.
    ///
    /// # Errors
    /// Whatever ended the sweep early; its points so far are written and kept in [`Session::series`]. [`Fault::Panicked`]
    /// before anything is measured where a point of a positional series has more or fewer coordinates than axes.
    pub fn sweep<'w, P, S: SweptSeries, W: Workload + 'w>(
        &mut self,
        sweep: Sweep<'_, P, S>,
        at: impl Fn(&P) -> S::Coordinates,
        mut setup: impl FnMut(&mut B::Device, &P) -> Result<W, Fault>,
    ) -> Result<&Series, Fault> {
        let Sweep { series, points, share, flags } = sweep;
        let coordinates: Vec<Vec<Value>> = points.iter().map(|point| S::to_values(at(point))).collect();
        let sweep = Sweep { series: series.into(), points: &coordinates, share, flags };
        // The rest is the same for all types of points and workloads, so that a program has it once.
        self.sweep_values(sweep, &mut |device, place| {
            Ok(Box::new(setup(device, &points[place])?) as Box<dyn Workload + 'w>)
        })
    }

    /// Measures points of these coordinates.
    fn sweep_values<'w>(
        &mut self,
        mut sweep: Sweep<'_, Vec<Value>>,
        setup: &mut Setup<'_, 'w, B::Device>,
    ) -> Result<&Series, Fault> {
        if let Some(wrong) = sweep.points.iter().find_map(|at| sweep.series.count_error(at)) {
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
        self.started += self.parts.sampler.clock().now() - self.swept;
        self.promised += sweep.share * self.budget;
        let rounds = if sweep.series.is_over_time() { 1 } else { self.policy().rounds.max(1) };
        let mut left = sweep.points.len() * rounds as usize;
        self.open = Some((sweep.series.clone(), Vec::with_capacity(left)));
        let mut outcome = Ok(());
        let mut too_large = vec![false; sweep.points.len()];
        let policy = self.policy();
        let half_width = policy.half_width.max(sweep.series.precision);
        self.parts.sampler.set_policy(Policy { half_width, ..policy });
        'rounds: for round in 0..rounds {
            for (place, (at, too_large)) in sweep.points.iter().zip(&mut too_large).enumerate() {
                let now = self.parts.sampler.clock().now();
                // Recomputed for each point, because counting moves the start.
                let end = self.started + self.promised;
                let seconds = ((end - now) / left as f64).max(0.0);
                left -= 1;
                if *too_large {
                    continue;
                }
                match self.measure_point(&sweep, (round, place), seconds, setup) {
                    Ok(()) => {}
                    Err(fault @ Fault::OutOfMemory { .. }) => {
                        *too_large = true;
                        let fault = FaultRecord::from_fault(self.device_index, self.spec.name, &fault);
                        self.parts.sink.write(&Record::Fault(fault.at_point(sweep.series.id, at.clone())))?;
                    }
                    Err(fault) => {
                        outcome = Err(fault);
                        break 'rounds;
                    }
                }
            }
        }
        self.parts.sampler.set_policy(policy);
        self.swept = self.parts.sampler.clock().now();
        self.close_sweep();
        outcome.map(|()| &self.series[self.series.len() - 1])
    }

    /// Measures one point in one round and writes it, however it ended.
    fn measure_point<'w>(
        &mut self,
        sweep: &Sweep<'_, Vec<Value>>,
        (round, place): (u32, usize),
        seconds: f64,
        setup: &mut Setup<'_, 'w, B::Device>,
    ) -> Result<(), Fault> {
        if self.is_stopped() {
            return Err(Fault::Stopped);
        }
        let mut workload = setup(self.device, place)?;
        let figure = sweep.series.figure;
        let clock = self.parts.sampler.clock();
        let idle = clock.now() - self.idle_since;
        clock.resume(idle, self.parts.stop)?;
        let policy = self.parts.sampler.policy();
        let measured = self.parts.sampler.measure(&mut *workload, figure, seconds, self.parts.stop)?;
        let [unjudged, checked] = if measured.check.is_some() { workload.unjudged() } else { [0, 0] };
        let (mut point, mut ended, wrong) =
            Self::judge_point((self.info, policy), sweep, (round, place), measured, &*workload);
        self.idle_since = self.parts.sampler.clock().now();
        // One round is enough: counts hardly differ between rounds.
        if self.counting && round == 0 && matches!(ended, Ended::Converged | Ended::Budget) {
            match self.read_counters(&mut *workload, sweep.series.cache, &mut point) {
                Ok(()) => {}
                Err(fault) => ended = Ended::Fault(fault),
            }
        }
        workload.extra(&mut point.extra);
        point.extra.retain(|_, value| value.is_finite());
        if unjudged > 0 {
            point.extra.insert(UNJUDGED.to_owned(), unjudged as f64);
        }
        self.keep_point(point, wrong)?;
        if unjudged > 0 && unjudged == checked {
            let why = format!("all {unjudged} checked elements depend on permitted rounding errors");
            let hint = "check whether the expression passes without its discontinuous functions".to_owned();
            self.report_fault(&Fault::Unavailable { what: "a check of the results", why, hint })?;
        }
        match ended {
            Ended::Fault(fault) => Err(fault),
            Ended::Stopped => Err(Fault::Stopped),
            Ended::Converged | Ended::Budget => Ok(()),
        }
    }

    /// Judges a measurement: its point with flags, how it ended, and what is wrong with its results.
    fn judge_point(
        (info, policy): (&DeviceInfo, Policy),
        sweep: &Sweep<'_, Vec<Value>>,
        (round, place): (u32, usize),
        mut measured: Measured<'_>,
        workload: &dyn Workload,
    ) -> (Point, Ended, Option<String>) {
        let Policy { trace, half_width, .. } = policy;
        let work = workload.work();
        let (cache, precision) = (sweep.series.cache, sweep.series.precision);
        let context = Context { device: info, cache, resolution: measured.resolution, half_width, precision };
        let mut flags = judge(measured.seconds, measured.k, &work, &measured.evidence, &context).union(sweep.flags);
        // Figures in cycles must use the clock that turned counted cycles into time. The telemetry's clock was needed only
        // by `judge` above, for CLOCK_LOW.
        measured.evidence.clock_hz = workload.clock_hz().or(measured.evidence.clock_hz);
        let cut = matches!(measured.ended, Ended::Budget) && !trace;
        flags.insert_if(Flag::Budget, cut && !is_narrow_enough(measured.seconds, half_width));
        flags.insert_if(Flag::Unchecked, measured.check.is_none());
        let wrong = match measured.check {
            Some(Check::Failed(what)) => Some(what),
            _ => None,
        };
        flags.insert_if(Flag::VerifyFail, wrong.is_some());
        let point = Point {
            series: sweep.series.id,
            round,
            k: measured.k,
            tick: measured.tick,
            evidence: measured.evidence,
            flags,
            ..Point::new(sweep.points[place].clone(), work, measured.ticks.to_vec())
        };
        (point, measured.ended, wrong)
    }

    /// Writes a point, and a fault if its results are wrong.
    fn keep_point(&mut self, point: Point, wrong: Option<String>) -> Result<(), Fault> {
        let series = point.series;
        let record = Record::Point(point);
        let written = self.parts.sink.write(&record);
        let Record::Point(point) = record else { unreachable!("constructed a few lines above") };
        let at = point.at.clone();
        // Kept before any write error is returned, so that the findings miss no point that the record may hold.
        if let Some((_, points)) = &mut self.open {
            points.push(point);
        }
        self.measured += 1;
        self.report_progress();
        written?;
        if let Some(what) = wrong {
            let fault = FaultRecord::new(self.device_index, self.spec.name, FaultClass::Verify, what);
            self.parts.sink.write(&Record::Fault(fault.at_point(series, at)))?;
        }
        Ok(())
    }

    /// Counts one launch of the point. A failure after which the device still works is recorded once and ends the counting.
    fn read_counters(
        &mut self,
        workload: &mut dyn Workload,
        cache: CachePolicy,
        point: &mut Point,
    ) -> Result<(), Fault> {
        let begin = self.parts.sampler.clock().now();
        match B::count(self.device, workload) {
            Ok(counted) => point.extra.extend(counted),
            Err(fault) if fault.ends_the_device() => return Err(fault),
            Err(fault) => {
                self.counting = false;
                let fault = FaultRecord::from_fault(self.device_index, self.spec.name, &fault);
                self.parts.sink.write(&Record::Fault(fault.at_point(point.series, point.at.clone())))?;
            }
        }
        let cold = matches!(cache, CachePolicy::ColdRotate | CachePolicy::Stream);
        let cold = cold && point.work.window >= self.info.cold_window();
        point.flags.insert_if(Flag::Counted, cold && counted::disagrees(&point.extra, &point.work));
        // Counting does not use up the probe's budget.
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
