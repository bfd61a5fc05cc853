//! Checks of tensors before a kernel may use them: types and shapes are compatible, every element is aligned and inside its memory,
//! and no output shares memory with another tensor except exactly, in place. Checks that depend only on layouts are made once for
//! all calls with the same layouts ([`Fit::new`]); addresses are checked in every call ([`Fit::check_addresses`]).

use plimsoll_expr::layout::Shape;
use plimsoll_expr::{Graph, Layout, Space};

use super::backend::Elementwise;
use super::error::Error;
use super::operand::TensorRef;

/// Compatible layouts.
#[derive(Debug)]
pub(super) struct Fit {
    /// Inputs in order, then outputs, broadcast to the outputs' shape.
    pub(super) space: Space,
    /// For each tensor its first byte and the one after its last, relative to its pointer; `None` if it is empty.
    reach: Vec<Option<(u64, u64)>>,
    inputs: usize,
    /// Whether some output is written in place.
    in_place: bool,
}

/// The name of a tensor by its index among inputs, then outputs.
pub(super) fn tensor_name(graph: &Graph, place: usize) -> String {
    let inputs = graph.inputs();
    let output = |place: usize| graph.outputs().get(place).map(|output| &output.name);
    let name = inputs.get(place).map(|input| &input.name).or_else(|| output(place - inputs.len()));
    name.cloned().unwrap_or_default()
}

/// Checks that a call has as many as the expression.
pub(super) fn check_count(what: &'static str, expected: usize, given: usize) -> Result<(), Error> {
    if expected == given { Ok(()) } else { Err(Error::Count { what, expected, given }) }
}

/// Checks the types of a call's tensors, and that their addresses are multiples of an element's size.
fn check_types<G: Elementwise>(graph: &Graph, tensors: &[TensorRef<'_, G>]) -> Result<(), Error> {
    let declared = graph.inputs().iter().map(|input| input.dtype).chain(graph.outputs().iter().map(|o| o.dtype));
    for (place, (expected, tensor)) in declared.zip(tensors).enumerate() {
        let given = tensor.dtype;
        if given != expected {
            return Err(Error::Type { name: tensor_name(graph, place), expected, given });
        }
        let (address, bytes) = (tensor.start(), expected.bytes());
        if !address.is_multiple_of(bytes) {
            return Err(Error::Misaligned { name: tensor_name(graph, place), address, dtype: expected, bytes });
        }
    }
    Ok(())
}

/// The common shape of the outputs. Checks that no two elements of an output share memory.
fn output_shape(graph: &Graph, outputs: &[Layout]) -> Result<Vec<u64>, Error> {
    let named = || graph.outputs().iter().map(|output| output.name.clone()).zip(outputs);
    let Some((first, shape)) = named().next().map(|(name, layout)| (name, layout.shape().to_vec())) else {
        return Err(Error::Count { what: "outputs", expected: graph.outputs().len(), given: 0 });
    };
    for (second, layout) in named() {
        if layout.shape() != shape {
            let (first_shape, second_shape) = (Shape(shape), Shape(layout.shape().to_vec()));
            return Err(Error::Outputs { first, first_shape, second, second_shape });
        }
        if layout.may_overlap_itself() {
            return Err(Error::SharedElements {
                name: second,
                shape: Shape(shape),
                strides: layout.strides().to_vec(),
            });
        }
    }
    if graph.least_rank() > shape.len() {
        return Err(Error::Rank { needed: graph.least_rank(), given: shape.len() });
    }
    Ok(shape)
}

/// The byte range of one tensor of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct TensorBytes {
    set: usize,
    place: usize,
    output: bool,
    bytes: (u64, u64),
}

impl TensorBytes {
    /// The bytes of the flag to skip, which belongs to no set.
    pub(super) fn of_flag(bytes: (u64, u64)) -> Self {
        Self { set: usize::MAX, place: 0, output: false, bytes }
    }

