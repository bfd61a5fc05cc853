"""plimsoll.torch.AdamW next to torch.optim.AdamW: results, state, options, and what is refused."""

import copy
import io
import pickle

import pytest

torch = pytest.importorskip("torch")

import plimsoll.torch  # noqa: E402

Ours, Theirs = plimsoll.torch.AdamW, torch.optim.AdamW
# Half a unit in the last place of 1, relative.
ROUNDOFF = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
RATE = 1e-2


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no CUDA device")


def tolerance(parameter: "torch.Tensor", steps: int, rate: float = RATE) -> "torch.Tensor":
    """How far two correct optimizers may be apart for the same gradients.

    Each step rounds the parameter after its decay and after its update, and a store of 16 bits may fall on either side. The update
    is at most rate·(1 − β₁)/√(1 − β₂) = 3.2·rate, after some twelve rounded operations, done in float32 at least.
    """
    stored, computed = ROUNDOFF[parameter.dtype], min(ROUNDOFF[parameter.dtype], ROUNDOFF[torch.float32])
    return steps * (2 * stored * (parameter.abs() + 3.2 * rate) + 12 * computed * 3.2 * rate)


def pair(dtype: "torch.dtype", sizes: tuple[int, ...] = (1000, 1, 33), device: str = "cpu"):
    """Two equal lists of parameters."""
    torch.manual_seed(0)
    first = [torch.nn.Parameter(torch.randn(size).to(device, dtype)) for size in sizes]
    return first, [torch.nn.Parameter(each.detach().clone()) for each in first]


def give_gradients(*lists, seed: int) -> None:
    """The same random gradients for each list."""
    generator = torch.Generator().manual_seed(seed)
    for parameters in zip(*lists):
        gradient = torch.randn(parameters[0].shape, generator=generator)
        for parameter in parameters:
            parameter.grad = gradient.to(parameter.device, parameter.dtype)


def reference(ours, **options):
    """The parameters in float64 on the CPU with PyTorch's optimizer, whose rounding is negligible."""
    theirs = [torch.nn.Parameter(each.detach().double().cpu()) for each in ours]
    return theirs, Theirs(theirs, lr=RATE, **options)


def copy_gradients(ours, theirs) -> None:
    for first, second in zip(ours, theirs):
        second.grad = first.grad.double().cpu()


def assert_near(ours, theirs, steps: int) -> None:
    for first, second in zip(ours, theirs):
        second = second.to(first.device)
        excess = (first - second).abs() - tolerance(first, steps)
        assert torch.all(excess <= 0), f"{excess.max()} beyond the tolerance"


