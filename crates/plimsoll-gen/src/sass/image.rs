//! Validates the structures of a cubin that a driver follows before any code runs, and reads the parameters of its kernels.
//!
//! Layout as in [`super::elf`]; [`super::signature`] reads the attributes of a kernel.

use std::collections::{BTreeMap, BTreeSet};

use super::SassError;
use super::Signature;
use super::elf::{Budget, MAX_CUBIN, half, long, word};

/// NVIDIA's ELF machine number, and section types (System V ABI).
const EM_CUDA: u16 = 190;
const SHT_SYMTAB: u32 = 2;
const SHT_STRTAB: u32 = 3;
const SHT_RELA: u32 = 4;
const SHT_NOBITS: u32 = 8;
const SHT_REL: u32 = 9;
/// Where the header has the version of the ABI and the flags.
const ABI_VERSION: usize = 8;
const FLAGS: usize = 0x30;
/// The section with a kernel's parameters and other constants, without the kernel's name.
const CONSTANTS: &str = ".nv.constant0.";
/// Section indices from here on have special meanings.
const SHN_LORESERVE: u16 = 0xff00;

/// A cubin whose headers, tables and attributes are within the file.
#[derive(Clone, Debug)]
pub struct Image {
    bytes: Vec<u8>,
    signatures: BTreeMap<String, Signature>,
}

pub(super) fn damaged(what: &'static str) -> SassError {
    SassError::NotACubin(what)
}

pub(super) fn ensure(holds: bool, what: &'static str) -> Result<(), SassError> {
    if holds { Ok(()) } else { Err(damaged(what)) }
}

impl Image {
    /// Validates a file. Time and memory depend only on the file's size.
    ///
    /// # Errors
    /// [`SassError::NotACubin`] if something lies outside the file or is inconsistent, or if names or sections overlap so much
    /// that reading them takes more than the file's size suggests; [`SassError::TooLarge`].
    pub fn new(bytes: Vec<u8>) -> Result<Self, SassError> {
        if bytes.len() > MAX_CUBIN {
            return Err(SassError::TooLarge { what: "a cubin", bytes: bytes.len(), limit: MAX_CUBIN });
        }
        let mut budget = Budget::new(&bytes);
        segments(&bytes)?;
        let sections = sections(&bytes, &mut budget)?;
        symbols(&sections, &mut budget)?;
        let mut signatures = BTreeMap::new();
        for section in &sections {
            if let Some(kernel) = section.name.strip_prefix(".text.") {
                let none = || Signature { name: kernel.to_owned(), ..Signature::default() };
                signatures.entry(kernel.to_owned()).or_insert_with(none);
            }
            if let Some(kernel) = section.name.strip_prefix(".nv.info.") {
                budget.spend(section.data.len())?;
                signatures.insert(kernel.to_owned(), Signature::read(kernel, section.data)?);
            }
        }
        // Functions that kernels call have no constants for parameters.
        let constants: BTreeSet<&str> =
            sections.iter().filter_map(|section| section.name.strip_prefix(CONSTANTS)).collect();
        signatures.retain(|name, _| constants.is_empty() || constants.contains(name.as_str()));
        Ok(Self { bytes, signatures })
    }

    /// The file's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of each parameter of a kernel, in order; `None` if there is no such kernel.
    #[must_use]
    pub fn parameters(&self, kernel: &str) -> Option<Vec<u64>> {
        self.signatures.get(kernel).map(Signature::sizes)
    }

    /// What it states about each of its kernels, by name.
    pub fn signatures(&self) -> impl Iterator<Item = &Signature> {
        self.signatures.values()
    }

    /// The compute capability times ten that it is compiled for; `None` if it doesn't say.
    ///
    /// The flags have it in their lowest byte, and from ABI version 8 on (CUDA 13) in the next one (`EF_CUDA_SM` in LLVM's
    /// `BinaryFormat/ELF.h`).
    #[must_use]
    pub fn capability(&self) -> Option<u32> {
        let flags = word(&self.bytes, FLAGS)?;
        let shift = if *self.bytes.get(ABI_VERSION)? >= 8 { 8 } else { 0 };
        Some(flags >> shift & 0xff).filter(|capability| *capability > 0)
    }
}

