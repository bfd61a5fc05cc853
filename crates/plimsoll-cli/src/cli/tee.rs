//! The destinations of a run's records: the file, at once; memory, for the tables at the end; and the progress bar. If the file
//! can't be written, the run gets the error once and memory keeps everything, so that a full disk loses no figure.

use std::io;

use plimsoll::core::Fault;
use plimsoll::core::flag::Flag;
use plimsoll::core::record::{Member, Progress, Record, Sink, Writer};

use super::progress::Bar;

/// The sink of `measure`.
pub(crate) struct Tee {
    writer: Option<Writer>,
    bar: Bar,
    records: Vec<Record>,
    points_written: usize,
    refused: Option<String>,
    /// Written after the header.
    member: Option<Member>,
}

impl Tee {
    /// Without a writer, nothing is kept on disk.
    pub fn new(writer: Option<Writer>, bar: Bar) -> Self {
        Self { writer, bar, records: vec![], points_written: 0, refused: None, member: None }
    }

    /// Writes the place of the run's device in a fleet after the header.
    pub fn with_member(self, member: Option<Member>) -> Self {
        Self { member, ..self }
    }

    /// Everything measured, written or not.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Points written to the file.
    pub fn points_written(&self) -> usize {
        self.points_written
    }

    /// Why a record could not be written to the file, if so.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Points measured.
    pub fn points(&self) -> usize {
        self.records.iter().filter(|record| matches!(record, Record::Point(_))).count()
    }

    /// True if a kernel's result was wrong.
    pub fn has_wrong_result(&self) -> bool {
        let is_wrong =
            |record: &Record| matches!(record, Record::Point(point) if point.flags.contains(Flag::VerifyFail));
        self.records.iter().any(is_wrong)
    }

    /// Takes the bar off the screen.
    pub fn finish(&mut self) {
        self.bar.finish();
    }
}

impl Sink for Tee {
    fn write(&mut self, record: &Record) -> Result<(), Fault> {
        self.write_one(record)?;
        match (record, self.member.take()) {
            (Record::Run(_), Some(member)) => self.write_one(&Record::Member(member)),
            (_, member) => {
                self.member = member;
                Ok(())
            }
        }
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        self.bar.show(progress);
    }
}

impl Tee {
    fn write_one(&mut self, record: &Record) -> Result<(), Fault> {
        self.records.push(record.clone());
        if self.refused.is_some() {
            return Ok(());
        }
        let Some(writer) = &mut self.writer else { return Ok(()) };
        match writer.write(record) {
            Ok(()) => {
                self.points_written += usize::from(matches!(record, Record::Point(_)));
                Ok(())
            }
            Err(fault) => {
                let why = match &fault {
                    Fault::Sink(error) => error.to_string(),
                    other => other.to_string(),
                };
                self.refused = Some(why.clone());
                Err(Fault::Sink(io::Error::other(why)))
            }
        }
    }
}
