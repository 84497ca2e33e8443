"""References that share no code with the package: scipy, scikit-learn, gpytorch."""

import warnings
from itertools import pairwise

import numpy as np
from scipy import integrate, optimize, stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct


@np.errstate(over="ignore", divide="ignore")
def log_z(log_prob, mean, var):
    """log of the integral of exp(log_prob(f)) N(f; mean, var), adaptively around the mode.

    Worked out in z = (f - mean)/std, split at the mode and where the integrand has fallen by
    exp(-80) on either side.
    """
    std = np.sqrt(var)

    def log_g(z):
        return log_prob(mean + std * z) - z**2 / 2

    far = 1.0
    while max(log_g(-far), log_g(far)) > log_g(0) - 100 and far < 1e8:
        far *= 2
    # a tilt can carry the mode far out: widen until both ends are below everything between
    while True:
        grid = np.linspace(-far, far, 4001)
        values = log_g(grid)
        top = int(values.argmax())
        if 0 < top < 4000:
            break
        far *= 4
    mode = optimize.minimize_scalar(
        lambda z: -log_g(z),
        bounds=(grid[top - 1], grid[top + 1]),
        method="bounded",
        options={"xatol": 1e-12},
    ).x
    peak = log_g(mode)

    def reach(sign):
        step = 1e-9
        while log_g(mode + sign * step) > peak - 80:
            step *= 1.5
        return mode + sign * step

    total = 0.0
    cuts = np.concatenate([np.linspace(reach(-1), mode, 33), np.linspace(mode, reach(1), 33)[1:]])
    with warnings.catch_warnings():
        # where log g is of order 1e8, its own rounding is what quad complains about
        warnings.simplefilter("ignore", integrate.IntegrationWarning)
        for a, b in pairwise(cuts):
            total += integrate.quad(
                lambda z: np.exp(log_g(z) - peak), a, b, epsabs=1e-16, epsrel=1e-11, limit=200
            )[0]
    return peak + np.log(total) - 0.5 * np.log(2 * np.pi)


def expectation(g, mean, var):
    """E[g(f)], f ~ N(mean, var), adaptively."""
    std = np.sqrt(var)
    cuts = np.linspace(-14, 14, 57)
    density = lambda z: np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    scale = (np.abs(g(mean + std * cuts)) * density(cuts)).max()
    total = 0.0
    with warnings.catch_warnings():
        # segments that carry nothing are all rounding
        warnings.simplefilter("ignore", integrate.IntegrationWarning)
        for a, b in pairwise(cuts):
            total += integrate.quad(
                lambda z: g(mean + std * z) * density(z) / scale,
                a,
                b,
                epsabs=1e-14,
                epsrel=1e-11,
            )[0]
    return scale * total


def linear_gp(psi, y, alpha, noise):
    """A Gaussian process whose functions are w . psi, w ~ N(0, I/alpha)."""
    kernel = ConstantKernel(1 / alpha, "fixed") * DotProduct(0.0, "fixed")
    return GaussianProcessRegressor(kernel, alpha=noise**2, optimizer=None).fit(psi, y)


def normal_log_density(y, mean, var):
    return stats.norm.logpdf(y, mean, np.sqrt(var))
