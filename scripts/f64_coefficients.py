"""Coefficients of f64 functions, by interpolation at Chebyshev nodes (mpmath): those of CPUs
(`crates/plimsoll-cpu/src/arch/math/full`), then those of GPUs (`crates/plimsoll-ir/src/lower/functions/double.rs`).

    python3 scripts/f64_coefficients.py
"""

import struct

from mpmath import mp, mpf

mp.dps = 60


def upper_half(x):
    """The nearest number whose lower 32 bits are 0: GPUs hold it in an instruction."""
    bits = struct.unpack("<Q", struct.pack("<d", float(x)))[0] + 0x80000000
    return struct.unpack("<d", struct.pack("<Q", bits & ~0xFFFFFFFF))[0]


def interpolate(function, low, high, degree, halves=0, scale=lambda x: 1):
    """The coefficients of the polynomial that equals `function` at Chebyshev nodes, and its largest error in between, times `scale`. The
    last `halves` coefficients are rounded one after the other, and the others found again for what that left."""
    low, high = mpf(low), mpf(high)
    middle, half = (low + high) / 2, (high - low) / 2
    fixed = []
    while True:
        degree_left = degree - len(fixed)
        nodes = [middle + half * mp.cos(mp.pi * (2 * i + 1) / (2 * degree_left + 2)) for i in range(degree_left + 1)]
        matrix = mp.matrix(degree_left + 1, degree_left + 1)
        for i, node in enumerate(nodes):
            for j in range(degree_left + 1):
                matrix[i, j] = node**j
        rest = [function(node) - node ** (degree_left + 1) * mp.polyval(fixed[::-1] or [0], node) for node in nodes]
        exact = mp.lu_solve(matrix, mp.matrix(rest))
        if len(fixed) == halves:
            break
        fixed.insert(0, mpf(upper_half(exact[degree_left])))
    rounded = [float(c) for c in [*exact, *fixed]]
    points = [low + (high - low) * i / 400 for i in range(401)]
    value = [mpf(c) for c in reversed(rounded)]
    error = max(abs((mp.polyval(value, x) - function(x)) * scale(x)) for x in points if x != 0)
    return rounded, error


def show(name, function, low, high, degree, *more):
    coefficients, error = interpolate(function, low, high, degree, *more)
    print(f"{name}: error 2^{float(mp.log(error, 2)):.1f}")
    print("    [" + ", ".join(repr(c) for c in coefficients) + "]")


def scaled_erfc(t, centre=mpf(4)):
    """(1 + 2x)·e^(x²)·erfc x for t = (x − 4)/(x + 4)."""
    x = centre * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def series(terms, count=60):
    """A power series, for small arguments where the closed form would cancel."""
    return lambda z: mp.fsum(terms(k) * z**k for k in range(count))


half_log = mpf("0.34700")
show("exp", series(lambda k: 1 / mp.factorial(k + 2)), -half_log, half_log, 10)
show("log", series(lambda k: mpf(2) / (2 * k + 5)), 0, mpf("0.02944"), 7)
show("sin", series(lambda k: (-1) ** (k + 1) / mp.factorial(2 * k + 3)), 0, mpf("0.6169"), 6)
show("cos", series(lambda k: (-1) ** k / mp.factorial(2 * k + 4)), 0, mpf("0.6169"), 6)
show("atan", series(lambda k: mpf((-1) ** (k + 1)) / (2 * k + 3), 90), 0, mpf("0.17158"), 12)
two = 2 / mp.sqrt(mp.pi)
show("erf", series(lambda k: two * (-1) ** k / (mp.factorial(k) * (2 * k + 1)) - (1 if k == 0 else 0)), 0, 1, 14)
end = mpf(28)
show("erfc", scaled_erfc, -1, (end - 4) / (end + 4), 26)
root = mp.sqrt(8 / mp.pi)
constants = {
    "ln 2": mp.log(2), "log2 e": 1 / mp.log(2), "log10 e": 1 / mp.log(10), "log10 2": mp.log10(2), "2/3": mpf(2) / 3,
    "sqrt(8/pi)": root, "0.044715 sqrt(8/pi)": mpf("0.044715") * root, "pi/2": mp.pi / 2,
}  # fmt: skip
for name, value in constants.items():
    high = float(value)
    middle = float(value - mpf(high))
    print(f"{name}: {high!r} + {middle!r} + {float(value - mpf(high) - mpf(middle))!r}")

print("\nGPUs")
show("exp", series(lambda k: 1 / mp.factorial(k + 2)), "-0.347", "0.347", 9, 3, lambda r: r * r)
show("exp2", series(lambda k: mp.log(2) ** (k + 1) / mp.factorial(k + 1)), -0.5, 0.5, 10, 3, lambda r: r)
artanh = series(lambda k: mpf(2) / (2 * k + 3), 90)
show("log", artanh, 0, "0.02944", 6, 1, lambda z: z)
show("softplus", artanh, 0, mpf(1) / 9, 10, 0, lambda z: z)


def scaled_tail(s, reach=mpf(4.2)):
    """Φ(−t)·e^(t²/2)/r for s = 1 − 2r, r = 1/(1 + t/4.2)."""
    r = (1 - s) / 2
    t = reach * (1 / r - 1)
    return mp.exp(t * t / 2) * mp.erfc(t / mp.sqrt(2)) / 2 / r


show("gelu, erfc", scaled_tail, -1, 1 - 2 / (1 + 39 / mpf(4.2)), 24, 4, lambda s: 1 / scaled_tail(s))
