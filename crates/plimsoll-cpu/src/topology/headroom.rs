//! How much memory can still be had, now: the machine's, and the container's where it is tighter.

use std::path::Path;

use super::{cgroup, text};

/// Memory in bytes, at the moment of reading. What the system doesn't say is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headroom {
    /// Installed memory that the kernel manages (`MemTotal`).
    pub total: Option<u64>,
    /// What can be had without swapping (`MemAvailable`).
    pub available: Option<u64>,
    /// The tightest control group's limit.
    pub limit: Option<u64>,
    /// What is left below that limit.
    pub below_limit: Option<u64>,
}

impl Headroom {
    /// Reads the machine's present state.
    #[must_use]
    pub fn read() -> Self {
        Self::read_under(Path::new("/"))
    }

    /// Reads from a copy of `/proc` and `/sys` under `root`.
    #[must_use]
    pub fn read_under(root: &Path) -> Self {
        let meminfo = text::read(&root.join("proc/meminfo")).unwrap_or_default();
        let group = cgroup::memory_limit(root);
        Self {
            total: text::kilobytes(&meminfo, "MemTotal"),
            available: text::kilobytes(&meminfo, "MemAvailable"),
            limit: group.map(|g| g.limit),
            below_limit: group.map(|g| g.limit.saturating_sub(g.used)),
        }
    }

    /// Bytes that can still be had: the smaller of the machine's and the container's; `None` where neither is known.
    #[must_use]
    pub fn free(&self) -> Option<u64> {
        match (self.available, self.below_limit) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