/// A section whose content is within the file.
struct Section<'a> {
    name: &'a str,
    kind: u32,
    data: &'a [u8],
    size: u64,
    link: usize,
    info: usize,
    /// Bytes per entry, if it is a table.
    entry: u64,
}

/// Checks that the file is a cubin and that its segments are within it.
fn segments(file: &[u8]) -> Result<(), SassError> {
    ensure(file.starts_with(b"\x7fELF\x02\x01"), "it doesn't begin like a 64-bit ELF file")?;
    let read = |at| half(file, at).map(usize::from);
    let (Some(machine), Some(header), Some(size), Some(count), Some(section)) =
        (half(file, 0x12), read(0x34), read(0x36), read(0x38), read(0x3a))
    else {
        return Err(damaged("its header is truncated"));
    };
    ensure(machine == EM_CUDA, "its code is for another machine than NVIDIA's GPUs")?;
    ensure(header == 64 && section == 64 && (count == 0 || size == 56), "its headers have the wrong size")?;
    let table = table(file, 0x20, count * 56).ok_or(damaged("its segment table is truncated"))?;
    for segment in table.chunks_exact(56) {
        let (begin, size) = (long(segment, 8).unwrap_or(u64::MAX), long(segment, 32).unwrap_or(u64::MAX));
        let inside = begin.checked_add(size).is_some_and(|end| end <= file.len() as u64);
        ensure(inside, "a segment extends beyond the file")?;
    }
    Ok(())
}

/// The table of this many bytes whose offset is stored in the header at `place`.
fn table(file: &[u8], place: usize, bytes: usize) -> Option<&[u8]> {
    let at = usize::try_from(long(file, place)?).ok()?;
    if bytes == 0 { Some(&[]) } else { file.get(at..at.checked_add(bytes)?) }
}

/// Reads all sections. Checks their names and links, and that string tables end with a zero byte.
fn sections<'a>(file: &'a [u8], budget: &mut Budget) -> Result<Vec<Section<'a>>, SassError> {
    let (Some(count), Some(names)) = (half(file, 0x3c), half(file, 0x3e)) else {
        return Err(damaged("its header is truncated"));
    };
    let headers = table(file, 0x28, usize::from(count) * 64).ok_or(damaged("its section table is truncated"))?;
    let content = |header: &[u8]| {
        let (begin, size) = (usize::try_from(long(header, 24)?).ok()?, usize::try_from(long(header, 32)?).ok()?);
        if word(header, 4)? == SHT_NOBITS { Some(&[][..]) } else { file.get(begin..begin.checked_add(size)?) }
    };
    let names = headers.chunks_exact(64).nth(names.into()).and_then(content);
    let names = names.ok_or(damaged("its sections have no names"))?;
    let mut found = Vec::with_capacity(count.into());
    for header in headers.chunks_exact(64) {
        let number = |at| word(header, at).unwrap_or(u32::MAX);
        let long = |at| long(header, at).unwrap_or(u64::MAX);
        let (kind, link, info) = (number(4), number(40) as usize, number(44) as usize);
        let data = content(header).ok_or(damaged("a section extends beyond the file"))?;
        let name = budget.text_at(names, number(0) as usize)?.ok_or(damaged("a section has no name"))?;
        ensure(link < count.into(), "a section's link is invalid")?;
        ensure(kind != SHT_STRTAB || data.is_empty() || data.ends_with(&[0]), "a string table isn't terminated")?;
        found.push(Section { name, kind, data, size: long(32), link, info, entry: long(56) });
    }
    Ok(found)
}

