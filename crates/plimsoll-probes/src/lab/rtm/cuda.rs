//! rtm on a GPU: time steps of a wave equation in blocks of two shapes, through all planes or in slabs, while the wave fills the
//! grid. `crate::lab::rtm` defines the figures; `kernel.cu` has the kernels and `model` the fields.

use std::collections::BTreeMap;

use plimsoll_core::sample::{Batch, Workload};
use plimsoll_core::series::Count;
use plimsoll_cuda::Load;
use plimsoll_cuda::launch::Arguments;
use plimsoll_cuda::memory::DeviceBuffer;
use plimsoll_cuda::{Cuda, CudaDevice};
use plimsoll_gen::kernel::Machine;

use super::kernels::{BYTES_READ, BYTES_WRITTEN, Block, MARGIN};
use super::model::{Lab, Model, SLAB, Traversal};
use super::verify;
use crate::cuda::kit::GRAPH;
use crate::cuda::unit::Unit;
use crate::lab::grid::{Wanted, grid};
use crate::lab::rtm::{self, AtStep, Cell, Order, PRESSURE, What};
use crate::prelude::gpu::*;
use crate::stream::kernels::Parameters;

/// Measured time steps: the wave reaches the edge in y after some 780 and the corners after 1100.
const STEPS: [&[u32]; 2] = [&[0, 200, 500, 1200], &[0, 100, 250, 500, 800, 1200]];
/// The time step of the picture, and its most columns.
const PICTURE: (u32, u32) = (500, 48);
/// The scalar argument of the streaming kernel, which doesn't use it.
const SCALAR: f32 = 1.0;
/// Placeholder time of a picture's cell: nothing was timed, but a sample can't be zero.
const UNTIMED: u64 = 1_000_000;
/// Arrays of the models in both memories, and the one that checks use.
const ARRAYS: u64 = 7;

/// The order of the steps between measurements.
const BETWEEN: Order = Order::WideSlabs;

/// A time step and its case.
type Point = (u32, What);

impl Run<Cuda> for super::CudaRunner {
    const NEEDS: &'static [Need] = &[Need::Graphs];

    fn points(&self, _: &CudaDevice, request: &Request) -> usize {
        points(request.effort, true).len() + (PICTURE.1 * PICTURE.1) as usize
    }

    fn run(&self, session: &mut Session<'_, Cuda>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let bench = Rc::new(Bench::new(session.device, effort, session.request.bytes)?);
        let points = points(effort, bench.compressible.is_some());
        let sweep = Sweep { series: rtm::speed(), points: &points, share: 1.0, flags: Flags::NONE };
        let coordinates = |(step, what): &Point| AtStep { what: *what, step: (*step).into() };
        session.sweep(sweep, coordinates, |_, point| bench.load(*point))?;

        bench.plain.go_to(PICTURE.0, bench.traversal(BETWEEN))?;
        let slice = bench.plain.slice(PICTURE.1)?;
        let shown = |(z, row): (usize, &Vec<f32>)| -> Vec<Pixel> {
            row.iter().enumerate().map(|(x, pressure)| Pixel { x, z, pressure: *pressure }).collect()
        };
        let pixels: Vec<Pixel> = slice.iter().enumerate().flat_map(shown).collect();
        let sweep = Sweep { series: rtm::wavefield(), points: &pixels, share: 0.0, flags: Flags::NONE };
        let coordinates = |pixel: &Pixel| Cell { x: Count(pixel.x as u64), z: Count(pixel.z as u64) };
        session.sweep(sweep, coordinates, |_, pixel| Ok(*pixel)).map(drop)
    }

    fn verify(&self, device: &mut CudaDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        verify::check_kernels(device, depth, report)
    }
}

/// For every time step the memory limit, then all orders, each in plain and then in compressible memory.
fn points(effort: Effort, compressible: bool) -> Vec<Point> {
    let steps = STEPS[usize::from(effort != Effort::Quick)];
    let kinds: &[bool] = if compressible { &[false, true] } else { &[false] };
    let step = |order| kinds.iter().map(move |kind| What::Step { order, compressible: *kind });
    let orders = Order::ALL.into_iter().flat_map(step);
    let cases: Vec<What> = std::iter::once(What::Ceiling).chain(orders).collect();
    steps.iter().flat_map(|step| cases.iter().map(move |case| (*step, *case))).collect()
}

/// The streaming kernel that gives the memory limit: three arrays read, one written.
fn streaming() -> KernelDesc {
    Parameters { threads: 128, ..Parameters::new(Op::Schoenauer) }.kernel()
}

