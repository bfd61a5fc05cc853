//! `plimsoll bench`: times an elementwise expression over a range of sizes, writes a record like any other run, and prints
//! each size next to what memory can do and next to another program's figures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use plimsoll::bench::{
    ALL, BatchSets, BenchRequest, Cell, Device, Line, Point, Table as Plans, ceiling, lines, measure, memory_needed,
    sizes, variants,
};
use plimsoll::core::device::DeviceInfo;
use plimsoll::core::file::{self, Accept};
use plimsoll::core::probe::ProbeSpec;
use plimsoll::core::record::{Progress, Record, Run, Sink};
use plimsoll::core::sample::Effort;
use plimsoll::core::unit::{ByteRange, ByteSize, Unit};
use plimsoll::explain::Subject;
use plimsoll::prelude::{Fault, Plan, Request};
use plimsoll::suite::bench::SPEC;
use plimsoll::{CudaOptions, Summary};
use plimsoll_report::terminal::{Column, Table, format_margin};
use plimsoll_report::{faults, json, markdown};

use super::against::{self, Key, Peer};
use super::args::{BenchArgs, DeviceArg, Format};
use super::exit::{Exit, Failure, say};
use super::measure::{decide_exit, unwritten_record};
use super::predicted::Predicted;
use super::progress::Bar;
use super::tee::Tee;
use super::{all_inputs, devices, expression, measuring, output, profile, runs as disk, signals, tuned};

/// The default range of sizes in bytes; those that don't fit are left out.
const DEFAULT_SIZES: (u64, u64) = (1 << 20, 2 << 30);
/// The default size in bytes at which several plans are compared.
const VARIANTS_SIZE: u64 = 256 << 20;
/// Maximum bytes of a file with another program's figures: some hundred thousand lines.
const MAX_AGAINST_BYTES: u64 = 16 << 20;
/// Maximum share of the free memory that the operands of a default size may take.
const MAX_MEMORY_SHARE: f64 = 0.85;

pub(crate) fn run(args: &BenchArgs) -> Result<Exit, Failure> {
    let bench_request = build_request(args)?;
    if args.tune {
        tuned::check_request(&bench_request)?;
    }
    if let Some(path) = &args.all_inputs {
        return all_inputs::write(path, &bench_request, args);
    }
    // Report bad arguments before a device is opened.
    let mut points = bench_request.points().map_err(|error| expression::failure(&error))?;
    let peers = args.against.as_deref().map(read_peers).transpose()?;
    let mut device = open(&args.device)?;
    let info = device.info().clone();
    if args.batch.is_some() {
        check_memory(&points, &info)?;
    } else if args.bytes.is_none() && args.subject.meaning.inputs.is_empty() {
        retain_fitting(&mut points, &info);
    }
    let known = profile::known(&args.run.profile, &info);
    let profile_ceiling = |point: &Point| ceiling(&known.as_ref()?.1, point.cell.traffic);
    points.iter_mut().for_each(|point| point.cell.ceiling = profile_ceiling(point));
    let table = profile::plans(&args.run.profile, &info);
    let subject = Subject::from_device(&mut device, known.as_ref().map(|(_, profile)| profile), table.as_ref())?;
    let decided =
        if args.tune { tuned::tune(&mut device, &mut points, table.as_ref(), &args.run.profile)? } else { Vec::new() };
    let request = Request { effort: args.run.effort, seed: args.run.seed, ..Request::default() };
    let timed = time_points(&mut device, &points, table.as_ref(), request, args.run.out.as_deref())?;
    if let Some(run) = &timed.run {
        // The CSV form has no column for predictions, and they cost compiling kernels.
        let wanted: &[Point] = if args.run.format == Format::Csv { &[] } else { &points };
        let predicted = Predicted::from_points(&subject, wanted, args.device.nvrtc.as_deref());
        show(args, run, (peers.as_ref(), &predicted), &decided)?;
        predicted.print_footnote();
    }
    if known.is_none() && args.run.format == Format::Table {
        say("note", "the ceiling of this device is not known: `plimsoll measure stream` finds it");
    }
    timed.end()
}

