"""Two moons: where MAP, Laplace and SCROLL are confident, near the data and far from them.

All share body, rows and training. Far from the rows the score does not keep the variance up, and
log Z_w pulls it down. For comparison there are two variants of SCROLL: its score with the KL in
place of log Z_w, which keeps unseen directions at the prior, and its features with a posterior.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from scroll._core.linalg import inverse_root
from scroll.beliefs import Belief
from scroll.beliefs.covariances import Full
from scroll.factors.binary import Probit
from scroll.heads import ClassificationHead, Head
from scroll.posterior.posterior import refit
from scroll.predictive import Labels
from scroll.predictive.metrics import ece
from scroll.training.batches import Rows
from scroll.training.bodies import MLP, Matern, Tabular
from scroll.training.loop import train
from scroll.training.network import Network, stack, take
from scroll.training.settings import Settings

from ..data.sources import Say
from ..models.baselines import bayesian_head
from ..tables.table import Block, Table, table
from .drawing import BOUND, FREE, picture

SEEDS = range(5)
ROWS, TEST_ROWS, NOISE = 200, 5000, 0.2
PENALTIES = (1e-3, 1e-2, 0.1, 1.0, 10.0)
SETTINGS = Settings(steps=3000, lr=0.01, every=10, patience=50)
CENTRE, REACH, RING = (0.5, 0.25), 4.0, 3.5  # hardly any row is 2 away from the centre
POINT = ("none", "no-prior")  # the score with the penalty alpha |w|^2: for a point mass, MAP
Lead = tuple[int, ...]
Body = Callable[[Lead], MLP | Tabular | Matern]
# Far from the data the features of a network only grow, in directions it has seen, so that a last
# layer can hardly detect them. Random cosines differ everywhere: with a Gaussian belief they are an
# approximate Gaussian process.
BODIES: dict[str, Body] = {
    "SiLU network": lambda lead: Tabular(2, width=64, depth=2, replicates=lead),
    "Matérn features": lambda lead: Matern(2, 256, lead),
}
SHOWN = ("MAP", "Laplace", "SCROLL", "SCROLL, KL prior")
COLUMNS = ("test NLL", "accuracy", "ECE", "confidence far away")

Predict = Callable[[Tensor], Labels]  # of inputs (R, N, 2)
Scores = dict[str, Tensor]


def confidence(output: Path, quick: bool, say: Say) -> Table:
    """Fit all methods, draw `two-moons`, and return test scores and confidence far away."""
    seeds = SEEDS[:1] if quick else SEEDS
    found = {name: models(name, seeds, quick, say) for name in BODIES}
    with torch.no_grad():
        test, ring = moons(2, seeds, TEST_ROWS), around(len(seeds))
        each = {
            (body, name): scores(predict, test, ring)
            for body, methods in found.items()
            for name, predict in methods.items()
        }
        draw(found, each, moons(0, seeds), output / "two-moons", 61 if quick else 201)
    rows = {
        label: {column: dict(zip(seeds, of.tolist(), strict=True)) for column, of in row.items()}
        for label, row in each.items()
    }
    blocks = [Block({k: v for k, v in rows.items() if k[0] == body}, None) for body in BODIES]
    count = f"{len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    title = f"Two moons, {count}; far from the data the ideal confidence is 0.5"
    return table("two_moons", title, COLUMNS, blocks, show_se=True)


def moons(part: int, seeds: Sequence[int], rows: int = ROWS) -> Rows:
    """Return the training (part 0), validation (1) or test rows (2) of each seed."""
    from sklearn.datasets import make_moons

    sets = [make_moons(rows, noise=NOISE, random_state=3 * seed + part) for seed in seeds]
    x, y = (torch.stack([torch.as_tensor(a) for a in both]) for both in zip(*sets, strict=True))
    return Rows(x.to(torch.get_default_dtype()), y)


def around(count: int) -> Tensor:
    """Return inputs on a ring around the moons, (R, N, 2)."""
    angle = torch.linspace(0, 2 * torch.pi, 361)[:-1]
    circle = torch.stack([angle.cos(), angle.sin()], -1)
    return (torch.tensor(CENTRE) + RING * circle).expand(count, -1, -1)


def models(body: str, seeds: Sequence[int], quick: bool, say: Say) -> dict[str, Predict]:
    """Train every method, and return their predictives as functions of inputs."""
    rows, held = moons(0, seeds), moons(1, seeds)
    recipe = replace(SETTINGS, steps=100) if quick else SETTINGS

    def fitted(method: str = "scroll") -> Network:
        return train(stack(maker(BODIES[body], method=method), seeds), rows, held, recipe).network

    say(f"{body}: MAP")
    penalties = PENALTIES[::2] if quick else PENALTIES
    point = map_network(maker(BODIES[body], *POINT), rows, held, seeds, penalties, recipe)
    say(f"{body}: SCROLL")
    free, kept = fitted(), fitted(method="kl")
    head = bayesian_head(free)
    with torch.no_grad():
        belief, bound = laplace(point, rows), refit(head, free.body(rows.x), rows.y)
    return {
        "MAP": point,
        "Laplace": lambda x: laplace_predictive(point, belief, x),
        "SCROLL": free,
        "SCROLL, KL prior": kept,
        "SCROLL, refit": lambda x: bound(free.body(x)),
    }


def maker(
    body: Body, covariance: str = "auto", method: str = "scroll", bias: bool = True
) -> Callable[[Lead], Network]:
    """Return a function that makes a stack of networks for two classes.

    Args:
        body: makes a body with given axes of replicates.
        covariance: of the head.
        method: of the head.
        bias: of the head.
    """

    def make(lead: Lead) -> Network:
        made = body(lead)
        head = ClassificationHead(
            made.features, 2, "probit", covariance, method, replicates=lead, bias=bias
        )
        return Network(made, head)

    return make


def map_network(
    make: Callable[[Lead], Network],
    rows: Rows,
    held: Rows,
    seeds: Sequence[int],
    penalties: Sequence[float],
    settings: Settings,
) -> Network:
    """Train MAP networks, and return for each seed the one with the best penalty.

    Args:
        make: makes a stack of networks of the method `POINT`.
        rows: to train on.
        held: validation rows, which choose the penalty.
        seeds: of the networks.
        penalties: to choose from.
        settings: of training.
    """
    new = stack(make, [seed for seed in seeds for _ in penalties])
    head = bayesian_head(new)
    with torch.no_grad():
        head.log_alpha.copy_(torch.tensor(penalties).log().repeat(len(seeds))[:, None])
    each = torch.arange(len(seeds)).repeat_interleave(len(penalties))
    done = train(new, rows.take(each), held.take(each), settings)
    best = done.score.view(len(seeds), -1).argmin(-1, keepdim=True)
    return take(done.network, (torch.arange(len(penalties)) == best).flatten())


def laplace(network: Network, rows: Rows) -> Belief:
    """N(MAP, A^-1) over the last layer's weights (and bias), A the curvature of the penalised loss.

    -d^2/df^2 log Phi(z), z = y f / c, is r (z + r) / c^2 with r = N(z; 0, 1) / Phi(z).
    """
    head = bayesian_head(network)
    problem = head.problem(network.body(rows.x), rows.y)
    assert isinstance(problem.factor, Probit)
    psi, scale = _with_one(head, problem.psi.double()), problem.factor.scale.double()
    assert head.mean is not None
    biases = [] if head.bias is None else [head.bias[..., None]]
    mean = torch.cat([head.mean, *biases], -1).double()
    z = problem.y.double() * (psi @ mean[..., None])[..., 0] / scale
    r = (2 / torch.pi) ** 0.5 / torch.special.erfcx(-z / 2**0.5)
    curved = r * (z + r) / scale.square()
    penalty = (2 * problem.alpha.double())[..., None].expand(head.mean.shape)
    free = torch.zeros_like(penalty[..., :1])  # the bias has no penalty
    penalty = torch.cat([penalty, *(free for _ in biases)], -1)
    precision = psi.mT @ (curved[..., None] * psi) + penalty.diag_embed()
    return Belief(mean, Full(inverse_root(precision)))


def laplace_predictive(network: Network, belief: Belief, x: Tensor) -> Labels:
    """Phi(m / sqrt(c^2 + v)) at the moments of the latent."""
    head = bayesian_head(network)
    psi = network.body(x).unsqueeze(-3).to(belief.mean)
    return cast(Labels, head.likelihood.predict(belief.project(_with_one(head, psi))))


def _with_one(head: Head, psi: Tensor) -> Tensor:
    """Return the features, with a constant one appended if the head has a bias."""
    one = torch.ones_like(psi[..., :1])
    return psi if head.bias is None else torch.cat([psi, one], -1)


def scores(predict: Predict, test: Rows, ring: Tensor) -> Scores:
    """Return the scores of each seed, (R,).

    Args:
        predict: from inputs to labels.
        test: test rows.
        ring: inputs far from the data.
    """
    p = predict(test.x)
    right = (p.mode == test.y).double().mean(-1)
    sure = predict(ring).probs.amax(-1).mean(-1)
    each = (-p.log_prob(test.y).mean(-1), right, ece(p, test.y), sure)
    return dict(zip(COLUMNS, each, strict=True))


def draw(
    found: dict[str, dict[str, Predict]],
    each: dict[tuple[str, str], Scores],
    data: Rows,
    path: Path,
    fineness: int,
) -> None:
    """Draw P(class 1) of the first seed: one body per row, one method per column.

    Args:
        found: predictives by body and method.
        each: scores of every seed, of which the titles show the means.
        data: training rows.
        path: of the picture, without a suffix.
        fineness: points per side.
    """
    across, up = (torch.linspace(c - REACH, c + REACH, fineness) for c in CENTRE)
    grid = torch.cartesian_prod(across, up).expand(len(data.y), -1, -1)
    levels = torch.linspace(0, 1, 21)
    ring = around(1)[0].T
    with picture(path, len(found), len(SHOWN), (12.5, 6.8), sharex=True, sharey=True) as axes:
        for line, (body, methods) in zip(axes, found.items(), strict=True):
            for ax, name in zip(line, SHOWN, strict=True):
                p = methods[name](grid).probs[0, :, 1].view(fineness, fineness).T
                filled = ax.contourf(across, up, p, levels, cmap="cividis")
                filled.set_rasterized(True)  # 5 MB of SVG otherwise
                ax.contour(across, up, p, [0.5], colors="white", linewidths=1)
                for label, (color, marker) in enumerate(((FREE, "o"), (BOUND, "s"))):
                    x = data.x[0, data.y[0] == label].T
                    ax.plot(*x, marker, color=color, ms=3, mec="white", mew=0.4)
                ax.plot(*ring, color="white", ls="--", lw=1)
                score, far = (float(each[body, name][c].mean()) for c in (COLUMNS[0], COLUMNS[-1]))
                ax.set_title(f"{name}: confidence\n{far:.2f} far away, NLL {score:.3f}", size=11)
                ax.set_aspect("equal")
            line[0].set_ylabel(body, weight="bold")
        bar = axes[0, 0].figure.colorbar(filled, ax=axes, shrink=0.8, aspect=25, ticks=levels[::5])
        bar.set_label("P(class 1)")
