//! sync on the CPU: what threads on cores of their own pay to wait for each other.
//!
//! One team of all cores serves every point; ranks beyond a point's threads have nothing to do. Every primitive counts
//! what it did, and the count is checked: a barrier that lets someone through early is worth nothing. What the
//! figures mean is told in `mod.rs`.

use std::sync::atomic::fence;
use std::sync::{Barrier, OnceLock};
use std::thread::Thread;

use plimsoll_cpu::threads::Rank;

use crate::prelude::cpu::*;
use crate::sync::{self, ByThreads, SPEC};

/// The probe.
#[derive(Debug)]
pub struct Runner;

/// Turns of a spin loop between two looks at whether the team gives up.
const LOOK: u32 = 1 << 14;

/// What is synchronised with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Primitive {
    SpinBarrier,
    StdBarrier,
    ParkAndUnpark,
    LineHandOver,
    Mutex,
    AtomicAdd,
}

use Primitive::{AtomicAdd, LineHandOver, Mutex as MutexLock, ParkAndUnpark, SpinBarrier, StdBarrier};

impl Primitive {
    const ALL: [Self; 6] = [SpinBarrier, StdBarrier, ParkAndUnpark, LineHandOver, MutexLock, AtomicAdd];

    /// As the axis names it.
    fn named(self) -> sync::Primitive {
        match self {
            SpinBarrier => sync::Primitive::SpinBarrier,
            StdBarrier => sync::Primitive::StdBarrier,
            ParkAndUnpark => sync::Primitive::ParkAndUnpark,
            LineHandOver => sync::Primitive::LineHandOver,
            MutexLock => sync::Primitive::Mutex,
            AtomicAdd => sync::Primitive::AtomicAdd,
        }
    }

    /// Rounds of one launch: some tens of microseconds where nobody sleeps, a few sleeps where somebody does.
    fn rounds(self) -> u64 {
        match self {
            SpinBarrier | LineHandOver => 256,
            StdBarrier | ParkAndUnpark => 8,
            MutexLock | AtomicAdd => 1024,
        }
    }

    /// The numbers of threads that it is measured with, of those that barriers are.
    fn threads(self, counts: &[usize]) -> Vec<usize> {
        match self {
            SpinBarrier | StdBarrier => counts.iter().copied().filter(|&n| n > 1).collect(),
            ParkAndUnpark | LineHandOver => counts.iter().copied().filter(|&n| n == 2).collect(),
            MutexLock | AtomicAdd => counts.to_vec(),
        }
    }
}

/// One primitive with so many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At {
    primitive: Primitive,
    threads: usize,
}

impl At {
    fn coordinates(&self) -> ByThreads {
        ByThreads { primitive: self.primitive.named(), threads: (self.threads as u64).into() }
    }
}

impl Probe<Cpu> for Runner {
    fn spec(&self) -> &'static ProbeSpec {
        &SPEC
    }

    /// One core has uncontended figures to offer, and its findings say what is missing.
    fn points(&self, device: &CpuDevice, request: &Request) -> usize {
        plan(device.cpus.len(), request.effort).len()
    }

    fn run(&self, session: &mut Session<'_, Cpu>) -> Result<(), Fault> {
        let cores = session.device.cpus.len();
        let points = plan(cores, session.request.effort);
        let team = team(session, cores)?;
        let sweep = Sweep { series: sync::primitives(), points: &points, share: 1.0, flags: Flags::NONE };
        session.sweep(sweep, At::coordinates, |_, at| Ok(load(&team, *at))).map(drop)
    }

    fn verify(&self, device: &mut CpuDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let launches: &[u64] = match depth {
            Depth::Small => &[1, 2, 3],
            Depth::Usual => &[1, 2, 3, 33],
            Depth::Exhaustive => &[1, 2, 3, 5, 7, 31, 32, 33, 100],
        };
        let effort = if depth == Depth::Exhaustive { Effort::Standard } else { Effort::Quick };
        let team = Rc::new(RefCell::new(device.team(device.cpus.len())?));
        for at in plan(device.cpus.len(), effort) {
            for &launches in launches {
                let mut load = load(&team, at);
                team.borrow_mut().run_timed(launches, &load.task)?;
                let wrong = match (load.check)() {
                    Check::Passed => String::new(),
                    Check::Failed(what) => what,
                };
                let on = format!("{} threads, {launches} launches", at.threads);
                report(Case { kernel: at.primitive.named().to_string(), on, wrong });
            }
        }
        Ok(())
    }
}

