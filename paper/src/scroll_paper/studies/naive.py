"""The naive corner (leave-one-out, free): why `METHODS` refuses it.

A posterior gives row n back through the downdate: residual r_n/(1 - h_n), variance s^2/(1 - h_n),
h_n = v_n/s^2 < 1. Nothing keeps v_n of a free belief below s^2. For h_n > 1 the "variance" is
negative, and

    r_n^2/(s^2 (1 - h_n)) + log |s^2/(1 - h_n)|    (both moments downdated)
    r_n^2 (1 - h_n)/s^2   + log |s^2/(1 - h_n)|    (the variance alone)

have no lower bound: the first falls without end as h_n comes down to 1, the second as h_n grows.
Below 1 both rise without end as h_n goes up to 1.
"""

from math import log, pi
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from scroll._core.local_rng import Draws
from scroll.beliefs import Belief, Problem
from scroll.factors import Moments
from scroll.heads import RegressionHead
from scroll.objectives import Cavity, Objective, Route, Score
from scroll.objectives.routes import free
from scroll.objectives.terms import none
from scroll.posterior.hybrid import Adam
from scroll.predictive.metrics import nll

from ..data.sources import Say
from ..tables.table import Block, Label, Table, table
from .drawing import BOUND, FREE, THIRD, picture

SEEDS = range(5)
ROWS, TEST_ROWS, FEATURES = 200, 5000, 10
RATE, SCROLL_STEPS = 0.01, 3000
SHOWN = (0, 10, 100, 1000)  # steps whose loss is in the table
SMALL = 0.01  # standard deviations of S at the start, far below the noise
DOWNDATED = "a belief whose every variance is rescaled as if it were a posterior's"
LOOKS = ((THIRD, "--"), (BOUND, "-."))  # of both moments, and of the variance alone
MARKS = {"small S": "", "SCROLL's belief": "o"}
COLUMNS = (*(f"loss, step {step}" for step in SHOWN), "rows with v > s²", "test NLL")


class Rows(NamedTuple):
    """Features (R, N, H) and targets (R, N)."""

    psi: Tensor
    y: Tensor


def naive_corner(output: Path, quick: bool, say: Say) -> list[Table]:
    """Train the naive corner from two starts; draw `naive-corner.png`, and return its losses."""
    seeds = SEEDS[:1] if quick else SEEDS
    train, test = (drawn(seeds, part) for part in (0, 1))
    say("SCROLL on fixed features")
    first = head_of("scroll", len(seeds))
    paths = {("SCROLL", "small S"): trained(first, train, 300 if quick else SCROLL_STEPS)}
    heads = {("SCROLL", "small S"): first}
    for what, objective in OBJECTIVES.items():
        for start in ("small S", "SCROLL's belief"):
            say(f"naive corner, {what}, from {start}")
            head = head_of(objective, len(seeds))
            if start != "small S":
                head.load_state_dict(first.state_dict())
            heads[what, start] = head
            paths[what, start] = trained(head, train, SHOWN[-1])
    draw({k: path.mean(-1) for k, path in paths.items()}, output / "naive-corner")
    rows: dict[Label, dict[str, dict[int, float]]] = {}
    rows |= {k: _row(heads[k], path, train, test, seeds) for k, path in paths.items()}
    title = "The naive corner (leave-one-out, free) on fixed features: loss per row in training"
    return [table("naive_corner", title, COLUMNS, [Block(rows, None)])]


def drawn(seeds: range, part: int) -> Rows:
    """Return training (part 0) or test rows (1): y = w.psi + (0.2 + psi_1^2) e, all Gaussian."""
    found = []
    for seed in seeds:
        draw = torch.Generator().manual_seed(3 * seed)
        w = torch.randn(FEATURES, generator=draw, dtype=torch.float64)
        draw.manual_seed(3 * seed + 1 + part)
        n = TEST_ROWS if part else ROWS
        psi, e = (
            torch.randn(*shape, generator=draw, dtype=torch.float64)
            for shape in ((n, FEATURES), (n,))
        )
        found.append(Rows(psi, psi @ w + (0.2 + psi[:, 0].square()) * e))
    return Rows(*(torch.stack(t) for t in zip(*found, strict=True)))


