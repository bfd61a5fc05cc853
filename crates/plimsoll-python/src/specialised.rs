//! An expression for arguments of certain types, on one device.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use plimsoll::elementwise::{Device, Error};
use plimsoll::expr::{DType, Graph, Names, ParseError, parse};

use crate::many::Kept;
use crate::number::NumberKind;
use crate::tensor::{Few, Place};

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Tensor(DType),
    Number(NumberKind),
}

/// The tensors of a call that are one array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shared {
    /// Outputs that a call writes over an input: the position among the outputs, and the parameter.
    pub(crate) aliases: Few<(usize, usize)>,
    /// Parameters that are the same array as one that is overwritten, and that one.
    pub(crate) merged: Few<(usize, usize)>,
}

/// Where a call has an array.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    /// A parameter's argument.
    Parameter(usize),
    /// The memory of an output that the text doesn't write in place, by the position among these.
    Result(usize),
}

/// An expression for arguments of these types.
#[derive(Debug)]
pub(crate) struct Specialised {
    given: Vec<Given>,
    shared: Shared,
    place: Place,
    pub(crate) expression: plimsoll::elementwise::Expression,
    /// The inputs of the graph, then its outputs that aren't written in place.
    pub(crate) tensors: Vec<Slot>,
    /// The parameter of each scalar.
    pub(crate) scalars: Vec<usize>,
    /// The type of each output.
    pub(crate) types: Vec<DType>,
    /// What calls over lists of arrays keep.
    pub(crate) kept: Kept,
}

impl Specialised {
    /// Whether it is for these arguments.
    pub(crate) fn fits(&self, given: &[Given], shared: &Shared, place: Place) -> bool {
        self.given == given && self.shared == *shared && self.place == place
    }

    pub(crate) fn new(signature: &Signature, given: &[Given], shared: &Shared, place: Place) -> Result<Self, Error> {
        let mut graph = signature.graph(given)?;
        let find = |graph: &Graph, parameter: usize| {
            graph.inputs().iter().position(|input| input.name == signature.parameters[parameter].name)
        };
        for &(output, parameter) in &shared.aliases {
            let input = find(&graph, parameter);
            if let Some(moved) = input.and_then(|input| graph.with_output_in_place(output, input)) {
                graph = moved;
            }
        }
        for &(parameter, kept) in &shared.merged {
            let inputs = find(&graph, parameter).zip(find(&graph, kept));
            if let Some(merged) = inputs.and_then(|(input, kept)| graph.with_input_merged(input, kept)) {
                graph = merged;
            }
        }
        let inputs = graph.inputs().iter().map(|input| Slot::Parameter(signature.position(&input.name)));
        let separate = signature.separate.iter().enumerate();
        let separate = separate.filter(|(_, output)| graph.outputs()[**output].in_place.is_none());
        let tensors = inputs.chain(separate.map(|(result, _)| Slot::Result(result))).collect();
        let scalars = graph.scalars().iter().map(|scalar| signature.position(&scalar.name)).collect();
        let types = graph.outputs().iter().map(|output| output.dtype).collect();
        let expression = open(place)?.compile_graph(&graph)?;
        let (given, shared, kept) = (given.to_vec(), shared.clone(), Kept::default());
        Ok(Self { given, shared, place, expression, tensors, scalars, types, kept })
    }
}

/// What an expression was specialised for so far. Nothing is removed, so that calls need no lock.
#[derive(Debug, Default)]
pub(crate) struct Known(OnceLock<Box<(Specialised, Known)>>);

impl Known {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Specialised> {
        std::iter::successors(self.0.get(), |known| known.1.0.get()).map(|known| &known.0)
    }

    /// Adds one at the end.
    pub(crate) fn add(&self, made: Specialised) -> &Specialised {
        let mut made = Box::new((made, Self::default()));
        let mut end = self;
        loop {
            // Another thread may have added one meanwhile: then it comes after that.
            let added = end.0.set(made);
            let (specialised, rest) = &**end.0.wait();
            match added {
                Ok(()) => return specialised,
                Err(refused) => (made, end) = (refused, rest),
            }
        }
    }
}

/// The devices that were used so far: one of each, as two would compete for the same cores and memory.
fn open(place: Place) -> Result<Device, Error> {
    static OPEN: Mutex<Vec<(Place, Device)>> = Mutex::new(Vec::new());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, device)) = open.iter().find(|(known, _)| *known == place) {
        return Ok(device.clone());
    }
    let device = match place {
        Place::Host => Device::cpu()?,
        Place::Cuda(number) => Device::cuda_unnoticed(number)?,
    };
    open.push((place, device.clone()));
    Ok(device)
}

/// A parameter of an expression's text.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    /// What the text declares it as: a tensor or a scalar of a type. Other parameters may be either, of any type.
    pub(crate) declared: Option<(Role, DType)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Tensor,
    Scalar,
}

