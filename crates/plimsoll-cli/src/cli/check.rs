//! `plimsoll check`: whether a device is what it should be, on one screen.

use std::time::Duration;

use plimsoll::core::Fault;
use plimsoll::core::device::DeviceInfo;
use plimsoll::core::headline::Role;
use plimsoll::core::probe::ProbeSpec;
use plimsoll::core::record::Run;
use plimsoll::core::sample::Effort;
use plimsoll::prelude::{Instrument, Plan, Request};
use plimsoll::suite::check::{Check, Note, Row, Verdict, check, is_checked};
use plimsoll::{Opened, probes};
use plimsoll_report::{faults, terminal};
use serde_json::{Value, json};

use super::args::{CheckArgs, Format};
use super::exit::{Exit, Failure, be_quiet, say};
use super::measure::decide_exit;
use super::measuring::{self, Place};
use super::sheet::{ALWAYS, Sheet};
use super::{devices, fleet, output, runs as disk, signals};

/// Seconds for the probes of a GPU and of a CPU; opening the device takes a few more.
const SECONDS: [f64; 2] = [52.0, 36.0];

pub(crate) fn run(args: &CheckArgs) -> Result<Exit, Failure> {
    if args.quiet {
        be_quiet();
    }
    if let Some(folder) = &args.fleet.fleet {
        let task = fleet::Task { fleet: &args.fleet, device: &args.device, quiet: args.quiet };
        return fleet::run(&task, folder, |(instruments, missing)| {
            let specs = checked_probes();
            Ok((build_plan(args, &specs, instruments, missing), specs))
        });
    }
    if let Some(path) = &args.run {
        let run = disk::load(path)?;
        return show(args, &run).map(|verdict| exit_for(verdict, Exit::Success));
    }
    let Opened { devices: mut instruments, missing } = devices::open_selected(&args.device)?;
    let specs = checked_probes();
    let plan = build_plan(args, &specs, &instruments, &missing);
    let stop = signals::install()?;
    let place = choose_place(args, &instruments)?;
    let mut measured = measuring::measure(&mut instruments, &plan, &specs, place, args.quiet, stop);
    let ran = devices::exit_for(&missing, decide_exit(&measured.ended, &measured.tee));
    measured.take_fault()?;
    let Some(run) = measured.run() else { return Ok(ran) };
    let verdict = show(args, &run)?;
    match (measured.tee.refused(), &measured.folder) {
        (Some(why), _) => say("warning", &format!("the record could not be written: {why}")),
        (None, Some(folder)) => {
            say("record", &folder.join(disk::RECORD).display().to_string());
            say("note", &format!("`plimsoll report {}` shows all of it", folder.display()));
        }
        (None, None) => {}
    }
    Ok(exit_for(verdict, ran))
}

/// The probes that a check runs.
fn checked_probes() -> Vec<&'static ProbeSpec> {
    probes::ALL.iter().copied().filter(|spec| is_checked(spec)).collect()
}

