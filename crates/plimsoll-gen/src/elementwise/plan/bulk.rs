//! Inputs that come as one bulk copy per tile into shared memory: runs at any address, and beside them what is broadcast, which threads
//! find by coordinates.

use plimsoll_expr::Graph;

use super::coordinates::{Walked, crosses, crosses_in_length};
use super::runs::{Beginning, stream};
use super::shape::{Shape, most_statements};
use super::tensors::Tensor;
use super::tiles::{MOST_SHARED, turned_dimension};
use super::tuning::{refused, widest};
use super::{Choose, Device, PlanError, Tensors, Tuning};
use crate::elementwise::geometry::Tiles;
use crate::elementwise::spec::Form;

/// Bulk copies are aligned to, and are a multiple of, so many bytes (PTX ISA, `cp.async.bulk`).
const BULK_BYTES: u32 = 16;
/// Tiles in shared memory begin at a multiple of so many bytes.
const LINE: u64 = 128;
/// Most bytes of broadcast inputs that a thread holds while it waits for the copies: a quarter of its registers.
const MOST_HELD: u32 = 256;

/// True where bulk copies are possible for tiles of a suitable size, and nothing is transposed, which has tiles of its own.
pub fn takes_bulk(graph: &Graph, tensors: &Tensors, device: &Device) -> bool {
    let by_coordinates = graph.least_rank() > 0 && tensors.extents.len() > 1;
    let turned = !tensors.flat() && turned_dimension(tensors).is_some();
    device.target.capability >= 90 && !by_coordinates && !turned && beginning(tensors, |_| BULK_BYTES).is_ok()
}

fn read(tensors: &Tensors) -> impl Iterator<Item = &Tensor> {
    tensors.moving().filter(|tensor| !tensor.output)
}

/// Where whole tiles begin and end, or why there can't be any. Runs may begin anywhere, as long as there is a beginning for the outputs, which
/// are aligned to what `access` gives for each.
fn beginning(tensors: &Tensors, access: impl Fn(&Tensor) -> u32) -> Result<Beginning, &'static str> {
    let aligned = |tensor: &Tensor| if tensor.output { access(tensor) } else { BULK_BYTES };
    if !read(tensors).any(|tensor| tensor.linear) {
        return Err("there is nothing to read that is one run");
    }
    if tensors.flat() {
        return Beginning::of(tensors, aligned).ok_or("the outputs are never aligned together");
    }
    let fits = |tensor: &Tensor| match tensor.linear {
        true => tensor.phase.is_multiple_of(aligned(tensor)),
        false => !tensor.output && tensors.comes_from_cache(tensor),
    };
    let none = Beginning { head: 0, kept: 0 };
    tensors.moving().all(fits).then_some(none).ok_or("a tensor that isn't broadcast is no aligned run")
}

/// Bytes of vectors beside broadcast inputs, each of which costs coordinates: with the two bytes that are the fastest without, a bias of rows or
/// columns in bf16 had 4.17 and 4.15 TB/s on an H200 at 1 GiB, with 4 bytes 4.34 and 4.32, with 8 bytes 4.34 and 4.33. In f32 4 bytes are as good
/// as 8 (4.34 and 4.32, 4.33 and 4.32; records/h200/2026-11-23-shapes/sweep.csv).
const BESIDE_BROADCAST: u32 = 8;
/// Elements of so many bytes are wide enough by themselves.
const WIDE: u32 = 4;

/// Lanes and iterations of a tile: as tuned, but beside broadcast inputs in vectors that suit them, with about as much in flight.
fn lanes_and_iterations(tensors: &Tensors, device: &Device, tuning: &Tuning, choose: &Choose) -> (u32, u32) {
    let narrowest = tensors.narrowest();
    // Tiles keep their size where elements are wider.
    let wider = if choose.unroll.is_some() { 1 } else { (narrowest / tuning.vector).max(1) };
    let mut lanes = (tuning.vector / narrowest).max(1);
    let mut iterations = (tuning.unroll / wider).max(1);
    if tensors.flat() {
        return (lanes, iterations);
    }
    let vector = BESIDE_BROADCAST.min(widest(tensors, device));
    if choose.vector.or(choose.unroll).is_none() && narrowest < WIDE && tuning.vector < vector {
        iterations = ((iterations * lanes * narrowest + vector / 2) / vector).max(1);
        lanes = vector / narrowest;
    }
    while lanes > 1 && crosses_in_length(tensors, lanes) {
        (lanes, iterations) = (lanes / 2, 2 * iterations);
    }
    (lanes, iterations)
}

