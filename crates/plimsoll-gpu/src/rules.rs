//! How the kernels of one source are called and what they write, stated once for measuring and for verifying them; and the loads
//! that follow from it, whose launches rotate through an output and its inputs.

use std::collections::BTreeSet;
use std::rc::Rc;

use plimsoll_core::Fault;
use plimsoll_core::probe::Depth;
use plimsoll_core::sample::{Check, Work};
use plimsoll_gen::kernel::{Element, KernelDesc, Machine, Op, Output, Source};

use crate::checker::Checker;
use crate::kit::{Kit, combine_checks};
use crate::launch::Arguments;
use crate::load::{Load, Shape};
use crate::unit::Unit;
use crate::verify::awkward_sizes;
use crate::window::Rotation;
use crate::{Gpu, Span};

/// The scalar argument of all kernels.
pub const SCALAR: f32 = 1.625;

/// The operands of one launch.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'s> {
    /// Elements of each array.
    pub n: u64,
    /// Memory for results: outputs are a pitch apart.
    pub out: Span,
    /// All memory that is read.
    pub input: Span,
    /// The input arrays, n elements each.
    pub inputs: &'s [Span],
    /// Bytes from one array to the next, where several arrays are one piece of memory.
    pub pitch: u64,
    /// A word for grid barriers.
    pub barrier: Span,
    /// See [`Rules::count`].
    pub count: u64,
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
    /// The source.
    pub source: &'static Source,
    /// Builds a kernel's arguments.
    pub arguments: fn(&KernelDesc, &Operands<'_>) -> Arguments,
    /// What a kernel of [`Output::Map`] writes; `None` for a kernel that isn't of the source.
    pub map_output: fn(&KernelDesc) -> Option<MapOutput>,
    /// Numbers of elements at which a kernel is likely to fail.
    pub sizes: fn(&KernelDesc, Machine, Depth) -> BTreeSet<u64>,
    /// A number that some kernels take in addition, such as rounds.
    pub count: u64,
}

impl Rules {
    /// Rules for kernels that take no arguments and map nothing, verified at [`awkward_sizes`].
    #[must_use]
    pub const fn new(source: &'static Source) -> Self {
        Self { source, arguments: |_, _| Arguments::new(), map_output: |_| None, sizes: awkward_sizes, count: 1 }
    }

    /// A point whose launches rotate through an output and inputs.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where one of them is shorter than the rotation.
    pub fn rotate(
        self,
        kernel: &KernelDesc,
        rotation: Rotation,
        out: Span,
        inputs: &[Span],
    ) -> Result<MappedPoint, Fault> {
        let out = out.first(rotation.bytes())?;
        let inputs = inputs.iter().map(|input| input.first(rotation.bytes())).collect::<Result<Vec<_>, Fault>>()?;
        let input = inputs.first().copied().unwrap_or(out);
        Ok(MappedPoint { rules: self, kernel: kernel.clone(), rotation, out, input, inputs, barrier: out, shared: 0 })
    }

    /// A point whose launches repeat on the same arrays of `bytes` bytes, one after another in `out` and in `input`.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where the kernel's arrays don't fit.
    pub fn repeat(self, kernel: &KernelDesc, bytes: u64, out: Span, input: Span) -> Result<MappedPoint, Fault> {
        let out = out.first(u64::from(kernel.outputs.max(1)) * bytes)?;
        let inputs = (0..u64::from(kernel.inputs)).map(|place| input.part(place * bytes, bytes));
        let inputs = inputs.collect::<Result<Vec<_>, Fault>>()?;
        let (kernel, rotation) = (kernel.clone(), Rotation::hot(bytes));
        Ok(MappedPoint { rules: self, kernel, rotation, out, input, inputs, barrier: out, shared: 0 })
    }

    /// Checks what one launch wrote. The kernel wrote the first `written` bytes of its output, or of each of its outputs.
    pub(crate) fn check<G: Gpu>(
        &self,
        checker: &Checker<G>,
        kernel: &KernelDesc,
        operands: &Operands<'_>,
        written: u64,
    ) -> Result<Check, Fault> {
        let out = operands.out.first(written)?;
        let operand = |k: usize| operands.inputs.get(k).copied().unwrap_or(out);
        match kernel.output {
            Output::WarpBits => {
                let mut inputs = operands.inputs.iter().take(kernel.inputs as usize);
                let expected = inputs.try_fold(0, |bits, input| Ok::<_, Fault>(bits ^ checker.xor_words(*input)?))?;
                Ok(Checker::<G>::compare_folds(&kernel.name, checker.xor_words(out)?, expected))
            }
            Output::WarpSums => {
                let found = checker.sum_products(kernel.element, out, None)?;
                let expected = checker.sum_products(kernel.element, operand(0), Some(operand(1)))?;
                let wrong = format!("{}: the sum is {found}, not {expected}", kernel.name);
                Ok(if found == expected { Check::Passed } else { Check::Failed(wrong) })
            }
            Output::Map => match (self.map_output)(kernel) {
                Some(MapOutput::Map(op, element)) => {
                    checker.check_map(op, element, out, [operand(0), operand(1), operand(2)], SCALAR.into())
                }
                Some(MapOutput::Mix) => {
                    let sizes = (operands.pitch, operands.n * u64::from(kernel.element.bytes()));
                    checker.check_mix(operands.out, operands.input, sizes, (kernel.inputs, kernel.outputs))
                }
                None => {
                    let why = format!("no rule says what {} writes: this is a bug in plimsoll", kernel.name);
                    Err(Fault::Invalid(why))
                }
            },
            Output::BlockMarks => checker.check_marks(out),
            Output::None => Ok(Check::Passed),
        }
    }
}

