use std::path::PathBuf;

use super::*;

/// A machine made of files, removed when dropped.
struct Fixture(tempfile::TempDir);

impl Fixture {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder for the fixture"))
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, path: &str, text: &str) -> &Self {
        let path: PathBuf = self.root().join(path);
        std::fs::create_dir_all(path.parent().expect("files lie in folders")).expect("the fixture's folders");
        std::fs::write(path, format!("{text}\n")).expect("the fixture's files");
        self
    }

    fn cpu(&self, id: usize, core: i32, package: i32, siblings: &str) -> &Self {
        let folder = format!("sys/devices/system/cpu/cpu{id}/topology");
        self.file(&format!("{folder}/core_id"), &core.to_string())
            .file(&format!("{folder}/physical_package_id"), &package.to_string())
            .file(&format!("{folder}/thread_siblings_list"), siblings)
    }

    fn cache(&self, cpu: usize, index: usize, level: u32, kind: &str, size: &str, shared: &str) -> &Self {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
        self.file(&format!("{folder}/level"), &level.to_string())
            .file(&format!("{folder}/type"), kind)
            .file(&format!("{folder}/size"), size)
            .file(&format!("{folder}/coherency_line_size"), "64")
            .file(&format!("{folder}/shared_cpu_list"), shared)
    }

    fn online(&self, cpus: &str) -> &Self {
        self.file("sys/devices/system/cpu/online", cpus)
    }
}

