//! Contiguous tensors: from which element on vectors are aligned, and which inputs must be shifted.

use super::shape::{Case, Shape, lanes_and_unroll, unroll_at_once};
use super::tensors::Tensor;
use super::{PlanError, Tensors};
use crate::elementwise::geometry::Tiles;
use crate::elementwise::spec::{Form, Stream};

/// How vectors of a given width are placed on the tensors.
struct Fit {
    form: Form,
    /// Elements before the first vector.
    head: u64,
    /// Elements at the end that no vector may contain.
    kept: u64,
}

/// Bytes of an access to a tensor, to which its vectors are aligned.
pub fn access_bytes(tensor: &Tensor, lanes: u32, widest: u32) -> u32 {
    (lanes * tensor.bytes).min(widest)
}

/// Bytes of a sector, the unit of writes to memory. The phases of addresses are known modulo this.
const SECTOR: u32 = super::indexing::ALIGNMENT;
/// If tiles can't begin at the first aligned element, they begin this many elements later: a whole number of cache lines in any
/// type.
const FURTHER: u64 = 128;

/// The first element from which on all tensors are aligned to their `access`; with `in_sectors`, the outputs to sectors.
fn find_head(tensors: &[&Tensor], access: impl Fn(&Tensor) -> u32, in_sectors: bool) -> Option<u32> {
    let fits = |tensor: &Tensor, head: u32| {
        let alignment = if in_sectors && tensor.output { SECTOR } else { access(tensor) };
        (tensor.phase + head * tensor.bytes).is_multiple_of(alignment)
    };
    // Phases repeat after 32 bytes, so after at most 32 elements.
    (0..SECTOR).find(|&head| tensors.iter().all(|tensor| fits(tensor, head)))
}

/// The first element from which on all tensors are aligned to their `access`; if it isn't the first of all, one at which the outputs begin
/// sectors, if there is one. `None` if they are never aligned together.
pub fn first_aligned(tensors: &[&Tensor], access: impl Fn(&Tensor) -> u32) -> Option<u32> {
    match find_head(tensors, &access, false)? {
        0 => Some(0),
        head_of_accesses => find_head(tensors, &access, true).or(Some(head_of_accesses)),
    }
}

/// The elements outside whole tiles.
pub struct TileRange {
    /// Elements before the first tile.
    pub head: u64,
    /// Fewest elements after the last tile.
    pub kept: u64,
}

impl TileRange {
    /// Finds the range in which tensors are aligned to their `access`. Inputs that aren't aligned together with the outputs load
    /// the aligned accesses that contain their elements; the range ensures that these stay inside the tensor. If there must be a
    /// head, the outputs after it begin with a whole sector if possible: otherwise every block would write partial sectors.
    /// `None` if the outputs are never aligned together.
    pub fn new(tensors: &Tensors, access: impl Fn(&Tensor) -> u32) -> Option<Self> {
        let all: Vec<&Tensor> = tensors.moving().collect();
        if let Some(head) = first_aligned(&all, &access) {
            return Some(Self { head: head.into(), kept: 0 });
        }
        let (outputs, inputs): (Vec<&Tensor>, Vec<&Tensor>) = all.into_iter().partition(|tensor| tensor.output);
        let shift = |tensor: &Tensor, head: u64| {
            (u64::from(tensor.phase) + head * u64::from(tensor.bytes)) % u64::from(access(tensor))
        };
        let reaches_back = |head: u64| inputs.iter().any(|tensor| head * u64::from(tensor.bytes) < shift(tensor, head));
        let mut head = u64::from(first_aligned(&outputs, &access)?);
        if reaches_back(head) {
            head = FURTHER + find_head(&outputs, &access, true).map_or(head, u64::from);
        }
        let kept = inputs.iter().filter(|tensor| shift(tensor, head) > 0).map(|tensor| access(tensor) / tensor.bytes);
        Some(Self { head, kept: kept.max().unwrap_or(0).into() })
    }
}

/// How a tensor is addressed from element `head` on.
pub fn stream(tensor: &Tensor, head: u64, access: u32) -> Stream {
    let phase = u64::from(tensor.phase) + head * u64::from(tensor.bytes);
    match tensor {
        tensor if !tensor.used => Stream::Unused,
        tensor if tensor.uniform => Stream::Uniform,
        _ if phase.is_multiple_of(access.into()) => Stream::Linear,
        _ => Stream::Shifted,
    }
}

fn fit(tensors: &Tensors, lanes: u32, widest: u32) -> Option<Fit> {
    let TileRange { head, kept } = TileRange::new(tensors, |tensor| access_bytes(tensor, lanes, widest))?;
    let form = match (head, kept) {
        (0, 0) => Form::Flat,
        (_, 0) => Form::Peel,
        _ => Form::Phased,
    };
    Some(Fit { form, head, kept })
}

/// The shape of a flat, peel or phased kernel.
///
/// # Errors
/// Never; the signature matches the other forms.
pub fn shape(case: Case<'_>) -> Result<Shape, PlanError> {
    let Case { graph, tensors, device, tuning, choose } = case;
    let widest = device.target.widest_access();
    let (mut lanes, mut unroll) = lanes_and_unroll(graph, tensors, tuning, choose);
    if fit(tensors, lanes, widest).is_none_or(|fit| fit.form == Form::Phased) {
        (lanes, unroll) = lanes_and_unroll(graph, tensors, &tuning.in_wide_vectors(tensors, choose), choose);
    }
    let wanted = lanes;
    let narrowest = tensors.narrowest();
    // Narrower aligned vectors, down to 4 bytes, are better than shifted ones.
    let mut narrow = lanes;
    while narrow > 1 && (narrow == lanes || narrow * narrowest >= 4) {
        match fit(tensors, narrow, widest) {
            Some(fit) if fit.form != Form::Phased => {
                (lanes, unroll) = (narrow, unroll * (lanes / narrow));
                break;
            }
            _ => narrow /= 2,
        }
    }
    let mut possible = fit(tensors, lanes, widest);
    // Outputs that are never aligned together get narrower vectors; single elements are always aligned.
    while possible.is_none() && lanes > 1 {
        lanes /= 2;
        unroll *= 2;
        possible = fit(tensors, lanes, widest);
    }
    let fit = possible.unwrap_or(Fit { form: Form::Flat, head: 0, kept: 0 });
    unroll = choose.unroll.unwrap_or_else(|| unroll_at_once(&case, lanes, unroll));
    let tile = u64::from(lanes * unroll) * u64::from(tuning.threads);
    let tiles = Tiles::new(tensors.elements, fit.head, fit.kept, tuning.threads, lanes * unroll);
    let vector = lanes * narrowest;
    let why = match fit.form {
        Form::Flat if lanes < wanted => format!("every tensor is contiguous, but only aligned to {vector} bytes"),
        Form::Flat => "every tensor is contiguous and aligned".to_owned(),
        Form::Peel => format!("every tensor is aligned from element {} on", fit.head),
        _ => "tensors are never aligned together".to_owned(),
    };
    Ok(Shape {
        streams: tensors
            .all
            .iter()
            .map(|tensor| stream(tensor, fit.head, access_bytes(tensor, lanes, widest)))
            .collect(),
        lanes,
        unroll,
        threads: tuning.threads,
        head: fit.head > 0,
        small: tensors.small(tile),
        blocks: tiles.blocks,
        words: vec![tiles.elements, tiles.whole, tiles.head],
        ..Shape::new_empty(fit.form, why)
    })
}
