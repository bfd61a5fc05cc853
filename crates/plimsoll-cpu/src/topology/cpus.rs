//! The logical CPUs and how they form cores, packages and memory nodes.

use std::collections::BTreeMap;
use std::path::Path;

use super::text;

/// A logical CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// The kernel's number for it.
    pub id: usize,
    /// Its core's number, unique only within its package.
    pub core: usize,
    /// Its package (socket).
    pub package: usize,
    /// Its memory node (NUMA).
    pub node: usize,
    /// All logical CPUs of its core, including itself, ascending.
    pub smt_siblings: Vec<usize>,
}

/// The online CPUs, ascending, from `/sys/devices/system/{cpu,node}`. If the system doesn't list them, those of `fallback`,
/// each as one core of a single package.
pub(super) fn read(root: &Path, fallback: &[usize]) -> Vec<Cpu> {
    let folder = root.join("sys/devices/system/cpu");
    let online = text::read(&folder.join("online")).and_then(|list| text::cpu_list(&list)).unwrap_or_default();
    let online = if online.is_empty() { fallback.to_vec() } else { online };
    let nodes = nodes(root);
    online
        .iter()
        .map(|&id| {
            let topology = folder.join(format!("cpu{id}/topology"));
            let siblings = text::read(&topology.join("thread_siblings_list")).and_then(|list| text::cpu_list(&list));
            Cpu {
                id,
                // The kernel writes -1 if the firmware doesn't report it, which doesn't parse as usize.
                core: text::number(&topology.join("core_id")).unwrap_or(id),
                package: text::number(&topology.join("physical_package_id")).unwrap_or(0),
                node: nodes.get(&id).copied().unwrap_or(0),
                smt_siblings: siblings.filter(|list| list.contains(&id)).unwrap_or_else(|| vec![id]),
            }
        })
        .collect()
}

/// The memory node of each CPU.
fn nodes(root: &Path) -> BTreeMap<usize, usize> {
    let folder = root.join("sys/devices/system/node");
    // The list of nodes has the same form as a list of CPUs.
    let nodes = text::read(&folder.join("online")).and_then(|list| text::cpu_list(&list)).unwrap_or_default();
    let mut node_of = BTreeMap::new();
    for node in nodes {
        let list = text::read(&folder.join(format!("node{node}/cpulist"))).and_then(|list| text::cpu_list(&list));
        node_of.extend(list.unwrap_or_default().into_iter().map(|cpu| (cpu, node)));
    }
    node_of
}
