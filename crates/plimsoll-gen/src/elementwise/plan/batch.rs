//! Many small sets of tensors in one launch: each block looks up its set in a table within the parameter block.

use plimsoll_expr::Graph;

use super::tensors::{Tensor, Tensors};
use super::{Access, Choose, Device, Indexing, Plan, PlanError, Reason, Tuning, finish};
use crate::elementwise::accuracy::meaning;
use crate::elementwise::spec::{Form, Stream, element_bytes};
use crate::elementwise::table::Table;
use crate::elementwise::words::MOST_WORDS;
use plimsoll_expr::layout::LayoutError;

/// Most sets of tensors per launch.
#[must_use]
pub fn batch_capacity(graph: &Graph) -> usize {
    let tensors = graph.inputs().len() + graph.outputs().len();
    (MOST_WORDS - graph.scalars().len() - 1) / (tensors + 1)
}

/// Plans one kernel for many sets of contiguous tensors of one expression: set k has `lengths[k]` elements, and the addresses
/// of its tensors' first elements are `starts[k × tensors ..]`, inputs then outputs. [`Plan::words`] takes the addresses in the
/// same order. Sets whose tensors are aligned are processed in vectors, the others element by element. Sets may be empty.
///
/// # Errors
/// As [`super::plan()`]; [`PlanError::Sets`] for more than [`batch_capacity`] sets.
pub fn plan_batch(
    graph: &Graph,
    lengths: &[u64],
    starts: &[u64],
    device: &Device,
    table: &Table,
    choose: &Choose,
) -> Result<Plan, PlanError> {
    let graph = meaning(graph, choose.tier).with_plain_names().with_raw_copies();
    let bytes = element_bytes(&graph);
    let scalars = graph.scalars().len();
    if lengths.len().checked_mul(bytes.len()) != Some(starts.len()) {
        return Err(PlanError::Count { tensors: lengths.len() * bytes.len(), scalars, given: (starts.len(), scalars) });
    }
    let most = batch_capacity(&graph);
    if lengths.len() > most {
        return Err(PlanError::Sets { sets: lengths.len(), most });
    }
    for (tensor, &start) in starts.iter().enumerate() {
        let bytes = bytes[tensor % bytes.len()];
        if !start.is_multiple_of(bytes.into()) {
            return Err(PlanError::Misaligned { tensor, start, bytes });
        }
    }
    let elements: u64 = lengths.iter().fold(0, |sum, &length| sum.saturating_add(length));
    if elements == 0 {
        return Err(PlanError::Empty);
    }
    if graph.depends_on_place() && graph.least_rank() > 1 {
        return Err(super::tuning::refused("form", "batch", "sets have one dimension"));
    }
    if let Some(&long) = lengths.iter().find(|&&length| length > u64::from(u32::MAX)) {
        return Err(LayoutError::TooLarge(plimsoll_expr::layout::Shape(vec![long])).into());
    }
    let one = Access { strides: vec![1], phase: 0 };
    let indexing = Indexing { extents: vec![elements], accesses: vec![one; bytes.len()] };
    let tensors = Tensors::new(&graph, &indexing);
    // Blocks process the tiles of flat kernels, so rows for bulk copies don't apply.
    let flat = Choose { form: Some(Form::Flat), ..*choose };
    let class = Tuning::classify(&graph, table, choose.tier);
    let tuning = Tuning::new(&graph, &tensors, device, (table, class), &flat, false)?;
    let (lanes, unroll) = super::shape::lanes_and_unroll(&graph, &tensors, &tuning, choose);
    let tile = u64::from(lanes * unroll) * u64::from(tuning.threads);
    let mut words = vec![0; most + 1];
    words[0] = lengths.len() as u64;
    let mut blocks = 0;
    for (word, &length) in words[1..].iter_mut().zip(lengths) {
        *word = blocks | length << 32;
        blocks += length.div_ceil(tile);
    }
    if blocks >= 1 << 31 {
        return Err(PlanError::Blocks { blocks });
    }
    let stream = |tensor: &Tensor| if tensor.used { Stream::Linear } else { Stream::Unused };
    let shape = super::shape::Shape {
        form: Form::Batch,
        why: format!("{} sets of tensors in one launch", lengths.len()),
        streams: tensors.all.iter().map(stream).collect(),
        lanes,
        unroll,
        rows: 0,
        threads: tuning.threads,
        head: false,
        rank: 0,
        sets: 0,
        whole_rows: false,
        small: false,
        blocks,
        words,
    };
    let mut plan = finish(graph, &indexing, device, choose, tuning, shape)?;
    // Any address aligned to its element is accepted: each block checks the alignment of its set.
    plan.phases = vec![0; starts.len()];
    plan.alignment = 1;
    plan.reasons.push(Reason {
        what: "sets",
        chosen: lengths.len().to_string(),
        why: format!("up to {most} fit into the parameters of a launch"),
    });
    Ok(plan)
}
