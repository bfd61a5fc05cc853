//! The workloads that probes hand to the sampling engine: what is launched k times per sample, in which form, and what is timed.
//! Probes decide what the kernels do and check that they did it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::Fault;
use plimsoll_core::sample::{Batch, Check, Work, Workload};

use crate::{Gpu, Span};

/// Most samples between two waits. Their events are created in advance.
const PAIRS: usize = 32;
/// Most launches in a graph.
const MOST: u32 = 8192;
/// Shortest and longest run of the blocking kernel while the host queues a sample.
const BLOCK_LENGTHS: (Duration, Duration) = (Duration::from_micros(30), Duration::from_millis(5));

/// Most launches waiting in a stream at once: the driver accepts about a thousand, then its calls wait for the device.
const QUEUE: u32 = 768;
/// Longest run of the blocking kernel for a queued sample: enough for [`QUEUE`] calls of 20 µs.
const LONGEST_QUEUE_BLOCK: Duration = Duration::from_millis(16);
/// How often a sample is queued before it counts although queueing took longer than the blocking kernel ran.
const TRIES: u32 = 4;

/// One piece of work of a stream.
#[allow(clippy::large_enum_variant, reason = "cycles are short, and a box per launch would add to the timed loop")]
pub enum Action<G: Gpu> {
    /// A kernel.
    Launch(G::Launch),
    /// Copies within the device: to, from.
    Copy(Span, Span),
    /// Sets every byte to a value.
    Fill(Span, u8),
    /// An action that only this backend has.
    Other(G::Action),
}

impl<G: Gpu> Clone for Action<G> {
    fn clone(&self) -> Self {
        match self {
            Self::Launch(launch) => Self::Launch(launch.clone()),
            Self::Copy(to, from) => Self::Copy(*to, *from),
            Self::Fill(span, value) => Self::Fill(*span, *value),
            Self::Other(action) => Self::Other(action.clone()),
        }
    }
}

impl<G: Gpu> Action<G> {
    /// Enqueues it.
    pub fn enqueue(&self, stream: &Arc<G::Stream>) -> Result<(), Fault> {
        match self {
            Self::Launch(launch) => G::launch(stream, launch),
            Self::Copy(to, from) => G::copy(stream, *to, *from),
            Self::Fill(span, value) => G::fill(stream, *span, *value),
            Self::Other(action) => G::run_action(stream, action),
        }
    }

    fn kernel(&self) -> Option<&G::Launch> {
        match self {
            Self::Launch(launch) => Some(launch),
            _ => None,
        }
    }
}

/// How the k launches of a sample reach the device, and what is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One instantiated graph of k kernels between two events; `dependent` lets each begin before the last has ended.
    Graph {
        /// Programmatic dependent launch on every edge.
        dependent: bool,
    },
    /// One instantiated graph of the cycle's kernels, launched repeatedly between two events.
    Replay,
    /// k calls between two events.
    Stream,
    /// k calls while the blocking kernel runs; the device then does them all. The time between the two events excludes the host's
    /// calls. Needs a blocking kernel.
    Queued,
    /// One action between two events: the device's share of a launch.
    Latency,
    /// One action by the host's clock, from the call until the host sees that it is done.
    HostLatency,
}

/// Actions that run on a second stream at the same time. Both streams begin at the sample's start; it ends when both have ended.
struct SecondStream<G: Gpu> {
    stream: Arc<G::Stream>,
    actions: Vec<Action<G>>,
    done: G::Event,
}

type Prepare<G> = Box<dyn FnMut(&Arc<<G as Gpu>::Stream>) -> Result<(), Fault>>;
type CheckResults<G> = Box<dyn FnMut(&Arc<<G as Gpu>::Stream>) -> Result<Check, Fault>>;

/// A workload on one stream that repeats a cycle of actions (a rotation has one action per window).
pub struct Load<G: Gpu> {
    stream: Arc<G::Stream>,
    shape: Shape,
    cycle: Vec<Action<G>>,
    before: Vec<Action<G>>,
    second: Option<SecondStream<G>>,
    work: Work,
    most: u32,
    pairs: Vec<(G::Event, G::Event)>,
    graph: Option<(u32, G::Graph)>,
    blocker: Option<Arc<G::Blocker>>,
    block_length: Duration,
    /// Samples that took longer to queue than the blocking kernel ran, in every try.
    outlasted: u32,
    /// Index in the cycle of the next action.
    next: usize,
    prepare: Option<Prepare<G>>,
    check: Option<CheckResults<G>>,
    unjudged: Rc<Cell<[u64; 2]>>,
    extra: Vec<(&'static str, f64)>,
}

impl<G: Gpu> Load<G> {
    /// Makes a workload that repeats one or more actions in order. Graphs hold kernels only.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for no action, or for a graph of anything else than kernels.
    pub fn new(stream: &Arc<G::Stream>, shape: Shape, cycle: Vec<Action<G>>, work: Work) -> Result<Self, Fault> {
        let kernels = cycle.iter().all(|action| matches!(action, Action::Launch(_)));
        if cycle.is_empty() || (matches!(shape, Shape::Graph { .. } | Shape::Replay) && !kernels) {
            return Err(Fault::Invalid("a load takes one or more actions, and a graph takes kernels only".to_owned()));
        }
        let pair = |_| Ok((G::event(stream)?, G::event(stream)?));
        let pairs = (0..PAIRS).map(pair).collect::<Result<Vec<_>, Fault>>()?;
        Ok(Self {
            stream: Arc::clone(stream),
            shape,
            cycle,
            before: Vec::new(),
            second: None,
            work,
            most: if shape == Shape::Queued { QUEUE } else { MOST },
            pairs,
            graph: None,
            blocker: None,
            block_length: BLOCK_LENGTHS.0,
            outlasted: 0,
            next: 0,
            prepare: None,
            check: None,
            unjudged: Rc::default(),
            extra: Vec::new(),
        })
    }

