//! Reading records that may be truncated, huge, foreign or hostile.
//!
//! A damaged line doesn't affect the others: everything readable is returned, with a list of the damage. A second run in the
//! same file is not read. Gzipped files are unpacked. The reader uses memory in proportion to the (unpacked) file, about 12
//! times its length, and refuses files beyond [`Limits`]; no content can make it use more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use super::{Conditions, FaultRecord, Finding, Member, Record, RunHeader, SCHEMA, unpack};
use crate::series::{Point, Series, SeriesSpec, Value};
use crate::stats::MAX_SAMPLES;

/// Maximum nesting of arrays and objects in a line; records have up to 5 levels. Limited because the JSON parser is recursive
/// and the stack may be small.
const MAX_DEPTH: usize = 16;

/// Limits on the size of a file. (A point takes at most about 30 kB.)
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one line.
    pub line: u64,
    /// Bytes of the file. The unpacked size of a compressed file is also limited to [`super::UNPACKED`].
    pub file: u64,
    /// Lines of the file.
    pub lines: usize,
    /// Number of damaged lines that are listed.
    pub damage: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { line: 4 << 20, file: 512 << 20, lines: 5_000_000, damage: 20 }
    }
}

/// A line that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

/// Why nothing could be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file can't be opened or read.
    #[error("can't read it: {0}")]
    Io(io::Error),
    /// There is no run header.
    #[error("not a plimsoll record: its first line is not a run header{0}")]
    NotARecord(String),
    /// Written by a later version, whose records this version would misread.
    #[error("its schema is version {found}, this plimsoll reads up to {SCHEMA}: use a newer plimsoll")]
    Newer {
        /// The file's schema version.
        found: u32,
    },
    /// Larger than any record.
    #[error("larger than a record can be ({0})")]
    TooLarge(String),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::FileTooLarge => Self::TooLarge(error.to_string()),
            _ => Self::Io(error),
        }
    }
}

/// A run as read back.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its first line.
    pub header: RunHeader,
    /// The place of its device in a fleet, where it was measured as a part of one.
    pub member: Option<Member>,
    /// Its series with all derived figures.
    pub series: Vec<Series>,
    /// Its findings.
    pub findings: Vec<Finding>,
    /// What could not be measured.
    pub faults: Vec<FaultRecord>,
    /// Whether everything requested was tried; `None` where the run was cut off.
    pub end: Option<bool>,
    /// The first few lines that could not be used.
    pub damage: Vec<Damage>,
    /// The total number of such lines.
    pub damaged_lines: usize,
}

/// Reads a record from a file.
///
/// # Errors
/// Where it contains no run at all; other damage is listed in [`Run::damage`].
pub fn read_file(path: &Path) -> Result<Run, ReadError> {
    let file = File::open(path)?;
    let limits = Limits::default();
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
    }
    if metadata.len() > limits.file {
        return Err(ReadError::TooLarge(format!("{} bytes", metadata.len())));
    }
    read(BufReader::new(file), limits)
}

/// Reads a record from any reader, gzipped or not. At the size limit reading ends with an error, as pipes and devices may be
/// endless.
///
/// # Errors
/// Where it contains no run at all; other damage is listed in [`Run::damage`].
pub fn read(file: impl BufRead, limits: Limits) -> Result<Run, ReadError> {
    let mut lines = unpack(file, limits.file)?;
    let mut line = Vec::new();
    let (header, first) = read_header(&mut lines, &mut line, limits)?;
    let mut builder = Builder::new(header, limits);
    for number in first + 1.. {
        if number > limits.lines {
            builder.damage(number, format!("the lines after {} are not read", limits.lines));
            break;
        }
        let next = match next_line(&mut lines, &mut line, limits) {
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData) => {
                builder.damage(number, format!("{error}; the rest is not read"));
                break;
            }
            next => next?,
        };
        match next {
            Line::End => break,
            Line::TooLong => builder.damage(number, format!("longer than {} bytes", limits.line)),
            Line::Whole { terminated } if !line.trim_ascii().is_empty() => {
                if is_too_deep(&line) {
                    builder.damage(number, format!("nested deeper than {MAX_DEPTH} levels"));
                    continue;
                }
                match serde_json::from_slice::<Record>(&line) {
                    Ok(record) => builder.add(number, record),
                    Err(_) if is_run_header(&line) => builder.stop_at_second_run(number),
                    Err(_) if !terminated => builder.damage(number, "cut off".into()),
                    Err(error) => builder.damage(number, error.to_string()),
                }
            }
            Line::Whole { .. } => {}
        }
        if builder.is_stopped {
            break;
        }
    }
    Ok(builder.finish())
}

