//! What the planner and the model know about a device, and their prediction for an expression.

use std::collections::BTreeMap;
use std::fmt;

use plimsoll_core::Fault;
use plimsoll_core::model::{Cache, Description, Key, Kind, LaunchForm, Level, Machine, Prediction, predict};
use plimsoll_cuda::driver::Attribute;
use plimsoll_expr::Problem;
use plimsoll_gen::elementwise::{Choose, Plan, PlanError, Table};
use plimsoll_suite::machines;
use plimsoll_suite::model::{Chip, of_machine, of_profile, probe_of};
use plimsoll_suite::profile::Profile;

use crate::bench::Device;
use crate::predict::{KnownMachine, Predictor, Tools};

/// The origin of a machine's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The device's own profile.
    Profile,
    /// The device's own profile, completed with shipped or published figures for its model.
    Completed,
    /// Shipped or published figures for its model: the device has no profile.
    Model,
    /// Only the device's description of itself.
    Nothing,
}

impl Origin {
    /// The name for machine-readable output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Profile => "profile",
            Self::Completed => "profile, completed",
            Self::Model => "model",
            Self::Nothing => "nothing",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Profile => "the device's own profile",
            Self::Completed => "the device's own profile, completed with figures for its model",
            Self::Model => "figures for this model, as this device was not measured",
            Self::Nothing => "the device's own description only, as it was not measured",
        })
    }
}

/// A device as the planner and the model know it.
#[derive(Clone, Debug)]
pub struct Subject {
    kind: SubjectKind,
    origin: Origin,
    /// Figures that the profile lacks, taken from devices of the same model.
    borrowed: Vec<Key>,
}

#[derive(Clone, Debug)]
enum SubjectKind {
    /// A device that runs planned kernels.
    Planned(Box<KnownMachine>),
    /// A device that runs expressions without plans: the model only knows their bytes.
    Plain(Machine),
}

impl Subject {
    /// Collects what is known about an open device: from its profile, and for missing figures, or without a profile, from shipped
    /// or published figures for its model.
    ///
    /// # Errors
    /// Whatever the driver reports.
    pub fn from_device(device: &mut Device, profile: Option<&Profile>, table: Option<&Table>) -> Result<Self, Fault> {
        let info = device.info().clone();
        let Device::Cuda(bench) = device else {
            let chip = Chip { multiprocessors: 0, clock_hz: 0.0, capability: 0 };
            let empty = Profile::new(&info.id, &info.name, "", "");
            let machine = of_profile(&info.name, chip, profile.unwrap_or(&empty));
            let origin = if profile.is_some() { Origin::Profile } else { Origin::Nothing };
            return Ok(Self { kind: SubjectKind::Plain(without_gpu_terms(machine)), origin, borrowed: Vec::new() });
        };
        let khz = bench.device().context.device().attribute(Attribute::ClockRate).unwrap_or(0);
        let planned = device.planning_device()?;
        let sheet = machines::machine(&info.name).ok();
        let clock_hz = sheet.and_then(|sheet| sheet.boost_clock_hz).unwrap_or(1e3 * f64::from(khz));
        let (multiprocessors, capability) = (planned.multiprocessors, planned.target.capability);
        let chip = Chip { multiprocessors, clock_hz, capability };
        // A partition of a board isn't the same machine as the whole board.
        let whole = sheet.filter(|sheet| sheet.multiprocessors == Some(multiprocessors));
        let mut borrowed = Vec::new();
        let (machine, origin) = match (profile, whole.and_then(|sheet| of_machine(sheet.name).ok())) {
            (Some(profile), model) => {
                let mut own = of_profile(&info.name, chip, profile);
                borrowed = model.map(|model| own.fill_gaps_from(&model)).unwrap_or_default();
                (own, if borrowed.is_empty() { Origin::Profile } else { Origin::Completed })
            }
            (None, Some(machine)) => (machine, Origin::Model),
            (None, None) => {
                let empty = Profile::new(&info.id, &info.name, "", "");
                (of_profile(&info.name, chip, &empty), Origin::Nothing)
            }
        };
        let table = table.cloned().unwrap_or_else(|| Table::for_device(&info.name, capability));
        let known = KnownMachine { device: planned, machine, table };
        Ok(Self { kind: SubjectKind::Planned(Box::new(known)), origin, borrowed })
    }

