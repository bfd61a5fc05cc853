//! How much memory is still available: the machine's, and the container's if that is less.

use std::path::Path;

use super::{cgroup, text};

/// Memory in bytes, at the moment of reading. `None` if the system doesn't report a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headroom {
    /// Installed memory that the kernel manages (`MemTotal`).
    pub total: Option<u64>,
    /// Available without swapping (`MemAvailable`).
    pub available: Option<u64>,
    /// The tightest control group's limit.
    pub limit: Option<u64>,
    /// Memory left below that limit.
    pub below_limit: Option<u64>,
}

impl Headroom {
    /// Reads the current state from `/proc` and `/sys` under `root`, which is `/` except in tests.
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

    /// Available bytes: the smaller of the machine's and the container's; `None` if neither is known.
    #[must_use]
    pub fn free(&self) -> Option<u64> {
        match (self.available, self.below_limit) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
