//! An opened device: its queue, its time stamps, and whether it was given up after a fault.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ash::vk;
use plimsoll_core::Fault;
use plimsoll_gpu::Unavailable;

use crate::adapter::Physical;
use crate::instance::failed;
use crate::loss::{Address, Report};
use crate::memory;

/// Time stamps in one query pool.
const POOL: u32 = 1024;
/// The assumed step of the kernels' clock until it is measured: 1 ns, times 2²⁴.
const NANOSECOND: u32 = 1 << 24;
/// Share of a heap that is assumed to be free where the driver doesn't report it: other processes use the heap too, and an
/// integrated GPU's heap is system memory.
const SHARE: f64 = 0.5;

/// An opened device. All its objects keep it alive.
pub(crate) struct Core {
    raw: ash::Device,
    /// Locked, because only one thread at a time may submit.
    queue: Mutex<vk::Queue>,
    pub(crate) family: u32,
    /// Valid bits of a time stamp.
    pub(crate) bits: u32,
    pub(crate) physical: Physical,
    pub(crate) deadline: Duration,
    given_up: AtomicBool,
    /// Why it was lost, if it was.
    lost: OnceLock<String>,
    /// The functions of VK_EXT_device_fault, if the driver has it.
    faults: Option<ash::ext::device_fault::Device>,
    stamps: Mutex<Stamps>,
    /// Allocated bytes.
    pub(crate) allocated: AtomicU64,
    /// Nanoseconds per step of the clock by which kernels measure time, times 2²⁴.
    step: AtomicU32,
}

/// Query pools, and the queries in them that are free.
#[derive(Default)]
struct Stamps {
    pools: Vec<vk::QueryPool>,
    free: Vec<(vk::QueryPool, u32)>,
}

