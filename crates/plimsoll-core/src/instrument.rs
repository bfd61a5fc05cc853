//! Instruments: a device with its probes behind an object-safe trait, so that a command can drive any backend.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;

use crate::Fault;
use crate::device::DeviceInfo;
use crate::probe::{Backend, Case, Depth, EXPRESSIONS, Probe, ProbeSpec, Request, Session, SessionParts};
use crate::record::{FaultRecord, Record, Sink};
use crate::sample::{Clock, LONGEST_IDLE, Policy, Sampler};

/// A probe as this device offers it.
#[derive(Debug)]
pub struct Listing {
    /// The probe's specification.
    pub spec: &'static ProbeSpec,
    /// Whether this device can run it.
    pub supported: Result<(), Fault>,
    /// Approximate number of points.
    pub points: usize,
}

/// The state that the probes of one run share.
pub struct RunContext<'r> {
    /// The user's request.
    pub request: &'r Request,
    /// Where records go.
    pub sink: &'r mut dyn Sink,
    /// Set once the user asks to stop.
    pub stop: &'r AtomicBool,
    /// Index of the device in the run's header.
    pub device: u32,
    /// Id of the next series.
    pub next_series: u32,
}

/// How a probe ended.
#[derive(Debug)]
pub enum Outcome {
    /// Everything was measured.
    Complete,
    /// It ended early; the fault is recorded and the points measured before it are kept.
    Faulted(Fault),
}

/// A device that can be measured.
pub trait Instrument: Send {
    /// The device's description.
    fn info(&self) -> &DeviceInfo;

    /// Its probes in display order.
    fn probes(&self, request: &Request) -> Vec<Listing>;

    /// Whether hardware counters can be read.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] with the reason and a hint.
    fn counters(&self) -> Result<(), Fault>;

    /// Runs one probe and writes its series, points, findings and faults.
    ///
    /// # Errors
    /// [`Fault::Sink`] where the record can't be written, [`Fault::Invalid`] where there is no such probe. All other faults
    /// are recorded and returned in [`Outcome`].
    fn measure(&mut self, probe: &str, run: &mut RunContext<'_>) -> Result<Outcome, Fault>;

    /// Checks every kernel of a probe against its oracle. Wrong results are not errors but reported as cases.
    fn verify(&mut self, probe: &str, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault>;
}

/// A device of one backend with its clock and registry.
pub struct Bench<B: Backend> {
    device: B::Device,
    info: DeviceInfo,
    sampler: Sampler<B::Clock>,
    /// When the last probe's last point ended, in the clock's seconds; before the first, long ago.
    busy: f64,
    probes: &'static [&'static dyn Probe<B>],
}

impl<B: Backend> Bench<B> {
    /// Combines an opened device with its clock and the backend's registry.
    #[must_use]
    pub fn new(device: B::Device, info: DeviceInfo, clock: B::Clock, probes: &'static [&'static dyn Probe<B>]) -> Self {
        let policy: Policy = Request::default().effort.policy();
        Self { device, info, sampler: Sampler::new(clock, policy), busy: f64::NEG_INFINITY, probes }
    }

    fn find(&self, probe: &str) -> Result<&'static dyn Probe<B>, Fault> {
        let by_name = self.probes.iter().copied().find(|candidate| candidate.spec().name == probe);
        by_name.ok_or_else(|| Fault::Invalid(format!("{} has no probe '{probe}'", self.info.selector)))
    }

    /// The opened device, for preparations before measuring.
    pub fn device(&mut self) -> &mut B::Device {
        &mut self.device
    }

    /// Restores the device after a probe, however it ended, unless the device is lost.
    fn restore(&mut self, ended: &Result<(), Fault>) -> Result<(), Fault> {
        match ended {
            Err(fault) if fault.ends_the_device() => Ok(()),
            _ => catch_panic(|| B::restore(&mut self.device)),
        }
    }

    /// Runs a probe that is in no registry, such as one made from expressions on the command line. Writes the same records
    /// as [`Instrument::measure`].
    ///
    /// # Errors
    /// [`Fault::Sink`] where the record can't be written. All other faults are recorded and returned in [`Outcome`].
    pub fn measure_with(&mut self, probe: &dyn Probe<B>, run: &mut RunContext<'_>) -> Result<Outcome, Fault> {
        let spec = probe.spec();
        let mut policy = run.request.effort.policy();
        policy.trace = run.request.trace;
        self.sampler.set_policy(policy);
        let mut series = Vec::new();
        let mut ended = catch_panic(|| {
            probe.supports(&self.device)?;
            let clock = self.sampler.clock();
            if clock.now() - self.busy > LONGEST_IDLE { clock.settle(run.stop) } else { Ok(()) }
        });
        if ended.is_ok() {
            let parts = SessionParts {
                sampler: &mut self.sampler,
                sink: &mut *run.sink,
                stop: run.stop,
                next_series: &mut run.next_series,
            };
            let mut session = Session::new(&mut self.device, run.request, &self.info, run.device, spec, parts);
            ended = catch_panic(|| probe.run(&mut session));
            self.busy = session.idle_since;
            series = session.into_series();
        }
        if let Err(changed) = self.restore(&ended) {
            if ended.is_err() {
                run.sink.write(&Record::Fault(FaultRecord::from_fault(run.device, spec.name, &changed)))?;
            } else {
                ended = Err(changed);
            }
        }
        // Findings from the points there are, even where the probe ended early.
        let findings = catch_panic(|| Ok((spec.findings)(&self.info, &series)));
        for mut finding in findings.unwrap_or_default() {
            if !(finding.value.is_finite() && finding.interval.lo.is_finite() && finding.interval.hi.is_finite()) {
                continue;
            }
            finding.device = run.device;
            finding.probe = spec.name.to_owned();
            run.sink.write(&Record::Finding(finding))?;
        }
        match ended {
            Ok(()) => Ok(Outcome::Complete),
            Err(Fault::Sink(error)) => Err(Fault::Sink(error)),
            Err(fault) => {
                run.sink.write(&Record::Fault(FaultRecord::from_fault(run.device, spec.name, &fault)))?;
                Ok(Outcome::Faulted(fault))
            }
        }
    }
}

impl<B: Backend> Instrument for Bench<B> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn probes(&self, request: &Request) -> Vec<Listing> {
        let list = |probe: &&'static dyn Probe<B>| Listing {
            spec: probe.spec(),
            supported: probe.supports(&self.device),
            points: probe.points(&self.device, request),
        };
        self.probes.iter().map(list).collect()
    }

    fn counters(&self) -> Result<(), Fault> {
        B::counters(&self.device)
    }

    fn measure(&mut self, probe: &str, run: &mut RunContext<'_>) -> Result<Outcome, Fault> {
        let probe = self.find(probe)?;
        self.measure_with(probe, run)
    }

    fn verify(&mut self, probe: &str, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        if let Some(functions) = probe.strip_prefix(EXPRESSIONS) {
            let functions = functions.trim_start_matches(':').split(',').filter(|name| !name.is_empty());
            let functions: Vec<&str> = functions.collect();
            return catch_panic(|| B::verify_expressions(&mut self.device, &functions, depth, report));
        }
        let probe = self.find(probe)?;
        let ended = catch_panic(|| {
            probe.supports(&self.device)?;
            probe.verify(&mut self.device, depth, report)
        });
        self.restore(&ended).and(ended)
    }
}

/// Turns a panic into a fault, so that one probe's bug doesn't stop the others.
fn catch_panic<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Fault::Panicked(text.unwrap_or_else(|| "a panic without a message".into())))
    })
}
