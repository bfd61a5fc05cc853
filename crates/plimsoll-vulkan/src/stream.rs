//! The queue as a stream: commands are gathered, submitted, and waited for with a deadline.
//!
//! What is gathered is a batch: a command buffer, a fence, and all that its commands use, which it holds until the fence is signalled. A
//! batch whose end nobody saw is never freed.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ash::vk;
use plimsoll_core::Fault;

use crate::adapter::Kind;
use crate::core::{Core, lock};
use crate::launch::{Launch, Prepared};
use crate::loss::{Held, pending};
use crate::memory::Staging;

/// After this long, an answer isn't expected any more, unless the device was opened with another deadline.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
/// How long to ask again and again before the driver is let sleep: what waking costs is small beside it.
const SPIN: Duration = Duration::from_millis(2);
/// How long the driver sleeps at once at most.
const NAP: Duration = Duration::from_secs(1);
/// Batches that are submitted and not yet done, at most: a launch of its own each, where somebody submits after each.
const FLIGHT: usize = 256;
/// Commands of a batch at most, so that its memory is bounded: more than any sample has between two waits.
const COMMANDS: usize = 1 << 18;

/// What a batch's commands use.
pub(crate) type Keep = Arc<dyn Held>;

/// An ordered queue of work.
pub struct Stream {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    core: Arc<Core>,
    state: Mutex<State>,
    pub(crate) staging: Mutex<Option<Staging>>,
}

/// A command buffer and the fence that tells of its end.
#[derive(Clone, Copy)]
struct Carrier {
    commands: vk::CommandBuffer,
    fence: vk::Fence,
}

struct Batch {
    carrier: Carrier,
    number: u64,
    held: Vec<Keep>,
}

struct State {
    pool: vk::CommandPool,
    /// Being recorded.
    open: Option<Batch>,
    /// Submitted, in order.
    flight: VecDeque<Batch>,
    spare: Vec<Carrier>,
    /// All that were made.
    carriers: Vec<Carrier>,
    /// The number of the next batch; all below `done` have ended.
    next: u64,
    done: u64,
    /// A call failed midway: nothing is asked of it again.
    dead: bool,
}

impl Stream {
    /// # Errors
    /// The driver's.
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

    /// Whether an object is of the stream's device.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where it isn't.
    pub(crate) fn owns(&self, core: &Arc<Core>) -> Result<(), Fault> {
        let foreign = || Fault::Invalid("an object of another device is used on this stream".to_owned());
        if Arc::ptr_eq(self.core(), core) { Ok(()) } else { Err(foreign()) }
    }

    /// Records a launch.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for one of another device; the driver's.
    pub(crate) fn launch(&self, launch: &Launch) -> Result<(), Fault> {
        self.owns(launch.core())?;
        let keep: Keep = Arc::clone(&launch.0) as Keep;
        // SAFETY: the launch is of this device, and the batch holds it.
        self.inner.record(Some(keep), |core, commands| unsafe { dispatch(core, commands, launch) }).map(drop)
    }

    /// Submits what was recorded.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn submit(&self) -> Result<(), Fault> {
        let mut state = self.inner.enter()?;
        self.inner.submit(&mut state)
    }

    /// Submits, and waits until all is done.
    ///
    /// # Errors
    /// [`Fault::Hung`] after the device's deadline, from when on the device is given up; the driver's.
    pub(crate) fn wait(&self) -> Result<(), Fault> {
        self.inner.wait(u64::MAX)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("device", &self.core().physical.facts.name).finish()
    }
}

