//! The machine's memory nodes (NUMA) and the node next to a device, from Linux's `/sys`.

use std::path::Path;

use plimsoll_gpu::Unavailable;

/// Its name in error messages.
const WHAT: &str = "memory nodes";

/// A memory node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryNode {
    /// Its number in Linux.
    pub number: u32,
    /// Its CPUs; none for memory without CPUs.
    pub cpus: Vec<usize>,
}

/// The nodes that have memory, in the order of their numbers. `sys` is the mount point of sysfs.
///
/// # Errors
/// The folder of nodes can't be read.
pub fn read(sys: &Path) -> Result<Vec<MemoryNode>, Unavailable> {
    let folder = sys.join("devices/system/node");
    let entries = std::fs::read_dir(&folder).map_err(|error| {
        let why = format!("{}: {error}", folder.display());
        Unavailable::new(WHAT, why, "Use Linux with /sys mounted and a kernel with NUMA")
    })?;
    let node = |entry: std::fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        let read = |file: &str| std::fs::read_to_string(entry.path().join(file)).ok();
        let has_memory = read("meminfo").is_none_or(|text| !has_no_memory(&text));
        has_memory.then(|| MemoryNode { number, cpus: parse_list(&read("cpulist").unwrap_or_default()) })
    };
    let mut nodes: Vec<MemoryNode> = entries.flatten().filter_map(node).collect();
    nodes.sort_by_key(|node| node.number);
    Ok(nodes)
}

/// The node next to the device at a PCI address such as `0000:1b:00.0`; `None` where the system doesn't know it.
#[must_use]
pub fn near(sys: &Path, pci: &str) -> Option<u32> {
    let is_plain = pci.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'));
    let path = sys.join("bus/pci/devices").join(is_plain.then(|| pci.to_ascii_lowercase())?).join("numa_node");
    // −1 where the firmware doesn't say.
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Whether the first line of a node's `meminfo` states no memory.
fn has_no_memory(text: &str) -> bool {
    text.lines().any(|line| line.split_whitespace().skip(2).eq(["MemTotal:", "0", "kB"]))
}

/// Numbers of a list such as `0-3,8`.
fn parse_list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (last < 1 << 20).then_some(first..=last)
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn nodes_with_memory_are_listed_with_their_cpus() {
        let sys = tempfile::tempdir().unwrap();
        let nodes = sys.path().join("devices/system/node");
        write(&nodes.join("node1/cpulist"), "4-5,9\n");
        write(&nodes.join("node1/meminfo"), "Node 1 MemTotal:       1024 kB\n");
        write(&nodes.join("node0/cpulist"), "0-3\n");
        write(&nodes.join("node2/cpulist"), "\n");
        write(&nodes.join("node3/meminfo"), "Node 3 MemTotal:       0 kB\n");
        write(&nodes.join("has_memory"), "0-2\n");
        let found = read(sys.path()).unwrap();
        let expected = [(0, vec![0, 1, 2, 3]), (1, vec![4, 5, 9]), (2, vec![])];
        assert_eq!(found, expected.map(|(number, cpus)| MemoryNode { number, cpus }));
        assert!(read(&sys.path().join("none")).unwrap_err().why.contains("devices/system/node"));
    }

    #[test]
    fn the_node_next_to_a_device_is_found_by_its_pci_address() {
        let sys = tempfile::tempdir().unwrap();
        write(&sys.path().join("bus/pci/devices/0000:1b:00.0/numa_node"), "1\n");
        write(&sys.path().join("bus/pci/devices/0000:2b:00.0/numa_node"), "-1\n");
        let found = ["0000:1B:00.0", "0000:2b:00.0", "0000:3b:00.0", "../../etc"].map(|pci| near(sys.path(), pci));
        assert_eq!(found, [Some(1), None, None, None]);
    }
}
