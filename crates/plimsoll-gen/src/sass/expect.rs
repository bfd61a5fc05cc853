//! What a kernel's machine code must be, from its description alone: the check that the compiler did what the source asks.
//! Exact counts that only a compiler can tell are kept as facts beside it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Class, HotKind, KernelReport};
use crate::Target;
use crate::kernel::chain::HOPS;
use crate::kernel::{AccessRule, Data, Issue, KernelDesc, Output};

/// 32-bit registers of a multiprocessor, since compute capability 3.0 (CUDA C++ Programming Guide, 'Technical
/// Specifications per Compute Capability').
const REGISTERS: u32 = 65_536;

/// Facts of one source: per kernel, per target, registers per thread and instructions of the hot part.
pub type Facts = BTreeMap<String, BTreeMap<String, (u32, u32)>>;

/// What is wrong with this kernel's code, each as a sentence; empty where nothing is.
#[must_use]
pub fn faults(kernel: &KernelDesc, target: Target, found: &KernelReport) -> Vec<String> {
    let mut faults = Vec::new();
    let mut expect = |holds: bool, what: String| {
        if !holds {
            faults.push(format!("{} for {target}: {what}", kernel.name));
        }
    };
    let registers = found.registers.unwrap_or(0);
    expect(registers > 0 && registers * kernel.threads <= REGISTERS, format!("{registers} registers per thread"));
    let local = (found.local_bytes, found.local_accesses);
    expect(
        kernel.local_memory || local == (0, 0),
        format!("{} bytes of local memory, {} accesses to it", local.0, local.1),
    );
    let accesses = |class: Class| -> Vec<(u32, u32, String)> {
        let accesses = found.hot.iter().flat_map(|hot| &hot.accesses).filter(|a| a.access.class == class);
        accesses.map(|a| (a.access.bytes, a.count, a.access.hints.clone())).collect()
    };
    let (loads, stores) = (accesses(Class::GlobalLoad), accesses(Class::GlobalStore));
    if let Some([read, written]) = hot_accesses(kernel, target) {
        let is = |found: &[(u32, u32, String)], (bytes, count): (u32, u32), hint: &str, hinted: bool| match found {
            [] => count == 0,
            [(width, times, hints)] => {
                (*width, *times) == (bytes, count) && hints.split('.').any(|known| known == hint) == hinted
            }
            _ => false,
        };
        expect(is(&loads, read, "NA", kernel.hints.load_no_allocate), format!("{read:?} of loads, found {loads:?}"));
        expect(
            is(&stores, written, "EF", kernel.hints.store_streaming),
            format!("{written:?} of stores, found {stores:?}"),
        );
        let kind = if kernel.looping { HotKind::Loop } else { HotKind::Straight };
        expect(found.hot.as_ref().is_some_and(|hot| hot.kind == kind), format!("hot part is not {kind:?}"));
    }
    for issue in &kernel.issues {
        let (count, registers) = issued(found, issue);
        let (wanted, chains) = (issue.count, issue.chains);
        let names = issue.mnemonics.join(" or ");
        // The assembler may take the same instruction for a purpose of its own (a constant, the loop's counter), do two iterations
        // of the loop in one, and let one chain in eight pass through a register of another.
        let iterations = |n: u32| (n * wanted..=n * wanted + EXTRA).contains(&count);
        let right = (iterations(1) || iterations(2)) && registers >= chains - chains / 8;
        expect(right, format!("{wanted} {names} in {chains} chains, found {count} that write {registers} registers"));
    }
    if kernel.access_rule == AccessRule::BulkCopies {
        // Nothing but the last, partial tile is loaded in any other way; that is a loop of single elements.
        let straight = found.hot.as_ref().is_none_or(|hot| hot.kind == HotKind::Straight);
        let loaded = kernel.output == Output::Map && straight && !loads.is_empty();
        expect(!loaded, format!("loads beside bulk copies: {loads:?}"));
        let stored = (kernel.vector_bytes, kernel.unroll * kernel.outputs);
        let stores: Vec<(u32, u32)> = stores.iter().map(|(bytes, count, _)| (*bytes, *count)).collect();
        expect(kernel.outputs == 0 || stores == [stored], format!("{stored:?} of stores, found {stores:?}"));
        expect(found.bulk_copies == kernel.inputs, format!("{} bulk copies", found.bulk_copies));
        let gives_back = found.demotions > 0;
        expect(gives_back == kernel.hints.load_no_allocate, "gives back what it keeps, or doesn't".to_owned());
    }
    expect(
        kernel.access_rule != AccessRule::DoesNothing || (found.hot.is_none() && found.instructions <= 8),
        "does more than nothing".to_owned(),
    );
    faults
}

