//! The devices of a collective, with their communicators, streams and deadlines.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_gpu::Unavailable;

use super::library::{Communicators, Part, elements};
use super::worker::Worker;
use super::{Collective, MULTICAST, Nccl, WHAT, check_multicast};
use crate::driver::Stream;
use crate::memory::{Region, Span};
use crate::wait;

/// Longest wait for the communicators, in deadlines of a device's context: with eight devices they take some seconds.
const INITIALIZING: u32 = 3;

/// One device's arrays in a collective.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// What it sends.
    pub send: Span,
    /// Where it receives.
    pub receive: Span,
}

/// Devices of this process that work together, each with a stream.
#[derive(Debug)]
pub struct Group {
    worker: Worker,
    /// `None` only while it is dropped.
    communicators: Option<Arc<Mutex<Communicators>>>,
    streams: Vec<Arc<Stream>>,
}

impl Group {
    /// Makes communicators for the streams' devices, all different. Takes seconds.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for fewer than two devices or a device twice; [`Fault::Unavailable`] if it was not decided whether NCCL may
    /// use NVLink multicast; [`Fault::Hung`] after three deadlines of the first stream's context. All devices are given up
    /// then, because NCCL may still use them.
    pub fn new(nccl: &Arc<Nccl>, streams: &[Arc<Stream>]) -> Result<Self, Fault> {
        let devices: Vec<i32> = streams.iter().map(|stream| stream.context().device().number()).collect();
        let twice = devices.iter().enumerate().any(|(place, device)| devices[..place].contains(device));
        let Some(first) = streams.first().filter(|_| devices.len() > 1 && !twice) else {
            return Err(Fault::Invalid("a group needs two devices or more, each once".to_owned()));
        };
        if first.context().driver().is_system() {
            check_multicast(std::env::var_os(MULTICAST).as_deref())?;
        }
        let deadline = first.context().deadline() * INITIALIZING;
        let worker = Worker::start("nccl")?;
        let library = Arc::clone(nccl);
        let made = worker.run(("ncclCommInitAll", deadline), move || Communicators::new(library, &devices));
        let streams = streams.to_vec();
        match made {
            Ok(made) => {
                let communicators = Some(Arc::new(Mutex::new(made.map_err(refusal)?)));
                Ok(Self { worker, communicators, streams })
            }
            Err(fault) => {
                streams.iter().for_each(|stream| stream.context().give_up());
                Err(fault)
            }
        }
    }

    /// The devices' streams, in the order of the ranks.
    #[must_use]
    pub fn streams(&self) -> &[Arc<Stream>] {
        &self.streams
    }

    /// Queues a collective on all streams, with one pair of arrays for each device, whose memory is held until the work is done.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for arrays of other sizes than the collective needs, of another device, overlapping or freed, or while a
    /// stream is recording; [`Fault::Hung`]: all devices are given up then. [`Fault::Unavailable`] if NCCL refuses.
    pub fn enqueue(&self, collective: Collective, exchanges: &[Exchange]) -> Result<(), Fault> {
        let count = self.check(collective, exchanges)?;
        let mut entered = Vec::with_capacity(exchanges.len());
        let (mut regions, mut parts) = (Vec::new(), Vec::new());
        for (stream, exchange) in self.streams.iter().zip(exchanges) {
            let inside = stream.enter()?;
            if inside.is_recording() {
                return Err(Fault::Invalid("collectives can't be recorded".to_owned()));
            }
            for span in [exchange.send, exchange.receive] {
                let region = Region::find(span)?;
                if !region.context().shares_device_with(stream.context()) {
                    return Err(Fault::Invalid("an array of a collective belongs to another device".to_owned()));
                }
                // Other devices' kernels may access it, too.
                self.streams.iter().for_each(|other| region.share(other.context()));
                inside.admit(&region)?;
                regions.push(region);
            }
            let (send, receive) = (exchange.send.pointer(), exchange.receive.pointer());
            parts.push(Part { send, receive, stream: stream.raw() });
            entered.push(inside);
        }
        let answer = self.enqueue_parts(collective, count, parts, regions);
        drop(entered);
        answer
    }

