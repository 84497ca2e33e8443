"""Bayesian optimisation with a neural network: Thompson sampling in BoTorch.

    python examples/bayesian_optimisation.py [seed]

Each round trains a small network on the values so far, with the exact posterior over its last
layer (method "closed"). It draws five functions from that posterior and evaluates the objective
where each is largest. The baseline is random search with the same number of evaluations. The
objective is Hartmann's function of three inputs, whose maximum is 3.8628.
"""

import sys

import torch
from botorch.generation import MaxPosteriorSampling
from botorch.test_functions import Hartmann
from botorch.utils.sampling import draw_sobol_samples
from torch import nn

import scroll
from scroll.integrations.botorch import Surrogate

torch.set_default_dtype(torch.float64)  # as BoTorch recommends
function = Hartmann(dim=3, negate=True)  # defined on the unit cube
BOX = torch.tensor([[0.0] * 3, [1.0] * 3])


class Centred(nn.Module):
    """Map the unit cube to inputs of mean zero."""

    def forward(self, x):
        return 4 * x - 2


def surrogate(x, y, steps=150):
    """Train a network on all rows at once; return a BoTorch model of the standardised values."""
    y = (y - y.mean()) / y.std()
    body = nn.Sequential(Centred(), nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 64), nn.Tanh())
    head = scroll.RegressionHead(64, method="closed", noise=0.3)
    optimiser = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-2)
    for _ in range(steps):
        optimiser.zero_grad()
        head.loss(body(x), y, total=len(y)).backward()
        optimiser.step()
    body.requires_grad_(False)
    return Surrogate(body, scroll.refit(head, body(x), y))


seed = int(sys.argv[1]) if sys.argv[1:] else 0
torch.manual_seed(seed)
x = draw_sobol_samples(BOX, n=10, q=1, seed=seed)[:, 0]
y = function(x)
for _ in range(8):
    thompson = MaxPosteriorSampling(surrogate(x, y), replacement=False)
    new = thompson(torch.rand(2000, 3), num_samples=5)
    x, y = torch.cat([x, new]), torch.cat([y, function(new)])
    print(f"{len(y)} values  best {y.max():.4f}")

random = function(torch.rand(1000, len(y), 3)).amax(-1)
print(f"scroll  best {y.max():.4f}  regret {function.optimal_value - y.max():.4f}")
print(f"random  best {random.median():.4f}  regret {function.optimal_value - random.median():.4f}")
print(f"ahead of {(random < y.max()).double().mean():.1%} of 1000 random searches")
