//! Runs code over a tiling: on the threads of a team, tile by tile, in memory that is bound to it for one launch.

use std::cell::Cell;
use std::ops::Range;
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
use crate::threads::{CallPool, Team, catch_panic};

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

/// Most chunks into which a member's share of a call is divided, and most tiles of a chunk. A member that is late or slow leaves
/// at most a chunk to wait for.
const CHUNKS: usize = 16;
const CHUNK_TILES: usize = 32;

/// A member's count of repetitions, or of the tiles of its share that were taken; on separate cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter(AtomicUsize);

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
    counters: Box<[Counter]>,
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
        let uniforms = vec![0; usize::from(code.uniforms)];
        let counters = (0..threads).map(|_| Counter::default()).collect();
        Ok(Self {
            code,
            tiling,
            in_place,
            isa,
            nontemporal,
            arenas,
            slot_bytes,
            counters,
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
        if team.size() > self.counters.len() {
            return Err(MachineError::Unfit("too many threads"));
        }
        if sets.is_empty() || self.tiling.is_empty() {
            return Ok(0);
        }
        self.counters.iter().for_each(|count| count.0.store(0, Ordering::Relaxed));
        let this = &*self;
        let launched = team.run_borrowed(repeats, &|rank| {
            let launch = this.counters[rank.index].0.fetch_add(1, Ordering::Relaxed);
            let streams = this.code.widths.len();
            let set = launch % (this.starts.len() / streams) * streams;
            let share = this.tiling.share(rank.index, rank.members);
            // SAFETY: `bind` checked the memory of every set, which `sets` keeps borrowed until all have finished; shares are
            // disjoint.
            unsafe { this.run_tiles(rank.index, share, &this.starts[set..set + streams]) };
        });
        self.starts.clear();
        Ok(launched?)
    }

    /// Runs once over all elements, on the calling thread.
    pub(crate) fn run_alone<I: Readable, O: Writable>(
        &mut self,
        memory: &mut Memory<'_, I, O>,
    ) -> Result<(), MachineError> {
        self.starts.clear();
        self.bind(memory)?;
        // SAFETY: `bind` checked the memory, which `memory` keeps borrowed; no other thread takes part.
        let ran = catch_panic(|| unsafe { self.run_tiles(0, 0..self.tiling.tiles(), &self.starts) });
        self.starts.clear();
        Ok(ran?)
    }

    /// Runs once over all elements, on the calling thread and on helpers that join it. Each member takes chunks of its own share,
    /// so that it finds what it had in its caches in the call before, and then of the others' shares.
    pub(crate) fn run_call<I: Readable, O: Writable>(
        &mut self,
        pool: &CallPool,
        memory: &mut Memory<'_, I, O>,
    ) -> Result<(), MachineError> {
        self.starts.clear();
        self.bind(memory)?;
        if pool.size() > self.counters.len() {
            return Err(MachineError::Unfit("too many threads"));
        }
        self.counters.iter().for_each(|count| count.0.store(0, Ordering::Relaxed));
        let (this, members) = (&*self, pool.size());
        let chunk = (self.tiling.tiles() / members / CHUNKS).clamp(1, CHUNK_TILES);
        let ran = pool.run(&|member| {
            let Some(tiles) = this.take_chunk(member, members, chunk) else { return false };
            // SAFETY: as for a team; each tile is in one chunk, which one member takes.
            unsafe { this.run_tiles(member, tiles, &this.starts) };
            true
        });
        self.starts.clear();
        Ok(ran?)
    }

    /// The next tiles for a member, from its own share or from another's.
    fn take_chunk(&self, member: usize, members: usize, chunk: usize) -> Option<Range<usize>> {
        let take = |owner: usize| {
            let (share, taken) = (self.tiling.share(owner, members), &self.counters[owner].0);
            // The first look keeps the counter near the number of tiles.
            if taken.load(Ordering::Relaxed) >= share.len() {
                return None;
            }
            let begin = share.start + taken.fetch_add(chunk, Ordering::Relaxed);
            (begin < share.end).then(|| begin..share.end.min(begin + chunk))
        };
        (0..members).find_map(|next| take((member + next) % members))
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
        let first = self.starts.len();
        for stream in 0..self.code.inputs {
            let source = if self.in_place[stream].is_none() { inputs.next() } else { None };
            let start = source.map(|source| self.check_stream(stream, source.start().cast_mut(), source.len()));
            self.starts.push(start.transpose()?.unwrap_or(Start(std::ptr::null_mut())));
        }
        for (output, target) in memory.outputs.iter_mut().enumerate() {
            let bytes = target.len();
            self.starts.push(self.check_stream(self.code.inputs + output, target.start(), bytes)?);
        }
        for (stream, output) in self.in_place.iter().enumerate() {
            // The streams of both are the same, as `new` checked.
            if let Some(output) = output {
                self.starts[first + stream] = self.starts[first + self.code.inputs + usize::from(*output)];
            }
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

    /// Runs some tiles as one member. If memory may only hold 0 and 1, the code stores only these: `bind` compared the two, and
    /// `Code::new` checked all steps.
    ///
    /// # Safety
    /// Every stream reaches only memory from its start on that is valid for reads (for outputs, also for writes) until this
    /// returns; no other thread accesses the elements of these tiles.
    unsafe fn run_tiles(&self, member: usize, tiles: Range<usize>, starts: &[Start]) {
        if tiles.is_empty() {
            return;
        }
        // Small calls notice the lock.
        let mut arena = (self.code.slots > 0).then(|| self.arenas.part(member));
        let slots = arena.as_mut().map_or(std::ptr::null_mut(), |arena| arena.as_mut_ptr());
        let mut bases = [std::ptr::null_mut(); STREAMS];
        let mut tile = self.tiling.tile(tiles.start);
        for _ in tiles {
            for ((base, start), stream) in bases.iter_mut().zip(starts).zip(&self.tiling.streams) {
                *base = start.0.wrapping_offset(stream.start(&tile));
            }
            let run = TileRun { machine: self, tile: &tile, bases: &bases, arena: Cell::new(slots) };
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
