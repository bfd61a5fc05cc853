//! The workloads that the probes hand to the sampling engine: what is launched k times in a sample, in which form, and
//! what is timed. What the kernels do, and whether they did it, is the probes' business.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::Fault;
use plimsoll_core::sample::{Batch, Check, Work, Workload};

use crate::{Gpu, Span};

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
#[allow(clippy::large_enum_variant, reason = "a cycle is short, and a box more per launch would be in the timed loop")]
pub enum Action<G: Gpu> {
    /// A kernel.
    Launch(G::Launch),
    /// Device to device: to, from.
    Across(Span, Span),
    /// Every byte set to a value.
    Fill(Span, u8),
    /// What only this backend's streams do.
    Other(G::Action),
}

impl<G: Gpu> Clone for Action<G> {
    fn clone(&self) -> Self {
        match self {
            Self::Launch(launch) => Self::Launch(launch.clone()),
            Self::Across(to, from) => Self::Across(*to, *from),
            Self::Fill(span, value) => Self::Fill(*span, *value),
            Self::Other(action) => Self::Other(action.clone()),
        }
    }
}

impl<G: Gpu> Action<G> {
    /// Enqueues it.
    ///
    /// # Errors
    /// The driver's.
    pub fn enqueue(&self, stream: &Arc<G::Stream>) -> Result<(), Fault> {
        match self {
            Self::Launch(launch) => G::launch(stream, launch),
            Self::Across(to, from) => G::copy(stream, *to, *from),
            Self::Fill(span, value) => G::fill(stream, *span, *value),
            Self::Other(action) => G::act(stream, action),
        }
    }

