//! stream on the CPU: the ten kernels over arrays far larger than the last-level cache, one thread per core, each on
//! memory that it touched first. `mod.rs` explains the figures.

use std::cell::Cell;

use plimsoll_core::series::{Axes as _, Series, Threads};
use plimsoll_cpu::arch::best;
use plimsoll_cpu::arch::stream::{Stores, StreamKernels};
use plimsoll_cpu::workload::kernels::{self, POISON, store_kinds};
use plimsoll_cpu::workload::verdict;
use plimsoll_cpu::workload::window::{self, Chunk, Window};
use plimsoll_suite::kernels::Op;

use crate::prelude::cpu::*;
use crate::stream::{self, BestOnCores, OnAllCores, OnSomeCores};

/// The target and the source. Up to three operands read the source a third of it apart, so each of them touches all of it
/// and always misses the caches; separate arrays would only take longer to prepare.
const ARRAYS: usize = 2;
/// The target's index among the arrays.
const TARGET: usize = 0;
/// The source's index.
const SOURCE: usize = 1;
/// Up to this many cores, the series over threads has every core count, except with quick effort.
const EVERY_COUNT: usize = 16;

/// A kernel with its stores and number of threads.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Variant {
    kernel: Op,
    stores: Stores,
    threads: usize,
}

impl Variant {
    fn all_cores_coordinates(&self) -> OnAllCores {
        OnAllCores { kernel: self.kernel.name().into(), stores: stores_axis(self.stores) }
    }

    fn some_cores_coordinates(&self) -> OnSomeCores {
        OnSomeCores { kernel: self.kernel.name().into(), threads: Threads(self.threads as u64) }
    }

    fn best_coordinates(&self) -> BestOnCores {
        let OnAllCores { kernel, stores } = self.all_cores_coordinates();
        BestOnCores { kernel, stores, threads: Threads(self.threads as u64) }
    }
}

/// Stores as axis value.
fn stores_axis(stores: Stores) -> stream::Stores {
    match stores {
        Stores::Ordinary => stream::Stores::Ordinary,
        Stores::NonTemporal => stream::Stores::NonTemporal,
    }
}

impl Run<Cpu> for super::CpuRunner {
    fn points(&self, device: &CpuDevice, request: &Request) -> usize {
        let cores = device.cpus.len();
        every_kernel(cores).len() + over_threads(cores, request.effort).len() + Op::ALL.len()
    }

    fn run(&self, session: &mut Session<'_, Cpu>) -> Result<(), Fault> {
        let size = window::size(session.request.bytes, session.info().cold_window(), ARRAYS as u64)?;
        let flags: Flags = size.shrunk.then_some(Flag::Shrunk).into_iter().collect();
        let team = team(session, session.device.cpus.len())?;
        let data = (session.request.seed, kernels::finite as fn(u64) -> f64);
        let window = Window::new(&team, ARRAYS, size.bytes, data, &|| session.is_stopped())?;
        let bench = Bench::new(team, window)?;
        let cores = session.device.cpus.len();

        let variants = every_kernel(cores);
        let sweep = Sweep { series: stream::kernels(), points: &variants, share: 0.5, flags };
        let kernels = session.sweep(sweep, Variant::all_cores_coordinates, |_, v| bench.load(*v))?.clone();

        let variants = over_threads(cores, session.request.effort);
        let sweep = Sweep { series: stream::threads(), points: &variants, share: 0.2, flags };
        let threads = session.sweep(sweep, Variant::some_cores_coordinates, |_, v| bench.load(*v))?.clone();

        let chosen: Vec<Variant> =
            Op::ALL.into_iter().filter_map(|kernel| choose(kernel, cores, &kernels, &threads)).collect();
        let sweep = Sweep { series: stream::best(), points: &chosen, share: 0.3, flags };
        session.sweep(sweep, Variant::best_coordinates, |_, v| bench.load(*v))?;
        Ok(())
    }

    fn verify(&self, _: &mut CpuDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        kernels::verify(&Op::ALL, depth, report)
    }
}

/// Every kernel with every kind of store in the instruction set.
fn every_kernel(cores: usize) -> Vec<Variant> {
    let variant =
        |kernel| store_kinds(kernel, best()).iter().map(move |&stores| Variant { kernel, stores, threads: cores });
    Op::ALL.into_iter().flat_map(variant).collect()
}

/// Some kernels over the number of cores, with ordinary stores, which most programs use.
fn over_threads(cores: usize, effort: Effort) -> Vec<Variant> {
    let kernels = stream::BY_THREADS.into_iter().filter_map(Op::from_name);
    let counts = thread_counts(cores, effort);
    let variant = |kernel| counts.iter().map(move |&threads| Variant { kernel, stores: Stores::Ordinary, threads });
    kernels.flat_map(variant).collect()
}

/// Powers of two and all cores; every core count on a small machine, except with quick effort.
fn thread_counts(cores: usize, effort: Effort) -> Vec<usize> {
    if effort != Effort::Quick && cores <= EVERY_COUNT {
        return (1..=cores).collect();
    }
    let powers = std::iter::successors(Some(1), |n| Some(2 * n)).take_while(|&n| n < cores);
    powers.chain([cores]).collect()
}

