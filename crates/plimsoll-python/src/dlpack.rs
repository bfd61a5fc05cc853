//! DLPack, the exchange of tensors between array libraries: its structures (version 1), capsules of both kinds, and the table of
//! functions by which a library lends its tensors without Python calls. <https://dmlc.github.io/dlpack/latest/c_api.html> has the
//! meaning of every field.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

use plimsoll::expr::DType;
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::error::{DeviceError, from_layout};
use crate::tensor::{Place, Tensor};

/// The version of DLPack that this module knows. Later minor versions only add devices and types.
const MAJOR: u32 = 1;
const CPU: i32 = 1;
pub(crate) const CUDA: i32 = 2;
/// Pinned host memory of CUDA.
const CUDA_HOST: i32 = 3;
/// The flag of a tensor that must not be written.
const READ_ONLY: u64 = 1;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct DlTensor {
    data: *mut c_void,
    device_kind: i32,
    device_number: i32,
    rank: i32,
    type_kind: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// A tensor of DLPack before version 1.
#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: DlTensor,
}

type SetError = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

/// `DLPackExchangeAPI`, which a library's tensor type offers as `__dlpack_c_exchange_api__`. It lives as long as the library.
#[repr(C)]
pub(crate) struct Exchange {
    major: u32,
    minor: u32,
    previous: *mut c_void,
    allocate: Option<unsafe extern "C" fn(*mut DlTensor, *mut *mut Versioned, *mut c_void, SetError) -> c_int>,
    managed_from_object: Option<unsafe extern "C" fn(*mut c_void, *mut *mut Versioned) -> c_int>,
    object_from_managed: Option<unsafe extern "C" fn(*mut Versioned, *mut *mut c_void) -> c_int>,
    borrow: Option<unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> c_int>,
    current_stream: Option<unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int>,
}

