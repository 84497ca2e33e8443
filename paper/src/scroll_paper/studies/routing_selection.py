"""App. routing_selection: is the gap between the routes one of routing or of selection?

y = beta'x + s(x) e, s(x) = 0.3 + h |x_1|, x ~ N(0, I_8), e ~ N(0, 1)    (Eq. rsel_model)

The features are the inputs. The closed route's alpha and noise are chosen by the evidence or by the
leave-one-out score, both exactly. All risks are expectations over y given the test inputs.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from scroll import RegressionHead, refit
from scroll.posterior.posterior import bind

from ..data.sources import Say
from ..tables.table import Cell, Label, Table, cell
from .drawing import BOUND, FREE, GREY, picture
from .study import against_paper

FEATURES = 8
LEVELS = tuple(0.5 * i for i in range(7))  # h
RATIOS = (1.5, 2, 3, 5, 10, 20, 50)  # N/H
RICH, RICHEST, TEST_ROWS = 50, 1000, 4000
REPETITIONS = (80, 200)  # of both panels, ten times the paper's
LOOKS: dict[str, dict[str, Any]] = {
    "routing gap": {"color": FREE, "marker": "o", "ls": "-"},
    "selection gap": {"color": BOUND, "marker": "s", "ls": "--"},
}
GAPS = tuple(LOOKS)  # as in `Gaps`

Noise = Callable[[Tensor], Tensor]


class Gaps(NamedTuple):
    """Gaps in test NLL of each repetition, (R,).

    Attributes:
        routing: closed minus best variance, at the closed mean (Eq. rout_gap).
        selection: evidence minus leave-one-out, on the closed route (Eq. sel_gap).
    """

    routing: Tensor
    selection: Tensor


def routing_vs_selection(output: Path, quick: bool, say: Say) -> list[Table]:
    """Measure both gaps against heteroscedasticity and against N/H; draw both."""
    many, more = (4, 10) if quick else REPETITIONS
    say("routing and selection: seven levels of heteroscedasticity")
    levels = {h: gaps(h, RICH, many, seed) for seed, h in enumerate(LEVELS)}
    say("routing and selection: rows per feature")
    rich = {h: gaps(h, RICHEST, min(many, 8), seed) for seed, h in enumerate(LEVELS)}
    ratios = {k: gaps(1.0, k, more, 100 + i) for i, k in enumerate(RATIOS)}
    draw(levels, ratios, output / "routing-vs-selection")
    jensen = {h: jensen_gap(h) for h in LEVELS}
    first: dict[Label, dict[str, Cell]] = {
        f"h = {h:g}": {"Jensen gap": Cell(jensen[h], digits=5), **_row(levels[h])} for h in LEVELS
    }
    second: dict[Label, dict[str, Cell]] = {f"N/H = {k:g}": _row(ratios[k]) for k in RATIOS}
    name = "routing_vs_selection"
    columns = [*GAPS, "RMS selection gap"]
    return [
        Table(
            f"{name}_noise",
            f"Gaps in test NLL at N/H = {RICH} against heteroscedasticity, {many} repetitions",
            ["Jensen gap", *columns],
            [first],
            show_se=True,
        ),
        Table(
            f"{name}_rows",
            f"Gaps in test NLL at h = 1 against rows per feature, {more} repetitions",
            columns,
            [second],
            show_se=True,
        ),
        against_paper(
            f"{name}_claims",
            f"Routing and selection, {many} and {more} repetitions",
            "routing-vs-selection",
            claims(levels, rich, ratios),
        ),
    ]


def claims(
    levels: dict[float, Gaps], rich: dict[float, Gaps], ratios: dict[float, Gaps]
) -> dict[str, Cell]:
    """Return the numbers of the text.

    Args:
        levels: gaps by h at N/H = 50.
        rich: the same at N/H = 1000.
        ratios: gaps by N/H at h = 1.
    """
    slope, correlation = line(levels)
    rms = {k: float(g.selection.square().mean().sqrt()) for k, g in ratios.items()}
    most = max(abs(float(g.selection.mean())) for g in levels.values())
    few, many = min(rms), max(rms)
    return {
        "slope of the routing gap against the Jensen gap": Cell(slope),
        "correlation": Cell(correlation, digits=4),
        f"slope at N/H = {RICHEST}": Cell(line(rich)[0]),
        f"largest |mean selection gap| at N/H = {RICH}": Cell(most, digits=5),
        f"RMS selection gap at N/H = {many:g}": _rms(ratios[many].selection),
        f"RMS selection gap at N/H = {few:g}": _rms(ratios[few].selection, digits=3),
        "ratio of the two": Cell(rms[few] / rms[many], digits=0),
    }


def noise_std(x: Tensor, h: float) -> Tensor:
    """s(x) = 0.3 + h |x_1|, (..., N)."""
    return 0.3 + h * x[..., 0].abs()


def jensen_gap(h: float) -> float:
    """J = (log E s^2 - E log s^2)/2 over x_1 ~ N(0, 1), by quadrature (Prop. routing_selection)."""
    node, weight = (torch.as_tensor(a) for a in np.polynomial.legendre.leggauss(200))
    x = 20 * (node + 1)  # |x_1|, beyond 40 there is nothing
    density = 20 * weight * (2 / torch.pi) ** 0.5 * (-(x**2) / 2).exp()
    s2 = noise_std(x[:, None], h).square()
    return 0.5 * float((density @ s2).log() - density @ s2.log())


def gaps(h: float, ratio: float, repetitions: int, seed: int, features: int = FEATURES) -> Gaps:
    """Draw data and fit the closed route by both criteria.

    Args:
        h: level of heteroscedasticity.
        ratio: training rows per feature, N/H.
        repetitions: data sets R, each with its own beta.
        seed: of the data.
        features: H.
    """
    g = torch.Generator().manual_seed(seed)
    beta = _normal(g, repetitions, features, 1)
    x = _normal(g, repetitions, round(ratio * features), features)
    y = _linear(x, beta) + noise_std(x, h) * _normal(g, *x.shape[:-1])
    test = _normal(g, repetitions, TEST_ROWS, features)
    head = RegressionHead(features, bias=False, replicates=(repetitions,)).double()
    by_evidence = refit(head, x, y)
    alpha, noise = best_left_out(x, y)
    by_left_out = bind(head, by_evidence.statistics, (alpha[:, None], noise[:, None]))
    with torch.no_grad():
        p, q = by_evidence(test), by_left_out(test)
        mean, var = _linear(test, beta), noise_std(test, h).square()
        risk = partial(expected_nll, mean, var)
        best = var + (mean - p.mean).square()  # V* = E[(y - f)^2 | x]
        closed = risk(p.mean, p.variance)
        return Gaps(closed - risk(p.mean, best), closed - risk(q.mean, q.variance))


def expected_nll(mean: Tensor, var: Tensor, guess: Tensor, spread: Tensor) -> Tensor:
    """E[-log N(y; guess, spread)] over y of this mean and variance, averaged over rows, (...)."""
    square = var + (mean - guess).square()
    return 0.5 * ((2 * torch.pi * spread).log() + square / spread).mean(-1)


def best_left_out(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return alpha and noise s, (R,), of the best leave-one-out score on the features x (R, N, H).

    With the ridge rho = alpha s^2 fixed, leverages h_n and residuals r_n do not depend on s. The
    score -sum_n log N(r_n/(1-h_n); 0, s^2/(1-h_n)) then has its best s^2 = mean r_n^2/(1-h_n).
    What remains depends on rho alone: a grid of log rho is narrowed around its best point.
    """
    values, vectors = torch.linalg.eigh(x.mT @ x)
    along = x @ vectors
    shift = (along * y[..., None]).sum(-2)

    def left_out(rho: Tensor) -> tuple[Tensor, Tensor]:
        shrunk = 1 / (values + rho[:, None])
        leverage = (along.square() * shrunk[:, None]).sum(-1)
        residual = y - (along * (shift * shrunk)[:, None]).sum(-1)
        s2 = (residual.square() / (1 - leverage)).mean(-1)
        return 0.5 * (y.shape[-1] * s2.log() - (-leverage).log1p().sum(-1)), s2

    centre, reach = values.amax(-1).log(), 35.0
    for _ in range(8):
        grid = centre[:, None] + reach * torch.linspace(-1, 1, 101, dtype=x.dtype)
        scores = torch.stack([left_out(each.exp())[0] for each in grid.unbind(-1)], -1)
        centre, reach = grid.gather(-1, scores.argmin(-1, keepdim=True))[:, 0], 0.04 * reach
    s2 = left_out(centre.exp())[1]
    return centre.exp() / s2, s2.sqrt()


