//! Errors as Python's exceptions.

use plimsoll::core::Fault;
use plimsoll::elementwise::Error;
use plimsoll::expr::{LayoutError, ParseError};
use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(
    plimsoll,
    ExpressionError,
    PyValueError,
    "A mistake in an expression's text. The message shows the line and the place."
);
pyo3::create_exception!(plimsoll, ShapeError, PyValueError, "Shapes, strides or memory that don't fit together.");
pyo3::create_exception!(
    plimsoll,
    DeviceError,
    PyRuntimeError,
    "Arrays of several devices in one call, or a device that is missing or was lost."
);

pub(crate) fn from_text(error: &ParseError) -> PyErr {
    ExpressionError::new_err(error.to_string())
}

pub(crate) fn from_layout(error: &LayoutError) -> PyErr {
    ShapeError::new_err(error.to_string())
}

pub(crate) fn from_error(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Text(error) => from_text(&error),
        Error::Type { .. } | Error::Kind { .. } | Error::Elements { .. } | Error::Name { .. } => {
            PyTypeError::new_err(text)
        }
        Error::Device { .. } | Error::Selector(_) => DeviceError::new_err(text),
        Error::Layout(error) => from_layout(&error),
        Error::SharedMemory { .. } => PyValueError::new_err(text),
        Error::Fault(fault) => from_fault(&fault, text),
        _ => PyValueError::new_err(text),
    }
}

fn from_fault(fault: &Fault, text: String) -> PyErr {
    match fault {
        Fault::OutOfMemory { .. } => PyMemoryError::new_err(text),
        Fault::Stopped => PyKeyboardInterrupt::new_err(text),
        Fault::Invalid(_) => PyValueError::new_err(text),
        _ => DeviceError::new_err(text),
    }
}