/// Points that were timed, with their record.
pub(super) struct Timed {
    /// What the record holds.
    pub run: Option<Run>,
    tee: Tee,
    exit: Exit,
    record: PathBuf,
}

impl Timed {
    /// Prints where the record is, once everything is shown; an error if the record could not be written.
    pub fn end(self) -> Result<Exit, Failure> {
        match self.tee.refused() {
            Some(why) => Err(unwritten_record(&self.record, why, &self.tee)),
            None => {
                say("record", &self.record.display().to_string());
                Ok(self.exit)
            }
        }
    }
}

/// Times points and records them; reports on stderr what went wrong or was left out. Fails if the run ended before anything
/// was measured.
pub(super) fn time_points(
    device: &mut Device,
    points: &[Point],
    table: Option<&Plans>,
    request: Request,
    out: Option<&Path>,
) -> Result<Timed, Failure> {
    let pace = Pace::new(&SPEC, points.len(), request.effort);
    let info = device.info().clone();
    record_run(&info, pace, out, |tee, stop| {
        let ended = measure(device, points, table, &build_plan(&SPEC, request), tee, stop)?;
        Ok((ended.summary, ended.left_out))
    })
}

/// The probe that times points, how many there are over all rounds, and how long they take.
pub(super) struct Pace {
    spec: &'static ProbeSpec,
    total: usize,
    seconds: f64,
}

impl Pace {
    /// For points of a probe whose budget is that of one point.
    pub fn new(spec: &'static ProbeSpec, points: usize, effort: Effort) -> Self {
        let total = points * effort.policy().rounds as usize;
        Self { spec, total, seconds: spec.budget(effort) * points as f64 }
    }
}

/// Writes the record of a measurement, shows its progress, and reports on stderr what went wrong or was left out. Fails if the
/// run ended before anything was measured.
pub(super) fn record_run(
    info: &DeviceInfo,
    pace: Pace,
    out: Option<&Path>,
    measure: impl FnOnce(&mut (dyn Sink + Send), &AtomicBool) -> Result<(Summary, Vec<String>), Fault>,
) -> Result<Timed, Failure> {
    let stop = signals::install()?;
    let selector: String = info.selector.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
    let measuring::Place { folder, writer, .. } = disk::create(out, &selector)?;
    let tee = Tee::new(Some(writer), Bar::new(vec![(pace.spec.name.to_owned(), pace.seconds)]));
    let mut tee = Paced { tee, total: pace.total, seconds: pace.seconds, begin: Instant::now() };
    let ended = measure(&mut tee, stop);
    let mut tee = tee.tee;
    tee.finish();
    let ended = ended.map(|(summary, left_out)| {
        left_out.iter().for_each(|why| say("note", &format!("left out: {why}")));
        summary
    });
    let exit = decide_exit(&ended, &tee);
    if let Err(fault) = ended
        && tee.refused().is_none()
    {
        return Err(fault.into());
    }
    let run = Run::from_records(tee.records().to_vec());
    run.iter().flat_map(faults).for_each(|fault| say("note", &fault));
    Ok(Timed { run, tee, exit, record: folder.join(disk::RECORD) })
}

/// Leaves out points that don't fit into the free memory together with the window they rotate through.
pub(super) fn retain_fitting(points: &mut Vec<Point>, info: &DeviceInfo) {
    let (window, most) = (info.cold_window(), (info.memory_free as f64 * MAX_MEMORY_SHARE) as u64);
    points.retain(|point| memory_needed(point, window) <= most);
}

