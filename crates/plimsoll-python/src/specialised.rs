//! An expression for arguments of certain types, on one device.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use plimsoll::elementwise::{Device, Error};
use plimsoll::expr::{DType, Graph, Names, ParseError, parse};

use crate::many::Kept;
use crate::number::NumberKind;
use crate::tensor::Place;

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Tensor(DType),
    Number(NumberKind),
}

/// An output that a call writes over an input: the position among the outputs, and the parameter.
pub(crate) type Alias = (usize, usize);

/// An output of an expression.
#[derive(Debug)]
pub(crate) struct OutputPlan {
    pub(crate) dtype: DType,
    /// The parameter that it overwrites.
    pub(crate) in_place: Option<usize>,
}

/// An expression for arguments of these types.
#[derive(Debug)]
pub(crate) struct Specialised {
    given: Vec<Given>,
    aliases: Vec<Alias>,
    place: Place,
    pub(crate) expression: plimsoll::elementwise::Expression,
    /// The parameter of each input of the graph.
    pub(crate) inputs: Vec<usize>,
    /// The parameter of each scalar.
    pub(crate) scalars: Vec<usize>,
    pub(crate) outputs: Vec<OutputPlan>,
    /// What calls over lists of arrays keep.
    pub(crate) kept: Kept,
}

impl Specialised {
    /// Whether it is for these arguments.
    pub(crate) fn fits(&self, given: &[Given], aliases: &[Alias], place: Place) -> bool {
        self.given == given && self.aliases == aliases && self.place == place
    }

    pub(crate) fn new(signature: &Signature, given: &[Given], aliases: &[Alias], place: Place) -> Result<Self, Error> {
        let mut graph = signature.graph(given)?;
        for &(output, parameter) in aliases {
            let name = &signature.parameters[parameter].name;
            let input = graph.inputs().iter().position(|input| input.name == *name);
            if let Some(moved) = input.and_then(|input| graph.with_output_in_place(output, input)) {
                graph = moved;
            }
        }
        let inputs: Vec<usize> = graph.inputs().iter().map(|input| signature.position(&input.name)).collect();
        let scalars = graph.scalars().iter().map(|scalar| signature.position(&scalar.name)).collect();
        let outputs = graph.outputs().iter().map(|output| OutputPlan {
            dtype: output.dtype,
            in_place: output.in_place.map(|slot| inputs[slot as usize]),
        });
        let outputs = outputs.collect();
        let expression = open(place)?.compile_graph(&graph)?;
        Ok(Self {
            given: given.to_vec(),
            aliases: aliases.to_vec(),
            place,
            expression,
            inputs,
            scalars,
            outputs,
            kept: Kept::default(),
        })
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
        let outputs = graph.outputs().iter().map(|output| output.name.clone()).collect();
        Ok(Self { text: text.to_owned(), parameters, outputs })
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
