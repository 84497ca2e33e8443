"""The description of a model, as plain JSON: what must be known before tensors can fill it."""

from dataclasses import asdict, dataclass, field
from typing import Any

from torch import nn

from .._core.checks import LARGEST_COUNT, one_of, require
from ..fitting.candidates import Candidate, Lead, candidates
from ..fitting.out_of_fold import column_names
from ..fitting.plans import LABELS, paper
from ..heads.head import Head
from ..heads.likelihoods import CountLikelihood
from ..heads.named import (
    CensoredHead,
    ClassificationHead,
    CountHead,
    OrdinalHead,
    RegressionHead,
)
from ..predictive import Tail

COUNTS = CountLikelihood.kinds


@dataclass(frozen=True)
class Spec:
    """The description of a model, from which an empty one can be made.

    Attributes:
        likelihood: its name.
        covariance: family of the belief's covariance.
        beta: weight of hard rows in training.
        outputs: number of targets, classes or levels.
        recipe: "default", "fast", "best" or "paper".
        body: the estimator's parameter; "yours" for the user's module.
        layout: sizes of the encoder's buffers.
        parts: name of each body in the ensemble, and the routes of its members.
        weights: of the bodies in a mixture of labels; None if all members weigh the same.
        tried: held-out score of each body and route that was tried.
        power: of the probabilities of labels.
        lapse: share of rows with a random label.
        width: factor on the standard deviations of a real target.
        tail: fields of the `Tail` of a real target.
        target: fields of the `TargetMap` that a real target is trained in; None for none.
        judged: number of rows with out-of-fold scores.
        bias: whether heads have a bias.
        floor: of the belief's covariance.
        noise: initial standard deviation of the noise.
        largest: largest count in training, which bounds the predictive mean of counts.
        added: family of the covariance that a hybrid adds.
    """

    likelihood: str
    covariance: str
    beta: float
    outputs: int
    recipe: str
    body: str | list[int]
    layout: dict[str, int]
    parts: list[tuple[str, list[str]]] = field(default_factory=list)
    weights: list[float] | None = None
    tried: dict[str, float] = field(default_factory=dict)
    power: float = 1.0
    lapse: float = 0.0
    width: float = 1.0
    tail: dict[str, Any] = field(default_factory=lambda: asdict(Tail()))
    target: dict[str, Any] | None = None
    judged: int = 0
    bias: bool = True
    floor: float = 1e-6
    noise: float = 0.5
    largest: float = LARGEST_COUNT
    added: str = "diag"

    def head(self, features: int, lead: Lead) -> Head:
        """Return a head for the likelihood.

        Args:
            features: number of features.
            lead: replicate axes.
        """
        how: dict[str, Any] = {"covariance": self.covariance, "replicates": lead}
        how |= {"floor": self.floor, "beta": self.beta}
        if self.likelihood == "gaussian":
            how |= {"method": "scroll" if self.recipe == "paper" else "robust"}
            return RegressionHead(features, self.outputs, noise=self.noise, bias=self.bias, **how)
        if self.likelihood == "censored":
            return CensoredHead(features, noise=self.noise, **how)
        if self.likelihood in COUNTS:
            return CountHead(features, self.likelihood, largest=self.largest, **how)
        if self.likelihood == "ordinal":
            return OrdinalHead(features, self.outputs, **how)
        kind = "probit" if self.probit else self.likelihood
        return ClassificationHead(features, self.outputs, kind, **how)

    @property
    def latents(self) -> int:
        """Number of latents of the head."""
        single = self.likelihood in (*COUNTS, "ordinal", "censored") or self.probit
        return 1 if single else self.outputs

    @property
    def probit(self) -> bool:
        """True for two classes, which need only one latent."""
        return self.likelihood == "ova" and self.outputs == 2

    @property
    def oof_names(self) -> tuple[str, ...]:
        """Columns of the out-of-fold scores."""
        outputs = self.outputs if self.likelihood == "gaussian" else 1
        return column_names(self.likelihood, outputs)

    @property
    def inputs(self) -> tuple[int, int]:
        """Number of plain and of ranked columns that the encoder returns."""
        return self.layout["numbers"] + self.layout["marks"], self.layout["numbers"]

    @property
    def bodies(self) -> list[str]:
        """The body of each member."""
        return [body for body, routes in self.parts for _ in routes]

    @property
    def routes(self) -> list[str]:
        """The route of each member."""
        return [route for _, routes in self.parts for route in routes]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; `Spec(**json)` reads it."""
        return asdict(self) | {"parts": [[body, list(routes)] for body, routes in self.parts]}


def candidate(spec: Spec, name: str, body: nn.Module | None = None) -> Candidate:
    """Return one of the model's bodies.

    Args:
        spec: the description of the model.
        name: of the body.
        body: the module, if the body is the user's own.
    """
    require(
        name != "yours" or body is not None,
        "body",
        "be given again for a model whose body is your own module",
        None,
        "Use scroll.load(path, body=module): a file holds numbers, not code.",
    )
    plain, ranked = spec.inputs
    if spec.recipe == "paper":
        found = paper(plain).candidates
    else:
        given, labels = spec.body if body is None else body, spec.likelihood in LABELS
        found = candidates(given, plain, ranked, labels)
    known = {one.name: one for one in found}
    one_of("body", name, known)
    return known[name]


def declared(spec: Spec, body: nn.Module | None = None) -> tuple[dict[str, Lead], dict[str, int]]:
    """Return the sizes of a model without building it.

    Args:
        spec: the description of the model.
        body: the module, if the body is the user's own.

    Returns:
        The shapes of tensors that determine the sizes of all others, and for each part how many
        numbers its body holds.
    """
    numbers, marks, knots = (spec.layout[name] for name in ("numbers", "marks", "knots"))
    shapes: dict[str, Lead] = {"encoder.knots": (numbers, knots), "encoder.source": (marks,)}
    shapes["rates"] = (spec.outputs,)
    shapes["oof"] = (spec.judged, len(spec.oof_names))
    bodies = {}
    for i, (name, routes) in enumerate(spec.parts):
        found, members = candidate(spec, name, body), len(routes)
        h = found.features + 1
        shapes[f"parts.{i}.readout.scale"] = (members, spec.latents, h, h)
        bodies[f"parts.{i}.body."] = members * found.numbers
    return shapes, bodies
