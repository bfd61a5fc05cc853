//! The queue as a stream: commands are collected, submitted, and waited for with a deadline.
//!
//! Collected commands form a batch: a command buffer, a fence, and all resources of its commands, which the batch keeps alive until
//! the fence is signalled. A batch that wasn't seen to end is never freed.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ash::vk;
use plimsoll_core::Fault;

use crate::adapter::Kind;
use crate::core::{Core, lock};
use crate::launch::{Launch, Prepared};
use crate::loss::{Resource, describe_pending};
use crate::memory::Staging;

/// The default deadline of a wait.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
/// How long to poll before a wait lets the driver sleep. The cost of waking up is small in comparison.
const SPIN: Duration = Duration::from_millis(2);
/// Longest single sleep of the driver.
const NAP: Duration = Duration::from_secs(1);
/// Most batches in flight. Where every launch is submitted separately, each is one batch.
const MOST_IN_FLIGHT: usize = 256;
/// Most commands of a batch, so that its memory is bounded: more than any sample has between two waits.
const MOST_COMMANDS: usize = 1 << 18;

/// A resource that the commands of a batch use.
pub(crate) type SharedResource = Arc<dyn Resource>;

/// An ordered queue of work.
pub struct Stream {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    core: Arc<Core>,
    state: Mutex<State>,
    pub(crate) staging: Mutex<Option<Staging>>,
}

/// A command buffer and the fence that is signalled at its end.
#[derive(Clone, Copy)]
struct Carrier {
    commands: vk::CommandBuffer,
    fence: vk::Fence,
}

struct Batch {
    carrier: Carrier,
    number: u64,
    held: Vec<SharedResource>,
}

struct State {
    pool: vk::CommandPool,
    /// In recording.
    open: Option<Batch>,
    /// Submitted, in order.
    flight: VecDeque<Batch>,
    spare: Vec<Carrier>,
    /// All carriers, to destroy them at the end.
    carriers: Vec<Carrier>,
    /// The number of the next batch; all below `done` have ended.
    next: u64,
    done: u64,
    /// A call failed midway: the stream is not used again.
    dead: bool,
}

impl Stream {
    pub(crate) fn new(core: &Arc<Core>) -> Result<Arc<Self>, Fault> {
        core.check("vkCreateCommandPool")?;
        let flags = vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER;
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(core.family).flags(flags);
        // SAFETY: a live device.
        let pool = unsafe { core.raw().create_command_pool(&info, None) };
        let pool = pool.map_err(|result| core.fault("vkCreateCommandPool", result))?;
        let (open, flight, spare, carriers) = (None, VecDeque::new(), Vec::new(), Vec::new());
        let state = Mutex::new(State { pool, open, flight, spare, carriers, next: 1, done: 1, dead: false });
        let inner = Inner { core: Arc::clone(core), state, staging: Mutex::new(None) };
        Ok(Arc::new(Self { inner: Arc::new(inner) }))
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.inner.core
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Checks that an object belongs to the stream's device.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if it doesn't.
    pub(crate) fn check_device(&self, core: &Arc<Core>) -> Result<(), Fault> {
        let foreign = || Fault::Invalid("an object of another device is used on this stream".to_owned());
        if Arc::ptr_eq(self.core(), core) { Ok(()) } else { Err(foreign()) }
    }

    /// Records a launch.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for a launch of another device.
    pub(crate) fn launch(&self, launch: &Launch) -> Result<(), Fault> {
        self.check_device(launch.core())?;
        let keep: SharedResource = Arc::clone(&launch.0) as SharedResource;
        // SAFETY: the launch belongs to this device, and the batch keeps it alive.
        self.inner.record(Some(keep), |core, commands| unsafe { record_dispatch(core, commands, launch) }).map(drop)
    }

    /// Submits the recorded commands.
    pub(crate) fn submit(&self) -> Result<(), Fault> {
        let mut state = self.inner.lock_state()?;
        self.inner.submit(&mut state)
    }

    /// Submits, and waits until all work is done.
    ///
    /// # Errors
    /// [`Fault::Hung`] after the device's deadline. The device is then given up.
    pub(crate) fn wait(&self) -> Result<(), Fault> {
        self.inner.wait(u64::MAX)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("device", &self.core().physical.facts.name).finish()
    }
}

/// Records a launch and a barrier, so that later commands wait for it.
///
/// # Safety
/// The command buffer must belong to the launch's device, be in recording by this thread only, and keep the launch alive.
pub(crate) unsafe fn record_dispatch(core: &Core, commands: vk::CommandBuffer, launch: &Launch) {
    let (device, prepared) = (core.raw(), &launch.0);
    // SAFETY: the caller's promise; the constants have the length of the layout, and the groups are within the device's limits.
    // Which memory the kernel touches was promised where the launch was prepared.
    unsafe {
        device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, prepared.pipeline);
        if !prepared.constants.is_empty() {
            let (layout, stage) = (prepared.function.layout(), vk::ShaderStageFlags::COMPUTE);
            device.cmd_push_constants(commands, layout, stage, 0, &prepared.constants);
        }
        let [x, y, z] = prepared.groups;
        device.cmd_dispatch(commands, x, y, z);
        core.barrier(commands);
    }
}

