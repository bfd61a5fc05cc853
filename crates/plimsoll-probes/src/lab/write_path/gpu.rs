//! write-path on a GPU: stores to parts of sectors, chains of stores and loads, and repeated reads of pinned memory.
//! `crate::lab::write_path` defines the figures; `kernel.cu` has the kernels.

use plimsoll_core::sample::Workload as _;
use plimsoll_gpu::Memory;
use plimsoll_gpu::checker::POISON;
use plimsoll_gpu::window::Rotation;

use super::kernels::{self, AGAIN_THREADS, CHAIN_THREADS, PARTS, SECTOR, STEPS, UNROLL};
use super::{Chain, L2, MEMORY, Part, Passes, Step};
use crate::folds::{self, MANY, SOME};
use crate::lab::write_path;
use crate::prelude::gpu::*;

/// Bytes stored to by a launch, for memory and for the L2.
const SLICES: [u64; 2] = [64 << 20, 4 << 20];
/// Untimed and timed loop iterations of a chain: with steps of 300 cycles a launch takes half a millisecond.
const ITERATIONS: [u32; 2] = [4, 400];
/// Bytes that each SM reads repeatedly: whole iterations of its block, and no more than fit in any L1.
const PIECE: u64 = 16 * UNROLL as u64 * AGAIN_THREADS as u64;
/// Numbers of passes over these bytes.
const PASSES: [u32; 3] = [1, 2, 4];
/// Bytes checked at each place after a measurement.
const LOOK: u64 = 64 << 10;
/// Shares of the budget: stores to memory, stores to the L2, chains, passes.
const SHARES: [f64; 4] = [0.3, 0.2, 0.15, 0.35];

/// The memory to read, and the number of passes.
#[derive(Clone, Copy, Debug)]
struct Again {
    memory: write_path::Memory,
    from: Span,
    passes: u32,
}

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::KernelClock, Need::Graphs];

    fn points(&self, device: &G::Device, _: &Request) -> usize {
        let ways = if G::capabilities(device).host_memory.is_ok() { 4 } else { 2 };
        2 * PARTS.len() + Step::ALL.len() + ways * PASSES.len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let window = session.info().cold_window().next_multiple_of(SLICES[0]);
        let (bytes, flags) = fit_arrays::<G>(session.device, 1, window)?;
        let bench = Bench::<G>::new(session.device, bytes)?;
        let memory = Rotation::cold(SLICES[0].min(bytes), window).within(bytes);
        for (case, rotation, share, flags) in
            [(MEMORY, memory, SHARES[0], flags), (L2, Rotation::hot(SLICES[1].min(bytes)), SHARES[1], Flags::NONE)]
        {
            let sweep = Sweep { series: write_path::stores(case), points: &PARTS, share, flags };
            session.sweep(sweep, |part| Part { stored: (*part).into() }, |_, part| bench.part(*part, rotation))?;
        }
        let sweep = Sweep { series: write_path::chains(), points: &Step::ALL, share: SHARES[2], flags: Flags::NONE };
        session.sweep(sweep, |step| Chain { step: *step }, |_, step| bench.chain(*step, ITERATIONS))?;
        let both = Both::new(&bench.kit, session.device, session.request.seed)?;
        let points = both.points(&PASSES);
        let sweep = Sweep { series: write_path::again(), points: &points, share: SHARES[3], flags: Flags::NONE };
        let coordinates = |again: &Again| Passes { memory: again.memory, passes: again.passes.into() };
        session.sweep(sweep, coordinates, |_, again| bench.again(*again, both.seed, SOME)).map(drop)
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::<G>::new(device, 4 << 20)?;
        let sectors: &[u64] = if depth == Depth::Small {
            &[1, 33, 1025]
        } else {
            &[1, 31, 32, 33, 127, 128, 129, 1023, 1025, 4099, 65_537]
        };
        for part in PARTS {
            for sectors in sectors {
                let check = bench.stored_once(part, *sectors)?;
                report(Case::new(kernels::part(part).name, format!("{sectors} sectors"), check));
            }
        }
        for step in Step::ALL {
            for iterations in [[0, 1], [3, 5]] {
                let on = format!("{} steps", STEPS * (iterations[0] + iterations[1]));
                report(Case::from_sample(kernels::chain(step).name, on, &mut bench.chain(step, iterations)?)?);
            }
        }
        let both = Both::new(&bench.kit, device, 1)?;
        for again in both.points(&[1, 3]) {
            let mut load = bench.again(again, both.seed, MANY)?;
            load.launch_once()?;
            let on = format!("{}, {} passes", again.memory, again.passes);
            report(Case::new(kernels::again(bypasses_l1(again.memory)).name, on, load.check()?));
        }
        Ok(())
    }
}

fn bypasses_l1(memory: write_path::Memory) -> bool {
    matches!(memory, write_path::Memory::HostPast | write_path::Memory::DevicePast)
}

