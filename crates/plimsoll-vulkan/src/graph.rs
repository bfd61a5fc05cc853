//! Graphs: many launches recorded once in a secondary command buffer, which the stream's command buffers execute.

use std::fmt;
use std::sync::Arc;

use ash::vk;
use plimsoll_core::Fault;

use crate::core::Core;
use crate::launch::{self, Launch};
use crate::loss::Resource;
use crate::stream::{SharedResource, Stream, record_dispatch};

/// A sequence of launches, each after the one before has ended.
pub struct Graph(Arc<Recorded>);

struct Recorded {
    core: Arc<Core>,
    /// A separate pool, so that dropping the graph needs no lock.
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
    /// Records `count` launches, which cycle through `launches`.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for no launch or for a launch of another device; [`Fault::Unavailable`] for dependent launches.
    pub(crate) fn new(stream: &Stream, launches: &[Launch], count: u32, dependent: bool) -> Result<Self, Fault> {
        if dependent {
            return Err(launch::dependent().into());
        }
        if launches.is_empty() || count == 0 {
            return Err(Fault::Invalid("a graph needs at least one launch".to_owned()));
        }
        launches.iter().try_for_each(|launch| stream.check_device(launch.core()))?;
        let core = stream.core();
        core.check("vkCreateCommandPool")?;
        let device = core.raw();
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(core.family);
        // SAFETY: a live device.
        let pool = unsafe { device.create_command_pool(&info, None) };
        let pool = pool.map_err(|result| core.fault("vkCreateCommandPool", result))?;
        let (commands, kept) = (vk::CommandBuffer::null(), launches.to_vec());
        // From here on, dropping `recorded` destroys the pool.
        let mut recorded = Recorded { core: Arc::clone(core), pool, commands, launches: kept };
        recorded.record(launches, count)?;
        Ok(Self(Arc::new(recorded)))
    }

    /// Enqueues it.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if the stream belongs to another device.
    pub(crate) fn launch(&self, stream: &Stream) -> Result<(), Fault> {
        stream.check_device(&self.0.core)?;
        let keep: SharedResource = Arc::clone(&self.0) as SharedResource;
        let record = |core: &Core, commands| {
            // SAFETY: both are command buffers of this device. The graph's may be pending several times, and the batch keeps it
            // alive.
            unsafe { core.raw().cmd_execute_commands(commands, &[self.0.commands]) };
        };
        stream.inner().record(Some(keep), record).map(drop)
    }
}

impl Resource for Recorded {
    fn describe_work(&self) -> Vec<String> {
        self.launches.iter().flat_map(|launch| launch.0.describe_work()).collect()
    }
}

impl Recorded {
    fn record(&mut self, launches: &[Launch], count: u32) -> Result<(), Fault> {
        let (core, device) = (&self.core, self.core.raw());
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.pool)
            .level(vk::CommandBufferLevel::SECONDARY)
            .command_buffer_count(1);
        // SAFETY: the pool is new and used by this thread only.
        let made = unsafe { device.allocate_command_buffers(&info) };
        let made = made.map_err(|result| core.fault("vkAllocateCommandBuffers", result))?;
        self.commands = made.first().copied().unwrap_or_default();
        let inheritance = vk::CommandBufferInheritanceInfo::default();
        let info = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE)
            .inheritance_info(&inheritance);
        // SAFETY: a new command buffer; the launches belong to this device and are kept alive.
        unsafe {
            device.begin_command_buffer(self.commands, &info).map_err(|r| core.fault("vkBeginCommandBuffer", r))?;
            for launch in launches.iter().cycle().take(count as usize) {
                record_dispatch(core, self.commands, launch);
            }
            device.end_command_buffer(self.commands).map_err(|result| core.fault("vkEndCommandBuffer", result))
        }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if !self.core.is_given_up() {
            // SAFETY: pending batches keep the graph alive, so none uses it any more.
            unsafe { self.core.raw().destroy_command_pool(self.pool, None) };
        }
    }
}
