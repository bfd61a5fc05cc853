//! The kind of pages that a buffer asks for, and what it really got. Asking is the mapping's work.

use std::fmt;
use std::path::Path;

use super::mapping::Mapping;
use crate::topology::{HugePages, Transparent, text};

/// The kind of pages to ask the kernel for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Transparent huge pages (`MADV_HUGEPAGE`): few TLB misses, so that bandwidth and cache latency show alone.
    Huge,
    /// Ordinary pages only (`MADV_NOHUGEPAGE`): TLB misses show.
    Small,
}

/// Why some or all of a buffer sits in small pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SmallPages {
    /// They were asked for.
    Asked,
    /// Transparent huge pages are switched off (`/sys/kernel/mm/transparent_hugepage/enabled` says `never`).
    SwitchedOff,
    /// The kernel refused the advice: it is built without transparent huge pages.
    AdviceRefused,
    /// The kernel took the advice, but found no huge pages free.
    NoneFree,
    /// This system doesn't say what it granted.
    Unknown,
}

impl fmt::Display for SmallPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "small pages were asked for",
            Self::SwitchedOff => "transparent huge pages are switched off on this machine",
            Self::AdviceRefused => "this kernel has no transparent huge pages",
            Self::NoneFree => "the kernel found no huge pages free",
            Self::Unknown => "this system doesn't say what pages it grants",
        })
    }
}

/// What kind of pages a buffer sits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageReport {
    /// What was asked for.
    pub asked: Pages,
    /// Bytes that have pages at all (touched), zero where unknown.
    pub resident: u64,
    /// Bytes of these in huge pages.
    pub huge: u64,
    /// Why not all of them are in huge pages; `None` where they are.
    pub small: Option<SmallPages>,
}

/// What became of a mapping's request.
pub(super) fn report(mapping: &Mapping, asked: Pages) -> PageReport {
    let smaps = text::read_long(Path::new("/proc/self/smaps")).unwrap_or_default();
    let address = mapping.start().as_ptr().addr();
    let Some((resident, huge)) = entry(&smaps, address) else {
        return PageReport { asked, resident: 0, huge: 0, small: Some(SmallPages::Unknown) };
    };
    let small = if huge >= resident && huge > 0 {
        None
    } else if asked == Pages::Small {
        Some(SmallPages::Asked)
    } else if !mapping.advised {
        Some(SmallPages::AdviceRefused)
    } else if HugePages::read().transparent == Transparent::Never {
        Some(SmallPages::SwitchedOff)
    } else {
        Some(SmallPages::NoneFree)
    };
    PageReport { asked, resident, huge, small }
}

/// `Rss` and `AnonHugePages` in bytes of the mapping that holds `address` (proc_pid_smaps(5)).
fn entry(smaps: &str, address: usize) -> Option<(u64, u64)> {
    let mut lines = smaps.lines();
    lines.find(|line| heads(line, address))?;
    let (mut resident, mut huge) = (None, None);
    for line in lines.take_while(|line| range(line).is_none()) {
        resident = resident.or_else(|| text::kilobytes(line, "Rss"));
        huge = huge.or_else(|| text::kilobytes(line, "AnonHugePages"));
    }
    Some((resident?, huge?))
}

fn heads(line: &str, address: usize) -> bool {
    range(line).is_some_and(|(from, to)| (from..to).contains(&address))
}

/// The addresses of a heading line, `7f00-7f10 rw-p …`.
fn range(line: &str) -> Option<(usize, usize)> {
    let (from, to) = line.split(' ').next()?.split_once('-')?;
    Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000000000-7f0000200000 rw-p 00000000 00:00 0 
Size:               2048 kB
Rss:                2048 kB
AnonHugePages:      2048 kB
VmFlags: rd wr mr mw me ac hg 
7f0000200000-7f0000400000 ---p 00000000 00:00 0 
Size:               2048 kB
Rss:                   0 kB
";

    #[test]
    fn the_entry_of_an_address_is_its_own_and_not_its_neighbours() {
        assert_eq!(entry(SMAPS, 0x7f00_0000_0000), Some((2 << 20, 2 << 20)));
        assert_eq!(entry(SMAPS, 0x7f00_001f_ffff), Some((2 << 20, 2 << 20)));
        // An entry without the line that we need says nothing.
        assert_eq!(entry(SMAPS, 0x7f00_0020_0000), None);
        assert_eq!(entry(SMAPS, 0x1000), None);
        assert_eq!(entry("garbage - é\n", 0x1000), None);
    }
}
