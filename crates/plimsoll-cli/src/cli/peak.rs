//! `plimsoll peak`: the theoretical bandwidth of memory, always with the formula that gives it.

use plimsoll::core::device::DeviceInfo;
use plimsoll::core::unit::Frequency;
use plimsoll::prelude::DeviceSelector;
use plimsoll::suite::machines::{self, MACHINES, Machine, MemoryType, peak_bandwidth};

use super::args::PeakArgs;
use super::exit::{Exit, Failure};
use super::sheet::{ALWAYS, Sheet};
use super::{devices, output};

pub(crate) fn run(args: &PeakArgs) -> Result<Exit, Failure> {
    let mut sheet = Sheet::new([("machine", ALWAYS), ("bandwidth", ALWAYS), ("how", ALWAYS)]);
    let mut exit = Exit::Success;
    match (args.memory, args.bus_width, args.clock, &args.name) {
        (Some(memory), Some(bits), Some(clock), _) => {
            if !(clock.0.is_finite() && clock.0 > 0.0) {
                return Err(Failure::usage("a memory clock is more than 0 Hz"));
            }
            sheet.row([
                format!("{memory} × {bits} bit"),
                bandwidth(memory, bits, clock.0),
                formula(memory, bits, clock.0),
            ]);
        }
        (_, _, _, Some(name)) => exit = named(name, &mut sheet)?,
        _ => {
            plimsoll::survey().devices.iter().for_each(|device| of_device(device.info(), &mut sheet));
            MACHINES.iter().for_each(|machine| of_machine(machine, &mut sheet));
        }
    }
    output::print(&sheet.render(args.format))?;
    Ok(exit)
}

/// A device where the name is one's, else a machine of the catalogue.
fn named(name: &str, sheet: &mut Sheet<3>) -> Result<Exit, Failure> {
    if name.parse::<DeviceSelector>().is_ok() {
        let opened = devices::open(name)?;
        opened.devices.iter().for_each(|device| of_device(device.info(), sheet));
        return Ok(devices::exit(&opened.missing, Exit::Success));
    }
    let hint = "a device (cpu), or a machine such as \"A100 80GB\"; `plimsoll peak` alone shows them all";
    let machine = machines::machine(name).map_err(|error| Failure::usage(error).hint(hint))?;
    of_machine(machine, sheet);
    Ok(Exit::Success)
}

fn of_machine(machine: &Machine, sheet: &mut Sheet<3>) {
    let (memory, bits, clock) = (machine.memory, machine.bus_width_bits, machine.memory_clock_hz);
    sheet.row([machine.name.to_owned(), bandwidth(memory, bits, clock), formula(memory, bits, clock)]);
}

fn of_device(info: &DeviceInfo, sheet: &mut Sheet<3>) {
    let name = format!("{}: {}", info.selector, info.name);
    match info.peak("bandwidth") {
        Some(peak) => sheet.row([name, peak.unit.format(peak.value), peak.source.clone()]),
        None => {
            let why = "this device doesn't say how its memory is clocked: give --memory, --bus-width and --clock";
            sheet.row([name, "unknown".to_owned(), why.to_owned()]);
        }
    }
}

/// In GB/s as data sheets have it: four digits, so that neighbouring models differ.
fn bandwidth(memory: MemoryType, bits: u32, clock_hz: f64) -> String {
    format!("{:.0} GB/s", peak_bandwidth(memory, bits, clock_hz) / 1e9)
}

fn formula(memory: MemoryType, bits: u32, clock_hz: f64) -> String {
    let transfers = memory.transfers_per_clock();
    format!("{bits} bit / 8 × {transfers} per clock ({memory}) × {}", Frequency(clock_hz))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bandwidth_of_an_a100_is_printed_as_its_data_sheet_has_it() {
        assert_eq!(bandwidth(MemoryType::Hbm2e, 5120, 1.512e9), "1935 GB/s");
        assert_eq!(formula(MemoryType::Hbm2e, 5120, 1.512e9), "5120 bit / 8 × 2 per clock (HBM2E) × 1.512 GHz");
    }
}