/// What is wrong with what a module holds beside its kernels ([`module_data`](super::elf::module_data)).
#[must_use]
pub fn data_faults(module: &str, allowed: Data, target: Target, data: &[String]) -> Vec<String> {
    let known = |held: &&String| match allowed {
        Data::Nothing => false,
        Data::Tables => held.contains("__cudart_") || held.as_str() == ".nv.constant4",
        Data::Any => true,
    };
    let held = data.iter().filter(|held| !known(held));
    held.map(|held| format!("{module} for {target}: the module holds {held}")).collect()
}

/// Instructions of a kind beside those that are counted.
const EXTRA: u32 = 3;

/// How many instructions of this kind there are, and how many different registers they write.
fn issued(found: &KernelReport, issue: &Issue) -> (u32, u32) {
    let of_kind = |name: &&String| issue.mnemonics.iter().any(|known| name.starts_with(known));
    let written: Vec<_> = found.looped.keys().filter(of_kind).flat_map(|name| &found.looped[name]).collect();
    let registers: BTreeSet<&String> = written.iter().map(|(register, _)| *register).collect();
    (written.iter().map(|(_, count)| **count).sum(), registers.len() as u32)
}

/// Width and number of the hot part's loads and stores; `None` where the description doesn't tell them.
fn hot_accesses(kernel: &KernelDesc, target: Target) -> Option<[(u32, u32); 2]> {
    match kernel.access_rule {
        AccessRule::Chain => return Some([(8, HOPS as u32), (8, 0)]),
        AccessRule::Stated if !kernel.cooperative && kernel.inputs + kernel.outputs > 0 => {}
        _ => return None,
    }
    let width = kernel.vector_bytes.min(target.widest_access());
    let split = kernel.vector_bytes / width;
    Some([(width, kernel.inputs * kernel.unroll * split), (width, kernel.outputs * kernel.unroll * split)])
}

/// Where facts and findings differ, each as a sentence.
#[must_use]
pub fn differences(committed: &Facts, found: &Facts) -> Vec<String> {
    let none = BTreeMap::new();
    let mut differences = Vec::new();
    let names: BTreeSet<&String> = committed.keys().chain(found.keys()).collect();
    for name in names {
        let (was, is) = (committed.get(name).unwrap_or(&none), found.get(name).unwrap_or(&none));
        let targets: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
        for target in targets.into_iter().filter(|target| was.get(*target) != is.get(*target)) {
            let say = |fact: Option<&(u32, u32)>| {
                fact.map_or("absent".to_owned(), |(registers, count)| {
                    format!("{registers} registers, {count} instructions")
                })
            };
            let (was, is) = (say(was.get(target)), say(is.get(target)));
            differences.push(format!("{name} for {target}: was {was}; is {is}"));
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_holds_no_data_but_where_it_costs_nothing() {
        let held = [".nv.constant4".to_owned(), "__cudart_i2opi_d in .nv.global.init".to_owned()];
        let sm_90 = Target::plain(90);
        assert_eq!(data_faults("incore", Data::Tables, sm_90, &held), [""; 0]);
        assert_eq!(data_faults("incore", Data::Tables, sm_90, &["x in .nv.global".to_owned()]).len(), 1);
        assert_eq!(data_faults("tti", Data::Any, sm_90, &held), [""; 0]);
        assert_eq!(data_faults("launch", Data::Nothing, sm_90, &held).len(), 2);
    }

    #[test]
    fn facts_that_changed_came_or_went_are_told() {
        let facts = |kernels: &[(&str, u32)]| -> Facts {
            let per_target = |count: u32| BTreeMap::from([("sm_80".to_owned(), (8, count))]);
            kernels.iter().map(|(name, count)| ((*name).to_owned(), per_target(*count))).collect()
        };
        let told = differences(&facts(&[("a", 9), ("b", 9), ("d", 1)]), &facts(&[("a", 9), ("b", 10), ("c", 9)]));
        assert_eq!(told.len(), 3);
        assert!(told[0].contains("b for sm_80: was 8 registers, 9 instructions; is 8 registers, 10"));
    }
}
