//! The caches: from `/sys`, or from CPUID if `/sys` doesn't list them (some virtual machines and containers).

use std::path::Path;

use super::{Cpu, text};
use crate::arch::cpuid::Leaf;

/// The contents of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// One instance of a cache (a machine with eight cores has eight L1 data caches).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u32,
    /// Its contents.
    pub kind: CacheKind,
    /// Its capacity in bytes.
    pub bytes: u64,
    /// Its line size in bytes.
    pub line: u64,
    /// The logical CPUs that share it, ascending; empty if the cache is known only from CPUID, which doesn't list them.
    pub shared_by: Vec<usize>,
}

impl Cache {
    /// True if it holds data.
    #[must_use]
    pub fn holds_data(&self) -> bool {
        self.kind != CacheKind::Instruction
    }

    /// True if `cpu` uses it, as far as is known.
    #[must_use]
    pub fn serves(&self, cpu: usize) -> bool {
        self.shared_by.is_empty() || self.shared_by.contains(&cpu)
    }
}

/// The line size if the system doesn't state one: that of every x86-64 and nearly every AArch64 processor.
const USUAL_LINE: u64 = 64;
/// Most indexes or sub-leaves to read: more than any processor has.
const MOST_CACHES: u32 = 32;

/// All caches of `cpus` that `/sys` lists, each once.
pub(super) fn read(root: &Path, cpus: &[Cpu]) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    for cpu in cpus {
        for index in 0..MOST_CACHES {
            let folder = root.join(format!("sys/devices/system/cpu/cpu{}/cache/index{index}", cpu.id));
            if !folder.is_dir() {
                break;
            }
            if let Some(cache) = read_cache(&folder, cpu.id)
                && !caches.iter().any(|known| is_same(known, &cache))
            {
                caches.push(cache);
            }
        }
    }
    caches
}

fn is_same(a: &Cache, b: &Cache) -> bool {
    (a.level, a.kind, &a.shared_by) == (b.level, b.kind, &b.shared_by)
}

fn read_cache(folder: &Path, cpu: usize) -> Option<Cache> {
    let kind = match text::read(&folder.join("type"))?.as_str() {
        "Data" => CacheKind::Data,
        "Instruction" => CacheKind::Instruction,
        "Unified" => CacheKind::Unified,
        _ => return None,
    };
    let shared_by = text::read(&folder.join("shared_cpu_list")).and_then(|list| text::cpu_list(&list));
    Some(Cache {
        level: text::number(&folder.join("level"))?,
        kind,
        bytes: text::size(&text::read(&folder.join("size"))?).filter(|&bytes| bytes > 0)?,
        line: text::number(&folder.join("coherency_line_size")).filter(|&line| line > 0).unwrap_or(USUAL_LINE),
        shared_by: shared_by.filter(|list| list.contains(&cpu)).unwrap_or_else(|| vec![cpu]),
    })
}

/// The caches of one CPU from CPUID's deterministic cache parameters: leaf 4 (Intel SDM vol. 2A, CPUID), or 8000_001DH
/// (AMD APM vol. 3, E.4.15), which has the same format.
pub(super) fn from_cpuid(leaf: impl Fn(u32, u32) -> Option<Leaf>) -> Vec<Cache> {
    let leaves = |number: u32| -> Vec<Cache> {
        (0..MOST_CACHES).map_while(|sub| leaf(number, sub).and_then(|leaf| from_leaf(&leaf))).collect()
    };
    let caches = leaves(4);
    if caches.is_empty() { leaves(0x8000_001D) } else { caches }
}

fn from_leaf(leaf: &Leaf) -> Option<Cache> {
    let kind = match leaf.eax & 0x1F {
        1 => CacheKind::Data,
        2 => CacheKind::Instruction,
        3 => CacheKind::Unified,
        _ => return None,
    };
    let line = u64::from(leaf.ebx & 0xFFF) + 1;
    let partitions = u64::from(leaf.ebx >> 12 & 0x3FF) + 1;
    let ways = u64::from(leaf.ebx >> 22) + 1;
    let sets = u64::from(leaf.ecx) + 1;
    Some(Cache {
        level: leaf.eax >> 5 & 7,
        kind,
        // 12 + 10 + 10 + 33 bits: damaged leaves may overflow.
        bytes: ways.saturating_mul(partitions).saturating_mul(line).saturating_mul(sets),
        line,
        shared_by: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpuid_cache_sizes_follow_the_manuals_formula() {
        // A Xeon's leaf 4: 48 KiB L1D (12 ways, 64 sets), 32 KiB L1I, 2 MiB L2.
        let leaves = [
            Leaf { eax: 0x0000_0021, ebx: 11 << 22 | 63, ecx: 63, edx: 0 },
            Leaf { eax: 0x0000_0022, ebx: 7 << 22 | 63, ecx: 63, edx: 0 },
            Leaf { eax: 0x0000_0043, ebx: 15 << 22 | 63, ecx: 2047, edx: 0 },
            Leaf { eax: 0, ebx: 0, ecx: 0, edx: 0 },
        ];
        let caches = from_cpuid(|number, sub| (number == 4).then(|| leaves[sub as usize]));
        let facts: Vec<_> = caches.iter().map(|c| (c.level, c.kind, c.bytes, c.line)).collect();
        assert_eq!(
            facts,
            [
                (1, CacheKind::Data, 48 << 10, 64),
                (1, CacheKind::Instruction, 32 << 10, 64),
                (2, CacheKind::Unified, 2 << 20, 64)
            ]
        );
        let amd = from_cpuid(|number, sub| (number == 0x8000_001D && sub < 3).then(|| leaves[sub as usize]));
        assert_eq!(amd, caches);
        assert!(from_cpuid(|_, _| None).is_empty());
    }

    #[test]
    fn a_damaged_leaf_neither_panics_nor_loops() {
        let ones = Leaf { eax: !0x1C, ebx: !0, ecx: !0, edx: !0 };
        assert_eq!(from_cpuid(|_, _| Some(ones)).len(), MOST_CACHES as usize);
    }
}
