//! Vector width, unroll factor, block size and hints: from the user's choice, the device's table, or the bytes-in-flight rule.

use plimsoll_expr::Graph;

use super::coordinates::crosses;
use super::tensors::Tensor;
use super::{Choose, Device, PlanError, Reason, Tensors, bulk, stacked};
use crate::elementwise::spec::{Dependent, Form, Tier};
use crate::elementwise::table::{Class, Row, Table, Wanted, Work};
use crate::elementwise::weight::Weight;
use crate::kernel::Hints;

/// The free choices of a kernel, with their reasons.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Flat or bulk, if the tensors allow both.
    pub form: Form,
    /// Bytes per access of the narrowest tensor.
    pub vector: u32,
    /// Accesses per tensor and thread.
    pub unroll: u32,
    /// Threads per block.
    pub threads: u32,
    /// Cache hints.
    pub hints: Hints,
    /// When the next kernel may begin.
    pub dependent: Dependent,
    /// Blocks prefetch their inputs while they wait, if the form allows it.
    pub prefetch: bool,
    /// The choices are those of a row of the expression's own class, measured with the registers that the compiler takes by itself.
    pub measured: bool,
    /// Arithmetic takes about as long as memory.
    pub heavy: bool,
    /// The reasons for the choices.
    pub reasons: Vec<Reason>,
}

/// Bytes that each SM must have in flight to keep its share of memory busy: latency times bandwidth. A100 16 KiB,
/// H100 32 KiB, H200 48 KiB, B200 64 KiB; devices with GDDR memory need less per SM.
pub fn bytes_in_flight(device: &Device) -> u32 {
    let kib = match device.target.capability {
        100..110 => 64,
        90 if device.l2_bytes > (55 << 20) => 48,
        90 => 32,
        _ => 16,
    };
    kib << 10
}

/// Bytes per SM above which launches that fit into L2 are of medium size.
const MEDIUM: u64 = 32 << 10;
/// Fewest bytes of an access that the rule takes.
const LEAST_ACCESS: u32 = 2;
/// Bytes of an access to shared memory.
const BULK_ACCESS: u32 = 16;

/// Launches that move more than this many times L2 have blocks of 128 threads: on an H200 0.5 % faster than 256. In smaller ones that
/// may overlap, blocks of 256 are up to 10 % faster. In smaller plain ones, heavy work in blocks of 128 took up to 3 % less time, light work the same.
const LARGE: u64 = 4;

/// Bytes moved by the largest launch that prefetches its inputs while it waits. In longer launches the start is less than a
/// hundredth of the time: on an H200 some gained up to 0.6 % by a prefetch, and those near the power limit lost up to 2 %.
const MOST_PREFETCHED: u64 = 256 << 20;

fn hints_from_bits(bits: u32) -> Hints {
    Hints { load_no_allocate: bits & 1 != 0, store_streaming: bits & 2 != 0 }
}

/// The choices of the bytes-in-flight rule, with the reason.
fn apply_rule(tensors: &Tensors, device: &Device, work: Option<(Work, Weight)>, choose: &Choose) -> (Row, String) {
    // One access to the widest tensor, and at least two bytes of the narrowest: with two accesses to the widest, a conversion from bf16 to f32
    // took an H200 192 µs instead of 169, one from u8 to f64 95 instead of 72.
    let narrowest = tensors.narrowest();
    let bytes = tensors.bytes_moved();
    let heavy = work.is_some_and(|(work, _)| work == Work::Heavy);
    let overlaps = choose.dependent && fits_with_next(tensors, device);
    let halves = reads_halves(tensors, device, heavy, overlaps);
    let lanes = lanes_of(tensors, device.target.widest_access() / if halves { 2 } else { 1 });
    let vector = lanes * narrowest;
    // With heavy work, threads compute for about as long as they wait for memory, so twice as many bytes must be in flight. On an H200 that is
    // 1 to 4 % faster from 128 MiB on; smaller launches have too few blocks for it.
    let times = if heavy && bytes > device.l2_bytes { 2 } else { 1 };
    let in_flight = |times: u32, threads: u32| (times * bytes_in_flight(device)).div_ceil(threads.max(1));
    let threads = device.threads_per_multiprocessor;
    let all = in_flight(times, threads) / read_by_thread(tensors, lanes, true).max(vector);
    // Fewer threads fit on an SM where each takes many registers. What comes from caches isn't waited for as long as what comes from memory.
    let fitting = work.map_or(threads, |(_, weight)| threads.min(REGISTERS / weight.registers));
    let from_memory = tensors.streamed_inputs() > 0;
    let of_fitting =
        in_flight(1, fitting) / read_by_thread(tensors, lanes, !from_memory || fitting == threads).max(vector);
    // Two vectors where one is nearly enough were up to 4 % slower on an H200, and twice as slow in small launches.
    let mut unroll = power_of_two(all.max(of_fitting));
    let medium = bytes > MEDIUM * u64::from(device.multiprocessors);
    if heavy && halves {
        unroll = 1;
    } else if medium {
        unroll = unroll.max(vectors_moved(tensors, lanes, device, (overlaps, halves)));
    }
    let balanced = heavy && medium && tensors.flat() && !overlaps;
    let row = Row {
        class: Class { inputs: 0, outputs: 0, narrowest: 0, widest: 0, work: Work::Copy },
        most_bytes: u64::MAX,
        dependent: choose.dependent,
        cached: false,
        form: Form::Flat,
        vector,
        unroll,
        threads: if balanced || bytes > LARGE * device.l2_bytes { 128 } else { BLOCK },
        hints: rule_hints(tensors, device, choose.cached),
        release: Dependent::No,
    };
    let why = format!("{} KiB in flight per SM keep memory busy", (times * bytes_in_flight(device)) >> 10);
    (row, why)
}

