//! Tensors indexed by coordinates: broadcast, pitched, strided. Vectors run along the fastest dimension if the tensors allow it.

use plimsoll_expr::Graph;
use plimsoll_expr::graph::Kind;
use plimsoll_expr::op::{Binary, Domain};

use super::division::Divisor;
use super::shape::{Case, Shape, lanes_and_unroll, most_elements, unroll_at_once};
use super::shared::Shared;
use super::stacked;
use super::tensors::Tensor;
use super::tuning::refused;
use super::{Choose, Device, PlanError, Tensors};
use crate::elementwise::geometry::Tiles;
use crate::elementwise::spec::{Form, Inner, Stream};
use crate::kernel::Index;

/// True if a tensor has stride 0 along some dimension, so that its elements come from the cache after the first access.
fn is_broadcast(tensor: &Tensor, extents: &[u64]) -> bool {
    tensor.strides.iter().zip(extents).any(|(&stride, &extent)| stride == 0 && extent > 1)
}

/// True if a tensor's rows consist of whole, aligned vectors of `lanes` elements.
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

/// How a tensor is accessed along the fastest dimension.
pub fn inner(tensor: &Tensor, extents: &[u64], lanes: u32, widest: u32) -> Inner {
    match tensor.strides.last() {
        _ if takes_vectors(tensor, extents, lanes, widest) => Inner::Vector,
        Some(1) => Inner::Unit,
        Some(0) => Inner::Splat,
        _ => Inner::Any,
    }
}

/// Largest distance of elements that are taken from whole vectors of memory.
const MOST_SPACING: i64 = 4;
/// Most bytes of the vectors that a thread loads for `lanes` such elements.
const MOST_SPACED: u32 = 128;

/// The distance of an input's elements along the fastest dimension, if vectors that contain them and the elements between can be loaded:
/// they are aligned, and only those of the very last element end beyond it. So strides are positive, and no row is read again.
fn spacing(tensor: &Tensor, extents: &[u64], lanes: u32, widest: u32) -> Option<u8> {
    let (&fastest, slower) = tensor.strides.split_last()?;
    let fits = !tensor.output
        && lanes > 1
        && (2..=MOST_SPACING).contains(&fastest)
        && fastest as u32 * lanes * tensor.bytes <= MOST_SPACED
        && tensor.phase.is_multiple_of((lanes * tensor.bytes).min(widest))
        && extents.last()?.is_multiple_of(lanes.into())
        && slower
            .iter()
            .zip(extents)
            .all(|(&stride, &extent)| extent == 1 || (stride >= fastest && stride % i64::from(lanes) == 0));
    fits.then_some(fastest as u8)
}

/// Whether an input's vectors along the fastest dimension can be shifted out of aligned accesses: of their accesses, only the last one of the
/// very last vector ends beyond the tensor. So the tensor begins with an access, strides are positive, and no row is read again.
fn shifts(tensor: &Tensor, extents: &[u64], lanes: u32, widest: u32) -> bool {
    let lanes64 = i64::from(lanes);
    let Some((&fastest, slower)) = tensor.strides.split_last() else { return false };
    !tensor.output
        && fastest == 1
        && lanes * tensor.bytes >= 4
        && tensor.phase.is_multiple_of((lanes * tensor.bytes).min(widest).min(16))
        && extents.last().is_some_and(|extent| extent.is_multiple_of(lanes.into()))
        && slower.iter().zip(extents).all(|(&stride, &extent)| extent == 1 || stride >= lanes64)
}

/// Whether an input's vectors can be shifted out of aligned accesses inside rows, while vectors cross the ends of rows: their accesses end with the
/// next vector at most, and don't begin before the tensor. Two accesses in place of four single elements or more are worthwhile.
fn shifts_inside_rows(tensor: &Tensor, extents: &[u64], lanes: u32, widest: u32) -> bool {
    let long = extents.last().is_some_and(|&extent| extent >= SELDOM * WARP * u64::from(lanes));
    !tensor.output
        && long
        && tensor.strides.last() == Some(&1)
        && lanes >= LEAST_SHIFTED
        && lanes * tensor.bytes >= 4
        && tensor.phase.is_multiple_of((lanes * tensor.bytes).min(widest).min(16))
        && tensor.strides.iter().zip(extents).all(|(&stride, &extent)| extent == 1 || stride >= 0)
}

/// Fewest elements of such a vector.
const LEAST_SHIFTED: u32 = 4;
/// Warps per row from which on most have no vector near the end of a row. One that has needs both kinds of loads.
const SELDOM: u64 = 4;

