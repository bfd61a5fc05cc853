//! How wide, how many and how large: from the user's choice, the device's table, or the rule of bytes in flight.

use plimsoll_expr::Graph;

use super::{Choose, Device, PlanError, Reason, Tensors, bulk};
use crate::elementwise::spec::{Dependent, Form};
use crate::elementwise::table::{Class, Row, Table, Wanted, Work, is_as_short_as_measured};
use crate::kernel::Hints;

/// The free choices of a kernel, each with its reason in the same order as in [`Tuning::reasons`].
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Flat or bulk, where the walk allows both.
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
    /// Blocks ask for their inputs while they wait, where the form allows it.
    pub prefetch: bool,
    /// Why.
    pub reasons: Vec<Reason>,
}

/// Bytes that each multiprocessor must have asked for to keep its share of memory busy: latency times bandwidth. A100 16 KiB,
/// H100 32 KiB, H200 48 KiB, B200 64 KiB; devices with GDDR memory have less per multiprocessor.
fn bytes_in_flight(device: &Device) -> u32 {
    let kib = match device.target.capability {
        100..110 => 64,
        90 if device.l2_bytes > (55 << 20) => 48,
        90 => 32,
        _ => 16,
    };
    kib << 10
}

/// Bytes moved by the largest launch that asks for its inputs while it waits. Of longer ones the beginning is less than a hundredth: on an
/// H200 some gained up to 0.6 % by it, and what is near the limit of power lost up to 2 %.
const MOST_PREFETCHED: u64 = 256 << 20;

fn hints(bits: u32) -> Hints {
    Hints { load_no_allocate: bits & 1 != 0, store_streaming: bits & 2 != 0 }
}

/// What the rule of bytes in flight makes of an expression.
fn rule(tensors: &Tensors, device: &Device, dependent: bool) -> (Row, String) {
    let vector = device.target.widest_access().max(tensors.narrowest());
    let lanes = (vector / tensors.narrowest()).max(1);
    let read: u32 = tensors.moving().filter(|tensor| !tensor.output).map(|tensor| tensor.bytes * lanes).sum();
    let per_thread = bytes_in_flight(device).div_ceil(device.threads_per_multiprocessor.max(1));
    let unroll = per_thread.div_ceil(read.max(vector)).clamp(1, 4).next_power_of_two();
    let row = Row {
        class: Class { inputs: 0, outputs: 0, narrowest: 0, widest: 0, work: Work::Copy },
        most_bytes: u64::MAX,
        dependent,
        cached: false,
        form: Form::Flat,
        vector,
        unroll,
        threads: 256,
        // Written once and not read again soon, unless all of it fits into the cache.
        hints: if tensors.bytes_moved() > device.l2_bytes { 3 } else { 0 },
        release: Dependent::No,
    };
    let why = format!("{} KiB in flight per multiprocessor keep memory busy", bytes_in_flight(device) >> 10);
    (row, why)
}

impl Tuning {
    /// The choices for an expression on these tensors; without `takes_bulk` as where bulk copies aren't possible.
    ///
    /// # Errors
    /// If a forced choice can't be.
    pub fn new(
        graph: &Graph,
        tensors: &Tensors,
        device: &Device,
        table: &Table,
        choose: &Choose,
        takes_bulk: bool,
    ) -> Result<Self, PlanError> {
        // Half of a choice for bulk copies would be none for anything else.
        let free = choose.form.is_none() && choose.vector.or(choose.unroll).or(choose.threads).is_none();
        let bulk = choose.form == Some(Form::Bulk) || (free && takes_bulk && bulk::takes_bulk(graph, tensors, device));
        let class = Class { inputs: tensors.streamed_inputs(), ..Class::of(graph) };
        let bytes = tensors.bytes_moved();
        let dependent = choose.dependent && is_as_short_as_measured(graph);
        let (row, why) = match table.row(Wanted { class, bytes, dependent, cached: choose.cached, bulk }) {
            Some(row) => (row.clone(), table.source.clone()),
            None => rule(tensors, device, choose.dependent),
        };
        let mut reasons = Vec::new();
        let mut because = |what: &'static str, chosen: String, forced: bool| {
            let why = if forced { "asked for".to_owned() } else { why.clone() };
            reasons.push(Reason { what, chosen, why });
        };
        let vector = power(choose.vector, "vector", 1, 64)?.unwrap_or_else(|| row.vector.min(widest(tensors, device)));
        because("vector", format!("{vector} bytes"), choose.vector.is_some());
        let unroll = choose.unroll.unwrap_or(row.unroll);
        if !(1..=64).contains(&unroll) {
            return Err(refused("unroll", unroll, "there may be 1 to 64 vectors"));
        }
        because("unroll", unroll.to_string(), choose.unroll.is_some());
        let threads = choose.threads.unwrap_or(row.threads);
        if !(32..=1024).contains(&threads) || !threads.is_multiple_of(32) {
            return Err(refused("threads", threads, "a block has a multiple of 32 up to 1024"));
        }
        because("threads", threads.to_string(), choose.threads.is_some());
        // What a row has found for the loads of flat kernels says nothing of bulk copies, for which that hint is another.
        let found = hints(row.hints);
        let loads = found.load_no_allocate && (row.form == Form::Bulk || choose.form != Some(Form::Bulk));
        let hints = choose.hints.unwrap_or(Hints { load_no_allocate: loads, ..found });
        // In words when the form is settled.
        because("hints", String::new(), choose.hints.is_some());
        let dependent = release(choose, &row, bytes, device)?;
        if choose.dependent {
            because("dependent", dependent.name().to_owned(), choose.release.is_some());
        }
        let waits_early = choose.dependent && dependent != Dependent::Exit;
        let prefetch = choose.prefetch.unwrap_or(waits_early && !choose.cached && bytes <= MOST_PREFETCHED);
        Ok(Self { form: row.form, vector, unroll, threads, hints, dependent, prefetch, reasons })
    }
}

