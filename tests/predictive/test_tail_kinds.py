"""Weighted mixtures of normals, and predictives with other tails, against scipy."""

import numpy as np
import pytest
import torch
from scipy import stats

from scroll._core.value import cast, map_tensors
from scroll.predictive import Mixture, Normal, Student, Tail, metrics, narrowed, with_tails
from scroll.predictive.mixture import output

M, N = 3, 6
WEIGHTS = (0.1, 0.6, 0.3)


def normals(*shape):
    shape = shape or (M, N)
    return Normal(2 * torch.randn(shape), torch.rand(shape) + 0.05, torch.rand(shape))


def weighted(*shape):
    return Mixture(normals(*shape), torch.tensor(WEIGHTS))


def same(a, b, rtol=1e-12):
    """All that a predictive offers is equal."""
    y = 2 * torch.randn(N)
    pairs = [(getattr(a, name), getattr(b, name)) for name in ("mean", "variance", "stddev")]
    pairs += [(getattr(a, name)(y), getattr(b, name)(y)) for name in ("log_prob", "cdf", "crps")]
    pairs += [(a.quantile(q), b.quantile(q)) for q in (1e-6, 0.2, 0.5, 0.999)]
    for mine, want in pairs:
        torch.testing.assert_close(mine, want, rtol=rtol, atol=1e-13)


# Weights


def test_no_weights_are_equal_ones():
    parts = normals()
    same(Mixture(parts), Mixture(parts, torch.full((M,), 1 / M)))
    a, b = Mixture(parts).collapsed(), Mixture(parts, torch.full((M,), 1 / M)).collapsed()
    torch.testing.assert_close(a.belief_var, b.belief_var, rtol=1e-12, atol=0)


def test_a_weight_counts_as_often_as_a_component():
    parts = normals(2, N)
    twice = map_tensors(lambda t: torch.stack([t[0], t[1], t[1], t[1]]), parts)
    same(Mixture(parts, torch.tensor([0.25, 0.75])), Mixture(twice))


def test_density_moments_and_distribution_function():
    ours, y = weighted(), 3 * torch.randn(N)
    w, law = np.array(WEIGHTS)[:, None], stats.norm(ours.parts.mean, ours.parts.stddev)
    np.testing.assert_allclose(ours.log_prob(y).exp(), (w * law.pdf(y)).sum(0), rtol=1e-9)
    np.testing.assert_allclose(ours.cdf(y), (w * law.cdf(y)).sum(0), rtol=1e-9)
    mean = (w * law.mean()).sum(0)
    np.testing.assert_allclose(ours.mean, mean, rtol=1e-9)
    square = (w * (law.var() + law.mean() ** 2)).sum(0)
    np.testing.assert_allclose(ours.variance, square - mean**2, rtol=1e-9)
    far = torch.full((N,), 300.0)
    want = np.logaddexp.reduce(np.log(w) + law.logpdf(far), 0)
    np.testing.assert_allclose(ours.log_prob(far), want, rtol=1e-9)
    for q in (1e-6, 0.01, 0.7):
        np.testing.assert_allclose(ours.cdf(ours.quantile(q)), q, rtol=1e-9)


def test_crps_of_weighted_normals():
    scoringrules = pytest.importorskip("scoringrules")
    ours, y = weighted(), 3 * torch.randn(N)
    each = (ours.parts.mean.T.numpy(), ours.parts.stddev.T.numpy())
    want = scoringrules.crps_mixnorm(y.numpy(), *each, np.tile(WEIGHTS, (N, 1)))
    np.testing.assert_allclose(ours.crps(y), want, rtol=1e-9)


def test_draws_follow_the_weights():
    ours = weighted()
    draws = ours.sample(20_000, torch.Generator().manual_seed(0))
    for n in range(N):
        assert stats.kstest(ours.cdf(draws)[:, n], "uniform").pvalue > 1e-3
    np.testing.assert_allclose(draws.mean(0), ours.mean, atol=0.1)
    np.testing.assert_allclose(draws.var(0), ours.variance, rtol=0.06)
    never = Mixture(normals(), torch.tensor([1.0, 0.0, 0.0]))
    again = never.sample(100, torch.Generator().manual_seed(0))
    first = (again - never.parts.mean[0]) / never.parts.stddev[0]
    assert first.abs().max() < 5


def test_several_draws_at_once_are_scored_as_each():
    """As many draws as components, too: their axes are not mistaken for each other."""
    for ours in (
        weighted(),
        Mixture(normals()),
        with_tails(Mixture(normals()), Tail("student", 5)),
    ):
        for n in (2, M):
            draws = ours.sample(n)
            for score in (ours.log_prob, ours.cdf, ours.crps):
                want = torch.stack([score(draw) for draw in draws])
                torch.testing.assert_close(score(draws), want, rtol=1e-12, atol=1e-15)


def test_units_casts_outputs_and_members_keep_the_weights():
    ours, y = weighted(M, N, 2), torch.randn(N, 2)
    moved = ours.in_units(torch.tensor([1.0, -2.0]), torch.tensor([3.0, 0.5]))
    back = (y - torch.tensor([1.0, -2.0])) / torch.tensor([3.0, 0.5])
    torch.testing.assert_close(moved.cdf(y), ours.cdf(back), rtol=1e-12, atol=1e-15)
    one = output(ours, 1)
    torch.testing.assert_close(one.log_prob(y[:, 1]), ours.log_prob(y)[:, 1], rtol=1e-12, atol=0)
    single = cast(ours, torch.float32)
    assert {single.weights.dtype, single.cdf(y).dtype, single.sample(2).dtype} == {torch.float32}
    assert cast(Mixture(normals()), torch.float32).weights is None
    assert [type(m) for m in ours.members] == [Normal] * M
    torch.testing.assert_close(ours.members[2].mean, ours.parts.mean[2], rtol=0, atol=0)
    assert repr(weighted()).startswith("Mixture(shape=(6,), 3 members, mean ")


