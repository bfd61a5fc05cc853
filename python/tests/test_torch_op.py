"""plimsoll.torch.op: values, derivatives, tracing, vmap, and what is refused."""

import re
import threading
from pathlib import Path

import pytest

import plimsoll

torch = pytest.importorskip("torch")
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402

import plimsoll.torch  # noqa: E402

SWIGLU = plimsoll.torch.op("test_swiglu", "silu(a*x)*y", scalars=["a"])
TWO = plimsoll.torch.op("test_two", "s = floor(x)*y\nless: i32 = x < y\np = x*y*y")
EXPRESSIONS = Path(__file__).parents[2] / "docs/expressions.md"
# Away from kinks, jumps and poles. Each function is checked on all that lie in its domain.
DOMAINS = [(0.15, 0.45), (-0.45, -0.15), (1.1, 1.4)]


def swiglu(a, x, y):
    return torch.nn.functional.silu(a * x) * y


def double(*shape: int, seed: int = 0, between: tuple[float, float] = (-2, 2)) -> "torch.Tensor":
    generator = torch.Generator().manual_seed(seed)
    low, high = between
    values = low + (high - low) * torch.rand(shape, dtype=torch.float64, generator=generator)
    return values.requires_grad_()


def functions() -> list[str]:
    """A text for each function in the manual's table."""
    table = re.search(r"\| functions \| \|\n(.*?)\n\n", EXPRESSIONS.read_text(encoding="utf-8"), re.DOTALL)
    assert table, "docs/expressions.md has no table of functions"
    rows = {row.split("|")[1].strip(): row.split("|")[2].strip() for row in table[1].splitlines()}
    ones, twos = rows["one operand"].split(), rows["two operands"].split()
    threes = re.findall(r"`([a-z]+\(\w+, \w+, \w+\))`", rows["three operands"])
    assert len(ones) > 30 and len(twos) > 5 and len(threes) == 3
    operators = ["x + y", "x - y", "x*y", "x/y", "x % y", "-x", "f64(x)*y"]
    return [f"{name}(x)" for name in ones] + [f"{name}(x, y)" for name in twos] + [text_of(three) for three in threes] + operators


def text_of(three: str) -> str:
    """A text for a function of three operands. One may be a condition."""
    name, operands = three.rstrip(")").split("(")
    first, second, third = operands.split(", ")
    return f"{name}(x < 0.3, y, z)" if name == "select" else f"{name}(x, y, z)" if name == "fma" else f"{name}(x, -0.3, 0.3)"


@pytest.mark.parametrize("text", functions())
def test_every_function_has_the_right_derivatives(text: str) -> None:
    name = "test_function_" + re.sub(r"\W+", lambda found: "".join(f"{ord(each):x}" for each in found[0]), text)
    f = plimsoll.torch.op(name, text)
    count = len(plimsoll.compile(text).parameters)
    checked = 0
    for low, high in DOMAINS:
        arguments = tuple(double(3, seed=place, between=(low, high)) for place in range(count))
        if not torch.isfinite(f(*arguments)).all():
            continue
        checked += 1
        assert gradcheck(f, arguments)
        assert gradgradcheck(f, arguments)
    assert checked, "no domain fits this function"


@pytest.mark.parametrize("shapes", [((4, 3), (4, 3)), ((4, 3), (3,)), ((1, 3), (4, 1)), ((), (2, 2)), ((2, 1, 3), (5, 1)), ((0, 3), (3,)), ((1,), ())])
def test_gradients_are_summed_to_the_shapes_of_broadcast_inputs(shapes) -> None:
    x, y = (double(*shape, seed=seed) for seed, shape in enumerate(shapes))
    torch.testing.assert_close(SWIGLU(0.7, x, y), swiglu(0.7, x, y))
    weight = torch.randn_like(SWIGLU(0.7, x, y))
    found = torch.autograd.grad(SWIGLU(0.7, x, y), (x, y), weight)
    expected = torch.autograd.grad(swiglu(0.7, x, y), (x, y), weight)
    for ours, theirs in zip(found, expected):
        torch.testing.assert_close(ours, theirs)
    if x.numel() and y.numel():
        assert gradcheck(lambda x, y: SWIGLU(0.7, x, y), (x, y))
        assert gradgradcheck(lambda x, y: SWIGLU(0.7, x, y), (x, y))


def test_views_of_any_layout_have_gradients() -> None:
    x, y = double(6, 4), double(3, 4, seed=1)
    loss = SWIGLU(1.5, x[::2].flip(1), y.T.contiguous().T).sum()
    expected = swiglu(1.5, x[::2].flip(1), y).sum()
    for ours, theirs in zip(torch.autograd.grad(loss, (x, y)), torch.autograd.grad(expected, (x, y))):
        torch.testing.assert_close(ours, theirs)


