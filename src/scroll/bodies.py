"""Bodies: what turns inputs into features, over a stack of replicates."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from .checks import axes, must, one_of, positive_int

ARCHITECTURES = ("relu", "relu+LN", "tanh", "tanh+LN")


class MLP(nn.Module):
    """The paper's body: hidden layers of one width without biases, LayerNorm without gain.

    Args:
        inputs: number of inputs.
        width: of each hidden layer, and so the number of features.
        depth: number of hidden layers.
        architecture: one of `ARCHITECTURES`; or a list of them, one for each of the replicates
            along the last replicate axis.
        replicates: leading axes of independent copies.
    """

    relu: Tensor
    norm: Tensor

    def __init__(
        self,
        inputs: int,
        width: int = 50,
        depth: int = 1,
        architecture: str | Sequence[str] = "relu+LN",
        replicates: tuple[int, ...] = (),
    ):
        super().__init__()
        for name, number in (("inputs", inputs), ("width", width), ("depth", depth)):
            positive_int(name, number)
        names = (architecture,) if isinstance(architecture, str) else tuple(architecture)
        for each in names:
            one_of("architecture", each, ARCHITECTURES)
        must(
            len(names) in (1, *axes(replicates)[-1:]),
            "architecture",
            f"be one name or one for each of the last axis of replicates {replicates}",
            f"{len(names)} names",
        )
        self.features, self.replicates = width, replicates
        self.uniform = len(set(names)) == 1
        self.architecture = names[0]
        sizes = (inputs, *(width for _ in range(depth)))
        self.weights = nn.ParameterList(
            nn.Parameter(torch.empty(*replicates, a, b).uniform_(-1, 1) * a**-0.5)
            for a, b in pairwise(sizes)
        )
        kinds = torch.tensor([[n.startswith("relu"), n.endswith("LN")] for n in names])
        self.register_buffer("relu", kinds[:, 0, None, None], persistent=False)
        self.register_buffer("norm", kinds[:, 1, None, None], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """psi of x, (..., N, inputs) -> (..., N, width)."""
        for weight in self.weights:
            x = self._activate(x @ weight)
        return x

    def _activate(self, x: Tensor) -> Tensor:
        if self.uniform:
            x = x.relu() if self.architecture.startswith("relu") else x.tanh()
            return layer_norm(x, x.shape[-1:]) if self.architecture.endswith("LN") else x
        x = torch.where(self.relu, x.relu(), x.tanh())
        return torch.where(self.norm, layer_norm(x, x.shape[-1:]), x)
