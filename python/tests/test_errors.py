"""Wrong arguments get the right exception, and nothing is written."""

import array
import datetime

import numpy as np
import pytest

import plimsoll

X = np.zeros(4, dtype=np.float32)
ADD = plimsoll.compile("x + y")


def test_a_mistake_in_the_text_is_shown_with_its_place() -> None:
    with pytest.raises(plimsoll.ExpressionError, match=r"1:5: .*\n.*y = foo\(x\)\n +\^\^\^"):
        plimsoll.compile("y = foo(x)")
    for text in ["", "x +", "1 = x", "x\0", "a" * 2_000_000, "(" * 500]:
        with pytest.raises(ValueError):
            plimsoll.compile(text)
    with pytest.raises(TypeError):
        plimsoll.compile(3)


def test_operations_of_integers_refuse_floats_when_called() -> None:
    f = plimsoll.compile("x & 3")
    np.testing.assert_array_equal(f(np.arange(6)), np.arange(6) & 3)
    with pytest.raises(plimsoll.ExpressionError):
        f(X)


READ_ONLY = np.zeros(4, dtype=np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ADD(X), TypeError, "'y' is missing"),
        (lambda: ADD(X, X, X), TypeError, "3 arguments"),
        (lambda: ADD(X, X, z=1), TypeError, "no 'z'"),
        (lambda: ADD(X, X, x=X), TypeError, "given twice"),
        (lambda: ADD(1, 2), TypeError, "no array"),
        (lambda: ADD([1.0], X), TypeError, "is a list"),
        (lambda: ADD("x", X), TypeError, "is a str"),
        (lambda: ADD(None, X), TypeError, "is a NoneType"),
        (lambda: ADD(1j, X), TypeError, "is a complex"),
        (lambda: ADD(2**70, X), OverflowError, "64 bits"),
        (lambda: ADD(np.datetime64("2026-01-01"), X), TypeError, "datetime64"),
        (lambda: ADD(datetime.date(2026, 1, 1), X), TypeError, "is a date"),
        (lambda: ADD(X.astype(">f4"), X), TypeError, "big-endian"),
        (lambda: ADD(np.array([object()]), X), TypeError, "object"),
        (lambda: ADD(np.array(["a"]), X), TypeError, "no type"),
        (lambda: ADD(X.astype(complex), X), TypeError, "complex128"),
        (lambda: ADD(np.zeros(4, dtype=[("a", "f4")]), X), TypeError, "no type"),
        (lambda: ADD(np.ma.masked_array(X, X == 0), X), TypeError, "MaskedArray"),
        (lambda: ADD(np.zeros((1,) * 9), X), plimsoll.ShapeError, "9 dimensions"),
        (lambda: ADD(X, np.zeros(3, dtype=np.float32)), plimsoll.ShapeError, r"\[3\].*\[4\]"),
        (lambda: ADD(X, X, out=np.zeros(5, dtype=np.float32)), plimsoll.ShapeError, r"\[5\].*\[4\]"),
        (lambda: ADD(X, X, out=np.zeros(4)), TypeError, "f32.*f64"),
        (lambda: ADD(X, X, out=READ_ONLY), ValueError, "read-only"),
        (lambda: ADD(X, X, out=(X.copy(), X.copy())), TypeError, "2 arrays"),
        (lambda: ADD(X, X, out=3), TypeError, "is a int"),
        (lambda: ADD(X[1:], X[1:], out=X[:-1]), ValueError, "overlaps"),
        (lambda: ADD(X, X, out=np.broadcast_to(np.zeros(1, dtype=np.float32), 4)), ValueError, "read-only"),
        (lambda: ADD(X, 1, out=np.lib.stride_tricks.as_strided(X.copy(), (4,), (0,))), ValueError, "share memory"),
        (lambda: plimsoll.compile("x = x + 1")(READ_ONLY), ValueError, "read-only"),
        (lambda: plimsoll.compile("x = x + y")(X, np.zeros((2, 4), dtype=np.float32)), ValueError, "broadcast|shape"),
        (lambda: plimsoll.compile("in x: f64\ny = x")(X), TypeError, "declared as f64"),
        (lambda: plimsoll.compile("in x: f64\ny = x")(1.0), TypeError, "a number was given"),
        (lambda: plimsoll.compile("scalar a: f32\ny = a*x")(X, X), TypeError, "an array was given"),
    ],
)
def test_wrong_arguments_are_refused(call, error, words: str) -> None:
    with pytest.raises(error, match=words):
        call()
    assert not X.any()


def test_a_stride_within_an_element_is_refused() -> None:
    records = np.zeros(4, dtype=[("a", "u1"), ("b", "f4")])
    with pytest.raises(ValueError, match="stride of 5 B"):
        ADD(records["b"], 1)


def test_unaligned_memory_is_refused() -> None:
    memory = np.zeros(17, dtype=np.uint8)
    with pytest.raises(ValueError, match="multiple|aligned"):
        ADD(memory[1:].view("f4"), 1)


def test_numbers_of_any_kind_are_kept() -> None:
    nan = plimsoll.compile("a + x")(float("nan"), X)
    assert np.isnan(nan).all()
    assert np.isinf(plimsoll.compile("a + x")(float("inf"), X)).all()


def test_objects_with_the_buffer_protocol_are_arrays() -> None:
    assert plimsoll.compile("x + 1")(array.array("f", [1, 2])).tolist() == [2, 3]
    assert plimsoll.compile("x + 1")(bytearray(b"\x01\xff")).tolist() == [2, 0]
    out = array.array("f", [0, 0])
    plimsoll.compile("x + 1")(array.array("f", [1, 2]), out=out)
    assert out.tolist() == [2, 3]
    with pytest.raises(ValueError, match="read-only"):
        plimsoll.compile("x + 1")(bytearray(1), out=bytes(1))
