from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, final

__all__ = ["DeviceError", "Expression", "ExpressionError", "ShapeError", "__version__", "compile", "run_command"]

__version__: str

class ExpressionError(ValueError):
    """A mistake in an expression's text. The message shows the line and the place."""

class ShapeError(ValueError):
    """Shapes, strides or memory that don't fit together."""

class DeviceError(RuntimeError):
    """Arrays of several devices in one call, or a device that is missing or was lost."""

@final
class Expression:
    """An expression that can be called with arrays and numbers."""

    @property
    def text(self) -> str: ...
    @property
    def parameters(self) -> list[str]: ...
    @property
    def outputs(self) -> list[str]: ...
    def many(self, *args: Any, out: Any | None = None, **named: Any) -> Any: ...
    def warm(self, *args: Any, **named: Any) -> None: ...
    def result_types(self, types: Mapping[str, str]) -> list[str]: ...
    def gradient(self, types: Mapping[str, str], by: Sequence[str]) -> str: ...
    def __call__(self, *args: Any, out: Any | None = None, **named: Any) -> Any: ...

def compile(text: str) -> Expression: ...
def run_command(arguments: Sequence[str | PathLike[str]]) -> int: ...
