//! Tensors that are found by coordinates: broadcast, pitched, strided. Vectors go along the fastest dimension where tensors
//! allow it.

use plimsoll_expr::Graph;

use super::division::Divisor;
use super::shape::{Shape, lanes_and_unroll};
use super::tensors::Tensor;
use super::tuning::refused;
use super::{Choose, Device, PlanError, Tensors, Tuning};
use crate::elementwise::geometry::Tiles;
use crate::elementwise::spec::{Form, Inner, Stream};
use crate::kernel::Index;

/// True where some dimension of a tensor isn't walked, so that its elements come from the cache after the first time.
fn is_broadcast(tensor: &Tensor, extents: &[u64]) -> bool {
    tensor.strides.iter().zip(extents).any(|(&stride, &extent)| stride == 0 && extent > 1)
}

/// True where rows are runs that vectors of some lanes can take as a whole.
pub fn takes_vectors(tensor: &Tensor, extents: &[u64], lanes: u32, widest: u32) -> bool {
    let lanes64 = u64::from(lanes);
    let access = (lanes * tensor.bytes).min(widest);
    let (slower, fastest) = tensor.strides.split_at(tensor.strides.len() - 1);
    fastest == [1]
        && extents.last().is_some_and(|extent| extent.is_multiple_of(lanes64))
        && tensor.phase.is_multiple_of(access)
        && slower
            .iter()
            .zip(extents)
            .all(|(stride, &extent)| extent == 1 || stride.unsigned_abs().is_multiple_of(lanes64))
}

/// How a tensor goes along the fastest dimension.
pub fn inner(tensor: &Tensor, extents: &[u64], lanes: u32, widest: u32) -> Inner {
    match tensor.strides.last() {
        _ if takes_vectors(tensor, extents, lanes, widest) => Inner::Vector,
        Some(1) => Inner::Unit,
        Some(0) => Inner::Splat,
        _ => Inner::Any,
    }
}

/// Whether vectors of `lanes` are worth having: what is not read again from the cache must be had in vectors.
fn suits(tensors: &Tensors, lanes: u32, widest: u32) -> bool {
    let extents = &tensors.extents;
    let access = |tensor: &Tensor| (lanes * tensor.bytes).min(widest);
    tensors.moving().all(|tensor| {
        if tensor.linear {
            tensor.phase.is_multiple_of(access(tensor))
        } else if tensor.output || (tensor.strides.last() == Some(&1) && !is_broadcast(tensor, extents)) {
            takes_vectors(tensor, extents, lanes, widest)
        } else {
            true
        }
    })
}

/// Vectors that go across the end of a row look at each element's coordinates: short ones have fewer of them.
pub fn crosses_in_length(tensors: &Tensors, lanes: u32) -> bool {
    crosses(tensors, lanes) && lanes * tensors.narrowest() > 4
}

/// Vectors of so many lanes go across the ends of rows.
pub fn crosses(tensors: &Tensors, lanes: u32) -> bool {
    tensors.extents.last().is_some_and(|extent| !extent.is_multiple_of(lanes.into()))
}

/// Sets of strides without repetition, and which one each tensor has.
pub struct Sets {
    /// The sets.
    pub strides: Vec<Vec<i64>>,
}

impl Sets {
    /// None yet.
    pub fn new() -> Self {
        Self { strides: Vec::new() }
    }

    /// The place of a set, added where it is new.
    pub fn of(&mut self, strides: &[i64]) -> u8 {
        let known = self.strides.iter().position(|set| set == strides);
        let place = known.unwrap_or_else(|| {
            self.strides.push(strides.to_vec());
            self.strides.len() - 1
        });
        // At most 128 tensors.
        place as u8
    }
}