    /// A machine that need not be present.
    #[must_use]
    pub fn from_machine(known: KnownMachine, origin: Origin) -> Self {
        Self { kind: SubjectKind::Planned(Box::new(known)), origin, borrowed: Vec::new() }
    }

    /// The machine's figures.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        match &self.kind {
            SubjectKind::Planned(known) => &known.machine,
            SubjectKind::Plain(machine) => machine,
        }
    }

    /// The origin of the figures.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The probes that would measure the figures missing from the profile; empty if none is missing.
    #[must_use]
    pub fn lacking(&self) -> Vec<&'static str> {
        let mut probes: Vec<&str> = self.borrowed.iter().filter_map(|key| probe_of(*key)).collect();
        probes.sort_unstable();
        probes.dedup();
        probes
    }

    /// Whether a kernel may begin before the previous one has ended.
    pub(super) fn supports_dependent_launch(&self) -> bool {
        matches!(&self.kind, SubjectKind::Planned(known) if known.device.target.capability >= 90)
    }

    pub(super) fn forecaster<'a>(&'a self, tools: Option<Tools<'a>>) -> Forecaster<'a> {
        match &self.kind {
            SubjectKind::Planned(known) => Forecaster::Planned(Predictor::new(known, tools)),
            SubjectKind::Plain(machine) => Forecaster::Plain(machine),
        }
    }
}

/// A user's kernel and its launch, and what the prediction assumes about them.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomKernel {
    /// What is known, in the order of display.
    pub facts: Vec<Fact>,
    /// What was assumed, one sentence each without the full stop.
    pub assumptions: Vec<String>,
    /// Why the prediction has no terms for instructions; empty if it has them.
    pub uncounted: String,
}

/// Something known about a user's kernel or its launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Its name.
    pub what: &'static str,
    /// Its value.
    pub value: String,
    /// Where it comes from, or what it means.
    pub note: String,
}

/// The model's prediction for a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// The plan with its reasons; `None` on a device that runs expressions without plans, and for a user's kernel.
    pub plan: Option<Plan>,
    /// The user's kernel; `None` for an expression.
    pub custom: Option<CustomKernel>,
    /// The work of the launch.
    pub description: Description,
    /// Whether instruction counts are rough estimates.
    pub estimated: bool,
    /// The predicted cost. On a device without plans it only has the terms for launch and bytes.
    pub prediction: Prediction,
}

pub(super) enum Forecaster<'a> {
    Planned(Predictor<'a>),
    Plain(&'a Machine),
}

impl Forecaster<'_> {
    pub(super) fn predict(
        &mut self,
        problem: &Problem,
        choose: &Choose,
        (cache, launch): (Cache, LaunchForm),
    ) -> Result<Forecast, PlanError> {
        match self {
            Self::Planned(predictor) => {
                let found = predictor.predict(problem, choose, (cache, launch))?;
                let (description, prediction) = (found.description, found.prediction);
                Ok(Forecast {
                    plan: Some(found.plan),
                    custom: None,
                    description,
                    estimated: found.estimated,
                    prediction,
                })
            }
            Self::Plain(machine) => {
                let description = describe_bytes(problem, cache, launch);
                let mut prediction = predict(&description, machine);
                prediction.missing.retain(|missing| matches!(missing.kind, Kind::Launch | Kind::L2 | Kind::Memory));
                Ok(Forecast { plan: None, custom: None, description, estimated: false, prediction })
            }
        }
    }
}

/// Keeps the model's terms that apply to a device without plans: the launch, and bytes from memory. The other terms concern
/// blocks, warps and multiprocessors, and the device's L2 need not be shared by all cores.
fn without_gpu_terms(mut machine: Machine) -> Machine {
    machine.terms.retain(|key, _| matches!(key, Key::Launch(_) | Key::Bandwidth(Level::Memory, _)));
    machine
}

fn describe_bytes(problem: &Problem, cache: Cache, launch: LaunchForm) -> Description {
    let traffic = problem.traffic();
    Description {
        traffic,
        footprint: traffic.total(),
        cache,
        launch,
        prefetched: false,
        signals: 0,
        blocks: 1,
        threads: 0,
        resident: 0,
        in_flight: 0,
        instructions: BTreeMap::new(),
        serial_cycles: 0.0,
    }
}
