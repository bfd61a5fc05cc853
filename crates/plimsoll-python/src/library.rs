//! The array libraries: which one an object belongs to, how it lends its memory, in which order its work runs, and how it makes
//! new arrays.

use std::cell::RefCell;

use plimsoll::elementwise::{Device, Queue};
use plimsoll::expr::DType;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

use crate::dlpack::{CUDA, Exchange, Taken, find_exchange};
use crate::error::from_error;
use crate::tensor::{Few, Place, Tensor};
use crate::{interface, numpy};

/// The library of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    Numpy,
    Torch,
    Cupy,
    Jax,
    Other,
}

/// What is known of an array's type.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    library: Library,
    /// By which the library lends its arrays and makes new ones.
    exchange: Option<&'static Exchange>,
}

const NUMPY: Kind = Kind { library: Library::Numpy, exchange: None };

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
        let library = match module.split('.').next() {
            Some("torch") => Library::Torch,
            Some("cupy") => Library::Cupy,
            Some("jax" | "jaxlib") => Library::Jax,
            _ => Library::Other,
        };
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
    /// The kind of the first array: its library makes the results, and on a GPU its stream orders the work.
    first: Option<Kind>,
    /// The stream that the first array's interface names.
    named_stream: Option<u64>,
    /// Whether PyTorch records operations for gradients, once it is known.
    records_gradients: Option<bool>,
    /// Whether the arrays on a GPU are of several libraries, whose streams know nothing of each other.
    is_mixed: bool,
}

impl Arrays {
    /// Adds an object's memory to `tensors`, and tells where it is. The caller holds the object until the call's work is done.
    pub(crate) fn view(&mut self, name: &str, value: &Bound<'_, PyAny>, tensors: &mut Few<Tensor>) -> PyResult<Place> {
        tensors.push(Tensor::EMPTY);
        let place = tensors.len() - 1;
        let tensor = &mut tensors[place];
        if !self.view_numpy(value, tensor)? {
            *tensor = self.view_other(name, value)?;
        }
        Ok(tensor.place)
    }

    /// Reads the memory of an array of NumPy into `tensor`; false for another object.
    pub(crate) fn view_numpy(&mut self, value: &Bound<'_, PyAny>, tensor: &mut Tensor) -> PyResult<bool> {
        let is_array = numpy::view(value, tensor)?;
        if is_array {
            self.first.get_or_insert(NUMPY);
        }
        Ok(is_array)
    }

    /// The memory of an array of another library.
    pub(crate) fn view_other(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let kind = Kind::find(value)?;
        let (tensor, kind) = self.lend(name, value, kind)?;
        let first = *self.first.get_or_insert(kind);
        if let Place::Cuda(number) = tensor.place
            && (first.library != kind.library || kind.library == Library::Jax)
        {
            self.is_mixed |= first.library != kind.library;
            wait_for(value, kind.library, number)?;
        }
        Ok(tensor)
    }

    /// A library's array by the fastest way that it offers.
    fn lend(&mut self, name: &str, value: &Bound<'_, PyAny>, kind: Kind) -> PyResult<(Tensor, Kind)> {
        let refused = |error| explain_refusal(value.py(), name, error);
        if kind.library == Library::Torch {
            self.check_torch(name, value)?;
        }
        if let Some(exchange) = kind.exchange {
            // SAFETY: the table is that of the object's type.
            if let Some(tensor) = unsafe { exchange.borrow(value) }.map_err(refused)? {
                return Ok((tensor, kind));
            }
        }
        if let Some(capsule) = make_capsule(value, kind.library).map_err(refused)? {
            return Ok((self.taken.take(&capsule).map_err(refused)?, kind));
        }
        if let Some((tensor, stream)) = interface::view(value).map_err(refused)? {
            if self.first.is_none() {
                self.named_stream = stream;
            }
            return Ok((tensor, kind));
        }
        let mut tensor = Tensor::EMPTY;
        if let Some(array) = numpy::from_buffer(value)?
            && numpy::view(&array, &mut tensor)?
        {
            return Ok((tensor, NUMPY));
        }
        let own_type = value.get_type();
        let own_type = own_type.name()?;
        Err(PyTypeError::new_err(format!(
            "'{name}' is a {own_type}: give a number, or an array with __dlpack__ or the buffer protocol (NumPy, PyTorch, CuPy, JAX, …)"
        )))
    }

    /// Refuses tensors whose gradient would be lost, and lazily negated ones, whose memory holds other values.
    fn check_torch(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = value.py();
        if value.getattr(intern!(py, "requires_grad"))?.is_truthy()? {
            let records = match self.records_gradients {
                Some(records) => records,
                None => *self.records_gradients.insert(records_gradients(py)?),
            };
            if records {
                return Err(PyRuntimeError::new_err(format!(
                    "'{name}' requires a gradient, which this call would lose: use plimsoll.torch.op, torch.no_grad() or detach()"
                )));
            }
        }
        if is_negated(value)? {
            return Err(PyTypeError::new_err(format!("'{name}' is negated lazily: give {name}.resolve_neg()")));
        }
        Ok(())
    }

