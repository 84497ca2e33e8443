"""Bodies: what turns inputs into features, over a stack of replicates."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from .chance import kept
from .checks import axes, must, one_of, positive_int
from .linalg import standardised

ARCHITECTURES = ("relu", "relu+LN", "tanh", "tanh+LN")


class MLP(nn.Module):
    """The paper's body: hidden layers of one width without biases, LayerNorm without gain.

    Args:
        inputs: number of inputs.
        width: of each hidden layer, and so the number of features.
        depth: number of hidden layers.
        architecture: one of `ARCHITECTURES`, or one for each replicate along the last axis.
        replicates: leading axes of independent copies.
        between: what the activations of each layer pass through, such as a `Dropout`.
    """

    bent: Tensor
    normed: Tensor

    def __init__(
        self,
        inputs: int,
        width: int = 50,
        depth: int = 1,
        architecture: str | Sequence[str] = "relu+LN",
        replicates: tuple[int, ...] = (),
        between: nn.Module | None = None,
    ):
        super().__init__()
        for name, number in (("inputs", inputs), ("width", width), ("depth", depth)):
            positive_int(name, number)
        each = (architecture,) if isinstance(architecture, str) else tuple(architecture)
        for name in each:
            one_of("architecture", name, ARCHITECTURES)
        must(
            isinstance(architecture, str) or replicates[-1:] == (len(each),),
            "architecture",
            "be one name, or a name for each replicate",
            f"{len(each)} names for replicates {replicates}",
        )
        self.features, self.replicates = width, axes(replicates)
        self.architecture = each[0] if len(set(each)) == 1 else "mixed"
        self.between = between
        if self.architecture == "mixed":
            for name, mark in (("bent", "tanh"), ("normed", "+LN")):
                marked = torch.tensor([mark in a for a in each])[:, None, None]
                self.register_buffer(name, marked)
        sizes = (inputs, *(width for _ in range(depth)))
        self.weights = nn.ParameterList(
            nn.Parameter(torch.empty(*replicates, a, b).uniform_(-1, 1) * a**-0.5)
            for a, b in pairwise(sizes)
        )

    def forward(self, x: Tensor) -> Tensor:
        """psi of x, (..., N, inputs) -> (..., N, width)."""
        for weight in self.weights:
            x = self._activate(x @ weight)
            x = x if self.between is None else self.between(x)
        return x

    def _activate(self, x: Tensor) -> Tensor:
        if self.architecture == "mixed":
            x = torch.where(self.bent, x.tanh(), x.relu())
            return torch.where(self.normed, standardised(x), x)
        x = x.relu() if self.architecture.startswith("relu") else x.tanh()
        return standardised(x) if self.architecture.endswith("LN") else x


class Dropout(nn.Module):
    """Each activation is dropped with probability p while training, by its replicate's own seed.

    Args:
        p: the probability.
        replicates: as the body's.
    """

    seeds: Tensor
    calls: Tensor

    def __init__(self, p: float, replicates: tuple[int, ...] = ()):
        super().__init__()
        must(0 <= p < 1, "p", "lie in [0, 1)", p)
        self.p, self.replicates = p, axes(replicates)
        self.register_buffer("seeds", torch.zeros(replicates, dtype=torch.long))
        self.register_buffer("calls", torch.zeros(replicates, dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., N, H), of which a share p is zero and the rest scaled up; x itself in eval."""
        if not self.training or not self.p:
            return x
        self.calls += 1
        rows = torch.arange(x.shape[-2], device=x.device)[:, None]
        units = torch.arange(x.shape[-1], device=x.device)
        each = (s[..., None, None] for s in (self.seeds, self.calls))
        return x * kept(self.p, *each, rows, units) / (1 - self.p)
