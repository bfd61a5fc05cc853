//! What an executable needs of the system that runs it: shared libraries and versions of glibc, read from its ELF headers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, Result};
use object::Endianness;
use object::elf;
use object::read::elf::{Dyn, ElfFile64, FileHeader, Sym};

/// glibc's own library, and the prefix of its symbol versions.
const LIBC: &str = "libc.so.6";
const GLIBC: &str = "GLIBC_";
/// How many symbols a message names.
const NAMED: usize = 5;

/// A version of glibc, such as 2.28 or 2.2.5.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Glibc(Vec<u32>);

impl Glibc {
    /// Reads `2.28`.
    pub fn parse(text: &str) -> Option<Self> {
        text.split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u32>>>().map(Self)
    }
}

impl fmt::Display for Glibc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(u32::to_string).collect::<Vec<_>>().join("."))
    }
}

/// What an executable needs when it is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Shared libraries (`DT_NEEDED`), in the file's order.
    pub libraries: Vec<String>,
    /// Versions of glibc's symbols, without `GLIBC_`, each with the symbols that have it.
    pub versions: BTreeMap<String, BTreeSet<String>>,
}

impl Needs {
    /// Reads a 64-bit ELF file.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let file = ElfFile64::<Endianness>::parse(bytes).context("not a 64-bit ELF file")?;
        let endian = file.elf_header().endian()?;
        let sections = file.elf_section_table();
        let dynamic = file.elf_dynamic_table()?;
        let mut needs = Self::default();
        for entry in dynamic.dynamics().iter().filter(|entry| entry.d_tag(endian) == elf::DT_NEEDED) {
            needs.libraries.push(text(entry.string(endian, *dynamic.strings())?));
        }
        if let Some((mut libraries, strings)) = sections.gnu_verneed(endian, bytes)? {
            let strings = sections.strings(endian, bytes, strings)?;
            while let Some((_, mut versions)) = libraries.next()? {
                while let Some(version) = versions.next()? {
                    needs.add(version.name(endian, strings)?);
                }
            }
        }
        needs.add_symbols(&file, bytes)?;
        Ok(needs)
    }

    /// Adds the imported symbols to their versions.
    fn add_symbols(&mut self, file: &ElfFile64<'_>, bytes: &[u8]) -> Result<()> {
        let endian = file.elf_header().endian()?;
        let Some(versions) = file.elf_section_table().versions(endian, bytes)? else { return Ok(()) };
        let symbols = file.elf_dynamic_symbol_table();
        for (index, symbol) in symbols.enumerate().filter(|(_, symbol)| symbol.is_undefined(endian)) {
            let version = versions.version(versions.version_index(endian, index).index())?;
            if let Some(known) = version.and_then(|version| self.add(version.name())) {
                known.insert(text(symbol.name(endian, symbols.strings())?));
            }
        }
        Ok(())
    }

    /// Adds a version, if it is one of glibc's, and returns its symbols.
    fn add(&mut self, version: &[u8]) -> Option<&mut BTreeSet<String>> {
        Some(self.versions.entry(text(version).strip_prefix(GLIBC)?.to_owned()).or_default())
    }

    /// The newest version of glibc that it needs.
    pub fn glibc(&self) -> Option<Glibc> {
        self.versions.keys().filter_map(|version| Glibc::parse(version)).max()
    }

    /// Why it can't run on every system that has `glibc` and the libraries `allowed`; empty if it can.
    pub fn faults(&self, glibc: &Glibc, allowed: &[&str]) -> Vec<String> {
        let other = self.libraries.iter().filter(|library| !allowed.contains(&library.as_str()));
        let mut faults: Vec<String> = other.map(|library| format!("it needs {library}")).collect();
        if !self.libraries.iter().any(|library| library == LIBC) {
            faults.push(format!("it doesn't need {LIBC}: a static executable can't open a GPU's driver"));
        }
        // A version that isn't a number is private to one build of glibc, or marks a feature of the newest loaders.
        let newer = |version: &str| Glibc::parse(version).is_none_or(|version| version > *glibc);
        for (version, symbols) in self.versions.iter().filter(|(version, _)| newer(version)) {
            let names: Vec<&str> = symbols.iter().take(NAMED).map(String::as_str).collect();
            let more = if symbols.len() > NAMED { ", …" } else { "" };
            faults.push(format!("it needs glibc {version} for {}{more}", names.join(", ")));
        }
        faults
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIBRARIES: [&str; 2] = [LIBC, "libm.so.6"];

    fn needs(libraries: &[&str], versions: &[(&str, &[&str])]) -> Needs {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let versions = versions.iter().map(|(version, symbols)| ((*version).to_owned(), owned(symbols)));
        Needs { libraries: libraries.iter().map(|name| (*name).to_owned()).collect(), versions: versions.collect() }
    }

    fn glibc(text: &str) -> Glibc {
        Glibc::parse(text).unwrap()
    }

    #[test]
    fn versions_are_ordered_as_numbers() {
        let mut versions = ["2.28", "2.9", "2.2.5", "2.3", "2.100", "2.3.4"].map(glibc);
        versions.sort();
        assert_eq!(versions.map(|version| version.to_string()), ["2.2.5", "2.3", "2.3.4", "2.9", "2.28", "2.100"]);
        for bad in ["", "PRIVATE", "ABI_DT_RELR", "2.", "2.x"] {
            assert_eq!(Glibc::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_executable_that_needs_no_more_than_allowed_has_no_faults() {
        let good = needs(&LIBRARIES, &[("2.2.5", &["read"]), ("2.28", &["fcntl64"])]);
        assert_eq!(good.faults(&glibc("2.28"), &LIBRARIES), Vec::<String>::new());
        assert_eq!(good.glibc(), Some(glibc("2.28")));
    }

    #[test]
    fn a_newer_symbol_another_library_and_a_static_executable_are_faults() {
        for (bad, why) in [
            (needs(&LIBRARIES, &[("2.29", &["exp", "log"])]), "glibc 2.29 for exp, log"),
            (needs(&LIBRARIES, &[("2.100", &[])]), "2.100"),
            (needs(&LIBRARIES, &[("PRIVATE", &["__libc_early_init"])]), "PRIVATE"),
            (needs(&LIBRARIES, &[("ABI_DT_RELR", &[])]), "ABI_DT_RELR"),
            (needs(&[LIBC, "libgcc_s.so.1"], &[]), "libgcc_s.so.1"),
            (needs(&[], &[]), "static"),
        ] {
            let faults = bad.faults(&glibc("2.28"), &LIBRARIES);
            assert!(faults.len() == 1 && faults[0].contains(why), "{why}: {faults:?}");
        }
        let many = needs(&LIBRARIES, &[("2.34", &["a", "b", "c", "d", "e", "f"])]);
        assert_eq!(many.faults(&glibc("2.28"), &LIBRARIES), ["it needs glibc 2.34 for a, b, c, d, e, …"]);
    }

    /// Replaces a name in the table of the dynamic symbols' names by another of the same length.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn replace(bytes: &mut [u8], old: &str, new: &str) {
        use object::{Object, ObjectSection};
        assert_eq!(old.len(), new.len());
        let file = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
        let (start, size) = file.section_by_name(".dynstr").unwrap().file_range().unwrap();
        let names = &mut bytes[start as usize..(start + size) as usize];
        let places: Vec<usize> = (0..names.len()).filter(|at| names[*at..].starts_with(old.as_bytes())).collect();
        places.into_iter().for_each(|at| names[at..at + new.len()].copy_from_slice(new.as_bytes()));
    }

    /// Reads this test's own file, then the same file changed to need another library and a version of glibc that doesn't exist yet.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn what_a_real_executable_needs_is_read() {
        let mut bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let found = Needs::read(&bytes).unwrap();
        let libraries: Vec<&str> = found.libraries.iter().map(String::as_str).collect();
        let newest = found.glibc().unwrap();
        assert!(libraries.contains(&LIBC) && newest >= glibc("2.17"), "{found:?}");
        assert!(found.versions.values().flatten().any(|symbol| symbol == "memcpy"), "{found:?}");
        assert!(found.faults(&newest, &libraries).iter().all(|fault| fault.contains("ABI_")), "{found:?}");
        assert_ne!(found.faults(&glibc("2.1"), &libraries), Vec::<String>::new());

        let newest = newest.to_string();
        let unborn = "9".repeat(newest.len() - 2);
        replace(&mut bytes, &format!("GLIBC_{newest}\0"), &format!("GLIBC_2.{unborn}\0"));
        replace(&mut bytes, "libgcc_s.so.1\0", "libother.so.1\0");
        let changed = Needs::read(&bytes).unwrap();
        assert_eq!(changed.glibc(), Glibc::parse(&format!("2.{unborn}")));
        let faults = changed.faults(&found.glibc().unwrap(), &libraries);
        assert!(faults.iter().any(|fault| fault.contains(&format!("glibc 2.{unborn} for"))), "{faults:?}");
        assert_eq!(found.libraries != changed.libraries, faults.contains(&"it needs libother.so.1".to_owned()));
    }

    #[test]
    fn damaged_and_other_files_are_errors() {
        assert!(Needs::read(b"#!/bin/sh").is_err());
        assert!(Needs::read(b"\x7fELF\x02\x01\x01").is_err());
        let cubin = std::fs::read(crate::test::root().join("crates/plimsoll-gen/tests/data/resources.sm_80.cubin"));
        let faults = Needs::read(&cubin.unwrap()).map(|needs| needs.faults(&glibc("2.28"), &LIBRARIES));
        assert!(faults.is_err() || !faults.unwrap().is_empty());
    }
}
