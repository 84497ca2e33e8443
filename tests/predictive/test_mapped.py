"""Predictives of transformed targets against scipy."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats

from scroll._core.value import cast
from scroll.predictive import Mapped, Mixture, Normal, Student, Tail, TargetMap, metrics, with_tails
from scroll.predictive.mixture import output

M, N = 3, 6
MAPS = {
    "log": TargetMap("log"),
    "log1p": TargetMap("log1p"),
    "logit": TargetMap("logit", -2.0, 3.0),
}
maps = pytest.mark.parametrize("name", MAPS)


def normals(*shape):
    return Normal(torch.randn(shape), torch.rand(shape) / 2 + 0.05, torch.rand(shape) / 2)


BASES = {
    "normal": lambda: normals(N),
    "mixture": lambda: normals(M, N).mixture(),
    "lapse": lambda: with_tails(normals(M, N).mixture(), Tail("lapse", 0, 0.1, 1.5)),
    "student": lambda: Student(torch.randn(N), torch.rand(N) + 0.1, 4),
    "students": lambda: with_tails(normals(M, N).mixture(), Tail("student", 3)),
}
bases = pytest.mark.parametrize("base", BASES)


def laws(base, n):
    """The components of a row and their weights, as scipy has them."""
    parts = base.parts if isinstance(base, Mixture) else base
    mean, scale = (np.atleast_1d(t[..., n].numpy()) for t in (parts.mean, parts.scale))
    w = getattr(base, "weights", None)
    w = np.full(len(mean), 1 / len(mean)) if w is None else w.numpy()
    law = stats.t(parts.df, mean, scale) if hasattr(parts, "df") else stats.norm(mean, scale)
    return law, w


# Maps


@maps
def test_a_map_and_its_inverse(name):
    g, z = MAPS[name], torch.linspace(-30, 30, 301)
    y = g.inverse(z)
    low, high = g.support
    assert bool(((y >= low) & (y <= high)).all())
    near = z.abs() < 10
    torch.testing.assert_close(g.forward(y)[near], z[near], rtol=1e-10, atol=1e-10)
    y = y[near].requires_grad_()
    (slope,) = torch.autograd.grad(g.forward(y).sum(), y)
    torch.testing.assert_close(g.log_slope(y), slope.log(), rtol=1e-10, atol=1e-10)


def test_maps_keep_small_numbers():
    small = torch.tensor([1e-12, 1e-300])
    np.testing.assert_allclose(MAPS["log1p"].forward(small), small, rtol=1e-11)
    np.testing.assert_allclose(MAPS["log1p"].inverse(small), small, rtol=1e-11)
    unit = TargetMap("logit")
    np.testing.assert_allclose(unit.inverse(torch.tensor([-700.0])), np.exp(-700), rtol=1e-12)
    far = torch.tensor([-1000.0, 1000.0])
    assert MAPS["logit"].inverse(far).tolist() == [-2, 3]


def test_maps_that_do_not_exist():
    with pytest.raises(ValueError, match="`name` must be one of 'log', 'log1p', 'logit', but got"):
        TargetMap("sqrt")
    for low, high in ((1.0, 0.0), (0.0, np.inf), (np.nan, 1.0)):
        with pytest.raises(ValueError, match="`low` must be below `high`, both finite, but got"):
            TargetMap("logit", low, high)


# The log-normal distribution


def test_the_log_of_a_normal_is_scipys_lognorm():
    base = normals(N)
    ours = Mapped(base, MAPS["log"])
    law = stats.lognorm(base.stddev.numpy(), scale=base.mean.exp().numpy())
    y = torch.from_numpy(law.rvs(random_state=0))
    for mine, want in (
        (ours.log_prob(y), law.logpdf(y)),
        (ours.cdf(y), law.cdf(y)),
        (ours.quantile(0.02), law.ppf(0.02)),
        (ours.quantile([1e-9, 0.9])[:, 0], law.ppf(1e-9)),
        (ours.mean, law.mean()),
        (ours.variance, law.var()),
        (ours.stddev, law.std()),
    ):
        np.testing.assert_allclose(mine, want, rtol=1e-9)
    scoringrules = pytest.importorskip("scoringrules")
    want = scoringrules.crps_lognormal(y.numpy(), base.mean.numpy(), base.stddev.numpy())
    np.testing.assert_allclose(ours.crps(y), want, rtol=1e-9)


@maps
@bases
def test_density_is_the_slope_of_the_distribution_function(name, base):
    p = Mapped(BASES[base](), MAPS[name])
    y = p.sample(1, torch.Generator().manual_seed(0))[0].requires_grad_()
    (slope,) = torch.autograd.grad(p.cdf(y).sum(), y)
    np.testing.assert_allclose(p.log_prob(y).exp().detach(), slope, rtol=1e-9)
    for q in (0.01, 0.3, 0.99):  # further out, y is one end but for its last digits
        np.testing.assert_allclose(p.cdf(p.quantile(q)), q, rtol=1e-9)
    low, high = p.interval(0.8)
    np.testing.assert_allclose(p.cdf(high) - p.cdf(low), 0.8, rtol=1e-9)


@maps
def test_outside_of_the_support(name):
    p, (low, high) = Mapped(BASES["mixture"](), MAPS[name]), MAPS[name].support
    for y in (low, low - 1):
        assert (p.log_prob(y) == -np.inf).all()
        assert (p.cdf(y) == 0).all()
    if high < np.inf:
        assert (p.log_prob(high) == -np.inf).all()
        assert (p.cdf(high + 1) == 1).all()
    edge, below = (p.crps(torch.full((N,), y)) for y in (low, low - 2))
    torch.testing.assert_close(below, edge + 2, rtol=1e-12, atol=0)
    assert p.cdf(torch.full((N,), np.nan)).isnan().all()
    with pytest.raises(ValueError, match=r"`y` must have the shape \(6,\) of the predictive"):
        p.cdf(torch.zeros(N, 1))


def moments(g, law, w):
    """Mean and variance by scipy's quadrature over the levels of each component."""
    inverse = lambda z: float(g.inverse(torch.tensor(z)))
    low, high = law.ppf(1e-13).min(), law.ppf(1 - 1e-13).max()
    middle = sorted(np.r_[law.mean(), 0])

    def moment(k):
        f = lambda z: inverse(z) ** k * (w * law.pdf(z)).sum()
        edges = np.unique(np.r_[low, -60, -20, -5, middle, 5, 20, 60, high])
        each = (integrate.quad(f, a, b, epsabs=1e-13, limit=300)[0] for a, b in pairwise(edges))
        return sum(each)

    return moment(1), moment(2) - moment(1) ** 2