/// One thread, then powers of two and all cores; more counts between where there is time.
fn counts(cores: usize, effort: Effort) -> Vec<usize> {
    let wanted =
        |n: &usize| n.is_power_of_two() || *n == cores || (effort != Effort::Quick && (*n < 8 || n.is_multiple_of(4)));
    (1..=cores).filter(wanted).collect()
}

fn plan(cores: usize, effort: Effort) -> Vec<At> {
    let counts = counts(cores, effort);
    let points =
        |primitive: Primitive| primitive.threads(&counts).into_iter().map(move |threads| At { primitive, threads });
    Primitive::ALL.into_iter().flat_map(points).collect()
}

fn load(team: &Rc<RefCell<Team>>, at: At) -> TeamLoad {
    let rounds = at.primitive.rounds();
    let (task, check): (Task, Box<dyn FnMut() -> Check>) = match at.primitive {
        SpinBarrier => barrier(at.threads, rounds, SpinningBarrier::new(at.threads)),
        StdBarrier => barrier(at.threads, rounds, Barrier::new(at.threads)),
        ParkAndUnpark => hand_over(rounds, Parked::default()),
        LineHandOver => hand_over(rounds, Spinning),
        MutexLock => count(at.threads, rounds, Apart(Mutex::new(0))),
        AtomicAdd => count(at.threads, rounds, Apart(AtomicU64::new(0))),
    };
    // A hand-over is one way: there and back are two. Everything else is what one thread waits for one operation.
    let ways = if matches!(at.primitive, ParkAndUnpark | LineHandOver) { 2.0 } else { 1.0 };
    let work = Work { operations: ways * rounds as f64, in_kernel: true, ..Work::default() };
    // A sleeper that is woken before it sleeps is twenty times as fast: one such warm-up must not make samples of seconds.
    let sleeps = matches!(at.primitive, StdBarrier | ParkAndUnpark);
    let batch = if sleeps { Batch { cycle: 1, max: 32 } } else { Batch::default() };
    TeamLoad { team: team.clone(), task, work, lap: Lap::Team, batch, check }
}

/// A value on cache lines of its own: some processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// Spins until `done`. False where the team gives up first (a member panicked).
fn spin(rank: Rank<'_>, done: impl Fn() -> bool) -> bool {
    let mut iterations = 0_u32;
    // No pause instruction: it takes 140 cycles on some processors, longer than what is measured.
    while !done() {
        iterations = iterations.wrapping_add(1);
        if iterations.is_multiple_of(LOOK) {
            if rank.is_stopping() {
                return done();
            }
            // Threads that have to share a CPU would wait for each other until their time slices end.
            std::thread::yield_now();
        }
    }
    true
}

/// Something that all threads pass together.
trait Meet: Send + Sync + 'static {
    /// Waits for the others. False where the team gives up.
    fn meet(&self, rank: Rank<'_>) -> bool;
}

/// A central barrier: the last to arrive turns the generation, which the others watch.
struct SpinningBarrier {
    threads: u64,
    arrived: Apart<AtomicU64>,
    generation: Apart<AtomicU64>,
}

impl SpinningBarrier {
    fn new(threads: usize) -> Self {
        Self { threads: threads as u64, arrived: Apart::default(), generation: Apart::default() }
    }
}

