"""Tests the oracle's own arithmetic against mpmath and exact fractions."""

from __future__ import annotations

import math
import unittest
from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np

import exact
from bounds import Bounds, corners, exactly, order
from dtypes import TYPES, WIDE, round_to
from expression import Kernel, Output, input_of, operation
from functions import FUNCTIONS, true_pow, true_range
from generator import Generator
from oracle import Oracle
from promises import Promise

NUMBERS = np.random.default_rng(1)


def singles(count: int) -> np.ndarray:
    """Random floats of all magnitudes, and special ones."""
    bits = NUMBERS.integers(0, 2**32, count, np.uint32).view(np.float32)
    return np.where(NUMBERS.random(count) < 0.3, NUMBERS.normal(0, 3, count).astype(np.float32), bits)


class Rounding(unittest.TestCase):
    def test_small_floats_round_like_ml_dtypes(self):
        x = np.concatenate([singles(20000), np.array([464, 464.1, 65519, 65520, 57344, 61440, -0.0, np.inf], np.float32)])
        for name in ("f16", "bf16", "f8e4m3", "f8e5m2"):
            expected = x.astype(TYPES[name].storage).astype(np.float32)
            found = round_to(TYPES[name], x)
            self.assertTrue(np.array_equal(found, expected, equal_nan=True), name)

    def test_integers_and_wide_numbers_are_rounded_once(self):
        # Just above half-way between two bf16 numbers; f32 would round it to half-way.
        self.assertEqual(round_to(TYPES["bf16"], np.array([(1 << 40) + (1 << 32) + 1]))[0], float((1 << 40) + (1 << 33)))
        self.assertEqual(round_to(TYPES["f16"], np.array([1 + 2.0**-11 + 2.0**-40]))[0], 1 + 2.0**-10)


class Vanishing(unittest.TestCase):
    def test_a_small_result_times_infinity_is_only_unknown_if_stored_in_a_small_type(self):
        f16, f32 = TYPES["f16"], TYPES["f32"]
        x = np.array([-130, -130, -3, -130], np.float32)
        y = np.array([-np.inf, -2, -np.inf, -np.inf], np.float32)
        for types, stored, sure in (
            ((f16, f16), f16, [False, True, True, False]),
            ((f16, f32), f16, [True, True, True, True]),
            ((f16, f16), f32, [True, True, True, True]),
        ):
            product = operation("*", operation("exp2", input_of(0, types[0])), input_of(1, types[1]))
            kernel = Kernel(list(types), [], [Output("out", product, stored)])
            found = Oracle(gpu=True).run(kernel, [x, y], [], (4,))[0]
            self.assertEqual(found.sure.tolist(), sure)
            self.assertTrue(Oracle(gpu=False).run(kernel, [x, y], [], (4,))[0].sure.all())

    def test_after_five_products_no_result_may_vanish(self):
        f16 = TYPES["f16"]
        x, y = np.array([-130], np.float32), np.array([-np.inf], np.float32)
        product = operation("exp2", input_of(0, f16))
        for count in range(1, 6):
            product = operation("*", product, input_of(1, f16))
            kernel = Kernel([f16, f16], [], [Output("out", product, f16)])
            self.assertEqual(Oracle(gpu=True).run(kernel, [x, y], [], (1,))[0].sure.tolist(), [count > 4], count)


class Exact(unittest.TestCase):
    def test_fused_singles_are_rounded_once(self):
        a, b, c = singles(4000), singles(4000), singles(4000)
        c[:2000] = -(a[:2000] * b[:2000])
        found = exact.fma(a, b, c)
        wide = exact.fma(a.astype(np.float64), b.astype(np.float64), c.astype(np.float64))
        for x, y, z, result, double in zip(a.tolist(), b.tolist(), c.tolist(), found.tolist(), wide.tolist(), strict=True):
            if all(map(math.isfinite, (x, y, z))):
                true = Fraction(x) * Fraction(y) + Fraction(z)
                self.assertEqual(result, exact._rounded(true, np.dtype(np.float32)), (x, y, z))
            else:
                self.assertTrue(result == double or (math.isnan(result) and math.isnan(double)), (x, y, z))

    def test_floored_quotients_equal_those_of_fractions(self):
        for carrier in (np.float32, np.float64):
            a = (NUMBERS.normal(0, 1, 4000) * 2.0 ** NUMBERS.integers(-5, 70, 4000)).astype(carrier)
            b = (NUMBERS.normal(0, 1, 4000) * 2.0 ** NUMBERS.integers(-5, 5, 4000)).astype(carrier)
            a[:1000] = b[:1000] * carrier(3)
            for x, y, found in zip(a.tolist(), b.tolist(), exact.floor_divide(a, b).tolist(), strict=True):
                true = math.floor(Fraction(x) / Fraction(y))
                self.assertEqual(found, exact._rounded(true, np.dtype(carrier)), (x, y))

    def test_quotients_that_were_once_wrong_are_right(self):
        for x, y, right in [
            (4522651217010025.0, 1.8402584784705691, 2457617378167865.0),
            (-298587844163687.1, -0.11143986135721207, 2679363026184915.0),
        ]:
            self.assertEqual(exact.floor_divide(np.array([x]), np.array([y]))[0], right)

    def test_integers_wrap_and_take_every_exponent(self):
        a, b = np.array([-128, -128, -1, 7, 0], np.int8), np.array([0, -1, -3, 0, -2], np.int8)
        self.assertEqual(exact.floor_divide(a, b).tolist(), [0, -128, 0, 0, 0])
        self.assertEqual(exact.remainder(a, b).tolist(), [-128, 0, -1, 7, 0])
        self.assertEqual(exact.power_of_integers(a, b).tolist(), [1, 0, -1, 1, 0])
        self.assertEqual(exact.shift(a, np.array([8, 9, -1, 3, 0], np.int8), False).tolist(), [-1, -1, -1, 0, 0])


