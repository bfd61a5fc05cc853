//! loaded-latency on the CPU: one core chases pointers through memory while the others read, copy or write at full speed or
//! with a pause after every block. `mod.rs` explains the figures.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;

use plimsoll_core::sample::Workload;
use plimsoll_cpu::arch::chase::SharedChase;
use plimsoll_cpu::arch::cycle;
use plimsoll_cpu::arch::stream::{Stores, StreamKernels};
use plimsoll_cpu::memory::{Buffer, Pages};
use plimsoll_cpu::threads::Rank;
use plimsoll_cpu::workload::chain::{Chain, Order};
use plimsoll_cpu::workload::kernels::{self, POISON};
use plimsoll_cpu::workload::verdict;
use plimsoll_cpu::workload::window::{self, Place, Window};
use plimsoll_suite::kernels::Op;

use crate::loaded_latency::{self, Background, Load};
use crate::prelude::cpu::*;

/// Bytes of a line of the chain.
const LINE: usize = 64;
/// Hops per launch: some tenths of a millisecond.
const HOPS: u64 = 2048;
/// Smallest and largest chain, bytes: beyond any cache but no larger, since building it takes a second per gibibyte.
const CHAIN: (u64, u64) = (256 << 20, 1 << 30);
/// The chain is built in steps of this many bytes; the user can stop it between steps.
const STEP: usize = 64 << 20;
/// Elements that a generator moves between two pauses: 8 KiB, short compared with the queues that it fills.
const BLOCK: usize = 1024;
/// Cycles of the pause between two blocks. A core at full speed takes about 2,000 for a block.
const DELAYS: [u64; 8] = [0, 256, 512, 1024, 2048, 4096, 8192, 16384];
/// The background loads: value on the axis, kernel and kind of stores.
const BACKGROUNDS: [(Background, Op, Stores); 3] = [
    (Background::Read, Op::Read, Stores::Ordinary),
    (Background::Copy, Op::Copy, Stores::Ordinary),
    (Background::NonTemporalWrite, Op::Init, Stores::NonTemporal),
];

/// A point: the background load, its pause and the number of generators.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spot {
    background: Background,
    kernel: Op,
    stores: Stores,
    delay: u64,
    generators: usize,
}

impl Run<Cpu> for super::CpuRunner {
    fn check_device(&self, device: &CpuDevice) -> Result<(), Fault> {
        if device.cpus.len() > 1 {
            return Ok(());
        }
        Err(Fault::Unavailable {
            what: "a second core",
            why: "this process may use one core only, and the load must come from another".to_owned(),
            hint: "Allow it more cores (taskset, or the container's CPU limit)".to_owned(),
        })
    }

    fn points(&self, device: &CpuDevice, request: &Request) -> usize {
        spots(device.cpus.len(), request.effort).len()
    }

    fn run(&self, session: &mut Session<'_, Cpu>) -> Result<(), Fault> {
        let cores = session.device.cpus.len();
        let last_level = session.device.last_level_bytes();
        let wanted = last_level.saturating_mul(4).clamp(CHAIN.0, CHAIN.1);
        let size = window::size(session.request.bytes, wanted, 2)?;
        // Larger than the last-level cache, so that the generators miss it too; the chaser's part stays unused.
        let each = (last_level + last_level / 4).max(CHAIN.0) / (cores as u64 - 1);
        let background = window::size(None, each * cores as u64, 4)?;
        let team = team(session, cores)?;
        let (buffer, chase) = build_chain(size.bytes, session.request.seed, &|| session.is_stopped())?;
        let data = (session.request.seed, kernels::finite as fn(u64) -> f64);
        let window = Window::new(&team, 2, background.bytes, data, &|| session.is_stopped())?;
        let bench = Bench {
            team,
            buffer,
            chase: Arc::new(chase),
            chaser: Arc::default(),
            window,
            generators: (0..cores).map(|_| Generator::default()).collect(),
        };
        let spots = spots(cores, session.request.effort);
        let flags = (size.shrunk || background.shrunk).then_some(Flag::Shrunk).into_iter().collect();
        let sweep = Sweep { series: loaded_latency::load(), points: &spots, share: 1.0, flags };
        let coordinates = |&Spot { background, delay, generators, .. }: &Spot| {
            let threads = (generators as u64).into();
            Load { background, delay: delay.into(), threads }
        };
        session.sweep(sweep, coordinates, |_, spot| bench.load(*spot))?;
        Ok(())
    }