    /// In whose order the call's work runs.
    pub(crate) fn queue(&self, py: Python<'_>, place: Place) -> PyResult<Queue> {
        let (Place::Cuda(number), Some(first)) = (place, self.first) else { return Ok(Queue::Own) };
        let exchanged = first.exchange.map(|exchange| exchange.current_stream(py, number)).transpose()?.flatten();
        if let Some(stream) = exchanged {
            return Ok(Queue::Cuda(stream));
        }
        let stream = match first.library {
            Library::Torch => current_stream(py, first.library, number)?.getattr("cuda_stream")?.extract()?,
            Library::Cupy => current_stream(py, first.library, number)?.getattr("ptr")?.extract()?,
            Library::Jax => return Ok(Queue::Own),
            Library::Numpy | Library::Other => self.named_stream.unwrap_or(0),
        };
        Ok(Queue::Cuda(stream))
    }

    /// Whether the host must wait for the work, because a library can't know that its arrays are in use.
    pub(crate) fn must_wait(&self, place: Place) -> bool {
        let is_unordered = self.is_mixed || self.first.is_some_and(|first| first.library == Library::Jax);
        place != Place::Host && is_unordered
    }

    /// Waits for the work of a call in [`Arrays::queue`].
    pub(crate) fn wait(&self, py: Python<'_>, place: Place, device: &Device) -> PyResult<()> {
        match (place, self.first) {
            (Place::Cuda(number), Some(Kind { library: library @ (Library::Torch | Library::Cupy), .. })) => {
                current_stream(py, library, number)?.call_method0("synchronize").map(drop)
            }
            _ => py.detach(|| device.wait()).map_err(from_error),
        }
    }

    /// A new row-major array of the library of the call's first array, which [`Arrays::finish`] may have to convert.
    pub(crate) fn allocate<'py>(
        &self,
        py: Python<'py>,
        shape: &[u64],
        dtype: DType,
        place: Place,
    ) -> PyResult<Bound<'py, PyAny>> {
        let first = self.first.unwrap_or(NUMPY);
        if let Some(exchange) = first.exchange
            && let Some(array) = exchange.allocate(py, shape, dtype, place)?
        {
            return Ok(array);
        }
        let named = PyDict::new(py);
        let name = numpy::type_name(dtype);
        let (module, extents) = (first.library, PyTuple::new(py, shape)?);
        let module = match (module, place) {
            (Library::Torch, _) => {
                named.set_item("device", place.to_string())?;
                "torch"
            }
            (Library::Cupy, Place::Cuda(_)) => "cupy",
            (Library::Jax, Place::Cuda(_)) => "jax.numpy",
            (Library::Other, Place::Cuda(_)) => {
                return Err(PyTypeError::new_err("this library's arrays can't be made here: give out="));
            }
            _ => return numpy::allocate(py, shape, dtype),
        };
        let module = py.import(module)?;
        named.set_item("dtype", module.getattr(name)?)?;
        module.getattr("empty")?.call((extents,), Some(&named))
    }

    /// A result as an array of the first array's library: JAX has no arrays that are written, so on the CPU it takes over NumPy's.
    pub(crate) fn finish<'py>(&self, place: Place, made: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let is_taken_over = place == Place::Host && self.first.is_some_and(|first| first.library == Library::Jax);
        if is_taken_over { made.py().import("jax.numpy")?.call_method1("asarray", (made,)) } else { Ok(made) }
    }
}

/// A library's stream for new work.
fn current_stream<'py>(py: Python<'py>, library: Library, number: u32) -> PyResult<Bound<'py, PyAny>> {
    match library {
        Library::Cupy => py.import("cupy.cuda")?.call_method0("get_current_stream"),
        _ => py.import("torch.cuda")?.call_method1("current_stream", (number,)),
    }
}

/// Waits until an array on a GPU has its values.
fn wait_for(value: &Bound<'_, PyAny>, library: Library, number: u32) -> PyResult<()> {
    match library {
        Library::Torch | Library::Cupy => {
            current_stream(value.py(), library, number)?.call_method0("synchronize").map(drop)
        }
        Library::Jax => value.call_method0("block_until_ready").map(drop),
        Library::Numpy | Library::Other => Ok(()),
    }
}

/// Whether PyTorch records operations for gradients in this thread.
fn records_gradients(py: Python<'_>) -> PyResult<bool> {
    static ASK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let ask = ASK.get_or_try_init(py, || py.import("torch")?.getattr("is_grad_enabled").map(Bound::unbind))?;
    ask.bind(py).call0()?.is_truthy()
}

/// `torch.Tensor.is_neg`. A method that is called as a function needs no object that holds it.
fn is_negated(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    static ASK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let ask =
        ASK.get_or_try_init(py, || py.import("torch")?.getattr("Tensor")?.getattr("is_neg").map(Bound::unbind))?;
    ask.bind(py).call1((value,))?.is_truthy()
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
fn make_capsule<'py>(value: &Bound<'py, PyAny>, library: Library) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = value.py();
    let Some(make) = value.getattr_opt(intern!(py, "__dlpack__"))? else { return Ok(None) };
    let named = PyDict::new(py);
    let (kind, _): (i32, i32) = value.call_method0(intern!(py, "__dlpack_device__"))?.extract()?;
    if kind == CUDA {
        match library {
            // The work runs in the library's own stream.
            Library::Torch | Library::Cupy => named.set_item(intern!(py, "stream"), -1)?,
            // The host waited for the array.
            Library::Jax => {}
            // Work in the legacy default stream may use it then.
            Library::Numpy | Library::Other => named.set_item(intern!(py, "stream"), 1)?,
        }
    }
    let old = named.copy()?;
    named.set_item(intern!(py, "max_version"), (1, 0))?;
    match make.call((), Some(&named)) {
        // A library that knows only DLPack before version 1.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => make.call((), Some(&old)).map(Some),
        other => other.map(Some),
    }
}
