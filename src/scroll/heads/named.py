"""The heads by name: each composes `Head` with the likelihood of its labels."""

from typing import Any

from torch import Tensor

from .._core.checks import LARGEST_COUNT, must, one_of, positive_int
from ..objectives.objective import Objective
from .head import Head
from .likelihoods import (
    Binary,
    CountLikelihood,
    GaussianLikelihood,
    GaussReg,
    Likelihood,
    OneVersusAll,
    OrdinalLikelihood,
    Replicates,
)


class RegressionHead(Head):
    """y ~ N(w . psi, noise^2), one noise an output. Further arguments: `Head`."""

    def __init__(
        self,
        in_features: int,
        out_features: int = 1,
        covariance: str = "auto",
        method: str | Objective = "scroll",
        beta: float = 0.0,
        *,
        noise: float = 1.0,
        replicates: Replicates = (),
        **head: Any,
    ):
        positive_int("out_features", out_features)
        super().__init__(
            in_features,
            GaussianLikelihood(out_features, noise, replicates),
            covariance=covariance,
            method=method,
            beta=beta,
            replicates=replicates,
            **head,
        )


class ClassificationHead(Head):
    """Classes 0..K-1. Further arguments: `Head`.

    Args:
        likelihood: "ova" (one probit a class, normalised), "gaussreg" (least squares on +-1
            targets) or, for two classes on one latent, "probit" or "logit".
        scale: c of the probit ("ova", "probit"), fixed; 1 by default.
        noise: where the noise of "gaussreg" starts; it is learned, so stop on held-out data.
    """

    def __init__(
        self,
        in_features: int,
        classes: int,
        likelihood: str = "ova",
        covariance: str = "auto",
        method: str | Objective = "scroll",
        beta: float = 0.0,
        *,
        scale: float | None = None,
        noise: float | None = None,
        replicates: Replicates = (),
        **head: Any,
    ):
        one_of("likelihood", likelihood, ("ova", "gaussreg", "probit", "logit"))
        must(
            scale is None or likelihood in ("ova", "probit"),
            "scale",
            f"be left out for likelihood {likelihood!r}, which has no probit to scale",
            scale,
        )
        must(
            noise is None or likelihood == "gaussreg",
            "noise",
            f"be left out for likelihood {likelihood!r}, which has none",
            noise,
        )
        scale, noise = (1.0 if given is None else given for given in (scale, noise))
        two = likelihood in ("probit", "logit")
        must(
            not two or classes == 2,
            "classes",
            f"be 2 for likelihood {likelihood!r}",
            classes,
            "Use 'ova' for more classes.",
        )
        if likelihood == "gaussreg":
            model: Likelihood = GaussReg(classes, noise, replicates)
        else:
            model = Binary(likelihood, scale) if two else OneVersusAll(classes, scale)
        super().__init__(
            in_features,
            model,
            covariance=covariance,
            method=method,
            beta=beta,
            replicates=replicates,
            **head,
        )


class OrdinalHead(Head):
    """Ordered levels 0..K-1. Further arguments: `Head`.

    Args:
        scale: c of the probit, fixed.
        thresholds: where the K-1 increasing thresholds start; they are learned, and stand in
            for a bias.
    """

    def __init__(
        self,
        in_features: int,
        levels: int,
        covariance: str = "auto",
        method: str | Objective = "scroll",
        *,
        scale: float = 1.0,
        thresholds: Tensor | None = None,
        replicates: Replicates = (),
        **head: Any,
    ):
        must(
            not head.pop("bias", False),
            "bias",
            "be left out for ordered levels",
            True,
            "Their thresholds stand in for one.",
        )
        super().__init__(
            in_features,
            OrdinalLikelihood(levels, scale, thresholds, replicates),
            covariance=covariance,
            method=method,
            bias=False,
            replicates=replicates,
            **head,
        )


class CountHead(Head):
    """y = 0, 1, 2, ..., rate exp(w . psi). Further arguments: `Head`.

    Args:
        likelihood: "poisson" or "negbinomial".
        concentration: where the negative binomial's concentration starts.
        largest: largest count in training, at most 1e12. The predictive mean stays below 10 times
            it, whatever the features are; larger counts are refused.
    """

    def __init__(
        self,
        in_features: int,
        likelihood: str = "poisson",
        covariance: str = "auto",
        method: str | Objective = "scroll",
        *,
        concentration: float = 1.0,
        largest: float = LARGEST_COUNT,
        replicates: Replicates = (),
        **head: Any,
    ):
        super().__init__(
            in_features,
            CountLikelihood(likelihood, concentration, replicates, largest),
            covariance=covariance,
            method=method,
            replicates=replicates,
            **head,
        )
