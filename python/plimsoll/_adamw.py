"""The optimizer of plimsoll.torch."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from ._plimsoll import Expression, compile


def _adamw_text(capturable: bool, amsgrad: bool, maximize: bool, kind: str) -> str:
    """One step of AdamW, in the order of operations of PyTorch's own. `kind` is the type of rates: f64 for parameters of f64.

    `p` is the parameter, `g` its gradient, `m` and `v` the moments, `n` the largest `v` so far, and `t` the number of the step.
    """
    largest = "n = max(n, v)\n" if amsgrad else ""
    moments = f"""
let h = {"-g" if maximize else "g"}
m = fma(rest1, h - m, m)
v = fma(rest2*h, h, v*beta2)
{largest}let root = sqrt({"n" if amsgrad else "v"})
"""
    if not capturable:
        return f"{moments}p = p*decay + size*m/(root/correction2 + eps)"
    # 1 - β^t without the cancellation of early steps.
    return f"""{moments}let rate = {kind}(lr)
let step = {kind}(t)
let correction1 = -expm1(step*log_beta1)
let correction2 = sqrt(-expm1(step*log_beta2))
p = p*(1.0 - rate*weight_decay) - rate/correction1*m/(root/correction2 + eps)"""


@functools.lru_cache(maxsize=None)
def _adamw(capturable: bool, amsgrad: bool, maximize: bool, kind: str) -> Expression:
    return compile(_adamw_text(capturable, amsgrad, maximize, kind))


class AdamW(torch.optim.AdamW):
    """`torch.optim.AdamW` as one fused kernel for all parameters of equal types: one launch on a GPU.

    Options, state and state dict are those of `torch.optim.AdamW`; a state dict moves in both directions. `foreach` and `fused` are
    accepted and change nothing, because every step is fused. `differentiable=True` raises `ValueError`.

    `state_dtype` is the type of the moments, such as `torch.float32` for parameters in bfloat16; by default that of the parameter.
    A learning rate in a tensor is read by the host at each step, except with `capturable=True`.
    """

    __module__ = "plimsoll.torch"

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float | torch.Tensor, float | torch.Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        state_dtype: torch.dtype | None = None,
    ) -> None:
        if differentiable:
            raise ValueError("plimsoll.torch.AdamW can't be differentiated: use torch.optim.AdamW(…, differentiable=True)")
        if state_dtype is not None and not state_dtype.is_floating_point:
            raise ValueError(f"state_dtype is {state_dtype}: give a float type")
        self._state_dtype = state_dtype
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, capturable=capturable)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_state_dtype": self._state_dtype}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            if group["differentiable"]:
                raise ValueError("the state is of an optimizer with differentiable=True, which plimsoll.torch.AdamW can't continue")
            group["foreach"] = group["fused"] = None
            for parameter in group["params"]:
                kept = self.state.get(parameter)
                if kept:
                    kept["step"] = kept["step"].to(parameter.device if group["capturable"] else "cpu", torch.float32)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state dict of this class or of `torch.optim.AdamW`."""
        super().load_state_dict(state_dict)
        if self._state_dtype is None:
            return
        # The base class has rounded the moments to the parameters' types.
        saved = (number for group in state_dict["param_groups"] for number in group["params"])
        own = (parameter for group in self.param_groups for parameter in group["params"])
        for number, parameter in zip(saved, own):
            for key, value in state_dict["state"].get(number, {}).items():
                if key != "step":
                    self.state[parameter][key] = value.to(parameter.device, self._state_dtype, copy=True)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters that have a gradient. Returns the result of the closure, which computes the gradients anew."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._update(group)
        return loss

    # torch.compile would trace it anew for each number of the step.
    @torch._disable_dynamo
    def _update(self, group: dict[str, Any]) -> None:
        """Updates the parameters of a group."""
        capturable, amsgrad = bool(group["capturable"]), bool(group["amsgrad"])
        pairs = [(parameter, gradient) for parameter in group["params"] if (gradient := parameter.grad) is not None]
        if not pairs:
            return
        if not capturable and pairs[0][0].is_cuda and torch.cuda.is_current_stream_capturing():
            raise RuntimeError("a step in a CUDA graph would repeat the rates of the recording: make the optimizer with capturable=True")
        states = [self._prepare(parameter, gradient, group) for parameter, gradient in pairs]
        steps = [state["step"] for state in states]
        # A number would become a tensor once per step on the CPU.
        torch._foreach_add_(steps, 1 if capturable else torch.ones(()))
        numbers = [None] * len(steps) if capturable else torch.stack(steps).tolist()
        # One call for all parameters that differ in nothing but their memory.
        calls: dict[tuple[Any, ...], list[list[torch.Tensor]]] = {}
        for (parameter, gradient), state, number in zip(pairs, states, numbers):
            arrays = [parameter, gradient, state["exp_avg"], state["exp_avg_sq"]]
            if amsgrad:
                arrays.append(state["max_exp_avg_sq"])
            if parameter.is_complex():
                arrays = [torch.view_as_real(each) for each in arrays]
            arrays, is_joined = _in_order(arrays)
            kind = (number, is_joined, arrays[0].dtype, parameter.device, *[each.dtype for each in arrays[1:]])
            if capturable:
                arrays.append(state["step"])
            calls.setdefault(kind, []).append(arrays)
        names = ["p", "g", "m", "v", *(["n"] if amsgrad else []), *(["t"] if capturable else [])]
        for (step, is_joined, dtype, *_), sets in calls.items():
            expression = _adamw(capturable, amsgrad, bool(group["maximize"]), "f64" if dtype == torch.float64 else "f32")
            scalars, rate = _scalars(group, step)
            if is_joined:
                lists = {name: list(column) for name, column in zip(names, zip(*sets))}
                expression.many(**lists, **scalars, **{name: [value] * len(sets) for name, value in rate.items()})
                continue
            for each in sets:
                expression(**dict(zip(names, each)), **scalars, **rate)

    def _prepare(self, parameter: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state of a parameter with a gradient."""
        if gradient.is_sparse:
            raise RuntimeError("AdamW needs dense gradients: use torch.optim.SparseAdam for sparse ones")
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device if group["capturable"] else "cpu")
            for key in ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else [])]:
                dtype = parameter.dtype if self._state_dtype is None or parameter.is_complex() else self._state_dtype
                state[key] = torch.zeros_like(parameter, dtype=dtype, memory_format=torch.preserve_format)
        return state


def _in_order(arrays: list[torch.Tensor]) -> tuple[list[torch.Tensor], bool]:
    """Views of the arrays that are contiguous, if all of them have one order of dimensions, and whether that is so."""
    if all([each.is_contiguous() for each in arrays]):
        return arrays, True
    strides = arrays[0].stride()
    order = sorted(range(len(strides)), key=lambda place: -strides[place])
    arrays = [each.permute(order) for each in arrays]
    return arrays, all([each.is_contiguous() for each in arrays])


def _scalars(group: dict[str, Any], step: float | None) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """The scalars of a step whose number the host knows, or None; and the learning rate if it is a tensor that the kernel reads."""
    beta1, beta2 = (float(beta) for beta in group["betas"])
    eps, weight_decay, lr = float(group["eps"]), float(group["weight_decay"]), group["lr"]
    scalars = {"rest1": 1 - beta1, "beta2": beta2, "rest2": 1 - beta2, "eps": eps}
    if step is None:
        scalars |= {"log_beta1": _log(beta1), "log_beta2": _log(beta2), "weight_decay": weight_decay}
        return (scalars, {"lr": lr}) if isinstance(lr, torch.Tensor) else ({**scalars, "lr": float(lr)}, {})
    rate = float(lr)
    scalars |= {"decay": 1 - rate * weight_decay, "size": -rate / (1 - beta1**step), "correction2": math.sqrt(1 - beta2**step)}
    return scalars, {}


def _log(beta: float) -> float:
    return math.log(beta) if beta > 0 else -math.inf
