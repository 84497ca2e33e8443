"""A fitted model: from a table's codes to a predictive, without the estimator around it.

`Spec` is all of it that is not a number in a tensor, as plain JSON; `Model` holds the tensors.
A spec and a state are a file.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from .._core.checks import LARGEST_COUNT, must, one_of
from .._core.local_rng import Draws
from ..beliefs.covariances import Spread, from_state, state
from ..factors.factor import Moments
from ..fitting.plans import LABELS, Candidate, Lead, candidates, paper
from ..fitting.stacks import CHUNK, Members
from ..heads.head import Head
from ..heads.named import ClassificationHead, CountHead, OrdinalHead, RegressionHead
from ..posterior.data import has_intercept
from ..posterior.hybrid import Added, blank_added
from ..posterior.posterior import Posterior, bind
from ..posterior.statistics import Statistics
from ..predictive.mixture import mix
from ..tables.encoder import Encoder
from .readout import Readout

COUNTS = ("poisson", "negbinomial")
STATISTICS = ("gram", "cross", "square", "count")


@dataclass(frozen=True)
class Spec:
    """What is to be made before tensors can fill it."""

    likelihood: str
    covariance: str
    beta: float
    outputs: int  # targets, classes or levels
    recipe: str
    body: str | list[int]  # of the candidates that the estimator was given
    layout: dict[str, int]  # of the encoder
    parts: list[tuple[str, list[str]]] = field(default_factory=list)  # body, routes of its members
    tried: dict[str, float] = field(default_factory=dict)
    power: float = 1.0  # of the probabilities of labels
    lapse: float = 0.0  # share of rows with any label
    bias: bool = True
    floor: float = 1e-6
    noise: float = 0.5
    largest: float = LARGEST_COUNT  # count in training, which bounds the predictive mean of counts
    added: str = "diag"  # family of the covariance that a hybrid adds

    def head(self, features: int, lead: Lead) -> Head:
        """A head for the likelihood."""
        how: dict[str, Any] = {"covariance": self.covariance, "replicates": lead}
        how |= {"floor": self.floor, "beta": self.beta}
        if self.likelihood == "gaussian":
            return RegressionHead(features, self.outputs, noise=self.noise, bias=self.bias, **how)
        if self.likelihood in COUNTS:
            return CountHead(features, self.likelihood, largest=self.largest, **how)
        if self.likelihood == "ordinal":
            return OrdinalHead(features, self.outputs, **how)
        kind = "probit" if self.probit else self.likelihood
        return ClassificationHead(features, self.outputs, kind, **how)

    @property
    def latents(self) -> int:
        """How many outputs the head has."""
        single = self.likelihood in (*COUNTS, "ordinal") or self.probit
        return 1 if single else self.outputs

    @property
    def probit(self) -> bool:
        """True for two classes, which need one latent only: one probit against the other."""
        return self.likelihood == "ova" and self.outputs == 2

    @property
    def inputs(self) -> tuple[int, int]:
        """Plain and ranked columns that the encoder gives."""
        return self.layout["numbers"] + self.layout["marks"], self.layout["numbers"]

    @property
    def bodies(self) -> list[str]:
        """Of each member."""
        return [body for body, routes in self.parts for _ in routes]

    @property
    def routes(self) -> list[str]:
        """Of each member."""
        return [route for _, routes in self.parts for route in routes]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; `Spec(**json)` reads it."""
        return asdict(self) | {"parts": [[body, list(routes)] for body, routes in self.parts]}


