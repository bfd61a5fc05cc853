//! Telemetry of the device during a measurement: clocks, throttle reasons, memory errors, the PCIe link, other processes. It is
//! read at most every 20 ms and allocates nothing, because it runs between slices of a measurement.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plimsoll_core::health::{Health, Link};
use plimsoll_core::sample::{Evidence, Throttle};

use crate::driver::nvml::{MOST_PROCESSES, Number, Nvml, NvmlDevice, Utilization};
use plimsoll_gpu::{Meter, Unavailable};

/// Least time between two readings.
const INTERVAL: Duration = Duration::from_millis(20);

/// `nvmlClocksEventReasonSwPowerCap`, and the hardware's power brake.
const POWER: u64 = 0x04 | 0x80;
/// Software and hardware thermal slowdown.
const THERMAL: u64 = 0x20 | 0x40;
/// Hardware slowdown for any reason.
const HARDWARE: u64 = 0x08;

/// Throttle reasons from NVML's bits.
fn throttle(bits: u64) -> Throttle {
    let any = |mask: u64| bits & mask != 0;
    Throttle { power: any(POWER), thermal: any(THERMAL), hardware: any(HARDWARE) }
}

/// Processes on the device, by host process ID.
#[derive(Clone, Copy, Debug)]
struct Processes {
    numbers: [u32; MOST_PROCESSES],
    count: usize,
}

impl Processes {
    fn list(device: &NvmlDevice) -> Self {
        let mut numbers = [0; MOST_PROCESSES];
        let count = device.processes(&mut numbers).unwrap_or(0);
        Self { numbers, count }
    }

    fn contains(&self, number: u32) -> bool {
        self.numbers[..self.count].contains(&number)
    }
}

/// The NVML device with this UUID (without prefix).
pub(crate) fn find(uuid: &str) -> Result<NvmlDevice, Unavailable> {
    let nvml = Nvml::system()?;
    nvml.device(&format!("GPU-{uuid}")).or_else(|whole| nvml.device(&format!("MIG-{uuid}")).map_err(|_| whole))
}

impl Meter for NvmlDevice {
    fn joules(&self) -> Option<f64> {
        self.energy().map(|millijoules| millijoules as f64 / 1e3)
    }

    fn temperature(&self) -> Option<f64> {
        self.chip_temperature().map(f64::from)
    }
}

/// One device's telemetry.
#[derive(Debug)]
pub struct Telemetry {
    device: NvmlDevice,
    /// Processes present before our context was made.
    strangers: Processes,
    /// Processes that appeared with our context: in a container, our own process ID isn't the host's.
    ours: Processes,
    last: Instant,
    last_stamp: u64,
    ecc: u64,
}

impl Telemetry {
    /// Starts telemetry of the device with this UUID (without prefix), before a context is made on it.
    ///
    /// # Errors
    /// No NVML, or a device that NVML doesn't know.
    pub fn new(uuid: &str) -> Result<Self, Unavailable> {
        let device = find(uuid)?;
        let strangers = Processes::list(&device);
        let ours = Processes { numbers: [0; MOST_PROCESSES], count: 0 };
        let ecc = count_errors(&device).unwrap_or(0);
        Ok(Self { device, strangers, ours, last: Instant::now(), last_stamp: stamp(), ecc })
    }

    /// Identifies our process: the one that appeared while our context was made.
    pub fn context_was_made(&mut self) {
        let now = Processes::list(&self.device);
        let mut ours = Processes { numbers: [0; MOST_PROCESSES], count: 0 };
        for &number in &now.numbers[..now.count] {
            if !self.strangers.contains(number) || number == std::process::id() {
                ours.numbers[ours.count] = number;
                ours.count += 1;
            }
        }
        self.ours = ours;
    }

    /// Evidence since the last reading; `None` if that was less than [`INTERVAL`] ago.
    fn read(&mut self) -> Option<Evidence> {
        let wall = self.last.elapsed();
        if wall < INTERVAL {
            return None;
        }
        self.last = Instant::now();
        let device = self.device;
        let ecc = count_errors(&device).unwrap_or(self.ecc);
        let evidence = Evidence {
            clock_hz: device.multiprocessor_mhz().map(|mhz| f64::from(mhz) * 1e6),
            throttle: device.throttle().map(throttle).unwrap_or_default(),
            ecc_errors: ecc.saturating_sub(self.ecc),
            cotenant: self.stranger_share() * wall.as_secs_f64(),
            link_degraded: self.link_degraded(),
            ..Evidence::default()
        };
        self.ecc = ecc;
        Some(evidence)
    }

