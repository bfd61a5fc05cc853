"""Expressions as operators of PyTorch, with derivatives, and an optimizer of one fused kernel.

    >>> import torch, plimsoll.torch
    >>> swiglu = plimsoll.torch.op("swiglu", "silu(x)*y")
    >>> x = torch.ones(3, requires_grad=True)
    >>> swiglu(x, torch.ones(3)).sum().backward()
    >>> x.grad
    tensor([0.9277, 0.9277, 0.9277])

`docs/python.md` in the repository describes what works with `torch.compile`, `torch.func` and CUDA graphs.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import forward_ad

from ._adamw import AdamW
from ._plimsoll import DeviceError, Expression, ShapeError, compile

__all__ = ["AdamW", "op"]

_LIBRARY = torch.library.Library("plimsoll", "FRAGMENT")
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.flexible_layout)
# The operators made so far: their text, their scalars and themselves.
_OPERATORS: dict[str, tuple[str, tuple[str, ...], Callable[..., Any]]] = {}
_LOCK = threading.Lock()


def op(name: str, text: str, *, scalars: Iterable[str] = ()) -> Callable[..., Any]:
    """Registers an expression as `torch.ops.plimsoll.<name>` and returns it.

    Parameters named in `scalars`, and those that the text declares as scalars, are `float` arguments. All others are tensors. The
    operator has derivatives by its float tensors, of any order, and none by scalars. The same name may be registered again only
    with the same text and scalars.

    Raises `ExpressionError` for a mistake in the text, and `ValueError` for a name that is no identifier or is taken, for a scalar
    that the text doesn't have, and for an expression that writes a parameter in place.
    """
    if not (name.isidentifier() and name.isascii()):
        raise ValueError(f"{name!r} can't be an operator's name: use letters, digits and _, and begin with a letter")
    kernel = _Kernel(text, scalars)
    key = (text, kernel.scalars)
    with _LOCK:
        if name in _OPERATORS:
            if _OPERATORS[name][:2] != key:
                raise ValueError(f"the operator {name!r} has another text or other scalars: choose another name")
        elif hasattr(torch.ops.plimsoll, name):
            raise ValueError(f"torch.ops.plimsoll.{name} is taken: choose another name")
        else:
            _OPERATORS[name] = (*key, _register(name, kernel))
        return _OPERATORS[name][2]


@dataclass(frozen=True)
class _Derivative:
    """The expression of a kernel's derivatives by some of its tensors."""

    text: str
    #: Where the tensors that it reads come from: the position of a tensor of the kernel, or of an output whose gradient it is.
    tensors: tuple[int, ...]
    gradients: tuple[int, ...]
    #: Its parameters in the order of the arguments of `plimsoll::derivative`: tensors, gradients, scalars.
    parameters: str


