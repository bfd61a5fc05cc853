//! Order among streams: memory belongs to one of them, and whoever uses it on another waits for that one before and makes it
//! wait afterwards, on the device. So everything that is done with a buffer is in its own stream's order.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_core::Fault;

use super::engine::Engine;
use super::error::Error;
use crate::driver::{Event, Graph, Stream};
use crate::wait;

/// A stream with what others wait by.
pub(super) struct Lane {
    stream: Arc<Stream>,
    /// Recorded anew for every wait: a wait takes the point at which the event was recorded last.
    mark: Event,
    /// What a graph that is being recorded needs.
    held: Mutex<Held>,
    /// The kernels that run in it, which outlive it.
    _engine: Engine,
}

/// What must live as long as a recorded graph, and the streams whose memory it uses.
#[derive(Default)]
struct Held {
    things: Vec<Arc<dyn Any + Send + Sync>>,
    lanes: Vec<Arc<Lane>>,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Held({})", self.things.len())
    }
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lane({:?})", self.stream)
    }
}

impl Lane {
    pub(super) fn new(stream: Arc<Stream>, engine: &Engine) -> Result<Arc<Self>, Error> {
        let mark = Event::untimed(stream.context())?;
        Ok(Arc::new(Self { stream, mark, held: Mutex::default(), _engine: engine.clone() }))
    }

    pub(super) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is asked of this stream from here on comes after all that was asked of `other`.
    fn after(&self, other: &Self) -> Result<(), Error> {
        other.mark.record(&other.stream)?;
        Ok(self.stream.wait_for(&other.mark)?)
    }

    /// Does something on this stream with memory of others: after them, and they go on after it.
    pub(super) fn among<'l>(
        &self,
        others: impl Iterator<Item = &'l Arc<Self>> + Clone,
        task: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let foreign = |other: &&'l Arc<Self>| !std::ptr::eq(&raw const ***other, self);
        if others.clone().all(|other| !foreign(&other)) {
            return task();
        }
        let others = others.filter(foreign);
        if self.stream.is_recording() {
            self.held().lanes.extend(others.cloned());
            return task();
        }
        for other in others.clone() {
            if other.stream.is_recording() {
                let why = "memory of a stream that is being recorded can't be used on another one meanwhile";
                return Err(Fault::Invalid(why.to_owned()).into());
            }
            self.after(other)?;
        }
        let done = task();
        for other in others {
            other.after(self)?;
        }
        done
    }

    /// Keeps something for the graph that is being recorded.
    pub(super) fn keep(&self, thing: Arc<dyn Any + Send + Sync>) {
        self.held().things.push(thing);
    }

    /// Records what `task` asks of this stream.
    pub(super) fn record(self: &Arc<Self>, task: impl FnOnce() -> Result<(), Error>) -> Result<Recorded, Error> {
        /// Ends the recording where the task panics.
        struct Recording<'l>(Option<&'l Lane>);
        impl Drop for Recording<'_> {
            fn drop(&mut self) {
                if let Some(lane) = self.0 {
                    let _ = lane.stream.recorded();
                    *lane.held() = Held::default();
                }
            }
        }
        self.stream.record()?;
        let mut recording = Recording(Some(self));
        task()?;
        recording.0 = None;
        let graph = self.stream.recorded();
        let Held { things, mut lanes } = std::mem::take(&mut *self.held());
        lanes.sort_by_key(Arc::as_ptr);
        lanes.dedup_by(|a, b| Arc::ptr_eq(a, b));
        Ok(Recorded { graph: graph?, lane: Arc::clone(self), lanes, _things: things })
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

/// Calls that were recorded, to be made again as one. It keeps the memory and the kernels that they use; scalars are those of
/// the recording.
#[derive(Debug)]
pub struct Recorded {
    graph: Graph,
    lane: Arc<Lane>,
    lanes: Vec<Arc<Lane>>,
    _things: Vec<Arc<dyn Any + Send + Sync>>,
}

impl Recorded {
    /// Makes all calls again, in their stream's order. Asynchronous.
    ///
    /// # Errors
    /// The driver's.
    pub fn launch(&self) -> Result<(), Error> {
        self.lane.stream.context().bind()?;
        self.lane.among(self.lanes.iter(), || Ok(self.graph.launch(&self.lane.stream)?))
    }
}
