//! stream on a GPU: bandwidth by occupancy and by bytes in flight, and the best configuration of each of the ten kernels
//! measured again. `mod.rs` explains the figures; the kernels are in `kernel.cu`.

use std::cell::Cell;

use plimsoll_core::series::{Axes as _, Row, Threads};
use plimsoll_core::unit::Unit;
use plimsoll_gen::Target;
use plimsoll_gen::kernel::Output;
use plimsoll_gpu::rules::{MapOutput, Rules, SCALAR};
use plimsoll_gpu::window::{Rotation, affordable_bytes};

use super::kernels::{self, CEILINGS, Parameters};
use crate::prelude::gpu::*;
use crate::stream::{self, BestConfiguration, Configuration, Form, Occupancy, Placement};

/// Bytes per array for the quoted figures.
const BEST_BYTES: u64 = 1 << 30;
/// Output and three inputs.
const ARRAYS: u64 = 4;
/// Kernels whose occupancy is swept: the ceilings of reading, writing and both.
const BY_OCCUPANCY: [Op; 3] = [Op::Init, Op::Read, Op::Copy];
/// Kernels whose output is tried at several offsets: one with 1 : 1 reads and writes, and one with 2 : 1.
const PLACED: [Op; 2] = [Op::Copy, Op::Triad];
/// Offsets of the output within its array, bytes.
const PLACES: [u64; 5] = [0, 8 << 20, 16 << 20, 64 << 20, 96 << 20];
/// Bandwidths within this share of the best count as equal.
const ALIKE: f64 = 0.001;
/// Shared memory that the system reserves per block (CUDA C++ Programming Guide, compute capability 8.0 and later).
const RESERVED_SHARED: u32 = 1024;

/// A configuration with its output moved by `moved` bytes.
#[derive(Clone, Copy, Debug)]
struct Placed {
    parameters: Parameters,
    moved: u64,
}

/// A kernel with a number of threads per SM.
#[derive(Clone, Copy, Debug)]
struct Occupied {
    parameters: Parameters,
    /// Blocks on each SM.
    blocks: u32,
    /// Dynamic shared memory per block that limits occupancy, bytes.
    shared: u32,
}

