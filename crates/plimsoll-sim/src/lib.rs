//! A simulated device with simulated time, seeded noise and configurable faults: the same scenario gives the same record,
//! byte for byte. For testing the engine and everything that reads records, and for trying the tool.
//!
//! It runs many of the probes in `plimsoll-probes` on a fictitious machine with plausible figures ([`machine`]). It measures
//! nothing real, and says so in its name, its driver and its notes.
//!
//! ```
//! use plimsoll_core::probe::Instrument;
//!
//! let scenario: plimsoll_sim::Scenario = "seed=7,noise=0.01,lost-after=40".parse()?;
//! let device = plimsoll_sim::open(&scenario);
//! assert_eq!(device.info().id, "sim-7");
//! # Ok::<(), plimsoll_sim::ScenarioError>(())
//! ```
#![forbid(unsafe_code)]

mod device;
pub mod machine;
mod probes;
mod scenario;
mod world;

pub use device::SimDevice;
pub use probes::PROBES;
pub use probes::bench::Bench as ElementwiseBench;
pub use scenario::{Brake, Scenario, ScenarioError};
pub use world::SimClock;

use std::convert::Infallible;

use plimsoll_core::probe::{Backend, Bench};

/// The simulated backend.
#[derive(Debug)]
pub struct Sim;

impl Backend for Sim {
    type Device = SimDevice;
    type Clock = SimClock;
    type Need = Infallible;
    const NAME: &'static str = "sim";
}

/// Opens the simulated device of a scenario.
#[must_use]
pub fn open(scenario: &Scenario) -> Bench<Sim> {
    let (device, clock) = SimDevice::new(scenario.clone());
    let info = device.info();
    Bench::new(device, info, clock, PROBES)
}
