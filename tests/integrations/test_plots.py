"""Plots show the computed values, on the given axes."""

import sys

import numpy as np
import pytest
import torch
from scipy import stats

from scroll.factors import Poisson
from scroll.integrations import plots
from scroll.predictive import Count, Mixture, Normal, Ordered, metrics


@pytest.fixture(autouse=True)
def plt(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    plt = plots.pyplot()
    plt.switch_backend("Agg")
    yield plt
    plt.close("all")


@pytest.fixture
def ax(plt):
    """The first of two axes: the second is the current one and must stay empty."""
    figure, (first, second) = plt.subplots(1, 2)
    assert plt.gca() is second
    yield first
    figure.canvas.draw()  # a warning in drawing is an error too
    assert not second.has_data()
    assert len(plt.get_fignums()) == 1


def example(n=400):
    mean, std = torch.randn(n), torch.rand(n) + 0.2
    return Normal(mean, std.square(), torch.zeros(n)), mean + 1.3 * std * torch.randn(n)


def counts(n=300, rate=2.0):
    at = torch.full((n,), rate).log()
    return Count(Poisson(), at, torch.full((n,), 1e-12)), torch.poisson(at.exp())


def by_label(ax, word):
    """The one artist whose label holds `word`."""
    handles, labels = ax.get_legend_handles_labels()
    (found,) = (h for h, label in zip(handles, labels, strict=True) if word in label)
    return found


PICTURES = {
    "predictive_band": lambda p, y, **ax: plots.predictive_band(y, p, **ax),
    "calibration_curve": plots.calibration_curve,
    "pit_histogram": plots.pit_histogram,
    "spread_against_residual": plots.spread_against_residual,
    "ood_histogram": lambda p, y, **ax: plots.ood_histogram(y, **ax),
}
OF_ONE_OUTPUT = [name for name in PICTURES if name != "ood_histogram"]


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)
def test_draws_into_the_given_axes_and_returns_them(picture, ax):
    assert picture(*example(), ax=ax) is ax
    assert ax.has_data()


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)
def test_draws_into_the_current_axes_by_default(picture, plt):
    current = plt.figure().gca()
    assert picture(*example()) is current
    assert current.has_data()


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)
def test_arrays_and_lists_draw_what_tensors_draw(picture, plt):
    p, y = example()
    backwards = y.numpy()[::-1].copy()[::-1]  # torch takes no negative strides
    kinds = (y, backwards, y.tolist(), y.clone().requires_grad_())
    drawn = [pixels(picture(p, kind, ax=plt.figure().gca())) for kind in kinds]
    assert (drawn[0] != drawn[0][0, 0]).any()
    assert all((d == drawn[0]).all() for d in drawn[1:])


def pixels(ax):
    ax.figure.canvas.draw()
    return np.asarray(ax.figure.canvas.buffer_rgba())


@pytest.mark.parametrize("name", [n for n in PICTURES if n != "predictive_band"])
def test_axes_are_labelled_and_global_settings_stay(name, ax, plt):
    before = dict(plt.rcParams)
    PICTURES[name](*example(), ax=ax)
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    assert not ax.get_legend().get_frame_on()
    assert not ax.get_title()
    assert dict(plt.rcParams) == before


@pytest.mark.parametrize("name", OF_ONE_OUTPUT)
def test_several_outputs_are_refused(name, ax):
    p = Normal(torch.zeros(5, 2), torch.ones(5, 2), torch.zeros(5, 2))
    with pytest.raises(
        ValueError, match=r"`predictive` must have one .*\(5, 2\)\. Give one output"
    ):
        PICTURES[name](p, torch.zeros(5, 2), ax=ax)


@pytest.mark.parametrize("name", OF_ONE_OUTPUT)
def test_rows_that_do_not_fit_are_refused(name, ax):
    p, y = example()
    with pytest.raises(ValueError, match=r"`[xy]` must have the shape \(400,\) of the predictive"):
        PICTURES[name](p, y[1:], ax=ax)


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)
def test_columns_and_gaps_are_refused(picture, ax):
    p, y = example()
    with pytest.raises(ValueError, match=r"must hold one number per row.*Use \w+\.squeeze\(-1\)"):
        picture(p, y[:, None], ax=ax)
    with pytest.raises(ValueError, match=r"must be finite, but got 1 NaN"):
        picture(p, y.where(y < y.max(), torch.nan), ax=ax)
    assert not ax.has_data()


@pytest.mark.parametrize("name", ["pit_histogram", "spread_against_residual", "ood_histogram"])
def test_no_bins_are_refused(name, ax):
    with pytest.raises(ValueError, match="`bins` must be a positive integer, but got 0"):
        PICTURES[name](*example(), bins=0, ax=ax)


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"scroll-torch\[plots\]"):
        plots.ood_histogram([1.0, 2.0])