    fn describe(&self, graph: &Graph) -> String {
        if self.set == usize::MAX {
            return "the flag to skip".to_owned();
        }
        format!("{} of set {}", tensor_name(graph, self.place), self.set)
    }
}

/// The two spans seen so far that end last, from two different sets.
#[derive(Default)]
struct Furthest([Option<TensorBytes>; 2]);

impl Furthest {
    fn add(&mut self, span: TensorBytes) {
        let [first, second] = self.0;
        let beyond = |other: Option<TensorBytes>| other.is_none_or(|other| span.bytes.1 > other.bytes.1);
        if beyond(first) {
            self.0 = [Some(span), if first.is_some_and(|first| first.set != span.set) { first } else { second }];
        } else if first.is_some_and(|first| first.set != span.set) && beyond(second) {
            self.0[1] = Some(span);
        }
    }

    fn find_other_set(&self, set: usize) -> Option<TensorBytes> {
        self.0.into_iter().flatten().find(|span| span.set != set)
    }
}

/// Checks that no output of a batch shares memory with a tensor of another set, since sets run in no order.
pub(super) fn check_batch_disjoint(graph: &Graph, mut spans: Vec<TensorBytes>) -> Result<(), Error> {
    spans.sort_unstable_by_key(|span| span.bytes.0);
    let (mut all, mut outputs) = (Furthest::default(), Furthest::default());
    for span in spans {
        let before = if span.output { &all } else { &outputs };
        if let Some(other) = before.find_other_set(span.set).filter(|other| other.bytes.1 > span.bytes.0) {
            let (output, other) = if span.output { (span, other) } else { (other, span) };
            let (output_bytes, other_bytes) = (output.bytes, other.bytes);
            return Err(Error::Overlap {
                output: output.describe(graph),
                output_bytes,
                other: other.describe(graph),
                other_bytes,
            });
        }
        all.add(span);
        if span.output {
            outputs.add(span);
        }
    }
    Ok(())
}

