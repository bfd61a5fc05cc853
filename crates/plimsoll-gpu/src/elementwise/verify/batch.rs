//! Batches: many sets of any length and alignment, in groups with their own scalars, with inputs of one element and with a flag to skip.

use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_core::probe::{Case, Depth};
use plimsoll_core::stats::Rng;
use plimsoll_expr::oracle::{Element, Precision, evaluate};
use plimsoll_expr::{DType, Graph, Layout, LayoutError, Names, Value, parse, random};
use plimsoll_gen::elementwise::Choose;

use super::arena::{Downloaded, SEED, Tensor};
use crate::elementwise::{Batch, BatchOptions, BatchSet, Elementwise, Engine, Error, Operand};

/// An expression, and its sets.
struct Wanted {
    /// Inputs named `t` have one element for all sets, those named `u` one per set.
    text: &'static str,
    sets: usize,
    groups: usize,
    /// The flag's type and value.
    skip: Option<(DType, bool)>,
    dependent: bool,
}

const TWO: &str = "in x: i16, y: i32; z: i32 = x * y + index(); y = y - x";
const SCALED: &str = "in x: i32, t: i16, u: i64; scalar a: i32, b: i16; x = x*a + t - b; z: u8 = u8(u)";
const COPIED: &str = "in x: u16; y: u16 = x";

const WANTED: [Wanted; 8] = [
    Wanted { text: TWO, sets: 12, groups: 1, skip: None, dependent: false },
    Wanted { text: TWO, sets: 12, groups: 1, skip: None, dependent: true },
    Wanted { text: TWO, sets: 300, groups: 1, skip: None, dependent: true },
    Wanted { text: SCALED, sets: 300, groups: 3, skip: None, dependent: false },
    Wanted { text: SCALED, sets: 20, groups: 2, skip: Some((DType::F32, false)), dependent: false },
    Wanted { text: SCALED, sets: 300, groups: 2, skip: Some((DType::U8, true)), dependent: true },
    Wanted { text: COPIED, sets: 300, groups: 1, skip: Some((DType::I64, false)), dependent: false },
    Wanted { text: COPIED, sets: 1, groups: 1, skip: None, dependent: false },
];
/// Sets of the long list.
const MANY: usize = 20_000;

pub(super) fn run<G: Elementwise>(
    stream: &Arc<G::Stream>,
    engine: &Engine<G>,
    depth: Depth,
    report: &mut dyn FnMut(Case),
) -> Result<(), Fault> {
    let long = Wanted { text: TWO, sets: MANY, groups: 1, skip: None, dependent: false };
    let long = (depth != Depth::Small).then_some(long);
    for (number, wanted) in WANTED.iter().chain(&long).enumerate() {
        let mut rng = Rng::new(SEED + number as u64);
        let checked = Checked::new(stream, wanted, &mut rng)?;
        let wrong = match checked.run(stream, engine, wanted) {
            Err(error @ Error::Fault(_)) if matches!(&error, Error::Fault(fault) if fault.ends_the_device()) => {
                return Err(error.into());
            }
            Err(error) => error.to_string(),
            Ok(wrong) => wrong,
        };
        let Wanted { text, sets, groups, skip, dependent } = wanted;
        let on = format!("{sets} sets, {groups} groups, skip {skip:?}, dependent: {dependent}: {text}");
        report(Case { kernel: "batch".to_owned(), on, wrong });
    }
    Ok(())
}

/// The tensors of all sets. Those of one parameter are parts of one allocation, with gaps, at any alignment.
struct Checked<G: Elementwise> {
    graph: Graph,
    /// Inputs, then the outputs that aren't in place.
    tensors: Vec<Tensor<G>>,
    /// The tensor of each output.
    outputs: Vec<usize>,
    /// Elements of each set, and where they begin in each tensor.
    sets: Vec<(u64, Vec<u64>)>,
    scalars: Vec<Vec<Value>>,
    flag: Option<Tensor<G>>,
}

fn invalid(error: impl std::fmt::Display) -> Fault {
    Fault::Invalid(error.to_string())
}

/// Elements of the sets, in turn: none, fewer than a vector, a tile and less or more than it, several tiles.
const LENGTHS: [u64; 12] = [0, 1, 31, 33, 1025, 7, 4096, 129, 2, 65, 2048, 9000];

impl<G: Elementwise> Checked<G> {
    fn new(stream: &Arc<G::Stream>, wanted: &Wanted, rng: &mut Rng) -> Result<Self, Fault> {
        let graph = parse(wanted.text, &Names::default()).map_err(invalid)?;
        let inputs = graph.inputs().iter().map(|input| (&input.name[..], input.dtype));
        let own = graph.outputs().iter().filter(|output| output.in_place.is_none());
        let parameters: Vec<(&str, DType)> = inputs.chain(own.map(|output| (&output.name[..], output.dtype))).collect();
        // Long lists have short sets, so that the check doesn't take longer than all others.
        let lengths = if wanted.sets > 1000 { &LENGTHS[..4] } else { &LENGTHS };
        let mut ends = vec![0; parameters.len()];
        let mut sets = Vec::new();
        for set in 0..wanted.sets {
            let length = lengths[(set + usize::from(wanted.sets == 1) * 4) % lengths.len()];
            // Aligned, aligned from the same element on, or each tensor at another offset.
            let offset = |place: u64| match set % 3 {
                0 => 0,
                1 => 3,
                _ => 1 + 2 * place,
            };
            let mut starts = Vec::new();
            for (place, ((name, _), end)) in parameters.iter().zip(&mut ends).enumerate() {
                let start = if *name == "t" { 0 } else { u64::next_multiple_of(*end, 32) + offset(place as u64) };
                *end = start + if matches!(*name, "t" | "u") { 1 } else { length };
                starts.push(start);
            }
            sets.push((length, starts));
        }
        let mut tensors = Vec::new();
        for (place, ((_, dtype), end)) in parameters.iter().zip(ends).enumerate() {
            let layout = Layout::contiguous(&[end]).map_err(invalid)?;
            let random = (place < graph.inputs().len()).then_some(&mut *rng);
            tensors.push(Tensor::new(stream, *dtype, layout, random)?);
        }
        let mut next = graph.inputs().len()..;
        let place = |slot: Option<u32>| slot.map_or_else(|| next.next().unwrap_or(0), |slot| slot as usize);
        let outputs = graph.outputs().iter().map(|output| output.in_place).map(place).collect();
        let group = |rng: &mut Rng| graph.scalars().iter().map(|scalar| random::value(scalar.dtype, rng)).collect();
        let scalars = (0..wanted.groups).map(|_| group(rng)).collect();
        let flag = wanted.skip.map(|(dtype, set)| flag(stream, dtype, set)).transpose()?;
        Ok(Self { graph, tensors, outputs, sets, scalars, flag })
    }

