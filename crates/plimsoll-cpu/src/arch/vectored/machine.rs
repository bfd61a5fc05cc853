//! Runs code over a tiling: on the threads of a team, tile by tile, in memory that is bound to it for one launch.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_core::Fault;
use plimsoll_expr::graph::{MAX_INPUTS, MAX_OUTPUTS};

use super::super::Isa;
use super::ahead::Ahead;
use super::code::{Code, Place, Step};
use super::moves::fence;
use super::tile_run::TileRun;
use super::tiling::Tiling;
use crate::memory::{Buffer, Pages, Readable, Split, Writable};
use crate::threads::{CallPool, Team, catch_panic};

/// Most inputs and outputs together.
pub(super) const STREAMS: usize = MAX_INPUTS + MAX_OUTPUTS;
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
pub(super) struct Start(pub(super) *mut u8);

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
    pub(super) code: Code,
    pub(super) tiling: Tiling,
    /// For each input, the output whose memory it shares.
    in_place: Vec<Option<u16>>,
    pub(super) isa: Isa,
    pub(super) nontemporal: bool,
    arenas: Split<u8>,
    pub(super) slot_bytes: usize,
    counters: Box<[Counter]>,
    starts: Vec<Start>,
    pub(super) uniforms: Vec<u64>,
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
        let fits = code.inputs <= MAX_INPUTS && streams - code.inputs <= MAX_OUTPUTS;
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
        // Where outputs stay in a cache, inputs mostly do too.
        let mut ahead = (self.nontemporal && self.code.fetching() > 0).then(|| Ahead::new(self.code.fetching()));
        for number in tiles.clone() {
            for ((base, start), stream) in bases.iter_mut().zip(starts).zip(&self.tiling.streams) {
                *base = start.0.wrapping_offset(stream.start(&tile));
            }
            let mut next = tile;
            self.tiling.next(&mut next);
            if let Some(ahead) = &mut ahead {
                let is_last = number + 1 == tiles.end;
                ahead.begin(&self.code, &self.tiling, starts, (!is_last).then_some(&next));
            }
            let run = TileRun { machine: self, tile: &tile, bases: &bases, slots, ahead: ahead.as_ref() };
            // SAFETY: the bases are those of this tile; the arena has the code's slots.
            unsafe { run.run() };
            tile = next;
        }
        if self.nontemporal {
            // SAFETY: `new` checked the set.
            unsafe { fence(self.isa) };
        }
    }
}
