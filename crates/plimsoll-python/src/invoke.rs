//! One call of an expression: views of the arguments, the outputs, the run.

use std::sync::Arc;

use plimsoll::expr::{Foreign, Value};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::error::{DeviceError, ShapeError, from_error};
use crate::expression::Expression;
use crate::library::Arrays;
use crate::number;
use crate::specialised::{Alias, Given, Role, Specialised};
use crate::tensor::{Common, Place, Tensor};

/// From this number of elements on, other Python threads may run during a call on the CPU: letting them costs some tens of
/// nanoseconds.
const RELEASE_FROM: u64 = 4096;

/// A call's arguments as Rust sees them, one per parameter.
struct Arguments {
    given: Vec<Given>,
    /// The tensors; numbers have `None`.
    tensors: Vec<Option<Tensor>>,
    /// The numbers; tensors have 0.
    numbers: Vec<Value>,
    /// Where all tensors are; `None` without tensors.
    place: Option<Place>,
}

impl Arguments {
    fn place(&self) -> Place {
        self.place.unwrap_or(Place::Host)
    }

    fn read(expression: &Expression, bound: &[Bound<'_, PyAny>], arrays: &mut Arrays) -> PyResult<Self> {
        let count = bound.len();
        let mut read = Self {
            given: Vec::with_capacity(count),
            tensors: Vec::with_capacity(count),
            numbers: Vec::with_capacity(count),
            place: None,
        };
        for (parameter, value) in expression.signature.parameters.iter().zip(bound) {
            let name = &parameter.name;
            // Arrays of NumPy are recognised fastest, and numbers faster than other arrays.
            let array = arrays.view_numpy(value)?;
            let number = if array.is_some() { None } else { number::read(name, value)? };
            let (given, tensor, number) = match (array, number) {
                (None, Some((kind, value))) => (Given::Number(kind), None, value),
                (array, _) => {
                    let tensor = array.map_or_else(|| arrays.view_other(name, value), Ok)?;
                    read.locate(name, &tensor)?;
                    (Given::Tensor(tensor.dtype), Some(tensor), Value::Int(0))
                }
            };
            match (parameter.declared, given) {
                (Some((Role::Tensor, dtype)), Given::Tensor(other)) if dtype != other => {
                    return Err(PyTypeError::new_err(format!(
                        "'{name}' is declared as {dtype}, but {other} was given"
                    )));
                }
                (Some((Role::Tensor, dtype)), Given::Number(_)) => {
                    let text = format!("'{name}' is declared as an array of {dtype}, but a number was given");
                    return Err(PyTypeError::new_err(text));
                }
                (Some((Role::Scalar, dtype)), Given::Tensor(_)) => {
                    let text = format!("'{name}' is declared as a scalar of {dtype}, but an array was given");
                    return Err(PyTypeError::new_err(text));
                }
                _ => {}
            }
            read.given.push(given);
            read.tensors.push(tensor);
            read.numbers.push(number);
        }
        Ok(read)
    }

    /// Checks that a tensor is where the others are.
    fn locate(&mut self, name: &str, tensor: &Tensor) -> PyResult<()> {
        let place = *self.place.get_or_insert(tensor.place);
        if place == tensor.place {
            return Ok(());
        }
        let other = tensor.place;
        Err(DeviceError::new_err(format!(
            "'{name}' is on {other}, but other arrays of the call are on {place}: copy it there"
        )))
    }

    /// The shape to which the inputs are broadcast; `None` without tensors.
    fn common(&self, expression: &Expression) -> PyResult<Option<Common>> {
        let mut common = Common::new();
        let mut has_tensor = false;
        for (parameter, tensor) in expression.signature.parameters.iter().zip(&self.tensors) {
            let Some(tensor) = tensor else { continue };
            has_tensor = true;
            if !common.include(tensor.shape()) {
                let (name, own) = (&parameter.name, tensor.shape());
                return Err(ShapeError::new_err(format!(
                    "'{name}' has the shape {own:?}, which doesn't match the {:?} of the arrays before it: aligned at the last dimension, extents must be equal or 1",
                    common.shape()
                )));
            }
        }
        Ok(has_tensor.then_some(common))
    }
}

/// The arrays given with `out=`.
fn list_outs<'py>(out: Option<&Bound<'py, PyAny>>) -> Vec<Bound<'py, PyAny>> {
    match out {
        None => Vec::new(),
        Some(out) => match (out.cast::<PyTuple>(), out.cast::<PyList>()) {
            (Ok(tuple), _) => tuple.iter().collect(),
            (_, Ok(list)) => list.iter().collect(),
            _ => vec![out.clone()],
        },
    }
}