OPTIONS = [
    {},
    {"weight_decay": 0.0},
    {"weight_decay": 0.3, "betas": (0.8, 0.95), "eps": 1e-5},
    {"maximize": True},
    {"amsgrad": True},
    {"betas": (0.0, 0.9)},
    {"lr": torch.tensor(RATE)},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("capturable", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_steps_are_those_of_pytorch(options, dtype, capturable: bool) -> None:
    options = {"lr": RATE, **options}
    ours, theirs = pair(dtype)
    first = Ours(ours, **options, capturable=capturable)
    # Its fused kernel computes 16-bit parameters in float32, as we do.
    second = Theirs(theirs, **options, fused=True)
    for step in range(1, 6):
        give_gradients(ours, theirs, seed=step)
        first.step()
        second.step()
        assert_near(ours, theirs, step)


def transformer(dtype) -> "torch.nn.Module":
    torch.manual_seed(0)
    return torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).to(dtype)


def train(model, optimizer, seeds) -> tuple[list[float], list[float]]:
    """The losses, and how much the tolerance of one step's parameters may change each."""
    losses, sensitivities = [], []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        x, target = (torch.randn(4, 6, 16, generator=generator) for _ in range(2))
        dtype = next(model.parameters()).dtype
        optimizer.zero_grad()
        loss = (model(x.to(dtype)).float() - target).square().mean()
        loss.backward()
        losses.append(loss.item())
        moves = [(each.grad.abs() * tolerance(each.detach(), 1)).float().sum() for each in model.parameters()]
        sensitivities.append(sum(moves).item())
        optimizer.step()
    return losses, sensitivities


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("moved", [False, True], ids=["kept", "moved"])
def test_a_transformer_trains_as_with_pytorch(dtype, moved: bool) -> None:
    models = [transformer(dtype) for _ in range(2)]
    ours, theirs = Ours(models[0].parameters(), lr=RATE), Theirs(models[1].parameters(), lr=RATE, fused=True)
    found, _ = train(models[0], ours, range(3))
    expected, sensitivities = train(models[1], theirs, range(3))
    if moved:
        # Each goes on with the other's state.
        states = [copy.deepcopy(each.state_dict()) for each in (ours, theirs)]
        ours, theirs = Ours(models[0].parameters()), Theirs(models[1].parameters())
        ours.load_state_dict(states[1])
        theirs.load_state_dict(states[0])
    for group in theirs.param_groups:
        group["fused"] = True
    found += train(models[0], ours, range(3, 6))[0]
    more, later = train(models[1], theirs, range(3, 6))
    expected, sensitivities = expected + more, sensitivities + later
    # The forward pass of 16 bits rounds about eight values in a row; each loss averages 384 of them.
    noise = 8 * ROUNDOFF[dtype] / 384**0.5
    apart = 0.0
    for ours_loss, loss, sensitivity in zip(found, expected, sensitivities):
        assert abs(ours_loss - loss) <= apart + noise * loss
        apart += sensitivity
    assert found[0] == expected[0] and found[-1] != found[0]


@pytest.mark.parametrize("theirs_options", [{}, {"fused": True}, {"foreach": True}], ids=str)
def test_state_dicts_move_in_both_directions(theirs_options) -> None:
    ours, theirs = pair(torch.float32)
    first, second = Ours(ours, lr=RATE, weight_decay=0.2), Theirs(theirs, lr=RATE, weight_decay=0.2, **theirs_options)
    for step in range(1, 9):
        give_gradients(ours, theirs, seed=step)
        first.step()
        second.step()
        assert_near(ours, theirs, step)
        if step % 2 == 0:
            files = [io.BytesIO(), io.BytesIO()]
            torch.save(first.state_dict(), files[0])
            torch.save(second.state_dict(), files[1])
            first, second = Ours(ours), Theirs(theirs, **theirs_options)
            first.load_state_dict(torch.load(io.BytesIO(files[1].getvalue())))
            second.load_state_dict(torch.load(io.BytesIO(files[0].getvalue())))
    assert first.state_dict()["state"].keys() == second.state_dict()["state"].keys()
    assert {*first.state_dict()["param_groups"][0]} == {*second.state_dict()["param_groups"][0]}
    for parameter, other in zip(ours, theirs):
        assert {*first.state[parameter]} == {"step", "exp_avg", "exp_avg_sq"} == {*second.state[other]}
        assert first.state[parameter]["step"].item() == 8


def test_groups_with_their_own_options_and_parameters_without_gradients() -> None:
    ours, theirs = pair(torch.float32, (5, 6, 7, 8))
    optimizers = []
    for kind, parameters in ((Ours, ours), (Theirs, theirs)):
        groups = [{"params": parameters[:2], "lr": 0.1, "weight_decay": 0.0}, {"params": parameters[2:], "maximize": True}]
        optimizers.append(kind(groups, lr=RATE))
    before = ours[3].detach().clone()
    for step in range(1, 7):
        give_gradients(ours, theirs, seed=step)
        for parameters in (ours, theirs):
            parameters[3].grad = None
            # The second joins later: its number of steps differs from the others'.
            if step < 3:
                parameters[1].grad = None
        for optimizer in optimizers:
            optimizer.step()
    for parameter, other in zip(ours, theirs):
        assert torch.all((parameter - other).abs() <= tolerance(other, 6, rate=0.1))
    assert torch.equal(ours[3], before) and ours[3] not in optimizers[0].state
    assert [optimizers[0].state[each]["step"].item() for each in ours[:3]] == [6, 4, 6]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
@pytest.mark.parametrize("options", [{}, {"capturable": True}], ids=str)
def test_parameters_of_several_types_and_layouts_share_a_group(options, device: str) -> None:
    torch.manual_seed(0)
    made = [
        torch.randn(4, 3, 5, 5).to(memory_format=torch.channels_last),
        torch.randn(7, 6).T,
        torch.randn(9).bfloat16(),
        torch.randn(4, dtype=torch.float64),
        torch.zeros(0, 3),
        torch.randn(()),
        torch.randn(3, dtype=torch.complex64),
    ]
    ours, theirs = ([torch.nn.Parameter(each.to(device, copy=True)) for each in made] for _ in range(2))
    first, second = Ours(ours, lr=RATE, **options), Theirs(theirs, lr=RATE, foreach=False)
    for step in range(3):
        for parameter, other in zip(ours, theirs):
            # In the first step the gradients have the layouts of the parameters.
            gradient = torch.randn_like(parameter)
            gradient = gradient if step == 0 else gradient.contiguous()
            parameter.grad, other.grad = gradient, gradient.clone()
        first.step()
        second.step()
    for parameter, other in zip(ours, theirs):
        if parameter.is_complex():
            parameter, other = torch.view_as_real(parameter), torch.view_as_real(other)
        # Pytorch's unfused steps round each of seven operations to 16 bits.
        excess = (parameter - other).abs() - tolerance(other, 3) * (4 if parameter.dtype == torch.bfloat16 else 1)
        assert not (excess > 0).any()


def test_moments_may_be_wider_than_their_parameters() -> None:
    (parameter, *_), (exact, *_) = pair(torch.bfloat16)
    exact = torch.nn.Parameter(exact.detach().float())
    first, second = Ours([parameter], lr=RATE, state_dtype=torch.float32), Theirs([exact], lr=RATE)
    for step in range(4):
        give_gradients([parameter], seed=step)
        exact.grad = parameter.grad.float()
        first.step()
        second.step()
    for key in ("exp_avg", "exp_avg_sq"):
        kept = first.state[parameter][key]
        assert kept.dtype == torch.float32
        torch.testing.assert_close(kept, second.state[exact][key], rtol=2.0**-20, atol=0)
    again = Ours([parameter], state_dtype=torch.float32)
    again.load_state_dict(first.state_dict())
    assert torch.equal(again.state[parameter]["exp_avg_sq"], first.state[parameter]["exp_avg_sq"])
    assert again.state[parameter]["exp_avg_sq"] is not first.state[parameter]["exp_avg_sq"]
    rounded = Theirs([parameter])
    rounded.load_state_dict(first.state_dict())
    assert rounded.state[parameter]["exp_avg"].dtype == torch.bfloat16
    again.load_state_dict(rounded.state_dict())
    assert again.state[parameter]["exp_avg"].dtype == torch.float32


def test_it_is_an_optimizer_with_closures_hooks_schedulers_and_copies() -> None:
    (parameter, *_), _ = pair(torch.float32)
    optimizer = Ours([parameter], lr=0.1)
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def closure():
        assert torch.is_grad_enabled()
        optimizer.zero_grad()
        loss = parameter.square().sum()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(3)]
    assert losses[0] > losses[1] > losses[2] and calls == ["before", "after"] * 3
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.05
    twin = pickle.loads(pickle.dumps(copy.deepcopy(optimizer)))
    assert isinstance(twin, Ours) and twin.state_dict()["param_groups"] == optimizer.state_dict()["param_groups"]
    (other,) = twin.param_groups[0]["params"]
    other.grad = parameter.grad.clone()
    optimizer.step()
    twin.step()
    assert torch.equal(other, parameter)


