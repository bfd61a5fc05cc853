//! tensor on a GPU: every matrix instruction in one block per SM, by its own clock, and the fastest of each on
//! the whole device by the device's time. What the figures mean is `crate::tensor`'s; the kernels are
//! `kernel.cu`'s, what their results must be `tensor_oracle`'s.

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
/// Ways in which a sparse row's numbers may stand.
const WAYS: u32 = 6;
/// Most iterations of a loop: sums of small whole numbers stay exact in single precision.
const MOST_TURNS: u32 = 3072;

/// The probe.
#[derive(Debug)]
pub struct Runner;

/// An instruction in so many chains and so many warps, on what numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spot {
    pub(crate) of: &'static Instruction,
    chains: u32,
    warps: u32,
    pub(crate) data: Data,
    /// Where a sparse instruction's numbers stand: which of the ways that there are.
    way: u32,
}

impl Spot {
    fn new(of: &'static Instruction, chains: u32, warps: u32) -> Self {
        Self { of, chains, warps, data: Data::Whole, way: 0 }
    }

    fn at(&self) -> Configuration {
        Configuration { instruction: self.of.name.into(), chains: self.chains.into(), warps: self.warps.into() }
    }

    fn by_instruction(&self) -> ByInstruction {
        ByInstruction { instruction: self.of.name.into() }
    }

    /// Operations of one SM in one iteration.
    fn flop(&self) -> f64 {
        self.instructions() * self.of.operations() as f64
    }

    /// Instructions of one SM in one iteration.
    fn instructions(&self) -> f64 {
        f64::from(self.of.steps(self.chains) * self.chains * self.warps * WARP / self.of.threads())
    }
}

/// The instructions of a device.
pub(crate) fn instructions<G: Gpu>(device: &G::Device) -> Vec<&'static Instruction> {
    Instruction::of(G::specific_target(device).unwrap_or(G::target(device))).collect()
}

/// Those of dense matrices, which this probe measures.
pub(crate) fn dense<G: Gpu>(device: &G::Device) -> Vec<&'static Instruction> {
    instructions::<G>(device).into_iter().filter(|of| !of.sparse).collect()
}

/// One chain of as few warps as work together.
fn alone<G: Gpu>(device: &G::Device) -> Vec<Spot> {
    dense::<G>(device).into_iter().map(|of| Spot::new(of, 1, of.threads() / WARP)).collect()
}

fn searched<G: Gpu>(device: &G::Device, effort: Effort) -> Vec<Spot> {
    dense::<G>(device).into_iter().flat_map(|of| spots(of, effort == Effort::Quick)).collect()
}

/// The configurations in which an instruction may be fastest; few where `quick`.
fn spots(of: &'static Instruction, quick: bool) -> impl Iterator<Item = Spot> {
    let warps: &[u32] = match (of.group, quick) {
        (true, _) => &[4, 8],
        (false, true) => &[4, 16],
        (false, false) => &[1, 2, 4, 8, 16],
    };
    let chains = CHAINS.into_iter().filter(|&chains| of.has(chains));
    chains.flat_map(move |chains| warps.iter().map(move |&warps| Spot::new(of, chains, warps)))
}

/// Where each instruction went fastest. Its figure is left behind: it is measured again.
fn fastest(series: &Series, spots: &[Spot], of: &[Spot]) -> Vec<Spot> {
    let best = |one: &Spot| {
        let (row, _) = series.best("rate", |row| series.text(row, "instruction") == Some(one.of.name))?;
        spots.iter().copied().find(|spot| spot.at().to_values() == row.at)
    };
    of.iter().filter_map(best).collect()
}

