//! Python's and NumPy's numbers as scalars.

use plimsoll::expr::{DType, Value};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

use crate::numpy;

/// What kind of scalar a number is. Scalars are weak: with an array of the same or a higher kind they take its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberKind {
    Bool,
    Integer,
    Float,
}

impl NumberKind {
    /// The scalar's own type. A float is f32, as a float written in the text is, unless f64 arrays are involved.
    pub(crate) const fn dtype(self, has_f64: bool) -> DType {
        match self {
            Self::Bool => DType::Bool,
            Self::Integer => DType::I64,
            Self::Float if has_f64 => DType::F64,
            Self::Float => DType::F32,
        }
    }
}

/// Whether it is a float of Python itself.
pub(crate) fn is_float(value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyFloat>()
}

/// A number of Python or of NumPy; `None` for any other object.
pub(crate) fn read(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<(NumberKind, Value)>> {
    if is_float(value) {
        return Ok(Some((NumberKind::Float, Value::Float(value.extract()?))));
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Some((NumberKind::Bool, Value::Bool(value.extract()?))));
    }
    if value.is_instance_of::<PyInt>() {
        let number: i64 = value.extract().map_err(|_| {
            PyOverflowError::new_err(format!("'{name}' is an integer beyond 64 bits: give a float, or an array"))
        })?;
        return Ok(Some((NumberKind::Integer, Value::Int(number.into()))));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Some((NumberKind::Float, Value::Float(value.extract()?))));
    }
    if numpy::is_number(value) {
        let number = value.call_method0("item")?;
        let is_known = !numpy::is_number(&number);
        let read = if is_known { read(name, &number)? } else { None };
        let own_type = value.get_type();
        return match read {
            Some(read) => Ok(Some(read)),
            None => Err(PyTypeError::new_err(format!("'{name}' is a {}: give a real number", own_type.name()?))),
        };
    }
    Ok(None)
}