impl Run {
    /// A run from records in memory, such as a [`super::Sink`] collected; `None` where the first is not a run header.
    /// Inconsistent records are listed as damage, as when reading a file.
    #[must_use]
    pub fn from_records(records: impl IntoIterator<Item = Record>) -> Option<Self> {
        let mut records = records.into_iter();
        let Some(Record::Run(header)) = records.next() else { return None };
        let mut builder = Builder::new(header, Limits::default());
        for (record, line) in records.zip(2..) {
            builder.add(line, record);
        }
        Some(builder.finish())
    }
}

enum Line {
    End,
    TooLong,
    Whole { terminated: bool },
}

/// Reads one line into `line`; skips the rest of a line that is too long.
fn next_line(lines: &mut impl BufRead, line: &mut Vec<u8>, limits: Limits) -> io::Result<Line> {
    line.clear();
    let read = lines.by_ref().take(limits.line).read_until(b'\n', line)?;
    if read == 0 {
        return Ok(Line::End);
    }
    if line.last() == Some(&b'\n') {
        return Ok(Line::Whole { terminated: true });
    }
    if (read as u64) < limits.line {
        return Ok(Line::Whole { terminated: false });
    }
    line.clear();
    lines.skip_until(b'\n')?;
    Ok(Line::TooLong)
}

/// Reads the header; also returns its line number, from 1. An editor may have put a byte order mark or empty lines before it.
fn read_header(lines: &mut impl BufRead, line: &mut Vec<u8>, limits: Limits) -> Result<(RunHeader, usize), ReadError> {
    for number in 1..=limits.lines {
        match next_line(lines, line, limits)? {
            Line::End => break,
            Line::TooLong => return Err(ReadError::NotARecord(format!(" (longer than {} bytes)", limits.line))),
            Line::Whole { .. } => {}
        }
        let text = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        if !text.trim_ascii().is_empty() {
            return Ok((parse_header(text)?, number));
        }
    }
    Err(ReadError::NotARecord(" (it is empty)".into()))
}

/// Whether a line's arrays and objects are nested deeper than [`MAX_DEPTH`].
fn is_too_deep(line: &[u8]) -> bool {
    let (mut levels, mut is_text, mut is_escaped) = (0_usize, false, false);
    for byte in line {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => levels += 1,
            b']' | b'}' if !is_text => levels = levels.saturating_sub(1),
            _ => {}
        }
        if levels > MAX_DEPTH {
            return true;
        }
    }
    false
}

/// True for a run header, even one that this version can't read.
fn is_run_header(line: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Tag<'l> {
        #[serde(borrow)]
        kind: std::borrow::Cow<'l, str>,
    }
    serde_json::from_slice::<Tag<'_>>(line).is_ok_and(|tag| tag.kind == "run")
}

fn parse_header(line: &[u8]) -> Result<RunHeader, ReadError> {
    let not_a_record = |why: String| ReadError::NotARecord(why);
    if is_too_deep(line) {
        return Err(not_a_record(format!(" (nested deeper than {MAX_DEPTH} levels)")));
    }
    let value: serde_json::Value = serde_json::from_slice(line).map_err(|error| not_a_record(format!(" ({error})")))?;
    if value.get("kind").and_then(|kind| kind.as_str()) != Some("run") {
        return Err(not_a_record(String::new()));
    }
    let schema = value.get("schema").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if schema > u64::from(SCHEMA) {
        return Err(ReadError::Newer { found: u32::try_from(schema).unwrap_or(u32::MAX) });
    }
    let has_conditions = value.get("conditions").is_some();
    match serde_json::from_value(value) {
        Ok(Record::Run(header)) if has_conditions => Ok(header),
        Ok(Record::Run(header)) => {
            let conditions = Conditions::from_command(&header.argv, header.devices.len());
            Ok(RunHeader { conditions, ..header })
        }
        Ok(_) => Err(not_a_record(String::new())),
        Err(error) => Err(not_a_record(format!(" ({error})"))),
    }
}