/// The table of a tensor type, if it has one of a version that this module knows.
pub(crate) fn find_exchange(kind: &Bound<'_, PyAny>) -> Option<&'static Exchange> {
    let capsule = kind.getattr_opt(pyo3::intern!(kind.py(), "__dlpack_c_exchange_api__")).ok()??;
    let pointer = capsule_pointer(&capsule, c"dlpack_exchange_api")?;
    // SAFETY: a capsule of this name holds a table that is never freed.
    let table = unsafe { &*pointer.cast::<Exchange>() };
    (table.major == MAJOR).then_some(table)
}

/// The pointer of a capsule with this name; `None` for another object or another name.
fn capsule_pointer(object: &Bound<'_, PyAny>, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: both functions accept any object, and the second is called for a valid capsule of that name.
    unsafe {
        let is_it = ffi::PyCapsule_IsValid(object.as_ptr(), name.as_ptr()) != 0;
        is_it.then(|| ffi::PyCapsule_GetPointer(object.as_ptr(), name.as_ptr()))
    }
}

/// A plimsoll type as DLPack's kind and bits.
const fn type_code(dtype: DType) -> (u8, u8) {
    let kind = match dtype {
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => 0,
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => 1,
        DType::F16 | DType::F32 | DType::F64 => 2,
        DType::Bf16 => 4,
        DType::Bool => 6,
        DType::F8E4M3 => 10,
        DType::F8E5M2 => 12,
    };
    (kind, 8 * dtype.bytes() as u8)
}

fn find_dtype(tensor: &DlTensor) -> PyResult<DType> {
    let code = (tensor.type_kind, tensor.bits);
    let dtype = DType::ALL.iter().copied().find(|&dtype| tensor.lanes == 1 && type_code(dtype) == code);
    dtype.ok_or_else(|| {
        let (kind, bits, lanes) = (tensor.type_kind, tensor.bits, tensor.lanes);
        PyTypeError::new_err(format!(
            "expressions have no type for DLPack's kind {kind} of {bits} bits and {lanes} lanes"
        ))
    })
}

fn find_place(tensor: &DlTensor) -> PyResult<Place> {
    match tensor.device_kind {
        CPU | CUDA_HOST => Ok(Place::Host),
        CUDA => Ok(Place::Cuda(tensor.device_number as u32)),
        kind => Err(DeviceError::new_err(format!(
            "expressions run on CPUs and on NVIDIA GPUs, not on DLPack's device {kind}: copy the tensor to one of them"
        ))),
    }
}

/// Copies a description.
///
/// # Safety
/// `shape` and, unless it is null, `strides` point to `rank` numbers each.
unsafe fn read(given: &DlTensor, is_read_only: bool) -> PyResult<Tensor> {
    let start = (given.data as u64).wrapping_add(given.byte_offset);
    let mut tensor = Tensor::new(start, find_dtype(given)?, find_place(given)?, is_read_only);
    for dimension in 0..usize::try_from(given.rank).unwrap_or(0) {
        // SAFETY: the caller's promise.
        let (extent, stride) = unsafe {
            let stride = if given.strides.is_null() { 0 } else { *given.strides.add(dimension) };
            (*given.shape.add(dimension), stride)
        };
        tensor.push(extent.max(0) as u64, stride).map_err(|error| from_layout(&error))?;
    }
    if given.strides.is_null() {
        tensor.make_contiguous();
    }
    if given.data.is_null() && !tensor.shape().contains(&0) {
        return Err(PyBufferError::new_err("the tensor has no memory"));
    }
    Ok(tensor)
}

/// Tensors that were taken from capsules. They are given back when this is dropped.
#[derive(Default)]
pub(crate) struct Taken(Vec<TakenTensor>);

enum TakenTensor {
    Old(*mut Managed),
    Versioned(*mut Versioned),
}

impl Drop for Taken {
    fn drop(&mut self) {
        for tensor in self.0.drain(..) {
            // SAFETY: each came from a capsule whose ownership `Taken::take` took over, and is given back once.
            unsafe {
                match tensor {
                    TakenTensor::Old(managed) => (*managed).deleter.into_iter().for_each(|delete| delete(managed)),
                    TakenTensor::Versioned(managed) => {
                        (*managed).deleter.into_iter().for_each(|delete| delete(managed));
                    }
                }
            }
        }
    }
}

impl Taken {
    /// Takes over the tensor of a capsule of either kind.
    pub(crate) fn take(&mut self, capsule: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        // SAFETY: capsules of these names hold these structures, whose ownership passes to whoever renames the capsule. A producer's
        // shape and strides have `rank` numbers.
        unsafe {
            if let Some(pointer) = capsule_pointer(capsule, c"dltensor_versioned") {
                let managed = pointer.cast::<Versioned>();
                if (*managed).major != MAJOR {
                    let version = (*managed).major;
                    return Err(PyBufferError::new_err(format!("DLPack {version} is newer than this package knows")));
                }
                ffi::PyCapsule_SetName(capsule.as_ptr(), c"used_dltensor_versioned".as_ptr());
                self.0.push(TakenTensor::Versioned(managed));
                return read(&(*managed).tensor, (*managed).flags & READ_ONLY != 0);
            }
            if let Some(pointer) = capsule_pointer(capsule, c"dltensor") {
                let managed = pointer.cast::<Managed>();
                ffi::PyCapsule_SetName(capsule.as_ptr(), c"used_dltensor".as_ptr());
                self.0.push(TakenTensor::Old(managed));
                return read(&(*managed).tensor, false);
            }
        }
        Err(PyBufferError::new_err("this is no capsule of DLPack, or it was used before: a capsule can be used once"))
    }
}

impl Exchange {
    /// A tensor's description, without taking the tensor.
    ///
    /// # Errors
    /// The library's own.
    ///
    /// # Safety
    /// `object` is of the type that offered this table.
    pub(crate) unsafe fn borrow(&self, object: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
        let Some(borrow) = self.borrow else { return Ok(None) };
        let mut tensor = DlTensor {
            data: null_mut(),
            device_kind: 0,
            device_number: 0,
            rank: 0,
            type_kind: 0,
            bits: 0,
            lanes: 0,
            shape: null_mut(),
            strides: null_mut(),
            byte_offset: 0,
        };
        // SAFETY: the caller's promise. The shape and the strides stay valid while the object lives, which the caller's reference keeps.
        unsafe {
            if borrow(object.as_ptr().cast(), &raw mut tensor) != 0 {
                return Err(PyErr::fetch(object.py()));
            }
            read(&tensor, false).map(Some)
        }
    }

    /// The library's stream for work on a CUDA device.
    pub(crate) fn current_stream(&self, py: Python<'_>, number: u32) -> PyResult<Option<u64>> {
        let Some(current) = self.current_stream else { return Ok(None) };
        let mut stream = null_mut();
        // SAFETY: the table's own function, with a place for its result.
        match unsafe { current(CUDA, number as i32, &raw mut stream) } {
            0 => Ok(Some(stream as u64)),
            _ => Err(PyErr::fetch(py)),
        }
    }

    /// A new row-major tensor of the library; `None` if the table can't allocate.
    pub(crate) fn allocate<'py>(
        &self,
        py: Python<'py>,
        shape: &[u64],
        dtype: DType,
        place: Place,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (Some(allocate), Some(object_from)) = (self.allocate, self.object_from_managed) else { return Ok(None) };
        let (device_kind, device_number) = match place {
            Place::Host => (CPU, 0),
            Place::Cuda(number) => (CUDA, number as i32),
        };
        let (type_kind, bits) = type_code(dtype);
        let mut extents = [0_i64; plimsoll::expr::graph::MAX_RANK];
        extents.iter_mut().zip(shape).for_each(|(extent, &given)| *extent = given as i64);
        let mut like = DlTensor {
            data: null_mut(),
            device_kind,
            device_number,
            rank: shape.len() as i32,
            type_kind,
            bits,
            lanes: 1,
            shape: extents.as_mut_ptr(),
            strides: null_mut(),
            byte_offset: 0,
        };
        let mut managed = null_mut();
        let mut message = String::new();
        // SAFETY: `like` and its extents outlive the call, and `keep_message` gets the string that it expects. A tensor that was
        // allocated is passed on once.
        unsafe {
            let place = (&raw mut message).cast();
            if allocate(&raw mut like, &raw mut managed, place, keep_message) != 0 {
                return Err(PyErr::take(py).unwrap_or_else(|| PyMemoryError::new_err(message)));
            }
            let mut object = null_mut();
            if object_from(managed, &raw mut object) != 0 {
                return Err(PyErr::fetch(py));
            }
            Bound::from_owned_ptr_or_err(py, object.cast()).map(Some)
        }
    }
}

/// Keeps an allocator's message.
///
/// # Safety
/// `place` is a `String`; `message` ends with a zero.
unsafe extern "C" fn keep_message(place: *mut c_void, _kind: *const c_char, message: *const c_char) {
    // SAFETY: the caller's promise.
    unsafe { *place.cast::<String>() = CStr::from_ptr(message).to_string_lossy().into_owned() };
}
