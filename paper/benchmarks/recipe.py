r"""Variants of the estimators' default recipe, on seeds 0-4 only, by which it was chosen.

    python paper/benchmarks/recipe.py [--device cuda] [--sets yacht,boston] [--only smooth] \
        [--into FILE]

Each variant changes one thing of the recipe and is trained on the eight data sets, five splits
as one stack. It prints one line per data set and appends it to FILE: the mean validation NLL of
the free route and of the best of free, closed and hybrid (on which the choices are based), and the
same on the test rows. `docs/recipe.md` has the table.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

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

Change = dict[str, Any]  # settings of a variant
Measured = Callable[[str, str, Change, torch.device], dict[str, object]]
SEEDS = (0, 1, 2, 3, 4)
SHIPPED = default("smooth", 1, 1).settings
CHANGES: dict[str, Change] = {
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


def measured(name: str, shape: str, change: Change, device: torch.device) -> dict[str, object]:
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
    score, routes = _scores(done.network, rows, held, test)
    score = score + spread
    best = score[:, 0].nan_to_num(torch.inf).argmin(0)
    chosen = score.gather(0, best.expand(1, 2, -1))[0].mean(-1).tolist()
    free = score[0].mean(-1).tolist()
    return {
        "set": name,
        "free": [round(x, 3) for x in free],
        "auto": [round(x, 3) for x in chosen],
        "routes": [routes[i] for i in best.tolist()],
        "step": int(done.step.double().mean()),
        "seconds": round(time.perf_counter() - began, 1),
    }


def _scores(network: Network, rows: Rows, held: Rows, test: Rows) -> tuple[Tensor, list[str]]:
    """Return the NLL by route, part (validation, test) and seed, and the names of the routes."""
    with torch.no_grad():
        psi, psi_held, psi_test = (network.body(part.x) for part in (rows, held, test))
        routes = {"free": [network.head(p) for p in (psi_held, psi_test)]}
    for hybrid in (False, True):
        validation = (psi_held, held.y) if hybrid else None
        bound = refit(network.head, psi, rows.y, hybrid=hybrid, validation=validation)
        with torch.no_grad():
            routes["hybrid" if hybrid else "closed"] = [bound(p) for p in (psi_held, psi_test)]
    each = [
        [-p.log_prob(part.y).double().mean(-1) for p, part in zip(both, (held, test), strict=True)]
        for both in routes.values()
    ]
    return torch.stack([torch.stack(both) for both in each]), list(routes)


def run(
    about: str, changes: Mapping[str, Mapping[str, Change]], sets: Sequence[str], measured: Measured
) -> None:
    """Measure the variants given on the command line; print one line of JSON per variant.

    Args:
        about: description of the program, for --help.
        changes: settings by body and name of the change.
        sets: data sets used by default.
        measured: takes a set, a body, a change and a device; returns a dict of results.
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sets", default=",".join(sets))
    parser.add_argument("--body", default=",".join(changes))
    parser.add_argument("--only", default="", help="names of changes, separated by semicolons")
    parser.add_argument("--into", type=Path)
    given = parser.parse_args()
    for body in given.body.split(","):
        for label, change in changes[body].items():
            if given.only and label not in given.only.split(";"):
                continue
            for name in given.sets.split(","):
                found = measured(name, body, change, torch.device(given.device))
                line = json.dumps({"body": body, "change": label, **found})
                print(line, flush=True)
                if given.into:
                    with given.into.open("a") as file:
                        file.write(line + "\n")


if __name__ == "__main__":
    np.seterr(all="raise")
    run(__doc__, {"smooth": CHANGES, "waves": CHANGES | WAVES}, datasets.UCI, measured)