def test_a_step_inside_a_compiled_function_runs_outside_its_graph() -> None:
    torch._dynamo.reset()
    ours, theirs = pair(torch.float32)
    first, second = Ours(ours, lr=RATE), Theirs(theirs, lr=RATE)

    @torch.compile(backend="aot_eager")
    def advance() -> None:
        first.step()

    traced = []
    for step in range(1, 4):
        give_gradients(ours, theirs, seed=step)
        advance()
        second.step()
        traced.append(torch._dynamo.utils.counters["frames"]["total"])
    assert_near(ours, theirs, 3)
    assert traced[0] == traced[-1] > 0, "no step is traced anew"


def test_options_that_mean_nothing_or_something_else() -> None:
    (parameter, *_), _ = pair(torch.float32)
    for options in ({"fused": True}, {"foreach": True}, {"fused": False, "foreach": False}):
        optimizer = Ours([parameter], **options)
        assert optimizer.param_groups[0]["fused"] is None is optimizer.param_groups[0]["foreach"]
    for options, words in [
        ({"differentiable": True}, "differentiated"),
        ({"state_dtype": torch.int32}, "float type"),
        ({"lr": -1.0}, "learning rate"),
        ({"betas": (1.0, 0.9)}, "beta"),
    ]:
        with pytest.raises(ValueError, match=words):
            Ours([parameter], **options)
    with pytest.raises(ValueError, match="differentiable"):
        Ours([parameter]).load_state_dict(Theirs([parameter], differentiable=True).state_dict())