/// A bulk copy per input that is a run, and tile.
///
/// # Errors
/// If the device, the addresses or the tile's size don't allow it.
pub fn shape(
    graph: &Graph,
    tensors: &Tensors,
    device: &Device,
    tuning: &Tuning,
    choose: &Choose,
) -> Result<Shape, PlanError> {
    let no = |why: &str| refused("form", "bulk", why);
    if device.target.capability < 90 {
        return Err(no("bulk copies need compute capability 9.0"));
    }
    let (lanes, unroll) = lanes_and_iterations(tensors, device, tuning, choose);
    let widest = device.target.widest_access();
    let access = |output: &Tensor| (lanes * output.bytes).min(widest).max(BULK_BYTES);
    let Beginning { head, kept } = beginning(tensors, access).map_err(no)?;
    let tile = u64::from(lanes * unroll) * u64::from(tuning.threads);
    let copied = || read(tensors).filter(|tensor| tensor.linear).map(|tensor| tile * u64::from(tensor.bytes));
    if copied().any(|bytes| !bytes.is_multiple_of(BULK_BYTES.into())) {
        return Err(no("a tile isn't a multiple of 16 bytes of each input"));
    }
    let bytes: u64 = copied().sum();
    // Beside the tiles: what those that aren't aligned have at their ends, and a line for the barrier.
    let shared = |bytes: u64| (bytes + u64::from(BULK_BYTES)).next_multiple_of(LINE);
    if copied().map(shared).sum::<u64>() + LINE > MOST_SHARED {
        return Err(no(&format!("a tile of {bytes} bytes doesn't fit into {} KiB", MOST_SHARED >> 10)));
    }
    let held: u32 = read(tensors).filter(|tensor| !tensor.linear).map(|tensor| tensor.bytes.max(4)).sum();
    if u64::from(held * lanes) * u64::from(unroll) > u64::from(MOST_HELD) {
        return Err(no("broadcast inputs of a tile don't fit into registers"));
    }
    if !tensors.flat() && lanes * unroll > most_statements(graph) {
        return Err(no("the iterations over a tile would be too many operations, written out beside broadcast inputs"));
    }
    let tiles = Tiles::new(tensors.elements, head, kept, tuning.threads, lanes * unroll);
    let mut words = vec![tiles.elements, tiles.whole, given_back(tuning, device, bytes)];
    let Walked { streams, sets, small, words: found } = if tensors.flat() {
        let aligned = |tensor: &Tensor| stream(tensor, head, if tensor.output { access(tensor) } else { BULK_BYTES });
        let streams = tensors.all.iter().map(aligned).collect();
        Walked { streams, sets: 0, small: tensors.small(tile), words: vec![] }
    } else {
        Walked::new(tensors, lanes, tile, device, choose)
    };
    words.extend((head > 0).then_some(head));
    words.extend(found);
    Ok(Shape {
        form: Form::Bulk,
        why: format!("tiles of {bytes} bytes come as one copy per input"),
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
    })
}

/// Size of the second-level cache where it isn't known, bytes.
const LEAST_L2: u64 = 32 << 20;

/// How many of the last tiles, of so many bytes that are read, give back what earlier ones keep in the second-level cache: as many as a quarter
/// of it has room for. An H200, which says that it has 60 MiB, keeps 12 of them; on other devices nobody has looked.
fn given_back(tuning: &Tuning, device: &Device, bytes: u64) -> u64 {
    let kept = device.l2_bytes.max(LEAST_L2) / 4;
    if tuning.hints.load_no_allocate { kept.div_ceil(bytes.max(1)) } else { 0 }
}
