"""An expression as an operator of PyTorch: derivatives, torch.compile, vmap."""

import torch

import plimsoll.torch

swiglu = plimsoll.torch.op("swiglu", "silu(a*x)*y", scalars=["a"])

device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.linspace(-2, 2, 12, device=device).reshape(3, 4).requires_grad_()
y = torch.ones(4, device=device, requires_grad=True)

# One kernel forward and one backward. The gradient of y, which is broadcast, is summed over the rows.
swiglu(1.5, x, y).sum().backward()
print(x.grad, y.grad)

# PyTorch's own check of derivatives, of first and second order.
exact = [each.detach().double().requires_grad_() for each in (x, y)]
print(torch.autograd.gradcheck(lambda x, y: swiglu(1.5, x, y), exact), torch.autograd.gradgradcheck(lambda x, y: swiglu(1.5, x, y), exact))


class Gated(torch.nn.Module):
    """A layer with the operator between two matrix products."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(width, 2 * width)
        self.outer = torch.nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = self.inner(x).chunk(2, dim=-1)
        return self.outer(swiglu(1.0, gate, value))


model = Gated(4).to(device)
compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
print(torch.allclose(compiled(x), model(x)))

# A batch in one call: each row of x with its own element of y.
rows = torch.vmap(swiglu, in_dims=(None, 0, 0))(1.5, x, torch.arange(3.0, device=device))
print(rows.shape)
