//! The machine's page sizes, and when it grants transparent huge pages.

use std::path::Path;

use super::text;

/// When the kernel backs anonymous memory with huge pages
/// (`Documentation/admin-guide/mm/transhuge.rst` in the Linux sources).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transparent {
    /// Wherever it can.
    Always,
    /// Where a program requests it.
    Madvise,
    /// Never, or the kernel has none.
    Never,
}

/// The machine's huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePages {
    /// When the kernel uses transparent huge pages.
    pub transparent: Transparent,
    /// Their size in bytes; `None` if the system doesn't report it.
    pub size: Option<u64>,
}

impl HugePages {
    /// Reads the current setting from `/sys` under `root`, which is `/` except in tests.
    #[must_use]
    pub fn read_under(root: &Path) -> Self {
        let folder = root.join("sys/kernel/mm/transparent_hugepage");
        let enabled = text::read(&folder.join("enabled")).unwrap_or_default();
        // The active choice is in brackets: `always [madvise] never`.
        let transparent = match enabled.split_whitespace().find(|word| word.starts_with('[')) {
            Some("[always]") => Transparent::Always,
            Some("[madvise]") => Transparent::Madvise,
            _ => Transparent::Never,
        };
        Self { transparent, size: text::number(&folder.join("hpage_pmd_size")) }
    }
}

/// The size of an ordinary page in bytes.
#[must_use]
pub fn page_size() -> usize {
    #[cfg(unix)]
    return rustix::param::page_size();
    #[cfg(not(unix))]
    return 4096;
}
