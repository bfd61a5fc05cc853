//! Physical devices and their properties. All of it is read once, without opening a device.

use std::ffi::CStr;
use std::fmt;
use std::sync::Arc;

use ash::vk;
use plimsoll_core::Fault;
use plimsoll_gen::kernel::Machine;
use plimsoll_gen::kernel::spirv::Features;
use plimsoll_gpu::Unavailable;

use crate::instance::{Instance, failed};

/// Multiprocessors of a device that doesn't report them, and threads of each.
const ASSUMED: Machine = Machine { multiprocessors: 32, threads_per_multiprocessor: 2048 };
/// Threads of a processor that acts as a multiprocessor. The number is large so that the loops of kernels are short: Mesa's
/// llvmpipe (22.3) ends a kernel's loops after 65,535 iterations in total.
const THREADS_OF_A_CPU: u32 = 1 << 16;

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A GPU with its own memory.
    Discrete,
    /// A GPU that shares the CPU's memory.
    Integrated,
    /// A GPU, or a part of one, that a hypervisor provides.
    Virtual,
    /// Something else.
    Other,
    /// A CPU that runs kernels.
    Software,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Discrete => "discrete GPU",
            Self::Integrated => "integrated GPU",
            Self::Virtual => "virtual GPU",
            Self::Other => "other device",
            Self::Software => "software on the CPU",
        })
    }
}

/// A device of this machine that has a Vulkan driver.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// Its index in the list: hardware first, in the loader's order, then software.
    pub index: u32,
    /// The driver's name for it.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Its UUID, as 32 hexadecimal digits in groups; empty if the driver is too old to report it.
    pub uuid: String,
    /// Name and version of the driver.
    pub driver: String,
    /// Whether it can be opened, or why not.
    pub usable: Result<(), Unavailable>,
}

impl Adapter {
    /// Whether it is a CPU that runs kernels, which is never preferred.
    #[must_use]
    pub fn is_software(&self) -> bool {
        self.kind == Kind::Software
    }
}

/// A physical device with its properties.
#[derive(Clone)]
pub(crate) struct Physical {
    pub(crate) instance: Arc<Instance>,
    pub(crate) raw: vk::PhysicalDevice,
    pub(crate) facts: Facts,
}

/// The properties of a device.
#[derive(Clone)]
pub(crate) struct Facts {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) api: u32,
    pub(crate) uuid: [u8; 16],
    pub(crate) driver: String,
    pub(crate) limits: vk::PhysicalDeviceLimits,
    /// Bytes of one allocation and of one buffer.
    pub(crate) allocation: u64,
    pub(crate) memory: vk::PhysicalDeviceMemoryProperties,
    /// The queue family that is used, and the number of valid bits of its time stamps.
    pub(crate) family: Option<(u32, u32)>,
    pub(crate) features: Features,
    pub(crate) addresses: bool,
    pub(crate) budget: bool,
    /// Whether the driver reports the fault when the device is lost (VK_EXT_device_fault).
    pub(crate) reports_faults: bool,
    pub(crate) portable: bool,
    pub(crate) machine: Option<Machine>,
    pub(crate) subgroup: u32,
}

impl Facts {
    /// The properties that grid sizes depend on; assumed where the device doesn't report them.
    pub(crate) fn machine(&self) -> Machine {
        self.machine.unwrap_or(ASSUMED)
    }

    /// Checks that the device has everything that this backend needs.
    pub(crate) fn check_usable(&self) -> Result<(), Unavailable> {
        let lacks = |why: &str| {
            Err(Unavailable::new(
                "Vulkan device",
                format!("{}: {why}", self.name),
                "Update its driver, or use another device",
            ))
        };
        if self.api < vk::API_VERSION_1_2 {
            return lacks("its driver is older than Vulkan 1.2");
        }
        if !self.addresses {
            return lacks("kernels can't use 64-bit addresses (bufferDeviceAddress, hostQueryReset, shaderInt64)");
        }
        match self.family {
            None => lacks("it has no compute queue"),
            Some((_, 0)) => lacks("its queue has no time stamps"),
            Some(_) if self.limits.timestamp_period <= 0.0 => lacks("its time stamps have a period of 0 ns"),
            Some(_) => Ok(()),
        }
    }

    /// The UUID in its usual text form.
    pub(crate) fn uuid_text(&self) -> String {
        let hex: String = self.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }
}

