//! Times a user's kernel and explains its time with the same model as expressions.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use plimsoll_core::Fault;
use plimsoll_core::model::{Cache, LaunchForm, predict};
use plimsoll_core::probe::{Bench, Instrument as _, Outcome};
use plimsoll_core::record::{Record, Run, Sink};
use plimsoll_core::sample::CachePolicy;
use plimsoll_core::series::Axes as _;
use plimsoll_core::series::Estimate;
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::ByteSize;
use plimsoll_cuda::Cuda;
use plimsoll_cuda::custom::{Cubin, Custom, Described, Occupied, Request, compile_source, describe};
use plimsoll_cuda::disassembler::Disassembler;
use plimsoll_cuda::machine_code::from_cubin;
use plimsoll_gen::sass::KernelReport;
use plimsoll_suite::bench::{Cell, Line, PLAIN};
use plimsoll_suite::custom::{Measured, SPEC, find};

use crate::bench::{Device, run_probe};
use crate::explain::{
    CustomKernel, ExplainOptions, Explanation, Fact, Forecast, Subject, counters_error, counts_at, faults,
};
use crate::run::{Plan, ProbeEnd, Summary, build_device_header};

/// The plan's name in a cell.
const OWN: &str = "own kernel";

fn cuda(device: &mut Device) -> Result<&mut Bench<Cuda>, Fault> {
    let Device::Cuda(bench) = device else {
        return Err(Fault::Unavailable {
            what: "a kernel of your own",
            why: format!("{} doesn't run machine code of NVIDIA's GPUs", device.info().selector),
            hint: "Use a CUDA device: --device cuda:0".to_owned(),
        });
    };
    Ok(bench)
}

/// Compiles a file of CUDA C++ for the device, with NVRTC and without any header of a toolkit.
///
/// # Errors
/// [`Fault::Invalid`] with the compiler's message or why the file can't be read; [`Fault::Unavailable`] without a compiler, and
/// for a device that isn't a CUDA device.
pub fn compile(device: &mut Device, source: &Path) -> Result<Cubin, Fault> {
    compile_source(cuda(device)?.device(), source)
}

/// What is known about a kernel on a device before it is timed.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// What a launch occupies.
    pub occupied: Occupied,
    /// The report on its machine code, or why there is none.
    pub report: Result<KernelReport, String>,
}

/// Loads a kernel, checks its grid and block against the device, and reads its machine code.
///
/// # Errors
/// [`Fault::Invalid`] for a cubin of another architecture, or a grid or block beyond the limits; [`Fault::Unavailable`] for a
/// device that isn't a CUDA device.
pub fn inspect(
    device: &mut Device,
    request: &Request,
    disassembler: Result<&Disassembler, String>,
) -> Result<Inspected, Fault> {
    let context = &cuda(device)?.device().context;
    let occupied = request.load(context)?.occupy(request.geometry())?;
    let report = disassembler.and_then(|disassembler| {
        let code = from_cubin(disassembler, request.cubin().image().bytes().to_vec()).map_err(|why| why.to_string())?;
        let found = code.report.kernel(&request.signature().name).cloned();
        found.ok_or_else(|| "the disassembler's output doesn't have the kernel".to_owned())
    });
    Ok(Inspected { occupied, report })
}

/// Times a kernel under each cache policy: writes the header, then series and points as soon as they are known, and the end. The
/// kernel's results aren't checked, except that it doesn't write beyond the ends of its buffers.
///
/// # Errors
/// [`Fault::Unavailable`] for a device that isn't a CUDA device, before anything is written; [`Fault::Sink`] if `sink` refuses a
/// record. Other faults are recorded and listed in the summary.
pub fn time(
    device: &mut Device,
    request: &Request,
    caches: &[CachePolicy],
    plan: &Plan,
    sink: &mut (dyn Sink + Send),
    stop: &AtomicBool,
) -> Result<Summary, Fault> {
    let bench = cuda(device)?;
    sink.write(&Record::Run(build_device_header(vec![bench.info().clone()], plan)))?;
    let probe = Custom::new(request.clone(), caches.to_vec());
    let outcome = run_probe(bench, &probe, &plan.request, sink, stop)?;
    let complete =
        !matches!(&outcome, Outcome::Faulted(fault) if fault.ends_the_device() || matches!(fault, Fault::Stopped));
    sink.write(&Record::End { complete })?;
    Ok(Summary { ends: vec![ProbeEnd { device: 0, probe: SPEC.name.to_owned(), outcome }], complete })
}

/// Combines the model's predictions for a kernel with the results of a run of [`time`]. `uncounted` is the reason if the hardware
/// counted nothing.
#[must_use]
pub fn explanations(
    subject: &Subject,
    (request, inspected): (&Request, &Inspected),
    caches: &[CachePolicy],
    run: &Run,
    uncounted: &str,
) -> Vec<Explanation> {
    let place = Custom::place(request);
    let explain_one = |cache: &CachePolicy| {
        let cell = build_cell(request, *cache);
        let counted = counts_at(run, &place.to_values(), cache.is_cold());
        let uncounted = if counted.is_empty() { uncounted.to_owned() } else { String::new() };
        let measured = find(run, &place, cache.is_cold()).map(|measured| build_line(&cell, measured));
        Explanation {
            machine: subject.machine().clone(),
            origin: subject.origin(),
            forecast: build_forecast(subject, request, inspected, *cache),
            unmeasured: if measured.is_none() { faults(run) } else { String::new() },
            measured,
            counted,
            uncounted,
            cell,
        }
    };
    caches.iter().map(explain_one).collect()
}