def test_several_outputs_some_without_a_gradient() -> None:
    x, y = double(5), double(5, seed=1)
    s, less, p = TWO(x, y)
    assert less.dtype == torch.int32 and not less.requires_grad and s.requires_grad
    assert torch.equal(less, (x < y).int())
    p.sum().backward(retain_graph=True)
    torch.testing.assert_close(x.grad, (y * y).detach())
    torch.testing.assert_close(y.grad, (2 * x * y).detach())
    (found,) = torch.autograd.grad((s + p).sum(), y)
    torch.testing.assert_close(found, (x.floor() + 2 * x * y).detach())
    assert gradcheck(lambda x, y: TWO(x, y)[::2], (double(3, between=(0.2, 0.8)), y[:3]))


def test_only_what_a_derivative_reads_is_kept() -> None:
    linear = plimsoll.torch.op("test_linear", "3.0*x + y")
    x, y = double(4), double(4, seed=1)
    assert linear(x, y).grad_fn.saved_tensors == ()
    # By y the derivative is silu(a*x), which doesn't read y.
    assert len(SWIGLU(0.5, x.detach(), y).grad_fn.saved_tensors) == 1
    assert len(SWIGLU(0.5, x, y).grad_fn.saved_tensors) == 2


def test_integers_have_no_gradient() -> None:
    f = plimsoll.torch.op("test_integers", "x*i")
    x, i = double(4), torch.arange(4, dtype=torch.int32)
    f(x, i).sum().backward()
    torch.testing.assert_close(x.grad, i.double())
    steps = plimsoll.torch.op("test_steps", "i32(x)")
    assert not steps(x).requires_grad


def test_zero_derivatives_are_zeros_of_the_inputs_shape() -> None:
    f = plimsoll.torch.op("test_zero", "floor(x) + 0.0*y")
    x, y = double(3), double(2, 3, seed=1)
    found = torch.autograd.grad(f(x, y).sum(), (x, y))
    assert [each.shape for each in found] == [x.shape, y.shape] and not any(each.any() for each in found)
    assert torch.equal(torch.autograd.grad(plimsoll.torch.op("test_floor", "floor(x)")(x).sum(), x)[0], torch.zeros(3, dtype=torch.float64))


def test_derivatives_of_any_order_and_of_awkward_names() -> None:
    fourth = plimsoll.torch.op("test_fourth", "x*x*x*x*grad_out*d_x")
    x, one = double(3), torch.ones(3, dtype=torch.float64, requires_grad=True)
    value = fourth(x, one, one)
    for expected in (4 * x**3, 12 * x**2, 24 * x, 24 * torch.ones_like(x)):
        (value,) = torch.autograd.grad(value.sum(), x, create_graph=True)
        torch.testing.assert_close(value, expected)


def test_sixteen_bit_gradients_are_rounded_once() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(1000, generator=generator).bfloat16().requires_grad_() for _ in range(2))
    found = torch.autograd.grad(SWIGLU(0.7, x, y).sum(), (x, y))
    wide = [each.detach().double().requires_grad_() for each in (x, y)]
    # The scalar is a float32 here.
    expected = torch.autograd.grad(swiglu(torch.tensor(0.7).double(), *wide).sum(), wide)
    for ours, exact in zip(found, expected):
        assert ours.dtype == torch.bfloat16
        # Half a unit in the last place of 8 bits, and the error of float32, which cancellation may magnify.
        assert torch.all((ours.double() - exact).abs() <= exact.abs() * 2**-8 + 2**-18)


@pytest.mark.parametrize(
    ("f", "arguments"),
    [
        (SWIGLU, (0.7, double(4, 3), double(3))),
        (SWIGLU, (0.7, torch.randn(2, 3, requires_grad=True), torch.randn(2, 3).bfloat16().requires_grad_())),
        (SWIGLU, (-1, torch.randn(5), torch.randn(5))),
        (TWO, (double(4, 3), double(4, 1))),
        (TWO, (torch.randn(3, 2).T, torch.randn(3, requires_grad=True))),
    ],
)
def test_pytorchs_own_checks_pass(f, arguments) -> None:
    torch.library.opcheck(f, arguments)


def test_the_derivative_operator_passes_pytorchs_own_checks() -> None:
    text = "in x: f64, grad_out: f64\nscalar a: f64\nd_x = grad_out*cos(a*x)*a"
    arguments = (text, "x,grad_out,a", [double(3), double(3, seed=1)], [0.5])
    torch.library.opcheck(torch.ops.plimsoll.derivative.default, arguments)


