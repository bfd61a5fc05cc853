//! The fields of `rtm` on the device: one model is two fields and a medium, in one kind of memory, at some time step.

use std::cell::Cell;
use std::rc::Rc;

use super::kernels::{self, Block};
use crate::lab::fields::Shape;
use plimsoll_core::Fault;
use plimsoll_core::sample::Check;

use crate::TRUST;
use crate::cuda::kit::Kit;
use crate::cuda::unit::Unit;
use crate::lab::naive;
use plimsoll_cuda::Action;
use plimsoll_cuda::CudaDevice;
use plimsoll_cuda::launch::{Arguments, Form, Geometry, Launch};
use plimsoll_cuda::memory::Transfer as _;
use plimsoll_cuda::memory::{DeviceBuffer, MappedBuffer, Span};

/// Planes of a slab: a block reads an eighth more than its slab has.
pub(crate) const SLAB: u32 = 64;
/// Cells from the bump's middle to its edge.
const RADIUS: f32 = 16.0;

/// How blocks traverse the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traversal {
    /// Their shape.
    pub(crate) block: Block,
    /// Planes of a block.
    pub(crate) depth: u32,
}

/// The kernels of all models and their checks.
pub(crate) struct Lab {
    pub(crate) kit: Kit,
    /// Compiled separately from the kernels that it checks.
    checks: Unit,
    result: DeviceBuffer,
}

impl Lab {
    /// Compiles the kernels.
    ///
    /// # Errors
    /// Those of [`Kit::new`].
    pub(crate) fn new(device: &CudaDevice) -> Result<Rc<Self>, Fault> {
        let kit = Kit::new(
            device,
            &crate::lab::rtm::kernels::SOURCE,
            &[Block::ALL.map(kernels::step).to_vec(), vec![kernels::begin()]].concat(),
            TRUST,
        )?;
        let checks = Unit::new(device, &crate::lab::rtm::kernels::SOURCE, &[kernels::check()], TRUST)?;
        let result = kit.array(16)?;
        Ok(Rc::new(Self { kit, checks, result }))
    }

    /// Whether `after` is the result of a step from `before` and `p`, cell by cell in double precision.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn check(&self, shape: &Shape, [after, before, p, courant]: [Span; 4]) -> Result<Check, Fault> {
        let list = Arguments::new().span(after).span(before).span(p).span(courant);
        naive::check(&self.kit, self.checks.function(&kernels::check())?, &self.result, shape, list)
    }
}

/// The memory of a model.
enum Storage {
    Plain { _arrays: [DeviceBuffer; 3] },
    Mapped { _arrays: [MappedBuffer; 3] },
}

/// A model. Its arrays are spans of either kind of memory.
pub(crate) struct Model {
    lab: Rc<Lab>,
    pub(crate) shape: Shape,
    /// The previous and the current field; every step swaps them.
    fields: Cell<[Span; 2]>,
    pub(crate) courant: Span,
    step: Cell<Option<u32>>,
    _storage: Storage,
}

impl Model {
    /// A model in plain memory, of zeros.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`]; the driver's.
    pub(crate) fn plain(lab: &Rc<Lab>, shape: Shape) -> Result<Self, Fault> {
        let array = || lab.kit.array(shape.bytes());
        let arrays = [array()?, array()?, array()?];
        let spans = arrays.each_ref().map(DeviceBuffer::whole);
        Self::from_spans(lab, shape, spans, Storage::Plain { _arrays: arrays })
    }

