"""Prop. overdispersion, simulated: the belief widens where counts vary by more than their mean.

y ~ Poisson(exp(f(x) + e)), e ~ N(0, v(x)), with v zero, positive on one half, or everywhere. The
head can express the truth: what it learns as psi' S psi is v.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from scroll.factors import Poisson
from scroll.heads import CountHead
from scroll.predictive import Count
from scroll.training.batches import Rows
from scroll.training.loop import train
from scroll.training.network import Network, stack
from scroll.training.settings import Settings

from ...data.sources import Say
from ...tables.table import Cell, Label, Table, cell
from ..drawing import BOUND, FREE, GREY, TRUTH, picture

SEEDS = range(5)
INPUTS = torch.linspace(0.05, 2, 7)
INPUTS = torch.cat([-INPUTS.flip(0), INPUTS])
DRAWS = 4000  # counts per input
SETTINGS = Settings(steps=400, lr=0.1, every=20, patience=5, schedule="one-cycle")
TRUTHS: dict[str, Callable[[Tensor], Tensor]] = {
    "no overdispersion": lambda x: torch.zeros_like(x),
    "on one half": lambda x: 0.5 * (x > 0),
    "everywhere": lambda x: torch.full_like(x, 0.25),
}
TITLES = {
    "no overdispersion": "Poisson counts:\nthe belief stays a point",
    "on one half": "Overdispersed for x > 0:\nthe belief widens there",
    "everywhere": "Overdispersed everywhere:\nthe belief widens everywhere",
}
MODELS: dict[str, Callable[..., CountHead]] = {
    "point": partial(CountHead, covariance="none"),
    "negative binomial": partial(
        CountHead, covariance="none", likelihood="negbinomial", concentration=20.0
    ),
    "belief": partial(CountHead, covariance="full", floor=1e-6),
}
REGIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "all x": lambda x: x.isfinite(),
    "x < 0": lambda x: x < 0,
    "x > 0": lambda x: x > 0,
}
LINES = (
    ("no overdispersion", "all x"),
    ("on one half", "x < 0"),
    ("on one half", "x > 0"),
    ("everywhere", "all x"),
)

Predict = Callable[[Tensor], Count]  # of inputs (T * R, N, 1), truth by truth


def log_rate(x: Tensor) -> Tensor:
    """Return the true f(x)."""
    return 1 + 0.5 * torch.sin(1.5 * x)


class Halves(nn.Module):
    """A fixed body: one parabola on each side of zero, (..., N, 1) -> (..., N, 6)."""

    features = 6

    def forward(self, x: Tensor) -> Tensor:
        u = x.abs() - 1
        parabola = torch.cat([torch.ones_like(u), u, (3 * u**2 - 1) / 2], -1)
        return torch.cat([parabola * (x < 0), parabola * (x >= 0)], -1)


def drawn(part: int, seed: int, truth: str, draws: int) -> Tensor:
    """Draw counts at every input, (inputs, draws).

    Args:
        part: 0 to train on, 1 to validate, 2 to test.
        seed: of the data.
        truth: of `TRUTHS`.
        draws: counts per input.
    """
    g = torch.Generator().manual_seed(3 * seed + part)
    e = torch.randn(len(INPUTS), draws, generator=g)
    f = log_rate(INPUTS)[:, None] + TRUTHS[truth](INPUTS).sqrt()[:, None] * e
    return torch.poisson(f.exp(), generator=g)


def tallied(sets: Sequence[Tensor]) -> Rows:
    """Return the distinct inputs and counts of each set, weighted by their frequency (mean one)."""
    found = []
    for y in sets:
        where = torch.arange(len(y))[:, None].expand_as(y)
        pairs = torch.stack([where.to(y), y], -1).flatten(0, 1)
        found.append(torch.unique(pairs, dim=0, return_counts=True))
    most = max(len(times) for _, times in found)
    x, y, weight = (torch.zeros(len(sets), most) for _ in range(3))
    for r, (pairs, times) in enumerate(found):
        n = len(times)  # the rest has weight zero
        x[r, :n], y[r, :n] = INPUTS[pairs[:, 0].long()], pairs[:, 1]
        weight[r, :n] = times * most / times.sum()
    return Rows(x[..., None], y, weight)


def learned(seeds: Sequence[int], draws: int, quick: bool, say: Say) -> dict[str, Predict]:
    """Train each model, one network per truth and seed."""
    recipe = replace(SETTINGS, steps=100) if quick else SETTINGS
    sets, more = (
        [drawn(part, seed, truth, draws) for truth in TRUTHS for seed in seeds] for part in (0, 1)
    )
    rows, held = tallied(sets), tallied(more)
    share = rows.y.shape[1] / sets[0].numel()  # of the prior, as rows are tallied
    start = float(torch.stack(sets).mean().log())
    found: dict[str, Predict] = {}
    for name, head in MODELS.items():
        say(f"simulated counts: {name}")

        def make(lead: tuple[int, ...], head: Callable[..., CountHead] = head) -> Network:
            made = head(Halves.features, prior_weight=share, replicates=lead)
            nn.init.constant_(made.get_parameter("bias"), start)
            return Network(Halves(), made)

        new = stack(make, [seed for _ in TRUTHS for seed in seeds])
        found[name] = train(new, rows, held, recipe).network
    return found


def simulated(output: Path, quick: bool, say: Say) -> Table:
    """Return the table of true and learned overdispersion and of scores on new counts."""
    seeds, draws = (SEEDS[:1], 1500) if quick else (SEEDS, DRAWS)
    found: dict[str, Predict] = {**learned(seeds, draws, quick, say), "truth": true_count}
    test = tallied([drawn(2, seed, truth, draws) for truth in TRUTHS for seed in seeds])
    with torch.no_grad():
        each = {region: summary(found, test, region) for region in REGIONS}
        draw(found["belief"], found["point"], len(seeds), output / "counts")
    rows: dict[Label, dict[str, Cell]] = {}
    for truth, region in LINES:
        part = list(TRUTHS).index(truth)
        of = {k: v.chunk(len(TRUTHS))[part].tolist() for k, v in each[region].items()}
        rows[truth, region] = {k: cell(dict(enumerate(v))) for k, v in of.items()}
    size = f"{len(seeds)} x {len(INPUTS) * draws} rows"
    title = f"Simulated counts, {size}; κ = variance - mean"
    return Table("counts_simulated", title, list(each["all x"]), [rows], show_se=True)


def true_count(x: Tensor) -> Count:
    """Return the distribution that the counts were drawn from."""
    x = x[..., 0]
    parts = zip(TRUTHS.values(), x.chunk(len(TRUTHS)), strict=True)
    return Count(Poisson(), log_rate(x), torch.cat([var(part) for var, part in parts]))


def summary(found: dict[str, Predict], test: Rows, region: str) -> dict[str, Tensor]:
    """Return means over a region: v and kappa over its inputs, -log p over its counts, (T * R,)."""
    x = INPUTS[:, None].expand(len(test.y), -1, 1)
    inside = REGIONS[region](INPUTS)
    true, belief = found["truth"](x), found["belief"](x)
    out = {}
    for name, p in (("true", true), ("learned", belief)):
        out[f"{name} v"] = p.latent_var[:, inside].mean(-1)
        out[f"{name} κ"] = (p.variance - p.mean)[:, inside].mean(-1)
    assert test.weight is not None
    weight = test.weight * REGIONS[region](test.x[..., 0])
    for name, predict in found.items():
        log_p = predict(test.x).log_prob(test.y)
        out[f"NLL, {name}"] = -(weight * log_p).sum(-1) / weight.sum(-1)
    return out


def draw(belief: Predict, point: Predict, seeds: int, path: Path) -> None:
    """Draw counts with 90 % intervals of the first seed, and below true and learned v of all."""
    x = torch.linspace(-2, 2, 400)
    at = x[:, None].expand(len(TRUTHS) * seeds, -1, 1)
    spread = belief(at).latent_var.view(len(TRUTHS), seeds, -1)
    firsts = [_some(p(at), slice(None, None, seeds)) for p in (belief, point)]
    wide, narrow = (p.interval(0.9) for p in firsts)
    with picture(path, 2, len(TRUTHS), (12, 6.2), sharex=True, sharey="row") as axes:
        for t, (truth, var) in enumerate(TRUTHS.items()):
            data, below = axes[:, t]
            y = drawn(0, 0, truth, 40)
            near = INPUTS[:, None] + torch.linspace(-0.07, 0.07, 40)
            data.plot(near.flatten(), y.flatten(), ".", color=GREY, ms=2.5, label="counts")
            data.fill_between(
                x, wide[0][t], wide[1][t], color=FREE, alpha=0.25, lw=0, label="belief, 90 %"
            )
            for end, label in zip(narrow, ("point, 90 %", None), strict=True):
                data.plot(x, end[t], color=BOUND, lw=1.5, label=label)
            data.set(title=f"({'abc'[t]}) {TITLES[truth]}", ylim=(-1, 30))
            for r in range(seeds):
                label = "learned, each seed" if r == 0 else None
                below.plot(x, spread[t, r], color=FREE, lw=1, alpha=0.7, label=label)
            below.plot(x, var(x), color=TRUTH, ls="--", lw=1.5, label="true")
            below.set(xlabel="x", xlim=(-2, 2))
        axes[0, 0].set_ylabel("y")
        axes[1, 0].set_ylabel("v")
        for ax in axes[:, 0]:
            ax.legend(loc="upper left", fontsize=10)


def _some(p: Count, which: slice) -> Count:
    return Count(p.factor, p.latent_mean[which], p.latent_var[which])
