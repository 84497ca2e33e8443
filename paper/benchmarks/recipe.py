r"""Variants of the estimators' default recipe, on seeds 0-4 only, by which it was chosen.

    python paper/benchmarks/recipe.py [--device cuda] [--sets yacht,boston] [--only smooth] \
        [--into FILE]

Each variant changes one thing of the recipe and is trained on the eight data sets, five splits
as one stack. It prints one line per data set and appends it to FILE: the mean validation NLL of
the free route and of the best of free, closed and hybrid (on which the choices are based), and the
same on the test rows. `docs/recipe.md` has the table.
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import variants
from scroll import RegressionHead, refit
from scroll.fitting.plans import DROPOUT, default
from scroll.tables.columns import TableSchema
from scroll.tables.encoder import Encoder
from scroll.training.batches import Rows
from scroll.training.bodies import Tabular
from scroll.training.loop import train
from scroll.training.network import Network, stack
from scroll_paper.data import datasets
from scroll_paper.data.protocol import folds

SEEDS = (0, 1, 2, 3, 4)
SHIPPED = default("smooth", 1, 1).settings
CHANGES: dict[str, dict[str, Any]] = {
    "as shipped": {},
    "no dropout": {"dropout": 0.0},
    "step size 0.003": {"lr": 3e-3},
    "step size 0.01": {"lr": 1e-2},
    "weight decay 0.01": {"weight_decay": 0.01},
    "weight decay 0.3": {"weight_decay": 0.3},
    "no averaging": {"average": 1},
    "averaging over 200": {"average": 200},
    "256 units": {"width": 256},
    "three layers": {"depth": 3},
    "Diag": {"covariance": "diag"},
    "beta 0.5": {"beta": 0.5},
    "patience 500 steps": {"patience": 25},
}
WAVES = {
    "frequency 0.3": {"frequency": 0.3},
    "frequency 3": {"frequency": 3.0},
    "32 waves": {"waves": 32},
}


def rows_of(name: str, device: torch.device) -> tuple[list[Rows], torch.Tensor, Encoder]:
    """Return encoded training, validation and test rows of all seeds, and the target's scale."""
    each, spread = [], []
    for seed in SEEDS:
        parts = folds(datasets.load(name), (seed,), torch.device("cpu"))
        x = [part.x[0].double().numpy() for part in (parts.train, parts.val, parts.test)]
        table = TableSchema.of(x[0])
        encoder = Encoder.of(table, table.codes(x[0]))
        y = parts.train.y.double()
        shift, scale = y.mean(), y.std(correction=0)
        targets = [
            ((part.y[0].double() - shift) / scale).float()
            for part in (parts.train, parts.val, parts.test)
        ]
        spread.append(scale.log())
        each.append([(encoder(torch.from_numpy(a)), b) for a, b in zip(x, targets, strict=True)])
    rows = [
        Rows(*(torch.stack([seed[i][j] for seed in each]).to(device) for j in range(2)))
        for i in range(3)
    ]
    return rows, torch.stack(spread).to(device), encoder


def measured(name: str, shape: str, change: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Return the mean NLL over the seeds, in the units of the target."""
    (rows, held, test), spread, encoder = rows_of(name, device)
    change = dict(change)
    body = {k: change.pop(k) for k in ("width", "depth", "frequency", "waves") if k in change}
    body["dropout"] = change.pop("dropout", DROPOUT)
    head = {k: change.pop(k) for k in ("covariance", "beta") if k in change}
    width = body.get("width", 128)

    def make(lead: tuple[int, ...]) -> Network:
        return Network(
            Tabular(encoder.plain, encoder.ranked, wavy=shape == "waves", replicates=lead, **body),
            RegressionHead(width, floor=1e-6, noise=0.5, replicates=lead, **head),
        )

    began = time.perf_counter()
    network = stack(make, SEEDS).to(device)
    done = train(network, rows, held, replace(SHIPPED, **change), seeds=SEEDS)
    with torch.no_grad():
        psi, psi_held, psi_test = (done.network.body(part.x) for part in (rows, held, test))
    network, routes = done.network, {}
    with torch.no_grad():
        routes["free"] = [network.head(p) for p in (psi_held, psi_test)]
    for hybrid in (False, True):
        bound = refit(network.head, psi, rows.y, hybrid=hybrid, validation=(psi_held, held.y))
        with torch.no_grad():
            routes["hybrid" if hybrid else "closed"] = [bound(p) for p in (psi_held, psi_test)]
    score = (
        torch.stack(
            [
                torch.stack(
                    [
                        -p.log_prob(part.y).double().mean(-1)
                        for p, part in zip(both, (held, test), strict=True)
                    ]
                )
                for both in routes.values()
            ]
        )
        + spread
    )  # (routes, val and test, seeds)
    best = score[:, 0].nan_to_num(torch.inf).argmin(0)
    chosen = score.gather(0, best.expand(1, 2, -1))[0].mean(-1).tolist()
    free = score[0].mean(-1).tolist()
    return {
        "set": name,
        "free": [round(x, 3) for x in free],
        "auto": [round(x, 3) for x in chosen],
        "routes": [list(routes)[i] for i in best.tolist()],
        "step": int(done.step.double().mean()),
        "seconds": round(time.perf_counter() - began, 1),
    }


if __name__ == "__main__":
    np.seterr(all="raise")
    variants.run(__doc__, {"smooth": CHANGES, "waves": CHANGES | WAVES}, datasets.UCI, measured)
