"""Several threads, forked processes, and references over many calls."""

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import plimsoll


def test_eight_threads_call_one_expression_with_different_types() -> None:
    f = plimsoll.compile("x*y + 1")
    wrong: list[str] = []

    def work(number: int) -> None:
        dtype = ["f4", "f8", "i4", "u1"][number % 4]
        for size in [1, 100, 5000, 200_000] * 5:
            x = (np.arange(size) % 10).astype(dtype)
            if not np.array_equal(f(x, x), x * x + x.dtype.type(1)):
                wrong.append(f"{dtype} {size}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_calls_expressions() -> None:
    # In a process of its own: pytest's threads are of no concern here.
    program = """
import os, signal, numpy as np, plimsoll
f, x = plimsoll.compile("x*2"), np.ones(4_000_000, dtype=np.float32)
f(x)
children = [os.fork() for _ in range(1)]
if 0 in children:
    signal.alarm(50)
    os._exit(0 if (f(x) == 2).all() and (f(x[:10]) == 2).all() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
assert (f(x) == 2).all()
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_references_and_memory_stay_flat() -> None:
    resource = pytest.importorskip("resource")
    f = plimsoll.compile("a*x + y")
    x, y, out = np.ones(16), np.ones(16), np.empty(16)
    for _ in range(2000):
        f(0.5, x, y, out=out)
    counts = [sys.getrefcount(each) for each in (x, y, out, f)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(100_000):
        f(0.5, x, y, out=out)
    gc.collect()
    assert [sys.getrefcount(each) for each in (x, y, out, f)] == counts
    # A leak of one byte per call would not be seen, one of any object is: the smallest takes 16 bytes, 1.6 MB in all.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1000
