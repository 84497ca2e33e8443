"""Observation models of a head, by the kind of target."""

from .labels import Binary, GaussReg, OneVersusAll, OrdinalLikelihood
from .likelihood import Likelihood, Replicates
from .numeric import AnyLikelihood, CountLikelihood, GaussianLikelihood

__all__ = [
    "AnyLikelihood",
    "Binary",
    "CountLikelihood",
    "GaussReg",
    "GaussianLikelihood",
    "Likelihood",
    "OneVersusAll",
    "OrdinalLikelihood",
    "Replicates",
]
