//! Reads registers and local memory of each kernel from section `.nv.info` of a cubin, which is an ELF file.
//!
//! Layout: ELF-64, little endian (System V ABI). `.nv.info` is a sequence of attributes, each a format byte, an attribute byte and
//! two bytes that are the value or, for format 4, the length of the value that follows. NVIDIA doesn't document it; the names are
//! those that nvdisasm prints (`EIATTR_REGCOUNT`), and the tests check the results against its output.

use std::collections::HashMap;

use super::SassError;

/// Largest cubin that is read, bytes.
pub const MAX_CUBIN: usize = 256 << 20;
/// NVIDIA's ELF machine number (System V ABI, `EM_CUDA`).
const EM_CUDA: u16 = 190;
/// Value format: two bytes of length, then the value.
const EIFMT_SVAL: u8 = 4;
/// Bytes of a symbol, and the symbol type of variables (System V ABI, `Elf64_Sym`).
const SYMBOL: usize = 24;
const STT_OBJECT: u8 = 1;
/// Section types without bytes in the file, and the index meaning that the real one is stored elsewhere (System V ABI).
const SHT_NULL: u32 = 0;
const SHT_NOBITS: u32 = 8;
const SHN_XINDEX: u16 = 0xffff;
const EIATTR_FRAME_SIZE: u8 = 0x11;
const EIATTR_REGCOUNT: u8 = 0x2f;

/// Limit on the total size of names and sections, as a multiple of the file's size.
const MOST_OVERLAP: usize = 2;
pub(super) const OVERLAPS: SassError = SassError::NotACubin("its names or sections overlap");

/// SM resources that one function needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// The symbol.
    pub name: String,
    /// Registers per thread.
    pub registers: u32,
    /// Size of its stack frame in local memory per thread, bytes: spills and indexed arrays.
    pub local_bytes: u32,
    /// Static shared memory per block, bytes.
    pub shared_bytes: u64,
}

/// Reads each function's resources, in the file's order. Time and memory depend only on the file's size.
///
/// # Errors
/// [`SassError::NotACubin`] and [`SassError::TooLarge`].
pub fn resources(cubin: &[u8]) -> Result<Vec<Resources>, SassError> {
    let mut file = Cubin::read(cubin)?;
    let mut functions: Vec<Resources> = Vec::new();
    let mut by_symbol: HashMap<u32, Option<usize>> = HashMap::new();
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    let information: Vec<Section<'_>> = file.sections.iter().filter(|s| s.name == ".nv.info").copied().collect();
    file.budget.spend(information.iter().map(|section| section.data.len()).sum())?;
    for (attribute, value) in information.iter().flat_map(|section| attributes(section.data)) {
        let (Some(symbol), Some(number)) = (word(value, 0), word(value, 4)) else { continue };
        let place = match by_symbol.get(&symbol) {
            Some(place) => *place,
            None => {
                let place = file.symbol_name(symbol as usize)?.map(|name| {
                    *by_name.entry(name).or_insert_with(|| {
                        functions.push(Resources { name: name.to_owned(), ..Resources::default() });
                        functions.len() - 1
                    })
                });
                by_symbol.insert(symbol, place);
                place
            }
        };
        let Some(function) = place.and_then(|place| functions.get_mut(place)) else { continue };
        match attribute {
            EIATTR_REGCOUNT => function.registers = number,
            _ => function.local_bytes = number,
        }
    }
    let mut shared: HashMap<&str, u64> = HashMap::new();
    for section in &file.sections {
        if let Some(function) = section.name.strip_prefix(".nv.shared.") {
            shared.entry(function).or_insert(section.size);
        }
    }
    for function in &mut functions {
        function.shared_bytes = shared.get(function.name.as_str()).copied().unwrap_or(0);
    }
    Ok(functions)
}

/// Lists the module's variables, each with its section; for a section without named variables, the section alone. Every launch of a
/// kernel from a module with variables takes longer: 0.12 µs on an H200.
///
/// Constants of single kernels (`.nv.constant0.NAME` for parameters, `.nv.constant2.NAME` for literals) don't count.
///
/// # Errors
/// [`SassError::NotACubin`] and [`SassError::TooLarge`].
pub fn module_data(cubin: &[u8]) -> Result<Vec<String>, SassError> {
    let mut file = Cubin::read(cubin)?;
    let mut variables: HashMap<usize, Vec<usize>> = HashMap::new();
    for (place, symbol) in file.symbols.data.chunks_exact(SYMBOL).enumerate() {
        if symbol[4] & 0xf == STT_OBJECT {
            let section = half(symbol, 6).map_or(0, usize::from);
            variables.entry(section).or_default().push(place);
        }
    }
    let mut found = Vec::new();
    for index in 0..file.sections.len() {
        let section = file.sections[index];
        if section.size == 0 || !is_module_data(section.name) {
            continue;
        }
        let before = found.len();
        for variable in variables.get(&index).into_iter().flatten() {
            if let Some(name) = file.symbol_name(*variable)? {
                found.push(format!("{name} in {}", section.name));
            }
        }
        if found.len() == before {
            found.push(section.name.to_owned());
        }
    }
    Ok(found)
}

