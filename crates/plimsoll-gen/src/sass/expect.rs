//! Checks a kernel's machine code against its description, to ensure that the compiler did what the source asks for. Exact counts,
//! which only the compiler determines, are recorded as facts and compared with them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Class, HotKind, KernelReport};
use crate::Target;
use crate::kernel::chain::HOPS;
use crate::kernel::{AccessRule, Data, Issue, KernelDesc, Output};

/// 32-bit registers per SM, since compute capability 3.0 (CUDA C++ Programming Guide, 'Technical Specifications per Compute
/// Capability').
const REGISTERS: u32 = 65_536;

/// Facts of one source: per kernel, per target, registers per thread and instructions of the hot part.
pub type Facts = BTreeMap<String, BTreeMap<String, (u32, u32)>>;

/// The faults of this kernel's machine code, one sentence each; empty if there are none.
#[must_use]
pub fn faults(kernel: &KernelDesc, target: Target, report: &KernelReport) -> Vec<String> {
    let mut faults = Vec::new();
    let mut expect = |holds: bool, what: String| {
        if !holds {
            faults.push(format!("{} for {target}: {what}", kernel.name));
        }
    };
    let registers = report.registers.unwrap_or(0);
    expect(registers > 0 && registers * kernel.threads <= REGISTERS, format!("{registers} registers per thread"));
    let local = (report.local_bytes, report.local_accesses);
    expect(
        kernel.local_memory || local == (0, 0),
        format!("{} bytes of local memory, {} accesses to it", local.0, local.1),
    );
    let accesses = |class: Class| -> Vec<(u32, u32, String)> {
        let accesses = report.hot.iter().flat_map(|hot| &hot.accesses).filter(|a| a.access.class == class);
        accesses.map(|a| (a.access.bytes, a.count, a.access.hints.clone())).collect()
    };
    let (loads, stores) = (accesses(Class::GlobalLoad), accesses(Class::GlobalStore));
    if let Some([read, written]) = hot_accesses(kernel, target) {
        let matches = |found: &[(u32, u32, String)], (bytes, count): (u32, u32), hint: &str, hinted: bool| match found {
            [] => count == 0,
            [(width, times, hints)] => {
                (*width, *times) == (bytes, count) && hints.split('.').any(|known| known == hint) == hinted
            }
            _ => false,
        };
        expect(
            matches(&loads, read, "NA", kernel.hints.load_no_allocate),
            format!("expected loads {read:?} (bytes, count), found {loads:?}"),
        );
        expect(
            matches(&stores, written, "EF", kernel.hints.store_streaming),
            format!("expected stores {written:?} (bytes, count), found {stores:?}"),
        );
        let kind = if kernel.looping { HotKind::Loop } else { HotKind::Straight };
        expect(report.hot.as_ref().is_some_and(|hot| hot.kind == kind), format!("the hot part is not {kind:?}"));
    }
    for issue in &kernel.issues {
        let (count, registers) = count_issued(report, issue);
        let (wanted, chains) = (issue.count, issue.chains);
        let names = issue.mnemonics.join(" or ");
        // The assembler may use the same instruction for other purposes (a constant, the loop counter), unroll the loop by two, and
        // let one chain in eight share a register with another.
        let iterations = |n: u32| (n * wanted..=n * wanted + EXTRA).contains(&count);
        let right = (iterations(1) || iterations(2)) && registers >= chains - chains / 8;
        expect(
            right,
            format!("expected {wanted} {names} in {chains} chains, found {count} that write {registers} registers"),
        );
    }
    if kernel.access_rule == AccessRule::BulkCopies {
        // Only the last, partial tile is loaded without bulk copies, by a loop over single elements.
        let straight = report.hot.as_ref().is_none_or(|hot| hot.kind == HotKind::Straight);
        let loaded = kernel.output == Output::Map && straight && !loads.is_empty();
        expect(!loaded, format!("loads in addition to bulk copies: {loads:?}"));
        let stored = (kernel.vector_bytes, kernel.unroll * kernel.outputs);
        let stores: Vec<(u32, u32)> = stores.iter().map(|(bytes, count, _)| (*bytes, *count)).collect();
        expect(
            kernel.outputs == 0 || stores == [stored],
            format!("expected stores {stored:?} (bytes, count), found {stores:?}"),
        );
        let (copies, wanted) = (report.bulk_copies, kernel.inputs);
        expect(copies == wanted, format!("expected {wanted} bulk copies, found {copies}"));
        let must_demote = kernel.hints.load_no_allocate;
        let fault = if must_demote { "doesn't demote its evict-last lines in L2" } else { "demotes lines in L2" };
        expect(must_demote == (report.demotions > 0), fault.to_owned());
    }
    expect(
        kernel.access_rule != AccessRule::DoesNothing || (report.hot.is_none() && report.instructions <= 8),
        "does more than nothing".to_owned(),
    );
    faults
}

/// Faults of the data that a module contains besides its kernels ([`module_data`](super::elf::module_data)).
#[must_use]
pub fn data_faults(module: &str, allowed: Data, target: Target, data: &[String]) -> Vec<String> {
    let is_allowed = |item: &&String| match allowed {
        Data::Nothing => false,
        Data::Tables => item.contains("__cudart_") || item.as_str() == ".nv.constant4",
        Data::Any => true,
    };
    let unexpected = data.iter().filter(|item| !is_allowed(item));
    unexpected.map(|item| format!("{module} for {target}: the module contains {item}")).collect()
}

/// Most additional instructions of the counted kind.
const EXTRA: u32 = 3;

/// Number of instructions of this kind, and of distinct registers that they write.
fn count_issued(report: &KernelReport, issue: &Issue) -> (u32, u32) {
    let is_kind = |name: &&String| issue.mnemonics.iter().any(|known| name.starts_with(known));
    let written: Vec<_> = report.looped.keys().filter(is_kind).flat_map(|name| &report.looped[name]).collect();
    let registers: BTreeSet<&String> = written.iter().map(|(register, _)| *register).collect();
    (written.iter().map(|(_, count)| **count).sum(), registers.len() as u32)
}

/// Expected width and number of the hot part's loads and stores; `None` if the description doesn't state them.
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

/// Differences between the committed facts and new ones, one sentence each.
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
    fn unexpected_module_data_are_reported() {
        let held = [".nv.constant4".to_owned(), "__cudart_i2opi_d in .nv.global.init".to_owned()];
        let sm_90 = Target::plain(90);
        assert_eq!(data_faults("incore", Data::Tables, sm_90, &held), [""; 0]);
        assert_eq!(data_faults("incore", Data::Tables, sm_90, &["x in .nv.global".to_owned()]).len(), 1);
        assert_eq!(data_faults("tti", Data::Any, sm_90, &held), [""; 0]);
        assert_eq!(data_faults("launch", Data::Nothing, sm_90, &held).len(), 2);
    }

    #[test]
    fn changed_added_and_removed_facts_are_reported() {
        let facts = |kernels: &[(&str, u32)]| -> Facts {
            let per_target = |count: u32| BTreeMap::from([("sm_80".to_owned(), (8, count))]);
            kernels.iter().map(|(name, count)| ((*name).to_owned(), per_target(*count))).collect()
        };
        let reported = differences(&facts(&[("a", 9), ("b", 9), ("d", 1)]), &facts(&[("a", 9), ("b", 10), ("c", 9)]));
        assert_eq!(reported.len(), 3);
        assert!(reported[0].contains("b for sm_80: was 8 registers, 9 instructions; is 8 registers, 10"));
    }
}
