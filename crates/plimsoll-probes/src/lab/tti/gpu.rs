//! tti on a GPU: time steps in a tilted medium, one block per SM, by the way of copying planes into shared memory.
//! `crate::lab::tti` defines the figures; `kernel.cu` has the kernels and `model` the fields.

use plimsoll_gpu::Memory;

use super::kernels::{self, BYTES_READ, BYTES_WRITTEN, Loads, MARGIN, Tile};
use super::model::{ARRAYS, Lab, Model, largest_tile};
use super::{ByWay, Way, verify};
use crate::lab::grid::{Wanted, grid};
use crate::lab::tti;
use crate::prelude::gpu::*;

/// Steps before the first sample, so that the bump has begun to move.
const FIRST: u32 = 20;

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::Graphs];

    fn check_device(&self, device: &G::Device) -> Result<(), Fault> {
        largest_tile::<G>(device).map(drop)
    }

    fn points(&self, _: &G::Device, _: &Request) -> usize {
        Loads::ALL.len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let bench = Rc::new(Bench::<G>::new(session.device, effort, session.request.bytes)?);
        let points = bench.lab.ways.clone();
        let sweep = Sweep { series: tti::speed(), points: &points, share: 1.0, flags: Flags::NONE };
        session.sweep(sweep, |loads| ByWay { way: way(*loads) }, |_, loads| bench.load(*loads)).map(drop)
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        verify::check_kernels::<G>(device, depth, report)
    }
}

/// The axis value of a way of loading.
fn way(loads: Loads) -> Way {
    match loads {
        Loads::Direct => Way::Direct,
        Loads::Async => Way::Async,
        Loads::Bulk => Way::Bulk,
        Loads::None => Way::NoCopies,
    }
}

/// A plane is three waves of blocks, one block per SM. 256 planes make more than 256³ cells; even with 160 planes the arrays have
/// more than half a gibibyte in all, more than any cache.
fn wanted(tile: Tile, multiprocessors: u32) -> Wanted {
    let block = tile.threads();
    let arrays = ARRAYS + 2;
    Wanted { margin: MARGIN, block, resident: multiprocessors, fewest: 256, planes: [160, 256, 384], arrays }
}

/// State shared by all points.
struct Bench<G: Gpu> {
    lab: Rc<Lab<G>>,
    model: Model<G>,
    room: [G::Buffer; 2],
}

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device, effort: Effort, bytes: Option<u64>) -> Result<Self, Fault> {
        let lab = Lab::<G>::new(device, largest_tile::<G>(device)?)?;
        let wanted = wanted(lab.tile, lab.kit.unit.machine().multiprocessors);
        let shape = grid(&wanted, effort, bytes, G::free_memory(device)?)?;
        let model = Model::new(&lab, shape)?;
        let room = [lab.kit.array(shape.bytes())?, lab.kit.array(shape.bytes())?];
        model.begin()?;
        (0..FIRST).try_for_each(|_| model.step_forward(Loads::Async))?;
        Ok(Self { lab, model, room })
    }

    /// Steps forward and back, so that the time step stays the same.
    fn load(self: &Rc<Self>, loads: Loads) -> Result<Load<G>, Fault> {
        let cells = self.model.shape.volume();
        let traffic = Traffic::new(BYTES_READ * cells, BYTES_WRITTEN * cells);
        // A step touches every array of the model once: no cell is still cached when the next step reads it.
        let window = 4 * ARRAYS * cells;
        let work = Work { traffic, operations: cells as f64, window, ..Work::default() };
        let step = self.model.launch(loads)?;
        let load = self.lab.kit.load(GRAPH, vec![step.clone(), step], work)?;
        let own = Rc::clone(self);
        Ok(load.with_check(move |_| own.check(loads)))
    }

    /// Checks every cell of one more step. Without copies, two steps must restore the field.
    fn check(&self, loads: Loads) -> Result<Check, Fault> {
        let room: [Span; 2] = self.room.each_ref().map(Memory::whole);
        if loads != Loads::None {
            return self.model.check(loads, room);
        }
        let ([p, _], step) = (self.model.before(), Action::Launch(self.model.launch(loads)?));
        self.lab.kit.run(&[Action::Copy(room[0], p), step.clone(), step])?;
        self.lab.kit.checker.check_map(Op::Copy, Element::Word, p, [room[0]; 3], 0.0)
    }
}
