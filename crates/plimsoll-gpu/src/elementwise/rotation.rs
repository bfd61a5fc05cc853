//! Operands for timing: windows of large arrays through which launches rotate, so that no line is still cached when its window is used
//! again, or one window for data in the cache.

use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_expr::problem::ProblemError;
use plimsoll_expr::{Graph, Layout, LayoutError, Problem};
use plimsoll_gen::elementwise::{Choose, PlanError};

use super::arrays::Arrays;
use super::operand::Operands;
use super::{BoundExpression, Elementwise, Error, Expression, Operand, TensorRef};
use crate::{Gpu, Span};

/// Most launches of a rotation.
const MOST_WINDOWS: u64 = 8192;
/// Alignment of windows, bytes.
const GRAIN: u64 = 4096;
/// Plans depend on addresses modulo this many bytes.
const ALIGNMENT: u32 = 32;

/// An expression with shapes, scalars and data, and the layouts of its outputs.
#[derive(Clone, Debug)]
pub struct Subject {
    pub(super) problem: Arc<Problem>,
    pub(super) outputs: Vec<Layout>,
}

impl Subject {
    /// With contiguous outputs; those in place have the layouts of their inputs.
    ///
    /// # Errors
    /// Never for a valid problem.
    pub fn new(problem: &Arc<Problem>) -> Result<Self, Error> {
        let outputs = (0..problem.graph().outputs().len()).map(|place| problem.output(place));
        let outputs = outputs.collect::<Result<_, _>>().map_err(PlanError::from)?;
        Ok(Self { problem: Arc::clone(problem), outputs })
    }

    /// With outputs of these layouts.
    #[must_use]
    pub fn with_outputs(self, outputs: Vec<Layout>) -> Self {
        Self { outputs, ..self }
    }

    /// Bytes of memory of an output that is not in place.
    fn output_bytes(&self, place: usize) -> u64 {
        let last = self.outputs.get(place).and_then(Layout::span).map_or(0, |(_, last)| last.saturating_add(1));
        last.saturating_mul(self.problem.graph().outputs().get(place).map_or(0, |output| output.dtype.bytes()))
    }
}

/// A subject with the layouts, alignments, types and scalars of a call's tensors (inputs, then outputs), but not their memory.
pub(super) fn subject_like<G: Elementwise>(
    graph: &Graph,
    tensors: &[TensorRef<'_, G>],
    bits: &[u64],
) -> Result<Subject, Error> {
    let invalid = |why: ProblemError| Fault::Invalid(format!("this call can't be tuned: {why}"));
    let aligned = |tensor: &TensorRef<'_, G>| -> Result<Layout, LayoutError> {
        let layout = tensor.extent.layout()?;
        let bytes = tensor.dtype.bytes().max(1);
        // The least offset at which all elements lie behind an address with the same remainder.
        let lowest = layout.span().map_or(0, |(first, _)| layout.offset() - first);
        let period = (u64::from(ALIGNMENT) / bytes).max(1);
        let phase = tensor.start() % u64::from(ALIGNMENT) / bytes;
        Layout::strided(layout.shape(), layout.strides(), lowest + (phase + period - lowest % period) % period)
    };
    let layouts = tensors.iter().map(aligned).collect::<Result<Vec<Layout>, _>>().map_err(PlanError::from)?;
    let (inputs, outputs) = layouts.split_at(graph.inputs().len());
    let scalars = graph.scalars().iter().zip(bits).map(|(scalar, bits)| scalar.dtype.decode(*bits)).collect();
    let problem = Problem::new(graph.clone(), inputs.to_vec(), scalars).map_err(invalid)?;
    Ok(Subject { problem: Arc::new(problem), outputs: outputs.to_vec() })
}

/// Spans of the inputs and outputs of one launch; an output in place has the span of its input.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) inputs: Vec<Span>,
    pub(super) outputs: Vec<Span>,
}

/// The expression bound to the operands of one launch.
pub(super) fn bind<G: Elementwise>(
    expression: &Expression<G>,
    subject: &Subject,
    set: &Set,
    choose: &Choose,
) -> Result<BoundExpression<G>, Error> {
    let (inputs, outputs) = operands(subject, set)?;
    expression.bind(&inputs, &outputs, subject.problem.scalars(), choose)
}

/// A launch for each set, as `bind` binds it, and whether all of them may overlap the preceding one.
pub(super) fn launches<G: Elementwise>(
    sets: &[Set],
    bind: impl Fn(&Set) -> Result<BoundExpression<G>, Error>,
) -> Result<(Vec<G::Launch>, bool), Error> {
    let launch = |set: &Set| {
        let bound = bind(set)?;
        Ok((bound.launch()?, bound.overlaps()))
    };
    let (launches, overlaps): (Vec<_>, Vec<bool>) =
        sets.iter().map(launch).collect::<Result<Vec<_>, Error>>()?.into_iter().unzip();
    Ok((launches, overlaps.into_iter().all(|overlaps| overlaps)))
}

/// Inputs and outputs of one launch as operands.
pub(super) fn operands<G: Elementwise>(subject: &Subject, set: &Set) -> Result<Operands<G>, Error> {
    let graph = subject.problem.graph();
    let inputs = graph.inputs().iter().zip(subject.problem.inputs()).zip(&set.inputs);
    let inputs = inputs.map(|((input, layout), span)| Operand::new(*span, input.dtype, layout.clone())).collect();
    let outputs = graph.outputs().iter().zip(&subject.outputs).zip(&set.outputs);
    let outputs = outputs.map(|((output, layout), span)| Operand::new(*span, output.dtype, layout.clone())).collect();
    Ok((inputs, outputs))
}