/// An expression's text with its parameters and outputs.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) text: String,
    /// In the order in which the text first mentions them.
    pub(crate) parameters: Vec<Parameter>,
    /// The names of the outputs.
    pub(crate) outputs: Vec<String>,
    /// Whether the text writes each parameter in place.
    pub(crate) written: Vec<bool>,
    /// The outputs that the text doesn't write in place.
    pub(crate) separate: Vec<usize>,
    /// What a call returns for each output.
    pub(crate) returned: Vec<Slot>,
}

/// Pairs of types of one kind, tried in turn for names without a declaration: the text may have operations that only one kind has.
/// A parameter that has the same type with both was declared.
const TRIED: [[DType; 2]; 3] = [[DType::F32, DType::F64], [DType::I64, DType::I32], [DType::Bool, DType::U8]];

impl Signature {
    /// Reads a text.
    ///
    /// # Errors
    /// The first mistake, for parameters of f32 if the text is wrong for every type.
    pub(crate) fn new(text: &str) -> Result<Self, ParseError> {
        let graphs = |[first, second]: [DType; 2]| {
            let first = parse(text, &Names::with_default(first))?;
            Ok((parse(text, &Names::with_default(second)).ok(), first))
        };
        let mut tried = TRIED.into_iter().map(graphs);
        let f32s = tried.next().unwrap_or_else(|| graphs(TRIED[0]));
        let (other, graph) = f32s.or_else(|error: ParseError| tried.find_map(Result::ok).ok_or(error))?;
        let listed = |graph: &Graph| -> BTreeMap<String, (Role, DType)> {
            let inputs = graph.inputs().iter().map(|input| (input.name.clone(), (Role::Tensor, input.dtype)));
            let scalars = graph.scalars().iter().map(|scalar| (scalar.name.clone(), (Role::Scalar, scalar.dtype)));
            inputs.chain(scalars).collect()
        };
        let (first, second) = (listed(&graph), other.as_ref().map(listed));
        let is_declared = |name: &String, (role, dtype): &(Role, DType)| {
            let other = second.as_ref().and_then(|second| second.get(name));
            *role == Role::Scalar || other.is_some_and(|(_, other)| other == dtype)
        };
        let mut parameters: Vec<Parameter> = first
            .iter()
            .map(|(name, found)| Parameter { name: name.clone(), declared: is_declared(name, found).then_some(*found) })
            .collect();
        parameters.sort_by_key(|parameter| first_mention(text, &parameter.name));
        let outputs: Vec<String> = graph.outputs().iter().map(|output| output.name.clone()).collect();
        Ok(Self::with_parameters(text, parameters, outputs))
    }

    fn with_parameters(text: &str, parameters: Vec<Parameter>, outputs: Vec<String>) -> Self {
        let written = parameters.iter().map(|parameter| outputs.contains(&parameter.name)).collect();
        let mut separate = Vec::new();
        let mut returned = Vec::with_capacity(outputs.len());
        for (place, name) in outputs.iter().enumerate() {
            returned.push(match parameters.iter().position(|parameter| parameter.name == *name) {
                Some(parameter) => Slot::Parameter(parameter),
                None => {
                    separate.push(place);
                    Slot::Result(separate.len() - 1)
                }
            });
        }
        Self { text: text.to_owned(), parameters, outputs, written, separate, returned }
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.parameters.iter().position(|parameter| parameter.name == name)
    }

    /// The position of a name that a graph of this text has.
    fn position(&self, name: &str) -> usize {
        self.find(name).unwrap_or(0)
    }

    /// The graph for arguments of these types, one per parameter.
    pub(crate) fn graph(&self, given: &[Given]) -> Result<Graph, ParseError> {
        let has_f64 = given.contains(&Given::Tensor(DType::F64));
        let mut names = Names::default();
        for (parameter, given) in
            self.parameters.iter().zip(given).filter(|(parameter, _)| parameter.declared.is_none())
        {
            let (map, dtype) = match given {
                Given::Tensor(dtype) => (&mut names.tensors, *dtype),
                Given::Number(kind) => (&mut names.scalars, kind.dtype(has_f64)),
            };
            map.insert(parameter.name.clone(), dtype);
        }
        parse(&self.text, &names)
    }
}

/// Where a text first has a name as a whole word outside comments.
fn first_mention(text: &str, name: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_whole = |&(place, _): &(usize, &str)| {
        let (before, after) = (&text[..place], &text[place + name.len()..]);
        let is_comment = before.rsplit('\n').next().is_some_and(|line| line.contains('#'));
        !before.ends_with(is_word) && !after.starts_with(is_word) && !is_comment
    };
    text.match_indices(name).find(is_whole).map_or(text.len(), |(place, _)| place)
}
