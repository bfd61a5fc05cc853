//! Reading files that may be gzipped, up to a size limit. Gzip is recognized by the first byte.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

/// The name of the record file in a run's folder.
pub const FILE: &str = "run.jsonl";
/// The same, compressed.
const COMPRESSED: &str = "run.jsonl.gz";
/// Maximum unpacked size of a compressed file, bytes, so that a small file can't use all memory.
pub const UNPACKED: u64 = 128 << 20;
/// The first byte of gzip data, which no text begins with.
const GZIP: u8 = 0x1f;

/// The path of the record in a run's folder: `run.jsonl`, or `run.jsonl.gz` where only that exists.
#[must_use]
pub fn path_in(folder: &Path) -> PathBuf {
    let (plain, compressed) = (folder.join(FILE), folder.join(COMPRESSED));
    if compressed.symlink_metadata().is_ok() && plain.symlink_metadata().is_err() { compressed } else { plain }
}

/// Reads a file as text, gzipped or not.
///
/// # Errors
/// [`ErrorKind::FileTooLarge`] above `limit` bytes (or [`UNPACKED`]); [`ErrorKind::UnexpectedEof`] where gzip data is cut off;
/// [`ErrorKind::InvalidData`] where it is damaged or not text.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    unpack(BufReader::new(File::open(path)?), limit)?.read_to_string(&mut text)?;
    Ok(text)
}

/// A reader of a file's bytes, unpacked where they are gzipped. Reading more than `limit` bytes (for gzip data, or more than
/// [`UNPACKED`]) fails with [`ErrorKind::FileTooLarge`].
pub fn unpack<R: BufRead>(mut file: R, limit: u64) -> io::Result<BufReader<Unpacked<R>>> {
    let unpacked = if file.fill_buf()?.first() == Some(&GZIP) {
        let limit = limit.min(UNPACKED);
        Unpacked { source: Source::Gzip(MultiGzDecoder::new(file)), limit, left: limit }
    } else {
        Unpacked { source: Source::Plain(file), limit, left: limit }
    };
    Ok(BufReader::new(unpacked))
}

/// The reader that [`unpack`] returns.
#[derive(Debug)]
pub struct Unpacked<R> {
    source: Source<R>,
    limit: u64,
    left: u64,
}

#[derive(Debug)]
enum Source<R> {
    Plain(R),
    Gzip(MultiGzDecoder<R>),
}

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.source {
            Source::Plain(file) => file.read(buffer)?,
            Source::Gzip(file) => file.read(buffer).map_err(explain)?,
        };
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => return Err(too_large(self.limit, matches!(self.source, Source::Gzip(_)))),
        }
        Ok(read)
    }
}

fn too_large(limit: u64, compressed: bool) -> io::Error {
    let when = if compressed { " when unpacked" } else { "" };
    io::Error::new(ErrorKind::FileTooLarge, format!("more than {limit} bytes{when}"))
}

/// Rewords the decoder's errors; leaves the file system's unchanged.
fn explain(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::UnexpectedEof => io::Error::new(ErrorKind::UnexpectedEof, "the gzip data are cut off"),
        ErrorKind::InvalidInput | ErrorKind::InvalidData => {
            io::Error::new(ErrorKind::InvalidData, format!("the gzip data are damaged: {error}"))
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// The readable bytes, and the kind of the error after them.
    fn read(bytes: &[u8], limit: u64) -> (Vec<u8>, Option<ErrorKind>) {
        let mut all = Vec::new();
        let error = unpack(bytes, limit).and_then(|mut file| file.read_to_end(&mut all)).err();
        (all, error.map(|error| error.kind()))
    }

    #[test]
    fn gzip_is_recognized_by_content_and_its_members_are_concatenated() {
        let text = b"one\ntwo\n".repeat(1000);
        assert_eq!(read(&text, 1 << 20), (text.clone(), None));
        assert_eq!(read(&gzip(&text), 1 << 20), (text.clone(), None));
        let both = [gzip(&text), gzip(b"three")].concat();
        assert_eq!(read(&both, 1 << 20), ([&text[..], b"three"].concat(), None));
        assert_eq!(read(b"", 1 << 20), (vec![], None));
    }

    #[test]
    fn truncated_or_damaged_gzip_gives_the_readable_part_and_then_an_error() {
        let text: Vec<u8> = (0..20_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let whole = gzip(&text);
        let (read_before, error) = read(&whole[..whole.len() / 2], 1 << 20);
        assert!(!read_before.is_empty() && text.starts_with(&read_before));
        assert_eq!(error, Some(ErrorKind::UnexpectedEof));
        let mut damaged = whole;
        let last = damaged.len() - 6;
        damaged[last] ^= 1;
        assert_eq!(read(&damaged, 1 << 20).1, Some(ErrorKind::InvalidData), "the checksum is wrong");
        assert_eq!(read(b"\x1fno gzip at all", 1 << 20).1, Some(ErrorKind::InvalidData));
    }

    #[test]
    fn plain_and_compressed_files_beyond_the_limit_are_refused() {
        let zeros = vec![0; 1 << 20];
        for bytes in [zeros.clone(), gzip(&zeros)] {
            assert_eq!(read(&bytes, 1 << 20).1, None);
            assert_eq!(read(&bytes, (1 << 20) - 1).1, Some(ErrorKind::FileTooLarge));
        }
    }

    #[test]
    fn a_decompression_bomb_is_refused_early() {
        // Each member unpacks to 1 MiB of zeros and takes 1 kB: only the first 128 of 2,000 are unpacked.
        let bomb = gzip(&vec![0; 1 << 20]).repeat(2000);
        let mut file = unpack(&*bomb, u64::MAX).unwrap();
        let error = io::copy(&mut file, &mut io::sink()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "more than 134217728 bytes when unpacked");
    }
}
