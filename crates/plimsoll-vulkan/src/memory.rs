//! Device memory: reference-counted allocations that spans name. Everything that may still use an allocation keeps it alive.

use std::collections::HashMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use ash::vk;
use plimsoll_core::Fault;
use plimsoll_gpu::{Memory, Span, Unavailable};

use crate::core::Core;
use crate::loss::{Array, Resource};

type Known = RwLock<Option<HashMap<u64, Weak<Region>>>>;

/// All live regions by their number. Numbers are never reused.
static KNOWN: Known = RwLock::new(None);
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Memory types with these flags have special rules or are slow.
const UNSUITABLE: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::from_raw(
    vk::MemoryPropertyFlags::PROTECTED.as_raw()
        | vk::MemoryPropertyFlags::LAZILY_ALLOCATED.as_raw()
        | vk::MemoryPropertyFlags::DEVICE_COHERENT_AMD.as_raw()
        | vk::MemoryPropertyFlags::DEVICE_UNCACHED_AMD.as_raw(),
);

/// A Vulkan buffer with its own memory.
struct Allocation {
    core: Arc<Core>,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    bytes: u64,
    /// Bytes taken from the heap.
    taken: u64,
}

impl Allocation {
    /// Creates a buffer in memory that has the wanted properties if possible, and at least the needed ones.
    fn new(
        core: &Arc<Core>,
        bytes: u64,
        usage: vk::BufferUsageFlags,
        (needed, wanted): (vk::MemoryPropertyFlags, vk::MemoryPropertyFlags),
    ) -> Result<Self, Fault> {
        core.check("vkCreateBuffer")?;
        let (buffer, memory) = (vk::Buffer::null(), vk::DeviceMemory::null());
        // From here on, dropping `made` frees whatever was created.
        let mut made = Self { core: Arc::clone(core), buffer, memory, bytes, taken: 0 };
        let info = vk::BufferCreateInfo::default().size(bytes).usage(usage);
        // SAFETY: a live device; the size is neither 0 nor above the device's limit.
        let buffer = unsafe { core.raw().create_buffer(&info, None) };
        made.buffer = buffer.map_err(|result| made.refused("vkCreateBuffer", result))?;
        // SAFETY: the buffer belongs to the device.
        let needs = unsafe { core.raw().get_buffer_memory_requirements(made.buffer) };
        let kinds = core.physical.facts.memory.memory_types_as_slice();
        let find = |properties: vk::MemoryPropertyFlags| {
            let fits = |(place, kind): &(u32, &vk::MemoryType)| {
                needs.memory_type_bits & (1 << place) != 0
                    && kind.property_flags.contains(properties)
                    && !kind.property_flags.intersects(UNSUITABLE)
            };
            (0..).zip(kinds).find(fits).map(|(place, _)| place)
        };
        let lacks = || Unavailable::new("Vulkan device", "it has no memory of the required type", "Use another device");
        let kind = find(needed | wanted).or_else(|| find(needed)).ok_or_else(lacks)?;
        let mut flags = vk::MemoryAllocateFlagsInfo::default();
        if usage.contains(vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS) {
            flags = flags.flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        }
        let info =
            vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(kind).push_next(&mut flags);
        // SAFETY: a memory type that the buffer accepts; the info lives until the call returns.
        let memory = unsafe { core.raw().allocate_memory(&info, None) };
        made.memory = memory.map_err(|result| made.refused("vkAllocateMemory", result))?;
        made.taken = needs.size;
        core.allocated.fetch_add(made.taken, Ordering::Relaxed);
        // SAFETY: both are new, and the memory is as large as the buffer needs.
        let bound = unsafe { core.raw().bind_buffer_memory(made.buffer, made.memory, 0) };
        bound.map_err(|result| made.refused("vkBindBufferMemory", result))?;
        Ok(made)
    }

