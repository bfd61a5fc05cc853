//! The array libraries: which one an object belongs to, how it lends its memory, and how it makes new arrays.

use std::cell::RefCell;

use plimsoll::expr::DType;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::dlpack::{Exchange, Taken, find_exchange};
use crate::numpy;
use crate::tensor::{Place, Tensor};

/// The library of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    Numpy,
    Torch,
    Other,
}

/// What is known of an array's type.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) library: Library,
    /// By which tensors are lent, if the type has it and is no subclass with rules of its own.
    exchange: Option<&'static Exchange>,
}

thread_local! {
    /// Types that were looked at, by address. They are never freed, so that no address is reused.
    static KINDS: RefCell<Vec<(usize, Kind)>> = const { RefCell::new(Vec::new()) };
}
/// Most types kept per thread.
const MOST_KINDS: usize = 32;

impl Kind {
    fn find(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let own_type = value.get_type();
        let address = own_type.as_ptr().addr();
        let known = KINDS.with_borrow(|kinds| kinds.iter().find(|(known, _)| *known == address).map(|(_, kind)| *kind));
        if let Some(kind) = known {
            return Ok(kind);
        }
        let module: String = own_type.module()?.extract()?;
        let name: String = own_type.name()?.extract()?;
        let library = if module.split('.').next() == Some("torch") { Library::Torch } else { Library::Other };
        let is_plain = [("torch", "Tensor"), ("torch.nn.parameter", "Parameter"), ("torch.nn.parameter", "Buffer")];
        if library == Library::Torch && !is_plain.contains(&(&module, &name)) {
            return Err(PyTypeError::new_err(format!(
                "a {name} has rules of its own, or no memory at all: give .as_subclass(torch.Tensor), or register plimsoll.torch.op"
            )));
        }
        let kind = Self { library, exchange: find_exchange(own_type.as_any()) };
        KINDS.with_borrow_mut(|kinds| {
            if kinds.len() < MOST_KINDS {
                kinds.push((own_type.into_ptr().addr(), kind));
            }
        });
        Ok(kind)
    }
}

/// The arrays of one call.
#[derive(Default)]
pub(crate) struct Arrays {
    taken: Taken,
    /// The library of the first array, which makes the results.
    first: Option<(Library, Option<&'static Exchange>)>,
}

impl Arrays {
    /// An object's memory. The caller holds the object until the call's work is done.
    pub(crate) fn view(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let (tensor, first) = match numpy::view(value)? {
            Some(tensor) => (tensor, (Library::Numpy, None)),
            None => self.view_other(name, value)?,
        };
        self.first.get_or_insert(first);
        Ok(tensor)
    }

    fn view_other(
        &mut self,
        name: &str,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<(Tensor, (Library, Option<&'static Exchange>))> {
        let kind = Kind::find(value)?;
        if kind.library == Library::Torch {
            check_torch(name, value)?;
        }
        let first = (kind.library, kind.exchange);
        if let Some(exchange) = kind.exchange {
            // SAFETY: the table is that of the object's type.
            let borrowed = unsafe { exchange.borrow(value) };
            if let Some(tensor) = borrowed.map_err(|error| explain_refusal(value.py(), name, error))? {
                return Ok((tensor, first));
            }
        }
        if let Some(capsule) = make_capsule(value).map_err(|error| explain_refusal(value.py(), name, error))? {
            return Ok((self.taken.take(&capsule)?, first));
        }
        if let Some(array) = numpy::from_buffer(value)?
            && let Some(tensor) = numpy::view(&array)?
        {
            return Ok((tensor, (Library::Numpy, None)));
        }
        let own_type = value.get_type();
        let own_type = own_type.name()?;
        Err(PyTypeError::new_err(format!(
            "'{name}' is a {own_type}: give a number, or an array with __dlpack__ or the buffer protocol (NumPy, PyTorch, CuPy, JAX, …)"
        )))
    }

    /// A new row-major array of the library of the call's first array.
    pub(crate) fn allocate<'py>(
        &self,
        py: Python<'py>,
        shape: &[u64],
        dtype: DType,
        place: Place,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (library, exchange) = self.first.unwrap_or((Library::Numpy, None));
        if let Some(exchange) = exchange
            && let Some(array) = exchange.allocate(py, shape, dtype, place)?
        {
            return Ok(array);
        }
        match library {
            Library::Torch => allocate_torch(py, shape, dtype, place),
            _ => numpy::allocate(py, shape, dtype),
        }
    }
}

/// Refuses tensors whose gradient would be lost, and lazily negated or conjugated ones, whose memory holds other values.
fn check_torch(name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = value.py();
    if value.getattr(intern!(py, "requires_grad"))?.is_truthy()?
        && py.import("torch")?.getattr("is_grad_enabled")?.call0()?.is_truthy()?
    {
        return Err(PyRuntimeError::new_err(format!(
            "'{name}' requires a gradient, which this call would lose: use plimsoll.torch.op, torch.no_grad() or detach()"
        )));
    }
    if value.call_method0(intern!(py, "is_neg"))?.is_truthy()? {
        return Err(PyTypeError::new_err(format!("'{name}' is negated lazily: give {name}.resolve_neg()")));
    }
    Ok(())
}

/// Why a library doesn't lend an array: the first line of its reason, as some add their own stack.
fn explain_refusal(py: Python<'_>, name: &str, error: PyErr) -> PyErr {
    let reason = error.value(py).to_string();
    let first = reason.lines().next().unwrap_or_default();
    let refused = PyTypeError::new_err(format!("the memory of '{name}' can't be used: {first}"));
    refused.set_cause(py, Some(error));
    refused
}

/// The capsule of an object with `__dlpack__`; `None` for another object.
fn make_capsule<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = value.py();
    let Some(make) = value.getattr_opt(intern!(py, "__dlpack__"))? else { return Ok(None) };
    let named = PyDict::new(py);
    named.set_item(intern!(py, "max_version"), (1, 0))?;
    match make.call((), Some(&named)) {
        // A library that knows only DLPack before version 1.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => make.call0().map(Some),
        other => other.map(Some),
    }
}

fn allocate_torch<'py>(py: Python<'py>, shape: &[u64], dtype: DType, place: Place) -> PyResult<Bound<'py, PyAny>> {
    let torch = py.import("torch")?;
    let named = PyDict::new(py);
    // PyTorch has the same names.
    named.set_item("dtype", torch.getattr(numpy::type_name(dtype))?)?;
    named.set_item("device", place.to_string())?;
    torch.getattr("empty")?.call((PyTuple::new(py, shape)?,), Some(&named))
}