/// Lists all devices: hardware first, then software, otherwise in the loader's order.
///
/// # Errors
/// Those of [`Instance::devices`].
pub(crate) fn list_devices(instance: &Arc<Instance>) -> Result<Vec<Physical>, Fault> {
    let read = |raw| Ok(Physical { instance: Arc::clone(instance), raw, facts: read_facts(instance, raw)? });
    let mut found = instance.devices()?.into_iter().map(read).collect::<Result<Vec<_>, Fault>>()?;
    found.sort_by_key(|physical| physical.facts.kind == Kind::Software);
    Ok(found)
}

impl Physical {
    /// Its entry in the list.
    pub(crate) fn adapter(&self, index: usize) -> Adapter {
        let facts = &self.facts;
        Adapter {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            name: facts.name.clone(),
            kind: facts.kind,
            uuid: if facts.api < vk::API_VERSION_1_2 { String::new() } else { facts.uuid_text() },
            driver: facts.driver.clone(),
            usable: facts.check_usable(),
        }
    }
}

fn text(chars: Result<&CStr, std::ffi::FromBytesUntilNulError>) -> String {
    chars.map_or_else(|_| String::new(), |chars| chars.to_string_lossy().into_owned())
}

fn version(number: u32) -> String {
    let (major, minor) = (vk::api_version_major(number), vk::api_version_minor(number));
    format!("{major}.{minor}.{}", vk::api_version_patch(number))
}

fn kind(device: vk::PhysicalDeviceType) -> Kind {
    match device {
        vk::PhysicalDeviceType::DISCRETE_GPU => Kind::Discrete,
        vk::PhysicalDeviceType::INTEGRATED_GPU => Kind::Integrated,
        vk::PhysicalDeviceType::VIRTUAL_GPU => Kind::Virtual,
        vk::PhysicalDeviceType::CPU => Kind::Software,
        _ => Kind::Other,
    }
}

/// Reads the properties of a device. Structures of later versions are only passed to drivers that know them.
fn read_facts(instance: &Instance, raw: vk::PhysicalDevice) -> Result<Facts, Fault> {
    let call = instance.raw();
    // SAFETY: the device belongs to the live instance; the same holds for the other queries here.
    let (core, extensions, memory) = unsafe {
        let extensions = call.enumerate_device_extension_properties(raw);
        let extensions = extensions.map_err(|result| failed("vkEnumerateDeviceExtensionProperties", result))?;
        (call.get_physical_device_properties(raw), extensions, call.get_physical_device_memory_properties(raw))
    };
    let offers = |name: &CStr| extensions.iter().any(|e| e.extension_name_as_c_str() == Ok(name));
    let api = core.api_version.min(instance.loader_version());
    let mut facts = Facts {
        name: text(core.device_name_as_c_str()),
        kind: kind(core.device_type),
        api,
        uuid: [0; 16],
        driver: format!("Vulkan {}", version(core.api_version)),
        limits: core.limits,
        allocation: 1 << 30,
        memory,
        family: choose_family(call, raw),
        features: Features::default(),
        addresses: false,
        budget: offers(ash::ext::memory_budget::NAME),
        reports_faults: false,
        portable: offers(ash::khr::portability_subset::NAME),
        machine: None,
        subgroup: 0,
    };
    if api >= vk::API_VERSION_1_2 {
        let larger = api >= vk::API_VERSION_1_3 || offers(ash::khr::maintenance4::NAME);
        read_properties(call, raw, &mut facts, larger);
        read_features(call, raw, &mut facts, &offers);
        facts.machine =
            read_machine(call, raw, &offers).or_else(|| (facts.kind == Kind::Software).then(cpu_as_machine));
    }
    Ok(facts)
}

/// The first compute queue family with time stamps, else the first compute family, with the valid bits of its time stamps.
fn choose_family(call: &ash::Instance, raw: vk::PhysicalDevice) -> Option<(u32, u32)> {
    // SAFETY: as above.
    let families = unsafe { call.get_physical_device_queue_family_properties(raw) };
    let computing = (0..)
        .zip(&families)
        .filter(|(_, family)| family.queue_flags.contains(vk::QueueFlags::COMPUTE) && family.queue_count > 0)
        .map(|(place, family)| (place, family.timestamp_valid_bits.min(64)));
    let all: Vec<(u32, u32)> = computing.collect();
    all.iter().find(|(_, bits)| *bits > 0).or(all.first()).copied()
}

