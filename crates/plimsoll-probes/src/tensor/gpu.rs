//! tensor on a GPU: every matrix instruction in one block per SM, with in-kernel timing, and the fastest configuration of each
//! on the whole device, timed by events. `crate::tensor` explains the figures; the kernels are in `kernel.cu`, their expected
//! results in `oracle`.

use plimsoll_core::series::Axes as _;
use plimsoll_gen::Target;
use plimsoll_gpu::steady::Steady;
use plimsoll_gpu::unit::Unit;

use super::kernels::{self, CHAINS, Instruction, Number};
use super::oracle::{self, Data};
use crate::iterations::{glance, long_enough, quickest, whole_device};
use crate::prelude::gpu::*;
use crate::tensor::{ByInstruction, Configuration};
use crate::{TRUST, tensor};

/// Threads of a warp.
const WARP: u32 = 32;
/// Most warps of a block.
const MOST_WARPS: u32 = 16;
/// Number of position patterns of a sparse row's nonzeros.
const WAYS: u32 = 6;
/// Most iterations of a loop: sums of small integers stay exact in single precision.
const MOST_ITERATIONS: u32 = 3072;

/// An instruction with its chains, warps and input data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spot {
    pub(crate) instruction: &'static Instruction,
    chains: u32,
    warps: u32,
    pub(crate) data: Data,
    /// Pattern number of a sparse instruction's nonzeros.
    way: u32,
}

impl Spot {
    fn new(instruction: &'static Instruction, chains: u32, warps: u32) -> Self {
        Self { instruction, chains, warps, data: Data::Whole, way: 0 }
    }

    /// The name of its kernel.
    pub(crate) fn kernel_name(&self) -> String {
        self.instruction.kernel(self.chains).name
    }

    fn configuration_coordinates(&self) -> Configuration {
        Configuration {
            instruction: self.instruction.name.into(),
            chains: self.chains.into(),
            warps: self.warps.into(),
        }
    }

    fn instruction_coordinates(&self) -> ByInstruction {
        ByInstruction { instruction: self.instruction.name.into() }
    }

    /// Operations of one SM in one iteration.
    fn flop(&self) -> f64 {
        self.instructions() * self.instruction.operations() as f64
    }

    /// Instructions of one SM in one iteration.
    fn instructions(&self) -> f64 {
        f64::from(self.instruction.steps(self.chains) * self.chains * self.warps * WARP / self.instruction.threads())
    }
}

/// The instructions that a device supports.
pub(crate) fn instructions<G: Gpu>(device: &G::Device) -> Vec<&'static Instruction> {
    Instruction::supported_by(G::specific_target(device).unwrap_or(G::target(device))).collect()
}

/// The instructions for dense matrices, which this probe measures.
pub(crate) fn dense<G: Gpu>(device: &G::Device) -> Vec<&'static Instruction> {
    instructions::<G>(device).into_iter().filter(|instruction| !instruction.sparse).collect()
}

/// Each instruction in one chain of the fewest warps.
fn single_chains<G: Gpu>(device: &G::Device) -> Vec<Spot> {
    dense::<G>(device).into_iter().map(|instruction| Spot::new(instruction, 1, instruction.threads() / WARP)).collect()
}

fn searched<G: Gpu>(device: &G::Device, effort: Effort) -> Vec<Spot> {
    dense::<G>(device).into_iter().flat_map(|instruction| spots(instruction, effort == Effort::Quick)).collect()
}

/// The configurations in which an instruction may be fastest; few if `quick`.
fn spots(instruction: &'static Instruction, quick: bool) -> impl Iterator<Item = Spot> {
    let warps: &[u32] = match (instruction.group, quick) {
        (true, _) => &[4, 8],
        (false, true) => &[4, 16],
        (false, false) => &[1, 2, 4, 8, 16],
    };
    let chains = CHAINS.into_iter().filter(|&chains| instruction.has(chains));
    chains.flat_map(move |chains| warps.iter().map(move |&warps| Spot::new(instruction, chains, warps)))
}