    /// The same in compressible memory; `None` if the driver grants none.
    ///
    /// # Errors
    /// Those of [`Model::plain`].
    pub(crate) fn compressible(lab: &Rc<Lab>, shape: Shape) -> Result<Option<Self>, Fault> {
        let array = || MappedBuffer::new(lab.kit.stream(), shape.bytes(), true);
        let arrays = match array() {
            Ok(first) if first.is_compressible() => [first, array()?, array()?],
            Ok(_) | Err(Fault::Unavailable { .. }) => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let spans = [&arrays[0], &arrays[1], &arrays[2]].map(|array| array.part(0, shape.bytes()));
        let [field, p, courant] = spans;
        let spans = [field?, p?, courant?];
        Self::from_spans(lab, shape, spans, Storage::Mapped { _arrays: arrays }).map(Some)
    }

    fn from_spans(
        lab: &Rc<Lab>,
        shape: Shape,
        [field, p, courant]: [Span; 3],
        storage: Storage,
    ) -> Result<Self, Fault> {
        for array in [field, p, courant] {
            lab.kit.checker.fill_words(array, 0)?;
        }
        let (lab, fields, step) = (Rc::clone(lab), Cell::new([field, p]), Cell::new(None));
        Ok(Self { lab, shape, fields, courant, step, _storage: storage })
    }

    /// The previous and the current field.
    pub(crate) fn fields(&self) -> [Span; 2] {
        self.fields.get()
    }

    /// Puts the model at time step 0.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn begin(&self) -> Result<(), Fault> {
        let [field, p] = self.fields();
        let list = Arguments::new().span(field).span(p).span(self.courant);
        let list = naive::push_layout(list, &self.shape).f32(RADIUS);
        naive::over_rows(&self.lab.kit, self.lab.kit.unit.function(&kernels::begin())?, &self.shape, list)?;
        self.step.set(Some(0));
        Ok(())
    }

    /// A launch of one step from the current fields. Running it twice goes back.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn launch(&self, traversal: Traversal) -> Result<Launch, Fault> {
        let kernel = kernels::step(traversal.block);
        let [x, y] = traversal.block.threads();
        let grid = traversal.block.grid(self.shape.cells, traversal.depth);
        let geometry = Geometry { grid, block: [x, y, 1], shared: 0 };
        let [field, p] = self.fields();
        let list = Arguments::new().span(field).span(p).span(self.courant);
        self.lab.kit.unit.function(&kernel)?.launch(
            geometry,
            Form::default(),
            &naive::push_layout(list, &self.shape).u32(traversal.depth),
        )
    }

    /// Makes one step.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn step_forward(&self, traversal: Traversal) -> Result<(), Fault> {
        self.lab.kit.run(&[Action::Launch(self.launch(traversal)?)])?;
        let [field, p] = self.fields();
        self.fields.set([p, field]);
        self.step.set(self.step.get().map(|step| step + 1));
        Ok(())
    }

    /// Advances to a time step; restarts if it has already passed.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn go_to(&self, step: u32, traversal: Traversal) -> Result<(), Fault> {
        if self.step.get().is_none_or(|now| now > step) {
            self.begin()?;
        }
        while self.step.get() < Some(step) {
            self.step_forward(traversal)?;
        }
        Ok(())
    }

    /// Makes one step, compares every cell with the naive kernel, and goes back. `before` has room for a field.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn check(&self, traversal: Traversal, before: Span) -> Result<Check, Fault> {
        let [field, p] = self.fields();
        let step = Action::Launch(self.launch(traversal)?);
        self.lab.kit.run(&[Action::Copy(before, field), step.clone()])?;
        let check = self.lab.check(&self.shape, [field, before, p, self.courant])?;
        self.lab.kit.run(&[step])?;
        Ok(check)
    }

    /// Samples the middle plane in y, by rows of z, with at most `most` cells in x.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn slice(&self, most: u32) -> Result<Vec<Vec<f32>>, Fault> {
        let [nx, ny, nz] = self.shape.cells;
        let columns = most.min(nx).max(1);
        let rows = (u64::from(nz) * u64::from(columns) / u64::from(nx)).max(1) as u32;
        let [_, p] = self.fields();
        let mut bytes = vec![0; 4 * nx as usize];
        let place = |n: u32, i: u32, of: u32| (u64::from(i) * u64::from(n) / u64::from(of)) as u32;
        let mut row_at = |z: u32| {
            let skipped = 4 * self.shape.index_of([0, ny / 2, z]);
            p.part(skipped, 4 * u64::from(nx))?.download(self.lab.kit.stream(), &mut bytes)?;
            let cell = |x: u32| f32::from_le_bytes(std::array::from_fn(|byte| bytes[4 * x as usize + byte]));
            Ok((0..columns).map(|i| cell(place(nx, i, columns))).collect())
        };
        (0..rows).map(|i| row_at(place(nz, i, rows))).collect()
    }
}
