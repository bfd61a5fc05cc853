//! The simulated probes. One file per probe defines its points and their jobs; this file runs them.

pub mod bench;
mod copy;
mod digest;
mod dispatch;
mod footprint;
mod incore;
mod latency;
mod launch;
mod loaded_latency;
mod mix;
mod nccl;
mod neighbours;
mod numa;
mod pattern;
mod roofline;
mod soak;
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
use plimsoll_core::stats::Rng;

use crate::Sim;
use crate::device::{Job, SimDevice};
use crate::machine::Machine;
use crate::scenario::Scenario;

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
    &numa::PROBE,
    &neighbours::PROBE,
    &nccl::PROBE,
    &pattern::PROBE,
    &digest::PROBE,
    &roofline::PROBE,
    &soak::PROBE,
];

/// Index of the point at which `panic=PROBE` panics.
const PANIC_AT: usize = 2;
/// Probes of arithmetic, which a power limit slows down.
const ARITHMETIC: [&str; 3] = ["incore", "roofline", "soak"];
/// Duration of a launch where the probe can choose it, seconds: long enough that launch overhead doesn't matter.
const LAUNCH_SECONDS: f64 = 100e-6;
/// What the checks of a probe's results find with `wrong=PROBE`.
const WRONG: &str = "simulated by the scenario (wrong)";

/// A probe that is a list of sweeps.
struct Simulated {
    spec: &'static ProbeSpec,
    /// Its kernels, for `verify`.
    kernels: &'static [&'static str],
    /// Its sweeps, in order; a later one may use the series of earlier ones.
    sweeps: &'static [fn(&PlanInput<'_>) -> Planned],
}

/// The input for planning a sweep.
struct PlanInput<'a> {
    machine: &'a Machine,
    scenario: &'a Scenario,
    request: &'a Request,
    /// Reported free memory, bytes.
    free: u64,
    /// The series measured so far.
    series: &'a [Series],
}

impl PlanInput<'_> {
    /// Picks one of three choices by effort.
    fn by_effort<T: Copy>(&self, choices: [T; 3]) -> T {
        choices[match self.request.effort {
            Effort::Quick | Effort::Unknown => 0,
            Effort::Standard => 1,
            Effort::Thorough => 2,
        }]
    }

    /// Footprints from `least` to the requested size (default `most`), `per_octave` per octave, in whole cache lines.
    fn footprints(&self, least: u64, most: u64, per_octave: u32) -> Vec<u64> {
        let most = self.request.bytes.unwrap_or(most).max(least);
        let step = |i: u32| least as f64 * (f64::from(i) / f64::from(per_octave)).exp2();
        let sizes = (0..).map(|i| step(i).min(u64::MAX as f64) as u64 / 64 * 64);
        sizes.take_while(|&bytes| bytes <= most && bytes < u64::MAX / 64 * 64).collect()
    }
}

/// A sweep with the job of every point.
struct Planned {
    series: SeriesSpec,
    share: f64,
    flags: Flags,
    points: Vec<(Vec<Value>, Job)>,
    /// What a check of the results at a point finds wrong.
    find_wrong: fn(&Scenario, &[Value]) -> Option<String>,
}

impl Planned {
    fn new<S: SweptSeries>(series: S, share: f64, flags: Flags, points: Vec<(S::Coordinates, Job)>) -> Self {
        let points = points.into_iter().map(|(at, job)| (S::to_values(at), job)).collect();
        Self { series: series.into(), share, flags, points, find_wrong: |_, _| None }
    }
}

/// How much longer a probe's launches take than on an undisturbed machine.
fn slowdown(scenario: &Scenario, probe: &str) -> f64 {
    let slow = scenario.slow.iter().find(|(name, _)| *name == probe).map_or(0.0, |(_, share)| *share);
    let link = if probe == transfer::PROBE.spec.name && scenario.link_degraded { 2.0 } else { 1.0 };
    let power = if ARITHMETIC.contains(&probe) { scenario.power_limit } else { 1.0 };
    link / power / (1.0 - slow) * card_factor(scenario, probe)
}

/// How much longer a probe's launches take on this card than on the typical one. The seed is the card; a probe's name makes its own
/// stream of random numbers (FNV-1a, Fowler, Noll and Vo).
fn card_factor(scenario: &Scenario, probe: &str) -> f64 {
    if scenario.spread == 0.0 {
        return 1.0;
    }
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let name = probe.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
    (scenario.spread * Rng::new(name ^ scenario.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).normal()).exp()
}

impl Probe<Sim> for Simulated {
    fn spec(&self) -> &'static ProbeSpec {
        self.spec
    }

    fn supports(&self, device: &SimDevice) -> Result<(), Fault> {
        if device.scenario().without == Some(self.spec.name) {
            return Err(Fault::Unavailable {
                what: self.spec.name,
                why: "the scenario excludes it (without)".into(),
                hint: "Remove it from the scenario".into(),
            });
        }
        Ok(())
    }

    fn points(&self, device: &SimDevice, request: &Request) -> usize {
        let input = PlanInput {
            machine: &device.machine,
            scenario: device.scenario(),
            request,
            free: device.free(),
            series: &[],
        };
        self.sweeps.iter().map(|plan| plan(&input).points.len()).sum()
    }

    fn run(&self, session: &mut Session<'_, Sim>) -> Result<(), Fault> {
        if session.request.bytes == Some(0) {
            return Err(Fault::Invalid("nothing can be measured on 0 bytes; ask for a larger size".into()));
        }
        let mut points_started = 0;
        for plan in self.sweeps {
            let device = &session.device;
            let input = PlanInput {
                machine: &device.machine,
                scenario: device.scenario(),
                request: session.request,
                free: device.free(),
                series: session.series(),
            };
            let Planned { series, share, flags, points, find_wrong } = plan(&input);
            let sweep = Sweep { series, points: &points, share, flags };
            session.sweep(
                sweep,
                |(at, _)| at.clone(),
                |device, (at, job)| {
                    let scenario = device.scenario();
                    let job = &Job { seconds: job.seconds * slowdown(scenario, self.spec.name), ..*job };
                    points_started += 1;
                    assert!(
                        scenario.panic != Some(self.spec.name) || points_started <= PANIC_AT,
                        "simulated by the scenario (panic)"
                    );
                    let is_wrong = scenario.wrong == Some(self.spec.name);
                    let wrong = is_wrong.then(|| WRONG.to_owned()).or_else(|| find_wrong(scenario, at));
                    device.load(job, wrong)
                },
            )?;
        }
        Ok(())
    }

    fn verify(&self, device: &mut SimDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let wrong = device.scenario().wrong == Some(self.spec.name);
        verify::check_kernels(self.kernels, depth, device.scenario().seed, wrong, report);
        Ok(())
    }
}
