"""Arrays by DLPack, and by an interface without it."""

import ctypes
import gc
import sys

import numpy as np
import pytest

import plimsoll

ADD = plimsoll.compile("x + y")


class Lender:
    """An array of an unknown library, with DLPack alone. It counts capsules that were asked for."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.asked = array, 0

    def __dlpack__(self, **named):
        self.asked += 1
        return self.array.__dlpack__(**named)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OldLender(Lender):
    """The same before DLPack 1.0."""

    def __dlpack__(self):
        return self.array.__dlpack__()


@pytest.mark.parametrize("lender", [Lender, OldLender])
def test_capsules_of_both_versions_are_taken_and_given_back(lender) -> None:
    x = np.arange(6.0).reshape(2, 3).T
    before = sys.getrefcount(x)
    for _ in range(5):
        np.testing.assert_array_equal(ADD(lender(x), 1.0), x + 1)
    gc.collect()
    assert sys.getrefcount(x) == before


def test_memory_is_given_back_if_the_call_fails() -> None:
    x = np.arange(3.0)
    before = sys.getrefcount(x)
    for _ in range(5):
        with pytest.raises(plimsoll.ShapeError):
            ADD(Lender(x), np.zeros(4))
    gc.collect()
    assert sys.getrefcount(x) == before


def test_a_capsule_can_be_used_once() -> None:
    class Once(Lender):
        def __dlpack__(self, **named):
            self.capsule = getattr(self, "capsule", None) or super().__dlpack__(**named)
            return self.capsule

    lender = Once(np.ones(2))
    ADD(lender, 1)
    with pytest.raises(TypeError, match="used once|used before"):
        ADD(lender, 1)


def test_read_only_arrays_are_read_and_not_written() -> None:
    x = np.arange(3.0)
    x.flags.writeable = False
    assert ADD(Lender(x), 1).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="read-only"):
        ADD(np.ones(3), 1, out=Lender(x))


def test_objects_of_other_devices_are_refused() -> None:
    class Elsewhere(Lender):
        """As on a device of Intel's, by the capsule's device alone."""

        def __dlpack__(self, **named):
            capsule = super().__dlpack__(**named)
            name = ctypes.pythonapi.PyCapsule_GetName
            name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
            pointer = ctypes.pythonapi.PyCapsule_GetPointer
            pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            address = pointer(capsule, name(capsule))
            # DLManagedTensorVersioned: version, context, deleter, flags, then the tensor: its data, then the device.
            ctypes.c_int32.from_address(address + 8 + 8 + 8 + 8 + 8).value = 14
            return capsule

    with pytest.raises((plimsoll.DeviceError, TypeError), match="device 14"):
        ADD(Elsewhere(np.ones(2)), 1)


@pytest.mark.parametrize("answer", [None, 3, "capsule", (1, 2)])
def test_wrong_answers_of_a_library_are_errors(answer) -> None:
    class Wrong(Lender):
        def __dlpack__(self, **named):
            return answer

    with pytest.raises((TypeError, BufferError)):
        ADD(Wrong(np.ones(2)), 1)


def test_ml_dtypes_are_known() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([1, 2, 3], dtype=ml_dtypes.bfloat16)
    found = ADD(x, 1)
    assert found.dtype == ml_dtypes.bfloat16 and found.tolist() == [2, 3, 4]
    quantised = plimsoll.compile("y: f8e4m3 = x*s")(np.array([1, 500], dtype=np.float32), 2.0)
    assert quantised.dtype == ml_dtypes.float8_e4m3fn


def test_jax_arrays_are_read_and_results_are_jax_arrays() -> None:
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(6, dtype="float32").reshape(2, 3)
    found = plimsoll.compile("x*2 + a")(x, 0.5)
    assert isinstance(found, jax.Array)
    np.testing.assert_array_equal(np.asarray(found), np.arange(6).reshape(2, 3) * 2 + 0.5)
