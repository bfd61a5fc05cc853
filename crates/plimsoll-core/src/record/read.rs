//! Reading records that may be torn, huge, foreign or hostile.
//!
//! A damaged line costs itself only: what could be read is returned with a list of what could not. A second run in one
//! file is not read. Gzipped files are unpacked. The reader takes memory in proportion to the (unpacked) file, some 12 times its
//! length, and refuses files beyond [`Limits`]; nothing that a file says makes it take more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use super::{Conditions, FaultRecord, Finding, Record, RunHeader, SCHEMA, unpack};
use crate::series::{Point, Series, SeriesSpec, Value};
use crate::stats::MAX_SAMPLES;

/// Most levels of arrays and objects in a line: records have up to 5. Lines are read by recursion, on whatever stack there is.
const DEEPEST: usize = 16;

/// Sizes beyond which a file is not read: a point takes some 30 kB at the most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one line.
    pub line: u64,
    /// Bytes of the file. What a compressed one unpacks to is held to [`super::UNPACKED`] too.
    pub file: u64,
    /// Lines of the file.
    pub lines: usize,
    /// Damaged lines that are listed.
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
    /// From 1.
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
    /// No line says what run this is.
    #[error("not a plimsoll record: its first line is no run header{0}")]
    NotARecord(String),
    /// Written by a version whose records this one would misread.
    #[error("its schema is version {found}, this plimsoll reads up to {SCHEMA}: use a newer plimsoll")]
    Newer {
        /// The version found.
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
    /// Its series with all that was derived.
    pub series: Vec<Series>,
    /// Its findings.
    pub findings: Vec<Finding>,
    /// What could not be measured.
    pub faults: Vec<FaultRecord>,
    /// `None` where the run was cut off; else whether everything asked for was tried.
    pub end: Option<bool>,
    /// Lines that could not be used, the first few.
    pub damage: Vec<Damage>,
    /// How many there were in all.
    pub damaged_lines: usize,
}

/// Reads a file.
///
/// # Errors
/// Where it holds no run at all; damage beyond that is in [`Run::damage`].
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

/// Reads lines from anywhere, gzipped or not. Pipes and devices have no length of their own: reading ends with an error at the limit.
///
/// # Errors
/// Where they hold no run at all; damage beyond that is in [`Run::damage`].
pub fn read(file: impl BufRead, limits: Limits) -> Result<Run, ReadError> {
    let mut lines = unpack(file, limits.file)?;
    let mut line = Vec::new();
    let (header, first) = first_line(&mut lines, &mut line, limits)?;
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
                    builder.damage(number, format!("nested deeper than {DEEPEST} levels"));
                    continue;
                }
                match serde_json::from_slice::<Record>(&line) {
                    Ok(record) => builder.take(number, record),
                    Err(_) if begins_a_run(&line) => builder.another(number),
                    Err(_) if !terminated => builder.damage(number, "cut off".into()),
                    Err(error) => builder.damage(number, error.to_string()),
                }
            }
            Line::Whole { .. } => {}
        }
        if builder.foreign {
            break;
        }
    }
    Ok(builder.finish())
}

impl Run {
    /// A run from records in memory, as a [`super::Sink`] collected them; `None` where the first is no run header. What
    /// does not fit together is listed as damage, as when read from a file.
    #[must_use]
    pub fn from_records(records: impl IntoIterator<Item = Record>) -> Option<Self> {
        let mut records = records.into_iter();
        let Some(Record::Run(header)) = records.next() else { return None };
        let mut builder = Builder::new(header, Limits::default());
        for (record, line) in records.zip(2..) {
            builder.take(line, record);
        }
        Some(builder.finish())
    }
}

enum Line {
    End,
    TooLong,
    Whole { terminated: bool },
}

/// Reads one line into `line`, skipping over the rest of one that is too long.
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

/// The header and its line, from 1. Editors may have put a byte order mark or empty lines before it.
fn first_line(lines: &mut impl BufRead, line: &mut Vec<u8>, limits: Limits) -> Result<(RunHeader, usize), ReadError> {
    for number in 1..=limits.lines {
        match next_line(lines, line, limits)? {
            Line::End => break,
            Line::TooLong => return Err(ReadError::NotARecord(format!(" (longer than {} bytes)", limits.line))),
            Line::Whole { .. } => {}
        }
        let text = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        if !text.trim_ascii().is_empty() {
            return Ok((header(text)?, number));
        }
    }
    Err(ReadError::NotARecord(" (it is empty)".into()))
}

/// Whether arrays and objects of a line are nested deeper than in any record.
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
        if levels > DEEPEST {
            return true;
        }
    }
    false
}

