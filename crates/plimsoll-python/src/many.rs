//! One expression over many sets of arrays, such as an optimizer's step over all parameters: on a GPU in one launch.

use std::sync::{Mutex, PoisonError};

use plimsoll::elementwise::Many;
use plimsoll::expr::{Foreign, ForeignSet};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::error::from_error;
use crate::expression::Expression;
use crate::invoke::Call;
use crate::library::Arrays;
use crate::specialised::Specialised;
use crate::tensor::Few;

/// Prepared launches over the lists of earlier calls, the latest last.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Vec<(Lists, Many)>>);

/// What tells lists of arrays apart: their length and the address of the first array's memory.
type Lists = (usize, u64);
/// Most lists that an expression keeps: each has a table in the device's memory.
const MOST_KEPT: usize = 8;

impl Kept {
    fn take(&self, lists: Lists) -> Option<Many> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|(known, _)| *known == lists)?;
        Some(kept.remove(place).1)
    }

    fn put(&self, lists: Lists, many: Many) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST_KEPT {
            kept.remove(0);
        }
        kept.push((lists, many));
    }
}

/// An argument of every set: a list of arrays, or one number for all.
enum Each<'py> {
    List(Vec<Bound<'py, PyAny>>),
    Number(Bound<'py, PyAny>),
}

impl<'py> Each<'py> {
    fn new(value: Bound<'py, PyAny>) -> PyResult<Self> {
        let is_list = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
        if is_list { Ok(Self::List(value.try_iter()?.collect::<PyResult<_>>()?)) } else { Ok(Self::Number(value)) }
    }

    fn get(&self, set: usize) -> Bound<'py, PyAny> {
        match self {
            Self::List(list) => list[set].clone(),
            Self::Number(number) => number.clone(),
        }
    }
}

/// How many sets lists of arrays make.
fn count_sets<'e, 'py: 'e>(names: &[String], lists: impl Iterator<Item = &'e Each<'py>>) -> PyResult<usize> {
    let mut first: Option<(&str, usize)> = None;
    for (name, each) in names.iter().zip(lists) {
        let Each::List(list) = each else { continue };
        let (other, expected) = *first.get_or_insert((name, list.len()));
        if list.len() != expected {
            let given = list.len();
            return Err(PyValueError::new_err(format!("'{name}' has {given} arrays, but '{other}' has {expected}")));
        }
    }
    first.map(|(_, count)| count).ok_or_else(|| PyTypeError::new_err("give at least one list of arrays"))
}

/// Computes an expression for each set of arrays.
pub(crate) fn run_many<'py>(
    py: Python<'py>,
    expression: &Expression,
    bound: Few<Bound<'py, PyAny>>,
    outs: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let parameters = expression.signature.parameters.iter().map(|parameter| parameter.name.clone());
    let mut names: Vec<String> = parameters.collect();
    names.extend(outs.iter().map(|_| "out".to_owned()));
    let all = bound.into_iter().chain(outs).map(Each::new).collect::<PyResult<Vec<_>>>()?;
    let count = count_sets(&names, all.iter())?;
    let (inputs, outs) = all.split_at(expression.signature.parameters.len());
    let mut arrays = Arrays::default();
    // Filled in place, as moving one takes long.
    let mut calls: Vec<Call<'py>> = Vec::new();
    calls.resize_with(count, Call::new);
    let mut sets: Vec<Set<'_, 'py>> = Vec::with_capacity(count);
    for (set, call) in calls.iter_mut().enumerate() {
        let bound: Few<_> = inputs.iter().map(|each| each.get(set)).collect();
        call.add_outs(outs.iter().map(|each| each.get(set)));
        let specialised = call
            .prepare(py, expression, &bound, &mut arrays)
            .map_err(|error| error.into_value(py).into_bound(py))
            .map_err(|error| name_set(py, set, &error))?;
        sets.push(Set { bound, specialised });
    }
    launch(py, &calls, &sets, &arrays)?;
    let mut columns: Vec<Vec<Bound<'py, PyAny>>> = Vec::new();
    for (call, set) in calls.iter_mut().zip(&sets) {
        let returned = call.take_returned(expression, &set.bound, &arrays)?;
        columns.resize_with(returned.len(), Vec::new);
        columns.iter_mut().zip(returned).for_each(|(column, result)| column.push(result));
    }
    columns.resize_with(expression.signature.outputs.len(), Vec::new);
    let mut lists = columns.into_iter().map(|column| PyList::new(py, column)).collect::<PyResult<Vec<_>>>()?;
    if lists.len() == 1 { Ok(lists.remove(0).into_any()) } else { Ok(PyTuple::new(py, lists)?.into_any()) }
}

/// An error of one set with its number.
fn name_set(py: Python<'_>, set: usize, error: &Bound<'_, pyo3::exceptions::PyBaseException>) -> PyErr {
    let text = format!("set {set}: {error}");
    match error.get_type().call1((text,)) {
        Ok(named) => PyErr::from_value(named),
        Err(_) => PyErr::from_value(error.clone().into_any().unbind().into_bound(py)),
    }
}

/// The arguments of one set, and what computes them.
struct Set<'e, 'py> {
    bound: Few<Bound<'py, PyAny>>,
    specialised: &'e Specialised,
}

/// Runs all sets.
fn launch(py: Python<'_>, calls: &[Call<'_>], sets: &[Set<'_, '_>], arrays: &Arrays) -> PyResult<()> {
    let (Some(first), Some(Set { specialised, .. })) = (calls.first(), sets.first()) else { return Ok(()) };
    if let Some(set) = sets.iter().position(|set| !std::ptr::eq(set.specialised, *specialised)) {
        return Err(PyTypeError::new_err(format!(
            "set {set} has other types or another device than set 0: call it for lists of equal types"
        )));
    }
    let place = first.place();
    let queue = arrays.queue(py, place)?;
    let mut tensors: Vec<Few<Foreign<'_>>> = vec![Few::new(); calls.len()];
    calls.iter().zip(&mut tensors).for_each(|(call, tensors)| call.list_tensors(specialised, tensors));
    let foreign: Vec<ForeignSet<'_>> = tensors.iter().map(|tensors| ForeignSet { tensors, group: 0 }).collect();
    let mut numbers = Few::new();
    first.list_numbers(specialised, &mut numbers);
    let scalars = [numbers.into_vec()];
    let lists = (calls.len(), tensors[0].first().map_or(0, |tensor| tensor.start));
    let kept = &specialised.kept;
    let mut many = kept.take(lists).unwrap_or_else(|| specialised.expression.many());
    // SAFETY: as for one call.
    let done = py.detach(|| unsafe { many.run(&foreign, &scalars, queue) });
    kept.put(lists, many);
    done.map_err(from_error)?;
    if arrays.must_wait(place) { arrays.wait(py, place, specialised.expression.device()) } else { Ok(()) }
}