fn build_request(args: &BenchArgs) -> Result<BenchRequest, Failure> {
    let mut request = expression::parse_request(&args.subject.expression, &args.subject.meaning)?;
    request.name = args.timing.name.as_ref().map(|name| name.chars().take(80).collect());
    request.batch = args.batch.as_deref().map(read_sets).transpose()?;
    let all = args.variant.iter().any(|axis| axis == "all");
    request.variants = match all {
        true if args.variant.len() > 1 => return Err(Failure::usage("--variant all takes no other axis")),
        true => variants(&ALL),
        false => variants(&args.variant),
    }
    .map_err(Failure::usage)?;
    request.sizes = match &args.bytes {
        Some(text) => parse_sizes(text)?,
        None if request.variants.len() > 1 => vec![VARIANTS_SIZE],
        None => {
            let (least, most) = (ByteSize(DEFAULT_SIZES.0), ByteSize(DEFAULT_SIZES.1));
            sizes(ByteRange::new(least, most).unwrap_or_else(|| unreachable!("ascending")))
        }
    };
    request.caches = args.timing.caches();
    request.launches = args.timing.launches();
    Ok(request)
}

/// `1MiB..2GiB`, `1MiB,4MiB`, or both mixed.
pub(super) fn parse_sizes(text: &str) -> Result<Vec<u64>, Failure> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let range: ByteRange = part.trim().parse().map_err(Failure::usage)?;
        all.extend(sizes(range));
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// The sets of a batch: a list, or the name of a file that has one.
fn read_sets(text: &str) -> Result<BatchSets, Failure> {
    let is_list = text.chars().all(|c| c.is_ascii_digit() || matches!(c, 'x' | '*' | ',' | ' '));
    if is_list {
        return text.parse().map_err(|error| Failure::usage(format!("--batch: {error}")));
    }
    let path = Path::new(text);
    let list = file::read_text(path, MAX_AGAINST_BYTES, Accept::Streams);
    let list = list.map_err(|error| Failure::file("read", path, error))?;
    list.parse().map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

/// Checks that all points fit into the free memory.
fn check_memory(points: &[Point], info: &DeviceInfo) -> Result<(), Failure> {
    let needed = points.iter().map(|point| memory_needed(point, info.cold_window())).max().unwrap_or(0);
    if needed <= info.memory_free {
        return Ok(());
    }
    let (needed, free) = (Unit::Byte.format(needed as f64), Unit::Byte.format(info.memory_free as f64));
    Err(Failure::usage(format!("the tensors need {needed} of memory and {free} are free: use fewer or smaller sets")))
}

fn read_peers(path: &Path) -> Result<BTreeMap<Key, Peer>, Failure> {
    let text = file::read_text(path, MAX_AGAINST_BYTES, Accept::Streams);
    let text = text.map_err(|error| Failure::file("read", path, error))?;
    let peers = against::parse_peers(&text).map_err(|why| Failure::usage(format!("{}: {why}", path.display())))?;
    if peers.is_empty() {
        return Err(Failure::usage(format!("{} has no figures of another program", path.display())));
    }
    Ok(peers)
}

/// Opens the one device that expressions run on. Fails with exit code 2 if `arg` names no device, 3 if the device isn't
/// available.
pub(crate) fn open(arg: &DeviceArg) -> Result<Device, Failure> {
    let selector = devices::find(&arg.device)?;
    let cuda = CudaOptions { no_cache: arg.no_cache, nvrtc: arg.nvrtc.clone(), ..CudaOptions::default() };
    Device::open(&selector, &cuda).map_err(devices::explain)
}

/// The plan of a run of one probe, with the command line.
pub(super) fn build_plan(spec: &ProbeSpec, request: Request) -> Plan {
    Plan { probes: vec![spec.name.to_owned()], request, argv: super::recorded_arguments(), ..Plan::default() }
}

/// The tee with progress over all points, since the probe's budget is that of one point.
struct Paced {
    tee: Tee,
    total: usize,
    seconds: f64,
    begin: Instant,
}

impl Sink for Paced {
    fn write(&mut self, record: &Record) -> Result<(), Fault> {
        self.tee.write(record)
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        let spent = (progress.points as f64 / self.total.max(1) as f64).min(1.0);
        let seconds_left = (self.seconds - self.begin.elapsed().as_secs_f64()).max(0.0);
        self.tee.progress(&Progress { spent, seconds_left, ..*progress });
    }
}

/// Figures to compare with: those of other programs and those of the model.
type References<'a> = (Option<&'a BTreeMap<Key, Peer>>, &'a Predicted);

fn show(args: &BenchArgs, run: &Run, (peers, predicted): References<'_>, decided: &[Cell]) -> Result<(), Failure> {
    let lines = lines(run);
    if lines.is_empty() && args.run.format == Format::Table {
        return Ok(());
    }
    let text = match args.run.format {
        Format::Csv => lines.iter().fold(format!("{}\n", against::HEADER), |text, line| text + &against::row(line)),
        Format::Json => {
            let object = |line: &Line| {
                let mut object = object(line, &lines, (peers, predicted));
                object["tuned"] = decided.iter().any(|cell| tuned::is_same(cell, &line.cell)).into();
                object
            };
            json::to_text(&lines.iter().map(object).collect::<Vec<_>>().into())
        }
        Format::Table => heading(&lines) + &table(&lines, (peers, predicted)),
        Format::Markdown => markdown_table(&lines, (peers, predicted)),
    };
    output::print(&text)?;
    match peers.map(|peers| against::verdict(&lines, peers)) {
        Some(Some(verdict)) => say("against", &verdict),
        Some(None) if !lines.is_empty() => say("note", "no cell of the --against file was measured"),
        _ => {}
    }
    Ok(())
}

/// `triad, bf16`: what all lines share.
fn heading(lines: &[Line]) -> String {
    let Some(first) = lines.first() else { return String::new() };
    let cell = &first.cell;
    let varies = lines.iter().any(|line| line.cell.shape != cell.shape);
    let shape = if cell.shape == "flat" || varies { String::new() } else { format!(", {}", cell.shape) };
    plimsoll_report::text::clean(&format!("{}, {}{shape}", cell.expression, cell.types)) + "\n\n"
}

/// Formats one cell of a line.
type CellText = fn(&Line) -> String;
/// A column, and the function that formats a line's cell in it.
type Field<'a> = (Column, Box<dyn Fn(&Line) -> String + 'a>);

