//! Verifies every kernel of a source with the checking kernels, at awkward sizes: around multiples of its vectors and blocks,
//! primes, zero and, if memory allows, more than 2³² bytes per array. Outputs and the guards after them are poisoned before; the
//! guards must still be poison after. Used by each probe's `verify`.

use std::collections::BTreeSet;

use plimsoll_core::Fault;
use plimsoll_core::probe::{Case, Depth};
use plimsoll_core::sample::Check;
use plimsoll_gen::kernel::Op;
use plimsoll_gen::kernel::check::Data;
use plimsoll_gen::kernel::{Element, Grid, KernelDesc, Machine, Output, Source};

use crate::checker::Checker;
use crate::kit::{Kit, combine_checks};
use crate::launch::Arguments;
use crate::{Gpu, Memory as _, Span, Trust};

/// The scalar argument of all kernels.
pub const SCALAR: f32 = 1.625;
/// Seed of the inputs.
const SEED: u64 = 0x706c_696d;
/// Bytes after each output that must not change.
const GUARD: u64 = 4096;
/// Bytes per array of the large case: more than 32 bits can count.
const LARGE: u64 = (1 << 32) + (1 << 20);
/// Share of the free memory that is used at most.
const SHARE: f64 = 0.9;
/// A grid that makes every looping kernel loop, with uneven numbers of iterations.
const FEW: Grid = Grid::Blocks(3);

/// The operands of a kernel in one case.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'s> {
    /// Elements of each array.
    pub n: u64,
    /// Memory for results: outputs are a pitch apart, and guards follow them.
    pub out: Span,
    /// All memory that is read.
    pub input: Span,
    /// The input arrays in `input`, n elements each and a pitch apart.
    pub inputs: &'s [Span],
    /// Bytes from one array to the next.
    pub pitch: u64,
    /// A word for grid barriers.
    pub barrier: Span,
}

impl Operands<'_> {
    /// Input number `number`; if there are fewer inputs, some memory that the kernel doesn't read.
    #[must_use]
    pub fn input(&self, number: usize) -> Span {
        self.inputs.get(number).copied().unwrap_or(self.input)
    }
}

/// What a kernel of [`Output::Map`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapOutput {
    /// An operation on its inputs and [`SCALAR`].
    Map(Op, Element),
    /// A mix of all inputs for each of its outputs.
    Mix,
}

/// How the kernels of one source are called, and what they write.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Builds a kernel's arguments.
    pub arguments: fn(&KernelDesc, &Operands<'_>) -> Arguments,
    /// What a kernel of [`Output::Map`] writes; `None` for a kernel that isn't of the source.
    pub map_output: fn(&KernelDesc) -> Option<MapOutput>,
    /// Numbers of elements at which a kernel is likely to fail; [`awkward_sizes`] for most sources.
    pub sizes: fn(&KernelDesc, Machine, Depth) -> BTreeSet<u64>,
}

/// Verifies all kernels of `source` that this device can launch. Wrong results are reported as cases, not as errors.
pub fn check_source<G: Gpu>(
    device: &G::Device,
    source: &'static Source,
    rules: Rules,
    (depth, trust): (Depth, Trust),
    report: &mut dyn FnMut(Case),
) -> Result<(), Fault> {
    let kernels: Vec<KernelDesc> =
        source.kernels(G::target(device)).into_iter().filter(|kernel| is_launchable::<G>(kernel, device)).collect();
    let bench = Bench::<G>::new(device, source, &kernels, rules, (depth, trust))?;
    report(bench.kit.checker.self_test()?);
    let mut data = None;
    for kernel in &kernels {
        bench.fill(kernel, &mut data)?;
        for n in (rules.sizes)(kernel, bench.kit.unit.machine(), depth) {
            bench.report_case(kernel, n, "", report)?;
        }
        if kernel.looping && kernel.output != Output::None {
            let few = kernel.clone().with_grid(FEW);
            for n in [kernel.elements_per_block() * 7 + 5, 65_537] {
                bench.report_case(&few, n, ", 3 blocks", report)?;
            }
        }
        if bench.large {
            bench.report_case(kernel, LARGE / u64::from(kernel.element.bytes()) + 1, "", report)?;
        }
    }
    Ok(())
}

