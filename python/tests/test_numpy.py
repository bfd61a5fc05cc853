"""Expressions on NumPy arrays."""

import numpy as np
import pytest

pytest.importorskip("hypothesis")
from hypothesis import given
from hypothesis import strategies as st
from oracle import Array, Node, arrays, expressions

import plimsoll

NAMES = ["x", "y", "z"]


def sensitivity(node: Node, names: dict[str, Array], epsilon: float) -> Array:
    """How far the result may be off if every operation has a relative error of epsilon: interval arithmetic to first order."""
    value, error = _with_error(node, names, epsilon)
    return error + epsilon * np.abs(value) + 1e-30


def _with_error(node: Node, names: dict[str, Array], epsilon: float) -> tuple[Array, Array]:
    value = np.asarray(node.value(names), dtype=np.float64)
    if not node.children:
        return value, np.zeros_like(value)
    inner = [_with_error(child, names, epsilon) for child in node.children]
    if node.kind == "*":
        (a, da), (b, db) = inner
        error = np.abs(a) * db + np.abs(b) * da + da * db
    elif node.kind == "sqrt":
        ((a, da),) = inner
        root = np.sqrt(np.abs(a))
        # Near 0 the root of the error itself.
        error = np.minimum(np.sqrt(da), da / np.where(root > 0, root, np.inf) + np.where(root > 0, 0, np.sqrt(da)))
    else:
        # Slopes of at most 1.
        error = sum(da for _, da in inner)
    # A function has a relative error of a few ulps, and is no larger than 1 where its slope is.
    return value, error + 4 * epsilon * np.abs(value)


@given(st.data())
def test_results_are_those_of_numpy_in_float64(data: st.DataObject) -> None:
    node = data.draw(expressions(NAMES).filter(lambda node: not node.has_step()))
    dtype = np.dtype(data.draw(st.sampled_from(["f4", "f8"])))
    shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=0, max_size=4)))
    f = plimsoll.compile(node.text())
    names = {name: data.draw(arrays(shape, dtype)) for name in f.parameters}
    if not names:
        return
    found = f(**names)
    wide = {name: array.astype(np.float64) for name, array in names.items()}
    expected = np.broadcast_arrays(node.value(wide), *wide.values())[0]
    assert found.dtype == dtype and found.shape == expected.shape
    allowed = sensitivity(node, wide, 2.0**-23 if dtype == np.float32 else 2.0**-52)
    assert np.all(np.abs(found - expected) <= allowed), node.text()


INTEGERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]


