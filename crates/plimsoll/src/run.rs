//! Performs a run: writes the header, runs every probe on every device, and writes the end. Each device runs its probes in order;
//! devices run one after the other, or each on a separate thread.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::{Instrument, Listing, Outcome, Request, RunContext};
use plimsoll_core::record::{Conditions, FaultRecord, Progress, Record, RunHeader, SCHEMA, Sink};
use plimsoll_core::{Fault, FaultClass};

use crate::host;

/// The settings of a run.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Names of the probes to run, in this order; empty for all, in the order of each device's list.
    pub probes: Vec<String>,
    /// The request for every probe.
    pub request: Request,
    /// Time for all probes of one device. Each probe gets its share of what is left; a probe that finds less than a tenth of its own
    /// budget isn't tried and leaves a fault record.
    pub limit: Option<Duration>,
    /// Runs all devices at once instead of one after the other.
    pub concurrent: bool,
    /// Requested devices that can't be opened, by name with the reason, for the record.
    pub missing: Vec<(String, String)>,
    /// The command line, for the record.
    pub argv: Vec<String>,
}

/// How a probe ended on a device.
#[derive(Debug)]
pub struct ProbeEnd {
    /// The index of the device in the run's header.
    pub device: u32,
    /// The probe.
    pub probe: String,
    /// How it ended.
    pub outcome: Outcome,
}

/// A probe that has just ended on a device, for [`measure_observed`].
#[derive(Clone, Copy, Debug)]
pub struct EndedProbe<'a> {
    /// The device's selector.
    pub device: &'a str,
    /// The probe.
    pub probe: &'a str,
    /// How it ended.
    pub outcome: &'a Outcome,
    /// The points it measured, over all rounds.
    pub points: usize,
    /// How long it took, seconds.
    pub seconds: f64,
}

/// How a run ended.
#[derive(Debug)]
pub struct Summary {
    /// Every probe that was started, device by device.
    pub ends: Vec<ProbeEnd>,
    /// Whether everything requested was tried.
    pub complete: bool,
}

/// The number of series ids reserved for each device, so that ids are unique within a run even if devices run at once.
const SERIES_PER_DEVICE: u32 = 1 << 16;

/// Runs the probes of `plan`: writes the header, then series, points, findings and faults as soon as they are known, and the end.
///
/// `stop` ends the run at the next time slice. The measurements so far are kept, and findings are derived from them.
///
/// # Errors
/// [`Fault::Invalid`] before anything is measured, if no device has a requested probe. [`Fault::Sink`] if `sink` refuses a record;
/// it still receives the end of the run, and nothing after that.
pub fn measure(
    instruments: &mut [Box<dyn Instrument>],
    plan: &Plan,
    sink: &mut (dyn Sink + Send),
    stop: &AtomicBool,
) -> Result<Summary, Fault> {
    measure_observed(instruments, plan, sink, stop, &|_| {})
}

