"""The experiments of networks that are trained end to end, and their tables."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from scroll._core.checks import one_of, require

from ..data.datasets import searched
from ..data.encoders import lite0
from ..tables import records
from ..tables.experiment import Request, Results, Screen, Section
from ..tables.records import Record
from ..tables.selection import Values
from ..tables.table import Block, Label, Table, table
from . import extra, vision
from .found import Found
from .methods import LABELS, NUMBERS, DeepMethod, labels_of
from .units import CONDITIONS, IN_YEARS, Conditions, DeepUnit, units

Wants = Callable[[str], bool]
TITLES = {"scratch": "from scratch", "frozen": "frozen", "tuned": "fine-tuned"}


@dataclass(frozen=True)
class EndToEnd:
    """A table whose every row is a deep network of its own.

    Args:
        about: the question, in one line.
        set: name of the pictures.
        heads: methods that can be trained, by name.
        conditions: how bodies start, and how they are trained.
        build: makes the tables from the records and the folder that holds them.
        unscaled: centre the target, but leave it in its unit.
    """

    about: str
    set: str
    heads: Mapping[str, DeepMethod]
    conditions: Conditions
    build: Callable[[Found, Path, Wants], list[Table]]
    unscaled: bool = False

    @property
    def options(self) -> Collection[str]:
        """Options of records and of one device; there are no sets to choose and no workers."""
        return ("methods", "seeds", "device", "compare", "tables", "data", "results", "output")

    def units(self, methods: Sequence[str] | None, seeds: Sequence[int] | None) -> list[DeepUnit]:
        """Return the networks to train for some methods and seeds; None is all."""
        for method in methods or ():
            one_of("methods", method, self.heads)
        some = [m for m in self.heads if methods is None or m in methods]
        return [
            unit
            for unit in units(self.set, some, seeds or self.seeds, self.conditions, self.unscaled)
            if seeds or unit.seed < self.heads[unit.method].seeds
        ]

    @property
    def seeds(self) -> range:
        """All seeds, of the method with the most."""
        return range(max(method.seeds for method in self.heads.values()))

    def run(self, request: Request, screen: Screen) -> list[Table]:
        """Train the networks that are missing from the records, and return the tables."""
        units = self.units(request.methods, request.seeds)
        if not request.tables:
            where = request.torch_device()
            require(
                where.type == "cuda",
                "device",
                "be cuda for networks of this size",
                str(where),
                "With --tables nothing is trained: the records are there.",
            )
            torch.set_float32_matmul_precision("high")
            torch.backends.cudnn.benchmark = True
            places = searched(request.data)
            vision.run(units, request.results, places, where, screen.say, pretrained)
        return self.tables(Results(request.results), request.seeds, request.methods)

    def tables(
        self,
        results: Results,
        seeds: Sequence[int] | None = None,
        methods: Sequence[str] | None = None,
    ) -> list[Table]:
        """Return the tables, from records alone, with the rows of some methods or of all."""
        own = (r for r in results.records if r["fit"]["set"] == self.set)

        def wants(method: str) -> bool:
            stem = method.partition("-laplace")[0]
            return stem in self.heads and (methods is None or stem in methods)

        found = Found(self.set, own, seeds or self.seeds, self.conditions, self.unscaled)
        return self.build(found, results.folder, wants)

    def report(self, results: Results) -> Section:
        """Return its part of the report."""
        return Section(self.about, self.tables(results))


def pretrained(condition: str) -> Callable[[], nn.Module] | None:
    """Return the maker of the body that a condition starts from; None is a ResNet from scratch."""
    return None if condition == "scratch" else Lite


class Lite(nn.Module):
    """EfficientNet-Lite0 pretrained on ImageNet, pooled, for pictures 64 pixels wide."""

    features = 1280

    def __init__(self) -> None:
        super().__init__()
        self.network = lite0(64)
        self.scale = torch.full((3,), 127 / 255), torch.full((3,), 128 / 255)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.network.extract_features(x)
        return out.mean((-2, -1))


def cifar(found: Found, results: Path, wants: Wants) -> list[Table]:
    """Build the table of heads, with two temperatures and with networks averaged over seeds."""
    columns = {"NLL": "nll", "Accuracy": "accuracy", "ECE": "ece"}

    def line(method: str, suffix: str = "") -> Mapping[str, Values]:
        return {column: found.values(method, metric + suffix) for column, metric in columns.items()}

    every = {label: method for label, method in labels_of(LABELS).items() if wants(method)}
    own = {label: m for label, m in every.items() if m in LABELS}
    scaled = {label: m for label, m in own.items() if LABELS[m].tempered}
    blocks = [
        Block({label: line(method) for label, method in every.items()}),
        Block({f"{label} (T*)": line(m, "_oracle") for label, m in scaled.items()}, None),
        Block({f"{label} (T held out)": line(m, "_held") for label, m in scaled.items()}, None),
        Block(
            {
                f"{label} (ens.)": ensemble(results, method, found.seeds, columns)
                for label, method in own.items()
                if LABELS[method].averaged
            },
            None,
        ),
    ]
    title = (
        "CIFAR-10 with a ResNet-18 from scratch, mean and standard error over seeds; T* is the "
        "temperature with the best NLL on the test images themselves"
    )
    made = table(
        "appendix_cifar", title, tuple(columns), blocks, show_se=True, greatest=("Accuracy",)
    )
    heat = ({x: found.values(m, f"t_{k}") for x, m in scaled.items()} for k in ("oracle", "held"))
    return [
        made,
        *extra.temperatures(*heat),
        *extra.interpretations([*found.by_key.values(), *_readings(results, found.name)]),
        *extra.speed({label: found.chosen(method) for label, method in own.items()}),
        *_health("cifar", {x: (m, "scratch") for x, m in every.items()}, found),
    ]


def _readings(results: Path, name: str) -> list[Record]:
    """Records of a set under interpretations that were not kept."""
    return records.load(results / "readings" / f"{name}.jsonl").records


def _health(
    name: str,
    fits: Mapping[str, tuple[str, str]],
    found: Found,
) -> list[Table]:
    """Build the table of what `diagnose` says, for the heads that it can judge."""
    columns = {"Noise / variance": "noise_share", "Weight of hard rows": "hard_weight"}
    rows: dict[Label, Mapping[str, Values]] = {
        label: line
        for label, (method, condition) in fits.items()
        if any(
            (
                line := {
                    column: found.values(method, metric, condition)
                    for column, metric in columns.items()
                }
            ).values()
        )
    }
    title = (
        "diagnose() on training images, worst output: share of the noise in the variance, and mean "
        "1/V of the 10 % of rows with the largest residuals, relative to all rows"
    )
    made = table(f"diagnosis_{name}", title, tuple(columns), [Block(rows, None)], show_se=True)
    return [made] if rows else []


def ensemble(
    results: Path, method: str, seeds: Sequence[int], columns: Mapping[str, str]
) -> dict[str, Values]:
    """Return the metrics of the mean probabilities over seeds, by column of the table.

    Args:
        results: folder of the records.
        method: whose probabilities were kept.
        seeds: to average over.
        columns: metrics by heading.
    """
    files = [vision.kept_at(results, "cifar10", method, seed) for seed in seeds]
    read = [vision.recalled(file) for file in files if file.exists()]
    if len(read) < 2:
        return {}
    log_probs = torch.stack([log_p for log_p, _ in read])
    mixed = log_probs.log_softmax(-1).logsumexp(0).log_softmax(-1)
    found = vision.metrics(mixed, read[0][1].long())
    return {column: {seeds[0]: found[metric]} for column, metric in columns.items()}


def faces(found: Found, results: Path, wants: Wants) -> list[Table]:
    """Build the table of NLL and RMSE of each head, by how its body started."""
    named = {
        f"{TITLES[condition]} {metric.upper()}": (condition, metric)
        for condition in found.conditions
        for metric in ("nll", "rmse")
    }
    rows: dict[Label, Mapping[str, Values]] = {
        label: {
            column: found.values(method, metric, condition)
            for column, (condition, metric) in named.items()
        }
        for label, method in labels_of(NUMBERS).items()
        if wants(method)
    }
    name = "utkface_unscaled" if found.unscaled else "appendix_utkface_e2e"
    target = "centred but not scaled" if found.unscaled else "standardised"
    title = (
        "UTKFace, age in years, 64 pixels: ResNet-18 from scratch, EfficientNet-Lite0 otherwise; "
        f"target {target}"
    )
    fits = {
        f"{label}, {TITLES[condition]}": (method, condition)
        for condition in found.conditions
        for label, method in labels_of(NUMBERS).items()
        if wants(method)
    }
    made = table(name, title, tuple(named), [Block(rows)], show_se=True)
    return [made, *_health(name.removeprefix("appendix_"), fits, found)]


END_TO_END = {
    "cifar": EndToEnd(
        "CIFAR-10 with a ResNet-18 trained through each head",
        "cifar10",
        LABELS,
        {"scratch": CONDITIONS["scratch"]},
        cifar,
    ),
    "utkface-e2e": EndToEnd(
        "UTKFace with a deep body: from scratch, frozen, fine-tuned",
        "faces",
        NUMBERS,
        CONDITIONS,
        faces,
    ),
    "utkface-unscaled": EndToEnd(
        "UTKFace with the target in years: does beta repair a free variance?",
        "faces",
        {name: NUMBERS[name] for name in ("scroll-diag", "scroll-diag-beta", "scroll-none", "map")},
        IN_YEARS,
        faces,
        unscaled=True,
    ),
}
