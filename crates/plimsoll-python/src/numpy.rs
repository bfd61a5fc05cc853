//! NumPy's arrays, read from their own structure: the fields that NumPy 1 and 2 share and that its C interface documents
//! (`PyArrayObject`, `PyArray_Descr`). A call through Python would take longer than the work of a small expression.

use std::ffi::{c_char, c_int};

use plimsoll::expr::DType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::error::from_layout;
use crate::tensor::{Place, Tensor};

#[repr(C)]
struct Array {
    head: ffi::PyObject,
    data: *mut u8,
    rank: c_int,
    dimensions: *const isize,
    /// In bytes.
    strides: *const isize,
    base: *mut ffi::PyObject,
    descriptor: *const Descriptor,
    flags: c_int,
}

#[repr(C)]
struct Descriptor {
    head: ffi::PyObject,
    scalar_type: *mut ffi::PyTypeObject,
    kind: c_char,
    letter: c_char,
    byte_order: c_char,
    flags: c_char,
    number: c_int,
}

/// `NPY_ARRAY_WRITEABLE`.
const WRITABLE: c_int = 0x0400;
/// From this number on, types are of other packages, such as `ml_dtypes`.
const FIRST_FOREIGN: c_int = 256;

/// NumPy's types by number. 7 to 10 are C's `long` and `long long`, all of 64 bits on the supported systems.
fn find_dtype(number: c_int) -> Option<DType> {
    Some(match number {
        0 => DType::Bool,
        1 => DType::I8,
        2 => DType::U8,
        3 => DType::I16,
        4 => DType::U16,
        5 => DType::I32,
        6 => DType::U32,
        7 | 9 => DType::I64,
        8 | 10 => DType::U64,
        11 => DType::F32,
        12 => DType::F64,
        23 => DType::F16,
        _ => return None,
    })
}

/// NumPy's names of types, and those of `ml_dtypes`.
pub(crate) const fn type_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "float64",
        DType::F32 => "float32",
        DType::F16 => "float16",
        DType::Bf16 => "bfloat16",
        DType::F8E4M3 => "float8_e4m3fn",
        DType::F8E5M2 => "float8_e5m2",
        DType::I8 => "int8",
        DType::I16 => "int16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::U8 => "uint8",
        DType::U16 => "uint16",
        DType::U32 => "uint32",
        DType::U64 => "uint64",
        DType::Bool => "bool",
    }
}

/// What is needed of NumPy, once the program has imported it.
struct Library {
    array: Py<PyType>,
    memory_map: Py<PyType>,
    number: Py<PyType>,
    empty: Py<PyAny>,
    /// `numpy.dtype` objects in the order of [`DType::ALL`]; those of `ml_dtypes` are looked up when needed.
    types: Vec<Option<Py<PyAny>>>,
}

static LIBRARY: PyOnceLock<Library> = PyOnceLock::new();

