//! A rough cost of a plan, to rank alternatives before they are timed. The model of whole launches (docs/model.md) knows neither bytes in
//! flight nor the tail of a grid, so it can't tell plans of one expression apart; these terms can.

use super::tensors::{Tensor, Tensors};
use super::tuning::bytes_in_flight;
use super::{Device, MOST_RESIDENT, Plan};
use crate::elementwise::count::Counts;
use crate::elementwise::spec::{Dependent, Form, Inner, KernelSpec, Stream};
use crate::elementwise::weight::{BYTES, ISSUE, MUFU};

/// Bytes per clock and SM between L1 and the registers.
pub const L1_BYTES: f64 = 128.0;
/// Clocks in which an H200 starts a block (0.60 ns), and a block that triggers the next kernel (1.20 ns).
const START: f64 = 1.0;
const TRIGGER: f64 = 2.0;
/// The norm by which overlapping work adds up: two equal parts take 1.19 times as long as one.
const OVERLAP: i32 = 4;
/// Clocks of a launch that moves nothing, and of one access to memory.
const LAUNCH: f64 = 2000.0;
/// Registers of an SM, and those that a thread needs besides its data, without and with coordinates.
const REGISTERS: u32 = 65_536;
const OWN: u32 = 24;
const OWN_WITH_COORDINATES: u32 = 40;
/// Registers that the compiler takes at least.
const LEAST_REGISTERS: u32 = 32;
/// Shared memory of an SM that blocks can use, bytes: compute capability 9.0.
const SHARED: u64 = 227 << 10;
/// Instructions of a thread around its vectors, of a vector's address and access, and of the coordinates along one dimension.
pub const PER_THREAD: f64 = 14.0;
pub const PER_ACCESS: f64 = 2.0;
const PER_DIMENSION: f64 = 6.0;
/// Widest access of a thread, bytes.
const ACCESS: u32 = 16;

/// The estimated clocks of a plan's launch. Only the order of plans for the same tensors means something.
pub fn clocks(plan: &Plan, tensors: &Tensors, counts: &Counts, device: &Device) -> f64 {
    let spec = &plan.spec;
    let multiprocessors = f64::from(device.multiprocessors.max(1));
    let blocks = f64::from(plan.geometry.blocks);
    let elements = plan.elements as f64;
    let per_multiprocessor = blocks / multiprocessors;
    let resident = f64::from(resident(spec, tensors, device)).min(per_multiprocessor.ceil());
    let in_flight = resident * block_bytes(spec, tensors);
    let memory = tensors.bytes_moved() as f64 / multiprocessors / BYTES;
    let memory = memory * (f64::from(bytes_in_flight(device)) / in_flight.max(1.0)).max(1.0);
    let work = elements / multiprocessors;
    let vectors = work / f64::from(spec.lanes.max(1));
    let (accesses, bytes) = accesses(spec, tensors);
    let threads = vectors / f64::from(spec.unroll.max(1));
    let issued = work * counts.element.issued()
        + vectors * (accesses * PER_ACCESS + coordinates(spec.rank, spec.sets) + turning(spec))
        + threads * (PER_THREAD + counts.thread.issued());
    let arithmetic = (issued / ISSUE).max(work * counts.element.mufu / MUFU);
    let through_l1 = vectors * bytes / L1_BYTES;
    let triggers = matches!(spec.dependent, Dependent::Early | Dependent::Late);
    let dispatch = blocks * if triggers { TRIGGER } else { START };
    // The SMs with one block more than others decide; of many waves, half a wave is lost at the end.
    let waves = per_multiprocessor / resident.max(1.0);
    let tail = if waves <= 1.0 { per_multiprocessor.ceil() / per_multiprocessor } else { 1.0 + 0.5 / waves };
    LAUNCH + overlapped([memory, arithmetic, through_l1, dispatch]) * tail
}

/// The time of work that overlaps: that of the longest, and a little more for each other one that is nearly as long.
pub fn overlapped(clocks: [f64; 4]) -> f64 {
    clocks.into_iter().map(|clocks| clocks.powi(OVERLAP)).sum::<f64>().powf(1.0 / f64::from(OVERLAP))
}

/// Inputs that come from memory, else the outputs: the bytes that a thread waits for.
fn waited(tensors: &Tensors) -> impl Iterator<Item = (usize, &Tensor)> {
    let reads = tensors.streamed_inputs() > 0;
    let counts = move |tensor: &Tensor| {
        tensor.used && !tensor.uniform && tensor.output != reads && (tensor.output || !tensors.comes_from_cache(tensor))
    };
    tensors.all.iter().enumerate().filter(move |(_, tensor)| counts(tensor))
}