/// Whether vectors of `lanes` elements are worthwhile: every tensor that isn't reread from the cache must allow them. If `wide` ones are wanted,
/// some may be shifted, or loaded one element at a time where vectors cross the ends of rows.
fn suits(tensors: &Tensors, lanes: u32, widest: u32, wide: bool) -> bool {
    let extents = &tensors.extents;
    let access = |tensor: &Tensor| (lanes * tensor.bytes).min(widest);
    tensors.moving().all(|tensor| {
        if tensor.linear {
            tensor.phase.is_multiple_of(access(tensor))
        } else if tensor.output {
            takes_vectors(tensor, extents, lanes, widest)
        } else if tensor.strides.last() == Some(&1) && !is_broadcast(tensor, extents) {
            takes_vectors(tensor, extents, lanes, widest)
                || wide && (shifts(tensor, extents, lanes, widest) || crosses(tensors, lanes))
        } else {
            true
        }
    })
}

/// Most elements of a vector that crosses the ends of rows: each is loaded by itself.
const MOST_TURNING: u32 = 8;

/// Threads of a warp.
const WARP: u64 = 32;
/// Vectors cross the ends of rows rarely if at most one of so many warps has one that does: such a warp computes twice.
const RARELY: u64 = 8;

/// Whether vectors cross the ends of rows and are too long for that: longer than a row, or more than [`MOST_TURNING`] elements.
pub fn outgrows(tensors: &Tensors, lanes: u32) -> bool {
    let rows = tensors.extents.last().copied().unwrap_or(1);
    crosses(tensors, lanes) && (lanes > MOST_TURNING || u64::from(lanes) > rows)
}

/// Whether vectors of `lanes` elements cross the ends of rows.
pub fn crosses(tensors: &Tensors, lanes: u32) -> bool {
    tensors.extents.last().is_some_and(|extent| !extent.is_multiple_of(lanes.into()))
}

/// Whether the expression applies a function of floats to inputs that are the same along rows. Without one, a separate computation for them
/// gains nothing: `x*w` of 386,000 f32 took an H200 2.24 µs without it and 2.27 with it.
fn computes_by_row(graph: &Graph, tensors: &Tensors) -> bool {
    let mut by_row: Vec<Option<bool>> = Vec::with_capacity(graph.nodes().len());
    // Of each node whether it depends on such inputs, and `None` if it depends on others.
    for node in graph.nodes() {
        let known = match node.kind {
            Kind::Input(slot) => {
                let tensor = &tensors.all[slot as usize];
                (tensor.uniform || tensor.strides.last() == Some(&0)).then_some(!tensor.uniform)
            }
            Kind::Place | Kind::Coordinate(_) => None,
            kind => kind.operands().iter().try_fold(false, |any, id| Some(any | by_row[id.index()]?)),
        };
        let is_function = matches!(node.kind, Kind::Unary(op, _) if op.domain() == Domain::Float)
            || matches!(node.kind, Kind::Binary(Binary::Div | Binary::Pow | Binary::Atan2, _));
        if is_function && known == Some(true) {
            return true;
        }
        by_row.push(known);
    }
    false
}

/// The distinct sets of strides.
pub struct Sets {
    /// The sets.
    pub strides: Vec<Vec<i64>>,
}

impl Sets {
    /// No sets.
    pub fn new() -> Self {
        Self { strides: Vec::new() }
    }

    /// The index of a set, which is added if it is new.
    pub fn index_of(&mut self, strides: &[i64]) -> u8 {
        let known = self.strides.iter().position(|set| set == strides);
        let index = known.unwrap_or_else(|| {
            self.strides.push(strides.to_vec());
            self.strides.len() - 1
        });
        // There are at most 128 tensors.
        index as u8
    }
}

/// Elements of vectors.
struct Lanes {
    /// The most that are aligned in every tensor and inside rows.
    aligned: u32,
    /// Those of the kernel.
    lanes: u32,
    /// They are narrow because there are few elements, so a thread has one vector.
    few: bool,
}

/// Fewest elements of aligned vectors that are preferred to wide ones in small launches with pitched rows. On an H200, f16 of 188 × 1122 in rows of
/// 1132 to i8 took 2.10 µs in vectors of 8 elements and 1.63 of 2, `x*y + y` of bf16 with 256 × 1998 in rows of 2004 2.47 and 2.12; dependent
/// launches gain as much. Single elements took 2 to 5 % longer than wide vectors, and so did short vectors of tensors without gaps.
const LEAST_ALIGNED: u32 = 2;

