//! The description of a Vulkan device, as stored in records.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plimsoll_core::Fault;
use plimsoll_core::device::{Calibration, Capability, DeviceInfo};
use plimsoll_core::health::Health;
use plimsoll_core::unit::Unit;
use plimsoll_gpu::calibrate::Replay;
use plimsoll_gpu::{Unavailable, capability};

use crate::device::VulkanDevice;
use crate::event::Event;
use crate::launch;
use crate::stream::Stream;

/// How long time stamps are compared with the host's clock.
const COMPARED: Duration = Duration::from_millis(30);

/// An opened device and what was measured while it was opened.
pub(crate) struct Opened<'f> {
    pub index: u32,
    pub device: &'f VulkanDevice,
    pub clocks: f64,
    pub replay: Option<Replay>,
}

/// Measures nanoseconds of time stamps per nanosecond of the host's clock.
///
/// # Errors
/// [`Fault::Hung`].
pub(crate) fn compare_clocks(stream: &Stream) -> Result<f64, Fault> {
    let marks = [Event::new(stream.core(), true), Event::new(stream.core(), true)];
    let mut times = [Instant::now(); 2];
    for (mark, time) in marks.iter().zip(&mut times) {
        // The very first submission may take long.
        stream.wait()?;
        mark.record(stream)?;
        stream.wait()?;
        *time = Instant::now();
        std::thread::sleep(COMPARED);
    }
    let device = marks[1].nanoseconds_since(&marks[0])?;
    Ok(device as f64 / (times[1] - times[0]).as_nanos().max(1) as f64)
}

/// Describes the device for records.
pub(crate) fn device_info(opened: &Opened<'_>, calibration: Calibration) -> DeviceInfo {
    let core = opened.device.core();
    let facts = &core.physical.facts;
    let software = if opened.device.capabilities.software { " (software on the CPU)" } else { "" };
    DeviceInfo {
        selector: format!("vulkan:{}", opened.index),
        id: format!("VULKAN-{}", facts.uuid_text()),
        name: format!("{}{software}", facts.name),
        backend: "vulkan".to_owned(),
        architecture: Some(facts.kind.to_string()),
        driver: Some(facts.driver.clone()),
        multiprocessors: facts.machine().multiprocessors,
        memory_total: core.memory(),
        memory_free: core.free_memory(),
        caches: opened.device.caches.clone(),
        peaks: Vec::new(),
        capabilities: capabilities(opened.device),
        calibration,
        health: Health::default(),
        notes: notes(opened),
    }
}

fn capabilities(device: &VulkanDevice) -> Vec<Capability> {
    let (has, features) = (&device.capabilities, device.core().physical.facts.features);
    let feature = |what: &'static str, available: bool, name: &str| {
        let lacks = || {
            Unavailable::new(what, format!("the device has no {name}"), "Update its driver; other kernels still work")
        };
        if available { Ok(()) } else { Err(lacks()) }
    };
    vec![
        capability("clock inside kernels", &has.kernel_clock),
        capability("double precision", &feature("double precision", features.double, "shaderFloat64")),
        capability("64-bit atomics", &feature("64-bit atomics", features.atomics, "shaderBufferInt64Atomics")),
        capability("kernel graphs", &has.graphs),
        capability("dependent launch", &has.dependent),
        capability("cooperative launch", &has.cooperative),
        capability("clusters of blocks", &has.clusters),
        capability("dynamic shared memory", &Err::<(), _>(launch::shared())),
    ]
}

fn notes(opened: &Opened<'_>) -> BTreeMap<String, String> {
    let core = opened.device.core();
    let facts = &core.physical.facts;
    let mut notes = BTreeMap::new();
    let mut note = |name: &str, value: String| notes.insert(name.to_owned(), value);
    note("subgroup", format!("{} threads", facts.subgroup));
    let period = facts.limits.timestamp_period;
    let share = opened.clocks;
    note("time stamps", format!("{} bits, {period} ns a step, {share:.4} of the host's clock", core.bits));
    if facts.features.cycles {
        let what = if facts.features.timer { "timer" } else { "cycles" };
        let step = f64::from(core.step()) / f64::from(1_u32 << 24);
        note("clock inside kernels", format!("{step:.4} ns a step of its {what}, measured by time stamps"));
    }
    note("largest allocation", format!("{} B", facts.allocation));
    if opened.device.capabilities.software {
        note(
            "loops",
            "a kernel's loops may be ended after 65,535 iterations, as llvmpipe does: the checks find it".to_owned(),
        );
    }
    let machine = facts.machine();
    let (count, threads) = (machine.multiprocessors, machine.threads_per_multiprocessor);
    if opened.device.capabilities.software {
        note("multiprocessors", format!("assumed: {count} processors, each of {threads} threads"));
    } else if facts.machine.is_none() {
        note(
            "multiprocessors",
            format!("assumed: {count} of {threads} threads, because the driver doesn't report them"),
        );
    }
    let caches = match (opened.device.caches.is_empty(), opened.device.capabilities.software) {
        (true, _) => "unknown: Vulkan doesn't report them, and this model isn't in the catalogue",
        (_, true) => "those of the CPU that runs the kernels",
        _ => "as published for this model, because Vulkan doesn't report them",
    };
    note("caches", caches.to_owned());
    if !facts.budget {
        note("free memory", "assumed: half of the heap, because the driver has no VK_EXT_memory_budget".to_owned());
    }
    if let Some(replay) = opened.replay {
        let line = format!("{} + {} per kernel", Unit::Second.format(replay.a), Unit::Second.format(replay.b));
        note("graph of empty kernels", line);
    }
    notes
}