/// Two performance cores with two threads each, four efficient cores with one, sharing an L2.
fn hybrid_laptop() -> Fixture {
    let f = Fixture::new();
    f.online("0-7");
    for (id, core, siblings) in [(0, 0, "0-1"), (1, 0, "0-1"), (2, 4, "2-3"), (3, 4, "2-3")] {
        f.cpu(id, core, 0, siblings);
        f.cache(id, 0, 1, "Data", "48K", siblings).cache(id, 1, 1, "Instruction", "32K", siblings);
        f.cache(id, 2, 2, "Unified", "1280K", siblings).cache(id, 3, 3, "Unified", "12288K", "0-7");
    }
    for id in 4..8 {
        let own = id.to_string();
        f.cpu(id, id as i32 + 4, 0, &own);
        f.cache(id, 0, 1, "Data", "32K", &own).cache(id, 1, 1, "Instruction", "64K", &own);
        f.cache(id, 2, 2, "Unified", "2048K", "4-7").cache(id, 3, 3, "Unified", "12288K", "0-7");
    }
    f.file(
        "proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 154\n\
         model name\t: 12th Gen Intel(R)   Core\u{1b}[31m\nstepping\t: 3\nmicrocode\t: 0x430\nflags\t\t: fpu vme",
    );
    f.file("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never");
    f.file("sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "2097152");
    f
}

/// Two packages of two cores with two threads each; the second threads are numbered after all first ones.
fn two_socket_server() -> Fixture {
    let f = Fixture::new();
    f.online("0-7").file("sys/devices/system/node/online", "0-1");
    f.file("sys/devices/system/node/node0/cpulist", "0-1,4-5").file("sys/devices/system/node/node1/cpulist", "2-3,6-7");
    for id in 0..8 {
        let (core, package) = (id % 4 % 2, id % 4 / 2);
        f.cpu(id, core as i32, package as i32, &format!("{},{}", id % 4, id % 4 + 4));
        let package_cpus = ["0-1,4-5", "2-3,6-7"][package];
        f.cache(id, 0, 3, "Unified", "32M", package_cpus);
    }
    f
}

const V2_MOUNT: &str = "30 20 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw";

#[test]
fn a_hybrid_laptop_has_one_thread_per_core_and_the_caches_of_its_first_cpu() {
    let fixture = hybrid_laptop();
    let topology = Topology::read_under(fixture.root(), &[0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(topology.one_cpu_per_core(), [0, 2, 4, 5, 6, 7]);
    assert_eq!(topology.data_cache(1).unwrap().bytes, 48 << 10);
    assert_eq!(topology.data_cache(2).unwrap().bytes, 1280 << 10);
    assert_eq!(topology.last_level_cache().unwrap().bytes, 12 << 20);
    assert_eq!(topology.data_cache(4), None);
    // 2 + 4 L1 data caches and as many L1 instruction caches, 2 + 1 L2, 1 L3.
    assert_eq!(topology.caches.len(), 6 + 6 + 3 + 1);
    assert!(topology.smt_shared(&[0, 1]) && !topology.smt_shared(&[0, 2, 4]) && !topology.smt_shared(&[4, 5]));
    assert_eq!(topology.model.brand, "12th Gen Intel(R) Core [31m");
    assert_eq!((topology.model.family, topology.model.model, topology.model.stepping), (6, 154, 3));
    assert_eq!(topology.model.microcode.as_deref(), Some("0x430"));
    assert!(!topology.model.hypervisor);
    assert_eq!(topology.huge_pages, HugePages { transparent: Transparent::Always, size: Some(2 << 20) });
    // Pinned to the efficient cores, the process sees their caches.
    let pinned = Topology::read_under(fixture.root(), &[5, 6]);
    assert_eq!((pinned.allowed.clone(), pinned.one_cpu_per_core()), (vec![5, 6], vec![5, 6]));
    assert_eq!(pinned.data_cache(1).unwrap().bytes, 32 << 10);
}

#[test]
fn cores_of_two_packages_are_distinct_and_their_last_level_caches_add_up() {
    let fixture = two_socket_server();
    let all: Vec<usize> = (0..8).collect();
    let topology = Topology::read_under(fixture.root(), &all);
    assert_eq!(topology.packages(), 2);
    assert_eq!(topology.one_cpu_per_core(), [0, 1, 2, 3]);
    assert_eq!(topology.cpus.iter().map(|c| c.node).collect::<Vec<_>>(), [0, 0, 1, 1, 0, 0, 1, 1]);
    assert_eq!(topology.last_level_bytes(&[0, 1]), 32 << 20);
    assert_eq!(topology.last_level_bytes(&[0, 2, 6]), 64 << 20);
    // Only second threads are allowed: each represents its core.
    assert_eq!(Topology::read_under(fixture.root(), &[5, 6, 7]).one_cpu_per_core(), [5, 6, 7]);
}

#[test]
fn a_containers_limits_are_the_tightest_of_all_parent_groups() {
    let fixture = two_socket_server();
    fixture
        .file("proc/self/cgroup", "0::/pod/main")
        .file("proc/self/mountinfo", V2_MOUNT)
        .file("sys/fs/cgroup/pod/main/cpu.max", "max 100000")
        .file("sys/fs/cgroup/pod/cpu.max", "150000 100000")
        .file("sys/fs/cgroup/pod/main/cpuset.cpus.effective", "0-2")
        .file("sys/fs/cgroup/pod/main/memory.max", "1073741824")
        .file("sys/fs/cgroup/pod/main/memory.current", "536870912")
        .file("sys/fs/cgroup/pod/main/memory.stat", "anon 1\ninactive_file 268435456")
        .file("proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB");
    let all: Vec<usize> = (0..8).collect();
    let topology = Topology::read_under(fixture.root(), &all);
    assert_eq!(topology.quota, Some(1.5));
    assert_eq!(topology.allowed, [0, 1, 2]);
    assert_eq!(topology.one_cpu_per_core(), [0]);
    assert_eq!(topology.memory.limit, Some(1 << 30));
    assert_eq!(topology.memory.below_limit, Some(768 << 20));
    assert_eq!(topology.memory.free(), Some(768 << 20));
    assert_eq!(topology.memory.total, Some(64 << 30));
}

#[test]
fn cgroup_v1_and_hybrid_hierarchies_are_read() {
    let fixture = Fixture::new();
    fixture
        .file("proc/self/cgroup", "4:memory:/job/7\n2:cpu,cpuacct:/docker/abc\n0::/")
        .file(
            "proc/self/mountinfo",
            "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             36 31 0:33 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
        )
        .file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000")
        .file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
        .file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712")
        .file("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4294967296")
        .file("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1073741824")
        .file("sys/fs/cgroup/memory/job/7/memory.limit_in_bytes", "9223372036854771712");
    let topology = Topology::read_under(fixture.root(), &[0]);
    assert_eq!(topology.quota, Some(2.5));
    assert_eq!((topology.memory.limit, topology.memory.free()), (Some(4 << 30), Some(3 << 30)));
    // 'No limit' in version 1.
    fixture.file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
    assert_eq!(Topology::read_under(fixture.root(), &[0]).quota, None);
}

#[test]
fn a_group_outside_the_namespace_does_not_lead_out_of_the_mount() {
    let fixture = Fixture::new();
    fixture
        .file("proc/self/cgroup", "0::/../../../etc")
        .file("proc/self/mountinfo", V2_MOUNT)
        .file("sys/fs/cgroup/cpu.max", "300000 100000")
        .file("etc/cpu.max", "100000 100000");
    assert_eq!(Topology::read_under(fixture.root(), &[0]).quota, Some(3.0));
}

#[test]
fn an_empty_tree_falls_back_to_the_cpus_of_the_affinity() {
    let fixture = Fixture::new();
    let topology = Topology::read_under(fixture.root(), &[3, 5]);
    assert_eq!((topology.allowed.clone(), topology.one_cpu_per_core()), (vec![3, 5], vec![3, 5]));
    assert!(topology.caches.is_empty() && topology.last_level_cache().is_none());
    assert_eq!((topology.quota, topology.memory), (None, Headroom::default()));
    assert_eq!(topology.huge_pages.transparent, Transparent::Never);
    assert_eq!(Topology::read_under(fixture.root(), &[]).allowed, [0]);
}

#[test]
fn damaged_files_count_as_missing() {
    let fixture = Fixture::new();
    let garbage = "\u{0}-99999999999999999999, é : : kB 0x";
    fixture.online("0-1").cpu(0, -1, -1, "garbage").cpu(1, 7, 7, "0").cache(0, 0, 1, "Data", "0K", "x");
    fixture.cache(1, 0, 9, "Holographic", "1K", "1");
    for path in [
        "proc/self/cgroup",
        "proc/self/mountinfo",
        "proc/meminfo",
        "proc/cpuinfo",
        "sys/devices/system/node/online",
        "sys/kernel/mm/transparent_hugepage/enabled",
    ] {
        fixture.file(path, garbage);
    }
    let topology = Topology::read_under(fixture.root(), &[0, 1]);
    assert_eq!(topology.one_cpu_per_core(), [0, 1]);
    assert!(topology.caches.is_empty());
    // Contradictory sources: an affinity of CPUs that aren't online.
    assert_eq!(Topology::read_under(fixture.root(), &[64]).allowed, [0]);
}

#[test]
fn the_device_id_is_stable_anonymous_and_differs_between_machines() {
    let fixture = hybrid_laptop();
    let name = || Topology::read_under(fixture.root(), &[0]).device_id;
    let unnamed = name();
    fixture.file("etc/machine-id", "0123456789abcdef0123456789abcdef");
    let named = name();
    assert_eq!(named, name());
    assert_ne!(named, unnamed);
    let digits = named.strip_prefix("cpu-").unwrap();
    assert!(digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit()));
    assert!(!named.contains("0123456789abcdef"));
}

#[test]
fn this_machine_has_an_allowed_cpu() {
    let topology = Topology::read();
    assert!(!topology.cpus.is_empty() && !topology.one_cpu_per_core().is_empty());
    assert!(topology.one_cpu_per_core().iter().all(|cpu| topology.allowed.contains(cpu)));
    assert!(topology.allowed.iter().all(|id| topology.cpus.iter().any(|cpu| cpu.id == *id)));
    assert!(topology.caches.iter().all(|cache| cache.bytes > 0 && cache.line > 0));
    assert_eq!(topology.device_id, Topology::read().device_id);
}