impl<G: Gpu> Probe<G> for Runner {
    fn spec(&self) -> &'static ProbeSpec {
        &tensor::SPEC
    }

    fn needs(&self) -> &'static [Need] {
        const { &[Need::Code(&kernels::SOURCE), Need::KernelClock, Need::Graphs] }
    }

    fn points(&self, device: &G::Device, request: &Request) -> usize {
        searched::<G>(device, request.effort).len() + 3 * dense::<G>(device).len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let begin = session.clock().now();
        let effort = session.request.effort;
        let (alone, all) = (alone::<G>(session.device), searched::<G>(session.device, effort));
        let bench = Bench::<G>::new(session.device)?;
        let late = elapsed_share(session, begin, tensor::SPEC.budget(effort));
        let sweep = Sweep { series: tensor::latency(), points: &alone, share: 0.1 + late, flags: Flags::NONE };
        session.sweep(sweep, Spot::by_instruction, |_, spot| bench.load(*spot, spot.instructions()))?;
        let sweep = Sweep { series: tensor::multiprocessor(), points: &all, share: 0.3, flags: Flags::NONE };
        let series = session.sweep(sweep, Spot::at, |_, spot| bench.load(*spot, spot.flop()))?;
        let fastest = fastest(series, &all, &alone);
        let sweep = Sweep { series: tensor::saturated(), points: &fastest, share: 0.1, flags: Flags::NONE };
        session.sweep(sweep, Spot::at, |_, spot| bench.load(*spot, spot.flop()))?;
        let sweep = Sweep { series: tensor::device(), points: &fastest, share: 0.5, flags: Flags::NONE };
        session.sweep(sweep, Spot::by_instruction, |_, spot| Ok(Steady::new(bench.whole(*spot)?)))?;
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::<G>::new(device)?;
        let iterations: &[u32] = match depth {
            Depth::Small => &[0, 1, 3],
            Depth::Usual => &[0, 1, 2, 3, 17],
            Depth::Exhaustive => &[0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33],
        };
        for of in instructions::<G>(device) {
            let group = of.threads() / WARP;
            let most = if of.group { 8 } else { MOST_WARPS };
            for chains in CHAINS.into_iter().filter(|&chains| of.has(chains)) {
                for (warps, &iterations) in
                    [group, most].into_iter().flat_map(|w| iterations.iter().map(move |t| (w, t)))
                {
                    let spot = Spot { way: iterations, ..Spot::new(of, chains, warps) };
                    let on = format!("{warps} warps, {iterations} iterations");
                    report(Case { kernel: of.kernel(chains).name, on, wrong: bench.wrong(spot, iterations)? });
                }
                for way in 0..if of.sparse { WAYS } else { 1 } {
                    let spot = Spot { way, data: Data::Random, ..Spot::new(of, chains, group) };
                    let on = format!("random numbers, way {way}");
                    report(Case { kernel: of.kernel(chains).name, on, wrong: bench.wrong(spot, 1)? });
                }
            }
        }
        Ok(())
    }
}

/// Whether sums may be kept in fewer bits than single precision has.
fn few_bits(of: &Instruction) -> bool {
    matches!(of.number, Number::F8 | Number::F8E5m2)
}

/// Shared by all points.
pub(crate) struct Bench<G: Gpu> {
    /// Its unit has what every form of the target has.
    kit: Kit<G>,
    /// What only the architecture-specific form has.
    specific: Option<Unit<G>>,
    input: G::Buffer,
    out: G::Buffer,
    expected: G::Buffer,
    cycles: G::Buffer,
}