/// Locks a mutex even after a panic of another thread: no mutex here is ever left with half-changed content.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    /// Opens a device.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] if the device lacks something or the driver refuses.
    pub(crate) fn new(physical: Physical, deadline: Duration) -> Result<Arc<Self>, Fault> {
        let facts = &physical.facts;
        facts.check_usable()?;
        let (family, bits) = facts.family.unwrap_or_default();
        let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
        let optional = [
            (facts.features.cycles, ash::khr::shader_clock::NAME),
            (facts.budget, ash::ext::memory_budget::NAME),
            (facts.reports_faults, ash::ext::device_fault::NAME),
            (facts.portable, ash::khr::portability_subset::NAME),
        ];
        let names: Vec<_> = optional.iter().filter(|(wanted, _)| *wanted).map(|(_, name)| name.as_ptr()).collect();
        let core = vk::PhysicalDeviceFeatures::default().shader_int64(true).shader_float64(facts.features.double);
        let mut of12 = vk::PhysicalDeviceVulkan12Features::default()
            .buffer_device_address(true)
            .host_query_reset(true)
            .shader_buffer_int64_atomics(facts.features.atomics);
        let mut clock = vk::PhysicalDeviceShaderClockFeaturesKHR::default()
            .shader_subgroup_clock(facts.features.cycles)
            .shader_device_clock(facts.features.timer);
        let mut of_faults = vk::PhysicalDeviceFaultFeaturesEXT::default().device_fault(true);
        let mut info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&names)
            .enabled_features(&core)
            .push_next(&mut of12);
        if facts.features.cycles {
            info = info.push_next(&mut clock);
        }
        if facts.reports_faults {
            info = info.push_next(&mut of_faults);
        }
        // SAFETY: the device has the requested features and extensions; everything that the info points to lives until the call
        // returns.
        let raw = unsafe { physical.instance.raw().create_device(physical.raw, &info, None) };
        let raw = raw.map_err(|result| failed("vkCreateDevice", result))?;
        // SAFETY: the device was created with the first queue of this family.
        let queue = Mutex::new(unsafe { raw.get_device_queue(family, 0) });
        let (given_up, stamps, allocated) = (AtomicBool::new(false), Mutex::default(), AtomicU64::new(0));
        let (step, lost) = (AtomicU32::new(NANOSECOND), OnceLock::new());
        let reports_faults = physical.facts.reports_faults;
        let faults = reports_faults.then(|| ash::ext::device_fault::Device::new(physical.instance.raw(), &raw));
        let core =
            Self { raw, queue, family, bits, physical, deadline, given_up, lost, faults, stamps, allocated, step };
        Ok(Arc::new(core))
    }

    pub(crate) fn raw(&self) -> &ash::Device {
        &self.raw
    }

    /// Checks that the device may still be called.
    ///
    /// # Errors
    /// [`Fault::DeviceLost`] if it was given up: it is not called again.
    pub(crate) fn check(&self, call: &'static str) -> Result<(), Fault> {
        if self.is_given_up() {
            let earlier = self.lost.get().map_or(String::new(), |why| format!(": {why}"));
            return Err(Fault::DeviceLost { call, why: format!("given up after an earlier fault{earlier}") });
        }
        Ok(())
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::SeqCst)
    }

    /// Gives the device up: from now on nothing waits for it, and nothing is freed, because the device may still use it.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::SeqCst);
    }

    /// Converts a failed call to a fault. A lost device is given up.
    pub(crate) fn fault(&self, call: &'static str, result: vk::Result) -> Fault {
        self.fault_during(call, result, String::new)
    }

    /// As [`Core::fault`], with a description of the device's pending work in the message.
    pub(crate) fn fault_during(&self, call: &'static str, result: vk::Result, work: impl FnOnce() -> String) -> Fault {
        match result {
            vk::Result::ERROR_DEVICE_LOST => {
                let why = || format!("VK_ERROR_DEVICE_LOST; {}{}", work(), self.circumstances());
                let why = self.lost.get_or_init(why).clone();
                self.give_up();
                Fault::DeviceLost { call, why }
            }
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
                Fault::OutOfMemory { asked: 0, free: Some(self.free_memory()) }
            }
            other => failed(call, other).into(),
        }
    }

    /// Describes what the driver reports about a fault and the allocated memory, to help find the cause.
    fn circumstances(&self) -> String {
        let arrays = memory::list_arrays(self);
        let (allocated, free) = (self.allocated.load(Ordering::Relaxed), self.free_memory());
        let report = match self.read_report() {
            Some(Ok(report)) => format!("the driver says: {}", report.describe(&arrays)),
            Some(Err(result)) => format!("the driver doesn't report why: {result}"),
            None => "the driver has no VK_EXT_device_fault, which would report why".to_owned(),
        };
        format!("{report}; {} arrays, {allocated} bytes allocated, {free} free", arrays.len())
    }

    /// Reads the driver's report of a fault, if it has the extension.
    fn read_report(&self) -> Option<Result<Report, vk::Result>> {
        let faults = self.faults.as_ref()?;
        let ask = faults.fp().get_device_fault_info_ext;
        let mut counts = vk::DeviceFaultCountsEXT::default();
        // SAFETY: the device was opened with the extension and its feature, and was lost; with a null info, only counts are
        // returned.
        let counted = unsafe { ask(faults.device(), &mut counts, std::ptr::null_mut()) };
        if counted != vk::Result::SUCCESS {
            return Some(Err(counted));
        }
        let mut addresses = vec![vk::DeviceFaultAddressInfoEXT::default(); counts.address_info_count as usize];
        let mut vendor = vec![vk::DeviceFaultVendorInfoEXT::default(); counts.vendor_info_count as usize];
        // The vendor's binary isn't used here, and its feature wasn't enabled.
        counts.vendor_binary_size = 0;
        let mut info = vk::DeviceFaultInfoEXT {
            p_address_infos: addresses.as_mut_ptr(),
            p_vendor_infos: vendor.as_mut_ptr(),
            ..Default::default()
        };
        // SAFETY: as above; the arrays are as long as the counts say.
        let answer = unsafe { ask(faults.device(), &mut counts, &mut info) };
        if !matches!(answer, vk::Result::SUCCESS | vk::Result::INCOMPLETE) {
            return Some(Err(answer));
        }
        addresses.truncate(counts.address_info_count as usize);
        vendor.truncate(counts.vendor_info_count as usize);
        let text =
            |chars: Result<&std::ffi::CStr, _>| chars.map_or(String::new(), |c| c.to_string_lossy().into_owned());
        let address = |info: &vk::DeviceFaultAddressInfoEXT| Address {
            kind: info.address_type,
            reported: info.reported_address,
            precision: info.address_precision,
        };
        let of_vendor = |info: &vk::DeviceFaultVendorInfoEXT| {
            (text(info.description_as_c_str()), info.vendor_fault_code, info.vendor_fault_data)
        };
        Some(Ok(Report {
            description: text(info.description_as_c_str()),
            addresses: addresses.iter().map(address).collect(),
            vendor: vendor.iter().map(of_vendor).collect(),
        }))
    }

    /// Records that the device gave no answer to this work, for the messages of later faults.
    pub(crate) fn record_hang(&self, work: &str) {
        let _ = self.lost.set(format!("it gave no answer; {work}{}", self.circumstances()));
    }

    /// Submits recorded commands to the queue.
    ///
    /// # Errors
    /// The driver's answer.
    ///
    /// # Safety
    /// The commands must be fully recorded and not pending. Everything they use must live until the fence is signalled. The fence
    /// must be neither signalled nor in use.
    pub(crate) unsafe fn submit(&self, commands: vk::CommandBuffer, fence: vk::Fence) -> Result<(), vk::Result> {
        let commands = [commands];
        let info = [vk::SubmitInfo::default().command_buffers(&commands)];
        let queue = lock(&self.queue);
        // SAFETY: the caller's promise; the queue is locked.
        unsafe { self.raw.queue_submit(*queue, &info, fence) }
    }

    /// Records a full barrier: later commands and the host see the effects of all earlier commands, and begin after they end.
    ///
    /// # Safety
    /// The command buffer must belong to this device and be in recording by this thread only.
    pub(crate) unsafe fn barrier(&self, commands: vk::CommandBuffer) {
        let all = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
        let seen =
            [vk::MemoryBarrier::default().src_access_mask(all).dst_access_mask(all | vk::AccessFlags::HOST_READ)];
        let (before, none) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::DependencyFlags::empty());
        let after = before | vk::PipelineStageFlags::HOST;
        // SAFETY: the caller's promise.
        unsafe { self.raw.cmd_pipeline_barrier(commands, before, after, none, &seen, &[], &[]) };
    }

    /// The heap of arrays: that of the first device-local memory type, else of the first type.
    pub(crate) fn heap(&self) -> usize {
        let kinds = self.physical.facts.memory.memory_types_as_slice();
        let own = |kind: &&vk::MemoryType| kind.property_flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL);
        kinds.iter().find(own).or(kinds.first()).map_or(0, |kind| kind.heap_index as usize)
    }

    /// Bytes of the heap of arrays.
    pub(crate) fn memory(&self) -> u64 {
        self.physical.facts.memory.memory_heaps_as_slice().get(self.heap()).map_or(0, |heap| heap.size)
    }

    /// Free bytes of that heap as the driver reports, else half of the heap less what this process has allocated.
    pub(crate) fn free_memory(&self) -> u64 {
        if !self.physical.facts.budget {
            let share = (self.memory() as f64 * SHARE) as u64;
            return share.saturating_sub(self.allocated.load(Ordering::Relaxed));
        }
        let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut all = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
        let instance = self.physical.instance.raw();
        // SAFETY: the device is the live instance's, and it offers the extension.
        unsafe { instance.get_physical_device_memory_properties2(self.physical.raw, &mut all) };
        budget.heap_budget[self.heap()].saturating_sub(budget.heap_usage[self.heap()])
    }

    /// Nanoseconds per step of the kernels' clock, times 2²⁴.
    pub(crate) fn step(&self) -> u32 {
        self.step.load(Ordering::Relaxed)
    }

    pub(crate) fn set_step(&self, step: u32) {
        self.step.store(step, Ordering::Relaxed);
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.is_given_up() {
            // The driver may still be at work on it.
            std::mem::forget(Arc::clone(&self.physical.instance));
            return;
        }
        // SAFETY: every object of the device keeps it alive, so none is left. Nothing is pending, because streams wait in their
        // drop.
        unsafe {
            for pool in &lock(&self.stamps).pools {
                self.raw.destroy_query_pool(*pool, None);
            }
            self.raw.destroy_device(None);
        }
    }
}