/// Like [`measure`], and calls `observe` after each probe, between measurements: on the thread of the probe's device, so with
/// [`Plan::concurrent`] on several threads.
///
/// # Errors
/// As for [`measure`].
pub fn measure_observed(
    instruments: &mut [Box<dyn Instrument>],
    plan: &Plan,
    sink: &mut (dyn Sink + Send),
    stop: &AtomicBool,
    observe: &(dyn Fn(&EndedProbe<'_>) + Sync),
) -> Result<Summary, Fault> {
    let chosen = choose(instruments, plan)?;
    sink.write(&Record::Run(build_header(instruments, plan)))?;
    for (place, (name, why)) in (instruments.len() as u32..).zip(&plan.missing) {
        sink.write(&Record::Fault(FaultRecord::unopened(place, name, why)))?;
    }
    if plan.request.counters {
        record_missing_counters(instruments, sink)?;
    }
    let mut jobs = Vec::with_capacity(instruments.len());
    for (device, (instrument, probes)) in (0..).zip(instruments.iter_mut().zip(&chosen)) {
        let limit = plan.limit;
        jobs.push(Job { device, instrument: &mut **instrument, probes, request: &plan.request, limit, stop, observe });
    }
    let ended = if plan.concurrent { run_concurrently(jobs, sink) } else { run_in_sequence(jobs, sink) };
    let end = |sink: &mut (dyn Sink + Send), complete| sink.write(&Record::End { complete });
    match ended {
        Ok(devices) => {
            let complete = devices.iter().all(|device| device.complete);
            end(sink, complete)?;
            Ok(Summary { ends: devices.into_iter().flat_map(|device| device.ends).collect(), complete })
        }
        Err(fault) => {
            // The caller gets the first refusal; a second one adds nothing.
            let _ = end(sink, false);
            Err(fault)
        }
    }
}

/// The probes to run on each device, in the device's order.
fn choose(instruments: &[Box<dyn Instrument>], plan: &Plan) -> Result<Vec<Vec<String>>, Fault> {
    let listed: Vec<Vec<Listing>> = instruments.iter().map(|instrument| instrument.probes(&plan.request)).collect();
    let has = |name: &str| listed.iter().flatten().any(|listing| listing.spec.name == name);
    if let Some(unknown) = plan.probes.iter().find(|name| !has(name)) {
        return Err(Fault::Invalid(format!("no device has a probe '{unknown}'")));
    }
    let place = |name: &str| plan.probes.iter().position(|probe| probe == name);
    let names = |listings: &Vec<Listing>| {
        let all = listings.iter().map(|listing| listing.spec.name);
        let mut names: Vec<&str> = all.filter(|name| plan.probes.is_empty() || place(name).is_some()).collect();
        names.sort_by_key(|name| place(name));
        names.into_iter().map(str::to_owned).collect()
    };
    Ok(listed.iter().map(names).collect())
}

fn build_header(instruments: &[Box<dyn Instrument>], plan: &Plan) -> RunHeader {
    build_device_header(instruments.iter().map(|instrument| instrument.info().clone()).collect(), plan)
}

/// The header of a run of `plan` on these devices.
pub(crate) fn build_device_header(devices: Vec<DeviceInfo>, plan: &Plan) -> RunHeader {
    RunHeader {
        schema: SCHEMA,
        tool: crate::VERSION.to_owned(),
        started: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        argv: plan.argv.clone(),
        conditions: Conditions {
            bytes: plan.request.bytes,
            trace: plan.request.trace,
            concurrent: plan.concurrent && devices.len() > 1,
            counters: plan.request.counters,
        },
        effort: plan.request.effort,
        seed: plan.request.seed,
        host: host::facts(),
        devices,
    }
}

/// Records why a device has no counters; times are still measured.
fn record_missing_counters(instruments: &[Box<dyn Instrument>], sink: &mut (dyn Sink + Send)) -> Result<(), Fault> {
    for (device, instrument) in (0..).zip(instruments) {
        if let Err(fault) = instrument.counters() {
            sink.write(&Record::Fault(FaultRecord::from_fault(device, "counters", &fault)))?;
        }
    }
    Ok(())
}

struct DeviceEnd {
    ends: Vec<ProbeEnd>,
    complete: bool,
}

/// What one device has to do.
struct Job<'a> {
    device: u32,
    instrument: &'a mut dyn Instrument,
    probes: &'a [String],
    request: &'a Request,
    limit: Option<Duration>,
    stop: &'a AtomicBool,
    observe: &'a (dyn Fn(&EndedProbe<'_>) + Sync),
}

impl Job<'_> {
    fn run(self, sink: &mut dyn Sink) -> Result<DeviceEnd, Fault> {
        let Self { device, instrument, probes, request, limit, stop, observe } = self;
        let points = Cell::new(0);
        let mut sink = Counting { sink, points: &points };
        let run = RunContext { request, sink: &mut sink, stop, device, next_series: device * SERIES_PER_DEVICE };
        let selector = instrument.info().selector.clone();
        let mut time = limit.map(|limit| Time::new(limit, instrument, probes, request));
        run_device(instrument, probes, run, time.as_mut(), &|probe, outcome, began| {
            let (points, seconds) = (points.take(), began.elapsed().as_secs_f64());
            observe(&EndedProbe { device: &selector, probe, outcome, points, seconds });
        })
    }
}

/// A sink that counts points.
struct Counting<'s> {
    sink: &'s mut dyn Sink,
    points: &'s Cell<usize>,
}

impl Sink for Counting<'_> {
    fn write(&mut self, record: &Record) -> Result<(), Fault> {
        self.points.set(self.points.get() + usize::from(matches!(record, Record::Point(_))));
        self.sink.write(record)
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        self.sink.progress(progress);
    }
}

fn run_in_sequence(jobs: Vec<Job<'_>>, sink: &mut (dyn Sink + Send)) -> Result<Vec<DeviceEnd>, Fault> {
    jobs.into_iter().map(|job| job.run(sink)).collect()
}

fn run_concurrently<'j>(jobs: Vec<Job<'j>>, sink: &mut (dyn Sink + Send)) -> Result<Vec<DeviceEnd>, Fault> {
    let sink = Mutex::new(sink);
    // A refused record ends the run on every device, not only on the one that wrote it.
    let refused = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let spawn = |job: Job<'j>| {
            let mut shared = Shared { sink: &sink, refused: &refused, informed: false };
            scope.spawn(move || job.run(&mut shared))
        };
        let threads: Vec<_> = jobs.into_iter().map(spawn).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<DeviceEnd, Fault>>| {
            thread.join().unwrap_or_else(|_| Err(Fault::Panicked("a device's thread ended in a panic".into())))
        };
        // Join all before the first error is returned: the scope would wait for them anyway.
        let ended: Vec<_> = threads.into_iter().map(join).collect();
        ended.into_iter().collect()
    })
}

