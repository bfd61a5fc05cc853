//! incore on a GPU: chains of every instruction in one block per SM, timed by the SM's clock. Every instruction runs in one chain
//! of one warp and with all warps, some over chains and warps, and each once more where it was fastest. `mod.rs` defines the
//! figures, `kernel.cu` the kernels.

use plimsoll_core::series::Axes as _;
use plimsoll_gen::Target;

use super::kernels::{self, CHAINS, Instruction};
use crate::incore::{self, ChainsOfWarps};
use crate::iterations::{glance, long_enough, quickest, whole_device};
use crate::prelude::gpu::*;

/// Threads of a warp.
const WARP: u32 = 32;
/// Most warps of a block.
const MOST_WARPS: u32 = 32;
/// Warps of the grid of chains and warps.
const WARPS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// The instructions that are measured over chains and warps: one for each pipe.
const PIPES: [&str; 7] = ["FMA f32", "FMA f64", "FMA f16x2", "MAD i32", "EX2 f32", "DIV f32", "SHFL b32"];
/// Most iterations of a loop: the reference makes as many links one after the other.
const MOST_ITERATIONS: u32 = 1 << 16;

/// An instruction with its chains per thread and its warps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spot {
    pub(crate) instruction: &'static Instruction,
    chains: u32,
    warps: u32,
}

impl Spot {
    fn coordinates(&self) -> ChainsOfWarps {
        ChainsOfWarps { instruction: self.instruction.name.into(), ilp: self.chains.into(), warps: self.warps.into() }
    }
}

/// Numbers of chains that are tried with all warps; 1 for an instruction that supports only one.
fn searched(instruction: &'static Instruction, effort: Effort) -> impl Iterator<Item = u32> {
    let all: &[u32] = match (effort, instruction.has(2)) {
        (_, false) => &[1],
        (Effort::Quick, true) => &[2, 8],
        (_, true) => &CHAINS,
    };
    all.iter().copied().filter(|&chains| instruction.has(chains))
}

fn instructions(target: Target, effort: Effort) -> Vec<Spot> {
    let spots = |instruction: &'static Instruction| {
        let full = searched(instruction, effort).map(move |chains| Spot { instruction, chains, warps: MOST_WARPS });
        std::iter::once(Spot { instruction, chains: 1, warps: 1 }).chain(full)
    };
    Instruction::for_target(target).flat_map(spots).collect()
}

fn grid(target: Target) -> Vec<Spot> {
    let of_pipe = |instruction: &&'static Instruction| PIPES.contains(&instruction.name);
    let chains = |instruction| CHAINS.into_iter().map(move |chains| (instruction, chains));
    let spots = Instruction::for_target(target).filter(of_pipe).flat_map(chains);
    spots
        .flat_map(|(instruction, chains)| WARPS.into_iter().map(move |warps| Spot { instruction, chains, warps }))
        .collect()
}

/// The fastest spot of each instruction. Only the spot counts: its figure is measured again.
fn fastest(series: &Series, spots: &[Spot]) -> Vec<Spot> {
    let first = spots.iter().filter(|spot| spot.warps == 1);
    let best = |first: &Spot| {
        let is_of = |at: ChainsOfWarps| at.instruction.as_str() == first.instruction.name;
        let (row, _) = series.best("cycles", |row| ChainsOfWarps::from_values(&row.at).is_some_and(is_of))?;
        spots.iter().copied().find(|spot| spot.coordinates().to_values() == row.at)
    };
    first.filter_map(best).collect()
}

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::KernelClock];

    fn points(&self, device: &G::Device, request: &Request) -> usize {
        let target = G::target(device);
        instructions(target, request.effort).len() + grid(target).len() + Instruction::for_target(target).count()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let target = G::target(session.device);
        let (all, grid) = (instructions(target, effort), grid(target));
        let bench = Bench::<G>::new(session, &all, &grid)?;
        let sweep = Sweep { series: incore::instructions(), points: &all, share: 0.4, flags: Flags::NONE };
        let series = session.sweep(sweep, Spot::coordinates, |_, spot| bench.load(*spot))?;
        let fastest = fastest(series, &all);
        let sweep = Sweep { series: incore::saturated(), points: &fastest, share: 0.2, flags: Flags::NONE };
        session.sweep(sweep, Spot::coordinates, |_, spot| bench.load(*spot))?;
        let sweep = Sweep { series: incore::grid(), points: &grid, share: 0.4, flags: Flags::NONE };
        session.sweep(sweep, Spot::coordinates, |_, spot| bench.load(*spot))?;
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let kernels = kernels::SOURCE.kernels(G::target(device));
        let bench = Bench::<G>::with_kernels(device, &kernels)?;
        let (warps, iterations): (&[u32], &[u32]) = match depth {
            Depth::Small => (&[1, 3], &[0, 1, 2]),
            Depth::Usual => (&[1, 3, 32], &[0, 1, 2, 33]),
            Depth::Exhaustive => (&[1, 2, 3, 4, 7, 8, 16, 31, 32], &[0, 1, 2, 3, 31, 32, 33, 1000]),
        };
        for instruction in Instruction::for_target(G::target(device)) {
            for chains in CHAINS.into_iter().filter(|&chains| instruction.has(chains)) {
                for (&warps, &iterations) in
                    warps.iter().flat_map(|warps| iterations.iter().map(move |iterations| (warps, iterations)))
                {
                    let wrong = bench.check_launch(Spot { instruction, chains, warps }, iterations)?;
                    let on = format!("{warps} warps, {iterations} iterations");
                    report(Case { kernel: instruction.kernel(chains).name, on, wrong });
                }
            }
            let wrong = bench.check_link(instruction)?;
            report(Case { kernel: instruction.reference().name, on: "one link".to_owned(), wrong });
        }
        Ok(())
    }
}