/// How the kernels are verified.
const RULES: Rules = Rules {
    arguments: |kernel, with| {
        let list = Arguments::new().span(with.out).span(with.input(0)).span(with.input(1)).span(with.input(2));
        let list = if kernel.element == Element::F64 { list.f64(SCALAR.into()) } else { list.f32(SCALAR) };
        list.u64(with.n)
    },
    map_output: |kernel| Some(MapOutput::Map(kernels::operation(kernel)?, kernel.element)),
    ..Rules::new(&kernels::SOURCE)
};

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Graphs];

    fn points(&self, device: &G::Device, request: &Request) -> usize {
        let target = G::target(device);
        let count = |op: &Op| configurations(*op, target, request.effort).len();
        let occupied = 2 * BY_OCCUPANCY.len() * thread_counts(request.effort).len();
        let placed = PLACED.len() * PLACES.len();
        occupied + Op::ALL.iter().map(count).sum::<usize>() + placed + Op::ALL.len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let points = <Self as Run<G>>::points(self, session.device, session.request);
        let time = affordable_bytes::<G>(session.device, ARRAYS, points, session.budget())?;
        let (least, slice) = (session.info().cold_window().min(time), requested_bytes(session, BEST_BYTES.min(time))?);
        let (bytes, flags) = fit_arrays::<G>(session.device, ARRAYS, Rotation::cold(slice, least).bytes())?;
        let best = Rotation::cold(slice.min(bytes), least).within(bytes);
        let sweeps = Rotation::cold(slice.min(least).min(bytes), least).within(bytes);

        let target = G::target(session.device);
        let device = &*session.device;
        let runnable = |all: Vec<Parameters>| runnable::<G, _>(device, all, |parameters| parameters.kernel());
        let runnable_of = |op: Op| runnable(configurations(op, target, effort));
        let ceilings: Vec<Parameters> = CEILINGS.into_iter().flat_map(runnable_of).collect();
        let others: Vec<Parameters> =
            Op::ALL.into_iter().filter(|op| !CEILINGS.contains(op)).flat_map(runnable_of).collect();
        let resident: Vec<Parameters> = [false, true]
            .into_iter()
            .flat_map(|looping| BY_OCCUPANCY.map(|op| (op, looping)))
            .flat_map(|(op, looping)| [32, 64, 128, 256].map(|threads| kernels::occupancy(op, looping, threads)))
            .collect();
        let resident = runnable(resident);
        let wanted: Vec<KernelDesc> =
            ceilings.iter().chain(&others).chain(&resident).map(|parameters| parameters.kernel()).collect();
        let bench = Bench::new(session, &wanted, best.bytes().max(sweeps.bytes()))?;

        let sweep = Sweep { series: stream::bytes_in_flight(), points: &ceilings, share: 0.46, flags };
        let ceilings = session.sweep(sweep, configuration, |_, p| bench.one_shot(*p, sweeps))?.clone();
        let sweep = Sweep { series: stream::configurations(), points: &others, share: 0.17, flags };
        let others = session.sweep(sweep, configuration, |_, p| bench.one_shot(*p, sweeps))?.clone();

        match bench.occupied(session.device, effort, sweeps.slice) {
            Ok(occupied) => {
                let sweep = Sweep { series: stream::occupancy(), points: &occupied, share: 0.25, flags };
                session.sweep(sweep, occupancy, |_, p| bench.at_occupancy(p, sweeps))?;
            }
            Err(missing @ Fault::Unavailable { .. }) => session.report_fault(&missing)?,
            Err(fault) => return Err(fault),
        }

        let choose = |op| choose(&ceilings, op, target, effort).or_else(|| choose(&others, op, target, effort));
        let chosen: Vec<Parameters> = Op::ALL.into_iter().filter_map(choose).collect();
        let places = placements(&chosen);
        let sweep = Sweep { series: stream::placements(), points: &places, share: 0.04, flags };
        let placed = session.sweep(sweep, placement, |_, p| bench.placed(*p, best))?.clone();
        let chosen: Vec<Placed> = chosen.into_iter().map(|parameters| best_place(&placed, parameters)).collect();
        let sweep = Sweep { series: stream::best_configuration(), points: &chosen, share: 0.08, flags };
        session.sweep(sweep, |p| p.into(), |_, p| bench.placed(*p, best))?;
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        RULES.verify::<G>(device, (depth, TRUST), report)
    }
}

/// The configurations to try, in order of bytes in flight, so that the curve is drawn from left to right.
fn configurations(op: Op, target: Target, effort: Effort) -> Vec<Parameters> {
    let mut all = kernels::configurations(op, target);
    let hinted = |p: &Parameters| p.hints != Default::default();
    match effort {
        Effort::Quick => {
            all.retain(|p| {
                p.bulk || (matches!(p.unroll, 1 | 4) && p.threads <= 256 && (p.vector_bytes >= 16 || !hinted(p)))
            });
            // Of the bulk forms only those of the copy remain, two more points.
            all.retain(|p| !p.bulk || p.op == Op::Copy);
        }
        // Eight narrow accesses are as many bytes as four or two wider ones, and hints are tried only with wide accesses.
        Effort::Standard => all.retain(|p| p.bulk || p.vector_bytes >= 16 || (p.unroll < 8 && !hinted(p))),
        _ => {}
    }
    all.sort_by_key(|p| (p.bulk, p.hints.bits(), p.kernel().bytes_in_flight() * p.threads, p.vector_bytes));
    all
}

fn hints(p: &Parameters) -> &'static str {
    if p.bulk {
        return if p.hints.load_no_allocate { "bulk copies, kept in L2" } else { "bulk copies" };
    }
    match (p.hints.load_no_allocate, p.hints.store_streaming) {
        (false, false) => "no hint",
        (true, false) => "loads past L1",
        (false, true) => "streaming stores",
        (true, true) => "loads past L1, streaming stores",
    }
}

fn words(p: &Parameters) -> String {
    format!("{} B × {}, {}, blocks of {}", p.vector_bytes, p.unroll, hints(p), p.threads)
}

