//! The bulk form: one bulk copy per tile into shared memory for each contiguous input, at any address. Threads load broadcast
//! inputs directly, by coordinates.

use plimsoll_expr::Graph;

use super::coordinates::{Addressing, crosses, outgrows};
use super::runs::{TileRange, stream};
use super::shape::{Case, Shape, most_statements};
use super::tensors::Tensor;
use super::tiles::{MOST_SHARED, transposed_dimension};
use super::tuning::{refused, widest};
use super::{Choose, Device, PlanError, Tensors, Tuning};
use crate::elementwise::geometry::Tiles;
use crate::elementwise::spec::Form;

/// Alignment and granularity of bulk copies, bytes (PTX ISA, `cp.async.bulk`).
const BULK_BYTES: u32 = 16;
/// Alignment of tiles in shared memory, bytes.
const LINE: u64 = 128;
/// Most bytes of broadcast inputs that a thread holds while it waits for the copies: a quarter of its registers.
const MOST_HELD: u32 = 256;

/// True if bulk copies are possible for tiles of a suitable size, and no input is transposed (that form has different tiles).
pub fn takes_bulk(graph: &Graph, tensors: &Tensors, device: &Device) -> bool {
    let by_coordinates = graph.least_rank() > 0 && tensors.extents.len() > 1;
    let transposed = !tensors.flat() && transposed_dimension(tensors).is_some();
    device.target.capability >= 90 && !by_coordinates && !transposed && tile_range(tensors, |_| BULK_BYTES).is_ok()
}

fn moving_inputs(tensors: &Tensors) -> impl Iterator<Item = &Tensor> {
    tensors.moving().filter(|tensor| !tensor.output)
}

/// The elements outside whole tiles, or why tiles are impossible. Contiguous inputs may have any alignment, provided that all
/// outputs can be aligned to their `access`.
fn tile_range(tensors: &Tensors, access: impl Fn(&Tensor) -> u32) -> Result<TileRange, &'static str> {
    let alignment = |tensor: &Tensor| if tensor.output { access(tensor) } else { BULK_BYTES };
    if !moving_inputs(tensors).any(|tensor| tensor.linear) {
        return Err("no input is contiguous");
    }
    if tensors.flat() {
        return TileRange::new(tensors, alignment).ok_or("the outputs are never aligned together");
    }
    let fits = |tensor: &Tensor| match tensor.linear {
        true => tensor.phase.is_multiple_of(alignment(tensor)),
        false => !tensor.output && tensors.comes_from_cache(tensor),
    };
    let none = TileRange { head: 0, kept: 0 };
    tensors.moving().all(fits).then_some(none).ok_or("a tensor that isn't broadcast is not contiguous and aligned")
}

/// Bytes per vector if there are broadcast inputs, where each vector needs coordinates. With the two bytes that are fastest without
/// broadcast inputs, a bias of rows or columns in bf16 reached 4.17 and 4.15 TB/s on an H200 at 1 GiB, with 4 bytes 4.34 and 4.32,
/// with 8 bytes 4.34 and 4.33. In f32, 4 bytes are as good as 8 (4.34 and 4.32, 4.33 and 4.32;
/// records/h200/2026-11-23-shapes/sweep.csv).
const WITH_BROADCAST: u32 = 8;
/// Elements of this many bytes need no wider vectors.
const WIDE: u32 = 4;

/// Lanes and iterations of a tile: as tuned, but with broadcast inputs in suitable vectors and about as many bytes in flight.
fn lanes_and_iterations(tensors: &Tensors, device: &Device, tuning: &Tuning, choose: &Choose) -> (u32, u32) {
    let narrowest = tensors.narrowest();
    // Wider elements don't make tiles larger.
    let wider = if choose.unroll.is_some() { 1 } else { (narrowest / tuning.vector).max(1) };
    let mut lanes = (tuning.vector / narrowest).max(1);
    let mut iterations = (tuning.unroll / wider).max(1);
    if tensors.flat() {
        return (lanes, iterations);
    }
    let vector = WITH_BROADCAST.min(widest(tensors, device));
    if choose.vector.or(choose.unroll).is_none() && narrowest < WIDE && tuning.vector < vector {
        iterations = ((iterations * lanes * narrowest + vector / 2) / vector).max(1);
        lanes = vector / narrowest;
    }
    while lanes > 1 && outgrows(tensors, lanes) {
        (lanes, iterations) = (lanes / 2, 2 * iterations);
    }
    (lanes, iterations)
}

