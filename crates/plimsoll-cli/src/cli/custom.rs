//! `plimsoll explain --cubin` and `--source`: the time of a kernel of the user's own. The library checks, times and explains it.

use std::path::Path;

use plimsoll::bench::Device;
use plimsoll::core::FaultClass;
use plimsoll::core::text::{join_first, list_names, shorten};
use plimsoll::core::unit::ByteSize;
use plimsoll::custom::{self, Arguments, Cubin, GRAMMAR, Geometry, Request as Kernel, Signature};
use plimsoll::explain::{CustomKernel, Explanation, Subject, counters_error};
use plimsoll::prelude::Request;
use plimsoll::sass::Disassembler;
use plimsoll::suite::custom::SPEC;
use serde_json::{Value, json};

use super::args::{DeviceArg, ExplainArgs, Format, OwnKernelArgs};
use super::exit::{Exit, Failure, say};
use super::sheet::{ALWAYS, Sheet};
use super::{bench, consent, explain, profile};

/// Explains the kernel of a file, whichever of the two options names it.
pub(crate) fn run(args: &ExplainArgs) -> Result<Exit, Failure> {
    let own = &args.own;
    let arguments: Arguments = own
        .args
        .parse()
        .map_err(|error| Failure::usage(format!("--args: {error}")).hint(format!("write {GRAMMAR}")))?;
    let (request, mut device) = match (&own.cubin, &own.source) {
        (Some(path), _) => {
            let request = build_request(custom::read_cubin(path)?, path, arguments, own)?;
            (request, open(&args.device)?)
        }
        (None, Some(path)) => {
            let mut device = open(&args.device)?;
            (build_request(custom::compile(&mut device, path)?, path, arguments, own)?, device)
        }
        (None, None) => return Err(Failure::usage("no file was named")),
    };
    let disassembler = find_disassembler(args);
    let inspected = custom::inspect(&mut device, &request, disassembler.as_ref().map_err(Clone::clone))?;
    let info = device.info().clone();
    let known = profile::known(&args.run.profile, &info);
    let subject = Subject::from_device(&mut device, known.as_ref().map(|(_, profile)| profile), None)?;
    let why_not = if args.no_counters { "--no-counters was given".to_owned() } else { counters_error(&device) };
    let caches = args.timing.caches();
    let wanted =
        Request { effort: args.run.effort, seed: args.run.seed, counters: !args.no_counters, ..Request::default() };
    let pace = bench::Pace::new(&SPEC, caches.len(), wanted.effort);
    let timed = bench::record_run(&info, pace, args.run.out.as_deref(), |sink, stop| {
        let plan = bench::build_plan(&SPEC, wanted);
        custom::time(&mut device, &request, &caches, &plan, sink, stop).map(|summary| (summary, Vec::new()))
    })?;
    if let Some(run) = &timed.run {
        let all = custom::explanations(&subject, (&request, &inspected), &caches, run, &why_not);
        explain::show(&subject, &all, args.run.format)?;
        if run.faults.iter().any(|fault| fault.class == FaultClass::Hung) {
            say("hint", "the kernel may never end: a smaller grid, or compute-sanitizer, helps to find out why");
        }
    }
    timed.end()
}

/// Opens a CUDA device; by default the first.
fn open(arg: &DeviceArg) -> Result<Device, Failure> {
    let first = || DeviceArg { device: "cuda:0".to_owned(), no_cache: arg.no_cache, nvrtc: arg.nvrtc.clone() };
    if arg.device == "default" { bench::open(&first()) } else { bench::open(arg) }
}

fn find_disassembler(args: &ExplainArgs) -> Result<Disassembler, String> {
    if args.estimate {
        return Err("--estimate was given".to_owned());
    }
    Disassembler::find(args.nvdisasm.as_deref()).map_err(|missing| {
        say("note", &format!("{}: {}", missing.what, missing.hint));
        format!("{}: {}", missing.what, missing.why)
    })
}

fn build_request(cubin: Cubin, path: &Path, arguments: Arguments, own: &OwnKernelArgs) -> Result<Kernel, Failure> {
    let (Some(grid), Some(block)) = (own.grid, own.block) else {
        let failure = Failure::usage("a kernel is launched with --grid and --block");
        return Err(list_kernels(failure, path, cubin.kernels()));
    };
    let shared = u32::try_from(own.shared.0)
        .map_err(|_| Failure::usage(format!("--shared {}: more than any block has", own.shared)))?;
    let geometry = Geometry { grid: grid.0, block: block.0, shared };
    let bytes = |size: Option<ByteSize>| size.map(|size| size.0);
    let request = consent::build_request(cubin, own.function.as_deref(), arguments, geometry)?;
    Ok(request.with_traffic(bytes(own.bytes_read), bytes(own.bytes_written)))
}

/// Adds the kernels of a file with their parameters to a failure.
fn list_kernels(mut failure: Failure, path: &Path, kernels: &[Signature]) -> Failure {
    let line = |kernel: &Signature| {
        let sizes = list_names(kernel.parameters.iter().map(|parameter| parameter.bytes.to_string()));
        let takes = if sizes.is_empty() {
            "takes no arguments".to_owned()
        } else {
            format!("takes arguments of {sizes} (bytes)")
        };
        format!("{}: {takes}", shorten(&kernel.name, 60))
    };
    let kernels = join_first(kernels.iter().map(line), "\n  ", "\n  ");
    failure.error += &format!("\n{} has\n  {kernels}", path.display());
    failure
}

/// `scale, grid 65536, block 256, 128 MiB moved, cold`.
pub(crate) fn heading(explanation: &Explanation) -> String {
    let cell = &explanation.cell;
    let moved = ByteSize(cell.traffic.total());
    let words = format!("{}, {}, {moved} moved, {}", cell.expression, cell.shape, cell.cache.name());
    plimsoll_report::text::clean(&words)
}

/// What is known about the kernel and what is assumed.
pub(crate) fn facts(custom: &CustomKernel, format: Format) -> String {
    let mut sheet = Sheet::new([("launch", ALWAYS), ("", ALWAYS), ("note", ALWAYS)]);
    for fact in &custom.facts {
        sheet.row([fact.what.to_owned(), fact.value.clone(), fact.note.clone()]);
    }
    let assumed = custom.assumptions.iter().map(|assumption| format!("- {assumption}.\n"));
    let assumed: String = assumed.collect();
    let heading = if assumed.is_empty() { "" } else { "\nAssumed:\n\n" };
    format!("{}{heading}{assumed}", sheet.render(format))
}

/// The same as JSON.
pub(crate) fn to_json(custom: &CustomKernel) -> Value {
    let fact = |fact: &plimsoll::explain::Fact| json!({"what": fact.what, "value": fact.value, "note": fact.note});
    json!({
        "facts": custom.facts.iter().map(fact).collect::<Vec<Value>>(),
        "assumptions": custom.assumptions,
        "instructions_left_out": custom.uncounted,
    })
}
