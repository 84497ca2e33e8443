"""Random Fourier features: which columns they read, and scales of greatest evidence."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from scroll import ScrollRegressor
from scroll.fitting.fourier import NARROW, Fourier, learn, log_evidence
from scroll.training.batches import Rows


def rows(n=200, members=2, seed=0):
    """Two numbers with their ranks and one mark; only the first number matters."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    x[:, 2] = rng.integers(2, size=n)
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=n)
    both = (torch.from_numpy(part) for part in (x, y / y.std()))
    return Rows(*(part.expand(members, *part.shape) for part in both))


def learned(some, seeds=(1, 2)):
    body = Fourier(3, 2, replicates=(len(seeds),))
    learn(body, some, seeds)
    return body


def test_features_by_hand():
    body = learned(rows())
    x = rows().x
    turned = x @ body.frequencies
    want = [x * body.slope, body.amplitudes * turned.cos(), body.amplitudes * turned.sin()]
    torch.testing.assert_close(body(x), torch.cat(want, -1))
    assert body(x).shape == (2, 200, body.features)
    count = sum(buffer[0].numel() for buffer in body.buffers())
    assert Fourier.numbers(3, 2, NARROW) == count


def test_blocks_read_all_columns_two_and_one():
    """A number comes with its rank: columns 3 and 4 are the ranks of 0 and 1."""
    body = learned(rows())
    joint, pairs, single = body.frequencies[0].split(NARROW, -1)
    assert (joint != 0).all()
    group = torch.tensor([0, 1, 2, 0, 1])
    for block, most in ((pairs, 2), (single, 1)):
        for column in block.T:
            read = group[column != 0]
            assert len(set(read.tolist())) == most
            assert sorted(group.tolist().count(g) for g in set(read.tolist())) == sorted(
                read.tolist().count(g) for g in set(read.tolist())
            )


def test_a_column_that_matters_gets_high_frequencies():
    body = learned(rows())
    rough = (body.amplitudes * body.frequencies).square().sum(-1)[0]  # of each column
    assert rough[0] + rough[3] > 4 * (rough[1] + rough[4])
    assert rough[0] + rough[3] > 4 * rough[2]


def test_members_learn_from_their_own_rows_and_seeds():
    some = rows()
    body = learned(some)
    assert not torch.equal(body.frequencies[0], body.frequencies[1])
    again = learned(some)
    torch.testing.assert_close(again.frequencies, body.frequencies, rtol=0, atol=0)
    alone = learned(Rows(some.x[1:], some.y[1:]), (2,))
    torch.testing.assert_close(alone.frequencies[0], body.frequencies[1], rtol=0, atol=0)


def test_rows_of_weight_zero_are_not_learned_from():
    some = rows(members=1)
    weight = torch.ones(1, 200)
    weight[:, 150:] = 0
    first = learned(Rows(some.x, some.y, weight), (3,))
    wild = some.y.clone()
    wild[:, 150:] = 50.0
    second = learned(Rows(some.x, wild, weight), (3,))
    torch.testing.assert_close(second.frequencies, first.frequencies)


@pytest.mark.parametrize("n", [20, 400])
def test_the_evidence_is_that_of_a_gaussian(n):
    """With fewer and with more rows than features."""
    rng = np.random.default_rng(0)
    psi, y = rng.normal(size=(n, 50)) / 7, rng.normal(size=(n, 2))
    law = multivariate_normal(np.zeros(n), psi @ psi.T + 0.3 * np.eye(n))
    found = log_evidence(*map(torch.from_numpy, (psi, y)), torch.tensor(0.3).double())
    constant = n * np.log(2 * np.pi)
    assert float(found) - constant == pytest.approx(law.logpdf(y.T).sum(), rel=1e-9)


def test_predictions_are_near_those_of_a_gaussian_process():
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, size=(300, 1))
    y = np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=300)
    process = GaussianProcessRegressor(RBF() + WhiteKernel(0.01)).fit(x[:200], y[:200])
    mean, std = process.predict(x[200:], return_std=True)
    model = ScrollRegressor(recipe="fast", random_state=0).fit(x[:200], y[:200])
    ours, spread = model.predict(x[200:], return_std=True)
    assert np.abs(ours - mean).mean() < 0.03
    assert np.median(spread / std) == pytest.approx(1, abs=0.15)
