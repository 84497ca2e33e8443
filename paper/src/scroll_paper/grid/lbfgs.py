"""Linear models (depth zero): each head is trained to its optimum by L-BFGS."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from scroll._core.checks import unchecked
from scroll.training.batches import Rows
from scroll.training.network import Network, held_out_nll, take
from scroll.training.state import Trained

from ..tables.experiment import Tell

Vector = NDArray[np.float64]


def quasi_newton(
    network: Network, rows: Rows, held: Rows, watch: Tell | None = None
) -> Iterator[Trained]:
    """Yield each replicate at the least loss that L-BFGS finds, in float64.

    Args:
        network: a stack without a body.
        rows: to train on.
        held: validation rows, for the score alone: there is no early stopping.
        watch: called with the replicates done and their best score.
    """
    from scipy.optimize import minimize

    best = torch.inf
    for r in range(len(rows.y)):
        which = torch.arange(len(rows.y), device=rows.y.device) == r
        one = take(network, which).double()
        value, start = _objective(one, _double(rows.take(which)))
        with unchecked():
            found = minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": 5000})
            value(found.x)
            with torch.no_grad():
                one.condition(_double(rows.take(which)))
                score = held_out_nll(one, _double(held.take(which)))
        best = min(best, float(score))
        if watch is not None:
            watch(r + 1, best)
        steps = torch.tensor([int(found.nit)], device=rows.y.device)
        yield Trained(which.nonzero()[:, 0], one, score.to(rows.x), steps, steps)


def _objective(one: Network, rows: Rows) -> tuple[Callable[[Vector], tuple[float, Vector]], Vector]:
    """Return the loss with its gradient as a function of a flat vector, and the starting point."""
    learned = [p for p in one.parameters() if p.requires_grad]

    def value(flat: Vector) -> tuple[float, Vector]:
        with torch.no_grad():
            vector_to_parameters(torch.as_tensor(flat).to(rows.x), learned)
        loss = one.loss(rows, rows.y.shape[1], 0.0).sum()
        return float(loss.detach()), parameters_to_vector(
            torch.autograd.grad(loss, learned)
        ).cpu().numpy()

    return value, parameters_to_vector(learned).detach().cpu().numpy()


def _double(rows: Rows) -> Rows:
    """Return the rows in double precision; labels stay integers."""
    real = rows.y.is_floating_point()
    return Rows(rows.x.double(), rows.y.double() if real else rows.y)
