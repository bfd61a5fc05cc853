//! sync on the CPU: the cost of synchronisation between threads on separate cores.
//!
//! One team of all cores serves every point; ranks beyond a point's threads are idle. Every primitive counts its operations,
//! and the count is checked, so that a barrier that lets a thread through early is detected. `mod.rs` explains the figures.

use std::sync::atomic::fence;
use std::sync::{Barrier, OnceLock};
use std::thread::Thread;

use plimsoll_cpu::threads::Rank;

use crate::prelude::cpu::*;
use crate::sync::{self, ByThreads};

/// Iterations of a spin loop between two checks whether the team is stopping.
const CHECK_INTERVAL: u32 = 1 << 14;

/// The synchronisation primitive.
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

    /// The primitive as axis value.
    fn to_axis(self) -> sync::Primitive {
        match self {
            SpinBarrier => sync::Primitive::SpinBarrier,
            StdBarrier => sync::Primitive::StdBarrier,
            ParkAndUnpark => sync::Primitive::ParkAndUnpark,
            LineHandOver => sync::Primitive::LineHandOver,
            MutexLock => sync::Primitive::Mutex,
            AtomicAdd => sync::Primitive::AtomicAdd,
        }
    }

    /// Rounds of one launch: some tens of microseconds for spinning primitives, a few sleeps for sleeping ones.
    fn rounds(self) -> u64 {
        match self {
            SpinBarrier | LineHandOver => 256,
            StdBarrier | ParkAndUnpark => 8,
            MutexLock | AtomicAdd => 1024,
        }
    }

    /// Those of `counts` that the primitive is measured with.
    fn threads(self, counts: &[usize]) -> Vec<usize> {
        match self {
            SpinBarrier | StdBarrier => counts.iter().copied().filter(|&n| n > 1).collect(),
            ParkAndUnpark | LineHandOver => counts.iter().copied().filter(|&n| n == 2).collect(),
            MutexLock | AtomicAdd => counts.to_vec(),
        }
    }
}

/// One primitive with a number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spot {
    primitive: Primitive,
    threads: usize,
}

impl Spot {
    fn coordinates(&self) -> ByThreads {
        ByThreads { primitive: self.primitive.to_axis(), threads: (self.threads as u64).into() }
    }
}

impl Run<Cpu> for super::CpuRunner {
    /// A single core still has the uncontended points; its findings say what is missing.
    fn points(&self, device: &CpuDevice, request: &Request) -> usize {
        plan(device.cpus.len(), request.effort).len()
    }

    fn run(&self, session: &mut Session<'_, Cpu>) -> Result<(), Fault> {
        let cores = session.device.cpus.len();
        let points = plan(cores, session.request.effort);
        let team = team(session, cores)?;
        let sweep = Sweep { series: sync::primitives(), points: &points, share: 1.0, flags: Flags::NONE };
        session.sweep(sweep, Spot::coordinates, |_, spot| Ok(load(&team, *spot))).map(drop)
    }

    fn verify(&self, device: &mut CpuDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let launches: &[u64] = match depth {
            Depth::Small => &[1, 2, 3],
            Depth::Usual => &[1, 2, 3, 33],
            Depth::Exhaustive => &[1, 2, 3, 5, 7, 31, 32, 33, 100],
        };
        let effort = if depth == Depth::Exhaustive { Effort::Standard } else { Effort::Quick };
        let team = Rc::new(RefCell::new(device.team(device.cpus.len())?));
        for spot in plan(device.cpus.len(), effort) {
            for &launches in launches {
                let mut load = load(&team, spot);
                team.borrow_mut().run_timed(launches, &load.task)?;
                let wrong = match (load.check)() {
                    Check::Passed => String::new(),
                    Check::Failed(what) => what,
                };
                let on = format!("{} threads, {launches} launches", spot.threads);
                report(Case { kernel: spot.primitive.to_axis().to_string(), on, wrong });
            }
        }
        Ok(())
    }
}

