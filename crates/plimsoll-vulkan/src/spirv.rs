//! Reads of a SPIR-V module what a kernel takes: offset and size of each member of its push constants, and how its block's size is
//! given. Safe for any words.

use std::collections::HashMap;

/// SPIR-V 1.6, section 3: instructions, decorations, storage classes and built-ins that matter here.
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
/// `main` and its end, as words.
const MAIN: [u32; 2] = [u32::from_le_bytes(*b"main"), 0];

/// What a module says of its kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interface {
    /// Offset and bytes of each parameter.
    pub(crate) parameters: Vec<(u64, u64)>,
    /// The specialisation constants' numbers.
    pub(crate) constants: Vec<u32>,
    /// The specialisation constant that is the number of threads in x; there is one of them in y and in z.
    pub(crate) threads: Option<u32>,
}

/// What was read so far.
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

/// What a module says of its kernel.
///
/// # Errors
/// Why it can't be read, or what of it this backend doesn't take.
pub(crate) fn read(words: &[u32]) -> Result<Interface, &'static str> {
    if words.first() != Some(&MAGIC) || words.len() < HEADER {
        return Err("it is no SPIR-V");
    }
    let mut reader = Reader::default();
    let mut rest = &words[HEADER..];
    while let Some(first) = rest.first() {
        let length = (first >> 16) as usize;
        if length == 0 {
            return Err("an instruction has no length");
        }
        let (instruction, after) = rest.split_at_checked(length).ok_or("an instruction is cut short")?;
        reader.take(first & 0xffff, &instruction[1..]);
        rest = after;
    }
    reader.interface()
}

impl<'m> Reader<'m> {
    fn take(&mut self, code: u32, operands: &'m [u32]) {
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
            (MEMBER_DECORATE, [of, member, OFFSET, bytes]) => {
                self.offsets.insert((*of, *member), u64::from(*bytes));
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
        let members = self.structs.get(block).ok_or("its push constants are no struct")?;
        let parameter = |(member, kind): (u32, &u32)| {
            let offset = *self.offsets.get(&(*block, member)).ok_or("a parameter has no offset")?;
            Ok((offset, *self.sizes.get(kind).ok_or("a parameter is no number")?))
        };
        (0..).zip(members.iter()).map(parameter).collect()
    }
}

/// The words of a module's bytes.
///
/// # Errors
/// Where they aren't whole words.
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
    fn every_kernel_takes_what_its_description_states() {
        let sets = [ALL, Features { timer: false, ..ALL }, Features { cycles: false, timer: false, ..ALL }];
        let kernels = || plimsoll_probes::sources().iter().flat_map(|source| source.kernels(Target::plain(80)));
        for (kernel, features) in kernels().flat_map(|kernel| sets.map(|features| (kernel.clone(), features))) {
            let Ok(spirv) = code(&kernel, features) else { continue };
            let told = read(&words(spirv.words).unwrap()).unwrap();
            let (places, _) = offsets(&kernel);
            let sizes = kernel.parameters.iter().map(|parameter| parameter.bytes(&kernel)).chain([4]);
            let stated: Vec<(u64, u64)> = places.into_iter().zip(sizes).collect();
            let nothing = told.parameters.is_empty() && kernel.parameters.is_empty();
            assert!(nothing || told.parameters == stated, "{}: {told:?}, not {stated:?}", kernel.name);
            assert_eq!(told.threads, Some(0), "{}", kernel.name);
            for (number, _) in &spirv.constants {
                assert!(told.constants.contains(number), "{} has no constant {number}", kernel.name);
            }
        }
    }

    #[test]
    fn damaged_modules_are_read_without_harm() {
        for build in plimsoll_probes::sources().iter().flat_map(|source| source.builds()) {
            let good = words(build.words).unwrap();
            for cut in 0..good.len() {
                let _ = read(&good[..cut]);
            }
            for place in 0..good.len() {
                for bits in [0, 1, u32::MAX, good[place] ^ 1 << 16] {
                    let mut bad = good.clone();
                    bad[place] = bits;
                    let _ = read(&bad);
                }
            }
        }
        assert!(read(&[]).is_err() && read(&[MAGIC, 0, 0, 0, 0]).is_err() && words(&[1, 2, 3]).is_err());
    }
}