/// A query for one time stamp, reserved until it is dropped.
pub(crate) struct Slot {
    core: Arc<Core>,
    pool: vk::QueryPool,
    place: u32,
}

impl Slot {
    /// Reserves a query and resets it.
    pub(crate) fn new(core: &Arc<Core>) -> Result<Arc<Self>, Fault> {
        core.check("vkCreateQueryPool")?;
        let mut stamps = lock(&core.stamps);
        if stamps.free.is_empty() {
            let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(POOL);
            // SAFETY: a live device.
            let pool = unsafe { core.raw.create_query_pool(&info, None) };
            let pool = pool.map_err(|result| core.fault("vkCreateQueryPool", result))?;
            stamps.pools.push(pool);
            stamps.free.extend((0..POOL).rev().map(|place| (pool, place)));
        }
        let taken = stamps.free.pop();
        drop(stamps);
        let (pool, place) = taken.ok_or_else(|| Fault::Invalid("no query for a time stamp".to_owned()))?;
        // SAFETY: the query is reserved here, and no pending command uses it, because pending commands keep their slot.
        unsafe { core.raw.reset_query_pool(pool, place, 1) };
        Ok(Arc::new(Self { core: Arc::clone(core), pool, place }))
    }

    /// Records a command that writes the stamp after all commands before it have ended.
    ///
    /// # Safety
    /// The command buffer must belong to this device, be in recording by this thread only, keep this slot alive and write it only
    /// once.
    pub(crate) unsafe fn write(&self, commands: vk::CommandBuffer) {
        let end = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
        // SAFETY: the caller's promise; the query was reset.
        unsafe { self.core.raw.cmd_write_timestamp(commands, end, self.pool, self.place) };
    }

    /// Reads the stamp.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if it wasn't written yet.
    pub(crate) fn read(&self) -> Result<u64, Fault> {
        self.core.check("vkGetQueryPoolResults")?;
        let mut ticks = [0_u64];
        // SAFETY: one query with one 64-bit result.
        let answer = unsafe {
            self.core.raw.get_query_pool_results(self.pool, self.place, &mut ticks, vk::QueryResultFlags::TYPE_64)
        };
        match answer {
            Ok(()) => Ok(ticks[0]),
            Err(vk::Result::NOT_READY) => Err(Fault::Invalid("a time stamp was read before it was reached".to_owned())),
            Err(result) => Err(self.core.fault("vkGetQueryPoolResults", result)),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.core.stamps).free.push((self.pool, self.place));
    }
}

/// The reason for a capability that no device of this backend has.
pub(crate) fn never(what: &'static str, why: &str, hint: &str) -> Unavailable {
    Unavailable::new(what, why, hint)
}