def downdated_mean(belief: Belief, p: Problem) -> Moments:
    """Return (m - h y)/(1 - h) and v/(1 - h), h = v/s^2 of a belief that is no posterior."""
    at, s2 = belief.project(p.psi), p.noise_var("naive")
    h = at.var / s2
    return Moments((at.mean - h * p.y) / (1 - h), at.var / (1 - h))


def downdated_variance(belief: Belief, p: Problem) -> Moments:
    """Return m and v/(1 - h), as the paper rescales the variance alone."""
    at, s2 = belief.project(p.psi), p.noise_var("naive")
    return Moments(at.mean, at.var / (1 - at.var / s2))


def formal(p: Problem, at: Moments) -> Tensor:
    """Return -[r^2/V + log |V| + log 2 pi]/2, V = s^2 + v: log N(r; 0, V) where V > 0."""
    var = p.noise_var("naive") + at.var
    return -0.5 * ((p.y - at.mean).square() / var + var.abs().log() + log(2 * pi))


def _objective(cavity: Cavity) -> Objective:
    route = Route(free.compute, gives={DOWNDATED}, needs_belief=True, name="free")
    return Objective(route, cavity, Score(formal, needs_gaussian=True), none)


OBJECTIVES = {
    "naive, both moments": _objective(
        Cavity(downdated_mean, DOWNDATED, contains_prior=True, needs_gaussian=True)
    ),
    "naive, variance alone": _objective(
        Cavity(downdated_variance, DOWNDATED, contains_prior=True, needs_gaussian=True)
    ),
}


def head_of(method: str | Objective, replicates: int) -> RegressionHead:
    """Return a head in float64 with a small S."""
    with Draws(0):
        head = RegressionHead(
            FEATURES, covariance="full", method=method, bias=False, init_std=SMALL, floor=0.0,
            replicates=(replicates,),
        )  # fmt: skip
    return head.double()


def trained(head: RegressionHead, rows: Rows, steps: int) -> Tensor:
    """Train a head by Adam; return the loss per row before each step and at the end, (steps, R)."""
    variables = [x for x in head.parameters() if x.requires_grad]
    if not head.objective.prior.counts_prior:  # alpha is part of no term
        variables = [x for name, x in head.named_parameters() if name != "log_alpha"]
    adam, losses = Adam(variables, RATE), []
    for _ in range(steps):
        loss = head.loss(*rows, total=rows.y.shape[-1])
        losses.append(loss.detach())
        adam.step(loss.sum())
    losses.append(head.loss(*rows, total=rows.y.shape[-1]).detach())
    return torch.stack(losses)


@torch.no_grad()
def _row(
    head: RegressionHead, path: Tensor, train: Rows, test: Rows, seeds: range
) -> dict[str, dict[int, float]]:
    found, at = head(test.psi), head(train.psi)
    over = (at.belief_var > at.noise_var).double().mean(-1) + 0 * at.belief_var.sum(-1)
    values = [*(path[step] for step in SHOWN if step < len(path)), over, nll(found, test.y)]
    columns = [c for c, step in zip(COLUMNS, SHOWN, strict=False) if step < len(path)]
    return {
        column: dict(zip(seeds, value.tolist(), strict=True))
        for column, value in zip([*columns, *COLUMNS[-2:]], values, strict=True)
    }


def draw(paths: dict[tuple[str, str], Tensor], path: Path) -> None:
    """Draw the mean loss of each run along its steps."""
    looks = {"SCROLL": (FREE, "-"), **dict(zip(OBJECTIVES, LOOKS, strict=True))}
    with picture(path, 1, 1, (7.6, 5.0)) as axes:
        ax = axes[0, 0]
        for (what, start), loss in paths.items():
            color, dashes = looks[what]
            look = {"color": color, "ls": dashes, "marker": MARKS[start], "markevery": 0.2}
            ax.plot(loss, label=f"{what}, from {start}", **look)
        ax.set(xlabel="step", ylabel="loss per row", xscale="symlog", ylim=(-1e12, 1e4))
        ax.set_yscale("symlog", linthresh=10)
        ax.legend(loc="lower left")
        ax.set_title(
            "A free belief has no leave-one-out by downdating:\nits loss has no lower bound"
        )
