//! dispatch on a GPU: grids of empty blocks. `mod.rs` defines the figures,
//! `kernel.cu` the kernels.

use plimsoll_gen::kernel::Output;
use plimsoll_gpu::rules::Rules;

use super::kernels::{self, THREADS};
use crate::dispatch::{self, Kind, Plain, Programmatic};
use crate::prelude::gpu::*;

/// Blocks of one launch: enough that starting the grid itself takes less than a percent.
const BLOCKS: u64 = 1 << 20;

/// How its kernels are verified: only `marked` kernels take an argument, and elements are threads of whole blocks.
const RULES: Rules = Rules {
    arguments: |kernel, with| {
        let list = Arguments::new();
        if kernel.output == Output::BlockMarks { list.span(with.out) } else { list }
    },
    sizes: |kernel, _, depth| {
        let blocks: &[u64] = if depth == Depth::Small { &[1, 33] } else { &[1, 31, 33, 1025, 65_537] };
        blocks.iter().map(|blocks| blocks * u64::from(kernel.threads)).collect()
    },
    ..Rules::new(&kernels::SOURCE)
};

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::Graphs];

    fn points(&self, device: &G::Device, _: &Request) -> usize {
        threads::<G>(device).len() + programmatic::<G>(device).len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let kit = Kit::<G>::new(session.device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let marks = kit.array(4 * BLOCKS)?;
        let programmatic = programmatic::<G>(session.device);
        let share = if programmatic.is_empty() { 1.0 } else { 0.5 };
        let threads = threads::<G>(session.device);
        let sweep = Sweep { series: dispatch::blocks(), points: &threads, share, flags: Flags::NONE };
        let coordinates = |threads: &u32| Plain { threads: (*threads).into() };
        let marks = Rc::new(marks);
        session.sweep(sweep, coordinates, |_, threads| load(&kit, &marks, GRAPH, &kernels::empty(*threads)))?;
        if programmatic.is_empty() {
            return Ok(());
        }
        let sweep =
            Sweep { series: dispatch::programmatic(), points: &programmatic, share: 1.0 - share, flags: Flags::NONE };
        let coordinates = |(kind, threads): &(Kind, u32)| Programmatic { kind: *kind, threads: (*threads).into() };
        session.sweep(sweep, coordinates, |_, (kind, threads)| {
            let kernel = kernels::programmatic(*kind == Kind::Signalling, *threads);
            load(&kit, &marks, Shape::Graph { dependent: true }, &kernel)
        })?;
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        RULES.verify::<G>(device, (depth, TRUST), report)
    }
}

/// The block sizes that a device allows, in threads.
fn threads<G: Gpu>(device: &G::Device) -> Vec<u32> {
    let most = G::capabilities(device).limits.threads;
    THREADS.into_iter().filter(|threads| *threads <= most).collect()
}

/// Kinds and block sizes of programmatic launches; none where the device has no such launches.
fn programmatic<G: Gpu>(device: &G::Device) -> Vec<(Kind, u32)> {
    if G::capabilities(device).dependent_graphs.is_err() {
        return Vec::new();
    }
    let threads = threads::<G>(device);
    Kind::ALL.into_iter().flat_map(|kind| threads.iter().map(move |threads| (kind, *threads))).collect()
}

/// A grid of empty blocks. These store nothing, so a grid of the same shape whose blocks store marks is checked instead.
fn load<G: Gpu>(kit: &Kit<G>, marks: &Rc<G::Buffer>, shape: Shape, kernel: &KernelDesc) -> Result<Load<G>, Fault> {
    let n = BLOCKS * u64::from(kernel.threads);
    let launch = kit.unit.launch(kernel, n, Arguments::new())?;
    let marking = kit.unit.launch(&kernels::marked(kernel.threads), n, Arguments::new().buffer(marks))?;
    let work = Work { operations: BLOCKS as f64, ..Work::default() };
    let (checker, marks) = (Rc::clone(&kit.checker), Rc::clone(marks));
    let check = move |stream: &Arc<G::Stream>| {
        checker.poison(marks.whole())?;
        G::launch(stream, &marking)?;
        checker.check_marks(marks.whole())
    };
    Ok(kit.load(shape, vec![launch], work)?.with_check(check))
}
