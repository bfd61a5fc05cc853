//! Finds the parameters through which a kernel's SPIR-V reads and writes memory, as far as addresses can be followed: from the
//! members of the push constants through additions, conversions, variables and functions to loads, stores and atomics. An address
//! loaded from memory isn't followed, so of a kernel that follows a chain only the first load is seen.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// SPIR-V 1.6, section 3.42, and the storage classes of section 3.7.
mod op {
    pub(super) const FUNCTION: u32 = 54;
    pub(super) const FUNCTION_PARAMETER: u32 = 55;
    pub(super) const FUNCTION_CALL: u32 = 57;
    pub(super) const VARIABLE: u32 = 59;
    pub(super) const LOAD: u32 = 61;
    pub(super) const STORE: u32 = 62;
    pub(super) const COPY_MEMORY: u32 = 63;
    pub(super) const ACCESS_CHAIN: u32 = 65;
    pub(super) const IN_BOUNDS_ACCESS_CHAIN: u32 = 66;
    pub(super) const COMPOSITE_CONSTRUCT: u32 = 80;
    pub(super) const COMPOSITE_EXTRACT: u32 = 81;
    pub(super) const COPY_OBJECT: u32 = 83;
    pub(super) const U_CONVERT: u32 = 113;
    pub(super) const S_CONVERT: u32 = 114;
    pub(super) const CONVERT_PTR_TO_U: u32 = 117;
    pub(super) const CONVERT_U_TO_PTR: u32 = 120;
    pub(super) const BITCAST: u32 = 124;
    pub(super) const I_ADD: u32 = 128;
    pub(super) const I_SUB: u32 = 130;
    pub(super) const SELECT: u32 = 169;
    /// Atomic operations have consecutive numbers.
    pub(super) const ATOMIC_LOAD: u32 = 227;
    pub(super) const ATOMIC_STORE: u32 = 228;
    pub(super) const ATOMICS: std::ops::RangeInclusive<u32> = 229..=242;
    pub(super) const PHI: u32 = 245;
    pub(super) const RETURN_VALUE: u32 = 254;
    pub(super) const TYPE_POINTER: u32 = 32;
    pub(super) const CONSTANT: u32 = 43;
    pub(super) const PUSH_CONSTANT: u32 = 9;
    pub(super) const PHYSICAL: u32 = 5349;
}

/// Whether memory is read or written through a parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

/// Indices of members of the push constants.
type Members = BTreeSet<u32>;

#[derive(Default)]
struct Follower<'m> {
    /// The parameters of each function, in order.
    parameters: HashMap<u32, Vec<u32>>,
    constants: HashMap<u32, u32>,
    /// Types of pointers into memory.
    physical: HashSet<u32>,
    /// Pointers into memory.
    pointers: HashSet<u32>,
    /// Push-constant blocks.
    blocks: HashSet<u32>,
    /// The members from which a value, or the content of a variable, is derived.
    origins: HashMap<u32, Members>,
    uses: BTreeMap<u32, Uses>,
    code: Vec<(u32, u32, &'m [u32])>,
}

/// Finds what is done through each member of the push constants that is used as an address. The words must have passed the reader.
pub(crate) fn find_uses(words: &[u32]) -> BTreeMap<u32, Uses> {
    let mut follower = Follower::default();
    let (mut rest, mut function) = (words.get(5..).unwrap_or_default(), 0);
    while let Some((first, _)) = rest.split_first() {
        let length = ((first >> 16) as usize).clamp(1, rest.len());
        let (instruction, after) = rest.split_at(length);
        let (code, operands) = (first & 0xffff, &instruction[1..]);
        if code == op::FUNCTION {
            function = operands.get(1).copied().unwrap_or(0);
        }
        follower.declare(code, function, operands);
        follower.code.push((code, function, operands));
        rest = after;
    }
    // Repeat until nothing changes: in a loop, an earlier instruction may read what a later one stored in a variable.
    while follower.run_pass() {}
    follower.uses
}

