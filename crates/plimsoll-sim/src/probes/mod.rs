//! The simulated probes: one file each says which points there are and what each would do; this file runs them.

pub mod bench;
mod copy;
mod dispatch;
mod footprint;
mod incore;
mod latency;
mod launch;
mod loaded_latency;
mod mix;
mod roofline;
mod stream;
mod strides;
mod sync;
mod transfer;
mod verify;

use plimsoll_core::Fault;
use plimsoll_core::flag::Flags;
use plimsoll_core::probe::{Case, Depth, Probe, ProbeSpec, Request, Session, Sweep};
use plimsoll_core::sample::Effort;
use plimsoll_core::series::{Series, SeriesSpec, SweptSeries, Value};

use crate::Sim;
use crate::device::{Job, SimDevice};
use crate::machine::Machine;

/// Every simulated probe, in the order of [`plimsoll_probes::ALL`].
pub static PROBES: &[&dyn Probe<Sim>] = &[
    &stream::PROBE,
    &mix::PROBE,
    &copy::PROBE,
    &launch::PROBE,
    &dispatch::PROBE,
    &footprint::PROBE,
    &latency::PROBE,
    &loaded_latency::PROBE,
    &incore::PROBE,
    &strides::PROBE,
    &sync::PROBE,
    &transfer::PROBE,
    &roofline::PROBE,
];

/// Point at which `panic=PROBE` panics, from 0.
const PANIC_AT: usize = 2;
/// Length of a launch that a probe may choose freely, seconds: long enough that launching is no part of the figure.
const LAUNCH_SECONDS: f64 = 100e-6;

/// A probe that is a list of sweeps.
struct Simulated {
    spec: &'static ProbeSpec,
    /// Whether a size means anything to it.
    sized: bool,
    /// Its kernels, for `verify`.
    kernels: &'static [&'static str],
    /// Its sweeps, in order; a later one may look at the series of those before.
    sweeps: &'static [fn(&Ask<'_>) -> Planned],
}

/// What a sweep is planned from.
struct Ask<'a> {
    machine: &'a Machine,
    request: &'a Request,
    /// Memory that seems free, bytes.
    free: u64,
    /// What was measured before.
    series: &'a [Series],
}

impl Ask<'_> {
    /// One of three choices by effort.
    fn by_effort<T: Copy>(&self, choices: [T; 3]) -> T {
        choices[match self.request.effort {
            Effort::Quick | Effort::Unknown => 0,
            Effort::Standard => 1,
            Effort::Thorough => 2,
        }]
    }

    /// Footprints from `least` to what was asked, else to `most`, `per_octave` to an octave, whole lines.
    fn footprints(&self, least: u64, most: u64, per_octave: u32) -> Vec<u64> {
        let most = self.request.bytes.unwrap_or(most).max(least);
        let step = |i: u32| least as f64 * (f64::from(i) / f64::from(per_octave)).exp2();
        let sizes = (0..).map(|i| step(i).min(u64::MAX as f64) as u64 / 64 * 64);
        sizes.take_while(|&bytes| bytes <= most && bytes < u64::MAX / 64 * 64).collect()
    }
}

/// A sweep with the model's answer for every point.
struct Planned {
    series: SeriesSpec,
    share: f64,
    flags: Flags,
    points: Vec<(Vec<Value>, Job)>,
}

impl Planned {
    fn new<S: SweptSeries>(series: S, share: f64, flags: Flags, points: Vec<(S::At, Job)>) -> Self {
        let points = points.into_iter().map(|(at, job)| (S::to_values(at), job)).collect();
        Self { series: series.into(), share, flags, points }
    }
}

impl Probe<Sim> for Simulated {
    fn spec(&self) -> &'static ProbeSpec {
        self.spec
    }

    fn supports(&self, device: &SimDevice) -> Result<(), Fault> {
        if device.scenario().without == Some(self.spec.name) {
            return Err(Fault::Unavailable {
                what: self.spec.name,
                why: "the scenario leaves it out (without)".into(),
                hint: "Leave that out of the scenario".into(),
            });
        }
        Ok(())
    }

    fn sized(&self) -> bool {
        self.sized
    }

    fn points(&self, device: &SimDevice, request: &Request) -> usize {
        let ask = Ask { machine: &device.machine, request, free: device.free(), series: &[] };
        self.sweeps.iter().map(|plan| plan(&ask).points.len()).sum()
    }

    fn run(&self, session: &mut Session<'_, Sim>) -> Result<(), Fault> {
        if session.request.bytes == Some(0) {
            return Err(Fault::Invalid("nothing can be measured on 0 bytes; ask for more".into()));
        }
        let mut visits = 0;
        for plan in self.sweeps {
            let (machine, free) = (session.device.machine, session.device.free());
            let ask = Ask { machine: &machine, request: session.request, free, series: session.series() };
            let Planned { series, share, flags, points } = plan(&ask);
            let sweep = Sweep { series, points: &points, share, flags };
            session.sweep(
                sweep,
                |(at, _)| at.clone(),
                |device, (_, job)| {
                    let scenario = device.scenario();
                    visits += 1;
                    assert!(
                        scenario.panic != Some(self.spec.name) || visits <= PANIC_AT,
                        "the scenario says so (panic)"
                    );
                    device.load(job, scenario.wrong == Some(self.spec.name))
                },
            )?;
        }
        Ok(())
    }

    fn verify(&self, device: &mut SimDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let wrong = device.scenario().wrong == Some(self.spec.name);
        verify::kernels(self.kernels, depth, device.scenario().seed, wrong, report);
        Ok(())
    }
}
