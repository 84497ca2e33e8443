"""A predictive of a real target as a distribution of skpro (extra `skpro`)."""

from collections.abc import Callable
from typing import cast

import numpy as np
import pandas as pd
import torch
from skpro.distributions.base import BaseDistribution
from torch import Generator, Tensor

from .._core.checks import invalid, require
from .._core.value import map_tensors
from ..predictive import Mapped, Mixture, Normal, Student, TargetMap, survival
from ..tables.frames import Array

Base = Normal | Student | Mixture | Mixture[Student]
Real = Base | Mapped
_AXES = ("index", "columns")


class ScrollDistribution(BaseDistribution):  # type: ignore[misc]
    """A normal, a Student-t, a mixture of either, or a transform of one of these.

    All values are those of the predictive. `pdfnorm` is skpro's own, from samples.

    Args:
        predictive: one number per row, (N,), or per row and output, (N, K); () is a scalar.
        index: of the rows; None numbers them.
        columns: of the outputs; None numbers them.

    Examples:
        >>> import torch
        >>> from scroll.integrations.skpro_distribution import ScrollDistribution
        >>> from scroll.predictive import Student
        >>> heavy = Student(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0]), df=4)
        >>> distribution = ScrollDistribution(heavy, index=["a", "b"], columns=["y"])
        >>> low = distribution.ppf(0.05)
    """

    _tags = {  # noqa: RUF012  skpro reads it from the class
        "authors": [],
        "python_dependencies": ["torch"],
        "capabilities:approx": ["pdfnorm"],
        "capabilities:exact": ["mean", "var", "energy", "pdf", "log_pdf", "cdf", "ppf"],
        "distr:measuretype": "continuous",
        "distr:paramtype": "parametric",
    }

    def __init__(
        self, predictive: Real, index: pd.Index | None = None, columns: pd.Index | None = None
    ):
        self.predictive = predictive
        self._grid, shape = _as_grid(predictive)
        if shape:
            index = pd.RangeIndex(shape[0]) if index is None else index
            columns = pd.RangeIndex(shape[1]) if columns is None else columns
        sizes = shape or (0, 0)
        for name, labels, size in zip(_AXES, (index, columns), sizes, strict=True):
            n_labels = 0 if labels is None else len(labels)
            require(n_labels == size, name, f"have {size} labels, as the predictive", n_labels)
        super().__init__(index=index, columns=columns)

    def _pdf(self, x: Array) -> Array:
        return np.exp(self._log_pdf(x))

    def _log_pdf(self, x: Array) -> Array:
        return self._values(self._grid.log_prob, x)

    def _cdf(self, x: Array) -> Array:
        return self._values(self._grid.cdf, x)

    def _surv(self, x: Array) -> Array:
        return self._values(lambda y: survival(self._grid, y), x)

    def _ppf(self, p: Array) -> Array:
        return self._values(self._grid.icdf, p)

    def _mean(self) -> Array:
        return _array(self._grid.mean, self.shape)

    def _var(self) -> Array:
        return _array(self._grid.variance, self.shape)

    def _energy_self(self) -> Array:
        return _array(self_distance(self._grid).sum(-1), self.shape[:1])

    def _energy_x(self, x: Array) -> Array:
        each = self._values(lambda y: distance(self._grid, y), x)
        return each.sum(-1) if self.ndim else each

    def _values(self, function: Callable[[Tensor], Tensor], x: Array) -> Array:
        """Apply a function of one number per row and output; skpro's arrays are read-only."""
        y = torch.from_numpy(np.array(x, np.float64))
        return _array(function(y.reshape(self.shape or (1, 1))), self.shape)

    def _sample(self, n_samples: int | None = None) -> pd.DataFrame | float:
        """Return draws as skpro does; `numpy.random.seed` makes them repeatable."""
        seed = int(np.random.randint(2**31))  # noqa: NPY002  the generator that skpro draws from
        n = 1 if n_samples is None else n_samples
        draws = _array(self._grid.sample(n, Generator().manual_seed(seed)), (n, *self.shape))
        if self.ndim == 0:
            return draws[0] if n_samples is None else pd.DataFrame(draws)
        if n_samples is None:
            return pd.DataFrame(draws[0], self.index, self.columns)
        rows = self.index.take(np.tile(np.arange(len(self)), n))
        levels = [rows.get_level_values(k) for k in range(rows.nlevels)]
        index = pd.MultiIndex.from_arrays([np.repeat(np.arange(n), len(self)), *levels])
        return pd.DataFrame(draws.reshape(len(index), -1), index, self.columns)

    def get_params_df(self) -> dict[str, pd.DataFrame]:
        """Return mean and scale of each component, and its weight in a mixture.

        The degrees of freedom of a Student-t are "df". Means and scales of a transformed target
        are in the units of its map, `predictive.map`.
        """
        base = self._grid.base if isinstance(self._grid, Mapped) else self._grid
        found: dict[str, Array | float] = {}
        for k, member in enumerate(_components(base)):
            end = f"_{k}" if isinstance(base, Mixture) else ""
            found[f"mean{end}"] = _array(member.mean, self.shape)
            found[f"scale{end}"] = _array(member.scale, self.shape)
            if isinstance(base, Mixture):
                weights, equal = base.weights, 1 / len(base.members)
                found[f"weight{end}"] = equal if weights is None else float(weights[k])
            if isinstance(member, Student):
                found["df"] = float(member.df)
        if self.ndim == 0:
            return {name: pd.DataFrame([[float(x)]]) for name, x in found.items()}
        return {name: pd.DataFrame(x, self.index, self.columns) for name, x in found.items()}

    # Rows and columns are selected by pandas itself: label slices, masks and repeated labels work.

    def _loc(self, rowidx: object = None, colidx: object = None) -> "ScrollDistribution":
        return self._iloc(_positions(self.index, rowidx), _positions(self.columns, colidx))

    def _at(self, rowidx: object = None, colidx: object = None) -> "ScrollDistribution":
        return self._iat(_positions(self.index, rowidx), _positions(self.columns, colidx))

    def _iat(self, rowidx: object = None, colidx: object = None) -> "ScrollDistribution":
        single = np.isscalar(rowidx) and np.isscalar(colidx)
        require(single, "key", "be one row and one column", f"{rowidx!r} and {colidx!r}")
        (row,), (column,) = _places(len(self.index), rowidx), _places(len(self.columns), colidx)
        return type(self)(_select(self._grid, lambda t: t[..., int(row), int(column)]))

    def _iloc(self, rowidx: object = None, colidx: object = None) -> "ScrollDistribution":
        if rowidx is None and colidx is None:
            return self
        if np.isscalar(rowidx) and np.isscalar(colidx):
            return self._iat(rowidx, colidx)
        rows, columns = _places(len(self.index), rowidx), _places(len(self.columns), colidx)
        some = _select(self._grid, lambda t: t[..., rows[:, None], columns])
        return type(self)(some, self.index.take(rows), self.columns.take(columns))

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, object]]:
        """Return one distribution of each kind, for skpro's own checks."""
        mean = torch.tensor([[0.0, 1.0], [-1.0, 0.5], [2.0, -0.5]], dtype=torch.float64)
        spread = mean.cosh()
        normal, heavy = Normal(mean, spread, spread), Student(mean, spread, 4)
        pair = Normal(mean.T, spread.T, spread.T)  # two components, three rows
        weights = torch.tensor([0.9, 0.1], dtype=torch.float64)
        scalar = Normal(*torch.tensor([0.3, 0.2, 0.1], dtype=torch.float64))
        return [
            {"predictive": normal, "index": pd.Index([3, 1, 2]), "columns": pd.Index(["a", "b"])},
            {"predictive": heavy},
            {"predictive": Mixture(pair, weights)},
            {"predictive": Mapped(Mixture(pair), TargetMap("log"))},
            {"predictive": Mapped(heavy, TargetMap("logit"))},
            {"predictive": Mapped(scalar, TargetMap("log1p"))},
        ]


