//! mix on a GPU: every mix by burst, the best burst of each measured again, and the copy in phases through L2.
//! `crate::mix` explains the figures; the kernels are in `kernel.cu`.

use plimsoll_core::series::{Axes as _, Row};
use plimsoll_gpu::rules::{MapOutput, Rules};

use super::kernels;
use crate::mix::{self, Burst, Phase, Sides};
use crate::prelude::gpu::*;

/// Arrays on each side.
const SIDE: u64 = kernels::MOST as u64;
/// Bytes of a vector, the kernels' unit.
const VECTOR: u64 = 16;
/// Shares of L2 that a phase reads before it writes.
const PHASES: [u64; 5] = [32, 16, 8, 4, 2];

/// Arrays read, arrays written, and consecutive accesses to each.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Variant {
    reads: u32,
    writes: u32,
    burst: u32,
}

impl Variant {
    fn kernel(self) -> KernelDesc {
        kernels::mix(self.reads, self.writes, self.burst)
    }

    fn burst_coordinates(&self) -> Burst {
        Burst { reads: self.reads.into(), writes: self.writes.into(), burst: self.burst.into() }
    }

    fn sides_coordinates(&self) -> Sides {
        Sides { reads: self.reads.into(), writes: self.writes.into() }
    }
}

/// How the kernels are called and verified. Only the phased copy takes a number of vectors per phase; when it is verified, one that
/// isn't a power of two.
const RULES: Rules = Rules {
    arguments: |kernel, with| {
        let list = Arguments::new().span(with.out).span(with.input);
        if kernel.cooperative {
            list.u64(with.count).u64(with.n).span(with.barrier)
        } else {
            list.u64(with.pitch / 16).u64(with.n)
        }
    },
    map_output: |kernel| {
        Some(if kernel.cooperative { MapOutput::Map(Op::Copy, Element::Word) } else { MapOutput::Mix })
    },
    count: 1000,
    ..Rules::new(&kernels::SOURCE)
};

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::Graphs];

    fn points(&self, _: &G::Device, request: &Request) -> usize {
        variants(request.effort).len() + mix::mixes().count() + PHASES.len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let wanted = requested_bytes(session, session.info().cold_window())?;
        let (bytes, flags) = fit_arrays::<G>(session.device, 2 * SIDE, wanted)?;
        let variants = variants(effort);
        let mut all: Vec<KernelDesc> = variants.iter().map(|variant| variant.kernel()).collect();
        all.push(kernels::phased());
        let bench = Bench::<G>::new(session, &all, bytes.min(wanted))?;

        let sweep = Sweep { series: mix::bursts(), points: &variants, share: 0.6, flags };
        let bursts = session.sweep(sweep, Variant::burst_coordinates, |_, variant| bench.load(*variant))?.clone();

        let chosen: Vec<Variant> = mix::mixes().filter_map(|sides| choose(&bursts, &variants, sides)).collect();
        let sweep = Sweep { series: mix::ceilings(), points: &chosen, share: 0.3, flags };
        session.sweep(sweep, Variant::sides_coordinates, |_, variant| bench.load(*variant))?;

        if G::capabilities(session.device).cooperative.is_ok() {
            let cache = session.info().last_level_cache();
            let chunks: Vec<u64> = PHASES.iter().map(|share| cache / share / 4096 * 4096).filter(|b| *b > 0).collect();
            let sweep = Sweep { series: mix::phased(), points: &chunks, share: 0.1, flags };
            session.sweep(sweep, |chunk| Phase { chunk: (*chunk).into() }, |_, chunk| bench.phased(*chunk))?;
        }
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        RULES.verify::<G>(device, (depth, TRUST), report)
    }
}

/// Every mix in short bursts, and the copy in longer ones.
fn variants(effort: Effort) -> Vec<Variant> {
    let (bursts, long): (&[u32], &[u32]) = match effort {
        Effort::Quick => (&[1], &[2, 4, 8, 16]),
        Effort::Standard => (&[1, 4], &[2, 8, 16]),
        _ => (&[1, 2, 4], &[8, 16]),
    };
    let short =
        mix::mixes().flat_map(|(reads, writes)| bursts.iter().map(move |&burst| Variant { reads, writes, burst }));
    // With several arrays read and several written, longer bursts gain nothing on any device measured so far.
    let short = short.filter(|v| effort != Effort::Standard || v.burst == 1 || v.reads.min(v.writes) <= 1);
    short.chain(long.iter().map(|&burst| Variant { reads: 1, writes: 1, burst })).collect()
}

/// The best burst of a mix. Its figure isn't used: the burst is measured again.
fn choose(bursts: &Series, variants: &[Variant], (reads, writes): (u32, u32)) -> Option<Variant> {
    let of_mix = |variant: &&Variant| (variant.reads, variant.writes) == (reads, writes);
    let is_at = |variant: &Variant, row: &Row| variant.burst_coordinates().to_values() == row.at;
    let (row, _) = bursts.best("bandwidth", |row| variants.iter().filter(of_mix).any(|variant| is_at(variant, row)))?;
    variants.iter().copied().find(|variant| is_at(variant, row))
}

/// Shared by all points: kernels, and four arrays on each side, one after another.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    out: G::Buffer,
    input: G::Buffer,
    barrier: G::Buffer,
    /// Bytes of one array.
    bytes: u64,
}

impl<G: Gpu> Bench<G> {
    fn new(session: &Session<'_, G>, wanted: &[KernelDesc], bytes: u64) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(session.device, &kernels::SOURCE, wanted, TRUST)?;
        let (out, input, barrier) = (kit.array(SIDE * bytes)?, kit.array(SIDE * bytes)?, kit.array(256)?);
        kit.checker.fill(Data::Bits, Element::Word, input.whole(), session.request.seed)?;
        kit.checker.fill_words(barrier.whole(), 0)?;
        Ok(Self { kit, out, input, barrier, bytes })
    }

    fn load(&self, variant: Variant) -> Result<Load<G>, Fault> {
        RULES.repeat(&variant.kernel(), self.bytes, self.out.whole(), self.input.whole())?.load(&self.kit, GRAPH)
    }

    /// The copy in phases of `chunk` bytes: launched cooperatively, which graphs can't hold.
    fn phased(&self, chunk: u64) -> Result<Load<G>, Fault> {
        let kernel = kernels::phased();
        let resident =
            G::blocks_per_multiprocessor(self.kit.unit.function(&kernel)?.function(), kernel.threads, 0)?.max(1);
        let kernel = kernel.with_grid(Grid::Resident { blocks: resident });
        let rules = Rules { count: chunk / VECTOR, ..RULES };
        let point = rules.repeat(&kernel, self.bytes, self.out.whole(), self.input.whole())?;
        point.with_barrier(self.barrier.whole()).load(&self.kit, Shape::Stream)
    }
}
