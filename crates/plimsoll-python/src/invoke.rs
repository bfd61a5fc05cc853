//! One call of an expression: views of the arguments, the outputs, the run.

use plimsoll::expr::{DType, Foreign, Value};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::error::{DeviceError, ShapeError, from_error};
use crate::expression::Expression;
use crate::library::Arrays;
use crate::number;
use crate::specialised::{Given, Role, Shared, Slot, Specialised};
use crate::tensor::{Common, Few, Place, Tensor};

/// From this number of elements on, other Python threads may run during a call on the CPU: letting them costs some tens of
/// nanoseconds.
const RELEASE_FROM: u64 = 4096;

/// A call's arguments and results. Filled in place: moving it takes as long as the rest of a small call.
pub(crate) struct Call<'py> {
    arguments: Arguments,
    /// The arrays of the outputs that the text doesn't write in place, and their memory.
    objects: Few<Bound<'py, PyAny>>,
    results: Few<Tensor>,
    /// Whether the results were made for the call.
    is_made: bool,
    shared: Shared,
}

/// A call's arguments as Rust sees them, one per parameter.
struct Arguments {
    given: Few<Given>,
    /// The tensors; those of numbers have no meaning: see [`Arguments::tensor`].
    tensors: Few<Tensor>,
    /// The numbers; tensors have 0.
    numbers: Few<Value>,
    /// Where all tensors are; `None` without tensors.
    place: Option<Place>,
}

impl Arguments {
    fn place(&self) -> Place {
        self.place.unwrap_or(Place::Host)
    }

