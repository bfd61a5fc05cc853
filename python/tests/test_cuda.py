"""Arrays on a GPU: streams, recordings, several libraries, lists of arrays."""

import threading

import numpy as np
import pytest

import plimsoll

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("PyTorch sees no CUDA device", allow_module_level=True)

ADD = plimsoll.compile("x + y")
AXPY = plimsoll.compile("a*x + y")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int8", "int32", "int64", "uint8", "bool"])
def test_results_are_those_of_pytorch(dtype: str) -> None:
    x = (torch.arange(1000, device="cuda") % 50).reshape(10, 100).to(getattr(torch, dtype))
    if dtype == "bool":
        assert torch.equal(plimsoll.compile("x & y")(x, x.flip(0)), x & x.flip(0))
        return
    found = ADD(x.T, 1)
    assert found.dtype == x.dtype and found.device == x.device
    assert torch.equal(found, x.T + 1)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (33,), (3, 0), (5, 1, 7), (129, 257)])
def test_any_layout_is_right_and_out_is_written(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, device="cuda")
    y = torch.randn(shape[-1:] if shape else (), device="cuda")
    assert torch.equal(ADD(x, y), x + y)
    memory = torch.full((*shape, 2), 7.0, device="cuda")
    out = memory[..., 0]
    assert ADD(x, y, out=out) is out
    assert torch.equal(out, x + y) and torch.all(memory[..., 1] == 7)
    if x.dim() == 2:
        assert torch.equal(ADD(x.T, x.T.clone()), (x + x).T)
    before = x.clone()
    plimsoll.compile("x = x*2 + y")(x, y)
    torch.testing.assert_close(x, before * 2 + y)


def test_work_runs_in_the_current_stream() -> None:
    x = torch.zeros(1 << 22, device="cuda")
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    step = plimsoll.compile("x = x + 1")
    torch.cuda.synchronize()
    for _ in range(20):
        for stream in (first, second):
            with torch.cuda.stream(stream):
                step(x)
            event = stream.record_event()
            (second if stream is first else first).wait_event(event)
    torch.cuda.synchronize()
    assert torch.all(x == 40)


def test_a_call_waits_for_earlier_work_of_the_stream() -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.zeros(1 << 20, device="cuda")
        torch.cuda._sleep(20_000_000)
        x.fill_(3)
        found = ADD(x, 1)
        x.fill_(9)
    stream.synchronize()
    assert torch.all(found == 4)


def test_recorded_calls_are_replayed() -> None:
    x, y = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    f = plimsoll.compile("y = y + sqrt(x)*2")
    f.warm(x=x, y=y)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        f(x=x, y=y)
        f(x=x, y=y)
        z = ADD(y, x)
    assert torch.all(y == 0)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.all(y == 12) and torch.all(z == 13)


def test_a_first_call_in_a_recording_compiles_without_breaking_it() -> None:
    x = torch.full((777,), 4.0, device="cuda")
    fresh = plimsoll.compile("x*3 - 2.25*x*x + 0.125")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = fresh(x)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.all(found == 12 - 36 + 0.125)


def test_the_current_device_and_errors_are_kept() -> None:
    current = torch.cuda.current_device()
    ADD(torch.ones(3, device="cuda"), 1)
    assert torch.cuda.current_device() == current
    with pytest.raises(plimsoll.DeviceError, match="cuda:0"):
        ADD(torch.ones(3, device="cuda"), torch.ones(3))
    with pytest.raises(ValueError, match="overlaps"):
        x = torch.ones(9, device="cuda")
        ADD(x[1:], 1, out=x[:-1])


def test_threads_with_streams_of_their_own() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for size in [10, 5000, 300_000] * 10:
                x = torch.full((size,), float(number), device="cuda")
                if not torch.equal(AXPY(2, x, x), 3 * x):
                    wrong.append(number)
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not wrong


def test_lists_of_arrays_take_one_launch() -> None:
    sizes = [1, 7, 1000, 4096, 123_457] * 60
    p, g = ([torch.randn(size, device="cuda") for size in sizes] for _ in range(2))
    expected = [x - 0.5 * y for x, y in zip(p, g)]
    step = plimsoll.compile("p = p - r*g")
    for round_ in range(3):
        returned = step.many(p=p, g=g, r=0.5)
        assert all(x is y for x, y in zip(returned, p))
        for found, wanted in zip(p, expected):
            torch.testing.assert_close(found, wanted)
        expected = [x - 0.5 * y for x, y in zip(p, g)]
    fresh = [x.clone() for x in p]
    for found, x, y in zip(ADD.many(fresh, g), fresh, g):
        assert torch.equal(found, x + y)


def test_cupy_arrays_in_their_current_stream() -> None:
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        x = cupy.arange(5000, dtype="float32").reshape(50, 100)
        found = AXPY(2, x.T, x.T)
        assert isinstance(found, cupy.ndarray)
        stream.synchronize()
    np.testing.assert_array_equal(cupy.asnumpy(found), 3 * np.arange(5000).reshape(50, 100).T)


def test_jax_arrays() -> None:
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX sees no GPU")
    x = jax.numpy.arange(5000, dtype="float32") * 2
    found = AXPY(2, x, x)
    assert isinstance(found, jax.Array)
    np.testing.assert_array_equal(np.asarray(found), np.arange(5000) * 6)


def test_arrays_of_two_libraries_wait_for_each_other() -> None:
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Stream(non_blocking=True):
        x = cupy.ones(1 << 20, dtype="float32")
        for _ in range(10):
            x += 1
        found = ADD(torch.ones(1 << 20, device="cuda"), x)
    assert isinstance(found, torch.Tensor) and torch.all(found == 12)


def test_an_interface_without_dlpack() -> None:
    class Interface:
        def __init__(self, tensor: torch.Tensor) -> None:
            self.tensor = tensor
            self.__cuda_array_interface__ = tensor.__cuda_array_interface__

    x = torch.arange(6.0, device="cuda").reshape(2, 3).T
    out = torch.zeros(3, 2, device="cuda")
    torch.cuda.synchronize()
    ADD(Interface(x), 1, out=Interface(out))
    torch.cuda.synchronize()
    assert torch.equal(out, x + 1)


def test_references_stay_flat() -> None:
    x, out = torch.ones(100, device="cuda"), torch.ones(100, device="cuda")
    ADD(x, 1, out=out)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(20_000):
        ADD(x, 1, out=out)
        ADD(x, 1)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before