struct Builder {
    run: Run,
    limits: Limits,
    series: Vec<(SeriesSpec, Vec<Point>)>,
    /// Index in `series` by series id.
    places: BTreeMap<u32, usize>,
    /// Ids of invalid or ambiguous series: their later points are damage.
    refused: BTreeSet<u32>,
    /// A second run began: nothing further is read.
    is_stopped: bool,
}

impl Builder {
    fn new(header: RunHeader, limits: Limits) -> Self {
        let run = Run {
            header,
            member: None,
            series: vec![],
            findings: vec![],
            faults: vec![],
            end: None,
            damage: vec![],
            damaged_lines: 0,
        };
        Self { run, limits, series: vec![], places: BTreeMap::new(), refused: BTreeSet::new(), is_stopped: false }
    }

    fn damage(&mut self, line: usize, what: String) {
        self.run.damaged_lines += 1;
        if self.run.damage.len() < self.limits.damage {
            self.run.damage.push(Damage { line, what });
        }
    }

    fn stop_at_second_run(&mut self, line: usize) {
        self.damage(line, "a second run begins here; the rest is not read".into());
        self.is_stopped = true;
    }

    fn refuse_series(&mut self, line: usize, series: u32, what: String) {
        self.places.remove(&series);
        self.refused.insert(series);
        self.damage(line, what);
    }

    fn add(&mut self, line: usize, record: Record) {
        if self.is_stopped {
            return;
        }
        let devices = self.run.header.devices.len();
        let is_known = |device: u32| (device as usize) < devices;
        match record {
            Record::Series(spec) if !is_known(spec.device) => {
                self.refuse_series(line, spec.id, "a series of an unknown device".into());
            }
            Record::Series(spec) if self.places.contains_key(&spec.id) || self.refused.contains(&spec.id) => {
                self.refuse_series(line, spec.id, format!("series {} begins twice", spec.id));
            }
            Record::Series(mut spec) => {
                // Older trace records say so only in their header.
                spec.trace |= self.run.header.conditions.trace;
                self.places.insert(spec.id, self.series.len());
                self.series.push((spec, vec![]));
            }
            Record::Point(point) => match self.point_error(&point) {
                Some(what) => self.damage(line, what),
                None => {
                    let place = self.places[&point.series];
                    self.series[place].1.push(point);
                }
            },
            Record::Finding(finding) if !is_known(finding.device) => {
                self.damage(line, "a finding of an unknown device".into());
            }
            Record::Finding(finding) if !finding.is_sound() => {
                self.damage(line, "a finding outside its own interval, or with impossible numbers".into());
            }
            Record::Finding(finding) => self.run.findings.push(finding),
            Record::Fault(fault) if !is_known(fault.device) && fault.unopened.is_empty() => {
                self.damage(line, "a fault of an unknown device".into())
            }
            Record::Fault(fault) => self.run.faults.push(fault),
            Record::Member(member) => self.run.member = Some(member),
            Record::End { complete } => self.run.end = Some(complete),
            Record::Run(_) => self.stop_at_second_run(line),
            Record::Unknown => {}
        }
    }

    /// What is wrong with a point, if anything.
    fn point_error(&self, point: &Point) -> Option<String> {
        if self.refused.contains(&point.series) {
            return Some(format!("a point of series {}, which is invalid or ambiguous", point.series));
        }
        let Some(&place) = self.places.get(&point.series) else {
            return Some(format!("a point of series {}, which the record doesn't define", point.series));
        };
        let finite = point.at.iter().all(|value| !matches!(value, Value::Number(number) if !number.is_finite()));
        if let Some(wrong) = self.series[place].0.count_error(&point.at) {
            Some(wrong)
        } else if point.samples.is_empty() || point.samples.len() > MAX_SAMPLES {
            Some(format!("a point with {} samples", point.samples.len()))
        } else if point.k == 0 || !point.tick.is_finite() || point.tick <= 0.0 || !finite {
            Some("a point with impossible numbers".into())
        } else {
            None
        }
    }

    fn finish(mut self) -> Run {
        self.run.series = self.series.into_iter().map(|(spec, points)| Series::new(spec, points)).collect();
        self.run
    }
}
