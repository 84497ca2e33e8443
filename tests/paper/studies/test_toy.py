"""Fig. pred_evidence_toy: what the rows are drawn from, and how predictives are compared."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from scroll.predictive import Normal
from scroll_paper.studies import toy


def test_rows_have_the_mean_and_spread_of_the_truth():
    rows = toy.data([0, 1], rows=50_000)
    r = (rows.y - toy.true_mean(rows.x)) / toy.true_std(rows.x)
    assert r.mean(-1).abs().max() < 0.02
    assert (r.std(-1) - 1).abs().max() < 0.02
    assert (rows.x.abs() <= toy.REACH).all()
    assert not torch.equal(rows.x[0], rows.x[1])


def test_scores_are_expectations_over_y():
    x = torch.linspace(-2, 2, 3)[:, None]
    p = Normal(torch.tensor([[0.1, -0.3, 2.0]]), torch.tensor([[0.3, 0.2, 1.0]]), torch.zeros(1, 3))
    found = {k: v[7] for k, v in toy.scores([p], x, [7]).items()}
    mean, std = toy.true_mean(x), toy.true_std(x)
    nll, inside = [], []
    for n in range(3):
        model = stats.norm(p.mean[0, n], p.variance[0, n].sqrt())
        truth = stats.norm(mean[n], std[n])
        ends = truth.mean() + np.array([-10, 10]) * truth.std()
        loss = lambda y, p=truth, q=model: -p.pdf(y) * q.logpdf(y)
        nll.append(integrate.quad(loss, *ends)[0])
        inside.append(np.diff(truth.cdf([model.ppf(stats.norm.cdf(s)) for s in (-2, 2)])))
    assert found["test NLL"] == pytest.approx(np.mean(nll), abs=1e-9)
    assert found["coverage of ±2 sd"] == pytest.approx(np.mean(inside), abs=1e-9)
    square = std.square() + (mean - p.mean[0]).square()
    assert found["RMSE"] == pytest.approx(float(square.mean().sqrt()), abs=1e-12)
    alike = np.corrcoef(p.variance[0].sqrt(), square.sqrt())[0, 1]
    assert found["correlation with the true sd"] == pytest.approx(alike, abs=1e-9)


def test_the_truth_cannot_be_improved_upon():
    x = torch.linspace(-3, 3, 101)[:, None]
    truth = toy.truth(x[None])
    other = Normal(truth.mean, 1.1 * truth.variance, torch.zeros_like(truth.mean))
    nll = [toy.scores([p], x, [0])["test NLL"][0] for p in (truth, other)]
    assert nll[0] < nll[1]
    assert toy.scores([truth], x, [0])["coverage of ±2 sd"][0] == pytest.approx(0.9545, abs=1e-4)


def test_bumps_are_gaussians_at_equal_distances():
    body = toy.Bumps()
    x = torch.linspace(-3, 3, body.features)[:, None]
    psi = body(x)
    torch.testing.assert_close(psi.diagonal(), torch.ones(body.features))
    torch.testing.assert_close(psi[0, 1], torch.tensor(-0.5).exp())
    torch.testing.assert_close(psi, psi.mT)


def test_the_closed_route_is_at_the_greatest_evidence():
    """The method that the study trains is the evidence, and its optimum that of `refit`."""
    from scroll import refit

    (network,) = toy.fitted(toy.ROUTES["closed"], [0])
    rows = toy.data([0])
    psi = network.body(rows.x)
    bound, x = refit(network.head, psi, rows.y), torch.linspace(-3, 3, 50)[None, :, None]
    at = network.body(x)
    with torch.no_grad():
        torch.testing.assert_close(network(x).variance, bound(at).variance, rtol=1e-3, atol=0)
        torch.testing.assert_close(network(x).mean, bound(at).mean, rtol=1e-2, atol=1e-3)
