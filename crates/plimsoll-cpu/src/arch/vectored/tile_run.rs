//! The run of code on one tile.

use plimsoll_expr::oracle::{Precision, apply};
use plimsoll_expr::{DType, Value};

use super::ahead::{Ahead, NextInput};
use super::code::{Place, Step};
use super::loops::{Arguments, BLOCK, PastCaches};
use super::machine::{Machine, STREAMS};
use super::moves::{Fetch, Strided, gather, past_caches, scatter};
use super::operation::Operation;
use super::tiling::Tile;

/// Bytes of a cache line.
const LINE: usize = 64;

/// The run of the code on one tile.
pub(super) struct TileRun<'t> {
    pub(super) machine: &'t Machine,
    pub(super) tile: &'t Tile,
    pub(super) bases: &'t [*mut u8; STREAMS],
    /// The first slot.
    pub(super) slots: *mut u8,
    /// The next tile's inputs.
    pub(super) ahead: Option<&'t Ahead>,
}

impl TileRun<'_> {
    /// The address of a place's elements.
    #[inline]
    fn address(&self, place: Place) -> *mut u8 {
        match place {
            Place::Slot(slot) => self.slots.wrapping_add(usize::from(slot) * self.machine.slot_bytes),
            Place::Input(input) => self.bases[usize::from(input)],
            Place::Output(output) => self.bases[self.machine.code.inputs + usize::from(output)],
            Place::Uniform(value) => (&raw const self.machine.uniforms[usize::from(value)]).cast_mut().cast(),
        }
    }

    /// How many elements this tile has.
    #[inline]
    fn elements(&self) -> usize {
        let (rows, columns) = self.machine.tiling.size(self.tile);
        rows * columns
    }

    /// The tile in a stream's memory.
    fn strided(&self, stream: usize) -> Strided {
        let (rows, columns) = self.machine.tiling.size(self.tile);
        let layout = &self.machine.tiling.streams[stream];
        if self.machine.tiling.is_dense(stream) {
            let (columns, column) = (rows * columns, layout.width as isize);
            return Strided { row: 0, column, rows: 1, columns };
        }
        Strided { row: layout.row, column: layout.column, rows, columns }
    }

    /// Runs all steps.
    ///
    /// # Safety
    /// The bases are valid for this tile of the code and the tiling, and no other thread accesses these elements.
    pub(super) unsafe fn run(&self) {
        // SAFETY: the caller promises the same.
        unsafe {
            match &self.machine.code.steps[..] {
                [Step::Apply { operation, operands, out }, Step::Scatter { output, from }]
                    if out == from && self.streams(operation, *output) =>
                {
                    self.stream(operation, operands, *out, *output);
                }
                steps => steps.iter().for_each(|step| self.run_step(step)),
            }
        }
    }

    /// Whether an operation's results can be stored past the caches block by block.
    fn streams(&self, operation: &Operation, output: u16) -> bool {
        let Machine { nontemporal, tiling, code, .. } = self.machine;
        *nontemporal && operation.streams && tiling.is_dense(code.inputs + usize::from(output))
    }

    /// Applies an operation and stores its results past the caches, block by block from the first cache line on.
    ///
    /// # Safety
    /// As [`TileRun::run`]; `out` is a slot, and the output is dense.
    unsafe fn stream(&self, operation: &Operation, operands: &[Place; 3], out: Place, output: u16) {
        let (width, elements) = (usize::from(operation.result), self.elements());
        let to = self.address(Place::Output(output));
        let head = (to.align_offset(LINE) / width).min(elements);
        let blocks = head + (elements - head) / BLOCK * BLOCK;
        for (begin, end, whole) in [(0, head, false), (head, blocks, true), (blocks, elements, false)] {
            if begin == end {
                continue;
            }
            let to = to.wrapping_add(begin * width);
            let past = whole.then(|| PastCaches { to, width, steps: operation.steps() });
            let arguments = Arguments { past, ..self.arguments(operation, operands, (begin, end - begin), out) };
            // SAFETY: as for a step; the slot has room for a tile, and these elements are in every stream. Blocks begin at a cache line. An
            // input that shares the output's memory has its layout (`Machine::new`), and a block is read before it is stored.
            unsafe {
                (operation.function)(&arguments);
                if !whole {
                    let fetch = Fetch { inputs: &[], first: 0, width };
                    past_caches(self.machine.isa, arguments.out, to, (end - begin) * width, fetch);
                }
            }
        }
    }

    /// The arguments of an operation on elements of the tile, first and number, with results at the beginning of `out`.
    fn arguments(
        &self,
        operation: &Operation,
        operands: &[Place; 3],
        (first, n): (usize, usize),
        out: Place,
    ) -> Arguments<'_> {
        let mut arguments =
            Arguments { n, out: self.address(out), operands: [std::ptr::null(); 3], ahead: &[], past: None };
        for (k, step) in operation.steps().into_iter().enumerate() {
            if operation.operands[k] > 0 {
                arguments.operands[k] = self.address(operands[k]).wrapping_add(first * step);
            }
        }
        arguments
    }

    /// # Safety
    /// As [`TileRun::run`].
    unsafe fn run_step(&self, step: &Step) {
        match *step {
            Step::Apply { operation, out, operands } => {
                let whole = self.arguments(&operation, &operands, (0, self.elements()), out);
                let arguments = Arguments { ahead: self.share(step), ..whole };
                // SAFETY: `Code::new` checked that each place holds elements of the loop's widths, that `out` is none of
                // the operands, and which are uniform; slots have room for a tile, are aligned to cache lines, and don't
                // overlap; streams that are accessed directly are dense (checked by `Machine::new`) and aligned (checked by
                // `check_stream`), and an output that shares an input's memory is never written directly.
                unsafe { (operation.function)(&arguments) }
            }
            // SAFETY: as above.
            Step::Reference { .. } => unsafe { self.apply_reference(step) },
            Step::Gather { input, out } => {
                let (from, shape) = (self.address(Place::Input(input)), self.strided(usize::from(input)));
                let to = self.address(out);
                // SAFETY: the stream's elements are inside its memory; the slot has room for a tile of them.
                unsafe {
                    match self.machine.tiling.streams[usize::from(input)].width {
                        1 => gather::<u8>(from, shape, to),
                        2 => gather::<u16>(from, shape, to),
                        4 => gather::<u32>(from, shape, to),
                        _ => gather::<u64>(from, shape, to),
                    }
                }
            }
            // SAFETY: as for a gather; an input that is scattered doesn't share that output's memory (`Machine::new`).
            Step::Scatter { output, from } => unsafe { self.scatter(output, from, self.share(step)) },
            Step::Coordinates { dimension, out } => {
                let out = self.address(out).cast::<i64>();
                let (_, columns) = self.machine.tiling.size(self.tile);
                for i in 0..self.elements() {
                    let value = self.coordinate(dimension, i / columns, i % columns);
                    // SAFETY: the slot has room for a tile of 8-byte elements, as `Code::new` checked.
                    unsafe { out.add(i).write(value) };
                }
            }
        }
    }

    /// Applies a reference operation to one element after the other. It does nothing for other steps.
    ///
    /// # Safety
    /// As [`TileRun::run_step`].
    unsafe fn apply_reference(&self, step: &Step) {
        let &Step::Reference { kind, dtype, operand_types, out, operands } = step else { return };
        let carried = kind.operands().len();
        let last = operand_types[carried.saturating_sub(1).min(2)].carrier();
        let width = dtype.carrier().bytes() as usize;
        let out = self.address(out);
        for i in 0..self.elements() {
            let mut values = [Value::Int(0); 3];
            for (value, (&place, dtype)) in values.iter_mut().zip(operands.iter().zip(operand_types)).take(carried) {
                let index = if matches!(place, Place::Uniform(_)) { 0 } else { i };
                // SAFETY: the caller promises that each place holds elements of the operands' types.
                *value = unsafe { read(self.address(place), index, dtype.carrier()) };
            }
            let value = apply(kind, dtype, last, &values[..carried], Precision::Carried);
            let bits = dtype.carrier().encode(value).to_le_bytes();
            // SAFETY: the caller also promises that the output has room for as many elements of its type.
            unsafe { bits.as_ptr().copy_to_nonoverlapping(out.add(i * width), width) };
        }
    }

    /// What a step should fetch of the next tile.
    fn share(&self, step: &Step) -> &[NextInput] {
        let ahead = self.ahead.filter(|_| self.machine.code.fetches(step));
        ahead.map_or(&[], Ahead::share)
    }

    /// # Safety
    /// As [`TileRun::run_step`].
    unsafe fn scatter(&self, output: u16, from: Place, ahead: &[NextInput]) {
        let stream = self.machine.code.inputs + usize::from(output);
        let (shape, width) = (self.strided(stream), self.machine.tiling.streams[stream].width);
        let (from, to) = (self.address(from).cast_const(), self.address(Place::Output(output)));
        // SAFETY: the caller promises the memory of both; rows don't overlap.
        unsafe {
            if self.machine.nontemporal && shape.column == width as isize {
                for row in 0..shape.rows {
                    let from = from.add(row * shape.columns * width);
                    let to = to.offset(shape.row * row as isize);
                    let fetch = Fetch { inputs: ahead, first: row * shape.columns, width };
                    past_caches(self.machine.isa, from, to, shape.columns * width, fetch);
                }
                return;
            }
            match width {
                1 => scatter::<u8>(from, shape, to),
                2 => scatter::<u16>(from, shape, to),
                4 => scatter::<u32>(from, shape, to),
                _ => scatter::<u64>(from, shape, to),
            }
        }
    }

    /// A coordinate, or the row-major index, of an element of the tile.
    fn coordinate(&self, dimension: Option<u8>, row: usize, column: usize) -> i64 {
        let tiling = &self.machine.tiling;
        let (row, column) = (self.tile.row + row, self.tile.column + column);
        match dimension {
            Some(dimension) => {
                let rank = tiling.rank;
                let coordinate = match rank - 1 - usize::from(dimension) {
                    0 => column,
                    1 => row,
                    _ => self.tile.outer[usize::from(dimension)],
                };
                coordinate as i64
            }
            None => {
                let outer = self.tile.outer.iter().zip(&tiling.outer).fold(0, |place, (i, extent)| place * extent + i);
                ((outer * tiling.rows + row) * tiling.columns + column) as i64
            }
        }
    }
}

/// The element `index` of a carrier.
///
/// # Safety
/// `from` has more than `index` elements.
unsafe fn read(from: *const u8, index: usize, carrier: DType) -> Value {
    let width = carrier.bytes() as usize;
    let mut bits = [0; 8];
    // SAFETY: the caller promises the element; a width is at most 8.
    unsafe { from.add(index * width).copy_to_nonoverlapping(bits.as_mut_ptr(), width) };
    carrier.decode(u64::from_le_bytes(bits))
}