class _Kernel:
    """An expression, each of whose parameters is a tensor or a scalar."""

    def __init__(self, text: str, scalars: Iterable[str] = ()) -> None:
        self.expression: Expression = compile(text)
        known = self.expression.parameters
        listed = (scalars,) if isinstance(scalars, str) else tuple(scalars)
        for scalar in listed:
            if scalar not in known:
                raise ValueError(f"the expression has no {scalar!r}: its parameters are {', '.join(known)}")
        in_place = [output for output in self.expression.outputs if output in known]
        if in_place:
            raise ValueError(f"the expression writes '{in_place[0]}' in place, which has no derivative: give the output another name")
        declared = _declared_scalars(text)
        self.scalars = tuple(each for each in known if each in listed or each in declared)
        self.tensors = tuple(each for each in known if each not in self.scalars)
        if not self.tensors:
            raise ValueError("the expression has no tensor among its parameters")
        #: The arguments that are tensors.
        self.positions = tuple(known.index(each) for each in self.tensors)
        self._types: dict[tuple[torch.dtype, ...], tuple[torch.dtype, ...]] = {}
        self._derivatives: dict[tuple[tuple[torch.dtype, ...], tuple[int, ...]], _Derivative | None] = {}

    def result_types(self, dtypes: tuple[torch.dtype, ...]) -> tuple[torch.dtype, ...]:
        """The outputs' types for tensors of these types."""
        found = self._types.get(dtypes)
        if found is None:
            names = self.expression.result_types(self._named(dtypes))
            found = self._types[dtypes] = tuple(getattr(torch, name) for name in names)
        return found

    def derivative(self, dtypes: tuple[torch.dtype, ...], by: tuple[int, ...]) -> _Derivative | None:
        """The derivatives by the tensors with these positions. None if all of them are zero everywhere."""
        key = (dtypes, by)
        if key not in self._derivatives:
            self._derivatives[key] = self._make_derivative(dtypes, by)
        return self._derivatives[key]

    def _make_derivative(self, dtypes: tuple[torch.dtype, ...], by: tuple[int, ...]) -> _Derivative | None:
        is_float = [dtype.is_floating_point for dtype in self.result_types(dtypes)]
        if not any(is_float):
            return None
        text = self.expression.gradient(self._named(dtypes), [self.tensors[place] for place in by])
        # The gradient of an output `y` is named `grad_y`, with a number appended if that is taken.
        taken = {*self.expression.parameters, *self.expression.outputs}
        gradients: dict[str, int] = {}
        for place, output in enumerate(self.expression.outputs):
            if is_float[place]:
                gradients[_free_name(f"grad_{output}", taken)] = place
        own = {tensor: place for place, tensor in enumerate(self.tensors)}
        read = compile(text).parameters
        tensors = [each for each in read if each in own]
        received = [each for each in read if each in gradients]
        scalars = [each for each in read if each in self.scalars]
        if len(tensors) + len(received) + len(scalars) != len(read):
            raise NotImplementedError(f"an expression with parameters named {read} can't be differentiated: rename them")
        if not received:
            return None
        parameters = ",".join([*tensors, *received, *scalars])
        return _Derivative(text, tuple(own[each] for each in tensors), tuple(gradients[each] for each in received), parameters)

    def _named(self, dtypes: tuple[torch.dtype, ...]) -> dict[str, str]:
        """The types of all parameters, as `Expression.result_types` takes them."""
        named = dict.fromkeys(self.scalars, "number")
        for tensor, dtype in zip(self.tensors, dtypes):
            named[tensor] = str(dtype).removeprefix("torch.")
        return named

    def fake(self, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Results without values, for tracing."""
        first = tensors[0]
        for name, tensor in zip(self.tensors, tensors):
            if tensor.device != first.device:
                raise DeviceError(f"'{name}' is on {tensor.device}, but '{self.tensors[0]}' is on {first.device}: copy it there")
        try:
            shape = torch.broadcast_shapes(*(tensor.shape for tensor in tensors))
        except RuntimeError as error:
            raise ShapeError(f"the shapes of {', '.join(self.tensors)} don't match: {error}") from error
        dtypes = self.result_types(tuple(tensor.dtype for tensor in tensors))
        return tuple(torch.empty(shape, dtype=dtype, device=first.device) for dtype in dtypes)

    def differentiate(self, tensors: Sequence[Any], scalars: Sequence[float], shapes: Sequence[Any], gradients: Sequence[Any], by: tuple[int, ...], dtypes: tuple[torch.dtype, ...]) -> dict[int, torch.Tensor]:
        """The gradients of the tensors at `by`, summed to their shapes. Of `tensors` only those are read that the derivative reads."""
        given = next((gradient for gradient in gradients if gradient is not None), None)
        if given is None or not by:
            return {}
        derivative = self.derivative(dtypes, by)
        if derivative is None:
            return {place: given.new_zeros(shapes[place], dtype=dtypes[place]) for place in by}
        results = self.result_types(dtypes)
        arguments = [tensors[place] for place in derivative.tensors]
        for place in derivative.gradients:
            # An output that nothing depends on: one zero in memory stands for all of its elements.
            received = gradients[place]
            arguments.append(given.new_zeros((), dtype=results[place]).expand(given.shape) if received is None else received)
        found = torch.ops.plimsoll.derivative(derivative.text, derivative.parameters, arguments, scalars)
        return {place: _sum_to(result, shapes[place]) for place, result in zip(by, found)}


def _declared_scalars(text: str) -> set[str]:
    """The names that a text declares as scalars."""
    plain = re.sub(r"#[^\n]*", "", text)
    lists = re.findall(r"(?:^|[\n;])\s*scalar\s+(\w+\s*:\s*\w+(?:\s*,\s*\w+\s*:\s*\w+)*)", plain)
    return {declaration.split(":")[0].strip() for each in lists for declaration in each.split(",")}


def _free_name(name: str, taken: set[str]) -> str:
    """The name, with the first free number from 2 on if it is taken. Adds it to the names taken."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    taken.add(found)
    return found


def _sum_to(tensor: torch.Tensor, shape: Any) -> torch.Tensor:
    """Sums over the dimensions along which a tensor of this shape was broadcast."""
    return tensor if tensor.shape == shape else tensor.sum_to_size(shape)


def _register(name: str, kernel: _Kernel) -> Callable[..., Any]:
    """Defines an operator of `torch.ops.plimsoll`."""
    expression, positions = kernel.expression, kernel.positions
    scalar_places = [place for place in range(len(expression.parameters)) if place not in positions]
    kinds = [f"{'Tensor' if place in positions else 'float'} {each}" for place, each in enumerate(expression.parameters)]
    count = len(expression.outputs)
    returns = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"

    def single(results: tuple[Any, ...]) -> Any:
        return results[0] if count == 1 else results

    def fake(*arguments: Any) -> Any:
        return single(kernel.fake([arguments[place] for place in positions]))

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        tensors = [inputs[place] for place in positions]
        ctx.set_materialize_grads(False)
        ctx.dtypes = tuple(tensor.dtype for tensor in tensors)
        ctx.shapes = [tensor.shape for tensor in tensors]
        ctx.scalars = [inputs[place] for place in scalar_places]
        by = tuple(place for place, position in enumerate(positions) if ctx.needs_input_grad[position])
        derivative = kernel.derivative(ctx.dtypes, by) if by else None
        ctx.saved_places = () if derivative is None else derivative.tensors
        ctx.save_for_backward(*(tensors[place] for place in ctx.saved_places))

    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        by = tuple(place for place, position in enumerate(positions) if ctx.needs_input_grad[position])
        tensors: list[Any] = [None] * len(positions)
        for place, tensor in zip(ctx.saved_places, ctx.saved_tensors):
            tensors[place] = tensor
        found = kernel.differentiate(tensors, ctx.scalars, ctx.shapes, gradients, by, ctx.dtypes)
        results: list[Any] = [None] * len(kinds)
        for place, result in found.items():
            results[positions[place]] = result
        return tuple(results)

    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> Any:
        tensors = _align(expression.text, [arguments[place] for place in positions], [in_dims[place] for place in positions])
        moved = list(arguments)
        for place, tensor in zip(positions, tensors):
            moved[place] = tensor
        return overload(*moved), single((0,) * count)

    try:
        _LIBRARY.define(f"{name}({', '.join(kinds)}) -> {returns}", tags=_TAGS)
    except RuntimeError as error:
        raise ValueError(f"PyTorch refuses the operator {name!r}: {error}") from error
    overload: Callable[..., Any] = getattr(torch.ops.plimsoll, name).default
    _complete(name, expression, fake, setup_context, backward, vmap)
    return overload


def _complete(name: str, run: Callable[..., Any], fake: Callable[..., Any], setup_context: Callable[..., Any], backward: Callable[..., Any], vmap: Callable[..., Any]) -> None:
    """Gives an operator that was defined its functions."""

    def checked(*arguments: Any) -> Any:
        # PyTorch doesn't tell operators of a library about tangents and would drop them silently.
        if forward_ad._current_level >= 0:
            raise NotImplementedError(f"plimsoll::{name} has no forward-mode derivatives (torch.func.jvp, dual numbers): use reverse mode")
        return run(*arguments)

    for key in ("CPU", "CUDA"):
        _LIBRARY.impl(name, checked, key)
    qualified = f"plimsoll::{name}"
    torch.library.register_fake(qualified, fake, lib=_LIBRARY)
    torch.library.register_autograd(qualified, backward, setup_context=setup_context, lib=_LIBRARY)
    torch.library.register_vmap(qualified, vmap, lib=_LIBRARY)


def _align(text: str, tensors: Sequence[torch.Tensor], dims: Sequence[int | None]) -> list[torch.Tensor]:
    """Moves the dimension of `vmap` in front, so that the others are broadcast as without it."""
    if re.search(r"\bindex\s*\(", text):
        raise NotImplementedError("vmap would change what index() means in this expression: call it for each element")
    rank = max(tensor.dim() - (dim is not None) for tensor, dim in zip(tensors, dims))
    aligned = []
    for tensor, dim in zip(tensors, dims):
        if dim is not None:
            tensor = tensor.movedim(dim, 0)
            for _ in range(rank + 1 - tensor.dim()):
                tensor = tensor.unsqueeze(1)
        aligned.append(tensor)
    return aligned


@functools.lru_cache(maxsize=1024)
def _derivative_kernel(text: str) -> _Kernel:
    return _Kernel(text)


def _define_derivative() -> None:
    """Defines `plimsoll::derivative`: the expression `text` of its tensors and scalars, whose names `parameters` has in that order.

    All backward passes use it. A graph of torch.compile then has the text, so that a cached graph needs no other registration.
    """

    def named(text: str, parameters: str, tensors: Sequence[Any]) -> tuple[_Kernel, list[Any]]:
        """The kernel, and the tensors in its order."""
        kernel = _derivative_kernel(text)
        given = dict(zip(parameters.split(","), tensors))
        return kernel, [given[each] for each in kernel.tensors]

    def run(text: str, parameters: str, tensors: list[torch.Tensor], scalars: list[float]) -> list[torch.Tensor]:
        found = _derivative_kernel(text).expression(**dict(zip(parameters.split(","), [*tensors, *scalars])))
        return list(found) if isinstance(found, tuple) else [found]

    def fake(text: str, parameters: str, tensors: list[torch.Tensor], scalars: list[float]) -> list[torch.Tensor]:
        kernel, ordered = named(text, parameters, tensors)
        return list(kernel.fake(ordered))

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.text, ctx.parameters, tensors, ctx.scalars = inputs
        ctx.save_for_backward(*tensors)

    def backward(ctx: Any, gradients: list[Any]) -> tuple[Any, ...]:
        kernel, tensors = named(ctx.text, ctx.parameters, ctx.saved_tensors)
        names = ctx.parameters.split(",")
        _, needs = named(ctx.text, ctx.parameters, ctx.needs_input_grad[2])
        scalars = dict(zip(names[len(tensors) :], ctx.scalars))
        by = tuple(place for place, needed in enumerate(needs) if needed)
        dtypes = tuple(tensor.dtype for tensor in tensors)
        ordered = [scalars[each] for each in kernel.scalars]
        found = kernel.differentiate(tensors, ordered, [tensor.shape for tensor in tensors], gradients, by, dtypes)
        results = {kernel.tensors[place]: result for place, result in found.items()}
        return None, None, [results.get(each) for each in names[: len(tensors)]], None if ctx.scalars else []

    def vmap(info: Any, in_dims: tuple[Any, ...], text: str, parameters: str, tensors: list[torch.Tensor], scalars: list[float]) -> Any:
        aligned = _align(text, tensors, in_dims[2])
        found = torch.ops.plimsoll.derivative(text, parameters, aligned, scalars)
        return found, [0] * len(found)

    _LIBRARY.define("derivative(str text, str parameters, Tensor[] tensors, float[] scalars) -> Tensor[]", tags=_TAGS)
    _complete("derivative", run, fake, setup_context, backward, vmap)


_define_derivative()