impl From<&Placed> for BestConfiguration {
    fn from(placed: &Placed) -> Self {
        Self { kernel: placed.parameters.op.name().into(), configuration: placed.words().into() }
    }
}

impl Placed {
    fn words(&self) -> String {
        let words = words(&self.parameters);
        if self.moved == 0 {
            words
        } else {
            format!("{words}, output moved by {}", Unit::Byte.format(self.moved as f64))
        }
    }
}

/// Each chosen kernel of [`PLACED`] at every offset.
fn placements(chosen: &[Parameters]) -> Vec<Placed> {
    let placed = chosen.iter().filter(|p| PLACED.contains(&p.op));
    placed.flat_map(|p| PLACES.map(|moved| Placed { parameters: *p, moved })).collect()
}

fn placement(point: &Placed) -> Placement {
    Placement { kernel: point.parameters.op.name().into(), moved: point.moved.into() }
}

/// The configuration with the fastest output offset; not moved if offsets weren't tried.
fn best_place(placed: &Series, parameters: Parameters) -> Placed {
    let best = best_of_kernel(placed, parameters.op).and_then(|row| Placement::from_values(&row.at));
    Placed { parameters, moved: best.map_or(0, |at| at.moved.0) }
}

fn configuration(p: &Parameters) -> Configuration {
    Configuration {
        kernel: p.op.name().into(),
        hints: hints(p).into(),
        vector: p.vector_bytes.into(),
        unroll: p.unroll.into(),
        block: p.threads.into(),
    }
}

fn occupancy(point: &Occupied) -> Occupancy {
    let p = point.parameters;
    let form = if p.looping { Form::Persistent } else { Form::Blocks };
    Occupancy { kernel: p.op.name().into(), form, threads: Threads::from(point.blocks * p.threads) }
}

/// The configuration of `op` with the highest bandwidth. Its figure isn't used: the configuration is measured again.
fn choose(series: &Series, op: Op, target: Target, effort: Effort) -> Option<Parameters> {
    let row = best_of_kernel(series, op)?;
    let best = Configuration::from_values(&row.at)?;
    configurations(op, target, effort).into_iter().find(|p| configuration(p) == best)
}

/// The first of `op`'s rows that counts as equal to the best, so that two runs rarely choose differently by chance.
fn best_of_kernel(series: &Series, op: Op) -> Option<&Row> {
    let of_kernel = |row: &Row| series.text(row, "kernel") == Some(op.name());
    let (_, best) = series.best("bandwidth", of_kernel)?;
    let as_good = |row: &&Row| {
        of_kernel(row) && series.estimate(row, "bandwidth").is_some_and(|own| own.value >= (1.0 - ALIKE) * best.value)
    };
    series.rows.iter().find(as_good)
}

/// Threads per SM, from one warp up; counts that don't fit are dropped later.
fn thread_counts(effort: Effort) -> &'static [u32] {
    match effort {
        Effort::Quick | Effort::Unknown => &[32, 128, 256, 512, 1024, 2048],
        Effort::Standard => &[32, 64, 128, 256, 512, 1024, 2048],
        Effort::Thorough => &[32, 64, 128, 256, 512, 768, 1024, 1536, 2048],
    }
}

/// Shared by all points: kernels and arrays.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    out: G::Buffer,
    inputs: [G::Buffer; 3],
    /// Current contents of the inputs: sums are exact only for small whole numbers.
    data: Cell<Option<Data>>,
    seed: u64,
}

impl<G: Gpu> Bench<G> {
    fn new(session: &Session<'_, G>, wanted: &[KernelDesc], bytes: u64) -> Result<Self, Fault> {
        let kit = Kit::new(session.device, &kernels::SOURCE, wanted, TRUST)?;
        let array = || kit.array(bytes);
        let room = PLACES.into_iter().max().unwrap_or(0);
        let (out, inputs) = (kit.array(bytes + room)?, [array()?, array()?, array()?]);
        Ok(Self { kit, out, inputs, data: Cell::new(None), seed: session.request.seed })
    }

