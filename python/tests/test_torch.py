"""Expressions on PyTorch's tensors, without a GPU."""

import numpy as np
import pytest

import plimsoll

torch = pytest.importorskip("torch")
ADD = plimsoll.compile("x + y")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8"])
def test_results_are_tensors_of_the_same_type(dtype: str) -> None:
    x = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
    found = ADD(x.T, 1)
    assert found.dtype == x.dtype and found.device == x.device
    assert torch.equal(found, x.T + 1)


def test_promotion_is_that_of_pytorch() -> None:
    kinds = [torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
    for first in kinds:
        for second in kinds:
            x, y = torch.ones(2).to(first), torch.ones(2).to(second)
            assert plimsoll.compile("x*y")(x, y).dtype == torch.promote_types(first, second), (first, second)


def test_views_and_out_are_written_where_they_are() -> None:
    x, out = torch.arange(12.0).reshape(3, 4), torch.zeros(4, 3).T
    assert ADD(x[:, ::2].repeat(1, 2), x.flip(0), out=out) is out
    assert torch.equal(out, x[:, ::2].repeat(1, 2) + x.flip(0))
    plimsoll.compile("m = 0.5*m + g")(x[1], torch.ones(4))
    assert x[1].tolist() == [3, 3.5, 4, 4.5]


def test_an_output_may_be_several_inputs_that_are_one_tensor() -> None:
    x = torch.arange(5.0)
    assert plimsoll.compile("2*x + y")(x, x.view(5), out=x) is x
    assert x.tolist() == [0, 3, 6, 9, 12]
    with pytest.raises(ValueError, match="overlaps"):
        ADD(x[1:], x[:-1], out=x[1:])


def test_a_gradient_is_not_lost_silently() -> None:
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="gradient"):
        ADD(x, 1)
    with torch.no_grad():
        assert ADD(x, 1).tolist() == [2, 2, 2]
    assert ADD(x.detach(), 1).tolist() == [2, 2, 2]
    assert ADD(torch.nn.Parameter(x.detach(), requires_grad=False), 1).tolist() == [2, 2, 2]


def test_tensors_without_plain_memory_are_refused() -> None:
    fake = pytest.importorskip("torch._subclasses.fake_tensor")
    with fake.FakeTensorMode():
        without = torch.ones(3)
    complex_ = torch.tensor([1 + 2j])
    for tensor in [
        without,
        torch.ones(3, device="meta"),
        torch.ones(3).to_sparse(),
        torch.imag(complex_.conj()),
        complex_,
    ]:
        with pytest.raises((TypeError, plimsoll.DeviceError)) as refused:
            ADD(tensor, 1)
        assert "frame #" not in str(refused.value)


def test_arrays_of_two_libraries_meet_in_one_call() -> None:
    x = torch.ones(3, dtype=torch.float64)
    assert isinstance(ADD(x, np.ones(3)), torch.Tensor)
    assert isinstance(ADD(np.ones(3), x), np.ndarray)
