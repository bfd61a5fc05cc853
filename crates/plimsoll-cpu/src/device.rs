//! The CPU as a device: the processors that take part, what the machine reports about itself, and the resolution and
//! overhead of its timer, measured once when the device is opened.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use plimsoll_core::Fault;
use plimsoll_core::device::{CacheInfo, Calibration, Capability, DeviceInfo, Peak};
use plimsoll_core::health::Health;
use plimsoll_core::probe::{Backend, Bench, Case, Depth, Probe};

use plimsoll_core::unit::Unit;
use plimsoll_suite::machines::cpus::{Microarchitecture, Number, microarchitecture};

use crate::arch::Isa;
use crate::clock::CpuClock;
use crate::power::is_on_battery;
use crate::threads::{Task, Team};
use crate::timer::{Timer, core_hz};
use crate::topology::{Topology, Transparent};

/// How long calibration keeps a core busy before it trusts the measured clock.
const WARM_UP: Duration = Duration::from_millis(30);

/// The CPU backend.
#[derive(Debug)]
pub struct Cpu;

impl Backend for Cpu {
    type Device = CpuDevice;
    type Clock = CpuClock;
    type Need = Infallible;
    const NAME: &'static str = "cpu";

    fn verify_expressions(
        device: &mut CpuDevice,
        functions: &[&str],
        depth: Depth,
        report: &mut dyn FnMut(Case),
    ) -> Result<(), Fault> {
        crate::elementwise::verify::verify(device.team(device.cpus.len())?, functions, depth, report)
    }
}

/// The processors that measurements run on.
#[derive(Debug)]
pub struct CpuDevice {
    /// The machine's topology, as the system reports it.
    pub topology: Topology,
    /// One logical processor per core that this process may use, in rank order.
    pub cpus: Vec<usize>,
    /// The clock of all samples.
    pub timer: Timer,
}

impl CpuDevice {
    /// A team on the first `threads` cores.
    pub fn team(&self, threads: usize) -> Result<Team, Fault> {
        Team::new(&self.cpus[..threads.clamp(1, self.cpus.len())], self.timer)
    }

    /// Capacity in bytes of the last-level caches that the measuring cores use together; 0 where unknown.
    #[must_use]
    pub fn last_level_bytes(&self) -> u64 {
        self.topology.last_level_bytes(&self.cpus)
    }
}

/// The CPU with these probes, ready to be measured (`plimsoll_probes::cpu_probes` has all of them). Takes about 0.3 s, because
/// the timer is measured first.
///
/// # Errors
/// [`Fault::Unavailable`] if the measuring threads can't be started.
pub fn open(probes: &'static [&'static dyn Probe<Cpu>]) -> Result<Bench<Cpu>, Fault> {
    let topology = Topology::read();
    let cpus = topology.one_cpu_per_core();
    let timer = Timer::best();
    let smt_shared = topology.smt_shared(&cpus);
    let device = CpuDevice { topology, cpus, timer };
    let info = info(&device)?;
    let clock = CpuClock::new(timer, &device.cpus, smt_shared);
    Ok(Bench::new(device, info, clock, probes))
}

fn info(device: &CpuDevice) -> Result<DeviceInfo, Fault> {
    let topology = &device.topology;
    let model = &topology.model;
    let core = microarchitecture(&model.vendor, model.family, model.model);
    let calibration = calibrate(device)?;
    let memory = &topology.memory;
    Ok(DeviceInfo {
        selector: Cpu::NAME.to_owned(),
        id: topology.device_id.clone(),
        name: if model.brand.is_empty() { "CPU".to_owned() } else { model.brand.clone() },
        backend: Cpu::NAME.to_owned(),
        architecture: core.map(|core| core.name.to_owned()),
        driver: None,
        multiprocessors: u32::try_from(device.cpus.len()).unwrap_or(u32::MAX),
        memory_total: memory.limit.into_iter().chain(memory.total).min().unwrap_or(0),
        memory_free: memory.free().unwrap_or(0),
        caches: caches(device),
        peaks: core.map_or_else(Vec::new, |core| peaks(core, device.cpus.len(), calibration.clock_hz)),
        capabilities: capabilities(device),
        calibration,
        health: Health { on_battery: is_on_battery(), virtual_machine: Some(model.hypervisor), ..Health::default() },
        notes: notes(device),
    })
}

/// One entry per level: the instance that the first core uses. The last level is the sum of all instances that the
/// measuring cores use.
fn caches(device: &CpuDevice) -> Vec<CacheInfo> {
    let topology = &device.topology;
    let last = topology.last_level_cache().map(|cache| cache.level);
    let level = |level: u32| {
        let cache = topology.data_cache(level)?;
        let whole = Some(level) == last && cache.shared_by.len() > 1;
        Some(CacheInfo {
            level: format!("L{level}"),
            bytes: if whole { device.last_level_bytes() } else { cache.bytes },
            line: u32::try_from(cache.line).unwrap_or(64),
            shared_by: u32::try_from(cache.shared_by.len()).unwrap_or(u32::MAX),
        })
    };
    (1..=4).filter_map(level).collect()
}

