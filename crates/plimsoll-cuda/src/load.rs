//! The workloads that the probes hand to the sampling engine: what is launched k times in a sample, in which form, and
//! what is timed. What the kernels do, and whether they did it, is the probes' business.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::Fault;
use plimsoll_core::sample::{Batch, Check, Work, Workload};

use crate::cublas::{Numbers, Products};
use crate::driver::{Event, Graph, Stream};
use crate::launch::Launch;
use crate::memory::{HostBuffer, Span};
use crate::spin::Spinner;
use crate::wait;

/// Samples between two waits: their events are made beforehand.
const PAIRS: usize = 32;
/// Most launches of a graph: `measurement.md`'s bound on K.
const MOST: u32 = 8192;
/// Bounds on how long the device is kept busy while the host queues a sample.
const LEAD: (Duration, Duration) = (Duration::from_micros(30), Duration::from_millis(5));

/// Launches that wait in a stream at once at most: the driver takes some thousand, then its calls wait for the device.
const QUEUE: u32 = 768;
/// Longest time that the device is held for a queue: calls of 20 µs.
const LONGEST_HOLD: Duration = Duration::from_millis(16);
/// Times that a queue which outlasted its hold is made again.
const TRIES: u32 = 4;

/// One thing that a stream does.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a cycle is short, and a box more per launch would be in the timed loop")]
pub enum Action {
    /// A kernel.
    Launch(Launch),
    /// Host to device.
    Up(Rc<RefCell<HostBuffer>>, Span),
    /// Device to host.
    Down(Rc<RefCell<HostBuffer>>, Span),
    /// Device to device: to, from.
    Across(Span, Span),
    /// Every byte set to a value.
    Fill(Span, u8),
    /// One device to another: to, from.
    Peer(Span, Span),
    /// A square product by the vendor's library, on its own stream: of what numbers, of how many rows, of A, B and C.
    Product(Rc<Products>, Numbers, u32, [Span; 3]),
}

impl Action {
    pub(crate) fn enqueue(&self, stream: &Arc<Stream>) -> Result<(), Fault> {
        match self {
            Self::Launch(launch) => stream.launch(launch),
            Self::Up(host, span) => host.borrow_mut().copy_to(stream, *span),
            Self::Down(host, span) => host.borrow_mut().copy_from(stream, *span),
            Self::Across(to, from) => to.copy_from(stream, *from),
            Self::Fill(span, value) => span.fill(stream, *value),
            Self::Peer(to, from) => to.copy_from_peer(stream, *from),
            Self::Product(products, numbers, n, parts) => products.square(*numbers, *n, *parts),
        }
    }
}

/// How a sample's k launches reach the device, and what is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One instantiated graph of k kernels between two events; `dependent` lets each begin before the last has ended.
    Graph {
        /// Programmatic dependent launch on every edge.
        dependent: bool,
    },
    /// One instantiated graph of the cycle's kernels, launched again and again between two events.
    Replay,
    /// k calls between two events.
    Stream,
    /// k calls while the device is held, which does them all after: between two events what the device alone takes, none of it
    /// the host's calls. Needs a lead.
    Queued,
    /// One action between two events: the device's share of a launch.
    Latency,
    /// One action by the host's clock, from the call until the host has seen it done.
    HostLatency,
}

/// Actions on a second stream that run beside the first: both begin at the sample's start, which ends when both have.
struct Beside {
    stream: Arc<Stream>,
    actions: Vec<Action>,
    done: Event,
}

type Prepare = Box<dyn FnMut(&Arc<Stream>) -> Result<(), Fault>>;
type Verify = Box<dyn FnMut(&Arc<Stream>) -> Result<Check, Fault>>;

