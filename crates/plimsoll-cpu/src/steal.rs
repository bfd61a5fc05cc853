//! Disturbances by the operating system and the hypervisor: counters that are cheap to read between slices of a measurement,
//! without allocation. The sampling engine decides which differences are worth a flag.
//!
//! The kernel counts CPU time in ticks of 10 ms, so over a short interval `steal_s` and `other_busy_s` are coarse, by
//! about a tick for each CPU.

use std::fs::File;
use std::ops::Sub;
use std::path::Path;
use std::time::Instant;

use crate::topology::{Version, groups};

/// Most levels of control groups whose throttling is watched, from this process's own upwards.
const MOST_GROUPS: usize = 8;

/// Counters since some fixed moment, as read by [`Counters::read`]. Their difference is [`OsEvidence`]. `None` if the system
/// doesn't report a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OsSample {
    wall_s: f64,
    steal_s: Option<f64>,
    busy_s: Option<f64>,
    own_s: Option<f64>,
    throttled_s: Option<f64>,
    throttled_periods: Option<u64>,
    involuntary_switches: Option<u64>,
}

/// What happened between two samples. `None` if the system doesn't report a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OsEvidence {
    /// Seconds between the two.
    pub wall_s: f64,
    /// Seconds, summed over the watched CPUs, that the hypervisor gave to others while this machine could have run.
    pub steal_s: Option<f64>,
    /// Seconds that the container's CPU quota held our threads back.
    pub throttled_s: Option<f64>,
    /// Quota periods in which that happened.
    pub throttled_periods: Option<u64>,
    /// How often the scheduler took the CPU from one of the watched threads.
    pub involuntary_switches: Option<u64>,
    /// Seconds, summed over the watched CPUs, spent on other processes and on interrupts. It is the difference of two counters
    /// that step at different moments, so over a short time it may be off by some ticks or even negative; over a long time
    /// these errors cancel.
    pub other_busy_s: Option<f64>,
}

impl Sub for OsSample {
    type Output = OsEvidence;

    /// What happened since the sample `earlier`. A counter that ran backwards (a hypervisor's may, after a migration) counts
    /// as unchanged.
    fn sub(self, earlier: Self) -> OsEvidence {
        let seconds = |now: Option<f64>, then: Option<f64>| Some((now? - then?).max(0.0));
        let count = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let busy = seconds(self.busy_s, earlier.busy_s);
        let own = seconds(self.own_s, earlier.own_s);
        OsEvidence {
            wall_s: (self.wall_s - earlier.wall_s).max(0.0),
            steal_s: seconds(self.steal_s, earlier.steal_s),
            throttled_s: seconds(self.throttled_s, earlier.throttled_s),
            throttled_periods: count(self.throttled_periods, earlier.throttled_periods),
            involuntary_switches: count(self.involuntary_switches, earlier.involuntary_switches),
            other_busy_s: busy.zip(own).map(|(busy, own)| busy - own),
        }
    }
}

/// The open files behind [`OsSample`], and a buffer to read them into.
#[derive(Debug)]
pub struct Counters {
    cpus: Vec<usize>,
    stat: Option<File>,
    own: Option<File>,
    throttling: Vec<(Version, File)>,
    threads: Vec<File>,
    buffer: Box<[u8]>,
    ticks_per_second: f64,
    start: Instant,
}

impl Counters {
    /// Counters over these CPUs and these threads of this process (by [`crate::threads::Placement::thread_id`]).
    #[must_use]
    pub fn new(cpus: &[usize], thread_ids: &[u32]) -> Self {
        Self::new_under(Path::new("/"), cpus, thread_ids)
    }

    fn new_under(root: &Path, cpus: &[usize], thread_ids: &[u32]) -> Self {
        let mut cpus = cpus.to_vec();
        cpus.sort_unstable();
        cpus.dedup();
        let open = |path: &Path| File::open(path).ok();
        let throttling = groups(root, "cpu").into_iter().take(MOST_GROUPS);
        let status = |id: &u32| open(&root.join(format!("proc/self/task/{id}/status")));
        // A line of `/proc/stat` has at most eleven 20-digit numbers, and there is one line for each CPU up to the last.
        let lines = cpus.last().map_or(1, |last| last.saturating_add(2)).min(1 << 14);
        Self {
            stat: open(&root.join("proc/stat")),
            own: open(&root.join("proc/self/stat")),
            throttling: throttling.filter_map(|g| Some((g.version, open(&g.folder.join("cpu.stat"))?))).collect(),
            threads: thread_ids.iter().filter_map(status).collect(),
            buffer: vec![0; (lines * 240).max(8192)].into_boxed_slice(),
            ticks_per_second: ticks_per_second(),
            start: Instant::now(),
            cpus,
        }
    }

