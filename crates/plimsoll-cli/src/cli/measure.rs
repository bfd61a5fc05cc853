//! `plimsoll measure`: runs probes, writes the record as it grows, prints the summary and writes the report.

use std::path::Path;

use plimsoll::Opened;
use plimsoll::core::probe::ProbeSpec;
use plimsoll::core::record::Run;
use plimsoll::prelude::{Fault, Instrument, Outcome, Plan, Request, Summary};
use plimsoll::suite::check::is_checked;
use plimsoll_report::{Report, faults};

use super::args::{Format, MeasureArgs, ReportFormat};
use super::exit::{Exit, Failure, be_quiet, say};
use super::list::DefaultProbes;
use super::outputs::{Existing, Outputs};
use super::present::Detail;
use super::tee::Tee;
use super::{devices, fleet, list, measuring, output, present, profile, runs as disk, signals};

pub(crate) fn run(args: &MeasureArgs) -> Result<Exit, Failure> {
    if args.quiet {
        be_quiet();
    }
    if let Some(folder) = &args.fleet.fleet {
        let task = fleet::Task { fleet: &args.fleet, device: &args.device, quiet: args.quiet };
        return fleet::run(&task, folder, |(instruments, missing)| {
            let (plan, specs) = build_plan(args, instruments, missing)?;
            keep_checked(plan, specs)
        });
    }
    let Opened { devices: mut instruments, missing } = devices::open_selected(&args.device)?;
    let (plan, specs) = build_plan(args, &instruments, &missing)?;
    warn_of_ignored(args, &instruments, &specs);
    let infos: Vec<_> = instruments.iter().map(|instrument| instrument.info()).collect();
    let profiles = profile::choose_place(&args.profile, !args.no_profile, &infos)?;
    let stop = signals::install()?;
    let place = disk::create(args.out.as_deref(), &disk::device_part(&instruments))?;
    let folder = place.folder.clone();
    let mut measured = measuring::measure(&mut instruments, &plan, &specs, Some(place), args.quiet, stop);
    let exit = devices::exit_for(&missing, decide_exit(&measured.ended, &measured.tee));
    measured.take_fault()?;
    if let Some(run) = measured.run() {
        let shown = show(args, &folder, &run, measured.tee.refused().is_none());
        if let Some(place) = profiles {
            profile::store_findings(&place, &run, &disk::name(&folder));
        }
        shown?;
    }
    match measured.tee.refused() {
        Some(why) => Err(unwritten_record(&folder.join(disk::RECORD), why, &measured.tee)),
        None => Ok(exit),
    }
}

/// What to run on the devices, and the probes.
fn build_plan(
    args: &MeasureArgs,
    instruments: &[Box<dyn Instrument>],
    missing: &[(String, Fault)],
) -> Result<(Plan, Vec<&'static ProbeSpec>), Failure> {
    let request = Request {
        effort: args.effort,
        bytes: args.bytes.map(|size| size.0),
        seed: args.seed,
        trace: args.trace,
        seconds: args.seconds,
        counters: args.counters,
    };
    let specs = list::choose(&args.choice, DefaultProbes::AllButLab, instruments, &request)?;
    let plan = Plan {
        probes: specs.iter().map(|spec| spec.name.to_owned()).collect(),
        request,
        concurrent: args.concurrent,
        missing: missing.iter().map(|(name, fault)| (name.clone(), fault.to_string())).collect(),
        limit: None,
        argv: super::recorded_arguments(),
    };
    Ok((plan, specs))
}

/// Leaves out the probes whose figures a fleet's file doesn't hold, and says so.
fn keep_checked(plan: Plan, specs: Vec<&'static ProbeSpec>) -> Result<(Plan, Vec<&'static ProbeSpec>), Failure> {
    let (kept, others): (Vec<_>, Vec<_>) = specs.into_iter().partition(|spec| is_checked(spec));
    let names = |specs: &[&ProbeSpec]| specs.iter().map(|spec| spec.name.to_owned()).collect::<Vec<_>>();
    if kept.is_empty() {
        let text = format!("a fleet's files hold no figures of {}", names(&others).join(", "));
        return Err(Failure::usage(text).hint("name probes of `plimsoll check`, or measure without --fleet"));
    }
    if !others.is_empty() {
        let text = format!("not measured: {}: a fleet's files hold no figures of them", names(&others).join(", "));
        say("warning", &text);
    }
    Ok((Plan { probes: names(&kept), ..plan }, kept))
}