fn peaks(core: &Microarchitecture, cores: usize, clock_hz: Option<f64>) -> Vec<Peak> {
    let peak = |metric: &str, number: Number| {
        let per_cycle = core.flop_per_cycle(number)?;
        let hz = clock_hz?;
        Some(Peak {
            metric: metric.to_owned(),
            value: f64::from(per_cycle) * hz * cores as f64,
            unit: Unit::FlopPerSecond,
            source: format!(
                "{per_cycle} FLOP per cycle and core ({}; {}) × {} measured × {cores} cores",
                core.name,
                core.source,
                Unit::Hertz.format(hz)
            ),
        })
    };
    [peak("f64", Number::F64), peak("f32", Number::F32)].into_iter().flatten().collect()
}

/// The timer's resolution and overhead, the core's clock, and the time of an empty launch within a batch.
fn calibrate(device: &CpuDevice) -> Result<Calibration, Fault> {
    const LAUNCHES: u64 = 1_000;
    let timer = device.timer;
    let mut team = device.team(device.cpus.len())?;
    let empty = Task::new(|_| {});
    let mut launch = f64::INFINITY;
    for _ in 0..30 {
        launch = launch.min(timer.seconds(team.run_timed(LAUNCHES, &empty)?) / LAUNCHES as f64);
    }
    // An idle core needs some milliseconds of work to reach its full clock.
    let warm = Instant::now();
    let mut clock_hz = core_hz(&timer).ok();
    while clock_hz.is_some() && warm.elapsed() < WARM_UP {
        clock_hz = core_hz(&timer).ok().filter(|&hz| Some(hz) > clock_hz).or(clock_hz);
    }
    Ok(Calibration {
        tick: timer.tick_seconds(),
        resolution: timer.resolution() as f64 * timer.tick_seconds(),
        overhead: timer.overhead_seconds(),
        empty_launch: launch,
        clock_hz,
    })
}

fn capabilities(device: &CpuDevice) -> Vec<Capability> {
    let tsc = "invariant time-stamp counter";
    let mut list = vec![match Timer::tsc() {
        Ok(_) => Capability::available(tsc),
        Err(why) => Capability::missing(tsc, why.to_string(), "the operating system's clock is used instead"),
    }];
    list.push(match device.topology.huge_pages.transparent {
        Transparent::Never => Capability::missing(
            "transparent huge pages",
            "/sys/kernel/mm/transparent_hugepage/enabled says never",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)",
        ),
        _ => Capability::available("transparent huge pages"),
    });
    let pinning = "thread pinning";
    list.push(match device.team(1).map(|team| team.placements()[0].pinned) {
        Ok(Ok(())) => Capability::available(pinning),
        Ok(Err(refused)) => {
            Capability::missing(pinning, format!("{refused:?}"), "allow sched_setaffinity in the sandbox")
        }
        Err(fault) => Capability::missing(pinning, fault.to_string(), "allow threads in the sandbox"),
    });
    for isa in [Isa::Avx512, Isa::Avx2, Isa::Neon] {
        if isa.is_available() {
            list.push(Capability::available(isa.name()));
        } else if (isa == Isa::Neon) == cfg!(target_arch = "aarch64") {
            list.push(Capability::missing(isa.name(), "the processor or the operating system lacks it", ""));
        }
    }
    list.push(Capability::missing(
        "theoretical memory bandwidth",
        "this system doesn't show programs the memory's type, channels and clock",
        "Compute it from the data sheet: bus width times transfers per second",
    ));
    list.push(Capability::missing("hardware counters", "this version doesn't read CPU counters", ""));
    list
}

fn notes(device: &CpuDevice) -> BTreeMap<String, String> {
    let topology = &device.topology;
    let mut notes = BTreeMap::new();
    let mut note = |name: &str, value: String| notes.insert(name.to_owned(), value);
    note("logical processors", format!("{} online, {} allowed", topology.cpus.len(), topology.allowed.len()));
    note("measured on", format!("processors {:?}", device.cpus));
    note(
        "timer",
        match device.timer {
            Timer::Tsc { hz } => format!("time-stamp counter at {}", Unit::Hertz.format(hz)),
            Timer::Os => "the operating system's monotonic clock".to_owned(),
        },
    );
    note("page size", format!("{} B", topology.page_size));
    if let Some(quota) = topology.quota {
        note("CPU quota", format!("{quota} processors"));
    }
    if let Some(microcode) = &topology.model.microcode {
        note("microcode", microcode.clone());
    }
    if topology.model.hypervisor {
        note("hypervisor", "yes: caches and memory may be shared with other virtual machines".to_owned());
    }
    notes
}
