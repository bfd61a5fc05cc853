//! Runs a plan on opened devices, with progress on stderr and a record: what `measure` and `check` share.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use plimsoll::EndedProbe;
use plimsoll::core::Fault;
use plimsoll::core::probe::ProbeSpec;
use plimsoll::core::record::{Member, Run, Writer};
use plimsoll::prelude::{Instrument, Plan, Summary};

use super::exit::Failure;
use super::progress::{Bar, print_end};
use super::tee::Tee;

/// Where a run is kept.
pub(crate) struct Place {
    /// Its folder.
    pub folder: PathBuf,
    /// The open record.
    pub writer: Writer,
    /// The place of its devices in a fleet.
    pub member: Option<Member>,
}

/// What a run left behind.
pub(crate) struct Measured {
    /// How it ended.
    pub ended: Result<Summary, Fault>,
    /// Everything measured, written or not.
    pub tee: Tee,
    /// The folder of its record; `None` where nothing was kept.
    pub folder: Option<PathBuf>,
}

impl Measured {
    /// The run as a record holds it; `None` where it didn't begin.
    pub fn run(&self) -> Option<Run> {
        Run::from_records(self.tee.records().to_vec())
    }

    /// The fault that ended the run before it began, unless it only says that the record could not be written.
    pub fn take_fault(&mut self) -> Result<(), Failure> {
        if self.tee.refused().is_some() {
            return Ok(());
        }
        match std::mem::replace(&mut self.ended, Ok(Summary { ends: vec![], complete: false })) {
            Ok(summary) => {
                self.ended = Ok(summary);
                Ok(())
            }
            Err(fault) => Err(fault.into()),
        }
    }
}

/// Runs `plan`, whose probes are `specs`, on the devices.
pub(crate) fn measure(
    instruments: &mut [Box<dyn Instrument>],
    plan: &Plan,
    specs: &[&'static ProbeSpec],
    place: Option<Place>,
    quiet: bool,
    stop: &AtomicBool,
) -> Measured {
    let (folder, writer, member) = match place {
        Some(place) => (Some(place.folder), Some(place.writer), place.member),
        None => (None, None, None),
    };
    let budget = |spec: &ProbeSpec| plan.request.seconds.unwrap_or_else(|| spec.budget(plan.request.effort));
    let budgets = specs.iter().map(|spec| (spec.name.to_owned(), budget(spec)));
    let bar = Bar::new(budgets.collect()).quiet_if(quiet);
    let (prints_ends, several) = (bar.is_hidden() && !quiet, instruments.len() > 1);
    let observe = |end: &EndedProbe<'_>| {
        if prints_ends {
            print_end(end, several);
        }
    };
    let mut tee = Tee::new(writer, bar).with_member(member);
    let ended = plimsoll::measure_observed(instruments, plan, &mut tee, stop, &observe);
    tee.finish();
    Measured { ended, tee, folder }
}
