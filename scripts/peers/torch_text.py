"""Expressions as functions of PyTorch tensors: the texts of plimsoll that are also valid Python."""
import re

FLOATS = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
OTHERS = {"i8": "int8", "u8": "uint8", "bool": "bool"}


def dtype(name):
    import torch

    return getattr(torch, (FLOATS | OTHERS)[name])


def statements(text):
    """(name, type or None, whether it is stored, expression) of each statement"""
    found = []
    for part in text.split(";"):
        match = re.fullmatch(r"\s*(let\s+)?(\w+)\s*(?::\s*(\w+)\s*)?=(?!=)\s*(.*)", part)
        if match:
            found.append((match[2], match[3], not match[1], match[4]))
        else:
            found.append(("out", None, True, part.strip()))
    return found


def function_of(text, inputs, names):
    """a function of the inputs that returns the tuple of the outputs' values; `names` gives the functions their meaning"""
    lines = [f"def evaluate({', '.join(inputs)}):"]
    lines += [f"    {name} = {value}" for name, _, _, value in statements(text)]
    lines.append(f"    return ({', '.join(name for name, _, stored, _ in statements(text) if stored)},)")
    scope = dict(names)
    exec("\n".join(lines), scope)  # noqa: S102 (our own text)
    return scope["evaluate"]


def names(wide=False):
    """PyTorch's functions by their names in texts. With `wide`, a cast rounds to its type and returns f64."""
    import torch
    from torch.nn import functional as f

    same = ["exp", "exp2", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "erfc", "sigmoid", "sqrt", "rsqrt", "abs", "relu",
            "pow", "floor", "round", "sign"]
    found = {name: getattr(torch, name) for name in same}
    found |= {"silu": f.silu, "gelu": f.gelu, "mish": f.mish, "select": torch.where}
    found |= {"gelu_tanh": lambda x: f.gelu(x, approximate="tanh"), "softplus": lambda x: f.softplus(x, threshold=1e9)}
    found |= {"max": bounded(torch, torch.maximum, "min"), "min": bounded(torch, torch.minimum, "max"), "clamp": torch.clamp}
    found["atan2"] = lambda y, x: torch.atan2(y, x if isinstance(x, torch.Tensor) else torch.full_like(y, x))

    def cast_to(kind):
        return lambda x: x.to(kind).to(torch.float64) if wide else x.to(kind)

    return found | {name: cast_to(dtype(name)) for name in FLOATS}


def bounded(torch, function, side):
    """max or min of two tensors, or of a tensor and a number"""
    return lambda a, b: function(a, b) if isinstance(b, torch.Tensor) else torch.clamp(a, **{side: b})