fn load(py: Python<'_>) -> PyResult<&'static Library> {
    LIBRARY.get_or_try_init(py, || {
        let numpy = py.import("numpy")?;
        let find_type =
            |name: &str| -> PyResult<Py<PyType>> { Ok(numpy.getattr(name)?.cast_into::<PyType>()?.unbind()) };
        let types = DType::ALL.iter().map(|&dtype| {
            let made = numpy.getattr("dtype").and_then(|make| make.call1((type_name(dtype),)));
            made.ok().map(Bound::unbind)
        });
        Ok(Library {
            array: find_type("ndarray")?,
            memory_map: find_type("memmap")?,
            number: find_type("generic")?,
            empty: numpy.getattr("empty")?.unbind(),
            types: types.collect(),
        })
    })
}

/// NumPy, if the program has imported it: before that, no argument can be one of its arrays.
fn imported(py: Python<'_>) -> Option<&'static Library> {
    if let Some(library) = LIBRARY.get(py) {
        return Some(library);
    }
    let modules = py.import("sys").and_then(|sys| sys.getattr("modules")).ok()?;
    let is_loaded = modules.cast::<PyDict>().is_ok_and(|modules| modules.contains("numpy").unwrap_or(false));
    if is_loaded { load(py).ok() } else { None }
}

/// Whether a type is this one or derived from it, without `isinstance`, which asks other types first.
fn is_subtype(own: &Bound<'_, PyType>, base: &Bound<'_, PyType>) -> bool {
    // SAFETY: both are types.
    unsafe { ffi::PyType_IsSubtype(own.as_type_ptr(), base.as_type_ptr()) != 0 }
}

/// Reads a NumPy array into `tensor`; false for another object. Large structures are filled and not returned: copies of them take as
/// long as the rest.
pub(crate) fn view(value: &Bound<'_, PyAny>, tensor: &mut Tensor) -> PyResult<bool> {
    let py = value.py();
    let Some(library) = imported(py) else { return Ok(false) };
    let own_type = value.get_type_ptr().cast();
    if own_type != library.array.as_ptr() && own_type != library.memory_map.as_ptr() {
        let kind = value.get_type();
        if !is_subtype(&kind, library.array.bind(py)) {
            return Ok(false);
        }
        let name = kind.name()?;
        return Err(PyTypeError::new_err(format!(
            "{name} has rules of its own (a mask, other operators): give numpy.asarray of it, or its data"
        )));
    }
    // SAFETY: the object is an array, so it has this structure, whose dimensions and strides have `rank` numbers.
    unsafe {
        let array = &*value.as_ptr().cast::<Array>();
        let descriptor = &*array.descriptor;
        let dtype = match find_dtype(descriptor.number) {
            Some(dtype) => dtype,
            None => named_dtype(value, descriptor.number)?,
        };
        if descriptor.byte_order as u8 == b'>' {
            return Err(PyTypeError::new_err("a big-endian array: convert it with .astype(x.dtype.newbyteorder('='))"));
        }
        let is_read_only = array.flags & WRITABLE == 0;
        tensor.reset(array.data as u64, dtype, Place::Host, is_read_only);
        let size = dtype.bytes() as isize;
        for dimension in 0..usize::try_from(array.rank).unwrap_or(0) {
            let (extent, stride) = (*array.dimensions.add(dimension), *array.strides.add(dimension));
            if stride % size != 0 && extent > 1 {
                return Err(PyValueError::new_err(format!(
                    "a stride of {stride} B isn't a whole number of {dtype} elements: copy the array first"
                )));
            }
            tensor.push(extent as u64, (stride / size) as i64).map_err(|error| from_layout(&error))?;
        }
        Ok(true)
    }
}

/// The type of an array by its name, for types of other packages.
fn named_dtype(value: &Bound<'_, PyAny>, number: c_int) -> PyResult<DType> {
    let given = value.getattr("dtype")?;
    let name: String = given.getattr("name")?.extract()?;
    let known = DType::ALL.iter().copied().find(|&dtype| number >= FIRST_FOREIGN && type_name(dtype) == name);
    known
        .ok_or_else(|| PyTypeError::new_err(format!("expressions have no type for NumPy's {given}: convert the array")))
}

/// Whether it is one of NumPy's scalars, such as `numpy.float32(2)`.
pub(crate) fn is_number(value: &Bound<'_, PyAny>) -> bool {
    let py = value.py();
    imported(py).is_some_and(|library| is_subtype(&value.get_type(), library.number.bind(py)))
}

/// A new row-major array.
pub(crate) fn allocate<'py>(py: Python<'py>, shape: &[u64], dtype: DType) -> PyResult<Bound<'py, PyAny>> {
    let library = load(py)?;
    let place = DType::ALL.iter().position(|&known| known == dtype).unwrap_or(0);
    let kind = match &library.types[place] {
        Some(kind) => kind.bind(py).clone(),
        None => {
            let module = py.import("ml_dtypes").map_err(|_| {
                let text =
                    format!("NumPy has no {dtype}: install ml_dtypes, or give an array of 8 or 16 bits with out=");
                PyTypeError::new_err(text)
            })?;
            module.getattr(type_name(dtype))?
        }
    };
    library.empty.bind(py).call1((PyTuple::new(py, shape)?, kind))
}

/// A view of an object with Python's buffer protocol, such as a `bytearray`; `None` for another object.
pub(crate) fn from_buffer<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = value.py();
    let Ok(memory) = py.import("builtins")?.getattr("memoryview")?.call1((value,)) else { return Ok(None) };
    let numpy =
        py.import("numpy").map_err(|_| PyTypeError::new_err("memory without DLPack needs NumPy: install numpy"))?;
    numpy.getattr("asarray")?.call1((memory,)).map(Some)
}
