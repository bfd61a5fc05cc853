//! `plimsoll.compile` and the object that it returns.

use std::collections::BTreeMap;

use plimsoll::expr::{DType, Graph};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::callable;

use crate::error::{from_error, from_text};
use crate::invoke::{invoke, warm};
use crate::many::run_many;
use crate::number::NumberKind;
use crate::numpy;
use crate::specialised::{Given, Known, Parameter, Shared, Signature, Specialised};
use crate::tensor::{Few, Place};

/// An expression that can be called with arrays and numbers. Types and devices are those of each call's arguments: the first call
/// with new ones compiles. Threads may call one expression at the same time.
///
/// Python's objects are of a type derived from this one, which is called faster: see [`callable`].
#[pyclass(frozen, subclass, module = "plimsoll")]
pub(crate) struct Expression {
    pub(crate) signature: Signature,
    /// The parameters' names as Python's compiler passes them: one object for equal names.
    names: Vec<Py<PyString>>,
    known: Known,
}

/// Compiles the text of an elementwise expression.
///
/// Names that the text doesn't declare may be arrays or numbers of any type. Raises `ExpressionError`, with the place of the mistake.
#[pyfunction]
pub(crate) fn compile<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    callable::make(py, text)
}

/// An argument that was given by name.
pub(crate) type Named<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

impl Expression {
    /// It for arguments of these types.
    pub(crate) fn specialise(
        &self,
        py: Python<'_>,
        given: &[Given],
        shared: &Shared,
        place: Place,
    ) -> PyResult<&Specialised> {
        if let Some(known) = self.known.iter().find(|known| known.fits(given, shared, place)) {
            return Ok(known);
        }
        // Opening a GPU takes some tenths of a second. Two threads may do this for the same types; one of the results stays unused.
        let made = py.detach(|| Specialised::new(&self.signature, given, shared, place)).map_err(from_error)?;
        Ok(self.known.add(made))
    }

