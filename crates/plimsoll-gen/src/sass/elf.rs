//! Registers and local memory of each kernel, from the cubin: an ELF file whose section `.nv.info` holds them.
//!
//! Layout: ELF-64, little endian (System V ABI). `.nv.info` is a row of attributes, each a format byte, an attribute byte
//! and two bytes that are the value or, for format 4, the length of what follows. NVIDIA doesn't document it; the names
//! are those that nvdisasm prints (`EIATTR_REGCOUNT`), and every figure here is checked against its output in the tests.

use super::SassError;

/// Largest cubin that is read, bytes.
pub const MAX_CUBIN: usize = 256 << 20;
/// NVIDIA's number among the machines of ELF files (System V ABI, `EM_CUDA`).
const EM_CUDA: u16 = 190;
/// Value format: two bytes of length, then the value.
const EIFMT_SVAL: u8 = 4;
/// Bytes of a symbol, and the type of those that are variables (System V ABI, `Elf64_Sym`).
const SYMBOL: usize = 24;
const STT_OBJECT: u8 = 1;
const EIATTR_FRAME_SIZE: u8 = 0x11;
const EIATTR_REGCOUNT: u8 = 0x2f;

/// What one function needs of a multiprocessor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// The symbol.
    pub name: String,
    /// Registers per thread.
    pub registers: u32,
    /// Local memory per thread that its frame takes, bytes: spills and indexed arrays.
    pub local_bytes: u32,
    /// Static shared memory per block, bytes.
    pub shared_bytes: u64,
}

/// Reads each function's resources, in the file's order.
///
/// # Errors
/// [`SassError::NotACubin`] and [`SassError::TooLarge`].
pub fn resources(cubin: &[u8]) -> Result<Vec<Resources>, SassError> {
    let (sections, symbols) = read(cubin)?;
    let strings = |link: u32| sections.get(link as usize).map_or(&[][..], |s| s.data);
    let name_of = |index: u32| {
        let symbol = symbols.data.chunks_exact(SYMBOL).nth(index as usize)?;
        text_at(strings(symbols.link), word(symbol, 0)? as usize)
    };
    let mut found: Vec<Resources> = Vec::new();
    for info in sections.iter().filter(|s| s.name == ".nv.info") {
        for (attribute, value) in attributes(info.data) {
            let (Some(symbol), Some(number)) = (word(value, 0), word(value, 4)) else { continue };
            let Some(name) = name_of(symbol) else { continue };
            let at = found.iter().position(|known| known.name == name).unwrap_or_else(|| {
                found.push(Resources { name: name.to_owned(), ..Resources::default() });
                found.len() - 1
            });
            match attribute {
                EIATTR_REGCOUNT => found[at].registers = number,
                _ => found[at].local_bytes = number,
            }
        }
    }
    for function in &mut found {
        let shared = sections.iter().find(|s| s.name.strip_prefix(".nv.shared.") == Some(&function.name));
        function.shared_bytes = shared.map_or(0, |s| s.size);
    }
    Ok(found)
}

/// The variables that lie in the module itself, each with its section; a section none of whose variables has a name by itself.
/// Every launch of a kernel from such a module takes longer: 0.12 µs on an H200.
///
/// Constants of single kernels (`.nv.constant0.NAME` their parameters, `.nv.constant2.NAME` their numbers) don't count.
///
/// # Errors
/// [`SassError::NotACubin`] and [`SassError::TooLarge`].
pub fn module_data(cubin: &[u8]) -> Result<Vec<String>, SassError> {
    let (sections, symbols) = read(cubin)?;
    let strings = sections.get(symbols.link as usize).map_or(&[][..], |s| s.data);
    let mut found = Vec::new();
    for (index, section) in sections.iter().enumerate().filter(|(_, s)| s.size > 0 && of_module(s.name)) {
        let within = symbols
            .data
            .chunks_exact(SYMBOL)
            .filter(|symbol| symbol[4] & 0xf == STT_OBJECT && half(symbol, 6).map(usize::from) == Some(index));
        let named = within.filter_map(|symbol| text_at(strings, word(symbol, 0)? as usize));
        let before = found.len();
        found.extend(named.map(|name| format!("{name} in {}", section.name)));
        if found.len() == before {
            found.push(section.name.to_owned());
        }
    }
    Ok(found)
}

/// Whether a section holds data of the whole module: variables, constants, and the addresses of both.
fn of_module(section: &str) -> bool {
    matches!(section, ".nv.constant3" | ".nv.constant4" | ".nv.global" | ".nv.global.init")
}

#[derive(Clone, Copy)]
struct Section<'a> {
    name: &'a str,
    data: &'a [u8],
    size: u64,
    link: u32,
}