class Intervals(unittest.TestCase):
    def test_results_of_inner_values_lie_within_the_bounds(self):
        a = np.sort(singles(3000).reshape(2, -1), axis=0)
        b = np.sort(singles(3000).reshape(2, -1), axis=0)
        x, y = (Bounds(ends[0], ends[1], ~np.isnan(ends).any(axis=0)) for ends in (a, b))
        for function in (np.add, np.subtract, exact.minimum, exact.maximum):
            result = corners(function, x, y)
            for share in (0.0, 0.3, 1.0):
                inner = [ends[0] + (ends[1] - ends[0]) * np.float32(share) for ends in (a, b)]
                inner = [np.clip(value, *ends) for value, ends in zip(inner, (a, b), strict=True)]
                value = function(*inner)
                known = result.sure & ~np.isnan(value)
                self.assertTrue(np.all((result.low[known] <= value[known]) & (value[known] <= result.high[known])))

    def test_negative_zero_is_ordered_before_positive_zero(self):
        self.assertLess(order(np.array([-0.0]))[0], order(np.array([0.0]))[0])


class Functions(unittest.TestCase):
    REFERENCE = {
        "rsqrt": lambda x: 1 / mpmath.sqrt(x), "recip": lambda x: 1 / x, "exp2": lambda x: mpmath.power(2, x),
        "log2": lambda x: mpmath.log(x, 2), "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
        "silu": lambda x: x / (1 + mpmath.exp(-x)), "gelu": lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
        "gelu_tanh": lambda x: x / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf(0.044715) * x**3))),
        "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
        "mish": lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))),
    }  # fmt: skip

    def test_true_values_equal_those_of_mpmath(self):
        for name in FUNCTIONS:
            reference = self.REFERENCE.get(name) or getattr(mpmath, name)
            for carrier, digits in ((np.float32, 38), (np.float64, 54)):
                x = np.concatenate([NUMBERS.normal(0, 4, 60), NUMBERS.uniform(0, 1, 20)]).astype(carrier)
                low, high, _, _ = true_range(name, exactly(x))
                for value, found in zip(x.tolist(), low, strict=True):
                    with mpmath.workdps(150):  # 1 + tanh(u) of gelu_tanh may cancel 100 digits.
                        true = reference(mpmath.mpf(value))
                        if isinstance(true, mpmath.mpc) or not np.isfinite(found):
                            continue
                        head, tail = float(found), float(found - WIDE(float(found)))
                        error = abs(mpmath.mpf(head) + mpmath.mpf(tail) - true)
                    self.assertLessEqual(error, abs(true) * mpmath.mpf(2) ** -digits, (name, carrier, value))

    def test_an_interval_around_a_function_s_domain_is_not_sure(self):
        ends = [np.array([low, high], np.float32) for low, high in ((-2.0, -3.0), (2.0, -2.0))]
        self.assertEqual(true_range("atanh", Bounds(*ends, np.ones(2, bool)))[3].tolist(), [False, True])

    def test_powers_of_infinities_follow_the_c_standard(self):
        infinite = np.array([-np.inf, -np.inf, -np.inf, np.inf, -0.0], np.float32)
        powers = true_pow(infinite, np.array([-(2.0**63), -3.0, 3.0, -0.5, -(2.0**63)], np.float32))
        self.assertEqual(powers.tolist(), [0.0, 0.0, -np.inf, 0.0, np.inf])
        self.assertEqual(np.signbit(powers).tolist(), [False, True, True, False, False])

    def test_promised_intervals_contain_the_rounded_result_and_its_sign(self):
        for name in FUNCTIONS:
            x = singles(4000)
            low, high, zero, sure = true_range(name, exactly(x))
            bounds = Promise(True).results(name, low, high, x.dtype, zero=zero, sure=sure)
            nearest = low.astype(np.float32)
            inside = (order(bounds.low) <= order(nearest)) & (order(nearest) <= order(bounds.high))
            self.assertTrue(np.all(inside | np.isnan(low)), name)
            self.assertTrue(np.all(np.isnan(bounds.low) == np.isnan(low)), name)


class Texts(unittest.TestCase):
    def test_kernels_depend_only_on_their_seed(self):
        self.assertEqual(Generator("a/1").kernel().text, Generator("a/1").kernel().text)
        self.assertGreater(len({Generator(f"a/{number}").kernel().text for number in range(100)}), 95)

    def test_largest_small_floats_match_ml_dtypes(self):
        for name in ("f16", "bf16", "f8e4m3", "f8e5m2"):
            self.assertEqual(float(ml_dtypes.finfo(TYPES[name].storage).max), TYPES[name].largest)


if __name__ == "__main__":
    unittest.main()
