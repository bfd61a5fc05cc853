//! The caches of a device. Vulkan doesn't report them, so they come from the catalogue of models or, for software, from the CPU.

use std::path::Path;

use plimsoll_core::device::CacheInfo;
use plimsoll_suite::machines::machine;

use crate::adapter::{Facts, Kind};

/// Where Linux describes the first processor's caches.
const LINUX: &str = "/sys/devices/system/cpu/cpu0/cache";
/// Most caches of a processor.
const MOST: u32 = 16;
/// Bytes of a cache line of the GPUs in the catalogue.
const LINE: u32 = 128;

/// Finds the known caches of a device, by level; none if nothing is known.
pub(crate) fn find_caches(facts: &Facts) -> Vec<CacheInfo> {
    if facts.kind == Kind::Software {
        return read_processor_caches(Path::new(LINUX));
    }
    find_model_caches(&facts.name, facts.machine().multiprocessors)
}

/// The L2 of a model in the catalogue. The L1 isn't listed, because its size depends on the kernel.
fn find_model_caches(name: &str, multiprocessors: u32) -> Vec<CacheInfo> {
    let bytes = machine(name).ok().and_then(|known| known.l2_bytes);
    let cache = |bytes| CacheInfo { level: "L2".to_owned(), bytes, line: LINE, shared_by: multiprocessors };
    bytes.map(cache).into_iter().collect()
}

/// Reads the data caches that a folder of Linux describes, by level.
fn read_processor_caches(folder: &Path) -> Vec<CacheInfo> {
    let read = |index: u32| {
        let field = |name: &str| std::fs::read_to_string(folder.join(format!("index{index}")).join(name)).ok();
        let field = |name: &str| field(name).map(|text| text.trim().to_owned());
        if !matches!(field("type")?.as_str(), "Data" | "Unified") {
            return None;
        }
        let level: u32 = field("level")?.parse().ok()?;
        let kib: u64 = field("size")?.strip_suffix('K')?.parse().ok()?;
        let line = field("coherency_line_size").and_then(|line| line.parse().ok()).unwrap_or(64);
        let shared_by = field("shared_cpu_list").map_or(1, |list| count_processors(&list));
        Some((level, CacheInfo { level: format!("L{level}"), bytes: kib.checked_mul(1024)?, line, shared_by }))
    };
    let mut found: Vec<(u32, CacheInfo)> = (0..MOST).filter_map(read).collect();
    found.sort_by_key(|(level, _)| *level);
    found.into_iter().map(|(_, cache)| cache).collect()
}

/// Counts the processors in a list such as `0-3,8`.
fn count_processors(list: &str) -> u32 {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let [first, last] = [first, last].map(|number| number.trim().parse::<u32>().ok());
        Some(last?.checked_sub(first?)?.saturating_add(1))
    };
    list.split(',').filter_map(range).fold(0, u32::saturating_add).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_in_the_catalogue_has_its_published_l2() {
        let known = find_model_caches("NVIDIA H200", 132);
        assert_eq!(known.len(), 1);
        assert_eq!((known[0].bytes, known[0].shared_by, known[0].level.as_str()), (60 << 20, 132, "L2"));
        assert!(find_model_caches("A device that nobody knows", 1).is_empty());
    }

    #[test]
    fn processor_caches_are_its_data_caches_by_level() {
        let folder = tempfile::tempdir().unwrap();
        let caches = [
            ("Unified", "3", "32768K", "0-3,8"),
            ("Instruction", "1", "64K", "0"),
            ("Data", "1", "32K", "0"),
            ("Unified", "2", "what", "0"),
        ];
        for (place, (kind, level, size, list)) in caches.iter().enumerate() {
            let index = folder.path().join(format!("index{place}"));
            std::fs::create_dir(&index).unwrap();
            for (name, text) in [("type", kind), ("level", level), ("size", size), ("shared_cpu_list", list)] {
                std::fs::write(index.join(name), format!("{text}\n")).unwrap();
            }
        }
        let found = read_processor_caches(folder.path());
        let short: Vec<_> = found.iter().map(|cache| (cache.level.as_str(), cache.bytes, cache.shared_by)).collect();
        // What can't be read is left out.
        assert_eq!(short, [("L1", 32 << 10, 1), ("L3", 32 << 20, 5)]);
        assert!(read_processor_caches(Path::new("/nonexistent")).is_empty());
        assert_eq!((count_processors(""), count_processors("7-3"), count_processors("0-4294967295")), (1, 1, u32::MAX));
    }
}
