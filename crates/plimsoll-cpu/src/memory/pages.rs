//! The kind of pages that a buffer requests, and the kind that it got. The mapping makes the request.

use std::fmt;
use std::path::Path;

use super::mapping::Mapping;
use crate::topology::{HugePages, Transparent, text};

/// The kind of pages to request from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Transparent huge pages (`MADV_HUGEPAGE`): few TLB misses, so that they don't affect bandwidth and cache latency.
    Huge,
    /// Ordinary pages only (`MADV_NOHUGEPAGE`): the figures include TLB misses.
    Small,
}

/// Why some or all of a buffer is in small pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SmallPages {
    /// They were requested.
    Requested,
    /// Transparent huge pages are switched off (`/sys/kernel/mm/transparent_hugepage/enabled` says `never`).
    SwitchedOff,
    /// The kernel refused the advice: it is built without transparent huge pages.
    AdviceRefused,
    /// The kernel accepted the advice, but found no free huge pages.
    NoneFree,
    /// This system doesn't report what it granted.
    Unknown,
}

impl fmt::Display for SmallPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requested => "small pages were requested",
            Self::SwitchedOff => "transparent huge pages are switched off on this machine",
            Self::AdviceRefused => "this kernel has no transparent huge pages",
            Self::NoneFree => "the kernel found no free huge pages",
            Self::Unknown => "this system doesn't report what pages it granted",
        })
    }
}

/// The kind of pages that back a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageReport {
    /// The kind that was requested.
    pub requested: Pages,
    /// Touched bytes, which have pages; zero if unknown.
    pub resident: u64,
    /// How many of these are in huge pages.
    pub huge: u64,
    /// Why not all of them are in huge pages; `None` if they are.
    pub small: Option<SmallPages>,
}

/// How the kernel answered a mapping's request.
pub(super) fn build_report(mapping: &Mapping, requested: Pages) -> PageReport {
    let smaps = text::read_long(Path::new("/proc/self/smaps")).unwrap_or_default();
    let address = mapping.start().as_ptr().addr();
    let Some((resident, huge)) = entry(&smaps, address) else {
        return PageReport { requested, resident: 0, huge: 0, small: Some(SmallPages::Unknown) };
    };
    let small = if huge >= resident && huge > 0 {
        None
    } else if requested == Pages::Small {
        Some(SmallPages::Requested)
    } else if !mapping.advised {
        Some(SmallPages::AdviceRefused)
    } else if HugePages::read_under(Path::new("/")).transparent == Transparent::Never {
        Some(SmallPages::SwitchedOff)
    } else {
        Some(SmallPages::NoneFree)
    };
    PageReport { requested, resident, huge, small }
}

/// `Rss` and `AnonHugePages`, in bytes, of the mapping that contains `address` (proc_pid_smaps(5)).
fn entry(smaps: &str, address: usize) -> Option<(u64, u64)> {
    let mut lines = smaps.lines();
    lines.find(|line| is_heading_of(line, address))?;
    let (mut resident, mut huge) = (None, None);
    for line in lines.take_while(|line| range(line).is_none()) {
        resident = resident.or_else(|| text::kilobytes(line, "Rss"));
        huge = huge.or_else(|| text::kilobytes(line, "AnonHugePages"));
    }
    Some((resident?, huge?))
}

fn is_heading_of(line: &str, address: usize) -> bool {
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
    fn an_address_is_matched_to_its_own_smaps_entry() {
        assert_eq!(entry(SMAPS, 0x7f00_0000_0000), Some((2 << 20, 2 << 20)));
        assert_eq!(entry(SMAPS, 0x7f00_001f_ffff), Some((2 << 20, 2 << 20)));
        // The entry lacks a line that we need.
        assert_eq!(entry(SMAPS, 0x7f00_0020_0000), None);
        assert_eq!(entry(SMAPS, 0x1000), None);
        assert_eq!(entry("garbage - é\n", 0x1000), None);
    }
}