fn is_launchable<G: Gpu>(kernel: &KernelDesc, device: &G::Device) -> bool {
    let has = G::capabilities(device);
    (!kernel.dependent || has.dependent.is_ok())
        && (!kernel.cooperative || has.cooperative.is_ok())
        && kernel.threads <= has.limits.threads
        && G::runs(device, kernel).is_ok()
}

/// Numbers of elements at which a kernel is likely to fail: around multiples of its vectors and blocks, primes, zero.
#[must_use]
pub fn awkward_sizes(kernel: &KernelDesc, machine: Machine, depth: Depth) -> BTreeSet<u64> {
    let (lanes, block) = (u64::from(kernel.lanes()), kernel.elements_per_block());
    if depth == Depth::Small {
        return [0, 1, 33, block - 1, block + lanes + 1].into();
    }
    let mut sizes: BTreeSet<u64> = [0, 1, 31, 32, 33, 1025, 97, 1009, 65_537].into();
    let warp = 32 * lanes;
    sizes.extend([lanes, warp, block, 2 * block].into_iter().flat_map(|n| [n.saturating_sub(1), n, n + 1]));
    if kernel.looping {
        // Sizes around the one where every block has done one iteration and the first begins another.
        let resident =
            u64::from(machine.multiprocessors) * u64::from(machine.threads_per_multiprocessor / kernel.threads);
        sizes.extend([(resident * block).saturating_sub(1), resident * block + 1]);
    }
    if depth == Depth::Exhaustive {
        sizes.extend(0..=2500);
    }
    sizes
}

/// Kernels and memory for all cases of one source.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    rules: Rules,
    out: G::Buffer,
    input: G::Buffer,
    /// Poison that the guards are compared with.
    poisoned: G::Buffer,
    barrier: G::Buffer,
    /// Whether memory is large enough for the large case.
    large: bool,
}

