//! A problem: an expression with shapes, scalars and input data on which it is finite. Single elements are checked against the
//! oracle. Programs that time or check expressions need this in addition to the graph; the backends own the memory.

use plimsoll_core::Traffic;

use crate::cost;
use crate::dtype::{Category, DType};
use crate::function::mix;
use crate::graph::Graph;
use crate::layout::{Layout, LayoutError, broadcast, elements};
use crate::oracle::{Bound, Element, OracleError, Precision, allowed, evaluate};
use crate::value::Value;

/// Ranges for random floats: the one with the fewest NaN or infinite outputs is used, the first of equals. They are both signs,
/// then the domain of logarithms and roots, then the domains of inverse functions on each side of 1.
const RANGES: [(f64, f64); 4] = [(-3.0, 3.0), (0.01, 8.0), (0.01, 0.99), (1.01, 8.0)];
/// The number of elements on which a range is tried.
const TRIED: u64 = 64;

/// An expression with one layout per input and one value per run-time scalar.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    graph: Graph,
    inputs: Vec<Layout>,
    scalars: Vec<Value>,
    shape: Vec<u64>,
    traffic: Traffic,
    range: (f64, f64),
}

/// The result of checking one element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// At least one output could be judged, and none is wrong.
    Right,
    /// An output is wrong; the text says which and how.
    Wrong(String),
    /// No output could be judged: all depend on allowed errors.
    Unjudged,
}

/// Why a problem can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// The shapes don't match.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A tensor too large for any memory.
    #[error("'{name}': {error}")]
    Memory {
        /// The tensor's name.
        name: String,
        /// What is wrong with its layout.
        error: LayoutError,
    },
    /// The operands don't match the expression.
    #[error(transparent)]
    Oracle(#[from] OracleError),
}

impl Problem {
    /// A problem with layouts in the order of [`Graph::inputs`] and values in the order of [`Graph::scalars`].
    ///
    /// # Errors
    /// If their numbers don't match the expression, the shapes can't be broadcast together, or a tensor is too large for memory.
    pub fn new(graph: Graph, inputs: Vec<Layout>, scalars: Vec<Value>) -> Result<Self, ProblemError> {
        let shapes: Vec<&[u64]> = inputs.iter().map(Layout::shape).collect();
        let shape = broadcast(&shapes)?;
        let traffic = cost::traffic(&graph, &inputs)?;
        let fits = |name: &str, layout: &Layout, dtype: DType| match layout.memory(dtype.bytes()) {
            Ok(_) => Ok(()),
            Err(error) => Err(ProblemError::Memory { name: name.to_owned(), error }),
        };
        for (input, layout) in graph.inputs().iter().zip(&inputs) {
            fits(&input.name, layout, input.dtype)?;
        }
        let full = Layout::contiguous(&shape)?;
        graph.outputs().iter().try_for_each(|output| fits(&output.name, &full, output.dtype))?;
        let mut problem = Self { graph, inputs, scalars, shape, traffic, range: RANGES[0] };
        let mut least = u64::MAX;
        for range in RANGES {
            let unfit = problem.count_non_finite(range)?;
            if unfit < least {
                (least, problem.range) = (unfit, range);
            }
        }
        Ok(problem)
    }

    /// A problem whose inputs are all contiguous, with `elements` elements in one dimension.
    ///
    /// # Errors
    /// As for [`Problem::new`].
    pub fn flat(graph: &Graph, elements: u64, scalars: &[Value]) -> Result<Self, ProblemError> {
        let layout = Layout::contiguous(&[elements])?;
        Self::new(graph.clone(), vec![layout; graph.inputs().len()], scalars.to_vec())
    }

    /// The expression.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The same problem with the products fused that sums take in ([`Graph::with_fused_products`]).
    #[must_use]
    pub fn with_fused_products(&self) -> Self {
        Self { graph: self.graph.with_fused_products(), ..self.clone() }
    }

    /// The inputs' layouts.
    #[must_use]
    pub fn inputs(&self) -> &[Layout] {
        &self.inputs
    }

    /// The run-time scalars' values.
    #[must_use]
    pub fn scalars(&self) -> &[Value] {
        &self.scalars
    }

