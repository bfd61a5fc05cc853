//! Reads a kernel's interface from its SPIR-V module: offset and size of each push constant, and how the block size is specified.
//! Safe for any input.

use std::collections::HashMap;

/// SPIR-V 1.6, section 3: instructions, decorations, storage classes and built-ins that are used here.
const MAGIC: u32 = 0x0723_0203;
const HEADER: usize = 5;
const ENTRY_POINT: u32 = 15;
const TYPE_INT: u32 = 21;
const TYPE_FLOAT: u32 = 22;
const TYPE_STRUCT: u32 = 30;
const TYPE_POINTER: u32 = 32;
const CONSTANT: u32 = 43;
const SPEC_CONSTANT_COMPOSITE: u32 = 51;
const VARIABLE: u32 = 59;
const DECORATE: u32 = 71;
const MEMBER_DECORATE: u32 = 72;
const SPEC_ID: u32 = 1;
const BUILT_IN: u32 = 11;
const OFFSET: u32 = 35;
const PUSH_CONSTANT: u32 = 9;
const WORKGROUP_SIZE: u32 = 25;
const GL_COMPUTE: u32 = 5;
/// `main` and its terminator, as words.
const MAIN: [u32; 2] = [u32::from_le_bytes(*b"main"), 0];

/// The interface of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interface {
    /// Offset and bytes of each parameter.
    pub(crate) parameters: Vec<(u64, u64)>,
    /// Numbers of the specialisation constants.
    pub(crate) constants: Vec<u32>,
    /// Number of the specialisation constant for the threads in x, if the block has 1 thread in y and in z.
    pub(crate) threads: Option<u32>,
}

/// The instructions read so far.
#[derive(Default)]
struct Reader<'m> {
    sizes: HashMap<u32, u64>,
    structs: HashMap<u32, &'m [u32]>,
    pointers: HashMap<u32, u32>,
    offsets: HashMap<(u32, u32), u64>,
    spec_ids: HashMap<u32, u32>,
    ones: Vec<u32>,
    composites: HashMap<u32, &'m [u32]>,
    workgroup: Option<u32>,
    blocks: Vec<u32>,
    has_main: bool,
}

/// Reads the interface of a module's kernel.
///
/// # Errors
/// Why it can't be read, or what this backend doesn't support.
pub(crate) fn read_interface(words: &[u32]) -> Result<Interface, &'static str> {
    if words.first() != Some(&MAGIC) || words.len() < HEADER {
        return Err("it is not SPIR-V");
    }
    let mut reader = Reader::default();
    let mut rest = &words[HEADER..];
    while let Some(first) = rest.first() {
        let length = (first >> 16) as usize;
        if length == 0 {
            return Err("an instruction has no length");
        }
        let (instruction, after) = rest.split_at_checked(length).ok_or("an instruction is cut short")?;
        reader.read_instruction(first & 0xffff, &instruction[1..]);
        rest = after;
    }
    reader.interface()
}

impl<'m> Reader<'m> {
    fn read_instruction(&mut self, code: u32, operands: &'m [u32]) {
        match (code, operands) {
            (ENTRY_POINT, [GL_COMPUTE, _, name @ ..]) => self.has_main |= name.starts_with(&MAIN),
            (TYPE_INT, [id, bits, _]) | (TYPE_FLOAT, [id, bits, ..]) => {
                self.sizes.insert(*id, u64::from(bits / 8));
            }
            (TYPE_STRUCT, [id, members @ ..]) => drop(self.structs.insert(*id, members)),
            (TYPE_POINTER, [id, PUSH_CONSTANT, target]) => drop(self.pointers.insert(*id, *target)),
            (CONSTANT, [_, id, 1]) => self.ones.push(*id),
            (SPEC_CONSTANT_COMPOSITE, [_, id, members @ ..]) => drop(self.composites.insert(*id, members)),
            (VARIABLE, [kind, _, PUSH_CONSTANT, ..]) => self.blocks.push(*kind),
            (DECORATE, [id, SPEC_ID, number]) => drop(self.spec_ids.insert(*id, *number)),
            (DECORATE, [id, BUILT_IN, WORKGROUP_SIZE]) => self.workgroup = Some(*id),
            (MEMBER_DECORATE, [id, member, OFFSET, bytes]) => {
                self.offsets.insert((*id, *member), u64::from(*bytes));
            }
            _ => {}
        }
    }