/// One thread, powers of two and all cores; more counts in between except with quick effort.
fn counts(cores: usize, effort: Effort) -> Vec<usize> {
    let wanted =
        |n: &usize| n.is_power_of_two() || *n == cores || (effort != Effort::Quick && (*n < 8 || n.is_multiple_of(4)));
    (1..=cores).filter(wanted).collect()
}

fn plan(cores: usize, effort: Effort) -> Vec<Spot> {
    let counts = counts(cores, effort);
    let points =
        |primitive: Primitive| primitive.threads(&counts).into_iter().map(move |threads| Spot { primitive, threads });
    Primitive::ALL.into_iter().flat_map(points).collect()
}

fn load(team: &Rc<RefCell<Team>>, spot: Spot) -> TeamLoad {
    let rounds = spot.primitive.rounds();
    let (task, check): (Task, Box<dyn FnMut() -> Check>) = match spot.primitive {
        SpinBarrier => barrier(spot.threads, rounds, SpinningBarrier::new(spot.threads)),
        StdBarrier => barrier(spot.threads, rounds, Barrier::new(spot.threads)),
        ParkAndUnpark => hand_over(rounds, Parked::default()),
        LineHandOver => hand_over(rounds, Spinning),
        MutexLock => count(spot.threads, rounds, Padded(Mutex::new(0))),
        AtomicAdd => count(spot.threads, rounds, Padded(AtomicU64::new(0))),
    };
    // A hand-over is one way, so a round trip is two operations. The others count one thread's operations.
    let ways = if matches!(spot.primitive, ParkAndUnpark | LineHandOver) { 2.0 } else { 1.0 };
    let work = Work { operations: ways * rounds as f64, in_kernel: true, ..Work::default() };
    // Waking a thread that isn't asleep yet is twenty times as fast. The limit keeps such a warm-up from making samples of seconds.
    let sleeps = matches!(spot.primitive, StdBarrier | ParkAndUnpark);
    let batch = if sleeps { Batch { cycle: 1, max: 32 } } else { Batch::default() };
    TeamLoad { team: team.clone(), task, work, lap: Lap::Team, batch, check }
}

/// A value on separate cache lines: some processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded<T>(T);

/// Spins until `done`. Returns false if the team stops first (a member panicked).
fn spin(rank: Rank<'_>, done: impl Fn() -> bool) -> bool {
    let mut iterations = 0_u32;
    // No pause instruction: it takes 140 cycles on some processors, longer than what is measured.
    while !done() {
        iterations = iterations.wrapping_add(1);
        if iterations.is_multiple_of(CHECK_INTERVAL) {
            if rank.is_stopping() {
                return done();
            }
            // Threads that share a CPU would otherwise wait until each other's time slice ends.
            std::thread::yield_now();
        }
    }
    true
}

/// A barrier.
trait Meet: Send + Sync + 'static {
    /// Waits for the other threads. Returns false if the team stops first.
    fn meet(&self, rank: Rank<'_>) -> bool;
}

/// A central barrier: the last thread to arrive advances the generation, which the others watch.
struct SpinningBarrier {
    threads: u64,
    arrived: Padded<AtomicU64>,
    generation: Padded<AtomicU64>,
}

impl SpinningBarrier {
    fn new(threads: usize) -> Self {
        Self { threads: threads as u64, arrived: Padded::default(), generation: Padded::default() }
    }
}