def test_the_band_runs_along_sorted_x(ax):
    x = torch.randperm(50).double()
    p = Normal(x.square(), x + 1, torch.zeros(50))
    plots.predictive_band(x.numpy(), p, width=3, ax=ax)
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), np.arange(50))
    np.testing.assert_array_equal(line.get_ydata(), np.arange(50) ** 2)
    corners = ax.collections[0].get_paths()[0].vertices
    for at in (0, 17, 49):
        ends = np.unique(corners[corners[:, 0] == at, 1])
        np.testing.assert_allclose(ends, at**2 + 3 * np.sqrt(at + 1) * np.array([-1, 1]))


@pytest.mark.parametrize("members", [0, 3])
def test_the_calibration_curve_is_the_coverage_of_the_intervals(members, ax):
    p, y = example()
    if members:
        means = p.mean + torch.randn(members, 1)
        p = Mixture(Normal(means, p.noise_var.expand_as(means), torch.zeros_like(means)))
    plots.calibration_curve(p, y, ax=ax)
    error = metrics.calibration_error(p, y).item()
    x, share = by_label(ax, f"calibration error {error:.3f}").get_data()
    np.testing.assert_allclose(x, np.linspace(0, 1, 21))
    assert (share[0], share[-1]) == (0, 1)
    for level, drawn in list(zip(x, share, strict=True))[1:-1]:
        low, high = p.interval(float(level))
        assert drawn == pytest.approx(((y >= low) & (y <= high)).double().mean().item())
        assert drawn == metrics.coverage(p, y, float(level)).item()
    assert np.ptp(share - x) > 0.05  # off the diagonal, so that the two cannot be confused
    np.testing.assert_array_equal(*by_label(ax, "calibrated").get_data())


def test_two_calibration_curves_share_one_diagonal(ax):
    p, y = example()
    plots.calibration_curve(p, y, ax=ax)
    plots.calibration_curve(p, 2 * y, color="C1", ax=ax)
    labels = [t.get_text() for t in ax.get_legend().get_texts()]
    assert labels.count("calibrated") == 1
    assert len(set(labels)) == len(labels) == 3


@pytest.mark.parametrize("bins", [7, 20])
def test_the_pit_histogram_against_scipy(bins, ax):
    p, y = example()
    plots.pit_histogram(p, y, bins=bins, ax=ax)
    share, edges, _ = by_label(ax, "400 rows").get_data()
    u = stats.norm(p.mean, p.stddev).cdf(y)
    np.testing.assert_allclose(share, np.histogram(u, bins, (0, 1))[0] * bins / 400)
    assert np.sum(share * np.diff(edges)) == pytest.approx(1)
    band = by_label(ax, "90 %").get_paths()[0].vertices[:, 1]
    inside = [
        stats.binom(400, 1 / bins).cdf(round(c * 400 / bins)) for c in (band.min(), band.max())
    ]
    assert 0.05 <= inside[0] < 0.15
    assert 0.95 <= inside[1] < 0.99
    assert band.min() < 1 < band.max()
    (uniform,) = ax.lines
    assert list(uniform.get_ydata()) == [1, 1]


def test_the_band_of_the_pit_histogram_holds_nine_bars_in_ten(ax):
    n = 4000
    p = Normal(torch.zeros(n), torch.ones(n), torch.zeros(n))
    out = []
    for _ in range(20):
        ax.clear()
        plots.pit_histogram(p, torch.randn(n), ax=ax)
        share = by_label(ax, "rows").get_data()[0]
        band = by_label(ax, "90 %").get_paths()[0].vertices[:, 1]
        out.append(np.mean((share < band.min()) | (share > band.max())))
    assert 0.05 < np.mean(out) < 0.14  # 400 bars, 1.5 % of standard error


def test_counts_and_levels_take_the_middle_of_their_step(ax):
    p, y = counts()
    plots.pit_histogram(p, y, ax=ax)
    theirs = stats.poisson(2.0)
    middle = theirs.cdf(y) - theirs.pmf(y) / 2
    heights = by_label(ax, "rows").get_data()[0]
    np.testing.assert_allclose(heights, np.histogram(middle, 20, (0, 1))[0] / 15)
    ax.clear()
    levels = Ordered(torch.tensor([0.2, 0.5, 0.3]).log().expand(4, 3))
    plots.pit_histogram(levels, [0, 1, 1, 2], bins=10, ax=ax)  # 0.1, 0.45 twice, 0.85
    drawn = by_label(ax, "rows").get_data()[0]
    np.testing.assert_allclose(drawn, [0, 2.5, 0, 0, 5, 0, 0, 0, 2.5, 0])


def test_a_probability_that_rounds_beyond_one_stays_in_the_histogram(ax):
    class Rounded(Normal):
        def cdf(self, y):
            return super().cdf(y) + 1e-15

    p = Rounded(torch.zeros(2), torch.ones(2), torch.zeros(2))
    plots.pit_histogram(p, [-1.0, 50.0], bins=2, ax=ax)
    np.testing.assert_allclose(by_label(ax, "rows").get_data()[0], [1, 1])