/// Word `word` of a poisoned array after the first `part` bytes of every sector were stored.
fn expected(part: u32, word: u64) -> u32 {
    let stored = word as u32;
    match part {
        1 if word.is_multiple_of(8) => POISON & !0xff | stored & 0xff,
        part if word % 8 * 4 < u64::from(part) && part > 1 => stored,
        _ => POISON,
    }
}

/// Compares the words from `first` on with the result of stores of `part` bytes over poison.
fn check_parts(part: u32, first: u64, found: &[u32]) -> Check {
    let wrong = (first..).zip(found).find(|(word, found)| **found != expected(part, *word));
    wrong.map_or(Check::Passed, |(word, found)| {
        let right = expected(part, word);
        Check::Failed(format!(
            "word {word} is {found:#010x}, not {right:#010x}, after stores of {part} B of each sector"
        ))
    })
}

/// Host memory, if kernels can read it, and device memory with the same content.
struct Both<G: Gpu> {
    host: Option<Box<dyn Memory>>,
    device: G::Buffer,
    seed: u64,
}

impl<G: Gpu> Both<G> {
    fn new(kit: &Kit<G>, device: &G::Device, seed: u64) -> Result<Self, Fault> {
        let words = PIECE * u64::from(kit.unit.machine().multiprocessors) / 4;
        let content: Vec<u8> = (0..words).flat_map(|place| pattern::bits(seed, place).to_le_bytes()).collect();
        let has_host = G::capabilities(device).host_memory.is_ok();
        let host = has_host.then(|| G::host_memory(kit.stream(), &content)).transpose()?;
        let device = kit.array(4 * words)?;
        G::upload(kit.stream(), device.whole(), &content)?;
        Ok(Self { host, device, seed })
    }

    fn points(&self, passes: &[u32]) -> Vec<Again> {
        let host = self.host.iter().flat_map(|host| {
            [write_path::Memory::HostFirst, write_path::Memory::HostPast].map(|memory| (memory, host.whole()))
        });
        let device = [write_path::Memory::DeviceFirst, write_path::Memory::DevicePast]
            .map(|memory| (memory, self.device.whole()));
        let ways = host.chain(device);
        ways.flat_map(|(memory, from)| passes.iter().map(move |passes| Again { memory, from, passes: *passes }))
            .collect()
    }
}

