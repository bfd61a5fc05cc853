//! What is known of a device, for plans and for the model, and what it makes of an expression.

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
use crate::predict::{Known, Predictor, Tools};

/// Where the figures of a machine are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The device's own profile.
    Profile,
    /// The device's own profile, and for what it lacks what is shipped or published of its model.
    Completed,
    /// What is shipped or published of its model: no profile is known of it.
    Model,
    /// Nothing but what the device says of itself.
    Nothing,
}

impl Origin {
    /// As a word for programs.
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
            Self::Completed => "the device's own profile, and for what it lacks what is known of such devices",
            Self::Model => "what is known of such devices: `plimsoll measure` finds what this one does",
            Self::Nothing => "nothing but what the device says of itself: `plimsoll measure` finds what it does",
        })
    }
}

/// A device as planner and model know it.
#[derive(Clone, Debug)]
pub struct Subject {
    of: Of,
    origin: Origin,
    /// Figures that the profile lacks and that such devices' were taken for.
    borrowed: Vec<Key>,
}

#[derive(Clone, Debug)]
enum Of {
    /// One that runs planned kernels.
    Planned(Box<Known>),
    /// One that runs expressions in its own way: the model knows its bytes alone.
    Plain(Machine),
}

impl Subject {
    /// What is known of an opened device: by its profile, and for what that lacks or where there is none by what is shipped or
    /// published of its model.
    ///
    /// # Errors
    /// The driver's.
    pub fn of(device: &mut Device, profile: Option<&Profile>, table: Option<&Table>) -> Result<Self, Fault> {
        let info = device.info().clone();
        let Device::Cuda(bench) = device else {
            let chip = Chip { multiprocessors: 0, clock_hz: 0.0, capability: 0 };
            let empty = Profile::new(&info.id, &info.name, "", "");
            let machine = of_profile(&info.name, chip, profile.unwrap_or(&empty));
            let origin = if profile.is_some() { Origin::Profile } else { Origin::Nothing };
            return Ok(Self { of: Of::Plain(plain(machine)), origin, borrowed: Vec::new() });
        };
        let khz = bench.device().context.device().attribute(Attribute::ClockRate).unwrap_or(0);
        let planned = device.planned()?;
        let sheet = machines::machine(&info.name).ok();
        let clock_hz = sheet.and_then(|sheet| sheet.boost_clock_hz).unwrap_or(1e3 * f64::from(khz));
        let (multiprocessors, capability) = (planned.multiprocessors, planned.target.capability);
        let chip = Chip { multiprocessors, clock_hz, capability };
        // A part of a board is another machine than the board.
        let whole = sheet.filter(|sheet| sheet.multiprocessors == Some(multiprocessors));
        let mut borrowed = Vec::new();
        let (machine, origin) = match (profile, whole.and_then(|sheet| of_machine(sheet.name).ok())) {
            (Some(profile), model) => {
                let mut own = of_profile(&info.name, chip, profile);
                borrowed = model.map(|model| own.complete(&model)).unwrap_or_default();
                (own, if borrowed.is_empty() { Origin::Profile } else { Origin::Completed })
            }
            (None, Some(machine)) => (machine, Origin::Model),
            (None, None) => {
                let empty = Profile::new(&info.id, &info.name, "", "");
                (of_profile(&info.name, chip, &empty), Origin::Nothing)
            }
        };
        let table = table.cloned().unwrap_or_else(|| Table::for_device(&info.name, capability));
        Ok(Self { of: Of::Planned(Box::new(Known::of_device(planned, machine, table))), origin, borrowed })
    }

    /// A machine that need not be here.
    #[must_use]
    pub fn of_known(known: Known, origin: Origin) -> Self {
        Self { of: Of::Planned(Box::new(known)), origin, borrowed: Vec::new() }
    }

    /// Its figures.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        match &self.of {
            Of::Planned(known) => &known.machine,
            Of::Plain(machine) => machine,
        }
    }

    /// Where they are from.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The probes that would find what the profile lacks and such devices' figures were taken for; empty where it lacks nothing.
    #[must_use]
    pub fn lacking(&self) -> Vec<&'static str> {
        let mut probes: Vec<&str> = self.borrowed.iter().filter_map(|key| probe_of(*key)).collect();
        probes.sort_unstable();
        probes.dedup();
        probes
    }

    /// Whether kernels may begin before the one before has ended.
    pub(super) fn can_be_dependent(&self) -> bool {
        matches!(&self.of, Of::Planned(known) if known.device.target.capability >= 90)
    }

    pub(super) fn forecaster<'a>(&'a self, tools: Option<Tools<'a>>) -> Forecaster<'a> {
        match &self.of {
            Of::Planned(known) => Forecaster::Planned(Predictor::new(known, tools)),
            Of::Plain(machine) => Forecaster::Plain(machine),
        }
    }
}

/// What the model expects of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// The plan with its reasons; `None` on a device that runs expressions without one.
    pub plan: Option<Plan>,
    /// What the launch does.
    pub description: Description,
    /// True where instructions are rough counts.
    pub estimated: bool,
    /// Its cost. On a device without plans of the terms for launch and bytes alone.
    pub prediction: Prediction,
}

pub(super) enum Forecaster<'a> {
    Planned(Predictor<'a>),
    Plain(&'a Machine),
}

impl Forecaster<'_> {
    pub(super) fn of(
        &mut self,
        problem: &Problem,
        choose: &Choose,
        (cache, launch): (Cache, LaunchForm),
    ) -> Result<Forecast, PlanError> {
        match self {
            Self::Planned(predictor) => {
                let found = predictor.of(problem, choose, (cache, launch))?;
                let (description, prediction) = (found.description, found.prediction);
                Ok(Forecast { plan: Some(found.plan), description, estimated: found.estimated, prediction })
            }
            Self::Plain(machine) => {
                let description = bytes_alone(problem, cache, launch);
                let mut prediction = predict(&description, machine);
                prediction.missing.retain(|missing| matches!(missing.kind, Kind::Launch | Kind::L2 | Kind::Memory));
                Ok(Forecast { plan: None, description, estimated: false, prediction })
            }
        }
    }
}

/// What a device without plans has of the model's terms: the launch, and bytes from memory. The others are of blocks, warps and
/// multiprocessors, and its second level need not be the cache that all share.
fn plain(mut machine: Machine) -> Machine {
    machine.terms.retain(|key, _| matches!(key, Key::Launch(_) | Key::Bandwidth(Level::Memory, _)));
    machine
}

fn bytes_alone(problem: &Problem, cache: Cache, launch: LaunchForm) -> Description {
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
