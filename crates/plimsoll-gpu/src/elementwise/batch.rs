//! Many sets of tensors in one launch. A table says where the tensors of each set are; it is written once, when the batch is built, and
//! never changes while a launch may read it.

use std::fmt;
use std::sync::Arc;

use plimsoll_expr::{Graph, Value};
use plimsoll_gen::elementwise::{BatchPlan, Choose, PlanError, Sets, plan_batch};

use super::backend::Elementwise;
use super::checks::{Fit, TensorBytes, check_batch_disjoint, check_count, tensor_name};
use super::engine::Engine;
use super::error::Error;
use super::expression::Expression;
use super::launch::BoundExpression;
use super::operand::{Operand, TensorRef};
use crate::Memory as _;

/// One set of tensors of a [`Batch`].
pub struct BatchSet<G: Elementwise> {
    /// All inputs. Each is contiguous and has the outputs' shape, or has one element, in every set.
    pub inputs: Vec<Operand<G>>,
    /// All outputs; one that is written in place is the same tensor as its input.
    pub outputs: Vec<Operand<G>>,
    /// The group whose scalars it uses, from 0.
    pub group: usize,
}

impl<G: Elementwise> BatchSet<G> {
    /// A set of the first group.
    #[must_use]
    pub fn new(inputs: Vec<Operand<G>>, outputs: Vec<Operand<G>>) -> Self {
        Self { inputs, outputs, group: 0 }
    }

    /// The same tensors with the scalars of another group.
    #[must_use]
    pub fn in_group(self, group: usize) -> Self {
        Self { group, ..self }
    }

    pub(super) fn operands(&self) -> impl Iterator<Item = &Operand<G>> {
        self.inputs.iter().chain(&self.outputs)
    }

    fn is_same(&self, other: &Self) -> bool {
        let same = |(a, b): (&Operand<G>, &Operand<G>)| a.is_same(b);
        self.group == other.group
            && (self.inputs.len(), self.outputs.len()) == (other.inputs.len(), other.outputs.len())
            && self.operands().zip(other.operands()).all(same)
    }
}

impl<G: Elementwise> Clone for BatchSet<G> {
    fn clone(&self) -> Self {
        Self { inputs: self.inputs.clone(), outputs: self.outputs.clone(), group: self.group }
    }
}

impl<G: Elementwise> fmt::Debug for BatchSet<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchSet({:?}, {:?}, group {})", self.inputs, self.outputs, self.group)
    }
}

/// What all sets of a [`Batch`] have in common.
pub struct BatchOptions<'o, G: Elementwise> {
    /// The scalars of each group. An expression without scalars needs none.
    pub scalars: &'o [Vec<Value>],
    /// One element in the device's memory: a launch that finds another value than 0 writes nothing.
    pub skip: Option<&'o Operand<G>>,
    /// Forced choices of the plan.
    pub choose: Choose,
}

impl<G: Elementwise> Default for BatchOptions<'_, G> {
    fn default() -> Self {
        Self { scalars: &[], skip: None, choose: Choose::default() }
    }
}

/// An expression bound to many sets of tensors, which one launch computes. It holds the memory of all.
pub struct Batch<G: Elementwise> {
    engine: Engine<G>,
    graph: Graph,
    choose: Choose,
    skip: Option<Operand<G>>,
    groups: usize,
    /// The bits of the scalars of the first group, then of the next one.
    scalars: Vec<u64>,
    sets: Vec<BatchSet<G>>,
    bound: BoundExpression<G>,
    /// The table, unless the parameters hold it. `bound` holds its memory too.
    table: Option<G::Buffer>,
    /// Tables that launches in other libraries' streams may still read.
    retired: Vec<G::Held>,
}

/// Most retired tables: then they are freed together, since freeing memory waits for the device.
const MOST_RETIRED: usize = 16;

impl<G: Elementwise> Expression<G> {
    /// Binds the expression to many sets of contiguous tensors, to compute all in one launch, any number of times. Sets may be empty or
    /// of different lengths. Waits for the stream's earlier work if the sets are too many for a launch's parameters: then a table
    /// of them is copied to the device. The batch may be launched in any stream of the device.
    ///
    /// # Errors
    /// Those of [`Expression::bind`]; [`Error::Batch`] for tensors that aren't contiguous; [`Error::Overlap`] for an output that
    /// shares memory with a tensor of another set, as sets run in no order; [`Error::Plan`] for an unknown group, or more groups than
    /// parameters have room for.
    pub fn batch(
        &self,
        sets: &[BatchSet<G>],
        options: &BatchOptions<'_, G>,
        stream: &Arc<G::Stream>,
    ) -> Result<Batch<G>, Error> {
        let BatchOptions { scalars, skip, choose } = *options;
        let graph = self.graph();
        let groups = match scalars.len() {
            0 if graph.scalars().is_empty() => sets.iter().map(|set| set.group.saturating_add(1)).max().unwrap_or(1),
            given => given,
        };
        let bits = scalars.iter().map(|values| encode(graph, values)).collect::<Result<Vec<_>, _>>()?.concat();
        let mut batch = Batch {
            engine: self.engine().clone(),
            graph: graph.clone(),
            choose,
            skip: skip.cloned(),
            groups,
            scalars: bits,
            sets: Vec::new(),
            bound: BoundExpression::empty()?,
            table: None,
            retired: Vec::new(),
        };
        batch.rebuild(sets, stream)?;
        Ok(batch)
    }
}

