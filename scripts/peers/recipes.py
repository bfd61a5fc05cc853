"""Elementwise expressions like those people write, as templates for random_cases.py.

A recipe is (family, text, roles). `{a:x}` stands for an activation of x, `{f:x}` for a function, `{k}` for a factor, `{s}` for a small
positive number, `{q}` for a scale of 8-bit integers and `{op}` for an operator; each is drawn. A role says what an input may be:

  full    any float type, the whole shape        row, col   a float, broadcast over rows or over columns where the layout allows it
  state   f32 (f64 among f64), the whole shape   vec        the same, in either direction
  mask, i8, f8                                   that type, the whole shape

Texts are also valid Python: torch_text.py runs them with PyTorch, the tests with the oracle in tests/differential.
"""

import re

ACTIVATIONS = ["relu({})", "silu({})", "gelu({})", "gelu_tanh({})", "tanh({})", "sigmoid({})", "mish({})", "softplus({})",
               "max({}, 0.01*{})", "select({} > 0, {}, expm1({}))", "{}*clamp({} + 3, 0, 6)/6", "relu({})*relu({})"]

X, XY, XYZ = (dict.fromkeys(names, "full") for names in ("x", "xy", "xyz"))

RECIPES = [
    # Activations, and products of them.
    ("activation", "{a:x}", X),
    ("activation", "{a:x}*{k}", X),
    ("activation", "{a:x}*y", XY),
    ("activation", "{a:x} + y", XY),
    ("activation", "silu(x)*y", XY),
    ("activation", "gelu(x)*y", XY),
    ("activation", "gelu_tanh(x)*y", XY),
    ("activation", "x*sigmoid({k}*x)", X),
    ("activation", "y*silu(x)*{k} + z", XYZ),
    ("activation", "let s = sigmoid(x); y*s*(1 + x*(1 - s))", XY),
    ("activation", "let t = tanh(x); y*(1 - t*t)", XY),
    ("activation", "y*(0.5*erfc(-0.7071067811865476*x) + x*0.3989422804014327*exp(-0.5*x*x))", XY),
    ("activation", "x*tanh(softplus(x))", X),
    ("residual", "{a:(x + b)} + y", {"x": "full", "b": "row", "y": "full"}),
    ("residual", "{a:(x + b)}", {"x": "full", "b": "row"}),
    ("residual", "gelu(x + b)*{k}", {"x": "full", "b": "row"}),
    ("residual", "x + y*w", {"x": "full", "y": "full", "w": "row"}),
    ("residual", "x + y + z", XYZ),
    ("residual", "h = x + {k}*y; d = relu(h)", XY),
    ("dropout", "select(m, x*1.1111111, 0)", {"x": "full", "m": "mask"}),
    ("dropout", "select(m, (x + b)*1.25, 0) + y", {"x": "full", "b": "row", "m": "mask", "y": "full"}),
    ("dropout", "select(m, {a:x}*1.25, 0)", {"x": "full", "m": "mask"}),
    # Normalisation without its reduction.
    ("norm", "(x - u)*r", {"x": "full", "u": "col", "r": "col"}),
    ("norm", "x*r*w", {"x": "full", "r": "col", "w": "row"}),
    ("norm", "(x - u)*rsqrt(v + 1e-5)", {"x": "full", "u": "vec", "v": "vec"}),
    ("norm", "x*w + b", {"x": "full", "w": "row", "b": "row"}),
    ("norm", "relu(x*w + b)", {"x": "full", "w": "vec", "b": "vec"}),
    ("norm", "(x - u)*r*w", {"x": "full", "u": "col", "r": "col", "w": "row"}),
    ("norm", "x*r*(1 + w) + y", {"x": "full", "r": "col", "w": "row", "y": "full"}),
    ("norm", "exp(x - u)*r", {"x": "full", "u": "col", "r": "col"}),
    # Optimizers: in place, several outputs.
    ("optimizer", "p = p - {s}*g", {"p": "full", "g": "full"}),
    ("optimizer", "m = 0.9*m + g; p = p - {s}*m", {"m": "state", "g": "full", "p": "full"}),
    ("optimizer", "let d = g + 0.01*p; m = 0.9*m + d; p = p - {s}*(d + 0.9*m)", {"m": "state", "g": "full", "p": "full"}),
    ("optimizer", "m = 0.9*m + 0.1*g; v = 0.999*v + 0.001*g*g; p = p - {s}*m/(sqrt(abs(v)) + 1e-8)",
     {"m": "state", "v": "state", "g": "full", "p": "full"}),
    ("optimizer", "m = 0.9*m + 0.1*g; v = 0.95*v + 0.05*g*g; p = p*0.9999 - {s}*(m*1.05)/(sqrt(abs(v)*1.2) + 1e-8)",
     {"m": "state", "v": "state", "g": "full", "p": "full"}),
    ("optimizer", "let c = 0.9*m + 0.1*g; p = p*0.999 - {s}*sign(c); m = 0.99*m + 0.01*g", {"m": "state", "g": "full", "p": "full"}),
    ("optimizer", "v = 0.99*v + 0.01*g*g; p = p - {s}*g*rsqrt(abs(v) + 1e-8)", {"v": "state", "g": "full", "p": "full"}),
    ("optimizer", "e = 0.999*e + 0.001*p", {"e": "state", "p": "full"}),
    # Quantisation.
    ("quantise", "d: i8 = clamp(round(x*{q}), -128, 127)", X),
    ("quantise", "d: i8 = clamp(round(x*w), -128, 127)", {"x": "full", "w": "vec"}),
    ("quantise", "d: u8 = clamp(round(x*{q} + 128), 0, 255)", X),
    ("quantise", "d: bf16 = f32(q)*{s}", {"q": "i8"}),
    ("quantise", "d: f32 = (f32(q) - 3)*w", {"q": "i8", "w": "row"}),
    ("quantise", "d: bf16 = f32(q)*{s} + y", {"q": "i8", "y": "full"}),
    ("quantise", "d: f8e4m3 = clamp(x*{k}, -448, 448)", X),
    ("quantise", "d: f8e5m2 = clamp(x*w, -57344, 57344)", {"x": "full", "w": "row"}),
    ("quantise", "d: bf16 = f32(q)*{k}", {"q": "f8"}),
    ("quantise", "d: f32 = f32(q)*w", {"q": "f8", "w": "row"}),
    ("convert", "d: bf16 = x", X),
    ("convert", "d: f32 = x*{k}", X),
    ("convert", "d: f16 = x + y", XY),
    # Losses and their derivatives.
    ("loss", "max(x, 0) - x*y + log1p(exp(-abs(x)))", XY),
    ("loss", "sigmoid(x) - y", XY),
    ("loss", "let d = x - y; let a = abs(d); select(a < 1, 0.5*d*d, a - 0.5)", XY),
    ("loss", "let d = x - y; select(abs(d) < {k}, d, {k}*sign(d))", XY),
    ("loss", "let p = sigmoid(x); let c = softplus(x) - x*y; let t = p*y + (1 - p)*(1 - y); c*(1 - t)*(1 - t)", XY),
    ("loss", "(x - y)*(x - y)*z", XYZ),
    ("loss", "exp(x)*(x - y)", XY),
    # Physics and finance.
    ("physics", "x + {s}*({k}*x*(1 - x))", X),
    ("physics", "v = v - {s}*(4*x + 0.1*v); x = x + {s}*v", {"x": "full", "v": "full"}),
    ("physics", "0.5*x*x + {k}*y*y", XY),
    ("physics", "let r = rsqrt(x*x + y*y + z*z + {s}); r*r*r", XYZ),
    ("physics", "let q = 1/(x*x + {k}); let h = q*q*q; 4*(h*h - h)", X),
    ("physics", "exp(-{k}*x)*cos({k}*y)", XY),
    ("physics", "sin({k}*x + y)*z", XYZ),
    ("physics", "x*exp(-y*y*{k})", XY),
    ("physics", "u = u + {s}*(x - 2*u + y)", {"u": "full", "x": "full", "y": "full"}),
    ("physics", "h = sqrt(x*x + y*y); t = atan2(y, x)", XY),
    ("finance", "let a = abs(x) + 0.1; let b = abs(y) + 0.1; let d = (log(a/b) + 0.06)/0.3; let e = d - 0.3; "
                "c = a*0.5*erfc(-0.70710678*d) - b*0.98*0.5*erfc(-0.70710678*e)", XY),
    ("finance", "let a = abs(x) + 0.1; let b = abs(y) + 0.1; let t = abs(z) + 0.1; let w = 0.3*sqrt(t); let d = (log(a/b) + 0.045*t)/w; "
                "c = a*0.5*erfc(-0.70710678*d) - b*exp(-0.02*t)*0.5*erfc(-0.70710678*(d - w))", XYZ),
    ("finance", "x*exp((0.05 - 0.5*y*y)*{s} + y*0.1*z)", XYZ),
    ("finance", "max(x - {k}, 0)*exp(-0.05*y)", XY),
    ("finance", "x*pow(1 + abs(y), {k})", XY),
    # Masks and choices.
    ("mask", "select(m, x, y)", {"m": "mask", "x": "full", "y": "full"}),
    ("mask", "select(x > y, x, {k}*y)", XY),
    ("mask", "select((x > -1) & (x < 1), x*x, abs(x))", X),
    ("mask", "select(m, x, -10000)", {"m": "mask", "x": "full"}),
    ("mask", "clamp(x, -1, 1)*y", XY),
    ("mask", "max(min(x, y), z)", XYZ),
    ("mask", "select(x != 0, y/select(x < 0, x - {s}, x + {s}), 0)", XY),
    # Complex numbers and rotations as planes.
    ("planes", "p = a*c - b*d; q = a*d + b*c", {"a": "full", "b": "full", "c": "full", "d": "full"}),
    ("planes", "h = sqrt(a*a + b*b)", {"a": "full", "b": "full"}),
    ("planes", "let r = 1/(a*a + b*b + 1e-6); p = a*r; q = -b*r", {"a": "full", "b": "full"}),
    ("planes", "p = exp(a)*cos(b); q = exp(a)*sin(b)", {"a": "full", "b": "full"}),
    ("planes", "p = x*c - y*s; q = y*c + x*s", {"x": "full", "y": "full", "c": "row", "s": "row"}),
    ("planes", "x = x*cos(t) - y*sin(t); d = x", {"x": "full", "y": "full", "t": "vec"}),
    # Single operations, where an eager framework is at its best.
    ("single", "x {op} y", XY),
    ("single", "x*{k} + y", XY),
    ("single", "{k}*x + {k}", X),
    ("single", "x*y + z", XYZ),
    ("single", "{f:x}", X),
]