@bases
@maps
def test_moments(name, base):
    p = Mapped(BASES[base](), MAPS[name])
    if "student" in base and name != "logit":
        for ask in (lambda: p.mean, lambda: p.variance, lambda: p.crps(torch.ones(N))):
            with pytest.raises(ValueError, match=r"`predictive` must have a finite .*Use quantil"):
                ask()
        assert "log" in repr(p)
        return
    for n in range(2):
        mean, variance = moments(MAPS[name], *laws(p.base, n))
        assert p.mean[n].item() == pytest.approx(mean, rel=1e-8)
        assert p.variance[n].item() == pytest.approx(variance, rel=1e-7)


@pytest.mark.parametrize("scale", [1e-4, 0.03, 1.0, 7.0, 100.0])
@pytest.mark.parametrize("mean", [0.0, -4.0, 8.0])
@pytest.mark.parametrize("df", [None, 3, 4, 20])
def test_logit_moments_at_every_scale(mean, scale, df):
    """Narrow beliefs on the sigmoid function's flanks, and wide ones that see a step."""
    at = torch.tensor([mean]), torch.tensor([scale])
    base = Normal(at[0], at[1] ** 2, torch.zeros(1)) if df is None else Student(*at, df)
    law = stats.norm(mean, scale) if df is None else stats.t(df, mean, scale)
    wide = scale * np.r_[0, 1, 2, 5, 10, np.logspace(1.5, 8, 20)]
    edges = np.r_[-60, -20, -3, 0, 3, 20, 60, mean + wide, mean - wide]
    edges = np.unique(np.clip(edges, -700, 700))

    def integral(f):
        how = {"epsabs": 1e-16, "epsrel": 1e-10}
        return sum(integrate.quad(f, a, b, **how)[0] for a, b in pairwise(edges))

    # in differences from the sigmoid of the mean, which keep their digits
    start = special.expit(mean)
    low, high = law.cdf(-700), law.sf(700)  # out there it is 0 or 1
    first = integral(lambda z: (special.expit(z) - start) * law.pdf(z))
    first += high * (1 - start) - low * start
    second = integral(lambda z: (special.expit(z) - start) ** 2 * law.pdf(z))
    second += high * (1 - start) ** 2 + low * start**2
    p = Mapped(base, TargetMap("logit"))
    assert p.mean.item() == pytest.approx(start + first, rel=1e-9)
    assert p.variance.item() == pytest.approx(second - first**2, rel=1e-7)


@bases
def test_crps_by_quadrature(base):
    p = Mapped(BASES[base](), MAPS["logit"])
    y = torch.tensor([-1.9, 2.9, 0.1, -1.0, 2.0, 2.999999])
    assert_crps(p, y, rel=1e-9)


