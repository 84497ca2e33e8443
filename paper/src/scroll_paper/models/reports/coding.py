"""Prequential code length: what the targets cost, one after the other."""

from collections.abc import Callable

from torch import Tensor

from scroll import METHODS
from scroll.training.batches import Rows
from scroll.training.network import Network

from ..baselines import bayesian_head
from ..evaluation import Fitted, Line, Lines, plain


def code_length(network: Network, rows: Rows) -> Tensor:
    """Return the prequential code length of the targets, in nats per row, (R,).

    Each row is scored by the belief that the rows before it determine, at the network's present
    features, noise, prior precision and added covariance.
    """
    head = bayesian_head(network)
    problem = head.problem(network.body(rows.x), rows.y)
    objective = METHODS["seq-full" if problem.added is None else "prequential-full"]
    return objective.loss(problem).sum(-1) / rows.y.shape[1]


def coded(name: str) -> Callable[[Fitted], Lines]:
    """Return a function that adds the code length of the training rows to the plain scores.

    Args:
        name: of the method whose architecture is chosen by the code length.
    """

    def report(fitted: Fitted) -> Lines:
        found, code = plain(fitted)[""], code_length(fitted.network, fitted.folds.train)
        line = Line(found.metrics | {"code": code}, found.val)
        return {"": line} | {name: Line(line.metrics, code)}

    return report