impl<'m> Follower<'m> {
    fn declare(&mut self, code: u32, function: u32, operands: &'m [u32]) {
        match (code, operands) {
            (op::TYPE_POINTER, [id, op::PHYSICAL, _]) => drop(self.physical.insert(*id)),
            (op::VARIABLE, [_, id, op::PUSH_CONSTANT, ..]) => drop(self.blocks.insert(*id)),
            (op::CONSTANT, [_, id, value]) => drop(self.constants.insert(*id, *value)),
            (op::FUNCTION_PARAMETER, [_, id]) => self.parameters.entry(function).or_default().push(*id),
            _ => {}
        }
        if let [kind, id, ..] = operands
            && self.physical.contains(kind)
        {
            self.pointers.insert(*id);
        }
    }

    fn add_origins(&mut self, to: u32, from: &[u32]) -> bool {
        let found: Members = from.iter().filter_map(|id| self.origins.get(id)).flatten().copied().collect();
        let origins = self.origins.entry(to).or_default();
        let before = origins.len();
        origins.extend(found);
        origins.len() > before
    }

    fn record_use(&mut self, pointer: u32, reads: bool, writes: bool) -> bool {
        let mut more = false;
        for member in self.origins.get(&pointer).into_iter().flatten() {
            let uses = self.uses.entry(*member).or_default();
            let now = Uses { reads: uses.reads | reads, writes: uses.writes | writes };
            more |= now != *uses;
            *uses = now;
        }
        more
    }

    fn run_pass(&mut self) -> bool {
        let all = std::mem::take(&mut self.code);
        let more =
            all.iter().fold(false, |more, (code, function, operands)| self.step(*code, *function, operands) | more);
        self.code = all;
        more
    }

