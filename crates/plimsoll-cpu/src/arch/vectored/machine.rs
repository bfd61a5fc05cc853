//! Runs code over a walk: on the threads of a team, tile by tile, in memory that is bound to it for the time of a launch.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_core::Fault;
use plimsoll_expr::graph::{MAX_INPUTS, MAX_OUTPUTS};
use plimsoll_expr::oracle::{Precision, apply};
use plimsoll_expr::{DType, Value};

use super::super::Isa;
use super::code::{Code, Place, Step};
use super::loops::Arguments;
use super::moves::{Strided, fence, gather, past_caches, scatter};
use super::walk::{Tile, Walk};
use crate::memory::{Buffer, Pages, Split, Writable};
use crate::threads::Team;

/// Most inputs and outputs together.
const STREAMS: usize = MAX_INPUTS + MAX_OUTPUTS;
/// Slots begin at multiples of this.
const LINE: usize = 64;

/// The memory of one launch: inputs that aren't written in place, then outputs, in order.
pub(crate) struct Memory<'m, 'a, O> {
    pub(crate) inputs: &'m [&'a [u8]],
    pub(crate) outputs: &'m mut [O],
}

/// What can't be run: mistakes of the caller, which checks what users give beforehand.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MachineError {
    #[error("the memory of stream {stream} {what}")]
    Memory { stream: usize, what: &'static str },
    #[error("code and walk don't go together: {0}")]
    Unfit(&'static str),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Where a stream's memory begins.
#[derive(Clone, Copy, Debug)]
struct Start(*mut u8);

// SAFETY: it is used within a launch alone, by members that write disjoint tiles and read what no other writes.
unsafe impl Send for Start {}
// SAFETY: as above.
unsafe impl Sync for Start {}

/// One member's count of launches, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Turn(AtomicUsize);

/// Code with its walk and scratch memory for each thread.
#[derive(Debug)]
pub(crate) struct Machine {
    code: Code,
    walk: Walk,
    /// The output whose memory an input shares.
    in_place: Vec<Option<u16>>,
    isa: Isa,
    nontemporal: bool,
    arenas: Split<u8>,
    slot_bytes: usize,
    iterations: Box<[Turn]>,
    starts: Vec<Start>,
    uniforms: Vec<u64>,
}

impl Machine {
    /// `in_place`: for each input the output that overwrites it.
    pub(crate) fn new(
        code: Code,
        walk: Walk,
        in_place: Vec<Option<u16>>,
        (isa, nontemporal): (Isa, bool),
        threads: usize,
    ) -> Result<Self, MachineError> {
        let unfit = |what| Err(MachineError::Unfit(what));
        let streams = code.widths.len();
        let fits = streams <= STREAMS && streams - code.inputs <= MAX_OUTPUTS;
        if streams != walk.streams.len() || !fits || in_place.len() != code.inputs {
            return unfit("their streams");
        }
        for (stream, width) in walk.streams.iter().zip(&code.widths) {
            if stream.width != usize::from(*width) {
                return unfit("the widths of their elements");
            }
        }
        if (0..streams).any(|stream| code.direct[stream] && !walk.is_dense(stream)) {
            return unfit("a stream with gaps that is taken as it lies");
        }
        if !walk.streams[code.inputs..].iter().all(|stream| stream.apart) {
            return unfit("an output whose elements share memory");
        }
        for (input, &output) in in_place.iter().enumerate() {
            let Some(output) = output.map(usize::from) else { continue };
            let Some(target) = walk.streams.get(code.inputs + output) else { return unfit("no such output") };
            let source = &walk.streams[input];
            let same = (source.offset, source.outer, source.row, source.column, source.width)
                == (target.offset, target.outer, target.row, target.column, target.width);
            let twice = in_place.iter().filter(|other| **other == in_place[input]).count() > 1;
            // Neither may a loop read and write the same memory, nor a copy.
            let copied = code.steps.iter().any(|step| match *step {
                Step::Scatter { from: Place::Input(from), output: to } => {
                    usize::from(from) == input && usize::from(to) == output
                }
                _ => false,
            });
            if !same || twice || copied || code.direct[code.inputs + output] {
                return unfit("what is written in place");
            }
        }
        let beyond =
            |step: &Step| matches!(*step, Step::Coordinates { dimension: Some(d), .. } if usize::from(d) >= walk.rank);
        if code.steps.iter().any(beyond) {
            return unfit("a coordinate of a dimension that isn't walked");
        }
        let isa_ok = isa.is_available();
        if !isa_ok || (nontemporal && !isa.has_nontemporal()) || threads == 0 {
            return unfit("this machine");
        }
        // Some lines apart from multiples of 4 KiB, so that loads of one slot don't wait for stores to another.
        let slot_bytes = (walk.tile_elements() * code.width).next_multiple_of(LINE) + 3 * LINE;
        let arena = (slot_bytes * usize::from(code.slots)).max(LINE);
        let arenas = Buffer::<u8>::new(arena * threads, Pages::Small)?.split(threads, LINE);
        let (uniforms, iterations) =
            (vec![0; usize::from(code.uniforms)], (0..threads).map(|_| Turn::default()).collect());
        Ok(Self {
            code,
            walk,
            in_place,
            isa,
            nontemporal,
            arenas,
            slot_bytes,
            iterations,
            starts: Vec::new(),
            uniforms,
        })
    }

    /// The values that are the same for all elements, in the encoding of their carriers.
    pub(crate) fn uniforms(&mut self) -> &mut [u64] {
        &mut self.uniforms
    }

    /// Runs over all elements `repeats` times, in one set of memory after the other, and returns the ticks of the team's
    /// timer. Threads don't wait for each other between repetitions.
    pub(crate) fn run<O: Writable>(
        &mut self,
        team: &mut Team,
        repeats: u64,
        sets: &mut [Memory<'_, '_, O>],
    ) -> Result<u64, MachineError> {
        self.starts.clear();
        for memory in sets.iter_mut() {
            self.bind(memory)?;
        }
        if team.size() > self.iterations.len() {
            return Err(MachineError::Unfit("more threads than it was made for"));
        }
        if sets.is_empty() || self.walk.is_empty() {
            return Ok(0);
        }
        self.iterations.iter().for_each(|iteration| iteration.0.store(0, Ordering::Relaxed));
        let this = &*self;
        let launched = team.lend(repeats, &|rank| {
            let iteration = this.iterations[rank.index].0.fetch_add(1, Ordering::Relaxed);
            let streams = this.code.widths.len();
            let set = iteration % (this.starts.len() / streams) * streams;
            let mut arena = this.arenas.part(rank.index);
            // SAFETY: `bind` checked the memory of every set, which `sets` keeps borrowed until all have finished; each
            // member has an arena and tiles of its own. Where memory holds nothing but 0 and 1, the code stores nothing else:
            // `bind` asked, and `Code::new` checked all its steps.
            unsafe { this.share(rank.index, rank.of, &this.starts[set..set + streams], &mut arena) };
        });
        self.starts.clear();
        Ok(launched?)
    }

    /// Checks one set of memory, and notes where it is.
    fn bind<O: Writable>(&mut self, memory: &mut Memory<'_, '_, O>) -> Result<(), MachineError> {
        let mut inputs = memory.inputs.iter();
        let outputs = self.code.widths.len() - self.code.inputs;
        let own = self.in_place.iter().filter(|output| output.is_none()).count();
        if memory.inputs.len() != own || memory.outputs.len() != outputs {
            return Err(MachineError::Unfit("the number of memories"));
        }
        if memory.outputs.iter().zip(&self.code.truths).any(|(output, truth)| output.only_truth() && !truth) {
            return Err(MachineError::Unfit("memory of bool for an output of another type"));
        }
        // One pointer to each output, asked for once: asking again would end the first one's right to the memory, and an
        // input that is written in place is read through its output's.
        let mut written = [(std::ptr::null_mut(), 0); MAX_OUTPUTS];
        for (place, output) in written.iter_mut().zip(memory.outputs.iter_mut()) {
            let bytes = output.len();
            *place = (output.start(), bytes);
        }
        for (stream, in_place) in self.in_place.iter().enumerate() {
            let (start, bytes) = match in_place {
                Some(output) => written[usize::from(*output)],
                None => inputs.next().map_or((std::ptr::null_mut(), 0), |m| (m.as_ptr().cast_mut(), m.len())),
            };
            self.starts.push(self.checked(stream, start, bytes)?);
        }
        for (output, &(start, bytes)) in written[..outputs].iter().enumerate() {
            self.starts.push(self.checked(self.code.inputs + output, start, bytes)?);
        }
        Ok(())
    }

    /// That a stream stays inside its memory and its elements are aligned.
    fn checked(&self, stream: usize, start: *mut u8, bytes: usize) -> Result<Start, MachineError> {
        let of = &self.walk.streams[stream];
        let fault = |what| Err(MachineError::Memory { stream, what });
        if of.reach.0 < 0 || of.reach.1 > bytes as isize {
            return fault("is too short");
        }
        if of.reach.0 < of.reach.1 && !start.addr().is_multiple_of(of.width) {
            return fault("isn't aligned to its elements");
        }
        Ok(Start(start))
    }

    /// One member's tiles.
    ///
    /// # Safety
    /// Every stream reaches only memory behind its start that is valid for reads, for outputs for writes, until this
    /// returns; no other thread uses the elements of this member's tiles.
    unsafe fn share(&self, rank: usize, of: usize, starts: &[Start], arena: &mut [u8]) {
        let share = self.walk.share(rank, of);
        if share.is_empty() {
            return;
        }
        let mut bases = [std::ptr::null_mut(); STREAMS];
        let mut tile = self.walk.tile(share.start);
        for _ in share {
            for ((base, start), stream) in bases.iter_mut().zip(starts).zip(&self.walk.streams) {
                *base = start.0.wrapping_offset(stream.start(&tile));
            }
            let at = At { machine: self, tile: &tile, bases: &bases, arena: Cell::new(arena.as_mut_ptr()) };
            for step in &self.code.steps {
                // SAFETY: the bases are those of this tile; the arena has the code's slots.
                unsafe { at.perform(step) };
            }
            self.walk.next(&mut tile);
        }
        if self.nontemporal {
            // SAFETY: `new` checked the set.
            unsafe { fence(self.isa) };
        }
    }
}

/// A tile at work.
struct At<'t> {
    machine: &'t Machine,
    tile: &'t Tile,
    bases: &'t [*mut u8; STREAMS],
    arena: Cell<*mut u8>,
}

impl At<'_> {
    /// Where a place's elements are.
    #[inline]
    fn address(&self, place: Place) -> *mut u8 {
        match place {
            Place::Slot(slot) => self.arena.get().wrapping_add(usize::from(slot) * self.machine.slot_bytes),
            Place::Input(input) => self.bases[usize::from(input)],
            Place::Output(output) => self.bases[self.machine.code.inputs + usize::from(output)],
            Place::Uniform(value) => (&raw const self.machine.uniforms[usize::from(value)]).cast_mut().cast(),
        }
    }

    /// Elements of this tile.
    #[inline]
    fn elements(&self) -> usize {
        let (rows, columns) = self.machine.walk.size(self.tile);
        rows * columns
    }

    /// The tile in a stream's memory.
    fn strided(&self, stream: usize) -> Strided {
        let (rows, columns) = self.machine.walk.size(self.tile);
        let of = &self.machine.walk.streams[stream];
        if self.machine.walk.is_dense(stream) {
            let (columns, column) = (rows * columns, of.width as isize);
            return Strided { row: 0, column, rows: 1, columns };
        }
        Strided { row: of.row, column: of.column, rows, columns }
    }

    /// # Safety
    /// The bases are valid for this tile as the code and the walk have it, and nobody else uses these elements.
    unsafe fn perform(&self, step: &Step) {
        match *step {
            Step::Apply { operation, out, operands } => {
                let mut arguments =
                    Arguments { n: self.elements(), out: self.address(out), operands: [std::ptr::null(); 3] };
                for (address, (&place, &width)) in
                    arguments.operands.iter_mut().zip(operands.iter().zip(&operation.operands))
                {
                    if width > 0 {
                        *address = self.address(place);
                    }
                }
                // SAFETY: `Code::new` checked that each place holds elements of the loop's widths, that `out` is none of
                // the operands, and which are uniform; slots have room for a tile, are aligned to lines, and lie apart;
                // streams that are taken directly are dense (checked by `Machine::new`) and aligned (by `checked`), and
                // an output that shares an input's memory is never written directly.
                unsafe { (operation.function)(&arguments) }
            }
            // SAFETY: as above.
            Step::Reference { kind, dtype, of, out, operands } => unsafe {
                let carried = kind.operands().len();
                let last = of[carried.saturating_sub(1).min(2)].carrier();
                let width = dtype.carrier().bytes() as usize;
                let out = self.address(out);
                for i in 0..self.elements() {
                    let mut values = [Value::Int(0); 3];
                    for (value, (&place, of)) in values.iter_mut().zip(operands.iter().zip(of)).take(carried) {
                        let index = if matches!(place, Place::Uniform(_)) { 0 } else { i };
                        *value = read(self.address(place), index, of.carrier());
                    }
                    let value = apply(kind, dtype, last, &values[..carried], Precision::Carried);
                    let bits = dtype.carrier().encode(value).to_le_bytes();
                    bits.as_ptr().copy_to_nonoverlapping(out.add(i * width), width);
                }
            },
            Step::Gather { input, out } => {
                let (from, shape) = (self.address(Place::Input(input)), self.strided(usize::from(input)));
                let to = self.address(out);
                // SAFETY: the stream's elements are inside its memory, the slot has room for a tile of them.
                unsafe {
                    match self.machine.walk.streams[usize::from(input)].width {
                        1 => gather::<u8>(from, shape, to),
                        2 => gather::<u16>(from, shape, to),
                        4 => gather::<u32>(from, shape, to),
                        _ => gather::<u64>(from, shape, to),
                    }
                }
            }
            // SAFETY: as for a gather; what is scattered from an input isn't that output's memory (`Machine::new`).
            Step::Scatter { output, from } => unsafe { self.scatter(output, from) },
            Step::Coordinates { dimension, out } => {
                let out = self.address(out).cast::<i64>();
                let (_, columns) = self.machine.walk.size(self.tile);
                for i in 0..self.elements() {
                    let value = self.coordinate(dimension, i / columns, i % columns);
                    // SAFETY: the slot has room for a tile of 8 bytes each, as `Code::new` saw.
                    unsafe { out.add(i).write(value) };
                }
            }
        }
    }

    /// # Safety
    /// As [`At::perform`].
    unsafe fn scatter(&self, output: u16, from: Place) {
        let stream = self.machine.code.inputs + usize::from(output);
        let (shape, width) = (self.strided(stream), self.machine.walk.streams[stream].width);
        let (from, to) = (self.address(from).cast_const(), self.address(Place::Output(output)));
        // SAFETY: the caller promises the memory of both; rows lie apart.
        unsafe {
            if self.machine.nontemporal && shape.column == width as isize {
                for row in 0..shape.rows {
                    let from = from.add(row * shape.columns * width);
                    past_caches(self.machine.isa, from, to.offset(shape.row * row as isize), shape.columns * width);
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

    /// A coordinate, or the row-major place, of an element of the tile.
    fn coordinate(&self, dimension: Option<u8>, row: usize, column: usize) -> i64 {
        let walk = &self.machine.walk;
        let (row, column) = (self.tile.row + row, self.tile.column + column);
        match dimension {
            Some(dimension) => {
                let rank = walk.rank;
                let coordinate = match rank - 1 - usize::from(dimension) {
                    0 => column,
                    1 => row,
                    _ => self.tile.outer[usize::from(dimension)],
                };
                coordinate as i64
            }
            None => {
                let outer = self.tile.outer.iter().zip(&walk.outer).fold(0, |place, (i, extent)| place * extent + i);
                ((outer * walk.rows + row) * walk.columns + column) as i64
            }
        }
    }
}

/// An element of a carrier.
///
/// # Safety
/// There are more than `index` elements.
unsafe fn read(from: *const u8, index: usize, carrier: DType) -> Value {
    let width = carrier.bytes() as usize;
    let mut bits = [0; 8];
    // SAFETY: the caller promises the element; a width is at most 8.
    unsafe { from.add(index * width).copy_to_nonoverlapping(bits.as_mut_ptr(), width) };
    carrier.decode(u64::from_le_bytes(bits))
}
