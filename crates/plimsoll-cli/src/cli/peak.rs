//! `plimsoll peak`: the theoretical bandwidth of memory with its formula, and the measured bandwidth: from the profile for this
//! machine, from shipped records and published figures for others.

use std::fmt::Display;

use plimsoll::core::device::DeviceInfo;
use plimsoll::prelude::DeviceSelector;
use plimsoll::suite::machines::{self, MACHINES, Machine, MemoryType, bandwidth_formula, peak_bandwidth};
use plimsoll::suite::profile::{Profile, shipped};

use super::args::{PeakArgs, ProfileArg};
use super::exit::{Exit, Failure};
use super::sheet::{ALWAYS, Sheet};
use super::{devices, output, profile};

const HOW_TO_NAME: &str = "a device (cpu), or a machine such as \"A100 80GB\"; `plimsoll peak` alone shows them all";

pub(crate) fn run(args: &PeakArgs) -> Result<Exit, Failure> {
    if let (true, Some(name)) = (args.measured, &args.name) {
        return print_findings(name, args);
    }
    let mut sheet = Sheet::new([("machine", ALWAYS), ("bandwidth", ALWAYS), ("measured", ALWAYS), ("how", 1)]);
    let mut exit = Exit::Success;
    match (args.memory, args.bus_width, args.clock, &args.name) {
        (Some(memory), Some(bits), Some(clock), _) => {
            if !(clock.0.is_finite() && clock.0 > 0.0) {
                return Err(Failure::usage("the memory clock must be above 0 Hz"));
            }
            let name = format!("{memory} × {bits} bit");
            sheet.row([
                name,
                bandwidth(memory, bits, clock.0),
                String::new(),
                bandwidth_formula(memory, bits, clock.0),
            ]);
        }
        (_, _, _, Some(name)) => exit = add_named(name, &args.profile, &mut sheet)?,
        _ => {
            plimsoll::survey().devices.iter().for_each(|device| add_device(device.info(), &args.profile, &mut sheet));
            MACHINES.iter().for_each(|machine| add_machine(machine, &mut sheet));
        }
    }
    output::print(&sheet.render(args.format))?;
    Ok(exit)
}

/// Adds the devices that `name` selects, or else the machine of the catalogue with this name.
fn add_named(name: &str, profile: &ProfileArg, sheet: &mut Sheet<4>) -> Result<Exit, Failure> {
    match find(name, machines::machine)? {
        Subject::Machine(machine) => {
            add_machine(machine, sheet);
            Ok(Exit::Success)
        }
        Subject::Devices(selector) => {
            let opened = devices::open(&selector)?;
            opened.devices.iter().for_each(|device| add_device(device.info(), profile, sheet));
            Ok(devices::exit_for(&opened.missing, Exit::Success))
        }
    }
}

/// What a name stands for: devices, or what the catalogue has of a machine.
enum Subject<T> {
    Devices(DeviceSelector),
    Machine(T),
}

/// Finds what a name stands for: a selector such as `cpu`, else what `look_up` knows of a machine, else a device by its name or
/// UUID.
fn find<T, E: Display>(name: &str, look_up: impl FnOnce(&str) -> Result<T, E>) -> Result<Subject<T>, Failure> {
    let selector = name.parse::<DeviceSelector>();
    if selector.is_ok_and(|selector| !matches!(selector, DeviceSelector::Named(_))) {
        return devices::find(name).map(Subject::Devices);
    }
    look_up(name).map(Subject::Machine).or_else(|error| {
        let found = devices::find_named(name)?;
        found.map(Subject::Devices).ok_or_else(|| Failure::usage(error).hint(HOW_TO_NAME))
    })
}

/// Prints every finding about a device or a machine.
fn print_findings(name: &str, args: &PeakArgs) -> Result<Exit, Failure> {
    let (mut known, mut exit) = (vec![], Exit::Success);
    match find(name, shipped::of_machine)? {
        Subject::Machine(profile) => known.extend(profile),
        Subject::Devices(selector) => {
            let opened = devices::open(&selector)?;
            for device in &opened.devices {
                known.extend(profile::known(&args.profile, device.info()).map(|(_, profile)| profile));
            }
            exit = devices::exit_for(&opened.missing, exit);
        }
    }
    if known.is_empty() {
        let error = format!("there are no measured figures for {name}");
        return Err(Failure { exit: Exit::Inconclusive, ..Failure::usage(error) }
            .hint("`plimsoll measure` stores its findings in the device's profile"));
    }
    output::print(&profile::listing(&known, args.format)?)?;
    Ok(exit)
}

fn add_machine(machine: &Machine, sheet: &mut Sheet<4>) {
    let (memory, bits, clock) = (machine.memory, machine.bus_width_bits, machine.memory_clock_hz);
    let known = shipped::of_machine(machine.name).ok().flatten();
    let attained = attained(known.as_ref(), Some(machine.peak_bandwidth()));
    sheet.row([machine.name.to_owned(), bandwidth(memory, bits, clock), attained, machine.bandwidth_formula()]);
}

fn add_device(info: &DeviceInfo, profile: &ProfileArg, sheet: &mut Sheet<4>) {
    let name = format!("{}: {}", info.selector, info.name);
    let known = profile::known(profile, info).map(|(_, profile)| profile);
    let peak = info.peak("bandwidth");
    let attained = attained(known.as_ref(), peak.map(|peak| peak.value));
    match peak {
        Some(peak) => sheet.row([name, peak.unit.format(peak.value), attained, peak.source.clone()]),
        None => {
            let why = "this device doesn't report its memory clock: give --memory, --bus-width and --clock";
            sheet.row([name, "unknown".to_owned(), attained, why.to_owned()]);
        }
    }
}

/// The best bandwidth that `stream` measured and its share of the theoretical one; empty if unknown.
fn attained(known: Option<&Profile>, peak: Option<f64>) -> String {
    let Some(best) = known.and_then(Profile::best_bandwidth) else { return String::new() };
    let value = best.finding.value;
    let share = peak.map(|peak| format!(", {:.1} % of that", 100.0 * value / peak)).unwrap_or_default();
    let published = if best.is_published() { ", published" } else { "" };
    format!("{:.0} GB/s{share} ({}{published})", value / 1e9, best.finding.name)
}

/// In GB/s as in data sheets: whole numbers, so that similar models differ.
fn bandwidth(memory: MemoryType, bits: u32, clock_hz: f64) -> String {
    format!("{:.0} GB/s", peak_bandwidth(memory, bits, clock_hz) / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bandwidth_of_an_a100_is_printed_as_in_its_data_sheet() {
        assert_eq!(bandwidth(MemoryType::Hbm2e, 5120, 1.512e9), "1935 GB/s");
        assert_eq!(
            bandwidth_formula(MemoryType::Hbm2e, 5120, 1.512e9),
            "5120 bit / 8 × 2 per clock (HBM2E) × 1.512 GHz"
        );
    }
}
