"""Bodies: what turns inputs into features, over a stack of replicates."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from .checks import axes, one_of, positive_int

ARCHITECTURES = ("relu", "relu+LN", "tanh", "tanh+LN")


class MLP(nn.Module):
    """The paper's body: hidden layers of one width without biases, LayerNorm without gain.

    Args:
        inputs: number of inputs.
        width: of each hidden layer, and so the number of features.
        depth: number of hidden layers.
        architecture: one of `ARCHITECTURES`.
        replicates: leading axes of independent copies.
    """

    def __init__(
        self,
        inputs: int,
        width: int = 50,
        depth: int = 1,
        architecture: str = "relu+LN",
        replicates: tuple[int, ...] = (),
    ):
        super().__init__()
        for name, number in (("inputs", inputs), ("width", width), ("depth", depth)):
            positive_int(name, number)
        one_of("architecture", architecture, ARCHITECTURES)
        self.features, self.replicates = width, axes(replicates)
        self.architecture = architecture
        sizes = (inputs, *(width for _ in range(depth)))
        self.weights = nn.ParameterList(
            nn.Parameter(torch.empty(*replicates, a, b).uniform_(-1, 1) * a**-0.5)
            for a, b in pairwise(sizes)
        )

    def forward(self, x: Tensor) -> Tensor:
        """psi of x, (..., N, inputs) -> (..., N, width)."""
        for weight in self.weights:
            x = self._activate(x @ weight)
        return x

    def _activate(self, x: Tensor) -> Tensor:
        x = x.relu() if self.architecture.startswith("relu") else x.tanh()
        return layer_norm(x, x.shape[-1:]) if self.architecture.endswith("LN") else x
