//! `plimsoll tune`: finds the fastest plans of a GPU by measurement and stores them next to its profile, where `bench` finds
//! them. The search is in the library.

use std::path::{Path, PathBuf};

use plimsoll::bench::Table;
use plimsoll::core::file::{self, Accept, FileError};
use plimsoll::core::record::Progress;
use plimsoll::core::unit::Unit;
use plimsoll::prelude::{Effort, Fault};
use plimsoll::suite::bench::SPEC;
use plimsoll::tune::{Subject, TuneResult, subjects, tune};

use super::args::{Format, TuneArgs};
use super::exit::{Exit, Failure, say};
use super::outputs::{Existing, Outputs};
use super::progress::Bar;
use super::sheet::{ALWAYS, Sheet};
use super::{bench, expression, output, profile, signals};

/// Seconds of a search for quick, standard and thorough, compiling included: some less than a minute, four and ten, for opening the device.
const SECONDS: [f64; 3] = [56.0, 228.0, 590.0];

pub(crate) fn run(args: &TuneArgs) -> Result<Exit, Failure> {
    let subjects = if args.expressions.is_empty() {
        subjects(args.effort).map_err(Failure::usage)?
    } else {
        parse_subjects(args)?
    };
    if let Some(path) = &args.out {
        prepare_file(path, args.force, &[])?;
    }
    let mut device = bench::open(&args.device)?;
    let info = device.info().clone();
    // Asked now, because the device may be lost during the search.
    let capability = device.planning_device().map_err(Failure::from)?.target.capability;
    let path = match &args.out {
        Some(path) => path.clone(),
        None => profile::plans_path(&args.profile, &info).map_err(Failure::usage)?,
    };
    // The device's own file of plans is updated, so it doesn't count as an input.
    let plans = profile::plans_path(&args.profile, &info).ok();
    let mut inputs = profile::input_files(&args.profile, &args.device, &info);
    inputs.retain(|input| Some(input) != plans.as_ref());
    let others = prepare_file(&path, args.force, &inputs)?;
    let stop = signals::install()?;
    let seconds = match args.effort {
        Effort::Quick | Effort::Unknown => SECONDS[0],
        Effort::Standard => SECONDS[1],
        Effort::Thorough => SECONDS[2],
    };
    let bar = Bar::new(vec![(SPEC.name.to_owned(), seconds)]);
    let mut progress = |spent: f64| {
        let seconds_left = seconds * (1.0 - spent);
        bar.show(&Progress { probe: SPEC.name, points: 0, spent, seconds_left });
    };
    let tuned = tune(&mut device, &subjects, seconds, stop, &mut progress);
    bar.finish();
    let tuned = tuned.map_err(Failure::from)?;
    if !tuned.left_out.is_empty() {
        let names = tuned.left_out.join("; ");
        say("note", &format!("the time was over before these were tuned, and their plans stay: {names}"));
    }
    if tuned.table.rows.is_empty() {
        let fault = Fault::Invalid("no plan could be timed: see `plimsoll doctor`".to_owned());
        return Err(Failure { exit: Exit::Inconclusive, ..Failure::from(fault) });
    }
    // Another search may have stored plans in the meantime.
    let others = load_stored(&path, true).ok().flatten().or(others);
    let others = others.unwrap_or_else(|| Table::for_device(&info.name, capability));
    let table = tuned.table.clone().with_classes_of(others);
    Outputs::new([], Existing::Updated).write(&path, (table.to_json() + "\n").as_bytes())?;
    output::print(&render(&tuned, args.format))?;
    say("plans", &path.display().to_string());
    match tuned.ended {
        Some(fault) => {
            say("note", "the search ended early: only the expressions finished by then have plans");
            Err(Failure::from(fault))
        }
        None => Ok(Exit::Success),
    }
}

fn parse_subjects(args: &TuneArgs) -> Result<Vec<Subject>, Failure> {
    let subject = |text: &String| {
        let request = expression::parse_request(text, &args.meaning)?;
        let graph = request.graph().map_err(|error| expression::failure(&error))?;
        if !graph.scalars().is_empty() {
            return Err(Failure::usage("plans don't depend on scalars: write numbers in their place"));
        }
        let name = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Subject { name: format!("{name}, {}", plimsoll::bench::types(&graph)), graph })
    };
    args.expressions.iter().map(subject).collect()
}

/// Checks that the plans can be stored, before minutes are spent on them, and returns the stored ones: plans of other classes are
/// kept. Without stored plans the shipped ones are kept, because a stored file replaces these.
fn prepare_file(path: &Path, force: bool, inputs: &[PathBuf]) -> Result<Option<Table>, Failure> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| Failure::file("create the folder", folder, error))?;
    }
    Outputs::new(inputs.iter().map(PathBuf::as_path), Existing::Updated).check(path)?;
    load_stored(path, force)
}

/// The plans in a file; `None` for an empty file. A file that holds something else is an error, or `None` with `force`.
fn load_stored(path: &Path, force: bool) -> Result<Option<Table>, Failure> {
    let holds_no_plans = |why: &dyn std::fmt::Display| {
        Failure::file("write", path, format!("it exists and holds something other than plans: {why}"))
            .hint("--force replaces it, --out names another file")
    };
    let text = match file::read_text(path, profile::MAX_PLANS_BYTES, Accept::Regular) {
        Ok(text) => text,
        // A pipe can be written but holds no plans.
        Err(why) if why.is_absent() || matches!(why, FileError::NotRegular(_)) => return Ok(None),
        Err(_) if force => return Ok(None),
        Err(why) => return Err(holds_no_plans(&why)),
    };
    match Table::from_json(&text) {
        Ok(table) => Ok(Some(table)),
        Err(_) if force || text.trim().is_empty() => Ok(None),
        Err(why) => Err(holds_no_plans(&why)),
    }
}

fn render(tuned: &TuneResult, format: Format) -> String {
    let mut sheet = Sheet::new([
        ("expression", ALWAYS),
        ("moved", ALWAYS),
        ("launch", 2),
        ("cache", 3),
        ("plan", ALWAYS),
        ("GB/s", ALWAYS),
    ]);
    for found in &tuned.found {
        sheet.row([
            found.subject.clone(),
            Unit::Byte.format(found.bytes as f64),
            found.launch.to_owned(),
            found.cache.name().to_owned(),
            found.plan.clone(),
            format!("{:.1}", found.bandwidth / 1e9),
        ]);
    }
    sheet.render(format)
}
