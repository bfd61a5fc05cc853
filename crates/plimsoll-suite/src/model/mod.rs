//! A machine's terms for the model of a launch's cost ([`plimsoll_core::model`]): from findings, and from published figures for
//! machines that plimsoll has not measured. No term is derived from a data sheet's peak: those give a [`Bound`].

mod bound;
mod findings;
mod published;

use plimsoll_core::model::{Key, Machine, Term};

use crate::machines::{self, LookupError};
use crate::profile::{Profile, shipped};

pub use bound::{Bound, BoundPart, Limit, Operations, Work, bound};

/// What is known about a chip besides its findings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chip {
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Clock of the multiprocessors under load, Hz: the maximum, unless a lower one is known.
    pub clock_hz: f64,
    /// Compute capability times ten: 90 for an H200. It gives instruction rates where there are no findings.
    pub capability: u32,
}

/// A machine with the terms from a profile's findings.
#[must_use]
pub fn of_profile(name: &str, chip: Chip, profile: &Profile) -> Machine {
    let mut machine = Machine::new(name);
    machine.insert(Key::Multiprocessors, Term::exact(f64::from(chip.multiprocessors), "the device's own count"));
    machine.insert(Key::Clock, Term::exact(chip.clock_hz, "the largest clock of the multiprocessors"));
    findings::add_terms(&mut machine, profile, chip.clock_hz);
    published::add_rates(&mut machine, chip.capability);
    machine
}

/// The probe whose findings give a term; `None` where no probe does.
#[must_use]
pub fn probe_of(key: Key) -> Option<&'static str> {
    findings::probe_of(key)
}

/// The row of the catalogue with this name. `V100` means its PCIe board.
///
/// # Errors
/// [`LookupError`] for a name that matches no machine, or several.
pub fn sheet(name: &str) -> Result<&'static machines::Machine, LookupError> {
    let wanted = if name.trim().eq_ignore_ascii_case("V100") { "V100 PCIe" } else { name };
    machines::machine(wanted)
}

/// A machine of the catalogue. Each term comes from the shipped profile, else from figures published for the machine, else from
/// figures published for the most similar one; its source says which.
///
/// # Errors
/// Those of [`sheet`].
pub fn of_machine(name: &str) -> Result<Machine, LookupError> {
    let known = sheet(name)?;
    let empty = || Profile::new(&shipped::model_id(known.name), known.name, "", "");
    let profile = shipped::of_machine(known.name)?.unwrap_or_else(empty);
    let mut machine = Machine::new(known.name);
    if let Some(count) = known.multiprocessors {
        machine.insert(Key::Multiprocessors, Term::exact(f64::from(count), known.source));
    }
    let clock = known.boost_clock_hz.unwrap_or_default();
    machine.insert(Key::Clock, Term::exact(clock, known.source));
    findings::add_terms(&mut machine, &profile, clock);
    // For some boards the references only name the family.
    if let Some(family) = known.name.split(' ').next().filter(|family| *family != known.name)
        && crate::references::UNLISTED.contains(&family)
        && let Some(profile) = shipped::of_machine(family)?
    {
        findings::add_terms(&mut machine, &profile, clock);
    }
    published::add_terms(&mut machine, known.name);
    if let Some((major, minor)) = known.compute_capability {
        published::add_rates(&mut machine, 10 * u32::from(major) + u32::from(minor));
    }
    Ok(machine)
}

#[cfg(test)]
mod tests;
