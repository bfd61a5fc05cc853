"""Coefficients of f32 functions on GPUs (`crates/plimsoll-ir/src/lower/functions/single.rs`): minimax in relative error, by Lawson's
weights over Chebyshev nodes. They are rounded to f32 from the last to the first, and those before found again for what that left.

    python3 scripts/f32_coefficients.py        # needs NumPy
"""

import numpy as np

NODES = 600
STEPS = 120


def minimax(x, y, weight, degree, domain):
    """The coefficients of the polynomial with the least largest error, times `weight`, and that error."""
    low, high = domain
    basis = np.polynomial.chebyshev.chebvander((2 * x - low - high) / (high - low), degree)
    share = np.full(len(x), 1 / len(x))
    for _ in range(STEPS):
        scale = np.sqrt(share) * weight
        found = np.linalg.lstsq(basis * scale[:, None], y * scale, rcond=None)[0]
        error = np.abs(basis @ found - y) * weight
        share *= error
        share /= share.sum()
    series = np.polynomial.Chebyshev(found, domain=domain)
    return series.convert(kind=np.polynomial.Polynomial).coef, error.max()


def show(name, function, weight, degree, domain):
    low, high = domain
    x = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (2 * np.arange(NODES) + 1) / (2 * NODES))
    y, rounded = function(x), []
    while len(rounded) <= degree:
        left = degree - len(rounded)
        rest = y - x ** (left + 1) * np.polyval(rounded[::-1] or [0.0], x)
        rounded.insert(0, float(np.float32(minimax(x, rest, weight(x), left, domain)[0][-1])))
    error = np.max(np.abs((np.polyval(rounded[::-1], x) - y) * weight(x)))
    print(f"{name}: error 2^{np.log2(error):.1f}\n    {rounded}")


# A little more than √½ − 1 to √2 − 1. No node is near 0, where the quotients would lose digits.
DOMAIN = (np.sqrt(0.5) - 1 - 1e-5, np.sqrt(2) - 1 + 1e-5)
show("log", lambda f: (np.log1p(f) - f) / f**2, lambda f: np.abs(f**2 / np.log1p(f)), 8, DOMAIN)
show("log2", lambda f: np.log1p(f) / f / np.log(2) - 1, lambda f: np.log(2) * f / np.log1p(f), 9, DOMAIN)