def test_sparse_gradients_are_refused_before_anything_is_written() -> None:
    first, second = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    first.grad, second.grad = torch.ones(3), torch.ones(3).to_sparse()
    optimizer = Ours([first, second])
    with pytest.raises(RuntimeError, match="SparseAdam"):
        optimizer.step()
    assert torch.equal(first, torch.ones(3)) and optimizer.state[first].get("step", torch.zeros(())).item() == 0


@needs_gpu
@pytest.mark.parametrize("options", [{}, {"capturable": True}, {"amsgrad": True, "maximize": True}], ids=str)
def test_steps_on_a_gpu_are_right(options) -> None:
    ours, _ = pair(torch.float32, tuple(1 + place * 37 for place in range(300)), "cuda")
    theirs, second = reference(ours, **{key: value for key, value in options.items() if key != "capturable"})
    first = Ours(ours, lr=RATE, **options)
    for step in range(1, 5):
        give_gradients(ours, seed=step)
        copy_gradients(ours, theirs)
        first.step()
        second.step()
        assert_near(ours, theirs, step)


@needs_gpu
@pytest.mark.parametrize("options", [{}, {"capturable": True}, {"amsgrad": True, "maximize": True}], ids=str)
def test_steps_in_bf16_on_a_gpu_are_those_of_pytorchs_fused_kernel(options) -> None:
    ours, theirs = pair(torch.bfloat16, tuple(1 + place * 37 for place in range(300)), "cuda")
    first, second = Ours(ours, lr=RATE, **options), Theirs(theirs, lr=RATE, fused=True, **options)
    for step in range(1, 5):
        give_gradients(ours, theirs, seed=step)
        first.step()
        second.step()
        assert_near(ours, theirs, step)


@needs_gpu
def test_steps_are_recorded_and_replayed() -> None:
    ours, _ = pair(torch.float32, (1000, 33, 65536), "cuda")
    rate = torch.tensor(RATE, device="cuda")
    theirs, second = reference(ours)
    first = Ours(ours, lr=rate, capturable=True)
    give_gradients(ours, seed=0)
    copy_gradients(ours, theirs)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            first.step()
    torch.cuda.current_stream().wait_stream(side)
    for _ in range(2):
        second.step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first.step()
    for step in range(3, 7):
        rate.fill_(RATE / step)
        second.param_groups[0]["lr"] = RATE / step
        graph.replay()
        second.step()
        assert_near(ours, theirs, step)
    assert first.state[ours[0]]["step"].item() == 6
    other = Ours(ours, lr=RATE)
    other.step()
    with pytest.raises(RuntimeError, match="capturable=True"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        other.step()


@needs_gpu
def test_two_optimizers_step_in_two_streams() -> None:
    lists = [pair(torch.float32, (1 << 20, 1000), "cuda") for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in lists]
    optimizers = [(Ours(ours, lr=RATE), Theirs(theirs, lr=RATE, fused=True)) for ours, theirs in lists]
    torch.cuda.synchronize()
    for step in range(1, 5):
        for stream, (ours, theirs), (first, second) in zip(streams, lists, optimizers):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(2_000_000)
                give_gradients(ours, theirs, seed=step)
                first.step()
                second.step()
    torch.cuda.synchronize()
    for ours, theirs in lists:
        assert_near(ours, theirs, 4)


@needs_gpu
def test_a_group_may_have_parameters_on_both_devices_and_a_scaler() -> None:
    ours, theirs = pair(torch.float32, (100, 100))
    ours[1], theirs[1] = (torch.nn.Parameter(each[1].detach().cuda()) for each in (ours, theirs))
    first, second = Ours(ours, lr=RATE), Theirs(theirs, lr=RATE)
    give_gradients(ours, theirs, seed=1)
    first.step()
    second.step()
    assert_near(ours, theirs, 1)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**10)
    optimizer = Ours([ours[1]], lr=RATE)
    before = ours[1].detach().clone()
    scaler.scale((ours[1] * float("inf")).sum()).backward()
    scaler.step(optimizer)
    assert torch.equal(ours[1], before), "a step with infinite gradients is skipped"