def test_the_binned_residuals(ax):
    p, y = example()
    plots.spread_against_residual(p, y, bins=8, ax=ax)
    std, residual = p.stddev.numpy(), (y - p.mean).abs().numpy()
    x, r = by_label(ax, "root mean square").get_data()
    order = np.argsort(std)
    for k, rows in enumerate(np.split(order, 8)):  # 400 distinct deviations, 50 a bin
        assert x[k] == pytest.approx(np.sqrt(np.mean(std[rows] ** 2)))
        assert r[k] == pytest.approx(np.sqrt(np.mean(residual[rows] ** 2)))
    dots = by_label(ax, "rows").get_data()
    np.testing.assert_allclose(dots, (std, residual))
    np.testing.assert_array_equal(*by_label(ax, "calibrated").get_data())
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_a_calibrated_model_has_its_bins_on_the_diagonal(ax):
    n = 100_000
    std = torch.rand(n) + 0.1
    p = Normal(torch.zeros(n), std.square(), torch.zeros(n))
    plots.spread_against_residual(p, std * torch.randn(n), ax=ax)
    x, r = by_label(ax, "root mean square").get_data()
    assert len(x) == 10
    np.testing.assert_allclose(r, x, rtol=0.03)  # standard error 1/sqrt(2 10^4) = 0.7 %


def test_one_constant_deviation_is_one_bin(ax):
    y = torch.randn(50)
    p = Normal(torch.zeros(50), torch.full((50,), 0.3), torch.zeros(50))
    plots.spread_against_residual(p, y, ax=ax)
    x, r = by_label(ax, "root mean square").get_data()
    np.testing.assert_allclose((*x, *r), (np.sqrt(0.3), y.square().mean().sqrt()))
    left, right = by_label(ax, "calibrated").get_xdata()
    assert left < 0.9 * np.sqrt(0.3) < 1.1 * np.sqrt(0.3) < right


def test_zeros_are_counted_in_words_and_in_the_bins(ax):
    std, y = torch.tensor([0.0, 1.0, 1.0, 2.0]), torch.tensor([1.0, 0.0, 1.0, 3.0])
    p = Normal(torch.zeros(4), std.square(), torch.zeros(4))
    plots.spread_against_residual(p, y, bins=1, ax=ax)
    np.testing.assert_array_equal(
        by_label(ax, "rows, 2 at zero not shown").get_data(), ([1, 2], [1, 3])
    )
    drawn = np.ravel(by_label(ax, "root mean square").get_data())
    np.testing.assert_allclose(drawn, np.sqrt([6 / 4, 11 / 4]))


def test_nothing_but_zeros_keeps_plain_axes(ax):
    p = Normal(torch.zeros(4), torch.zeros(4), torch.zeros(4))
    plots.spread_against_residual(p, torch.zeros(4), ax=ax)
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "linear")


def test_ood_scores_on_a_logarithmic_axis(ax):
    usual, strange = torch.randn(300).exp(), 5 * torch.randn(40).exp()
    plots.ood_histogram(usual, strange, bins=15, ax=ax)
    assert ax.get_xscale() == "log"
    cut = np.quantile(usual.numpy(), 0.95)
    assert by_label(ax, "95 % of usual rows").get_xdata() == pytest.approx([cut, cut])
    above = f"strange rows, {100 * (strange > cut).double().mean():.0f} % above"
    bars = {"usual rows, 5 % above": usual.numpy(), above: strange.numpy()}
    for label, scores in bars.items():
        share, edges, _ = by_label(ax, label).get_data()
        assert share.sum() == pytest.approx(1)
        assert len(share) == 15
        np.testing.assert_allclose(edges[1:] / edges[:-1], edges[1] / edges[0])
        below = [np.mean(scores <= e) for e in edges[1:-1]]
        np.testing.assert_allclose(np.cumsum(share)[:-1], below, atol=1e-12)


def test_scores_or_thresholds_below_zero_keep_a_plain_axis(ax):
    plots.ood_histogram([-1.0, 0.5, 2.0, 3.0], bins=4, ax=ax)
    assert ax.get_xscale() == "linear"
    share, edges, _ = by_label(ax, "usual rows, ").get_data()
    np.testing.assert_allclose(edges, [-1, 0, 1, 2, 3])
    np.testing.assert_allclose(share, [0.25, 0.25, 0, 0.5])
    ax.clear()
    plots.ood_histogram([1.0, 2.0], threshold=-1.0, ax=ax)
    assert ax.get_xscale() == "linear"


def test_a_threshold_of_the_users(ax):
    plots.ood_histogram([1.0, 2.0, 3.0, 4.0], threshold=3.0, ax=ax)
    assert by_label(ax, "threshold 3").get_xdata() == [3.0, 3.0]
    assert by_label(ax, "usual rows, 25 % above")


def test_one_score_for_all_rows_still_draws(ax):
    plots.ood_histogram([2.0, 2.0, 2.0], ax=ax)
    assert by_label(ax, "usual rows, ").get_data()[0].sum() == pytest.approx(1)
