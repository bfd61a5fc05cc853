//! incore on a GPU: chains of every instruction in one block per multiprocessor, by its own clock. Every instruction in one
//! chain of one warp and with all warps, some over chains and warps, and each once more where it went fastest. What the
//! figures mean is `crate::incore`'s; the kernels are `kernel.cu`'s.

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
const MOST_TURNS: u32 = 1 << 16;

/// The probe.
#[derive(Debug)]
pub struct Runner;

/// An instruction in so many chains per thread and so many warps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spot {
    pub(crate) of: &'static Instruction,
    chains: u32,
    warps: u32,
}

impl Spot {
    fn at(&self) -> ChainsOfWarps {
        ChainsOfWarps { instruction: self.of.name.into(), ilp: self.chains.into(), warps: self.warps.into() }
    }
}

/// Chains in which all warps are tried: of an instruction that has but one, that one.
fn searched(of: &'static Instruction, effort: Effort) -> impl Iterator<Item = u32> {
    let all: &[u32] = match (effort, of.has(2)) {
        (_, false) => &[1],
        (Effort::Quick, true) => &[2, 8],
        (_, true) => &CHAINS,
    };
    all.iter().copied().filter(|&chains| of.has(chains))
}

fn instructions(target: Target, effort: Effort) -> Vec<Spot> {
    let spots = |of: &'static Instruction| {
        let full = searched(of, effort).map(move |chains| Spot { of, chains, warps: MOST_WARPS });
        std::iter::once(Spot { of, chains: 1, warps: 1 }).chain(full)
    };
    Instruction::of(target).flat_map(spots).collect()
}

fn grid(target: Target) -> Vec<Spot> {
    let of_pipe = |of: &&'static Instruction| PIPES.contains(&of.name);
    let chains = |of| CHAINS.into_iter().map(move |chains| (of, chains));
    let spots = Instruction::of(target).filter(of_pipe).flat_map(chains);
    spots.flat_map(|(of, chains)| WARPS.into_iter().map(move |warps| Spot { of, chains, warps })).collect()
}

/// Where each instruction went fastest. Its figure is left behind: it is measured afresh.
fn fastest(series: &Series, spots: &[Spot]) -> Vec<Spot> {
    let first = spots.iter().filter(|spot| spot.warps == 1);
    let best = |first: &Spot| {
        let is_of = |at: ChainsOfWarps| at.instruction.as_str() == first.of.name;
        let (row, _) = series.best("cycles", |row| ChainsOfWarps::from_values(&row.at).is_some_and(is_of))?;
        spots.iter().copied().find(|spot| spot.at().to_values() == row.at)
    };
    first.filter_map(best).collect()
}

