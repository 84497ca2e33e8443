"""Bodies: modules that turn inputs into features, over a stack of replicates."""

import copy
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from .._core.checks import axes, one_of, positive_int, require
from .._core.counter_rng import bits
from .._core.linalg import standardised
from .._core.local_rng import Draws
from .dropout import Dropout

ARCHITECTURES = ("relu", "relu+LN", "tanh", "tanh+LN")


class MLP(nn.Module):
    """The paper's body: hidden layers of one width without biases, LayerNorm without gain.

    Args:
        inputs: number of inputs.
        width: units per hidden layer, and so the number of features.
        depth: number of hidden layers.
        architecture: one of `ARCHITECTURES`, or one per replicate along the last axis.
        replicates: leading axes of independent copies.
        between: module applied to the activations of each layer, such as a `Dropout`.
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
        require(
            isinstance(architecture, str) or replicates[-1:] == (len(each),),
            "architecture",
            "be one name, or one name per replicate",
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
            _uniform((*replicates, a, b), a**-0.5) for a, b in pairwise(sizes)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return psi of x, (..., N, inputs) -> (..., N, width)."""
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


class Tabular(nn.Module):
    """A body for tables: SiLU layers on the columns, and on learned waves of them if `wavy`.

    A smooth network reads the first `plain` columns, of which the first `ranked` are numbers. A
    wavy one also reads the further columns, which hold the same numbers by rank. Each number and
    each rank then enters as cosines of learned frequencies and phases, too, mixed by a linear map
    of its own and cut at zero: functions of one column that need not be smooth.

    Args:
        plain: number of columns that every network reads.
        ranked: number of further columns, which only a wavy network reads.
        width: units per hidden layer, and so the number of features.
        depth: number of hidden layers.
        wavy: whether to add the waves.
        waves: frequencies per column.
        size: functions learned per column.
        frequency: initial standard deviation of the frequencies, in turns per unit.
        dropout: probability of dropping an activation in training.
        replicates: leading axes of independent copies.
    """

    def __init__(
        self,
        plain: int,
        ranked: int = 0,
        width: int = 128,
        depth: int = 2,
        wavy: bool = False,
        waves: int = 16,
        size: int = 8,
        frequency: float = 1.0,
        dropout: float = 0.0,
        replicates: tuple[int, ...] = (),
    ):
        super().__init__()
        sizes_given = {"plain": plain, "width": width, "depth": depth, "waves": waves, "size": size}
        for name, number in sizes_given.items():
            positive_int(name, number)
        require(0 <= ranked <= plain, "ranked", f"lie between 0 and plain = {plain}", ranked)
        self.wavy = wavy and ranked > 0
        self.plain, self.ranked, self.features = plain, ranked, width
        self.replicates = axes(replicates)
        inputs = plain + (ranked * (1 + 2 * size) if self.wavy else 0)
        self._make_layers((inputs, *(width for _ in range(depth))))
        if self.wavy:
            self._make_waves(waves, size, frequency)
        self.between = Dropout(dropout, replicates, pooled=True) if dropout else None

    def _make_layers(self, sizes: tuple[int, ...]) -> None:
        self.weights, self.biases = (
            nn.ParameterList(_uniform((*self.replicates, *s), s[0] ** -0.5) for s in shapes)
            for shapes in (list(pairwise(sizes)), [(1, b) for b in sizes[1:]])
        )
        with torch.no_grad():
            for bias, a in zip(self.biases, sizes, strict=False):
                bias *= a**-0.5

    def _make_waves(self, waves: int, size: int, frequency: float) -> None:
        bound, columns = waves**-0.5, 2 * self.ranked
        start = frequency * torch.randn(*self.replicates, columns, 1, waves)
        self.frequencies = nn.Parameter(start)
        self.phases = _uniform((*self.replicates, columns, 1, waves), torch.pi)
        self.mixing = _uniform((*self.replicates, columns, waves, size), bound)
        self.offsets = _uniform((*self.replicates, columns, 1, size), bound)

    @staticmethod
    def numbers(
        plain: int,
        ranked: int = 0,
        width: int = 128,
        depth: int = 2,
        wavy: bool = False,
        waves: int = 16,
        size: int = 8,
        dropout: float = 0.0,
    ) -> int:
        """Return how many numbers the tensors of one copy hold; arguments as for the body."""
        waved = ranked if wavy else 0
        inputs = plain + waved * (1 + 2 * size)
        layers = inputs * width + (depth - 1) * width**2 + depth * width
        return layers + 2 * waved * (2 * waves + waves * size + size) + (2 if dropout else 0)

    def forward(self, x: Tensor) -> Tensor:
        """Return psi of x, (..., N, plain + ranked) -> (..., N, width)."""
        if self.wavy:
            both = torch.cat([x[..., : self.ranked], x[..., self.plain :]], -1)
            x = torch.cat([x, self._waves(both)], -1)
        else:
            x = x[..., : self.plain]
        for weight, bias in zip(self.weights, self.biases, strict=True):
            x = silu(x @ weight + bias)
            x = x if self.between is None else self.between(x)
        return x

    def _waves(self, x: Tensor) -> Tensor:
        """(..., N, D) -> (..., N, D * size)."""
        columns = x.mT.unsqueeze(-1)  # (..., D, N, 1)
        turns = torch.addcmul(self.phases, 2 * torch.pi * self.frequencies, columns)
        mixed = (turns.cos() @ self.mixing + self.offsets).relu()  # (..., D, N, size)
        return mixed.transpose(-3, -2).flatten(-2)


