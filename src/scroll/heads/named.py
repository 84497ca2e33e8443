"""The heads by name: each composes `Head` with the likelihood of its targets."""

from typing import TypedDict

from torch import Tensor
from typing_extensions import Unpack

from .._core.checks import LARGEST_COUNT, one_of, positive_int, require
from ..objectives.objective import Objective
from .head import Head
from .likelihoods import (
    Binary,
    CensoredLikelihood,
    CountLikelihood,
    GaussianLikelihood,
    GaussReg,
    Likelihood,
    OneVersusAll,
    OrdinalLikelihood,
    Replicates,
)


class Options(TypedDict, total=False):
    """Further arguments of every head: see `Head`."""

    alpha: float
    prior_weight: float
    floor: float
    rank: int
    init_std: float
    bias: bool


class RegressionHead(Head):
    """y ~ N(w . psi, noise^2), a separate noise level per output.

    Args:
        in_features: number of features H.
        out_features: number of outputs K.
        covariance: family of S, or "auto".
        method: a method of `scroll.METHODS`, or an `Objective`.
        beta: exponent of the weights V^beta; 0.5 for deep bodies.
        noise: standard deviation of the noise at the start; it is learned.
        replicates: leading axes of independent copies.
        options: further arguments of `Head`.
    """

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
        **options: Unpack[Options],
    ):
        positive_int("out_features", out_features)
        super().__init__(
            in_features,
            GaussianLikelihood(out_features, noise, replicates),
            covariance=covariance,
            method=method,
            beta=beta,
            replicates=replicates,
            **options,
        )


class CensoredHead(Head):
    """t ~ N(w . psi, noise^2), known exactly or only to lie between low and high.

    Targets are pairs (low, high), (..., N, 2): low = high if exact, high = inf if right-censored,
    low = -inf if left-censored. Targets (..., N) are exact.

    Args:
        in_features: number of features H.
        covariance: family of S, or "auto".
        method: a method of `scroll.METHODS` that takes every likelihood, or an `Objective`.
        noise: standard deviation of the noise at the start; it is learned.
        replicates: leading axes of independent copies.
        options: further arguments of `Head`.
    """

    def __init__(
        self,
        in_features: int,
        covariance: str = "auto",
        method: str | Objective = "scroll",
        *,
        noise: float = 1.0,
        replicates: Replicates = (),
        **options: Unpack[Options],
    ):
        super().__init__(
            in_features,
            CensoredLikelihood(noise, replicates),
            covariance=covariance,
            method=method,
            replicates=replicates,
            **options,
        )


class ClassificationHead(Head):
    """Classes 0..K-1.

    Args:
        in_features: number of features H.
        classes: number of classes K.
        likelihood: "ova" (one probit per class, normalised), "gaussreg" (least squares on +-1
            targets) or, for two classes on one latent, "probit" or "logit".
        covariance: family of S, or "auto".
        method: a method of `scroll.METHODS`, or an `Objective`.
        beta: exponent of the weights V^beta ("gaussreg" only).
        scale: c of the probit ("ova", "probit"), fixed; 1 by default.
        noise: noise of "gaussreg" at the start; it is learned, so stop on held-out data.
        replicates: leading axes of independent copies.
        options: further arguments of `Head`.
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
        **options: Unpack[Options],
    ):
        super().__init__(
            in_features,
            _of_classes(classes, likelihood, scale, noise, replicates),
            covariance=covariance,
            method=method,
            beta=beta,
            replicates=replicates,
            **options,
        )


def _of_classes(
    classes: int, kind: str, scale: float | None, noise: float | None, replicates: Replicates
) -> Likelihood:
    """Return the likelihood of a `ClassificationHead`."""
    one_of("likelihood", kind, ("ova", "gaussreg", "probit", "logit"))
    require(
        scale is None or kind in ("ova", "probit"),
        "scale",
        f"be left out for likelihood {kind!r}, which has no probit to scale",
        scale,
    )
    require(
        noise is None or kind == "gaussreg",
        "noise",
        f"be left out for likelihood {kind!r}, which has none",
        noise,
    )
    require(
        kind not in ("probit", "logit") or classes == 2,
        "classes",
        f"be 2 for likelihood {kind!r}",
        classes,
        "Use 'ova' for more classes.",
    )
    scale, noise = (1.0 if given is None else given for given in (scale, noise))
    if kind == "gaussreg":
        return GaussReg(classes, noise, replicates)
    return OneVersusAll(classes, scale) if kind == "ova" else Binary(kind, scale)


class OrdinalHead(Head):
    """Ordered levels 0..K-1.

    Args:
        in_features: number of features H.
        levels: number of levels K.
        covariance: family of S, or "auto".
        method: a method of `scroll.METHODS`, or an `Objective`.
        scale: c of the probit, fixed.
        thresholds: the K-1 increasing thresholds at the start; they are learned, and replace a
            bias.
        replicates: leading axes of independent copies.
        options: further arguments of `Head`, except `bias`.
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
        **options: Unpack[Options],
    ):
        remedy = "Their thresholds replace it."
        require(not options.get("bias"), "bias", "be left out for ordered levels", True, remedy)
        options["bias"] = False
        super().__init__(
            in_features,
            OrdinalLikelihood(levels, scale, thresholds, replicates),
            covariance=covariance,
            method=method,
            replicates=replicates,
            **options,
        )


class CountHead(Head):
    """y = 0, 1, 2, ..., rate exp(w . psi).

    Args:
        in_features: number of features H.
        likelihood: "poisson" or "negbinomial"; "zip" or "zinb" for the same with zero inflation,
            where y = 0 with a learned probability and is such a count otherwise.
        covariance: family of S, or "auto".
        method: a method of `scroll.METHODS`, or an `Objective`.
        concentration: concentration of the negative binomial at the start; it is learned.
        largest: largest count in training, at most 1e12. The predictive mean stays below 10 times
            it for any features; larger counts are refused.
        inflation: probability of an extra zero at the start ("zip", "zinb"); it is learned. 0.1 by
            default.
        replicates: leading axes of independent copies.
        options: further arguments of `Head`.
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
        inflation: float | None = None,
        replicates: Replicates = (),
        **options: Unpack[Options],
    ):
        super().__init__(
            in_features,
            CountLikelihood(likelihood, concentration, replicates, largest, inflation),
            covariance=covariance,
            method=method,
            replicates=replicates,
            **options,
        )
