//! One call of an expression: views of the arguments, the outputs, the run.

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
            let (given, tensor, number) = match number::read(name, value)? {
                Some((kind, value)) => (Given::Number(kind), None, value),
                None => {
                    let tensor = arrays.view(name, value)?;
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

/// Computes an expression for its arguments.
pub(crate) fn invoke<'py>(
    py: Python<'py>,
    expression: &Expression,
    bound: &[Bound<'py, PyAny>],
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut arrays = Arrays::default();
    let mut arguments = Arguments::read(expression, bound, &mut arrays)?;
    let outs = list_outs(out);
    let mut results: Vec<Tensor> = Vec::with_capacity(outs.len().max(1));
    for out in &outs {
        let tensor = arrays.view("out", out)?;
        arguments.locate("out", &tensor)?;
        results.push(tensor);
    }
    let place = arguments.place.unwrap_or(Place::Host);
    let aliases = find_aliases(expression, &arguments, &results);
    let specialised = expression.specialise(py, &arguments.given, &aliases, place)?;
    let objects = prepare_results(py, expression, &specialised, &arguments, &mut arrays, (outs, &mut results))?;
    run(py, expression, &specialised, &arguments, (&arrays, &results))?;
    let is_made = out.is_none();
    let finish = |object| if is_made { arrays.finish(place, object) } else { Ok(object) };
    let mut fresh = objects.into_iter().map(finish).collect::<PyResult<Vec<_>>>()?.into_iter();
    let mut returned = specialised.outputs.iter().filter_map(|output| match output.in_place {
        Some(parameter) if aliases.iter().all(|&(_, alias)| alias != parameter) => Some(bound[parameter].clone()),
        _ => fresh.next(),
    });
    match specialised.outputs.len() {
        1 => returned.next().ok_or_else(|| PyValueError::new_err("the expression has no output")),
        _ => Ok(PyTuple::new(py, returned.collect::<Vec<_>>())?.into_any()),
    }
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
        let place = arguments.place.unwrap_or(Place::Host);
        let mut objects = Vec::with_capacity(plans.len());
        for (plan, name) in plans {
            let object = arrays.allocate(py, common.shape(), plan.dtype, place)?;
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

/// Runs it on the arguments' memory.
fn run(
    py: Python<'_>,
    expression: &Expression,
    specialised: &Specialised,
    arguments: &Arguments,
    (arrays, results): (&Arrays, &[Tensor]),
) -> PyResult<()> {
    let inputs = specialised.inputs.iter().filter_map(|&parameter| arguments.tensors[parameter].as_ref());
    let signature = &expression.signature;
    let separate =
        specialised.outputs.iter().zip(&signature.outputs).filter(|(_, name)| signature.find(name).is_none());
    let separate = separate.zip(results).filter(|((output, _), _)| output.in_place.is_none()).map(|(_, result)| result);
    let tensors: Vec<Foreign<'_>> = inputs.chain(separate).map(Tensor::foreign).collect();
    let numbers: Vec<Value> = specialised.scalars.iter().map(|&parameter| arguments.numbers[parameter]).collect();
    let elements =
        tensors.iter().map(|tensor| tensor.shape.iter().fold(1, |all: u64, &extent| all.saturating_mul(extent)));
    let elements = elements.max().unwrap_or(0);
    let place = arguments.place.unwrap_or(Place::Host);
    let queue = arrays.queue(py, place)?;
    // SAFETY: the caller holds the arrays, and their libraries say that the memory is there: on the CPU until the call returns, on a
    // GPU in the order of the library's own stream, in which it also frees memory. That no other thread writes it meanwhile is the
    // caller's business, as in NumPy; `docs/python.md` says so.
    let work = || unsafe { specialised.expression.run_foreign(&tensors, &numbers, queue) };
    let is_short = place == Place::Host && elements < RELEASE_FROM;
    let done = if is_short { work() } else { py.detach(work) };
    done.map_err(from_error)?;
    if arrays.must_wait(place) { arrays.wait(py, place, specialised.expression.device()) } else { Ok(()) }
}
