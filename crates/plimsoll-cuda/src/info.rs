//! A GPU's description for record headers.

use std::collections::BTreeMap;

use plimsoll_core::Fault;
use plimsoll_core::device::{CacheInfo, Calibration, Capability, DeviceInfo, Peak};
use plimsoll_core::health::Health;
use plimsoll_core::unit::Unit;
use plimsoll_suite::machines::{machine, peak_bandwidth_from_driver, rates};
use plimsoll_suite::operations;

use crate::counters;
use crate::device::CudaDevice;
use crate::driver::{Attribute, DeviceHandle};
use crate::memory;
use crate::telemetry::Telemetry;
use plimsoll_gpu::calibrate::Replay;
use plimsoll_gpu::{Unavailable, capability};

/// An opened device and the data gathered while opening it.
pub(crate) struct Opened<'f> {
    pub index: u32,
    pub handle: &'f DeviceHandle,
    pub device: &'f CudaDevice,
    pub telemetry: &'f Result<Telemetry, Unavailable>,
    pub replay: Option<Replay>,
}

/// The header of records about this device.
pub(crate) fn info(opened: &Opened<'_>, calibration: Calibration) -> Result<DeviceInfo, Fault> {
    let (handle, device) = (opened.handle, opened.device);
    let name = handle.name()?;
    let instance = name.contains(" MIG ");
    let (free, _) = memory::free(&device.context)?;
    Ok(DeviceInfo {
        selector: format!("cuda:{}", opened.index),
        id: format!("{}-{}", if instance { "MIG" } else { "GPU" }, handle.uuid()?),
        backend: "cuda".to_owned(),
        architecture: Some(format!("sm_{}", device.capability)),
        driver: Some(format!("CUDA {}", handle.driver().version_text())),
        multiprocessors: device.multiprocessors,
        memory_total: handle.memory()?,
        memory_free: free,
        caches: caches(handle)?,
        peaks: bandwidth(handle, &name, instance)?.into_iter().chain(arithmetic(opened)?).collect(),
        capabilities: capabilities(opened),
        calibration,
        health: health(opened),
        notes: notes(opened)?,
        name,
    })
}

fn number(handle: &DeviceHandle, attribute: Attribute) -> Result<u64, Fault> {
    Ok(u64::try_from(handle.attribute(attribute)?).unwrap_or(0))
}

fn caches(handle: &DeviceHandle) -> Result<Vec<CacheInfo>, Fault> {
    let l2 = number(handle, Attribute::L2Bytes)?;
    let multiprocessors = u32::try_from(number(handle, Attribute::Multiprocessors)?).unwrap_or(0);
    // The driver doesn't report the size of the L1; the probes measure it.
    let cache = CacheInfo { level: "L2".to_owned(), bytes: l2, line: 128, shared_by: multiprocessors };
    Ok(if l2 > 0 { vec![cache] } else { vec![] })
}

/// Peak memory bandwidth: the catalogue's value if it knows the model, else bus width × 2 × memory clock as the driver reports
/// them. A MIG instance reports the whole device's bus but gets only a part of it, so it has no peak.
fn bandwidth(handle: &DeviceHandle, name: &str, instance: bool) -> Result<Option<Peak>, Fault> {
    if instance {
        return Ok(None);
    }
    let bits = u32::try_from(number(handle, Attribute::MemoryBusWidth)?).unwrap_or(0);
    let hz = number(handle, Attribute::MemoryClockRate)? as f64 * 1e3;
    let reported = peak_bandwidth_from_driver(bits, hz);
    let formula = format!("{bits} bit × 2 × {} as the driver reports them", Unit::Hertz.format(hz));
    let (value, source) = match machine(name) {
        Ok(known) => {
            (known.peak_bandwidth(), format!("{} ({formula}: {})", known.source, Unit::BytePerSecond.format(reported)))
        }
        Err(_) if reported > 0.0 => (reported, formula),
        Err(_) => return Ok(None),
    };
    Ok(Some(Peak { metric: "bandwidth".to_owned(), value, unit: Unit::BytePerSecond, source }))
}

