"""Scores of trained networks whose last layer is computed anew on their features."""

from collections.abc import Callable

import torch
from torch import Tensor

from scroll.heads import Head
from scroll.posterior.laplace import LaplacePosterior, laplace_refit
from scroll.posterior.posterior import refit
from scroll.posterior.scale import loo_crps_scale
from scroll.predictive import Normal
from scroll.training.batches import Rows

from ...data.protocol import metrics
from ..baselines import bayesian_head
from ..evaluation import Fitted, Line, Lines, plain, scored

ABOUT_MODE = {
    "full-refit": "Full",
    "laplace": "Full, then Laplace",
    "refit-hybrid-full": "Full, then hybrid (Full)",
    "refit-hybrid-diag": "Full, then hybrid (Diag)",
    "best-route": "Full, best of the four on validation",
}
"""Labels of the rows of a network for labels whose last layer is refitted, by method."""

Route = Head | LaplacePosterior
Report = Callable[[Fitted], Lines]


def scaled(name: str, hyper: str) -> Report:
    """Return a function that scores the posterior with its variances at the LOO-CRPS scale.

    Args:
        name: of the row.
        hyper: alpha and noise of the posterior, of greatest "evidence" or the "head"'s.
    """

    def report(fitted: Fitted) -> Lines:
        network, folds = fitted
        psi, y = network.body(folds.train.x), folds.train.y
        bound = refit(bayesian_head(network), psi, y, hyper=hyper)
        left = 1 - bound.leverage(psi).double()
        std = bound.noise / left.sqrt()  # one output: (R, 1) against (R, N)
        square = loo_crps_scale((y - bound(psi).mean).double() / left, std).square()[:, None]

        def predict(x: Tensor) -> Normal:
            at = bound(network.body(x))
            return Normal(at.mean, at.noise_var * square, at.belief_var * square)

        val = -predict(folds.val.x).log_prob(folds.val.y).mean(-1)
        return plain(fitted) | {name: Line(scored(predict, folds), val)}

    return report


def about_mode(kind: str) -> Report:
    """Return a function that scores Laplace's posterior of a free network for labels.

    The rows are Laplace's posterior, that with a free covariance added, and the belief of least
    validation NLL among the free one and these.

    Args:
        kind: of the head, the first word of the rows' names.
    """

    def report(fitted: Fitted) -> Lines:
        network, folds = fitted
        head = bayesian_head(network)
        (psi, y), held = ((network.body(r.x), r.y) for r in (folds.train, folds.val))
        bound = laplace_refit(head, psi, y)
        routes: dict[str, Route] = {"full-refit": head, "laplace": bound}
        for family in ("full", "diag"):
            routes[f"refit-hybrid-{family}"] = bound.add(psi, y, family=family, validation=held)
        test = Rows(network.body(folds.test.x), folds.test.y)
        lines = {name: _line(route, held, test) for name, route in routes.items()}
        lines["best-route"] = _best(list(lines.values()))
        del lines["full-refit"]
        return plain(fitted) | {f"{kind}-{name}": line for name, line in lines.items()}

    return report


def _line(route: Route, held: tuple[Tensor, Tensor], test: Rows) -> Line:
    val = -route(held[0]).log_prob(held[1]).mean(-1)
    return Line(metrics(route(test.x), test.y), val)


def _best(lines: list[Line]) -> Line:
    """Return, for each network, the line of least validation objective."""
    val = torch.stack([line.val for line in lines]).nan_to_num(torch.inf)
    best, which = val.min(0)
    found = {
        name: torch.stack([line.metrics[name] for line in lines]).gather(0, which[None])[0]
        for name in lines[0].metrics
    }
    return Line(found, best)