/// Records a launch, and that what comes later waits for it.
///
/// # Safety
/// The command buffer is of the launch's device, is being recorded by this thread alone, and holds the launch.
pub(crate) unsafe fn dispatch(core: &Core, commands: vk::CommandBuffer, launch: &Launch) {
    let (device, prepared) = (core.raw(), &launch.0);
    // SAFETY: the caller's promise; the constants are as long as the layout says, and groups are below the device's limits. What the
    // kernel touches was promised where the launch was prepared.
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

impl Held for Prepared {
    fn work(&self) -> Vec<String> {
        let blocks: u64 = self.groups.iter().map(|side| u64::from(*side)).product();
        vec![format!("{} of {blocks} blocks", self.function.name())]
    }
}

impl State {
    /// The work that wasn't seen to end.
    fn work(&self) -> String {
        let held = self.flight.iter().flat_map(|batch| &batch.held);
        format!("not seen to end: {}; ", pending(held.flat_map(|held| held.work())))
    }
}

type Entered<'s> = std::sync::MutexGuard<'s, State>;

impl Inner {
    fn enter(&self) -> Result<Entered<'_>, Fault> {
        self.core.check("vkQueueSubmit")?;
        let state = lock(&self.state);
        if state.dead {
            let why = "an earlier call on it failed".to_owned();
            return Err(Fault::DeviceLost { call: "a stream", why });
        }
        Ok(state)
    }

    /// Records commands into the batch that is open, which holds what they use; the batch's number.
    pub(crate) fn record(
        &self,
        keep: impl IntoIterator<Item = Keep>,
        body: impl FnOnce(&Core, vk::CommandBuffer),
    ) -> Result<u64, Fault> {
        let mut state = self.enter()?;
        if state.open.as_ref().is_some_and(|batch| batch.held.len() >= COMMANDS) {
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
            None => self.carrier(state)?,
        };
        let once = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: nobody uses the command buffer, and its pool lets it be begun anew; the state is locked.
        let begun = unsafe { self.core.raw().begin_command_buffer(carrier.commands, &once) };
        begun.map_err(|result| self.die(state, "vkBeginCommandBuffer", result))?;
        let number = state.next;
        state.next += 1;
        Ok(Batch { carrier, number, held: Vec::new() })
    }

    fn carrier(&self, state: &mut State) -> Result<Carrier, Fault> {
        let device = self.core.raw();
        // SAFETY: a live device; infos live until the calls return. A fence whose commands can't be made is destroyed.
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

    /// What a call that failed midway leaves is never touched again.
    fn die(&self, state: &mut State, call: &'static str, result: vk::Result) -> Fault {
        state.dead = true;
        self.core.fault_during(call, result, || state.work())
    }

    fn submit(&self, state: &mut State) -> Result<(), Fault> {
        let Some(batch) = state.open.take() else { return Ok(()) };
        let Carrier { commands, fence } = batch.carrier;
        // SAFETY: the command buffer is being recorded; the state is locked.
        if let Err(result) = unsafe { self.core.raw().end_command_buffer(commands) } {
            return Err(self.die(state, "vkEndCommandBuffer", result));
        }
        // The batch is in flight from here on, whatever the answer: it may be half begun.
        state.flight.push_back(batch);
        // SAFETY: recorded in full just now; the batch holds what it uses until the fence is signalled, and the fence was reset.
        if let Err(result) = unsafe { self.core.submit(commands, fence) } {
            return Err(self.die(state, "vkQueueSubmit", result));
        }
        if state.flight.len() > FLIGHT {
            let half = state.flight.get(FLIGHT / 2).map_or(0, |batch| batch.number);
            self.retire(state, half)?;
        }
        Ok(())
    }

    /// Waits until the batches up to a number have ended, which are submitted if they aren't yet.
    ///
    /// # Errors
    /// [`Fault::Hung`]; the driver's.
    pub(crate) fn wait(&self, last: u64) -> Result<(), Fault> {
        let mut state = self.enter()?;
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
        let mut state = self.enter()?;
        while number >= state.done {
            let Some(batch) = state.flight.front() else { return Ok(false) };
            // SAFETY: the fence is the batch's.
            match unsafe { self.core.raw().get_fence_status(batch.carrier.fence) } {
                Ok(true) => {
                    let first = batch.number;
                    self.retire(&mut state, first)?;
                }
                Ok(false) => return Ok(false),
                Err(result) => return Err(self.die(&mut state, "vkGetFenceStatus", result)),
            }
        }
        Ok(true)
    }

    /// Waits for the submitted batches up to a number, in order, and lets go of what they held.
    fn retire(&self, state: &mut State, last: u64) -> Result<(), Fault> {
        while state.flight.front().is_some_and(|batch| batch.number <= last) {
            let Some(fence) = state.flight.front().map(|batch| batch.carrier.fence) else { break };
            if let Err(unseen) = self.wait_fence(fence) {
                return Err(self.unseen(state, unseen));
            }
            let Some(batch) = state.flight.pop_front() else { break };
            state.done = batch.number + 1;
            // SAFETY: the fence is signalled, so that nothing uses it.
            let reset = unsafe { self.core.raw().reset_fences(&[batch.carrier.fence]) };
            reset.map_err(|result| self.die(state, "vkResetFences", result))?;
            state.spare.push(batch.carrier);
        }
        Ok(())
    }

    /// The fault of a wait that ended without the fence.
    fn unseen(&self, state: &mut State, unseen: Option<vk::Result>) -> Fault {
        const CALL: &str = "vkWaitForFences";
        let Some(result) = unseen else {
            state.dead = true;
            self.core.keep_silence(&state.work());
            self.core.give_up();
            return Fault::Hung { call: CALL, seconds: self.core.deadline.as_secs_f64() };
        };
        self.die(state, CALL, result)
    }

    /// Waits for a fence; an error is the driver's answer, or none where the deadline went by.
    fn wait_fence(&self, fence: vk::Fence) -> Result<(), Option<vk::Result>> {
        let (device, start, deadline) = (self.core.raw(), Instant::now(), self.core.deadline);
        // A device of software needs the processors that asking again and again would take from it.
        let spin = if self.core.physical.facts.kind == Kind::Software { Duration::ZERO } else { SPIN };
        loop {
            let waited = start.elapsed();
            if waited >= deadline {
                return Err(None);
            }
            let nap = if waited < spin { Duration::ZERO } else { NAP.min(deadline - waited) };
            let nap = u64::try_from(nap.as_nanos()).unwrap_or(u64::MAX);
            // SAFETY: the fence is a batch's of this device.
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
            // What the device may still use stays, and with it the device.
            self.core.give_up();
            std::mem::forget((flight, lock(&self.staging).take(), Arc::clone(&self.core)));
            return;
        }
        drop(open);
        // SAFETY: all that was submitted has ended, and nobody else has these objects.
        unsafe {
            for carrier in &state.carriers {
                self.core.raw().destroy_fence(carrier.fence, None);
            }
            self.core.raw().destroy_command_pool(state.pool, None);
        }
    }
}