/// Checks that symbols have names and sections, and that relocations have symbols and valid offsets.
fn symbols(sections: &[Section<'_>], budget: &mut Budget) -> Result<(), SassError> {
    for section in sections.iter().filter(|section| section.kind == SHT_SYMTAB) {
        ensure(section.entry == 24 && section.data.len().is_multiple_of(24), "its symbol table is truncated")?;
        budget.spend(section.data.len())?;
        let strings = sections[section.link].data;
        for symbol in section.data.chunks_exact(24) {
            let (name, place) = (word(symbol, 0).unwrap_or(u32::MAX), half(symbol, 6).unwrap_or(u16::MAX));
            ensure((name as usize) < strings.len().max(1), "a symbol has no name")?;
            ensure(usize::from(place) < sections.len() || place >= SHN_LORESERVE, "a symbol has no section")?;
        }
    }
    for section in sections.iter().filter(|section| matches!(section.kind, SHT_RELA | SHT_REL)) {
        let size = if section.kind == SHT_RELA { 24 } else { 16 };
        ensure(
            section.entry == size && (section.data.len() as u64).is_multiple_of(size),
            "its relocations are truncated",
        )?;
        budget.spend(section.data.len())?;
        let target = sections.get(section.info).ok_or(damaged("relocations have no section"))?;
        let symbols = sections[section.link].data.len() as u64 / 24;
        for relocation in section.data.chunks_exact(size as usize) {
            let (at, what) = (long(relocation, 0).unwrap_or(u64::MAX), long(relocation, 8).unwrap_or(u64::MAX));
            ensure(at < target.size && (what >> 32) < symbols, "a relocation is invalid")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::elf::OVERLAPS;
    use super::super::elf::tests::{CUBIN, HOLDS_DATA, write_file};
    use super::*;

    #[test]
    fn parameter_sizes_of_kernels_are_read() {
        let image = Image::new(CUBIN.to_vec()).unwrap();
        // As cuobjdump -elf prints them.
        assert_eq!(image.parameters("spills"), Some(vec![8, 8]));
        assert_eq!(image.parameters("shares"), Some(vec![8, 4]));
        assert_eq!(image.parameters("spill"), None);
        assert!(Image::new(HOLDS_DATA.to_vec()).is_ok());
    }

    #[test]
    fn truncated_cubins_are_rejected() {
        for end in 0..CUBIN.len() {
            assert!(Image::new(CUBIN[..end].to_vec()).is_err(), "cut to {end} of {} bytes", CUBIN.len());
        }
    }

    /// Replaces each header field that refers to a location by a value outside the file.
    #[test]
    fn references_beyond_the_file_are_rejected() {
        let table = long(CUBIN, 0x28).unwrap() as usize;
        let count = usize::from(half(CUBIN, 0x3c).unwrap());
        let mut places = vec![0x20, 0x28, 0x3e];
        for section in 1..count {
            let header = table + 64 * section;
            places.push(header + 40);
            // Sections without data in the file (SHT_NOBITS) can't extend beyond it.
            if word(CUBIN, header + 4) != Some(8) {
                places.extend([header, header + 24, header + 32]);
            }
        }
        for place in places {
            let mut cubin = CUBIN.to_vec();
            cubin[place + 1] = 0xff;
            cubin[place] = 0xff;
            assert!(Image::new(cubin).is_err(), "byte {place:#x}");
        }
    }

    /// A file with one section of this name, kind and content, and `headers` headers of it.
    fn write_repeated(name: &str, kind: u32, content: Vec<u8>, headers: usize) -> Vec<u8> {
        let mut sections = vec![(".strtab", 3, vec![0; 24], 0), (name, kind, content, 1)];
        sections.resize(1 + headers, ("", 1, Vec::new(), 0));
        let mut file = write_file(&sections);
        let first = long(&file, 0x28).unwrap() as usize + 2 * 64;
        file[first + 44] = 2; // relocations are of the section itself
        for header in 1..headers {
            file.copy_within(first..first + 64, first + 64 * header);
        }
        file
    }

    #[test]
    fn overlapping_names_and_sections_are_rejected() {
        // Without a limit, a file of the largest size with 65,000 headers takes hours.
        for (name, kind, content) in [
            (".symtab", SHT_SYMTAB, vec![0; 24 * 10_000]),
            (".rel", SHT_REL, vec![0; 16 * 10_000]),
            (".nv.info.kernel", 1, [3, 0x20, 0, 0].repeat(10_000)),
            (&"x".repeat(1 << 20), 1, Vec::new()),
        ] {
            let [once, overlap] = [1, 1000].map(|headers| {
                let file = write_repeated(name, kind, content.clone(), headers);
                Image::new(file).map(drop)
            });
            assert_eq!((once, overlap), (Ok(()), Err(OVERLAPS)), "{name:.20}");
        }
    }

    proptest! {
        #[test]
        fn damaged_cubins_never_cause_a_panic(at in 0..CUBIN.len(), byte: u8, end in 0..CUBIN.len()) {
            let mut cubin = CUBIN.to_vec();
            cubin[at] = byte;
            let _ = Image::new(cubin.clone());
            let _ = Image::new(cubin[..end].to_vec());
        }
    }
}