    /// Makes a workload with one graph of kernels per sample.
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

    /// Runs the blocking kernel while the host queues a sample, so that samples exclude the host's share of a launch.
    #[must_use]
    pub fn with_blocker(mut self, blocker: &Arc<G::Blocker>) -> Self {
        self.blocker = Some(Arc::clone(blocker));
        self
    }

    /// Enqueues `actions` before every sample, outside the timed window: a flush of the caches, for example.
    #[must_use]
    pub fn with_before(mut self, actions: Vec<Action<G>>) -> Self {
        self.before = actions;
        self
    }

    /// Runs `actions` on a second stream at the same time, once per action of the first.
    pub fn with_second_stream(mut self, stream: &Arc<G::Stream>, actions: Vec<Action<G>>) -> Result<Self, Fault> {
        let done = G::untimed_event(stream)?;
        self.second = Some(SecondStream { stream: Arc::clone(stream), actions, done });
        Ok(self)
    }

    /// Runs `prepare` before every slice of samples, untimed: poisons outputs, for example.
    #[must_use]
    pub fn with_prepare(mut self, prepare: impl FnMut(&Arc<G::Stream>) -> Result<(), Fault> + 'static) -> Self {
        self.prepare = Some(Box::new(prepare));
        self
    }

    /// Reads from `unjudged` how many elements the check could not judge, and how many there are.
    #[must_use]
    pub fn with_unjudged(mut self, unjudged: &Rc<Cell<[u64; 2]>>) -> Self {
        self.unjudged = Rc::clone(unjudged);
        self
    }

    /// Runs `check` after the last sample, to see whether the kernels did what they claim.
    #[must_use]
    pub fn with_check(mut self, check: impl FnMut(&Arc<G::Stream>) -> Result<Check, Fault> + 'static) -> Self {
        self.check = Some(Box::new(check));
        self
    }

    /// Adds a figure to the point: the bytes that a launch has in flight, for example.
    #[must_use]
    pub fn with_extra(mut self, metric: &'static str, value: f64) -> Self {
        self.extra.push((metric, value));
        self
    }

    /// Limits the launches of a sample to `most`, instead of 8192.
    #[must_use]
    pub fn limit_launches(mut self, most: u32) -> Self {
        self.most = most.clamp(1, MOST);
        self
    }

    /// Whether every sample is one call.
    pub(crate) fn is_latency(&self) -> bool {
        matches!(self.shape, Shape::Latency | Shape::HostLatency)
    }

    /// Builds the graph of k kernels and measures how long the host takes to launch it.
    fn build_graph(&mut self, k: u32) -> Result<(), Fault> {
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
        self.block_length = (2 * start.elapsed()).clamp(BLOCK_LENGTHS.0, BLOCK_LENGTHS.1);
        G::wait(&self.stream)?;
        self.graph = Some((k, graph));
        Ok(())
    }

    /// Queues the k launches of one sample.
    fn enqueue_launches(&mut self, k: u32, pair: usize) -> Result<(), Fault> {
        if let Some(second) = &self.second {
            G::wait_for(&second.stream, &self.pairs[pair].0)?;
        }
        if let Some((_, graph)) = self.graph.as_ref().filter(|_| matches!(self.shape, Shape::Graph { .. })) {
            G::launch_graph(&self.stream, graph)?;
        } else if let Some((kernels, graph)) = self.graph.as_ref().filter(|_| self.shape == Shape::Replay) {
            (0..k / kernels).try_for_each(|_| G::launch_graph(&self.stream, graph))?;
        } else {
            for _ in 0..k {
                self.cycle[self.next].enqueue(&self.stream)?;
                if self.shape == Shape::Stream {
                    G::submit(&self.stream)?;
                }
                self.next = (self.next + 1) % self.cycle.len();
                if let Some(second) = &self.second {
                    second.actions.iter().try_for_each(|action| action.enqueue(&second.stream))?;
                }
            }
        }
        if let Some(second) = &self.second {
            G::record(&second.done, &second.stream)?;
            G::wait_for(&self.stream, &second.done)?;
        }
        Ok(())
    }

