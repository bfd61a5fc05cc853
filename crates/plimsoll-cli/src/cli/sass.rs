//! `plimsoll sass`: what the compiler made of GPU kernels, side by side, from probes' sources or anybody's cubin. It needs
//! no GPU. Compiling, disassembling and reading are the libraries'.

use std::path::Path;

use plimsoll::bench::{DEPENDENT, variants};
use plimsoll::core::Fault;
use plimsoll::core::file::{self, Accept};
use plimsoll::sass::{
    Choose, Disassembler, ExpressionError, KernelDesc, KernelReport, MachineCodeError, Nvrtc, Report, Row, SassError,
    Source, Target, USUAL_TARGET, Unavailable, choose, device_target, disagreement, elf, of_cubin,
    of_expression as of_problem, of_kernels,
};
use plimsoll_report::json;
use plimsoll_report::terminal::{Column, Table};
use plimsoll_report::text::clean;

use super::args::{Format, SassArgs};
use super::exit::{Exit, Failure, say};
use super::sheet::{ALWAYS, Sheet};
use super::{expression, output};

const HEADINGS: [&str; 9] =
    ["kernel", "target", "instructions", "bytes", "per", "loads", "stores", "registers", "local bytes"];

/// Bytes of the widest tensor for which expressions are planned.
const EXPRESSION_BYTES: u64 = 256 << 20;

/// Functions of a cubin that are named where the one asked for isn't there.
const MOST_NAMES: usize = 40;

pub(crate) fn run(args: &SassArgs) -> Result<Exit, Failure> {
    let report = match (&args.cubin, &args.kernel, &args.expression) {
        (Some(path), ..) => of_file(path, args)?,
        (None, Some(name), _) => of_probe(name, args)?,
        (None, None, Some(text)) => of_expression(text, args)?,
        (None, None, None) => {
            return Err(Failure::usage("say which kernels").hint(
                "`plimsoll sass 'a*x + y' --scalar a=1` shows an expression's, --kernel copy those of a probe, --cubin FILE \
                 those of a file",
            ));
        }
    };
    output::print(&text(&report, args.format)?)?;
    Ok(Exit::Success)
}

/// The kernels of a cubin, in the disassembler's order.
fn of_file(path: &Path, args: &SassArgs) -> Result<Report, Failure> {
    let cubin = read(path)?;
    let bad = |why: SassError| {
        Failure::usage(format!("{}: {why}", path.display()))
            .hint("nvcc -cubin makes a cubin; cuobjdump -xelf all takes those out of a program or library")
    };
    // A file that is none is told so with or without a disassembler.
    elf::resources(&cubin).map_err(bad)?;
    let disassembler = Disassembler::find(args.nvdisasm.as_deref()).map_err(Fault::from)?;
    match of_cubin(&disassembler, cubin) {
        Ok(code) => one(code.report, args.function.as_deref()),
        Err(MachineCodeError::Unreadable(why)) => Err(bad(why)),
        Err(error) => Err(failure(error)),
    }
}

/// The function of this name, or all where none is named.
fn one(mut report: Report, name: Option<&str>) -> Result<Report, Failure> {
    let Some(name) = name else { return Ok(report) };
    let known: Vec<String> = report.kernels.iter().take(MOST_NAMES).map(|kernel| kernel.name.clone()).collect();
    let more = report.kernels.len().saturating_sub(MOST_NAMES);
    report.kernels.retain(|kernel| kernel.name == name);
    if report.kernels.is_empty() {
        let shown: String = name.chars().take(80).collect();
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        return Err(Failure::usage(format!("no function '{shown}' in the cubin"))
            .hint(format!("its functions: {}{rest}", known.join(", "))));
    }
    Ok(report)
}

/// A file that may be anybody's, or a pipe.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let read = file::read(path, elf::MAX_CUBIN as u64, Accept::Streams);
    read.map_err(|error| Failure::file("read", path, error))
}