    /// Checks the arrays' sizes; returns the number of elements that each device sends.
    fn check(&self, collective: Collective, exchanges: &[Exchange]) -> Result<usize, Fault> {
        let devices = self.streams.len();
        if exchanges.len() != devices {
            return Err(Fault::Invalid(format!("arrays of {} devices for a group of {devices}", exchanges.len())));
        }
        let sent = exchanges.first().map_or(0, |exchange| exchange.send.bytes());
        let factor = if collective == Collective::AllGather { devices as u64 } else { 1 };
        let fits = |exchange: &Exchange| {
            exchange.send.bytes() == sent && Some(exchange.receive.bytes()) == sent.checked_mul(factor)
        };
        let whole = elements(sent).filter(|_| exchanges.iter().all(fits));
        let count = whole.ok_or_else(|| Fault::Invalid("the arrays' sizes don't fit the collective".to_owned()))?;
        if exchanges.iter().any(|exchange| overlap(exchange.send, exchange.receive)) {
            return Err(Fault::Invalid("the arrays of a collective overlap".to_owned()));
        }
        Ok(count)
    }

    fn enqueue_parts(
        &self,
        collective: Collective,
        count: usize,
        parts: Vec<Part>,
        regions: Vec<Arc<Region>>,
    ) -> Result<(), Fault> {
        let Some(communicators) = self.communicators.clone() else { return Ok(()) };
        // A job that never ends keeps them.
        let held = (regions, self.streams.clone());
        let job = move || {
            let mut communicators = communicators.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: `check` compared the sizes, and the arrays don't overlap. They lie in live regions of the streams' devices, which
            // `held` keeps until the work is queued; afterwards a region is freed only when all devices that share it are idle. The
            // streams are live and of the communicators' devices, in their order.
            let answer = unsafe { communicators.enqueue(collective, count, &parts) };
            drop(held);
            answer.and_then(|()| communicators.find_error())
        };
        match self.worker.run(("ncclGroupEnd", self.deadline()), job) {
            Ok(answer) => Ok(answer.map_err(refusal)?),
            Err(fault) => {
                self.give_up();
                Err(fault)
            }
        }
    }

    fn deadline(&self) -> Duration {
        self.streams.first().map_or(wait::DEADLINE, |stream| stream.context().deadline())
    }

    fn give_up(&self) {
        self.streams.iter().for_each(|stream| stream.context().give_up());
    }
}

fn overlap(a: Span, b: Span) -> bool {
    let end = |span: Span| span.pointer().saturating_add(span.bytes());
    a.pointer() < end(b) && b.pointer() < end(a)
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(communicators) = self.communicators.take() else { return };
        let is_idle = self.streams.iter().all(|stream| wait::stream(stream).is_ok());
        // Where the thread no longer answers, they are never freed: a call on this thread might not return.
        let communicators = ManuallyDrop::new(communicators);
        let free = move || {
            let Some(communicators) = Arc::into_inner(ManuallyDrop::into_inner(communicators)) else { return };
            let communicators = communicators.into_inner().unwrap_or_else(PoisonError::into_inner);
            if is_idle {
                drop(communicators);
            } else {
                communicators.abort();
            }
        };
        let call = if is_idle { "ncclCommDestroy" } else { "ncclCommAbort" };
        if self.worker.run((call, self.deadline()), free).is_err() {
            self.give_up();
        }
    }
}

fn refusal(why: String) -> Unavailable {
    let hint = "Run it again with NCCL_DEBUG=WARN to see NCCL's own messages; /dev/shm may be too small in a container, or the \
                devices may not reach each other (NCCL_P2P_DISABLE=1 avoids that)";
    Unavailable::new(WHAT, why, hint)
}
