//! Tensors that are one run each: where vectors are aligned, from which element on, and which tensors must be shifted.

use plimsoll_expr::Graph;

use super::shape::{Shape, lanes_and_unroll};
use super::tensors::Tensor;
use super::{Choose, Device, PlanError, Tensors, Tuning};
use crate::elementwise::geometry::Tiles;
use crate::elementwise::spec::{Form, Stream};

/// How vectors of some lanes lie on the tensors.
struct Fit {
    form: Form,
    /// Elements before the first vector.
    head: u64,
    /// Elements at the end that no vector may have.
    kept: u64,
}

/// Bytes to which a tensor's vectors are aligned.
fn access(tensor: &Tensor, lanes: u32, widest: u32) -> u32 {
    (lanes * tensor.bytes).min(widest)
}

/// Bytes of a sector, in which memory is written: the phases of addresses are told apart no further.
const SECTOR: u32 = super::walk::ALIGNMENT;
/// Tiles begin so many elements further on than the first place for them, if they can't there: a multiple of lines of any type.
const FURTHER: u64 = 128;

/// The first element from which on all of these are aligned to what `access` gives for each, and with `in_sectors` the outputs to sectors.
fn head(tensors: &[&Tensor], access: impl Fn(&Tensor) -> u32, in_sectors: bool) -> Option<u32> {
    let fits = |tensor: &Tensor, head: u32| {
        let to = if in_sectors && tensor.output { SECTOR } else { access(tensor) };
        (tensor.phase + head * tensor.bytes).is_multiple_of(to)
    };
    // Phases repeat after 32 bytes, so after at most 32 elements.
    (0..SECTOR).find(|&head| tensors.iter().all(|tensor| fits(tensor, head)))
}

/// Where whole tiles begin and end.
pub struct Beginning {
    /// Elements before the first one.
    pub head: u64,
    /// Elements that are behind the last one at least.
    pub kept: u64,
}

impl Beginning {
    /// Where they do with tensors that are aligned to what `access` gives for each; inputs that can't be while the outputs are take what is
    /// aligned so and has their elements in it: that of the first tile begins in the tensor, and that of the last one ends there. Where there
    /// must be a head, outputs begin sectors behind it if they can: otherwise every block would write parts of some. `None` if outputs are
    /// never aligned together.
    pub fn of(tensors: &Tensors, access: impl Fn(&Tensor) -> u32) -> Option<Self> {
        let first = |tensors: &[&Tensor]| match head(tensors, &access, false)? {
            0 => Some(0),
            head_of_accesses => head(tensors, &access, true).or(Some(head_of_accesses)),
        };
        let all: Vec<&Tensor> = tensors.moving().collect();
        if let Some(head) = first(&all) {
            return Some(Self { head: head.into(), kept: 0 });
        }
        let (outputs, inputs): (Vec<&Tensor>, Vec<&Tensor>) = all.into_iter().partition(|tensor| tensor.output);
        let shift = |tensor: &Tensor, head: u64| {
            (u64::from(tensor.phase) + head * u64::from(tensor.bytes)) % u64::from(access(tensor))
        };
        let reaches_back = |head: u64| inputs.iter().any(|tensor| head * u64::from(tensor.bytes) < shift(tensor, head));
        let mut found = u64::from(first(&outputs)?);
        if reaches_back(found) {
            found = FURTHER + head(&outputs, &access, true).map_or(found, u64::from);
        }
        let kept = inputs.iter().filter(|tensor| shift(tensor, found) > 0).map(|tensor| access(tensor) / tensor.bytes);
        Some(Self { head: found, kept: kept.max().unwrap_or(0).into() })
    }
}

/// How a tensor is found from element `head` on.
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
    // Shifted vectors of 32 bytes come as two of 16.
    let Beginning { head, kept } = Beginning::of(tensors, |tensor| access(tensor, lanes, widest))?;
    let form = match (head, kept) {
        (0, 0) => Form::Flat,
        (_, 0) => Form::Peel,
        _ => Form::Phased,
    };
    Some(Fit { form, head, kept })
}

/// Flat, peel or phased.
///
/// # Errors
/// None so far.
pub fn shape(
    graph: &Graph,
    tensors: &Tensors,
    device: &Device,
    tuning: &Tuning,
    choose: &Choose,
) -> Result<Shape, PlanError> {
    let widest = device.target.widest_access();
    let (mut lanes, mut unroll) = lanes_and_unroll(graph, tensors, tuning, choose);
    if fit(tensors, lanes, widest).is_none_or(|fit| fit.form == Form::Phased) {
        (lanes, unroll) = lanes_and_unroll(graph, tensors, &tuning.in_wide_vectors(tensors, device, choose), choose);
    }
    let wanted = lanes;
    let narrowest = tensors.narrowest();
    // Narrower vectors that are aligned are better than shifted ones, down to 4 bytes.
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
    let mut found = fit(tensors, lanes, widest);
    // Outputs that are never aligned together take narrower vectors; single elements are always aligned.
    while found.is_none() && lanes > 1 {
        lanes /= 2;
        unroll *= 2;
        found = fit(tensors, lanes, widest);
    }
    let fit = found.unwrap_or(Fit { form: Form::Flat, head: 0, kept: 0 });
    if choose.unroll.is_some() {
        unroll = tuning.unroll;
    }
    let tile = u64::from(lanes * unroll) * u64::from(tuning.threads);
    let tiles = Tiles::new(tensors.elements, fit.head, fit.kept, tuning.threads, lanes * unroll);
    let vector = lanes * narrowest;
    let why = match fit.form {
        Form::Flat if lanes < wanted => format!("every tensor is a run, aligned to no more than {vector} bytes"),
        Form::Flat => "every tensor is one aligned run".to_owned(),
        Form::Peel => format!("from element {} on every tensor is aligned", fit.head),
        _ => "tensors are never aligned together".to_owned(),
    };
    Ok(Shape {
        form: fit.form,
        why,
        streams: tensors.all.iter().map(|tensor| stream(tensor, fit.head, access(tensor, lanes, widest))).collect(),
        lanes,
        unroll,
        threads: tuning.threads,
        head: fit.head > 0,
        rank: 0,
        sets: 0,
        whole_rows: false,
        small: tensors.small(tile),
        blocks: tiles.blocks,
        words: vec![tiles.elements, tiles.whole, tiles.head],
    })
}