def test_compiled_functions_have_no_breaks_and_the_same_results() -> None:
    torch._dynamo.reset()

    def f(a, x, y):
        return SWIGLU(a, x, y).exp() * TWO(x, y)[2]

    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    for a, size in [(0.5, 3), (0.75, 3), (0.5, 7), (1.25, 9)]:
        x, y = double(4, size), double(size, seed=1)
        torch.testing.assert_close(compiled(a, x, y), f(a, x, y), rtol=0, atol=0)
        found = torch.autograd.grad(compiled(a, x, y).sum(), (x, y))
        for ours, theirs in zip(found, torch.autograd.grad(f(a, x, y).sum(), (x, y))):
            torch.testing.assert_close(ours, theirs)


def test_models_can_be_exported_and_recomputed_in_checkpoints() -> None:
    class Model(torch.nn.Module):
        def forward(self, x, y):
            return SWIGLU(0.5, x, y)

    x, y = double(4, 3), double(3, seed=1)
    exported = torch.export.export(Model(), (x, y))
    assert "plimsoll.test_swiglu" in str(exported.graph)
    torch.testing.assert_close(exported.module()(x, y), SWIGLU(0.5, x, y))
    checkpoint = torch.utils.checkpoint.checkpoint(Model(), x, y, use_reentrant=False)
    torch.testing.assert_close(torch.autograd.grad(checkpoint.sum(), x), torch.autograd.grad(swiglu(0.5, x, y).sum(), x))


def test_autocast_casts_nothing_and_modes_without_gradients_work() -> None:
    x, y = torch.randn(4, requires_grad=True), torch.randn(4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert SWIGLU(0.5, x, y).dtype == torch.float32
    with torch.no_grad():
        assert not SWIGLU(0.5, x, y).requires_grad
    with torch.inference_mode():
        torch.testing.assert_close(SWIGLU(0.5, x, y), swiglu(0.5, x, y))


def test_fake_and_meta_tensors_have_the_shapes_and_types_of_results() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        s, less, p = TWO(torch.ones(4, 1), torch.ones(3).bfloat16())
        assert s.shape == (4, 3) and less.dtype == torch.int32 and p.dtype == torch.float32
        with pytest.raises(plimsoll.ShapeError, match="x, y"):
            TWO(torch.ones(4), torch.ones(3))
        with pytest.raises(plimsoll.DeviceError, match="cuda"):
            TWO(torch.ones(4), torch.ones(4, device="cuda"))
    assert SWIGLU(0.5, torch.ones(3, device="meta"), torch.ones(2, 1, device="meta")).shape == (2, 3)


def test_vmap_aligns_shapes_as_each_call_would() -> None:
    x, y = double(5, 4, 3), double(3, 5, seed=1)
    found = torch.vmap(SWIGLU, in_dims=(None, 0, 1))(0.5, x, y)
    torch.testing.assert_close(found, torch.stack([SWIGLU(0.5, x[i], y[:, i]) for i in range(5)]))
    gradients = torch.autograd.grad(found.sum(), (x, y))
    expected = torch.autograd.grad(swiglu(0.5, x, y.T[:, None]).sum(), (x, y))
    for ours, theirs in zip(gradients, expected):
        torch.testing.assert_close(ours, theirs)
    position = plimsoll.torch.op("test_position", "x + f64(index())")
    with pytest.raises(NotImplementedError, match="index"):
        torch.vmap(position)(x)


def test_what_would_lose_a_derivative_is_refused() -> None:
    x, y = torch.randn(3), torch.randn(3)
    with pytest.raises(NotImplementedError, match="forward-mode"):
        torch.func.jvp(lambda x: SWIGLU(0.5, x, y), (x,), (x,))
    with pytest.raises(RuntimeError, match="functorch"):
        torch.func.grad(lambda x: SWIGLU(0.5, x, y).sum())(x)


@pytest.mark.parametrize(
    ("name", "text", "scalars", "error", "words"),
    [
        ("two words", "x + 1", (), ValueError, "operator's name"),
        ("9x", "x + 1", (), ValueError, "operator's name"),
        ("größe", "x + 1", (), ValueError, "operator's name"),
        ("test_swiglu", "x + 1", (), ValueError, "another text"),
        ("test_swiglu", "silu(a*x)*y", (), ValueError, "other scalars"),
        ("derivative", "x + 1", (), ValueError, "taken"),
        ("name", "x + 1", (), ValueError, "taken"),
        ("test_wrong", "x = x + 1", (), ValueError, "in place"),
        ("test_wrong", "x + ", (), plimsoll.ExpressionError, "1:"),
        ("test_wrong", "x + 1", ["b"], ValueError, "no 'b'"),
        ("test_wrong", "a + 1", ["a"], ValueError, "no tensor"),
    ],
)
def test_wrong_operators_are_refused(name, text, scalars, error, words: str) -> None:
    with pytest.raises(error, match=words):
        plimsoll.torch.op(name, text, scalars=scalars)


def test_wrong_arguments_are_refused() -> None:
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="'Tensor' for argument 'x'"):
        SWIGLU(0.5, 1.0, x)
    with pytest.raises(RuntimeError, match="missing value for argument 'a'"):
        SWIGLU(x=x, y=x)
    with pytest.raises(plimsoll.ShapeError):
        SWIGLU(0.5, x, torch.ones(4))
    with pytest.raises(TypeError):
        SWIGLU(0.5, x.to(torch.complex64), x)
    with pytest.raises(plimsoll.ExpressionError, match="'&'"):
        plimsoll.torch.op("test_bits", "x & 3")(x)


