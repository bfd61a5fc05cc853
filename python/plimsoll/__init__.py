"""Fused elementwise expressions on NumPy, PyTorch, CuPy and JAX arrays, and measurements of GPUs and CPUs.

    >>> import numpy, plimsoll
    >>> f = plimsoll.compile("tanh(a*x + y)")
    >>> f.parameters
    ['a', 'x', 'y']
    >>> f(0.5, numpy.ones(3), numpy.zeros(3)).round(3)
    array([0.462, 0.462, 0.462])

`compile` makes a function of arrays and numbers from a text. `measure`, `check`, `bench`, `predict`, `explain`, `report` and
`load` are the verbs of the command `plimsoll`. The manual is docs/python.md in the repository.
"""

from typing import TYPE_CHECKING

from ._plimsoll import DeviceError, Expression, ExpressionError, ShapeError, __version__, compile

if TYPE_CHECKING:
    from .run import CommandError, Run, bench, check, explain, load, measure, predict, report

__all__ = [
    "CommandError",
    "DeviceError",
    "Expression",
    "ExpressionError",
    "Run",
    "ShapeError",
    "__version__",
    "bench",
    "check",
    "compile",
    "explain",
    "load",
    "measure",
    "predict",
    "report",
]


def __getattr__(name: str) -> object:
    # The verbs import modules that take longer than all of the rest.
    if name in __all__:
        from . import run

        return getattr(run, name)
    raise AttributeError(f"module 'plimsoll' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