    /// The shape to which the inputs are broadcast; every output has it.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The number of elements in every output.
    #[must_use]
    pub fn elements(&self) -> u64 {
        elements(&self.shape).unwrap_or(0)
    }

    /// Bytes that one run must move.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// The range of random floats.
    #[must_use]
    pub fn range(&self) -> (f64, f64) {
        self.range
    }

    /// Bytes of memory of an input: up to the last element that its layout reaches.
    #[must_use]
    pub fn input_bytes(&self, slot: usize) -> u64 {
        let last = self.inputs.get(slot).and_then(Layout::span).map_or(0, |(_, last)| last.saturating_add(1));
        last.saturating_mul(self.graph.inputs().get(slot).map_or(0, |input| input.dtype.bytes()))
    }

    /// The layout of an output: its input's layout if it is written in place, else contiguous.
    ///
    /// # Errors
    /// Never for an output of the expression.
    pub fn output(&self, place: usize) -> Result<Layout, LayoutError> {
        let in_place = self.graph.outputs().get(place).and_then(|output| output.in_place);
        match in_place.and_then(|slot| self.inputs.get(slot as usize)) {
            Some(layout) => layout.broadcast_to(&self.shape),
            None => Layout::contiguous(&self.shape),
        }
    }

    /// Bytes of memory of an output.
    #[must_use]
    pub fn output_bytes(&self, place: usize) -> u64 {
        let Some(output) = self.graph.outputs().get(place) else { return 0 };
        match output.in_place {
            Some(slot) => self.input_bytes(slot as usize),
            None => self.elements().saturating_mul(output.dtype.bytes()),
        }
    }

    /// Fills memory with random elements of a type, the same for the same seed: floats from [`Problem::range`], and integers from
    /// the whole range of their type.
    pub fn fill(&self, dtype: DType, seed: u64, memory: &mut [u8]) {
        let bytes = dtype.bytes() as usize;
        for (place, element) in (0..).zip(memory.chunks_exact_mut(bytes)) {
            let bits = dtype.encode(random(dtype, self.range, seed, place));
            element.copy_from_slice(&bits.to_le_bytes()[..bytes]);
        }
    }

    /// The offset in elements of each input's element at a row-major index; `None` if the index is outside the shape.
    #[must_use]
    pub fn offsets(&self, place: u64) -> Option<Vec<u64>> {
        let coordinates = self.coordinates(place)?;
        self.inputs.iter().map(|input| input.broadcast_to(&self.shape).ok()?.offset_of(&coordinates)).collect()
    }

    /// The coordinates of a row-major index; `None` if it is outside the shape.
    #[must_use]
    pub fn coordinates(&self, place: u64) -> Option<Vec<u64>> {
        let mut rest = place;
        let mut coordinates = vec![0; self.shape.len()];
        for (coordinate, &extent) in coordinates.iter_mut().zip(&self.shape).rev() {
            *coordinate = rest.checked_rem(extent)?;
            rest /= extent;
        }
        (rest == 0).then_some(coordinates)
    }

    /// Checks one element of the outputs against the results that an implementation may return if its functions stay within
    /// `bounds`, one per node of the graph. Where an allowed error could cross a discontinuity (of `floor`, a comparison, a cast to
    /// integers), the output isn't judged.
    #[must_use]
    pub fn judge(&self, place: u64, inputs: &[Value], found: &[Value], bounds: &[Bound]) -> Judgement {
        let coordinates = self.coordinates(place).unwrap_or_else(|| vec![0; self.shape.len()]);
        let element = Element { inputs, scalars: &self.scalars, coordinates: &coordinates, place };
        let Ok(expected) = allowed(&self.graph, element, bounds) else { return Judgement::Unjudged };
        let mut judgement = Judgement::Unjudged;
        for (output, (expected, found)) in self.graph.outputs().iter().zip(expected.iter().zip(found)) {
            match expected.admits(*found) {
                Some(true) => judgement = Judgement::Right,
                Some(false) => {
                    let name = &output.name;
                    return Judgement::Wrong(format!("{name}: element {place} is {found:?}, not {expected}"));
                }
                None => {}
            }
        }
        judgement
    }