/// The columns in which lines differ, then the figures.
fn fields<'a>(lines: &[Line], (peers, predicted): References<'a>) -> Vec<Field<'a>> {
    let varies = |text: &dyn Fn(&Line) -> String| lines.iter().any(|line| text(line) != text(&lines[0]));
    let percent = |share: Option<f64>| share.map(|share| format!("{:.1} %", 100.0 * share)).unwrap_or_default();
    let number = Column::number;
    let mut fields: Vec<Field<'a>> = vec![(number("per tensor"), Box::new(|line| bytes(line.cell.bytes)))];
    let names: [(&str, CellText); 4] = [
        ("shape", |line| line.cell.shape.clone()),
        ("cache", |line| line.cell.cache.name().to_owned()),
        ("launch", |line| line.cell.launch.to_owned()),
        ("plan", |line| line.cell.plan.clone()),
    ];
    for (name, text) in names {
        if varies(&text) {
            fields.push((Column::text(name), Box::new(text)));
        }
    }
    let time = |line: &Line| {
        Unit::Second.format(line.time.value) + &format_margin(&Unit::Second, line.time.value, line.time.interval)
    };
    fields.push((number("time").keep(3), Box::new(time)));
    if predicted.has_any() {
        let expected =
            |line: &Line| predicted.time(line).map(|time| Unit::Second.format(time.value)).unwrap_or_default();
        fields.push((number("predicted").keep(2), Box::new(expected)));
    }
    fields.push((number("GB/s"), Box::new(|line| format!("{:.1}", line.bandwidth.value / 1e9))));
    if lines.iter().any(|line| line.of_ceiling.is_some()) {
        fields.push((number("of ceiling").keep(4), Box::new(move |line| percent(line.of_ceiling))));
    }
    if lines.iter().any(|line| line.of_peak.is_some()) {
        fields.push((number("of peak").keep(2), Box::new(move |line| percent(line.of_peak))));
    }
    if lines.iter().any(|line| of_flat(line, lines).is_some()) {
        let share = lines.to_vec();
        fields.push((number("of flat").keep(4), Box::new(move |line| percent(of_flat(line, &share)))));
    }
    if lines.iter().any(|line| line.host.is_some()) {
        let host = |line: &Line| line.host.map(|host| Unit::Second.format(host)).unwrap_or_default();
        fields.push((number("host").keep(3), Box::new(host)));
    }
    if let Some(peers) = peers {
        let ratio = |line: &Line| against::ratio(line, peers).map(|ratio| format!("{ratio:.3}")).unwrap_or_default();
        fields.push((number("ratio"), Box::new(ratio)));
    }
    fields.push((Column::text("flags").keep(1).below(), Box::new(|line| line.flags.to_string())));
    fields
}