/// Rows or strided.
///
/// # Errors
/// If `forced` isn't possible.
pub fn shape(
    graph: &Graph,
    tensors: &Tensors,
    device: &Device,
    tuning: &Tuning,
    choose: &Choose,
    forced: Option<Form>,
) -> Result<Shape, PlanError> {
    let widest = device.target.widest_access();
    let tuning = &tuning.in_wide_vectors(tensors, device, choose);
    let (wanted, unroll) = lanes_and_unroll(graph, tensors, tuning, choose);
    let mut lanes = if forced == Some(Form::Strided) { 1 } else { wanted };
    let inner_extent = tensors.extents.last().copied().unwrap_or(1);
    while lanes > 1 && (!suits(tensors, lanes, widest) || crosses_in_length(tensors, lanes)) {
        lanes /= 2;
    }
    if forced == Some(Form::Rows) && lanes == 1 && wanted > 1 {
        return Err(refused("form", "rows", "no vector of two or more elements is aligned in every tensor"));
    }
    let form = if lanes > 1 || forced == Some(Form::Rows) { Form::Rows } else { Form::Strided };
    // As many elements in flight as wider vectors would have had.
    let unroll = if choose.unroll.is_some() { unroll } else { (unroll * (wanted / lanes)).clamp(1, 8) };
    let tile = u64::from(lanes * unroll) * u64::from(tuning.threads);
    let tiles = Tiles::new(tensors.elements, 0, 0, tuning.threads, lanes * unroll);
    let Walked { streams, sets, small, words } = Walked::new(tensors, lanes, tile, device, choose);
    let crosses = crosses(tensors, lanes);
    let why = match (form, crosses) {
        (Form::Rows, false) => format!("rows of {inner_extent} elements are whole vectors of {lanes}"),
        (Form::Rows, true) => format!("vectors of {lanes} go across the ends of rows of {inner_extent}"),
        _ => "elements can't be had in vectors".to_owned(),
    };
    Ok(Shape {
        form,
        why,
        streams,
        lanes,
        unroll,
        threads: tuning.threads,
        head: false,
        rank: tensors.extents.len() as u32,
        sets,
        whole_rows: !crosses,
        small,
        blocks: tiles.blocks,
        words: [vec![tiles.elements, tiles.whole], words].concat(),
    })
}

/// Tensors of which some are found by coordinates, in vectors of some lanes.
pub struct Walked {
    /// How each tensor is found.
    pub streams: Vec<Stream>,
    /// Sets of strides.
    pub sets: u32,
    /// 32 bits do for every place and offset.
    pub small: bool,
    /// The words of dimensions and strides.
    pub words: Vec<u64>,
}

impl Walked {
    /// With tiles of `tile` elements. Divisors are as wide as the indices are going to be.
    pub fn new(tensors: &Tensors, lanes: u32, tile: u64, device: &Device, choose: &Choose) -> Self {
        let widest = device.target.widest_access();
        let mut sets = Sets::new();
        let stream = |tensor: &Tensor| match tensor {
            tensor if !tensor.used => Stream::Unused,
            tensor if tensor.uniform => Stream::Uniform,
            tensor if tensor.linear => Stream::Linear,
            tensor => {
                Stream::Walked { set: sets.of(&tensor.strides), inner: inner(tensor, &tensors.extents, lanes, widest) }
            }
        };
        let streams = tensors.all.iter().map(stream).collect();
        let small = tensors.small(tile);
        let short = small && choose.index != Some(Index::U64);
        let divisor = |&extent: &u64| if short { Divisor::small(extent) } else { Divisor::large(extent) };
        let mut words: Vec<u64> = tensors.extents.iter().flat_map(|extent| divisor(extent).words()).collect();
        for strides in &sets.strides {
            words.extend(strides.iter().map(|&stride| stride as u64));
            words.extend(steps(strides, &tensors.extents).map(|step| step as u64));
        }
        Self { streams, sets: sets.strides.len() as u32, small, words }
    }
}

/// What an offset gains where a dimension advances and all faster ones go back to 0. Wraps where no element is reached.
fn steps<'a>(strides: &'a [i64], extents: &'a [u64]) -> impl Iterator<Item = i64> + 'a {
    (0..strides.len()).map(|dimension| match strides.get(dimension + 1) {
        None => strides[dimension],
        Some(faster) => strides[dimension].wrapping_sub(faster.wrapping_mul(extents[dimension + 1] as i64)),
    })
}
