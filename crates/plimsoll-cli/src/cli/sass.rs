//! `plimsoll sass`: the machine code of GPU kernels side by side, from the probes' sources, an expression or any cubin. It
//! needs no GPU. The libraries compile, disassemble and analyse.

use std::path::Path;

use plimsoll::bench::{DEPENDENT, variants};
use plimsoll::core::Fault;
use plimsoll::core::file::{self, Accept};
use plimsoll::core::text::{list_names, shorten};
use plimsoll::sass::{
    Choose, Disassembler, ExpressionError, KernelDesc, KernelReport, MachineCodeError, Nvrtc, Report, Row, SassError,
    Source, Target, USUAL_TARGET, Unavailable, choose, compile_expression, device_target, disagreement, elf,
    from_cubin, from_kernels,
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

pub(crate) fn run(args: &SassArgs) -> Result<Exit, Failure> {
    let report = match (&args.cubin, &args.kernel, &args.expression) {
        (Some(path), ..) => report_cubin(path, args)?,
        (None, Some(name), _) => report_probe(name, args)?,
        (None, None, Some(text)) => report_expression(text, args)?,
        (None, None, None) => {
            return Err(Failure::usage("no kernels were chosen").hint(
                "`plimsoll sass 'a*x + y' --scalar a=1` shows the kernel of an expression, --kernel copy the kernels of a \
                 probe, --cubin FILE those of a file",
            ));
        }
    };
    output::print(&text(&report, args.format)?)?;
    Ok(Exit::Success)
}

/// The kernels of a cubin, in the disassembler's order.
fn report_cubin(path: &Path, args: &SassArgs) -> Result<Report, Failure> {
    let cubin = read(path)?;
    let bad = |why: SassError| {
        Failure::usage(format!("{}: {why}", path.display()))
            .hint("nvcc -cubin makes a cubin; cuobjdump -xelf all takes those out of a program or library")
    };
    // Reject a file that isn't a cubin even without a disassembler.
    elf::resources(&cubin).map_err(bad)?;
    let disassembler = Disassembler::find(args.nvdisasm.as_deref()).map_err(Fault::from)?;
    match from_cubin(&disassembler, cubin) {
        Ok(code) => select_function(code.report, args.function.as_deref()),
        Err(MachineCodeError::Unreadable(why)) => Err(bad(why)),
        Err(error) => Err(failure(error)),
    }
}

/// Reduces the report to the function `name`, if one is given.
fn select_function(mut report: Report, name: Option<&str>) -> Result<Report, Failure> {
    let Some(name) = name else { return Ok(report) };
    let known = list_names(report.kernels.iter().map(|kernel| &kernel.name));
    report.kernels.retain(|kernel| kernel.name == name);
    if report.kernels.is_empty() {
        return Err(Failure::usage(format!("no function '{}' in the cubin", shorten(name, 80)))
            .hint(format!("its functions: {known}")));
    }
    Ok(report)
}

/// Reads an untrusted file or a pipe.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let read = file::read(path, elf::MAX_CUBIN as u64, Accept::Streams);
    read.map_err(|error| Failure::file("read", path, error))
}

/// The chosen kernels of a probe, in the order of the choices. Arguments are checked before any tool is looked for, so that
/// errors are the same on every machine.
fn report_probe(name: &str, args: &SassArgs) -> Result<Report, Failure> {
    let target = args.arch.or_else(device_target).unwrap_or(USUAL_TARGET);
    let (source, kernels) = find_kernels(name, target)?;
    let kernels = choose(kernels, &args.compare).map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    let (nvrtc, disassembler) = find_tools(args)?;
    // A device newer than the compiler runs code for an older target of the same major version. A target given by --arch is
    // compiled or rejected.
    let target = if args.arch.is_some() { target } else { nvrtc.target(target.capability).unwrap_or(target) };
    let code = from_kernels(&nvrtc, &disassembler, (source, &kernels), target).map_err(|error| {
        let failure = failure(error);
        match nvrtc.capabilities() {
            known if known.contains(&target.capability) => failure,
            known => failure.hint(format!("this compiler supports {}", list_targets(known))),
        }
    })?;
    if !code.warnings.is_empty() {
        say("warning", &code.warnings);
    }
    let found = kernels.iter().filter_map(|kernel| code.report.kernel(&kernel.name)).cloned().collect();
    Ok(Report { target: target.to_string(), kernels: found })
}

/// The kernel of an expression for each plan; a single plan is printed with its reasons.
fn report_expression(text: &str, args: &SassArgs) -> Result<Report, Failure> {
    let target = args.arch.or_else(device_target).unwrap_or(USUAL_TARGET);
    let mut request = expression::parse_request(text, &args.meaning)?;
    request.sizes = vec![EXPRESSION_BYTES];
    request.variants = variants(&args.variant).map_err(Failure::usage)?;
    if args.dependent {
        request.launches = vec![DEPENDENT];
    }
    let points = request.points().map_err(|error| expression::failure(&error))?;
    let (nvrtc, disassembler) = find_tools(args)?;
    let mut report = Report { target: target.to_string(), kernels: vec![] };
    for point in &points {
        let choose = Choose { dependent: args.dependent, ..point.variant.0 };
        let (code, plan) = compile_expression(&nvrtc, &disassembler, &point.problem, &choose, target).map_err(
            |error| match error {
                ExpressionError::Code(error) => failure(error),
                error => Failure::usage(error),
            },
        )?;
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
fn list_targets(capabilities: &[u32]) -> String {
    capabilities.iter().map(|known| Target::plain(*known).to_string()).collect::<Vec<_>>().join(", ")
}

/// All kernels of the probe `name`, or the one kernel of this name.
fn find_kernels(name: &str, target: Target) -> Result<(&'static Source, Vec<KernelDesc>), Failure> {
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
        Failure::usage(format!("'{shown}' is neither a probe with GPU kernels nor a kernel for {target}"))
            .hint(format!("probes with kernels: {known}"))
    })
}

/// Finds both tools; if both are missing, the error names both.
fn find_tools(args: &SassArgs) -> Result<(Nvrtc, Disassembler), Failure> {
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

/// A tool that failed, or whose output can't be parsed. The user's arguments are not at fault.
fn failure(error: MachineCodeError) -> Failure {
    match error {
        MachineCodeError::Unavailable(reason) => Fault::from(reason).into(),
        error => Failure { exit: Exit::Unavailable, error: error.to_string(), hints: vec![] }
            .hint("another version of nvdisasm may work: --nvdisasm PATH"),
    }
}

fn text(report: &Report, format: Format) -> Result<String, Failure> {
    if format == Format::Json {
        let value = serde_json::to_value(report).map_err(Failure::usage)?;
        return Ok(json::to_text(&value));
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

/// A table of the kernels below their common target; a single kernel also with its instructions by class. A terminal of 80
/// columns is too narrow for all columns: local memory is dropped first, unless a kernel uses some.
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
        // A cubin's symbols may contain control characters.
        kernel.to_string().lines().for_each(|line| text.push_str(&indented(line)));
    }
    text
}

/// The line without control characters, with its indentation.
fn indented(line: &str) -> String {
    let words = line.trim_start_matches(' ');
    format!("{}{}\n", " ".repeat(line.len() - words.len()), clean(words))
}