    fn verify(&self, _: &mut CpuDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let kernels = BACKGROUNDS.map(|(_, kernel, _)| kernel);
        kernels::verify(&kernels, depth, report)?;
        for lines in [1, 2, 3, 5, 31, 33, 1025] {
            let (buffer, chase) = build_chain((lines * LINE) as u64, 1, &|| false)?;
            for hops in [0, 1, 15, 16, 17, lines as u64, 2 * lines as u64 + 1] {
                let (end, expected) = (chase.chase(0, hops), follow_links(&buffer, 0, hops));
                let wrong =
                    if end == expected { String::new() } else { format!("ends at {end} instead of {expected}") };
                report(Case { kernel: "chase".to_owned(), on: format!("{lines} lines, {hops} hops"), wrong });
            }
        }
        Ok(())
    }
}

/// Every background: without generators, where its curve begins; with all other cores and every pause; and, except with quick
/// effort, with fewer cores.
fn spots(cores: usize, effort: Effort) -> Vec<Spot> {
    let others = cores.saturating_sub(1);
    let spot = |(background, kernel, stores), delay, generators| Spot { background, kernel, stores, delay, generators };
    let mut spots = Vec::new();
    // Where pauses can't be counted in cycles, only full speed is measured.
    let delays = if cycle::is_available() { &DELAYS[..] } else { &DELAYS[..1] };
    for background in BACKGROUNDS {
        spots.push(spot(background, 0, 0));
        spots.extend(delays.iter().map(|&delay| spot(background, delay, others)));
        if effort != Effort::Quick {
            let fewer = std::iter::successors(Some(1), |n| Some(2 * n)).take_while(|&n| n < others);
            spots.extend(fewer.map(|generators| spot(background, 0, generators)));
        }
    }
    spots
}

/// Builds and checks a random cycle over the lines of a buffer of about `bytes` bytes.
fn build_chain(bytes: u64, seed: u64, stopped: &dyn Fn() -> bool) -> Result<(Arc<Buffer<u64>>, SharedChase), Fault> {
    let overflow = |_| Fault::Invalid(format!("{bytes} bytes overflow an address"));
    let bytes = usize::try_from(bytes).map_err(overflow)?.max(LINE) / LINE * LINE;
    let mut buffer = Buffer::<u64>::new(bytes / size_of::<u64>(), Pages::Huge)?;
    let mut chain = Chain::new(Order::PageRandom, LINE, seed);
    let mut grown = 0;
    while grown < bytes {
        if stopped() {
            return Err(Fault::Stopped);
        }
        grown = chain.grow(&mut buffer, (grown + STEP).min(bytes));
    }
    let buffer = Arc::new(buffer);
    let chase = SharedChase::new(Arc::clone(&buffer), bytes / size_of::<u64>(), LINE);
    Ok((buffer, chase.map_err(|broken| Fault::Invalid(broken.to_string()))?))
}

/// Follows `hops` links from byte `at` and returns where they end.
fn follow_links(buffer: &[u64], mut at: usize, hops: u64) -> usize {
    for _ in 0..hops {
        at = buffer[at / size_of::<u64>()] as usize;
    }
    at
}

/// A generator's state between launches.
#[derive(Debug, Default)]
struct Generator {
    /// Number of blocks so far.
    place: Place,
    /// Number of blocks in the last launch.
    moved: AtomicU64,
    /// The latest sum, as f64 bits.
    sum: AtomicU64,
}

/// Where the chaser is and where its last launch began, byte offsets. Each point continues where the last one ended, because
/// the lines just visited are in a cache.
#[derive(Debug, Default)]
struct Chaser {
    at: AtomicUsize,
    from: AtomicUsize,
}

/// Shared by all points.
struct Bench {
    team: Rc<RefCell<Team>>,
    buffer: Arc<Buffer<u64>>,
    chase: Arc<SharedChase>,
    chaser: Arc<Chaser>,
    window: Arc<Window<f64>>,
    generators: Arc<[Generator]>,
}

