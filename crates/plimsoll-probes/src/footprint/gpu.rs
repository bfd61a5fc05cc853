//! footprint on a GPU: read, copy and triad over private data of every block, from what L1 holds to memory.
//! `mod.rs` defines the figures, `kernel.cu` the kernels.

use super::kernels::{self, BLOCKS, THREADS};
use crate::footprint::{self, Kernel, Spread};
use crate::prelude::gpu::*;
use crate::sizes;

/// The largest footprint by default, bytes.
const LARGEST: u64 = 8 << 30;
/// Bytes of one array that a block covers in one round.
const ROUND: u64 = THREADS as u64 * 16;
/// Least bytes that an SM moves in a launch, where its own cache may hold its data and where not: the first pass, which fills the
/// caches, and the launch itself are then about a percent.
const PASSES: [u64; 2] = [64 << 20, 16 << 20];
/// More than an SM's own cache holds, bytes. Larger pieces are interleaved, so that memory sees one front.
const OWN: u64 = 320 << 10;
/// Beyond this footprint (bytes) no cache matters: octaves are enough.
const ALONE: u64 = 512 << 20;
/// The scalar of triad.
const SCALAR: f32 = 1.625;
/// More rounds than any memory holds.
const MOST_ROUNDS: u64 = 1 << 31;
/// Shares of the budget, which is sized for a CPU: in a quick run and otherwise.
const SHARES: [f64; 2] = [0.65, 0.5];

/// A kernel and its amount of data.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spot {
    kernel: Kernel,
    /// Rounds of a block through its piece of each array.
    rounds: u32,
    /// Blocks.
    blocks: u64,
}

impl Spot {
    fn desc(&self) -> KernelDesc {
        match self.kernel {
            Kernel::Read => kernels::read(),
            Kernel::Copy => kernels::copy(),
            Kernel::Triad => kernels::triad(),
        }
    }

    /// Bytes of one array.
    fn array(&self) -> u64 {
        self.blocks * u64::from(self.rounds) * ROUND
    }

    fn footprint(&self) -> u64 {
        let desc = self.desc();
        self.array() * u64::from(desc.inputs + desc.outputs)
    }

    /// Bytes of its output: one array, or for reads one word per warp of 32 threads.
    fn output_bytes(&self) -> u64 {
        if self.desc().outputs == 1 { self.array() } else { self.blocks * u64::from(THREADS) / 32 * 4 }
    }

    /// An odd number, so that the XOR of all reads equals that of the array.
    fn passes(&self, multiprocessors: u64) -> u64 {
        let least = PASSES[usize::from(self.is_interleaved())];
        (least * multiprocessors / self.footprint().max(1)) | 1
    }

    fn is_interleaved(&self) -> bool {
        self.footprint() / self.blocks.max(1) * u64::from(BLOCKS) > OWN
    }

    fn coordinates(&self) -> Spread {
        Spread { kernel: self.kernel, footprint: self.footprint().into() }
    }
}

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::Graphs];

    fn points(&self, device: &G::Device, request: &Request) -> usize {
        let multiprocessors = G::machine(device).map_or(1, |machine| machine.multiprocessors.into());
        spots(multiprocessors, request.bytes.unwrap_or(LARGEST), request.effort).len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let wanted = requested_bytes(session, LARGEST)?;
        // Reads need the whole in one array, copies half of it twice, triad a third three times.
        let (bytes, flags) = fit_arrays::<G>(session.device, 2, wanted)?;
        let bytes = bytes.min(wanted);
        let multiprocessors = u64::from(G::machine(session.device)?.multiprocessors);
        let spots = spots(multiprocessors, bytes, effort);
        let bench = Bench::<G>::new(session.device, &spots, session.request.seed)?;
        let share = SHARES[usize::from(effort != Effort::Quick)];
        let sweep = Sweep { series: footprint::curve(), points: &spots, share, flags };
        session.sweep(sweep, Spot::coordinates, |_, spot| bench.load(spot, spot.passes(multiprocessors)))?;
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let rounds: &[u32] = match depth {
            Depth::Small => &[1, 3],
            Depth::Usual => &[1, 2, 3, 4, 5, 7, 64],
            Depth::Exhaustive => &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 31, 32, 33, 64, 257],
        };
        let blocks = u64::from(G::machine(device)?.multiprocessors * BLOCKS);
        let with_rounds = |kernel| rounds.iter().map(move |&rounds| Spot { kernel, rounds, blocks });
        let spots: Vec<Spot> = Kernel::ALL.into_iter().flat_map(with_rounds).collect();
        let bench = Bench::<G>::new(device, &spots, 1)?;
        for spot in &spots {
            for passes in [1, 3, 5] {
                let arrays = bench.arrays(spot)?;
                bench.kit.run_once(&bench.launch(spot, passes, arrays)?)?;
                let wrong = check(&bench.kit.checker, spot, arrays)?.into_wrong();
                let on = format!("{} rounds, {passes} passes, {blocks} blocks", spot.rounds);
                report(Case { kernel: spot.desc().name, on, wrong });
            }
        }
        Ok(())
    }
}