impl<G: Elementwise> Batch<G> {
    /// Replaces the tensors, as [`Expression::batch`] does; returns at once if they are the same as before. Launches that were submitted
    /// before keep using the old ones. After an error the batch is unchanged.
    ///
    /// # Errors
    /// Those of [`Expression::batch`]. A stream that is being recorded can't copy a table: update before the recording.
    pub fn update(&mut self, sets: &[BatchSet<G>], stream: &Arc<G::Stream>) -> Result<(), Error> {
        let same = sets.len() == self.sets.len() && sets.iter().zip(&self.sets).all(|(new, old)| new.is_same(old));
        if same { Ok(()) } else { self.rebuild(sets, stream) }
    }

    /// Changes the scalars of a group for later launches. Nothing is copied to the device: scalars are parameters of the launch.
    ///
    /// # Errors
    /// [`Error::Count`] for another number of scalars, or a group that the batch doesn't have.
    pub fn set_scalars(&mut self, group: usize, values: &[Value]) -> Result<(), Error> {
        let bits = encode(&self.graph, values)?;
        let count = bits.len();
        if group >= self.groups {
            return Err(Error::Count { what: "groups of scalars", expected: self.groups, given: group + 1 });
        }
        self.scalars[group * count..(group + 1) * count].copy_from_slice(&bits);
        self.bound.set_words(BatchPlan::scalars_of(group, count), &bits);
        Ok(())
    }

    /// Launches it asynchronously in the order of `stream`. Allocates nothing unless the stream is recording; then the recording holds
    /// the memory.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn enqueue(&self, stream: &G::Stream) -> Result<(), Error> {
        self.bound.enqueue(stream)
    }

    /// Its launch, for example for its plan, or to time it. With the present tensors and scalars.
    #[must_use]
    pub fn bound(&self) -> &BoundExpression<G> {
        &self.bound
    }

    pub(super) fn engine(&self) -> &Engine<G> {
        &self.engine
    }

    /// Replaces the tensors as [`Batch::update`] does, without waiting for launches in other libraries' streams most times.
    pub(super) fn replace(&mut self, sets: &[BatchSet<G>], stream: &Arc<G::Stream>) -> Result<(), Error> {
        let before = self.table.is_some().then(|| self.bound.held().clone());
        self.rebuild(sets, stream)?;
        if self.retired.len() >= MOST_RETIRED {
            self.retired.clear();
        }
        self.retired.extend(before);
        Ok(())
    }

    pub(super) fn graph(&self) -> &Graph {
        &self.graph
    }

    pub(super) fn sets(&self) -> &[BatchSet<G>] {
        &self.sets
    }

    /// Its launch alone, which holds the memory of all sets and of the table.
    #[must_use]
    pub fn into_bound(self) -> BoundExpression<G> {
        self.bound
    }

    /// Number of sets, with empty ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Whether there are no elements, so that nothing is launched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bound.is_empty()
    }

    /// Bytes of the table in the device's memory; 0 if the parameters hold it.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        self.table.as_ref().map_or(0, G::Buffer::bytes)
    }

    /// Checks the sets, plans, and copies the table to the device.
    fn rebuild(&mut self, sets: &[BatchSet<G>], stream: &Arc<G::Stream>) -> Result<(), Error> {
        let checked = Checked::new(&self.graph, sets, self.skip.as_ref(), self.engine.compiler())?;
        let described = Sets {
            lengths: &checked.lengths,
            starts: &checked.starts,
            groups: &checked.groups,
            group_count: self.groups,
            uniform: &checked.uniform,
            skip: self.skip.as_ref().map(Operand::dtype),
        };
        let operands = sets.iter().flat_map(BatchSet::operands).chain(&self.skip);
        let mut spans: Vec<crate::Span> = operands.filter_map(Operand::span_to_hold).collect();
        let engine = &self.engine;
        let (bound, table) = match plan_batch(&self.graph, described, engine.device(), engine.table(), &self.choose) {
            Err(PlanError::Empty) => (BoundExpression::empty()?, None),
            Err(error) => return Err(error.into()),
            Ok(planned) => {
                let table = if planned.table_in_memory() {
                    let bytes: Vec<u8> = planned.table.iter().flat_map(|word| word.to_le_bytes()).collect();
                    let table = G::allocate(stream, bytes.len() as u64)?;
                    G::upload(stream, table.whole(), &bytes)?;
                    spans.push(table.whole());
                    Some(table)
                } else {
                    None
                };
                let address = table.as_ref().map_or(0, |table| table.whole().pointer());
                let flag = self.skip.as_ref().map_or(0, |skip| skip.tensor().start());
                let words = planned.words(address, flag, &self.scalars)?;
                let work = engine.work(planned.plan, words.len())?;
                (BoundExpression::new(Some(Arc::new(work)), words, G::hold(&spans)?), table)
            }
        };
        (self.sets, self.bound, self.table) = (sets.to_vec(), bound, table);
        Ok(())
    }
}