impl Lanes {
    /// At most `most` elements. `wanted`: those of the tuning; aligned vectors may have half as many, or fewer in a launch
    /// of at most `small` vectors.
    fn new(tensors: &Tensors, most: u32, wanted: u32, widest: u32, small: u64) -> Self {
        let most_lanes = |wide: bool| {
            let mut lanes = most;
            while lanes > 1
                && (!suits(tensors, lanes, widest, wide)
                    || if wide { outgrows(tensors, lanes) } else { crosses(tensors, lanes) })
            {
                lanes /= 2;
            }
            lanes
        };
        // Aligned vectors of half the length are better than wide ones that are shifted or cross the ends of rows.
        let aligned = most_lanes(false);
        if 2 * aligned >= wanted {
            return Self { aligned, lanes: aligned, few: false };
        }
        let wide = aligned.max(most_lanes(true));
        let is_pitched = |tensor: &Tensor| {
            !tensor.linear
                && tensor.strides.last() == Some(&1)
                && !is_broadcast(tensor, &tensors.extents)
                && !takes_vectors(tensor, &tensors.extents, wide, widest)
        };
        let few = aligned >= LEAST_ALIGNED
            && tensors.elements.div_ceil(aligned.into()) <= small
            && tensors.moving().any(is_pitched);
        Self { aligned, lanes: if few { aligned } else { wide }, few }
    }

    /// Vectors of two accesses, where their elements share functions of what is the same along rows: if a thread has several vectors, or if the
    /// functions take about as long as memory.
    fn doubled(self, case: &Case<'_>, unroll: u32) -> Self {
        let Case { graph, tensors, device, choose, .. } = case;
        let doubled = 2 * self.lanes;
        let estimate = || Shared::inside_vectors(graph, tensors, choose.tier, self.lanes).gain(2, 1);
        let gains = choose.vector.or(choose.unroll).is_none()
            && self.aligned == self.lanes
            && (2..=MOST_DOUBLED).contains(&self.lanes)
            && doubled <= most_elements(graph, tensors)
            && !crosses(tensors, doubled)
            && suits(tensors, doubled, device.target.widest_access(), false)
            && computes_by_row(graph, tensors)
            && (unroll > 1 || estimate() > LEAST_GAIN);
        if gains { Self { aligned: doubled, lanes: doubled, ..self } } else { self }
    }
}

/// Most elements of vectors that are doubled, and least gain by the estimate if a thread has one. On an H200, with one f64 per row of y,
/// `erf(x)*tanh(x)*y` took 75.2 µs, with two vectors per thread 73.5 and with one of four elements 60.7; `rsqrt(abs(sigmoid(x)) + 0.5) + y`
/// 89.4, 82.7 and 79.7; `gelu(x)*y`, which is estimated to gain 3 %, 119.5, 117.6 and 120.7. With vectors of 16 bf16 instead of 8,
/// `tanh(x)*erf(x) + cos(x)*y` took 118.6 µs instead of 116.9.
const MOST_DOUBLED: u32 = 2;
const LEAST_GAIN: f64 = 0.04;

