"""Coefficients of the f64 functions of `crates/plimsoll-cpu/src/arch/math/full`, by interpolation at Chebyshev nodes (mpmath).

    python3 scripts/f64_coefficients.py
"""

from mpmath import mp, mpf

mp.dps = 60


def interpolate(function, low, high, degree):
    """The coefficients of the polynomial that equals `function` at Chebyshev nodes, and its largest error in between."""
    low, high = mpf(low), mpf(high)
    middle, half = (low + high) / 2, (high - low) / 2
    nodes = [middle + half * mp.cos(mp.pi * (2 * i + 1) / (2 * degree + 2)) for i in range(degree + 1)]
    matrix = mp.matrix(degree + 1, degree + 1)
    for i, node in enumerate(nodes):
        for j in range(degree + 1):
            matrix[i, j] = node**j
    exact = mp.lu_solve(matrix, mp.matrix([function(node) for node in nodes]))
    rounded = [float(c) for c in exact]
    points = [low + (high - low) * i / 400 for i in range(401)]
    error = max(abs(mp.polyval([mpf(c) for c in reversed(rounded)], x) - function(x)) for x in points if x != 0)
    return rounded, error


def show(name, function, low, high, degree):
    coefficients, error = interpolate(function, low, high, degree)
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