/// The points: each kernel from the smallest footprint to the largest.
fn spots(multiprocessors: u64, largest: u64, effort: Effort) -> Vec<Spot> {
    let blocks = multiprocessors.max(1) * u64::from(BLOCKS);
    let per_octave = |kernel| match effort {
        Effort::Thorough => 4,
        _ => 2 + u32::from(kernel == Kernel::Read),
    };
    let by_kernel = |kernel| {
        let spot = move |rounds: u64| Spot { kernel, rounds: rounds as u32, blocks };
        let is_wanted = move |rounds: &u64| {
            effort == Effort::Thorough || rounds.is_power_of_two() || spot(*rounds).footprint() <= ALONE
        };
        let all = sizes::per_octave(1, MOST_ROUNDS, per_octave(kernel), 1).into_iter().filter(is_wanted);
        all.map(spot).take_while(move |spot| spot.rounds == 1 || spot.footprint() <= largest)
    };
    Kernel::ALL.into_iter().flat_map(by_kernel).collect()
}

/// State shared by all points: the kernels, a source that holds two arrays, and a target.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    source: G::Buffer,
    target: G::Buffer,
}

/// The arrays of a point: out, a, b.
type Arrays = [Span; 3];

impl<G: Gpu> Bench<G> {
    /// Allocates room for the largest of the points.
    fn new(device: &G::Device, spots: &[Spot], seed: u64) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let most = |size: fn(&Spot) -> u64| spots.iter().map(size).max().unwrap_or(ROUND);
        let (source, target) = (most(|spot| u64::from(spot.desc().inputs) * spot.array()), most(Spot::output_bytes));
        let (source, target) = (kit.array(source)?, kit.array(target)?);
        kit.checker.fill(Data::Unit, Element::F32, source.whole(), seed)?;
        Ok(Self { kit, source, target })
    }

    /// A point's arrays, the output poisoned.
    fn arrays(&self, spot: &Spot) -> Result<Arrays, Fault> {
        let (desc, bytes) = (spot.desc(), spot.array());
        let a = self.source.part(0, bytes)?;
        let b = if desc.inputs == 2 { self.source.part(bytes, bytes)? } else { a };
        let out = self.target.part(0, spot.output_bytes())?;
        self.kit.checker.poison(out)?;
        Ok([out, a, b])
    }

    fn launch(&self, spot: &Spot, passes: u64, [out, a, b]: Arrays) -> Result<G::Launch, Fault> {
        let steps = u64::from(spot.rounds) * passes;
        let (apart, step) = if spot.is_interleaved() { (1, spot.blocks as u32) } else { (spot.rounds, 1) };
        let arguments = Arguments::new().span(out).span(a).span(b).f32(SCALAR).u32(apart).u32(step);
        let arguments = arguments.u32(spot.rounds).u64(steps);
        self.kit.unit.launch(&spot.desc().with_grid(Grid::Blocks(spot.blocks as u32)), spot.array() / 4, arguments)
    }

    fn load(&self, spot: &Spot, passes: u64) -> Result<Load<G>, Fault> {
        let (desc, arrays) = (spot.desc(), self.arrays(spot)?);
        let moved = |arrays: u32| passes * spot.array() * u64::from(arrays);
        let work = Work { traffic: Traffic::new(moved(desc.inputs), moved(desc.outputs)), ..Work::default() };
        let load = self.kit.load(GRAPH, vec![self.launch(spot, passes, arrays)?], work)?;
        let (checker, spot) = (Rc::clone(&self.kit.checker), *spot);
        Ok(load.with_check(move |_| check(&checker, &spot, arrays)))
    }
}

/// Checks the output of a kernel.
fn check<G: Gpu>(checker: &Checker<G>, spot: &Spot, [out, a, b]: Arrays) -> Result<Check, Fault> {
    match spot.kernel {
        Kernel::Read => Ok(Checker::<G>::compare_folds("read", checker.xor_words(out)?, checker.xor_words(a)?)),
        Kernel::Copy => checker.check_map(Op::Copy, Element::Word, out, [a; 3], 0.0),
        Kernel::Triad => checker.check_map(Op::Triad, Element::F32, out, [a, b, a], SCALAR.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footprints_grow_to_the_largest_and_their_arrays_fit() {
        for (multiprocessors, largest) in [(132, LARGEST), (1, 1 << 20), (80, 1)] {
            let spots = spots(multiprocessors, largest, Effort::Quick);
            for kernel in Kernel::ALL {
                let sizes: Vec<u64> = spots.iter().filter(|spot| spot.kernel == kernel).map(Spot::footprint).collect();
                assert!(!sizes.is_empty() && sizes.windows(2).all(|pair| pair[0] < pair[1]), "{sizes:?}");
                assert!(sizes.len() == 1 || sizes[sizes.len() - 1] <= largest);
            }
        }
    }

    #[test]
    fn passes_are_odd_and_enough_to_outweigh_the_first() {
        for spot in spots(132, LARGEST, Effort::Standard) {
            let passes = spot.passes(132);
            assert!(passes % 2 == 1 && (passes + 1) * spot.footprint() >= PASSES[1] * 132);
        }
    }
}
