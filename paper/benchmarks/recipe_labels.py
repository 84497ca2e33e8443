"""Changes to the recipe for numbers that led to the one for labels, on seeds 0-4 only.

    python paper/benchmarks/recipe_labels.py [--device cuda] [--sets pima,blood] [--only Full]
        [--into results/recipe/labels.jsonl]

Trains three networks per split, all as one stack. Prints and appends one line per data set: the
NLL on the validation rows (on which the choices are based) and on the test rows, of single
networks (mean) and of the mixture of the three. `docs/recipe.md` has the table.
"""

import time
from dataclasses import replace
from math import log

import torch

from recipe import Change, run
from scroll.fitting.plans import DROPOUT, default
from scroll.heads import ClassificationHead
from scroll.tables.columns import TableSchema
from scroll.tables.encoder import Encoder
from scroll.training.batches import Rows
from scroll.training.bodies import Tabular
from scroll.training.loop import train
from scroll.training.network import Network, stack
from scroll_paper.data import datasets
from scroll_paper.data.protocol import folds

SEEDS, MEMBERS, WIDTH = (0, 1, 2, 3, 4), 3, 128
BOTH: dict[str, Change] = {
    "Full": {},
    "Diag": {"covariance": "diag"},
    "None": {"covariance": "none"},
    "least squares": {"likelihood": "gaussreg"},
    "dropout 0.2": {"dropout": 0.2},
}
CHANGES = {
    "smooth": BOTH
    | {
        "least squares, None": {"likelihood": "gaussreg", "covariance": "none"},
        "weight decay 0.3": {"weight_decay": 0.3},
    },
    "waves": BOTH
    | {
        "frequency 0.3": {"frequency": 0.3},
        "frequency 0.3, dropout 0.2": {"frequency": 0.3, "dropout": 0.2},
        "frequency 0.3, dropout 0.2, None": {
            "frequency": 0.3,
            "dropout": 0.2,
            "covariance": "none",
        },
    },
}


def rows_of(name: str, device: torch.device) -> tuple[list[Rows], Encoder]:
    """Return the encoded training, validation and test rows of each network."""
    each = []
    for seed in SEEDS:
        parts = folds(datasets.load(name), (seed,))[:3]
        x = [part.x[0].numpy() for part in parts]
        table = TableSchema.of(x[0])
        encoder = Encoder.of(table, table.codes(x[0]))
        encoded = [encoder(torch.from_numpy(a)) for a in x]
        each += [[*zip(encoded, (part.y[0] for part in parts), strict=True)]] * MEMBERS
    rows = [
        Rows(*(torch.stack([e[i][j] for e in each]).to(device) for j in (0, 1))) for i in range(3)
    ]
    return rows, encoder


def measured(name: str, shape: str, change: Change, device: torch.device) -> dict[str, object]:
    """Return the mean NLL over the seeds."""
    (rows, held, test), encoder = rows_of(name, device)
    change, classes = dict(change), datasets.SETS[name].classes
    body = {"dropout": change.pop("dropout", DROPOUT), "frequency": change.pop("frequency", 1.0)}
    kind, covariance = change.pop("likelihood", "ova"), change.pop("covariance", "full")
    kind = "probit" if (kind, classes) == ("ova", 2) else kind

    def make(lead: tuple[int, ...]) -> Network:
        return Network(
            Tabular(
                encoder.plain, encoder.ranked, WIDTH, wavy=shape == "waves", replicates=lead, **body
            ),
            ClassificationHead(WIDTH, classes, kind, covariance, floor=1e-6, replicates=lead),
        )

    seeds = [1000 * seed + m for seed in SEEDS for m in range(MEMBERS)]
    recipe = replace(default("smooth", 1, 1).settings, **change)
    began = time.perf_counter()
    done = train(stack(make, seeds).to(device), rows, held, recipe, seeds=seeds)
    found: dict[str, list[float]] = {"single": [], "mixture": []}
    for part in (held, test):
        with torch.no_grad():
            log_p = done.network(part.x).log_prob(part.y).double()
        mixed = log_p.unflatten(0, (-1, MEMBERS)).logsumexp(1) - log(MEMBERS)
        found["single"].append(round(-float(log_p.mean()), 4))
        found["mixture"].append(round(-float(mixed.mean()), 4))
    spent = {"step": int(done.step.double().mean()), "seconds": round(time.perf_counter() - began)}
    return {"set": name} | found | spent


if __name__ == "__main__":
    run(__doc__, CHANGES, datasets.LABELLED, measured)