/// Sizes of a point's operands, and the number of their copies (windows). Arrays are those of the inputs, then those of the outputs
/// that are not in place.
#[derive(Clone, Debug)]
pub(super) struct Layouts {
    /// Bytes of each array per window.
    pub(super) sizes: Vec<u64>,
    /// The array of each output.
    pub(super) outputs: Vec<usize>,
    pub(super) inputs: usize,
    pub(super) windows: u64,
}

impl Layouts {
    /// For launches that rotate through `window` bytes of each array, or through none if the data are to be `cached`.
    pub(super) fn new(subject: &Subject, cached: bool, window: u64) -> Self {
        let problem = &subject.problem;
        let inputs = problem.inputs().len();
        let mut sizes: Vec<u64> = (0..inputs).map(|slot| problem.input_bytes(slot)).collect();
        let mut outputs = Vec::new();
        for (place, output) in problem.graph().outputs().iter().enumerate() {
            match output.in_place {
                Some(slot) => outputs.push(slot as usize),
                None => {
                    outputs.push(sizes.len());
                    sizes.push(subject.output_bytes(place));
                }
            }
        }
        let largest = sizes.iter().copied().max().unwrap_or(0).max(1);
        // At least two, as in other benchmarks that rotate through memory.
        let windows = window.div_ceil(largest).clamp(2, MOST_WINDOWS);
        let windows = if cached { 1 } else { windows };
        Self { sizes, outputs, inputs, windows }
    }

    /// With one window if that is larger than the caches: for tensors that fill the memory.
    pub(super) fn in_fewest_windows(self, window: u64) -> Self {
        let largest = self.sizes.iter().copied().max().unwrap_or(0).max(1);
        Self { windows: self.windows.min(window.div_ceil(largest).max(1)), ..self }
    }

    /// Whether an output is written in place.
    pub(super) fn is_in_place(&self) -> bool {
        self.outputs.iter().any(|array| *array < self.inputs)
    }

    /// Distance between windows of an array, bytes.
    pub(super) fn pitch(&self, array: usize) -> u64 {
        self.sizes[array].checked_next_multiple_of(GRAIN).unwrap_or(u64::MAX)
    }

    /// Bytes of each array.
    pub(super) fn bytes(&self) -> Vec<u64> {
        (0..self.sizes.len()).map(|array| self.pitch(array).saturating_mul(self.windows)).collect()
    }

    /// The operands of a launch.
    pub(super) fn set<G: Gpu>(&self, arrays: &Arrays<G>, window: u64) -> Result<Set, Fault> {
        let span = |array: usize| arrays.part(array, self.pitch(array) * window, self.sizes[array]);
        let inputs = (0..self.inputs).map(span).collect::<Result<_, _>>()?;
        let outputs = self.outputs.iter().map(|array| span(*array)).collect::<Result<_, _>>()?;
        Ok(Set { inputs, outputs })
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_expr::{DType, Names, parse};

    use super::*;

    fn layouts(text: &str, elements: u64, cached: bool, window: u64) -> Layouts {
        let graph = parse(text, &Names::with_default(DType::F32)).unwrap();
        let problem = Arc::new(Problem::flat(&graph, elements, &[]).unwrap());
        Layouts::new(&Subject::new(&problem).unwrap(), cached, window)
    }

    #[test]
    fn operands_rotate_through_the_window_and_at_least_twice() {
        let layouts_of = |elements| layouts("x + y", elements, false, 512 << 20);
        assert_eq!((layouts_of(1 << 18).windows, layouts_of(1 << 18).bytes()), (512, vec![512 << 20; 3]));
        assert_eq!(layouts_of(1 << 29).windows, 2);
        assert_eq!(layouts_of(1 << 29).in_fewest_windows(512 << 20).windows, 1);
        assert_eq!(layouts_of(1 << 18).in_fewest_windows(512 << 20).windows, 512);
        assert_eq!(layouts_of(1).windows, MOST_WINDOWS);
        assert_eq!(layouts("x", 1 << 18, true, 512 << 20).windows, 1);
    }

    #[test]
    fn an_output_in_place_shares_the_array_of_its_input() {
        let own = layouts("y = x + y", 1 << 18, false, 512 << 20);
        assert_eq!((own.sizes.len(), own.outputs.clone(), own.is_in_place()), (2, vec![1], true));
        assert!(!layouts("x + y", 8, true, 0).is_in_place());
    }

    #[test]
    fn windows_are_aligned_for_any_size() {
        let own = layouts("x", 1025, false, 1 << 20);
        assert_eq!((own.sizes[0], own.pitch(0)), (4100, 8192));
    }

    #[test]
    fn an_output_with_gaps_has_memory_up_to_its_last_element() {
        let graph = parse("x + 1", &Names::with_default(DType::F32)).unwrap();
        let problem = Problem::new(graph, vec![Layout::contiguous(&[4, 8]).unwrap()], vec![]).unwrap();
        let gaps = Layout::strided(&[4, 8], &[10, 1], 2).unwrap();
        let subject = Subject::new(&Arc::new(problem)).unwrap().with_outputs(vec![gaps]);
        assert_eq!(Layouts::new(&subject, true, 0).sizes, [4 * 32, 4 * (2 + 3 * 10 + 8)]);
    }
}
