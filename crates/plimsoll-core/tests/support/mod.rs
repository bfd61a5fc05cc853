//! A clock for tests of this crate and of others.

use std::sync::atomic::AtomicBool;

use plimsoll_core::Fault;
use plimsoll_core::sample::{Clock, Evidence};

/// A clock that advances by a millisecond whenever it is read.
#[derive(Default)]
pub struct SteppingClock {
    pub now: f64,
    pub evidence: Evidence,
    /// Whether it panics when it is to settle.
    pub panics: bool,
}

impl Clock for SteppingClock {
    fn now(&mut self) -> f64 {
        self.now += 1e-3;
        self.now
    }
    fn tick(&self) -> f64 {
        1e-9
    }
    fn resolution(&self) -> f64 {
        1e-9
    }
    fn observe(&mut self) -> Evidence {
        self.evidence
    }
    fn settle(&mut self, _: &AtomicBool) -> Result<(), Fault> {
        assert!(!self.panics, "simulated panic of the clock");
        Ok(())
    }
}
