//! Verifies every kernel of a source with the checking kernels, at awkward sizes: around multiples of its vectors and blocks,
//! primes, zero and, if memory allows, more than 2³² bytes per array. Outputs and the guards after them are poisoned before; the
//! guards must still be poison after. Used by each probe's `verify`.

use std::collections::BTreeSet;

use plimsoll_core::Fault;
use plimsoll_core::probe::{Case, Depth};
use plimsoll_core::sample::Check;
use plimsoll_gen::kernel::Op;
use plimsoll_gen::kernel::check::Data;
use plimsoll_gen::kernel::{Element, Grid, KernelDesc, Machine, Output};

use crate::kit::{Kit, combine_checks};
use crate::rules::{Operands, Rules, written_bytes};
use crate::{Gpu, Memory as _, Span, Trust};

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

impl Rules {
    /// Verifies all kernels of the source that this device can launch. Wrong results are reported as cases, not as errors.
    pub fn verify<G: Gpu>(
        self,
        device: &G::Device,
        (depth, trust): (Depth, Trust),
        report: &mut dyn FnMut(Case),
    ) -> Result<(), Fault> {
        let kernels = self.source.kernels(G::target(device)).into_iter();
        let kernels: Vec<KernelDesc> = kernels.filter(|kernel| is_launchable::<G>(kernel, device)).collect();
        let bench = Bench::<G>::new(device, &kernels, self, (depth, trust))?;
        report(bench.kit.checker.self_test()?);
        let mut data = None;
        for kernel in &kernels {
            bench.fill(kernel, &mut data)?;
            for n in (self.sizes)(kernel, bench.kit.unit.machine(), depth) {
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
        kernels: &[KernelDesc],
        rules: Rules,
        (depth, trust): (Depth, Trust),
    ) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, rules.source, kernels, trust)?;
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
            count: self.rules.count,
        };
        let arguments = (self.rules.arguments)(kernel, &operands);
        // Several outputs of a kernel are one array, in which they are a pitch apart.
        let outputs = u64::from(kernel.outputs.max(1));
        let left = written_bytes(&self.kit.unit, kernel, n, pitch, &arguments)?;
        self.kit.checker.poison(self.out.part(0, (outputs - 1) * pitch + left + GUARD)?)?;
        let launch = self.kit.unit.launch(kernel, n, arguments)?;
        G::bind(self.kit.stream())?;
        G::launch(self.kit.stream(), &launch)?;
        G::wait(self.kit.stream())?;
        let result = self.rules.check(&self.kit.checker, kernel, &operands, left);
        let guards = (0..outputs).map(|k| self.check_guard(k * pitch + left));
        combine_checks(std::iter::once(result).chain(guards))
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