/// State shared by all points.
pub(crate) struct Bench<G: Gpu> {
    kit: Rc<Kit<G>>,
    /// Ends of the chains, and below those of the reference.
    out: Rc<G::Buffer>,
    expected: Rc<G::Buffer>,
    cycles: Rc<G::Buffer>,
}

impl<G: Gpu> Clone for Bench<G> {
    fn clone(&self) -> Self {
        Self {
            kit: Rc::clone(&self.kit),
            out: Rc::clone(&self.out),
            expected: Rc::clone(&self.expected),
            cycles: Rc::clone(&self.cycles),
        }
    }
}

impl<G: Gpu> Bench<G> {
    fn new(session: &mut Session<'_, G>, all: &[Spot], grid: &[Spot]) -> Result<Self, Fault> {
        let kernels_of = |spot: &Spot| [spot.instruction.kernel(spot.chains), spot.instruction.reference()];
        let kernels: Vec<KernelDesc> = all.iter().chain(grid).flat_map(kernels_of).collect();
        Self::with_kernels(session.device, &kernels)
    }

    /// Loads every kernel of these instructions.
    pub(crate) fn with_instructions(
        device: &G::Device,
        instructions: impl IntoIterator<Item = &'static Instruction>,
    ) -> Result<Self, Fault> {
        let kernels = |instruction: &'static Instruction| {
            let chains =
                CHAINS.into_iter().filter(|&chains| instruction.has(chains)).map(|chains| instruction.kernel(chains));
            chains.chain([instruction.reference()])
        };
        Self::with_kernels(device, &instructions.into_iter().flat_map(kernels).collect::<Vec<KernelDesc>>())
    }

    fn with_kernels(device: &G::Device, kernels: &[KernelDesc]) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, kernels, TRUST)?;
        let blocks = u64::from(kit.unit.machine().multiprocessors);
        let bytes = blocks * u64::from(MOST_WARPS * WARP * CHAINS[CHAINS.len() - 1]) * 8;
        let array = |bytes| Ok::<_, Fault>(Rc::new(kit.array(bytes)?));
        let (out, expected, cycles) = (array(bytes)?, array(bytes)?, array(8 * blocks)?);
        Ok(Self { kit: Rc::new(kit), out, expected, cycles })
    }

    /// Bytes of the ends of all chains.
    fn bytes(&self, spot: Spot) -> u64 {
        let threads = u64::from(self.kit.unit.machine().multiprocessors * spot.warps * WARP);
        threads * u64::from(spot.chains * spot.instruction.element.bytes())
    }

    fn launch(&self, kernel: KernelDesc, spot: Spot, arguments: Arguments) -> Result<G::Launch, Fault> {
        self.kit.unit.launch(&kernel.with_threads(spot.warps * WARP)?, 0, arguments)
    }

    fn load(&self, spot: Spot) -> Result<InKernel<G>, Fault> {
        let Spot { instruction, chains, warps } = spot;
        let launch = |cycles, iterations| self.chains(spot, cycles, iterations);
        let operations = f64::from(instruction.links(chains) * chains * instruction.per_link * warps);
        let (load, iterations) = long_enough(&self.kit, (operations, MOST_ITERATIONS), launch)?;
        self.kit.checker.poison(self.out.part(0, self.bytes(spot))?)?;
        let bench = self.clone();
        Ok(load.with_check(move |_| bench.compare(spot, iterations)))
    }

    /// Longer launches timed on the whole device; `flop` are the operations of a link in one thread.
    pub(crate) fn load_whole_device(&self, spot: Spot, flop: f64) -> Result<Load<G>, Fault> {
        let operations = flop * self.threads_links(spot);
        let launch = |cycles, iterations| self.chains(spot, cycles, iterations);
        let (load, iterations) = whole_device(&self.kit, (operations, MOST_ITERATIONS), &self.cycles, launch)?;
        self.kit.checker.poison(self.out.part(0, self.bytes(spot))?)?;
        let bench = self.clone();
        Ok(load.with_check(move |_| bench.compare(spot, iterations)))
    }

    /// The fastest number of chains of an instruction with all warps, by one quick launch each.
    pub(crate) fn fastest(&self, instruction: &'static Instruction) -> Result<Option<Spot>, Fault> {
        let spots = CHAINS.into_iter().filter(|&chains| instruction.has(chains));
        quickest(spots.map(|chains| Spot { instruction, chains, warps: MOST_WARPS }), |spot| {
            let links = self.threads_links(spot);
            let launch = |cycles, iterations| self.chains(spot, cycles, iterations);
            glance(long_enough(&self.kit, (links, MOST_ITERATIONS), launch)?, links)
        })
    }

    /// Links of all threads of an SM in one iteration.
    fn threads_links(&self, Spot { instruction, chains, warps }: Spot) -> f64 {
        f64::from(instruction.links(chains) * chains * warps * WARP)
    }

    fn chains(&self, spot: Spot, cycles: Span, iterations: u32) -> Result<G::Launch, Fault> {
        let arguments = Arguments::new().buffer(&self.out).span(cycles).u32(iterations);
        self.launch(spot.instruction.kernel(spot.chains), spot, arguments)
    }

    /// Compares the ends of the chains with those of the reference.
    fn compare(&self, spot: Spot, iterations: u32) -> Result<Check, Fault> {
        let bytes = self.bytes(spot);
        let links = spot.instruction.links(spot.chains) * iterations;
        let arguments = Arguments::new().buffer(&self.expected).u32(spot.chains).u32(links);
        self.kit.run_once(&self.launch(spot.instruction.reference(), spot, arguments)?)?;
        let (out, expected) = (self.out.part(0, bytes)?, self.expected.part(0, bytes)?);
        self.kit.checker.check_map(Op::Copy, Element::Word, out, [expected; 3], 0.0)
    }

    /// Compares one launch with the reference; returns an empty string if it is right.
    fn check_launch(&self, spot: Spot, iterations: u32) -> Result<String, Fault> {
        self.kit.checker.poison(self.out.part(0, self.bytes(spot))?)?;
        let arguments = Arguments::new().buffer(&self.out).buffer(&self.cycles).u32(iterations);
        let launch = self.launch(spot.instruction.kernel(spot.chains), spot, arguments)?;
        self.kit.run_once(&launch)?;
        Ok(self.compare(spot, iterations)?.into_wrong())
    }

    /// Compares one link of the reference with the host's; returns an empty string if it is right.
    fn check_link(&self, instruction: &'static Instruction) -> Result<String, Fault> {
        let spot = Spot { instruction, chains: 1, warps: 1 };
        let arguments = Arguments::new().buffer(&self.expected).u32(1).u32(1);
        self.kit.run_once(&self.launch(instruction.reference(), spot, arguments)?)?;
        let bytes = self.kit.download(self.expected.part(0, (WARP * instruction.element.bytes()).into())?)?;
        let ends = bytes.chunks_exact(instruction.element.bytes() as usize).map(|end| {
            let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| end[at + byte]));
            match instruction.element {
                Element::F64 => f64::from_bits(u64::from(word(4)) << 32 | u64::from(word(0))),
                Element::F32 => f64::from(f32::from_bits(word(0))),
                Element::Word | Element::Vector16 => f64::from(word(0)),
            }
        });
        let wrong = ends.enumerate().find_map(|(lane, found)| {
            let (expected, within) = super::oracle::link(instruction.link, lane as u32)?;
            let right = (found - expected).abs() <= within * expected.abs().max(1e-3);
            (!right).then(|| format!("lane {lane}: {found:e} instead of {expected:e}"))
        });
        Ok(wrong.unwrap_or_default())
    }
}