    /// Share of the SMs' time that other processes used, 0 to 1, if NVML reports it.
    fn stranger_share(&mut self) -> f64 {
        let mut samples = [Utilization::default(); MOST_PROCESSES];
        let since = std::mem::replace(&mut self.last_stamp, stamp());
        let count = self.device.utilization(&mut samples, since).unwrap_or(0);
        let is_stranger = |sample: &&Utilization| {
            sample.time > since && sample.pid != std::process::id() && !self.ours.contains(sample.pid)
        };
        // If our own process is unknown, so are the others.
        if self.ours.count == 0 {
            return 0.0;
        }
        let percent: u32 = samples[..count].iter().filter(is_stranger).map(|sample| sample.multiprocessors).sum();
        (f64::from(percent) / 100.0).min(1.0)
    }

    /// Whether the link uses fewer lanes than device and slot support. The generation says nothing: an idle link lowers it to save
    /// power.
    fn link_degraded(&self) -> bool {
        let width = self.device.number(Number::PcieWidth);
        let most = self.device.number(Number::PcieWidthMost);
        width.zip(most).is_some_and(|(width, most)| width < most)
    }

    /// The device's health. A fact that the driver doesn't report is named in [`Health::hidden`].
    #[must_use]
    pub fn health(&self) -> Health {
        let device = &self.device;
        let number = |number: Number| device.number(number);
        let watts = |number: Number| device.number(number).map(|milliwatts| f64::from(milliwatts) / 1e3);
        let link = |generation, lanes| Some(Link { generation: number(generation)?, lanes: number(lanes)? });
        let errors = device.ecc_errors();
        let mut health = Health {
            link: link(Number::PcieGeneration, Number::PcieWidth),
            link_most: link(Number::PcieGenerationMost, Number::PcieWidthMost),
            power_limit: watts(Number::PowerLimit),
            power_limit_default: watts(Number::PowerLimitDefault),
            clock_most: device.multiprocessor_mhz_most().map(|mhz| f64::from(mhz) * 1e6),
            temperature: device.chip_temperature().map(f64::from),
            corrected_errors: errors.map(|[corrected, _]| corrected),
            uncorrected_errors: errors.map(|[_, uncorrected]| uncorrected),
            remapped_rows: device.remapped_rows(),
            other_processes: u32::try_from(self.strangers.count).ok(),
            ..Health::default()
        };
        let facts = [
            ("link", health.link.is_none()),
            ("power limit", health.power_limit.is_none()),
            ("memory errors", errors.is_none()),
            ("remapped rows", health.remapped_rows.is_none()),
        ];
        let hidden = facts.into_iter().filter(|(_, is_hidden)| *is_hidden);
        health.hidden = hidden.map(|(name, _)| (name.to_owned(), "the driver doesn't report it".to_owned())).collect();
        health
    }

    /// Notes for a record's header, by name.
    #[must_use]
    pub fn notes(&self) -> Vec<(&'static str, String)> {
        let device = &self.device;
        let number = |number: Number| device.number(number);
        let watts = |milliwatts: u32| format!("{:.0} W", f64::from(milliwatts) / 1e3);
        let link = |generation: Option<u32>, width: Option<u32>| {
            generation.zip(width).map(|(generation, width)| format!("generation {generation}, {width} lanes"))
        };
        let all = [
            ("driver release", Nvml::system().ok().and_then(Nvml::driver)),
            ("board part number", device.board_part_number()),
            ("VBIOS", device.vbios()),
            ("power limit", number(Number::PowerLimit).map(watts)),
            ("power at the start", number(Number::Power).map(watts)),
            ("highest clock", device.multiprocessor_mhz_most().map(|mhz| format!("{mhz} MHz"))),
            ("PCIe link", link(number(Number::PcieGeneration), number(Number::PcieWidth))),
            ("PCIe link at most", link(number(Number::PcieGenerationMost), number(Number::PcieWidthMost))),
            ("MIG", device.mig().map(|on| if on { "on" } else { "off" }.to_owned())),
            ("other processes at the start", Some(self.strangers.count.to_string())),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Memory errors since the driver was loaded, corrected and not.
fn count_errors(device: &NvmlDevice) -> Option<u64> {
    device.ecc_errors().map(|counts| counts.iter().sum())
}

/// Microseconds since the epoch, as in NVML's time stamps.
fn stamp() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

impl plimsoll_gpu::clock::Telemetry for Telemetry {
    fn observe(&mut self) -> Option<Evidence> {
        self.read()
    }

    fn energy_joules(&self) -> Option<f64> {
        self.device.energy().map(|millijoules| millijoules as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_throttle_reasons_are_ignored() {
        // Idle, application clocks, sync boost, display clocks.
        assert_eq!(throttle(0x01 | 0x02 | 0x10 | 0x100), Throttle::default());
        let both = throttle(0x04 | 0x40);
        assert!(both.power && both.thermal && !both.hardware);
        assert!(throttle(0x08).hardware && throttle(0x80).power && throttle(0x20).thermal);
    }
}