impl Bench {
    fn load(&self, spot: Spot) -> Result<Loaded, Fault> {
        self.poison()?;
        let (window, generators, chase) =
            (Arc::clone(&self.window), Arc::clone(&self.generators), Arc::clone(&self.chase));
        let chaser = Arc::clone(&self.chaser);
        let task = Task::new(move |rank| match rank.index {
            0 => {
                let from = chaser.at.load(Ordering::Relaxed);
                chaser.from.store(from, Ordering::Relaxed);
                chaser.at.store(chase.chase(from, HOPS), Ordering::Relaxed);
            }
            index if index <= spot.generators => generate(&window, &generators[index], spot, rank),
            _ => {}
        });
        let traffic = kernels::traffic(spot.kernel, BLOCK as u64).total() as f64;
        Ok(Loaded {
            team: Rc::clone(&self.team),
            task,
            chaser: Arc::clone(&self.chaser),
            buffer: Arc::clone(&self.buffer),
            generators: Arc::clone(&self.generators),
            moved: vec![(0, 0); spot.generators + 1],
            block_bytes: traffic,
            check: self.checker(spot),
        })
    }

    /// Poisons what the generators wrote since the last call and rewinds them. (Before the first launch the target holds data
    /// that no kernel writes.)
    fn poison(&self) -> Result<(), Fault> {
        let (window, generators) = (Arc::clone(&self.window), Arc::clone(&self.generators));
        self.team.borrow_mut().run(&Task::new(move |rank| {
            let generator = &generators[rank.index];
            let mut target = window.part(TARGET, rank.index);
            let written = (generator.place.steps() * BLOCK).min(target.len());
            StreamKernels::best().init(&mut target[..written], POISON, Stores::NonTemporal);
            generator.place.rewind();
            generator.sum.store(POISON.to_bits(), Ordering::Relaxed);
        }))
    }

    /// Compares every block written, and the latest sum, with the oracle.
    fn checker(&self, spot: Spot) -> Box<dyn FnMut() -> Check> {
        let (team, window, generators) =
            (Rc::clone(&self.team), Arc::clone(&self.window), Arc::clone(&self.generators));
        let found = Arc::new(Mutex::new(None));
        let note = Arc::clone(&found);
        let task = Task::new(move |rank| {
            let generator = &generators[rank.index];
            let done = generator.place.steps();
            if !(1..=spot.generators).contains(&rank.index) || done == 0 {
                return;
            }
            let blocks = window.part(TARGET, rank.index).len() / BLOCK;
            let sum = f64::from_bits(generator.sum.load(Ordering::Relaxed));
            // Only the last block's sum is kept.
            let first = if kernels::writes(spot.kernel) { done.saturating_sub(blocks) } else { done - 1 };
            for block in first..done {
                let wrong = |a: &mut [f64], b: &[f64]| kernels::wrong(spot.kernel, a, [b; 3], sum);
                if let Some(wrong) = on_block(&window, rank.index, block % blocks, wrong) {
                    let what = format!("{} in block {block} of thread {}: {wrong}", spot.background, rank.index);
                    note.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
                    return;
                }
            }
        });
        Box::new(move || verdict(&team, &task, &found))
    }
}

/// The index of the array that generators write; they read the other.
const TARGET: usize = 0;

/// Calls `run` with one block that a member writes and one that it reads.
fn on_block<R>(window: &Window<f64>, rank: usize, block: usize, run: impl FnOnce(&mut [f64], &[f64]) -> R) -> R {
    let (mut target, source) = (window.part(TARGET, rank), window.part(1 - TARGET, rank));
    let range = block * BLOCK..(block + 1) * BLOCK;
    run(&mut target[range.clone()], &source[range])
}

/// Moves blocks until the chaser is done.
fn generate(window: &Window<f64>, generator: &Generator, spot: Spot, rank: Rank<'_>) {
    let kernels = StreamKernels::best();
    let blocks = window.part(TARGET, rank.index).len() / BLOCK;
    let mut moved = 0;
    while !rank.is_stopping() {
        let block = generator.place.next() % blocks;
        let sum =
            on_block(window, rank.index, block, |a, b| kernels::run(spot.kernel, kernels, spot.stores, a, [b; 3]));
        generator.sum.store(sum.to_bits(), Ordering::Relaxed);
        moved += 1;
        std::hint::black_box(cycle::chain(spot.delay / cycle::ADDS_PER_ITERATION));
    }
    generator.moved.fetch_add(moved, Ordering::Relaxed);
}

