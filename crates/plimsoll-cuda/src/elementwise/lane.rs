//! Order among streams. Memory belongs to one stream; a use on another stream waits for the memory's stream before it and makes
//! that stream wait after it, on the device. So all uses of a buffer are in its own stream's order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_core::Fault;

use super::{Engine, Error};
use crate::driver::{Entered, Event, Graph, Stream};
use crate::wait;

/// Number of other streams whose memory a call can use without allocating.
const FEW: usize = 32;

/// A stream with an event that other streams wait for.
pub(super) struct Lane {
    stream: Arc<Stream>,
    /// Recorded again for every wait: a wait uses the last point at which the event was recorded.
    mark: Event,
    /// The streams whose memory the current recording uses.
    lanes: Mutex<Vec<Arc<Lane>>>,
    /// Keeps the kernels that run in it alive.
    _engine: Engine,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lane({:?})", self.stream)
    }
}

impl Lane {
    pub(super) fn new(stream: Arc<Stream>, engine: &Engine) -> Result<Arc<Self>, Error> {
        let mark = Event::untimed(stream.context())?;
        Ok(Arc::new(Self { stream, mark, lanes: Mutex::default(), _engine: engine.clone() }))
    }

    pub(super) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<Arc<Self>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all later work of this stream wait for all work submitted to `other` so far.
    fn wait_for_lane(&self, other: &Self) -> Result<(), Error> {
        other.mark.record(&other.stream)?;
        Ok(self.stream.wait_for(&other.mark)?)
    }

    /// Waits on the host for this stream if another stream can't be made to wait: else that stream's memory could be freed while it
    /// is used here.
    fn wait_or_give_up(&self) {
        if wait::stream(&self.stream).is_err() {
            self.stream.context().give_up();
        }
    }

    /// Runs `task` on this stream with memory of `others`: it waits for them, and they wait for it. No recording of any of them
    /// starts or ends meanwhile.
    pub(super) fn run_with_others<'l>(
        &self,
        others: impl Iterator<Item = &'l Arc<Self>> + Clone,
        task: impl FnOnce(&mut Entered<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut entered = self.stream.enter().map_err(Fault::from)?;
        let foreign = |other: &&'l Arc<Self>| !std::ptr::eq(&raw const ***other, self);
        if others.clone().all(|other| !foreign(&other)) {
            return task(&mut entered);
        }
        let others = others.filter(foreign);
        if entered.is_recording() {
            self.lanes().extend(others.cloned());
            return task(&mut entered);
        }
        // Avoids an allocation for as few streams as calls usually have.
        let mut inside: [Option<Entered<'l>>; FEW] = [const { None }; FEW];
        let mut further = Vec::new();
        for (place, other) in others.clone().enumerate() {
            let there = other.stream.enter().map_err(Fault::from)?;
            if there.is_recording() {
                let why = "memory of a stream that is being recorded can't be used on another stream";
                return Err(Fault::Invalid(why.to_owned()).into());
            }
            match inside.get_mut(place) {
                Some(slot) => *slot = Some(there),
                None => further.push(there),
            }
            self.wait_for_lane(other)?;
        }
        let done = task(&mut entered);
        // If one of them can't wait, the rest still must.
        let unordered = others.fold(None, |first, other| first.or(other.wait_for_lane(self).err()));
        let Some(error) = unordered else { return done };
        self.wait_or_give_up();
        Err(error)
    }

    /// Records the work that `task` submits to this stream.
    pub(super) fn record(self: &Arc<Self>, task: impl FnOnce() -> Result<(), Error>) -> Result<Recorded, Error> {
        /// Ends the recording if the task fails or panics.
        struct Recording<'l>(Option<&'l Lane>);
        impl Drop for Recording<'_> {
            fn drop(&mut self) {
                if let Some(lane) = self.0 {
                    let _ = lane.stream.end_recording();
                    lane.lanes().clear();
                }
            }
        }
        self.stream.begin_recording()?;
        let mut recording = Recording(Some(self));
        task()?;
        recording.0 = None;
        let graph = self.stream.end_recording();
        let mut lanes = std::mem::take(&mut *self.lanes());
        lanes.sort_by_key(Arc::as_ptr);
        lanes.dedup_by(|a, b| Arc::ptr_eq(a, b));
        Ok(Recorded { graph: graph?, lane: Arc::clone(self), lanes })
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // Work may still be running when the last of its buffers and kernels is dropped, and its machine code must not be unloaded.
        // A stream of another library continues, and whatever holds kernels for it keeps them loaded.
        if self.stream.is_ours() && !self.stream.is_recording() && !self.stream.context().is_given_up() {
            let _ = wait::stream(&self.stream);
        }
    }
}

/// Recorded calls, launched together, by one thread at a time. It keeps the memory and kernels that they use alive. Scalars have
/// the values of the recording.
#[derive(Debug)]
pub struct Recorded {
    graph: Graph,
    lane: Arc<Lane>,
    lanes: Vec<Arc<Lane>>,
}

impl Recorded {
    /// Launches all calls asynchronously, in their stream's order.
    pub fn launch(&self) -> Result<(), Error> {
        self.lane.stream.context().bind()?;
        self.lane.run_with_others(self.lanes.iter(), |_| Ok(self.graph.launch(&self.lane.stream)?))
    }
}
