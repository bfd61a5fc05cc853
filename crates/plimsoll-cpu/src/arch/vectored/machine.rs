//! Runs code over a tiling: on the threads of a team, tile by tile, in memory that is bound to it for one launch.

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
use super::tiling::{Tile, Tiling};
use crate::memory::{Buffer, Pages, Readable, Split, Writable};
use crate::threads::Team;

/// Most inputs and outputs together.
const STREAMS: usize = MAX_INPUTS + MAX_OUTPUTS;
/// Slots begin at multiples of this.
const LINE: usize = 64;

/// The memory of one launch: inputs that aren't written in place, then outputs, in order.
pub(crate) struct Memory<'m, I, O> {
    pub(crate) inputs: &'m [I],
    pub(crate) outputs: &'m mut [O],
}

/// Mistakes of the caller, which has to check users' arguments beforehand.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MachineError {
    #[error("the memory of stream {stream} {what}")]
    Memory { stream: usize, what: &'static str },
    #[error("code, tiling, memory and machine don't match: {0}")]
    Unfit(&'static str),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// The first byte of a stream's memory.
#[derive(Clone, Copy, Debug)]
struct Start(*mut u8);

// SAFETY: it is used only within a launch, by members that write disjoint tiles and read memory that no other member writes.
unsafe impl Send for Start {}
// SAFETY: as above.
unsafe impl Sync for Start {}

/// One member's count of repetitions, on separate cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct LaunchCount(AtomicUsize);

/// Code with its tiling, and scratch memory for each thread.
#[derive(Debug)]
pub(crate) struct Machine {
    code: Code,
    tiling: Tiling,
    /// For each input, the output whose memory it shares.
    in_place: Vec<Option<u16>>,
    isa: Isa,
    nontemporal: bool,
    arenas: Split<u8>,
    slot_bytes: usize,
    launches: Box<[LaunchCount]>,
    starts: Vec<Start>,
    uniforms: Vec<u64>,
}

impl Machine {
    /// `in_place`: for each input the output that overwrites it.
    pub(crate) fn new(
        code: Code,
        tiling: Tiling,
        in_place: Vec<Option<u16>>,
        (isa, nontemporal): (Isa, bool),
        threads: usize,
    ) -> Result<Self, MachineError> {
        let unfit = |what| Err(MachineError::Unfit(what));
        let streams = code.widths.len();
        let fits = streams <= STREAMS && streams - code.inputs <= MAX_OUTPUTS;
        if streams != tiling.streams.len() || !fits || in_place.len() != code.inputs {
            return unfit("the number of streams");
        }
        for (stream, width) in tiling.streams.iter().zip(&code.widths) {
            if stream.width != usize::from(*width) {
                return unfit("the widths of elements");
            }
        }
        if (0..streams).any(|stream| code.direct[stream] && !tiling.is_dense(stream)) {
            return unfit("a stream with gaps is accessed directly");
        }
        if !tiling.streams[code.inputs..].iter().all(|stream| stream.apart) {
            return unfit("elements of an output share memory");
        }
        for (input, &output) in in_place.iter().enumerate() {
            let Some(output) = output.map(usize::from) else { continue };
            let Some(target) = tiling.streams.get(code.inputs + output) else { return unfit("no such output") };
            let source = &tiling.streams[input];
            let same = (source.offset, source.outer, source.row, source.column, source.width)
                == (target.offset, target.outer, target.row, target.column, target.width);
            let twice = in_place.iter().filter(|other| **other == in_place[input]).count() > 1;
            // Neither a loop nor a copy may read and write the same memory.
            let copied = code.steps.iter().any(|step| match *step {
                Step::Scatter { from: Place::Input(from), output: to } => {
                    usize::from(from) == input && usize::from(to) == output
                }
                _ => false,
            });
            if !same || twice || copied || code.direct[code.inputs + output] {
                return unfit("an output that is written in place");
            }
        }
        let beyond = |step: &Step| matches!(*step, Step::Coordinates { dimension: Some(d), .. } if usize::from(d) >= tiling.rank);
        if code.steps.iter().any(beyond) {
            return unfit("a coordinate of a missing dimension");
        }
        if !isa.is_available() || (nontemporal && !isa.has_nontemporal()) || threads == 0 {
            return unfit("the instruction set or the number of threads");
        }
        // Not a multiple of 4 KiB, so that loads of one slot don't wait for stores to another (4 KiB aliasing).
        let slot_bytes = (tiling.tile_elements() * code.width).next_multiple_of(LINE) + 3 * LINE;
        let arena = (slot_bytes * usize::from(code.slots)).max(LINE);
        let arenas = Buffer::<u8>::new(arena * threads, Pages::Small)?.split(threads, LINE);
        let (uniforms, launches) =
            (vec![0; usize::from(code.uniforms)], (0..threads).map(|_| LaunchCount::default()).collect());
        Ok(Self {
            code,
            tiling,
            in_place,
            isa,
            nontemporal,
            arenas,
            slot_bytes,
            launches,
            starts: Vec::new(),
            uniforms,
        })
    }

    /// The values that are the same for all elements, in the encoding of their carriers.
    pub(crate) fn uniforms(&mut self) -> &mut [u64] {
        &mut self.uniforms
    }

    /// Runs over all elements `repeats` times, cycling through the sets of memory, and returns the ticks of the team's timer.
    /// Threads don't wait for each other between repetitions.
    pub(crate) fn run<I: Readable, O: Writable>(
        &mut self,
        team: &mut Team,
        repeats: u64,
        sets: &mut [Memory<'_, I, O>],
    ) -> Result<u64, MachineError> {
        self.starts.clear();
        for memory in sets.iter_mut() {
            self.bind(memory)?;
        }
        if team.size() > self.launches.len() {
            return Err(MachineError::Unfit("too many threads"));
        }
        if sets.is_empty() || self.tiling.is_empty() {
            return Ok(0);
        }
        self.launches.iter().for_each(|count| count.0.store(0, Ordering::Relaxed));
        let this = &*self;
        let launched = team.run_borrowed(repeats, &|rank| {
            let launch = this.launches[rank.index].0.fetch_add(1, Ordering::Relaxed);
            let streams = this.code.widths.len();
            let set = launch % (this.starts.len() / streams) * streams;
            let mut arena = this.arenas.part(rank.index);
            // SAFETY: `bind` checked the memory of every set, which `sets` keeps borrowed until all have finished; each
            // member has its own arena and tiles. If memory may only hold 0 and 1, the code stores only these: `bind`
            // compared the two, and `Code::new` checked all steps.
            unsafe { this.run_share(rank.index, rank.members, &this.starts[set..set + streams], &mut arena) };
        });
        self.starts.clear();
        Ok(launched?)
    }

    /// Checks one set of memory, and stores its addresses.
    fn bind<I: Readable, O: Writable>(&mut self, memory: &mut Memory<'_, I, O>) -> Result<(), MachineError> {
        let mut inputs = memory.inputs.iter();
        let outputs = self.code.widths.len() - self.code.inputs;
        let own = self.in_place.iter().filter(|output| output.is_none()).count();
        if memory.inputs.len() != own || memory.outputs.len() != outputs {
            return Err(MachineError::Unfit("the number of inputs and outputs"));
        }
        if memory.outputs.iter().zip(&self.code.bool_outputs).any(|(output, boolean)| output.only_bools() && !boolean) {
            return Err(MachineError::Unfit("memory of bool for an output of another type"));
        }
        // Take one pointer to each output, and only once: a second call of `start` would invalidate the first pointer. An
        // input that is written in place is read through its output's pointer.
        let mut written = [(std::ptr::null_mut(), 0); MAX_OUTPUTS];
        for (place, output) in written.iter_mut().zip(memory.outputs.iter_mut()) {
            let bytes = output.len();
            *place = (output.start(), bytes);
        }
        for (stream, in_place) in self.in_place.iter().enumerate() {
            let (start, bytes) = match in_place {
                Some(output) => written[usize::from(*output)],
                None => inputs.next().map_or((std::ptr::null_mut(), 0), |m| (m.start().cast_mut(), m.len())),
            };
            self.starts.push(self.check_stream(stream, start, bytes)?);
        }
        for (output, &(start, bytes)) in written[..outputs].iter().enumerate() {
            self.starts.push(self.check_stream(self.code.inputs + output, start, bytes)?);
        }
        Ok(())
    }

    /// Checks that a stream stays inside its memory and that its elements are aligned.
    fn check_stream(&self, stream: usize, start: *mut u8, bytes: usize) -> Result<Start, MachineError> {
        let layout = &self.tiling.streams[stream];
        let fault = |what| Err(MachineError::Memory { stream, what });
        if layout.reach.0 < 0 || layout.reach.1 > bytes as isize {
            return fault("is too short");
        }
        if layout.reach.0 < layout.reach.1 && !start.addr().is_multiple_of(layout.width) {
            return fault("isn't aligned to its elements");
        }
        Ok(Start(start))
    }

    /// Runs one member's tiles.
    ///
    /// # Safety
    /// Every stream reaches only memory from its start on that is valid for reads (for outputs, also for writes) until this
    /// returns; no other thread accesses the elements of this member's tiles.
    unsafe fn run_share(&self, rank: usize, members: usize, starts: &[Start], arena: &mut [u8]) {
        let share = self.tiling.share(rank, members);
        if share.is_empty() {
            return;
        }
        let mut bases = [std::ptr::null_mut(); STREAMS];
        let mut tile = self.tiling.tile(share.start);
        for _ in share {
            for ((base, start), stream) in bases.iter_mut().zip(starts).zip(&self.tiling.streams) {
                *base = start.0.wrapping_offset(stream.start(&tile));
            }
            let run = TileRun { machine: self, tile: &tile, bases: &bases, arena: Cell::new(arena.as_mut_ptr()) };
            for step in &self.code.steps {
                // SAFETY: the bases are those of this tile; the arena has the code's slots.
                unsafe { run.run_step(step) };
            }
            self.tiling.next(&mut tile);
        }
        if self.nontemporal {
            // SAFETY: `new` checked the set.
            unsafe { fence(self.isa) };
        }
    }
}

/// The run of the code on one tile.
struct TileRun<'t> {
    machine: &'t Machine,
    tile: &'t Tile,
    bases: &'t [*mut u8; STREAMS],
    arena: Cell<*mut u8>,
}

impl TileRun<'_> {
    /// The address of a place's elements.
    #[inline]
    fn address(&self, place: Place) -> *mut u8 {
        match place {
            Place::Slot(slot) => self.arena.get().wrapping_add(usize::from(slot) * self.machine.slot_bytes),
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

    /// # Safety
    /// The bases are valid for this tile of the code and the tiling, and no other thread accesses these elements.
    unsafe fn run_step(&self, step: &Step) {
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
                // the operands, and which are uniform; slots have room for a tile, are aligned to cache lines, and don't
                // overlap; streams that are accessed directly are dense (checked by `Machine::new`) and aligned (checked by
                // `check_stream`), and an output that shares an input's memory is never written directly.
                unsafe { (operation.function)(&arguments) }
            }
            // SAFETY: as above.
            Step::Reference { kind, dtype, operand_types, out, operands } => unsafe {
                let carried = kind.operands().len();
                let last = operand_types[carried.saturating_sub(1).min(2)].carrier();
                let width = dtype.carrier().bytes() as usize;
                let out = self.address(out);
                for i in 0..self.elements() {
                    let mut values = [Value::Int(0); 3];
                    for (value, (&place, dtype)) in
                        values.iter_mut().zip(operands.iter().zip(operand_types)).take(carried)
                    {
                        let index = if matches!(place, Place::Uniform(_)) { 0 } else { i };
                        *value = read(self.address(place), index, dtype.carrier());
                    }
                    let value = apply(kind, dtype, last, &values[..carried], Precision::Carried);
                    let bits = dtype.carrier().encode(value).to_le_bytes();
                    bits.as_ptr().copy_to_nonoverlapping(out.add(i * width), width);
                }
            },
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
            Step::Scatter { output, from } => unsafe { self.scatter(output, from) },
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

    /// # Safety
    /// As [`TileRun::run_step`].
    unsafe fn scatter(&self, output: u16, from: Place) {
        let stream = self.machine.code.inputs + usize::from(output);
        let (shape, width) = (self.strided(stream), self.machine.tiling.streams[stream].width);
        let (from, to) = (self.address(from).cast_const(), self.address(Place::Output(output)));
        // SAFETY: the caller promises the memory of both; rows don't overlap.
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
