//! `__cuda_array_interface__`, by which libraries without DLPack, such as Numba, lend memory of a GPU.
//! <https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html>

use plimsoll::expr::DType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;

use crate::error::from_layout;
use crate::tensor::{Place, Tensor};

/// An object's memory and the stream that the interface names; `None` for an object without the interface. The interface doesn't say
/// which GPU the memory is on: the first is assumed.
pub(crate) fn view(value: &Bound<'_, PyAny>) -> PyResult<Option<(Tensor, Option<u64>)>> {
    let Some(interface) = value.getattr_opt(intern!(value.py(), "__cuda_array_interface__"))? else { return Ok(None) };
    let (start, is_read_only): (u64, bool) = interface.get_item("data")?.extract()?;
    let shape: Vec<u64> = interface.get_item("shape")?.extract()?;
    let kind: String = interface.get_item("typestr")?.extract()?;
    let strides: Option<Vec<i64>> = match interface.get_item("strides") {
        Ok(strides) => strides.extract()?,
        Err(_) => None,
    };
    let stream: Option<u64> = match interface.get_item("stream") {
        Ok(stream) => stream.extract()?,
        Err(_) => None,
    };
    let dtype =
        find_dtype(&kind).ok_or_else(|| PyTypeError::new_err(format!("expressions have no type for {kind}")))?;
    let mut tensor = Tensor::new(start, dtype, Place::Cuda(0), is_read_only);
    let size = dtype.bytes() as i64;
    for (dimension, &extent) in shape.iter().enumerate() {
        let stride = strides.as_ref().and_then(|strides| strides.get(dimension)).copied().unwrap_or(0);
        if stride % size != 0 && extent > 1 {
            return Err(PyValueError::new_err(format!(
                "a stride of {stride} B isn't a whole number of {dtype} elements"
            )));
        }
        tensor.push(extent, stride / size).map_err(|error| from_layout(&error))?;
    }
    if strides.is_none() {
        tensor.make_contiguous();
    }
    Ok(Some((tensor, stream)))
}

/// A type by NumPy's short name: the byte order, the kind and the number of bytes.
fn find_dtype(name: &str) -> Option<DType> {
    let kind = name.strip_prefix(['<', '|', '='])?;
    let is_it = |dtype: &DType| {
        let letter = match dtype {
            DType::Bool => 'b',
            DType::F16 | DType::F32 | DType::F64 => 'f',
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => 'i',
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => 'u',
            DType::Bf16 | DType::F8E4M3 | DType::F8E5M2 => return false,
        };
        kind == format!("{letter}{}", dtype.bytes())
    };
    DType::ALL.iter().copied().find(is_it)
}