/// A workload on one stream: actions that are repeated in turn (a rotation has one per window).
pub struct Load {
    stream: Arc<Stream>,
    shape: Shape,
    cycle: Vec<Action>,
    before: Vec<Action>,
    beside: Option<Beside>,
    work: Work,
    most: u32,
    pairs: Vec<(Event, Event)>,
    graph: Option<(u32, Graph)>,
    lead: Option<Arc<Spinner>>,
    lead_length: Duration,
    /// Samples whose calls outlasted every hold.
    outlasted: u32,
    turn: usize,
    prepare: Option<Prepare>,
    check: Option<Verify>,
    unjudged: Rc<Cell<[u64; 2]>>,
    extra: Vec<(&'static str, f64)>,
}

impl Load {
    /// A workload of one or more actions in turn. Graphs hold kernels alone.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for no action or a copy in a graph; the driver's.
    pub fn new(stream: &Arc<Stream>, shape: Shape, cycle: Vec<Action>, work: Work) -> Result<Self, Fault> {
        let kernels = cycle.iter().all(|action| matches!(action, Action::Launch(_)));
        if cycle.is_empty() || (matches!(shape, Shape::Graph { .. } | Shape::Replay) && !kernels) {
            return Err(Fault::Invalid("a graph takes one or more kernels and nothing else".to_owned()));
        }
        let context = stream.context();
        let pair = |_| Ok((Event::new(context)?, Event::new(context)?));
        let pairs = (0..PAIRS).map(pair).collect::<Result<Vec<_>, Fault>>()?;
        Ok(Self {
            stream: Arc::clone(stream),
            shape,
            cycle,
            before: Vec::new(),
            beside: None,
            work,
            most: if shape == Shape::Queued { QUEUE } else { MOST },
            pairs,
            graph: None,
            lead: None,
            lead_length: LEAD.0,
            outlasted: 0,
            turn: 0,
            prepare: None,
            check: None,
            unjudged: Rc::default(),
            extra: Vec::new(),
        })
    }

    /// Kernels in one graph per sample.
    ///
    /// # Errors
    /// Those of [`Load::new`].
    pub fn graph(stream: &Arc<Stream>, launches: Vec<Launch>, dependent: bool, work: Work) -> Result<Self, Fault> {
        let cycle = launches.into_iter().map(Action::Launch).collect();
        Self::new(stream, Shape::Graph { dependent }, cycle, work)
    }

    /// Keeps the device busy while the host queues a sample, so that no sample holds the host's part of a launch.
    #[must_use]
    pub fn with_lead(mut self, spinner: &Arc<Spinner>) -> Self {
        self.lead = Some(Arc::clone(spinner));
        self
    }

    /// Actions before every sample, outside the timed window: a flush of the caches.
    #[must_use]
    pub fn with_before(mut self, actions: Vec<Action>) -> Self {
        self.before = actions;
        self
    }

    /// Actions that run beside the first ones on a second stream, as often as they.
    ///
    /// # Errors
    /// The driver's.
    pub fn with_beside(mut self, stream: &Arc<Stream>, actions: Vec<Action>) -> Result<Self, Fault> {
        let done = Event::untimed(stream.context())?;
        self.beside = Some(Beside { stream: Arc::clone(stream), actions, done });
        Ok(self)
    }

    /// Runs before every slice of samples, untimed: poisons outputs.
    #[must_use]
    pub fn with_prepare(mut self, prepare: impl FnMut(&Arc<Stream>) -> Result<(), Fault> + 'static) -> Self {
        self.prepare = Some(Box::new(prepare));
        self
    }

    /// Where the check says how many elements it couldn't judge, of all.
    #[must_use]
    pub fn with_unjudged(mut self, unjudged: &Rc<Cell<[u64; 2]>>) -> Self {
        self.unjudged = Rc::clone(unjudged);
        self
    }

    /// Runs after the last sample: did the kernels do what they claim?
    #[must_use]
    pub fn with_check(mut self, check: impl FnMut(&Arc<Stream>) -> Result<Check, Fault> + 'static) -> Self {
        self.check = Some(Box::new(check));
        self
    }

    /// A figure that belongs to the point beside its time: what a launch has in flight, say.
    #[must_use]
    pub fn with_extra(mut self, metric: &'static str, value: f64) -> Self {
        self.extra.push((metric, value));
        self
    }