# Tails


@pytest.mark.parametrize("p", [Mixture(normals()), normals(N)], ids=["mixture", "normal"])
def test_tails_that_change_nothing(p):
    p = cast(p, torch.float64)
    assert with_tails(p, Tail()) is p
    assert with_tails(p, Tail("gaussian", df=5, share=0.5, factor=3.0)) is p
    same(with_tails(p, Tail("lapse", share=0.0, factor=7.0)), p)
    same(with_tails(p, Tail("lapse", share=0.3, factor=1.0)), p)


def test_student_tails_keep_mean_and_scale():
    p = Mixture(normals())
    heavy = with_tails(p, Tail("student", df=4))
    assert isinstance(heavy.parts, Student)
    law, y = stats.t(4, p.parts.mean, p.parts.stddev), 3 * torch.randn(N)
    np.testing.assert_allclose(heavy.log_prob(y).exp(), law.pdf(y).mean(0), rtol=1e-9)
    np.testing.assert_allclose(heavy.mean, p.mean, rtol=1e-12)
    one = with_tails(normals(N), Tail("student", df=4))
    assert isinstance(one, Student)
    kept = with_tails(weighted(), Tail("student", df=4))
    torch.testing.assert_close(kept.weights, torch.tensor(WEIGHTS), rtol=0, atol=0)


@pytest.mark.parametrize("p", [Mixture(normals()), weighted(), normals(N)])
def test_lapses_mix_each_component_with_a_wider_one(p):
    p = cast(p, torch.float64)
    share, factor, y = 0.05, 8.0, 10 * torch.randn(N)
    got = with_tails(p, Tail("lapse", share=share, factor=factor))
    parts = p.parts if isinstance(p, Mixture) else map_tensors(lambda t: t[None], p)
    members = len(parts.mean)
    w = np.array(WEIGHTS if getattr(p, "weights", None) is not None else [1 / members] * members)
    pdf = lambda by: (w[:, None] * stats.norm.pdf(y, parts.mean, by * parts.stddev)).sum(0)
    want = (1 - share) * pdf(1) + share * pdf(factor)
    np.testing.assert_allclose(got.log_prob(y).exp(), want, rtol=1e-7)  # p may be float32 at import
    assert len(got.members) == 2 * members
    assert got.weights.sum().item() == pytest.approx(1, abs=1e-7)
    noise = got.collapsed().noise_var
    assert (noise > p.variance * 0).all()
    assert metrics.nll(got, y) < metrics.nll(p, y)


BAD = [
    (("cauchy",), "`kind` must be one of 'gaussian', 'student', 'lapse', but got 'cauchy'"),
    (("student",), "`df` must be an integer from 3 to 1000, but got 0"),
    (("student", 4.5), "`df` must be an integer from 3 to 1000, but got 4.5"),
    (("lapse", 0, 1.5), "`share` must lie between 0 and 1, but got 1.5"),
    (("lapse", 0, 0.1, 0.0), "`factor` must be positive and finite, but got 0.0"),
]


@pytest.mark.parametrize(("given", "want"), BAD)
def test_tails_that_do_not_exist(given, want):
    with pytest.raises(ValueError, match=want):
        Tail(*given)


def test_only_normals_are_given_tails():
    p = Student(torch.zeros(N), torch.ones(N), 5)
    for given in (p, Mixture(map_tensors(lambda t: t[None], p))):
        with pytest.raises(TypeError, match="`p` must be a normal or a mixture of normals, but"):
            with_tails(given, Tail("student", df=4))
    assert Tail("student", 4) == Tail("student", df=4)


# Limits


@pytest.mark.parametrize("make", [normals, weighted])
def test_a_narrowed_predictive_keeps_what_is_below_the_limit(make):
    p, most = make(M, N), torch.tensor(0.8)
    parts = lambda p: p.parts if isinstance(p, Mixture) else p
    before, after = parts(p), parts(narrowed(p, most))
    wide = before.stddev > most
    assert wide.any()
    assert not wide.all()
    torch.testing.assert_close(after.stddev, before.stddev.clamp(max=0.8), rtol=1e-12, atol=0)
    torch.testing.assert_close(after.mean, before.mean, rtol=0, atol=0)
    shares = [(x.belief_var / x.variance)[wide] for x in (before, after)]
    torch.testing.assert_close(*shares, rtol=1e-12, atol=0)


def test_a_lapse_is_at_most_as_wide_as_its_limit_or_the_row_itself():
    p = weighted()
    limited = with_tails(p, Tail("lapse", share=0.1, factor=1.5), widest=1.0)
    narrow, wide = limited.parts.stddev.split(M)
    torch.testing.assert_close(narrow, p.parts.stddev, rtol=1e-12, atol=0)
    want = torch.maximum(narrow, (1.5 * narrow).clamp(max=1.0))
    torch.testing.assert_close(wide, want, rtol=1e-12, atol=0)
    assert (wide > 1.001).any()
    assert (wide < 0.999).any()
    same(
        with_tails(p, Tail("lapse", share=0.1, factor=1.5), widest=1e9),
        with_tails(p, Tail("lapse", share=0.1, factor=1.5)),
    )