/// Whether a section holds data of the whole module: variables, constants, and the addresses of both.
fn is_module_data(section: &str) -> bool {
    matches!(section, ".nv.constant3" | ".nv.constant4" | ".nv.global" | ".nv.global.init")
}

#[derive(Clone, Copy)]
struct Section<'a> {
    name: &'a str,
    data: &'a [u8],
    size: u64,
    link: u32,
}

/// An ELF file with its sections and symbols.
struct Cubin<'a> {
    sections: Vec<Section<'a>>,
    /// The symbol table.
    symbols: Section<'a>,
    /// The string table of the symbols' names.
    strings: &'a [u8],
    budget: Budget,
}

impl<'a> Cubin<'a> {
    fn read(file: &'a [u8]) -> Result<Self, SassError> {
        if file.len() > MAX_CUBIN {
            return Err(SassError::TooLarge { what: "a cubin", bytes: file.len(), limit: MAX_CUBIN });
        }
        let mut budget = Budget::new(file);
        let sections = sections(file, &mut budget)?;
        let symbols = sections.iter().find(|s| s.name == ".symtab").copied();
        let symbols = symbols.ok_or(SassError::NotACubin("no symbols"))?;
        let strings = sections.get(symbols.link as usize).map_or(&[][..], |s| s.data);
        Ok(Self { sections, symbols, strings, budget })
    }

    fn symbol_name(&mut self, index: usize) -> Result<Option<&'a str>, SassError> {
        let symbol = self.symbols.data.chunks_exact(SYMBOL).nth(index);
        let Some(at) = symbol.and_then(|symbol| word(symbol, 0)) else { return Ok(None) };
        self.budget.text_at(self.strings, at as usize)
    }
}

/// Bytes of sections and names that may still be read. Sections and names may overlap, so without this limit a small file could
/// take unlimited time. Compilers' files hardly overlap.
pub(super) struct Budget(usize);

impl Budget {
    pub(super) fn new(file: &[u8]) -> Self {
        Self(file.len().saturating_mul(MOST_OVERLAP))
    }

    /// Charges for reading this many bytes.
    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), SassError> {
        self.0 = self.0.checked_sub(bytes).ok_or(OVERLAPS)?;
        Ok(())
    }

    /// The zero-terminated text that begins at `at`, charged; `None` if there is none.
    pub(super) fn text_at<'a>(&mut self, data: &'a [u8], at: usize) -> Result<Option<&'a str>, SassError> {
        let Some(rest) = data.get(at..) else { return Ok(None) };
        let end = rest.iter().take(self.0).position(|byte| *byte == 0);
        let Some(end) = end else {
            // Either it has no end, or it exceeds the budget.
            self.spend(rest.len())?;
            return Ok(None);
        };
        self.spend(end)?;
        Ok(std::str::from_utf8(&rest[..end]).ok())
    }
}

fn sections<'a>(file: &'a [u8], budget: &mut Budget) -> Result<Vec<Section<'a>>, SassError> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return Err(SassError::NotACubin("it doesn't begin like a 64-bit ELF file"));
    }
    if half(file, 0x12) != Some(EM_CUDA) {
        return Err(SassError::NotACubin("its code is for another machine than NVIDIA's GPUs"));
    }
    let broken = SassError::NotACubin("its section table is damaged");
    let table = long(file, 0x28).and_then(|at| usize::try_from(at).ok()).and_then(|at| file.get(at..));
    let (Some(table), Some(count), Some(names)) = (table, half(file, 0x3c), half(file, 0x3e)) else {
        return Err(broken);
    };
    // Counts that don't fit into 16 bits are in the first section's header (System V ABI, 'ELF Header').
    let count = match count {
        0 => long(table, 32).and_then(|count| usize::try_from(count).ok()).unwrap_or(0),
        count => count.into(),
    };
    let names = if names == SHN_XINDEX { word(table, 40).unwrap_or(0) } else { names.into() };
    let read = |header: &[u8]| {
        let (kind, begin, size) = (word(header, 4)?, long(header, 24)?, long(header, 32)?);
        let range = usize::try_from(begin).ok()?..usize::try_from(begin.checked_add(size)?).ok()?;
        // These have no data in the file; the first section's header may contain counts instead.
        let data = if matches!(kind, SHT_NULL | SHT_NOBITS) { &[] } else { file.get(range)? };
        Some((word(header, 0)?, Section { name: "", data, size, link: word(header, 40)? }))
    };
    let read: Option<Vec<(u32, Section<'a>)>> = table.chunks_exact(64).take(count).map(read).collect();
    let read = read.ok_or(broken)?;
    let names = read.get(names as usize).map_or(&[][..], |(_, section)| section.data);
    let named = |(name, section): (u32, Section<'a>)| {
        Ok(Section { name: budget.text_at(names, name as usize)?.unwrap_or_default(), ..section })
    };
    read.into_iter().map(named).collect()
}

