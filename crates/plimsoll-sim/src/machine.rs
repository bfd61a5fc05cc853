//! The fictitious machine: its figures, and how long operations take at its full clock. The model is smooth and simple: cache
//! levels change in logistic steps, and simultaneous limits are combined by a power mean. `world` adds noise and faults.

use std::collections::BTreeMap;

use plimsoll_core::Traffic;
use plimsoll_core::device::{CacheInfo, Calibration, Capability, DeviceInfo, Peak};
use plimsoll_core::health::{Health, Link};
use plimsoll_core::unit::Unit;

use crate::scenario::Scenario;
use crate::world::TIMER_OVERHEAD;

/// Core clock, hertz.
pub const CLOCK_HZ: f64 = 3e9;
/// Cores.
pub const CORES: u32 = 16;
/// Cache line length of every level, bytes.
pub const LINE: u32 = 64;
/// Capacity of each level in bytes: per core for L1 and L2, shared by all cores for L3.
pub const CACHES: [u64; 3] = [48 << 10, 2 << 20, 96 << 20];
/// Theoretical bandwidth of memory, B/s: 8 channels × 64 bit × 3.2 GT/s.
pub const PEAK_BANDWIDTH: f64 = 8.0 * 8.0 * 3.2e9;
/// Default power limit, watts.
pub const POWER: f64 = 500.0;
/// FLOP per cycle and core in f64: 2 FMA of 8 lanes.
pub const FLOP_PER_CYCLE: f64 = 32.0;

/// Bandwidth of L1 and L2 from one core, bytes per cycle, and of L3 for all cores together, B/s.
const L1_BYTES_PER_CYCLE: f64 = 128.0;
const L2_BYTES_PER_CYCLE: f64 = 48.0;
const L3_BANDWIDTH: f64 = 600e9;
/// Memory bandwidth of one core, B/s.
const CORE_BANDWIDTH: f64 = 14e9;
/// Share of the peak that pure reads reach, and how much less pure writes reach.
const READ_EFFICIENCY: f64 = 0.93;
const WRITE_LOSS: f64 = 0.10;
/// Factor on memory bandwidth with `above-peak`.
const IMPOSSIBLE: f64 = 1.5;
/// Latency of each level and of memory, cycles.
const LATENCIES: [f64; 4] = [5.0, 15.0, 62.0, 290.0];
/// Sharpness of the step from one level to the next: the exponent of footprint over capacity.
const SHARPNESS: f64 = 20.0;
/// Footprint over capacity at which half of the accesses miss; the curve begins to rise at the capacity itself.
const HALF_MISS: f64 = 1.04;
/// Reach of the two TLB levels with small pages, bytes, and the cost of a miss in each, cycles.
const TRANSLATION: [(f64, f64); 2] = [(256.0 * 1024.0, 7.0), (8.0 * 1024.0 * 1024.0, 60.0)];
/// Size of huge pages over small ones: 2 MiB / 4 KiB.
const HUGE: f64 = 512.0;
/// Share of the accesses that change the page if all cache lines of a page are visited before the next page: 64 B / 4 KiB.
const PAGE_CHANGES: f64 = 1.0 / 64.0;

/// The machine in a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Factor on memory bandwidth: 1, or an impossible value above.
    memory_factor: f64,
    /// An empty launch, seconds.
    pub launch: f64,
}

impl Machine {
    /// The machine of a scenario.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        Self { memory_factor: if scenario.above_peak { IMPOSSIBLE } else { 1.0 }, launch: scenario.launch }
    }

    /// Memory bandwidth for this mix with `threads` cores, B/s. `traffic` includes cache lines read before writes.
    #[must_use]
    pub fn memory_bandwidth(&self, traffic: Traffic, threads: u32) -> f64 {
        let written = 1.0 - traffic.read_fraction().unwrap_or(1.0);
        let all_cores = PEAK_BANDWIDTH * self.memory_factor * (READ_EFFICIENCY - WRITE_LOSS * written);
        combine_limits(all_cores, CORE_BANDWIDTH * self.memory_factor * f64::from(threads), 6.0)
    }

    /// Bandwidth of all cores on private data, `footprint` bytes in total, B/s.
    #[must_use]
    pub fn bandwidth(&self, footprint: u64, traffic: Traffic) -> f64 {
        let cores = f64::from(CORES);
        let per_core = footprint as f64 / cores;
        let to_l2 = miss_share(per_core, CACHES[0] as f64);
        let to_l3 = to_l2 * miss_share(per_core, CACHES[1] as f64);
        let to_memory = to_l3 * miss_share(footprint as f64, (CACHES[2] + u64::from(CORES) * CACHES[1]) as f64);
        let memory = self.memory_bandwidth(traffic, CORES);
        let seconds_per_byte = (1.0 - to_l2) / (L1_BYTES_PER_CYCLE * CLOCK_HZ * cores)
            + (to_l2 - to_l3) / (L2_BYTES_PER_CYCLE * CLOCK_HZ * cores)
            + (to_l3 - to_memory) / L3_BANDWIDTH
            + to_memory / memory;
        1.0 / seconds_per_byte
    }

    /// Latency of one dependent load in a random cycle over `footprint` bytes, cycles.
    #[must_use]
    pub fn latency(&self, footprint: u64, huge_pages: bool, page_local: bool) -> f64 {
        let footprint = footprint as f64;
        let mut cycles = LATENCIES[0];
        for (level, capacity) in CACHES.iter().enumerate() {
            cycles += (LATENCIES[level + 1] - LATENCIES[level]) * miss_share(footprint, *capacity as f64);
        }
        for (reach, cost) in TRANSLATION {
            let reach = if huge_pages { reach * HUGE } else { reach };
            let share = if page_local { PAGE_CHANGES } else { 1.0 };
            cycles += cost * share * miss_share(footprint, reach);
        }
        cycles
    }

    /// Memory latency while others draw `background` of the maximum bandwidth `most`, modelled as a queue, cycles.
    #[must_use]
    pub fn loaded_latency(&self, background: f64, most: f64) -> f64 {
        let used = (background / most).min(1.0);
        LATENCIES[3] * (1.0 + 0.12 * used / (1.06 - used))
    }

    /// FLOP/s of all cores at `intensity` FLOP per byte from memory; `lanes` is 1 for f64 and 2 for f32.
    #[must_use]
    pub fn roofline(&self, intensity: f64, lanes: f64, traffic: Traffic) -> f64 {
        let peak = 0.98 * FLOP_PER_CYCLE * CLOCK_HZ * f64::from(CORES) * lanes;
        combine_limits(peak, intensity * self.memory_bandwidth(traffic, CORES), 8.0)
    }
}