    /// The arguments in the order of the parameters.
    pub(crate) fn bind<'py>(
        &self,
        positional: impl ExactSizeIterator<Item = Bound<'py, PyAny>>,
        named: Few<Named<'py>>,
    ) -> PyResult<Few<Bound<'py, PyAny>>> {
        let parameters = &self.signature.parameters;
        if positional.len() > parameters.len() {
            let (given, most, list) = (positional.len(), parameters.len(), self.list());
            return Err(PyTypeError::new_err(format!(
                "{given} arguments given, but there are {most} parameters: {list}"
            )));
        }
        if named.is_empty() && positional.len() == parameters.len() {
            let mut bound = Few::with_capacity(parameters.len());
            positional.for_each(|value| bound.push(value));
            return Ok(bound);
        }
        let mut bound: Few<Option<Bound<'py, PyAny>>> = positional.map(Some).collect();
        bound.resize(parameters.len(), None);
        for (name, value) in named {
            let place = self.find(&name)?;
            if bound[place].replace(value).is_some() {
                return Err(PyTypeError::new_err(format!("'{}' was given twice", parameters[place].name)));
            }
        }
        let missing = bound.iter().zip(parameters).find(|(value, _)| value.is_none());
        match missing {
            Some((_, parameter)) => Err(PyTypeError::new_err(format!(
                "'{}' is missing: the parameters are {}",
                parameter.name,
                self.list()
            ))),
            None => Ok(bound.into_iter().flatten().collect()),
        }
    }

    /// [`Expression::bind`] for a tuple and a dict.
    fn bind_objects<'py>(
        &self,
        positional: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Few<Bound<'py, PyAny>>> {
        self.bind(positional.iter(), named.into_iter().flatten().collect())
    }

    /// The parameter with this name.
    fn find(&self, name: &Bound<'_, PyAny>) -> PyResult<usize> {
        if let Some(place) = self.names.iter().position(|known| name.is(known)) {
            return Ok(place);
        }
        let name: String = name.extract()?;
        self.signature.find(&name).ok_or_else(|| {
            let list = self.list();
            PyTypeError::new_err(format!("the expression has no '{name}': its parameters are {list}"))
        })
    }

    /// The graph for arguments of these types.
    fn typed_graph(&self, types: &BTreeMap<String, String>) -> PyResult<Graph> {
        let given = self.signature.parameters.iter().map(|Parameter { name, .. }| {
            let kind = types.get(name).map(String::as_str);
            let dtype = DType::ALL.iter().copied().find(|&dtype| kind == Some(numpy::type_name(dtype)));
            match (kind, dtype) {
                (Some("number"), _) => Ok(Given::Number(NumberKind::Float)),
                (_, Some(dtype)) => Ok(Given::Tensor(dtype)),
                _ => Err(PyTypeError::new_err(format!("'{name}' needs a type, such as float32, or number"))),
            }
        });
        self.signature.graph(&given.collect::<PyResult<Vec<_>>>()?).map_err(|error| from_text(&error))
    }

    fn list(&self) -> String {
        let names: Vec<&str> = self.signature.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

#[pymethods]
impl Expression {
    #[new]
    fn new(py: Python<'_>, text: &str) -> PyResult<Self> {
        let signature = Signature::new(text).map_err(|error| from_text(&error))?;
        let names = signature.parameters.iter().map(|parameter| PyString::intern(py, &parameter.name).unbind());
        Ok(Self { names: names.collect(), signature, known: Known::default() })
    }

    /// The text.
    #[getter]
    fn text(&self) -> &str {
        &self.signature.text
    }

    /// The names of the parameters, in the order of positional arguments: that of their first mention in the text.
    #[getter]
    fn parameters(&self) -> Vec<&str> {
        self.signature.parameters.iter().map(|parameter| parameter.name.as_str()).collect()
    }

    /// The names of the outputs. One that is also a parameter is written in place.
    #[getter]
    fn outputs(&self) -> Vec<&str> {
        self.signature.outputs.iter().map(String::as_str).collect()
    }

    /// Computes the expression for each set of arrays: an argument is a list of arrays, all lists of one length, or a number for
    /// all sets. On a GPU one launch computes all of them. Returns a list of results, or a tuple of lists for several outputs.
    ///
    /// On a GPU every array is contiguous and has the shape of its set's results, or one element.
    #[pyo3(signature = (*args, out = None, **named))]
    fn many<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        out: Option<&Bound<'py, PyAny>>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let bound = self.bind_objects(args, named)?;
        // A list of arrays is the memory of one output, a tuple of lists that of several.
        let outs = match out {
            None => Vec::new(),
            Some(out) => match out.cast::<PyTuple>() {
                Ok(lists) => lists.iter().collect(),
                Err(_) => vec![out.clone()],
            },
        };
        run_many(py, self, bound, outs)
    }

    /// Compiles and loads what a call with such arguments needs, without computing anything: for calls that must not wait, such as
    /// those in the recording of a CUDA graph. Arguments are those of a call; results are assumed to be new arrays.
    #[pyo3(signature = (*args, **named))]
    fn warm<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<()> {
        let bound = self.bind_objects(args, named)?;
        warm(py, self, &bound)
    }

    /// The types of the outputs for arguments of these types: NumPy's names, or "number".
    fn result_types(&self, types: BTreeMap<String, String>) -> PyResult<Vec<&'static str>> {
        let graph = self.typed_graph(&types)?;
        Ok(graph.outputs().iter().map(|output| numpy::type_name(output.dtype)).collect())
    }

    /// The text of an expression that computes the derivatives by these parameters, for arguments of these types. Its parameters are
    /// those of this expression that it needs, and `grad_NAME` for each output.
    fn gradient(&self, types: BTreeMap<String, String>, by: Vec<String>) -> PyResult<String> {
        let graph = self.typed_graph(&types)?;
        let find = |name: &String| graph.inputs().iter().position(|input| input.name == *name);
        let inputs = by.iter().map(|name| {
            find(name)
                .ok_or_else(|| PyTypeError::new_err(format!("there is no derivative by '{name}': it is no array")))
        });
        let inputs = inputs.collect::<PyResult<Vec<usize>>>()?;
        let gradient = graph.gradient(&inputs).map_err(|error| PyTypeError::new_err(error.to_string()))?;
        Ok(gradient.with_read_inputs().0.to_string())
    }

    fn __repr__(&self) -> String {
        format!("plimsoll.compile({:?})", self.signature.text)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (&str,))> {
        Ok((py.import("plimsoll")?.getattr("compile")?, (self.text(),)))
    }

    /// Computes the expression: arrays and numbers by position or by name. Returns a new array of the first array's library, or a
    /// tuple of them if there are several outputs. Outputs that overwrite a parameter return that argument.
    ///
    /// `out=` gives the memory of the outputs that aren't written in place: an array, or a tuple of arrays.
    #[pyo3(signature = (*args, out = None, **named))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        out: Option<&Bound<'py, PyAny>>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let bound = self.bind_objects(args, named)?;
        invoke(py, self, &bound, out)
    }
}