def distance(p: Real, y: Tensor) -> Tensor:
    """Return E |Y - y| of each row."""
    if isinstance(p, Mapped):
        return p.crps(y) + self_distance(p) / 2
    each = torch.stack([_component_distance(member, y) for member in _components(p)])
    return p.average(each) if isinstance(p, Mixture) else each[0]


def self_distance(p: Real) -> Tensor:
    """Return E |Y - Y'| of each row: 2 E |Y - y| - 2 crps(y), whatever y is.

    At the lower end of the support of a map, E |Y - y| is E Y - y.
    """
    if isinstance(p, Mapped):
        mean, low = p.mean, p.map.support[0]
        return 2 * (mean - low - p.crps(torch.full_like(mean, low)))
    return 2 * (distance(p, p.mean) - p.crps(p.mean))


def _component_distance(p: Normal | Student, y: Tensor) -> Tensor:
    """s (z (2 F(z) - 1) + 2 int_z^inf t f(t) dt), z = (y - mean) / s; the integral is f(z) for a
    normal and f(z) (df + z^2) / (df - 1) for a t distribution."""
    z = (y - p.mean) / p.scale
    beyond = p.kernel.log_pdf(z).exp()
    if isinstance(p, Student):
        beyond = beyond * (p.df + z.square()) / (p.df - 1)
    return p.scale * (z * (2 * p.kernel.cdf(z) - 1) + 2 * beyond)


