//! Order among streams: memory belongs to one of them, and whoever uses it on another waits for that one before and makes it
//! wait afterwards, on the device. So everything that is done with a buffer is in its own stream's order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_core::Fault;

use super::engine::Engine;
use super::error::Error;
use crate::driver::{Entered, Event, Graph, Stream};
use crate::wait;

/// As many other streams as a call uses memory of.
const FEW: usize = 32;

/// A stream with what others wait by.
pub(super) struct Lane {
    stream: Arc<Stream>,
    /// Recorded anew for every wait: a wait takes the point at which the event was recorded last.
    mark: Event,
    /// The streams whose memory a graph that is being recorded uses.
    lanes: Mutex<Vec<Arc<Lane>>>,
    /// The kernels that run in it, which outlive it.
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

    /// What is asked of this stream from here on comes after all that was asked of `other`.
    fn after(&self, other: &Self) -> Result<(), Error> {
        other.mark.record(&other.stream)?;
        Ok(self.stream.wait_for(&other.mark)?)
    }

    /// Waits for this stream where another one can't be made to: else that one's memory could be freed while it is used here.
    fn finish(&self) {
        if wait::stream(&self.stream).is_err() {
            self.stream.context().give_up();
        }
    }

    /// Does something on this stream with memory of others: after them, and they go on after it. None of them begins or ends to be
    /// recorded meanwhile.
    pub(super) fn among<'l>(
        &self,
        others: impl Iterator<Item = &'l Arc<Self>> + Clone,
        task: impl FnOnce(&Entered<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let entered = self.stream.enter().map_err(Fault::from)?;
        let foreign = |other: &&'l Arc<Self>| !std::ptr::eq(&raw const ***other, self);
        if others.clone().all(|other| !foreign(&other)) {
            return task(&entered);
        }
        let others = others.filter(foreign);
        if entered.is_recording() {
            self.lanes().extend(others.cloned());
            return task(&entered);
        }
        // Nothing is allocated for as few as a call has.
        let mut inside: [Option<Entered<'l>>; FEW] = [const { None }; FEW];
        let mut further = Vec::new();
        for (place, other) in others.clone().enumerate() {
            let there = other.stream.enter().map_err(Fault::from)?;
            if there.is_recording() {
                let why = "memory of a stream that is being recorded can't be used on another one meanwhile";
                return Err(Fault::Invalid(why.to_owned()).into());
            }
            match inside.get_mut(place) {
                Some(slot) => *slot = Some(there),
                None => further.push(there),
            }
            self.after(other)?;
        }
        let done = task(&entered);
        // All of them, also behind one that can't.
        let unordered = others.fold(None, |first, other| first.or(other.after(self).err()));
        let Some(error) = unordered else { return done };
        self.finish();
        Err(error)
    }

    /// Records what `task` asks of this stream.
    pub(super) fn record(self: &Arc<Self>, task: impl FnOnce() -> Result<(), Error>) -> Result<Recorded, Error> {
        /// Ends the recording where the task panics.
        struct Recording<'l>(Option<&'l Lane>);
        impl Drop for Recording<'_> {
            fn drop(&mut self) {
                if let Some(lane) = self.0 {
                    let _ = lane.stream.recorded();
                    lane.lanes().clear();
                }
            }
        }
        self.stream.record()?;
        let mut recording = Recording(Some(self));
        task()?;
        recording.0 = None;
        let graph = self.stream.recorded();
        let mut lanes = std::mem::take(&mut *self.lanes());
        lanes.sort_by_key(Arc::as_ptr);
        lanes.dedup_by(|a, b| Arc::ptr_eq(a, b));
        Ok(Recorded { graph: graph?, lane: Arc::clone(self), lanes })
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // Whoever drops the last of its buffers and kernels may have asked for work a moment ago, and machine code must not be
        // unloaded under it. A stream of another library goes on, and so do those who hold kernels for it.
        if self.stream.is_ours() && !self.stream.is_recording() && !self.stream.context().is_given_up() {
            let _ = wait::stream(&self.stream);
        }
    }
}

/// Calls that were recorded, to be made again as one, by one thread at a time. It keeps the memory and the kernels that they use;
/// scalars are those of the recording.
#[derive(Debug)]
pub struct Recorded {
    graph: Graph,
    lane: Arc<Lane>,
    lanes: Vec<Arc<Lane>>,
}

impl Recorded {
    /// Makes all calls again, in their stream's order. Asynchronous.
    ///
    /// # Errors
    /// The driver's.
    pub fn launch(&self) -> Result<(), Error> {
        self.lane.stream.context().bind()?;
        self.lane.among(self.lanes.iter(), |_| Ok(self.graph.launch(&self.lane.stream)?))
    }
}
