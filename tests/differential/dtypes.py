"""Element types: their memory, their carriers, and the tables of docs/expressions.md."""

from __future__ import annotations

import functools
import pathlib
from dataclasses import dataclass

import ml_dtypes
import numpy as np

np.seterr(all="ignore")

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDE = np.longdouble


@dataclass(frozen=True)
class DType:
    """An element type. `carrier` is the NumPy type in which its values are computed."""

    name: str
    kind: str
    storage: np.dtype
    carrier: np.dtype
    precision: int = 0
    """Bits of a float's significand, with the implied one."""
    least: int = 0
    """Exponent of a float's smallest normal number."""
    largest: float = 0.0

    @property
    def bytes(self) -> int:
        return self.storage.itemsize

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        return self.kind == "int"

    @property
    def is_signed(self) -> bool:
        return self.is_int and self.carrier.kind == "i"

    @property
    def rank(self) -> int:
        return ("bool", "int", "float").index(self.kind)

    def __repr__(self) -> str:
        return self.name


def _float(name, storage, carrier, precision, least, largest):
    return DType(name, "float", np.dtype(storage), np.dtype(carrier), precision, least, largest)


def _all() -> dict[str, DType]:
    types = [
        _float("f64", np.float64, np.float64, 53, -1022, float(np.finfo(np.float64).max)),
        _float("f32", np.float32, np.float32, 24, -126, float(np.finfo(np.float32).max)),
        _float("f16", np.float16, np.float32, 11, -14, 65504.0),
        _float("bf16", ml_dtypes.bfloat16, np.float32, 8, -126, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)),
        _float("f8e4m3", ml_dtypes.float8_e4m3fn, np.float32, 4, -6, 448.0),
        _float("f8e5m2", ml_dtypes.float8_e5m2, np.float32, 3, -14, 57344.0),
    ]
    for sign in ("i", "u"):
        for size in (1, 2, 4, 8):
            dtype = np.dtype(f"{sign}{size}")
            types.append(DType(f"{sign}{8 * size}", "int", dtype, dtype))
    types.append(DType("bool", "bool", np.dtype(np.uint8), np.dtype(np.bool_)))
    return {dtype.name: dtype for dtype in types}


TYPES = _all()
F64, F32, F16, BF16, BOOL, I64 = (TYPES[name] for name in ("f64", "f32", "f16", "bf16", "bool", "i64"))


@functools.cache
def _common_types() -> dict[tuple[str, str], DType]:
    """The table of common types, parsed from the documentation."""
    table, columns = {}, []
    for line in (ROOT / "docs/expressions.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[:2] == ["", "f64"]:
            columns = cells[1:]
        elif columns and len(cells) == len(columns) + 1 and cells[0].startswith("**"):
            row = cells[0].strip("*")
            table.update({(row, column): TYPES[cell] for column, cell in zip(columns, cells[1:], strict=True)})
    if len(table) != len(TYPES) ** 2:
        raise ValueError("docs/expressions.md has no table of common types that can be parsed")
    return table


def common(a: DType, b: DType) -> DType:
    """The common type of two tensors."""
    return _common_types()[a.name, b.name]


def integer_range(dtype: DType) -> tuple[int, int]:
    info = np.iinfo(dtype.carrier)
    return int(info.min), int(info.max)


def decode(dtype: DType, memory: np.ndarray) -> np.ndarray:
    """The elements in memory, converted to the carrier."""
    if dtype is BOOL:
        return memory != 0
    return memory.astype(dtype.carrier)


def round_to(dtype: DType, x: np.ndarray) -> np.ndarray:
    """Rounds to a float type, ties to even; the result is in its carrier. `x` has any float or integer type; integers are
    converted exactly to 64 bits of significand first."""
    x = np.asarray(x)
    if x.dtype.kind not in "f":
        x = x.astype(WIDE)
    if dtype in (F64, F32):
        return x.astype(dtype.carrier)
    if x.dtype == np.float32:
        x = x.astype(np.float64)
    exponent = np.maximum(np.frexp(x)[1] - 1, dtype.least)
    quantum = np.ldexp(np.ones((), x.dtype), exponent - dtype.precision + 1)
    rounded = np.rint(x / quantum) * quantum
    beyond = np.nan if dtype.name == "f8e4m3" else np.inf
    rounded = np.where(np.abs(rounded) > dtype.largest, np.copysign(beyond, x), rounded)
    return np.copysign(rounded, x).astype(np.float32)


def cast(dtype: DType, x: np.ndarray) -> np.ndarray:
    """Casts numbers in any carrier."""
    if dtype is BOOL:
        return x != 0
    if dtype.is_float:
        return round_to(dtype, x)
    if x.dtype.kind != "f":
        return x.astype(dtype.carrier)
    least, most = integer_range(dtype)
    whole = np.trunc(np.nan_to_num(x.astype(WIDE), nan=0.0, posinf=WIDE(most), neginf=WIDE(least)))
    return np.clip(whole, WIDE(least), WIDE(most)).astype(dtype.carrier)