    fn read(&mut self, expression: &Expression, bound: &[Bound<'_, PyAny>], arrays: &mut Arrays) -> PyResult<()> {
        for (parameter, value) in expression.signature.parameters.iter().zip(bound) {
            let name = &parameter.name;
            self.tensors.push(Tensor::EMPTY);
            let place = self.tensors.len() - 1;
            // Floats and arrays of NumPy are recognised fastest, and other numbers faster than other arrays.
            let is_array = !number::is_float(value) && arrays.view_numpy(value, &mut self.tensors[place])?;
            let number = if is_array { None } else { number::read(name, value)? };
            let given = match number {
                Some((kind, _)) => Given::Number(kind),
                None => {
                    if !is_array {
                        self.tensors[place] = arrays.view_other(name, value)?;
                    }
                    let (dtype, place) = (self.tensors[place].dtype, self.tensors[place].place);
                    self.locate(name, place)?;
                    Given::Tensor(dtype)
                }
            };
            self.numbers.push(number.map_or(Value::Int(0), |(_, number)| number));
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
            self.given.push(given);
        }
        Ok(())
    }

    /// A parameter's tensor; `None` for a number.
    fn tensor(&self, parameter: usize) -> Option<&Tensor> {
        match self.given[parameter] {
            Given::Tensor(_) => Some(&self.tensors[parameter]),
            Given::Number(_) => None,
        }
    }

    /// Checks that a tensor is where the others are.
    fn locate(&mut self, name: &str, other: Place) -> PyResult<()> {
        let place = *self.place.get_or_insert(other);
        if place == other {
            return Ok(());
        }
        Err(DeviceError::new_err(format!(
            "'{name}' is on {other}, but other arrays of the call are on {place}: copy it there"
        )))
    }

    /// The shape to which the inputs are broadcast; `None` without tensors.
    fn common(&self, expression: &Expression) -> PyResult<Option<Common>> {
        let mut common = Common::new();
        let mut has_tensor = false;
        for (place, parameter) in expression.signature.parameters.iter().enumerate() {
            let Some(tensor) = self.tensor(place) else { continue };
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

impl<'py> Call<'py> {
    /// Nothing yet. Inlined, so that it is made where it stays.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        let arguments = Arguments { given: Few::new(), tensors: Few::new(), numbers: Few::new(), place: None };
        let shared = Shared { aliases: Few::new(), merged: Few::new() };
        Self { arguments, objects: Few::new(), results: Few::new(), is_made: false, shared }
    }

    /// Takes the arrays given with `out=`.
    fn set_outs(&mut self, out: Option<&Bound<'py, PyAny>>) {
        let Some(out) = out else { return };
        match (out.cast::<PyTuple>(), out.cast::<PyList>()) {
            (Ok(tuple), _) => self.add_outs(tuple.iter()),
            (_, Ok(list)) => self.add_outs(list.iter()),
            _ => self.objects.push(out.clone()),
        }
    }

    /// Takes arrays for the results. Without any, [`Call::prepare`] makes them.
    pub(crate) fn add_outs(&mut self, outs: impl Iterator<Item = Bound<'py, PyAny>>) {
        self.objects.extend(outs);
    }

    /// Checks the arguments and results, and finds what computes them.
    pub(crate) fn prepare<'e>(
        &mut self,
        py: Python<'py>,
        expression: &'e Expression,
        bound: &[Bound<'py, PyAny>],
        arrays: &mut Arrays,
    ) -> PyResult<&'e Specialised> {
        self.arguments.read(expression, bound, arrays)?;
        for out in &self.objects {
            self.arguments.locate("out", arrays.view("out", out, &mut self.results)?)?;
        }
        self.find_shared(expression);
        let specialised = expression.specialise(py, &self.arguments.given, &self.shared, self.arguments.place())?;
        self.prepare_results(py, expression, specialised, arrays)?;
        Ok(specialised)
    }

    /// Where its tensors are.
    pub(crate) fn place(&self) -> Place {
        self.arguments.place()
    }

    /// Lists the inputs, then the outputs that aren't written in place. Filled in place, as [`Call`] is.
    pub(crate) fn list_tensors<'s>(&'s self, specialised: &Specialised, tensors: &mut Few<Foreign<'s>>) {
        let find = |slot: &Slot| match *slot {
            Slot::Parameter(parameter) => self.arguments.tensor(parameter),
            Slot::Result(result) => self.results.get(result),
        };
        specialised.tensors.iter().filter_map(find).for_each(|tensor| tensors.push(tensor.foreign()));
    }

    /// Lists the scalars in the expression's order.
    pub(crate) fn list_numbers(&self, specialised: &Specialised, numbers: &mut Few<Value>) {
        specialised.scalars.iter().for_each(|&parameter| numbers.push(self.arguments.numbers[parameter]));
    }

    /// What the call returns, in the order of the outputs.
    pub(crate) fn take_returned(
        &mut self,
        expression: &Expression,
        bound: &[Bound<'py, PyAny>],
        arrays: &Arrays,
    ) -> PyResult<Few<Bound<'py, PyAny>>> {
        let (place, is_made) = (self.place(), self.is_made);
        let finish = |object| if is_made { arrays.finish(place, object) } else { Ok(object) };
        // Results are in the order of the outputs.
        let mut fresh = self.objects.drain(..);
        let outputs = expression.signature.returned.iter().filter_map(|slot| match *slot {
            Slot::Parameter(parameter) => Some(Ok(bound[parameter].clone())),
            Slot::Result(_) => fresh.next().map(finish),
        });
        outputs.collect()
    }

    /// Finds the outputs for which the caller gave an input's own memory, and inputs that are the same array as one that is
    /// overwritten.
    fn find_shared(&mut self, expression: &Expression) {
        let signature = &expression.signature;
        let (arguments, shared) = (&self.arguments, &mut self.shared);
        let parameters = 0..signature.parameters.len();
        let is_it = |parameter: usize, wanted: &Tensor| {
            arguments.tensor(parameter).is_some_and(|own| own.is_same_array(wanted))
        };
        for (&output, result) in signature.separate.iter().zip(&self.results) {
            if let Some(parameter) = parameters.clone().find(|&parameter| is_it(parameter, result)) {
                shared.aliases.push((output, parameter));
            }
        }
        if shared.aliases.is_empty() && signature.separate.len() == signature.outputs.len() {
            return;
        }
        let in_place = parameters.clone().filter(|&parameter| signature.written[parameter]);
        let overwritten: Few<usize> = in_place.chain(shared.aliases.iter().map(|&(_, parameter)| parameter)).collect();
        for &kept in &overwritten {
            let Some(tensor) = arguments.tensor(kept) else { continue };
            for parameter in parameters.clone().filter(|parameter| !overwritten.contains(parameter)) {
                if is_it(parameter, tensor) {
                    shared.merged.push((parameter, kept));
                }
            }
        }
    }

    /// Checks the given arrays for results, or makes them.
    fn prepare_results(
        &mut self,
        py: Python<'py>,
        expression: &Expression,
        specialised: &Specialised,
        arrays: &mut Arrays,
    ) -> PyResult<()> {
        let signature = &expression.signature;
        for (place, (parameter, is_written)) in signature.parameters.iter().zip(&signature.written).enumerate() {
            if *is_written && self.arguments.tensor(place).is_some_and(|tensor| tensor.is_read_only) {
                return Err(PyValueError::new_err(format!(
                    "'{}' is written in place, but it is read-only",
                    parameter.name
                )));
            }
        }
        let common = self.arguments.common(expression)?;
        let plans = signature.separate.iter().map(|&output| (specialised.types[output], &signature.outputs[output]));
        if self.objects.is_empty() && plans.len() > 0 {
            let Some(common) = common else {
                return Err(PyTypeError::new_err(
                    "there is no array among the arguments: give one, or out= for the shape",
                ));
            };
            self.is_made = true;
            for (dtype, name) in plans {
                let object = arrays.allocate(py, common.shape(), dtype, self.arguments.place())?;
                arrays.view(name, &object, &mut self.results)?;
                self.objects.push(object);
            }
            return Ok(());
        }
        if self.objects.len() != plans.len() {
            let (given, needed) = (self.objects.len(), plans.len());
            return Err(PyTypeError::new_err(format!("out= has {given} arrays, but {needed} outputs need one")));
        }
        plans.zip(&self.results).try_for_each(|(plan, result)| check_out(plan, result, common.as_ref()))
    }
}

/// Checks an array given for an output of this type and name.
fn check_out((expected, name): (DType, &String), result: &Tensor, common: Option<&Common>) -> PyResult<()> {
    let given = result.dtype;
    if given != expected {
        return Err(PyTypeError::new_err(format!(
            "the output '{name}' is {expected}, but out= is {given}: give an array of {expected}, or write '{name}: {given} = …'"
        )));
    }
    if result.is_read_only {
        return Err(PyValueError::new_err("out= is read-only"));
    }
    match common.map(Common::shape) {
        Some(needed) if needed != result.shape() => {
            let given = result.shape();
            Err(ShapeError::new_err(format!("out= has the shape {given:?}, but the result has {needed:?}")))
        }
        _ => Ok(()),
    }
}

/// Computes an expression for its arguments.
pub(crate) fn invoke<'py>(
    py: Python<'py>,
    expression: &Expression,
    bound: &[Bound<'py, PyAny>],
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut call = Call::new();
    let mut arrays = Arrays::default();
    call.set_outs(out);
    let specialised = call.prepare(py, expression, bound, &mut arrays)?;
    run(py, specialised, &call, &arrays)?;
    // The most frequent call: one array, whose memory is given.
    if let (false, [Slot::Result(_)], [only]) = (call.is_made, &expression.signature.returned[..], &call.objects[..]) {
        return Ok(only.clone());
    }
    let mut returned = call.take_returned(expression, bound, &arrays)?;
    if returned.len() == 1 { Ok(returned.remove(0)) } else { Ok(PyTuple::new(py, returned)?.into_any()) }
}

/// Compiles and loads what a call with these arguments needs.
pub(crate) fn warm<'py>(py: Python<'py>, expression: &Expression, bound: &[Bound<'py, PyAny>]) -> PyResult<()> {
    let (mut call, mut arrays) = (Call::new(), Arrays::default());
    let specialised = call.prepare(py, expression, bound, &mut arrays)?;
    let mut tensors = Few::new();
    call.list_tensors(specialised, &mut tensors);
    py.detach(|| specialised.expression.warm(&tensors)).map_err(from_error)
}

/// Runs it on the arguments' memory.
fn run(py: Python<'_>, specialised: &Specialised, call: &Call<'_>, arrays: &Arrays) -> PyResult<()> {
    let mut tensors = Few::new();
    let mut numbers = Few::new();
    call.list_tensors(specialised, &mut tensors);
    call.list_numbers(specialised, &mut numbers);
    let elements =
        tensors.iter().map(|tensor| tensor.shape.iter().fold(1, |all: u64, &extent| all.saturating_mul(extent)));
    let elements = elements.max().unwrap_or(0);
    let place = call.place();
    let queue = arrays.queue(py, place)?;
    let compiled = &specialised.expression;
    // SAFETY: the caller holds the arrays, and their libraries say that the memory is there: on the CPU until the call returns, on a
    // GPU in the order of the library's own stream, in which it also frees memory. That no other thread writes it meanwhile is the
    // caller's business, as in NumPy; `docs/python.md` says so.
    let work = || unsafe { compiled.run_foreign(&tensors, &numbers, queue) };
    let is_short = place == Place::Host && elements < RELEASE_FROM;
    let done = if is_short { work() } else { py.detach(work) };
    done.map_err(from_error)?;
    if arrays.must_wait(place) { arrays.wait(py, place, compiled.device()) } else { Ok(()) }
}