impl Meet for SpinningBarrier {
    fn meet(&self, rank: Rank<'_>) -> bool {
        // Read before arriving: nobody can turn it until this thread has arrived.
        let generation = self.generation.0.load(Ordering::Acquire);
        if self.arrived.0.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.0.store(0, Ordering::Relaxed);
            self.generation.0.store(generation + 1, Ordering::Release);
            return true;
        }
        spin(rank, || self.generation.0.load(Ordering::Acquire) != generation)
    }
}

impl Meet for Barrier {
    fn meet(&self, _: Rank<'_>) -> bool {
        self.wait();
        true
    }
}

/// Threads meet over and over. Each counts its arrivals; nobody may have arrived less often than the last meeting asks.
fn barrier(threads: usize, rounds: u64, barrier: impl Meet) -> (Task, Box<dyn FnMut() -> Check>) {
    let arrivals: Arc<Vec<Apart<AtomicU64>>> = Arc::new((0..threads).map(|_| Apart::default()).collect());
    let early = Arc::new(AtomicU64::new(0));
    let task = Task::new({
        let (arrivals, early) = (arrivals.clone(), early.clone());
        move |rank| {
            let Some(own) = arrivals.get(rank.index) else { return };
            // Neighbours are looked at once a launch: at every meeting that would be part of what is timed.
            let next = &arrivals[(rank.index + 1) % arrivals.len()].0;
            let arrived = own.0.load(Ordering::Relaxed);
            for round in 1..=rounds {
                own.0.store(arrived + round, Ordering::Relaxed);
                if !barrier.meet(rank) {
                    return;
                }
            }
            let late = next.load(Ordering::Relaxed) < arrived + rounds;
            early.fetch_add(u64::from(late), Ordering::Relaxed);
        }
    });
    let check = Box::new(move || {
        let arrivals: Vec<u64> = arrivals.iter().map(|count| count.0.load(Ordering::Relaxed)).collect();
        match early.load(Ordering::Relaxed) {
            0 if arrivals[0] > 0 && arrivals.iter().all(|&count| count == arrivals[0]) => Check::Passed,
            0 => Check::Failed(format!("threads met {arrivals:?} times")),
            early => Check::Failed(format!("a thread passed {early} times before its neighbour had arrived")),
        }
    });
    (task, check)
}

/// How a thread waits for its turn, and wakes the other.
trait Wait: Send + Sync + 'static {
    /// Called by each of the two when a launch begins.
    fn begin(&self, _rank: Rank<'_>) {}
    /// Waits until `done`. False where the team gives up.
    fn wait(&self, rank: Rank<'_>, done: impl Fn() -> bool) -> bool;
    /// The other's iteration has come.
    fn wake(&self, _other: usize) {}
}

/// Watches the cache line.
struct Spinning;

impl Wait for Spinning {
    #[inline]
    fn wait(&self, rank: Rank<'_>, done: impl Fn() -> bool) -> bool {
        spin(rank, done)
    }
}

/// Sleeps in the operating system.
#[derive(Default)]
struct Parked([OnceLock<Thread>; 2]);

impl Wait for Parked {
    fn begin(&self, rank: Rank<'_>) {
        // The same threads make up the team for all launches.
        self.0[rank.index].get_or_init(std::thread::current);
        // Either the other sees this handle, or this thread sees the iteration that it was handed: never neither.
        fence(Ordering::SeqCst);
    }

    fn wait(&self, rank: Rank<'_>, done: impl Fn() -> bool) -> bool {
        while !done() {
            if rank.is_stopping() {
                return done();
            }
            std::thread::park();
        }
        true
    }

    fn wake(&self, other: usize) {
        fence(Ordering::SeqCst);
        // Before its first launch the other can't be asleep.
        if let Some(thread) = self.0[other].get() {
            thread.unpark();
        }
    }
}

/// Two threads take turns on one word: even numbers are rank 0's to raise, odd ones rank 1's.
fn hand_over(rounds: u64, wait: impl Wait) -> (Task, Box<dyn FnMut() -> Check>) {
    let (word, launches) = (Arc::new(Apart(AtomicU64::new(0))), Arc::new(AtomicU64::new(0)));
    let task = Task::new({
        let (word, launches) = (word.clone(), launches.clone());
        move |rank| {
            if rank.index > 1 {
                return;
            }
            wait.begin(rank);
            for _ in 0..rounds {
                let mine = || word.0.load(Ordering::Acquire) % 2 == rank.index as u64;
                if !wait.wait(rank, mine) {
                    return;
                }
                let iteration = word.0.load(Ordering::Relaxed);
                word.0.store(iteration + 1, Ordering::Release);
                wait.wake(1 - rank.index);
            }
            launches.fetch_add(u64::from(rank.index == 0), Ordering::Relaxed);
        }
    });
    let check = Box::new(move || {
        let (iterations, expected) = (word.0.load(Ordering::Relaxed), 2 * rounds * launches.load(Ordering::Relaxed));
        if iterations == expected && iterations > 0 {
            Check::Passed
        } else {
            Check::Failed(format!("the line changed hands {iterations} times instead of {expected}"))
        }
    });
    (task, check)
}

/// A counter that several threads may raise.
trait Counter: Send + Sync + 'static {
    /// Raises it by one.
    fn raise(&self);
    /// Its value.
    fn value(&self) -> u64;
}