/// Whether inputs are read in half accesses, so that a launch has twice as many threads.
///
/// Heavy work in few blocks, because it is then spread more evenly, and fewer registers leave room for more threads. On an H200,
/// `abs(tanh(mish(x - 0.7))) + y` of bf16 took 2.40 µs and 2.17 at 1.1 MiB per tensor, 3.90 and 3.58 at 3 MiB, but 17.5 and 17.7 at 22 MiB. Plain
/// launches gain up to one wave of whole accesses; at 1.1 waves, three others lost 2 to 5 %. Launches that overlap gain up to one and a half, unless
/// halves leave no room for the next launch: 1.75 and 1.91 µs at 1.1 MiB, 5.27 and 4.79 at 5 MiB. Single elements of f64: plain launches
/// gain as much (`tanh(x) + erf(y)` 2.39 µs and 1.99 at 0.5 MiB, 6.32 and 5.57 at 4 MiB), those that overlap only if two still fit at once, or if
/// whole accesses unbalance them: 1.78 and 1.46 at 0.5 MiB, 5.21 and 3.86 at 2.6 MiB.
///
/// With tensors that aren't flat, launches gain up to half a wave: `gelu(x + y)*silu(x)` of f16 with a y per row took 2.14 µs and 1.80 at 0.7 MiB, 3.14 and 2.73 at
/// 2 MiB; `erf(x)*tanh(y)` of f64 3.19 and 1.96 in single elements. With more blocks, two of seven lost up to 12 %, because vectors share
/// functions of what is the same along rows.
///
/// Less work with several inputs that about fit into L2, but take more than two blocks per SM: 1 to 3 % faster from 4 to 64 MiB, and up to 16 % where
/// launches may overlap.
fn reads_halves(tensors: &Tensors, device: &Device, heavy: bool, overlaps: bool) -> bool {
    let bytes = tensors.bytes_moved();
    if !heavy {
        let medium = bytes > MEDIUM * u64::from(device.multiprocessors) && bytes <= device.l2_bytes / 8 * 9;
        return medium && tensors.streamed_inputs() > 1;
    }
    let access = device.target.widest_access();
    let (whole, half) = (lanes_of(tensors, access), lanes_of(tensors, access / 2));
    let blocks = |lanes: u32| tensors.elements.div_ceil(u64::from(lanes * BLOCK));
    let room = device.wave(BLOCK);
    let crowds_out = fits_twice(blocks(whole), room) && !fits_twice(blocks(half), room);
    let gains_overlapped =
        if half > 1 { !crowds_out } else { fits_twice(blocks(half), room) || unbalances(blocks(whole), room) };
    let most = match (tensors.flat(), overlaps) {
        (true, true) => room + room / 2,
        (true, false) => room,
        (false, _) => room / 2,
    };
    half < whole && blocks(whole) <= most && (!overlaps || gains_overlapped)
}

/// Threads of most blocks.
const BLOCK: u32 = 256;