/// The fastest configuration of each instruction in `alone`. Its figure isn't used: the configuration is measured again.
fn fastest(series: &Series, spots: &[Spot], alone: &[Spot]) -> Vec<Spot> {
    let best = |one: &Spot| {
        let (row, _) = series.best("rate", |row| series.text(row, "instruction") == Some(one.instruction.name))?;
        spots.iter().copied().find(|spot| spot.configuration_coordinates().to_values() == row.at)
    };
    alone.iter().filter_map(best).collect()
}

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::KernelClock, Need::Graphs];

    fn points(&self, device: &G::Device, request: &Request) -> usize {
        searched::<G>(device, request.effort).len() + 3 * dense::<G>(device).len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let (alone, all) = (single_chains::<G>(session.device), searched::<G>(session.device, effort));
        let bench = Bench::<G>::new(session.device)?;
        let sweep = Sweep { series: tensor::latency(), points: &alone, share: 0.1, flags: Flags::NONE };
        session.sweep(sweep, Spot::instruction_coordinates, |_, spot| bench.load(*spot, spot.instructions()))?;
        let sweep = Sweep { series: tensor::multiprocessor(), points: &all, share: 0.3, flags: Flags::NONE };
        let series = session.sweep(sweep, Spot::configuration_coordinates, |_, spot| bench.load(*spot, spot.flop()))?;
        let fastest = fastest(series, &all, &alone);
        let sweep = Sweep { series: tensor::saturated(), points: &fastest, share: 0.1, flags: Flags::NONE };
        session.sweep(sweep, Spot::configuration_coordinates, |_, spot| bench.load(*spot, spot.flop()))?;
        let sweep = Sweep { series: tensor::device(), points: &fastest, share: 0.5, flags: Flags::NONE };
        session.sweep(sweep, Spot::instruction_coordinates, |_, spot| Ok(Steady::new(bench.load_device(*spot)?)))?;
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::<G>::new(device)?;
        let iterations: &[u32] = match depth {
            Depth::Small => &[0, 1, 3],
            Depth::Usual => &[0, 1, 2, 3, 17],
            Depth::Exhaustive => &[0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33],
        };
        for instruction in instructions::<G>(device) {
            let group = instruction.threads() / WARP;
            let most = if instruction.group { 8 } else { MOST_WARPS };
            for chains in CHAINS.into_iter().filter(|&chains| instruction.has(chains)) {
                for (warps, &iterations) in
                    [group, most].into_iter().flat_map(|w| iterations.iter().map(move |t| (w, t)))
                {
                    let spot = Spot { way: iterations, ..Spot::new(instruction, chains, warps) };
                    let on = format!("{warps} warps, {iterations} iterations");
                    report(Case { kernel: instruction.kernel(chains).name, on, wrong: bench.wrong(spot, iterations)? });
                }
                for way in 0..if instruction.sparse { WAYS } else { 1 } {
                    let spot = Spot { way, data: Data::Random, ..Spot::new(instruction, chains, group) };
                    let on = format!("random numbers, way {way}");
                    report(Case { kernel: instruction.kernel(chains).name, on, wrong: bench.wrong(spot, 1)? });
                }
            }
        }
        Ok(())
    }
}

/// Whether the hardware may keep sums in fewer bits than single precision.
fn few_bits(instruction: &Instruction) -> bool {
    matches!(instruction.number, Number::F8 | Number::F8E5m2)
}

/// A launch whose output is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remembered {
    spot: Spot,
    iterations: u32,
}

/// Shared by all points.
pub(crate) struct Bench<G: Gpu> {
    /// Its unit holds the kernels for the portable target.
    kit: Kit<G>,
    /// The kernels that need the architecture-specific target.
    specific: Option<Unit<G>>,
    input: G::Buffer,
    out: G::Buffer,
    expected: G::Buffer,
    cycles: G::Buffer,
}