    /// Most launches of a sample, instead of 8192.
    #[must_use]
    pub fn at_most(mut self, most: u32) -> Self {
        self.most = most.clamp(1, MOST);
        self
    }

    fn is_latency(&self) -> bool {
        matches!(self.shape, Shape::Latency | Shape::HostLatency)
    }

    /// Builds the graph of k kernels and learns how long the host takes to launch it.
    fn build(&mut self, k: u32) -> Result<(), Fault> {
        let (k, dependent) = match self.shape {
            Shape::Graph { dependent } => (k, dependent),
            Shape::Replay => (u32::try_from(self.cycle.len()).unwrap_or(u32::MAX), false),
            _ => return Ok(()),
        };
        if self.graph.as_ref().is_some_and(|(built, _)| *built == k) {
            return Ok(());
        }
        self.graph = None;
        let launches: Vec<Launch> = self.cycle.iter().filter_map(Action::kernel).cloned().collect();
        let graph = Graph::chain(self.stream.context(), &launches, k, dependent)?;
        graph.upload(&self.stream)?;
        wait::stream(&self.stream)?;
        let start = Instant::now();
        graph.launch(&self.stream)?;
        self.lead_length = (2 * start.elapsed()).clamp(LEAD.0, LEAD.1);
        wait::stream(&self.stream)?;
        self.graph = Some((k, graph));
        Ok(())
    }

    /// Queues the k launches of one sample.
    fn body(&mut self, k: u32, start: usize) -> Result<(), Fault> {
        if let Some(beside) = &self.beside {
            beside.stream.wait_for(&self.pairs[start].0)?;
        }
        if let Some((_, graph)) = self.graph.as_ref().filter(|_| matches!(self.shape, Shape::Graph { .. })) {
            graph.launch(&self.stream)?;
        } else if let Some((kernels, graph)) = self.graph.as_ref().filter(|_| self.shape == Shape::Replay) {
            (0..k / kernels).try_for_each(|_| graph.launch(&self.stream))?;
        } else {
            for _ in 0..k {
                self.cycle[self.turn].enqueue(&self.stream)?;
                self.turn = (self.turn + 1) % self.cycle.len();
                if let Some(beside) = &self.beside {
                    beside.actions.iter().try_for_each(|action| action.enqueue(&beside.stream))?;
                }
            }
        }
        if let Some(beside) = &self.beside {
            beside.done.record(&beside.stream)?;
            self.stream.wait_for(&beside.done)?;
        }
        Ok(())
    }

    fn before(&self) -> Result<(), Fault> {
        self.before.iter().try_for_each(|action| action.enqueue(&self.stream))
    }

    fn lead(&self) -> Result<(), Fault> {
        self.lead.as_ref().map_or(Ok(()), |spinner| spinner.spin(&self.stream, self.lead_length))
    }

    /// Samples queued together, waited for once.
    fn slice(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        self.lead()?;
        for place in 0..out.len() {
            self.before()?;
            self.pairs[place].0.record(&self.stream)?;
            self.body(k, place)?;
            self.pairs[place].1.record(&self.stream)?;
        }
        let Some(last) = out.len().checked_sub(1) else { return Ok(()) };
        wait::event(&self.pairs[last].1)?;
        for (sample, (start, end)) in out.iter_mut().zip(&self.pairs) {
            *sample = end.nanoseconds_since(start)?;
        }
        Ok(())
    }