/// The configuration of `kernel` with the highest bandwidth. Its figure isn't used: the configuration is measured again.
fn choose(kernel: Op, cores: usize, kernels: &Series, threads: &Series) -> Option<Variant> {
    let on_all = store_kinds(kernel, best()).iter().filter_map(|&stores| {
        let variant = Variant { kernel, stores, threads: cores };
        let at = variant.all_cores_coordinates().to_values();
        let (_, figure) = kernels.best("bandwidth", |row| row.at == at)?;
        Some((variant, figure.value))
    });
    let on_some = threads.best("bandwidth", |row| threads.text(row, "kernel") == Some(kernel.name()));
    let on_some = on_some.and_then(|(row, figure)| {
        let threads = OnSomeCores::from_values(&row.at)?.threads.0 as usize;
        Some((Variant { kernel, stores: Stores::Ordinary, threads }, figure.value))
    });
    on_all.chain(on_some).max_by(|one, other| one.1.total_cmp(&other.1)).map(|(variant, _)| variant)
}

/// The latest sum of each chunk, as f64 bits: written by the team member that has the chunk, read after a launch.
#[derive(Debug)]
struct Sums(Arc<[AtomicU64]>);

impl Sums {
    fn new(chunks: usize) -> Self {
        Self((0..chunks).map(|_| AtomicU64::new(POISON.to_bits())).collect())
    }

    fn poison(&self) {
        self.0.iter().for_each(|sum| sum.store(POISON.to_bits(), Ordering::Relaxed));
    }
}

/// Shared by all points: the team and its window.
struct Bench {
    team: Rc<RefCell<Team>>,
    window: Arc<Window<f64>>,
    sums: Sums,
    /// Number of members active since the target was poisoned.
    active: Cell<usize>,
}

impl Bench {
    /// Poisons the whole target.
    fn new(team: Rc<RefCell<Team>>, window: Arc<Window<f64>>) -> Result<Self, Fault> {
        let sums = Sums::new(window.total_chunks());
        let target = Arc::clone(&window);
        team.borrow_mut().run(&Task::new(move |rank| {
            StreamKernels::best().init(&mut target.part(TARGET, rank.index), POISON, Stores::NonTemporal);
        }))?;
        Ok(Self { team, window, sums, active: Cell::new(1) })
    }

    /// One point's workload: the next chunk of every active member per launch.
    fn load(&self, variant: Variant) -> Result<TeamLoad, Fault> {
        let Variant { kernel, stores, threads } = variant;
        self.poison(threads)?;
        let kernels = StreamKernels::best();
        let (window, sums) = (Arc::clone(&self.window), Arc::clone(&self.sums.0));
        let task = Task::new(move |rank| {
            if rank.index < threads {
                let chunk = window.step(rank.index, threads);
                let sum = on_chunk(&window, kernel, chunk, |a, from| kernels::run(kernel, kernels, stores, a, from));
                sums[window.index(chunk)].store(sum.to_bits(), Ordering::Relaxed);
            }
        });
        let traffic = kernels::traffic(kernel, (threads * self.window.chunk()) as u64);
        let work = Work {
            traffic,
            write_allocate: if stores == Stores::Ordinary { traffic.written } else { 0 },
            window: self.window.bytes(),
            ..Work::default()
        };
        let check = self.checker(variant);
        Ok(TeamLoad { team: Rc::clone(&self.team), task, work, lap: Lap::Team, batch: Batch::default(), check })
    }

    /// Poisons again everything visited since the last call, so that a later check passes only with what `threads` members
    /// write next.
    fn poison(&self, threads: usize) -> Result<(), Fault> {
        let (window, active) = (Arc::clone(&self.window), self.active.replace(threads));
        self.team.borrow_mut().run(&Task::new(move |rank| {
            if rank.index < active {
                for chunk in window.visited(rank.index, active) {
                    let mut part = window.part(TARGET, chunk.part);
                    StreamKernels::best().init(&mut part[window.range(chunk)], POISON, Stores::NonTemporal);
                }
            }
        }))?;
        self.window.rewind();
        self.sums.poison();
        Ok(())
    }

    /// Compares every visited chunk with the oracle, on the member that visited it.
    fn checker(&self, Variant { kernel, threads, .. }: Variant) -> Box<dyn FnMut() -> Check> {
        let (team, window, sums) = (Rc::clone(&self.team), Arc::clone(&self.window), Arc::clone(&self.sums.0));
        let found = Arc::new(Mutex::new(None));
        let note = Arc::clone(&found);
        let task = Task::new(move |rank| {
            if rank.index >= threads {
                return;
            }
            for chunk in window.visited(rank.index, threads) {
                let sum = f64::from_bits(sums[window.index(chunk)].load(Ordering::Relaxed));
                if let Some(wrong) = on_chunk(&window, kernel, chunk, |a, from| kernels::wrong(kernel, a, from, sum)) {
                    let what = format!("{} in chunk {} of thread {}: {wrong}", kernel.name(), chunk.number, chunk.part);
                    note.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
                    return;
                }
            }
        });
        Box::new(move || verdict(&team, &task, &found))
    }
}

/// Calls `run` with the target's and the operands' elements of one chunk; the first operand includes the kernel's halo.
fn on_chunk<R>(window: &Window<f64>, kernel: Op, chunk: Chunk, run: impl FnOnce(&mut [f64], [&[f64]; 3]) -> R) -> R {
    let mut target = window.part(TARGET, chunk.part);
    let source = window.part(SOURCE, chunk.part);
    let [mut b, c, d] = [0, 1, 2].map(|thirds| window.range(window.ahead(chunk, thirds)));
    b.end += kernels::halo(kernel);
    run(&mut target[window.range(chunk)], [&source[b], &source[c], &source[d]])
}