class Matern(nn.Module):
    """Random features of a Matern-5/2 process with one learned length-scale per column.

    psi . psi' is a Monte Carlo estimate of the kernel: with a posterior over the last layer, a
    Gaussian process at a cost linear in the rows.

    Args:
        inputs: number of columns; further columns are ignored.
        width: number of cosines, and so of features.
        replicates: leading axes of independent copies.
    """

    directions: Tensor
    phases: Tensor

    def __init__(self, inputs: int, width: int = 512, replicates: tuple[int, ...] = ()):
        super().__init__()
        for name, number in (("inputs", inputs), ("width", width)):
            positive_int(name, number)
        self.inputs, self.features, self.replicates = inputs, width, axes(replicates)
        # The kernel's spectrum is a Student t with 5 degrees of freedom.
        heavy = torch.distributions.Chi2(torch.full((), 5.0)).sample((*replicates, 1, width)) / 5
        normal = torch.randn(*replicates, inputs, width)
        self.register_buffer("directions", normal / heavy.sqrt())
        self.register_buffer("phases", 2 * torch.pi * torch.rand(*replicates, 1, width))
        # In units of sqrt(inputs), at which rows of unit variance are about one length apart.
        self.log_lengths = nn.Parameter(torch.zeros(*replicates, inputs, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return psi of x, (..., N, inputs or more) -> (..., N, width)."""
        lengths = self.inputs**0.5 * self.log_lengths.exp()
        turned = x[..., : self.inputs] @ (self.directions / lengths)
        return (turned + self.phases).cos() * 2**0.5


class Stacked(nn.Module):
    """Any module as a body over a stack: parameters get a replicate axis, its code is vmapped.

    Random numbers that the module draws in training, such as those of `nn.Dropout`, follow from
    the seeds of the replicates; on a GPU they come from torch's generator of that device.

    Args:
        module: (N, inputs) -> (N, features), without replicates and without state that a forward
            pass changes.
        features: number of features that it returns.
        replicates: leading axes of independent copies.
    """

    seeds: Tensor

    def __init__(self, module: nn.Module, features: int, replicates: tuple[int, ...] = ()):
        super().__init__()
        self.features, self.replicates, self._calls = features, axes(replicates), 0
        seeds = torch.zeros(replicates, dtype=torch.long)
        self.register_buffer("seeds", seeds, persistent=False)
        self._names = [name for name, _ in (*module.named_parameters(), *module.named_buffers())]
        self.values = nn.ParameterList(
            nn.Parameter(p.detach().expand(*replicates, *p.shape).clone(), p.requires_grad)
            for p in module.parameters()
        )
        self._fixed = len(list(module.buffers()))
        for i, b in enumerate(module.buffers()):
            self.register_buffer(f"fixed_{i}", b.detach().expand(*replicates, *b.shape).clone())
        # Not a submodule: its own tensors only give the shapes.
        self._module = (copy.deepcopy(module),)

    def forward(self, x: Tensor) -> Tensor:
        """Return psi of x, (..., N, inputs) -> (..., N, features)."""
        (module,) = self._module
        module.train(self.training)

        def one(values: list[Tensor], rows: Tensor) -> Tensor:
            named = dict(zip(self._names, values, strict=True))
            return torch.func.functional_call(module, named, (rows,))

        for _ in self.replicates:
            one = torch.vmap(one, randomness="different")
        values = [*self.values, *(self.get_buffer(f"fixed_{i}") for i in range(self._fixed))]
        if not self.training or x.device.type != "cpu" or torch.compiler.is_compiling():
            return one(values, x)
        self._calls += 1
        with Draws(int(bits(self._calls, *self.seeds.flatten().tolist()))):
            return one(values, x)


def _uniform(shape: tuple[int, ...], bound: float) -> nn.Parameter:
    """Return a parameter with uniform draws between -bound and bound."""
    return nn.Parameter(torch.empty(*shape).uniform_(-1, 1) * bound)
