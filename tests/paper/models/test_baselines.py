"""The baselines of the tables, against the packages and formulas that define them."""

import copy

import numpy as np
import pytest
import torch
import vbll
from scipy import optimize, special, stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from torch import nn

from scroll import RegressionHead, refit
from scroll.beliefs import Problem
from scroll.factors import Gaussian
from scroll.objectives.routes import conjugate
from scroll.training.batches import Rows
from scroll.training.bodies import MLP
from scroll.training.dropout import Dropout
from scroll.training.loop import train
from scroll.training.network import Network, held_out_mse
from scroll.training.settings import Settings
from scroll_paper.data.protocol import Folds
from scroll_paper.grid import stacks
from scroll_paper.grid.plan import Unit, Work
from scroll_paper.models import evaluation
from scroll_paper.models.baselines import Constant, MeanVariance, Variational, laplace
from scroll_paper.models.evaluation import Fitted
from scroll_paper.models.gp import Process
from scroll_paper.models.method import Setting, prepared
from scroll_paper.models.methods import SINGLE, TABLE_METHODS

R, N, D, H = 3, 30, 3, 5
THEIRS = {
    "log_noise": "noise_logdiag",
    "mean": "W_mean",
    "log_diag": "W_logdiag",
    "lower": "W_offdiag",
}


def data(*lead, n=N, d=D):
    x = torch.randn(*lead, n, d)
    return Rows(x, torch.sin(2 * x[..., 0]) + 0.5 * x[..., 1] + 0.3 * torch.randn(*lead, n))


def scatter(module, std=0.5):
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(std=std)
    return module


# VBLL


def vbll_pair(weight):
    """The package's layer and ours, at the same parameters."""
    theirs, ours = vbll.Regression(H, 1, weight, parameterization="dense"), Variational(H)
    scatter(ours)
    with torch.no_grad():
        ours.weight.fill_(weight)
        for name, other in THEIRS.items():
            getattr(theirs, other).copy_(getattr(ours, name))
    return theirs, ours


@pytest.mark.parametrize("weight", [1 / N, 0.1])
def test_vbll_is_the_packages_loss_and_all_its_gradients(weight):
    psi, y = torch.randn(N, H), data().y
    theirs, ours = vbll_pair(weight)
    want, loss = theirs(psi).train_loss_fn(y[:, None]), ours.loss(psi, y, total=N)
    constant = 0.5 * H * weight  # they leave the -H/2 of the KL divergence out
    assert loss.item() == pytest.approx(want.item() - constant, rel=1e-9)
    want.backward()
    loss.backward()
    for name, other in THEIRS.items():
        grad = getattr(theirs, other).grad
        assert grad.abs().max() > 1e-3
        torch.testing.assert_close(getattr(ours, name).grad, grad, rtol=1e-9, atol=1e-12)


def test_vblls_weight_does_not_depend_on_the_batch():
    """A batch of B rows out of N: the mean over the batch, and the same prior term."""
    psi, y = torch.randn(N, H), data().y
    theirs, ours = vbll_pair(0.1)
    want = theirs(psi[:7]).train_loss_fn(y[:7, None]).item() - 0.5 * H * 0.1
    assert ours.loss(psi[:7], y[:7], total=N).item() == pytest.approx(want, rel=1e-9)


