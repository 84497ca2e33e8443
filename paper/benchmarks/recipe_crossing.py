"""Folds, bodies and power of the recipe for labels, on seeds 0-4 only.

    python paper/benchmarks/recipe_crossing.py [--device cuda] [--sets pima,blood] [--into FILE]

Fits five networks of each body, one per fold, on the training rows only. Prints one line per data
set and appends it to FILE: the mean NLL on the validation rows, which no network has seen, of
single networks and of mixtures of several bodies. `docs/recipe.md` has the table.
"""

from dataclasses import replace
from statistics import fmean

import numpy as np
import torch
from torch import Tensor

from recipe import run
from scroll.estimators.spec import Spec
from scroll.fitting.calibration import best_power, lapse_rate
from scroll.fitting.crossfit import cross_fit
from scroll.fitting.plans import default
from scroll.fitting.search import rates, shared
from scroll.fitting.split import split
from scroll.fitting.stacks import Data, Job
from scroll.tables.columns import TableSchema
from scroll.tables.encoder import Encoder
from scroll_paper.data import datasets
from scroll_paper.data.protocol import folds

SEEDS, FOLDS = (0, 1, 2, 3, 4), 5
MIXTURES = {
    "smooth, waves": ("smooth", "waves"),
    "smooth, swell": ("smooth", "swell"),
    "smooth, swell, waves": ("smooth", "swell", "waves"),
}


def log_probs(name: str, seed: int, device: torch.device) -> tuple[dict, Data, Tensor]:
    """Return, per body, log p of the out-of-fold rows (N, K) and of new rows (F, V, K)."""
    parts = folds(datasets.load(name), (seed,))
    x, y = parts.train.x[0].numpy(), parts.train.y[0].numpy()
    table = TableSchema.of(x)
    codes = table.codes(x)
    rows = split(codes, y, None, 0.2, seed, labels=True, folds=FOLDS)
    encoder = Encoder.of(table, codes)

    def encoded(of: np.ndarray) -> Tensor:
        return encoder(torch.from_numpy(np.ascontiguousarray(of))).to(device)

    mine, none = encoded(codes[rows.train]), encoded(codes[:0])
    target = torch.from_numpy(y[rows.train]).to(device)
    fold = torch.from_numpy(rows.fold).to(device)
    data = Data(mine, target, None, none, target[:0], None, False, False, fold)
    new = encoded(table.codes(parts.val.x[0].numpy()))
    plan, found = default("auto", encoder.plain, encoder.ranked, labels=True), {}
    spec = Spec("ova", "full", 0.0, datasets.SETS[name].classes, "default", "auto", {})
    for body in plan.candidates:
        job = Job(data, replace(plan, candidates=(body,)), spec.head)
        (part,) = cross_fit(job, members=FOLDS, seed=seed).parts
        with torch.no_grad():
            at = [part.network(rows.expand(FOLDS, -1, -1)).log_probs for rows in (mine, new)]
        found[body.name] = at[0][fold, torch.arange(len(fold), device=device)].double(), at[1]
    return found, data, parts.val.y[0].to(device)


def nll(log_p: Tensor, y: Tensor) -> float:
    """Return the mean of -log p(y)."""
    return -float(log_p.gather(-1, y[..., None]).mean())


def mixture(found: dict, data: Data, bodies: tuple[str, ...], sharp: bool) -> Tensor:
    """Return log p of new rows under five members of several bodies, as in the estimator."""
    own = torch.stack([found[body][0] for body in bodies])
    scores = own.gather(-1, data.y.expand(len(own), -1)[..., None])[..., 0]
    shares = shared(scores, FOLDS)
    whose = np.repeat(np.arange(len(bodies)), shares)
    members = torch.stack([found[bodies[c]][1][f].double() for f, c in enumerate(whose)])
    weight = torch.tensor(shares, device=own.device, dtype=own.dtype) / FOLDS
    held, new = (own + weight.log()[:, None, None]).logsumexp(0), members.logsumexp(0)
    b = best_power(held, data.y) if sharp else 1.0
    held, new = (b * held).log_softmax(-1), (b * new.log_softmax(-1)).log_softmax(-1)
    frequencies = rates(data, held.shape[-1])
    share = lapse_rate(held[None], data.y, frequencies, len(data.y))
    return ((1 - share) * new.exp() + share * frequencies).log()


def measured(name: str, _: str, __: None, device: torch.device) -> dict[str, object]:
    """Return the mean NLL over the seeds of every choice."""
    each: dict[str, list[float]] = {}
    for seed in SEEDS:
        found, data, y = log_probs(name, seed, device)
        for body, (_, new) in found.items():
            each.setdefault(f"one network, {body}", []).append(nll(new, y.expand(FOLDS, -1)))
        for label, bodies in MIXTURES.items():
            for sharp in (False, True):
                line = each.setdefault(label + "; power" * sharp, [])
                line.append(nll(mixture(found, data, bodies, sharp), y))
    means = {label: round(fmean(values), 4) for label, values in each.items()}
    return {"set": name, "nll": means}


if __name__ == "__main__":
    run(__doc__, {"all": {"folds": None}}, datasets.LABELLED, measured)