    fn refused(&self, call: &'static str, result: vk::Result) -> Fault {
        match self.core.fault(call, result) {
            Fault::OutOfMemory { free, .. } => Fault::OutOfMemory { asked: self.bytes, free },
            other => other,
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.core.is_given_up() {
            return;
        }
        // SAFETY: no pending work uses it, because pending work keeps it alive. Handles that weren't created are null, which is
        // allowed.
        unsafe {
            self.core.raw().destroy_buffer(self.buffer, None);
            self.core.raw().free_memory(self.memory, None);
        }
        self.core.allocated.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

/// An allocation that kernels access by address.
pub(crate) struct Region {
    number: u64,
    core: Arc<Core>,
    /// `None` for 0 bytes.
    allocation: Option<Allocation>,
    address: u64,
    bytes: u64,
}

impl Region {
    fn new(core: &Arc<Core>, bytes: u64) -> Result<Arc<Self>, Fault> {
        let (allocation, address) = if bytes == 0 { (None, 0) } else { Self::allocate(core, bytes)? };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let region = Arc::new(Self { number, core: Arc::clone(core), allocation, address, bytes });
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_default().insert(number, Arc::downgrade(&region));
        Ok(region)
    }

    fn allocate(core: &Arc<Core>, bytes: u64) -> Result<(Option<Allocation>, u64), Fault> {
        let most = core.physical.facts.allocation;
        let free = core.free_memory();
        // Stay within the budget: beyond it the driver may evict other processes' memory, or everything may fail.
        if bytes > core.memory() || core.physical.facts.budget && bytes > free {
            return Err(Fault::OutOfMemory { asked: bytes, free: Some(free) });
        }
        if bytes > most {
            let why = format!(
                "an array of {bytes} bytes is too large: this device allocates at most {most} at once; ask for less"
            );
            return Err(Fault::Invalid(why));
        }
        let usage = vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS
            | vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST;
        let own = vk::MemoryPropertyFlags::DEVICE_LOCAL;
        // Rounded up, because fills work on whole words.
        let allocation =
            Allocation::new(core, bytes.next_multiple_of(4), usage, (vk::MemoryPropertyFlags::empty(), own))?;
        let info = vk::BufferDeviceAddressInfo::default().buffer(allocation.buffer);
        // SAFETY: the buffer is bound to memory that was allocated for addresses.
        let address = unsafe { core.raw().get_buffer_device_address(&info) };
        Ok((Some(allocation), address))
    }

    /// Finds the region that a span is part of.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if it was freed, the span isn't inside it, or it belongs to another device.
    pub(crate) fn find(core: &Arc<Core>, span: Span) -> Result<Arc<Self>, Fault> {
        let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.as_ref().and_then(|known| known.get(&span.region())).and_then(Weak::upgrade);
        drop(known);
        let found = found.ok_or_else(|| Fault::Invalid("the memory was freed".to_owned()))?;
        if !Arc::ptr_eq(&found.core, core) {
            return Err(Fault::Invalid("the memory belongs to another device".to_owned()));
        }
        let outside = || Fault::Invalid(format!("{span:?} is not inside memory of this device"));
        span.is_inside(found.address, found.bytes).then_some(found).ok_or_else(outside)
    }

    /// The buffer, and the offset of a span in it; `None` for 0 bytes.
    pub(crate) fn locate(&self, span: Span) -> Option<(vk::Buffer, u64)> {
        Some((self.allocation.as_ref()?.buffer, span.pointer() - self.address))
    }
}

impl Resource for Region {}

/// Lists addresses and sizes of a device's arrays.
pub(crate) fn list_arrays(core: &Core) -> Vec<Array> {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    // Keep all of them alive until the lock is released: dropping the last reference to a region takes the lock.
    let regions: Vec<Arc<Region>> = known.iter().flat_map(HashMap::values).filter_map(Weak::upgrade).collect();
    drop(known);
    let own = regions.iter().filter(|region| std::ptr::eq(&*region.core, core) && region.bytes > 0);
    own.map(|region| (region.address, region.bytes)).collect()
}

impl Drop for Region {
    fn drop(&mut self) {
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_mut() {
            known.remove(&self.number);
        }
    }
}

/// Device memory. It is freed after it is dropped and all work that uses it has ended.
pub struct Buffer(Arc<Region>);

impl Buffer {
    /// Allocates memory with undefined content; 0 bytes allocate nothing.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`]; [`Fault::Invalid`] for more than the device allocates at once.
    pub(crate) fn new(core: &Arc<Core>, bytes: u64) -> Result<Self, Fault> {
        Region::new(core, bytes).map(Self)
    }
}

impl Memory for Buffer {
    fn whole(&self) -> Span {
        Span::new(self.0.number, self.0.address, self.0.bytes)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Buffer").field(&self.whole()).finish()
    }
}

/// Memory that both host and device can access, for copies between them.
pub(crate) struct Staging {
    allocation: Allocation,
    host: NonNull<u8>,
}

// SAFETY: the pointer is to memory that it owns, and is used through `&mut` only.
unsafe impl Send for Staging {}

impl Staging {
    pub(crate) fn new(core: &Arc<Core>, bytes: u64) -> Result<Self, Fault> {
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let needed = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let allocation = Allocation::new(core, bytes, usage, (needed, vk::MemoryPropertyFlags::HOST_CACHED))?;
        // SAFETY: the memory is visible to the host and not mapped yet; freeing it unmaps it.
        let host = unsafe { core.raw().map_memory(allocation.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) };
        let host = host.map_err(|result| core.fault("vkMapMemory", result))?;
        let nothing = || Fault::Unavailable {
            what: "memory of the host",
            why: "vkMapMemory returned no address".to_owned(),
            hint: "Update the Vulkan driver".to_owned(),
        };
        Ok(Self { allocation, host: NonNull::new(host.cast()).ok_or_else(nothing)? })
    }

    pub(crate) fn buffer(&self) -> vk::Buffer {
        self.allocation.buffer
    }

    /// Its bytes.
    ///
    /// # Safety
    /// No pending work of the device may use it.
    pub(crate) unsafe fn content(&mut self) -> &mut [u8] {
        // SAFETY: all of it is mapped, for as long as `self` is borrowed. The driver's memory is initialised, and any byte is a
        // valid `u8`.
        unsafe { std::slice::from_raw_parts_mut(self.host.as_ptr(), self.allocation.bytes as usize) }
    }
}
