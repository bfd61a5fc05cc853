//! `plimsoll tune`: finds the fastest plans of a GPU by measurement and stores them beside its profile, where `bench` finds
//! them. The search is the library's.

use std::path::Path;

use plimsoll::bench::Table;
use plimsoll::core::device::DeviceInfo;
use plimsoll::core::record::Progress;
use plimsoll::core::unit::Unit;
use plimsoll::prelude::{Effort, Fault};
use plimsoll::suite::bench::SPEC;
use plimsoll::tune::{Subject, Tuned, subjects, tune};

use super::args::{Format, TuneArgs};
use super::exit::{Exit, Failure, say};
use super::progress::Bar;
use super::sheet::{ALWAYS, Sheet};
use super::{bench, expression, output, present, profile, signals};

/// Seconds that a search takes for quick, standard and thorough, beside compiling.
const SECONDS: [f64; 3] = [60.0, 180.0, 420.0];

pub(crate) fn run(args: &TuneArgs) -> Result<Exit, Failure> {
    let subjects =
        if args.expressions.is_empty() { subjects(args.effort).map_err(Failure::usage)? } else { named(args)? };
    let mut device = bench::open(&args.device)?;
    let info = device.info().clone();
    // Afterwards it may be lost.
    let capability = device.planned().map_err(Failure::from)?.target.capability;
    let path = match &args.out {
        Some(path) => path.clone(),
        None => profile::plans_path(&args.profile, &info).map_err(Failure::usage)?,
    };
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
    if tuned.table.rows.is_empty() {
        let nothing = Fault::Invalid("no plan could be timed: see `plimsoll doctor`".to_owned());
        return Err(Failure { exit: Exit::Inconclusive, ..Failure::from(nothing) });
    }
    store(&info, capability, &path, &tuned)?;
    output::print(&shown(&tuned, args.format))?;
    say("plans", &path.display().to_string());
    match tuned.ended {
        Some(fault) => {
            say("note", "these are of the expressions that were done by then");
            Err(Failure::from(fault))
        }
        None => Ok(Exit::Success),
    }
}

fn named(args: &TuneArgs) -> Result<Vec<Subject>, Failure> {
    let subject = |text: &String| {
        let ask = expression::ask(text, &args.meaning)?;
        let graph = ask.graph().map_err(|error| expression::failure(&error))?;
        if !graph.scalars().is_empty() {
            return Err(Failure::usage("plans don't depend on scalars: write a number in their place"));
        }
        let name = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Subject { name: format!("{name}, {}", plimsoll::bench::types(&graph)), graph })
    };
    args.expressions.iter().map(subject).collect()
}

/// Plans of other classes that are stored already stay, or else those that are shipped: what is stored is taken instead of these.
fn store(info: &DeviceInfo, capability: u32, path: &Path, tuned: &Tuned) -> Result<(), Failure> {
    let others = profile::plans_in(path, info).unwrap_or_else(|| Table::for_device(&info.name, capability));
    let table = tuned.table.clone().with_classes_of(others);
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| Failure::file("make the folder", folder, error))?;
    }
    present::write(path, &(table.to_json() + "\n"))
}

fn shown(tuned: &Tuned, format: Format) -> String {
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