    fn kernel(&self) -> Option<&G::Launch> {
        match self {
            Self::Launch(launch) => Some(launch),
            _ => None,
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
struct Beside<G: Gpu> {
    stream: Arc<G::Stream>,
    actions: Vec<Action<G>>,
    done: G::Event,
}

type Prepare<G> = Box<dyn FnMut(&Arc<<G as Gpu>::Stream>) -> Result<(), Fault>>;
type Verify<G> = Box<dyn FnMut(&Arc<<G as Gpu>::Stream>) -> Result<Check, Fault>>;

/// A workload on one stream: actions that are repeated in turn (a rotation has one per window).
pub struct Load<G: Gpu> {
    stream: Arc<G::Stream>,
    shape: Shape,
    cycle: Vec<Action<G>>,
    before: Vec<Action<G>>,
    beside: Option<Beside<G>>,
    work: Work,
    most: u32,
    pairs: Vec<(G::Event, G::Event)>,
    graph: Option<(u32, G::Graph)>,
    lead: Option<Arc<G::Blocker>>,
    lead_length: Duration,
    /// Samples whose calls outlasted every hold.
    outlasted: u32,
    iteration: usize,
    prepare: Option<Prepare<G>>,
    check: Option<Verify<G>>,
    unjudged: Rc<Cell<[u64; 2]>>,
    extra: Vec<(&'static str, f64)>,
}

impl<G: Gpu> Load<G> {
    /// A workload of one or more actions in turn. Graphs hold kernels alone.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for no action or a copy in a graph; the driver's.
    pub fn new(stream: &Arc<G::Stream>, shape: Shape, cycle: Vec<Action<G>>, work: Work) -> Result<Self, Fault> {
        let kernels = cycle.iter().all(|action| matches!(action, Action::Launch(_)));
        if cycle.is_empty() || (matches!(shape, Shape::Graph { .. } | Shape::Replay) && !kernels) {
            return Err(Fault::Invalid("a graph takes one or more kernels and nothing else".to_owned()));
        }
        let pair = |_| Ok((G::event(stream)?, G::event(stream)?));
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
            iteration: 0,
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
    pub fn graph(
        stream: &Arc<G::Stream>,
        launches: Vec<G::Launch>,
        dependent: bool,
        work: Work,
    ) -> Result<Self, Fault> {
        let cycle = launches.into_iter().map(Action::Launch).collect();
        Self::new(stream, Shape::Graph { dependent }, cycle, work)
    }

    /// Keeps the device busy while the host queues a sample, so that no sample holds the host's part of a launch.
    #[must_use]
    pub fn with_lead(mut self, spinner: &Arc<G::Blocker>) -> Self {
        self.lead = Some(Arc::clone(spinner));
        self
    }

    /// Actions before every sample, outside the timed window: a flush of the caches.
    #[must_use]
    pub fn with_before(mut self, actions: Vec<Action<G>>) -> Self {
        self.before = actions;
        self
    }

    /// Actions that run beside the first ones on a second stream, as often as they.
    ///
    /// # Errors
    /// The driver's.
    pub fn with_beside(mut self, stream: &Arc<G::Stream>, actions: Vec<Action<G>>) -> Result<Self, Fault> {
        let done = G::untimed_event(stream)?;
        self.beside = Some(Beside { stream: Arc::clone(stream), actions, done });
        Ok(self)
    }

    /// Runs before every slice of samples, untimed: poisons outputs.
    #[must_use]
    pub fn with_prepare(mut self, prepare: impl FnMut(&Arc<G::Stream>) -> Result<(), Fault> + 'static) -> Self {
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
    pub fn with_check(mut self, check: impl FnMut(&Arc<G::Stream>) -> Result<Check, Fault> + 'static) -> Self {
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
        let launches: Vec<G::Launch> = self.cycle.iter().filter_map(Action::kernel).cloned().collect();
        let graph = G::graph(&self.stream, &launches, k, dependent)?;
        G::wait(&self.stream)?;
        let start = Instant::now();
        G::launch_graph(&self.stream, &graph)?;
        self.lead_length = (2 * start.elapsed()).clamp(LEAD.0, LEAD.1);
        G::wait(&self.stream)?;
        self.graph = Some((k, graph));
        Ok(())
    }

    /// Queues the k launches of one sample.
    fn body(&mut self, k: u32, start: usize) -> Result<(), Fault> {
        if let Some(beside) = &self.beside {
            G::wait_for(&beside.stream, &self.pairs[start].0)?;
        }
        if let Some((_, graph)) = self.graph.as_ref().filter(|_| matches!(self.shape, Shape::Graph { .. })) {
            G::launch_graph(&self.stream, graph)?;
        } else if let Some((kernels, graph)) = self.graph.as_ref().filter(|_| self.shape == Shape::Replay) {
            (0..k / kernels).try_for_each(|_| G::launch_graph(&self.stream, graph))?;
        } else {
            for _ in 0..k {
                self.cycle[self.iteration].enqueue(&self.stream)?;
                if self.shape == Shape::Stream {
                    G::submit(&self.stream)?;
                }
                self.iteration = (self.iteration + 1) % self.cycle.len();
                if let Some(beside) = &self.beside {
                    beside.actions.iter().try_for_each(|action| action.enqueue(&beside.stream))?;
                }
            }
        }
        if let Some(beside) = &self.beside {
            G::record(&beside.done, &beside.stream)?;
            G::wait_for(&self.stream, &beside.done)?;
        }
        Ok(())
    }

    fn before(&self) -> Result<(), Fault> {
        self.before.iter().try_for_each(|action| action.enqueue(&self.stream))
    }

    fn lead(&self) -> Result<(), Fault> {
        self.lead.as_ref().map_or(Ok(()), |spinner| G::block(spinner, &self.stream, self.lead_length))
    }

    /// Samples queued together, waited for once.
    fn slice(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        self.lead()?;
        for place in 0..out.len() {
            self.before()?;
            G::record(&self.pairs[place].0, &self.stream)?;
            self.body(k, place)?;
            G::record(&self.pairs[place].1, &self.stream)?;
        }
        let Some(last) = out.len().checked_sub(1) else { return Ok(()) };
        G::wait_event(&self.pairs[last].1)?;
        for (sample, (start, end)) in out.iter_mut().zip(&self.pairs) {
            *sample = G::nanoseconds(start, end)?;
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
            G::record(&self.pairs[0].0, &self.stream)?;
            self.body(k, 0)?;
            G::record(&self.pairs[0].1, &self.stream)?;
            // The hold began after `start`, so that it lasts at least until the length has gone by.
            let calls = start.elapsed();
            G::wait_event(&self.pairs[0].1)?;
            let held = self.lead.is_none() || calls < self.lead_length;
            self.outlasted += u32::from(!held && attempt == TRIES);
            // A third more than these calls took, and after a slow queue back to that by and by: few are made again, and little
            // time goes by in which nothing is measured.
            self.lead_length = (self.lead_length * 7 / 8).max(calls * 4 / 3).clamp(LEAD.0, LONGEST_HOLD);
            if held {
                break;
            }
        }
        G::nanoseconds(&self.pairs[0].0, &self.pairs[0].1)
    }

    /// One sample by the host's clock, from an idle device.
    fn by_host(&mut self, k: u32) -> Result<u64, Fault> {
        self.before()?;
        G::record(&self.pairs[0].0, &self.stream)?;
        G::wait(&self.stream)?;
        let start = Instant::now();
        self.body(k, 0)?;
        G::record(&self.pairs[0].1, &self.stream)?;
        G::wait_event(&self.pairs[0].1)?;
        Ok(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

impl<G: Gpu> Workload for Load<G> {
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
        G::bind(&self.stream)?;
        self.build(k)?;
        self.prepare.as_mut().map_or(Ok(()), |prepare| prepare(&self.stream))
    }

    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        G::bind(&self.stream)?;
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
        G::wait(&self.stream)?;
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
        G::bind(&self.stream)?;
        self.iteration = 0;
        // A rotation leaves in the caches what the one before a sample leaves there.
        if self.before.is_empty() {
            self.once()?;
        } else {
            self.before()?;
            G::wait(&self.stream)?;
        }
        Ok(u32::try_from(self.cycle.len()).unwrap_or(u32::MAX))
    }

    fn once(&mut self) -> Result<(), Fault> {
        self.cycle.iter().try_for_each(|action| action.enqueue(&self.stream))?;
        G::wait(&self.stream)
    }

    fn unjudged(&self) -> [u64; 2] {
        self.unjudged.get()
    }

    fn extra(&self, out: &mut BTreeMap<String, f64>) {
        out.extend(self.extra.iter().map(|(metric, value)| ((*metric).to_owned(), *value)));
    }
}
