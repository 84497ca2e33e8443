"""Predictive distributions: accepted inputs, and how they print."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from parts import HEADS
from scroll.factors import Poisson
from scroll.predictive import (
    Categorical,
    Count,
    CountMixture,
    Mixture,
    Normal,
    Ordered,
)
from scroll.predictive.mixture import mix

N, H = 6, 4
each = pytest.mark.parametrize("name", HEADS)


def example(name):
    make, labels = HEADS[name]
    return make(H)(torch.randn(N, H)), labels(N)


PREDICTIVES = {
    "mixture": lambda: Mixture(Normal(*(torch.rand(2, N) + 0.1 for _ in range(3)))),
    "count mixture": lambda: CountMixture(
        tuple(Count(Poisson(), torch.randn(N), torch.rand(N)) for _ in range(2))
    ),
    "classes": lambda: Categorical(torch.randn(N, 3).log_softmax(-1)),
    "levels": lambda: Ordered(torch.randn(N, 3).log_softmax(-1)),
    "blended": lambda: mix(
        [Ordered(torch.randn(2, N, 3).log_softmax(-1))], torch.zeros(()), torch.ones(())
    ),
}


def read_only(y):
    array = y.numpy().copy()
    array.flags.writeable = False
    return array


INPUTS = {
    "array": lambda y: y.numpy(),
    "read-only array": read_only,
    "big-endian array": lambda y: y.numpy().astype(y.numpy().dtype.newbyteorder(">")),
    "objects": lambda y: y.numpy().astype(object),
    "list": lambda y: y.tolist(),
    "series": lambda y: pd.Series(y.numpy()),
    "series with its own index": lambda y: pd.Series(y.numpy(), index=range(50, 50 + N)),
    "series of nullable type": lambda y: pd.Series(y.numpy()).convert_dtypes(),
}


@each
@pytest.mark.parametrize("kind", INPUTS)
def test_targets_may_be_arrays_lists_and_series(name, kind):
    p, y = example(name)
    if y.dim() > 1 and "series" in kind:
        return  # a column holds one number per row
    given = INPUTS[kind](y)
    torch.set_warn_always(True)  # or torch warns of a read-only array once per process
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(p.log_prob(given), p.log_prob(y))
    torch.set_warn_always(False)


def test_polars_columns_and_memory_maps_are_targets(tmp_path):
    polars = pytest.importorskip("polars")
    p, y = example("regression")
    np.save(tmp_path / "y.npy", y.numpy())
    mapped = np.load(tmp_path / "y.npy", mmap_mode="r")
    for given in (polars.Series(y.numpy()), mapped):
        torch.testing.assert_close(p.log_prob(given), p.log_prob(y))
        torch.testing.assert_close(p.quantile(np.asarray([0.1, 0.9])), p.quantile([0.1, 0.9]))


@pytest.mark.parametrize("bad", [["a"] * N, pd.Series(["a"] * N), np.array(["a"] * N), {"a": 1}])
def test_targets_that_are_no_numbers_are_refused_in_one_line(bad):
    for name in ("regression", "ova", "poisson"):
        with pytest.raises(TypeError, match=r"^`y` must hold numbers, but got a [^\n]*\.$"):
            example(name)[0].log_prob(bad)


@pytest.mark.parametrize("name", [*(n for n in HEADS if n != "any"), *PREDICTIVES])
def test_no_draws_are_an_empty_tensor(name):
    p = PREDICTIVES[name]() if name in PREDICTIVES else example(name)[0]
    assert p.sample(0).shape == (0, *p.sample(2).shape[1:])
    assert p.sample(0).dtype == p.sample(2).dtype
    for bad in (-1, 1.5, "two", None, True):
        with pytest.raises(ValueError, match="`n` must be an integer, zero or more, but got"):
            p.sample(bad)


@pytest.mark.parametrize("name", [*HEADS, *PREDICTIVES])
def test_a_predictive_prints_as_one_short_line(name):
    p = PREDICTIVES[name]() if name in PREDICTIVES else example(name)[0]
    line = repr(p)
    assert re.fullmatch(rf"{type(p).__name__}\(shape=\(6,[^\n]*\)", line)
    assert len(line) < 120
    assert ".." in line
    assert "tensor" not in line


def test_levels_and_targets_keep_their_digits():
    """Python numbers are float64, whatever torch's default is."""
    torch.set_default_dtype(torch.float32)
    p = Normal(*(torch.ones(1, dtype=torch.float64) for _ in range(3)))
    for q in (1 - 1e-9, [1 - 1e-9]):
        assert abs(p.cdf(p.quantile(q)).item() - (1 - 1e-9)) < 1e-15
    exact = p.log_prob(torch.tensor([1 / 3], dtype=torch.float64))
    assert torch.equal(p.log_prob([1 / 3]), exact)
    assert torch.equal(p.log_prob(1 / 3), exact)


def test_a_summary_says_what_is_in_it():
    p = Normal(torch.tensor([-1.25, 3.5]), torch.tensor([0.5, 0.75]), torch.tensor([0.5, 3.25]))
    assert repr(p) == "Normal(shape=(2,), mean -1.25..3.5, stddev 1..2)"
    empty = torch.zeros(0)
    assert (
        repr(Normal(empty, empty, empty))
        == "Normal(shape=(0,), mean of no rows, stddev of no rows)"
    )
    odd = Normal(
        torch.tensor([torch.nan, 1.0, 2.0], requires_grad=True), torch.ones(3), torch.ones(3)
    )
    assert repr(odd) == "Normal(shape=(3,), mean 1..2 (1 not finite), stddev 1.41..1.41)"
    none = Normal(torch.full((2,), torch.inf), torch.ones(2), torch.ones(2))
    assert "mean not finite" in repr(none)
    seen = []
    torch.vmap(lambda m: seen.append(repr(Normal(m, m, m))) or m)(torch.ones(3, 2))
    assert seen == ["Normal(shape=(2,), mean unknown, stddev unknown)"]
    probs = torch.tensor([[0.25, 0.75], [0.5, 0.5]]).log()
    want = "Categorical(shape=(2,), 2 classes, largest probability 0.5..0.75)"
    assert repr(Categorical(probs)) == want
