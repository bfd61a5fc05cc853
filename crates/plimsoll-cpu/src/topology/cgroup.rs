//! The limits of this process's control groups on CPU time, CPUs and memory, in cgroup v1, v2 or both at once. Containers show
//! their host's `/proc/meminfo` and CPU count, so only these limits apply to them.

use std::path::{Path, PathBuf};

use super::text;

/// The version of the hierarchy that a folder belongs to, which decides the names of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

/// A control group that this process is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) version: Version,
    pub(crate) folder: PathBuf,
}

/// The groups for `controller` from this process's own up to the root of each hierarchy; a limit on any of them counts.
/// `root` is `/`, or a copy of the tree in a test.
pub(crate) fn groups(root: &Path, controller: &str) -> Vec<Group> {
    let memberships = text::read(&root.join("proc/self/cgroup")).unwrap_or_default();
    let mounts = text::read(&root.join("proc/self/mountinfo")).unwrap_or_default();
    let mut groups = Vec::new();
    for line in memberships.lines() {
        // `4:memory:/path` in v1, `0::/path` in v2 (cgroups(7)).
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let version = if controllers.is_empty() { Version::V2 } else { Version::V1 };
        if version == Version::V1 && !controllers.split(',').any(|c| c == controller) {
            continue;
        }
        let Some((mount_root, mount_point)) = mounts.lines().find_map(|line| mount(line, version, controller)) else {
            continue;
        };
        groups.extend(chain(root, mount_root, mount_point, path).map(|folder| Group { version, folder }));
    }
    groups
}

/// `(root, mount point)` of a `mountinfo` line if it is the hierarchy of `controller`.
fn mount<'a>(line: &'a str, version: Version, controller: &str) -> Option<(&'a str, &'a str)> {
    // `id parent dev root point options… - type source super` (proc_pid_mountinfo(5)).
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (mount_root, point) = (before.next()?, before.next()?);
    let mut after = after.split(' ');
    let (kind, options) = (after.next()?, after.nth(1)?);
    let ours = match version {
        Version::V2 => kind == "cgroup2",
        Version::V1 => kind == "cgroup" && options.split(',').any(|o| o == controller),
    };
    ours.then_some((mount_root, point))
}

/// Folders from the group at `path` up to the mount point. For a path outside the mount's root (a host's path seen from
/// inside a container), only the mount point.
fn chain(root: &Path, mount_root: &str, point: &str, path: &str) -> impl Iterator<Item = PathBuf> {
    let top = root.join(point.trim_start_matches('/'));
    let inside = Path::new(path).strip_prefix(mount_root).unwrap_or(Path::new(""));
    // `..` appears if the group lies outside the cgroup namespace; it must not lead out of the mount.
    let plain = inside.components().all(|c| matches!(c, std::path::Component::Normal(_)));
    let inside = if plain { inside } else { Path::new("") };
    let folders: Vec<PathBuf> = inside.ancestors().map(|part| top.join(part)).collect();
    folders.into_iter()
}

/// The CPU time that the tightest group allows, in CPUs (1.5: one and a half CPUs' time in every period); `None` without a
/// limit. v2: `cpu.max`; v1: `cpu.cfs_quota_us` over `cpu.cfs_period_us`.
pub(crate) fn cpu_quota(root: &Path) -> Option<f64> {
    let limits = groups(root, "cpu").into_iter().filter_map(|group| {
        let (quota, period): (f64, f64) = match group.version {
            Version::V2 => {
                let line = text::read(&group.folder.join("cpu.max"))?;
                let (quota, period) = line.split_once(' ')?;
                (quota.parse().ok()?, period.trim().parse().ok()?)
            }
            Version::V1 => (
                text::number(&group.folder.join("cpu.cfs_quota_us"))?,
                text::number(&group.folder.join("cpu.cfs_period_us"))?,
            ),
        };
        let cpus = quota / period;
        (cpus.is_finite() && cpus > 0.0).then_some(cpus)
    });
    limits.min_by(f64::total_cmp)
}

/// The CPUs that the groups allow this process; `None` if no group sets them.
pub(crate) fn cpu_set(root: &Path) -> Option<Vec<usize>> {
    groups(root, "cpuset").iter().find_map(|group| {
        let names = match group.version {
            Version::V2 => ["cpuset.cpus.effective", "cpuset.cpus"],
            Version::V1 => ["cpuset.effective_cpus", "cpuset.cpus"],
        };
        let mut lists = names.iter().filter_map(|name| text::cpu_list(&text::read(&group.folder.join(name))?));
        lists.find(|list| !list.is_empty())
    })
}

/// A group's memory limit and use, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLimit {
    pub(crate) limit: u64,
    /// In use, without the page cache that can be dropped.
    pub(crate) used: u64,
}

/// The group with the least memory left; `None` without a limit. v2: `memory.max`, `memory.current`; v1:
/// `memory.limit_in_bytes`, `memory.usage_in_bytes`. Inactive page cache counts as free: the kernel reclaims it first.
pub(crate) fn memory_limit(root: &Path) -> Option<MemoryLimit> {
    let limits = groups(root, "memory").into_iter().filter_map(|group| {
        let (limit, usage, cache) = match group.version {
            Version::V2 => ("memory.max", "memory.current", "inactive_file"),
            Version::V1 => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        };
        let limit: u64 = text::number(&group.folder.join(limit))?;
        // v1 writes 'no limit' as the largest page-aligned i64.
        if limit >= 1 << 62 {
            return None;
        }
        let usage: u64 = text::number(&group.folder.join(usage)).unwrap_or(0);
        let stat = text::read(&group.folder.join("memory.stat")).unwrap_or_default();
        let cache = stat.lines().find_map(|l| l.strip_prefix(cache)?.trim().parse::<u64>().ok()).unwrap_or(0);
        Some(MemoryLimit { limit, used: usage.saturating_sub(cache) })
    });
    limits.min_by_key(|m| m.limit.saturating_sub(m.used))
}