/// The shape with one bulk copy per tile and contiguous input.
///
/// # Errors
/// If the device, the addresses or the tile's size don't allow it.
pub fn shape(case: Case<'_>) -> Result<Shape, PlanError> {
    let Case { graph, tensors, device, tuning, choose } = case;
    let no = |why: &str| refused("form", "bulk", why);
    if device.target.capability < 90 {
        return Err(no("bulk copies need compute capability 9.0"));
    }
    let (lanes, unroll) = lanes_and_iterations(tensors, device, tuning, choose);
    let widest = device.target.widest_access();
    let access = |output: &Tensor| (lanes * output.bytes).min(widest).max(BULK_BYTES);
    let TileRange { head, kept } = tile_range(tensors, access).map_err(no)?;
    let tile = u64::from(lanes * unroll) * u64::from(tuning.threads);
    let copied = || moving_inputs(tensors).filter(|tensor| tensor.linear).map(|tensor| tile * u64::from(tensor.bytes));
    if copied().any(|bytes| !bytes.is_multiple_of(BULK_BYTES.into())) {
        return Err(no("a tile isn't a multiple of 16 bytes of each input"));
    }
    let bytes: u64 = copied().sum();
    // In addition to the tiles: 16 bytes at the ends of misaligned ones, and a line for the barrier.
    let shared = |bytes: u64| (bytes + u64::from(BULK_BYTES)).next_multiple_of(LINE);
    if copied().map(shared).sum::<u64>() + LINE > MOST_SHARED {
        return Err(no(&format!("a tile of {bytes} bytes doesn't fit into {} KiB", MOST_SHARED >> 10)));
    }
    let held: u32 = moving_inputs(tensors).filter(|tensor| !tensor.linear).map(|tensor| tensor.bytes.max(4)).sum();
    if u64::from(held * lanes) * u64::from(unroll) > u64::from(MOST_HELD) {
        return Err(no("broadcast inputs of a tile don't fit into registers"));
    }
    if !tensors.flat() && lanes * unroll > most_statements(graph) {
        return Err(no("with broadcast inputs, unrolling the iterations over a tile would take too many operations"));
    }
    let tiles = Tiles::new(tensors.elements, head, kept, tuning.threads, lanes * unroll);
    let mut words = vec![tiles.elements, tiles.whole, demoting_tiles(tuning, device, bytes)];
    let Addressing { streams, sets, small, words: coordinate_words } = if tensors.flat() {
        let aligned = |tensor: &Tensor| stream(tensor, head, if tensor.output { access(tensor) } else { BULK_BYTES });
        let streams = tensors.all.iter().map(aligned).collect();
        Addressing { streams, sets: 0, small: tensors.small(tile), words: vec![] }
    } else {
        Addressing::new(tensors, lanes, tile, device, choose)
    };
    words.extend((head > 0).then_some(head));
    words.extend(coordinate_words);
    Ok(Shape {
        streams,
        lanes,
        unroll,
        threads: tuning.threads,
        head: head > 0,
        rank: if sets > 0 { tensors.extents.len() as u32 } else { 0 },
        sets,
        whole_rows: sets > 0 && !crosses(tensors, lanes),
        small,
        blocks: tiles.blocks,
        words,
        ..Shape::new_empty(Form::Bulk, format!("one bulk copy per input loads tiles of {bytes} bytes"))
    })
}

/// Assumed size of L2 if it isn't known, bytes.
const LEAST_L2: u64 = 32 << 20;

/// How many of the last tiles demote the lines that earlier tiles loaded evict-last into L2: as many tiles, of `bytes` read, as fit
/// into a quarter of L2. An H200, which reports 60 MiB, keeps 12 MiB of such lines; other devices weren't measured.
fn demoting_tiles(tuning: &Tuning, device: &Device, bytes: u64) -> u64 {
    let kept = device.l2_bytes.max(LEAST_L2) / 4;
    if tuning.hints.load_no_allocate { kept.div_ceil(bytes.max(1)) } else { 0 }
}