/// Says which options have no effect, and why.
fn warn_of_ignored(args: &MeasureArgs, instruments: &[Box<dyn Instrument>], specs: &[&ProbeSpec]) {
    if args.counters && args.trace {
        say("note", "--counters has no effect with --trace: counting would come between the launches");
    } else if args.counters {
        let reasons =
            instruments.iter().filter_map(|instrument| instrument.counters().err().map(|why| (instrument, why)));
        reasons.for_each(|(instrument, why)| say("note", &format!("{}: {why}", instrument.info().selector)));
    }
    let without_size: Vec<&str> = specs.iter().filter(|spec| !spec.takes_bytes).map(|spec| spec.name).collect();
    if args.bytes.is_some() && !without_size.is_empty() {
        let names = without_size.join(", ");
        say("warning", &format!("--bytes has no effect on {names}: what they measure has no size to choose"));
    }
}

/// Prints the table to stdout, writes the report, and prints faults and file locations to stderr.
fn show(args: &MeasureArgs, folder: &Path, run: &Run, is_recorded: bool) -> Result<(), Failure> {
    // The table includes what could not be measured; the other formats leave that to stderr.
    if args.format != Format::Table {
        faults(run).iter().for_each(|fault| say("note", fault));
    }
    let runs = std::slice::from_ref(run);
    let style = output::style();
    let detail = Detail { all: args.all, plots: !args.no_plots, top: args.top };
    let text = present::text(runs, args.format.into(), detail, &style);
    // The report is written even if stdout can't be.
    let printed = output::print(&text);
    if !is_recorded {
        return printed;
    }
    say("record", &folder.join(disk::RECORD).display().to_string());
    if !args.no_report {
        let path = folder.join(disk::REPORT);
        let page = present::text(runs, ReportFormat::Html, detail, &style);
        Outputs::new([], Existing::Kept).write(&path, page.as_bytes())?;
        say("report", &path.display().to_string());
    }
    if args.format == Format::Table && present::is_brief(&Report::new(runs), detail) {
        let count = run.findings.len();
        let all = format!("`plimsoll report {} --all` shows all {count} findings with plots", folder.display());
        say("next", &all);
    }
    printed
}

pub(crate) fn unwritten_record(path: &Path, why: &str, tee: &Tee) -> Failure {
    let (written, all) = (tee.points_written(), tee.points());
    Failure::usage(format!("can't write {}: {why}; {written} of {all} points were written", path.display()))
        .hint("the table above has everything that was measured; free some space, or name another folder with --out")
}

fn is_fatal(fault: &Fault) -> bool {
    fault.ends_the_device() || matches!(fault, Fault::Panicked(_))
}

/// Whether a device was lost during the run, or an internal error ended a probe.
pub(crate) fn has_lost_device(summary: &Summary) -> bool {
    summary.ends.iter().any(|end| matches!(&end.outcome, Outcome::Faulted(fault) if is_fatal(fault)))
}

/// The exit code of a run. The first that applies decides: stopped, wrong results, a lost device or an internal error, a size
/// that can't be measured as given, nothing measured. Other failed probes are reported but don't change the code.
pub(crate) fn decide_exit(ended: &Result<Summary, Fault>, tee: &Tee) -> Exit {
    let Ok(summary) = ended else { return Exit::Usage };
    let faults = || {
        summary.ends.iter().filter_map(|end| match &end.outcome {
            Outcome::Faulted(fault) => Some(fault),
            Outcome::Complete => None,
        })
    };
    let invalid = faults().any(|fault| matches!(fault, Fault::Invalid(_)));
    if faults().any(|fault| matches!(fault, Fault::Stopped)) || (!summary.complete && !has_lost_device(summary)) {
        signals::exit()
    } else if tee.has_wrong_result() {
        Exit::Failed
    } else if has_lost_device(summary) {
        Exit::Unavailable
    } else if invalid {
        Exit::Usage
    } else if tee.points() > 0 {
        Exit::Success
    } else {
        Exit::Unavailable
    }
}
