"""How Python calls an expression: by position, by name, from tuples and dicts, and from several threads."""

import sys
import threading

import pytest

import plimsoll

np = pytest.importorskip("numpy")
AXPY = plimsoll.compile("a*x + y")


def test_all_ways_to_call_give_the_same_and_keep_no_reference() -> None:
    x, out = np.ones(8, dtype=np.float32), np.empty(8, dtype=np.float32)
    counts = sys.getrefcount(x), sys.getrefcount(out)
    for _ in range(100):
        assert AXPY(0.5, x, x, out=out) is out and AXPY(0.5, x, y=x, out=out) is out
        assert AXPY(*(0.5, x, x), **{"out": out}) is out and AXPY(**{"a": 0.5, "x": x, "y": x, "o" + "ut": out}) is out
        assert AXPY.__call__(0.5, x, x, out=out) is out
        assert AXPY(0.5, x, x, out=None)[0] == 1.5
    assert out.tolist() == [1.5] * 8
    assert (sys.getrefcount(x), sys.getrefcount(out)) == counts


def test_the_type_makes_expressions_and_can_not_be_changed() -> None:
    made = plimsoll.Expression("x + 1")
    assert type(made) is type(AXPY) is plimsoll.Expression and made.parameters == ["x"]
    assert made(np.zeros(1))[0] == 1
    with pytest.raises(plimsoll.ExpressionError):
        plimsoll.Expression("x +")
    with pytest.raises(TypeError):
        plimsoll.Expression.text = "y"  # type: ignore[misc, assignment]
    with pytest.raises(TypeError):
        type("Derived", (plimsoll.Expression,), {})


@pytest.mark.parametrize(
    ("positional", "named", "words"),
    [
        ((), {}, "'a' is missing"),
        ((1, 2, 3, 4), {}, "4 arguments given"),
        ((1, 2, 3), {"q": 1}, "no 'q'"),
        ((1, 2, 3), {"a": 1}, "'a' was given twice"),
        ((1, np.ones(2), 3), {"out": 3}, "'out' is a int"),
    ],
)
def test_wrong_numbers_and_names_are_errors(positional: tuple, named: dict, words: str) -> None:
    for call in (AXPY, AXPY.__call__):
        with pytest.raises(TypeError, match=words):
            call(*positional, **named)


def test_threads_that_use_new_types_at_once_get_right_results() -> None:
    f, wrong = plimsoll.compile("x + y"), []

    def work(dtype: str) -> None:
        x = np.arange(50).astype(dtype)
        wrong.extend(dtype for _ in range(200) if not np.array_equal(f(x, x), x + x))

    threads = [threading.Thread(target=work, args=(dtype,)) for dtype in ["f4", "f8", "i4", "i8", "u1", "f4", "f8", "i4"]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