impl Counter for Apart<AtomicU64> {
    fn raise(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

impl Counter for Apart<Mutex<u64>> {
    fn raise(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn value(&self) -> u64 {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All threads raise one counter, as fast as they can.
fn count(threads: usize, rounds: u64, counter: impl Counter) -> (Task, Box<dyn FnMut() -> Check>) {
    let (counter, launches) = (Arc::new(counter), Arc::new(AtomicU64::new(0)));
    let task = Task::new({
        let (counter, launches) = (counter.clone(), launches.clone());
        move |rank| {
            if rank.index >= threads {
                return;
            }
            (0..rounds).for_each(|_| counter.raise());
            launches.fetch_add(1, Ordering::Relaxed);
        }
    });
    let check = Box::new(move || {
        let (value, expected) = (counter.value(), rounds * launches.load(Ordering::Relaxed));
        if value == expected && value > 0 {
            Check::Passed
        } else {
            Check::Failed(format!("the counter is at {value} instead of {expected}"))
        }
    });
    (task, check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_core_measures_what_needs_no_second() {
        let alone: Vec<&str> = plan(1, Effort::Quick).iter().map(|at| at.primitive.named().name()).collect();
        assert_eq!(alone, ["mutex", "atomic add"]);
        assert!(plan(2, Effort::Quick).iter().all(|at| at.threads <= 2));
        assert_eq!(counts(6, Effort::Quick), [1, 2, 4, 6]);
        assert_eq!(counts(16, Effort::Standard), [1, 2, 3, 4, 5, 6, 7, 8, 12, 16]);
    }

    #[test]
    fn every_primitive_that_verify_tries_keeps_count() {
        assert!(crate::verified::verify_on_cpu(&SPEC) > 0);
    }

    #[test]
    fn a_barrier_that_lets_everybody_pass_fails_its_check() {
        struct Open;
        impl Meet for Open {
            fn meet(&self, rank: Rank<'_>) -> bool {
                // Rank 0 passes at once, long before its neighbour has arrived as often.
                rank.index == 0 || spin(rank, || rank.is_stopping())
            }
        }
        let (task, mut check) = barrier(2, 3, Open);
        let cpu = plimsoll_cpu::threads::affinity::allowed_cpus().first().copied().unwrap_or(0);
        Team::new(&[cpu, cpu], plimsoll_cpu::timer::Timer::Os).unwrap().run(&task).unwrap();
        assert!(matches!(check(), Check::Failed(what) if what.contains("before its neighbour")));
    }
}