impl<G: Gpu> Probe<G> for Runner {
    fn spec(&self) -> &'static ProbeSpec {
        &incore::SPEC
    }

    fn needs(&self) -> &'static [Need] {
        const { &[Need::Code(&kernels::SOURCE), Need::KernelClock] }
    }

    fn points(&self, device: &G::Device, request: &Request) -> usize {
        let target = G::target(device);
        instructions(target, request.effort).len() + grid(target).len() + Instruction::of(target).count()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let begin = session.clock().now();
        let effort = session.request.effort;
        let target = G::target(session.device);
        let (all, grid) = (instructions(target, effort), grid(target));
        let bench = Bench::<G>::new(session, &all, &grid)?;
        let late = elapsed_share(session, begin, incore::SPEC.budget(effort));
        let sweep = Sweep { series: incore::instructions(), points: &all, share: 0.4 + late, flags: Flags::NONE };
        let series = session.sweep(sweep, Spot::at, |_, spot| bench.load(*spot))?;
        let fastest = fastest(series, &all);
        let sweep = Sweep { series: incore::saturated(), points: &fastest, share: 0.2, flags: Flags::NONE };
        session.sweep(sweep, Spot::at, |_, spot| bench.load(*spot))?;
        let sweep = Sweep { series: incore::grid(), points: &grid, share: 0.4, flags: Flags::NONE };
        session.sweep(sweep, Spot::at, |_, spot| bench.load(*spot))?;
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let kernels = kernels::SOURCE.kernels(G::target(device));
        let bench = Bench::<G>::of(device, &kernels)?;
        let (warps, iterations): (&[u32], &[u32]) = match depth {
            Depth::Small => (&[1, 3], &[0, 1, 2]),
            Depth::Usual => (&[1, 3, 32], &[0, 1, 2, 33]),
            Depth::Exhaustive => (&[1, 2, 3, 4, 7, 8, 16, 31, 32], &[0, 1, 2, 3, 31, 32, 33, 1000]),
        };
        for of in Instruction::of(G::target(device)) {
            for chains in CHAINS.into_iter().filter(|&chains| of.has(chains)) {
                for (&warps, &iterations) in
                    warps.iter().flat_map(|warps| iterations.iter().map(move |iterations| (warps, iterations)))
                {
                    let wrong = bench.wrong(Spot { of, chains, warps }, iterations)?;
                    let on = format!("{warps} warps, {iterations} iterations");
                    report(Case { kernel: of.kernel(chains).name, on, wrong });
                }
            }
            let wrong = bench.unlike(of)?;
            report(Case { kernel: of.reference().name, on: "one link".to_owned(), wrong });
        }
        Ok(())
    }
}