impl<G: Gpu> Bench<G> {
    fn new(
        device: &G::Device,
        source: &'static Source,
        kernels: &[KernelDesc],
        rules: Rules,
        (depth, trust): (Depth, Trust),
    ) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, source, kernels, trust)?;
        let machine = kit.unit.machine();
        let most = |count: fn(&KernelDesc) -> u32| u64::from(kernels.iter().map(count).max().unwrap_or(0).max(1));
        let (inputs, outputs) = (most(|kernel| kernel.inputs), most(|kernel| kernel.outputs));
        let bytes = |kernel: &KernelDesc| {
            let usual = (rules.sizes)(kernel, machine, depth).last().copied().unwrap_or(0);
            usual.max(kernel.elements_per_block() * 7 + 5).max(65_537) * u64::from(kernel.element.bytes())
        };
        let usual = kernels.iter().map(bytes).max().unwrap_or(0) + 2 * GUARD;
        let free = (G::free_memory(device)? as f64 * SHARE) as u64;
        let moving = kernels.iter().any(|kernel| kernel.inputs + kernel.outputs > 0);
        let together = |arrays: u64| arrays * (LARGE + 3 * GUARD);
        let allowed = together(inputs.max(outputs)) <= G::capabilities(device).limits.allocation;
        let large = depth != Depth::Small && moving && allowed && together(inputs + outputs) <= free;
        let each = if large { usual.max(LARGE + 3 * GUARD) } else { usual };
        let (out, input) = (kit.array(outputs * each)?, kit.array(inputs * each)?);
        let (poisoned, barrier) = (kit.array(GUARD)?, kit.array(4)?);
        kit.checker.poison(poisoned.whole())?;
        kit.checker.fill_words(barrier.whole(), 0)?;
        Ok(Self { kit, rules, out, input, poisoned, barrier, large })
    }

    /// Fills the inputs with data on which this kernel's result can be checked, unless they already hold it.
    fn fill(&self, kernel: &KernelDesc, filled: &mut Option<(Data, Element)>) -> Result<(), Fault> {
        let wanted = match kernel.element {
            Element::Word | Element::Vector16 => (Data::Bits, Element::Word),
            element if kernel.output == Output::WarpSums => (Data::Small, element),
            element => (Data::Unit, element),
        };
        if filled.replace(wanted) != Some(wanted) {
            self.kit.checker.fill(wanted.0, wanted.1, self.input.whole(), SEED)?;
        }
        Ok(())
    }

    fn report_case(&self, kernel: &KernelDesc, n: u64, how: &str, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let wrong = self.run_case(kernel, n)?.into_wrong();
        report(Case { kernel: kernel.name.clone(), on: format!("n = {n}{how}"), wrong });
        Ok(())
    }

    /// Runs a kernel once and checks its outputs and the guards after them.
    fn run_case(&self, kernel: &KernelDesc, n: u64) -> Result<Check, Fault> {
        let bytes = n * u64::from(kernel.element.bytes());
        // Arrays follow each other with a guard between them, aligned for any vector.
        let pitch = bytes.next_multiple_of(GUARD) + GUARD;
        let inputs: Vec<Span> =
            (0..u64::from(kernel.inputs)).map(|k| self.input.part(k * pitch, bytes)).collect::<Result<_, Fault>>()?;
        let operands = Operands {
            n,
            out: self.out.whole(),
            input: self.input.whole(),
            inputs: &inputs,
            pitch,
            barrier: self.barrier.whole(),
        };
        let arguments = (self.rules.arguments)(kernel, &operands);
        let touched = self.kit.unit.touched(kernel, n, &arguments)?;
        let written = touched.iter().find(|array| !array.access.reads()).map_or(0, |array| array.span.bytes());
        // Several outputs of a kernel are one array, in which they are a pitch apart.
        let outputs = u64::from(kernel.outputs.max(1));
        let left = written.saturating_sub((outputs - 1) * pitch);
        self.kit.checker.poison(self.out.part(0, written + GUARD)?)?;
        let launch = self.kit.unit.launch(kernel, n, arguments)?;
        G::bind(self.kit.stream())?;
        G::launch(self.kit.stream(), &launch)?;
        let result = self.check_result(kernel, n, &inputs, left, pitch);
        let guards = (0..outputs).map(|k| self.check_guard(k * pitch + left));
        combine_checks(std::iter::once(result).chain(guards))
    }

    fn check_result(
        &self,
        kernel: &KernelDesc,
        n: u64,
        inputs: &[Span],
        left: u64,
        pitch: u64,
    ) -> Result<Check, Fault> {
        let checker = &self.kit.checker;
        let (out, bytes) = (self.out.part(0, left)?, n * u64::from(kernel.element.bytes()));
        let operand = |k: usize| inputs.get(k).copied().unwrap_or(out);
        match kernel.output {
            Output::WarpBits => {
                let expected =
                    inputs.iter().try_fold(0, |bits, input| Ok::<_, Fault>(bits ^ checker.xor_words(*input)?))?;
                Ok(Checker::<G>::compare_folds(&kernel.name, checker.xor_words(out)?, expected))
            }
            Output::WarpSums => {
                let found = checker.sum_products(kernel.element, out, None)?;
                let expected = checker.sum_products(kernel.element, operand(0), Some(operand(1)))?;
                let wrong = || Check::Failed(format!("the sum is {found}, not {expected}"));
                Ok(if found == expected { Check::Passed } else { wrong() })
            }
            Output::Map => match (self.rules.map_output)(kernel) {
                Some(MapOutput::Map(op, element)) => {
                    checker.check_map(op, element, out, [operand(0), operand(1), operand(2)], SCALAR.into())
                }
                Some(MapOutput::Mix) => {
                    let out = self.out.whole();
                    checker.check_mix(out, self.input.whole(), (pitch, bytes), (kernel.inputs, kernel.outputs))
                }
                None => {
                    let why = format!("no rule says what {} writes: this is a bug in plimsoll", kernel.name);
                    Err(Fault::Invalid(why))
                }
            },
            Output::BlockMarks => checker.check_marks(out),
            Output::None => G::wait(self.kit.stream()).map(|()| Check::Passed),
        }
    }

    /// Checks that the guard after an output is still poison.
    fn check_guard(&self, from: u64) -> Result<Check, Fault> {
        let guard = self.out.part(from, GUARD)?;
        let poison = self.poisoned.whole();
        let check = self.kit.checker.check_map(Op::Copy, Element::Word, guard, [poison; 3], 0.0)?;
        Ok(match check {
            Check::Passed => Check::Passed,
            Check::Failed(_) => Check::Failed("the kernel wrote past the end of the output".to_owned()),
        })
    }
}