impl Resource for Prepared {
    fn describe_work(&self) -> Vec<String> {
        let blocks: u64 = self.groups.iter().map(|side| u64::from(*side)).product();
        vec![format!("{} of {blocks} blocks", self.function.name())]
    }
}

impl State {
    /// Describes the work that wasn't seen to end.
    fn describe_work(&self) -> String {
        let held = self.flight.iter().flat_map(|batch| &batch.held);
        format!("not seen to end: {}; ", describe_pending(held.flat_map(|held| held.describe_work())))
    }
}

type StateGuard<'s> = std::sync::MutexGuard<'s, State>;

impl Inner {
    fn lock_state(&self) -> Result<StateGuard<'_>, Fault> {
        self.core.check("vkQueueSubmit")?;
        let state = lock(&self.state);
        if state.dead {
            let why = "an earlier call on it failed".to_owned();
            return Err(Fault::DeviceLost { call: "a stream", why });
        }
        Ok(state)
    }

    /// Records commands into the open batch, which keeps their resources alive. Returns the number of the batch.
    pub(crate) fn record(
        &self,
        keep: impl IntoIterator<Item = SharedResource>,
        body: impl FnOnce(&Core, vk::CommandBuffer),
    ) -> Result<u64, Fault> {
        let mut state = self.lock_state()?;
        if state.open.as_ref().is_some_and(|batch| batch.held.len() >= MOST_COMMANDS) {
            self.submit(&mut state)?;
        }
        if state.open.is_none() {
            state.open = Some(self.begin(&mut state)?);
        }
        let batch = state.open.as_mut().ok_or_else(|| Fault::Invalid("no batch is open".to_owned()))?;
        batch.held.extend(keep);
        body(&self.core, batch.carrier.commands);
        Ok(batch.number)
    }

    fn begin(&self, state: &mut State) -> Result<Batch, Fault> {
        let carrier = match state.spare.pop() {
            Some(carrier) => carrier,
            None => self.create_carrier(state)?,
        };
        let once = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the command buffer isn't in use, its pool allows it to be reset, and the state is locked.
        let begun = unsafe { self.core.raw().begin_command_buffer(carrier.commands, &once) };
        begun.map_err(|result| self.mark_dead(state, "vkBeginCommandBuffer", result))?;
        let number = state.next;
        state.next += 1;
        Ok(Batch { carrier, number, held: Vec::new() })
    }

    fn create_carrier(&self, state: &mut State) -> Result<Carrier, Fault> {
        let device = self.core.raw();
        // SAFETY: a live device; infos live until the calls return. If the command buffer can't be created, the fence is destroyed.
        unsafe {
            let fence = device.create_fence(&vk::FenceCreateInfo::default(), None);
            let fence = fence.map_err(|result| self.core.fault("vkCreateFence", result))?;
            let info = vk::CommandBufferAllocateInfo::default().command_pool(state.pool).command_buffer_count(1);
            let made = device.allocate_command_buffers(&info);
            let Some(&commands) = made.as_ref().ok().and_then(|made| made.first()) else {
                device.destroy_fence(fence, None);
                let result = made.err().unwrap_or(vk::Result::ERROR_UNKNOWN);
                return Err(self.core.fault("vkAllocateCommandBuffers", result));
            };
            let carrier = Carrier { commands, fence };
            state.carriers.push(carrier);
            Ok(carrier)
        }
    }

    /// Marks the stream as dead after a call that failed midway, so that its state is never used again, and returns the fault.
    fn mark_dead(&self, state: &mut State, call: &'static str, result: vk::Result) -> Fault {
        state.dead = true;
        self.core.fault_during(call, result, || state.describe_work())
    }

    fn submit(&self, state: &mut State) -> Result<(), Fault> {
        let Some(batch) = state.open.take() else { return Ok(()) };
        let Carrier { commands, fence } = batch.carrier;
        // SAFETY: the command buffer is in recording; the state is locked.
        if let Err(result) = unsafe { self.core.raw().end_command_buffer(commands) } {
            return Err(self.mark_dead(state, "vkEndCommandBuffer", result));
        }
        // The batch counts as in flight even if the call fails, because it may have begun.
        state.flight.push_back(batch);
        // SAFETY: recording just ended; the batch keeps its resources until the fence is signalled, and the fence was reset.
        if let Err(result) = unsafe { self.core.submit(commands, fence) } {
            return Err(self.mark_dead(state, "vkQueueSubmit", result));
        }
        if state.flight.len() > MOST_IN_FLIGHT {
            let half = state.flight.get(MOST_IN_FLIGHT / 2).map_or(0, |batch| batch.number);
            self.retire(state, half)?;
        }
        Ok(())
    }

    /// Waits until all batches up to number `last` have ended. Submits them first if necessary.
    ///
    /// # Errors
    /// [`Fault::Hung`].
    pub(crate) fn wait(&self, last: u64) -> Result<(), Fault> {
        let mut state = self.lock_state()?;
        if last < state.done {
            return Ok(());
        }
        if state.open.as_ref().is_some_and(|batch| batch.number <= last) {
            self.submit(&mut state)?;
        }
        self.retire(&mut state, last)
    }

    /// Whether a batch has ended.
    pub(crate) fn is_done(&self, number: u64) -> Result<bool, Fault> {
        let mut state = self.lock_state()?;
        while number >= state.done {
            let Some(batch) = state.flight.front() else { return Ok(false) };
            // SAFETY: the fence is the batch's.
            match unsafe { self.core.raw().get_fence_status(batch.carrier.fence) } {
                Ok(true) => {
                    let first = batch.number;
                    self.retire(&mut state, first)?;
                }
                Ok(false) => return Ok(false),
                Err(result) => return Err(self.mark_dead(&mut state, "vkGetFenceStatus", result)),
            }
        }
        Ok(true)
    }

    /// Waits for the submitted batches up to number `last`, in order, and releases their resources.
    fn retire(&self, state: &mut State, last: u64) -> Result<(), Fault> {
        while state.flight.front().is_some_and(|batch| batch.number <= last) {
            let Some(fence) = state.flight.front().map(|batch| batch.carrier.fence) else { break };
            if let Err(error) = self.wait_fence(fence) {
                return Err(self.fault_of_wait(state, error));
            }
            let Some(batch) = state.flight.pop_front() else { break };
            state.done = batch.number + 1;
            // SAFETY: the fence is signalled, so nothing uses it.
            let reset = unsafe { self.core.raw().reset_fences(&[batch.carrier.fence]) };
            reset.map_err(|result| self.mark_dead(state, "vkResetFences", result))?;
            state.spare.push(batch.carrier);
        }
        Ok(())
    }

    /// The fault of a wait that ended before the fence was signalled: the driver's error, or the deadline for `None`.
    fn fault_of_wait(&self, state: &mut State, error: Option<vk::Result>) -> Fault {
        const CALL: &str = "vkWaitForFences";
        let Some(result) = error else {
            state.dead = true;
            self.core.record_hang(&state.describe_work());
            self.core.give_up();
            return Fault::Hung { call: CALL, seconds: self.core.deadline.as_secs_f64() };
        };
        self.mark_dead(state, CALL, result)
    }

    /// Waits for a fence. The error is the driver's, or `None` if the deadline passed.
    fn wait_fence(&self, fence: vk::Fence) -> Result<(), Option<vk::Result>> {
        let (device, start, deadline) = (self.core.raw(), Instant::now(), self.core.deadline);
        // Don't poll a software device: it needs the processor.
        let spin = if self.core.physical.facts.kind == Kind::Software { Duration::ZERO } else { SPIN };
        loop {
            let waited = start.elapsed();
            if waited >= deadline {
                return Err(None);
            }
            let nap = if waited < spin { Duration::ZERO } else { NAP.min(deadline - waited) };
            let nap = u64::try_from(nap.as_nanos()).unwrap_or(u64::MAX);
            // SAFETY: the fence belongs to a batch of this device.
            match unsafe { device.wait_for_fences(&[fence], true, nap) } {
                Ok(()) => return Ok(()),
                Err(vk::Result::TIMEOUT) => {}
                Err(result) => return Err(Some(result)),
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let waited = self.wait(u64::MAX);
        let mut state = lock(&self.state);
        let (open, flight) = (state.open.take(), std::mem::take(&mut state.flight));
        if waited.is_err() || !flight.is_empty() {
            // Leak everything that the device may still use, and the device itself.
            self.core.give_up();
            std::mem::forget((flight, lock(&self.staging).take(), Arc::clone(&self.core)));
            return;
        }
        drop(open);
        // SAFETY: all submitted work has ended, and these objects belong to this stream only.
        unsafe {
            for carrier in &state.carriers {
                self.core.raw().destroy_fence(carrier.fence, None);
            }
            self.core.raw().destroy_command_pool(state.pool, None);
        }
    }
}