/// Combines two limits smoothly: approximately the smaller one, a little less where they are close.
fn combine_limits(a: f64, b: f64, sharpness: f64) -> f64 {
    (a.powf(-sharpness) + b.powf(-sharpness)).powf(-1.0 / sharpness)
}

/// Share of the accesses that miss in a level of `capacity`.
fn miss_share(footprint: f64, capacity: f64) -> f64 {
    1.0 / (1.0 + (capacity * HALF_MISS / footprint).powf(SHARPNESS))
}

/// The device's description.
pub(crate) fn info(scenario: &Scenario, free: u64) -> DeviceInfo {
    let cache = |level: &str, bytes, shared_by| CacheInfo { level: level.into(), bytes, line: LINE, shared_by };
    let flops = FLOP_PER_CYCLE * CLOCK_HZ * f64::from(CORES);
    let peak =
        |metric: &str, value, unit, source: &str| Peak { metric: metric.into(), value, unit, source: source.into() };
    DeviceInfo {
        selector: "sim".into(),
        id: scenario.uuid.clone().unwrap_or_else(|| format!("sim-{}", scenario.seed)),
        name: "Simulated device".into(),
        backend: "sim".into(),
        architecture: Some("made up".into()),
        driver: Some("simulated".into()),
        multiprocessors: CORES,
        memory_total: scenario.memory,
        memory_free: free,
        caches: vec![cache("L1", CACHES[0], 1), cache("L2", CACHES[1], 1), cache("L3", CACHES[2], CORES)],
        peaks: vec![
            peak("bandwidth", PEAK_BANDWIDTH, Unit::BytePerSecond, "8 channels × 64 bit × 3.2 GT/s, made up"),
            peak("f64", flops, Unit::FlopPerSecond, "16 cores × 2 FMA × 8 lanes × 3 GHz, made up"),
            peak("f32", 2.0 * flops, Unit::FlopPerSecond, "16 cores × 2 FMA × 16 lanes × 3 GHz, made up"),
        ],
        capabilities: vec![
            Capability::available("huge pages"),
            Capability::missing("hardware counters", "a simulated device counts nothing", "Measure a real device"),
        ],
        calibration: Calibration {
            tick: scenario.tick,
            resolution: scenario.tick,
            overhead: TIMER_OVERHEAD,
            empty_launch: scenario.launch,
            clock_hz: Some(CLOCK_HZ),
        },
        health: health(scenario),
        notes: notes(scenario),
    }
}

fn notes(scenario: &Scenario) -> BTreeMap<String, String> {
    let simulated = ("simulated".to_owned(), "nothing real was measured".to_owned());
    let address = scenario.slot.map(|slot| ("PCIe address".to_owned(), format!("0000:{slot:02x}:00.0")));
    [simulated].into_iter().chain(address).collect()
}

/// What the made-up system reports.
fn health(scenario: &Scenario) -> Health {
    let link = |lanes| Some(Link { generation: 5, lanes });
    Health {
        link: link(if scenario.link_degraded { 8 } else { 16 }),
        link_most: link(16),
        power_limit: Some(POWER * scenario.power_limit),
        power_limit_default: Some(POWER),
        clock_most: Some(CLOCK_HZ),
        uncorrected_errors: Some(scenario.uncorrected),
        corrected_errors: Some(scenario.ecc),
        other_processes: Some(u32::from(scenario.cotenant > 0.0)),
        ..Health::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Traffic = Traffic::new(1, 0);

    #[test]
    fn latency_has_a_plateau_within_every_level() {
        let machine = Machine::new(&Scenario::default());
        for (footprint, cycles) in [(16 << 10, 5.0), (512 << 10, 15.0), (12 << 20, 62.0), (1 << 30, 290.0)] {
            let got = machine.latency(footprint, true, true);
            assert!((got / cycles - 1.0_f64).abs() < 0.03, "{footprint}: {got} of {cycles}");
        }
        assert!(machine.latency(1 << 30, false, false) > machine.latency(1 << 30, true, false) + 30.0);
    }

    #[test]
    fn bandwidth_falls_with_the_footprint_and_stays_below_the_peak_in_memory() {
        let machine = Machine::new(&Scenario::default());
        let curve: Vec<f64> = (16..34).map(|log| machine.bandwidth(1 << log, READ)).collect();
        assert!(curve.windows(2).all(|pair| pair[1] <= pair[0]));
        assert!(curve[17] < PEAK_BANDWIDTH && curve[17] > 0.85 * PEAK_BANDWIDTH);
    }
}