/// True for the header of a run, even one that this version can't read.
fn begins_a_run(line: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Tag<'l> {
        #[serde(borrow)]
        kind: std::borrow::Cow<'l, str>,
    }
    serde_json::from_slice::<Tag<'_>>(line).is_ok_and(|tag| tag.kind == "run")
}

fn header(line: &[u8]) -> Result<RunHeader, ReadError> {
    let none = |why: String| ReadError::NotARecord(why);
    if is_too_deep(line) {
        return Err(none(format!(" (nested deeper than {DEEPEST} levels)")));
    }
    let value: serde_json::Value = serde_json::from_slice(line).map_err(|error| none(format!(" ({error})")))?;
    if value.get("kind").and_then(|kind| kind.as_str()) != Some("run") {
        return Err(none(String::new()));
    }
    let schema = value.get("schema").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if schema > u64::from(SCHEMA) {
        return Err(ReadError::Newer { found: u32::try_from(schema).unwrap_or(u32::MAX) });
    }
    let tells_conditions = value.get("conditions").is_some();
    match serde_json::from_value(value) {
        Ok(Record::Run(header)) if tells_conditions => Ok(header),
        Ok(Record::Run(header)) => {
            let conditions = Conditions::of_command(&header.argv, header.devices.len());
            Ok(RunHeader { conditions, ..header })
        }
        Ok(_) => Err(none(String::new())),
        Err(error) => Err(none(format!(" ({error})"))),
    }
}

struct Builder {
    run: Run,
    limits: Limits,
    series: Vec<(SeriesSpec, Vec<Point>)>,
    places: BTreeMap<u32, usize>,
    /// Series that can't be told apart from others: their later points belong to nobody.
    refused: BTreeSet<u32>,
    /// Another run began: what follows is not this one's.
    foreign: bool,
}

impl Builder {
    fn new(header: RunHeader, limits: Limits) -> Self {
        let run = Run {
            header,
            series: vec![],
            findings: vec![],
            faults: vec![],
            end: None,
            damage: vec![],
            damaged_lines: 0,
        };
        Self { run, limits, series: vec![], places: BTreeMap::new(), refused: BTreeSet::new(), foreign: false }
    }

    fn damage(&mut self, line: usize, what: String) {
        self.run.damaged_lines += 1;
        if self.run.damage.len() < self.limits.damage {
            self.run.damage.push(Damage { line, what });
        }
    }

    fn another(&mut self, line: usize) {
        self.damage(line, "a second run begins here; the rest is not read".into());
        self.foreign = true;
    }

    fn refuse(&mut self, line: usize, series: u32, what: String) {
        self.places.remove(&series);
        self.refused.insert(series);
        self.damage(line, what);
    }

    fn take(&mut self, line: usize, record: Record) {
        if self.foreign {
            return;
        }
        let devices = self.run.header.devices.len();
        let known = |device: u32| (device as usize) < devices;
        match record {
            Record::Series(spec) if !known(spec.device) => {
                self.refuse(line, spec.id, "a series of no device".into());
            }
            Record::Series(spec) if self.places.contains_key(&spec.id) || self.refused.contains(&spec.id) => {
                self.refuse(line, spec.id, format!("series {} begins twice", spec.id));
            }
            Record::Series(mut spec) => {
                // The first records of single calls say so in their header only.
                spec.trace |= self.run.header.conditions.trace;
                self.places.insert(spec.id, self.series.len());
                self.series.push((spec, vec![]));
            }
            Record::Point(point) => match self.fault_of(&point) {
                Some(what) => self.damage(line, what),
                None => {
                    let place = self.places[&point.series];
                    self.series[place].1.push(point);
                }
            },
            Record::Finding(finding) if !known(finding.device) => {
                self.damage(line, "a finding of no device".into());
            }
            Record::Finding(finding) if !finding.is_sound() => {
                self.damage(line, "a finding outside its own interval, or beyond all measure".into());
            }
            Record::Finding(finding) => self.run.findings.push(finding),
            Record::Fault(fault) if !known(fault.device) && fault.unopened.is_empty() => {
                self.damage(line, "a fault of no device".into())
            }
            Record::Fault(fault) => self.run.faults.push(fault),
            Record::End { complete } => self.run.end = Some(complete),
            Record::Run(_) => self.another(line),
            Record::Unknown => {}
        }
    }

    fn fault_of(&self, point: &Point) -> Option<String> {
        if self.refused.contains(&point.series) {
            return Some(format!("a point of series {}, which can't be told from another", point.series));
        }
        let Some(&place) = self.places.get(&point.series) else {
            return Some(format!("a point of series {}, which never began", point.series));
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