/// The bandwidth of a batch as a share of that of the flat launch beside it.
fn of_flat(line: &Line, lines: &[Line]) -> Option<f64> {
    let alike = |other: &&Line| {
        let (a, b) = (&line.cell, &other.cell);
        b.shape == "flat" && (a.cache, a.launch, &a.plan) == (b.cache, b.launch, &b.plan) && a.bytes == b.bytes
    };
    let flat = lines.iter().find(alike).filter(|_| line.cell.shape.starts_with("batch"))?;
    Some(line.bandwidth.value / flat.bandwidth.value)
}

fn table(lines: &[Line], references: References<'_>) -> String {
    let fields = fields(lines, references);
    let mut table = Table::new(fields.iter().map(|(column, _)| column.clone()).collect());
    lines.iter().for_each(|line| table.row(fields.iter().map(|(_, text)| text(line))));
    table.render(&output::style())
}

fn markdown_table(lines: &[Line], references: References<'_>) -> String {
    let fields = fields(lines, references);
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = row(fields.iter().map(|(column, _)| column.title().to_owned()).collect());
    text += &format!("|{}\n", " --- |".repeat(fields.len()));
    let cells = |line| fields.iter().map(|(_, text)| markdown::escape(&text(line))).collect();
    lines.iter().fold(text, |text, line| text + &row(cells(line)))
}

/// `4 MiB`; in bytes where no power of 1024 divides the size.
fn bytes(bytes: u64) -> String {
    ByteSize(bytes).to_string()
}

fn object(line: &Line, lines: &[Line], (peers, predicted): References<'_>) -> serde_json::Value {
    let cell = &line.cell;
    serde_json::json!({
        "expression": cell.expression,
        "types": cell.types,
        "shape": cell.shape,
        "cache": cell.cache.name(),
        "launch": cell.launch,
        "plan": cell.plan,
        "bytes": cell.bytes,
        "bytes_moved": cell.traffic.total(),
        "seconds": line.time.value,
        "seconds_interval": [line.time.interval.lo, line.time.interval.hi],
        "bandwidth": line.bandwidth.value,
        "predicted": predicted.time(line).map(|time| time.value),
        "predicted_interval": predicted.time(line).map(|time| [time.interval.lo, time.interval.hi]),
        "of_ceiling": line.of_ceiling,
        "of_peak": line.of_peak,
        "of_flat": of_flat(line, lines),
        "host_seconds": line.host,
        "ratio": peers.and_then(|peers| against::ratio(line, peers)),
        "flags": line.flags.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_ranges_and_lists() {
        let parse = |text: &str| parse_sizes(text).unwrap();
        assert_eq!(parse("1MiB..16MiB"), [1 << 20, 4 << 20, 16 << 20]);
        assert_eq!(parse("4MiB, 1MiB,4MiB"), [1 << 20, 4 << 20]);
        assert!(parse_sizes("").is_err() && parse_sizes("2MiB..1MiB").is_err() && parse_sizes("1Mb").is_err());
    }
}