/// Bytes that one launch writes to each of its outputs, which are `pitch` bytes apart.
pub(crate) fn written_bytes<G: Gpu>(
    unit: &Unit<G>,
    kernel: &KernelDesc,
    n: u64,
    pitch: u64,
    arguments: &Arguments,
) -> Result<u64, Fault> {
    let touched = unit.touched(kernel, n, arguments)?;
    let written = touched.iter().find(|array| !array.access.reads()).map_or(0, |array| array.span.bytes());
    Ok(written.saturating_sub(u64::from(kernel.outputs.max(1) - 1) * pitch))
}

/// A point whose launches apply one kernel to the slices of arrays in turn.
#[derive(Clone, Debug)]
pub struct MappedPoint {
    rules: Rules,
    kernel: KernelDesc,
    rotation: Rotation,
    /// The results of all slices, or all outputs.
    out: Span,
    /// All memory that is read.
    input: Span,
    inputs: Vec<Span>,
    barrier: Span,
    shared: u32,
}

impl MappedPoint {
    /// Uses a word of zeros for grid barriers.
    #[must_use]
    pub fn with_barrier(mut self, barrier: Span) -> Self {
        self.barrier = barrier;
        self
    }

    /// Adds `shared` bytes of unused dynamic shared memory per block, so that fewer blocks are resident.
    #[must_use]
    pub fn with_shared(mut self, shared: u32) -> Self {
        self.shared = shared;
        self
    }

    /// The results of all slices.
    #[must_use]
    pub fn out(&self) -> Span {
        self.out
    }

    /// Elements of a slice.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.rotation.slice / u64::from(self.kernel.element.bytes())
    }

    /// What is known of one launch: its traffic, and the bytes per operand that the rotation covers.
    #[must_use]
    pub fn work(&self) -> Work {
        Work { traffic: self.kernel.traffic(self.n()), window: self.rotation.bytes(), ..Work::default() }
    }

    /// Calls `act` with the operands of a slice.
    fn on_slice<T>(&self, slice: u64, act: impl FnOnce(&Operands<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
        let size = self.rotation.slice;
        let cut = |array: Span| if self.rotation.slices == 1 { Ok(array) } else { array.part(slice * size, size) };
        let inputs = self.inputs.iter().map(|input| cut(*input)).collect::<Result<Vec<_>, Fault>>()?;
        act(&Operands {
            n: self.n(),
            out: cut(self.out)?,
            input: cut(self.input)?,
            inputs: &inputs,
            pitch: size,
            barrier: self.barrier,
            count: self.rules.count,
        })
    }

    fn arguments(&self, operands: &Operands<'_>) -> Arguments {
        (self.rules.arguments)(&self.kernel, operands)
    }

    /// A launch for each slice.
    ///
    /// # Errors
    /// Those of [`Unit::launch`].
    pub fn launches<G: Gpu>(&self, kit: &Kit<G>) -> Result<Vec<G::Launch>, Fault> {
        let launch =
            |with: &Operands<'_>| kit.unit.launch_with_shared(&self.kernel, with.n, self.arguments(with), self.shared);
        (0..self.rotation.slices).map(|slice| self.on_slice(slice, launch)).collect()
    }

    /// Adds to a load of these launches a check of what they wrote. Where calls are timed one by one, the number of slices that they
    /// reached isn't known, so only the first is checked.
    ///
    /// # Errors
    /// Those of [`Unit::touched`].
    pub fn add_check<G: Gpu>(&self, kit: &Kit<G>, load: Load<G>) -> Result<Load<G>, Fault> {
        let slices = if load.is_latency() { 1 } else { self.rotation.slices };
        let written =
            self.on_slice(0, |with| written_bytes(&kit.unit, &self.kernel, with.n, with.pitch, &self.arguments(with)))?;
        let (point, checker) = (self.clone(), Rc::clone(&kit.checker));
        Ok(load.with_check(move |_| point.check_slices(&checker, slices, written)))
    }

    /// Checks the first slices. A launch wrote `written` bytes to each.
    fn check_slices<G: Gpu>(&self, checker: &Checker<G>, slices: u64, written: u64) -> Result<Check, Fault> {
        let check = |with: &Operands<'_>, written| self.rules.check(checker, &self.kernel, with, written);
        if slices > 1 && self.kernel.output == Output::Map {
            // The results of all slices lie one after another, as their inputs do.
            let all = Rotation::hot(slices * self.rotation.slice);
            let whole = self.rules.rotate(&self.kernel, all, self.out, &self.inputs)?;
            return whole.on_slice(0, |with| check(with, all.bytes()));
        }
        combine_checks((0..slices).map(|slice| self.on_slice(slice, |with| check(with, written))))
    }

    /// Poisons the output and builds the point's workload.
    ///
    /// # Errors
    /// Those of [`MappedPoint::launches`] and [`MappedPoint::add_check`].
    pub fn load<G: Gpu>(&self, kit: &Kit<G>, shape: Shape) -> Result<Load<G>, Fault> {
        kit.checker.poison(self.out)?;
        self.add_check(kit, kit.load(shape, self.launches(kit)?, self.work())?)
    }
}
