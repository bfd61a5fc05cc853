//! `plimsoll peak`: the theoretical bandwidth of memory with its formula, and the measured bandwidth: from the profile for this
//! machine, from shipped records and published figures for others.

use std::fmt::Display;

use plimsoll::core::device::DeviceInfo;
use plimsoll::core::unit::Unit;
use plimsoll::prelude::DeviceSelector;
use plimsoll::suite::machines::{self, MACHINES, Machine, bandwidth_formula, peak_bandwidth};
use plimsoll::suite::profile::{Profile, StoredFinding, shipped};

use super::args::{Format, PeakArgs, ProfileArg};
use super::exit::{Exit, Failure};
use super::sheet::{ALWAYS, Sheet};
use super::{devices, output, profile};

const HOW_TO_NAME: &str = "a device (cpu), or a machine such as \"A100 80GB\"; `plimsoll peak` alone shows them all";

pub(crate) fn run(args: &PeakArgs) -> Result<Exit, Failure> {
    if let (true, Some(name)) = (args.measured, &args.name) {
        return print_findings(name, args);
    }
    let mut rows = Vec::new();
    let mut exit = Exit::Success;
    match (args.memory, args.bus_width, args.clock, &args.name) {
        (Some(memory), Some(bits), Some(clock), _) => {
            if !(clock.0.is_finite() && clock.0 > 0.0) {
                return Err(Failure::usage("the memory clock must be above 0 Hz"));
            }
            let name = format!("{memory} × {bits} bit");
            let how = bandwidth_formula(memory, bits, clock.0);
            let peak = peak_bandwidth(memory, bits, clock.0);
            rows.push(Row { name, peak: Some(peak), shown: gigabytes(peak), known: None, how });
        }
        (_, _, _, Some(name)) => exit = add_named(name, &args.profile, &mut rows)?,
        _ => {
            plimsoll::survey().devices.iter().for_each(|device| add_device(device.info(), &args.profile, &mut rows));
            MACHINES.iter().for_each(|machine| add_machine(machine, &mut rows));
        }
    }
    let text = match args.format {
        Format::Json => plimsoll_report::json::to_text(&rows.iter().map(Row::to_json).collect::<Vec<_>>().into()),
        format => as_sheet(&rows).render(format),
    };
    output::print(&text)?;
    Ok(exit)
}

/// Adds the devices that `name` selects, or else the machine of the catalogue with this name.
fn add_named(name: &str, profile: &ProfileArg, rows: &mut Vec<Row>) -> Result<Exit, Failure> {
    match find(name, machines::machine)? {
        Subject::Machine(machine) => {
            add_machine(machine, rows);
            Ok(Exit::Success)
        }
        Subject::Devices(selector) => {
            let opened = devices::open(&selector)?;
            opened.devices.iter().for_each(|device| add_device(device.info(), profile, rows));
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

/// The bandwidth of a machine or a memory.
struct Row {
    name: String,
    /// In theory, bytes per second.
    peak: Option<f64>,
    /// The same as the table shows it.
    shown: String,
    known: Option<Profile>,
    how: String,
}

impl Row {
    /// The best bandwidth that `stream` measured.
    fn best(&self) -> Option<&StoredFinding> {
        self.known.as_ref().and_then(Profile::best_bandwidth)
    }

    fn to_json(&self) -> serde_json::Value {
        let best = self.best();
        let measured = best.map(|best| best.finding.value);
        serde_json::json!({
            "machine": self.name,
            "bandwidth": self.peak,
            "measured": measured,
            "unit": Unit::BytePerSecond.to_string(),
            "share": measured.zip(self.peak).map(|(measured, peak)| measured / peak),
            "finding": best.map(|best| &best.finding.name),
            "published": best.map(StoredFinding::is_published),
            "how": self.how,
        })
    }

    /// The best bandwidth and its share of the theoretical one; empty if unknown.
    fn attained(&self) -> String {
        let Some(best) = self.best() else { return String::new() };
        let value = best.finding.value;
        let share = self.peak.map(|peak| format!(", {:.1} % of that", 100.0 * value / peak)).unwrap_or_default();
        let published = if best.is_published() { ", published" } else { "" };
        format!("{}{share} ({}{published})", gigabytes(value), best.finding.name)
    }
}

fn as_sheet(rows: &[Row]) -> Sheet<4> {
    let mut sheet = Sheet::new([("machine", ALWAYS), ("bandwidth", ALWAYS), ("measured", ALWAYS), ("how", 1)]);
    for row in rows {
        sheet.row([row.name.clone(), row.shown.clone(), row.attained(), row.how.clone()]);
    }
    sheet
}

fn add_machine(machine: &Machine, rows: &mut Vec<Row>) {
    rows.push(Row {
        name: machine.name.to_owned(),
        peak: Some(machine.peak_bandwidth()),
        shown: gigabytes(machine.peak_bandwidth()),
        known: shipped::of_machine(machine.name).ok().flatten(),
        how: machine.bandwidth_formula(),
    });
}

fn add_device(info: &DeviceInfo, profile: &ProfileArg, rows: &mut Vec<Row>) {
    let peak = info.peak("bandwidth");
    let why = "this device doesn't report its memory clock: give --memory, --bus-width and --clock";
    rows.push(Row {
        name: format!("{}: {}", info.selector, info.name),
        peak: peak.map(|peak| peak.value),
        shown: peak.map_or_else(|| "unknown".to_owned(), |peak| peak.unit.format(peak.value)),
        known: profile::known(profile, info).map(|(_, profile)| profile),
        how: peak.map_or_else(|| why.to_owned(), |peak| peak.source.clone()),
    });
}

/// In GB/s as in data sheets: whole numbers, so that similar models differ.
fn gigabytes(bytes_per_second: f64) -> String {
    format!("{:.0} GB/s", bytes_per_second / 1e9)
}

#[cfg(test)]
mod tests {
    use plimsoll::suite::machines::MemoryType;

    use super::*;

    #[test]
    fn the_bandwidth_of_an_a100_is_printed_as_in_its_data_sheet() {
        assert_eq!(gigabytes(peak_bandwidth(MemoryType::Hbm2e, 5120, 1.512e9)), "1935 GB/s");
        assert_eq!(
            bandwidth_formula(MemoryType::Hbm2e, 5120, 1.512e9),
            "5120 bit / 8 × 2 per clock (HBM2E) × 1.512 GHz"
        );
    }
}