/// Peak arithmetic rates of all SMs at their highest clock, as far as the rates per cycle are published.
fn arithmetic(opened: &Opened<'_>) -> Result<Vec<Peak>, Fault> {
    let device = opened.device;
    let hz = number(opened.handle, Attribute::ClockRate)? as f64 * 1e3;
    let peak = |kind: &str| {
        let rate = rates::per_cycle(device.capability, kind)?;
        let value = rate * f64::from(device.multiprocessors) * hz;
        let clock = Unit::Hertz.format(hz);
        let source =
            format!("{rate} per cycle × {} multiprocessors × {clock} ({})", device.multiprocessors, rates::SOURCE);
        let unit = operations::unit(&Unit::FlopPerSecond, kind);
        Some(Peak { metric: kind.to_owned(), value, unit, source })
    };
    Ok(rates::kinds().filter_map(peak).filter(|peak| peak.value > 0.0).collect())
}

fn capabilities(opened: &Opened<'_>) -> Vec<Capability> {
    let device = opened.device;
    let counters = counters::check_access(&device.cupti);
    vec![
        capability("NVRTC", &device.kernels.compiler()),
        capability("kernel cache", &device.kernels.cache()),
        capability("calibration kernels", &device.spinner),
        capability("NVML", &opened.telemetry.as_ref().map_err(Clone::clone)),
        capability("kernel graphs", &device.capabilities.graphs),
        capability("dependent launch", &device.dependent_launch()),
        capability("cooperative launch", &device.capabilities.cooperative),
        capability("CUPTI", &counters),
    ]
}

fn health(opened: &Opened<'_>) -> Health {
    match opened.telemetry {
        Ok(telemetry) => telemetry.health(),
        Err(why) => Health {
            hidden: [("link, power limit and memory errors".to_owned(), why.to_string())].into(),
            ..Health::default()
        },
    }
}

fn notes(opened: &Opened<'_>) -> Result<BTreeMap<String, String>, Fault> {
    let handle = opened.handle;
    let mut notes = BTreeMap::new();
    let mut note = |name: &str, value: String| notes.insert(name.to_owned(), value);
    let mode = match handle.attribute(Attribute::ComputeMode)? {
        0 => "default".to_owned(),
        3 => "one process".to_owned(),
        other => format!("{other}"),
    };
    note("compute mode", mode);
    note("ECC", if handle.attribute(Attribute::Ecc)? == 0 { "off" } else { "on" }.to_owned());
    note("PCIe address", handle.pci()?);
    note("memory bus", format!("{} bit", number(handle, Attribute::MemoryBusWidth)?));
    note("memory clock", Unit::Hertz.format(number(handle, Attribute::MemoryClockRate)? as f64 * 1e3).to_string());
    note("core clock at most", Unit::Hertz.format(number(handle, Attribute::ClockRate)? as f64 * 1e3).to_string());
    note("shared memory per multiprocessor", format!("{} B", number(handle, Attribute::SharedPerMultiprocessor)?));
    note("threads per multiprocessor", number(handle, Attribute::ThreadsPerMultiprocessor)?.to_string());
    note("copy engines", number(handle, Attribute::CopyEngines)?.to_string());
    let kernels = &opened.device.kernels;
    if let Ok(compiler) = kernels.compiler() {
        note("kernel compiler", format!("{} for {}", compiler.identity(), kernels.target()));
    }
    if let Ok(cupti) = &opened.device.cupti {
        note("CUPTI's interface", format!("version {}", cupti.version()));
    }
    if let Some(replay) = opened.replay {
        let line = format!("{} + {} per kernel", Unit::Second.format(replay.a), Unit::Second.format(replay.b));
        note("graph of empty kernels", line);
    }
    if let Ok(visible) = std::env::var("CUDA_VISIBLE_DEVICES") {
        note("CUDA_VISIBLE_DEVICES", visible.chars().filter(|c| !c.is_control()).take(200).collect());
    }
    if let Ok(telemetry) = opened.telemetry {
        for (name, value) in telemetry.notes() {
            note(name, value);
        }
    }
    Ok(notes)
}