/// A sink shared by several devices.
struct Shared<'s, 'w> {
    sink: &'s Mutex<&'w mut (dyn Sink + Send)>,
    refused: &'s AtomicBool,
    /// Whether this device already got the error. Its later records (findings) are passed on as usual.
    informed: bool,
}

impl Sink for Shared<'_, '_> {
    fn write(&mut self, record: &Record) -> Result<(), Fault> {
        let refused_before = self.refused.load(Ordering::Relaxed);
        let mut written = self.sink.lock().unwrap_or_else(PoisonError::into_inner).write(record);
        if refused_before && !self.informed && written.is_ok() {
            let why = "a record of another device could not be written";
            written = Err(Fault::Sink(std::io::Error::other(why)));
        }
        if written.is_err() {
            self.refused.store(true, Ordering::Relaxed);
            self.informed = true;
        }
        written
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner).progress(progress);
    }
}

/// Shares out a limited time among the probes of a device.
struct Time {
    end: Instant,
    /// The probes that are still to come, with their own budgets in seconds.
    budgets: Vec<(String, f64)>,
}

/// Share of its own budget below which a probe isn't tried.
const LEAST_SHARE: f64 = 0.1;

impl Time {
    fn new(limit: Duration, instrument: &dyn Instrument, probes: &[String], request: &Request) -> Self {
        let budget = |name: &String| {
            let listings = instrument.probes(request);
            let spec = listings.iter().find(|listing| listing.spec.name == name && listing.supported.is_ok())?;
            Some((name.clone(), spec.spec.budget(request.effort)))
        };
        Self { end: Instant::now() + limit, budgets: probes.iter().filter_map(budget).collect() }
    }

    /// The seconds for the next probe: at most its own budget, and its share of the time left. `None` where that is too little.
    fn share(&mut self, probe: &str) -> Option<f64> {
        let left = self.end.saturating_duration_since(Instant::now()).as_secs_f64();
        let sum: f64 = self.budgets.iter().map(|(_, seconds)| seconds).sum();
        let Some(place) = self.budgets.iter().position(|(name, _)| name == probe) else { return Some(left) };
        let (_, own) = self.budgets.remove(place);
        let seconds = own.min(left * own / sum);
        (seconds >= LEAST_SHARE * own).then_some(seconds)
    }
}

/// Runs the probes of one device until all are done, the user stops the run, or the device is lost.
fn run_device(
    instrument: &mut dyn Instrument,
    probes: &[String],
    run: RunContext<'_>,
    mut time: Option<&mut Time>,
    observe: &dyn Fn(&str, &Outcome, Instant),
) -> Result<DeviceEnd, Fault> {
    let mut ends: Vec<ProbeEnd> = Vec::with_capacity(probes.len());
    let mut lost_to: Option<(String, FaultClass)> = None;
    let mut next_series = run.next_series;
    for probe in probes {
        if run.stop.load(Ordering::Relaxed) {
            return Ok(DeviceEnd { ends, complete: false });
        }
        if let Some((culprit, class)) = &lost_to {
            let what = format!("not tried: the device was lost in {culprit}");
            run.sink.write(&Record::Fault(FaultRecord::new(run.device, probe, *class, what)))?;
            continue;
        }
        let began = Instant::now();
        let request = match time.as_mut().map(|time| time.share(probe)) {
            Some(None) => {
                let what = "not tried: the time was up".to_owned();
                run.sink.write(&Record::Fault(FaultRecord::new(run.device, probe, FaultClass::Unavailable, what)))?;
                continue;
            }
            Some(Some(seconds)) => Request { seconds: Some(seconds), ..run.request.clone() },
            None => run.request.clone(),
        };
        let mut context = RunContext { request: &request, sink: &mut *run.sink, next_series, ..run };
        let outcome = instrument.measure(probe, &mut context)?;
        next_series = context.next_series;
        observe(probe, &outcome, began);
        if let Outcome::Faulted(fault) = &outcome
            && fault.ends_the_device()
        {
            lost_to = Some((probe.clone(), fault.class()));
        }
        ends.push(ProbeEnd { device: run.device, probe: probe.clone(), outcome });
    }
    let stopped = |end: &ProbeEnd| matches!(end.outcome, Outcome::Faulted(Fault::Stopped));
    let complete = lost_to.is_none() && !ends.iter().any(stopped);
    Ok(DeviceEnd { ends, complete })
}