/// A chase with its generators. Samples are the chaser's own time.
struct Loaded {
    team: Rc<RefCell<Team>>,
    task: Task,
    chaser: Arc<Chaser>,
    buffer: Arc<Buffer<u64>>,
    generators: Arc<[Generator]>,
    /// Blocks and ticks of each member so far; the chaser's stay zero.
    moved: Vec<(u64, u64)>,
    block_bytes: f64,
    check: Box<dyn FnMut() -> Check>,
}

impl Workload for Loaded {
    fn work(&self) -> Work {
        Work { operations: HOPS as f64, in_kernel: true, ..Work::default() }
    }

    fn batch(&self) -> Batch {
        Batch::default()
    }

    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        let mut team = self.team.borrow_mut();
        for sample in out {
            team.run_timed(u64::from(k), &self.task)?;
            *sample = team.lap_of(0);
            for (rank, (blocks, ticks)) in self.moved.iter_mut().enumerate().skip(1) {
                *blocks += self.generators[rank].moved.swap(0, Ordering::Relaxed);
                *ticks += team.lap_of(rank);
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Fault> {
        let end = self.chaser.at.load(Ordering::Relaxed);
        let expected = follow_links(&self.buffer, self.chaser.from.load(Ordering::Relaxed), HOPS);
        if end != expected {
            return Ok(Check::Failed(format!("the chase ended at byte {end} instead of {expected}")));
        }
        Ok((self.check)())
    }

    /// Each generator's bytes over its own time, so that bytes moved after the chaser's last hop are counted with their time.
    fn extra(&self, out: &mut BTreeMap<String, f64>) {
        let timer = self.team.borrow().timer();
        let rates = self.moved.iter().filter(|(_, ticks)| *ticks > 0);
        let bandwidth = rates.map(|&(blocks, ticks)| blocks as f64 * self.block_bytes / timer.seconds(ticks)).sum();
        out.insert(loaded_latency::BACKGROUND_BANDWIDTH.to_owned(), bandwidth);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_cpu::timer::Timer;

    fn bench() -> Bench {
        let team = Rc::new(RefCell::new(Team::new(&[0, 0], Timer::Os).unwrap()));
        let (buffer, chase) = build_chain(1 << 20, 1, &|| false).unwrap();
        let window = Window::new(&team, 2, 1 << 20, (7, kernels::finite as fn(u64) -> f64), &|| false).unwrap();
        let generators = (0..2).map(|_| Generator::default()).collect();
        Bench { team, buffer, chase: Arc::new(chase), chaser: Arc::default(), window, generators }
    }

    #[test]
    fn every_background_moves_data_during_the_chase() {
        let bench = bench();
        for (background, kernel, stores) in BACKGROUNDS {
            let mut load = bench.load(Spot { background, kernel, stores, delay: 64, generators: 1 }).unwrap();
            // Both members share a CPU: the chase must be long enough for the scheduler to run the other.
            load.sample(1000, &mut [0; 3]).unwrap();
            assert_eq!(load.check().unwrap(), Check::Passed, "{background}");
            let mut extra = BTreeMap::new();
            load.extra(&mut extra);
            assert!(extra[loaded_latency::BACKGROUND_BANDWIDTH] > 0.0, "{background}");
        }
    }

    #[test]
    fn background_is_zero_without_generators_and_a_misplaced_chaser_is_detected() {
        let bench = bench();
        let idle = spots(2, Effort::Quick)[0];
        let mut load = bench.load(idle).unwrap();
        load.sample(1, &mut [0; 2]).unwrap();
        assert_eq!(load.check().unwrap(), Check::Passed);
        let mut extra = BTreeMap::new();
        load.extra(&mut extra);
        assert_eq!(extra[loaded_latency::BACKGROUND_BANDWIDTH], 0.0);
        load.chaser.at.store(LINE, Ordering::Relaxed);
        assert!(matches!(load.check().unwrap(), Check::Failed(_)));
    }
}
