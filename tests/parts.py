"""The lists of parts: a new covariance, factor, method or head is one line here."""

import numpy as np
import torch
from scipy import special

from scroll import (
    METHODS,
    CensoredHead,
    ClassificationHead,
    CountHead,
    Head,
    OrdinalHead,
    RegressionHead,
)
from scroll.beliefs.covariances import (
    Diag,
    Full,
    FullPlus,
    Isotropic,
    LowRank,
    Scaled,
    Spectral,
    Sum,
)
from scroll.factors import (
    BernoulliLogit,
    Bounded,
    CensoredGaussian,
    Gaussian,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Probit,
    ZeroInflated,
)
from scroll.heads.likelihoods import AnyLikelihood


def lower(*lead_h):
    *lead, h = lead_h
    return torch.randn(*lead, h, h).tril(-1) * 0.3 + (torch.rand(*lead, h) + 0.3).diag_embed()


def orthogonal(*lead_h):
    *lead, h = lead_h
    return torch.linalg.qr(torch.randn(*lead, h, h))[0]


# name -> a function of (*lead, H) that makes a random one
COVARIANCES = {
    "full": lambda *s: Full(lower(*s)),
    "full-plus": lambda *s: FullPlus(lower(*s), torch.rand(s[:-1]) + 0.1),
    "diag": lambda *s: Diag(torch.rand(s) + 0.1),
    "lowrank": lambda *s: LowRank(
        torch.rand(s) + 0.1, torch.randn(*s[:-1], 2, s[-1]), torch.rand(*s[:-1], 2) + 0.1
    ),
    "spectral": lambda *s: Spectral(orthogonal(*s), torch.rand(s) + 0.1),
    "isotropic": lambda *s: Isotropic(torch.rand(s[:-1]) + 0.1),
    "scaled": lambda *s: Scaled(Diag(torch.rand(s) + 0.1), torch.rand(s[:-1]) + 0.5),
    "sum": lambda *s: Sum(Full(lower(*s)), Diag(torch.rand(s) + 0.1)),
}

THRESHOLDS = (-1.3, 0.2, 0.9)


def _log_difference(low, high):
    """log(Phi(high) - Phi(low)) by scipy's log Phi, from the tail that holds both."""
    low, high = np.where(low + high > 0, (-high, -low), (low, high))
    upper = special.log_ndtr(high)
    return upper + np.log1p(-np.exp(special.log_ndtr(low) - upper))


def _ordinal(y, f):
    edges = (-np.inf, *THRESHOLDS, np.inf)
    return _log_difference((edges[int(y)] - f) / 1.1, (edges[int(y) + 1] - f) / 1.1)


def _normal(y, f, std):
    return -0.5 * ((y - f) / std) ** 2 - np.log(std * np.sqrt(2 * np.pi))


LOGIT = -0.9  # of 0.29


def _inflated(y, log_p):
    """log(pi 1[y = 0] + (1 - pi) p)."""
    pi = special.expit(LOGIT)
    rest = np.log1p(-pi) + log_p
    return np.logaddexp(np.log(pi), rest) if y == 0 else rest


def _censored(y, f):
    low, high = y
    if low == high:
        return _normal(low, f, 0.3)
    return _log_difference((low - f) / 0.3, (high - f) / 0.3)


def intervals(*shape):
    """Pairs (low, high) of a shape: exact, right-, left- and interval-censored in turn."""
    kind = torch.arange(int(np.prod(shape))).reshape(shape) % 4
    low, width = torch.randn(shape), torch.rand(shape) + 0.1
    high = torch.where(kind == 0, low, torch.where(kind == 1, torch.inf, low + width))
    return torch.stack([low.masked_fill(kind == 2, -torch.inf), high], -1)


def _logistic(y, f):
    """A user's own factor: logistic noise, log p = -r - 2 log(1 + exp(-r)), r = y - f."""
    return f - y - 2 * torch.nn.functional.softplus(f - y)