    fn step(&mut self, code: u32, function: u32, operands: &[u32]) -> bool {
        match (code, operands) {
            (op::ACCESS_CHAIN | op::IN_BOUNDS_ACCESS_CHAIN, [_, id, base, member, ..])
                if self.blocks.contains(base) =>
            {
                let member = self.constants.get(member).copied().unwrap_or(u32::MAX);
                self.origins.entry(*id).or_default().insert(member)
            }
            // What is stored in a part of a variable counts for all of it.
            (op::ACCESS_CHAIN | op::IN_BOUNDS_ACCESS_CHAIN, [_, id, base, ..]) => {
                self.add_origins(*id, &[*base]) | self.add_origins(*base, &[*id])
            }
            (op::LOAD, [_, _, pointer, ..]) if self.pointers.contains(pointer) => {
                self.record_use(*pointer, true, false)
            }
            (op::LOAD, [_, id, pointer, ..]) => self.add_origins(*id, &[*pointer]),
            (op::STORE, [pointer, ..]) if self.pointers.contains(pointer) => self.record_use(*pointer, false, true),
            (op::STORE, [variable, value, ..]) => self.add_origins(*variable, &[*value]),
            (op::COPY_MEMORY, [to, from, ..]) => {
                self.record_use(*from, true, false) | self.record_use(*to, false, true)
            }
            (op::ATOMIC_LOAD, [_, _, pointer, ..]) => self.record_use(*pointer, true, false),
            (op::ATOMIC_STORE, [pointer, ..]) => self.record_use(*pointer, false, true),
            (code, [_, _, pointer, ..]) if op::ATOMICS.contains(&code) => self.record_use(*pointer, true, true),
            (
                op::COPY_OBJECT
                | op::U_CONVERT
                | op::S_CONVERT
                | op::CONVERT_PTR_TO_U
                | op::CONVERT_U_TO_PTR
                | op::BITCAST
                | op::COMPOSITE_EXTRACT,
                [_, id, from, ..],
            ) => self.add_origins(*id, &[*from]),
            (op::I_ADD | op::I_SUB | op::COMPOSITE_CONSTRUCT | op::SELECT | op::PHI, [_, id, from @ ..]) => {
                self.add_origins(*id, from)
            }
            (op::RETURN_VALUE, [value]) => self.add_origins(function, &[*value]),
            (op::FUNCTION_CALL, [_, id, called, given @ ..]) => {
                let parameters = self.parameters.get(called).cloned().unwrap_or_default();
                let mut more = self.add_origins(*id, &[*called]);
                for (parameter, given) in parameters.iter().zip(given) {
                    // Parameters are pointers to variables, so the function may also change the variable.
                    more |= self.add_origins(*parameter, &[*given]) | self.add_origins(*given, &[*parameter]);
                }
                more
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_gen::Target;
    use plimsoll_gen::kernel::spirv::{Features, Spirv, code};
    use plimsoll_gen::kernel::{Access, KernelDesc};
    use plimsoll_probes::copy::kernels as copy;
    use plimsoll_probes::latency::kernels as latency;

    use super::*;
    use crate::spirv;

    const ALL: Features = Features { cycles: true, timer: true, double: true, atomics: true, short_loops: false };

    /// Lists differences between a description and its code.
    fn find_differences(kernel: &KernelDesc, spirv: &Spirv) -> Vec<String> {
        let uses = find_uses(&spirv::words(spirv.words).unwrap());
        let arrays = (0..).zip(kernel.parameters).map(|(place, one)| (place, one.name, one.array()));
        let mut wrong = Vec::new();
        for (place, name, array) in arrays {
            let found = uses.get(&place).copied().unwrap_or_default();
            let differs = match array.map(|array| array.access) {
                None => found != Uses::default(),
                Some(Access::Read) => found.writes,
                // What one kernel of a module doesn't write, another may.
                Some(Access::Fill | Access::Write) => found.reads || !found.writes,
                Some(Access::Update) => !found.writes,
            };
            if differs {
                let stated = array.map_or("a number".to_owned(), |array| format!("{:?}", array.access));
                wrong.push(format!("{}: {name} is stated as {stated}, and its code {found:?}", kernel.name));
            }
        }
        if let Some(member) = uses.keys().find(|member| **member as usize >= kernel.parameters.len()) {
            wrong.push(format!("{}: its code uses member {member} as an address", kernel.name));
        }
        wrong
    }

    #[test]
    fn code_reads_and_writes_the_stated_arrays() {
        let mut arrays = 0;
        for kernel in plimsoll_probes::sources().iter().flat_map(|source| source.kernels(Target::plain(80))) {
            for features in [ALL, Features { timer: false, ..ALL }, Features { double: false, cycles: false, ..ALL }] {
                let Ok(spirv) = code(&kernel, features) else { continue };
                arrays += kernel.parameters.iter().filter(|one| one.array().is_some()).count();
                assert_eq!(find_differences(&kernel, &spirv), Vec::<String>::new());
            }
        }
        assert!(arrays > 100, "{arrays}");
    }

    #[test]
    fn wrong_description_is_found() {
        let with_access = |kernel: &KernelDesc, place: usize, access| {
            let mut parameters = kernel.parameters.to_vec();
            let plimsoll_gen::kernel::Kind::Array(array) = &mut parameters[place].kind else { panic!("{place}") };
            array.access = access;
            let kernel = KernelDesc { parameters: parameters.leak(), ..kernel.clone() };
            find_differences(&kernel, &code(&kernel, ALL).unwrap())
        };
        let copy = copy::naive(plimsoll_gen::kernel::Index::U64);
        assert!(with_access(&copy, 0, Access::Fill).is_empty() && with_access(&copy, 1, Access::Read).is_empty());
        assert!(with_access(&copy, 0, Access::Read)[0].contains("out is stated as Read"));
        assert!(with_access(&copy, 1, Access::Update)[0].contains("in is stated as Update"));
        assert!(with_access(&copy, 1, Access::Fill)[0].contains("in is stated as Fill"));
        let chase = latency::chase(latency::Nearest::L1);
        assert!(with_access(&chase, 1, Access::Fill)[0].contains("cursor is stated as Fill"));
        assert!(with_access(&chase, 1, Access::Read)[0].contains("cursor is stated as Read"));
    }
}