    /// Fills the inputs with data on which the kernel can be checked.
    fn fill(&self, kernel: &KernelDesc) -> Result<(), Fault> {
        let data = if kernel.output == Output::WarpSums { Data::Small } else { Data::Unit };
        if self.data.replace(Some(data)) != Some(data) {
            for (place, input) in (0..).zip(&self.inputs) {
                self.kit.checker.fill(data, Element::F32, input.whole(), self.seed.wrapping_add(place))?;
            }
        }
        Ok(())
    }

    fn one_shot(&self, parameters: Parameters, rotation: Rotation) -> Result<Load<G>, Fault> {
        self.placed(Placed { parameters, moved: 0 }, rotation)
    }

    fn placed(&self, Placed { parameters: p, moved }: Placed, rotation: Rotation) -> Result<Load<G>, Fault> {
        let kernel = p.kernel();
        let load = self.load(&kernel, rotation, (0, moved))?;
        match G::blocks_per_multiprocessor(self.kit.unit.function(&kernel)?.function(), p.threads, 0) {
            Ok(resident) => {
                let in_flight = f64::from(resident * p.threads * kernel.bytes_in_flight());
                Ok(load.with_extra(stream::IN_FLIGHT, in_flight))
            }
            Err(Fault::Unavailable { .. }) => Ok(load),
            Err(fault) => Err(fault),
        }
    }

    /// Points from one warp to as many as fit; shared memory limits the number of blocks. Points whose warps store more than
    /// `slice` bytes of results are dropped.
    fn occupied(&self, device: &G::Device, effort: Effort, slice: u64) -> Result<Vec<Occupied>, Fault> {
        let limits = G::capabilities(device).limits;
        let (all, most) = (limits.shared_per_multiprocessor, limits.shared_per_block);
        let mut points: Vec<Occupied> = Vec::new();
        for op in BY_OCCUPANCY {
            for looping in [false, true] {
                let mut last = 0;
                for &threads in thread_counts(effort) {
                    let parameters = kernels::occupancy(op, looping, threads);
                    let wanted = threads / parameters.threads;
                    let function = self.kit.unit.function(&parameters.kernel())?.function();
                    // The maximum: a smaller limit would also apply to earlier points.
                    G::allow_shared(function, most)?;
                    let unlimited = G::blocks_per_multiprocessor(function, parameters.threads, 0)?;
                    let share = (all / wanted).saturating_sub(RESERVED_SHARED).min(most) / 128 * 128;
                    let shared = if wanted >= unlimited { 0 } else { share };
                    let blocks = G::blocks_per_multiprocessor(function, parameters.threads, shared)?.max(1);
                    // Registers may limit occupancy below the wanted count; then this point equals the last one.
                    let resident =
                        u64::from(blocks * parameters.threads) * u64::from(self.kit.unit.machine().multiprocessors);
                    if blocks * parameters.threads > last && resident / 32 * 4 <= slice {
                        last = blocks * parameters.threads;
                        points.push(Occupied { parameters, blocks, shared });
                    }
                }
            }
        }
        Ok(points)
    }

    fn at_occupancy(&self, point: &Occupied, rotation: Rotation) -> Result<Load<G>, Fault> {
        let Occupied { parameters, blocks, shared } = *point;
        let mut kernel = parameters.kernel();
        if parameters.looping {
            kernel = kernel.with_grid(Grid::Resident { blocks });
        }
        let in_flight = f64::from(blocks * parameters.threads * kernel.bytes_in_flight());
        Ok(self.load(&kernel, rotation, (shared, 0))?.with_extra(stream::IN_FLIGHT, in_flight))
    }

    /// One point's workload, with `shared` bytes per block and the output moved by `moved`.
    fn load(&self, kernel: &KernelDesc, rotation: Rotation, (shared, moved): (u32, u64)) -> Result<Load<G>, Fault> {
        self.fill(kernel)?;
        let inputs = self.inputs.each_ref().map(|input| input.whole());
        let point = RULES.rotate(kernel, rotation, self.out.part(moved, rotation.bytes())?, &inputs)?;
        point.with_shared(shared).load(&self.kit, GRAPH)
    }
}
