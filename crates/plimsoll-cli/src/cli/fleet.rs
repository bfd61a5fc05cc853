//! `plimsoll check --fleet`: one process of many measures its devices and writes one file for each of them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use plimsoll::core::file::Target;
use plimsoll::core::record::{Member, Run, Writer};
use plimsoll::prelude::{Instrument, Plan};
use plimsoll::suite::fleet::file::{LARGEST, file_name, lines, reduce};
use plimsoll::suite::fleet::launcher::{self, Launched, Share, host_name, rack, sanitise};
use plimsoll::suite::fleet::read::PARTIAL;
use plimsoll::{Opened, probes};

use super::args::CheckArgs;
use super::exit::{Exit, Failure, say};
use super::measuring::{self, Place};
use super::{check, devices, measure, signals};

/// The device of a command line without `--device`.
const DEFAULT: &str = "default";

/// Measures and writes. Ends with 0 once the files are complete, whatever the figures say: launchers pass on the code of a process
/// that fails, and verdicts are `collect`'s.
pub(crate) fn run(args: &CheckArgs, folder: &Path) -> Result<Exit, Failure> {
    let lookup = |name: &str| std::env::var(name).ok();
    let launched = launcher::find(&lookup, args.fleet.rank);
    prepare(folder)?;
    let Opened { devices: mut instruments, missing } = open(args, &launched)?;
    let member = Member {
        host: host_name(&lookup, args.fleet.host.as_deref().unwrap_or(&hostname())),
        rank: launched.rank,
        job: launched.job,
        rack: args.fleet.rack.as_deref().map(sanitise).or_else(|| rack(&lookup)),
        round: args.fleet.round,
    };
    let member = match &args.fleet.host {
        Some(name) => Member { host: host_name(&|_| None, name), ..member },
        None => member,
    };
    let specs = check::checked_probes();
    let several = instruments.len() > 1;
    let plan = Plan { concurrent: several, ..check::build_plan(args, &specs, &instruments, &missing) };
    let stop = signals::install()?;
    let partial = partial_path(folder, &member, &instruments);
    let writer = Writer::create(&partial).map_err(|error| unwritable(folder, &error))?;
    let partial = Partial(partial);
    let place = Place { folder: folder.to_owned(), writer, member: Some(member.clone()) };
    let mut measured = measuring::measure(&mut instruments, &plan, &specs, Some(place), args.quiet, stop);
    let ran = measure::decide_exit(&measured.ended, &measured.tee);
    measured.take_fault()?;
    let Some(run) = measured.run() else { return Ok(ran) };
    write_files(folder, &run, &member)?;
    drop(partial);
    let is_stopped = matches!(ran, Exit::HungUp | Exit::Interrupted | Exit::Terminated);
    Ok(if is_stopped { ran } else { devices::exit_for(&missing, Exit::Success) })
}

/// The host's name as the system knows it.
fn hostname() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname");
    name.or_else(|_| std::env::var("HOSTNAME")).unwrap_or_default()
}

/// Opens the devices that the user named; else this process's share of the GPUs, or the CPU where there are none.
fn open(args: &CheckArgs, launched: &Launched) -> Result<Opened, Failure> {
    let visible = match plimsoll::cuda_devices() {
        Ok(count) if args.device.device == DEFAULT && count > 0 => count,
        _ => return devices::open_selected(&args.device),
    };
    match launched.share(visible) {
        Ok(Share::All) => devices::open_cuda(&args.device, 0..visible),
        Ok(Share::One(number)) => devices::open_cuda(&args.device, [number]),
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

/// The path of the record that is written while measuring, so that a killed process leaves what it had. The process's number keeps
/// two processes on one device apart.
fn partial_path(folder: &Path, member: &Member, instruments: &[Box<dyn Instrument>]) -> PathBuf {
    let name = match instruments {
        [one, ..] => file_name(member, one.info()),
        [] => member.host.clone(),
    };
    folder.join(format!(".{name}.{}{PARTIAL}", std::process::id()))
}

/// A file that is removed at the end, unless the process is killed.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        // Nothing depends on it: a device with a file is complete.
        let _ = fs::remove_file(&self.0);
    }
}

fn write_files(folder: &Path, run: &Run, member: &Member) -> Result<(), Failure> {
    for (device, info) in (0..).zip(&run.header.devices) {
        let Some(records) = reduce(run, device, member, probes::ALL) else { continue };
        let path = folder.join(file_name(member, info));
        let target = Target::find(&path).and_then(|target| target.write(&lines(&records), true));
        target.map_err(|error| {
            Failure::file("write", &path, error)
                .hint("free some space, or name another folder; nothing half-written is left")
        })?;
        say("file", &path.display().to_string());
    }
    Ok(())
}