impl Meet for SpinningBarrier {
    fn meet(&self, rank: Rank<'_>) -> bool {
        // Read before arriving: nobody can advance it until this thread has arrived.
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

/// Threads meet repeatedly and count their arrivals. After a barrier, no thread may have arrived fewer times than it requires.
fn barrier(threads: usize, rounds: u64, barrier: impl Meet) -> (Task, Box<dyn FnMut() -> Check>) {
    let arrivals: Arc<Vec<Padded<AtomicU64>>> = Arc::new((0..threads).map(|_| Padded::default()).collect());
    let early = Arc::new(AtomicU64::new(0));
    let task = Task::new({
        let (arrivals, early) = (arrivals.clone(), early.clone());
        move |rank| {
            let Some(own) = arrivals.get(rank.index) else { return };
            // Neighbours are checked once per launch: a check at every barrier would be part of the timed work.
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

/// How a thread waits for its turn and wakes the other.
trait Wait: Send + Sync + 'static {
    /// Called by each of the two when a launch begins.
    fn begin(&self, _rank: Rank<'_>) {}
    /// Waits until `done`. Returns false if the team stops first.
    fn wait(&self, rank: Rank<'_>, done: impl Fn() -> bool) -> bool;
    /// Wakes the other thread, whose turn it is.
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
        // A team keeps the same threads for all launches.
        self.0[rank.index].get_or_init(std::thread::current);
        // With both fences, the other thread sees this handle, or this thread sees the turn handed to it, or both.
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

/// Two threads take turns incrementing one word: rank 0 increments even values, rank 1 odd ones.
fn hand_over(rounds: u64, wait: impl Wait) -> (Task, Box<dyn FnMut() -> Check>) {
    let (word, launches) = (Arc::new(Padded(AtomicU64::new(0))), Arc::new(AtomicU64::new(0)));
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
                let turn = word.0.load(Ordering::Relaxed);
                word.0.store(turn + 1, Ordering::Release);
                wait.wake(1 - rank.index);
            }
            launches.fetch_add(u64::from(rank.index == 0), Ordering::Relaxed);
        }
    });
    let check = Box::new(move || {
        let (turns, expected) = (word.0.load(Ordering::Relaxed), 2 * rounds * launches.load(Ordering::Relaxed));
        if turns == expected && turns > 0 {
            Check::Passed
        } else {
            Check::Failed(format!("the line changed hands {turns} times instead of {expected}"))
        }
    });
    (task, check)
}

/// A counter that several threads may increment.
trait Counter: Send + Sync + 'static {
    /// Adds one.
    fn increment(&self);
    /// Its value.
    fn value(&self) -> u64;
}

impl Counter for Padded<AtomicU64> {
    fn increment(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

impl Counter for Padded<Mutex<u64>> {
    fn increment(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn value(&self) -> u64 {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All threads increment one counter as fast as they can.
fn count(threads: usize, rounds: u64, counter: impl Counter) -> (Task, Box<dyn FnMut() -> Check>) {
    let (counter, launches) = (Arc::new(counter), Arc::new(AtomicU64::new(0)));
    let task = Task::new({
        let (counter, launches) = (counter.clone(), launches.clone());
        move |rank| {
            if rank.index >= threads {
                return;
            }
            (0..rounds).for_each(|_| counter.increment());
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
    fn one_core_measures_only_uncontended_primitives() {
        let alone: Vec<&str> = plan(1, Effort::Quick).iter().map(|spot| spot.primitive.to_axis().name()).collect();
        assert_eq!(alone, ["mutex", "atomic add"]);
        assert!(plan(2, Effort::Quick).iter().all(|spot| spot.threads <= 2));
        assert_eq!(counts(6, Effort::Quick), [1, 2, 4, 6]);
        assert_eq!(counts(16, Effort::Standard), [1, 2, 3, 4, 5, 6, 7, 8, 12, 16]);
    }

    #[test]
    fn every_verified_primitive_keeps_count() {
        assert!(crate::verified::verify_on_cpu(&crate::sync::SPEC) > 0);
    }

    #[test]
    fn check_fails_for_a_barrier_that_never_waits() {
        struct Open;
        impl Meet for Open {
            fn meet(&self, rank: Rank<'_>) -> bool {
                // Rank 0 passes at once, long before its neighbour has arrived as many times.
                rank.index == 0 || spin(rank, || rank.is_stopping())
            }
        }
        let (task, mut check) = barrier(2, 3, Open);
        let cpu = plimsoll_cpu::threads::affinity::allowed_cpus().first().copied().unwrap_or(0);
        Team::new(&[cpu, cpu], plimsoll_cpu::timer::Timer::Os).unwrap().run(&task).unwrap();
        assert!(matches!(check(), Check::Failed(what) if what.contains("before its neighbour")));
    }
}
