//! Writing records so that, whatever ends the run, at most the current line is lost.
//!
//! Each line is one `write` of one buffer, so a killed process leaves whole lines and at most one partial line at the end.
//! Where a write fails half-way (a full disk), the partial line is truncated.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::{Record, Sink};
use crate::Fault;

/// A file that can be truncated. A trait so that full disks can be tested.
pub trait RecordFile: Write {
    /// Truncates the file to `length` bytes; later writes continue there.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
}

impl RecordFile for File {
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        // Opened for appending, so the next write goes to the new end.
        self.set_len(length)
    }
}

/// Writes records as JSON lines.
#[derive(Debug)]
pub struct Writer<F = File> {
    file: F,
    length: u64,
    line: Vec<u8>,
}

impl Writer<File> {
    /// Creates a new file; never overwrites an existing one.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self::new(OpenOptions::new().append(true).create_new(true).open(path)?))
    }
}

impl<F: RecordFile> Writer<F> {
    /// Writes to an empty file.
    pub fn new(file: F) -> Self {
        Self { file, length: 0, line: Vec::new() }
    }

    /// Bytes written in whole lines.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }
}

impl<F: RecordFile> Sink for Writer<F> {
    fn write(&mut self, record: &Record) -> Result<(), Fault> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, record).map_err(|error| Fault::Sink(error.into()))?;
        self.line.push(b'\n');
        if let Err(error) = self.file.write_all(&self.line) {
            // If even this fails, the reader skips the partial line.
            let _ = self.file.truncate(self.length);
            return Err(Fault::Sink(error));
        }
        self.length += self.line.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with limited space.
    struct Disk {
        bytes: Vec<u8>,
        capacity: usize,
    }

    impl Write for Disk {
        fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
            let n = buffer.len().min(self.capacity - self.bytes.len());
            if n == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.bytes.extend_from_slice(&buffer[..n]);
            Ok(n)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl RecordFile for Disk {
        fn truncate(&mut self, length: u64) -> io::Result<()> {
            self.bytes.truncate(length as usize);
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_leaves_only_whole_lines_and_writing_can_resume() {
        let end = Record::End { complete: true };
        let line = serde_json::to_string(&end).unwrap().len() + 1;
        let mut writer = Writer::new(Disk { bytes: vec![], capacity: 2 * line + 5 });
        writer.write(&end).unwrap();
        writer.write(&end).unwrap();
        assert!(matches!(writer.write(&end), Err(Fault::Sink(_))));
        assert_eq!(writer.file.bytes.len(), 2 * line);
        writer.file.capacity = 3 * line;
        writer.write(&end).unwrap();
        assert_eq!(writer.file.bytes.iter().filter(|&&b| b == b'\n').count(), 3);
    }
}