/// Its sections, and which of them holds the symbols.
fn read(cubin: &[u8]) -> Result<(Vec<Section<'_>>, Section<'_>), SassError> {
    if cubin.len() > MAX_CUBIN {
        return Err(SassError::TooLarge { what: "a cubin", bytes: cubin.len(), limit: MAX_CUBIN });
    }
    let sections = sections(cubin)?;
    let symbols = sections.iter().find(|s| s.name == ".symtab").copied();
    Ok((sections, symbols.ok_or(SassError::NotACubin("no symbols"))?))
}

fn sections(file: &[u8]) -> Result<Vec<Section<'_>>, SassError> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return Err(SassError::NotACubin("it doesn't begin like an ELF file of 64 bits"));
    }
    if half(file, 0x12) != Some(EM_CUDA) {
        return Err(SassError::NotACubin("it holds code for another machine than NVIDIA's GPUs"));
    }
    let broken = SassError::NotACubin("its section table is damaged");
    let table = long(file, 0x28).and_then(|at| usize::try_from(at).ok()).and_then(|at| file.get(at..));
    let (Some(table), Some(count), Some(names)) = (table, half(file, 0x3c), half(file, 0x3e)) else {
        return Err(broken);
    };
    let headers: Vec<&[u8]> = table.chunks_exact(64).take(count.into()).collect();
    let read = |header: &[u8]| {
        let (kind, begin, size) = (word(header, 4)?, long(header, 24)?, long(header, 32)?);
        const SHT_NOBITS: u32 = 8;
        let range = usize::try_from(begin).ok()?..usize::try_from(begin.checked_add(size)?).ok()?;
        let data = if kind == SHT_NOBITS { &[] } else { file.get(range)? };
        Some((word(header, 0)?, Section { name: "", data, size, link: word(header, 40)? }))
    };
    let read: Option<Vec<(u32, Section<'_>)>> = headers.iter().map(|header| read(header)).collect();
    let read = read.ok_or(broken)?;
    let names = read.get(usize::from(names)).map_or(&[][..], |(_, section)| section.data);
    let named = |(name, section)| Section { name: text_at(names, name).unwrap_or_default(), ..section };
    Ok(read.into_iter().map(|(name, section)| named((name as usize, section))).collect())
}

/// The attributes of interest with their values.
fn attributes(mut data: &[u8]) -> Vec<(u8, &[u8])> {
    let mut found = Vec::new();
    while let (Some([format, attribute, ..]), Some(length)) = (data.get(..4), half(data, 2)) {
        let length = if *format == EIFMT_SVAL { usize::from(length) } else { 0 };
        let Some(value) = data.get(4..4 + length) else { break };
        if *format == EIFMT_SVAL && matches!(*attribute, EIATTR_REGCOUNT | EIATTR_FRAME_SIZE) {
            found.push((*attribute, value));
        }
        data = &data[4 + length..];
    }
    found
}

fn half(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(data.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(data.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn long(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(data.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// The zero-terminated text that begins at `at`.
fn text_at(data: &[u8], at: usize) -> Option<&str> {
    let rest = data.get(at..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two kernels for sm_80: `spills` indexes a local array, `shares` has 1,024 bytes of shared memory.
    const CUBIN: &[u8] = include_bytes!("../../tests/data/resources.sm_80.cubin");
    /// One kernel for sm_80 that reads `__device__ unsigned held = 7;`.
    const HOLDS_DATA: &[u8] = include_bytes!("../../tests/data/module_data.sm_80.cubin");

    #[test]
    fn registers_frames_and_shared_memory_are_those_that_nvdisasm_prints() {
        let mut found = resources(CUBIN).unwrap();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let expected = [("shares", 10, 0, 1024), ("spills", 32, 256, 0)];
        let found: Vec<_> =
            found.iter().map(|r| (r.name.as_str(), r.registers, r.local_bytes, r.shared_bytes)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn variables_of_a_module_are_told_by_name() {
        assert_eq!(module_data(CUBIN).unwrap(), [""; 0]);
        assert_eq!(module_data(HOLDS_DATA).unwrap(), [".nv.constant4", "held in .nv.global.init"]);
    }

    #[test]
    fn what_is_no_cubin_is_refused() {
        for file in [&b""[..], b"hello", b"\x7fELF\x02\x01", &CUBIN[..100]] {
            assert!(matches!(resources(file), Err(SassError::NotACubin(_))));
        }
    }

    #[test]
    fn a_program_for_another_machine_is_no_cubin() {
        let mut program = CUBIN.to_vec();
        program[0x12] = 62;
        assert!(resources(&program).unwrap_err().to_string().contains("another machine"));
    }

    proptest! {
        #[test]
        fn no_damage_makes_it_panic(at in 0..CUBIN.len(), byte: u8, end in 0..CUBIN.len()) {
            let mut cubin = CUBIN.to_vec();
            cubin[at] = byte;
            let _ = resources(&cubin);
            let _ = resources(&cubin[..end]);
            let _ = module_data(&cubin);
            let _ = module_data(&cubin[..end]);
        }
    }
}