FUNCTIONS = ["exp({})", "log(abs({}) + 0.1)", "sin({})", "cos({})", "tanh({})", "erf({})", "sigmoid({})", "silu({})", "gelu({})",
             "softplus({})", "mish({})", "sqrt(abs({}))", "rsqrt(abs({}) + 0.5)", "abs({})", "relu({})", "exp2(-abs({}))",
             "log1p(abs({}))", "atan2({}, 2)", "1/(abs({}) + 0.5)", "floor({})"]


def random_tree(draw):
    """a tree of 2 to 7 operations on up to four inputs, with each of them in it"""
    names = "xyzw"[: draw.choice([1, 1, 2, 2, 2, 3, 3, 4])]
    terms = list(names)
    for _ in range(draw.randint(2, 7)):
        a, kind = terms[-1] if draw.random() < 0.5 else draw.choice(terms), draw.random()
        if kind < 0.45:
            terms.append(draw.choice(FUNCTIONS).replace("{}", a))
        else:
            other = draw.choice([term for term in [*terms, "0.5", "3", "0.7"] if term != a])
            if kind < 0.9:
                terms.append(f"({a} {draw.choice('+-**')} {other})")
            else:
                terms.append(f"{draw.choice(['max', 'min'])}({a}, {other})")
        if len(terms[-1]) > 160:
            terms.pop()
    missing = [name for name in names if name not in inputs_in(terms[-1])]
    return "random", " + ".join([terms[-1], *missing]), dict.fromkeys(names, "full")


def inputs_in(text):
    """the names in a text that aren't functions"""
    return set(re.findall(r"\b[a-z]\b(?!\()", text))


def fill(draw, text):
    """the text with everything drawn"""
    def drawn(match):
        what, _, of = match.group(1).partition(":")
        if what in "af":
            return draw.choice(ACTIVATIONS if what == "a" else FUNCTIONS).replace("{}", of)
        numbers = {"k": ["0.5", "1.702", "2", "0.1", "3", "0.7", "1.5"], "s": ["0.01", "0.001", "0.1", "0.05"],
                   "q": ["12.7", "31.75", "42.3"], "op": ["+", "-", "*"]}
        return draw.choice(numbers[what])

    return re.sub(r"\{(\w+(?::[^{}]*)?)\}", drawn, text)