    /// Reads all counters: about ten microseconds, and as much again for each thread. Allocates nothing.
    pub fn read(&mut self) -> OsSample {
        let Self { cpus, stat, own, throttling, threads, buffer, ticks_per_second, start } = self;
        let in_seconds = |ticks: u64| ticks as f64 / *ticks_per_second;
        let machine = stat.as_ref().and_then(|file| machine_ticks(read_text(file, buffer)?, cpus));
        let own_ticks = own.as_ref().and_then(|file| process_ticks(read_text(file, buffer)?));
        let mut throttled: Option<(f64, u64)> = None;
        for (version, file) in throttling.iter() {
            if let Some((seconds, periods)) = read_text(file, buffer).and_then(|text| throttle(*version, text)) {
                let (s, p) = throttled.unwrap_or_default();
                throttled = Some((s + seconds, p + periods));
            }
        }
        let mut switches: Option<u64> = None;
        for file in threads.iter() {
            // A thread that has ended has no counter; the others still count.
            let more = read_text(file, buffer).and_then(|text| field(text, "nonvoluntary_ctxt_switches:"));
            switches = more.map(|n| switches.unwrap_or(0) + n).or(switches);
        }
        OsSample {
            wall_s: start.elapsed().as_secs_f64(),
            steal_s: machine.map(|m| in_seconds(m.steal)),
            busy_s: machine.map(|m| in_seconds(m.busy)),
            own_s: own_ticks.map(in_seconds),
            throttled_s: throttled.map(|t| t.0),
            throttled_periods: throttled.map(|t| t.1),
            involuntary_switches: switches,
        }
    }
}

/// The file's text from its beginning, as much as fits the buffer, up to the first invalid UTF-8.
fn read_text<'a>(file: &File, buffer: &'a mut [u8]) -> Option<&'a str> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileExt;
        let length = file.read_at(buffer, 0).ok()?;
        let bytes = buffer.get(..length)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Some(text),
            Err(error) => std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok(),
        }
    }
    #[cfg(not(unix))]
    {
        let _ = (file, buffer);
        None
    }
}

/// Ticks since boot, summed over the watched CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MachineTicks {
    busy: u64,
    steal: u64,
}

/// From `/proc/stat`: `cpuN user nice system idle iowait irq softirq steal guest guest_nice` (proc_stat(5); user and nice
/// include the guests). `None` if no watched CPU has a line.
fn machine_ticks(text: &str, cpus: &[usize]) -> Option<MachineTicks> {
    let mut sum: Option<MachineTicks> = None;
    // CPUs come first; the rest is long and not used.
    for line in text.lines().take_while(|line| line.starts_with("cpu")) {
        let mut words = line.split_ascii_whitespace();
        let id = words.next().and_then(|word| word.strip_prefix("cpu")?.parse::<usize>().ok());
        if id.is_none_or(|id| cpus.binary_search(&id).is_err()) {
            continue;
        }
        let mut ticks = [0_u64; 8];
        for (tick, word) in ticks.iter_mut().zip(words) {
            *tick = word.parse().ok()?;
        }
        let [user, nice, system, _idle, _iowait, irq, softirq, steal] = ticks;
        let total = sum.get_or_insert_default();
        let busy = [user, nice, system, irq, softirq].into_iter().fold(0, u64::saturating_add);
        total.busy = total.busy.saturating_add(busy);
        total.steal = total.steal.saturating_add(steal);
    }
    sum
}

/// User and system ticks of this process from `/proc/self/stat`, fields 14 and 15 (proc_pid_stat(5)). The second field,
/// the program's name in brackets, may itself hold brackets and spaces.
fn process_ticks(text: &str) -> Option<u64> {
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user.saturating_add(system))
}

/// Seconds and periods of throttling from a group's `cpu.stat`: microseconds in v2, nanoseconds in v1.
fn throttle(version: Version, text: &str) -> Option<(f64, u64)> {
    let seconds = match version {
        Version::V2 => field(text, "throttled_usec")? as f64 * 1e-6,
        Version::V1 => field(text, "throttled_time")? as f64 * 1e-9,
    };
    Some((seconds, field(text, "nr_throttled")?))
}