/// The bits of scalars in their declared types.
fn encode(graph: &Graph, values: &[Value]) -> Result<Vec<u64>, Error> {
    check_count("scalars", graph.scalars().len(), values.len())?;
    Ok(graph.scalars().iter().zip(values).map(|(scalar, value)| scalar.dtype.encode(*value)).collect())
}

/// The sets of a batch that passed all checks, as the planner takes them.
struct Checked {
    lengths: Vec<u64>,
    starts: Vec<u64>,
    groups: Vec<u32>,
    uniform: Vec<bool>,
}

impl Checked {
    fn new<G: Elementwise>(
        graph: &Graph,
        sets: &[BatchSet<G>],
        skip: Option<&Operand<G>>,
        compiler: &G::Compiler,
    ) -> Result<Self, Error> {
        let mut checked = Self { lengths: Vec::new(), starts: Vec::new(), groups: Vec::new(), uniform: Vec::new() };
        let mut spans = Vec::new();
        checked.uniform = find_uniform(graph, sets);
        for (set, tensors) in sets.iter().enumerate() {
            check_count("inputs", graph.inputs().len(), tensors.inputs.len())?;
            check_count("outputs", graph.outputs().len(), tensors.outputs.len())?;
            let refs: Vec<TensorRef<'_, G>> = tensors.operands().map(Operand::tensor).collect();
            let fit = Fit::new(graph, &refs)?;
            fit.check_addresses(graph, &refs, compiler)?;
            if let Some(place) = checked.misshapen(tensors) {
                return Err(Error::Batch { set, name: tensor_name(graph, place) });
            }
            spans.extend(fit.spans(&refs, set));
            checked.lengths.push(fit.space.elements());
            checked.starts.extend(refs.iter().map(TensorRef::start));
            checked.groups.push(u32::try_from(tensors.group).unwrap_or(u32::MAX));
        }
        if let Some(skip) = skip {
            spans.push(check_flag(skip, compiler)?);
        }
        check_batch_disjoint(graph, spans)?;
        Ok(checked)
    }

    /// The first tensor that isn't contiguous or hasn't the outputs' shape, nor one element as in all other sets.
    fn misshapen<G: Elementwise>(&self, set: &BatchSet<G>) -> Option<usize> {
        let shape = set.outputs.first().map(|output| output.layout().shape());
        let fits = |(place, operand): (usize, &Operand<G>)| {
            let layout = operand.layout();
            let uniform = self.uniform.get(place).is_some_and(|uniform| *uniform);
            if uniform { layout.elements() == 1 } else { layout.is_contiguous() && Some(layout.shape()) == shape }
        };
        set.operands().enumerate().position(|operand| !fits(operand))
    }
}

/// For each input whether it has one element where the outputs have several.
fn find_uniform<G: Elementwise>(graph: &Graph, sets: &[BatchSet<G>]) -> Vec<bool> {
    let mut uniform = vec![false; graph.inputs().len()];
    for set in sets.iter().filter(|set| set.outputs.first().is_some_and(|output| output.layout().elements() > 1)) {
        for (uniform, input) in uniform.iter_mut().zip(&set.inputs) {
            *uniform |= input.layout().elements() == 1;
        }
    }
    uniform
}

/// Checks that the flag is one element of the device's memory.
fn check_flag<G: Elementwise>(flag: &Operand<G>, compiler: &G::Compiler) -> Result<TensorBytes, Error> {
    let named = || "the flag to skip".to_owned();
    if flag.layout().elements() != 1 {
        return Err(Error::Count {
            what: "elements of the flag to skip",
            expected: 1,
            given: flag.layout().elements() as usize,
        });
    }
    let tensor = flag.tensor();
    let (start, bytes) = (tensor.start(), flag.dtype().bytes());
    if let Some(Err(other)) = flag.held()?.map(|held| G::check_memory(compiler, held)) {
        return Err(Error::other_memory(named(), other));
    }
    let needed = (start - tensor.pointer).saturating_add(bytes);
    if needed > tensor.bytes {
        return Err(Error::Short { name: named(), needed, given: tensor.bytes });
    }
    if !start.is_multiple_of(bytes) {
        return Err(Error::Misaligned { name: named(), address: start, dtype: flag.dtype(), bytes });
    }
    Ok(TensorBytes::of_flag((start, start + bytes)))
}