/// The shape of a rows or strided kernel.
///
/// # Errors
/// If `forced` isn't possible.
pub fn shape(case: Case<'_>, forced: Option<Form>) -> Result<Shape, PlanError> {
    let Case { graph, tensors, device, tuning, choose } = case;
    let widest = device.target.widest_access();
    let tuning = &tuning.in_wide_vectors(tensors, choose);
    let (wanted, unroll) = lanes_and_unroll(graph, tensors, tuning, choose);
    let inner_extent = tensors.extents.last().copied().unwrap_or(1);
    let most = if forced == Some(Form::Strided) { 1 } else { wanted };
    let is_free = choose.vector.or(choose.unroll).is_none();
    let small = if is_free { device.wave(tuning.threads) * u64::from(tuning.threads) } else { 0 };
    let Lanes { aligned, lanes, few } = Lanes::new(tensors, most, wanted, widest, small).doubled(&case, unroll);
    let shifts = |tensor: &Tensor| aligned < lanes && shifts(tensor, &tensors.extents, lanes, widest);
    if forced == Some(Form::Rows) && lanes == 1 && wanted > 1 {
        return Err(refused("form", "rows", "no vector of two or more elements is aligned in every tensor"));
    }
    let form = if lanes > 1 || forced == Some(Form::Rows) { Form::Rows } else { Form::Strided };
    let spacing = |tensor: &Tensor| spacing(tensor, &tensors.extents, lanes, widest);
    let widest_spacing = tensors.moving().filter_map(spacing).max();
    let crosses = crosses(tensors, lanes);
    // As many bytes in flight as with the wider vectors.
    let unroll = match choose.unroll {
        Some(_) => unroll,
        None if few => 1,
        None => (unroll * wanted / lanes / u32::from(widest_spacing.unwrap_or(1))).clamp(1, 8),
    };
    // The vectors of the last spaced elements reach beyond the tensor, and so do the last shifted ones.
    let reaches = widest_spacing.is_some() || tensors.moving().any(shifts);
    // Such vectors, and those that cross the ends of rows, take too many registers for more of them.
    let takes_more = lanes > 1 && !crosses && !reaches;
    let unroll = if takes_more { unroll_at_once(&case, lanes, unroll) } else { unroll };
    let stacked = takes_more.then(|| stacked::rows(&case, lanes)).flatten();
    let unroll = stacked.unwrap_or(unroll);
    let same_rows = |tensor: &Tensor| stacked::has_same_rows(tensor, &tensors.extents);
    let same_rows: Vec<bool> = stacked.map_or_else(Vec::new, |_| tensors.all.iter().map(same_rows).collect());
    let rows = tensors.elements / inner_extent.max(1);
    let kept = stacked.map_or(reaches.into(), |unroll| rows % u64::from(unroll) * inner_extent);
    let tile = u64::from(lanes * unroll) * u64::from(tuning.threads);
    let tiles = Tiles::new(tensors.elements, 0, kept, tuning.threads, lanes * unroll);
    let Addressing { mut streams, sets, small, words } = Addressing::new(tensors, lanes, tile, device, choose);
    let access = |tensor: &Tensor, inner| match spacing(tensor) {
        Some(spacing) => Inner::Spaced(spacing),
        None if inner == Inner::Unit && shifts(tensor) => Inner::Shifted,
        None if inner == Inner::Unit && crosses && shifts_inside_rows(tensor, &tensors.extents, lanes, widest) => {
            Inner::ShiftedOrUnit
        }
        None => inner,
    };
    for (stream, tensor) in streams.iter_mut().zip(&tensors.all) {
        if let Stream::Indexed { inner, .. } = stream {
            *inner = access(tensor, *inner);
        }
    }
    let few_cross = inner_extent >= RARELY * WARP * u64::from(lanes);
    let why = explain((form, crosses), (lanes, wanted), inner_extent);
    Ok(Shape {
        streams,
        lanes,
        unroll,
        threads: tuning.threads,
        rank: tensors.extents.len() as u32,
        sets,
        whole_rows: !crosses,
        rare_turns: crosses && few_cross && computes_by_row(graph, tensors),
        same_rows,
        small,
        blocks: tiles.blocks,
        words: [vec![tiles.elements, tiles.whole], words].concat(),
        ..Shape::new_empty(form, why)
    })
}

/// Why the kernel has this form, with vectors of `lanes` elements in place of `wanted` ones.
fn explain((form, crosses): (Form, bool), (lanes, wanted): (u32, u32), row: u64) -> String {
    match (form, crosses) {
        (Form::Rows, false) => format!("rows of {row} elements are whole vectors of {lanes}"),
        (Form::Rows, true) => format!("vectors of {lanes} cross the ends of rows of {row}"),
        _ if wanted == 1 => "accesses of the chosen size hold one element".to_owned(),
        _ => "the tensors allow no vectors".to_owned(),
    }
}

/// How tensors are addressed if some need coordinates.
pub struct Addressing {
    /// How each tensor is addressed.
    pub streams: Vec<Stream>,
    /// Number of sets of strides.
    pub sets: u32,
    /// Every index and offset fits into 31 bits.
    pub small: bool,
    /// The words of dimensions and strides.
    pub words: Vec<u64>,
}

impl Addressing {
    /// The addressing with vectors of `lanes` and tiles of `tile` elements. Divisors are as wide as the indices will be.
    pub fn new(tensors: &Tensors, lanes: u32, tile: u64, device: &Device, choose: &Choose) -> Self {
        let widest = device.target.widest_access();
        let mut sets = Sets::new();
        let stream = |tensor: &Tensor| match tensor {
            tensor if !tensor.used => Stream::Unused,
            tensor if tensor.uniform => Stream::Uniform,
            tensor if tensor.linear => Stream::Linear,
            tensor => Stream::Indexed {
                set: sets.index_of(&tensor.strides),
                inner: inner(tensor, &tensors.extents, lanes, widest),
            },
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

/// The change of an offset when a dimension advances by one and the next faster one returns from its extent to 0. Wraps if no
/// element is accessed that way.
fn steps<'a>(strides: &'a [i64], extents: &'a [u64]) -> impl Iterator<Item = i64> + 'a {
    (0..strides.len()).map(|dimension| match strides.get(dimension + 1) {
        None => strides[dimension],
        Some(faster) => strides[dimension].wrapping_sub(faster.wrapping_mul(extents[dimension + 1] as i64)),
    })
}