@pytest.mark.parametrize("base", ["normal", "mixture", "lapse"])
@pytest.mark.parametrize("name", ["log", "log1p"])
def test_crps_of_log_normals(name, base):
    p = Mapped(BASES[base](), MAPS[name])
    y = p.quantile(0.3) + torch.linspace(0, 5, N)
    assert_crps(p, y, rel=1e-8)


def assert_crps(p, y, rel):
    got = p.crps(y)
    for n in range(N):
        assert got[n].item() == pytest.approx(
            crps_by_quad(p, n, float(p.map.forward(y[n]))), rel=rel
        )


def crps_by_quad(p, n, z):
    """By scipy's quadrature over g(y), with the slope of g^-1."""
    (law, w), g = laws(p.base, n), p.map
    slope = lambda t: np.exp(-float(g.log_slope(g.inverse(torch.tensor(t)))))
    low, high = law.ppf(1e-11).min(), law.ppf(1 - 1e-11).max()
    low, high = np.clip([low, high], -36, 36) if g.name == "logit" else (low, high)

    def integral(f, a, b):
        points = np.unique(np.clip(np.r_[a, law.mean(), -8, -3, 0, 3, 8, b], a, b))
        how = {"epsabs": 1e-13, "epsrel": 1e-11, "limit": 300}
        return sum(integrate.quad(f, s, t, **how)[0] for s, t in pairwise(points))

    left = integral(lambda t: (w * law.cdf(t)).sum() ** 2 * slope(t), min(low, z), z)
    return left + integral(lambda t: (w * law.sf(t)).sum() ** 2 * slope(t), z, max(high, z))


def test_crps_of_wide_log_normals_does_not_cancel():
    """The mean is exp(50), the score 1e9: differences of means would have no digits."""
    p = Mapped(Normal(*(torch.tensor([v]) for v in (0.0, 100.0, 0.0))), MAPS["log"])
    f = lambda z: stats.norm.sf(z / 10) ** 2 * np.exp(z)
    want = integrate.quad(f, 0, 50, epsrel=1e-12)[0] + integrate.quad(f, 50, 200, epsrel=1e-12)[0]
    want += integrate.quad(lambda z: stats.norm.cdf(z / 10) ** 2 * np.exp(z), -100, 0)[0]
    assert p.crps(torch.ones(1)).item() == pytest.approx(want, rel=1e-9)
    narrow = Mapped(Normal(*(torch.tensor([v]) for v in (2.0, 1e-8, 0.0))), MAPS["log"])
    near = Normal(*(torch.tensor([v]) for v in (np.exp(2), np.exp(4) * 1e-8, 0.0)))
    y = torch.tensor([np.exp(2.0) * (1 + 1e-4)])
    assert narrow.crps(y).item() == pytest.approx(near.crps(y).item(), rel=1e-3)


@maps
@bases
def test_draws_members_and_scores(name, base):
    p = Mapped(BASES[base](), MAPS[name])
    draws = p.sample(4000, torch.Generator().manual_seed(1))
    assert p.map.inside(draws).all()
    for n in range(N):
        assert stats.kstest(p.cdf(draws)[:, n], "uniform").pvalue > 1e-3
    assert p.members[0].base.mean.shape == (N,)
    assert p.log_prob(draws).isfinite().all()
    assert (p.discrete, p.ordered) == (False, True)
    line = repr(p)
    assert line.startswith(f"Mapped(shape=(6,), {name} of {type(p.base).__name__}, base mean ")
    assert len(line) < 120
    if "student" not in base:
        mean, std = p.as_tensors()
        assert metrics.crps(p, draws[0]) > 0
        assert mean.dtype == std.dtype == torch.float64
        np.testing.assert_allclose(draws.mean(0), mean, atol=float(6 * std.max() / 60))


def test_dtypes_outputs_and_units():
    p = Mapped(normals(M, N, 2).mixture(), MAPS["log"])
    y = p.quantile(0.4)
    one = output(p, 1)
    torch.testing.assert_close(one.crps(y[:, 1]), p.crps(y)[:, 1], rtol=1e-12, atol=0)
    single = cast(p, torch.float32)
    assert {x.dtype for x in (single.mean, single.crps(y), single.cdf(y))} == {torch.float32}
    assert single.map == p.map
    with pytest.raises(TypeError, match="`predictive` must be linear in its target, but got Mapp"):
        p.in_units(torch.tensor(0.0), torch.tensor(1.0))
    draws = p.sample(3)
    want = torch.stack([p.crps(draw) for draw in draws])
    torch.testing.assert_close(p.crps(draws), want, rtol=1e-12, atol=0)