/// What all points share.
pub(crate) struct Bench<G: Gpu> {
    kit: Rc<Kit<G>>,
    /// Ends of chains, and where the reference's go.
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
        let of = |spot: &Spot| [spot.of.kernel(spot.chains), spot.of.reference()];
        let kernels: Vec<KernelDesc> = all.iter().chain(grid).flat_map(of).collect();
        Self::of(session.device, &kernels)
    }

    /// With every kernel of these instructions.
    pub(crate) fn of_instructions(
        device: &G::Device,
        instructions: impl IntoIterator<Item = &'static Instruction>,
    ) -> Result<Self, Fault> {
        let kernels = |of: &'static Instruction| {
            let chains = CHAINS.into_iter().filter(|&chains| of.has(chains)).map(|chains| of.kernel(chains));
            chains.chain([of.reference()])
        };
        Self::of(device, &instructions.into_iter().flat_map(kernels).collect::<Vec<KernelDesc>>())
    }

    fn of(device: &G::Device, kernels: &[KernelDesc]) -> Result<Self, Fault> {
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
        threads * u64::from(spot.chains * spot.of.element.bytes())
    }

    fn launch(&self, kernel: KernelDesc, spot: Spot, arguments: Arguments) -> Result<G::Launch, Fault> {
        self.kit.unit.launch(&kernel.with_threads(spot.warps * WARP)?, 0, arguments)
    }

    fn load(&self, spot: Spot) -> Result<InKernel<G>, Fault> {
        let Spot { of, chains, warps } = spot;
        let launch = |cycles, iterations| self.chains(spot, cycles, iterations);
        let operations = f64::from(of.links(chains) * chains * of.per_link * warps);
        let (load, iterations) = long_enough(&self.kit, (operations, MOST_TURNS), launch)?;
        self.kit.checker.poison(self.out.part(0, self.bytes(spot))?)?;
        let bench = self.clone();
        Ok(load.with_check(move |_| bench.compare(spot, iterations)))
    }

    /// Longer launches on the whole device by its time; `flop` are the operations of a link in one thread.
    pub(crate) fn whole(&self, spot: Spot, flop: f64) -> Result<Load<G>, Fault> {
        let operations = flop * self.threads_links(spot);
        let launch = |cycles, iterations| self.chains(spot, cycles, iterations);
        let (load, iterations) = whole_device(&self.kit, (operations, MOST_TURNS), &self.cycles, launch)?;
        self.kit.checker.poison(self.out.part(0, self.bytes(spot))?)?;
        let bench = self.clone();
        Ok(load.with_check(move |_| bench.compare(spot, iterations)))
    }

    /// The number of chains in which an instruction is fastest at a glance, with all warps.
    pub(crate) fn fastest(&self, of: &'static Instruction) -> Result<Option<Spot>, Fault> {
        let spots = CHAINS.into_iter().filter(|&chains| of.has(chains));
        quickest(spots.map(|chains| Spot { of, chains, warps: MOST_WARPS }), |spot| {
            let links = self.threads_links(spot);
            let launch = |cycles, iterations| self.chains(spot, cycles, iterations);
            glance(long_enough(&self.kit, (links, MOST_TURNS), launch)?, links)
        })
    }

    /// Links of all threads of a multiprocessor in one iteration.
    fn threads_links(&self, Spot { of, chains, warps }: Spot) -> f64 {
        f64::from(of.links(chains) * chains * warps * WARP)
    }

    fn chains(&self, spot: Spot, cycles: Span, iterations: u32) -> Result<G::Launch, Fault> {
        let arguments = Arguments::new().buffer(&self.out).span(cycles).u32(iterations);
        self.launch(spot.of.kernel(spot.chains), spot, arguments)
    }

    /// Is what the chains left what the reference leaves?
    fn compare(&self, spot: Spot, iterations: u32) -> Result<Check, Fault> {
        let bytes = self.bytes(spot);
        let links = spot.of.links(spot.chains) * iterations;
        let arguments = Arguments::new().buffer(&self.expected).u32(spot.chains).u32(links);
        self.kit.run(&[Action::Launch(self.launch(spot.of.reference(), spot, arguments)?)])?;
        let (out, expected) = (self.out.part(0, bytes)?, self.expected.part(0, bytes)?);
        self.kit.checker.check_map(Op::Copy, Element::Word, out, [expected; 3], 0.0)
    }

    /// One launch against the reference; empty where it is right.
    fn wrong(&self, spot: Spot, iterations: u32) -> Result<String, Fault> {
        self.kit.checker.poison(self.out.part(0, self.bytes(spot))?)?;
        let arguments = Arguments::new().buffer(&self.out).buffer(&self.cycles).u32(iterations);
        let launch = self.launch(spot.of.kernel(spot.chains), spot, arguments)?;
        self.kit.run(&[Action::Launch(launch)])?;
        Ok(self.compare(spot, iterations)?.into_wrong())
    }

    /// One link by the reference against what the host knows of the instruction; empty where it is right.
    fn unlike(&self, of: &'static Instruction) -> Result<String, Fault> {
        let spot = Spot { of, chains: 1, warps: 1 };
        let arguments = Arguments::new().buffer(&self.expected).u32(1).u32(1);
        self.kit.run(&[Action::Launch(self.launch(of.reference(), spot, arguments)?)])?;
        let mut bytes = vec![0; (WARP * of.element.bytes()) as usize];
        G::download(self.kit.stream(), self.expected.whole(), &mut bytes)?;
        let ends = bytes.chunks_exact(of.element.bytes() as usize).map(|end| {
            let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| end[at + byte]));
            match of.element {
                Element::F64 => f64::from_bits(u64::from(word(4)) << 32 | u64::from(word(0))),
                Element::F32 => f64::from(f32::from_bits(word(0))),
                Element::Word | Element::Vector16 => f64::from(word(0)),
            }
        });
        let wrong = ends.enumerate().find_map(|(lane, found)| {
            let (expected, within) = super::oracle::link(of.link, lane as u32)?;
            let right = (found - expected).abs() <= within * expected.abs().max(1e-3);
            (!right).then(|| format!("lane {lane}: {found:e} instead of {expected:e}"))
        });
        Ok(wrong.unwrap_or_default())
    }
}
