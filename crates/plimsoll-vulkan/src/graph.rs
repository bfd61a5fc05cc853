//! Many launches recorded once and enqueued at once: a command buffer that the stream's call.

use std::fmt;
use std::sync::Arc;

use ash::vk;
use plimsoll_core::Fault;

use crate::core::Core;
use crate::launch::{self, Launch};
use crate::loss::Held;
use crate::stream::{Keep, Stream, dispatch};

/// Launches in turn, each after the one before has ended.
pub struct Graph(Arc<Recorded>);

struct Recorded {
    core: Arc<Core>,
    /// Its own, so that nothing else is locked when it is dropped.
    pool: vk::CommandPool,
    commands: vk::CommandBuffer,
    launches: Vec<Launch>,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Graph").field(&self.0.launches).finish()
    }
}

impl Graph {
    /// Records the launches in turn, `count` in all.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for none or for one of another device; [`Fault::Unavailable`] for dependent launches; the driver's.
    pub(crate) fn new(stream: &Stream, launches: &[Launch], count: u32, dependent: bool) -> Result<Self, Fault> {
        if dependent {
            return Err(launch::dependent().into());
        }
        if launches.is_empty() || count == 0 {
            return Err(Fault::Invalid("a graph of no launches".to_owned()));
        }
        launches.iter().try_for_each(|launch| stream.owns(launch.core()))?;
        let core = stream.core();
        core.check("vkCreateCommandPool")?;
        let device = core.raw();
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(core.family);
        // SAFETY: a live device.
        let pool = unsafe { device.create_command_pool(&info, None) };
        let pool = pool.map_err(|result| core.fault("vkCreateCommandPool", result))?;
        let (commands, kept) = (vk::CommandBuffer::null(), launches.to_vec());
        // From here on the pool is destroyed when it is dropped.
        let mut recorded = Recorded { core: Arc::clone(core), pool, commands, launches: kept };
        recorded.record(launches, count)?;
        Ok(Self(Arc::new(recorded)))
    }

    /// Enqueues it.
    ///
    /// # Errors
    /// [`Fault::Invalid`] on a stream of another device; the driver's.
    pub(crate) fn launch(&self, stream: &Stream) -> Result<(), Fault> {
        stream.owns(&self.0.core)?;
        let keep: Keep = Arc::clone(&self.0) as Keep;
        let record = |core: &Core, commands| {
            // SAFETY: both are command buffers of this device; the recorded one may be pending several times, and the batch holds it.
            unsafe { core.raw().cmd_execute_commands(commands, &[self.0.commands]) };
        };
        stream.inner().record(Some(keep), record).map(drop)
    }
}

impl Held for Recorded {
    fn work(&self) -> Vec<String> {
        self.launches.iter().flat_map(|launch| launch.0.work()).collect()
    }
}

impl Recorded {
    fn record(&mut self, launches: &[Launch], count: u32) -> Result<(), Fault> {
        let (core, device) = (&self.core, self.core.raw());
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.pool)
            .level(vk::CommandBufferLevel::SECONDARY)
            .command_buffer_count(1);
        // SAFETY: the pool is new, and its only user is this thread.
        let made = unsafe { device.allocate_command_buffers(&info) };
        let made = made.map_err(|result| core.fault("vkAllocateCommandBuffers", result))?;
        self.commands = made.first().copied().unwrap_or_default();
        let inheritance = vk::CommandBufferInheritanceInfo::default();
        let info = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE)
            .inheritance_info(&inheritance);
        // SAFETY: a new command buffer; the launches are of this device, and are kept.
        unsafe {
            device.begin_command_buffer(self.commands, &info).map_err(|r| core.fault("vkBeginCommandBuffer", r))?;
            for launch in launches.iter().cycle().take(count as usize) {
                dispatch(core, self.commands, launch);
            }
            device.end_command_buffer(self.commands).map_err(|result| core.fault("vkEndCommandBuffer", result))
        }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if !self.core.is_given_up() {
            // SAFETY: no batch that may be pending is without it.
            unsafe { self.core.raw().destroy_command_pool(self.pool, None) };
        }
    }
}