fn read_properties(call: &ash::Instance, raw: vk::PhysicalDevice, facts: &mut Facts, larger: bool) {
    let mut of11 = vk::PhysicalDeviceVulkan11Properties::default();
    let mut of12 = vk::PhysicalDeviceVulkan12Properties::default();
    let mut of_buffers = vk::PhysicalDeviceMaintenance4Properties::default();
    let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut of11).push_next(&mut of12);
    if larger {
        all = all.push_next(&mut of_buffers);
    }
    // SAFETY: the driver has Vulkan 1.2, and maintenance4 if its structure is in the chain.
    unsafe { call.get_physical_device_properties2(raw, &mut all) };
    facts.uuid = of11.device_uuid;
    facts.subgroup = of11.subgroup_size;
    facts.allocation = of11.max_memory_allocation_size;
    if larger {
        facts.allocation = facts.allocation.min(of_buffers.max_buffer_size);
    }
    let (name, info) = (text(of12.driver_name_as_c_str()), text(of12.driver_info_as_c_str()));
    if !name.is_empty() {
        facts.driver = format!("{name} {info} ({})", facts.driver);
    }
}

fn read_features(call: &ash::Instance, raw: vk::PhysicalDevice, facts: &mut Facts, offers: &impl Fn(&CStr) -> bool) {
    let mut of12 = vk::PhysicalDeviceVulkan12Features::default();
    let mut of_clock = vk::PhysicalDeviceShaderClockFeaturesKHR::default();
    let mut of_faults = vk::PhysicalDeviceFaultFeaturesEXT::default();
    let mut all = vk::PhysicalDeviceFeatures2::default().push_next(&mut of12);
    if offers(ash::khr::shader_clock::NAME) {
        all = all.push_next(&mut of_clock);
    }
    if offers(ash::ext::device_fault::NAME) {
        all = all.push_next(&mut of_faults);
    }
    // SAFETY: as above.
    unsafe { call.get_physical_device_features2(raw, &mut all) };
    let core = all.features;
    let yes = |feature: vk::Bool32| feature == vk::TRUE;
    facts.reports_faults = yes(of_faults.device_fault);
    facts.addresses = yes(of12.buffer_device_address) && yes(of12.host_query_reset) && yes(core.shader_int64);
    facts.features = Features {
        cycles: yes(of_clock.shader_subgroup_clock),
        timer: yes(of_clock.shader_subgroup_clock) && yes(of_clock.shader_device_clock),
        double: yes(core.shader_float64),
        atomics: yes(of12.shader_buffer_int64_atomics),
        short_loops: facts.kind == Kind::Software,
    };
}

/// Reads the number of multiprocessors and their threads from the vendors' extensions.
fn read_machine(call: &ash::Instance, raw: vk::PhysicalDevice, offers: &impl Fn(&CStr) -> bool) -> Option<Machine> {
    let mut nvidia = vk::PhysicalDeviceShaderSMBuiltinsPropertiesNV::default();
    let mut amd = vk::PhysicalDeviceShaderCorePropertiesAMD::default();
    let (has_nvidia, has_amd) =
        (offers(ash::nv::shader_sm_builtins::NAME), offers(ash::amd::shader_core_properties::NAME));
    let mut all = vk::PhysicalDeviceProperties2::default();
    if has_nvidia {
        all = all.push_next(&mut nvidia);
    }
    if has_amd {
        all = all.push_next(&mut amd);
    }
    // SAFETY: only structures of extensions that the device offers are in the chain.
    unsafe { call.get_physical_device_properties2(raw, &mut all) };
    let (multiprocessors, threads) = if has_nvidia {
        (nvidia.shader_sm_count, nvidia.shader_warps_per_sm.saturating_mul(32))
    } else {
        let units = amd.shader_engine_count.saturating_mul(amd.shader_arrays_per_engine_count);
        let waves = amd.simd_per_compute_unit.saturating_mul(amd.wavefronts_per_simd);
        (units.saturating_mul(amd.compute_units_per_shader_array), waves.saturating_mul(amd.wavefront_size))
    };
    let is_known = multiprocessors > 0 && threads > 0;
    is_known.then_some(Machine { multiprocessors, threads_per_multiprocessor: threads })
}

/// A CPU that runs kernels, with each of its processors as a multiprocessor.
fn cpu_as_machine() -> Machine {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    Machine { multiprocessors: u32::try_from(count).unwrap_or(1), threads_per_multiprocessor: THREADS_OF_A_CPU }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_is_named_as_such_and_sorts_last() {
        assert!(Kind::Software > Kind::Other && Kind::Discrete < Kind::Integrated);
        assert_eq!(kind(vk::PhysicalDeviceType::CPU).to_string(), "software on the CPU");
    }
}