    fn is_uniform(&self, place: usize) -> bool {
        self.graph.inputs().get(place).is_some_and(|input| matches!(&input.name[..], "t" | "u"))
    }

    fn sets(&self) -> Result<Vec<BatchSet<G>>, Fault> {
        let whole = self.tensors.iter().map(Tensor::operand).collect::<Result<Vec<_>, _>>()?;
        let set = |(number, (length, starts)): (usize, &(u64, Vec<u64>))| -> Result<BatchSet<G>, LayoutError> {
            let operand = |(place, operand): (usize, &Operand<G>)| {
                let length = if self.is_uniform(place) { 1 } else { *length };
                Ok(operand.with_layout(Layout::contiguous(&[length])?.offset_by(starts[place])?))
            };
            let all = whole.iter().enumerate().map(operand).collect::<Result<Vec<_>, LayoutError>>()?;
            let outputs = self.outputs.iter().map(|place| all[*place].clone()).collect();
            let inputs = all[..self.graph.inputs().len()].to_vec();
            Ok(BatchSet::new(inputs, outputs).in_group(number % self.scalars.len()))
        };
        self.sets.iter().enumerate().map(set).collect::<Result<_, _>>().map_err(invalid)
    }

    /// Runs the batch and describes the first wrong element or byte; empty if all are right.
    fn run(&self, stream: &Arc<G::Stream>, engine: &Engine<G>, wanted: &Wanted) -> Result<String, Error> {
        let flag = self.flag.as_ref().map(Tensor::operand).transpose()?;
        let choose = Choose { dependent: wanted.dependent, ..Choose::default() };
        let others: Vec<Vec<Value>> = self.scalars.iter().map(|group| vec![Value::Int(1); group.len()]).collect();
        let options = BatchOptions { scalars: &others, skip: flag.as_ref(), choose };
        let mut batch: Batch<G> = engine.expression(&self.graph)?.batch(&self.sets()?, &options, stream)?;
        for (group, scalars) in self.scalars.iter().enumerate() {
            batch.set_scalars(group, scalars)?;
        }
        batch.enqueue(stream)?;
        G::wait(stream)?;
        Ok(self.compare(wanted.skip.is_some_and(|(_, set)| set))?)
    }

    fn compare(&self, skipped: bool) -> Result<String, Fault> {
        let now = self.tensors.iter().map(Tensor::download).collect::<Result<Vec<_>, _>>()?;
        for (number, (length, starts)) in self.sets.iter().enumerate().filter(|_| !skipped) {
            for place in 0..*length {
                let at = |tensor: usize| starts[tensor] + if self.is_uniform(tensor) { 0 } else { place };
                let input = |slot: usize| self.tensors[slot].element(at(slot));
                let inputs: Vec<Value> = (0..self.graph.inputs().len()).filter_map(input).collect();
                let scalars = &self.scalars[number % self.scalars.len()];
                let element = Element { inputs: &inputs, scalars, coordinates: &[place], place };
                let right = evaluate(&self.graph, element, Precision::Carried).map_err(invalid)?;
                for (right, &tensor) in right.into_iter().zip(&self.outputs) {
                    let found = now[tensor].element(at(tensor));
                    if !found.is_some_and(|found| found.is_same(right)) {
                        return Ok(format!("set {number}, element {place}: {found:?}, not {right:?}"));
                    }
                }
            }
        }
        Ok(self.stray_write(&now, skipped).unwrap_or_default())
    }

    fn stray_write(&self, now: &[Downloaded<'_, G>], skipped: bool) -> Option<String> {
        now.iter().enumerate().find_map(|(tensor, now)| {
            let written = self.outputs.contains(&tensor) && !skipped;
            let elements = self.sets.iter().flat_map(|(length, starts)| starts[tensor]..starts[tensor] + length);
            let elements: Vec<u64> = if written { elements.collect() } else { Vec::new() };
            let byte = now.find_stray_write(&elements)?;
            Some(format!("byte {byte} of tensor {tensor} was written, but belongs to no element of an output"))
        })
    }
}

/// A flag in memory.
fn flag<G: Elementwise>(stream: &Arc<G::Stream>, dtype: DType, set: bool) -> Result<Tensor<G>, Fault> {
    let mut bytes = Vec::new();
    dtype.write(Value::Int(set.into()), &mut bytes);
    Tensor::with_content(stream, dtype, Layout::contiguous(&[1]).map_err(invalid)?, &bytes)
}