    fn interface(&self) -> Result<Interface, &'static str> {
        if !self.has_main {
            return Err("it has no compute kernel 'main'");
        }
        let mut constants: Vec<u32> = self.spec_ids.values().copied().collect();
        constants.sort_unstable();
        let threads = self.workgroup.and_then(|id| self.composites.get(&id)).and_then(|size| match size {
            [x, y, z] if self.ones.contains(y) && self.ones.contains(z) => self.spec_ids.get(x).copied(),
            _ => None,
        });
        Ok(Interface { parameters: self.parameters()?, constants, threads })
    }

    fn parameters(&self) -> Result<Vec<(u64, u64)>, &'static str> {
        let block = match self.blocks[..] {
            [] => return Ok(Vec::new()),
            [block] => block,
            _ => return Err("it has several blocks of push constants"),
        };
        let block = self.pointers.get(&block).ok_or("its push constants have no type")?;
        let members = self.structs.get(block).ok_or("its push constants are not a struct")?;
        let parameter = |(member, kind): (u32, &u32)| {
            let offset = *self.offsets.get(&(*block, member)).ok_or("a parameter has no offset")?;
            Ok((offset, *self.sizes.get(kind).ok_or("a parameter is not a number")?))
        };
        (0..).zip(members.iter()).map(parameter).collect()
    }
}

/// Converts a module's bytes to words.
///
/// # Errors
/// If the bytes aren't whole words.
pub(crate) fn words(bytes: &[u8]) -> Result<Vec<u32>, &'static str> {
    let (words, rest) = bytes.as_chunks::<4>();
    if rest.is_empty() {
        Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
    } else {
        Err("it is cut short")
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_gen::Target;
    use plimsoll_gen::kernel::spirv::{Features, code, offsets};

    use super::*;

    const ALL: Features = Features { cycles: true, timer: true, double: true, atomics: true, short_loops: false };

    #[test]
    fn every_kernel_takes_the_parameters_of_its_description() {
        let sets = [ALL, Features { timer: false, ..ALL }, Features { cycles: false, timer: false, ..ALL }];
        let kernels = || plimsoll_probes::sources().iter().flat_map(|source| source.kernels(Target::plain(80)));
        for (kernel, features) in kernels().flat_map(|kernel| sets.map(|features| (kernel.clone(), features))) {
            let Ok(spirv) = code(&kernel, features) else { continue };
            let interface = read_interface(&words(spirv.words).unwrap()).unwrap();
            let (places, _) = offsets(&kernel);
            let sizes = kernel.parameters.iter().map(|parameter| parameter.bytes(&kernel)).chain([4]);
            let stated: Vec<(u64, u64)> = places.into_iter().zip(sizes).collect();
            let nothing = interface.parameters.is_empty() && kernel.parameters.is_empty();
            assert!(nothing || interface.parameters == stated, "{}: {interface:?}, not {stated:?}", kernel.name);
            assert_eq!(interface.threads, Some(0), "{}", kernel.name);
            for (number, _) in &spirv.constants {
                assert!(interface.constants.contains(number), "{} has no constant {number}", kernel.name);
            }
        }
    }

    #[test]
    fn damaged_modules_never_panic() {
        for build in plimsoll_probes::sources().iter().flat_map(|source| source.builds()) {
            let good = words(build.words).unwrap();
            for cut in 0..good.len() {
                let _ = read_interface(&good[..cut]);
            }
            for place in 0..good.len() {
                for bits in [0, 1, u32::MAX, good[place] ^ 1 << 16] {
                    let mut bad = good.clone();
                    bad[place] = bits;
                    let _ = read_interface(&bad);
                }
            }
        }
        assert!(
            read_interface(&[]).is_err() && read_interface(&[MAGIC, 0, 0, 0, 0]).is_err() && words(&[1, 2, 3]).is_err()
        );
    }
}