/// The chosen kernels of a probe, in the order of the choices. What is wrong with the question is said before any tool is
/// looked for, so that it is said on every machine.
fn of_probe(name: &str, args: &SassArgs) -> Result<Report, Failure> {
    let target = args.arch.or_else(device_target).unwrap_or(USUAL_TARGET);
    let (source, kernels) = named(name, target)?;
    let kernels = choose(kernels, &args.compare).map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    let (nvrtc, disassembler) = tools(args)?;
    // A device newer than the compiler has code of its major version run; a target that was asked for is compiled or refused.
    let target = if args.arch.is_some() { target } else { nvrtc.target(target.capability).unwrap_or(target) };
    let code = of_kernels(&nvrtc, &disassembler, (source, &kernels), target).map_err(|error| {
        let failure = failure(error);
        match nvrtc.capabilities() {
            known if known.contains(&target.capability) => failure,
            known => failure.hint(format!("This one compiles for {}", list(known))),
        }
    })?;
    if !code.warnings.is_empty() {
        say("warning", &code.warnings);
    }
    let found = kernels.iter().filter_map(|kernel| code.report.kernel(&kernel.name)).cloned().collect();
    Ok(Report { target: target.to_string(), kernels: found })
}

/// The kernel of an expression for each plan that was asked for, with the reasons for the one that the planner makes.
fn of_expression(text: &str, args: &SassArgs) -> Result<Report, Failure> {
    let target = args.arch.or_else(device_target).unwrap_or(USUAL_TARGET);
    let mut ask = expression::ask(text, &args.meaning)?;
    ask.sizes = vec![EXPRESSION_BYTES];
    ask.variants = variants(&args.variant).map_err(Failure::usage)?;
    if args.dependent {
        ask.launches = vec![DEPENDENT];
    }
    let points = ask.points().map_err(|error| expression::failure(&error))?;
    let (nvrtc, disassembler) = tools(args)?;
    let mut report = Report { target: target.to_string(), kernels: vec![] };
    for point in &points {
        let choose = Choose { dependent: args.dependent, ..point.variant.0 };
        let (code, plan) =
            of_problem(&nvrtc, &disassembler, &point.problem, &choose, target).map_err(|error| match error {
                ExpressionError::Code(error) => failure(error),
                error => Failure::usage(error),
            })?;
        if points.len() == 1 && args.format == Format::Table {
            let reasons = plan.reasons.iter();
            reasons.for_each(|reason| say(reason.what, &format!("{}: {}", reason.chosen, reason.why)));
        }
        let name = point.cell.plan.clone();
        for kernel in &code.report.kernels {
            if let Some(what) = disagreement(&plan.spec, kernel.hot.as_ref()) {
                say("warning", &format!("{name}: {what}"));
            }
        }
        report
            .kernels
            .extend(code.report.kernels.into_iter().map(|kernel| KernelReport { name: name.clone(), ..kernel }));
    }
    Ok(report)
}

/// `sm_80, sm_90`.
fn list(capabilities: &[u32]) -> String {
    capabilities.iter().map(|known| Target::plain(*known).to_string()).collect::<Vec<_>>().join(", ")
}

/// All kernels of a probe, or one by its own name.
fn named(name: &str, target: Target) -> Result<(&'static Source, Vec<KernelDesc>), Failure> {
    let mut sources = plimsoll::probes::sources().iter().copied().map(|source| (source, source.kernels(target)));
    if let Some(found) = sources.clone().find(|(source, _)| source.name() == name) {
        return Ok(found);
    }
    let one = sources.find_map(|(source, kernels)| {
        kernels.into_iter().find(|kernel| kernel.name == name).map(|kernel| (source, vec![kernel]))
    });
    let known = plimsoll::probes::sources().iter().map(|source| source.name()).collect::<Vec<_>>().join(", ");
    let shown: String = name.chars().take(40).collect();
    one.ok_or_else(|| {
        Failure::usage(format!("no probe '{shown}' with GPU kernels, and no such kernel for {target}"))
            .hint(format!("kernels of: {known}"))
    })
}