def test_scalars_that_the_text_declares_are_floats() -> None:
    text = "# scalar x: f32\nscalar a: f64, # the rate\n  b: f64; in x: f64\nscaled = a*x + b"
    f = plimsoll.torch.op("test_declared", text)
    x = double(3)
    torch.testing.assert_close(f(b=2.0, x=x, a=0.5), 0.5 * x + 2)
    assert gradcheck(lambda x: f(a=0.5, b=2.0, x=x), (x,))


def test_a_name_is_registered_once_by_any_thread() -> None:
    found = []

    def work() -> None:
        found.append(plimsoll.torch.op("test_threads", "x + 1.0"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 8 and all(each is torch.ops.plimsoll.test_threads.default for each in found)


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no CUDA device")


@needs_gpu
def test_a_gpu_computes_values_and_derivatives() -> None:
    x, y = (each.detach().cuda().requires_grad_() for each in (double(64, 33), double(33, seed=1)))
    torch.testing.assert_close(SWIGLU(0.7, x, y), swiglu(0.7, x, y))
    found = torch.autograd.grad(SWIGLU(0.7, x, y).sum(), (x, y))
    for ours, theirs in zip(found, torch.autograd.grad(swiglu(0.7, x, y).sum(), (x, y))):
        torch.testing.assert_close(ours, theirs)
    small = [each.detach()[:3].requires_grad_() for each in (x[:, :3], y)]
    assert gradcheck(lambda x, y: SWIGLU(0.7, x, y), small) and gradgradcheck(lambda x, y: SWIGLU(0.7, x, y), small)
    torch.library.opcheck(SWIGLU, (0.7, x.detach().requires_grad_(), y.detach().requires_grad_()))


@needs_gpu
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_functions_on_a_gpu(mode: str) -> None:
    torch._dynamo.reset()

    def f(x, y):
        return SWIGLU(0.5, x * 2, y).sin()

    compiled = torch.compile(f, fullgraph=True, mode=mode)
    x, y = torch.randn(512, 64, device="cuda", requires_grad=True), torch.randn(64, device="cuda", requires_grad=True)
    for _ in range(4):
        torch.testing.assert_close(compiled(x, y), f(x, y))
        found = torch.autograd.grad(compiled(x, y).sum(), (x, y))
        for ours, theirs in zip(found, torch.autograd.grad(f(x, y).sum(), (x, y))):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@needs_gpu
def test_forward_and_backward_are_recorded_and_replayed() -> None:
    x, y = torch.randn(1000, device="cuda", requires_grad=True), torch.randn(1000, device="cuda")

    def step():
        loss = SWIGLU(0.5, x, y).square().sum()
        return loss, *torch.autograd.grad(loss, x)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss, gradient = step()
    for seed in range(3):
        torch.manual_seed(seed)
        with torch.no_grad():
            x.copy_(torch.randn_like(x))
        graph.replay()
        expected = swiglu(0.5, x, y).square().sum()
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(gradient, torch.autograd.grad(expected, x)[0])


@needs_gpu
def test_a_backward_pass_runs_in_the_stream_of_its_forward_pass() -> None:
    streams = [torch.cuda.Stream() for _ in range(2)]
    xs = [torch.zeros(1 << 20, device="cuda", requires_grad=True) for _ in streams]
    y = torch.full((1 << 20,), 2.0, device="cuda")
    torch.cuda.synchronize()
    for value in range(5):
        for stream, x in zip(streams, xs):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(2_000_000)
                with torch.no_grad():
                    x.fill_(value)
                (found,) = torch.autograd.grad(SWIGLU(1.0, x, y).sum(), x)
                (expected,) = torch.autograd.grad(swiglu(1.0, x, y).sum(), x)
                torch.testing.assert_close(found, expected)
