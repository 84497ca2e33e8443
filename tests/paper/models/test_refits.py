"""Rows that refit a trained network: LOO-CRPS scale, Laplace and its hybrid; and decoupled KL."""

import pytest
import torch

from scroll import RegressionHead, refit
from scroll.posterior.laplace import laplace_refit
from scroll.posterior.scale import loo_crps_scale
from scroll.training.batches import Rows
from scroll.training.bodies import MLP
from scroll.training.network import Network
from scroll_paper.data.protocol import Folds
from scroll_paper.models.baselines import Decoupled
from scroll_paper.models.evaluation import Fitted, plain
from scroll_paper.models.method import Setting
from scroll_paper.models.methods import KL_WEIGHTS, TABLE_METHODS
from scroll_paper.models.reports.refits import ABOUT_MODE, about_mode, scaled

R, N, D, H = 2, 50, 3, 6


def network(head):
    return Network(MLP(D, H, architecture="tanh", replicates=(R,)), head).eval()


def folds(labels=False):
    x = torch.randn(3, R, N, D)
    y = x.sum(-1) + 0.5 * torch.randn(3, R, N)
    return Folds(*(Rows(a, (b > 0).long() if labels else b) for a, b in zip(x, y, strict=True)))


def head_of(method, name):
    return TABLE_METHODS[method].training.head(H, (R,), Setting(name, method))


def test_a_weight_of_one_is_the_kl_row():
    head = RegressionHead(H, method="kl", bias=False, replicates=(R,))
    psi, y = torch.randn(R, N, H), torch.randn(R, N)
    ours = Decoupled(head)
    torch.testing.assert_close(ours.loss(psi, y, N), head.loss(psi, y, total=N))
    torch.testing.assert_close(ours(psi).variance, head(psi).variance)
    ours.weight.copy_(torch.tensor([0.0, 2.0]))
    kl = head.belief().kl(head.log_alpha.exp()).sum(-1) / N
    want = head.loss(psi, y, total=N) + torch.tensor([-1.0, 1.0]) * kl
    torch.testing.assert_close(ours.loss(psi, y, N), want)


@pytest.mark.parametrize("method", ["ppgpr-full", "ppgpr-diag"])
def test_each_replicate_has_its_weight(method):
    training = TABLE_METHODS[method].training
    head = training.head(H, (R,), Setting("yacht", method))
    knobs = torch.tensor(KL_WEIGHTS[:R])
    with torch.no_grad():
        training.start(head, knobs, folds().train)
    torch.testing.assert_close(head.weight, knobs.to(head.weight))
    assert head.head.covariance == method.removeprefix("ppgpr-")


@pytest.mark.parametrize("hyper", ["evidence", "head"])
@torch.no_grad()
def test_the_scaled_row_is_the_posterior_at_the_loo_crps_scale(hyper):
    net, rows = network(head_of("scroll-full", "yacht").double()), folds()
    lines = scaled("row", hyper)(Fitted(net, rows))
    bound = refit(net.head, net.body(rows.train.x), rows.train.y, hyper=hyper)
    h = bound.leverage(net.body(rows.train.x))
    residual = (rows.train.y - bound(net.body(rows.train.x)).mean) / (1 - h)
    scale = loo_crps_scale(residual, bound.noise / (1 - h).sqrt())
    at = bound(net.body(rows.test.x))
    normal = torch.distributions.Normal(at.mean, scale[:, None] * at.stddev)
    want = -normal.log_prob(rows.test.y).mean(-1)
    torch.testing.assert_close(lines["row"].metrics["nll"], want)
    assert lines["row"].metrics.keys() >= {"rmse", "caliberr"}
    assert lines.keys() == {"", "row"}


@pytest.mark.parametrize("kind", ["ova", "ordinal"])
def test_rows_about_the_mode_are_laplaces_and_the_best_is_chosen_on_validation(kind):
    net = network(head_of(f"{kind}-full-refit", "pima").double())
    fitted = Fitted(net, folds(labels=True))
    with torch.no_grad():
        lines = about_mode(kind)(fitted)
        psi, test = (net.body(r.x) for r in (fitted.folds.train, fitted.folds.test))
        bound = laplace_refit(net.head, psi, fitted.folds.train.y)
        want = -bound(test).log_prob(fitted.folds.test.y).mean(-1)
    torch.testing.assert_close(lines[f"{kind}-laplace"].metrics["nll"], want)
    names = {f"{kind}-{name}" for name in ABOUT_MODE if name != "full-refit"}
    assert lines.keys() == {"", *names}
    assert names == {n for n, m in TABLE_METHODS.items() if m.trained_as == f"{kind}-full-refit"}
    best = lines[f"{kind}-best-route"]
    others = [line for name, line in lines.items() if name != f"{kind}-best-route"]
    torch.testing.assert_close(best.val, torch.stack([o.val for o in others]).amin(0))
    for r in range(R):
        at = min(others, key=lambda line: line.val[r])
        for metric, value in best.metrics.items():
            assert value[r] == at.metrics[metric][r]
    torch.testing.assert_close(lines[""].metrics["nll"], plain(fitted)[""].metrics["nll"])
