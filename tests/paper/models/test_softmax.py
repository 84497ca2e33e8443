"""The baselines for class labels, against vbll, torch and autograd."""

import numpy as np
import pytest
import torch
from torch.func import functional_call, hessian

from scroll.factors import Moments
from scroll.predictive import Categorical
from scroll.training.batches import Rows
from scroll_paper.data.protocol import Folds, metrics
from scroll_paper.models import evaluation, softmax
from scroll_paper.models.evaluation import Fitted
from scroll_paper.models.method import Setting, prepared
from scroll_paper.models.methods import TABLE_METHODS
from scroll_paper.models.softmax import Softmax, VariationalSoftmax

R, N, H, K = 2, 40, 5, 3


def rows(seed=0):
    g = torch.Generator().manual_seed(seed)
    return Rows(torch.randn(R, N, H, generator=g), torch.randint(K, (R, N), generator=g))


def test_softmax_is_a_linear_map_with_cross_entropy_and_a_penalty():
    data, head = rows(), Softmax(H, K, (R,))
    head.weight.copy_(torch.tensor([0.1, 0.7]))
    found = head.loss(data.x, data.y, N)
    for r in range(R):
        logits = torch.nn.functional.linear(data.x[r], head.linear[r])
        want = torch.nn.functional.cross_entropy(logits, data.y[r])
        want = want + head.weight[r] * head.linear[r].norm() ** 2
        torch.testing.assert_close(found[r], want, rtol=1e-12, atol=0)
        torch.testing.assert_close(head(data.x).probs[r], logits.softmax(-1), rtol=1e-12, atol=0)


@pytest.mark.filterwarnings("ignore")
def test_vbll_is_the_packages():
    """Loss and gradients, replicate by replicate."""
    from vbll import DiscClassification

    data, head = rows(), VariationalSoftmax(H, K, (R,))
    head.weight.copy_(torch.tensor([0.02, 0.3]))
    mine = head.loss(data.x, data.y, N)
    grads = torch.autograd.grad(mine.sum(), [head.mean, head.log_diag, head.lower, head.log_noise])
    for r in range(R):
        theirs = DiscClassification(H, K, float(head.weight[r])).double()
        with torch.no_grad():
            theirs.W_mean.copy_(head.mean[r])
            theirs.W_logdiag.copy_(head.log_diag[r])
            theirs.W_offdiag.copy_(head.lower[r])
            theirs.noise_logdiag.copy_(head.log_noise[r])
        loss = theirs(data.x[r]).train_loss_fn(data.y[r])
        torch.testing.assert_close(mine[r], loss, rtol=1e-9, atol=0)
        want = torch.autograd.grad(
            loss, [theirs.W_mean, theirs.W_logdiag, theirs.W_offdiag, theirs.noise_logdiag]
        )
        for got, each in zip(grads, want, strict=True):
            torch.testing.assert_close(got[r], each, rtol=1e-9, atol=1e-12)


def test_vbll_predicts_the_mean_softmax_of_its_logits():
    data, head = rows(), VariationalSoftmax(H, K, (R,))
    at = head.message(data.x)
    g = torch.Generator().manual_seed(1)
    z = torch.randn(20_000, *at.mean.shape, generator=g)
    want = (at.mean + at.var.sqrt() * z).softmax(-1).mean(0)
    found = head(data.x).probs
    torch.testing.assert_close(found.sum(-1), torch.ones(R, N), rtol=1e-12, atol=0)
    torch.testing.assert_close(found, want, rtol=0, atol=0.03)
    assert (found - at.mean.softmax(-1)).abs().max() > 0.05  # not what no variance would say


def test_laplace_is_one_over_the_diagonal_of_the_curvature():
    data = rows()
    head = Softmax(H, K, (R,))

    def loss(linear):
        return -functional_call(head, {"linear": linear}, (data.x,)).log_prob(data.y).sum()

    flat = torch.einsum("rkhrkh->rkh", hessian(loss)(head.linear.detach()))
    precision = torch.tensor([0.1, 0.4])[:, None, None]
    want = 1 / (flat + precision)
    torch.testing.assert_close(softmax.laplace(head, data.x, precision), want, rtol=1e-9, atol=0)


def test_a_posterior_without_spread_is_the_network_itself():
    data = rows()
    head = Softmax(H, K, (R,))
    bare = softmax.spread(head, torch.zeros(R, K, H), data.x)
    torch.testing.assert_close(bare.log_probs, head(data.x).log_probs, rtol=1e-12, atol=1e-12)
    wide = softmax.spread(head, torch.full((R, K, H), 100.0), data.x)
    assert (wide.probs.amax(-1) < 0.8).all()


def test_averaged_logits_against_the_integral():
    """Two classes: E sigmoid of a normal difference, by quadrature."""
    mean, var = torch.tensor([[0.3, -0.9]]), torch.tensor([[0.5, 0.2]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    gap = float(mean[0, 0] - mean[0, 1]) + nodes * float(var.sum()) ** 0.5
    want = float((weights / (1 + np.exp(-gap))).sum() / weights.sum())
    found = softmax.averaged(Moments(mean, var), softmax.normal_draws(2))
    assert found.probs[0, 0].item() == pytest.approx(want, abs=2e-3)


def test_members_and_passes_are_averaged_as_probabilities():
    setting, data = Setting("wine_quality", "softmax"), rows()
    method = TABLE_METHODS["softmax"].training
    net = prepared(method, setting, ["tanh"] * R, [0, 1], [0.1] * R, data).double().eval()
    same = Rows(data.x[:1].expand(R, -1, -1), data.y[:1].expand(R, -1))
    fitted = Fitted(net, Folds(same, same, same))
    with torch.no_grad():
        line = evaluation.label_ensemble(fitted, R)["softmax-ensemble"]
        want = Categorical(net(same.x).probs.mean(0, keepdim=True).log())
    for name, value in metrics(want, same.y[:1]).items():
        torch.testing.assert_close(line.metrics[name], value, rtol=1e-9, atol=1e-12)
    thin = TABLE_METHODS["softmax-dropout"].training
    net = prepared(thin, setting, ["tanh"] * R, [0, 1], [0.1] * R, data).double().eval()
    with torch.no_grad():
        many = evaluation.softmax_dropout(Fitted(net, Folds(same, same, same)), passes=200)[""]
        plain = metrics(net(same.x), same.y)
    assert many.metrics["nll"] != pytest.approx(plain["nll"], rel=1e-9)
    torch.testing.assert_close(many.metrics["nll"], plain["nll"], rtol=0.1, atol=0)


def test_the_weights_of_vbll_run_from_one_over_n_to_a_tenth():
    grid = TABLE_METHODS["vbll-softmax"].training.knobs("spambase")
    assert grid[0] == pytest.approx(1 / 2760, rel=1e-2)
    assert grid[-1] == 0.1
    ratios = np.diff(np.log(grid))
    np.testing.assert_allclose(ratios, ratios[0], atol=0.02)