/// The relevant attributes with their values.
fn attributes(mut data: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let next = move || {
        let ([format, attribute, ..], length) = (data.get(..4)?, half(data, 2)?) else { return None };
        let length = if *format == EIFMT_SVAL { usize::from(length) } else { 0 };
        let value = data.get(4..4 + length)?;
        data = &data[4 + length..];
        Some((*format, *attribute, value))
    };
    let relevant = |(format, attribute, value): (u8, u8, _)| {
        let known = matches!(attribute, EIATTR_REGCOUNT | EIATTR_FRAME_SIZE);
        (format == EIFMT_SVAL && known).then_some((attribute, value))
    };
    std::iter::from_fn(next).filter_map(relevant)
}

pub(super) fn half(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(data.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

pub(super) fn word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(data.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

pub(super) fn long(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(data.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two kernels for sm_80: `spills` indexes a local array, `shares` has 1,024 bytes of shared memory.
    pub(in super::super) const CUBIN: &[u8] = include_bytes!("../../tests/data/resources.sm_80.cubin");
    /// One kernel for sm_80 that reads `__device__ unsigned held = 7;`.
    pub(in super::super) const HOLDS_DATA: &[u8] = include_bytes!("../../tests/data/module_data.sm_80.cubin");

    #[test]
    fn resources_match_the_output_of_nvdisasm() {
        let mut found = resources(CUBIN).unwrap();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let expected = [("shares", 10, 0, 1024), ("spills", 32, 256, 0)];
        let found: Vec<_> =
            found.iter().map(|r| (r.name.as_str(), r.registers, r.local_bytes, r.shared_bytes)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn module_variables_are_listed_by_name() {
        assert_eq!(module_data(CUBIN).unwrap(), [""; 0]);
        assert_eq!(module_data(HOLDS_DATA).unwrap(), [".nv.constant4", "held in .nv.global.init"]);
    }

    #[test]
    fn files_that_are_not_cubins_are_rejected() {
        for file in [&b""[..], b"hello", b"\x7fELF\x02\x01", &CUBIN[..100]] {
            assert!(matches!(resources(file), Err(SassError::NotACubin(_))));
        }
    }

    #[test]
    fn programs_for_other_machines_are_rejected() {
        let mut program = CUBIN.to_vec();
        program[0x12] = 62;
        assert!(resources(&program).unwrap_err().to_string().contains("another machine"));
    }

    /// A section header: offset of its name, kind, offset and size of its data, and its link.
    fn header(name: usize, kind: u32, (begin, size): (usize, usize), link: u32) -> Vec<u8> {
        let mut header = [(name as u32).to_le_bytes(), kind.to_le_bytes()].concat();
        for value in [0, 0, begin as u64, size as u64] {
            header.extend(value.to_le_bytes());
        }
        header.extend(link.to_le_bytes());
        header.resize(56, 0);
        // Bytes of an entry, for tables of symbols and relocations.
        let entry: u64 = if kind == 9 { 16 } else { SYMBOL as u64 };
        header.extend(entry.to_le_bytes());
        header
    }

    /// A file of these sections: name, kind, data, link. With more than 65,279 sections, the counts are in the first header.
    pub(in super::super) fn write_file(sections: &[(&str, u32, Vec<u8>, u32)]) -> Vec<u8> {
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[0x12..0x14].copy_from_slice(&EM_CUDA.to_le_bytes());
        for place in [0x34, 0x3a] {
            file[place] = 64; // bytes of the file's header and of a section's
        }
        let (mut names, mut headers) = (vec![0], Vec::new());
        for (name, kind, data, link) in sections {
            headers.extend(header(names.len(), *kind, (file.len(), data.len()), *link));
            names.extend(name.bytes().chain([0]));
            file.extend(data);
        }
        headers.extend(header(0, 3, (file.len(), names.len()), 0));
        file.extend(names);
        let count = sections.len() + 2;
        let small = u16::try_from(count).is_ok_and(|count| count < 0xff00);
        let first = header(0, SHT_NULL, (0, if small { 0 } else { count }), (count - 1) as u32);
        let table = file.len() as u64;
        file[0x28..0x30].copy_from_slice(&table.to_le_bytes());
        let ends = if small { [count as u16, count as u16 - 1] } else { [0, SHN_XINDEX] };
        file[0x3c..0x3e].copy_from_slice(&ends[0].to_le_bytes());
        file[0x3e..0x40].copy_from_slice(&ends[1].to_le_bytes());
        [file, first, headers].concat()
    }

    /// A cubin with `functions` functions, each with its own name, registers and shared memory.
    fn cubin_of(functions: usize) -> Vec<u8> {
        let (mut strings, mut symbols, mut information) = (vec![0], vec![0; SYMBOL], Vec::new());
        for function in 0..functions {
            let mut symbol = (strings.len() as u32).to_le_bytes().to_vec();
            symbol.resize(SYMBOL, 0);
            symbols.extend(symbol);
            strings.extend(format!("function_{function}\0").bytes());
            information.extend([EIFMT_SVAL, EIATTR_REGCOUNT, 8, 0]);
            information.extend((function as u32 + 1).to_le_bytes());
            information.extend((function as u32 % 200 + 8).to_le_bytes());
        }
        let shared = (0..functions).map(|function| format!(".nv.shared.function_{function}"));
        let shared: Vec<String> = shared.collect();
        let mut sections =
            vec![(".strtab", 3, strings, 0), (".symtab", 2, symbols, 1), (".nv.info", 1, information, 0)];
        sections.extend(shared.iter().map(|name| (name.as_str(), 1, vec![0; 4], 0)));
        write_file(&sections)
    }

    #[test]
    fn all_of_100_000_functions_are_found() {
        let found = resources(&cubin_of(100_000)).unwrap();
        assert_eq!(found.len(), 100_000);
        let last = Resources { name: "function_99999".into(), registers: 207, local_bytes: 0, shared_bytes: 4 };
        assert_eq!(found.last(), Some(&last));
    }

    #[test]
    fn reading_time_is_linear_in_the_number_of_functions() {
        let [small, large] = [5_000, 50_000].map(cubin_of);
        let time = |cubin: &[u8]| {
            let run = || {
                let start = std::time::Instant::now();
                let found = (resources(cubin).unwrap().len(), module_data(cubin).unwrap().len());
                (found, start.elapsed())
            };
            (0..5).map(|_| run().1).min().unwrap()
        };
        let (small, large) = (time(&small), time(&large));
        assert!(large < 40 * small, "ten times as many functions took {large:?} instead of {small:?}");
    }

    #[test]
    fn overlapping_names_and_sections_are_rejected() {
        // A thousand symbols whose names are suffixes of one long name; a thousand sections with the same attributes.
        let long = [vec![0], vec![b'x'; 1 << 20], vec![0]].concat();
        let (mut symbols, mut information) = (vec![0; SYMBOL], Vec::new());
        for symbol in 1..1000_u32 {
            symbols.extend([symbol.to_le_bytes().to_vec(), vec![0; SYMBOL - 4]].concat());
            information.extend([[EIFMT_SVAL, EIATTR_REGCOUNT, 8, 0], symbol.to_le_bytes(), [9, 0, 0, 0]].concat());
        }
        let cubin = write_file(&[(".strtab", 3, long, 0), (".symtab", 2, symbols, 1), (".nv.info", 1, information, 0)]);
        assert_eq!(resources(&cubin), Err(OVERLAPS));
        let mut cubin = cubin_of(1000);
        let table = long_at(&cubin, 0x28);
        let information = cubin[table + 3 * 64..table + 4 * 64].to_vec();
        for section in 4..1000 {
            cubin[table + section * 64..][..64].copy_from_slice(&information);
        }
        assert_eq!(resources(&cubin), Err(OVERLAPS));
    }

    fn long_at(cubin: &[u8], at: usize) -> usize {
        long(cubin, at).unwrap().try_into().unwrap()
    }

    proptest! {
        #[test]
        fn damaged_cubins_never_cause_a_panic(at in 0..CUBIN.len(), byte: u8, end in 0..CUBIN.len()) {
            let mut cubin = CUBIN.to_vec();
            cubin[at] = byte;
            let _ = resources(&cubin);
            let _ = resources(&cubin[..end]);
            let _ = module_data(&cubin);
            let _ = module_data(&cubin[..end]);
        }
    }
}