    fn evaluate(&self, place: u64, inputs: &[Value]) -> Result<Vec<Value>, OracleError> {
        let coordinates = self.coordinates(place).unwrap_or_else(|| vec![0; self.shape.len()]);
        let element = Element { inputs, scalars: &self.scalars, coordinates: &coordinates, place };
        evaluate(&self.graph, element, Precision::Wide)
    }

    /// The number of random elements from a range that have an infinite or NaN output.
    fn count_non_finite(&self, range: (f64, f64)) -> Result<u64, OracleError> {
        let mut unfit = 0;
        for place in 0..TRIED {
            let inputs = (0..).zip(self.graph.inputs());
            let inputs: Vec<Value> = inputs.map(|(seed, input)| random(input.dtype, range, seed, place)).collect();
            let finite = |value: &Value| !matches!(value, Value::Float(x) if !x.is_finite());
            unfit += u64::from(!self.evaluate(0, &inputs)?.iter().all(finite));
        }
        Ok(unfit)
    }
}

/// The element at an index of a random sequence. It is computed without the elements before it.
fn random(dtype: DType, (low, high): (f64, f64), seed: u64, place: u64) -> Value {
    let bits = mix(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ mix(place));
    match dtype.category() {
        Category::Float => {
            let unit = (bits >> 11) as f64 / (1_u64 << 53) as f64;
            dtype.cast(Value::Float(low + (high - low) * unit))
        }
        Category::Int => dtype.decode(bits),
        Category::Bool => Value::Bool(bits & 1 == 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Names, parse};

    fn problem(text: &str, dtype: DType, elements: u64) -> Problem {
        Problem::flat(&parse(text, &Names::with_default(dtype)).unwrap(), elements, &[]).unwrap()
    }

    #[test]
    fn input_data_is_from_a_range_where_the_expression_is_finite() {
        assert_eq!(problem("exp(x)", DType::F32, 8).range, (-3.0, 3.0));
        assert_eq!(problem("log(x)", DType::F32, 8).range, (0.01, 8.0));
        assert_eq!(problem("atanh(x)", DType::F16, 8).range, (0.01, 0.99));
        assert_eq!(problem("acosh(x)", DType::Bf16, 8).range, (1.01, 8.0));
    }

    #[test]
    fn the_same_seed_gives_the_same_data_and_another_seed_other_data() {
        let problem = problem("x + y", DType::Bf16, 100);
        let fill = |seed| {
            let mut memory = vec![0; 200];
            problem.fill(DType::Bf16, seed, &mut memory);
            memory
        };
        assert_eq!(fill(3), fill(3));
        assert_ne!(fill(3), fill(4));
    }

    #[test]
    fn the_memory_of_an_operand_reaches_to_its_last_element() {
        let graph = parse("x + b", &Names::with_default(DType::F32)).unwrap();
        let x = Layout::contiguous(&[4, 8]).unwrap().transposed().offset_by(1).unwrap();
        let b = Layout::contiguous(&[1, 4]).unwrap();
        let problem = Problem::new(graph, vec![x, b], vec![]).unwrap();
        assert_eq!((problem.shape(), problem.elements()), (&[8, 4][..], 32));
        assert_eq!([problem.input_bytes(0), problem.input_bytes(1), problem.output_bytes(0)], [132, 16, 128]);
        assert_eq!(problem.traffic(), Traffic::new(128 + 16, 128));
        // Row 2, column 3 of the transposed tensor is row 3, column 2 in memory.
        assert_eq!(problem.offsets(2 * 4 + 3), Some(vec![1 + 3 * 8 + 2, 3]));
        assert_eq!(problem.offsets(32), None);
    }

    #[test]
    fn shapes_that_cannot_be_broadcast_together_are_refused() {
        let graph = parse("x + y", &Names::with_default(DType::F32)).unwrap();
        let layouts = [[3], [4]].map(|shape| Layout::contiguous(&shape).unwrap());
        assert!(matches!(Problem::new(graph, layouts.to_vec(), vec![]), Err(ProblemError::Layout(_))));
    }
}