@given(st.data())
def test_integers_wrap_as_in_numpy(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(INTEGERS)))
    shape = tuple(data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=3)))
    x, y = data.draw(arrays(shape, dtype)), data.draw(arrays(shape, dtype))
    with np.errstate(over="ignore"):
        for text, expected in [
            ("x + y", x + y),
            ("x*y - x", x * y - x),
            ("x & y | ~x", x & y | ~x),
            ("max(x, y)", np.maximum(x, y)),
            ("x // 3 + x % 3", x // dtype.type(3) + x % dtype.type(3)),
            ("x < y", x < y),
        ]:
            names = {"x": x, "y": y} if "y" in text else {"x": x}
            found = plimsoll.compile(text)(**names)
            assert found.dtype == expected.dtype, text
            np.testing.assert_array_equal(found, expected, err_msg=text)


@given(st.data())
def test_out_of_any_layout_gets_the_result_and_nothing_else_changes(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    steps = [data.draw(st.sampled_from([1, 2, -1])) for _ in shape]
    memory = np.full([extent * abs(step) for extent, step in zip(shape, steps)], 77.0, dtype=np.float32)
    out = memory[tuple(slice(None, None, step) for step in steps)]
    x = data.draw(arrays(shape, np.dtype("f4")))
    before = memory.copy()
    before[tuple(slice(None, None, step) for step in steps)] = np.broadcast_to(x * 2, shape)
    full = np.zeros(shape, dtype=np.float32)
    assert plimsoll.compile("x*2 + y")(x, full, out=out) is out
    np.testing.assert_array_equal(memory, before)


def test_parameters_come_in_the_order_of_their_first_mention() -> None:
    assert plimsoll.compile("tanh(a*x + y)").parameters == ["a", "x", "y"]
    assert plimsoll.compile("scalar b: f32\nin w: f32\nout = w*ab + b").parameters == ["b", "w", "ab"]
    assert plimsoll.compile("# b, then a\nin a: f32, b: f32\nout = a*b").parameters == ["a", "b"]
    assert plimsoll.compile("m = 0.9*m + g\nn = m").outputs == ["m", "n"]


@pytest.mark.parametrize(
    ("scalar", "array", "expected"),
    [(2, "f4", "f4"), (2.5, "f4", "f4"), (2.5, "f8", "f8"), (2, "i2", "i2"), (2.5, "i4", "f4"), (True, "u1", "u1"), (np.float64(2.5), "f2", "f2")],
)
def test_numbers_are_weak(scalar: float, array: str, expected: str) -> None:
    found = plimsoll.compile("a*x")(scalar, np.array([3], dtype=array))
    assert found.dtype == np.dtype(expected) and found[0] == scalar * 3


def test_a_float_keeps_its_precision_with_f64_arrays() -> None:
    assert plimsoll.compile("a*x")(0.1, np.ones(1))[0] == 0.1


def test_several_outputs_and_outputs_in_place() -> None:
    x, y = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    s, d = plimsoll.compile("s = x + y\nd = x - y")(x, y)
    np.testing.assert_array_equal([s, d], [[4, 7], [-2, -3]])
    m, n = x.copy(), np.empty(2)
    update = plimsoll.compile("m = 0.5*m + g\nn = m*2")
    returned = update(m, y, out=n)
    assert returned[0] is m and returned[1] is n
    np.testing.assert_array_equal(m, [3.5, 6])
    np.testing.assert_array_equal(n, [7, 12])


def test_an_input_may_be_its_output() -> None:
    x, y = np.arange(5000.0), np.ones(5000)
    assert plimsoll.compile("x*2 + y")(x, y, out=x) is x
    np.testing.assert_array_equal(x, np.arange(5000.0) * 2 + 1)


@pytest.mark.parametrize("n", [5, 70_000])
def test_an_output_may_be_several_inputs_that_are_one_array(n: int) -> None:
    start = np.arange(float(n))
    for text, call, expected in [
        ("2*x + y", lambda f, x: f(x, x, out=x), 3 * start),
        ("2*x + y", lambda f, x: f(x, y=x[:], out=x[:]), 3 * start),
        ("2*x + y", lambda f, x: f(x[::-1], x[::-1], out=x[::-1]), 3 * start),
        ("2*x + y*z", lambda f, x: f(x, np.full(n, 3.0), x, out=x), 5 * start),
        ("2*x + y*z", lambda f, x: f(x, x, x, out=x), 2 * start + start * start),
        ("x = 2*x + y", lambda f, x: f(x, x), 3 * start),
        ("x = 2*x + y\nz = y", lambda f, x: f(x, x), 3 * start),
    ]:
        x, f = start.copy(), plimsoll.compile(text)
        call(f, x)
        np.testing.assert_array_equal(x, expected, err_msg=text)
    s, d = start.copy(), np.zeros(n)
    plimsoll.compile("s = x + y\nd = x - y")(s, s, out=(s, d))
    np.testing.assert_array_equal(s, 2 * start)
    assert not d.any()


def test_arrays_that_overlap_otherwise_are_refused_and_unchanged() -> None:
    x = np.arange(9.0)
    for call in [
        lambda: plimsoll.compile("x + y")(x[1:], x[:-1], out=x[1:]),
        lambda: plimsoll.compile("x + y")(x, x[::-1], out=x),
        lambda: plimsoll.compile("x = x + y")(x[:8], x[1:]),
        lambda: plimsoll.compile("x = x + y")(x[:4], x[:1]),
        lambda: plimsoll.compile("x = x + 1\ny = y + 2")(x, x),
        lambda: plimsoll.compile("s = x + 1\nd = x - 1")(x, out=(x, x)),
        lambda: plimsoll.compile("x + y")(x[:8].reshape(2, 4), x[:8].reshape(4, 2).T, out=x[:8].reshape(2, 4)),
    ]:
        with pytest.raises(ValueError, match="overlaps"):
            call()
    np.testing.assert_array_equal(x, np.arange(9.0))


def test_two_parameters_may_be_one_array() -> None:
    x = np.arange(4.0)
    np.testing.assert_array_equal(plimsoll.compile("x*y")(x, x), x * x)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1, 1)])
def test_small_and_empty_arrays(shape: tuple[int, ...]) -> None:
    found = plimsoll.compile("x + 1")(np.zeros(shape))
    assert found.shape == shape and np.all(found == 1)


def test_large_arrays_use_all_threads_and_are_right() -> None:
    x = (np.arange(3_000_001) % 1000).astype(np.float32)
    np.testing.assert_array_equal(plimsoll.compile("x*x + 1")(x), x * x + 1)


def test_half_precision_is_rounded_once() -> None:
    x = np.array([2048, 1, 3], dtype=np.float16)
    np.testing.assert_array_equal(plimsoll.compile("x + 1 - x")(x), np.ones(3, dtype=np.float16))


def test_an_expression_can_be_copied_and_sent_to_another_process() -> None:
    import pickle

    f = pickle.loads(pickle.dumps(plimsoll.compile("x + 1")))
    assert f(np.zeros(1))[0] == 1 and f.text == "x + 1"
