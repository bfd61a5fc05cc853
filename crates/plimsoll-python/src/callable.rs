//! The type of compiled expressions: [`Expression`] with the protocol by which Python calls functions without making a tuple and a
//! dict of their arguments (PEP 590). PyO3 has no slot for it, so the type is made by hand: derived from PyO3's, with a pointer to
//! [`call`] behind the object. The stable interface names the protocol from Python 3.12 on; 3.10 and 3.11 have it too.

use std::any::Any;
use std::ffi::{c_int, c_uint, c_ulong};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

use pyo3::exceptions::PySystemError;
use pyo3::ffi;
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

use crate::expression::{Expression, Named};
use crate::invoke::invoke;
use crate::tensor::Few;

/// The type, and where its objects have the pointer.
struct Callable {
    kind: Py<PyType>,
    offset: usize,
}

/// Flags of types that can be called so (PEP 590), and that nobody changes.
const VECTORCALL: c_ulong = 1 << 11;
const IMMUTABLE: c_ulong = 1 << 8;
/// The bit of a number of arguments that says that the place before them may be used.
const OFFSET: usize = 1 << (usize::BITS - 1);

fn callable(py: Python<'_>) -> PyResult<&'static Callable> {
    static CALLABLE: PyOnceLock<Callable> = PyOnceLock::new();
    CALLABLE.get_or_try_init(py, || Callable::new(py))
}

/// The type.
pub(crate) fn kind(py: Python<'_>) -> PyResult<&'static Py<PyType>> {
    callable(py).map(|callable| &callable.kind)
}

/// A compiled expression.
pub(crate) fn make<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    let callable = callable(py)?;
    let object = callable.kind.bind(py).call1((text,))?;
    // SAFETY: objects of this type have room for the pointer there, which Python reads only in calls; nobody else has this one yet.
    unsafe {
        object.as_ptr().cast::<u8>().add(callable.offset).cast::<ffi::vectorcallfunc>().write(call);
    }
    Ok(object)
}

impl Callable {
    /// Derives the type. Objects that weren't made by [`make`] have no pointer; Python then calls them by the base's `__call__`.
    fn new(py: Python<'_>) -> PyResult<Self> {
        let base = py.get_type::<Expression>();
        let offset: usize = base.getattr("__basicsize__")?.extract()?;
        if !offset.is_multiple_of(align_of::<ffi::vectorcallfunc>()) {
            return Err(PySystemError::new_err(format!("an object of {offset} B has no room for a pointer behind it")));
        }
        let pointer = ffi::PyMemberDef {
            name: c"__vectorcalloffset__".as_ptr(),
            type_code: ffi::Py_T_PYSSIZET,
            offset: offset as ffi::Py_ssize_t,
            flags: ffi::Py_READONLY,
            doc: std::ptr::null(),
        };
        // Types keep their members for ever.
        let members = Box::leak(Box::new([pointer, ffi::PyMemberDef::default()]));
        let about = c"An expression that can be called with arrays and numbers.";
        let mut slots = [
            ffi::PyType_Slot { slot: ffi::Py_tp_members, pfunc: members.as_mut_ptr().cast() },
            ffi::PyType_Slot { slot: ffi::Py_tp_doc, pfunc: about.as_ptr().cast_mut().cast() },
            ffi::PyType_Slot { slot: 0, pfunc: null_mut() },
        ];
        let mut spec = ffi::PyType_Spec {
            name: c"plimsoll.Expression".as_ptr(),
            basicsize: (offset + size_of::<ffi::vectorcallfunc>()) as c_int,
            itemsize: 0,
            flags: (ffi::Py_TPFLAGS_DEFAULT | VECTORCALL | IMMUTABLE) as c_uint,
            slots: slots.as_mut_ptr(),
        };
        // SAFETY: the description is complete, its lists end with zeros, and its strings and members live for ever. The base is a type
        // that can be derived from, of `offset` bytes.
        let kind = unsafe {
            let bases = base.as_ptr();
            Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpecWithBases(&raw mut spec, bases))?
        };
        Ok(Self { kind: kind.cast_into::<PyType>()?.unbind(), offset })
    }
}

/// Calls an expression: Python's `vectorcallfunc`.
///
/// # Safety
/// `object` is an [`Expression`]. `arguments` are as many objects as `count` says without its highest bit, then one for each of
/// `names`, a tuple of strings or null. The thread is attached to the interpreter.
unsafe extern "C" fn call(
    object: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let call = |py| {
        // SAFETY: the caller's promise.
        unsafe { call_attached(py, object, (arguments, count & !OFFSET), names) }
    };
    let raise = |py: Python<'_>, error: PyErr| {
        error.restore(py);
        null_mut()
    };
    // SAFETY: Python calls this function, so the thread is attached.
    let py = unsafe { Python::assume_attached() };
    match catch_unwind(AssertUnwindSafe(|| call(py))) {
        Ok(Ok(result)) => result.into_ptr(),
        Ok(Err(error)) => raise(py, error),
        Err(payload) => raise(py, PanicException::new_err(describe(&*payload))),
    }
}

/// # Safety
/// As for [`call`].
unsafe fn call_attached<'py>(
    py: Python<'py>,
    object: *mut ffi::PyObject,
    (arguments, count): (*const *mut ffi::PyObject, usize),
    names: *mut ffi::PyObject,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the caller's promises: the objects live during the call, and the first is an expression.
    let (object, names, argument) = unsafe {
        let object = Borrowed::from_ptr(py, object);
        let names = Borrowed::from_ptr_or_opt(py, names);
        let argument = |place: usize| Borrowed::from_ptr(py, *arguments.add(place)).to_owned();
        (object, names, argument)
    };
    let expression = object.cast::<Expression>()?;
    let mut named: Few<Named<'py>> = Few::new();
    let mut out = None;
    if let Some(names) = names {
        let word = pyo3::intern!(py, "out");
        for (place, name) in names.cast::<PyTuple>()?.iter_borrowed().enumerate() {
            let value = argument(count + place);
            // Names that a program writes are the same object; others are compared.
            if name.is(word) || name.eq(word)? {
                out = Some(value).filter(|value| !value.is_none());
            } else {
                named.push((name.to_owned(), value));
            }
        }
    }
    let expression = expression.get();
    let bound = expression.bind((0..count).map(argument), named)?;
    invoke(py, expression, &bound, out.as_ref())
}

/// A panic's message.
fn describe(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}