class Part(nn.Module):
    """The members of one body: a stack, its readout, and what its posterior knows of the data."""

    width: Tensor

    def __init__(self, spec: Spec, found: Candidate, routes: list[str]):
        super().__init__()
        members, self.routes = len(routes), routes
        with Draws(0):  # initial values only, which `put` or a file's state replaces
            self.body = found.make((members,)).float()
            self.head = spec.head(found.features, (members,)).float()
        likelihood: Any = self.head.likelihood
        latents = likelihood.latents
        self.readout = Readout(likelihood, members, latents, found.features)
        h = found.features + int(has_intercept(self.head))
        shapes = {
            "gram": (members, h, h),
            "cross": (members, latents, h),
            "square": (members, latents),
            "count": (),
            "alpha": (members, latents),
            "noise": (members, latents),
            "added_noise": (members, latents),
        }
        self.kinds, blank = state(blank_added(spec.added, (members, latents, h)))
        self.added_names = {name: f"added_{name.replace('.', '_')}" for name in blank}
        shapes |= {self.added_names[name]: tensor.shape for name, tensor in blank.items()}
        for name, shape in shapes.items():
            self.register_buffer(f"kept_{name}", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("width", torch.ones((), dtype=torch.float64))
        self._bound: Posterior | None = None

    @torch.no_grad()
    def put(self, members: Members) -> None:
        """Take over what was trained."""
        self.body.load_state_dict(members.network.body.state_dict())
        self.head.load_state_dict(members.network.head.state_dict())
        self.width.fill_(members.width)
        self.hold(members.bound)

    @torch.no_grad()
    def hold(self, bound: Posterior) -> None:
        """Keep a posterior, and predict with it where a member's route says so."""
        kept = {name: getattr(bound.statistics, name) for name in STATISTICS}
        kept |= {"alpha": bound.alpha, "noise": bound.noise}
        if bound.added is not None:
            kinds, tensors = state(bound.added.cov)
            must(kinds == self.kinds, "added", f"be {self.kinds}, as the model declares", kinds)
            kept |= {self.added_names[name]: tensor for name, tensor in tensors.items()}
            kept["added_noise"] = bound.added.noise
        for name, tensor in kept.items():
            self.get_buffer(f"kept_{name}").copy_(tensor)
        self._bound = None
        self.readout.put(self.head, self.bound, self.routes)
        self.readout.widen(self.width)

    @property
    def bound(self) -> Posterior:
        """The posterior over the last layer, from its sums."""
        if self._bound is None:
            self._bound = bind(
                self.head,
                Statistics(*(self._kept(name) for name in STATISTICS)),
                (self._kept("alpha"), self._kept("noise")),
                self._added() if "hybrid" in self.routes else None,
            )
        return self._bound

    def _added(self) -> Added:
        tensors = {name: self._kept(kept) for name, kept in self.added_names.items()}
        return Added(cast("Spread", from_state(self.kinds, tensors)), self._kept("added_noise"))

    def _kept(self, name: str) -> Tensor:
        return self.get_buffer(f"kept_{name}").clone()

    def features(self, x: Tensor) -> Tensor:
        """psi of each member, (M, N, H), of encoded rows (N, D)."""
        out: Tensor = self.body(x.expand(len(self.routes), *x.shape))
        return out


class Model(nn.Module):
    """Encoder and members, to the predictive of their exact mixture.

    Args:
        spec: what it is.
        body: the module, if the body is the user's own.
    """

    shift: Tensor
    scale: Tensor
    rates: Tensor  # of the labels

    def __init__(self, spec: Spec, body: nn.Module | None = None):
        super().__init__()
        self.spec = spec
        self.encoder = Encoder.from_layout(spec.layout)
        self.parts = nn.ModuleList(
            Part(spec, candidate(spec, name, body), routes) for name, routes in spec.parts
        )
        shape = (spec.outputs,) if spec.likelihood == "gaussian" and spec.outputs > 1 else ()
        self.register_buffer("shift", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("rates", torch.full((spec.outputs,), 1.0, dtype=torch.float64))

    @property
    def each(self) -> list[Part]:
        """The parts, by their type."""
        return [part for part in self.parts if isinstance(part, Part)]

    @torch.no_grad()
    def put(self, found: list[Members]) -> "Model":
        """Take over what was trained."""
        for part, members in zip(self.each, found, strict=True):
            part.put(members)
        return self.eval()

    def forward(self, codes: Tensor) -> Any:
        """Mean and standard deviation of each row of codes (N, D), or class probabilities (N, K).

        In the target's own units, as plain tensors: this is what `torch.export` takes.
        """
        return self.dist(codes).as_tensors()

    def dist(self, codes: Tensor) -> Any:
        """`predictive` in one piece and with gradients, which a graph needs."""
        return self._blended([self._moments(codes)])

    @torch.no_grad()
    def predictive(self, codes: Tensor) -> Any:
        """The predictive of each row of codes (N, D), in the target's own units."""
        return self._blended([self._moments(some) for some in codes.split(CHUNK)])

    def _moments(self, codes: Tensor) -> list[Moments]:
        """q(f) of the members of each part."""
        x = self.encoder(codes)
        return [part.readout.message(part.features(x)) for part in self.each]

    def _blended(self, chunks: list[list[Moments]]) -> Any:
        found = []
        for part, some in zip(self.each, zip(*chunks, strict=True), strict=True):
            mean = torch.cat([m.mean for m in some], -1)
            var = torch.cat([m.var for m in some], -1)
            found.append(part.readout.predict(Moments(mean, var)))
        p: Any = mix(found, self.shift, self.scale)
        if not self.spec.lapse:
            return p
        return p.recalibrated(self.spec.power, self.spec.lapse, self.rates)

    @torch.no_grad()
    def over(self, name: str, codes: Tensor) -> Tensor:
        """Mean over the members of what the posterior says: "ood_score" or "epistemic"."""
        chunks = []
        for some in codes.split(CHUNK):
            x = self.encoder(some)
            each = [getattr(part.bound, name)(part.features(x)) for part in self.each]
            chunks.append(torch.cat(each).double().mean(0))
        return torch.cat(chunks)

    def update(self, codes: Tensor, y: Tensor) -> None:
        """Let the posteriors see more rows, targets in units of `shift` and `scale`."""
        x = self.encoder(codes)
        for part in self.each:
            psi = part.features(x).detach()
            part.hold(part.bound.update(psi, y.expand(len(psi), *y.shape)))


def candidate(spec: Spec, name: str, body: nn.Module | None = None) -> Candidate:
    """Return the body of that name."""
    must(
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
        found = candidates(given, plain, ranked, labels, linear=True)
    known = {one.name: one for one in found}
    one_of("body", name, known)
    return known[name]


def declared(spec: Spec, body: nn.Module | None = None) -> tuple[dict[str, Lead], dict[str, int]]:
    """Return the sizes of a model that is not built yet, small as it is.

    First the shapes of tensors that the sizes of all others follow from; then, for each part, how
    many numbers its body holds.
    """
    numbers, marks, knots = (spec.layout[name] for name in ("numbers", "marks", "knots"))
    shapes: dict[str, Lead] = {"encoder.knots": (numbers, knots), "encoder.source": (marks,)}
    shapes["rates"] = (spec.outputs,)
    bodies = {}
    for i, (name, routes) in enumerate(spec.parts):
        found, members = candidate(spec, name, body), len(routes)
        h = found.features + 1
        shapes[f"parts.{i}.readout.scale"] = (members, spec.latents, h, h)
        bodies[f"parts.{i}.body."] = members * found.numbers
    return shapes, bodies