/// A plane has as many square blocks as are resident at once, or some waves of them; the planes make 512³ cells on an H200.
fn wanted(machine: Machine) -> Wanted {
    let block = Block::Square.threads();
    let at_once = (machine.threads_per_multiprocessor / block.iter().product::<u32>()).max(1);
    let resident = machine.multiprocessors * at_once;
    Wanted { margin: MARGIN, block, resident, fewest: 416, planes: [128, 512, 768], arrays: ARRAYS }
}

/// State shared by all points.
struct Bench {
    lab: Rc<Lab>,
    stream: Unit,
    plain: Model,
    compressible: Option<Model>,
    scratch: DeviceBuffer,
}

impl Bench {
    fn new(device: &CudaDevice, effort: Effort, bytes: Option<u64>) -> Result<Self, Fault> {
        let lab = Lab::new(device)?;
        let stream = Unit::new(device, &crate::stream::kernels::SOURCE, &[streaming()], TRUST)?;
        let shape = grid(&wanted(lab.kit.unit.machine()), effort, bytes, device.memory_free()?)?;
        let (plain, scratch) = (Model::plain(&lab, shape)?, lab.kit.array(shape.bytes())?);
        let compressible = Model::compressible(&lab, shape)?;
        Ok(Self { lab, stream, plain, compressible, scratch })
    }

    fn traversal(&self, order: Order) -> Traversal {
        let all = self.plain.shape.cells[2];
        let (block, depth) = match order {
            Order::Usual => (Block::Square, all),
            Order::SquareSlabs => (Block::Square, SLAB),
            Order::Wide => (Block::Long, all),
            Order::WideSlabs => (Block::Long, SLAB),
        };
        Traversal { block, depth }
    }

    fn work(&self) -> Work {
        let cells = self.plain.shape.volume();
        let traffic = Traffic::new(BYTES_READ * cells, BYTES_WRITTEN * cells);
        Work { traffic, operations: cells as f64, window: 4 * cells, ..Work::default() }
    }

    /// The model in plain or compressible memory.
    fn model(&self, compressible: bool) -> &Model {
        self.compressible.as_ref().filter(|_| compressible).unwrap_or(&self.plain)
    }

    fn load(self: &Rc<Self>, (step, what): Point) -> Result<Load, Fault> {
        let compressible = matches!(what, What::Step { compressible: true, .. });
        self.model(compressible).go_to(step, self.traversal(BETWEEN))?;
        match what {
            What::Ceiling => self.ceiling(),
            What::Step { order, .. } => self.stepping(self.traversal(order), compressible),
        }
    }

    /// Steps forward and back, so that the time step stays the same.
    fn stepping(self: &Rc<Self>, traversal: Traversal, compressible: bool) -> Result<Load, Fault> {
        let step = self.model(compressible).launch(traversal)?;
        let load = self.lab.kit.load(GRAPH, vec![step.clone(), step], self.work())?;
        let own = Rc::clone(self);
        Ok(load.with_check(move |_| own.model(compressible).check(traversal, own.scratch.whole())))
    }

    fn ceiling(self: &Rc<Self>) -> Result<Load, Fault> {
        let cells = self.plain.shape.volume();
        let [field, p] = self.plain.fields();
        let inputs = [field.first(4 * cells)?, p.first(4 * cells)?, self.plain.courant.first(4 * cells)?];
        let out = self.scratch.part(0, 4 * cells)?;
        let list = inputs.iter().fold(Arguments::new().span(out), |list, input| list.span(*input));
        let launch = self.stream.launch(&streaming(), cells, list.f32(SCALAR).u64(cells))?;
        self.lab.kit.checker.poison(out)?;
        let load = self.lab.kit.load(GRAPH, vec![launch], self.work())?;
        let own = Rc::clone(self);
        Ok(load.with_check(move |_| {
            own.lab.kit.checker.check_map(Op::Schoenauer, Element::F32, out, inputs, SCALAR.into())
        }))
    }
}

/// A cell of the picture: an untimed point.
#[derive(Clone, Copy, Debug)]
struct Pixel {
    x: usize,
    z: usize,
    pressure: f32,
}

impl Workload for Pixel {
    fn work(&self) -> Work {
        Work { in_kernel: true, ..Work::default() }
    }

    fn batch(&self) -> Batch {
        Batch { cycle: 1, max: 1 }
    }

    fn sample(&mut self, _: u32, out: &mut [u64]) -> Result<(), Fault> {
        out.fill(UNTIMED);
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Fault> {
        let finite = self.pressure.is_finite();
        let wrong = || Check::Failed(format!("the pressure is {}", self.pressure));
        Ok(if finite { Check::Passed } else { wrong() })
    }

    fn extra(&self, out: &mut BTreeMap<String, f64>) {
        out.insert(PRESSURE.to_owned(), self.pressure.into());
    }
}
