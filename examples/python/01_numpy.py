"""Expressions on NumPy arrays: numbers, broadcasting, results in existing memory, several outputs, in place."""

import numpy as np

import plimsoll

x = np.linspace(-2, 2, 5, dtype=np.float32)
f = plimsoll.compile("tanh(a*x + y)")
print(f.parameters, f(0.5, x, 1))

rows = plimsoll.compile("(x - m)*rsqrt(v + 1e-5)")
image = np.arange(12, dtype=np.float32).reshape(3, 4)
print(rows(image, image.mean(1, keepdims=True), image.var(1, keepdims=True)))

total, difference = plimsoll.compile("s = x + y\nd = x - y")(x, x[::-1])
print(total, difference)

momentum, gradient = np.zeros(3), np.ones(3)
step = plimsoll.compile("m = 0.9*m + g")
step(momentum, gradient)
step(momentum, gradient, out=None)
print(momentum)

try:
    plimsoll.compile("y = x + ")
except plimsoll.ExpressionError as error:
    print(error)