/// When the next kernel may begin. A dependent launch with a plan for plain ones overlaps with the next one while the data of
/// both fit into the second-level cache. That saves an H200 up to 1 µs; beyond, little is left of it, and
/// the instructions for it cost kernels of several functions up to 6 %.
fn release(choose: &Choose, row: &Row, bytes: u64, device: &Device) -> Result<Dependent, PlanError> {
    let no = |release: Dependent, why| Err(refused("release", release.name(), why));
    match (choose.dependent, choose.release) {
        (false, Some(release @ (Dependent::Early | Dependent::Late | Dependent::Start | Dependent::Tail))) => {
            no(release, "it is for dependent launches")
        }
        // It begins no sooner than its data are there, but its blocks are in place by then.
        (false, release) => Ok(release.unwrap_or(Dependent::Exit)),
        (true, Some(Dependent::No)) => no(Dependent::No, "a dependent launch is no ordinary one"),
        (true, Some(release)) => Ok(release),
        (true, None) if row.release == Dependent::No && bytes <= device.l2_bytes / 2 => Ok(Dependent::Tail),
        (true, None) if row.release == Dependent::No => Ok(Dependent::Exit),
        (true, None) => Ok(row.release),
    }
}

/// Bytes of the vectors that [`Tuning::in_wide_vectors`] has.
const WIDE: u32 = 16;

impl Tuning {
    /// The same bytes per thread in vectors of 16 bytes, for forms whose vectors each cost instructions: coordinates, shifts. With
    /// the vectors of flat kernels a bf16 input that is one element off had 4.00 TB/s on an H200, with these 4.18; a bias of
    /// columns 4.13 and 4.21.
    pub fn in_wide_vectors(&self, tensors: &Tensors, device: &Device, choose: &Choose) -> Self {
        let wide = WIDE.min(widest(tensors, device));
        if choose.vector.or(choose.unroll).is_some() || self.vector >= wide {
            return self.clone();
        }
        Self { vector: wide, unroll: (self.unroll * self.vector / wide).max(1), ..self.clone() }
    }
}

/// The most bytes of the narrowest tensor with which the widest one has two accesses per thread: with more, a warp's accesses
/// are far apart.
pub fn widest(tensors: &Tensors, device: &Device) -> u32 {
    let largest = tensors.moving().map(|tensor| tensor.bytes).max().unwrap_or(1);
    let lanes = (2 * device.target.widest_access() / largest).max(1);
    lanes * tensors.narrowest()
}

/// The error of a choice that can't be.
pub fn refused(what: &'static str, chosen: impl ToString, why: &str) -> PlanError {
    PlanError::Choice { what, chosen: chosen.to_string(), why: why.to_owned() }
}

fn power(given: Option<u32>, what: &'static str, least: u32, most: u32) -> Result<Option<u32>, PlanError> {
    match given {
        Some(value) if !value.is_power_of_two() || !(least..=most).contains(&value) => {
            Err(refused(what, value, &format!("it is a power of two from {least} to {most}")))
        }
        given => Ok(given),
    }
}