/// The number after `key` on the line that begins with it.
fn field(text: &str, key: &str) -> Option<u64> {
    let mut words = text.lines().map(str::split_ascii_whitespace);
    words.find_map(|mut words| (words.next()? == key).then(|| words.next()?.parse().ok())?)
}

/// The unit of the kernel's CPU times.
fn ticks_per_second() -> f64 {
    #[cfg(unix)]
    return rustix::param::clock_ticks_per_second() as f64;
    #[cfg(not(unix))]
    return 100.0;
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "cpu  30 3 6 900 5 3 6 15 0 0\ncpu0 10 1 2 300 5 1 2 5 0 0\ncpu1 20 2 4 600 0 2 4 10 0 0\nintr 5\n";

    #[test]
    fn only_busy_and_steal_ticks_of_watched_cpus_count() {
        assert_eq!(machine_ticks(STAT, &[0]), Some(MachineTicks { busy: 16, steal: 5 }));
        assert_eq!(machine_ticks(STAT, &[0, 1]), Some(MachineTicks { busy: 48, steal: 15 }));
        assert_eq!(machine_ticks(STAT, &[7]), None);
        // Kernels before 2.6.11 had no steal column; damaged numbers give `None`.
        assert_eq!(machine_ticks("cpu0 1 2 3 4 5 6 7", &[0]), Some(MachineTicks { busy: 19, steal: 0 }));
        assert_eq!(machine_ticks("cpu0 x 2", &[0]), None);
    }

    #[test]
    fn process_times_are_read_after_a_name_with_brackets() {
        let stat = "42 (a) b (c) R 1 1 1 0 -1 0 0 0 0 0 123 77 0 0 20 0 3 0";
        assert_eq!(process_ticks(stat), Some(200));
        for damaged in ["", "42 (a", "42 (a) R 1 2", ")"] {
            assert_eq!(process_ticks(damaged), None);
        }
    }

    #[test]
    fn throttling_is_in_seconds_in_both_cgroup_versions() {
        let v2 = "usage_usec 9\nnr_periods 8\nnr_throttled 7\nthrottled_usec 2500000\n";
        let v1 = "nr_periods 8\nnr_throttled 7\nthrottled_time 2500000000\n";
        assert_eq!(throttle(Version::V2, v2), Some((2.5, 7)));
        assert_eq!(throttle(Version::V1, v1), Some((2.5, 7)));
        assert_eq!(throttle(Version::V2, "usage_usec 9\n"), None);
    }

    #[test]
    fn the_difference_of_two_samples_excludes_this_process() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/stat", STAT);
        write("proc/self/stat", "42 (x) R 1 1 1 0 -1 0 0 0 0 0 1 1 0");
        write("proc/self/task/9/status", "Name:\tx\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n");
        let mut counters = Counters::new_under(folder.path(), &[1, 0], &[9]);
        let first = counters.read();
        write("proc/stat", &STAT.replace("cpu1 20 2 4 600 0 2 4 10", "cpu1 80 2 4 600 0 2 4 12"));
        write("proc/self/stat", "42 (x) R 1 1 1 0 -1 0 0 0 0 0 31 11 0");
        write("proc/self/task/9/status", "nonvoluntary_ctxt_switches:\t6\n");
        let second = counters.read();
        let tick = 1.0 / ticks_per_second();
        let between = second - first;
        assert!((between.steal_s.unwrap() - 2.0 * tick).abs() < 1e-9);
        assert!((between.other_busy_s.unwrap() - 20.0 * tick).abs() < 1e-9);
        assert_eq!(between.involuntary_switches, Some(4));
        assert_eq!((between.throttled_s, between.throttled_periods), (None, None));
        let backwards = first - second;
        assert_eq!((backwards.steal_s, backwards.other_busy_s), (Some(0.0), Some(0.0)));
        assert_eq!((backwards.involuntary_switches, backwards.wall_s), (Some(0), 0.0));
    }

    #[test]
    fn counters_advance_here_and_are_absent_in_an_empty_tree() {
        let id = crate::threads::affinity::thread_id();
        let mut counters = Counters::new(&crate::threads::affinity::allowed_cpus(), &Vec::from_iter(id));
        let first = counters.read();
        let second = counters.read();
        assert!((second - first).wall_s > 0.0);
        assert_eq!(second.involuntary_switches.is_some(), id.is_some());
        let nowhere = tempfile::tempdir().unwrap();
        let mut none = Counters::new_under(nowhere.path(), &[0], &[1]);
        let between = none.read() - none.read();
        assert_eq!((between.steal_s, between.throttled_s, between.other_busy_s), (None, None, None));
    }
}