/// Elements of an access of this many bytes to the widest tensor, but at least [`LEAST_ACCESS`] of the narrowest.
fn lanes_of(tensors: &Tensors, access: u32) -> u32 {
    let widest = tensors.moving().map(|tensor| tensor.bytes).max().unwrap_or(1);
    (access / widest).max(LEAST_ACCESS / tensors.narrowest()).max(1)
}

/// The largest power of two up to `vectors`, at most 4.
fn power_of_two(vectors: u32) -> u32 {
    1 << vectors.clamp(1, 4).ilog2()
}

/// Bytes that a thread reads for this many elements, from memory or also from caches.
fn read_by_thread(tensors: &Tensors, lanes: u32, also_from_caches: bool) -> u32 {
    let counts = |tensor: &&Tensor| !tensor.output && (also_from_caches || !tensors.comes_from_cache(tensor));
    tensors.moving().filter(counts).map(|tensor| tensor.bytes * lanes).sum()
}

/// Data are written once and not read again soon, unless all of them fit into L2. Launches that only write gain at any size: on an H200, outer
/// sums of f32 took 2.12 µs without the hint and 1.82 with it at 4 MiB, 5.91 and 5.64 at 20 MiB, 24.17 and 23.87 at 100 MiB.
fn rule_hints(tensors: &Tensors, device: &Device, cached: bool) -> u32 {
    match tensors.bytes_moved() > device.l2_bytes {
        true => 3,
        false if only_writes(tensors) && !cached => 2,
        false => 0,
    }
}

/// Whether memory is only written, because no input is or all of them come from caches.
fn only_writes(tensors: &Tensors) -> bool {
    tensors.streamed_inputs() == 0
}

/// Fewest bytes that a thread moves from or to memory in launches that aren't small: threads that hardly move memory end before the next ones can
/// start. On an H200, an outer difference of f32 that writes 256 MiB took 81 µs with 16 bytes per thread and 60 with 32.
const LEAST_MOVED: u32 = 32;

/// Vectors of this many elements with which a thread moves about [`LEAST_MOVED`], or at least as much where that gains: in plain launches of more than
/// twice [`MEDIUM`] per SM, and in dependent ones that are too large to overlap, but not in half accesses. On an H200, 16 bytes of f32 and 4 of i8 per
/// thread took 21.0 µs, and twice as many 20.0; bf16 to i8 21.4 and 20.5; but f32 to bf16 of 4 MiB in dependent launches 1.87 and 2.18. Vectors that
/// cross the ends of rows take many registers: bf16 to f8e5m2 with rows of 1369 took 5.10 and 5.38.
fn vectors_moved(tensors: &Tensors, lanes: u32, device: &Device, (overlaps, halves): (bool, bool)) -> u32 {
    let moved = moved_by_thread(tensors, lanes).max(1);
    let bytes = tensors.bytes_moved();
    let large = bytes > 2 * MEDIUM * u64::from(device.multiprocessors) && !overlaps;
    let gains = large && !halves && (tensors.flat() || !crosses(tensors, lanes));
    if gains { least_vectors(moved).min(4) } else { power_of_two(LEAST_MOVED / moved) }
}

/// Vectors of so many bytes that are at least [`LEAST_MOVED`].
fn least_vectors(moved: u32) -> u32 {
    LEAST_MOVED.div_ceil(moved.max(1)).next_power_of_two()
}

/// Registers of an SM.
const REGISTERS: u32 = 65536;

/// Bytes that a thread moves from or to memory for this many elements.
fn moved_by_thread(tensors: &Tensors, lanes: u32) -> u32 {
    let moving = tensors.moving().filter(|tensor| tensor.output || !tensors.comes_from_cache(tensor));
    moving.map(|tensor| tensor.bytes * lanes).sum()
}

/// Bytes in flight per SM of [`bulk_rule`], and threads of its blocks.
const BULK_IN_FLIGHT: u32 = 64 << 10;
const BULK_THREADS: u32 = 128;
/// Most inputs of [`bulk_rule`].
const MOST_BULK_INPUTS: u32 = 2;

