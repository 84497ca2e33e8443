"""Two moons: where MAP, Laplace and SCROLL are sure of a class, near the data and away from them.

All share body, rows and the way they are trained. The score holds no spread up where there are no
rows, and log Z_w pulls it down there; so beside SCROLL stand its score with the KL in the place of
log Z_w, which keeps unseen directions at the prior, and its features with a posterior.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from scroll._core.linalg import inverse_root
from scroll.beliefs import Belief
from scroll.beliefs.covariances import Full
from scroll.heads import ClassificationHead
from scroll.integrations.plots import pyplot, save
from scroll.posterior.posterior import refit
from scroll.predictive import Categorical
from scroll.predictive.metrics import ece
from scroll.training.batches import Rows
from scroll.training.bodies import Matern, Tabular
from scroll.training.loop import train
from scroll.training.network import Network, stack, take
from scroll.training.settings import Settings

from ..data.sources import Say
from ..tables.table import Block, Table, table

SEEDS = range(5)
ROWS, TEST_ROWS, NOISE = 200, 5000, 0.2
PENALTIES = (1e-3, 1e-2, 0.1, 1.0, 10.0)
SETTINGS = Settings(steps=3000, lr=0.01, every=10, patience=50)
CENTRE, REACH, RING = (0.5, 0.25), 4.0, 3.5  # hardly a row is 2 away from the centre
# Far away, the features of a network only grow, in directions it has seen, and a last layer can
# hardly tell; random cosines are new everywhere, and under a Gaussian belief make a process.
BODIES: dict[str, Callable[..., Any]] = {
    "SiLU network": lambda lead: Tabular(2, width=64, depth=2, replicates=lead),
    "Matérn features": lambda lead: Matern(2, 256, lead),
}
SHOWN = ("MAP", "Laplace", "SCROLL", "SCROLL, KL prior")
COLUMNS = ("test NLL", "accuracy", "ECE", "confidence far away")

Lead = tuple[int, ...]
Predict = Callable[[Tensor], Categorical]  # of inputs (R, N, 2)
Scores = dict[str, Tensor]


def two_moons(output: Path, quick: bool, say: Say) -> list[Table]:
    """Fit all, draw `two-moons.png`, and give held-out scores and the confidence far away."""
    seeds = SEEDS[:1] if quick else SEEDS
    found = {name: models(name, seeds, quick, say) for name in BODIES}
    with torch.no_grad():
        test, ring = moons(2, seeds, TEST_ROWS), around(len(seeds))
        each = {
            (body, name): scores(predict, test, ring)
            for body, methods in found.items()
            for name, predict in methods.items()
        }
        draw(found, each, moons(0, seeds), output / "two-moons.png", 61 if quick else 201)
    rows = {
        label: {column: dict(zip(seeds, of.tolist(), strict=True)) for column, of in row.items()}
        for label, row in each.items()
    }
    blocks = [Block({k: v for k, v in rows.items() if k[0] == body}, None) for body in BODIES]
    count = f"{len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    title = f"Two moons, {count}; whoever knows nothing of the far away has confidence 0.5 there"
    return [table("two_moons", title, COLUMNS, blocks, show_se=True)]


def moons(part: int, seeds: Sequence[int], rows: int = ROWS) -> Rows:
    """Rows to train on (part 0), to choose by (1) and to report (2), one set a seed."""
    from sklearn.datasets import make_moons

    sets = [make_moons(rows, noise=NOISE, random_state=3 * seed + part) for seed in seeds]
    x, y = (torch.stack([torch.as_tensor(a) for a in both]) for both in zip(*sets, strict=True))
    return Rows(x.to(torch.get_default_dtype()), y)


def around(count: int) -> Tensor:
    """A ring about the moons, (R, N, 2)."""
    angle = torch.linspace(0, 2 * torch.pi, 361)[:-1]
    circle = torch.stack([angle.cos(), angle.sin()], -1)
    return (torch.tensor(CENTRE) + RING * circle).expand(count, -1, -1)


def models(body: str, seeds: Sequence[int], quick: bool, say: Say) -> dict[str, Predict]:
    """What each method makes of the training rows."""
    rows, held = moons(0, seeds), moons(1, seeds)
    recipe = replace(SETTINGS, steps=100) if quick else SETTINGS

    def fitted(**head: Any) -> Network:
        return train(stack(_maker(body, **head), seeds), rows, held, recipe).network

    say(f"{body}: MAP")
    point = map_network(body, rows, held, seeds, PENALTIES[::2] if quick else PENALTIES, recipe)
    say(f"{body}: SCROLL")
    free, kept = fitted(), fitted(method="kl")
    head: Any = free.head
    with torch.no_grad():
        belief, bound = laplace(point, rows), refit(head, free.body(rows.x), rows.y)
    return {
        "MAP": point,
        "Laplace": lambda x: laplace_predictive(point, belief, x),
        "SCROLL": free,
        "SCROLL, KL prior": kept,
        "SCROLL, refit": lambda x: bound(free.body(x)),
    }


def _maker(body: str, **head: Any) -> Callable[[Lead], Network]:
    def make(lead: Lead) -> Network:
        made = BODIES[body](lead)
        return Network(
            made, ClassificationHead(made.features, 2, "probit", replicates=lead, **head)
        )

    return make


def map_network(
    body: str,
    rows: Rows,
    held: Rows,
    seeds: Sequence[int],
    penalties: Sequence[float],
    settings: Settings,
) -> Network:
    """A point for the last layer, of each seed under the penalty that its held-out rows prefer."""
    # "no-prior" is the score with the penalty alpha |w|^2, which for a point mass is MAP.
    make = _maker(body, covariance="none", method="no-prior")
    new = stack(make, [seed for seed in seeds for _ in penalties])
    head: Any = new.head
    with torch.no_grad():
        head.log_alpha.copy_(torch.tensor(penalties).log().repeat(len(seeds))[:, None])
    each = torch.arange(len(seeds)).repeat_interleave(len(penalties))
    done = train(new, rows.take(each), held.take(each), settings)
    best = done.score.view(len(seeds), -1).argmin(-1, keepdim=True)
    return take(done.network, (torch.arange(len(penalties)) == best).flatten())


def laplace(network: Network, rows: Rows) -> Belief:
    """N(MAP, A^-1) over the last layer's weights and bias, A the curvature of the penalised loss.

    -d^2/df^2 log Phi(z), z = y f / c, is r (z + r) / c^2 with r = N(z; 0, 1) / Phi(z).
    """
    head: Any = network.head
    problem = head.problem(network.body(rows.x), rows.y)
    psi, scale = _with_one(problem.psi.double()), problem.factor.scale.double()
    mean = torch.cat([head.mean, head.bias[..., None]], -1).double()
    z = problem.y.double() * (psi @ mean[..., None])[..., 0] / scale
    r = (2 / torch.pi) ** 0.5 / torch.special.erfcx(-z / 2**0.5)
    curved = r * (z + r) / scale.square()
    penalty = (2 * problem.alpha.double())[..., None].expand(head.mean.shape)
    penalty = torch.cat([penalty, torch.zeros_like(penalty[..., :1])], -1)  # none on the bias
    precision = psi.mT @ (curved[..., None] * psi) + penalty.diag_embed()
    return Belief(mean, Full(inverse_root(precision)))


def laplace_predictive(network: Network, belief: Belief, x: Tensor) -> Categorical:
    """Phi(m / sqrt(c^2 + v)) at the moments of the latent."""
    head: Any = network.head
    psi = network.body(x).unsqueeze(-3).to(belief.mean)
    found: Categorical = head.likelihood.predict(belief.project(_with_one(psi)))
    return found


def _with_one(psi: Tensor) -> Tensor:
    """Features and a one, which the bias goes with."""
    return torch.cat([psi, torch.ones_like(psi[..., :1])], -1)


def scores(predict: Predict, test: Rows, ring: Tensor) -> Scores:
    """Of each seed, (R,)."""
    p = predict(test.x)
    right = (p.mode == test.y).double().mean(-1)
    sure = predict(ring).probs.amax(-1).mean(-1)
    each = (-p.log_prob(test.y).mean(-1), right, ece(p, test.y), sure)
    return dict(zip(COLUMNS, each, strict=True))


def draw(
    found: dict[str, dict[str, Predict]],
    each: dict[tuple[str, str], Scores],
    data: Rows,
    output: Path,
    fineness: int,
) -> None:
    """P(class 1) of the first seed: a body a row, a method a column."""
    plt = pyplot()
    across, up = (torch.linspace(c - REACH, c + REACH, fineness) for c in CENTRE)
    grid = torch.cartesian_prod(across, up).expand(len(data.y), -1, -1)
    levels = torch.linspace(0, 1, 21)
    size = {"figsize": (11.6, 5.9), "sharex": True, "sharey": True}
    figure, axes = plt.subplots(len(found), len(SHOWN), layout="constrained", **size)
    for line, (body, methods) in zip(axes, found.items(), strict=True):
        for ax, name in zip(line, SHOWN, strict=True):
            p = methods[name](grid).probs[0, :, 1].view(fineness, fineness).T
            filled = ax.contourf(across, up, p, levels, cmap="RdBu_r")
            ax.contour(across, up, p, [0.5], colors="k", linewidths=1)
            for label, color in enumerate(("#4393c3", "#d6604d")):
                x = data.x[0, data.y[0] == label].T
                ax.plot(*x, "o", color=color, ms=2.8, mec="white", mew=0.4)
            ax.add_patch(plt.Circle(CENTRE, RING, fill=False, ec="0.6", ls="--", lw=0.8))
            score, far = (float(each[body, name][c][0]) for c in (COLUMNS[0], COLUMNS[-1]))
            ax.set_title(f"test NLL {score:.3f}, far confidence {far:.2f}", size=9)
            ax.set_aspect("equal")
        line[0].set_ylabel(body, size=11)
    for ax, name in zip(axes[0], SHOWN, strict=True):
        ax.annotate(name, (0.5, 1.13), xycoords="axes fraction", ha="center", size=11)
    bar = figure.colorbar(filled, ax=axes, shrink=0.8, aspect=25, pad=0.01, ticks=levels[::5])
    bar.set_label("P(class 1)")
    save(figure, output)
    plt.close(figure)