impl Fit {
    /// Checks everything that depends on layouts and types, and the alignment of addresses. `tensors` are inputs in order, then
    /// outputs.
    pub(super) fn new<G: Elementwise>(graph: &Graph, tensors: &[TensorRef<'_, G>]) -> Result<Self, Error> {
        let inputs = graph.inputs().len();
        check_count("inputs", inputs, tensors.len().min(inputs))?;
        check_count("outputs", graph.outputs().len(), tensors.len() - inputs)?;
        check_types(graph, tensors)?;
        let layout = |(place, tensor): (usize, &TensorRef<'_, G>)| {
            tensor.extent.layout().map_err(|error| Error::Shape { name: tensor_name(graph, place), error })
        };
        let layouts = tensors.iter().enumerate().map(layout).collect::<Result<Vec<Layout>, _>>()?;
        let shape = output_shape(graph, &layouts[inputs..])?;
        for (place, layout) in layouts.iter().enumerate() {
            layout.broadcast_to(&shape).map_err(|error| Error::Shape { name: tensor_name(graph, place), error })?;
        }
        let reach = |(layout, tensor): (&Layout, &TensorRef<'_, G>)| {
            let bytes = tensor.dtype.bytes();
            let span = layout.span()?;
            Some((span.0.saturating_mul(bytes), span.1.saturating_add(1).saturating_mul(bytes)))
        };
        let reach = layouts.iter().zip(tensors).map(reach).collect();
        let space = Space::with_shape(&shape, &layouts)
            .map_err(|error| Error::Shape { name: tensor_name(graph, inputs), error })?;
        let in_place = graph.outputs().iter().any(|output| output.in_place.is_some());
        Ok(Self { space, reach, inputs, in_place })
    }

    /// Checks the addresses and sizes of tensors with these layouts.
    pub(super) fn check_addresses<G: Elementwise>(
        &self,
        graph: &Graph,
        tensors: &[TensorRef<'_, G>],
        compiler: &G::Compiler,
    ) -> Result<(), Error> {
        if self.is_simple(tensors, compiler) { Ok(()) } else { self.check_in_detail(graph, tensors, compiler) }
    }

    /// Whether a quick check suffices, as in nearly all calls: tensors of this device, large enough, with outputs that don't
    /// touch other tensors.
    fn is_simple<G: Elementwise>(&self, tensors: &[TensorRef<'_, G>], compiler: &G::Compiler) -> bool {
        let whole = |(tensor, reach): (&TensorRef<'_, G>, &Option<(u64, u64)>)| {
            tensor.held.is_none_or(|held| G::check_memory(compiler, held).is_ok())
                && reach.is_some_and(|(_, needed)| needed <= tensor.bytes)
        };
        let apart = |output: usize| {
            let mine = self.bytes(tensors, output);
            (0..output).all(|other| {
                let its = self.bytes(tensors, other);
                mine.0 >= its.1 || its.0 >= mine.1
            })
        };
        !self.in_place && tensors.iter().zip(&self.reach).all(whole) && (self.inputs..tensors.len()).all(apart)
    }

    fn check_in_detail<G: Elementwise>(
        &self,
        graph: &Graph,
        tensors: &[TensorRef<'_, G>],
        compiler: &G::Compiler,
    ) -> Result<(), Error> {
        for (place, (tensor, reach)) in tensors.iter().zip(&self.reach).enumerate() {
            if let Some(Err(other)) = tensor.held.map(|held| G::check_memory(compiler, held)) {
                return Err(Error::other_memory(tensor_name(graph, place), other));
            }
            if let Some((_, needed)) = *reach
                && needed > tensor.bytes
            {
                return Err(Error::Short { name: tensor_name(graph, place), needed, given: tensor.bytes });
            }
        }
        for output in self.inputs..tensors.len() {
            let in_place = graph.outputs()[output - self.inputs].in_place;
            for other in 0..output {
                let own = in_place == u32::try_from(other).ok();
                if own && !self.is_same_tensor(tensors, output, other) {
                    return Err(Error::InPlace { name: tensor_name(graph, output) });
                }
                self.check_disjoint(graph, tensors, output, other)?;
            }
        }
        Ok(())
    }

    /// The byte range of a tensor; empty if the tensor is.
    fn bytes<G: Elementwise>(&self, tensors: &[TensorRef<'_, G>], place: usize) -> (u64, u64) {
        let start = tensors[place].pointer;
        self.reach[place].map_or((start, start), |(low, high)| (start.saturating_add(low), start.saturating_add(high)))
    }

    /// The byte ranges of the tensors of one set of a batch, without empty ones.
    pub(super) fn spans<G: Elementwise>(&self, tensors: &[TensorRef<'_, G>], set: usize) -> Vec<TensorBytes> {
        let span = |place| TensorBytes { set, place, output: place >= self.inputs, bytes: self.bytes(tensors, place) };
        (0..tensors.len()).map(span).filter(|span| span.bytes.0 < span.bytes.1).collect()
    }

    /// Checks that an output shares no memory with another tensor, or is exactly that input.
    fn check_disjoint<G: Elementwise>(
        &self,
        graph: &Graph,
        tensors: &[TensorRef<'_, G>],
        output: usize,
        other: usize,
    ) -> Result<(), Error> {
        let (mine, its) = (self.bytes(tensors, output), self.bytes(tensors, other));
        let apart = mine.0 >= its.1 || its.0 >= mine.1;
        if apart
            || (other < self.inputs && self.is_same_tensor(tensors, output, other))
            || self.is_interleaved(tensors, output, other)
        {
            return Ok(());
        }
        let (output, other) = (tensor_name(graph, output), tensor_name(graph, other));
        Err(Error::Overlap { output, output_bytes: mine, other, other_bytes: its })
    }

    /// Whether two tensors have the same elements at the same indices.
    fn is_same_tensor<G: Elementwise>(&self, tensors: &[TensorRef<'_, G>], a: usize, b: usize) -> bool {
        let (extents, accesses) = (self.space.extents(), self.space.accesses());
        let strides = accesses[a].strides.iter().zip(&accesses[b].strides).zip(extents);
        tensors[a].start() == tensors[b].start()
            && tensors[a].dtype.bytes() == tensors[b].dtype.bytes()
            && strides.into_iter().all(|((a, b), &extent)| a == b || extent <= 1)
    }

    /// Whether two tensors have the same stride along their slowest dimension and occupy separate parts of each step, like columns
    /// of one matrix.
    fn is_interleaved<G: Elementwise>(&self, tensors: &[TensorRef<'_, G>], a: usize, b: usize) -> bool {
        let bytes = |place: usize| i128::from(tensors[place].dtype.bytes());
        let steps = |place: usize| {
            let strides = self.space.accesses()[place].strides.iter().zip(self.space.extents());
            strides.map(move |(&stride, &extent)| (i128::from(stride) * bytes(place), i128::from(extent) - 1))
        };
        let Some((slowest, (step, _))) = steps(a).enumerate().max_by_key(|(_, (step, _))| step.abs()) else {
            return false;
        };
        let step = if steps(b).nth(slowest).is_some_and(|(its, _)| its == step) { step.abs() } else { return false };
        // First byte and width of the part within one step, from the element of index 0.
        let within = |place: usize| {
            let others = steps(place).enumerate().filter(|(dimension, _)| *dimension != slowest).map(|(_, step)| step);
            let (low, high) = others
                .fold((0, 0), |(low, high), (step, times)| (low + (step * times).min(0), high + (step * times).max(0)));
            (i128::from(tensors[place].start()) + low, high - low + bytes(place))
        };
        let ((first_a, width_a), (first_b, width_b)) = (within(a), within(b));
        let behind = if step > 0 { (first_b - first_a).rem_euclid(step) } else { return false };
        behind >= width_a && behind + width_b <= step
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_expr::{DType, Names, parse};
    use proptest::prelude::*;

    use super::*;

    fn span((set, place, low, length): (usize, usize, u64, u64)) -> TensorBytes {
        TensorBytes { set, place, output: place == 1, bytes: (low, low + length) }
    }

    #[test]
    fn sets_of_a_batch_may_share_only_inputs() {
        let graph = parse("x + 1", &Names::with_default(DType::F32)).unwrap();
        let apart = |spans: &[(usize, usize, u64, u64)]| {
            check_batch_disjoint(&graph, spans.iter().copied().map(span).collect())
        };
        assert!(apart(&[(0, 0, 0, 64), (0, 1, 64, 64), (1, 0, 0, 64), (1, 1, 128, 64)]).is_ok());
        assert!(apart(&[(0, 0, 0, 64), (0, 1, 0, 64)]).is_ok());
        let error = apart(&[(0, 0, 0, 64), (0, 1, 64, 64), (1, 0, 100, 4), (1, 1, 128, 64)]).unwrap_err();
        assert!(error.to_string().contains("out of set 0") && error.to_string().contains("x of set 1"), "{error}");
    }

    proptest! {
        #[test]
        fn a_batch_is_refused_exactly_if_two_tensors_of_different_sets_conflict(
            tensors in prop::collection::vec((0usize..4, 0usize..2, 0u64..60, 1u64..8), 0..12)
        ) {
            let graph = parse("x + 1", &Names::with_default(DType::F32)).unwrap();
            let spans: Vec<TensorBytes> = tensors.into_iter().map(span).collect();
            let clash = |a: &TensorBytes, b: &TensorBytes| a.set != b.set && (a.output || b.output)
                && a.bytes.0 < b.bytes.1 && b.bytes.0 < a.bytes.1;
            let expected = spans.iter().any(|a| spans.iter().any(|b| clash(a, b)));
            prop_assert_eq!(check_batch_disjoint(&graph, spans).is_err(), expected);
        }
    }
}