/// Bulk copies for large launches of one or two aligned inputs with work of up to [`Work::SHORT`], in whole accesses, because iterations in
/// single elements take too many instructions and wait for each other. On an H200 they are 0.3 to 1.3 % faster than flat kernels from 384 MiB
/// on. With three inputs they gain nothing. With two inputs and more work they lose up to 3 %, 11 % if one input is of one byte.
fn bulk_rule(tensors: &Tensors, device: &Device, wanted: Wanted, share: f64, rule: &Row) -> Option<(Row, String)> {
    let aligned = tensors.moving().all(|tensor| tensor.linear && tensor.phase.is_multiple_of(BULK_ACCESS));
    let fits = wanted.bulk && aligned && tensors.streamed_inputs() <= MOST_BULK_INPUTS;
    if !fits || share > Work::SHORT || wanted.bytes <= LARGE * device.l2_bytes {
        return None;
    }
    let lanes = lanes_of(tensors, BULK_ACCESS);
    let tile = device.resident(BULK_THREADS) * BULK_THREADS * read_by_thread(tensors, lanes, true).max(1);
    // A sum of i8 and f64 to bf16 took an H200 129.2 µs with 22 bytes per thread and 119.3 with 44.
    let unroll = (BULK_IN_FLIGHT / tile).max(least_vectors(moved_by_thread(tensors, lanes)));
    let vector = lanes * tensors.narrowest();
    let row = Row { form: Form::Bulk, vector, unroll, threads: BULK_THREADS, hints: 1, ..rule.clone() };
    Some((row, format!("{} KiB in flight per SM, which take no registers", BULK_IN_FLIGHT >> 10)))
}

/// Most bytes moved per SM for which launches by coordinates or through tiles overlap. They don't prefetch, so larger ones hardly gain,
/// and on an H200 up to a quarter of the time was lost where the next launch's blocks left the SMs unbalanced.
const MOST_OVERLAPPED: u64 = 64 << 10;

/// Whether a launch by coordinates or through tiles is too large to overlap.
pub fn is_large(tensors: &Tensors, device: &Device) -> bool {
    tensors.bytes_moved() > MOST_OVERLAPPED * u64::from(device.multiprocessors)
}

/// Whether a row for launches that overlap was measured with launches so small that two fit on the device at once, but two of these don't, with
/// the registers of several vectors per thread. Then one vector per thread is faster, if its blocks are at most two waves: on an H200, ten
/// launches of 13 to 16 MiB took 3 to 14 % less time (`x*2` of 2,000,000 f32 4.60 instead of 5.19 µs); one of 10 MiB, 3 % more.
fn crowds_out(row: &Row, tensors: &Tensors, device: &Device) -> bool {
    // Rows may come from a file, and are checked later.
    let lanes = u64::from(row.vector / tensors.narrowest());
    let tile = |unroll: u32| lanes.saturating_mul(row.threads.into()).saturating_mul(unroll.into()).max(1);
    let blocks = |unroll: u32| tensors.elements.div_ceil(tile(unroll));
    let overlaps = row.dependent && !row.cached && row.form == Form::Flat && row.unroll > 1;
    let room = device.wave(row.threads);
    overlaps && !fits_twice(blocks(row.unroll), room) && blocks(1) <= 2 * room
}

/// Whether overlap gives some SMs many fewer blocks than others, so that heavy work takes longer: two launches don't fit at once, but one leaves room
/// (with up to 5.5 of 8 blocks per SM).
pub fn unbalances(blocks: u64, room: u64) -> bool {
    !fits_twice(blocks, room) && blocks <= room * 11 / 16
}

/// Whether two launches of so many blocks fit on a device with room for `room` of 32 registers per thread. Most kernels take some more.
fn fits_twice(blocks: u64, room: u64) -> bool {
    blocks <= room * 3 / 8
}

/// The table's row if the class was measured, and the tensors are flat as those were or the launch is large; else a rule: [`bulk_rule`], or
/// [`apply_rule`] with the hints of the most similar class, which depend on the size more than on the work. The blocks of another class
/// don't fit: with them, expressions of three inputs or several functions took an H200 up to 1.5 times as long as one vector per thread and
/// input (75 random launches of 1 MiB to 1 GiB: 6.9 % longer than the best plan on average, and 1.2 % by the rule). Nor do they fit small
/// launches by coordinates: of 0.7 to 8 MiB, plain ones took up to 1.27 times as long as one vector per thread and input, and dependent
/// ones up to 1.39 times (12 shapes with broadcast inputs).
fn choose_row(
    table: &Table,
    wanted: Option<(Wanted, Weight)>,
    tensors: &Tensors,
    choose: &Choose,
    device: &Device,
) -> (Row, String, bool) {
    let Some((wanted, weight)) = wanted else {
        let (rule, why) = apply_rule(tensors, device, None, choose);
        return (rule, why, false);
    };
    let fits = tensors.flat() || is_large(tensors, device);
    if let Some(row) = table.row(wanted).filter(|row| fits && row.class == wanted.class) {
        let row = if crowds_out(row, tensors, device) {
            Row { unroll: 1, release: Dependent::Tail, ..row.clone() }
        } else {
            row.clone()
        };
        return (row, table.source.clone(), true);
    }
    let (rule, why) = apply_rule(tensors, device, Some((wanted.class.work, weight)), choose);
    if let Some((row, why)) = bulk_rule(tensors, device, wanted, weight.share, &rule) {
        return (row, why, false);
    }
    let flat = table.row(Wanted { bulk: false, dependent: false, ..wanted }).filter(|_| !only_writes(tensors));
    (Row { hints: flat.map_or(rule.hints, |row| row.hints), ..rule }, why, false)
}

