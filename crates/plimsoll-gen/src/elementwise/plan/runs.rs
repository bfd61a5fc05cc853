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

fn aligned(tensor: &Tensor, head: u32, lanes: u32, widest: u32) -> bool {
    (tensor.phase + head * tensor.bytes).is_multiple_of(access(tensor, lanes, widest))
}

/// The first element from which on all of these are aligned.
fn head(tensors: &[&Tensor], lanes: u32, widest: u32) -> Option<u32> {
    // Phases repeat after 32 bytes, so after at most 32 elements.
    (0..32).find(|&head| tensors.iter().all(|tensor| aligned(tensor, head, lanes, widest)))
}

fn fit(tensors: &Tensors, lanes: u32, widest: u32) -> Option<Fit> {
    let all: Vec<&Tensor> = tensors.moving().collect();
    if let Some(head) = head(&all, lanes, widest) {
        let form = if head == 0 { Form::Flat } else { Form::Peel };
        return Some(Fit { form, head: head.into(), kept: 0 });
    }
    let outputs: Vec<&Tensor> = all.iter().copied().filter(|tensor| tensor.output).collect();
    let mut head = head(&outputs, lanes, widest)?;
    // Shifted vectors reach back to the access before them, and on to the one behind.
    let reaches_back = |head: u32| {
        all.iter().any(|tensor| {
            let access = access(tensor, lanes, widest.min(16));
            let shift = (tensor.phase + head * tensor.bytes) % access;
            head * tensor.bytes < shift
        })
    };
    while reaches_back(head) {
        head += lanes.max(1) * (widest / (lanes * outputs[0].bytes).min(widest)).max(1);
    }
    Some(Fit { form: Form::Phased, head: head.into(), kept: lanes.into() })
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
    let stream = |tensor: &Tensor| match tensor {
        tensor if !tensor.used => Stream::Unused,
        tensor if tensor.uniform => Stream::Uniform,
        tensor if aligned(tensor, fit.head as u32, lanes, widest) => Stream::Linear,
        _ => Stream::Shifted,
    };
    let tile = u64::from(lanes) * u64::from(unroll) * u64::from(tuning.threads);
    let tiles = Tiles::new(tensors.elements, fit.head, fit.kept, tile);
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
        streams: tensors.all.iter().map(stream).collect(),
        lanes,
        unroll,
        threads: tuning.threads,
        rank: 0,
        sets: 0,
        whole_rows: false,
        small: tensors.small(tile),
        blocks: tiles.blocks,
        words: vec![tiles.elements, tiles.whole, tiles.head],
    })
}
