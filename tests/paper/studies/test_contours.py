"""App. classification_details: the band between two moons, and why it widens or does not."""

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from scroll.heads import ClassificationHead
from scroll.predictive import Categorical
from scroll.training.bodies import MLP
from scroll.training.network import Network
from scroll_paper.studies import contours
from scroll_paper.studies.moons import CENTRE, POINT, maker, moons


def along(slope, growth=0.0):
    """P(class 1) = Phi(slope x_1 / sqrt(1 + growth |x|^2)), x from the centre."""

    def predict(x: Tensor) -> Categorical:
        x = x - torch.tensor(CENTRE)
        z = slope * x[..., 0] / (1 + growth * x.square().sum(-1)).sqrt()
        return Categorical(torch.special.log_ndtr(torch.stack([-z, z], -1)))

    return predict


@pytest.mark.parametrize("radius", contours.RADII)
@pytest.mark.parametrize("growth", [0.0, 0.5])
def test_the_arc_is_that_of_a_straight_band(radius, growth):
    """|x_1| < z sqrt(1 + growth r^2) / slope holds on four arcs of asin(...) each."""
    half = stats.norm.ppf(0.9) * math.sqrt(1 + growth * radius**2) / 3.0
    expected = 4 * radius * math.asin(min(half / radius, 1))
    found = contours.arc(along(3.0, growth), radius, 2)
    assert found.shape == (2,)
    step = 2 * math.pi * radius / contours.ANGLES
    assert (found - expected).abs().max() < 4 * step + 1e-9


def test_everything_and_nothing_can_be_uncertain():
    assert contours.arc(along(1e9), 6.0, 1) < 0.01
    torch.testing.assert_close(contours.arc(along(0.0), 6.0, 1), torch.tensor([12 * math.pi]))


def test_circles_are_about_the_centre():
    x = contours.circle(6.0, 100, 3) - torch.tensor(CENTRE)
    assert x.shape == (3, 100, 2)
    torch.testing.assert_close(x.norm(dim=-1), torch.full((3, 100), 6.0))


def test_moments_standardise_each_data_set():
    rows = moons(0, [0, 1])
    mean, std = contours.moments(rows)
    x = (rows.x - mean) / std
    torch.testing.assert_close(x.mean(1), torch.zeros(2, 2))
    torch.testing.assert_close(x.square().mean(1), torch.ones(2, 2))


def network(covariance):
    recipe = contours.NETWORKS["ReLU without biases"]
    made = maker(recipe.body, covariance, bias=recipe.bias)(())
    assert isinstance(made.body, MLP)
    assert isinstance(made.head, ClassificationHead)
    assert made.head.bias is None
    return made


def latent(made: Network, x: Tensor):
    return made.head.message(made.body(x))


def test_features_without_biases_grow_in_proportion_to_the_distance():
    x = torch.randn(20, 2)
    for covariance in ("none", "full"):
        made = network(covariance)
        near, far = (latent(made, c * x) for c in (1.0, 50.0))
        torch.testing.assert_close(far.mean, 50 * near.mean, rtol=1e-9, atol=0)
        torch.testing.assert_close(far.var, 2500 * near.var, rtol=1e-9, atol=0)


def test_so_a_point_mass_keeps_the_width_and_a_covariance_the_angle_of_the_band():
    """P = Phi(r m / sqrt(1 + r^2 v)): the band is |m| < z / r, or in the limit |m| < z sqrt(v)."""
    angle = torch.linspace(0, 2 * math.pi, 20_001)[:-1]
    x = torch.stack([angle.cos(), angle.sin()], -1)
    z = stats.norm.ppf(0.9)
    for covariance in ("none", "full"):
        made = network(covariance)
        unit = latent(made, x)
        for r in (10.0, 1000.0):
            inside = (made(r * x).probs[:, 1] - 0.5).abs() < 0.4
            bound = z * (1 / r**2 + unit.var).sqrt()
            assert ((unit.mean.abs() < bound)[0] == inside).all()


def test_a_head_takes_the_bias_it_is_given():
    for bias in (True, False):
        made = maker(lambda lead: MLP(2, 5, 1, "relu", lead), *POINT, bias=bias)((3,))
        assert (made.head.bias is not None) == bias
        assert made.head.mean.shape == (3, 1, 5)