impl Tuning {
    /// The expression's class and its arithmetic, if the table has rows to find by it. It lowers the expression, so a plan computes it
    /// once; where rows may be stacked, the expression is lowered again.
    pub fn classify(graph: &Graph, table: &Table, tier: Tier) -> Option<(Class, Weight)> {
        (!table.rows.is_empty()).then(|| Class::with_weight(graph, tier))
    }

    /// Makes the choices for an expression of a class on these tensors. Without `takes_bulk`, only a user can choose bulk copies.
    ///
    /// # Errors
    /// If a forced choice is invalid.
    pub fn new(
        graph: &Graph,
        tensors: &Tensors,
        device: &Device,
        (table, class): (&Table, Option<(Class, Weight)>),
        choose: &Choose,
        takes_bulk: bool,
    ) -> Result<Self, PlanError> {
        // Parts of a row for bulk copies don't suit other forms, so a row is only used whole.
        let free = choose.form.is_none() && choose.vector.or(choose.unroll).or(choose.threads).is_none();
        let lanes = lanes_of(tensors, device.target.widest_access().min(WIDE));
        let bulk = choose.form == Some(Form::Bulk)
            || (free
                && takes_bulk
                && bulk::takes_bulk(graph, tensors, device)
                && !stacked::gains(graph, tensors, device, choose.tier, lanes));
        let bytes = tensors.bytes_moved();
        let wanted = class.map(|(class, weight)| {
            let class = Class { inputs: tensors.streamed_inputs(), ..class };
            // Rows for launches that overlap were measured with flat kernels.
            let dependent = choose.dependent && tensors.flat();
            (Wanted { class, bytes, dependent, cached: choose.cached, bulk }, weight)
        });
        let (row, why, measured) = choose_row(table, wanted, tensors, choose, device);
        let mut reasons = Vec::new();
        let mut add_reason = |what: &'static str, chosen: String, forced: bool| {
            let why = if forced { "requested".to_owned() } else { why.clone() };
            reasons.push(Reason { what, chosen, why });
        };
        let vector = check_power_of_two(choose.vector, "vector", 1, 64)?;
        let of_row = check_power_of_two(Some(row.vector), "vector", 1, 64)?.unwrap_or(1);
        let vector = vector.unwrap_or(of_row.min(widest(tensors, device)));
        add_reason("vector", format!("{vector} bytes"), choose.vector.is_some());
        let unroll = choose.unroll.unwrap_or(row.unroll);
        if !(1..=64).contains(&unroll) {
            return Err(refused("unroll", unroll, "it must be 1 to 64 vectors"));
        }
        add_reason("unroll", unroll.to_string(), choose.unroll.is_some());
        let threads = choose.threads.unwrap_or(row.threads);
        if !(32..=1024).contains(&threads) || !threads.is_multiple_of(32) {
            return Err(refused("threads", threads, "a block has a multiple of 32 threads, up to 1024"));
        }
        add_reason("threads", threads.to_string(), choose.threads.is_some());
        // The load hint of flat kernels has another meaning for bulk copies, so rows of flat kernels don't set it for them.
        let row_hints = hints_from_bits(row.hints);
        let loads = row_hints.load_no_allocate && (row.form == Form::Bulk || choose.form != Some(Form::Bulk));
        let hints = choose.hints.unwrap_or(Hints { load_no_allocate: loads, ..row_hints });
        // Filled in once the form is known.
        add_reason("hints", String::new(), choose.hints.is_some());
        let dependent = choose_release(choose, &row, tensors, device)?;
        if choose.dependent {
            add_reason("dependent", dependent.name().to_owned(), choose.release.is_some());
        }
        let waits_early = choose.dependent && dependent != Dependent::Exit;
        let prefetch = choose.prefetch.unwrap_or(waits_early && !choose.cached && bytes <= MOST_PREFETCHED);
        let measured = measured && free;
        let heavy = class.is_some_and(|(class, _)| class.work == Work::Heavy);
        Ok(Self { form: row.form, vector, unroll, threads, hints, dependent, prefetch, measured, heavy, reasons })
    }
}