    fn enqueue_before(&self) -> Result<(), Fault> {
        self.before.iter().try_for_each(|action| action.enqueue(&self.stream))
    }

    fn block(&self) -> Result<(), Fault> {
        self.blocker.as_ref().map_or(Ok(()), |blocker| G::block(blocker, &self.stream, self.block_length))
    }

    /// Queues several samples together and waits once.
    fn sample_slice(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        self.block()?;
        for pair in 0..out.len() {
            self.enqueue_before()?;
            G::record(&self.pairs[pair].0, &self.stream)?;
            self.enqueue_launches(k, pair)?;
            G::record(&self.pairs[pair].1, &self.stream)?;
        }
        let Some(last) = out.len().checked_sub(1) else { return Ok(()) };
        G::wait_event(&self.pairs[last].1)?;
        for (sample, (start, end)) in out.iter_mut().zip(&self.pairs) {
            *sample = G::nanoseconds(start, end)?;
        }
        Ok(())
    }

    /// Takes one sample that is queued completely before the device starts it. If queueing took longer than the blocking kernel
    /// ran, it tries again with a longer one. The last try counts in any case, and the check reports it.
    fn sample_queued(&mut self, k: u32) -> Result<u64, Fault> {
        for attempt in 1..=TRIES {
            let start = Instant::now();
            self.block()?;
            self.enqueue_before()?;
            G::record(&self.pairs[0].0, &self.stream)?;
            self.enqueue_launches(k, 0)?;
            G::record(&self.pairs[0].1, &self.stream)?;
            // The blocking kernel began after `start`, so it ran at least until `start` plus its length.
            let calls = start.elapsed();
            G::wait_event(&self.pairs[0].1)?;
            let queued_in_time = self.blocker.is_none() || calls < self.block_length;
            self.outlasted += u32::from(!queued_in_time && attempt == TRIES);
            // Next time, a third longer than these calls took. After one slow queue the length shrinks back step by step, so that
            // few samples are repeated and the device is seldom blocked for nothing.
            self.block_length =
                (self.block_length * 7 / 8).max(calls * 4 / 3).clamp(BLOCK_LENGTHS.0, LONGEST_QUEUE_BLOCK);
            if queued_in_time {
                break;
            }
        }
        G::nanoseconds(&self.pairs[0].0, &self.pairs[0].1)
    }

    /// Takes one sample by the host's clock, from an idle device.
    fn sample_by_host(&mut self, k: u32) -> Result<u64, Fault> {
        self.enqueue_before()?;
        G::record(&self.pairs[0].0, &self.stream)?;
        G::wait(&self.stream)?;
        let start = Instant::now();
        self.enqueue_launches(k, 0)?;
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
        self.build_graph(k)?;
        self.prepare.as_mut().map_or(Ok(()), |prepare| prepare(&self.stream))
    }

    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        G::bind(&self.stream)?;
        self.build_graph(k)?;
        match self.shape {
            Shape::HostLatency => {
                for sample in out {
                    *sample = self.sample_by_host(k)?;
                }
            }
            Shape::Queued => {
                for sample in out {
                    *sample = self.sample_queued(k)?;
                }
            }
            Shape::Latency => {
                for sample in out.chunks_mut(1) {
                    self.sample_slice(k, sample)?;
                }
            }
            Shape::Graph { .. } | Shape::Replay | Shape::Stream => {
                for samples in out.chunks_mut(PAIRS) {
                    self.sample_slice(k, samples)?;
                }
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Fault> {
        G::wait(&self.stream)?;
        if self.outlasted > 0 {
            let why = format!("in {} samples queueing took longer than the blocking kernel ran", self.outlasted);
            return Ok(Check::Failed(why));
        }
        self.check.as_mut().map_or(Ok(Check::Passed), |check| check(&self.stream))
    }

    /// Hardware counters see launches only, so loads with copies or a second stream are not ready for them.
    fn prepare_count(&mut self) -> Result<u32, Fault> {
        let kernels = self.cycle.iter().all(|action| action.kernel().is_some());
        if !kernels || self.second.is_some() {
            return Ok(0);
        }
        G::bind(&self.stream)?;
        self.next = 0;
        // One rotation puts the caches in the state in which a sample finds them.
        if self.before.is_empty() {
            self.launch_once()?;
        } else {
            self.enqueue_before()?;
            G::wait(&self.stream)?;
        }
        Ok(u32::try_from(self.cycle.len()).unwrap_or(u32::MAX))
    }

    fn launch_once(&mut self) -> Result<(), Fault> {
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