# name -> (a function of the leading shape, the same log p(y | f) of NumPy arrays by scipy, some y)
FACTORS = {
    "gaussian": (
        lambda s: Gaussian(torch.full(s, 0.3)),
        lambda y, f: _normal(y, f, 0.3),
        (-1.0, 2.0),
    ),
    "censored": (
        lambda s: CensoredGaussian(torch.full(s, 0.3)),
        _censored,
        ((1.5, 1.5), (-1.0, np.inf), (-np.inf, 2.0), (-0.5, 1.0)),
    ),
    "probit": (
        lambda s: Probit(torch.full(s, 1.005)),
        lambda y, f: special.log_ndtr(y * f / 1.005),
        (-1.0, 1.0),
    ),
    "ordinal": (
        lambda s: Ordinal(torch.tensor(THRESHOLDS).expand(*s, 3), torch.full(s, 1.1)),
        _ordinal,
        (0.0, 1.0, 3.0),
    ),
    "logit": (
        lambda s: BernoulliLogit(),
        lambda y, f: -np.logaddexp(0, -y * f),
        (-1.0, 1.0),
    ),
    "poisson": (
        lambda s: Poisson(),
        lambda y, f: y * f - np.exp(f) - special.gammaln(y + 1),
        (0.0, 3.0, 40.0),
    ),
    "negbinomial": (
        lambda s: NegativeBinomial(torch.full(s, 2.5)),
        lambda y, f: (
            special.gammaln(y + 2.5)
            - special.gammaln(2.5)
            - special.gammaln(y + 1)
            + 2.5 * np.log(2.5)
            + y * f
            - (y + 2.5) * np.logaddexp(np.log(2.5), f)
        ),
        (0.0, 3.0, 40.0),
    ),
    "zip": (
        lambda s: ZeroInflated(Poisson(), torch.full(s, LOGIT)),
        lambda y, f: _inflated(y, FACTORS["poisson"][1](y, f)),
        (0.0, 3.0, 40.0),
    ),
    "zinb": (
        lambda s: ZeroInflated(NegativeBinomial(torch.full(s, 2.5)), torch.full(s, LOGIT)),
        lambda y, f: _inflated(y, FACTORS["negbinomial"][1](y, f)),
        (0.0, 3.0, 40.0),
    ),
    "bounded": (
        lambda s: Bounded(_logistic),
        lambda y, f: f - y - 2 * np.logaddexp(0, f - y),
        (-1.0, 2.0),
    ),
}

CONJUGATE = [key for key, row in METHODS.items() if not row.batches]
FREE = [key for key, row in METHODS.items() if not row.bound]
IN_BATCHES = [key for key, row in METHODS.items() if row.bound and row.batches]
NEWTON = [key for key in METHODS if key.startswith("laplace-")]  # they search a mode


def make_head(key, features=4, **kwargs):
    """A regression head of the row `key`."""
    method, _, covariance = key.rpartition("-")
    return RegressionHead(features, covariance=covariance, method=method, **kwargs)


# name -> (a function of (H, **kwargs) that makes the head, one that makes labels of a shape)
HEADS = {
    "regression": (RegressionHead, torch.randn),
    "regression-3": (
        lambda h, **k: RegressionHead(h, 3, **k),
        lambda *s: torch.randn(*s, 3),
    ),
    "censored": (CensoredHead, intervals),
    "ova": (lambda h, **k: ClassificationHead(h, 3, **k), lambda *s: torch.randint(3, s)),
    "gaussreg": (
        lambda h, **k: ClassificationHead(h, 3, "gaussreg", **k),
        lambda *s: torch.randint(3, s),
    ),
    "probit": (
        lambda h, **k: ClassificationHead(h, 2, "probit", **k),
        lambda *s: torch.randint(2, s),
    ),
    "logit": (
        lambda h, **k: ClassificationHead(h, 2, "logit", **k),
        lambda *s: torch.randint(2, s),
    ),
    "ordinal": (lambda h, **k: OrdinalHead(h, 4, **k), lambda *s: torch.randint(4, s)),
    "poisson": (lambda h, **k: CountHead(h, **k), lambda *s: torch.randint(6, s)),
    "negbinomial": (
        lambda h, **k: CountHead(h, "negbinomial", **k),
        lambda *s: torch.randint(6, s),
    ),
    "zip": (lambda h, **k: CountHead(h, "zip", **k), lambda *s: torch.randint(6, s)),
    "zinb": (lambda h, **k: CountHead(h, "zinb", **k), lambda *s: torch.randint(6, s)),
    "any": (
        lambda h, **k: Head(h, AnyLikelihood(Bounded(_logistic)), **k),
        torch.randn,
    ),
}
SEARCHES_A_MODE = {"logit", "poisson", "negbinomial", "zip", "zinb", "any"}
