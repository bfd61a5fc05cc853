//! The fields of `tti` on the device: two current and two previous fields, and the medium.

use std::cell::Cell;
use std::rc::Rc;

use plimsoll_core::Fault;
use plimsoll_core::sample::Check;
use plimsoll_gen::kernel::KernelDesc;
use plimsoll_gpu::kit::Kit;
use plimsoll_gpu::load::Action;
use plimsoll_gpu::unit::Unit;
use plimsoll_gpu::{Arguments, Form, Geometry, Gpu, Memory as _, Span};

use super::kernels::{self, Loads, Tile};
use crate::TRUST;
use crate::lab::fields::Shape;
use crate::lab::naive;

/// Cells from the bump's middle to its edge.
const RADIUS: f32 = 24.0;

/// The largest tile that fits in a block's shared memory.
///
/// # Errors
/// [`Fault::Unavailable`] if none fits.
pub(crate) fn largest_tile<G: Gpu>(device: &G::Device) -> Result<Tile, Fault> {
    let most = G::capabilities(device).limits.shared_per_block;
    let fits = |tile: &Tile| tile.shared() <= most;
    Tile::ALL.into_iter().find(fits).ok_or_else(|| {
        let least = Tile::Small.shared() >> 10;
        Fault::Unavailable {
            what: "shared memory",
            why: format!("a block needs {least} KiB for eighteen planes, but the device allows {}", most >> 10),
            hint: "Use a device of compute capability 8.0, 9.0 or 10.0".to_owned(),
        }
    })
}

/// The kernels and their checks.
pub(crate) struct Lab<G: Gpu> {
    pub(crate) kit: Kit<G>,
    pub(crate) tile: Tile,
    /// Ways of loading that the target supports.
    pub(crate) ways: Vec<Loads>,
    checks: Unit<G>,
    result: G::Buffer,
}

impl<G: Gpu> Lab<G> {
    /// Compiles the kernels for a tile.
    ///
    /// # Errors
    /// Those of [`Kit::new`]; the driver's, where a block may not have the shared memory.
    pub(crate) fn new(device: &G::Device, tile: Tile) -> Result<Rc<Self>, Fault> {
        let target = G::target(device);
        let ways: Vec<Loads> = Loads::ALL.into_iter().filter(|loads| loads.is_supported_by(target)).collect();
        let steps = ways.iter().map(|loads| kernels::step(*loads, tile));
        let all: Vec<KernelDesc> = steps.clone().chain([kernels::begin()]).collect();
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &all, TRUST)?;
        for kernel in steps {
            G::allow_shared(kit.unit.function(&kernel)?.function(), tile.shared())?;
        }
        let checks = Unit::new(device, &kernels::SOURCE, &[kernels::check()], TRUST)?;
        let result = kit.array(16)?;
        Ok(Rc::new(Self { kit, tile, ways, checks, result }))
    }

    /// Whether `after` is the result of a step of the model from the previous fields `before`, in double precision.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn check(&self, model: &Model<G>, after: [Span; 2], before: [Span; 2]) -> Result<Check, Fault> {
        let list = after.into_iter().chain(before).chain(model.now()).chain(model.medium);
        let list = list.fold(Arguments::new(), Arguments::span);
        let kernel = kernels::check();
        naive::check(&self.kit, self.checks.function(&kernel)?, &self.result, &model.shape, list)
    }
}

/// Arrays of a model.
pub(crate) const ARRAYS: u64 = 7;

/// A model.
pub(crate) struct Model<G: Gpu> {
    lab: Rc<Lab<G>>,
    pub(crate) shape: Shape,
    /// Both previous fields, then both current ones; every step swaps them.
    fields: Cell<[[Span; 2]; 2]>,
    /// Speed, anisotropy, axis.
    pub(crate) medium: [Span; 3],
    _arrays: Vec<G::Buffer>,
}

impl<G: Gpu> Model<G> {
    /// A model of zeros.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`]; the driver's.
    pub(crate) fn new(lab: &Rc<Lab<G>>, shape: Shape) -> Result<Self, Fault> {
        let array = |_| lab.kit.array(shape.bytes());
        let arrays = (0..ARRAYS).map(array).collect::<Result<Vec<G::Buffer>, Fault>>()?;
        arrays.iter().try_for_each(|array| lab.kit.checker.fill_words(array.whole(), 0))?;
        let span = |place: usize| arrays[place].whole();
        let fields = Cell::new([[span(0), span(1)], [span(2), span(3)]]);
        Ok(Self { lab: Rc::clone(lab), shape, fields, medium: [span(4), span(5), span(6)], _arrays: arrays })
    }

    /// Both previous fields.
    pub(crate) fn before(&self) -> [Span; 2] {
        self.fields.get()[0]
    }

    /// Both current fields.
    pub(crate) fn now(&self) -> [Span; 2] {
        self.fields.get()[1]
    }

    /// All arrays in the order of the kernels' parameters, and their layout.
    fn arguments(&self) -> Arguments {
        let arrays = self.before().into_iter().chain(self.now()).chain(self.medium);
        naive::push_layout(arrays.fold(Arguments::new(), Arguments::span), &self.shape)
    }

    /// Sets the initial state.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn begin(&self) -> Result<(), Fault> {
        let function = self.lab.kit.unit.function(&kernels::begin())?;
        naive::over_rows(&self.lab.kit, function, &self.shape, self.arguments().f32(RADIUS))
    }

    /// A launch of one step from the current fields. Running it twice goes back.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn launch(&self, loads: Loads) -> Result<G::Launch, Fault> {
        let tile = self.lab.tile;
        let kernel = kernels::step(loads, tile);
        let geometry =
            Geometry { grid: tile.grid(self.shape.cells), block: [kernel.threads, 1, 1], shared: tile.shared() };
        self.lab.kit.unit.function(&kernel)?.launch(geometry, Form::default(), &self.arguments())
    }

    /// Makes one step.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn step_forward(&self, loads: Loads) -> Result<(), Fault> {
        self.lab.kit.run(&[Action::Launch(self.launch(loads)?)])?;
        let [before, now] = self.fields.get();
        self.fields.set([now, before]);
        Ok(())
    }

    /// Makes one step, compares every cell with the naive kernel, and goes back. `room` is for both previous fields.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn check(&self, loads: Loads, room: [Span; 2]) -> Result<Check, Fault> {
        let step = Action::Launch(self.launch(loads)?);
        let [p, q] = self.before();
        self.lab.kit.run(&[Action::Copy(room[0], p), Action::Copy(room[1], q), step.clone()])?;
        let check = self.lab.check(self, [p, q], room)?;
        self.lab.kit.run(&[step])?;
        Ok(check)
    }
}
