"""Observation models of a head, by the kind of target."""

from .censored import CensoredLikelihood
from .labels import Binary, GaussReg, OneVersusAll, OrdinalLikelihood
from .likelihood import Likelihood, Replicates
from .numeric import AnyLikelihood, CountLikelihood, GaussianLikelihood

__all__ = [
    "AnyLikelihood",
    "Binary",
    "CensoredLikelihood",
    "CountLikelihood",
    "GaussReg",
    "GaussianLikelihood",
    "Likelihood",
    "OneVersusAll",
    "OrdinalLikelihood",
    "Replicates",
]
