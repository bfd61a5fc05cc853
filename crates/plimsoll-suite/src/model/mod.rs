//! A machine's figures for the model of a launch's cost ([`plimsoll_core::model`]): which finding gives which term, and what
//! others published of machines that this tool has not measured. Nothing is derived from a data sheet's peak.

mod findings;
mod published;

use plimsoll_core::model::{Key, Machine, Term};

use crate::machines::{self, LookupError};
use crate::profile::{Profile, shipped};

/// What is known of a chip beside its findings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chip {
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Clock of the multiprocessors under load, Hz: the largest, unless it is known to be lower.
    pub clock_hz: f64,
    /// Compute capability times ten: 90 of an H200. It gives rates of instructions where no finding does.
    pub capability: u32,
}

/// The terms that a profile's findings give.
#[must_use]
pub fn of_profile(name: &str, chip: Chip, profile: &Profile) -> Machine {
    let mut machine = Machine::new(name);
    machine.know(Key::Multiprocessors, Term::exact(f64::from(chip.multiprocessors), "the device's own count"));
    machine.know(Key::Clock, Term::exact(chip.clock_hz, "the largest clock of the multiprocessors"));
    findings::know(&mut machine, profile, chip.clock_hz);
    published::rates(&mut machine, chip.capability);
    machine
}

/// The probe whose findings give a term, for who wants it known; `None` of what no probe finds.
#[must_use]
pub fn probe_of(key: Key) -> Option<&'static str> {
    findings::probe_of(key)
}

/// The terms of a machine of the catalogue: from the profile that this tool ships, else from what others published of it, else
/// from what they published of its nearest relative, each saying so. `V100` stands for its PCIe board.
///
/// # Errors
/// [`LookupError`] for a name that means no machine, or several.
pub fn of_machine(name: &str) -> Result<Machine, LookupError> {
    let wanted = if name.trim().eq_ignore_ascii_case("V100") { "V100 PCIe" } else { name };
    let known = machines::machine(wanted)?;
    let empty = || Profile::new(&shipped::model_id(known.name), known.name, "", "");
    let profile = shipped::of_machine(known.name)?.unwrap_or_else(empty);
    let mut machine = Machine::new(known.name);
    if let Some(count) = known.multiprocessors {
        machine.know(Key::Multiprocessors, Term::exact(f64::from(count), known.source));
    }
    let clock = known.boost_clock_hz.unwrap_or_default();
    machine.know(Key::Clock, Term::exact(clock, known.source));
    findings::know(&mut machine, &profile, clock);
    // The references say of some boards no more than the family.
    if let Some(family) = known.name.split(' ').next().filter(|family| *family != known.name)
        && crate::references::UNLISTED.contains(&family)
        && let Some(profile) = shipped::of_machine(family)?
    {
        findings::know(&mut machine, &profile, clock);
    }
    published::know(&mut machine, known.name);
    if let Some((major, minor)) = known.compute_capability {
        published::rates(&mut machine, 10 * u32::from(major) + u32::from(minor));
    }
    Ok(machine)
}

#[cfg(test)]
mod tests;