/// Both tools; where both are missing, both are named.
fn tools(args: &SassArgs) -> Result<(Nvrtc, Disassembler), Failure> {
    let missing = |reason: Unavailable| Failure::from(Fault::from(reason));
    match (Nvrtc::find(args.nvrtc.as_deref(), None), Disassembler::find(args.nvdisasm.as_deref())) {
        (Ok(nvrtc), Ok(disassembler)) => Ok((nvrtc, disassembler)),
        (Err(reason), Ok(_)) | (Ok(_), Err(reason)) => Err(missing(reason)),
        (Err(compiler), Err(disassembler)) => {
            let (compiler, disassembler) = (missing(compiler), missing(disassembler));
            let error = format!("{}; {}", compiler.error, disassembler.error);
            Err(Failure { error, hints: [compiler.hints, disassembler.hints].concat(), ..compiler })
        }
    }
}

/// A tool that refuses, or one whose answer is not understood: nothing that the user typed is at fault.
fn failure(error: MachineCodeError) -> Failure {
    match error {
        MachineCodeError::Unavailable(reason) => Fault::from(reason).into(),
        error => Failure { exit: Exit::Unavailable, error: error.to_string(), hints: vec![] }
            .hint("Another version of nvdisasm may write what is understood: --nvdisasm PATH"),
    }
}

fn text(report: &Report, format: Format) -> Result<String, Failure> {
    if format == Format::Json {
        let value = serde_json::to_value(report).map_err(Failure::usage)?;
        return Ok(json::text(&value));
    }
    let cells: Vec<[String; 9]> = report.kernels.iter().map(|kernel| cells(Row::new(&report.target, kernel))).collect();
    if format == Format::Table {
        return Ok(table(report, cells));
    }
    let mut sheet = Sheet::new(HEADINGS.map(|heading| (heading, ALWAYS)));
    cells.into_iter().for_each(|row| sheet.row(row));
    Ok(sheet.render(format))
}

fn cells(row: Row) -> [String; 9] {
    [
        row.kernel,
        row.target,
        row.instructions.to_string(),
        row.bytes.to_string(),
        row.per,
        row.loads,
        row.stores,
        row.registers.map(|registers| registers.to_string()).unwrap_or_default(),
        row.local_bytes.to_string(),
    ]
}

/// Side by side below the target that all share; one kernel alone with its instructions by class. A terminal of 80 columns
/// is too narrow for all columns: first goes local memory, unless a kernel has some, which is a finding.
fn table(report: &Report, rows: Vec<[String; 9]>) -> String {
    let spills = report.kernels.iter().any(|kernel| kernel.local_bytes > 0);
    let column = |heading: &&'static str| match *heading {
        "instructions" | "bytes" => Column::number(heading),
        "registers" => Column::number(heading).keep(2),
        "local bytes" => Column::number(heading).keep(if spills { ALWAYS } else { 1 }),
        "loads" | "stores" => Column::text(heading).keep(3),
        _ => Column::text(heading),
    };
    let shown = HEADINGS.map(|heading| heading != "target");
    let headings = HEADINGS.iter().zip(shown).filter(|(_, shown)| *shown).map(|(heading, _)| column(heading));
    let mut table = Table::new(headings.collect());
    for row in rows {
        table.row(row.into_iter().zip(shown).filter(|(_, shown)| *shown).map(|(cell, _)| cell));
    }
    let mut text = format!("target {}\n\n{}", clean(&report.target), table.render(&output::style()));
    if let [kernel] = report.kernels.as_slice() {
        text.push('\n');
        // A cubin's symbol may hold anything.
        kernel.to_string().lines().for_each(|line| text.push_str(&indented(line)));
    }
    text
}

/// The line without what could steer a terminal, at its own depth.
fn indented(line: &str) -> String {
    let words = line.trim_start_matches(' ');
    format!("{}{}\n", " ".repeat(line.len() - words.len()), clean(words))
}