def _as_grid(p: Real) -> tuple[Real, tuple[int, ...]]:
    """Return a predictive of rows and outputs, (N, K), and the shape for skpro: () or (N, K)."""
    base = p.base if isinstance(p, Mapped) else p
    if not isinstance(base, Normal | Student | Mixture):
        got = type(p).__name__
        raise invalid("predictive", "be one of a real number", got, error=TypeError)
    full = base.parts.mean.shape if isinstance(base, Mixture) else base.mean.shape
    shape = tuple(full[1:] if isinstance(base, Mixture) else full)
    require(len(shape) < 3, "predictive", "have the shape (), (N,) or (N, K)", shape)
    ones = (1,) * (2 - len(shape))
    grid = _select(p, lambda t: t.expand(full).reshape(*full, *ones))
    return grid, (*shape, *ones) if shape else ()


def _select(p: Real, change: Callable[[Tensor], Tensor]) -> Real:
    """Apply a function of the last axes to all tensors of a predictive but the weights."""
    if isinstance(p, Mapped):
        return Mapped(_select_base(p.base, change), p.map)
    return _select_base(p, change)


def _select_base(p: Base, change: Callable[[Tensor], Tensor]) -> Base:
    if isinstance(p, Mixture):
        return cast(Base, Mixture(map_tensors(change, p.parts), p.weights))
    return map_tensors(change, p)


def _components(p: Base) -> tuple[Normal | Student, ...]:
    return cast(tuple[Normal | Student, ...], p.members)


def _positions(labels: pd.Index, key: object) -> object:
    """Return where pandas finds labels: a number for a single label, None for all of them."""
    if key is None or (isinstance(key, pd.Index) and key.equals(labels)):
        return None
    found = pd.Series(np.arange(len(labels)), labels).loc[key]
    return found.to_numpy() if isinstance(found, pd.Series) else found


def _places(size: int, key: object) -> Array:
    """Return the positions of a key of `iloc`; None is all of them."""
    found = np.arange(size) if key is None else pd.Series(np.arange(size)).iloc[key]
    return np.atleast_1d(np.asarray(found))


def _array(x: Tensor, shape: tuple[int, ...]) -> Array:
    return x.detach().double().reshape(shape).numpy()
