//! Matrix products without pause on several devices: every stream always has work, so that devices stay at their power limit.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use plimsoll_core::sample::{Batch, Workload};
use plimsoll_cuda::driver::{Event, Stream};
use plimsoll_cuda::{Action, Cuda, CudaDevice, wait};
use plimsoll_gpu::Meter;

use super::contest::{WARM_UPS, overlap};
use crate::meter::Energy;
use crate::neighbours::{CLOCK, POWER};
use crate::prelude::gpu::*;
use crate::tensor::gpu::{Bench, Remembered, Spot};

/// Length of a piece of work, nanoseconds: a sample is one piece.
const PIECE: f64 = 20e6;
/// Most launches of a piece, and pieces that are queued at once.
const MOST: f64 = 256.0;
const AHEAD: usize = 3;
/// Launches by which a piece is planned.
const PLANNED: u32 = 4;
/// Pieces before the first sample: a device at its power limit needs 0.1 s and more to settle on a clock.
const SETTLING: u32 = 20;

/// One device's products.
pub(super) struct Products {
    bench: Rc<Bench<Cuda>>,
    first: Remembered,
    action: Action,
    operations: f64,
    /// Launches of a piece.
    launches: u32,
    meter: Option<Arc<dyn Meter>>,
    /// What was wrong with the first launch.
    wrong: Option<String>,
}

impl Products {
    /// Remembers the bits of a first launch, and measures how long a launch takes.
    pub(super) fn new(device: &CudaDevice, bench: Rc<Bench<Cuda>>, spot: Spot) -> Result<Self, Fault> {
        let (first, wrong) = bench.remember(spot)?;
        let (launch, operations) = bench.launch_again(first)?;
        let action = Action::Launch(launch);
        let stream = bench.stream();
        stream.context().bind()?;
        let (begin, end) = (Event::new(stream.context())?, Event::new(stream.context())?);
        begin.record(stream)?;
        (0..PLANNED).try_for_each(|_| action.enqueue(stream))?;
        end.record(stream)?;
        wait::event(&end)?;
        let one = end.nanoseconds_since(&begin)? as f64 / f64::from(PLANNED);
        let launches = (PIECE / one.max(1.0)).clamp(1.0, MOST) as u32;
        Ok(Self { bench, first, action, operations, launches, meter: Cuda::meter(device), wrong })
    }
}

/// A device's stream with its queued pieces.
struct Queue {
    products: Rc<Products>,
    stream: Arc<Stream>,
    /// The ends of the queued pieces, in order.
    ends: VecDeque<Event>,
}

impl Queue {
    fn new(products: &Rc<Products>) -> Self {
        let stream = Arc::clone(products.bench.stream());
        Self { products: Rc::clone(products), stream, ends: VecDeque::with_capacity(AHEAD + 1) }
    }

    /// Queues pieces until there are enough.
    fn feed(&mut self) -> Result<(), Fault> {
        self.stream.context().bind()?;
        while self.ends.len() < AHEAD {
            (0..self.products.launches).try_for_each(|_| self.products.action.enqueue(&self.stream))?;
            let end = Event::new(self.stream.context())?;
            end.record(&self.stream)?;
            self.ends.push_back(end);
        }
        Ok(())
    }

    /// Takes the pieces that have ended off the queue; returns whether one still runs, and the end of the last that has ended.
    fn reap(&mut self) -> Result<(bool, Option<Event>), Fault> {
        let mut ended = None;
        while let Some(end) = self.ends.front() {
            if !end.is_done()? {
                return Ok((true, ended));
            }
            ended = self.ends.pop_front();
        }
        Ok((false, ended))
    }

    /// Waits for the end of the next piece.
    fn next(&mut self) -> Result<Event, Fault> {
        self.feed()?;
        let Some(end) = self.ends.pop_front() else {
            return Err(Fault::Invalid("no piece of work is queued".to_owned()));
        };
        wait::event(&end)?;
        Ok(end)
    }
}

/// The rate of one device's products, while those of others run.
pub(super) struct Marathon {
    timed: Queue,
    others: Vec<Queue>,
    /// The end of the last piece, where the device has had work since.
    last: Option<Event>,
    settled: bool,
    taken: u32,
    /// Samples after the first ones during which another device had no work.
    idle: u32,
    begun: Instant,
    energy: Energy,
    hertz: Option<f64>,
    length: u64,
}

impl Marathon {
    pub(super) fn new(timed: &Rc<Products>, others: impl Iterator<Item = Rc<Products>>) -> Self {
        Self {
            timed: Queue::new(timed),
            others: others.map(|other| Queue::new(&other)).collect(),
            last: None,
            settled: false,
            taken: 0,
            idle: 0,
            begun: Instant::now(),
            energy: Energy::default(),
            hertz: None,
            length: 0,
        }
    }

    /// One piece: its length, and whether all devices had work.
    fn piece(&mut self) -> Result<(u64, bool), Fault> {
        self.others.iter_mut().try_for_each(Queue::feed)?;
        // The host may have paused: for less than the queued work, so that pieces have ended since, or for longer, so that the device
        // was idle.
        self.last = match self.timed.reap()? {
            (false, _) => None,
            (true, ended) => ended.or(self.last.take()),
        };
        let last = match self.last.take() {
            Some(last) => last,
            None => self.timed.next()?,
        };
        let end = self.timed.next()?;
        self.timed.feed()?;
        let mut busy = true;
        for other in &mut self.others {
            busy &= other.reap()?.0;
        }
        let length = end.nanoseconds_since(&last)?;
        self.last = Some(end);
        Ok((length, busy))
    }

    fn read_meter(&mut self) {
        let joules = self.timed.products.meter.as_ref().and_then(|meter| meter.joules());
        if let Some(joules) = joules {
            self.energy.read(joules, self.begun.elapsed().as_secs_f64());
        }
    }
}

impl Workload for Marathon {
    fn work(&self) -> Work {
        Work { operations: self.timed.products.operations, ..Work::default() }
    }

    fn batch(&self) -> Batch {
        Batch { cycle: 1, max: 1 }
    }

    fn prepare(&mut self, _: u32) -> Result<(), Fault> {
        if !std::mem::replace(&mut self.settled, true) {
            let products = Rc::clone(&self.timed.products);
            products.bench.poison_again(products.first)?;
            for _ in 0..SETTLING {
                self.piece()?;
            }
        }
        Ok(())
    }

    fn sample(&mut self, _: u32, out: &mut [u64]) -> Result<(), Fault> {
        for sample in out {
            let (length, busy) = self.piece()?;
            *sample = (length / u64::from(self.timed.products.launches)).max(1);
            self.length = *sample;
            self.taken += 1;
            self.idle += u32::from(!busy && self.taken > WARM_UPS);
            self.read_meter();
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Fault> {
        for queue in self.others.iter().chain([&self.timed]) {
            wait::stream(&queue.stream)?;
        }
        let products = &self.timed.products;
        let hertz = products.bench.last_cycles()? as f64 / self.length.max(1) as f64 * 1e9;
        self.hertz = Some(hertz).filter(|hertz| (1e8..1e10).contains(hertz));
        if let Some(wrong) = &products.wrong {
            return Ok(Check::Failed(wrong.clone()));
        }
        match overlap(self.idle, self.taken) {
            Check::Passed => products.bench.compare_again(products.first),
            failed => Ok(failed),
        }
    }

    fn extra(&self, out: &mut BTreeMap<String, f64>) {
        let figures = [(POWER, self.energy.power()), (CLOCK, self.hertz)];
        out.extend(figures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    }
}
