//! What a Vulkan device says of itself, as records keep it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plimsoll_core::Fault;
use plimsoll_core::device::{Calibration, Capability, DeviceInfo};
use plimsoll_core::unit::Unit;
use plimsoll_gpu::calibrate::Replay;
use plimsoll_gpu::{Unavailable, capability};

use crate::device::VulkanDevice;
use crate::event::Event;
use crate::launch;
use crate::stream::Stream;

/// How long time stamps are compared with the host's clock.
const LONG: Duration = Duration::from_millis(30);

/// What was found while the device was opened.
pub(crate) struct Found<'f> {
    pub index: u32,
    pub device: &'f VulkanDevice,
    pub clocks: f64,
    pub replay: Option<Replay>,
}

/// Nanoseconds of time stamps per nanosecond of the host's clock.
///
/// # Errors
/// [`Fault::Hung`]; the driver's.
pub(crate) fn compare_clocks(stream: &Stream) -> Result<f64, Fault> {
    let marks = [Event::new(stream.core(), true), Event::new(stream.core(), true)];
    let mut times = [Instant::now(); 2];
    for (mark, time) in marks.iter().zip(&mut times) {
        // The first submission of all may take long.
        stream.wait()?;
        mark.record(stream)?;
        stream.wait()?;
        *time = Instant::now();
        std::thread::sleep(LONG);
    }
    let device = marks[1].nanoseconds_since(&marks[0])?;
    Ok(device as f64 / (times[1] - times[0]).as_nanos().max(1) as f64)
}

/// The header of records about this device.
pub(crate) fn info(found: &Found<'_>, calibration: Calibration) -> DeviceInfo {
    let core = found.device.core();
    let facts = &core.physical.facts;
    let software = if found.device.capabilities.software { " (software on the CPU)" } else { "" };
    DeviceInfo {
        selector: format!("vulkan:{}", found.index),
        id: format!("VULKAN-{}", facts.uuid_text()),
        name: format!("{}{software}", facts.name),
        backend: "vulkan".to_owned(),
        architecture: Some(facts.kind.to_string()),
        driver: Some(facts.driver.clone()),
        multiprocessors: facts.machine().multiprocessors,
        memory_total: core.memory(),
        memory_free: core.free_memory(),
        caches: found.device.caches.clone(),
        peaks: Vec::new(),
        capabilities: capabilities(found.device),
        calibration,
        notes: notes(found),
    }
}

fn capabilities(device: &VulkanDevice) -> Vec<Capability> {
    let (has, features) = (&device.capabilities, device.core().physical.facts.features);
    let feature = |what: &'static str, there: bool, name: &str| {
        let lacks =
            || Unavailable::new(what, format!("the device has no {name}"), "Update its driver; other kernels go on");
        if there { Ok(()) } else { Err(lacks()) }
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

fn notes(found: &Found<'_>) -> BTreeMap<String, String> {
    let core = found.device.core();
    let facts = &core.physical.facts;
    let mut notes = BTreeMap::new();
    let mut note = |name: &str, value: String| notes.insert(name.to_owned(), value);
    note("subgroup", format!("{} threads", facts.subgroup));
    let period = facts.limits.timestamp_period;
    let share = found.clocks;
    note("time stamps", format!("{} bits, {period} ns a step, {share:.4} of the host's clock", core.bits));
    if facts.features.cycles {
        let what = if facts.features.timer { "timer" } else { "cycles" };
        let step = f64::from(core.step()) / f64::from(1_u32 << 24);
        note("clock inside kernels", format!("{step:.4} ns a step of its {what}, measured by time stamps"));
    }
    note("largest allocation", format!("{} B", facts.allocation));
    if found.device.capabilities.software {
        note(
            "loops",
            "a kernel's loops may be ended after 65,535 iterations, as llvmpipe does: the checks tell".to_owned(),
        );
    }
    let machine = facts.machine();
    let (count, threads) = (machine.multiprocessors, machine.threads_per_multiprocessor);
    if found.device.capabilities.software {
        note("multiprocessors", format!("assumed: {count} processors, each of {threads} threads"));
    } else if facts.machine.is_none() {
        note("multiprocessors", format!("assumed: {count} of {threads} threads, because the driver doesn't tell"));
    }
    let caches = match (found.device.caches.is_empty(), found.device.capabilities.software) {
        (true, _) => "unknown: Vulkan doesn't tell, and no list of models has this one",
        (_, true) => "those of the CPU that runs the kernels",
        _ => "as published for this model, because Vulkan doesn't tell",
    };
    note("caches", caches.to_owned());
    if !facts.budget {
        note("free memory", "assumed: half of the heap, because the driver has no VK_EXT_memory_budget".to_owned());
    }
    if let Some(replay) = found.replay {
        let line = format!("{} + {} per kernel", Unit::Second.format(replay.a), Unit::Second.format(replay.b));
        note("graph of empty kernels", line);
    }
    notes
}
