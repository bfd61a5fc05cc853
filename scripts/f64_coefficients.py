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


def scaled_tail(t):
    """Φ(−t)·e^(t²/2)."""
    return mp.exp(t * t / 2) * mp.erfc(t / mp.sqrt(2)) / 2


def rational(function, points, above, below):
    """The numerator and denominator (1 + …) of these degrees with the smallest largest relative error at the points, and that error: Remez'
    exchange, where each step solves linear equations that are weighted by the denominator before."""
    values = [function(t) for t in points]
    count = above + below + 2
    extremes = [int((1 - mp.cos(mp.pi * i / (count - 1))) / 2 * (len(points) - 1)) for i in range(count)]
    denominator = [mp.binomial(below, j) for j in range(below + 1)]
    while True:
        for _ in range(4):
            matrix, right = mp.matrix(count, count), mp.matrix(count, 1)
            for i, place in enumerate(extremes):
                t, value = points[place], values[place]
                right[i] = value
                for j in range(above + 1):
                    matrix[i, j] = t**j
                for j in range(1, below + 1):
                    matrix[i, above + j] = -value * t**j
                matrix[i, count - 1] = (-1) ** i * value * mp.polyval(denominator[::-1], t)
            found = mp.lu_solve(matrix, right)
            numerator = [found[j] for j in range(above + 1)]
            denominator = [mpf(1)] + [found[above + j] for j in range(1, below + 1)]
        errors = [
            mp.polyval(numerator[::-1], t) / mp.polyval(denominator[::-1], t) / value - 1
            for t, value in zip(points, values)
        ]
        runs = [[0]]
        for i in range(1, len(errors)):
            if errors[i] * errors[i - 1] > 0:
                runs[-1].append(i)
            else:
                runs.append([i])
        largest = [max(run, key=lambda i: abs(errors[i])) for run in runs]
        assert len(largest) == count, "not an alternating error"
        if largest == extremes:
            return numerator, denominator, max(map(abs, errors))
        extremes = largest


end = mpf(39)
steps = [(1 + (end - 3) / (end + 3)) * i / 3000 - 1 for i in range(3001)]
p, q, error = rational(scaled_tail, [3 * (1 + s) / (1 - s) for s in steps], 9, 10)
slope = q[10] / p[9]
offset = (q[9] - slope * p[8]) / p[9]
rest = [q[j] - offset * p[j] - (slope * p[j - 1] if j else 0) for j in range(9)]
print(f"gelu, erfc: P/((slope·t + offset)·P + R), error 2^{float(mp.log(error, 2)):.1f}")
for name, values in [("P", p), ("R", rest), ("slope, offset", [slope, offset])]:
    print(f"  {name}: [" + ", ".join(repr(float(c)) for c in values) + "]")