def line(levels: dict[float, Gaps]) -> tuple[float, float]:
    """Return slope (with an intercept) and correlation of mean routing gaps and Jensen gaps."""
    x = [jensen_gap(h) for h in levels]
    y = [float(g.routing.mean()) for g in levels.values()]
    return float(np.polyfit(x, y, 1)[0]), float(np.corrcoef(x, y)[0, 1])


def draw(levels: dict[float, Gaps], ratios: dict[float, Gaps], path: Path) -> None:
    """Draw both gaps against the Jensen gap, and against rows per feature."""
    x = np.array([jensen_gap(h) for h in levels])
    slope, correlation = line(levels)
    with picture(path, 1, 2, (10, 4.2)) as axes:
        left, right = axes[0]
        left.plot(x, x, color=GREY, lw=1.2, label="gap = J")
        for name, look in LOOKS.items():
            means = [cell(dict(enumerate(_gap(g, name).tolist()))) for g in levels.values()]
            label = f"{name}, slope {slope:.2f}" if name == GAPS[0] else name
            left.plot(x, [c.mean for c in means], label=label, **look)
            sizes = [_rms(_gap(g, name)) for g in ratios.values()]
            bars = [2 * (c.se or 0) for c in sizes]
            right.errorbar(list(ratios), [c.mean for c in sizes], bars, label=name, **look)
        left.set(
            title=f"(a) With many rows the gap\nis routing (r = {correlation:.4f})",
            xlabel="Jensen gap J of the noise (nats)",
            ylabel="mean gap in test NLL (nats)",
        )
        right.set(
            title="(b) Selection matters only\nwith few rows per feature",
            xlabel="rows per feature, N/H",
            ylabel="root mean square gap (nats)",
            xscale="log",
            yscale="log",
            xticks=list(ratios),
            xticklabels=[f"{k:g}" for k in ratios],
        )
        right.minorticks_off()
        left.legend(loc="upper left")
        right.legend(loc="lower left")


def _gap(g: Gaps, name: str) -> Tensor:
    return g[GAPS.index(name)]


def _row(g: Gaps) -> dict[str, Cell]:
    """Return means with standard errors, and the root mean square selection gap."""
    means = (cell(dict(enumerate(t.tolist())), digits=5) for t in g)
    return {
        **dict(zip(GAPS, means, strict=True)),
        "RMS selection gap": _rms(g.selection),
    }


def _rms(t: Tensor, digits: int = 5) -> Cell:
    """Return the root mean square, with the standard error that follows from that of t^2."""
    mean = float(t.square().mean().sqrt())
    se = float(t.square().std()) / len(t) ** 0.5 / (2 * mean)
    return Cell(mean, se, len(t), digits=digits)


def _normal(g: Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def _linear(x: Tensor, beta: Tensor) -> Tensor:
    return (x @ beta)[..., 0]