impl<G: Gpu> Bench<G> {
    pub(crate) fn new(device: &G::Device) -> Result<Rc<Self>, Fault> {
        let of_target = |target: Target| -> Vec<KernelDesc> {
            let own = Instruction::supported_by(target).filter(|instruction| instruction.group == target.specific);
            own.flat_map(|instruction| {
                CHAINS.into_iter().filter(|&n| instruction.has(n)).map(|n| instruction.kernel(n))
            })
            .collect()
        };
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &of_target(G::target(device)), TRUST)?;
        let specific = |target| Unit::new_specific(device, &kernels::SOURCE, &of_target(target), TRUST);
        let specific = G::specific_target(device).map(specific).transpose()?;
        let blocks = u64::from(kit.unit.machine().multiprocessors);
        let bytes = |instruction: &&Instruction| oracle::block_bytes(instruction, 4, MOST_WARPS);
        let largest = instructions::<G>(device).iter().map(bytes).max().unwrap_or(0);
        let (out, expected) = (kit.array(blocks * largest)?, kit.array(blocks * largest)?);
        let (input, cycles) = (kit.array(oracle::INPUT_BYTES)?, kit.array(8 * blocks)?);
        Ok(Rc::new(Self { kit, specific, input, out, expected, cycles }))
    }

    /// Bytes of all accumulators.
    fn bytes(&self, spot: Spot) -> u64 {
        u64::from(self.kit.unit.machine().multiprocessors)
            * oracle::block_bytes(spot.instruction, spot.chains, spot.warps)
    }

    fn launch(&self, spot: Spot, arguments: Arguments) -> Result<G::Launch, Fault> {
        let kernel = spot.instruction.kernel(spot.chains).with_threads(spot.warps * WARP)?;
        let unit = self.specific.as_ref().filter(|_| spot.instruction.group).unwrap_or(&self.kit.unit);
        unit.launch(&kernel, 0, arguments)
    }

    fn arguments(&self) -> Arguments {
        Arguments::new().buffer(&self.out).buffer(&self.input)
    }

    /// Fills the input with the instruction's numbers, and the outputs with poison.
    fn begin(&self, spot: Spot) -> Result<(), Fault> {
        let input = oracle::input(spot.instruction.number, spot.data, spot.way);
        G::upload(self.kit.stream(), self.input.whole(), &input)?;
        self.kit.checker.poison(self.out.part(0, self.bytes(spot))?)
    }

    /// Samples of one block per SM with in-kernel timing; `operations` are those of one iteration.
    fn load(self: &Rc<Self>, spot: Spot, operations: f64) -> Result<InKernel<G>, Fault> {
        self.begin(spot)?;
        let launch = |cycles, iterations| self.launch(spot, self.arguments().span(cycles).u32(iterations));
        let (load, iterations) = long_enough(&self.kit, (operations, MOST_ITERATIONS), launch)?;
        let bench = Rc::clone(self);
        Ok(load.with_check(move |_| bench.compare(spot, iterations)))
    }

    /// Samples of longer launches of the same, timed by events.
    pub(crate) fn load_device(self: &Rc<Self>, spot: Spot) -> Result<Load<G>, Fault> {
        self.begin(spot)?;
        let launch = |cycles, iterations| self.launch(spot, self.arguments().span(cycles).u32(iterations));
        let (load, iterations) = whole_device(&self.kit, (spot.flop(), MOST_ITERATIONS), &self.cycles, launch)?;
        let bench = Rc::clone(self);
        Ok(load.with_check(move |_| bench.compare(spot, iterations)))
    }

    /// The fastest configuration of these instructions in a single launch, on `data`.
    pub(crate) fn fastest(&self, candidates: &[&'static Instruction], data: Data) -> Result<Option<Spot>, Fault> {
        let spots =
            candidates.iter().flat_map(|instruction| spots(instruction, true)).map(|spot| Spot { data, ..spot });
        quickest(spots, |spot| {
            self.begin(spot)?;
            let launch = |cycles, iterations| self.launch(spot, self.arguments().span(cycles).u32(iterations));
            glance(long_enough(&self.kit, (spot.flop(), MOST_ITERATIONS), launch)?, spot.flop())
        })
    }

    /// Runs a launch as long as those of [`Bench::load_device`] and keeps its output: the bits that the same launch must leave again.
    /// Also returns an error, if the oracle finds one after one iteration, or some blocks of the launch left other bits than most: all compute the
    /// same.
    pub(crate) fn remember(self: &Rc<Self>, spot: Spot) -> Result<(Remembered, Option<String>), Fault> {
        let (_, wrong) = self.error(spot)?;
        let launch = |cycles, iterations| self.launch(spot, self.arguments().span(cycles).u32(iterations));
        let (_, iterations) = whole_device(&self.kit, (spot.flop(), MOST_ITERATIONS), &self.cycles, launch)?;
        self.run(spot, iterations)?;
        let bytes = self.bytes(spot);
        let left = self.kit.download(self.out.part(0, bytes)?)?;
        let block = oracle::block_bytes(spot.instruction, spot.chains, spot.warps) as usize;
        let wrong = wrong.or_else(|| oracle::odd_block(&left, block));
        self.kit.run(&[Action::Copy(self.expected.part(0, bytes)?, self.out.part(0, bytes)?)])?;
        Ok((Remembered { spot, iterations }, wrong))
    }

    /// The remembered launch over and over. The check compares the bits of the last one.
    pub(crate) fn load_again(self: &Rc<Self>, first: Remembered) -> Result<Load<G>, Fault> {
        self.poison_again(first)?;
        let (launch, operations) = self.launch_again(first)?;
        let bench = Rc::clone(self);
        let load = self.kit.load(GRAPH, vec![launch], Work { operations, ..Work::default() })?;
        Ok(load.with_check(move |_| bench.compare_again(first)))
    }

    /// The remembered launch and its operations, for loads of several devices.
    pub(crate) fn launch_again(&self, first: Remembered) -> Result<(G::Launch, f64), Fault> {
        let Remembered { spot, iterations } = first;
        let launch = self.launch(spot, self.arguments().buffer(&self.cycles).u32(iterations))?;
        let multiprocessors = f64::from(self.kit.unit.machine().multiprocessors);
        Ok((launch, spot.flop() * f64::from(iterations) * multiprocessors))
    }

    /// Its stream.
    #[cfg(feature = "cuda")]
    pub(crate) fn stream(&self) -> &Arc<G::Stream> {
        self.kit.stream()
    }

    /// Cycles that the first block of the last launch took.
    #[cfg(feature = "cuda")]
    pub(crate) fn last_cycles(&self) -> Result<u64, Fault> {
        let bytes = self.kit.download(self.cycles.part(0, 8)?)?;
        Ok(bytes.try_into().map_or(0, u64::from_le_bytes))
    }

    /// Poisons what the remembered launch writes.
    pub(crate) fn poison_again(&self, first: Remembered) -> Result<(), Fault> {
        self.kit.checker.poison(self.out.part(0, self.bytes(first.spot))?)
    }

    /// The remembered launch once more, with a check of its bits.
    pub(crate) fn run_again(&self, first: Remembered) -> Result<Check, Fault> {
        self.run(first.spot, first.iterations)?;
        self.compare_again(first)
    }

    /// Compares the bits that the last launch left with those of the remembered one.
    pub(crate) fn compare_again(&self, first: Remembered) -> Result<Check, Fault> {
        let bytes = self.bytes(first.spot);
        let (out, expected) = (self.out.part(0, bytes)?, self.expected.part(0, bytes)?);
        Ok(match self.kit.checker.check_map(Op::Copy, Element::Word, out, [expected; 3], 0.0)? {
            Check::Failed(what) => {
                Check::Failed(format!("{}: other bits than the first launch: {what}", first.spot.kernel_name()))
            }
            Check::Passed => Check::Passed,
        })
    }

    /// Checks the accumulators after `iterations` iterations. If sums have fewer bits than single precision (8-bit floats on 9.0)
    /// or numbers are random, a new launch of one iteration is checked instead.
    fn compare(&self, spot: Spot, iterations: u32) -> Result<Check, Fault> {
        if spot.data == Data::Random {
            return Ok(self.error(spot)?.1.map_or(Check::Passed, Check::Failed));
        }
        if few_bits(spot.instruction) && iterations > 1 {
            return self.run_and_compare(spot, 1);
        }
        let one = oracle::block(spot.instruction, spot.way, spot.chains, spot.warps, iterations);
        let bytes = self.bytes(spot);
        let (out, expected) = (self.out.part(0, bytes)?, self.expected.part(0, bytes)?);
        G::upload(self.kit.stream(), expected, &one.repeat((bytes / one.len() as u64) as usize))?;
        self.kit.checker.check_map(Op::Copy, Element::Word, out, [expected; 3], 0.0)
    }

    /// One iteration's largest error relative to the products' magnitudes, and a description of any error beyond rounding.
    pub(crate) fn error(&self, spot: Spot) -> Result<(f64, Option<String>), Fault> {
        self.run(spot, 1)?;
        let left = self.kit.download(self.out.part(0, self.bytes(spot))?)?;
        let expected = oracle::expected(spot.instruction, (spot.data, spot.way), (spot.chains, spot.warps), 1);
        let block = oracle::block_bytes(spot.instruction, spot.chains, spot.warps) as usize;
        let mut worst = 0.0_f64;
        for (place, left) in left.chunks_exact(block).enumerate() {
            let (error, wrong) = oracle::compare(spot.instruction, &expected, left);
            if let Some(wrong) = wrong {
                return Ok((error, Some(format!("block {place}, {wrong}"))));
            }
            worst = worst.max(error);
        }
        Ok((worst, None))
    }

    /// Runs one launch of `iterations` iterations.
    fn run(&self, spot: Spot, iterations: u32) -> Result<(), Fault> {
        self.begin(spot)?;
        let launch = self.launch(spot, self.arguments().buffer(&self.cycles).u32(iterations))?;
        self.kit.run_once(&launch)
    }

    /// Runs one launch of `iterations` iterations and checks its output.
    fn run_and_compare(&self, spot: Spot, iterations: u32) -> Result<Check, Fault> {
        self.run(spot, iterations)?;
        // With few bits, only a single iteration is exact.
        if few_bits(spot.instruction) && iterations > 1 {
            return Ok(Check::Passed);
        }
        self.compare(spot, iterations)
    }

    /// Describes the error after `iterations` iterations; empty if there is none.
    fn wrong(&self, spot: Spot, iterations: u32) -> Result<String, Fault> {
        Ok(self.run_and_compare(spot, iterations)?.into_wrong())
    }
}
