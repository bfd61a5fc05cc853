"""True values of f64 functions for `crates/plimsoll-cpu/tests/f64_functions.rs`, computed with 160 bits by mpmath.

    python3 scripts/f64_reference.py 20 1 > crates/plimsoll-cpu/tests/f64_functions.txt

The arguments are the number of trials per function and the seed. A line is the function, the bits of its arguments, the bits of
the nearest result, and what that lacks in units of its last place.
"""

import random
import struct
import sys

from mpmath import mp, mpf

mp.prec = 160


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def gelu_tanh(x):
    return x * sigmoid(mp.sqrt(8 / mp.pi) * (x + mpf("0.044715") * x**3))


FUNCTIONS = {
    "exp": mp.exp, "exp2": lambda x: mpf(2) ** x, "expm1": mp.expm1, "log": mp.log, "log2": lambda x: mp.log(x, 2),
    "log10": lambda x: mp.log(x, 10), "log1p": mp.log1p, "sin": mp.sin, "cos": mp.cos, "tanh": mp.tanh, "sinh": mp.sinh,
    "cosh": mp.cosh, "asinh": mp.asinh, "acosh": mp.acosh, "atanh": mp.atanh, "atan": mp.atan, "erf": mp.erf,
    "erfc": mp.erfc, "sigmoid": sigmoid, "silu": lambda x: x * sigmoid(x),
    "gelu": lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2, "gelu_tanh": gelu_tanh,
    "softplus": lambda x: mp.log1p(mp.exp(x)), "mish": lambda x: x * mp.tanh(mp.log1p(mp.exp(x))),
    "rsqrt": lambda x: 1 / mp.sqrt(x),
}  # fmt: skip

RANGES = {
    "exp": (-745, 709.7), "exp2": (-1074, 1023.9), "expm1": (-40, 709.7), "log": (0, None), "log2": (0, None),
    "log10": (0, None), "log1p": (-1, None), "tanh": (-20, 20), "sinh": (-710.4, 710.4), "cosh": (-710.4, 710.4),
    "acosh": (1, None), "atanh": (-1, 1), "erf": (-6, 6), "erfc": (-6, 27.2), "sigmoid": (-745, 40), "silu": (-745, 40),
    "gelu": (-38.4, 10), "gelu_tanh": (-21.5, 10), "softplus": (-745, 40), "mish": (-745, 40), "rsqrt": (0, None),
}  # fmt: skip
"""Between these ends, results are finite and neither 0 nor constant."""


def number(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def bits(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def draw(rng, low=None, high=None):
    """A number between two ends: from their interval, near ±1, of any size, or any bits."""
    while True:
        kind = rng.random()
        sign = rng.choice((1, -1))
        if kind < 0.4 and low is not None and high is not None:
            x = rng.uniform(low, high)
        elif kind < 0.5:
            x = rng.uniform(-4, 4)
        elif kind < 0.7:
            reach = 2 ** rng.randrange(1, 52)
            x = sign * number(bits(1.0) + rng.randrange(-reach, reach))
        elif kind < 0.9:
            x = sign * 2 ** rng.uniform(-30, 12)
        else:
            x = number(rng.getrandbits(64))
        inside = (low is None or x > low) and (high is None or x < high)
        if abs(x) < float("inf") and inside:
            return x


def show(name, arguments, value):
    nearest = float(value)
    if nearest != 0 and abs(nearest) != float("inf"):
        place = max(mp.frexp(abs(mpf(nearest)))[1] - 1, -1022) - 52
        rest = float((value - mpf(nearest)) / mpf(2) ** int(place))
        print(name, *[f"{bits(x):016x}" for x in [*arguments, nearest]], f"{rest:.3f}")


def main(count, seed):
    rng = random.Random(seed)
    for name, function in FUNCTIONS.items():
        circular = name in ("sin", "cos")
        for trial in range(count):
            x = draw(rng, *RANGES.get(name, (None, None)))
            if circular and trial % 8 == 0:
                # Next to a multiple of π/2, where the reduction cancels.
                x = float(rng.randrange(1, 2 ** rng.randrange(2, 30)) * mp.pi / 2)
            with mp.workprec(1300 if circular else 160):
                show(name, [x], function(mpf(x)))
    for trial in range(count):
        x = abs(draw(rng)) or 1.5
        y = rng.choice((1, -1)) * 2 ** rng.uniform(-5, 9)
        if trial % 2 == 0 and x != 1:
            y = float(rng.uniform(-745, 709) / mp.log(x))
        if -745 < y * mp.log(x) < 709.7:
            show("pow", [x, y], mp.exp(y * mp.log(x)))
        a, b = draw(rng), draw(rng)
        b = a * 2 ** rng.uniform(-3, 3) if trial % 2 == 0 else b
        if b != 0 and abs(b) != float("inf"):
            show("atan2", [a, b], mp.atan2(a, b))


main(int(sys.argv[1]), int(sys.argv[2]))
