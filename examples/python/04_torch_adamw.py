"""plimsoll.torch.AdamW in place of torch.optim.AdamW: a training run that changes from one to the other and back."""

import torch

import plimsoll.torch

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 1)).to(device)
x = torch.randn(256, 8, device=device)
target = x.square().sum(1, keepdim=True)


def train(optimizer: torch.optim.Optimizer, steps: int) -> float:
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
    return loss.item()


# Weights decay and biases don't: two groups, each updated by one launch on a GPU.
groups = [
    {"params": [each for each in model.parameters() if each.dim() > 1], "weight_decay": 0.1},
    {"params": [each for each in model.parameters() if each.dim() == 1], "weight_decay": 0.0},
]
optimizer = plimsoll.torch.AdamW(groups, lr=1e-2)
print("plimsoll", train(optimizer, 100))

# The state goes on in PyTorch's optimizer, and comes back.
theirs = torch.optim.AdamW(groups)
theirs.load_state_dict(optimizer.state_dict())
print("torch   ", train(theirs, 100))
optimizer.load_state_dict(theirs.state_dict())
print("plimsoll", train(optimizer, 100))
