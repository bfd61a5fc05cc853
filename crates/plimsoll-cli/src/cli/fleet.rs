//! `check --fleet` and `measure --fleet`: one process of many measures its devices and writes one file for each of them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use plimsoll::core::Fault;
use plimsoll::core::file::Target;
use plimsoll::core::probe::ProbeSpec;
use plimsoll::core::record::{Member, Run, Writer};
use plimsoll::core::unit::ByteSize;
use plimsoll::prelude::{Instrument, Plan};
use plimsoll::suite::fleet::file::{LARGEST, file_name, lines, reduce};
use plimsoll::suite::fleet::launcher::{self, Launched, Share, host_name, rack, sanitise};
use plimsoll::suite::fleet::read::{PARTIAL, is_complete};
use plimsoll::{Opened, probes};

use super::args::{DeviceArg, FleetArgs};
use super::exit::{Exit, Failure, say};
use super::measuring::{self, Place};
use super::{devices, measure, signals};

/// The device of a command line without `--device`.
const DEFAULT: &str = "default";

/// The arguments that both verbs have.
pub(crate) struct Task<'a> {
    /// Those of a fleet.
    pub fleet: &'a FleetArgs,
    /// The devices.
    pub device: &'a DeviceArg,
    /// Whether progress is silenced.
    pub quiet: bool,
}

/// Opened devices, and those that can't be opened.
type Devices<'d> = (&'d [Box<dyn Instrument>], &'d [(String, Fault)]);

/// Measures and writes. `plan` says what to run on the devices. Ends with 0 once the files are complete, whatever the figures say:
/// launchers pass on the code of a process that fails, and verdicts are `collect`'s. A device that is lost ends it with 3.
pub(crate) fn run(
    task: &Task<'_>,
    folder: &Path,
    plan: impl FnOnce(Devices<'_>) -> Result<(Plan, Vec<&'static ProbeSpec>), Failure>,
) -> Result<Exit, Failure> {
    let launched = launcher::find(&lookup, task.fleet.rank);
    let has_neighbours = launched.local_size.is_some_and(|size| size > 1);
    prepare(folder)?;
    let Opened { devices: mut instruments, missing } = open(task.device, &launched)?;
    let member = find_place(task.fleet, launched);
    let (plan, specs) = plan((&instruments, &missing))?;
    let plan = Plan { concurrent: instruments.len() > 1, ..plan };
    let stop = signals::install()?;
    let partial = partial_path(folder, &member, &instruments);
    let writer = Writer::create(&partial).map_err(|error| unwritable(folder, &error))?;
    let partial = Partial(Some(partial));
    let place = Place { folder: folder.to_owned(), writer, member: Some(member.clone()) };
    let mut measured = measuring::measure(&mut instruments, &plan, &specs, Some(place), task.quiet, stop);
    let ran = measure::decide_exit(&measured.ended, &measured.tee);
    let is_lost = measured.ended.as_ref().is_ok_and(measure::has_lost_device);
    measured.take_fault()?;
    let Some(mut run) = measured.run() else { return Ok(ran) };
    run.header.conditions.concurrent |= has_neighbours;
    let is_stopped = matches!(ran, Exit::HungUp | Exit::Interrupted | Exit::Terminated);
    if let Err(failure) = write_files(folder, &run, &member, is_stopped) {
        return Err(partial.keep(failure));
    }
    let exit = if is_lost { Exit::Unavailable } else { devices::exit_for(&missing, Exit::Success) };
    Ok(if is_stopped { ran } else { exit })
}

fn lookup(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The place of this process: the user's words come before the launcher's.
fn find_place(args: &FleetArgs, launched: Launched) -> Member {
    let host = match &args.host {
        Some(name) => host_name(&|_| None, name),
        None => host_name(&lookup, &hostname()),
    };
    let rack = args.rack.as_deref().map(sanitise).or_else(|| rack(&lookup));
    Member { host, rank: launched.rank, job: launched.job, rack, round: args.round }
}

/// The host's name as the system knows it.
fn hostname() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname");
    name.or_else(|_| std::env::var("HOSTNAME")).unwrap_or_default()
}

/// Opens the devices that the user named; else this process's share of the GPUs, or the CPU where there are none.
fn open(arg: &DeviceArg, launched: &Launched) -> Result<Opened, Failure> {
    let visible = match plimsoll::cuda_devices() {
        Ok(count) if arg.device == DEFAULT && count > 0 => count,
        _ => return devices::open_selected(arg),
    };
    match launched.share(visible) {
        Ok(Share::All) => devices::open_cuda(arg, 0..visible),
        Ok(Share::One(number)) => devices::open_cuda(arg, [number]),
        Err(why) => Err(Failure::usage(why).hint("start as many processes per host as it has GPUs, or one")),
    }
}

/// Creates the folder, and finds out before anything is measured whether a device's file fits.
fn prepare(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| Failure::file("create the folder", folder, error))?;
    let trial = || {
        let mut file = tempfile::tempfile_in(folder)?;
        file.write_all(&[b' '; LARGEST])?;
        file.sync_all()
    };
    trial().map_err(|error| unwritable(folder, &error))
}

fn unwritable(folder: &Path, error: &std::io::Error) -> Failure {
    Failure::file("write to", folder, error)
        .hint("every process needs a folder that it can write to, with space for its files")
}

/// The path of the record that is written while measuring, so that a killed process leaves what it had. The process's number and the time
/// keep processes on one device apart, also those of containers, whose numbers are alike.
fn partial_path(folder: &Path, member: &Member, instruments: &[Box<dyn Instrument>]) -> PathBuf {
    let name = match instruments {
        [one, ..] => file_name(member, one.info()),
        [] => member.host.clone(),
    };
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    folder.join(format!(".{name}.{}-{time:x}{PARTIAL}", std::process::id()))
}

/// A file that is removed at the end, unless the process is killed or its results could not be written.
struct Partial(Option<PathBuf>);

impl Partial {
    /// Leaves the file, and says so.
    fn keep(mut self, failure: Failure) -> Failure {
        match self.0.take() {
            Some(path) => failure.hint(format!("what was measured is in {}", path.display())),
            None => failure,
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Nothing depends on it: a device with a file is complete.
        let _ = self.0.as_ref().map(fs::remove_file);
    }
}

/// Writes one file per device. A measurement that was stopped doesn't replace a complete file of an earlier one.
fn write_files(folder: &Path, run: &Run, member: &Member, is_stopped: bool) -> Result<(), Failure> {
    for (device, info) in (0..).zip(&run.header.devices) {
        let path = folder.join(file_name(member, info));
        if is_stopped && is_complete(&path) {
            let text = format!("stopped early: {} of an earlier measurement is kept", path.display());
            say("warning", &text);
            continue;
        }
        let Some(records) = reduce(run, device, member, probes::ALL) else {
            let limit = ByteSize(LARGEST as u64);
            return Err(Failure::file("write", &path, format!("the device's description is larger than {limit}")));
        };
        let target = Target::entry(&path).and_then(|target| target.write(&lines(&records), true));
        target.map_err(|error| {
            Failure::file("write", &path, error).hint("free some space, or name another folder, and measure again")
        })?;
        say("file", &path.display().to_string());
    }
    Ok(())
}