/// Explains a kernel on a device: times it and compares the time with the model. Of the options, the profile, the cache policy and the
/// request count. Instructions are counted in the machine code if NVIDIA's disassembler is found.
///
/// # Errors
/// Those of [`inspect`]; the fault that ended the measurement.
pub fn explain(device: &mut Device, request: &Request, how: &ExplainOptions) -> Result<Explanation, Fault> {
    let disassembler = Disassembler::find(None).map_err(|missing| format!("{}: {}", missing.what, missing.why));
    let inspected = inspect(device, request, disassembler.as_ref().map_err(Clone::clone))?;
    let subject = Subject::from_device(device, how.profile.as_ref(), None)?;
    let uncounted = if how.request.counters { counters_error(device) } else { "it was not asked for".to_owned() };
    let plan = Plan { request: how.request.clone(), ..Plan::default() };
    let mut records: Vec<Record> = Vec::new();
    let caches = [how.cache];
    let summary = time(device, request, &caches, &plan, &mut records, &AtomicBool::new(false))?;
    if let Some(Outcome::Faulted(fault)) = summary.ends.into_iter().next().map(|end| end.outcome) {
        return Err(fault);
    }
    let run = Run::from_records(records).ok_or_else(|| Fault::Invalid("the run left no record".to_owned()))?;
    let mut explained = explanations(&subject, (request, &inspected), &caches, &run, &uncounted);
    explained.pop().ok_or_else(|| Fault::Invalid("nothing was measured".to_owned()))
}

/// `65536`, `64x64`; trailing ones are left out.
fn format_sides([x, y, z]: [u32; 3]) -> String {
    match (y, z) {
        (1, 1) => x.to_string(),
        (_, 1) => format!("{x}x{y}"),
        _ => format!("{x}x{y}x{z}"),
    }
}

fn build_cell(request: &Request, cache: CachePolicy) -> Cell {
    let geometry = request.geometry();
    let largest = request.arguments().buffers().map(plimsoll_cuda::custom::Buffer::bytes).max();
    Cell {
        expression: request.signature().name.clone(),
        types: request.arguments().to_string(),
        shape: format!("grid {}, block {}", format_sides(geometry.grid), format_sides(geometry.block)),
        launch: PLAIN,
        plan: OWN.to_owned(),
        bytes: largest.unwrap_or(0),
        cache,
        traffic: request.traffic(),
        ceiling: None,
    }
}

fn build_line(cell: &Cell, measured: Measured) -> Line {
    let Measured { time, bandwidth, of_peak, flags } = measured;
    let none = Estimate { value: 0.0, interval: Interval { lo: 0.0, hi: 0.0 } };
    Line {
        cell: cell.clone(),
        time,
        bandwidth: bandwidth.unwrap_or(none),
        of_ceiling: None,
        of_peak,
        host: None,
        flags,
    }
}

fn build_forecast(subject: &Subject, request: &Request, inspected: &Inspected, cache: CachePolicy) -> Forecast {
    let cache = if cache.is_cold() { Cache::Cold } else { Cache::Hot };
    let report = inspected.report.as_ref().map_err(String::as_str);
    let bytes = (request.traffic(), request.footprint());
    let Described { description, assumptions, uncounted } =
        describe(report, inspected.occupied, bytes, (cache, LaunchForm::Graph));
    let prediction = predict(&description, subject.machine());
    let custom = CustomKernel { facts: list_facts(request, inspected), assumptions, uncounted };
    Forecast { plan: None, custom: Some(custom), description, estimated: false, prediction }
}

fn list_facts(request: &Request, inspected: &Inspected) -> Vec<Fact> {
    let (signature, geometry, traffic) = (request.signature(), request.geometry(), request.traffic());
    let Occupied { blocks, threads, resident, static_shared } = inspected.occupied;
    let fact = |what: &'static str, value: String, note: String| Fact { what, value, note };
    let target = request.cubin().capability().map_or(String::new(), |capability| format!("for sm_{capability}, "));
    let takes = signature.parameters.len();
    let by_role = request.arguments().traffic();
    let source =
        |stated: u64, role: u64, words: &str| if stated == role { words.to_owned() } else { "as stated".to_owned() };
    let mut facts = vec![
        fact("kernel", signature.name.clone(), format!("{target}{takes} parameters")),
        fact("grid", format_sides(geometry.grid), format!("{blocks} blocks, {resident} resident on each SM at once")),
        fact("block", format_sides(geometry.block), format!("{threads} threads")),
    ];
    facts.extend(signature.registers.map(|registers| {
        let local = ByteSize(signature.local_bytes.into());
        fact("registers", registers.to_string(), format!("per thread, and {local} of local memory"))
    }));
    let fixed = ByteSize(static_shared.into());
    let shared = ByteSize(u64::from(static_shared) + u64::from(geometry.shared));
    facts.push(fact("shared memory", shared.to_string(), format!("per block, {fixed} of it static")));
    let read = source(traffic.read, by_role.read, "every buffer marked in or inout once");
    facts.push(fact("read", ByteSize(traffic.read).to_string(), read));
    let written = source(traffic.written, by_role.written, "every buffer marked out or inout once");
    facts.push(fact("written", ByteSize(traffic.written).to_string(), written));
    facts
}