    /// One sample that is queued whole before the device begins with it: made again, under a longer hold, where the calls took
    /// longer than that. The last try counts whatever it was, and the check tells.
    fn queued(&mut self, k: u32) -> Result<u64, Fault> {
        for attempt in 1..=TRIES {
            let start = Instant::now();
            self.lead()?;
            self.before()?;
            self.pairs[0].0.record(&self.stream)?;
            self.body(k, 0)?;
            self.pairs[0].1.record(&self.stream)?;
            // The hold began after `start`, so that it lasts at least until the length has gone by.
            let calls = start.elapsed();
            wait::event(&self.pairs[0].1)?;
            let held = self.lead.is_none() || calls < self.lead_length;
            self.outlasted += u32::from(!held && attempt == TRIES);
            // A third more than these calls took, and after a slow queue back to that by and by: few are made again, and little
            // time goes by in which nothing is measured.
            self.lead_length = (self.lead_length * 7 / 8).max(calls * 4 / 3).clamp(LEAD.0, LONGEST_HOLD);
            if held {
                break;
            }
        }
        Ok(self.pairs[0].1.nanoseconds_since(&self.pairs[0].0)?)
    }

    /// One sample by the host's clock, from an idle device.
    fn by_host(&mut self, k: u32) -> Result<u64, Fault> {
        self.before()?;
        self.pairs[0].0.record(&self.stream)?;
        wait::stream(&self.stream)?;
        let start = Instant::now();
        self.body(k, 0)?;
        self.pairs[0].1.record(&self.stream)?;
        wait::event(&self.pairs[0].1)?;
        Ok(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Action {
    fn kernel(&self) -> Option<&Launch> {
        match self {
            Self::Launch(launch) => Some(launch),
            _ => None,
        }
    }
}

impl Workload for Load {
    fn work(&self) -> Work {
        self.work
    }

    fn batch(&self) -> Batch {
        if self.is_latency() {
            return Batch { cycle: 1, max: 1 };
        }
        let cycle = u32::try_from(self.cycle.len()).unwrap_or(u32::MAX);
        Batch { cycle, max: self.most.max(cycle) }
    }

    fn prepare(&mut self, k: u32) -> Result<(), Fault> {
        self.stream.context().bind()?;
        self.build(k)?;
        self.prepare.as_mut().map_or(Ok(()), |prepare| prepare(&self.stream))
    }

    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        self.stream.context().bind()?;
        self.build(k)?;
        match self.shape {
            Shape::HostLatency => {
                for sample in out {
                    *sample = self.by_host(k)?;
                }
            }
            Shape::Queued => {
                for sample in out {
                    *sample = self.queued(k)?;
                }
            }
            Shape::Latency => {
                for sample in out.chunks_mut(1) {
                    self.slice(k, sample)?;
                }
            }
            Shape::Graph { .. } | Shape::Replay | Shape::Stream => {
                for samples in out.chunks_mut(PAIRS) {
                    self.slice(k, samples)?;
                }
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Fault> {
        wait::stream(&self.stream)?;
        if self.outlasted > 0 {
            let why = format!("in {} samples the host took longer to queue than the device was held", self.outlasted);
            return Ok(Check::Failed(why));
        }
        self.check.as_mut().map_or(Ok(Check::Passed), |check| check(&self.stream))
    }

    /// Launches alone are counted: what copy engines move, and what a second stream does beside, is not.
    fn ready(&mut self) -> Result<u32, Fault> {
        let kernels = self.cycle.iter().all(|action| action.kernel().is_some());
        if !kernels || self.beside.is_some() {
            return Ok(0);
        }
        self.stream.context().bind()?;
        self.turn = 0;
        // A rotation leaves in the caches what the one before a sample leaves there.
        if self.before.is_empty() {
            self.once()?;
        } else {
            self.before()?;
            wait::stream(&self.stream)?;
        }
        Ok(u32::try_from(self.cycle.len()).unwrap_or(u32::MAX))
    }

    fn once(&mut self) -> Result<(), Fault> {
        self.cycle.iter().try_for_each(|action| action.enqueue(&self.stream))?;
        wait::stream(&self.stream)
    }

    fn unjudged(&self) -> [u64; 2] {
        self.unjudged.get()
    }

    fn extra(&self, out: &mut BTreeMap<String, f64>) {
        out.extend(self.extra.iter().map(|(metric, value)| ((*metric).to_owned(), *value)));
    }
}