impl<G: Gpu> Bench<G> {
    pub(crate) fn new(device: &G::Device) -> Result<Rc<Self>, Fault> {
        let of_target = |target: Target| -> Vec<KernelDesc> {
            let own = Instruction::of(target).filter(|of| of.group == target.specific);
            own.flat_map(|of| CHAINS.into_iter().filter(|&n| of.has(n)).map(|n| of.kernel(n))).collect()
        };
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &of_target(G::target(device)), TRUST)?;
        let specific = |target| Unit::new_specific(device, &kernels::SOURCE, &of_target(target), TRUST);
        let specific = G::specific_target(device).map(specific).transpose()?;
        let blocks = u64::from(kit.unit.machine().multiprocessors);
        let bytes = |of: &&Instruction| oracle::block_bytes(of, 4, MOST_WARPS);
        let largest = instructions::<G>(device).iter().map(bytes).max().unwrap_or(0);
        let (out, expected) = (kit.array(blocks * largest)?, kit.array(blocks * largest)?);
        let (input, cycles) = (kit.array(oracle::INPUT_BYTES)?, kit.array(8 * blocks)?);
        Ok(Rc::new(Self { kit, specific, input, out, expected, cycles }))
    }

    /// Bytes of all accumulators.
    fn bytes(&self, spot: Spot) -> u64 {
        u64::from(self.kit.unit.machine().multiprocessors) * oracle::block_bytes(spot.of, spot.chains, spot.warps)
    }

    fn launch(&self, spot: Spot, arguments: Arguments) -> Result<G::Launch, Fault> {
        let kernel = spot.of.kernel(spot.chains).with_threads(spot.warps * WARP)?;
        let unit = self.specific.as_ref().filter(|_| spot.of.group).unwrap_or(&self.kit.unit);
        unit.launch(&kernel, 0, arguments)
    }

    fn arguments(&self) -> Arguments {
        Arguments::new().buffer(&self.out).buffer(&self.input)
    }

    /// Fills the input with the instruction's numbers, and the outputs with poison.
    fn begin(&self, spot: Spot) -> Result<(), Fault> {
        let input = oracle::input(spot.of.number, spot.data, spot.way);
        G::upload(self.kit.stream(), self.input.whole(), &input)?;
        self.kit.checker.poison(self.out.part(0, self.bytes(spot))?)
    }

    /// Samples of one block per SM by its own clock; `operations` are those of one iteration.
    fn load(self: &Rc<Self>, spot: Spot, operations: f64) -> Result<InKernel<G>, Fault> {
        self.begin(spot)?;
        let launch = |cycles, iterations| self.launch(spot, self.arguments().span(cycles).u32(iterations));
        let (load, iterations) = long_enough(&self.kit, (operations, MOST_TURNS), launch)?;
        let bench = Rc::clone(self);
        Ok(load.with_check(move |_| bench.compare(spot, iterations)))
    }

    /// Samples of longer launches of the same by the device's time.
    pub(crate) fn whole(self: &Rc<Self>, spot: Spot) -> Result<Load<G>, Fault> {
        self.begin(spot)?;
        let launch = |cycles, iterations| self.launch(spot, self.arguments().span(cycles).u32(iterations));
        let (load, iterations) = whole_device(&self.kit, (spot.flop(), MOST_TURNS), &self.cycles, launch)?;
        let bench = Rc::clone(self);
        Ok(load.with_check(move |_| bench.compare(spot, iterations)))
    }

    /// The configuration in which one of these is fastest at a glance, on these numbers.
    pub(crate) fn fastest(&self, of: &[&'static Instruction], data: Data) -> Result<Option<Spot>, Fault> {
        let spots = of.iter().flat_map(|of| spots(of, true)).map(|spot| Spot { data, ..spot });
        quickest(spots, |spot| {
            self.begin(spot)?;
            let launch = |cycles, iterations| self.launch(spot, self.arguments().span(cycles).u32(iterations));
            glance(long_enough(&self.kit, (spot.flop(), MOST_TURNS), launch)?, spot.flop())
        })
    }

    /// Are the accumulators what so many iterations make of them? Where sums are kept in fewer bits than single precision has
    /// (8-bit floats on 9.0) or numbers are random, one iteration is made again.
    fn compare(&self, spot: Spot, iterations: u32) -> Result<Check, Fault> {
        if spot.data == Data::Random {
            return Ok(self.error(spot)?.1.map_or(Check::Passed, Check::Failed));
        }
        if few_bits(spot.of) && iterations > 1 {
            return self.again(spot, 1);
        }
        let one = oracle::block(spot.of, spot.way, spot.chains, spot.warps, iterations);
        let bytes = self.bytes(spot);
        let (out, expected) = (self.out.part(0, bytes)?, self.expected.part(0, bytes)?);
        G::upload(self.kit.stream(), expected, &one.repeat((bytes / one.len() as u64) as usize))?;
        self.kit.checker.check_map(Op::Copy, Element::Word, out, [expected; 3], 0.0)
    }

    /// One iteration's largest error relative to the products' magnitudes, and what is wrong beyond what rounding explains.
    pub(crate) fn error(&self, spot: Spot) -> Result<(f64, Option<String>), Fault> {
        self.run(spot, 1)?;
        let mut left = vec![0; self.bytes(spot) as usize];
        G::download(self.kit.stream(), self.out.part(0, self.bytes(spot))?, &mut left)?;
        let expected = oracle::expected(spot.of, (spot.data, spot.way), (spot.chains, spot.warps), 1);
        let block = oracle::block_bytes(spot.of, spot.chains, spot.warps) as usize;
        let mut worst = 0.0_f64;
        for (place, left) in left.chunks_exact(block).enumerate() {
            let (error, wrong) = oracle::compare(spot.of, &expected, left);
            if let Some(wrong) = wrong {
                return Ok((error, Some(format!("block {place}, {wrong}"))));
            }
            worst = worst.max(error);
        }
        Ok((worst, None))
    }

    /// One launch of so many iterations.
    fn run(&self, spot: Spot, iterations: u32) -> Result<(), Fault> {
        self.begin(spot)?;
        let launch = self.launch(spot, self.arguments().buffer(&self.cycles).u32(iterations))?;
        self.kit.run(&[Action::Launch(launch)])
    }

    /// One launch of so many iterations, and what it leaves.
    fn again(&self, spot: Spot, iterations: u32) -> Result<Check, Fault> {
        self.run(spot, iterations)?;
        // Few iterations of few products are exact in any format.
        if few_bits(spot.of) && iterations > 1 {
            return Ok(Check::Passed);
        }
        self.compare(spot, iterations)
    }

    /// What is wrong with so many iterations; empty where nothing is.
    fn wrong(&self, spot: Spot, iterations: u32) -> Result<String, Fault> {
        Ok(match self.again(spot, iterations)? {
            Check::Passed => String::new(),
            Check::Failed(wrong) => wrong,
        })
    }
}