/// Whether the data of two launches fit into L2. Larger dependent ones don't overlap, unless the table says so.
fn fits_with_next(tensors: &Tensors, device: &Device) -> bool {
    tensors.bytes_moved() <= device.l2_bytes / 2
}

/// When the next kernel may begin. A dependent launch with a row for plain launches overlaps with the next one if the data of
/// both fit into L2. That saves up to 1 µs on an H200. For larger data the gain is small, and the signalling instructions cost
/// kernels with several functions up to 6 %.
fn choose_release(choose: &Choose, row: &Row, tensors: &Tensors, device: &Device) -> Result<Dependent, PlanError> {
    let no = |release: Dependent, why| Err(refused("release", release.name(), why));
    match (choose.dependent, choose.release) {
        (false, Some(release @ (Dependent::Early | Dependent::Late | Dependent::Start | Dependent::Tail))) => {
            no(release, "it is for dependent launches")
        }
        // The next kernel still begins after this one's data are visible, but its blocks are resident by then.
        (false, release) => Ok(release.unwrap_or(Dependent::Exit)),
        (true, Some(Dependent::No)) => no(Dependent::No, "it is for ordinary launches"),
        (true, Some(release)) => Ok(release),
        (true, None) if !tensors.flat() && is_large(tensors, device) => Ok(Dependent::Exit),
        (true, None) if row.release == Dependent::No && fits_with_next(tensors, device) => Ok(Dependent::Tail),
        (true, None) if row.release == Dependent::No => Ok(Dependent::Exit),
        (true, None) => Ok(row.release),
    }
}

/// Bytes of the widest tensor's vectors of [`Tuning::in_wide_vectors`]: one access, as in the rule.
const WIDE: u32 = 16;

impl Tuning {
    /// The same bytes per thread in vectors of 16 bytes, for forms with a cost per vector: coordinates, shifts. On an H200, a
    /// bf16 input misaligned by one element reached 4.00 TB/s with the vectors of flat kernels and 4.18 with these; a bias of
    /// columns 4.13 and 4.21. Heavy work on tensors that are not flat keeps the accesses of the rule, which may be halves.
    pub fn in_wide_vectors(&self, tensors: &Tensors, choose: &Choose) -> Self {
        let largest = tensors.moving().map(|tensor| tensor.bytes).max().unwrap_or(1);
        let wide = (WIDE / largest).max(1) * tensors.narrowest();
        let keeps_rule = self.heavy && !self.measured && !tensors.flat() && choose.form.is_none();
        if choose.vector.or(choose.unroll).is_some() || self.vector >= wide || keeps_rule {
            return self.clone();
        }
        Self { vector: wide, unroll: (self.unroll * self.vector / wide).max(1), ..self.clone() }
    }

    /// The hints as far as they suit the form. Lines of transposed tiles that don't begin at sectors share them, so they should stay in L1: on
    /// an H200, loads without lines in L1 took 8 to 20 % longer.
    pub fn hints_of_form(&self, form: Form) -> Hints {
        Hints { load_no_allocate: self.hints.load_no_allocate && form != Form::Transpose, ..self.hints }
    }
}

/// Most bytes per vector of the narrowest tensor, so that a vector of the widest one takes at most two accesses: with more, a
/// warp's accesses would be far apart.
pub fn widest(tensors: &Tensors, device: &Device) -> u32 {
    let largest = tensors.moving().map(|tensor| tensor.bytes).max().unwrap_or(1);
    let lanes = (2 * device.target.widest_access() / largest).max(1);
    lanes * tensors.narrowest()
}

/// The error of an impossible choice.
pub fn refused(what: &'static str, chosen: impl ToString, why: &str) -> PlanError {
    PlanError::Choice { what, chosen: chosen.to_string(), why: why.to_owned() }
}

fn check_power_of_two(value: Option<u32>, what: &'static str, least: u32, most: u32) -> Result<Option<u32>, PlanError> {
    match value {
        Some(value) if !value.is_power_of_two() || !(least..=most).contains(&value) => {
            Err(refused(what, value, &format!("it must be a power of two from {least} to {most}")))
        }
        value => Ok(value),
    }
}