/// A call whose arguments were checked and whose results have memory.
pub(crate) struct Prepared<'py> {
    pub(crate) specialised: Arc<Specialised>,
    arguments: Arguments,
    aliases: Vec<Alias>,
    /// The memory of the outputs that the text doesn't write in place, and the arrays.
    results: Vec<Tensor>,
    objects: Vec<Bound<'py, PyAny>>,
}

impl<'py> Prepared<'py> {
    /// Checks a call's arguments; `outs` is the memory of the results, empty if they are to be made.
    pub(crate) fn new(
        py: Python<'py>,
        expression: &Expression,
        bound: &[Bound<'py, PyAny>],
        outs: Vec<Bound<'py, PyAny>>,
        arrays: &mut Arrays,
    ) -> PyResult<Self> {
        let mut arguments = Arguments::read(expression, bound, arrays)?;
        let mut results: Vec<Tensor> = Vec::with_capacity(outs.len().max(1));
        for out in &outs {
            let tensor = arrays.view("out", out)?;
            arguments.locate("out", &tensor)?;
            results.push(tensor);
        }
        let aliases = find_aliases(expression, &arguments, &results);
        let specialised = expression.specialise(py, &arguments.given, &aliases, arguments.place())?;
        let objects = prepare_results(py, expression, &specialised, &arguments, arrays, (outs, &mut results))?;
        Ok(Self { specialised, arguments, aliases, results, objects })
    }

    /// Where its tensors are.
    pub(crate) fn place(&self) -> Place {
        self.arguments.place()
    }

    /// The inputs, then the outputs that aren't written in place.
    pub(crate) fn tensors<'s>(&'s self, expression: &'s Expression) -> impl Iterator<Item = Foreign<'s>> {
        let arguments = &self.arguments.tensors;
        let inputs = self.specialised.inputs.iter().filter_map(|&parameter| arguments[parameter].as_ref());
        let signature = &expression.signature;
        let separate = self.specialised.outputs.iter().zip(&signature.outputs);
        let separate = separate.filter(|(_, name)| signature.find(name).is_none()).zip(&self.results);
        let separate = separate.filter(|((output, _), _)| output.in_place.is_none()).map(|(_, result)| result);
        inputs.chain(separate).map(Tensor::foreign)
    }

    /// The scalars in the expression's order.
    pub(crate) fn numbers(&self) -> Vec<Value> {
        self.specialised.scalars.iter().map(|&parameter| self.arguments.numbers[parameter]).collect()
    }

    /// What the call returns, in the order of the outputs.
    pub(crate) fn returned(
        self,
        bound: &[Bound<'py, PyAny>],
        finish: impl Fn(Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let mut fresh = self.objects.into_iter();
        let aliases = &self.aliases;
        let outputs = self.specialised.outputs.iter().filter_map(|output| match output.in_place {
            Some(parameter) if aliases.iter().all(|&(_, alias)| alias != parameter) => {
                Some(Ok(bound[parameter].clone()))
            }
            _ => fresh.next().map(&finish),
        });
        outputs.collect()
    }
}

/// Computes an expression for its arguments.
pub(crate) fn invoke<'py>(
    py: Python<'py>,
    expression: &Expression,
    bound: &[Bound<'py, PyAny>],
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut arrays = Arrays::default();
    let prepared = Prepared::new(py, expression, bound, list_outs(out), &mut arrays)?;
    run(py, expression, &prepared, &arrays)?;
    let (place, is_made) = (prepared.place(), out.is_none());
    let finish = |object| if is_made { arrays.finish(place, object) } else { Ok(object) };
    let mut returned = prepared.returned(bound, finish)?;
    if returned.len() == 1 { Ok(returned.remove(0)) } else { Ok(PyTuple::new(py, returned)?.into_any()) }
}

/// The outputs for which the caller gave an input's own memory.
fn find_aliases(expression: &Expression, arguments: &Arguments, results: &[Tensor]) -> Vec<Alias> {
    let signature = &expression.signature;
    // `results` are those of the outputs that the text doesn't write in place.
    let separate = (0..signature.outputs.len()).filter(|&output| signature.find(&signature.outputs[output]).is_none());
    let mut aliases = Vec::new();
    for (output, result) in separate.zip(results) {
        let is_same =
            |tensor: &Option<Tensor>| tensor.is_some_and(|own| own.foreign().is_same_tensor(&result.foreign()));
        if let Some(parameter) = arguments.tensors.iter().position(is_same) {
            aliases.push((output, parameter));
        }
    }
    aliases
}

/// Checks the given arrays for results, or makes them. Returns them in the order of the outputs that aren't written in place by the
/// text.
fn prepare_results<'py>(
    py: Python<'py>,
    expression: &Expression,
    specialised: &Specialised,
    arguments: &Arguments,
    arrays: &mut Arrays,
    (outs, results): (Vec<Bound<'py, PyAny>>, &mut Vec<Tensor>),
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let signature = &expression.signature;
    for (parameter, tensor) in signature.parameters.iter().zip(&arguments.tensors) {
        let is_written = signature.outputs.contains(&parameter.name);
        if is_written && tensor.is_some_and(|tensor| tensor.is_read_only) {
            return Err(PyValueError::new_err(format!(
                "'{}' is written in place, but it is read-only",
                parameter.name
            )));
        }
    }
    let plans = specialised.outputs.iter().zip(&signature.outputs);
    let plans: Vec<_> = plans.filter(|(_, name)| signature.find(name).is_none()).collect();
    let common = arguments.common(expression)?;
    if outs.is_empty() && !plans.is_empty() {
        let Some(common) = common else {
            return Err(PyTypeError::new_err("there is no array among the arguments: give one, or out= for the shape"));
        };
        let mut objects = Vec::with_capacity(plans.len());
        for (plan, name) in plans {
            let object = arrays.allocate(py, common.shape(), plan.dtype, arguments.place())?;
            results.push(arrays.view(name, &object)?);
            objects.push(object);
        }
        return Ok(objects);
    }
    if outs.len() != plans.len() {
        let (given, needed) = (outs.len(), plans.len());
        return Err(PyTypeError::new_err(format!("out= has {given} arrays, but {needed} outputs need one")));
    }
    for ((plan, name), result) in plans.iter().zip(results.iter()) {
        if result.dtype != plan.dtype {
            let (expected, given) = (plan.dtype, result.dtype);
            return Err(PyTypeError::new_err(format!(
                "the output '{name}' is {expected}, but out= is {given}: give an array of {expected}, or write '{name}: {given} = …'"
            )));
        }
        if result.is_read_only {
            return Err(PyValueError::new_err("out= is read-only"));
        }
        if let Some(common) = common
            && common.shape() != result.shape()
        {
            let (given, needed) = (result.shape(), common.shape());
            return Err(ShapeError::new_err(format!("out= has the shape {given:?}, but the result has {needed:?}")));
        }
    }
    Ok(outs)
}

/// Compiles and loads what a call with these arguments needs.
pub(crate) fn warm<'py>(py: Python<'py>, expression: &Expression, bound: &[Bound<'py, PyAny>]) -> PyResult<()> {
    let mut arrays = Arrays::default();
    let prepared = Prepared::new(py, expression, bound, Vec::new(), &mut arrays)?;
    let tensors: Vec<Foreign<'_>> = prepared.tensors(expression).collect();
    py.detach(|| prepared.specialised.expression.warm(&tensors)).map_err(from_error)
}

/// Runs it on the arguments' memory.
fn run(py: Python<'_>, expression: &Expression, prepared: &Prepared<'_>, arrays: &Arrays) -> PyResult<()> {
    let tensors: Vec<Foreign<'_>> = prepared.tensors(expression).collect();
    let numbers = prepared.numbers();
    let elements =
        tensors.iter().map(|tensor| tensor.shape.iter().fold(1, |all: u64, &extent| all.saturating_mul(extent)));
    let elements = elements.max().unwrap_or(0);
    let place = prepared.place();
    let queue = arrays.queue(py, place)?;
    let compiled = &prepared.specialised.expression;
    // SAFETY: the caller holds the arrays, and their libraries say that the memory is there: on the CPU until the call returns, on a
    // GPU in the order of the library's own stream, in which it also frees memory. That no other thread writes it meanwhile is the
    // caller's business, as in NumPy; `docs/python.md` says so.
    let work = || unsafe { compiled.run_foreign(&tensors, &numbers, queue) };
    let is_short = place == Place::Host && elements < RELEASE_FROM;
    let done = if is_short { work() } else { py.detach(work) };
    done.map_err(from_error)?;
    if arrays.must_wait(place) { arrays.wait(py, place, compiled.device()) } else { Ok(()) }
}