def test_vbll_predicts_as_the_package():
    psi = torch.randn(N, H)
    theirs, ours = vbll_pair(0.1)
    want, at = theirs(psi).predictive, ours(psi)
    torch.testing.assert_close(at.mean, want.mean[:, 0], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(at.variance, want.var[:, 0], rtol=1e-9, atol=0)
    noise = theirs.noise_logdiag.exp().square().expand(N)
    torch.testing.assert_close(at.noise_var, noise, rtol=1e-9, atol=0)


def test_a_whole_fit_of_vbll_is_the_packages():
    """Body and layer, 200 steps of Adam; the package's loss is a mean and ours a sum, which
    Adam's eps alone can tell apart, so theirs is given as a sum."""
    rows, held = data(1), data(1)
    theirs, layer = vbll_pair(0.01)
    ours = Network(MLP(D, H, architecture="tanh", replicates=(1,)), Variational(H, (1,)))
    with torch.no_grad():
        ours.head.weight.fill_(0.01)
        for name in THEIRS:
            getattr(ours.head, name)[0] = getattr(layer, name)
    body = nn.Linear(D, H, bias=False)
    body.weight.data = ours.body.weights[0][0].detach().mT.clone()
    adam = torch.optim.Adam([*body.parameters(), *theirs.parameters()], lr=0.03)

    def their_loss():
        return N * theirs(body(rows.x[0]).tanh()).train_loss_fn(rows.y[0][:, None])

    start = their_loss().item()
    for _ in range(200):
        adam.zero_grad()
        their_loss().backward()
        adam.step()
    done = train(ours, rows, held, Settings(steps=200, every=200, lr=0.03, decay=0.0))
    assert done.step.item() == 200
    want = their_loss().item() - 0.5 * H * 0.01 * N
    assert want < 0.5 * start
    assert done.network.loss(rows, N, 0.0).item() == pytest.approx(want, rel=1e-9)
    with torch.no_grad():
        at, theirs_at = done.network(held.x), theirs(body(held.x[0]).tanh()).predictive
    torch.testing.assert_close(at.mean[0], theirs_at.mean[:, 0], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(at.variance[0], theirs_at.var[:, 0], rtol=1e-9, atol=0)


# MVN


def test_mvn_is_the_weighted_gaussian_nll_with_detached_weights():
    psi, y = torch.randn(R, N, H), torch.randn(R, N)
    head = scatter(MeanVariance(H, (R,)))
    lam = torch.tensor([0.0, 0.01, 0.3])
    head.weight.copy_(lam)
    loss = head.loss(psi, y, total=N)
    mean, log_var = (psi @ head.linear.mT + head.offset[:, None]).unbind(-1)
    var = log_var.exp()
    nll = nn.GaussianNLLLoss(reduction="none", eps=1e-300)(mean, y, var)
    score = -torch.distributions.Normal(mean, var.sqrt()).log_prob(y) - 0.5 * np.log(2 * np.pi)
    torch.testing.assert_close(nll, score, rtol=1e-9, atol=1e-12)
    ridge = lam * (head.linear[:, 0].norm(dim=-1) ** 2 + head.linear[:, 1].norm(dim=-1) ** 2)
    want = (var.detach() ** 0.5 * nll).mean(-1) + ridge
    torch.testing.assert_close(loss, want, rtol=1e-9, atol=0)
    parameters = list(head.parameters())
    ours, theirs, attached = (
        torch.autograd.grad(t.sum(), parameters, retain_graph=True)
        for t in (loss, want, (var**0.5 * nll).mean(-1) + ridge)
    )
    for a, b, c in zip(ours, theirs, attached, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)
        assert not torch.allclose(a, c, rtol=1e-2)  # a weight with a gradient would show
    torch.testing.assert_close(head(psi).variance, var, rtol=1e-9, atol=0)


def test_mvns_gradient_is_the_gaussian_scores_by_hand():
    """d/dm = -V^b r/V, d/dlogV = V^b (1 - r^2/V)/2: with beta = 0.5 and one feature of one."""
    head, y = MeanVariance(1), torch.tensor([1.7])
    with torch.no_grad():
        head.linear.copy_(torch.tensor([[0.2], [-0.6]]))
    head.loss(torch.ones(1, 1), y, total=1).backward()
    var, r = np.exp(-0.6), 1.5
    want = np.sqrt(var) * np.array([-r / var, 0.5 * (1 - r**2 / var)])
    np.testing.assert_allclose(head.offset.grad, want, rtol=1e-9)
    np.testing.assert_allclose(head.linear.grad[:, 0], want, rtol=1e-9)


# Laplace


def map_stack(penalties=(0.03, 0.7, 5.0), noises=(0.2, 0.5, 1.3)):
    body = MLP(D, H, architecture="tanh", replicates=(R,))
    head = RegressionHead(H, covariance="none", method="map", bias=False, replicates=(R,))
    with torch.no_grad():
        head.log_alpha.copy_(torch.tensor(penalties).log()[:, None])
        head.likelihood.log_noise.copy_(torch.tensor(noises).log()[:, None])
    return Network(body, head)


def test_laplace_is_the_inverse_curvature_of_the_joint_about_map():
    penalties, noises = (0.03, 0.7, 5.0), (0.2, 0.5, 1.3)
    rows = data(R)
    network = map_stack(penalties, noises)
    with torch.no_grad():
        belief = laplace(network, rows)
        features = network.body(rows.x)
    torch.testing.assert_close(belief.mean, network.head.mean, rtol=0, atol=0)
    for r, (penalty, s) in enumerate(zip(penalties, noises, strict=True)):
        psi, y = features[r], rows.y[r]
        gram = psi.numpy().T @ psi.numpy()
        want = np.linalg.inv(gram / s**2 + penalty / s**2 * np.eye(H))
        np.testing.assert_allclose(belief.cov.dense()[r, 0], want, rtol=1e-9, atol=1e-14)

        def minus_log_joint(w, psi=psi, y=y, s=s, penalty=penalty):
            # the loss of MAP over 2 s^2 is that of noise s and precision penalty / s^2
            likelihood = torch.distributions.Normal(psi @ w, s).log_prob(y).sum()
            prior = torch.distributions.Normal(0.0, s * penalty**-0.5).log_prob(w).sum()
            return -likelihood - prior

        hessian = torch.autograd.functional.hessian(minus_log_joint, belief.mean[r, 0].detach())
        np.testing.assert_allclose(
            belief.cov.dense()[r, 0], np.linalg.inv(hessian), rtol=1e-9, atol=1e-14
        )


def test_laplace_of_a_stack_is_that_of_each():
    rows = data(R)
    network = map_stack()
    together = laplace(network, rows)
    for r in range(R):
        body = MLP(D, H, architecture="tanh")
        head = RegressionHead(H, covariance="none", method="map", bias=False)
        one = Network(body, head)
        one.load_state_dict({k: v[r] for k, v in network.state_dict().items()})
        alone = laplace(one, Rows(rows.x[r], rows.y[r]))
        torch.testing.assert_close(together.mean[r], alone.mean, rtol=1e-12, atol=0)
        torch.testing.assert_close(
            together.cov.dense()[r], alone.cov.dense(), rtol=1e-9, atol=1e-14
        )


def test_laplace_is_reported_with_the_noise_of_the_validation_residuals():
    folds = Folds(data(R), data(R), data(R))
    network = map_stack()
    with torch.no_grad():
        lines = evaluation.map_and_laplace(Fitted(network, folds))
        train_psi, val_psi, test_psi = (network.body(f.x).numpy() for f in folds[:3])
        w, penalty = network.head.mean[:, 0].numpy(), network.head.log_alpha[:, 0].exp().numpy()
    for r in range(R):
        s2 = np.mean((folds.val.y[r].numpy() - val_psi[r] @ w[r]) ** 2)
        gram = train_psi[r].T @ train_psi[r]
        cov = s2 * np.linalg.inv(gram + penalty[r] * np.eye(H))
        y, mean = folds.test.y[r].numpy(), test_psi[r] @ w[r]
        spread = np.einsum("nh,hk,nk->n", test_psi[r], cov, test_psi[r])
        for name, var in (("", np.full(N, s2)), ("laplace-full", s2 + spread)):
            nll = -stats.norm.logpdf(y, mean, np.sqrt(var)).mean()
            assert lines[name].metrics["nll"][r].item() == pytest.approx(nll, rel=1e-9)
            assert lines[name].val[r].item() == pytest.approx(s2, rel=1e-9)


# GP-RBF


def process(length=1.3, scale=0.8, noise=0.25, lead=()):
    p = Process(D, lead)
    with torch.no_grad():
        for name, number in (("length", length), ("scale", scale), ("noise", noise)):
            getattr(p, f"log_{name}").fill_(np.log(number))
    return p


def sklearn_process(length, scale, noise, **how):
    """Theirs adds 1e-10 to the diagonal unless told not to."""
    kernel = ConstantKernel(scale**2) * RBF(length) + WhiteKernel(noise**2)
    return GaussianProcessRegressor(kernel, alpha=0.0, **how)


def test_gp_is_scikit_learns_at_the_same_hyper_parameters():
    rows, new = data(), data()
    ours = process()
    theirs = sklearn_process(1.3, 0.8, 0.25, optimizer=None).fit(rows.x, rows.y)
    evidence = -N * ours.loss(rows.x, rows.y, total=N).item()
    assert evidence == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-9)
    at = ours.condition(rows.x, rows.y)(new.x)
    mean, std = theirs.predict(new.x, return_std=True)
    np.testing.assert_allclose(at.mean.detach(), mean, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(at.stddev.detach(), std, rtol=1e-9)
    np.testing.assert_allclose(at.noise_var.detach(), 0.25**2, rtol=1e-9)


def test_gps_gradients_are_scikit_learns():
    """Theirs are in log scale^2, log length, log noise^2."""
    rows = data()
    ours = process()
    (-N * ours.loss(rows.x, rows.y, total=N)).backward()
    theirs = sklearn_process(1.3, 0.8, 0.25, optimizer=None).fit(rows.x, rows.y)
    _, grad = theirs.log_marginal_likelihood(theirs.kernel_.theta, eval_gradient=True)
    mine = [p.grad.item() for p in (ours.log_scale, ours.log_length, ours.log_noise)]
    np.testing.assert_allclose(mine, grad * [2, 1, 2], rtol=1e-9)


def test_a_stack_of_gps_is_each_of_them():
    rows, new = data(2), data(2)
    ours = process(lead=(2,))
    with torch.no_grad():
        ours.log_length.copy_(torch.tensor([0.1, 0.5]))
        loss, at = ours.loss(*rows[:2], total=N), ours.condition(*rows[:2])(new.x)
        for r in range(2):
            alone = process(length=np.exp([0.1, 0.5][r]))
            want = alone.loss(rows.x[r], rows.y[r], total=N)
            torch.testing.assert_close(loss[r], want, rtol=1e-9, atol=0)
            p = alone.condition(rows.x[r], rows.y[r])(new.x[r])
            torch.testing.assert_close(at.mean[r], p.mean, rtol=1e-9, atol=1e-12)
            torch.testing.assert_close(at.variance[r], p.variance, rtol=1e-9, atol=0)


def test_the_greatest_evidence_of_a_gp_is_scikit_learns():
    """From the benchmark's start."""
    rows = data(1)
    made = prepared(
        TABLE_METHODS["gp-rbf"].training, Setting("yacht", "gp-rbf"), ["none"], [0], [None], rows
    )
    names = ("log_scale", "log_length", "log_noise")

    def minus_evidence(theta):
        for name, t in zip(names, theta, strict=True):
            getattr(made.head, name).data.fill_(t)
        loss = made.loss(rows, N, 0.0).sum()
        grads = torch.autograd.grad(loss, [getattr(made.head, name) for name in names])
        return loss.item(), np.array([g.item() for g in grads])

    start = [getattr(made.head, name).item() for name in names]
    found = optimize.minimize(minus_evidence, start, jac=True, options={"gtol": 1e-8})
    theirs = sklearn_process(1.0, 1.0, 0.3, n_restarts_optimizer=3, random_state=0)
    theirs.fit(rows.x[0], rows.y[0])
    assert -found.fun > -minus_evidence(start)[0] + 1
    # sklearn's L-BFGS stops at a relative change of 2e-9
    assert -found.fun == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-8)
    # and a maximiser is found to the root of that
    np.testing.assert_allclose(found.x * [2, 1, 2], theirs.kernel_.theta, rtol=0, atol=1e-4)


# The mean predictor


def test_the_mean_predictor_is_the_normal_of_the_training_targets():
    rows, new = data(R), data(R, n=7)
    network = Network(nn.Identity(), Constant((R,)))
    network.condition(rows)
    at = network(new.x)
    y = rows.y.numpy()
    for r in range(R):
        want = stats.norm(y[r].mean(), y[r].std(ddof=0))
        np.testing.assert_allclose(at.log_prob(new.y)[r], want.logpdf(new.y[r]), rtol=1e-9)
        np.testing.assert_allclose(at.mean[r], want.mean() * np.ones(7), rtol=1e-9)
        np.testing.assert_allclose(at.variance[r], want.var() * np.ones(7), rtol=1e-9)


# What is trained


@pytest.mark.parametrize("method", ["map", "mvn", "scroll-none"])
def test_the_trained_objective_in_mean_form(method, monkeypatch):
    """N (mean loss + lambda |w|^2 + 0.01 |theta|^2), each lambda of the grid in its replicate;
    a method that is not in mean form has 0.01 |theta|^2 against the sum."""
    handed = {}

    def keep(start, rows, held, settings, **how):
        handed.update(network=start, rows=rows, settings=settings)
        return iter(())

    monkeypatch.setattr(stacks, "train_in_parts", keep)
    work = Work(Setting("yacht", method, width=H), (5,), ("tanh",))
    folds = Folds(data(1), data(1, n=9), data(1, n=9))
    assert list(stacks.train_stack(Unit(work, work.groups()), folds)) == []
    network, rows, settings = handed["network"], handed["rows"], handed["settings"]
    losses = network.loss(rows, N, settings.decay).detach().numpy()
    grid = {"map": (1e-4, 1e-3, 1e-2, 1e-1), "mvn": (1e-4, 1e-3, 1e-2, 1e-1)}.get(method, (None,))
    assert len(losses) == len(grid)
    x, y = folds.train.x[0].numpy(), folds.train.y[0].numpy()
    for r, lam in enumerate(grid):
        theta = network.body.weights[0][r].detach().numpy()
        psi, body = np.tanh(x @ theta), 0.01 * (theta**2).sum()
        if method == "mvn":
            w = network.head.linear[r].detach().numpy()
            mean, log_var = psi @ w[0], psi @ w[1]
            score = 0.5 * np.exp(0.5 * log_var) * ((y - mean) ** 2 / np.exp(log_var) + log_var)
            want = N * (score.mean() + lam * (w**2).sum() + body)
        else:
            w = network.head.mean[r, 0].detach().numpy()
            if method == "map":
                want = N * (np.mean((y - psi @ w) ** 2) + lam * (w**2).sum() + body)
            else:
                joint = stats.norm.logpdf(y, psi @ w).sum() + stats.norm.logpdf(w).sum()
                want = -joint + body
        assert losses[r] == pytest.approx(want, rel=1e-9)


# What is reported


def caliberr(y, mean, std):
    gaps = []
    for level in np.linspace(0.05, 0.95, 19):
        low, high = stats.norm.interval(level, mean, std)
        gaps.append(abs(level - np.mean((y >= low) & (y <= high))))
    return np.mean(gaps)


def ensembles(members=4, groups=2):
    """A stack of two ensembles, members side by side, on rows that members share."""
    folds = Folds(*(data(groups) for _ in range(3)))
    which = torch.arange(groups).repeat_interleave(members)
    return folds, folds.take(which)


def test_an_ensemble_is_collapsed_to_two_moments_and_scored_as_the_mixture():
    members = 4
    folds, each = ensembles(members)
    head = scatter(MeanVariance(D, (2 * members,)))
    with torch.no_grad():
        lines = evaluation.ensemble("mvn-ens")(Fitted(Network(nn.Identity(), head), each), members)
    line = lines["mvn-ens"]
    w, b = head.linear.detach().numpy(), head.offset.detach().numpy()
    for g in range(2):
        mine = range(g * members, (g + 1) * members)
        found = {}
        for name, rows in (("val", folds.val), ("test", folds.test)):
            x, y = rows.x[g].numpy(), rows.y[g].numpy()
            means = np.stack([x @ w[m, 0] + b[m, 0] for m in mine])
            variances = np.exp(np.stack([x @ w[m, 1] + b[m, 1] for m in mine]))
            mean = means.mean(0)
            std = np.sqrt((variances + means**2).mean(0) - mean**2)
            logs = stats.norm.logpdf(y, means, np.sqrt(variances))
            found[name] = (
                -stats.norm.logpdf(y, mean, std).mean(),
                np.sqrt(np.mean((y - mean) ** 2)),
                caliberr(y, mean, std),
                -(special.logsumexp(logs, axis=0) - np.log(members)).mean(),
            )
        for name, want in zip(
            ("nll", "rmse", "caliberr", "nll_mixture"), found["test"], strict=True
        ):
            assert line.metrics[name][g].item() == pytest.approx(want, rel=1e-9), name
        assert line.val[g].item() == pytest.approx(found["val"][0], rel=1e-9)


def test_a_deep_ensemble_has_the_noise_of_its_means_validation_residuals():
    members = 4
    folds, each = ensembles(members)
    lead = (2 * members,)
    head = RegressionHead(D, covariance="none", method="map", bias=False, replicates=lead)
    scatter(head)  # its own noise is at random, too: it is not to count
    with torch.no_grad():
        line = evaluation.deep_ensemble(Fitted(Network(nn.Identity(), head), each), members)
    line, w = line["deep-ensemble"], head.mean[:, 0].detach().numpy()
    for g in range(2):
        mine = w[g * members : (g + 1) * members]
        s2 = np.mean((folds.val.y[g].numpy() - (folds.val.x[g].numpy() @ mine.T).mean(1)) ** 2)
        x, y = folds.test.x[g].numpy(), folds.test.y[g].numpy()
        means = mine @ x.T
        mean, std = means.mean(0), np.sqrt(s2 + means.var(0))
        logs = stats.norm.logpdf(y, means, np.sqrt(s2))
        want = {
            "nll": -stats.norm.logpdf(y, mean, std).mean(),
            "rmse": np.sqrt(np.mean((y - mean) ** 2)),
            "caliberr": caliberr(y, mean, std),
            "nll_mixture": -(special.logsumexp(logs, axis=0) - np.log(members)).mean(),
        }
        for name, number in want.items():
            assert line.metrics[name][g].item() == pytest.approx(number, rel=1e-9), name
        assert line.val[g].item() == pytest.approx(s2, rel=1e-9)


def test_mc_dropout_is_the_moments_of_its_passes():
    passes, folds = 6, Folds(data(R), data(R), data(R))
    setting = Setting("yacht", "mc-dropout", width=8)
    method, knobs = TABLE_METHODS["mc-dropout"].training, (1e-3, 1e-2, 1e-1)
    network = prepared(method, setting, ["relu"] * 3, (5, 6, 7), knobs, folds.train).eval()
    again = copy.deepcopy(network)
    with torch.no_grad():
        line = evaluation.mc_dropout(Fitted(network, folds), passes)[""]
        still = held_out_mse(again, folds.val)
        for layer in again.modules():
            layer.train(isinstance(layer, Dropout))
        drawn = [
            np.stack([again(rows.x).mean.numpy() for _ in range(passes)])
            for rows in (folds.val, folds.test)
        ]
    assert not any(m.training for m in network.modules())
    torch.testing.assert_close(line.val, still, rtol=0, atol=0)
    for r in range(R):
        s2 = np.mean((folds.val.y[r].numpy() - drawn[0][:, r].mean(0)) ** 2)
        y, mean = folds.test.y[r].numpy(), drawn[1][:, r].mean(0)
        spread = drawn[1][:, r].var(0)
        assert spread.max() > 1e-4
        std = np.sqrt(s2 + spread)
        want = {
            "nll": -stats.norm.logpdf(y, mean, std).mean(),
            "rmse": np.sqrt(np.mean((y - mean) ** 2)),
            "caliberr": caliberr(y, mean, std),
        }
        for name, number in want.items():
            assert line.metrics[name][r].item() == pytest.approx(number, rel=1e-9), name


def test_the_loo_gap_is_n_refits_against_the_shared_posterior():
    """Mean over the points of the leave-one-out NLL less the shared one, at the evidence's alpha
    and noise."""
    folds = Folds(data(2, n=20), data(2, n=9), data(2, n=9))
    head = RegressionHead(D, bias=False, replicates=(2,))
    network = Network(nn.Identity(), head)
    with torch.no_grad():
        line = evaluation.refitted(Fitted(network, folds))["loo-gap"]
        bound = refit(head, *folds.train[:2])
    for r in range(2):
        x, y = folds.train.x[r].numpy(), folds.train.y[r].numpy()
        alpha, s2 = bound.alpha[r].item(), bound.noise[r].item() ** 2

        def nll(keep, n, x=x, y=y, alpha=alpha, s2=s2):
            cov = np.linalg.inv(x[keep].T @ x[keep] / s2 + alpha * np.eye(D))
            mean = x[n] @ cov @ x[keep].T @ y[keep] / s2
            return -stats.norm.logpdf(y[n], mean, np.sqrt(s2 + x[n] @ cov @ x[n]))

        every = np.arange(20)
        gap = np.mean([nll(every != n, n) - nll(every >= 0, n) for n in range(20)])
        assert gap > 1e-3
        assert line.metrics["gap"][r].item() == pytest.approx(gap, rel=1e-9)
        hat = x @ np.linalg.solve(x.T @ x + alpha * s2 * np.eye(D), x.T)
        assert line.metrics["d_eff"][r].item() == pytest.approx(np.trace(hat), rel=1e-9)
        assert line.metrics["h_max"][r].item() == pytest.approx(np.diag(hat).max(), rel=1e-9)


def test_a_posterior_in_single_precision_is_the_exact_one_up_to_rounding():
    psi, y = torch.randn(40, 6), torch.randn(1, 40)
    p = Problem(psi, y, Gaussian(torch.tensor([0.5])), torch.tensor([2.0]))
    exact, rounded = conjugate(p), SINGLE(p)
    assert rounded.mean.dtype == torch.float64
    for a, b in ((exact.mean, rounded.mean), (exact.cov.dense(), rounded.cov.dense())):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
        assert (a - b).abs().max() > 1e-10


def test_an_mvn_learns_the_offsets_that_it_is_asked_to_learn():
    psi, y = torch.randn(20, H), torch.randn(20) + 3
    for offsets in ((True, True), (False, True), (False, False)):
        head = MeanVariance(H, offsets=offsets)
        with torch.no_grad():
            head.offset.fill_(0.7)
        bare = head(torch.zeros(1, H))
        assert (bare.mean.item(), bare.noise_var.log().item()) == pytest.approx(
            tuple(0.7 * learned for learned in offsets)
        )
        head.loss(psi, y, 20).backward()
        moved = head.offset.grad if any(offsets) else torch.zeros(2)
        assert (moved != 0).tolist() == list(offsets)