/// What to run on the devices.
fn build_plan(
    args: &CheckArgs,
    specs: &[&'static ProbeSpec],
    instruments: &[Box<dyn Instrument>],
    missing: &[(String, Fault)],
) -> Plan {
    let seconds = args.budget.unwrap_or_else(|| default_seconds(instruments));
    Plan {
        probes: offered(specs, instruments),
        request: Request { effort: Effort::Quick, ..Request::default() },
        limit: Some(Duration::from_secs_f64(seconds)),
        missing: missing.iter().map(|(name, fault)| (name.clone(), fault.to_string())).collect(),
        argv: super::recorded_arguments(),
        ..Plan::default()
    }
}

/// The names of those probes that a device here has. Those without a judged figure come last: if the time is short, the verdict's
/// figures matter more.
fn offered(specs: &[&'static ProbeSpec], instruments: &[Box<dyn Instrument>]) -> Vec<String> {
    let listed: Vec<_> = instruments.iter().flat_map(|device| device.probes(&Request::default())).collect();
    let has = |spec: &&&'static ProbeSpec| listed.iter().any(|listing| listing.spec.name == spec.name);
    let mut offered: Vec<_> = specs.iter().filter(has).collect();
    offered.sort_by_key(|spec| spec.headlines.is_empty());
    offered.into_iter().map(|spec| spec.name.to_owned()).collect()
}

fn default_seconds(instruments: &[Box<dyn Instrument>]) -> f64 {
    SECONDS[usize::from(instruments.iter().all(|instrument| instrument.info().backend == "cpu"))]
}

/// The folder of the record. Without --out, a place that can't be written costs a warning, not the check.
fn choose_place(args: &CheckArgs, instruments: &[Box<dyn Instrument>]) -> Result<Option<Place>, Failure> {
    if args.no_record {
        return Ok(None);
    }
    match disk::create(args.out.as_deref(), &disk::device_part(instruments)) {
        Ok(place) => Ok(Some(place)),
        Err(failure) if args.out.is_none() => {
            say("warning", &format!("no record is kept: {}", failure.error));
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

/// The exit code of a verdict, unless the run itself was stopped or failed.
fn exit_for(verdict: Option<Verdict>, ran: Exit) -> Exit {
    match (ran, verdict.map(Verdict::exit_code)) {
        (Exit::Success, Some(0)) => Exit::Success,
        (Exit::Success | Exit::Failed, Some(1)) => Exit::Failed,
        (Exit::Success, Some(_)) => Exit::Inconclusive,
        (ran, _) => ran,
    }
}

/// Prints the verdict on each device of a run; returns the worst.
fn show(args: &CheckArgs, run: &Run) -> Result<Option<Verdict>, Failure> {
    let count = run.header.devices.len() as u32;
    let checks: Vec<Check> = (0..count).filter_map(|device| check(run, device, probes::ALL)).collect();
    let worst = checks.iter().map(|found| found.verdict).max_by_key(|verdict| verdict.severity());
    let info = |found: &Check| &run.header.devices[found.device as usize];
    let text = match args.format {
        Format::Table => {
            let blocks = checks.iter().map(|found| terminal::check(found, info(found), args.all, &output::style()));
            blocks.collect::<Vec<_>>().join("\n")
        }
        Format::Json => {
            let devices: Vec<Value> = checks.iter().map(|found| to_json(found, info(found))).collect();
            let exit = exit_for(worst, Exit::Success) as u8;
            let verdict = worst.map(Verdict::name);
            plimsoll_report::json::to_text(&json!({ "verdict": verdict, "exit": exit, "devices": devices }))
        }
        format => to_sheet(&checks, run).render(format),
    };
    output::print(&text)?;
    faults(run).iter().for_each(|fault| say("warning", &format!("not measured: {fault}")));
    Ok(worst)
}

fn to_json(found: &Check, info: &DeviceInfo) -> Value {
    let notes: Vec<Value> =
        found.notes.iter().map(|note| json!({ "name": note.name, "text": note.text, "state": note.word() })).collect();
    json!({
        "device": info.name, "selector": info.selector, "id": info.id,
        "verdict": found.verdict.name(), "sentence": found.sentence,
        "figures": found.rows.iter().map(row_to_json).collect::<Vec<_>>(),
        "notes": notes, "hidden": found.hidden, "health": info.health,
    })
}

fn row_to_json(row: &Row) -> Value {
    let expected = row.expected.as_ref().map(|known| {
        json!({
            "interval": [known.interval.lo, known.interval.hi], "unit": row.unit.to_string(),
            "origin": known.origin.name(), "source": known.origin.describe(),
            "groups": known.groups.iter().map(|group| [group.lo, group.hi]).collect::<Vec<_>>(),
        })
    });
    json!({
        "id": row.headline.id, "name": row.headline.name, "probe": row.probe, "value": row.measured.value,
        "unit": row.unit.to_string(),
        "interval": [row.measured.interval.lo, row.measured.interval.hi], "better": row.headline.better.name(),
        "gate": row.headline.role == Role::Gate, "expected": expected, "peak": row.peak, "of_peak": row.of_peak(),
        "state": row.state.name(), "flags": row.flags.iter().map(|flag| flag.name()).collect::<Vec<_>>(), "why": row.why,
    })
}

fn to_sheet(checks: &[Check], run: &Run) -> Sheet<8> {
    let headings = ["device", "figure", "measured", "unit", "expected from", "expected to", "state", "why"];
    let mut sheet = Sheet::new(headings.map(|heading| (heading, ALWAYS)));
    for found in checks {
        let device = &run.header.devices[found.device as usize].selector;
        for row in &found.rows {
            let end = |end: fn(&plimsoll::suite::expected::Expected) -> f64| {
                row.expected.as_ref().map(|known| end(known).to_string()).unwrap_or_default()
            };
            sheet.row([
                device.clone(),
                row.headline.id.to_owned(),
                row.measured.value.to_string(),
                row.unit.to_string(),
                end(|known| known.interval.lo),
                end(|known| known.interval.hi),
                row.state.name().to_owned(),
                row.why.clone(),
            ]);
        }
        for note in &found.notes {
            sheet.row(note_cells(device, note));
        }
        let mut verdict = [const { String::new() }; 8];
        (verdict[0], verdict[1]) = (device.clone(), "verdict".to_owned());
        (verdict[6], verdict[7]) = (found.verdict.name().to_owned(), found.sentence.clone());
        sheet.row(verdict);
    }
    sheet
}

fn note_cells(device: &str, note: &Note) -> [String; 8] {
    let mut cells = [const { String::new() }; 8];
    (cells[0], cells[1]) = (device.to_owned(), note.name.to_owned());
    (cells[6], cells[7]) = (note.word().to_owned(), note.text.clone());
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_the_verdicts_unless_the_run_failed() {
        for (verdict, ran, exit) in [
            (Some(Verdict::Healthy), Exit::Success, Exit::Success),
            (Some(Verdict::NotJudged), Exit::Success, Exit::Success),
            (Some(Verdict::Slow), Exit::Success, Exit::Failed),
            (Some(Verdict::Broken), Exit::Failed, Exit::Failed),
            (Some(Verdict::Unknown), Exit::Success, Exit::Inconclusive),
            (Some(Verdict::Healthy), Exit::Interrupted, Exit::Interrupted),
            (Some(Verdict::Slow), Exit::Unavailable, Exit::Unavailable),
            (None, Exit::Unavailable, Exit::Unavailable),
        ] {
            assert_eq!(exit_for(verdict, ran), exit, "{verdict:?} {ran:?}");
        }
    }

    #[test]
    fn probes_of_the_verdict_are_checked_and_experiments_are_not() {
        let checked: Vec<&str> = probes::ALL.iter().filter(|spec| is_checked(spec)).map(|spec| spec.name).collect();
        assert!(checked.contains(&"stream") && checked.contains(&"transfer"), "{checked:?}");
        assert!(!checked.contains(&"gather") && !checked.contains(&"residency"), "{checked:?}");
    }
}