/// State shared by all points.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    array: Rc<G::Buffer>,
    /// A word for each thread.
    left: Rc<G::Buffer>,
    /// A word for each thread of the chains.
    words: Rc<G::Buffer>,
}

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device, bytes: u64) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let blocks = u64::from(kit.unit.machine().multiprocessors);
        let (array, left) = (kit.array(bytes)?, kit.array(4 * blocks * u64::from(AGAIN_THREADS))?);
        let words = kit.array(4 * blocks * u64::from(CHAIN_THREADS))?;
        G::prefer_cache(kit.unit.function(&kernels::again(false))?.function())?;
        Ok(Self { kit, array: Rc::new(array), left: Rc::new(left), words: Rc::new(words) })
    }

    fn stores(&self, part: u32, out: Span) -> Result<G::Launch, Fault> {
        let sectors = out.bytes() / u64::from(SECTOR);
        let list = Arguments::new().span(out).u64(sectors);
        self.kit.unit.launch(&kernels::part(part), sectors * kernels::lanes(part), list)
    }

    /// Launches that store the first bytes of every sector, rotating through the slices of the array.
    fn part(&self, part: u32, rotation: Rotation) -> Result<Load<G>, Fault> {
        let spans = rotation.spans(self.array.whole())?;
        let sectors = rotation.slice / u64::from(SECTOR);
        let traffic = Traffic::new(0, sectors * u64::from(part));
        let window = if rotation.slices > 1 { rotation.bytes() } else { 0 };
        let work = Work { traffic, operations: sectors as f64, window, ..Work::default() };
        let launches = spans.iter().map(|span| self.stores(part, *span)).collect::<Result<Vec<_>, Fault>>()?;
        self.kit.checker.poison(self.array.part(0, rotation.bytes())?)?;
        let array = Rc::clone(&self.array);
        Ok(self.kit.load(GRAPH, launches, work)?.with_check(move |stream| {
            let look = LOOK.min(rotation.slice);
            let (middle, last) = (rotation.slice / 2 / 4096 * 4096, rotation.slice - look);
            for slice in [0, rotation.slices - 1] {
                for at in [0, middle.min(last), last] {
                    let found = folds::words::<G>(stream, array.part(slice * rotation.slice + at, look)?)?;
                    if let failed @ Check::Failed(_) = check_parts(part, at / 4, &found) {
                        return Ok(failed);
                    }
                }
            }
            Ok(Check::Passed)
        }))
    }

    /// One launch over `sectors` sectors; checks all of them and that nothing after them changed.
    fn stored_once(&self, part: u32, sectors: u64) -> Result<Check, Fault> {
        let bytes = sectors * u64::from(SECTOR);
        self.kit.checker.poison(self.array.part(0, bytes + 4096)?)?;
        self.kit.run(&[Action::Launch(self.stores(part, self.array.part(0, bytes)?)?)])?;
        let found = folds::words::<G>(self.kit.stream(), self.array.part(0, bytes + 4096)?)?;
        let (inside, behind) = found.split_at((bytes / 4) as usize);
        Ok(match check_parts(part, 0, inside) {
            Check::Passed if behind.iter().any(|word| *word != POISON) => {
                Check::Failed("the kernel wrote past the last sector".to_owned())
            }
            check => check,
        })
    }

    fn chain(&self, step: Step, iterations: [u32; 2]) -> Result<InKernel<G>, Fault> {
        let kernel = kernels::chain(step);
        let blocks = self.kit.unit.machine().multiprocessors;
        let work = Work { operations: f64::from(STEPS * iterations[1]), ..Work::default() };
        let threads = blocks * CHAIN_THREADS;
        self.kit.checker.poison(self.left.part(0, 4 * u64::from(threads))?)?;
        let inside = InKernel::new_cycles_only(&self.kit, (blocks, LaunchCycles::Median), work, |cycles| {
            let list = Arguments::new().buffer(&self.left).span(cycles).buffer(&self.words);
            self.kit.unit.launch(&kernel, 0, list.u32(iterations[0]).u32(iterations[1]))
        })?;
        let (left, words) = (Rc::clone(&self.left), Rc::clone(&self.words));
        let steps = if step.stores() { STEPS * (iterations[0] + iterations[1]) } else { 0 };
        Ok(inside.with_check(move |last| {
            // Keeps the chains' words allocated while launches use them.
            let _ = &words;
            let found = folds::words::<G>(last.stream, left.part(0, 4 * u64::from(threads))?)?;
            let wrong = found.iter().position(|word| *word != steps);
            Ok(wrong.map_or(Check::Passed, |thread| {
                Check::Failed(format!("the chain of thread {thread} ended at {}, not {steps}", found[thread]))
            }))
        }))
    }

    /// Passes over memory with the data of a seed.
    fn again(&self, Again { memory, from, passes }: Again, seed: u64, every: usize) -> Result<Load<G>, Fault> {
        let blocks = u64::from(self.kit.unit.machine().multiprocessors);
        let bytes = PIECE * blocks * u64::from(passes);
        let work = Work { traffic: Traffic::new(bytes, 0), operations: f64::from(passes), ..Work::default() };
        let host = matches!(memory, write_path::Memory::HostFirst | write_path::Memory::HostPast);
        let list = Arguments::new().buffer(&self.left).span(from).u32((PIECE / 16) as u32).u32(passes);
        let launch = self.kit.unit.launch(&kernels::again(bypasses_l1(memory)), 1, list)?;
        self.kit.checker.poison(self.left.whole())?;
        let load = if host {
            Load::new(self.kit.stream(), Shape::Stream, vec![Action::Launch(launch)], work)?
        } else {
            self.kit.load(GRAPH, vec![launch], work)?
        };
        let left = Rc::clone(&self.left);
        Ok(load.with_check(move |stream| {
            let found = folds::words::<G>(stream, left.whole())?;
            Ok(folds::check(&found, every, |thread| sum(seed, thread).wrapping_mul(passes)))
        }))
    }
}

/// The sum of the words that a thread reads in one pass.
fn sum(seed: u64, thread: usize) -> u32 {
    let (block, lane) = (thread as u64 / u64::from(AGAIN_THREADS), thread as u64 % u64::from(AGAIN_THREADS));
    let first = block * (PIECE / 4);
    let vectors = (lane..PIECE / 16).step_by(AGAIN_THREADS as usize);
    let words = vectors.flat_map(|vector| first + 4 * vector..first + 4 * vector + 4);
    words.fold(0_u32, |sum, word| sum.wrapping_add(pattern::bits(seed, word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_parts_hold_word_indices_and_the_rest_is_poison() {
        let after = |part| -> Vec<u32> { (8..16).map(|word| expected(part, word)).collect() };
        assert_eq!(after(32), (8..16).collect::<Vec<u32>>());
        assert_eq!(after(8), [8, 9, POISON, POISON, POISON, POISON, POISON, POISON]);
        assert_eq!(after(1)[..2], [0xffff_ff08, POISON]);
        assert_eq!(check_parts(16, 8, &after(16)), Check::Passed);
        assert!(matches!(check_parts(16, 8, &after(8)), Check::Failed(what) if what.contains("word 10 is 0xffffffff")));
    }

    #[test]
    fn every_word_of_a_piece_is_read_by_one_thread() {
        let all = (0..AGAIN_THREADS as usize).fold(0_u32, |all, thread| all.wrapping_add(sum(3, thread)));
        let naive = (0..PIECE / 4).fold(0_u32, |all, word| all.wrapping_add(pattern::bits(3, word)));
        assert_eq!(all, naive);
        assert!(PIECE.is_multiple_of(16 * u64::from(AGAIN_THREADS * UNROLL)));
    }
}