/// Elements of a tile.
fn tile(spec: &KernelSpec) -> f64 {
    match spec.form {
        Form::Transpose => f64::from(spec.rows * spec.columns()),
        _ => spec.tile() as f64,
    }
}

/// Bytes that a block has in flight.
fn block_bytes(spec: &KernelSpec, tensors: &Tensors) -> f64 {
    tile(spec) * f64::from(waited(tensors).map(|(_, tensor)| tensor.bytes).sum::<u32>())
}

/// Blocks that an SM holds at once, by threads, registers and shared memory.
fn resident(spec: &KernelSpec, tensors: &Tensors, device: &Device) -> u32 {
    let by_threads = device.resident(spec.threads);
    if matches!(spec.form, Form::Bulk | Form::Transpose) {
        let by_shared = SHARED / (block_bytes(spec, tensors) as u64).max(1);
        return by_threads.min(u32::try_from(by_shared).unwrap_or(MOST_RESIDENT)).max(1);
    }
    by_threads.min(REGISTERS / registers(spec, tensors).saturating_mul(spec.threads).max(1)).max(spec.resident).max(1)
}

/// Registers that a thread needs for the inputs that it holds at once, and for the rest.
fn registers(spec: &KernelSpec, tensors: &Tensors) -> u32 {
    let inputs = tensors.all.iter().enumerate().filter(|(_, tensor)| tensor.used && !tensor.output && !tensor.uniform);
    let held = |(place, tensor): (usize, &Tensor)| (tensor.bytes * spec.lanes * spec.vectors(place)).div_ceil(4);
    let held: u32 = inputs.map(held).sum();
    let own = if spec.rank > 0 { OWN_WITH_COORDINATES } else { OWN };
    held.saturating_add(own).max(LEAST_REGISTERS)
}

/// Whether the blocks that must fit on an SM leave a thread the registers for its inputs. If not, they go to memory and back.
pub fn fits_registers(spec: &KernelSpec, tensors: &Tensors) -> bool {
    let copied = matches!(spec.form, Form::Bulk | Form::Transpose);
    let blocks = u64::from(spec.resident) * u64::from(spec.threads);
    copied || u64::from(registers(spec, tensors)) * blocks <= u64::from(REGISTERS)
}

/// Accesses of a whole vector of `row` bytes, and the bytes of each.
fn whole(row: u32) -> (u32, u32) {
    (row.div_ceil(ACCESS), row.min(ACCESS))
}

/// Accesses of a vector of a tensor by coordinates, and the bytes that they pass between L1 and the registers.
pub fn accesses_of(tensor: &Tensor, lanes: u32) -> (u32, u32) {
    let (count, bytes) =
        if tensor.strides.last() == Some(&0) { (1, tensor.bytes) } else { whole(tensor.bytes * lanes) };
    (count, count * bytes.max(4))
}

/// Accesses that a vector takes in all tensors, and the bytes that they pass between L1 and the registers. An access of a warp takes at
/// least four bytes of each lane.
fn accesses(spec: &KernelSpec, tensors: &Tensors) -> (f64, f64) {
    let mut sum = (0.0, 0.0);
    for (place, (stream, tensor)) in spec.streams.iter().zip(&tensors.all).enumerate() {
        let row = tensor.bytes * spec.lanes;
        let share = f64::from(spec.vectors(place)) / f64::from(spec.unroll.max(1));
        let (count, bytes) = match stream {
            Stream::Unused | Stream::Uniform => (0, 0),
            Stream::Indexed { inner: Inner::Splat, .. } => (1, tensor.bytes),
            Stream::Indexed { inner: Inner::Any | Inner::Unit, .. } => (spec.lanes, tensor.bytes),
            Stream::Shifted | Stream::Indexed { inner: Inner::Shifted | Inner::ShiftedOrUnit, .. } => {
                (row.div_ceil(ACCESS) + 1, row.min(ACCESS))
            }
            _ => whole(row),
        };
        // Strided elements each take a sector.
        let sector = matches!(stream, Stream::Indexed { inner: Inner::Any, .. }) && spec.form != Form::Transpose;
        let bytes = if sector { 32 } else { bytes.max(4) };
        sum = (sum.0 + f64::from(count) * share, sum.1 + f64::from(count * bytes) * share);
    }
    sum
}

/// Instructions of a vector's coordinates.
pub fn coordinates(rank: u32, sets: u32) -> f64 {
    f64::from(rank.saturating_sub(1)) * PER_DIMENSION + f64::from(sets)
}

/// Instructions of a vector that may cross the ends of rows: each element compares its place and selects an address.
fn turning(spec: &KernelSpec) -> f64 {
    // Joined rows are one row in shared memory.
    f64::from(if spec.whole_rows || spec.rare_turns || spec.joined > 0 { 0 } else { spec.lanes * (1 + 2 * spec.sets) })
}
